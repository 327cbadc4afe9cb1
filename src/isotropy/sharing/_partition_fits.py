"""Training a module under given partitions of its weights, many partitions at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from isotropy._run import ProgressCallback, Step
from isotropy.sharing._bilevel import batched_adamw, random_rows, take_step
from isotropy.sharing._hypergradient import Weights
from isotropy.sharing._shared_module import SharedModule

Labels = NDArray[np.int64]

# more at a time no longer fit a CPU's caches, and gain nothing
_MOST_TOGETHER = 64
_MOST_NUMBERS = 2**22


@dataclass(frozen=True)
class FitOptions:
    """How a module with a given partition is trained.

    Args:
        steps: Steps of AdamW, at a learning rate that falls to zero as a cosine.
        rate: The learning rate at the start.
        weight_decay: AdamW's.
        batch: Training rows in a step; all where ``None``.
        checks: How often, in all, the held-out rows are looked at, where the weights that do best
            there are kept.

    Raises:
        ValueError: If a number is out of range.

    Example:
        >>> FitOptions(steps=300).checks
        50
    """

    steps: int = 1000
    rate: float = 1e-3
    weight_decay: float = 0.0
    batch: int | None = None
    checks: int = 50

    def __post_init__(self) -> None:
        for name in ("steps", "checks"):
            if getattr(self, name) < 1:
                raise ValueError(f"expected {name} of at least 1, got {getattr(self, name)}")
        if self.batch is not None and self.batch < 1:
            raise ValueError(f"expected a batch of at least 1 row, got {self.batch}")
        if not 0 < self.rate < math.inf:
            raise ValueError(f"expected a positive rate, got {self.rate}")
        if not 0 <= self.weight_decay < math.inf:
            raise ValueError(f"expected weight_decay of at least 0, got {self.weight_decay}")


@dataclass(frozen=True)
class PartitionFits:
    """Modules trained under partitions.

    Args:
        weights: The weights of each, ψ with as many slices as the partition has blocks; empty
            where the work was stopped before it began.
        losses: Their losses on the held-out rows, shape (partitions, rows); infinite there.
        interrupted: Whether the work was stopped from the keyboard.
    """

    weights: list[Weights]
    losses: Tensor
    interrupted: bool


def fit_partitions(
    model: SharedModule,
    partitions: Sequence[Labels],
    x: Tensor,
    y: Tensor,
    rows: tuple[Tensor, Tensor],
    options: FitOptions,
    *,
    seeds: Sequence[int],
    generator: torch.Generator,
    stop_early: bool = True,
    progress: ProgressCallback | None = None,
) -> PartitionFits:
    """Train a module under each partition, all of them together.

    Partitions with one seed start from the same weights, which makes their losses comparable row
    by row.

    Args:
        model: The module.
        partitions: Canonical labels, each of shape (K,).
        x: Inputs.
        y: Targets.
        rows: Those to train on, shape (n,), or (partitions, n) for each its own; and those that
            losses are reported on, likewise.
        options: How.
        seeds: Of the starting weights, one for each partition.
        generator: Draws mini-batches.
        stop_early: Whether to keep the weights that do best on the held-out rows. To compare
            partitions, do not: the best of many looks is too good, and more so the more weights
            there are.
        progress: Called now and then.

    Example:
        >>> from isotropy._run import generator
        >>> shared = SharedModule(torch.nn.Linear(3, 1), {"weight": 1}, "squared")
        >>> x = torch.randn(60, 3, generator=generator(0))
        >>> fits = fit_partitions(
        ...     shared,
        ...     [np.array([0, 0, 0]), np.array([0, 0, 1])],
        ...     x,
        ...     x.sum(1, keepdim=True),
        ...     (torch.arange(40), torch.arange(40, 60)),
        ...     FitOptions(steps=200, rate=0.1),
        ...     seeds=[0, 0],
        ...     generator=generator(0),
        ... )
        >>> apart = fits.weights[1]
        >>> bool((fits.losses < 1e-6).all()), apart["weight"].shape
        (True, torch.Size([2, 1]))
    """
    blocks = [int(labels.max()) + 1 for labels in partitions]
    # those with as many blocks go together: none is padded for another's sake by much
    order = sorted(range(len(partitions)), key=lambda i: blocks[i])
    weights: list[Weights] = [{} for _ in partitions]
    losses: list[Tensor | None] = [None for _ in partitions]
    interrupted = False
    done = 0
    try:
        while done < len(order) and not interrupted:
            together = _together(model, max(blocks[i] for i in order[done : done + _MOST_TOGETHER]))
            part = order[done : done + together]
            train, held_out = (given[part] if given.ndim == 2 else given for given in rows)
            best, loss, interrupted = _fit_together(
                model,
                [partitions[i] for i in part],
                x,
                y,
                (train, held_out),
                options,
                [seeds[i] for i in part],
                generator,
                options.checks if stop_early else 1,
            )
            for at, i in enumerate(part):
                weights[i] = {
                    name: value[at, : blocks[i]] if name in model.sites else value[at]
                    for name, value in best.items()
                }
                losses[i] = loss[at]
            done += len(part)
            if progress is not None:
                progress(Step(done, len(order), "partitions"))
    except KeyboardInterrupt:
        interrupted = True
    unknown = torch.full((rows[1].shape[-1],), math.inf)
    known = [unknown if each is None else each.cpu() for each in losses]
    return PartitionFits(weights, torch.stack(known), interrupted)


def _together(model: SharedModule, blocks: int) -> int:
    return max(1, min(_MOST_TOGETHER, _MOST_NUMBERS // max(1, model.numbers(blocks))))


def _fit_together(
    model: SharedModule,
    partitions: Sequence[Labels],
    x: Tensor,
    y: Tensor,
    rows: tuple[Tensor, Tensor],
    options: FitOptions,
    seeds: Sequence[int],
    generator: torch.Generator,
    checks: int,
) -> tuple[Weights, Tensor, bool]:
    """The weights (partitions, …) that did best at a check, with their held-out losses."""
    train, held_out = rows
    blocks = max(int(labels.max()) + 1 for labels in partitions)
    weights = {name: value.requires_grad_() for name, value in model.initial(seeds, blocks).items()}
    of_site = weights[next(iter(model.sites))]
    one_hot = torch.eye(blocks, dtype=of_site.dtype, device=of_site.device)
    assignment = one_hot[torch.as_tensor(np.stack(partitions), device=of_site.device)]
    stepper = batched_adamw(weights, options.rate, options.weight_decay)
    every = max(1, options.steps // checks)
    best = {name: value.detach().clone() for name, value in weights.items()}
    with torch.no_grad():
        best_losses = model.losses(weights, assignment, x, y, held_out)
    unchecked = torch.ones(len(best_losses), dtype=torch.bool, device=best_losses.device)
    interrupted = False
    try:
        for step in range(1, options.steps + 1):
            rate = options.rate * (1 + math.cos(math.pi * (step - 1) / options.steps)) / 2
            for group in stepper.param_groups:
                group["lr"] = rate
            chosen = random_rows(train, options.batch, generator)
            take_step(stepper, weights, model.losses(weights, assignment, x, y, chosen).mean(1))
            if step % every == 0 or step == options.steps:
                with torch.no_grad():
                    losses = model.losses(weights, assignment, x, y, held_out)
                better = (losses.mean(1) < best_losses.mean(1)) | unchecked
                unchecked[:] = False
                best_losses[better] = losses[better]
                for name, value in weights.items():
                    best[name][better] = value.detach()[better]
    except KeyboardInterrupt:
        interrupted = True
    return best, best_losses, interrupted
