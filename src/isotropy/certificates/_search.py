"""Training a network that a short message can say: free weights first, then quantised ones."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

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


@dataclass(frozen=True, eq=False)
class SubspaceTraining:
    """A network in its subspace and the rows it learns from: what a search is given.

    Args:
        space: Where to look, on the device of the data.
        goal: What to learn.
        x: Inputs as the network takes them.
        y: Targets.
        asked: How to train, as it was asked for.
        seed: Of the order of the rows.
        progress: Called after each epoch.
        folder: For checkpoints, from which an interrupted run goes on.
        fingerprint: Names the run.
    """

    space: Subspace
    goal: Goal
    x: Tensor
    y: Tensor
    asked: Recipe
    seed: int = 0
    progress: ProgressCallback | None = None
    folder: Path | None = None
    fingerprint: str = ""

    @cached_property
    def recipe(self) -> Recipe:
        """The recipe, all that depends on the rows filled in, in the minutes it allows."""
        return _in_time(self.space, self.goal, self.x, self.y, self.asked.on(len(self.x)))

    def lower(
        self,
        weights: Callable[[], Tensor],
        trained: Sequence[tuple[Tensor, float]],
        how: Descent,
        name: str,
        phase: str,
    ) -> None:
        """Lower the loss of the network at ``weights()``."""
        checkpoint = None
        if self.folder is not None:
            # what fits into the minutes is never measured to be the same twice
            run = f"{phase} {self.asked.on(len(self.x))} {self.fingerprint}"
            checkpoint = Checkpoint(self.folder / f"{phase}.safetensors", run)
        descend(
            lambda rows, targets: self.goal.loss(self.space(rows, weights=weights()), targets),
            trained,
            self.x,
            self.y,
            how,
            name=name,
            progress=self.progress,
            checkpoint=checkpoint,
        )


Search: TypeAlias = Callable[[SubspaceTraining], tuple[Tensor, Tensor]]
"""From a training to the symbol of each weight, and the levels that they stand for."""


def quantised_weights(training: SubspaceTraining) -> tuple[Tensor, Tensor]:
    """Train the weights of a subspace, which are left at the free optimum, until few values do."""
    space, recipe = training.space.train(), training.recipe
    # Adam moves every weight by its rate, and P spreads d of them over D parameters
    spread = math.sqrt(space.D / space.d)
    free = [(space.weights, recipe.rate * spread)]
    training.lower(lambda: space.weights, free, recipe.free(training.seed), "training", "free")
    quantised = Quantised(space.weights, recipe.levels, recipe.codebook).to(training.x.device)
    rate = recipe.quantised_rate * spread
    both = [(quantised.weights, rate), (quantised.codebook, rate)]
    how = recipe.quantised(training.seed)
    training.lower(quantised, both, how, "quantising", "quantised")
    return quantised.symbols(), quantised.levels()


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
