"""Whether transition models can be trained as one, with stacked weights."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from isotropy.nn import tensor_priors
from isotropy.rl import TransitionModel


def require_same_architecture(models: Sequence[TransitionModel]) -> None:
    """Accept models only if they differ in nothing but weights and scales.

    All others would be trained with the bases and the priors of the first.

    Args:
        models: One or more.

    Raises:
        ValueError: If one differs from the first in kind, size, symmetry or prior.

    Example:
        >>> from isotropy.rl import EnvironmentSymmetry
        >>> flip = EnvironmentSymmetry.of([[[-1.0]]], [[[-1.0]]])
        >>> models = [TransitionModel(flip, "rpp", widths=(8,), seed=seed) for seed in (0, 1)]
        >>> require_same_architecture(models)
        >>> require_same_architecture(
        ...     [*models, TransitionModel(flip, "rpp", widths=(8,), variances=(1.0, 1.0))]
        ... )
        Traceback (most recent call last):
        ...
        ValueError: expected models that differ in their weights only, got other symmetries or...
    """
    first = models[0]
    for other in models[1:]:
        if first.kind != other.kind or _sizes(first) != _sizes(other):
            raise ValueError("expected models of one kind and size, got some that differ")
        pairs = [(tables(first), tables(other)) for tables in (_constants, _priors)]
        if not all(_same(ours, theirs) for ours, theirs in pairs):
            raise ValueError(
                "expected models that differ in their weights only, got other symmetries or priors"
            )


def _sizes(model: TransitionModel) -> list[tuple[str, torch.Size]]:
    return [(name, weight.shape) for name, weight in model.named_parameters()]


def _constants(model: TransitionModel) -> dict[str, Tensor | None]:
    """Buffers of the network, such as bases of its layers; scales are the model's own."""
    return dict(model.network.named_buffers())


def _priors(model: TransitionModel) -> dict[str, Tensor | None]:
    found: dict[str, Tensor | None] = {}
    for prior in tensor_priors(model.network):
        found[f"{prior.name} variance"] = prior.log_variance
        found[f"{prior.name} lengths"] = prior.squared_lengths
    return found


def _same(ours: dict[str, Tensor | None], theirs: dict[str, Tensor | None]) -> bool:
    return ours.keys() == theirs.keys() and all(
        _equal(value, theirs[name]) for name, value in ours.items()
    )


def _equal(ours: Tensor | None, theirs: Tensor | None) -> bool:
    if ours is None or theirs is None:
        return ours is theirs
    return torch.equal(ours, theirs.to(ours.device))
