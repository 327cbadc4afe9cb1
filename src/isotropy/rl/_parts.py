"""What the entries of an observation or an action are, so that their signs need not be written.

A description is a list of parts in the order of the entries. Every part says what it is in space:
a scalar, a hinge with its axis, a vector, an orientation. How a mirror or a turn changes it
follows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import Literal, TypeAlias

Axis: TypeAlias = Literal["x", "y", "z", "-x", "-y", "-z"] | tuple[float, float, float]
Frame: TypeAlias = Literal["world", "body"]
Kind: TypeAlias = Literal["scalar", "hinge", "direction", "vector", "axial", "quaternion", "choice"]

_UNITS = {"x": (1.0, 0.0, 0.0), "y": (0.0, 1.0, 0.0), "z": (0.0, 0.0, 1.0)}


@dataclass(frozen=True)
class Part:
    """Some entries of an observation or an action: one thing in space.

    Made by ``scalar``, ``hinge``, ``direction``, ``slide``, ``vector``, ``axial``,
    ``quaternion`` and ``choice``.

    Args:
        kind: What it is.
        name: What it is called. Things that a symmetry exchanges have names that differ in a
            word, such as "left knee" and "right knee".
        axes: Of a vector the axes of its entries, of a hinge its own.
        frame: Whether they are those of the world or of the body.
        at: The places of its entries, where they are not the next free ones.
    """

    kind: Kind
    name: str
    axes: tuple[tuple[float, float, float], ...] = ()
    frame: Frame = "world"
    at: tuple[int, ...] | None = None

    @property
    def size(self) -> int:
        """The number of its entries."""
        if self.kind == "quaternion":
            return 4
        if self.kind == "direction":
            return 2
        return len(self.axes) if self.kind in ("vector", "axial") else 1

    @property
    def entry_names(self) -> tuple[str, ...]:
        """A name for each entry."""
        if self.size == 1:
            return (self.name,)
        if self.kind == "direction":
            return (f"cos {self.name}", f"sin {self.name}")
        letters = "wxyz" if self.kind == "quaternion" else [_letter(axis) for axis in self.axes]
        return tuple(f"{self.name} {letter}" for letter in letters)

    def placed(self, *at: int) -> Part:
        """The same at other places than the next free ones.

        Example:
            >>> direction("elbow", "z").placed(1, 3).at
            (1, 3)

        Raises:
            ValueError: If these are not as many different places as it has entries.
        """
        if len(at) != self.size or len(set(at)) != self.size or min(at) < 0:
            raise ValueError(
                f"expected {self.size} different places for {self.name!r}, got {list(at)}"
            )
        return replace(self, at=at)


def scalar(name: str) -> Part:
    """What no symmetry changes: a height, a mass, a time.

    Example:
        >>> scalar("height").size
        1
    """
    return Part("scalar", _checked(name))


def hinge(name: str, axis: Axis) -> Part:
    """An angle about an axis of the body, an angular velocity or a torque about it.

    Args:
        name: Its name, such as "left knee".
        axis: "x", "y", "z", one of these with a minus sign, or three numbers: the axis of the
            joint in the frame of the body at rest.

    Example:
        >>> hinge("left hip", "-x").axes
        ((-1.0, 0.0, 0.0),)
    """
    return Part("hinge", _checked(name), (_axis(axis),), "body")


def direction(name: str, axis: Axis) -> Part:
    """Cosine and sine of an angle about an axis of the body, in this order.

    Example:
        >>> direction("pole", "y").entry_names
        ('cos pole', 'sin pole')
    """
    return Part("direction", _checked(name), (_axis(axis),), "body")


def slide(name: str, axis: Axis, *, frame: Frame = "world") -> Part:
    """A position, a velocity or a force along one axis.

    Example:
        >>> slide("cart position", "x").size
        1
    """
    return Part("vector", _checked(name), (_axis(axis),), _frame(frame))


def vector(name: str, axes: str | Sequence[Axis] = "xyz", *, frame: Frame = "world") -> Part:
    """A position, a velocity or a force in space.

    Args:
        name: Its name.
        axes: The axes of its entries, "xyz" or fewer.
        frame: Whether they are those of the world or of the body.

    Example:
        >>> vector("velocity", "xz").entry_names
        ('velocity x', 'velocity z')
    """
    return Part("vector", _checked(name), tuple(map(_axis, axes)), _frame(frame))


def axial(name: str, axes: str | Sequence[Axis] = "xyz", *, frame: Frame = "body") -> Part:
    """An angular velocity, an angular momentum or a torque: what mirrors turn the other way round.

    Args:
        name: Its name.
        axes: The axes of its entries, "xyz" or fewer.
        frame: Whether they are those of the world or of the body; MuJoCo gives angular velocities
            of free bodies in the body's.

    Example:
        >>> axial("angular velocity").size
        3
    """
    return Part("axial", _checked(name), tuple(map(_axis, axes)), _frame(frame))


def quaternion(name: str) -> Part:
    """The orientation of a body as (w, x, y, z), from its frame to that of the world.

    Example:
        >>> quaternion("torso").entry_names
        ('torso w', 'torso x', 'torso y', 'torso z')
    """
    return Part("quaternion", _checked(name))


def choice(*names: str) -> list[Part]:
    """Discrete actions, by name: a symmetry exchanges them.

    Example:
        >>> print(*(part.name for part in choice("push left", "push right")), sep=", ")
        push left, push right
    """
    return [Part("choice", _checked(name)) for name in names]


def _checked(name: str) -> str:
    if not isinstance(name, str) or not name.strip():
        raise ValueError(f"expected a name for a part, got {name!r}")
    return name


def _frame(frame: Frame) -> Frame:
    if frame not in ("world", "body"):
        raise ValueError(f"expected a frame 'world' or 'body', got {frame!r}")
    return frame


def _axis(axis: str | tuple[float, float, float]) -> tuple[float, float, float]:
    if isinstance(axis, str):
        unit = _UNITS.get(axis.removeprefix("-"))
        if unit is None:
            raise ValueError(f"expected an axis x, y, z, -x, -y, -z or three numbers, got {axis!r}")
        sign = -1.0 if axis.startswith("-") else 1.0
        x, y, z = (sign * value + 0.0 for value in unit)
        return x, y, z
    try:
        x, y, z = (float(value) for value in axis)
    except (TypeError, ValueError):
        raise ValueError(
            f"expected an axis x, y, z, -x, -y, -z or three numbers, got {axis!r}"
        ) from None
    length = sqrt(x * x + y * y + z * z)
    if not 0 < length < float("inf"):
        raise ValueError(f"expected an axis with a length, got {axis!r}")
    return x / length, y / length, z / length


def _letter(axis: tuple[float, float, float]) -> str:
    for letter, unit in _UNITS.items():
        if axis == unit:
            return letter
    return "along (" + " ".join(f"{value:.2g}" for value in axis) + ")"
