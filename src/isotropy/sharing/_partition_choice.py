"""Weighing partitions of a module's weights by cross-validation, and walking to better ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from isotropy._run import ProgressCallback
from isotropy.sharing._assignment import canonical_labels
from isotropy.sharing._partition_fits import FitOptions, fit_partitions
from isotropy.sharing._partition_search import (
    joined,
    merged_partitions,
    moved_partitions,
    split_partitions,
)
from isotropy.sharing._shared_module import SharedModule

Labels = NDArray[np.int64]

# a difference below this share of the untrained module's loss is nothing, however sure
_NEGLIGIBLE = 1e-4


class PartitionScores:
    """Held-out losses of partitions, row by row; each partition is trained once.

    All partitions start from the same weights and see the same folds, so that the difference of
    two is known much better than either.

    Args:
        model: The module.
        x: Inputs.
        y: Targets.
        folds: Each row is held out once, save those that do not fill a fold, which never are.
        options: How to train; always to the end, since the best of many looks at the held-out
            rows would be too good.
        tolerance: By how many standard errors a partition of fewer blocks may look worse; by a
            ten thousandth of the untrained module's loss it may in any case.
        seed: Of the starting weights.
        generator: Draws folds and mini-batches.
        progress: Called now and then.

    Example:
        >>> from isotropy._run import generator
        >>> x = torch.randn(60, 3, generator=generator(0))
        >>> y = x @ torch.tensor([[1.0], [1.0], [-1.0]])
        >>> scores = PartitionScores(
        ...     SharedModule(torch.nn.Linear(3, 1), {"weight": 1}, "squared"),
        ...     x,
        ...     y,
        ...     folds=2,
        ...     options=FitOptions(steps=100, rate=0.1),
        ...     generator=generator(0),
        ... )
        >>> apart, right, together = np.array([0, 1, 2]), np.array([0, 0, 1]), np.array([0, 0, 0])
        >>> scores.weigh([apart, right, together])
        >>> scores.worse(together, than=right)
        True
        >>> scores.chosen([apart, right, together])
        array([0, 0, 1])
    """

    def __init__(
        self,
        model: SharedModule,
        x: Tensor,
        y: Tensor,
        *,
        folds: int = 5,
        options: FitOptions,
        tolerance: float = 2.0,
        seed: int = 0,
        generator: torch.Generator,
        progress: ProgressCallback | None = None,
    ) -> None:
        self.model, self.x, self.y, self.folds = model, x, y, folds
        self.options, self.tolerance, self.seed = options, tolerance, seed
        self.generator, self.progress = generator, progress
        self.interrupted = False
        self._known: dict[tuple[int, ...], Tensor] = {}
        with torch.no_grad():
            start = model.initial([seed], 1)
            together = torch.ones(1, model.size, 1).to(start[next(iter(model.sites))])
            self._negligible = _NEGLIGIBLE * float(model.losses(start, together, x, y).mean())
        size = len(x) // folds
        order = torch.randperm(len(x), generator=generator)
        self.held_out = order[: size * folds].view(folds, size).to(x.device)
        self.rest = torch.stack(
            [torch.cat([order[: i * size], order[(i + 1) * size :]]) for i in range(folds)]
        ).to(x.device)

    def weigh(self, partitions: Sequence[Labels]) -> None:
        """Train under those partitions that are not known yet.

        Stopped from the keyboard, none of them is known after it: half-trained, they could not be
        compared.
        """
        new = [
            labels
            for key, labels in {_key(labels): labels for labels in partitions}.items()
            if key not in self._known
        ]
        if not new or self.interrupted:
            return
        fits = fit_partitions(
            self.model,
            [labels for labels in new for _ in range(self.folds)],
            self.x,
            self.y,
            (self.rest.repeat(len(new), 1), self.held_out.repeat(len(new), 1)),
            self.options,
            seeds=[self.seed] * (len(new) * self.folds),
            generator=self.generator,
            stop_early=False,
            progress=self.progress,
        )
        self.interrupted = fits.interrupted
        if not fits.interrupted:
            for labels, losses in zip(new, fits.losses.split(self.folds), strict=True):
                self._known[_key(labels)] = losses.flatten().double().cpu()

    def mean(self, labels: Labels) -> float:
        """The mean held-out loss of a partition; infinite where training left the numbers."""
        mean = float(self._known[_key(labels)].mean())
        return mean if math.isfinite(mean) else math.inf

    def means(self) -> dict[tuple[int, ...], float]:
        """The mean held-out losses of all partitions that were weighed."""
        return {key: self.mean(np.array(key)) for key in self._known}

    def worse(self, labels: Labels, than: Labels) -> bool:
        """Whether one partition's loss is above another's by more than the tolerance."""
        difference = self._known[_key(labels)] - self._known[_key(than)]
        error = float(difference.std()) / len(difference) ** 0.5
        return not float(difference.mean()) <= max(self.tolerance * error, self._negligible)

    def chosen(self, partitions: Sequence[Labels]) -> Labels:
        """The one of the fewest blocks not worse than the best; the first where none is known."""
        known = [labels for labels in partitions if _key(labels) in self._known]
        if not known:
            return partitions[0]
        best = min(known, key=self.mean)
        good = [labels for labels in known if not self.worse(labels, best)] or [best]
        return min(good, key=lambda labels: (int(labels.max()), self.mean(labels)))


def refined_partition(
    scores: PartitionScores,
    starts: Sequence[Labels],
    *,
    most: int = 100,
    generator: torch.Generator,
) -> Labels:
    """Walk from the best start to better neighbours, until there are none.

    Merges come first, one by one and then all that do no harm at once; where none is chosen, moves
    of one element; then splits.

    Args:
        scores: Weighs partitions.
        starts: Canonical labels, each of shape (K,).
        most: How many neighbours to weigh, drawn where there are more.
        generator: Draws them.

    Example:
        >>> from isotropy._run import generator
        >>> x = torch.randn(60, 3, generator=generator(0))
        >>> scores = PartitionScores(
        ...     SharedModule(torch.nn.Linear(3, 1), {"weight": 1}, "squared"),
        ...     x,
        ...     x @ torch.tensor([[1.0], [1.0], [-1.0]]),
        ...     folds=2,
        ...     options=FitOptions(steps=100, rate=0.1),
        ...     generator=generator(0),
        ... )
        >>> refined_partition(scores, [np.array([0, 1, 1])], generator=generator(0))
        array([0, 0, 1])
    """
    scores.weigh(starts)
    current = scores.chosen(starts)
    visited = {_key(current)}
    stages: list[Callable[[Labels], list[Labels]]] = [
        merged_partitions,
        moved_partitions,
        split_partitions,
    ]
    stage = 0
    while stage < len(stages) and not scores.interrupted:
        near = _some(stages[stage](current), most, generator)
        scores.weigh([current, *near])
        if stages[stage] is merged_partitions and not scores.interrupted:
            near.append(_harmless_merges(scores, current, near))
            scores.weigh(near)
        chosen = scores.chosen([current, *near])
        if _key(chosen) in visited:
            stage += 1
        else:
            visited.add(_key(chosen))
            current, stage = chosen, 0
    return current


def _harmless_merges(scores: PartitionScores, current: Labels, merges: list[Labels]) -> Labels:
    """The partition with all merges at once that do no harm one by one."""
    pairs = []
    for labels in merges:
        if not scores.worse(labels, current):
            blocks = [np.unique(current[labels == block]) for block in range(labels.max() + 1)]
            pairs += [(int(pair[0]), int(pair[1])) for pair in blocks if len(pair) == 2]
    return joined(current, pairs)


def _some(partitions: list[Labels], most: int, generator: torch.Generator) -> list[Labels]:
    if len(partitions) <= most:
        return partitions
    chosen = torch.randperm(len(partitions), generator=generator)[:most].sort().values.tolist()
    return [partitions[i] for i in chosen]


def _key(labels: Labels) -> tuple[int, ...]:
    return tuple(canonical_labels(labels).tolist())
