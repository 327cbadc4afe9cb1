"""Learned sharing of a network: assignments by hypergradients, weights by descent (Algorithm 1)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

import torch
from torch import Tensor

from isotropy._run import ProgressCallback, Step
from isotropy.sharing._assignment import RankNorm, rank_penalty, row_entropy, row_softmax
from isotropy.sharing._hypergradient import (
    HessianProduct,
    Weights,
    hypergradient,
    inverse_hvp_cg,
    inverse_hvp_neumann,
)

RowLosses = Callable[[Weights, Tensor, Tensor], Tensor]
"""From weights, assignments (problems, K, K) and row numbers to losses (problems, rows)."""

# an improvement smaller than this share does not count
_IMPROVEMENT = 1e-4


@dataclass(frozen=True)
class BilevelOptions:
    """How assignments and weights are optimised together (Yeh et al. 2022, Eq. 6).

    Args:
        entropy: The weight of the mean row entropy.
        rank: The weight of the rank penalty, divided by K.
        rank_norm: Which norm that is, see ``rank_penalty``.
        outer_steps: The most steps of the assignments.
        outer_rate: Adam's learning rate for their logits.
        clip: The largest norm of their gradient, problem by problem.
        patience: Steps without improvement after which a problem rests.
        warm_up: Steps before improvements count.
        inner_steps: Steps of the weights for each step of the assignments, from where they were.
        first_steps: Steps of the weights before the first.
        inner_rate: AdamW's learning rate for the weights.
        weight_decay: AdamW's, for the weights.
        inverse: How the lower level's Hessian is inverted.
        terms: Terms of the Neumann series, or the most iterations of conjugate gradients.
        step: The step of the Neumann series.
        damping: Added to the Hessian's eigenvalues by conjugate gradients.
        train_batch: Training rows in a step of the weights; all where ``None``.
        validation_batch: Validation rows in a step of the assignments; all where ``None``.

    Raises:
        ValueError: If a number is out of range.

    Example:
        >>> BilevelOptions(inner_steps=250, outer_rate=1e-2).clip
        25.0
    """

    entropy: float = 0.025
    rank: float = 0.05
    rank_norm: RankNorm = "columns"
    outer_steps: int = 500
    outer_rate: float = 1e-2
    clip: float = 25.0
    patience: int = 100
    warm_up: int = 30
    inner_steps: int = 250
    first_steps: int = 250
    inner_rate: float = 1e-3
    weight_decay: float = 1e-3
    inverse: Literal["neumann", "cg"] = "neumann"
    terms: int = 20
    step: float = 1e-2
    damping: float = 0.0
    train_batch: int | None = None
    validation_batch: int | None = None

    def __post_init__(self) -> None:
        for name in ("outer_steps", "patience", "inner_steps", "terms"):
            if getattr(self, name) < 1:
                raise ValueError(f"expected {name} of at least 1, got {getattr(self, name)}")
        for name in ("outer_rate", "inner_rate", "clip", "step"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"expected a positive {name}, got {getattr(self, name)}")
        for name in ("entropy", "rank", "weight_decay", "damping", "warm_up", "first_steps"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"expected {name} of at least 0, got {getattr(self, name)}")
        for name in ("train_batch", "validation_batch"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"expected {name} of at least 1, got {value}")
        if self.inverse not in ("neumann", "cg"):
            raise ValueError(f"expected the inverse 'neumann' or 'cg', got {self.inverse!r}")

    def solver(self) -> Callable[[HessianProduct, Weights], Weights]:
        """The solver for products with the inverse Hessian."""
        if self.inverse == "neumann":
            return partial(inverse_hvp_neumann, terms=self.terms, step=self.step)
        return partial(inverse_hvp_cg, iterations=self.terms, damping=self.damping)

    def penalty(self, assignment: Tensor) -> Tensor:
        """The penalties on assignments (problems, K, K), one for each problem."""
        total = assignment.new_zeros(len(assignment))
        if self.entropy:
            total = total + self.entropy * row_entropy(assignment)
        if self.rank:
            size = assignment.shape[-1]
            total = total + self.rank / size * rank_penalty(assignment, self.rank_norm)
        return total


@dataclass(frozen=True)
class Searched:
    """Where the search for assignments has come to.

    Args:
        assignment: The best relaxed assignment of each problem, shape (problems, K, K).
        losses: The validation loss and the penalties there, shape (problems,).
        history: The losses of all problems after each step; of a resting one, its last.
        interrupted: Whether the work was stopped from the keyboard.
    """

    assignment: Tensor
    losses: Tensor
    history: Tensor
    interrupted: bool


@dataclass
class _Problems:
    """The problems that have not come to rest, with the state of their optimisers."""

    index: Tensor
    weights: Weights
    logits: Tensor
    moments: tuple[Tensor, Tensor]
    waited: Tensor
    options: BilevelOptions
    stepper: torch.optim.AdamW = field(init=False)

    def __post_init__(self) -> None:
        self.stepper = self._new_stepper()

    def _new_stepper(self) -> torch.optim.AdamW:
        for value in self.weights.values():
            value.requires_grad_()
        return batched_adamw(self.weights, self.options.inner_rate, self.options.weight_decay)

    def descend(self, losses: Callable[[Weights], Tensor]) -> None:
        """One step of the weights; problems share none, so the sum has each one's gradient."""
        take_step(self.stepper, self.weights, losses(self.weights))

    def ascend(self, slope: Tensor, number: int) -> None:
        """One step of Adam for the logits."""
        first, second = self.moments
        first.lerp_(slope, 0.1)
        second.lerp_(slope.square(), 0.001)
        size = (second / (1 - 0.999**number)).sqrt_().add_(1e-8)
        self.logits = self.logits - self.options.outer_rate / (1 - 0.9**number) * first / size

    def keep(self, going: Tensor) -> None:
        """Leave out the problems that have come to rest."""
        states = [self.stepper.state[value] for value in self.weights.values()]
        self.weights = {name: value.detach()[going] for name, value in self.weights.items()}
        self.index, self.logits, self.waited = (
            value[going] for value in (self.index, self.logits, self.waited)
        )
        self.moments = (self.moments[0][going], self.moments[1][going])
        self.stepper = self._new_stepper()
        for value, state in zip(self.weights.values(), states, strict=True):
            self.stepper.state[value] = {
                name: kept if kept.ndim == 0 else kept[going] for name, kept in state.items()
            }


