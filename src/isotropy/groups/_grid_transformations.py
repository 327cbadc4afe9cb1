"""The twelve transformations of a grid of Basu et al. 2021 (Table 8), by name, for any grid.

Each is one permutation of cells, given once. As a group it shares weights; as a motion of images
it augments data. On several grids at once, such as the pixels of an image and the hidden units of
a layer, it acts as *one* cyclic group: its generator moves all of them together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import gcd, lcm
from types import MappingProxyType
from typing import TypeAlias

import torch
from torch import Tensor

from isotropy.groups._group import Group

Grid: TypeAlias = int | tuple[int, int]
Place: TypeAlias = tuple[Tensor, Tensor]
_Moves: TypeAlias = Callable[[Tensor, Tensor, int, int], Place]


@dataclass(frozen=True)
class GridTransformation:
    """A transformation of grids of any size, and the cyclic group that it generates.

    Rows i count from the top, columns j from the left. Translations are cyclic. Their step is,
    unless one is given, as long as it must be for the group to act on all grids at once *without
    growing*: on sides n₁, n₂, … a shift by n_k / gcd(n₁, n₂, …), so that its order is that gcd on
    each of them. A fixed step s has order n_k / gcd(n_k, s) on side n_k; where these orders are
    coprime, as 7 and 5 are for s = 4 on sides 28 and 20, the group holds every shift of one grid
    that leaves the other alone, and whatever commutes with it is invariant.

    Args:
        name: One of `GRID_TRANSFORMATIONS`.
        step: Of a translation, in cells; ``None`` for the rule above.

    Raises:
        ValueError: If there is none of that name, or it is no translation and has a step.

    Example:
        >>> turn = GridTransformation("rotation")
        >>> turn.permutations(2)[0]  # clockwise: the top left cell goes to the top right
        tensor([1, 3, 0, 2])
        >>> shift = GridTransformation("horizontal translation")
        >>> shift.order(28, 20), GridTransformation("horizontal translation", 4).order(28, 20)
        (4, 35)
    """

    name: str
    step: int | None = None

    def __post_init__(self) -> None:
        if self.name not in _MOVES:
            raise ValueError(
                f"expected a transformation among {', '.join(_MOVES)}, got {self.name!r}"
            )
        if self.step is not None and (not self.is_translation or self.step < 1):
            raise ValueError(
                f"expected a step of at least 1, for a translation, got {self.step} for {self.name}"
            )

    @property
    def is_translation(self) -> bool:
        """Whether it has a step."""
        return self.name in _TRANSLATIONS

    def acts_on(self, *grids: Grid) -> bool:
        """Whether it is a permutation of cells, and not of none, on all of these grids.

        Args:
            grids: Sides of squares, or heights and widths.
        """
        return self._refusal(grids) is None

    def order(self, *grids: Grid) -> int:
        """The order of the group that its generator has on all of these grids together.

        Args:
            grids: Sides of squares, or heights and widths.

        Raises:
            ValueError: If it does not act on one of them.
        """
        self._require(grids)
        if not self.is_translation:
            return 4 if self.name.startswith("rotation") else 2
        sides = self._sides(grids)
        return lcm(*(n // gcd(n, step) for n, step in zip(sides, self._steps(sides), strict=True)))

    def permutations(self, *grids: Grid) -> tuple[Tensor, ...]:
        """The generator on each grid: where every cell goes, cells counted row by row.

        Args:
            grids: Sides of squares, or heights and widths.

        Raises:
            ValueError: If it does not act on one of them.
        """
        self._require(grids)
        sides = self._sides(grids)
        steps = self._steps(sides) if self.is_translation else [0] * len(grids)
        return tuple(self._on(*_shape(g), s) for g, s in zip(grids, steps, strict=True))

    def group(self, *grids: Grid) -> Group:
        """The cyclic group on all of these grids, their cells one grid after the other.

        Args:
            grids: Sides of squares, or heights and widths.

        Raises:
            ValueError: If it does not act on one of them.

        Example:
            >>> GridTransformation("vertical flip").group(3).order()
            2
        """
        start, parts = 0, []
        for permutation in self.permutations(*grids):
            parts.append(permutation + start)
            start += len(permutation)
        return Group([torch.cat(parts)])

    def powers(self, *grids: Grid) -> tuple[Tensor, ...]:
        """All elements g⁰, g¹, … on each grid, each of shape (order, cells).

        Args:
            grids: Sides of squares, or heights and widths.

        Raises:
            ValueError: If it does not act on one of them.
        """
        order, found = self.order(*grids), []
        for generator in self.permutations(*grids):
            element, elements = torch.arange(len(generator)), []
            for _ in range(order):
                elements.append(element)
                element = generator[element]
            found.append(torch.stack(elements))
        return tuple(found)

    def _on(self, height: int, width: int, step: int) -> Tensor:
        i, j = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
        if self.is_translation:
            i, j = _TRANSLATIONS[self.name](i, j, step)
        else:
            i, j = _MOVES[self.name](i, j, height, width)
        return ((i % height) * width + j % width).flatten()

    def _sides(self, grids: tuple[Grid, ...]) -> list[int]:
        """The sides along which a translation goes."""
        return [_shape(grid)[self.name.startswith("horizontal")] for grid in grids]

    def _steps(self, sides: list[int]) -> list[int]:
        return [n // gcd(*sides) if self.step is None else self.step for n in sides]

    def _require(self, grids: tuple[Grid, ...]) -> None:
        refusal = self._refusal(grids)
        if refusal is not None:
            raise ValueError(refusal)

    def _refusal(self, grids: tuple[Grid, ...]) -> str | None:
        """Why it does not act on these grids; None if it does."""
        if not grids:
            return "expected at least one grid, got none"
        for grid in grids:
            height, width = _shape(grid)
            wanted = self._wanted(height, width)
            if wanted is not None:
                return f"{self.name}: expected {wanted}, got {height} by {width}"
        return self._step_refusal(self._sides(grids)) if self.is_translation else None

    def _wanted(self, height: int, width: int) -> str | None:
        """The grids it needs where this one does not do."""
        if min(height, width) < 2:
            return "grids of at least 2 by 2"
        if self.name.startswith("rotation") and height != width:
            return "square grids"
        if self.name in _HALVES and height % 2 and self.name != "horizontal scramble":
            return "grids of even height"
        if self.name in _HALVES and width % 2 and self.name != "vertical scramble":
            return "grids of even width"
        return None

    def _step_refusal(self, sides: list[int]) -> str | None:
        if gcd(*sides) == 1 and self.step is None:
            listed = ", ".join(map(str, sides))
            return (
                f"{self.name}: expected grids whose sides have a common divisor above 1, so "
                f"that one group of shifts acts on all, got {listed}"
            )
        for n, step in zip(sides, self._steps(sides), strict=True):
            if step % n == 0:
                return f"{self.name}: expected a step that moves a side of {n}, got {step}"
        return None


def grid_transformations(
    names: Iterable[str], *, step: int | None = None
) -> tuple[GridTransformation, ...]:
    """Transformations by name, in the order of the catalogue, each once.

    Args:
        names: Some of `GRID_TRANSFORMATIONS`.
        step: Of translations, in cells; ``None`` for the smallest group that acts on all grids.

    Raises:
        ValueError: If there is none of a name.

    Example:
        >>> ", ".join(one.name for one in grid_transformations(("vertical flip", "rotation")))
        'rotation, vertical flip'
    """
    wanted = {GridTransformation(name).name for name in names}
    return tuple(
        GridTransformation(name, step if name in _TRANSLATIONS else None)
        for name in _MOVES
        if name in wanted
    )


def _shape(grid: Grid) -> tuple[int, int]:
    return (grid, grid) if isinstance(grid, int) else grid


def _quadrants(i: Tensor, j: Tensor, height: int, width: int) -> Place:
    """Top left to top right to bottom right to bottom left, without turning."""
    top, left = i < height // 2, j < width // 2
    down = torch.where(top != left, height // 2, 0)  # top right and bottom left change their row
    across = torch.where(top == left, width // 2, 0)
    return i + down, j + across


_TRANSLATIONS: dict[str, Callable[[Tensor, Tensor, int], Place]] = {
    "horizontal translation": lambda i, j, step: (i, j + step),
    "vertical translation": lambda i, j, step: (i + step, j),
}


def _no_move(*_: Tensor | int) -> Place:
    raise AssertionError("a translation needs its step")


_MOVES: dict[str, _Moves] = {
    "rotation": lambda i, j, h, _: (j, h - 1 - i),
    "horizontal flip": lambda i, j, _, w: (i, w - 1 - j),
    "vertical flip": lambda i, j, h, _: (h - 1 - i, j),
    "horizontal translation": _no_move,
    "vertical translation": _no_move,
    "rotation scramble": _quadrants,
    "horizontal scramble": lambda i, j, _, w: (i, j + w // 2),
    "vertical scramble": lambda i, j, h, _: (i + h // 2, j),
    "left vertical scramble": lambda i, j, h, w: (i + (j < w // 2) * (h // 2), j),
    "right vertical scramble": lambda i, j, h, w: (i + (j >= w // 2) * (h // 2), j),
    "top horizontal scramble": lambda i, j, h, w: (i, j + (i < h // 2) * (w // 2)),
    "bottom horizontal scramble": lambda i, j, h, w: (i, j + (i >= h // 2) * (w // 2)),
}
_HALVES = frozenset(name for name in _MOVES if name.endswith("scramble"))

GRID_TRANSFORMATIONS = MappingProxyType({name: GridTransformation(name) for name in _MOVES})
