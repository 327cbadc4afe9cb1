"""What may be done to a body and its world: mirrors, turns of the world, limbs relabelled."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import cos, pi, sin
from typing import Literal, TypeAlias

import torch
from torch import Tensor

Letter: TypeAlias = Literal["x", "y", "z"]
Cycles: TypeAlias = tuple[tuple[str, ...], ...]
_LETTERS = "xyz"
LEFT_AND_RIGHT: Cycles = (("left", "right"),)


@dataclass(frozen=True)
class Transformation:
    """One generator of a symmetry: what is done to a body and its world.

    Made by ``mirror``, ``body_turn``, ``world_turn`` and ``world_rotation``. An orientation Q, from
    the frame of the body to that of the world, becomes W Q Bᵀ; a vector v of the world W v, one of
    the body B v, axial ones det(·) times that.

    Args:
        name: What it is, in words.
        world: W, or its generator A with W = exp(tA), row by row.
        body: B, or its generator, row by row.
        cycles: Words in the names of parts, each of which becomes the next one of its cycle.
        continuous: Whether generators are given.
    """

    name: str
    world: tuple[tuple[float, ...], ...]
    body: tuple[tuple[float, ...], ...]
    cycles: Cycles = ()
    continuous: bool = False

    @property
    def matrices(self) -> tuple[Tensor, Tensor]:
        """W and B, shape (3, 3) each."""
        return (
            torch.tensor(self.world, dtype=torch.float64),
            torch.tensor(self.body, dtype=torch.float64),
        )

    def renamed(self, name: str) -> str:
        """What a part of this name becomes.

        Example:
            >>> mirror("y").renamed("left knee")
            'right knee'
        """
        after = {
            word: following
            for cycle in self.cycles
            for word, following in zip(cycle, (*cycle[1:], cycle[0]), strict=True)
        }
        if not after:
            return name
        words = "|".join(map(re.escape, sorted(after, key=len, reverse=True)))
        whole = re.compile(f"(?<![A-Za-z0-9])({words})(?![A-Za-z0-9])")
        return whole.sub(lambda found: after[found[0]], name)


def mirror(axis: Letter, cycles: Sequence[Sequence[str]] = LEFT_AND_RIGHT) -> Transformation:
    """Everything seen in a mirror across an axis; limbs change sides.

    Args:
        axis: The axis that is turned round: "y" exchanges left and right of what faces x.
        cycles: Words in names that are exchanged, by default "left" and "right".

    Example:
        >>> print(mirror("y").name)
        mirror across y, left <-> right
    """
    signs = [-1.0 if letter == _checked(axis) else 1.0 for letter in _LETTERS]
    reflection = torch.diag(torch.tensor(signs, dtype=torch.float64))
    return _made(f"mirror across {axis}", reflection, reflection, cycles)


def body_turn(
    degrees: float, about: Letter = "z", cycles: Sequence[Sequence[str]] = ()
) -> Transformation:
    """The frame of the body turned within it, its limbs relabelled: the same body as before.

    The state of the world does not change, only what it is called; rewards do not either.

    Args:
        degrees: The angle.
        about: The axis of the body.
        cycles: Words in names, each of which becomes the next one.

    Example:
        >>> print(body_turn(90, "z", [("leg 1", "leg 2", "leg 3", "leg 4")]).name)
        body relabelled by 90 degrees about z, leg 1 -> leg 2 -> leg 3 -> leg 4
    """
    turn = _rotation(about, degrees)
    return _made(f"body relabelled by {degrees:g} degrees about {about}", _eye(), turn, cycles)


def world_turn(degrees: float, about: Letter = "z") -> Transformation:
    """The world and all that is in it turned by an angle. Rewards for a direction may not agree.

    Example:
        >>> world_turn(90).continuous
        False
    """
    return _made(
        f"world turned by {degrees:g} degrees about {about}", _rotation(about, degrees), _eye(), ()
    )


def world_rotation(about: Letter = "z") -> Transformation:
    """The world turned by every angle: SO(2).

    Example:
        >>> world_rotation("z").continuous
        True
    """
    i, j = ((1, 2), (2, 0), (0, 1))[_LETTERS.index(_checked(about))]
    generator = torch.zeros(3, 3, dtype=torch.float64)
    generator[i, j], generator[j, i] = -1.0, 1.0
    still = torch.zeros(3, 3, dtype=torch.float64)
    return _made(f"world turned about {about}", generator, still, (), continuous=True)


def _made(
    name: str,
    world: Tensor,
    body: Tensor,
    cycles: Sequence[Sequence[str]],
    *,
    continuous: bool = False,
) -> Transformation:
    given = tuple(tuple(cycle) for cycle in cycles)
    words = [word for cycle in given for word in cycle]
    if any(len(cycle) < 2 for cycle in given) or len(set(words)) != len(words):
        raise ValueError(f"expected cycles of two or more different words, got {list(given)}")
    if words:
        shown = [
            f"{cycle[0]} <-> {cycle[1]}" if len(cycle) == 2 else " -> ".join(cycle)
            for cycle in given
        ]
        name = ", ".join([name, *shown])
    rows = [tuple(tuple(row) for row in matrix.tolist()) for matrix in (world, body)]
    return Transformation(name, rows[0], rows[1], given, continuous)


def _rotation(about: Letter, degrees: float) -> Tensor:
    i, j = ((1, 2), (2, 0), (0, 1))[_LETTERS.index(_checked(about))]
    c, s = (_tidy(f(degrees * pi / 180)) for f in (cos, sin))
    turn = _eye()
    turn[i, i], turn[i, j], turn[j, i], turn[j, j] = c, -s, s, c
    return turn


def _tidy(value: float) -> float:
    """Sines and cosines of quarter turns without rounding."""
    return round(value) + 0.0 if abs(value - round(value)) < 1e-15 else value


def _eye() -> Tensor:
    return torch.eye(3, dtype=torch.float64)


def _checked(axis: Letter) -> Letter:
    if axis not in ("x", "y", "z"):
        raise ValueError(f"expected an axis 'x', 'y' or 'z', got {axis!r}")
    return axis
