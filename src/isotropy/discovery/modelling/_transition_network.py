"""The network of a symmetry of transitions: from (s, a) to s′ − s, in units that keep it."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import Any

import torch
from torch import Tensor

from isotropy.discovery.claims._signed_permutation import SignedPermutation
from isotropy.discovery.modelling._modelling_thresholds import ModellingThresholds
from isotropy.discovery.modelling._standardised import StandardisedModel, build_model
from isotropy.discovery.modelling._symmetric_model import FitDraws, in_units_of, train_network
from isotropy.discovery.reading._transition_data import TransitionData
from isotropy.reps import Symmetry

_CONSTANT = 1e-12  # of entries: what varies less is constant but for rounding


def network_spec(symmetry: Symmetry) -> dict[str, Any]:
    """The description of an equivariant network, with regular representations in its layers.

    It has about as many weights for a large group as for a small one.

    Example:
        >>> from isotropy.groups import Z
        >>> from isotropy.reps import Scalar, V
        >>> network_spec(Symmetry(Z(2), V, Scalar))["channels"]
        '127*Regular'
    """
    order, limits = int(symmetry.group.order()), ModellingThresholds.now()
    width = min(limits.transition_width * sqrt(order), limits.transition_widest)
    copies = max(1, int(width) // order)
    return {
        "kind": "emlp",
        "channels": f"{copies}*Regular",
        "layers": limits.model_layers,
        "bilinear": False,  # entries of a regular representation go through any nonlinearity
    }


def fit_transition_network(
    symmetry: Symmetry, elements: Sequence[SignedPermutation], seen: TransitionData, seed: int
) -> tuple[StandardisedModel, dict[str, Any]]:
    """An equivariant network, fitted to some rows.

    Returns:
        The model, in units of the data, and the description that ``build_model`` takes.
    """
    spec = network_spec(symmetry)
    draws = FitDraws.of(seed, len(seen.x), seen.groups)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(draws.weights)
        network = build_model(spec, symmetry)
    model = StandardisedModel(
        network, *kept_units(seen.x, elements), *kept_units(seen.increments, elements)
    )
    inputs, targets = in_units_of(model, seen.x, seen.increments, "regression")
    limits = ModellingThresholds.now()
    # seen to want larger steps, the more places share a weight
    rate, steps = limits.transition_rate * sqrt(len(elements)), limits.transition_steps
    train_network(network, inputs, targets, "regression", draws, steps=steps, learning_rate=rate)
    return model.requires_grad_(True).eval(), {"kind": "standardised", "model": spec}


def kept_units(columns: Tensor, elements: Sequence[SignedPermutation]) -> tuple[Tensor, Tensor]:
    """A mean that the group leaves as it is, and a scale for all columns that it exchanges.

    Returns:
        The mean and the scale, shape (d,) each.

    Example:
        >>> flip = SignedPermutation((0, 1), (-1, 1))
        >>> mean, scale = kept_units(
        ...     torch.tensor([[3.0, 1.0], [3.0, 3.0]]), [SignedPermutation.identity(2), flip]
        ... )
        >>> mean.tolist(), scale.tolist()
        ([0.0, 2.0], [3.0, 1.0])
    """
    width = columns.shape[1]
    mean, deviation = columns.mean(0), columns.std(0, correction=0)
    kept, variance = torch.zeros_like(mean), torch.zeros_like(mean)
    for element in elements:
        index, sign = torch.tensor(element.index)[:width], torch.tensor(element.sign)[:width]
        kept += mean[index] * sign
        variance += deviation[index] ** 2 + mean[index] ** 2
    kept /= len(elements)
    scale = (variance / len(elements) - kept**2).clamp_min(0).sqrt()
    constant = scale <= _CONSTANT * (1 + columns.abs().amax(0))
    return kept, torch.where(constant, 1.0, scale)
