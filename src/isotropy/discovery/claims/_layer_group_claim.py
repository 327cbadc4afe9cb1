"""Claims of a group search: hidden layers may share weights by a set of groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from isotropy.groups import GridTransformation, GridTurns, Group, Trivial
from isotropy.nn._grid_network import grid_sharing
from isotropy.search._space import SearchSpace, State


@dataclass(frozen=True)
class LayerGroupClaim:
    """The hidden layers of a network commute with a set of groups of image and hidden grids.

    Example:
        >>> space = SearchSpace((1, 8, 8), (), ((8, 8),))
        >>> claim = LayerGroupClaim(
        ...     space, space.network(space.state("rotation", "horizontal flip"))
        ... )
        >>> claim.name
        'layers that commute with rotation and horizontal flip'
        >>> claim.order
        8
    """

    space: SearchSpace
    state: State

    @cached_property
    def generators(self) -> tuple[str, ...]:
        """Names of which none can be left out, and from which all others follow."""
        kept = list(self.state.groups)
        for name in reversed(self.state.groups):
            rest = [one for one in kept if one != name]
            if self.space.network(State(tuple(rest), self.state.hidden)) == self.state:
                kept = rest
        return tuple(kept)

    @property
    def name(self) -> str:
        """What it is, in prose."""
        return f"layers that commute with {listed(self.generators)}"

    @property
    def action(self) -> str:
        """What is claimed, in a phrase."""
        height, width = self.space.image[1:]
        side = self.space.hidden[self.state.hidden][0]
        follow = [name for name in self.state.groups if name not in self.generators]
        more = f", and so with {listed(follow)}" if follow else ""
        return (
            f"the hidden layers of a network, from images of {height}×{width} to grids of "
            f"{side}×{side} units, commute with {listed(self.generators)}{more}; the last layer is "
            "free"
        )

    @cached_property
    def group(self) -> Group:
        """What all of them generate on the pixels of a channel.

        All, for a group may have more elements than a part of it with the same orbits of weights.
        """
        moves = {one.name: self._on_image(one) for one in self.space.transformations(self.state)}
        if set(moves) == {"rotation"}:
            return GridTurns(self.space.image[1])
        if all(name.startswith(("horizontal ", "vertical ")) for name in moves):
            return self._of_both_axes(moves)
        return Group(moves.values())

    @property
    def order(self) -> int:
        """The number of elements of that group."""
        return int(self.group.order())

    def layers(self, classes: int) -> tuple[dict[str, Any], ...]:
        """A row of plain values for each layer."""
        grids = self.space.grids(self.state)
        rows = []
        for number, labels in enumerate(grid_sharing(self._transformations(), grids)):
            channels = self.space.image[0] if number == 0 else 1
            rows.append(
                {
                    "layer": f"layer {number}",
                    "maps": f"{_map(grids[number])} to {_map(grids[number + 1])}",
                    "type": ", ".join(self.generators),
                    "weights": channels * (int(labels.max()) + 1),
                    "without groups": channels * labels.numel(),
                    "strict": True,
                }
            )
        units = grids[-1] ** 2
        last = {"layer": f"layer {len(rows)}", "maps": f"{_map(grids[-1])} to {classes} classes"}
        sizes = {"weights": units * classes, "without groups": units * classes}
        return (*rows, {**last, "type": "none", **sizes, "strict": False})

    def is_within(self, other: LayerGroupClaim) -> bool:
        """Whether another claim says this and more."""
        return set(self.state.groups) < set(other.state.groups)

    def _transformations(self) -> tuple[GridTransformation, ...]:
        return self.space.transformations(State(self.generators, self.state.hidden))

    def _on_image(self, one: GridTransformation) -> Tensor:
        return one.permutations(*self.space.grids(self.state))[0]

    def _of_both_axes(self, moves: dict[str, Tensor]) -> Group:
        """A group of the rows times one of the columns, where nothing mixes them."""
        _, height, width = self.space.image
        rows, columns = [], []
        for name, move in moves.items():
            cells = move.reshape(height, width)
            if name.startswith("horizontal"):
                columns.append(cells[0])
            else:
                rows.append(torch.div(cells[:, 0], width, rounding_mode="floor"))
        return (Group(rows) if rows else Trivial(height)) * (
            Group(columns) if columns else Trivial(width)
        )


def listed(names: Sequence[str]) -> str:
    """Names in a sentence.

    Example:
        >>> listed(["a", "b", "c"])
        'a, b and c'
    """
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def _map(grid: int | tuple[int, int]) -> str:
    height, width = (grid, grid) if isinstance(grid, int) else grid
    return f"{height}×{width}"
