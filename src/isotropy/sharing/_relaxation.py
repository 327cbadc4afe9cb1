"""Learned sharing of a linear map by relaxation (Yeh et al. 2022, Algorithm 1)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Literal

import torch
from torch import Tensor

from isotropy._run import ProgressCallback, Step
from isotropy._run import generator as make_generator
from isotropy._run._moved_keywords import moved_keywords
from isotropy.sharing._assignment import RankNorm, rank_penalty, row_entropy, row_softmax
from isotropy.sharing._partition_evidence import LeastSquares

Optimiser = Literal["adam", "rmsprop"]
_IMPROVEMENT = 1e-4  # a smaller share of the loss does not count against patience


@dataclass(frozen=True)
class RelaxationOptions:
    """How the assignments of a linear map are optimised (Yeh et al. 2022, Algorithm 1).

    Args:
        rank_norm: The norm of the rank penalty: ``"columns"``, the sum of column norms, or
            ``"nuclear"``.
        optimiser: Of the upper level, ``"adam"`` or ``"rmsprop"``.
        learning_rate: Of the upper level.
        weight_decay: On the logits.
        patience: Steps without improvement of any problem after which to stop and keep the best;
            ``None`` makes all steps and keeps the last.

    Raises:
        ValueError: If the optimiser is unknown.

    Example:
        >>> RelaxationOptions(optimiser="rmsprop").learning_rate
        0.02
    """

    rank_norm: RankNorm = "columns"
    optimiser: Optimiser = "adam"
    learning_rate: float = 2e-2
    weight_decay: float = 1e-4
    patience: int | None = None

    def __post_init__(self) -> None:
        if self.optimiser not in ("adam", "rmsprop"):
            raise ValueError(f"expected the optimiser 'adam' or 'rmsprop', got {self.optimiser!r}")

    def stepper(self, logits: Tensor) -> torch.optim.Optimizer:
        """The optimiser of these logits."""
        kind = torch.optim.Adam if self.optimiser == "adam" else torch.optim.RMSprop
        return kind([logits], lr=self.learning_rate, weight_decay=self.weight_decay)


@dataclass(frozen=True)
class Relaxed:
    """Where a relaxation ended, for every problem and restart.

    Args:
        assignment: The relaxed assignments, shape ``(*, restarts, K, K)``.
        loss: The validation loss with its penalties, shape ``(*, restarts)``.
        steps: How many steps were made.
        interrupted: Whether the work was stopped from the keyboard.
    """

    assignment: Tensor
    loss: Tensor
    steps: int
    interrupted: bool

    def best(self) -> Tensor:
        """The assignment of the restart with the least loss, shape ``(*, K, K)``."""
        chosen = self.loss.argmin(-1)[..., None, None, None]
        return self.assignment.take_along_dim(chosen, -3).squeeze(-3)


def averaged(assignment: Tensor, theta: Tensor) -> Tensor:
    """The lower level in closed form: A diag(1/colsum A) Aᵀ θ.

    For a partition it gives each parameter the mean of its block. For a relaxed A the
    pseudo-inverse of the paper's Eq. 66 would give θ back, since a random square A is invertible,
    and the upper level would have no gradient; the paper's numbers rest on this average.

    Args:
        assignment: Shape ``(*, K, K)``.
        theta: Parameters fitted without sharing, shape ``(*, K)``.

    Example:
        >>> together = torch.tensor([[1.0, 0.0], [1.0, 0.0]])
        >>> averaged(together, torch.tensor([1.0, 3.0]))
        tensor([2., 2.])
    """
    sums = assignment.sum(-2).clamp_min(torch.finfo(assignment.dtype).tiny)
    means = (assignment.mT @ theta[..., None]).squeeze(-1) / sums
    return (assignment @ means[..., None]).squeeze(-1)


@moved_keywords(options=RelaxationOptions)
def relax_sharing(
    train: LeastSquares,
    validation: LeastSquares | list[LeastSquares],
    *,
    entropy: float = 0.01,
    rank: float = 0.01,
    restarts: int = 3,
    steps: int = 1000,
    options: RelaxationOptions | None = None,
    generator: torch.Generator | None = None,
    progress: ProgressCallback | None = None,
) -> Relaxed:
    """Minimise validation loss + entropy·mean_i H(A_i) + rank·‖A‖ over A = softmax(logits).

    All problems of the batch and all their restarts are one tensor: the optimisers work entry
    by entry, so each problem takes the path it would take alone.

    Args:
        train: What the lower level is fitted to, a batch of problems or one.
        validation: What the upper level is measured on; several are mini-batches, taken in turn.
        entropy: The weight of the entropy penalty.
        rank: The weight of the rank penalty.
        restarts: How many random starts each problem gets.
        steps: The most steps of the upper level.
        options: How to make them.
        generator: Of the starts, N(0, 0.1²).
        progress: Called after every 50 steps.

    Raises:
        ValueError: If there are no restarts or no validation sets, the maps differ in shape, or the
            norm is unknown.

    Example:
        >>> train, held = torch.tensor([[0.9, 1.1]]), torch.tensor([[1.1, 0.9]])
        >>> found = relax_sharing(
        ...     LeastSquares.of(None, train), LeastSquares.of(None, held), steps=200
        ... )
        >>> found.best().argmax(-1).unique().tolist() in ([0], [1])  # one block
        True
    """
    options = options or RelaxationOptions()
    patience = options.patience
    batches = [validation] if isinstance(validation, LeastSquares) else validation
    _check(train, batches, restarts)
    theta = train.solution().flatten(-2)[..., None, :]
    size, dtype = theta.shape[-1], theta.dtype
    shape = (*theta.shape[:-2], restarts, size, size)
    start = torch.randn(shape, generator=make_generator(generator), dtype=dtype)
    logits = (0.1 * start).to(theta.device).requires_grad_()
    whole = _for_restarts(reduce(add, batches))
    batches = [_for_restarts(batch) for batch in batches]
    penalised = _PenalisedLoss(theta, train.shape, entropy, rank, options.rank_norm)
    stepper = options.stepper(logits)
    best = _Best(logits)
    done, interrupted = 0, False
    try:
        while done < steps:
            stepper.zero_grad()
            losses = penalised(batches[done % len(batches)], logits)
            if patience is not None:
                with torch.no_grad():
                    seen = losses.detach() if len(batches) == 1 else penalised(whole, logits)
                    best.keep(seen, logits, _IMPROVEMENT)
                if best.waited > patience:
                    break
            losses.sum().backward()
            stepper.step()
            done += 1
            if progress is not None and done % 50 == 0:
                progress(Step(done, steps, "relaxed sharing"))
    except KeyboardInterrupt:
        interrupted = True
    with torch.no_grad():
        final = penalised(whole, logits)
        # patience alone asks for the best: the published procedure keeps the last
        if patience is None:
            return Relaxed(row_softmax(logits), final, done, interrupted)
        best.keep(final, logits)
        return Relaxed(row_softmax(best.logits), best.loss, done, interrupted)


@dataclass(frozen=True)
class _PenalisedLoss:
    """The loss of relaxed assignments on a problem, with their penalties."""

    theta: Tensor
    shape: tuple[int, int]
    entropy: float
    rank: float
    rank_norm: RankNorm

    def __call__(self, on: LeastSquares, logits: Tensor) -> Tensor:
        assignment = row_softmax(logits)
        loss = on.loss(averaged(assignment, self.theta).unflatten(-1, self.shape))
        if self.entropy:
            loss = loss + self.entropy * row_entropy(assignment)
        if self.rank:
            loss = loss + self.rank * rank_penalty(assignment, self.rank_norm)
        return loss


class _Best:
    """The least loss of every problem and restart, where it was, and for how long it is."""

    def __init__(self, logits: Tensor) -> None:
        self.logits = logits.detach().clone()
        self.loss = logits.new_full(logits.shape[:-2], torch.inf)
        self.waited = 0

    def keep(self, loss: Tensor, logits: Tensor, improvement: float = 0.0) -> None:
        """Keep what is better by a share of the loss."""
        better = loss < self.loss * (1 - improvement * self.loss.sign())
        self.loss = torch.where(better, loss, self.loss)
        self.logits = torch.where(better[..., None, None], logits, self.logits)
        self.waited = 0 if bool(better.any()) else self.waited + 1


def _check(train: LeastSquares, batches: list[LeastSquares], restarts: int) -> None:
    if restarts < 1:
        raise ValueError(f"expected at least one restart, got {restarts}")
    if not batches:
        raise ValueError("expected at least one validation set, got none")
    for batch in batches:
        if batch.shape != train.shape:
            raise ValueError(
                f"expected validation of a map of shape {train.shape}, got {batch.shape}"
            )


def _for_restarts(problem: LeastSquares) -> LeastSquares:
    """The same problem with an axis of restarts before those of its matrices."""
    return replace(
        problem,
        gram=problem.gram[..., None, :, :],
        cross=problem.cross[..., None, :, :],
        square=problem.square[..., None],
    )
