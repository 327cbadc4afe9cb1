"""Fit the model of a continuous symmetry: an EMLP in units that commute with the group."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from isotropy.discovery.claims._generator_claim import GeneratorClaim
from isotropy.discovery.modelling._standardised import (
    StandardisedModel,
    TranslationInvariantModel,
    build_model,
    without,
)
from isotropy.discovery.modelling._symmetric_model import FitDraws, in_units_of, train_network
from isotropy.discovery.reading._task_data import TaskData
from isotropy.reps import Symmetry

_CHANNELS = 128
_LAYERS = 2
_STEPS = 800
_ROUNDING = 1e-11


def fit_continuous_model(
    claim: GeneratorClaim, data: TaskData, *, seed: int = 0
) -> tuple[StandardisedModel | TranslationInvariantModel, dict[str, Any]]:
    """Fit an EMLP that has a symmetry exactly; of what translations leave, where there are any.

    Returns:
        The model, in units of the data and in evaluation mode, and the description that
        ``build_model`` makes its like from.
    """
    inner: dict[str, Any] = {"kind": "emlp", "channels": _CHANNELS, "layers": _LAYERS}
    symmetry: Symmetry | None = claim.symmetry
    shifts = claim.translations
    x = data.x
    if shifts is not None:
        symmetry = shifts.rest
        x = without(x, torch.as_tensor(shifts.along))
        if symmetry is None:
            outputs = claim.symmetry.rep_out.size()
            inner |= {"kind": "mlp", "inputs": x.shape[1], "outputs": outputs}
    if claim.scaling is not None:
        # an EMLP has few weights that scalings leave: what they do is done by the length instead
        inner = {
            "kind": "homogeneous",
            "model": inner,
            "symmetry": str(claim.scaling.rest),
            "columns": list(claim.scaling.columns),
            "degree": claim.scaling.degree,
        }
    draws = FitDraws.of(seed, len(data.x), data.groups)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(draws.weights)
        network = build_model(inner, symmetry)
    x_mean, x_scale = _input_units(claim, x, data.x.abs().amax(0))
    y_mean, y_scale = _output_units(claim, data)
    model = StandardisedModel(network, x_mean, x_scale, y_mean, y_scale)
    inputs, targets = in_units_of(model, x, data.y, data.task)
    train_network(network, inputs, targets, data.task, draws, steps=_STEPS)
    model.requires_grad_(True).eval()
    spec: dict[str, Any] = {"kind": "standardised", "model": inner}
    if shifts is None:
        return model, spec
    along = shifts.along.tolist()
    text = None if symmetry is None else str(symmetry)
    spec = {"kind": "translated", "model": spec, "symmetry": text, "along": along}
    return TranslationInvariantModel(model, along).eval(), spec


def _input_units(claim: GeneratorClaim, x: Tensor, size: Tensor) -> tuple[Tensor, Tensor]:
    """Columns that turn have the centre and one scale; the others a mean and a scale each.

    Translations are gone when units are applied, and what they leave has any units. What is no more
    than rounding of numbers of the given size stays so.
    """
    centre = torch.as_tensor(claim.centre)
    linear = torch.as_tensor(claim.rows[:, :, :-1]).abs()
    turned = (linear.amax((0, 2)) > _ROUNDING) | (linear.amax((0, 1)) > _ROUNDING)
    mean = torch.where(turned, centre, x.mean(0))
    about = (x - mean).square().mean(0)
    scale = torch.where(turned, about[turned].mean(), about).sqrt()
    constant = scale <= _ROUNDING * size
    return mean, torch.where(constant, torch.ones_like(scale), scale)


def _output_units(claim: GeneratorClaim, data: TaskData) -> tuple[Tensor, Tensor]:
    width = claim.symmetry.rep_out.size()
    if data.task == "classification":
        return torch.zeros(width), torch.ones(width)
    if claim.outputs is None:
        scale = data.y.std(0)
        return data.y.mean(0), torch.where(scale > 0, scale, torch.ones_like(scale))
    size = data.y.square().mean().sqrt()
    return torch.zeros(width), size.expand(width)
