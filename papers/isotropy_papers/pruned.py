"""The other way to a short message: a network of which few weights are left, each one coded."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from isotropy.certificates import (
    Architecture,
    Certificate,
    CertificationOptions,
    Quantised,
    Recipe,
    architecture,
    certify,
    initial_parameters,
)

_MOST_LEVELS = 256
# all parameters move, so a step is as ordinary training takes it; what is left after pruning has
# two lobes and a gap around 0, which equal bins would spend levels on
_RECIPE = Recipe(rate=0.002, quantised_rate=0.0005, codebook="kmeans")


def certify_pruned(
    model: str | Architecture | nn.Module,
    data: Any,
    *,
    keep: float = 0.012,
    rounds: int = 5,
    recipe: Recipe | None = None,
    seed: int = 0,
    options: CertificationOptions | None = None,
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
        recipe: How to train: its epochs are shared by the first training and the rounds, and its
            levels are all values, 0 among them. Subspaces (``d``, ``projector``) have no part in
            it.
        seed: Of the start and the order of the rows; no part of the message.
        options: As for `certify`; the start is zero, and pruning is the search.
        **settings: What `certify` takes besides, and changes to the recipe: ``levels=5``.

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
    if not 0 < keep <= 1:
        raise ValueError(f"expected a share above 0 and up to 1 to keep, got {keep}")
    if rounds < 1:
        raise ValueError(f"expected at least 1 round of pruning, got {rounds}")
    recipe = recipe or _RECIPE
    d, levels = settings.get("d", recipe.d), settings.get("levels", recipe.levels)
    if d is not None:
        raise ValueError(f"expected no dimension for a pruned network, got d = {d}")
    if not 2 <= levels <= _MOST_LEVELS:
        raise ValueError(f"expected 2 to {_MOST_LEVELS} levels, got {levels}")
    search = _Pruning(model, keep, rounds, seed)
    certificate = certify(
        model,
        data,
        recipe=recipe,
        options=replace(options or CertificationOptions(), start="zero", search=search),
        **{**settings, "projector": "identity"},
    )
    return replace(certificate, notes={**(certificate.notes or {}), "keep": keep, "rounds": rounds})


def largest(values: Tensor, count: int) -> Tensor:
    """The places of the entries of largest magnitude, ascending; ties go to earlier places.

    Example:
        >>> largest(torch.tensor([0.1, -3.0, 2.0, 0.0]), 2).tolist()
        [1, 2]
    """
    order = torch.argsort(values.abs(), descending=True, stable=True)
    return order[:count].sort().values


@dataclass(frozen=True)
class _Pruning:
    """The search of `certify_pruned`: all parameters of a network are one vector of weights."""

    model: str | Architecture | nn.Module
    keep: float
    rounds: int
    seed: int

    def __call__(self, training: Any) -> tuple[Tensor, Tensor]:
        """The symbol of every parameter, and the levels: 0 where a weight was removed."""
        run = f"{training.fingerprint} {self.keep} {self.rounds} {self.seed}"
        training = replace(training, fingerprint=run)
        training.space.train()
        with torch.no_grad():
            training.space.weights.copy_(self._drawn(training))
        left = self._pruned(training)
        weights, recipe = training.space.weights.detach(), training.recipe
        values = Quantised(weights[left], recipe.levels - 1, recipe.codebook).to(weights)
        both = [(tensor, recipe.quantised_rate) for tensor in (values.weights, values.codebook)]
        training.lower(
            lambda: _spread(len(weights), left, values()),
            both,
            recipe.quantised(self.seed),
            "quantising",
            "quantising",
        )
        symbols = torch.zeros(len(weights), dtype=torch.int64, device=weights.device)
        symbols[left] = 1 + values.symbols()
        return symbols, torch.cat([weights.new_zeros(1), values.levels()])

    def _drawn(self, training: Any) -> Tensor:
        module = self.model
        if not isinstance(module, nn.Module):
            named = architecture(module) if isinstance(module, str) else module
            module = named.build(tuple(training.x.shape[1:]), training.goal.outputs)
        drawn = initial_parameters(module, self.seed)
        return torch.cat([value.flatten() for value in drawn.values()])

    def _pruned(self, training: Any) -> Tensor:
        """Train and prune in turns; the places of the weights that are left, zeros elsewhere."""
        weights, recipe = training.space.weights, training.recipe
        passes = -(-(recipe.epochs or 0) // (self.rounds + 1))
        how = replace(recipe.free(self.seed), epochs=passes)
        left = torch.arange(len(weights), device=weights.device)
        for done in range(self.rounds + 1):
            if done:
                count = max(1, round(len(weights) * self.keep ** (done / self.rounds)))
                left = left[largest(weights.detach()[left], min(count, len(left)))]
            free = weights.detach()[left].requires_grad_()
            at = partial(_spread, len(weights), left, free)
            name = f"pruning, round {done}"
            training.lower(at, [(free, recipe.rate)], how, name, f"pruning-{done}")
            with torch.no_grad():
                weights.zero_()[left] = free
        return left


def _spread(size: int, places: Tensor, values: Tensor) -> Tensor:
    """A vector with these values in these places, and zeros elsewhere."""
    return values.new_zeros(size).index_put((places,), values)
