"""The other way to a short message: a network of which few weights are left, each one coded."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from isotropy._run import Checkpoint, ProgressCallback
from isotropy.certificates._architectures import Architecture
from isotropy.certificates._certificate import Certificate
from isotropy.certificates._certify import (
    _fingerprint,
    _groups,
    _known,
    _versions,
    certificate_of,
)
from isotropy.certificates._descent import descend
from isotropy.certificates._goal import Goal
from isotropy.certificates._hypothesis import MOST_DIMENSIONS, MOST_LEVELS, Hypothesis
from isotropy.certificates._initial import initial_parameters
from isotropy.certificates._problem import problem, require_untrained
from isotropy.certificates._quantised import Quantised
from isotropy.certificates._recipe import Recipe
from isotropy.certificates._search import _in_time, used_levels
from isotropy.certificates._subspace import Subspace
from isotropy.groups import Group

# all parameters move, so a step is as ordinary training takes it; what is left after pruning has
# two lobes and a gap around 0, which equal bins would spend levels on
_RECIPE = Recipe(rate=0.002, quantised_rate=0.0005, codebook="kmeans")


def certify_pruned(
    model: str | Architecture | nn.Module,
    data: Any,
    *,
    keep: float = 0.012,
    rounds: int = 5,
    delta: float = 0.05,
    test: Any = None,
    recipe: Recipe | None = None,
    seed: int = 0,
    classes: int | None = None,
    tolerance: float | None = None,
    input_scale: float | None = None,
    symmetry: str | Group | Sequence[str | Group] | None = None,
    device: str | torch.device = "cpu",
    progress: ProgressCallback | None = None,
    checkpoints: str | os.PathLike[str] | None = None,
    **settings: Any,
) -> Certificate:
    """Train a network, prune it by magnitude, quantise what is left, and bound its risk.

    The baseline that `certify` is measured against (thesis Table A.18): train, remove the smallest
    weights, train again, and so on (Han et al. 2015). The message holds a symbol for every one of
    the D parameters, 0 among the levels, which costs about D·H bits: the places of the weights
    that are left are the larger part of it.

    Args:
        model: An architecture of the catalogue, or any module of your own.
        data: The training sample, as for `certify`.
        keep: The share of the parameters that is left.
        rounds: In how many rounds, each of which leaves the same share of those before it.
        delta: The bound may fail with at most this probability.
        test: A test sample, to report the error on it; nothing rests on it.
        recipe: How to train: its epochs are shared by the first training and the rounds, and its
            levels are all values, 0 among them. Subspaces (``d``, ``projector``) have no part in
            it.
        seed: Of the start and the order of the rows; no part of the message.
        classes: How many; by default one more than the largest label.
        tolerance: For a regression: an error is a number missed by more than this.
        input_scale: Inputs are divided by this; 16 bits of the message.
        symmetry: The groups that a module of your own uses, to be paid for.
        device: Where to train; counting is done in float64 on the CPU.
        progress: Told how far the work is.
        checkpoints: A folder from which an interrupted run goes on.
        **settings: Changes to the recipe: ``levels=5, epochs=20``.

    Returns:
        The certificate; `verify` checks it like any other.

    Raises:
        ValueError: If the data are not a sample of the kind asked for, a number is out of range,
            or the model does not fit.

    Example:
        >>> from isotropy import verify
        >>> x = torch.randn(2000, 2, generator=torch.Generator().manual_seed(0))
        >>> y = (x[:, 0] > x[:, 1]).long()
        >>> settings = {"levels": 3, "epochs": 12, "quantised_epochs": 4}
        >>> certificate = certify_pruned("mlp-16", (x, y), keep=0.3, **settings)
        >>> verify(certificate, (x, y)).valid, certificate.bound < 0.2
        (True, True)
    """
    if not 0 < delta < 1:
        raise ValueError(f"expected delta between 0 and 1, got {delta}")
    if not 0 < keep <= 1:
        raise ValueError(f"expected a share above 0 and up to 1 to keep, got {keep}")
    if rounds < 1:
        raise ValueError(f"expected at least 1 round of pruning, got {rounds}")
    recipe = replace(recipe or _RECIPE, **_known(settings))
    if recipe.d is not None:
        raise ValueError(f"expected no dimension for a pruned network, got d = {recipe.d}")
    if not 2 <= recipe.levels <= MOST_LEVELS:
        raise ValueError(f"expected 2 to {MOST_LEVELS} levels, got {recipe.levels}")
    given = problem(model, data, test, classes, tolerance, input_scale)
    sample, goal, module, named = given.sample, given.goal, given.module, given.architecture
    scale, total = given.input_scale, given.parameters
    require_untrained(module)
    if total > MOST_DIMENSIONS:
        raise ValueError(f"expected at most {MOST_DIMENSIONS} parameters to code, got {total}")
    hypothesis = Hypothesis(
        named,
        goal,
        projector="identity",
        start="zero",
        input_scale=scale,
        groups=_groups(symmetry, named),
    )
    space = Subspace(module, total, projector="identity", start="zero").to(device)
    drawn = initial_parameters(module, seed)
    with torch.no_grad():
        space.weights.copy_(torch.cat([value.flatten() for value in drawn.values()]))
    training = _Training(
        space,
        goal,
        given.inputs(sample.x, device),
        sample.y.to(device),
        recipe,
        seed,
        progress,
        None if checkpoints is None else Path(checkpoints),
        _fingerprint("pruned", given.text, sample, seed, scale, goal, keep, rounds),
    )
    symbols, codebook = training.quantised(training.pruned(keep, rounds))
    hypothesis = replace(hypothesis, symbols=symbols, codebook=codebook)
    return certificate_of(
        hypothesis,
        module,
        sample,
        delta=delta,
        model=given.text,
        test=given.test,
        notes={"recipe": asdict(recipe), "keep": keep, "rounds": rounds, "versions": _versions()},
        progress=progress,
    )


def largest(values: Tensor, count: int) -> Tensor:
    """The places of the entries of largest magnitude, ascending; ties go to earlier places.

    Example:
        >>> largest(torch.tensor([0.1, -3.0, 2.0, 0.0]), 2).tolist()
        [1, 2]
    """
    order = torch.argsort(values.abs(), descending=True, stable=True)
    return order[:count].sort().values


class _Training:
    """All parameters of a network as one vector, and the rows they are trained on."""

    def __init__(
        self,
        space: Subspace,
        goal: Goal,
        x: Tensor,
        y: Tensor,
        recipe: Recipe,
        seed: int,
        progress: ProgressCallback | None,
        folder: Path | None,
        fingerprint: str,
    ) -> None:
        self.space, self.goal, self.x, self.y = space.train(), goal, x, y
        self.recipe = _in_time(space, goal, x, y, recipe.on(len(x)))
        self.seed, self.progress = seed, progress
        self.folder, self.fingerprint = folder, fingerprint

    def pruned(self, keep: float, rounds: int) -> Tensor:
        """Train and prune in turns.

        Returns:
            The places of the weights that are left; the space holds their values, and zeros.
        """
        weights = self.space.weights
        passes = -(-(self.recipe.epochs or 0) // (rounds + 1))
        left = torch.arange(len(weights), device=weights.device)
        for done in range(rounds + 1):
            if done:
                count = max(1, round(len(weights) * keep ** (done / rounds)))
                left = left[largest(weights.detach()[left], min(count, len(left)))]
            free = weights.detach()[left].requires_grad_()
            self._lower(partial(self._at, left, free), [free], passes, done)
            with torch.no_grad():
                weights.zero_()[left] = free
        return left

    def quantised(self, left: Tensor) -> tuple[np.ndarray, np.ndarray]:
        """Train the weights that are left until few values do.

        Returns:
            The symbol of every parameter, and the codebook, 0 in it where a weight was removed.
        """
        weights = self.space.weights.detach()
        values = Quantised(weights[left], self.recipe.levels - 1, self.recipe.codebook).to(weights)
        trained = [values.weights, values.codebook]
        passes = self.recipe.quantised_epochs or 0
        self._lower(lambda: self._at(left, values()), trained, passes, None)
        symbols = torch.zeros(len(weights), dtype=torch.int64, device=weights.device)
        symbols[left] = 1 + values.symbols()
        return used_levels(symbols, torch.cat([weights.new_zeros(1), values.levels()]))

    def _at(self, left: Tensor, values: Tensor) -> Tensor:
        return values.new_zeros(self.space.d).index_put((left,), values)

    def _lower(
        self,
        weights: Callable[[], Tensor],
        trained: list[Any],
        epochs: int,
        done: int | None,
    ) -> None:
        free = done is not None
        name = f"pruning, round {done}" if free else "quantising"
        how = self.recipe.free(self.seed) if free else self.recipe.quantised(self.seed)
        rate = self.recipe.rate if free else self.recipe.quantised_rate
        checkpoint = None
        if self.folder is not None:
            place = self.folder / f"{name.replace(', round ', '-')}.safetensors"
            checkpoint = Checkpoint(place, f"{name} {self.recipe} {self.fingerprint}")
        descend(
            lambda rows, targets: self.goal.loss(self.space(rows, weights=weights()), targets),
            [(tensor, rate) for tensor in trained],
            self.x,
            self.y,
            replace(how, epochs=epochs),
            name=name,
            progress=self.progress,
            checkpoint=checkpoint,
        )
