"""Claims of a group search: hidden layers may share weights by a set of groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, ClassVar

import torch
from torch import Tensor

from isotropy._run import generator as make_generator
from isotropy.discovery.claims._claim import Claim, FittedModel
from isotropy.discovery.claims._statement import LayerDetails, Statement
from isotropy.discovery.predictors._free_predictor import FreePredictor
from isotropy.discovery.predictors._image_predictors import fit_grid_network
from isotropy.discovery.predictors._train_classifier import (
    doubtful_losses,
    kept_apart,
    outputs_of,
)
from isotropy.discovery.reading._image_data import ImageData
from isotropy.discovery.reading._shape_reading import RowLayout
from isotropy.discovery.testing._bench import Bench
from isotropy.discovery.testing._claim_test import claim_test
from isotropy.discovery.testing._tested import Tested
from isotropy.discovery.testing._testing_thresholds import TestingThresholds
from isotropy.groups import GridTransformation, GridTurns, Group, Trivial
from isotropy.nn import GridNetwork
from isotropy.nn._grid_network import grid_sharing
from isotropy.search._space import SearchSpace, State

_LOSSES = "losses of sets"  # where a bench keeps them


@dataclass(frozen=True, eq=False)
class GridBench:
    """Networks of sets of groups, each fitted to the second part of the rows several times.

    Args:
        bench: Keeps what is fitted.
        space: What sets are made of.
    """

    bench: Bench
    space: SearchSpace

    @property
    def fitted(self) -> ImageData:
        """What networks are fitted to."""
        rows = self.bench.problem.fitted
        assert isinstance(rows, ImageData)
        return rows

    @property
    def outside(self) -> ImageData:
        """What claims are tested on."""
        rows = self.bench.problem.outside
        assert isinstance(rows, ImageData)
        return rows

    @property
    def seeds(self) -> range:
        """Of the trainings of each network."""
        first = self.bench.seed + 1
        return range(first, first + TestingThresholds.now().set_trainings)

    def network(self, state: State, seed: int) -> GridNetwork:
        """The network of a set, trained once."""
        fit = partial(fit_grid_network, self.fitted, self.space, state, seed)
        return self.bench.once(("grid network", state, seed), fit)[0]

    def has_network(self, state: State, seed: int) -> bool:
        """Whether that is trained."""
        return ("grid network", state, seed) in self.bench.found

    def losses(self, state: State) -> Tensor:
        """What the network of a set loses on each row, the mean over its trainings."""
        known: dict[State, Tensor] = self.bench.once(_LOSSES, dict)
        if state not in known:
            seen = len(kept_apart(self.fitted, make_generator(self.seeds[0]))[1])
            y, constant = self.outside.y, self.fitted.constant
            losses = [doubtful_losses(one, y, constant, seen) for one in self._outputs(state)]
            known[state] = torch.stack(losses).mean(0)
        return known[state]

    def constant_losses(self) -> Tensor:
        """Those of a constant prediction."""
        return self.outside.losses(self.fitted.constant.expand(len(self.outside.x), -1))

    def accuracy(self, state: State) -> float:
        """The share of rows that it classifies rightly, the mean over its trainings."""
        right = [
            (outputs.argmax(1) == self.outside.y).double().mean()
            for outputs in self._outputs(state)
        ]
        return float(torch.stack(right).mean())

    def _outputs(self, state: State) -> list[Tensor]:
        def outputs() -> list[Tensor]:
            networks = [self.network(state, seed) for seed in self.seeds]
            return [outputs_of(one, self.outside.x) for one in networks]

        return self.bench.once(("grid outputs", state), outputs)


@dataclass(frozen=True, eq=False)
class LayerGroupClaim(Claim):
    """The hidden layers of a network commute with a set of groups of image and hidden grids.

    Args:
        space: What sets are made of.
        state: The set.
        rivals: Sets whose networks it is held against.
        classes: How many there are.
        layout: How images are laid out.

    Example:
        >>> space = SearchSpace((1, 8, 8), (), ((8, 8),))
        >>> claim = LayerGroupClaim(
        ...     space, space.network(space.state("rotation", "horizontal flip"))
        ... )
        >>> claim.statement.name
        'layers that commute with rotation and horizontal flip'
        >>> claim.statement.order
        8
    """

    of_network: ClassVar[bool] = True

    space: SearchSpace
    state: State
    rivals: tuple[State, ...] = (State(),)
    classes: int = 2
    layout: RowLayout = field(default_factory=RowLayout, repr=False)

    @cached_property
    def generators(self) -> tuple[str, ...]:
        """Names of which none can be left out, and from which all others follow."""
        kept = list(self.state.groups)
        for name in reversed(self.state.groups):
            rest = [one for one in kept if one != name]
            if self.space.network(State(tuple(rest), self.state.hidden)) == self.state:
                kept = rest
        return tuple(kept)

    @cached_property
    def statement(self) -> Statement:
        """What is claimed."""
        height, width = self.space.image[1:]
        side = self.space.hidden[self.state.hidden][0]
        follow = [name for name in self.state.groups if name not in self.generators]
        more = f", and so with {listed(follow)}" if follow else ""
        return Statement(
            name=f"layers that commute with {listed(self.generators)}",
            group=str(self.group),
            action=(
                f"the hidden layers of a network, from images of {height}×{width} to grids of "
                f"{side}×{side} units, commute with {listed(self.generators)}{more}; the last "
                "layer is free"
            ),
            method="search among sets of groups",
            order=int(self.group.order()),
            layout=self.layout,
            details=LayerDetails(self._layers()),
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
    def compared(self) -> tuple[State, ...]:
        """The sets whose networks are fitted to test it: its own first."""
        return self.state, *self.rivals

    def is_part_of(self, other: LayerGroupClaim) -> bool:
        """Whether another set has all of these groups and more.

        Both are reported where both stand: the smaller one may help more.
        """
        return set(self.state.groups) < set(other.state.groups)

    def test(self, bench: Bench, generator: torch.Generator) -> Tested:
        """The cost against the strongest rival, and the largest p-value against any of them."""
        del generator
        grids = GridBench(bench, self.space)
        losses, flat = grids.losses(self.state), grids.constant_losses()
        others = [grids.losses(one) for one in self.rivals]
        given = {"margin": bench.margin, "level": bench.level}
        tests = [
            claim_test(losses, rival, flat, groups=grids.outside.groups, **given)
            for rival in others
        ]
        means = [float(rival.mean()) for rival in others]
        strongest = tests[means.index(min(means))]
        worst = max(tests, key=lambda test: test.p_value)
        return Tested(self, replace(strongest, p_value=worst.p_value, values=worst.values))

    def fit(
        self, rows: ImageData, free: FreePredictor, seed: int, *, softened: bool
    ) -> FittedModel:
        """A network whose weights are shared so."""
        del free, softened
        network, spec, _ = fit_grid_network(rows, self.space, self.state, seed + 1)
        return network, spec

    def rival(self, rows: ImageData, bench: Bench) -> FreePredictor:
        """A network of the same size whose weights are free."""
        fit = partial(fit_grid_network, rows, self.space, State(), bench.seed + 1)
        network, _, loss = bench.once(("free grid network", rows), fit)
        return FreePredictor("network", partial(outputs_of, network), rows.constant, loss)

    def notes(self, tested: Tested, bench: Bench) -> tuple[str, ...]:
        """How accurate it is beside a free network."""
        del tested
        grids = GridBench(bench, self.space)
        ours, free = (100 * grids.accuracy(one) for one in (self.state, State()))
        return (
            f"fitted to the second part of the rows, mean of {len(grids.seeds)} trainings: "
            f"accuracy on the {len(grids.outside.x)} rows held out {ours:.4g} % with the groups, "
            f"{free:.4g} % of the free network",
            f"gain in accuracy over the free network: {ours - free:+.2f} points",
        )

    def _layers(self) -> tuple[dict[str, Any], ...]:
        """A row of plain values for each layer."""
        grids, classes = self.space.grids(self.state), self.classes
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


def left_by_sets(bench: Bench) -> float | None:
    """What the best network of a set leaves of a constant's loss; None where none was tested."""
    known: Mapping[State, Tensor] = bench.found.get(_LOSSES, {})
    best = min((float(one.mean()) for one in known.values()), default=None)
    rows, outside = bench.problem.fitted, bench.problem.outside
    if best is None or not isinstance(rows, ImageData) or not isinstance(outside, ImageData):
        return None
    return best / float(outside.losses(rows.constant.expand(len(outside.x), -1)).mean())


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
