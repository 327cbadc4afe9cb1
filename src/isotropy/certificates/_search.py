"""Training a network that a short message can say: free weights first, then quantised ones."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from isotropy._run import Checkpoint, ProgressCallback
from isotropy.certificates._descent import Descent, descend
from isotropy.certificates._goal import Goal
from isotropy.certificates._quantised import Quantised
from isotropy.certificates._recipe import Recipe
from isotropy.certificates._subspace import Subspace

_TIMED_STEPS = 6


def quantised_weights(
    space: Subspace,
    goal: Goal,
    x: Tensor,
    y: Tensor,
    recipe: Recipe,
    *,
    seed: int = 0,
    progress: ProgressCallback | None = None,
    checkpoints: Path | None = None,
    fingerprint: str = "",
) -> tuple[np.ndarray, np.ndarray]:
    """Train the weights of a subspace until few values do.

    Args:
        space: Where to look, on the device of the data; its weights are left at the free optimum.
        goal: What to learn.
        x: Inputs as the network takes them.
        y: Targets.
        recipe: How.
        seed: Of the order of the rows.
        progress: Told after each epoch.
        checkpoints: A folder for checkpoints, from which an interrupted run goes on.
        fingerprint: Names the run.

    Returns:
        The symbol of each weight, and the codebook of ascending 16-bit levels that are used.
    """
    if space.d == 0:
        return np.zeros(0, np.int64), np.zeros(0, np.float16)
    # Adam moves every weight by its rate, and P spreads d of them over D parameters
    spread = math.sqrt(space.D / space.d)
    asked = recipe.on(len(x))
    recipe = _in_time(space, goal, x, y, asked)

    def checkpoint(phase: str) -> Checkpoint | None:
        if checkpoints is None:
            return None
        # what fits into the minutes is never measured to be the same twice
        return Checkpoint(checkpoints / f"{phase}.safetensors", f"{phase} {asked} {fingerprint}")

    space.train()
    descend(
        lambda rows, targets: goal.loss(space(rows), targets),
        [(space.weights, recipe.rate * spread)],
        x,
        y,
        recipe.free(seed),
        name="training",
        progress=progress,
        checkpoint=checkpoint("free"),
    )
    quantised = Quantised(space.weights, recipe.levels, recipe.codebook).to(x.device)
    rate = recipe.quantised_rate * spread
    descend(
        lambda rows, targets: goal.loss(space(rows, weights=quantised()), targets),
        [(quantised.weights, rate), (quantised.codebook, rate)],
        x,
        y,
        recipe.quantised(seed),
        name="quantising",
        progress=progress,
        checkpoint=checkpoint("quantised"),
    )
    return used_levels(quantised.symbols(), quantised.levels())


def used_levels(symbols: Tensor, levels: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Symbols and codebook with the levels ascending, each once, and none unused."""
    values = levels.detach().half().cpu().numpy()[symbols.cpu().numpy()]
    codebook, fewer = np.unique(values + np.float16(0), return_inverse=True)
    return fewer.astype(np.int64), codebook


def _in_time(space: Subspace, goal: Goal, x: Tensor, y: Tensor, recipe: Recipe) -> Recipe:
    """The recipe with as many epochs as fit into its minutes."""
    if recipe.minutes is None:
        return recipe
    trial = space.weights.detach().clone().requires_grad_()
    batch = min(len(x), recipe.batch or len(x))
    rows = (x[: batch * 2], y[: batch * 2])
    how = Descent(_TIMED_STEPS, batch)
    descend(lambda a, b: goal.loss(space(a, weights=trial), b), [(trial, 0.0)], *rows, how)
    began = time.monotonic()
    descend(lambda a, b: goal.loss(space(a, weights=trial), b), [(trial, 0.0)], *rows, how)
    if x.is_cuda:
        torch.cuda.synchronize()
    taken = _TIMED_STEPS * max(1, len(rows[0]) // batch)
    epoch = (time.monotonic() - began) / taken * (len(x) / batch)
    free, quantised = recipe.epochs or 0, recipe.quantised_epochs or 0
    share = min(1.0, 60 * recipe.minutes / (epoch * max(1, free + quantised)))
    return replace(
        recipe,
        epochs=min(free, max(1, int(share * free))),
        quantised_epochs=min(quantised, max(1, int(share * quantised))),
    )
