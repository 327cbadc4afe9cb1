"""The soft model that comes with a symmetry that holds in part: it prefers it, and is not bound."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from math import inf
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from isotropy.discovery.modelling._finding_models import SoftComparison, SoftOffer
from isotropy.discovery.modelling._modelling_thresholds import ModellingThresholds
from isotropy.discovery.modelling._standardised import StandardisedModel
from isotropy.discovery.modelling._symmetric_model import (
    FitDraws,
    in_units_of,
    loss_of,
    solve_linear,
    train_network,
)
from isotropy.discovery.predictors._free_predictor import FreePredictor, Task, sample_losses
from isotropy.discovery.reading._task_data import TaskData
from isotropy.discovery.testing._claim_test import Floats, _p_negative_mean, losses_by_name
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


def compare_soft(
    soft: ArrayLike,
    strict: ArrayLike,
    free: ArrayLike,
    *,
    rivals: ArrayLike = (),
    groups: ArrayLike | None = None,
) -> SoftComparison:
    """Compare models by their losses on the same samples.

    The test is that of ``claim_test``, one-sided and of paired differences. Where there are
    rivals the soft model must be better than each: the p-value is the largest.

    Raises:
        ValueError: If the lengths differ, or a loss is not finite.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> soft = rng.normal(size=200) ** 2
        >>> found = compare_soft(soft, 2 * soft, 3 * soft)
        >>> found.p_value < 1e-6, round(found.strict / found.soft, 3)
        (True, 2.0)
    """
    given: dict[str, ArrayLike] = {"soft": soft, "strict": strict, "free": free}
    for k, rival in enumerate(np.asarray(rivals, dtype=np.float64)):
        given[f"rival {k}"] = rival
    losses = losses_by_name(given, groups, "model")
    ours = losses.pop("soft")
    free_gain, free_error = _mean_and_error(losses["free"] - ours)
    strict_gain, strict_error = _mean_and_error(losses["strict"] - ours)
    others = [values for name, values in losses.items() if name != "strict"]
    return SoftComparison(
        free=float(losses["free"].mean()),
        strict=float(losses["strict"].mean()),
        soft=float(ours.mean()),
        better_than_free=free_gain,
        free_error=free_error,
        better_than_strict=strict_gain,
        strict_error=strict_error,
        p_value=max(_p_negative_mean(ours - other) for other in others),
        samples=len(ours),
    )


def _mean_and_error(differences: Floats) -> tuple[float, float]:
    n = len(differences)
    return float(differences.mean()), float(differences.std(ddof=1) / n**0.5)


def soft_offer(
    strict: nn.Module,
    spec: Mapping[str, Any],
    seen: TaskData,
    outside: TaskData,
    free: FreePredictor,
    *,
    rivals: Sequence[Floats] = (),
    seed: int = 0,
) -> SoftOffer:
    """The soft model of a strict one, and how both compare with a free predictor.

    Where the models are linear the free predictor, which may have trees, is the linear one if that
    is better: what is gained is to be the symmetry's, not that of a simpler model.
    """
    assert isinstance(strict, StandardisedModel)
    soft, described = fit_soft_model(
        strict, spec, seen.x, seen.y, seen.task, groups=seen.groups, seed=seed
    )
    with torch.no_grad():
        unbound = [sample_losses(free.predict(outside.x), outside.y, outside.task).numpy()]
    if spec["model"]["kind"] == "linear":
        plain, _ = fit_soft_model(
            *(strict, spec, seen.x, seen.y, seen.task),
            free_variances=[UNBOUND],
            groups=seen.groups,
            seed=seed,
        )
        unbound.append(_losses(plain, outside))
    unbound.sort(key=lambda losses: float(losses.mean()))
    comparison = compare_soft(
        _losses(soft, outside),
        _losses(strict, outside),
        unbound[0],
        rivals=[*unbound[1:], *rivals],
        groups=outside.groups,
    )
    return SoftOffer(comparison, soft, described)


def _losses(model: torch.nn.Module, data: TaskData) -> Floats:
    like = next(model.parameters())
    with torch.no_grad():
        predicted = model(data.x.to(like))
    losses: Floats = sample_losses(predicted, data.y, data.task).numpy()
    return losses
