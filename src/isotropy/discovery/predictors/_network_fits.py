"""Networks of three hidden layers, several for each half of the rows, and kernels."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor
from torch.nn import functional

from isotropy.discovery.predictors._free_predictor import Task
from isotropy.discovery.predictors._kernel_predictor import choose_kernel, fit_kernel
from isotropy.discovery.predictors._polynomial_fits import Smooth

_MEMBERS, _WIDTH, _STEPS, _BATCH, _RATE = 4, 128, 2000, 256, 3e-3
_CHECKED_EVERY, _FEWEST_STEPS = 50, 800


def kernel_pair(
    x: Tensor, y: Tensor, task: Task, width: int, halves: Sequence[Tensor], channels: int = 1
) -> tuple[Smooth, Smooth]:
    """One kernel, chosen on all rows, fitted to each half.

    Args:
        x: Inputs, shape ``(N, n)``.
        y: Targets, shape ``(N, m)``, or classes ``(N,)``.
        task: What the targets are.
        width: The number of outputs.
        halves: Rows of each half.
        channels: Columns at each position of the input.
    """
    classify = task == "classification"
    values = functional.one_hot(y, width).double() if classify else y.double()
    rows = torch.cat(list(halves))
    rows = rows[torch.randperm(len(rows), generator=torch.Generator().manual_seed(0))]
    unit = (x[rows] - x[rows].mean(0)) / x[rows].std(0).clamp_min(1e-12)
    choice = choose_kernel(unit, values[rows] - values[rows].mean(0), channels)
    classes = width if classify else None
    first, second = (
        fit_kernel(x[half], y[half], choice, channels=channels, classes=classes) for half in halves
    )
    return first, second


def network_pair(
    x: Tensor, y: Tensor, task: Task, width: int, halves: Sequence[Tensor], rng: torch.Generator
) -> tuple[Smooth, Smooth]:
    """Networks of three hidden layers, several for each half, trained as one batch.

    Each is kept as it was when it did best on the other half.

    Args:
        x: Inputs of about unit size, shape ``(N, n)``.
        y: Targets, shape ``(N, m)``, or classes ``(N,)``.
        task: What the targets are.
        width: The number of outputs.
        halves: Rows of each half.
        rng: Of weights and batches.
    """
    classify = task == "classification"
    shift = torch.zeros(1, dtype=torch.float64) if classify else y.mean(0)
    unit: Tensor = torch.ones(1, dtype=torch.float64) if classify else y.std(0).clamp_min(1e-300)
    targets = y if classify else ((y - shift) / unit).float()
    inputs = x.float()
    sizes = [x.shape[1], _WIDTH, _WIDTH, _WIDTH, width]
    parameters: list[Tensor] = []
    for a, b in pairwise(sizes):
        parameters.append((torch.randn(_MEMBERS, a, b, generator=rng) / a**0.5).requires_grad_())
        parameters.append(torch.zeros(_MEMBERS, 1, b).requires_grad_())
    own = [halves[k % 2] for k in range(_MEMBERS)]
    other = [halves[(k + 1) % 2] for k in range(_MEMBERS)]
    shortest = min(map(len, other))
    checks = torch.stack(
        [rows[torch.randperm(len(rows), generator=rng)[:shortest]][:2000] for rows in other]
    )

    def losses(rows: Tensor, at: Sequence[Tensor]) -> Tensor:
        out = _forward(inputs[rows], at)
        if classify:
            entropies: Tensor = (
                functional.cross_entropy(
                    out.flatten(0, 1), targets[rows].flatten(), reduction="none"
                )
                .unflatten(0, rows.shape)
                .mean(1)
            )
            return entropies
        return (out - targets[rows]).square().mean((1, 2))

    solver = torch.optim.AdamW(parameters, lr=_RATE, weight_decay=1e-4)
    steps = min(_STEPS, max(_FEWEST_STEPS, 5 * min(map(len, own))))
    schedule = torch.optim.lr_scheduler.OneCycleLR(solver, _RATE, total_steps=steps, pct_start=0.1)
    best = torch.full((_MEMBERS,), torch.inf)
    kept = [p.detach().clone() for p in parameters]
    batch = min(_BATCH, *map(len, own))
    for step in range(1, steps + 1):
        rows = torch.stack(
            [mine[torch.randint(len(mine), (batch,), generator=rng)] for mine in own]
        )
        solver.zero_grad()
        losses(rows, parameters).sum().backward()
        solver.step()
        schedule.step()
        if step % _CHECKED_EVERY == 0:
            with torch.no_grad():
                reached = losses(checks, parameters)
            better = reached < best
            best = torch.where(better, reached, best)
            for saved, now in zip(kept, parameters, strict=True):
                saved[better] = now.detach()[better]

    def half(which: int) -> Smooth:
        mine = [p[which::2] for p in kept]

        def predict(z: Tensor) -> Tensor:
            out = _forward(z.float().expand(_MEMBERS // 2, *z.shape), mine)
            mean: Tensor = out.double().mean(0) * unit + shift
            return mean

        return predict

    return half(0), half(1)


def _forward(x: Tensor, parameters: Sequence[Tensor]) -> Tensor:
    for at in range(0, len(parameters) - 2, 2):
        x = functional.silu(torch.baddbmm(parameters[at + 1], x, parameters[at]))
    return torch.baddbmm(parameters[-1], x, parameters[-2])
