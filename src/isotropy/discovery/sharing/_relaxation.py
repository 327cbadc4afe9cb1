"""Learned sharing of a linear map by relaxation (Yeh et al. 2022, Algorithm 1)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from isotropy._run import ProgressCallback, Step
from isotropy._run import generator as make_generator
from isotropy.discovery.sharing._assignment import RankNorm, rank_penalty, row_entropy, row_softmax
from isotropy.discovery.sharing._least_squares import LeastSquares

Optimiser = Literal["adam", "rmsprop"]


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
    pseudo-inverse of the paper's Eq. 66 would give θ back, since a square A is almost surely
    invertible, and the upper level would have no gradient; the paper's numbers rest on this
    average.

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


def relax_sharing(
    train: LeastSquares,
    validation: LeastSquares | list[LeastSquares],
    *,
    entropy: float = 0.01,
    rank: float = 0.01,
    rank_norm: RankNorm = "columns",
    restarts: int = 3,
    steps: int = 1000,
    optimiser: Optimiser = "adam",
    learning_rate: float = 2e-2,
    weight_decay: float = 1e-4,
    patience: int | None = None,
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
        rank_norm: Which norm that is, see ``rank_penalty``.
        restarts: How many random starts each problem gets.
        steps: The most steps of the upper level.
        optimiser: Of the upper level.
        learning_rate: Of the upper level.
        weight_decay: On the logits.
        patience: Steps without improvement of any problem after which to stop; ``None`` makes all.
        generator: Of the starts, N(0, 0.1²).
        progress: Told now and then.

    Raises:
        ValueError: If there are no restarts or no validation sets, the maps differ in shape, or an
            optimiser or norm is unknown.

    Example:
        >>> train, held = torch.tensor([[0.9, 1.1]]), torch.tensor([[1.1, 0.9]])
        >>> found = relax_sharing(
        ...     LeastSquares.of(None, train), LeastSquares.of(None, held), steps=200
        ... )
        >>> found.best().argmax(-1).unique().tolist() in ([0], [1])  # one block
        True
    """
    batches = [validation] if isinstance(validation, LeastSquares) else validation
    if restarts < 1:
        raise ValueError(f"expected at least one restart, got {restarts}")
    if not batches:
        raise ValueError("expected at least one validation set, got none")
    for batch in batches:
        if batch.shape != train.shape:
            raise ValueError(
                f"expected validation of a map of shape {train.shape}, got {batch.shape}"
            )
    whole = batches[0]
    for batch in batches[1:]:
        whole = whole + batch
    theta = train.solution().flatten(-2)[..., None, :]
    size, dtype = theta.shape[-1], theta.dtype
    shape = (*theta.shape[:-2], restarts, size, size)
    start = torch.randn(shape, generator=make_generator(generator), dtype=dtype)
    logits = (0.1 * start).to(theta.device).requires_grad_()
    batches = [_for_restarts(batch) for batch in batches]
    whole = _for_restarts(whole)

    def penalised(on: LeastSquares, assignment: Tensor) -> Tensor:
        loss = on.loss(averaged(assignment, theta).unflatten(-1, train.shape))
        if entropy:
            loss = loss + entropy * row_entropy(assignment)
        if rank:
            loss = loss + rank * rank_penalty(assignment, rank_norm)
        return loss

    kind = {"adam": torch.optim.Adam, "rmsprop": torch.optim.RMSprop}.get(optimiser)
    if kind is None:
        raise ValueError(f"expected the optimiser 'adam' or 'rmsprop', got {optimiser!r}")
    stepper = kind([logits], lr=learning_rate, weight_decay=weight_decay)
    # patience alone asks for the best: the published procedure keeps the last
    keep_best = patience is not None
    best_loss = torch.full(shape[:-2], torch.inf, dtype=dtype, device=theta.device)
    best = logits.detach().clone()
    waited, done, interrupted = 0, 0, False
    try:
        while done < steps:
            stepper.zero_grad()
            losses = penalised(batches[done % len(batches)], row_softmax(logits))
            if keep_best and patience is not None:
                with torch.no_grad():
                    seen = (
                        losses
                        if len(batches) == 1
                        else penalised(whole, row_softmax(logits.detach()))
                    ).detach()
                    better = seen < best_loss * (1 - 1e-4 * best_loss.sign())
                    best_loss = torch.where(better, seen, best_loss)
                    best = torch.where(better[..., None, None], logits.detach(), best)
                    waited = 0 if bool(better.any()) else waited + 1
                if waited > patience:
                    break
            losses.sum().backward()
            stepper.step()
            done += 1
            if progress is not None and done % 50 == 0:
                progress(Step(done, steps, "relaxed sharing"))
    except KeyboardInterrupt:
        interrupted = True
    with torch.no_grad():
        final = penalised(whole, row_softmax(logits))
        if keep_best:
            better = final < best_loss
            best_loss = torch.where(better, final, best_loss)
            best = torch.where(better[..., None, None], logits, best)
        else:
            best_loss, best = final, logits
        return Relaxed(row_softmax(best).detach(), best_loss.detach(), done, interrupted)


def _for_restarts(problem: LeastSquares) -> LeastSquares:
    """The same problem with an axis of restarts before those of its matrices."""
    return replace(
        problem,
        gram=problem.gram[..., None, :, :],
        cross=problem.cross[..., None, :, :],
        square=problem.square[..., None],
    )
