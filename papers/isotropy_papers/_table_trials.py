"""Trials on tables laid out as images: all of them, with all settings, trained at once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil, exp, log

import torch
from torch import Tensor

from isotropy.data import Dataset
from isotropy.evidence import LearningOptions, learn_priors
from isotropy.nn import PathSum
from isotropy.run import generator, spawn
from isotropy_papers._ensemble import Ensemble
from isotropy_papers._residual_conv import ConvNet, Kind, prior_pulls
from isotropy_papers._training import NetworkRecipe, NetworkTraining, Rows, fit
from isotropy_papers.uci_tables import as_images, uci_split

TRIALS = 10
# of prior variances and noise only the ratio moves the mode: σ_b² = 1, the noise is chosen
VARIANCES = (100.0, 1.0)
RATES, NOISES = (1e-2, 3e-3), (1.0, 0.1)
LEARNED_RATE = 3e-3
_HELD_BACK = 5


@dataclass(frozen=True)
class TableTrials:
    """One network for each of the fixed splits of a table.

    Inputs and target are standardised by the training rows. A fifth of those is held back, to
    choose learning rate, noise and epoch by.

    Args:
        table: Its name.
        seeds: One for each trial: trial k has split k, and seed k for weights and batches.
        recipe: How to train; its learning rate is replaced by those of the grid.
        channels: Of each of the three convolutions.
        device: Where to train.

    Example:
        >>> trials = TableTrials("fertility", (0, 1), NetworkRecipe(1), channels=2)
        >>> [len(rows[0]) for rows in trials.splits[0].values()]
        [72, 18, 10]
    """

    table: str
    seeds: tuple[int, ...]
    recipe: NetworkRecipe
    channels: int = 32
    device: str = "cpu"

    @cached_property
    def splits(self) -> list[dict[str, Rows]]:
        """Scaled images and targets to train, validate and test on, for each trial."""
        found = []
        for split, seed in enumerate(self.seeds):
            train, test = uci_split(self.table, split)
            order = torch.randperm(len(train), generator=spawn(generator(seed), 1)[0])
            count = len(train) // _HELD_BACK
            x, y = _scaled(train, train)
            found.append(
                {
                    "train": (x[order[count:]], y[order[count:]]),
                    "validation": (x[order[:count]], y[order[:count]]),
                    "test": _scaled(train, test),
                }
            )
        return found

    @cached_property
    def units(self) -> list[float]:
        """The variance of the target in the training rows of each trial."""
        return [
            float(_targets(uci_split(self.table, split)[0]).var())
            for split in range(len(self.seeds))
        ]

    def errors(self, kind: Kind) -> dict[str, list[float]]:
        """Train a network with every setting, keep the best on validation rows, and test it.

        Args:
            kind: "MLP", "RPP" or "Conv".

        Returns:
            For each trial: "error", the mean squared test error in the units of the table, and
            the "rate" and the "noise" that were chosen.
        """
        train, validation = self._stacked("train"), self._stacked("validation")
        network = self._net.network(kind, train[0][0, :2].cpu(), VARIANCES)
        seeds = [seed for seed in self.seeds for _ in NOISES]
        noises = torch.tensor(NOISES).repeat(len(self.seeds))
        penalties = {
            name: (noises / train[0].shape[1]).view(-1, *[1] * network.get_parameter(name).ndim)
            * pull
            for name, pull in prior_pulls(network).items()
        }
        trainings = [
            NetworkTraining(
                Ensemble(network, seeds, self.device),
                train,
                validation,
                self._recipe(rate),
                seeds,
                penalties=penalties,
            )
            for rate in RATES
        ]
        fit(trainings)
        settings = [(rate, noise) for rate in RATES for noise in NOISES]
        validated = torch.cat(
            [each.best_error.cpu().view(-1, len(NOISES)) for each in trainings], 1
        )
        tested = torch.cat([self._tested(each.ensemble) for each in trainings], 1)
        best = validated.argmin(1).tolist()
        return {
            "error": [float(tested[trial, place]) for trial, place in enumerate(best)],
            "rate": [settings[place][0] for place in best],
            "noise": [settings[place][1] for place in best],
        }

    def learned_errors(self, updates: int) -> dict[str, list[float]]:
        """Train the RPP while the evidence learns its priors and the noise, on all training rows.

        Args:
            updates: How often, at most, the priors are updated; not in the first tenth of epochs.

        Returns:
            For each trial: "error", as of ``errors``; "ratio", the geometric mean over layers of
            σ² of strict over that of free weights.
        """
        errors, ratios = [], []
        epochs = self.recipe.epochs
        for seed, split, unit in zip(self.seeds, self.splits, self.units, strict=True):
            parts = zip(split["train"], split["validation"], strict=True)
            x, y = (torch.cat(pair).to(self.device) for pair in parts)
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(seed)
                model = self._net.network("RPP", x[:2].cpu(), VARIANCES).to(self.device)
            learn_priors(
                model,
                "regression",
                (x, y),
                epochs=epochs,
                batch_size=self.recipe.batch,
                learning_rate=LEARNED_RATE,
                seed=seed,
                learning=LearningOptions(
                    burn_in=max(1, epochs // 10),
                    every=ceil(0.9 * epochs / updates),
                    cuda_graph=self.device != "cpu",
                ),
            )
            inputs, targets = (part.to(self.device) for part in split["test"])
            with torch.no_grad():
                error = (model(inputs) - targets).square().mean()
            errors.append(float(error) * unit)
            layers = [layer for layer in model.modules() if isinstance(layer, PathSum)]
            logs = [_log_ratio(layer.prior_variances) for layer in layers]
            ratios.append(exp(sum(logs) / len(logs)))
        return {"error": errors, "ratio": ratios}

    def constant_errors(self) -> list[float]:
        """The test error of the mean of the training targets, for each trial."""
        return [
            float(split["test"][1].square().mean()) * unit
            for split, unit in zip(self.splits, self.units, strict=True)
        ]

    @property
    def _net(self) -> ConvNet:
        return ConvNet((self.channels,) * 3, outputs=1)

    def _recipe(self, rate: float) -> NetworkRecipe:
        return replace(self.recipe, learning_rate=rate, schedule="cosine")

    def _stacked(self, part: str) -> Rows:
        """Rows of all copies; splits may differ by a row, which is then left out."""
        rows = [split[part] for split in self.splits for _ in NOISES]
        count = min(len(x) for x, _ in rows)
        x, y = (torch.stack([pair[side][:count] for pair in rows]) for side in (0, 1))
        return x.to(self.device), y.to(self.device)

    def _tested(self, ensemble: Ensemble) -> Tensor:
        """Test errors, shape (trials, noises)."""
        rows = [split["test"] for split in self.splits for _ in NOISES]
        longest = max(len(x) for x, _ in rows)
        x = torch.stack([torch.cat([x, x[: longest - len(x)]]) for x, _ in rows])
        predicted = ensemble.predict(x.to(self.device)).cpu()
        errors = [
            float((guess[: len(y)] - y).square().mean())
            for guess, (_, y) in zip(predicted, rows, strict=True)
        ]
        scaled = torch.tensor(errors).view(len(self.seeds), -1)
        return scaled * torch.tensor(self.units).unsqueeze(1)


def _targets(data: Dataset) -> Tensor:
    assert data.y is not None  # every table has a target
    return data.y


def _scaled(train: Dataset, rows: Dataset) -> Rows:
    """Images and targets of some rows, standardised by the training rows."""
    spread = train.x.std(0)
    x = (rows.x - train.x.mean(0)) / torch.where(spread > 0, spread, torch.ones_like(spread))
    target = _targets(train)
    return as_images(x), (_targets(rows) - target.mean(0)) / target.std(0)


def _log_ratio(variances: dict[str, float]) -> float:
    return log(variances["strict"]) - log(variances["free"])
