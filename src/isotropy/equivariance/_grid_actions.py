"""Actions on sampled signals: pictures and sequences moved by affine maps of their coordinates."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from isotropy.equivariance._action import INVARIANT, Action, Place
from isotropy.equivariance._axes import Axes, Axis, Piece, Side, plain
from isotropy.equivariance._interpolation import (
    Boundary,
    Interpolation,
    check_rules,
    difference,
    slope,
)
from isotropy.equivariance._interpolation import Side as KinkSide

_MOST_EXTRA_TOKENS = 16


@dataclass(frozen=True)
class GridAction(Action):
    """Move the plane (or the line) under a sampled signal h: (ρ(t)h)(p) = h(exp(−tA) p).

    Its derivative at t = 0 is (Xh)(p) = −(A p)·∇h(p), with the gradient of the interpolated
    signal. Coordinates p are centred; for pictures x runs to the right and y down, in units that
    make pixels square. The last column of A translates, in units of the width and the height.

    Args:
        name: What it is called.
        unit: What t = 1 means.
        matrix: A: for pictures ((xx, xy, x), (yx, yy, y)), for sequences ((xx, x),).
        boundary: How the signal goes on outside: "reflect" or "periodic".
        interpolation: "fourier", or "bilinear" to compare with.
        side: Which one-sided derivative is taken at the kinks of the bilinear interpolation: that
            of t → 0 from above ("plus"), from below ("minus"), or their mean ("central").
        channels_last: Whether inputs have their channels last.
        parts: Where it stands for several directions: those.
    """

    name: str
    unit: str
    matrix: tuple[tuple[float, ...], ...]
    boundary: Boundary = "reflect"
    interpolation: Interpolation = "fourier"
    side: KinkSide = "central"
    channels_last: bool = False
    parts: tuple[GridAction, ...] = ()

    def __post_init__(self) -> None:
        check_rules(self.boundary, self.interpolation, self.side)

    @property
    def directions(self) -> tuple[Action, ...]:
        """Itself, or the directions it stands for."""
        return self.parts or (self,)

    @property
    def sides(self) -> int:
        """How many sides a picture has: 2, or 1 for a sequence."""
        return len(self.matrix)

    def describe(self) -> dict[str, Any]:
        """Name, unit, boundary rule, interpolation and Lie-algebra elements, for JSON."""
        rule: dict[str, str] = {"interpolation": self.interpolation}
        if self.interpolation == "bilinear":
            rule["side"] = self.side
        elements = [part.matrix for part in (self.parts or (self,))]
        return {**super().describe(), **rule, "algebra": elements}

    # --- where space is -----------------------------------------------------------------------

    def input_place(self, x: Tensor) -> Place:
        """Axes of inputs (N, C, H, W) or (N, C, L), or with the channels last."""
        if x.ndim != self.sides + 2 or x.numel() == 0:
            last = "NHWC" if self.channels_last else "NCHW"
            short = "NLC" if self.channels_last else "NCL"
            raise ValueError(
                f"expected inputs of shape {tuple(last if self.sides == 2 else short)} for "
                f"{self.name}, got {tuple(x.shape)}".replace("'", "")
            )
        first = 1 if self.channels_last else 2
        lengths = x.shape[first : first + self.sides]
        sides = tuple(Side(n, 1.0, 0.0, n) for n in lengths)
        leading = (x.shape[0], x.shape[-1] if self.channels_last else x.shape[1])
        return Axes.image(sides, leading, channels_last=self.channels_last)

    def named_place(self, text: str, shape: tuple[int, ...], at_input: Place) -> Place:
        """Read "invariant", "NCHW", "NHWC", "NLC" (tokens), "NLC+2" (two extra first), "NCL"."""
        assert isinstance(at_input, Axes)
        if text == INVARIANT:
            return INVARIANT
        name, _, extra = text.partition("+")
        known = ("NCHW", "NHWC", "NLC", "NCL") if self.sides == 2 else ("NCL", "NLC")
        if name not in known or (extra and not extra.isdigit()):
            raise ValueError(
                f"expected a layout among invariant, {', '.join(known)} (NLC+1: one extra token "
                f"first), got {text!r}"
            )
        found = self._read(name, shape, at_input, int(extra) if extra else None)
        if found is None:
            raise ValueError(f"expected a value of layout {text}, got one of shape {shape}")
        return found

    def guessed_place(self, shape: tuple[int, ...], at_input: Place) -> Place | None:
        """NCHW, else NHWC, where the sides are as the input's; tokens; two axes are invariant."""
        assert isinstance(at_input, Axes)
        if len(shape) <= 2:
            return INVARIANT
        if len(shape) == self.sides + 2 and self.sides == 2:
            if shape[2] == shape[3] == 1:
                return INVARIANT
            for name in ("NCHW", "NHWC"):
                found = self._read(name, shape, at_input, None)
                if found is not None and _keeps_aspect(found):
                    return found
            return None
        if len(shape) == 3:
            return self._read("NLC" if self.sides == 2 else "NCL", shape, at_input, None)
        return None

    def _read(
        self, name: str, shape: tuple[int, ...], at_input: Axes, extra: int | None
    ) -> Axes | None:
        if len(shape) != len(name):
            return None
        if "L" not in name or self.sides == 1:
            at = [i for i, letter in enumerate(name) if letter in "HWL"]
            sides = _spread([shape[i] for i in at], at_input.sides)
            axes = [plain(size) for size in shape]
            for number, i in enumerate(at):
                axes[i] = Axis((Piece(shape[i], number),))
            return Axes(sides, tuple(axes))
        at_tokens = name.index("L")
        tokens = shape[at_tokens]
        for before in range(_MOST_EXTRA_TOKENS) if extra is None else [extra]:
            lengths = _rectangle(tokens - before, at_input.sides)
            if lengths is not None:
                axis = Axis(tuple(Piece(n, i) for i, n in enumerate(lengths)), before)
                axes = [plain(size) for size in shape]
                axes[at_tokens] = axis
                return Axes(_spread(lengths, at_input.sides), tuple(axes))
        return None

    # --- acting -------------------------------------------------------------------------------

    def act(self, z: Tensor, place: Place) -> Tensor:
        """X z = −(A p)·∇z on the picture in z, zero on what is invariant."""
        self._require_one()
        if not isinstance(place, Axes) or place.is_invariant:
            return torch.zeros_like(z)
        if z.is_complex():
            return torch.complex(self.act(z.real, place), self.act(z.imag, place))
        return place.on_picture(z, lambda picture: self._derivative(picture, place.sides))

    def _require_one(self) -> None:
        if self.parts:
            names = " or ".join(part.name for part in self.parts)
            raise ValueError(f"expected one direction, {names}, got {self.name}")

    def _derivative(self, picture: Tensor, sides: tuple[Side, ...]) -> Tensor:
        # a constant has no slope; without it rounding errors are those of what has one
        space = tuple(range(-self.sides, 0))
        picture = picture - picture.mean(space, keepdim=True)
        total: Tensor | None = None
        for row, number in enumerate(reversed(range(self.sides))):  # x is the last axis
            velocity = self._velocity(row, sides, picture)
            if velocity is None:
                continue
            slope = self._slope(picture, number, sides[number], velocity)
            total = slope if total is None else total + slope
        return torch.zeros_like(picture) if total is None else total

    def _velocity(self, row: int, sides: tuple[Side, ...], like: Tensor) -> Tensor | float | None:
        """A p along one side, as shares of that side; None where it is zero throughout."""
        *linear, constant = self.matrix[row]
        own = sides[self.sides - 1 - row]
        terms: list[Tensor] = []
        for column, factor in enumerate(linear):
            number = self.sides - 1 - column
            if factor:
                side = sides[number]
                places = side.places(like) * (factor * side.whole / own.whole)
                terms.append(places.reshape([-1] + [1] * (self.sides - 1 - number)))
        if not terms:
            return constant or None
        return sum(terms[1:], terms[0]) + constant

    def _slope(self, picture: Tensor, number: int, side: Side, velocity: Tensor | float) -> Tensor:
        if self.interpolation == "fourier":
            along_last = number == self.sides - 1
            found = slope(picture if along_last else picture.mT, self.boundary)
            return -velocity * (found if along_last else found.mT) / side.length
        steps = (difference(side.size, self.boundary, ahead, picture) for ahead in (False, True))
        left, right = (_along(picture, step / side.length, number - self.sides) for step in steps)
        if self.side == "central":
            return -velocity * (left + right) / 2
        # for t > 0 a sample takes its value from behind the motion
        speed = torch.as_tensor(velocity, dtype=picture.dtype, device=picture.device)
        forwards = speed > 0 if self.side == "plus" else speed < 0
        return -speed * torch.where(forwards, left, right)

    def move(self, z: Tensor, t: float | Tensor, place: Place) -> Tensor:
        """exp(tX) z by Fourier shears and stretches; bilinear by sampling four neighbours."""
        self._require_one()
        if not isinstance(place, Axes) or place.is_invariant:
            return z
        exact = torch.promote_types(z.dtype, torch.float32)
        device = None if isinstance(t, Tensor) else "cpu"
        amount = torch.as_tensor(t, dtype=torch.float64, device=device)
        extra = [(n, axis) for n, axis in enumerate(place.axes) if axis.before or axis.after]
        moved = place.on_picture(
            z.to(exact), lambda picture: self._moved(picture, amount, place.sides)
        )
        for number, axis in extra:  # on_picture sets these to zero: they stay
            last = axis.size - axis.after
            for first, count in ((0, axis.before), (last, axis.after)):
                if count:
                    target = [slice(None)] * z.ndim
                    target[number] = slice(first, first + count)
                    moved[tuple(target)] = z[tuple(target)].to(exact)
        return moved.to(z.dtype)

    def _moved(self, picture: Tensor, t: Tensor, sides: tuple[Side, ...]) -> Tensor:
        from isotropy.equivariance._warps import bilinear_warp, fourier_warp

        size = self.sides
        algebra = torch.zeros(size + 1, size + 1, dtype=torch.float64, device=t.device)
        algebra[:size] = torch.tensor(self.matrix, dtype=torch.float64, device=t.device)
        element = torch.linalg.matrix_exp(t * algebra)
        if self.interpolation == "bilinear":
            return bilinear_warp(picture, element, sides, self.boundary)
        steps = 1
        while self.sides == 2 and float(element[0, 0].detach()) < 0.5:
            steps *= 2
            element = torch.linalg.matrix_exp(t / steps * algebra)
        for _ in range(steps):
            picture = fourier_warp(picture, element, sides, self.boundary)
        return picture


