"""Training a network to the most probable parameters under Gaussian priors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset
from torch.utils.data import Dataset as MapStyle

from isotropy.data import Dataset
from isotropy.evidence._batches import Batches, batches_of
from isotropy.evidence._likelihoods import Likelihood
from isotropy.evidence._prior_updates import Schedule, share_of_rate


class MapTraining:
    """Epochs of gradient steps on −log p(D|θ)/T + ½ Σ δ‖θ‖², divided by the number N of samples.

    Args:
        model: The network.
        likelihood: What its outputs mean.
        parameters: The parameters to train, by name.
        groups: The precision group of each.
        batches: The data.
        optimiser: Of these parameters.
        schedule: How its learning rates fall, step by step.
        epochs: How many epochs there will be.
        temperature: T.
    """

    def __init__(
        self,
        model: nn.Module,
        likelihood: Likelihood,
        parameters: Mapping[str, Tensor],
        groups: Mapping[str, str],
        batches: Batches,
        optimiser: torch.optim.Optimizer,
        *,
        schedule: Schedule,
        epochs: int,
        temperature: float,
    ) -> None:
        self.model, self.likelihood, self.batches = model, likelihood, batches
        self.parameters, self.groups = dict(parameters), dict(groups)
        self.optimiser = optimiser
        self._rates = [group["lr"] for group in optimiser.param_groups]
        self._schedule, self._epochs, self._temperature = schedule, epochs, temperature

    def epoch(self, before: int, precisions: Mapping[str, float], noise: float | None) -> float:
        """Go through the data once.

        Args:
            before: How many epochs there have been.
            precisions: δ by group.
            noise: The standard deviation of observations.

        Returns:
            The loss: the mean of −log p/T over the epoch, and the prior's part at its end.

        Raises:
            ValueError: If outputs, loss or parameters are not finite.
        """
        self.model.train()
        length, samples = len(self.batches), self.batches.total
        total, seen = torch.zeros((), dtype=torch.float64), 0
        pull = {name: precisions[self.groups[name]] / samples for name in self.parameters}
        for k, (x, y) in enumerate(self.batches):
            self._set_rates((before + min(k / length, 1.0)) / self._epochs)
            self.model.zero_grad(set_to_none=True)
            with torch.enable_grad():
                loss = self._mean_loss(x, y, noise)
            loss.backward()
            with torch.no_grad():
                for name, parameter in self.parameters.items():
                    if parameter.grad is None:
                        parameter.grad = torch.zeros_like(parameter)
                    parameter.grad.add_(parameter, alpha=pull[name])
            self.optimiser.step()
            total = total.to(loss.device) + loss.detach() * len(x)
            seen += len(x)
        self.model.zero_grad(set_to_none=True)
        prior = sum(
            pull[name] * float(p.detach().double().square().sum()) / 2
            for name, p in self.parameters.items()
        )
        value = float(total) / seen + prior
        if not isfinite(value):
            raise ValueError(f"expected a finite loss, got {value}")
        return value

    def _set_rates(self, done: float) -> None:
        share = share_of_rate(self._schedule, done)
        for group, rate in zip(self.optimiser.param_groups, self._rates, strict=True):
            group["lr"] = rate * share

    def _mean_loss(self, x: Tensor, y: Tensor, noise: float | None) -> Tensor:
        outputs = self.model(x)
        statistics = self.likelihood.statistics(outputs, y)
        whole = self.likelihood.log_likelihood(statistics, noise)
        return -whole / (self._temperature * len(x))


# --- batches in a new order every epoch -------------------------------------------------------


class _Rows(MapStyle[Any]):
    """Rows of two tensors, taken many at a time."""

    def __init__(self, x: Tensor, y: Tensor) -> None:
        self._x, self._y = x, y

    def __len__(self) -> int:
        return len(self._x)

    def __getitems__(self, rows: list[int]) -> tuple[Tensor, Tensor]:
        chosen = torch.tensor(rows)
        return self._x[chosen.to(self._x.device)], self._y[chosen.to(self._y.device)]


def shuffled(data: Any, batch_size: int, generator: torch.Generator) -> Any:
    """Data as a loader that shuffles them; a loader, a stream or a list of batches as it is.

    Args:
        data: As for ``batches_of``.
        batch_size: How many samples a batch has.
        generator: Where the order comes from.

    Raises:
        ValueError: As ``batches_of``.

    Example:
        >>> x = torch.arange(6.0)
        >>> loader = shuffled((x, 2 * x), 4, torch.Generator().manual_seed(0))
        >>> [bool((y == 2 * x).all()) for x, y in loader]
        [True, True]
    """
    options: dict[str, Any] = {"batch_size": batch_size, "shuffle": True, "generator": generator}
    arrays = whole_arrays(data)
    if arrays is not None:
        return DataLoader(_Rows(*arrays), collate_fn=_as_it_is, **options)
    if isinstance(data, MapStyle) and not isinstance(data, IterableDataset):
        return DataLoader(data, **options)
    return data


def whole_arrays(data: Any) -> tuple[Tensor, Tensor] | None:
    """All inputs and targets, where the data are held as two arrays.

    Raises:
        ValueError: As ``batches_of``.
    """
    total = batches_of(data, batch_size=1)
    named = isinstance(data, Dataset) or (type(data) is TensorDataset and len(data.tensors) == 2)
    if not named:
        kinds = Tensor | np.ndarray
        pair = isinstance(data, tuple | list) and all(isinstance(part, kinds) for part in data)
        if not pair:
            return None
    ((x, y),) = batches_of(data, batch_size=total.total)
    return x, y


def _as_it_is(batch: Any) -> Any:
    return batch


def generators_of(*sources: Any) -> Iterator[torch.Generator]:
    """The generators that loaders draw from, each once."""
    seen: set[int] = set()
    for source in sources:
        parts = [source, getattr(source, "sampler", None), getattr(source, "batch_sampler", None)]
        for part in [*parts, getattr(parts[-1], "sampler", None)]:
            found = getattr(part, "generator", None)
            if isinstance(found, torch.Generator) and id(found) not in seen:
                seen.add(id(found))
                yield found
