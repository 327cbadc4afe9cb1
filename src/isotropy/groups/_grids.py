"""Groups of an n × n grid of pixels, numbered row by row, on the torus."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from isotropy.groups._maps import LinearMap, Monomial
from isotropy.groups._named_group import NamedGroup


class _GridGroup(NamedGroup):
    def _dimension(self, n: int) -> int:
        return n * n

    def _pixels(self) -> tuple[Tensor, Tensor]:
        row, column = torch.meshgrid(torch.arange(self.n), torch.arange(self.n), indexing="ij")
        return row.flatten(), column.flatten()

    def _number(self, row: Tensor, column: Tensor) -> Monomial:
        return Monomial((row % self.n) * self.n + column % self.n)

    def _shifts(self) -> tuple[Monomial, Monomial]:
        row, column = self._pixels()
        return self._number(row + 1, column), self._number(row, column + 1)

    def _turn(self) -> Monomial:
        """A quarter turn counterclockwise about the centre, as torch.rot90."""
        row, column = self._pixels()
        return self._number(self.n - 1 - column, row)

    def _mirrors(self) -> tuple[Monomial, Monomial]:
        """Top with bottom, left with right."""
        row, column = self._pixels()
        return self._number(self.n - 1 - row, column), self._number(row, self.n - 1 - column)


class GridShifts(_GridGroup):
    """Cyclic shifts of an n × n grid along both axes: Z(n)*Z(n)."""

    def _discrete(self) -> Iterable[LinearMap]:
        return () if self.n == 1 else self._shifts()

    def _order(self) -> int:
        return self.n**2

    def _sample(self, n: int, rng: torch.Generator) -> LinearMap:
        down, right = torch.randint(self.n, (2, n, 1), generator=rng)
        row, column = self._pixels()
        return self._number(row + down, column + right)


class GridTurns(_GridGroup):
    """Quarter turns of an n × n grid about its centre."""

    smallest = 2

    def _discrete(self) -> Iterable[LinearMap]:
        return (self._turn(),)

    def _order(self) -> int:
        return 4


class GridFlips(_GridGroup):
    """Flips of an n × n grid: top with bottom, left with right, and both."""

    smallest = 2

    def _discrete(self) -> Iterable[LinearMap]:
        return self._mirrors()

    def _order(self) -> int:
        return 4


class _WallpaperGroup(_GridGroup):
    """Shifts of the grid together with a point group."""

    smallest = 3  # on a 2 × 2 torus the half turn is a shift
    element_layout = "maps"

    def _point_group(self) -> list[Monomial]:
        turns = [Monomial.identity(self.d)]
        for _ in range(3):
            turns.append(self._turn().compose_monomial(turns[-1]))
        return turns

    def _order(self) -> int:
        return len(self._point_group()) * self.d

    def _sample(self, n: int, rng: torch.Generator) -> LinearMap:
        points = Monomial(torch.stack([point.index for point in self._point_group()]))
        turned = points.select(torch.randint(len(points), (n,), generator=rng))
        down, right = torch.randint(self.n, (2, n, 1), generator=rng)
        row, column = self._pixels()
        return self._number(row + down, column + right).compose_monomial(turned)

    def _ordered_elements(self) -> LinearMap:
        """Element (k, p): the k-th of the point group, then the shift that takes pixel 0 to p.

        In this order the regular representation is laid out as (k, row, column), and an
        element turns the maps of a group convolution as it turns an image.
        """
        row, column = self._pixels()
        batches = []
        for point in self._point_group():
            at_row, at_column = row[point.index[0]], column[point.index[0]]
            moved_row = row[point.index] + (row - at_row).unsqueeze(-1)
            moved_column = column[point.index] + (column - at_column).unsqueeze(-1)
            batches.append(self._number(moved_row, moved_column).index)
        return Monomial(torch.cat(batches))


class p4(_WallpaperGroup):
    """Shifts and quarter turns of an n × n grid, order 4n².

    Acts on pixels by V; its regular representation is the space of a group convolution's
    features, laid out (4, n, n), so ``V >> Regular`` is a lifting layer and
    ``Regular >> Regular`` a group convolution.
    """

    def _discrete(self) -> Iterable[LinearMap]:
        return (*self._shifts(), self._turn())


class p4m(_WallpaperGroup):
    """Shifts, quarter turns and flips of an n × n grid, order 8n²; features are (8, n, n)."""

    def _discrete(self) -> Iterable[LinearMap]:
        return (*self._shifts(), self._turn(), self._mirrors()[1])

    def _point_group(self) -> list[Monomial]:
        turns = super()._point_group()
        return turns + [turn.compose_monomial(self._mirrors()[1]) for turn in turns]