@dataclass(frozen=True)
class _Levels:
    """Losses of both levels, one for each problem."""

    losses: RowLosses
    train: Tensor
    validation: Tensor
    options: BilevelOptions
    generator: torch.Generator

    def lower(self, weights: Weights, assignment: Tensor) -> Tensor:
        rows = random_rows(self.train, self.options.train_batch, self.generator)
        return self.losses(weights, assignment, rows).mean(1)

    def lower_of_logits(self, weights: Weights, choices: Weights) -> Tensor:
        return self.losses(weights, row_softmax(choices["logits"]), self.train).mean(1)

    def upper_of_logits(self, weights: Weights, choices: Weights) -> Tensor:
        assignment = row_softmax(choices["logits"])
        rows = random_rows(self.validation, self.options.validation_batch, self.generator)
        return self.losses(weights, assignment, rows).mean(1) + self.options.penalty(assignment)


def search_assignments(
    losses: RowLosses,
    weights: Weights,
    logits: Tensor,
    train: Tensor,
    validation: Tensor,
    options: BilevelOptions,
    *,
    generator: torch.Generator,
    progress: ProgressCallback | None = None,
) -> Searched:
    """Minimise, over assignments, the validation loss of weights that minimise the training loss.

    All problems, such as restarts, are one batch. Stopped from the keyboard, the search gives the
    best assignments so far.

    Args:
        losses: Of each problem on each row.
        weights: Where the weights start, with a leading axis of problems.
        logits: Where the logits of the assignments start, shape (problems, K, K).
        train: The numbers of training rows, shape (n,).
        validation: The numbers of validation rows, shape (m,).
        options: How.
        generator: Draws mini-batches.
        progress: Called after each step of the assignments.

    Example:
        >>> from isotropy._run import generator
        >>> from isotropy.sharing._shared_module import SharedModule
        >>> shared = SharedModule(torch.nn.Linear(3, 1), {"weight": 1}, "squared")
        >>> x = torch.randn(60, 3, generator=generator(0))
        >>> y = x.sum(1, keepdim=True)
        >>> searched = search_assignments(
        ...     lambda weights, assignment, rows: shared.losses(weights, assignment, x, y, rows),
        ...     shared.initial(seeds=[0, 1]),
        ...     torch.zeros(2, 3, 3),
        ...     torch.arange(20),
        ...     torch.arange(20, 60),
        ...     BilevelOptions(outer_steps=3, inner_steps=5),
        ...     generator=generator(0),
        ... )
        >>> searched.assignment.shape, searched.history.shape
        (torch.Size([2, 3, 3]), torch.Size([3, 2]))
    """
    logits = logits.detach().clone()
    number = len(logits)
    zeros = torch.zeros_like(logits)
    going = _Problems(
        torch.arange(number, device=logits.device),
        {name: value.detach().clone() for name, value in weights.items()},
        logits,
        (zeros, zeros.clone()),
        torch.zeros(number, dtype=torch.int64, device=logits.device),
        options,
    )
    best = row_softmax(logits)
    best_loss = torch.full((number,), math.inf, dtype=logits.dtype, device=logits.device)
    latest = best_loss.clone()
    history: list[Tensor] = []
    levels = _Levels(losses, train, validation, options, generator)
    solver = options.solver()
    interrupted = False
    try:
        for step in range(1, options.outer_steps + 1):
            assignment = row_softmax(going.logits)
            for _ in range(options.inner_steps + (options.first_steps if step == 1 else 0)):
                going.descend(partial(levels.lower, assignment=assignment))
            slopes, seen = hypergradient(
                levels.lower_of_logits,
                levels.upper_of_logits,
                going.weights,
                {"logits": going.logits},
                inverse=solver,
            )
            if options.validation_batch is not None:
                with torch.no_grad():
                    on_all = losses(going.weights, assignment, validation).mean(1)
                    seen = on_all + options.penalty(assignment)
            latest[going.index] = seen
            history.append(latest.clone())
            counts = step > min(options.warm_up, options.outer_steps - 1)
            better = seen < best_loss[going.index] - _IMPROVEMENT * best_loss[
                going.index
            ].abs().nan_to_num(posinf=0.0)
            if counts:
                best_loss[going.index[better]] = seen[better]
                best[going.index[better]] = assignment[better]
                going.waited = torch.where(better, 0, going.waited + 1)
            going.ascend(_clipped(slopes["logits"], options.clip), step)
            if progress is not None:
                progress(Step(step, options.outer_steps, "assignments"))
            still = going.waited < options.patience
            if not bool(still.all()):
                going.keep(still)
                if not len(going.index):
                    break
    except KeyboardInterrupt:
        interrupted = True
        unseen = best_loss[going.index].isinf()
        best[going.index[unseen]] = row_softmax(going.logits)[unseen]
    kept = torch.stack(history) if history else best_loss.new_zeros(0, number)
    return Searched(best, best_loss, kept, interrupted)


