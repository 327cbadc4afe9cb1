"""Sums of numbers as Yeh et al. learn them: without sharing, with the true one, with one found."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from isotropy.equivariance import partition_distance
from isotropy.run import generator
from isotropy.sharing import (
    FitOptions,
    ModuleSharingOptions,
    SharedModule,
    fit_partitions,
    learn_module_sharing,
)
from isotropy_papers.augerino import Augerino
from isotropy_papers.augmentations import LearnedPermutations
from isotropy_papers.fit_augerino import AugerinoOptions, fit_augerino
from isotropy_papers.sum_of_numbers import PositionwiseSum, SumOfNumbers, sum_of_numbers

TASKS = {"sum": False, "signed sum": True}
TEST_ROWS = 100_000
AUGERINO = "Augerino"
OURS = "Ours"
_SITES = {"weight": 0, "bias": 0}
_ROWS_AT_ONCE = 5000


@dataclass(frozen=True)
class SumRuns:
    """One task at one length, with data of its own for every seed.

    Args:
        length: Numbers in a sequence.
        signed: Whether their signs alternate.
        seeds: Of the data.
        steps: Of the last fit of every method.
        test_rows: Rows that errors are measured on.
        device: Where tensors live.

    Example:
        >>> runs = SumRuns(2, False, [0], steps=3, test_rows=20)
        >>> found = runs.measured("No sharing")
        >>> found["PD"], len(found["l2"])
        ([1.0], 1)
    """

    length: int
    signed: bool
    seeds: list[int]
    steps: int = 3000
    test_rows: int = TEST_ROWS
    device: str = "cpu"

    def measured(self, method: str, samples: int = 3) -> dict[str, list[float]]:
        """Squared errors on the test rows and, where weights share, partition distances.

        Args:
            method: One of "No sharing", "Oracle", "Augerino" and "Ours".
            samples: Transformations of Augerino.
        """
        tasks = [self._task(seed) for seed in self.seeds]
        if method == AUGERINO:
            models = [
                self._augerino(task, seed, samples)
                for task, seed in zip(tasks, self.seeds, strict=True)
            ]
            return {"l2": self._errors(models, tasks)}
        if method == OURS:
            labels = [self._found(task, seed) for task, seed in zip(tasks, self.seeds, strict=True)]
        elif method == "Oracle":
            labels = [task.labels for task in tasks]
        else:
            labels = [np.arange(self.length) for _ in tasks]
        # one last fit for all methods, from the same weights: only the partition differs
        models = self._trained(tasks, labels)
        distances = [
            float(partition_distance(each, task.labels))
            for each, task in zip(labels, tasks, strict=True)
        ]
        return {"l2": self._errors(models, tasks), "PD": distances}

    def _task(self, seed: int) -> SumOfNumbers:
        sizes = (100, 150, 250, self.test_rows)
        return sum_of_numbers(self.length, signed=self.signed, seed=seed, sizes=sizes)

    def _rows(self, task: SumOfNumbers) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Rows to fit and rows to stop on, sums standardised."""
        x, y = (torch.cat(parts) for parts in zip(task.train, task.validation, strict=True))
        early_x, early_y = task.early
        rows = (x, task.standardised(y), early_x, task.standardised(early_y))
        return tuple(each.to(self.device) for each in rows)  # type: ignore[return-value]

    def _found(self, task: SumOfNumbers, seed: int) -> NDArray[np.int64]:
        x, y, *_ = self._rows(task)
        found = learn_module_sharing(
            PositionwiseSum(self.length).to(self.device),
            x,
            y,
            sites=_SITES,
            loss="absolute",
            train=list(range(len(task.train[0]))),
            options=ModuleSharingOptions(
                weigh=FitOptions(steps=300, rate=2e-3),
                fit=FitOptions(steps=1),
                takes_assignment="assignment",
            ),
            seed=seed,
        )
        return found.labels

    def _trained(
        self, tasks: list[SumOfNumbers], labels: list[NDArray[np.int64]]
    ) -> list[nn.Module]:
        """Models under given partitions, all seeds in one batch."""
        model = SharedModule(
            PositionwiseSum(self.length).to(self.device), _SITES, "absolute", "assignment"
        )
        drawn = [self._rows(task) for task in tasks]
        rows, early = len(drawn[0][0]), len(drawn[0][2])
        x = torch.cat([part for each in drawn for part in (each[0], each[2])])
        y = torch.cat([part for each in drawn for part in (each[1], each[3])])
        starts = torch.arange(len(tasks), device=self.device).unsqueeze(1) * (rows + early)
        fits = fit_partitions(
            model,
            labels,
            x,
            y,
            (
                starts + torch.arange(rows, device=self.device),
                starts + rows + torch.arange(early, device=self.device),
            ),
            FitOptions(steps=self.steps),
            seeds=self.seeds,
            generator=generator(0),
        )
        if fits.interrupted:  # what was stopped is no finished cell
            raise KeyboardInterrupt
        return [model.placed(w, each) for w, each in zip(fits.weights, labels, strict=True)]

    def _augerino(self, task: SumOfNumbers, seed: int, samples: int) -> nn.Module:
        x, y, *early = self._rows(task)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            network = PositionwiseSum(self.length)
        model = Augerino(
            _OfMixtures(network),
            LearnedPermutations(self.length, generator=seed),
            samples=samples,
            encoder=partial(_indicators, network),
        )
        fit = fit_augerino(
            model.to(self.device),
            x,
            y,
            validation=(early[0], early[1]),
            epochs=self.steps,
            options=AugerinoOptions(loss=nn.functional.l1_loss),
            seed=seed,
        )
        if fit.interrupted:
            raise KeyboardInterrupt
        return fit.model

    @torch.no_grad()
    def _errors(self, models: list[nn.Module], tasks: list[SumOfNumbers]) -> list[float]:
        errors = []
        for model, task in zip(models, tasks, strict=True):
            x, y = task.test
            predicted = torch.cat([model(part.to(self.device)) for part in x.split(_ROWS_AT_ONCE)])
            errors.append(float((task.original(predicted.cpu()) - y).square().mean()))
        return errors


class _OfMixtures(nn.Module):
    """The network from mixtures of tokens on, which is what permutations of embeddings are."""

    def __init__(self, network: PositionwiseSum) -> None:
        super().__init__()
        self.network = network

    def forward(self, mixtures: Tensor) -> Tensor:
        return self.network.of_mixtures(mixtures)


def _indicators(network: PositionwiseSum, x: Tensor) -> Tensor:
    return network.one_hot(x).to(network.weight.dtype)