def _along(x: Tensor, matrix: Tensor, axis: int) -> Tensor:
    """Multiply a matrix into one of the last two axes."""
    return x @ matrix.mT if axis == -1 else matrix @ x


def _spread(lengths: list[int] | tuple[int, ...], whole: tuple[Side, ...]) -> tuple[Side, ...]:
    """Sides of so many samples, spread evenly over those of the input."""
    spread = []
    for n, side in zip(lengths, whole, strict=True):
        pitch = side.whole / n
        spread.append(Side(n, pitch, (pitch - 1) / 2, side.whole))
    return tuple(spread)


def _keeps_aspect(axes: Axes) -> bool:
    """Whether samples are about as far apart along one side as along the other."""
    pitches = [side.pitch for side in axes.sides]
    return max(pitches) <= 1.5 * min(pitches)


def _rectangle(tokens: int, sides: tuple[Side, ...]) -> tuple[int, ...] | None:
    """The rows and columns of tokens that tile the input in squares."""
    height, width = (side.whole for side in sides)
    columns = math.isqrt(max(0, tokens * width // height))
    if columns < 2 or tokens % columns:
        return None
    rows = tokens // columns
    return (rows, columns) if rows * width == columns * height else None


_IMAGES: dict[str, tuple[str, tuple[tuple[float, ...], ...]]] = {
    "translation_x": ("image width", ((0, 0, 1), (0, 0, 0))),
    "translation_y": ("image height", ((0, 0, 0), (0, 0, 1))),
    "rotation": ("radian", ((0, -1, 0), (1, 0, 0))),
    "shear_x": ("pixel to the right per pixel down", ((0, 1, 0), (0, 0, 0))),
    "shear_y": ("pixel down per pixel to the right", ((0, 0, 0), (1, 0, 0))),
    "stretch_x": ("factor e of the width", ((1, 0, 0), (0, 0, 0))),
    "stretch_y": ("factor e of the height", ((0, 0, 0), (0, 1, 0))),
    "scale": ("factor e", ((1, 0, 0), (0, 1, 0))),
    "hyperbolic_rotation": ("hyperbolic radian", ((0, 1, 0), (1, 0, 0))),
}
_PAIRS = ("translation", "shear", "stretch")
GRID_IMAGE_NAMES = (*_PAIRS, *_IMAGES)

_SEQUENCES: dict[str, tuple[str, tuple[tuple[float, ...], ...]]] = {
    "translation": ("length of the sequence", ((0, 1),)),
    "scale": ("factor e of the duration", ((1, 0),)),
}


def grid_image_action(name: str, rules: dict[str, Any]) -> GridAction:
    """The action on images of a name among GRID_IMAGE_NAMES."""
    if name in _PAIRS:
        parts = tuple(grid_image_action(f"{name}_{axis}", rules) for axis in "xy")
        unit = f"{parts[0].unit}; {parts[1].unit}"
        return replace(parts[0], name=name, unit=unit, parts=parts)
    unit, matrix = _IMAGES[name]
    return GridAction(name, unit, matrix, **rules)


def sequence_action(
    name: str, *, boundary: Boundary = "reflect", channels_last: bool = False
) -> Action:
    """An action on sequences of shape (N, C, L), or (N, L, C) with ``channels_last``.

    - ``translation``: along the sequence; t = 1 is its length.
    - ``scale``: faster or slower about the middle; t = 1 is a factor e.

    Values between samples are those of the Fourier series through them.

    Args:
        name: One of the names above.
        boundary: "reflect" or "periodic".
        channels_last: Whether the channels come last.

    Raises:
        ValueError: If there is no such action or boundary.

    Example:
        >>> x = torch.sin(2 * torch.pi * torch.arange(8.0) / 8).reshape(1, 1, 8)
        >>> slope = sequence_action("translation", boundary="periodic").tangent(x)
        >>> round(float(slope[0, 0, 0]), 4), round(-2 * torch.pi, 4)
        (-6.2832, -6.2832)
    """
    if name not in _SEQUENCES:
        raise ValueError(
            f"expected an action on sequences among {', '.join(_SEQUENCES)}, got {name!r}"
        )
    unit, matrix = _SEQUENCES[name]
    return GridAction(name, unit, matrix, boundary=boundary, channels_last=channels_last)