def batched_adamw(weights: Weights, rate: float, weight_decay: float) -> torch.optim.AdamW:
    """AdamW for the weights of many problems: it works entry by entry, so none sees another."""
    values = list(weights.values())
    # on a GPU the fused kernel refuses gradients that are laid out otherwise, as vmap's can be
    fused = all(value.device.type == "cpu" for value in values)
    return torch.optim.AdamW(values, lr=rate, weight_decay=weight_decay, fused=fused)


def take_step(stepper: torch.optim.AdamW, weights: Weights, losses: Tensor) -> None:
    """Step down losses (problems,), each of which depends on its own problem alone."""
    slopes = torch.autograd.grad(
        losses.sum(), list(weights.values()), allow_unused=True, materialize_grads=True
    )
    for value, slope in zip(weights.values(), slopes, strict=True):
        value.grad = slope
    stepper.step()


def random_rows(rows: Tensor, size: int | None, generator: torch.Generator) -> Tensor:
    """A mini-batch of row numbers, shape (n,) or (problems, n); all where no size is given."""
    if size is None or size >= rows.shape[-1]:
        return rows
    return rows[..., torch.randperm(rows.shape[-1], generator=generator)[:size].to(rows.device)]


def _clipped(slope: Tensor, largest: float) -> Tensor:
    norm: Tensor = torch.linalg.vector_norm(slope, dim=(1, 2), keepdim=True)
    # one problem that leaves the range of floats must not move by NaN ever after
    return (slope * (largest / norm.clamp_min(largest))).nan_to_num(0.0, 0.0, 0.0)
