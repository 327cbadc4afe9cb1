"""Gradient descent over a sample in memory: batches, a cosine schedule, checkpoints."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from isotropy._run import Checkpoint, ProgressCallback, Step

Optimiser = Literal["adam", "sgd"]
_WARM_STEPS = 100
_CHUNK = 10_000
_SECONDS_BETWEEN_SAVES = 20.0


@dataclass(frozen=True)
class Descent:
    """How to descend.

    Args:
        epochs: Passes over the sample.
        batch: Rows in a step; ``None`` takes all of them in every step (full batch).
        optimiser: ``"adam"``, or ``"sgd"`` with momentum 0.9 (none for a full batch).
        weight_decay: Times half the squared length of what is trained, added to the loss.
        clip: The longest gradient; ``None`` for no limit.
        seed: Of the order of the rows.
    """

    epochs: int
    batch: int | None = 500
    optimiser: Optimiser = "adam"
    weight_decay: float = 0.0
    clip: float | None = None
    seed: int = 0


def descend(
    loss: Callable[[Tensor, Tensor], Tensor],
    trained: Sequence[tuple[Tensor, float]],
    x: Tensor,
    y: Tensor,
    how: Descent,
    *,
    name: str = "training",
    augment: Callable[[Tensor, torch.Generator], Tensor] | None = None,
    progress: ProgressCallback | None = None,
    checkpoint: Checkpoint | None = None,
) -> None:
    """Lower a loss in place.

    The learning rate rises over a few steps and falls along a cosine to 0. The order of the rows
    depends on the seed and the epoch alone, so that a resumed run goes on as if it had not
    stopped.

    Args:
        loss: The mean loss of the rows (x, y) as a function of what is trained.
        trained: Tensors and the learning rate of each.
        x: Inputs, where the work is done.
        y: Targets, there too.
        how: The schedule.
        name: What to call the work in messages.
        augment: Changes a batch of inputs at random.
        progress: Called after each epoch.
        checkpoint: Where to save, about three times a minute and when interrupted.

    Raises:
        KeyboardInterrupt: When interrupted, once the epochs before are saved.
    """
    if how.epochs == 0:
        return
    optimiser = _optimiser(trained, how)
    rates = [rate for _, rate in trained]
    steps = 1 if how.batch is None else max(1, len(x) // how.batch)
    first = _resume(optimiser, trained, checkpoint)
    saved = time.monotonic()
    for epoch in range(first, how.epochs):
        # what an interruption in the middle of the epoch goes back to
        before = None if checkpoint is None else _state(optimiser, trained)
        try:
            _epoch(loss, optimiser, rates, trained, x, y, how, steps, epoch, augment)
            if progress is not None:
                progress(Step(epoch + 1, how.epochs, f"{name}, epoch {epoch + 1} of {how.epochs}"))
        except KeyboardInterrupt:
            if checkpoint is not None and before is not None and epoch:
                checkpoint.save(before, {"epochs": epoch})
            raise
        if checkpoint is not None and time.monotonic() - saved > _SECONDS_BETWEEN_SAVES:
            checkpoint.save(_state(optimiser, trained), {"epochs": epoch + 1})
            saved = time.monotonic()


def _epoch(
    loss: Callable[[Tensor, Tensor], Tensor],
    optimiser: torch.optim.Optimizer,
    rates: list[float],
    trained: Sequence[tuple[Tensor, float]],
    x: Tensor,
    y: Tensor,
    how: Descent,
    steps: int,
    epoch: int,
    augment: Callable[[Tensor, torch.Generator], Tensor] | None,
) -> None:
    order = torch.Generator().manual_seed(how.seed * 1_000_003 + epoch)
    for step, rows in enumerate(_rows(len(x), how.batch, steps, order)):
        factor = _factor(epoch * steps + step, how.epochs * steps)
        for group, rate in zip(optimiser.param_groups, rates, strict=True):
            group["lr"] = rate * factor
        optimiser.zero_grad(set_to_none=True)
        for part in rows:
            index = part.to(x.device)
            batch = x[index] if augment is None else augment(x[index], order)
            share = len(part) / sum(map(len, rows))
            (share * loss(batch, y[index])).backward()
        if how.clip is not None:
            torch.nn.utils.clip_grad_norm_([tensor for tensor, _ in trained], how.clip)
        optimiser.step()


def _optimiser(trained: Sequence[tuple[Tensor, float]], how: Descent) -> torch.optim.Optimizer:
    groups = [{"params": [tensor], "lr": rate} for tensor, rate in trained]
    if how.optimiser == "adam":
        # one kernel for all tensors where there is one
        return torch.optim.Adam(
            groups, weight_decay=how.weight_decay, fused=trained[0][0].is_cuda or None
        )
    if how.optimiser == "sgd":
        return torch.optim.SGD(
            groups, momentum=0.0 if how.batch is None else 0.9, weight_decay=how.weight_decay
        )
    raise ValueError(f"expected the optimiser adam or sgd, got {how.optimiser!r}")


def _rows(
    n: int, batch: int | None, steps: int, order: torch.Generator
) -> Iterator[tuple[Tensor, ...]]:
    """The rows of each step, in parts that fit in memory together with their activations."""
    if batch is None:
        yield torch.arange(n).split(_CHUNK)
        return
    shuffled = torch.randperm(n, generator=order)
    for step in range(steps):
        yield (shuffled[step * batch : (step + 1) * batch],)


def _factor(step: int, steps: int) -> float:
    warm = min(1.0, (step + 1) / min(_WARM_STEPS, max(1, steps // 10)))
    return warm * 0.5 * (1 + math.cos(math.pi * step / steps))


def _state(
    optimiser: torch.optim.Optimizer, trained: Sequence[tuple[Tensor, float]]
) -> dict[str, Tensor]:
    tensors = {f"trained.{i}": tensor.detach().clone() for i, (tensor, _) in enumerate(trained)}
    for i, (tensor, _) in enumerate(trained):
        for key, value in optimiser.state[tensor].items():
            tensors[f"state.{i}.{key}"] = torch.as_tensor(value).clone()
    return tensors


def _resume(
    optimiser: torch.optim.Optimizer,
    trained: Sequence[tuple[Tensor, float]],
    checkpoint: Checkpoint | None,
) -> int:
    found = None if checkpoint is None else checkpoint.load()
    if found is None:
        return 0
    tensors, state = found
    for i, (tensor, _) in enumerate(trained):
        with torch.no_grad():
            tensor.copy_(tensors[f"trained.{i}"])
        prefix = f"state.{i}."
        kept: dict[str, Any] = {}
        for key, value in tensors.items():
            if key.startswith(prefix):
                name = key.removeprefix(prefix)
                on_cpu = name == "step" and not tensor.is_cuda
                kept[name] = value if on_cpu else value.to(tensor.device)
        optimiser.state[tensor] = kept
    return int(state["epochs"])
