"""Training a network to the most probable parameters under Gaussian priors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import isfinite
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, IterableDataset, Sampler, TensorDataset
from torch.utils.data import Dataset as MapStyle

from isotropy.data import Dataset
from isotropy.evidence._batches import Batches, batches_of, loader_of
from isotropy.evidence._learning_options import LearningPlan
from isotropy.evidence._likelihoods import Likelihood
from isotropy.evidence._prior_pull import PriorPull
from isotropy.evidence._prior_updates import share_of_rate

_WARM_UP = 3  # calls before the capture, as torch asks for
_LEAST = 1e-6  # of 1 − momentum
# a loss that has grown by this much will not come back
_EXPLODED = 1e6


class GraphedGradient:
    """The loss of a batch and its gradients, captured once and replayed.

    What a replay does is fixed: it suits networks that do the same for every batch, by means of
    tensors alone. Batches of another shape than the first are left to the caller.
    """

    def __init__(
        self, loss: Callable[[Tensor, Tensor, Tensor], Tensor], parameters: Sequence[Tensor]
    ) -> None:
        self._loss, self._parameters = loss, list(parameters)
        self._graph: torch.cuda.CUDAGraph | None = None
        self._inputs: tuple[Tensor, Tensor, Tensor] | None = None
        self._outputs: tuple[Tensor, list[Tensor | None]] | None = None

    def fits(self, x: Tensor, y: Tensor) -> bool:
        """Whether a batch has the shape of the one that was captured, if any was."""
        if self._inputs is None:
            return True
        same = zip((x, y), self._inputs, strict=False)
        return all(a.shape == b.shape and a.dtype == b.dtype for a, b in same)

    def __call__(self, x: Tensor, y: Tensor, weights: Tensor) -> Tensor:
        """The loss; the gradients are in the parameters' ``grad``."""
        if self._graph is None:
            self._capture(x, y, weights)
        assert self._graph is not None
        assert self._inputs is not None
        assert self._outputs is not None
        for kept, given in zip(self._inputs, (x, y, weights), strict=True):
            kept.copy_(given)
        self._graph.replay()
        loss, gradients = self._outputs
        for parameter, gradient in zip(self._parameters, gradients, strict=True):
            parameter.grad = gradient
        return loss

    def _capture(self, x: Tensor, y: Tensor, weights: Tensor) -> None:
        device = self._parameters[0].device
        self._inputs = tuple(t.to(device, copy=True) for t in (x, y, weights))  # type: ignore[assignment]
        stream = torch.cuda.Stream(device)
        stream.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(stream):
            for _ in range(_WARM_UP):
                self._step()
        torch.cuda.current_stream(device).wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._outputs = self._step()
        self._graph = graph

    def _step(self) -> tuple[Tensor, list[Tensor | None]]:
        assert self._inputs is not None
        with torch.enable_grad():
            loss = self._loss(*self._inputs)
        gradients = torch.autograd.grad(loss, self._parameters, allow_unused=True)
        return loss.detach(), list(gradients)


