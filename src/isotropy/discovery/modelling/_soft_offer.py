"""The soft model that comes with a symmetry that holds in part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import nn

from isotropy.discovery.modelling._finding_models import SoftComparison, SoftOffer
from isotropy.discovery.modelling._soft_model import UNBOUND, fit_soft_model
from isotropy.discovery.modelling._standardised import StandardisedModel
from isotropy.discovery.predictors._free_predictor import FreePredictor, sample_losses
from isotropy.discovery.reading._task_data import TaskData
from isotropy.discovery.testing._claim_test import Floats, _p_negative_mean, losses_by_name


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
