"""Training of transition models, several at once (thesis A.2.3.4)."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from isotropy.data import TransitionChunks, Transitions
from isotropy.nn import tensor_priors
from isotropy.rl import TransitionModel
from isotropy.run import ProgressCallback, Step, generator, spawn
from isotropy_papers._same_architecture import require_same_architecture

_logger = logging.getLogger(__name__)
Data: TypeAlias = Transitions | TransitionChunks
Loss: TypeAlias = Literal["l1", "mse"]


@dataclass(frozen=True)
class TransitionRecipe:
    """How transition models are trained.

    Args:
        steps: How many steps Adam takes.
        batch: Stretches in a step, drawn with replacement.
        learning_rate: Adam's at the start; it falls to zero as a cosine.
        loss: "l1" or "mse", of all states of a stretch after its first.
        raw: Whether errors count in the units of the states, as published; otherwise each entry
            is divided by the scale of its changes.
        weight_decay: What Adam takes from all weights, decoupled from the loss.
        noise: The standard deviation of what no model can predict, in the units of the loss. It
            weighs the prior of "rpp" against the data: ½(θ/σ)² counts as much as
            ½(error/noise)².

    Raises:
        ValueError: If a number is not positive, or the loss unknown.

    Example:
        >>> TransitionRecipe(steps=100).learning_rate
        0.001
    """

    steps: int = 2000
    batch: int = 256
    learning_rate: float = 1e-3
    loss: Loss = "l1"
    raw: bool = False
    weight_decay: float = 0.0
    noise: float = 0.1

    def __post_init__(self) -> None:
        for name in ("steps", "batch", "learning_rate", "noise"):
            value = getattr(self, name)
            if not 0 < value < math.inf:
                raise ValueError(f"expected a positive {name}, got {value}")
        if not 0 <= self.weight_decay < math.inf:
            raise ValueError(f"expected a weight_decay of zero or more, got {self.weight_decay}")
        if self.loss not in ("l1", "mse"):
            raise ValueError(f"expected the loss 'l1' or 'mse', got {self.loss!r}")

    def rate(self, step: int) -> float:
        """The learning rate of a step."""
        return self.learning_rate * (1 + math.cos(math.pi * step / self.steps)) / 2

    def prior_weight(self, numbers: int) -> float:
        """What ½ Σ (θ/σ)² is multiplied by, beside the mean loss of so many numbers.

        Minus the log likelihood of normal errors e with deviation s is Σ e²/(2s²), that of
        Laplace ones Σ |e|/b with b = s/√2.
        """
        per_number = 2 * self.noise**2 if self.loss == "mse" else self.noise / math.sqrt(2)
        return per_number / numbers


def fit_transition_model(
    model: TransitionModel | Sequence[TransitionModel],
    data: Data | Sequence[Data],
    recipe: TransitionRecipe | None = None,
    *,
    seed: int = 0,
    scales: bool = True,
    progress: ProgressCallback | None = None,
) -> None:
    """Train a transition model, or several of one kind together, each on data of its own.

    Transitions are fitted one step ahead; stretches from their first state through all their
    actions (thesis A.2.3.4: ℓ1 over 10 steps). "rpp" has its prior, all others none. Training is
    in place; data may be on another device. Entries of a gradient that are not finite, as where
    a rollout leaves the range of floats, count as zero; steps with such are counted, and a
    warning is logged.

    Args:
        model: The model, or models that differ only in their weights and scales.
        data: What to fit, or for each model its own.
        recipe: How to train.
        seed: The seed of the order of data.
        scales: Whether to set the scales of the models from the data first.
        progress: Called at every hundredth of the steps.

    Raises:
        TypeError: If something is no TransitionModel, or neither Transitions nor TransitionChunks.
        ValueError: If there are not as many data as models, or these differ in kind, size,
            symmetry or prior, or a gradient is not finite at any step after the first.

    Example:
        >>> from isotropy.rl import EnvironmentSymmetry
        >>> flip = EnvironmentSymmetry.of([[[-1.0]]], [[[-1.0]]])
        >>> s, a = torch.randn(100, 1), torch.randn(100, 1)
        >>> model = TransitionModel(flip, "equivariant", widths=(8,))
        >>> steps = Transitions(s, a, s + 0.1 * a)
        >>> fit_transition_model(model, steps, TransitionRecipe(steps=200, learning_rate=0.01))
        >>> bool((model(s, a) - steps.next_observations).abs().mean() < 0.01)
        True
    """
    models, sets = _listed(model, data)
    chosen = TransitionRecipe() if recipe is None else recipe
    if not models or len(sets) != len(models):
        raise ValueError(
            f"expected data for each of {len(models)} models, at least one, got {len(sets)}"
        )
    require_same_architecture(models)
    if scales:
        for one, own in zip(models, sets, strict=True):
            one.fit_scales(own)
    training = _Training(models, [_stretches(own) for own in sets], chosen, seed)
    stride = max(1, chosen.steps // 100)
    for step in range(chosen.steps):
        if progress is not None and step % stride == 0:
            progress(Step(step, chosen.steps, "transition models"))
        training.advance(step)
    training.finish()


def _listed(
    model: TransitionModel | Sequence[TransitionModel], data: Data | Sequence[Data]
) -> tuple[list[TransitionModel], list[Data]]:
    models = [model] if isinstance(model, TransitionModel) else _each(model)
    for one in models:
        if not isinstance(one, TransitionModel):
            raise TypeError(f"expected a TransitionModel, got {type(one).__name__}")
    if isinstance(data, Transitions | TransitionChunks):
        return models, [data] * len(models)
    sets = _each(data)
    for own in sets:
        if not isinstance(own, Transitions | TransitionChunks):
            advice = ": Transitions.load reads a file" if isinstance(own, str | PathLike) else ""
            raise TypeError(
                f"expected Transitions or TransitionChunks, got {type(own).__name__}{advice}"
            )
    return models, sets


def _each(given: Any) -> list[Any]:
    """The things in a list; what is none is one thing, to be named in an error."""
    one = isinstance(given, str | Mapping) or not isinstance(given, Iterable)
    return [given] if one else list(given)


def _stretches(data: Data) -> TransitionChunks:
    if isinstance(data, TransitionChunks):
        return data
    states = torch.stack([data.observations, data.next_observations], 1)
    return TransitionChunks(states, data.actions.unsqueeze(1))


class _Rollout(nn.Module):
    """A model whose call is a rollout, for ``functional_call``."""

    def __init__(self, model: TransitionModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, state: Tensor, actions: Tensor) -> Tensor:
        return self.model.rollout(state, actions)


class _Training:
    """Adam on stacked weights; on a GPU every step is one CUDA graph."""

    def __init__(
        self,
        models: list[TransitionModel],
        sets: list[TransitionChunks],
        recipe: TransitionRecipe,
        seed: int,
    ) -> None:
        self.models, self.recipe = models, recipe
        first = models[0]
        self.device, dtype = first.state_mean.device, first.state_mean.dtype
        self.rollout = _Rollout(first)
        names = dict(self.rollout.named_parameters())
        each = [dict(_Rollout(model).named_parameters()) for model in models]
        self.weights = {
            name: torch.stack([own[name].detach() for own in each]).requires_grad_()
            for name, weight in names.items()
            if weight.requires_grad
        }
        # constants of the network are the same for all, scales are each model's own
        buffers = dict(self.rollout.named_buffers())
        own_names = [f"model.{name}" for name, _ in first.named_buffers(recurse=False)]
        self.shared = {name: value for name, value in buffers.items() if name not in own_names}
        self.scales = {
            name: torch.stack([dict(_Rollout(m).named_buffers())[name] for m in models])
            for name in own_names
        }
        if len({tuple(part.shape for part in own) for own in sets}) != 1:
            raise ValueError("expected as many data of one size for each model, got some more")
        self.states, self.actions = (
            torch.stack(parts).to(self.device, dtype) for parts in zip(*sets, strict=True)
        )
        rows = self.states.shape[1]
        self.sources = spawn(generator(seed), len(models))
        self.rows, self.batch = rows, min(recipe.batch, rows)
        self.index = torch.zeros(len(models), self.batch, dtype=torch.int64, device=self.device)
        self.copies = torch.arange(len(models), device=self.device).unsqueeze(1)
        numbers = self.states[0, :, 1:].numel()
        self.pulls = self._pulls(recipe.prior_weight(numbers))
        # on the device, so that a recorded step counts too without waiting
        self.lost = torch.zeros(len(models), dtype=torch.int64, device=self.device)
        on_gpu = self.device.type == "cuda"
        self.rate = torch.tensor(recipe.learning_rate, device=self.device)
        self.optimiser = torch.optim.AdamW(
            list(self.weights.values()),
            lr=self.rate if on_gpu else recipe.learning_rate,
            weight_decay=recipe.weight_decay,
            capturable=on_gpu,
        )
        self.take_step: Callable[[], None] = self._recorded() if on_gpu else self._step

    def _pulls(self, weight: float) -> list[Tensor | None]:
        """The gradient of the prior's penalty by weight, over the weight itself."""
        priors = {f"model.network.{p.name}": p for p in tensor_priors(self.models[0].network)}
        pulls: list[Tensor | None] = []
        for name in self.weights:
            if name not in priors:
                pulls.append(None)
                continue
            prior = priors[name]
            pull = weight / prior.log_variance.detach().exp()
            pulls.append(pull if prior.squared_lengths is None else pull * prior.squared_lengths)
        return pulls

    def _losses(self) -> Tensor:
        """The loss of each model on its rows, shape (models,)."""

        def one(
            weights: dict[str, Tensor], scales: dict[str, Tensor], s: Tensor, a: Tensor
        ) -> Tensor:
            state = {**weights, **scales, **self.shared}
            predicted: Tensor = functional_call(self.rollout, state, (s[:, 0], a))
            errors = (predicted - s)[:, 1:]
            if not self.recipe.raw:
                errors = errors / scales["model.change_scale"]
            return errors.abs().mean() if self.recipe.loss == "l1" else errors.square().mean()

        s, a = (values[self.copies, self.index] for values in (self.states, self.actions))
        losses: Tensor = vmap(one)(self.weights, self.scales, s, a)
        return losses

    def _step(self) -> None:
        weights = list(self.weights.values())
        # models share no weights, so the gradient of the sum is that of each one's own loss
        slopes = torch.autograd.grad(
            self._losses().sum(), weights, allow_unused=True, materialize_grads=True
        )
        # a sum is finite only where all its terms are; to ask each of these costs more
        sums = torch.stack([slope.unsqueeze(-1).flatten(1).sum(1) for slope in slopes])
        self.lost.add_(~sums.isfinite().all(0))
        for weight, slope, pull in zip(weights, slopes, self.pulls, strict=True):
            # a rollout that leaves the range of floats must not end the training
            weight.grad = slope.nan_to_num(0.0, 0.0, 0.0)
            if pull is not None:
                weight.grad.addcmul_(weight.detach(), pull)
        self.optimiser.step()

    def _recorded(self) -> Callable[[], None]:
        """The step as a CUDA graph; what recording it has changed is undone."""
        before = [weight.detach().clone() for weight in self.weights.values()]
        stream = torch.cuda.Stream(self.device)
        stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(stream):
            self._step()
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            self._step()
        with torch.no_grad():
            for weight, old in zip(self.weights.values(), before, strict=True):
                weight.copy_(old)
                for value in self.optimiser.state[weight].values():
                    value.zero_()
            self.lost.zero_()
        torch.cuda.synchronize(self.device)
        return graph.replay

    def advance(self, step: int) -> None:
        """Take one step."""
        drawn = [torch.randint(self.rows, (self.batch,), generator=g) for g in self.sources]
        self.index.copy_(torch.stack(drawn))
        self.rate.fill_(self.recipe.rate(step))
        if self.device.type != "cuda":
            self.optimiser.param_groups[0]["lr"] = self.recipe.rate(step)
        self.take_step()

    @torch.no_grad()
    def finish(self) -> None:
        """Give every model its weights.

        Raises:
            ValueError: If the gradients of one were not finite at any step after the first.
        """
        self._report_lost_steps()
        for place, model in enumerate(self.models):
            own = dict(_Rollout(model).named_parameters())
            for name, stacked in self.weights.items():
                own[name].copy_(stacked[place])

    def _report_lost_steps(self) -> None:
        lost, steps = self.lost.tolist(), self.recipe.steps
        which = [place for place, count in enumerate(lost) if count]
        if not which:
            return
        most = max(lost)
        what = (
            f"with learning rate {self.recipe.learning_rate:g} over rollouts of "
            f"{self.actions.shape[2]} steps"
        )
        # the first step is taken before a learning rate can do harm
        if most >= max(1, steps - 1):
            raise ValueError(
                f"expected finite gradients {what}, got none at {most} of {steps} steps of model "
                f"{lost.index(most)}: lower the learning rate, or shorten the rollouts"
            )
        _logger.warning(
            "%d of %d steps of model %d had no finite gradient %s (%d of %d models had such steps)",
            most,
            steps,
            lost.index(most),
            what,
            len(which),
            len(lost),
        )