class MapTraining:
    """Epochs of gradient steps on −log p(D|θ)/T + ½ Σ δcθ², divided by the number N of samples."""

    def __init__(
        self,
        model: nn.Module,
        likelihood: Likelihood,
        parameters: Mapping[str, Tensor],
        groups: Mapping[str, str],
        batches: Batches,
        optimiser: torch.optim.Optimizer,
        options: LearningPlan,
        *,
        hyperparameters: Sequence[Tensor] = (),
        lengths: Mapping[str, Tensor] | None = None,
    ) -> None:
        self.model, self.likelihood, self.batches = model, likelihood, batches
        self.parameters, self.groups = dict(parameters), dict(groups)
        self.optimiser, self._hyperparameters = optimiser, list(hyperparameters)
        self._rates = [group["lr"] for group in optimiser.param_groups]
        self._schedule, self._epochs = options.schedule, options.epochs
        self._temperature = options.temperature
        values = list(self.parameters.values())
        self._prior = PriorPull(values, [(lengths or {}).get(name) for name in self.parameters])
        self._first: float | None = None
        self._graphed: GraphedGradient | None = None
        self._shape: tuple[int, ...] | None = None
        if options.cuda_graph and values[0].is_cuda:
            self._graphed = GraphedGradient(self._loss_of, values)

    def epoch(self, before: int, precisions: Mapping[str, float], noise: float | None) -> float:
        """Go through the data once.

        Returns:
            The loss: the mean of −log p/T over the epoch, and the prior's part at its end.

        Raises:
            ValueError: If targets are out of range, or the loss is not finite.
        """
        try:
            for parameter in self._hyperparameters:
                parameter.requires_grad_(False)
            return self._epoch(before, precisions, noise)
        finally:
            for parameter in self._hyperparameters:
                parameter.requires_grad_(True)

    def _epoch(self, before: int, precisions: Mapping[str, float], noise: float | None) -> float:
        self.model.train()
        length, samples = len(self.batches), self.batches.total
        values = list(self.parameters.values())
        weights = self._weights(noise).to(values[0].device)
        pull = [precisions[self.groups[name]] / samples for name in self.parameters]
        places = self._places()
        self._set_rates(0.0)
        weak = self._prior.explicit(pull, self._step_sizes(places), samples)
        total, seen = torch.zeros((), dtype=torch.float64, device=values[0].device), 0
        for k, (x, y) in enumerate(self.batches):
            self._set_rates((before + min(k / length, 1.0)) / self._epochs)
            loss = self._gradients(x.to(total.device), y, weights)
            self._prior.add_gradient(weak)
            self.optimiser.step()
            self._prior.shrink(pull, weak, self._step_sizes(places))
            total += loss.to(total.device) * len(x)
            seen += len(x)
        self.model.zero_grad(set_to_none=True)
        # once an epoch: to look at a number makes a GPU wait
        value = float(total / seen + self._prior.value(pull))
        if not isfinite(value):
            raise ValueError(f"expected a finite loss, got {value}")
        if self._first is None:
            self._first = value
        if value > _EXPLODED * (1 + abs(self._first)):
            raise ValueError(
                f"expected a loss of about the size that it began with, {self._first:.3g}, got "
                f"{value:.3g}: the learning rate is too large"
            )
        return value

    def _places(self) -> list[dict[str, Any]]:
        """The optimiser's group of each parameter."""
        owners = {id(p): group for group in self.optimiser.param_groups for p in group["params"]}
        return [owners[id(parameter)] for parameter in self.parameters.values()]

    def _step_sizes(self, places: list[dict[str, Any]]) -> list[float]:
        """How far a constant gradient of one moves each parameter in a step, in the end.

        Zero where that depends on the size of gradients: such optimisers do not overshoot.
        """
        if not isinstance(self.optimiser, torch.optim.SGD):
            return [0.0] * len(places)
        return [
            float(group["lr"])
            * (
                (1 - group["dampening"]) / max(1 - group["momentum"], _LEAST)
                if group["momentum"]
                else 1.0
            )
            for group in places
        ]

    def _set_rates(self, done: float) -> None:
        share = share_of_rate(self._schedule, done)
        for group, rate in zip(self.optimiser.param_groups, self._rates, strict=True):
            group["lr"] = rate * share

    def _gradients(self, x: Tensor, y: Tensor, weights: Tensor) -> Tensor:
        """The loss of a batch; its gradients are in the parameters' ``grad``."""
        # targets are checked where they are, before they go to a GPU
        if self._graphed is not None and self._shape is not None and self._graphed.fits(x, y):
            like = torch.empty((len(x), *self._shape), dtype=x.dtype, device=y.device)
            return self._graphed(x, self.likelihood._fitting(like, y), weights)
        self.model.zero_grad(set_to_none=True)
        with torch.enable_grad():
            outputs = self.model(x)
            self.likelihood.check_outputs(outputs)
            self._shape = tuple(outputs.shape[1:])
            like = torch.empty(outputs.shape, dtype=outputs.dtype, device=y.device)
            targets = self.likelihood._fitting(like, y).to(outputs.device)
            loss = self._mean_loss(outputs, targets, weights)
        loss.backward()
        return loss.detach()

    def _loss_of(self, x: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
        return self._mean_loss(self.model(x), targets, weights)

    def _mean_loss(self, outputs: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
        terms = self.likelihood._terms(outputs.double(), targets)
        whole = weights[0] * terms.sum() + weights[1] * targets.numel()
        return -whole / (self._temperature * len(outputs))

    def _weights(self, noise: float | None) -> Tensor:
        """What the log likelihood, which is linear in its two statistics, makes of them."""
        units = torch.eye(2, dtype=torch.float64)
        return torch.stack([self.likelihood.log_likelihood(unit, noise) for unit in units])


# --- batches in a new order every epoch -------------------------------------------------------


class ShuffledBatches(Sampler[list[int]]):
    """Rows in a new order every time; one that would be a batch by itself joins the one before.

    (On a single sample a batch normalisation cannot be trained.)

    Example:
        >>> batches = ShuffledBatches(9, 4, torch.Generator().manual_seed(0))
        >>> len(batches), [len(rows) for rows in batches]
        (2, [4, 5])
    """

    def __init__(self, rows: int, batch_size: int, generator: torch.Generator) -> None:
        self.rows, self.batch_size, self.generator = rows, batch_size, generator

    def __len__(self) -> int:
        whole, rest = divmod(self.rows, self.batch_size)
        joins = rest == 1 and whole > 0
        return whole + (rest > 0 and not joins)

    def __iter__(self) -> Iterator[list[int]]:
        order = torch.randperm(self.rows, generator=self.generator).tolist()
        starts = [k * self.batch_size for k in range(len(self))]
        for start, end in zip(starts, [*starts[1:], self.rows], strict=True):
            yield order[start:end]


class _ShuffledRows:
    """Rows of two tensors, in shuffled batches."""

    def __init__(self, x: Tensor, y: Tensor, batch_sampler: ShuffledBatches) -> None:
        self._x, self._y, self.batch_sampler = x, y, batch_sampler

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        for rows in self.batch_sampler:
            chosen = torch.tensor(rows)
            yield self._x[chosen.to(self._x.device)], self._y[chosen.to(self._y.device)]


def shuffled(data: Any, batch_size: int, generator: torch.Generator) -> Any:
    """Data as batches that are shuffled; a loader, a stream or a list of batches as it is.

    Example:
        >>> x = torch.arange(6.0)
        >>> loader = shuffled((x, 2 * x), 4, torch.Generator().manual_seed(0))
        >>> [bool((y == 2 * x).all()) for x, y in loader]
        [True, True]
    """
    arrays = whole_arrays(data)
    if arrays is not None:
        return _ShuffledRows(*arrays, ShuffledBatches(len(arrays[0]), batch_size, generator))
    if isinstance(data, MapStyle) and not isinstance(data, IterableDataset):
        sampler = ShuffledBatches(len(data), batch_size, generator)  # type: ignore[arg-type]
        return DataLoader(data, batch_sampler=sampler, generator=generator)
    loader = loader_of(data, batch_size)
    return data if loader is None else loader


def training_batches(
    source: Any, batch_size: int, dtype: torch.dtype, counts: Mapping[str, int] | None = None
) -> Batches:
    """What ``shuffled`` gave, as batches of a floating type.

    Example:
        >>> x = torch.arange(5.0)
        >>> source = shuffled((x, x), 4, torch.Generator())
        >>> counts_of(training_batches(source, 4, torch.float64))
        {'total': 5, 'used': 5, 'batches': 1}
    """
    sampler = getattr(source, "batch_sampler", None)
    if counts is None and isinstance(sampler, ShuffledBatches):
        counts = {"total": sampler.rows, "used": sampler.rows, "batches": len(sampler)}
    if counts is None:
        return batches_of(source, batch_size=batch_size, dtype=dtype)
    total, used, number = (counts[name] for name in ("total", "used", "batches"))
    return Batches(source, total=total, used=used, batches=number, dtype=dtype)


def counts_of(batches: Batches) -> dict[str, int]:
    """How much a pass yields; where nothing else tells, a pass counts."""
    return {"total": batches.total, "used": batches.used, "batches": len(batches)}


def whole_arrays(data: Any) -> tuple[Tensor, Tensor] | None:
    """All inputs and targets, where the data are held as two arrays."""
    total = batches_of(data, batch_size=1)
    named = isinstance(data, Dataset) or (type(data) is TensorDataset and len(data.tensors) == 2)
    if not named:
        kinds = Tensor | np.ndarray
        pair = isinstance(data, tuple | list) and all(isinstance(part, kinds) for part in data)
        if not pair:
            return None
    ((x, y),) = batches_of(data, batch_size=total.total)
    return x, y


def generators_of(*sources: Any) -> Iterator[torch.Generator]:
    """The generators that loaders, their samplers and data sets draw from, each once."""
    seen: set[int] = set()
    for source in sources:
        batches = getattr(source, "batch_sampler", None)
        parts = [source, batches, getattr(batches, "sampler", None)]
        parts += [getattr(source, name, None) for name in ("sampler", "dataset")]
        for part in parts:
            found = getattr(part, "generator", None)
            if isinstance(found, torch.Generator) and id(found) not in seen:
                seen.add(id(found))
                yield found
