"""Learned sharing of linear maps that ought to commute with shifts: Figures 8, A1 and A2."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from isotropy.run import generator as make_generator
from isotropy.run import spawn
from isotropy.sharing import (
    LeastSquares,
    PartitionEvidence,
    RelaxationOptions,
    relax_sharing,
    rounded,
    shared_solutions,
)
from isotropy_papers.augerino import Augerino
from isotropy_papers.augmentations import LearnedShifts
from isotropy_papers.fit_augerino import fit_augerino
from isotropy_papers.sharing_tasks import SharingTask

Labels: TypeAlias = NDArray[np.int64]
Draw: TypeAlias = Callable[[int, bool, torch.Generator], SharingTask]

TRAIN, VALIDATION, TEST, RUNS = 50, 100, 10_000, 5
RELAXATION, EVIDENCE, AUGERINO = "Ours (relaxation)", "Ours (evidence)", "Augerino"

_AUGMENTED = 5
_START_WIDTH, _BREADTH_WEIGHT = 0.5, 0.01
_AUGERINO_RATE, _AUGERINO_EPOCHS = 0.1, 300


@dataclass(frozen=True)
class Runs:
    """Data sets of one task, and what maps are judged on.

    Args:
        tasks: One for each run: rows to train on, then rows to validate on.
        tests: The test rows of each.
        rng: Where what else is random comes from.

    Example:
        >>> from isotropy_papers.sharing_tasks import noisy_steps
        >>> runs = Runs.draw(
        ...     lambda n, test, rng: noisy_steps(4, samples=n, seed=rng), 0, count=2, test_rows=30
        ... )
        >>> len(runs.tasks), runs.tasks[0].x.shape, runs.tests[0].samples
        (2, torch.Size([150, 4]), 30)
    """

    tasks: list[SharingTask]
    tests: list[LeastSquares]
    rng: torch.Generator

    @staticmethod
    def draw(task: Draw, seed: int, count: int = RUNS, test_rows: int = TEST) -> Runs:
        """Draw them.

        Args:
            task: Gives a number of rows, given whether they are for testing.
            seed: Of everything random.
            count: How many runs.
            test_rows: Rows to test on.
        """
        rng = make_generator(seed)
        pairs = [spawn(child, 2) for child in spawn(rng, count)]
        tests = [task(test_rows, True, there) for _, there in pairs]
        return Runs(
            [task(TRAIN + VALIDATION, False, here) for here, _ in pairs],
            [LeastSquares.of(test.x, test.y) for test in tests],
            rng,
        )

    @property
    def problems(self) -> list[LeastSquares]:
        """All rows of each run."""
        return [LeastSquares.of(task.x, task.y) for task in self.tasks]

    def errors(self, maps: list[Tensor]) -> list[float]:
        """The mean squared error of each run's map on its test rows."""
        return [float(test.loss(g)) for test, g in zip(self.tests, maps, strict=True)]

    def unshared(self) -> list[Tensor]:
        """Maps of least squares."""
        return [problem.solution() for problem in self.problems]

    def given(self) -> list[Tensor]:
        """Maps of least squares that share as they truly do."""
        return self.refitted([task.labels.ravel() for task in self.tasks])

    def refitted(self, found: list[Labels]) -> list[Tensor]:
        """Maps of least squares that share as is found, exact where inputs are correlated."""
        pairs = zip(self.problems, found, strict=True)
        return [shared_solutions(problem, labels[None])[0] for problem, labels in pairs]

    def block_means(self, found: list[Labels]) -> list[Tensor]:
        """Means over blocks of the unshared maps, the lower level of the paper (Eq. 65, 66)."""
        pairs = zip(self.unshared(), found, strict=True)
        return [_means_over_blocks(g.flatten(), labels).reshape(g.shape) for g, labels in pairs]

    def relaxed(
        self, learning_rate: float, penalty: float, steps: int, device: str = "cpu"
    ) -> list[Labels]:
        """Sharing by the published search with Adam, all runs in one batch, one start each.

        Args:
            learning_rate: Of Adam.
            penalty: The weight of both penalties.
            steps: How many steps.
            device: Where.

        Raises:
            KeyboardInterrupt: If the search was interrupted.
        """
        x = torch.stack([_inputs(task) for task in self.tasks]).to(device)
        y = torch.stack([task.y for task in self.tasks]).to(device)
        found = relax_sharing(
            LeastSquares.of(x[:, :TRAIN], y[:, :TRAIN]),
            LeastSquares.of(x[:, TRAIN:], y[:, TRAIN:]),
            entropy=penalty,
            rank=penalty,
            restarts=1,
            steps=steps,
            options=RelaxationOptions(learning_rate=learning_rate, weight_decay=0.0),
            generator=self.rng,
        )
        if found.interrupted:
            raise KeyboardInterrupt
        return list(rounded(found.best()))

    def by_evidence(self) -> list[Labels]:
        """Sharing of the highest evidence that is found, from all rows."""
        return [PartitionEvidence(problem).best() for problem in self.problems]

    def augerino(self) -> list[tuple[Tensor, float]]:
        """Maps averaged over learned shifts, and how wide these are.

        A map starts from least squares, and outside a signal there are zeros.
        """
        return [_augerino(task, rng) for task, rng in zip(self.tasks, self._spawned(), strict=True)]

    def _spawned(self) -> list[torch.Generator]:
        return spawn(self.rng, len(self.tasks))


def _inputs(task: SharingTask) -> Tensor:
    assert task.x is not None  # maps have inputs
    return task.x


def _augerino(task: SharingTask, rng: torch.Generator) -> tuple[Tensor, float]:
    x = _inputs(task)
    linear = nn.Linear(x.shape[1], task.y.shape[1], bias=False, dtype=x.dtype)
    with torch.no_grad():
        linear.weight.copy_(LeastSquares.of(x, task.y).solution())
    shifts = LearnedShifts(x.shape[1], width=_START_WIDTH, boundary="zeros", generator=rng)
    model = Augerino(linear, shifts, samples=_AUGMENTED, equivariant=True)
    fit = fit_augerino(
        model,
        x,
        task.y,
        breadth_weight=_BREADTH_WEIGHT,
        learning_rate=_AUGERINO_RATE,
        epochs=_AUGERINO_EPOCHS,
    )
    if fit.interrupted:
        raise KeyboardInterrupt
    with torch.no_grad():
        # the same shifts move every row in evaluation, so the whole is one linear map
        whole: Tensor = model(torch.eye(x.shape[1], dtype=x.dtype)).mT
    return whole, float(shifts.width.detach())


def _means_over_blocks(values: Tensor, labels: Labels) -> Tensor:
    _, block, count = np.unique(labels, return_inverse=True, return_counts=True)
    means = np.bincount(block, values.numpy()) / count
    return torch.as_tensor(means[block])
