"""Fit the soft model of a symmetry: one that prefers it and is not bound to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from math import inf
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from isotropy.discovery.modelling._modelling_thresholds import ModellingThresholds
from isotropy.discovery.modelling._standardised import StandardisedModel
from isotropy.discovery.modelling._symmetric_model import (
    FitDraws,
    in_units_of,
    loss_of,
    solve_linear,
    train_network,
)
from isotropy.discovery.predictors._free_predictor import Task
from isotropy.nn import log_prior, soften

UNBOUND = 1e6  # of a prior: a linear layer with such a variance is as good as free


def fit_soft_model(
    strict: StandardisedModel,
    spec: Mapping[str, Any],
    x: Tensor,
    y: Tensor,
    task: Task,
    *,
    free_variances: Sequence[float] | None = None,
    groups: NDArray[np.int64] | None = None,
    seed: int = 0,
) -> tuple[StandardisedModel, dict[str, Any]]:
    """Soften a model that has a symmetry, and fit it to the same rows.

    Every layer gets a flexible path beside its strict one (``isotropy.nn.soften``), with a prior
    that keeps it small. How small is chosen on the fifth of the rows that stopped the fit of the
    strict model, from which the fit starts: each variance is tried, and the one that predicts
    these rows best is kept. A linear layer is then fitted to all rows.

    Args:
        strict: The model, as ``fit_symmetric_model`` gives it for these rows, groups and seed.
        spec: Its description.
        x: Inputs, shape ``(N, d_in)``.
        y: Targets, shape ``(N, d_out)``, or classes ``(N,)``.
        task: What the targets are.
        free_variances: Prior variances of flexible paths to choose from, the strictest first;
            by default 1e-4 and 1e-2, or from 1e-5 to 1e6 for a linear layer.
        groups: Which rows belong together, and are held out together.
        seed: That of the strict fit.

    Returns:
        The model, in units of the data and in evaluation mode, and its description, in which
        the variances are the chosen ones.

    Raises:
        ValueError: If there is no variance to choose from, or one is not positive.

    Example:
        >>> from isotropy.discovery.modelling._symmetric_model import fit_symmetric_model
        >>> from isotropy.groups import S
        >>> from isotropy.reps import Scalar, Symmetry, V
        >>> x = torch.randn(100, 3, generator=torch.Generator().manual_seed(0))
        >>> y = x @ torch.tensor([[1.0], [1.0], [1.5]])
        >>> fitted = fit_symmetric_model(Symmetry(S(3), V, Scalar), x, y, "regression", linear=True)
        >>> soft, spec = fit_soft_model(*fitted, x, y, "regression")
        >>> bool((soft(x) - y).abs().max() < 1e-3), spec["model"]["kind"]
        (True, 'soft')
    """
    limits, inner = ModellingThresholds.now(), spec["model"]
    linear = inner["kind"] == "linear"
    loose = limits.linear_strict_variance if linear else limits.strict_variance
    usual = (*limits.linear_variances, UNBOUND) if linear else limits.free_variances
    tried = tuple(free_variances or usual)
    if free_variances is not None and (not len(free_variances) or not min(tried) > 0):
        raise ValueError(f"expected positive variances to choose from, got {free_variances!r:.80}")
    inputs, targets = in_units_of(strict, x, y, task)
    best, chosen = inf, tried[0]
    soft: torch.nn.Module | None = None
    for variance in tried:
        network = soften(strict.model, variances=(loose, variance))
        draws = FitDraws.of(seed, len(x), groups)
        rest, held = draws.rest, draws.held
        if linear:
            solve_linear(network, inputs[rest], targets[rest], task, _prior(len(rest)))
            with torch.no_grad():
                reached = float(loss_of(network(inputs[held]), targets[held], task))
        else:
            reached = train_network(
                network,
                inputs,
                targets,
                task,
                draws,
                penalty=_prior(len(rest)),
                steps=limits.soft_steps,
                learning_rate=limits.soft_rate,
                weight_decay=0.0,
            )
        if soft is None or reached < best:
            best, chosen, soft = reached, variance, network
    if linear:
        soft = soften(strict.model, variances=(loose, chosen))
        solve_linear(soft, inputs, targets, task, _prior(len(inputs)))
    assert soft is not None  # one has been tried
    model = deepcopy(strict)
    model.model = soft
    described = {"kind": "soft", "model": dict(inner), "variances": [loose, chosen]}
    return model.requires_grad_(True).eval(), {**spec, "model": described}


def _prior(samples: int) -> Callable[[torch.nn.Module], Tensor]:
    return lambda network: -log_prior(network, samples=samples)
