"""Many children in one batch: on a GPU all networks of a search space train as one.

The children of a space differ only in which of their weights are equal. So their matrices are
gathered from one long vector of coefficients by one long array of labels, the first layer of all
of them is a single product, and the rest are batched ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor
from torch.nn import functional

from isotropy.bases import pair_orbits
from isotropy.nn import grid_sharing
from isotropy.search import SearchSpace, State, Training

_EVALUATED = 2500  # rows at once


@dataclass
class Weights:
    """The weights of all children: coefficients of each layer in one row, and their heads.

    Args:
        layers: Coefficients of each hidden layer, those of one child after those of another.
        biases: Likewise; one number for each child where training is as published.
        head: Matrices of the last layer, shape (children, hidden cells, classes).
        head_bias: Shape (children, 1, classes).
    """

    layers: list[Tensor]
    biases: list[Tensor]
    head: Tensor
    head_bias: Tensor

    def parameters(self) -> list[Tensor]:
        """All of them."""
        return [*self.layers, *self.biases, self.head, self.head_bias]


class ChildrenTogether:
    """Trains the networks of several states at once, on the same batches.

    What each learns is what `GridChild` would have it learn from the same start and batches, up
    to rounding: tests hold the two together.

    Args:
        space: The states.
        networks: Some of them, all of one choice of hidden grids.
        classes: How many there are.
        training: How they are trained.
        device: Where.

    Raises:
        ValueError: If there are no states, or they differ in their hidden grids.

    Example:
        >>> space = SearchSpace((1, 4, 4), ("rotation", "vertical flip"), hidden=((2,),))
        >>> children = ChildrenTogether(space, tuple(space.states()), 2, Training(epochs=3))
        >>> x, y = torch.rand(50, 16), torch.arange(50) % 2
        >>> right = children.trained((x, y), [(x, y)], seed=0)
        >>> [found.shape for found in right]  # states, epochs
        [torch.Size([4, 3])]
    """

    def __init__(
        self,
        space: SearchSpace,
        networks: Sequence[State],
        classes: int,
        training: Training = Training(),  # noqa: B008  # frozen
        *,
        device: torch.device | str = "cpu",
    ) -> None:
        if len({state.hidden for state in networks}) != 1:
            raise ValueError(
                f"expected states with the same hidden grids, got {len(networks)} states"
            )
        self.space, self.training, self.device = space, training, torch.device(device)
        self.networks, self.classes = tuple(networks), classes
        grids = space.grids(networks[0])
        self._cells = [prod(g) if isinstance(g, tuple) else g * g for g in grids]
        sharings = [
            grid_sharing(space.transformations(state), grids, space.image[0]) for state in networks
        ]
        self._labels, self._ranks = [], []
        for number in range(len(grids) - 1):
            parts = [layers[number] for layers in sharings]
            labels, ranks = _one_after_another([part.flatten() for part in parts])
            self._labels.append(labels.to(self.device))
            self._ranks.append(ranks)
        self._bias_labels = [
            self._shared_biases(grids, k + 1).to(self.device) for k in range(len(sharings[0]))
        ]

    def _shared_biases(self, grids: Sequence[object], number: int) -> Tensor:
        cells = self._cells[number]
        if self.training.published:
            return torch.arange(len(self.networks)).repeat_interleave(cells).int()
        found = []
        for state in self.networks:
            moves = [
                one.permutations(*grids)[number]  # type: ignore[arg-type]
                for one in self.space.transformations(state)
            ]
            alone = [torch.zeros(1, dtype=torch.long)] * len(moves)
            found.append(pair_orbits(moves, alone).flatten() if moves else torch.arange(cells))
        return _one_after_another(found)[0]

    def parameters(self) -> Tensor:
        """How many numbers each child learns, shape (children,)."""
        biases = [
            torch.tensor([len(part.unique()) for part in labels.reshape(len(self.networks), -1)])
            for labels in self._bias_labels
        ]
        head = (self._cells[-1] + 1) * self.classes
        return torch.stack([*self._ranks, *biases]).sum(0) + head

    def drawn(self, seed: int) -> Weights:
        """Initial weights, as those of `GridNetwork` are drawn.

        Args:
            seed: Of the draw.
        """
        rng = torch.Generator(self.device).manual_seed(seed)

        def uniform(bound: Tensor | float, *shape: int) -> Tensor:
            drawn = torch.rand(*shape, device=self.device, generator=rng)
            return ((2 * drawn - 1) * bound).requires_grad_()

        layers, biases = [], []
        fan_ins = [self.space.image[0] * self._cells[0], *self._cells[1:-1]]
        for ranks, fan_in, places in zip(self._ranks, fan_ins, self._bias_labels, strict=True):
            if self.training.published:
                bound = ranks.to(self.device).float() ** -0.5
                spread = bound.repeat_interleave(ranks.to(self.device))
                layers.append(uniform(spread, int(ranks.sum())))
                biases.append(uniform(bound, len(ranks)))
            else:
                layers.append(uniform(fan_in**-0.5, int(ranks.sum())))
                biases.append(uniform(0.0, int(places.max()) + 1))
        bound = self._cells[-1] ** -0.5
        shape = len(self.networks), self._cells[-1], self.classes
        return Weights(
            layers, biases, uniform(bound, *shape), uniform(bound, shape[0], 1, shape[2])
        )

    def logits(self, weights: Weights, x: Tensor) -> Tensor:
        """What every child says of the same rows, shape (children, rows, classes).

        Args:
            weights: Of all children.
            x: Standardised pixels, shape (rows, pixels).
        """
        children = len(self.networks)
        for number, (labels, places) in enumerate(
            zip(self._labels, self._bias_labels, strict=True)
        ):
            weight = weights.layers[number].index_select(0, labels)
            bias = weights.biases[number].index_select(0, places).reshape(children, 1, -1)
            if number == 0:
                outputs = functional.linear(x, weight.reshape(-1, x.shape[-1]))
                x = outputs.reshape(len(x), children, -1).transpose(0, 1)
            else:
                x = x @ weight.reshape(children, -1, x.shape[-1]).transpose(1, 2)
            x = x.relu() + bias if self.training.published else (x + bias).relu()
        return x @ weights.head + weights.head_bias

    def epochs(
        self,
        weights: Weights,
        train: tuple[Tensor, Tensor],
        *,
        seed: int,
        epochs: int | None = None,
    ) -> Iterator[int]:
        """Train in place; yields the number of each epoch when it is over.

        Args:
            weights: Of all children.
            train: Standardised pixels and classes.
            seed: Of the batches.
            epochs: How many; ``None`` for as many as usual.
        """
        x, y = (part.to(self.device) for part in train)
        answers = y.repeat(len(self.networks), 1)
        solver = torch.optim.Adam(weights.parameters(), self.training.rate, fused=True)
        rng = torch.Generator().manual_seed(seed)
        order = torch.randperm(len(x), generator=rng)
        for epoch in range(self.training.epochs if epochs is None else epochs):
            if epoch and not self.training.published:
                order = torch.randperm(len(x), generator=rng)
            for rows in order.to(self.device).split(self.training.batch):
                solver.zero_grad()
                outputs = self.logits(weights, x[rows]).flatten(0, 1)
                loss = functional.cross_entropy(
                    outputs, answers[:, rows].flatten(), reduction="sum"
                )
                (loss / len(rows)).backward()  # each child's own mean
                solver.step()
            yield epoch

    def trained(
        self,
        train: tuple[Tensor, Tensor],
        held: Sequence[tuple[Tensor, Tensor]],
        *,
        seed: int,
        epochs: int | None = None,
        weights: Weights | None = None,
    ) -> list[Tensor]:
        """Train all children, and count their right answers after each epoch.

        Args:
            train: Images or rows of pixels, and classes.
            held: Sets of rows to count on.
            seed: Of initial weights and batches.
            epochs: Passes through the training rows; ``None`` for as many as usual.
            weights: To start from, changed in place; drawn anew by default.

        Returns:
            For each set, right answers, shape (children, epochs).
        """
        weights = self.drawn(seed) if weights is None else weights
        mean, deviation = train[0].mean(), train[0].std().clamp_min(1e-6)
        rows = [((x.flatten(1) - mean) / deviation, y) for x, y in (train, *held)]
        found: list[list[Tensor]] = [[] for _ in held]
        for _ in self.epochs(weights, rows[0], seed=seed, epochs=epochs):
            for counts, (x, y) in zip(found, rows[1:], strict=True):
                counts.append(self._right(weights, x.to(self.device), y.to(self.device)))
        return [torch.stack(counts, 1).cpu() for counts in found]

    @torch.no_grad()
    def _right(self, weights: Weights, x: Tensor, y: Tensor) -> Tensor:
        counts = [
            (self.logits(weights, some).argmax(-1) == answers).sum(1)
            for some, answers in zip(x.split(_EVALUATED), y.split(_EVALUATED), strict=True)
        ]
        return torch.stack(counts).sum(0)

    @torch.no_grad()
    def started_from(self, weights: Weights, parents: ChildrenTogether, which: Tensor) -> Weights:
        """Weights for these children, each those of a parent averaged over its own orbits.

        Args:
            weights: Of the parents.
            parents: Other children of the same widths.
            which: The number of each child's parent, shape (children,).
        """
        which = which.to(self.device)

        def averaged(values: Tensor, given: Tensor, labels: Tensor) -> Tensor:
            dense = values.index_select(0, given).reshape(len(parents.networks), -1)[which]
            count = int(labels.max()) + 1
            sums = values.new_zeros(count).index_add(0, labels, dense.flatten())
            times = torch.bincount(labels, minlength=count)
            return (sums / times).requires_grad_()

        layers = zip(weights.layers, parents._labels, self._labels, strict=True)
        biases = zip(weights.biases, parents._bias_labels, self._bias_labels, strict=True)
        return Weights(
            [averaged(*each) for each in layers],
            [averaged(*each) for each in biases],
            weights.head[which].clone().requires_grad_(),
            weights.head_bias[which].clone().requires_grad_(),
        )


def _one_after_another(parts: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Labels of several sets of weights in one row, and how many each set has."""
    ranks = torch.tensor([int(part.max()) + 1 for part in parts])
    starts = ranks.cumsum(0) - ranks
    return torch.cat([(p + s).int() for p, s in zip(parts, starts, strict=True)]), ranks
