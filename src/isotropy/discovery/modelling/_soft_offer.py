"""The soft model that comes with a symmetry that holds in part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import nn

from isotropy.discovery.modelling._soft_model import UNBOUND, fit_soft_model
from isotropy.discovery.modelling._standardised import StandardisedModel
from isotropy.discovery.predictors._free_predictor import FreePredictor, sample_losses
from isotropy.discovery.reading._task_data import TaskData
from isotropy.discovery.testing._claim_test import Floats, _p_negative_mean, losses_by_name


@dataclass(frozen=True)
class SoftComparison:
    """Mean losses of three models that were fitted to the same rows, on others.

    Args:
        free: Of a predictor free of the symmetry.
        strict: Of a model that has it.
        soft: Of a model that prefers it.
        better_than_free: By how much less the soft one loses than the free one, on average.
        free_error: The standard error of that, from the differences row by row.
        better_than_strict: By how much less than the strict one.
        strict_error: The standard error of that.
        p_value: Of the null hypothesis that the soft model predicts no better than the free one,
            or than a rival that has another symmetry.
        samples: How many rows, or groups of rows.

    Example:
        >>> comparison = SoftComparison(0.5, 0.4, 0.3, 0.2, 0.02, 0.1, 0.03, 1e-4, 100)
        >>> print(comparison)
        mean loss on 100 samples held out: soft model 0.3, strict model 0.4, free predictor 0.5
    """

    free: float
    strict: float
    soft: float
    better_than_free: float
    free_error: float
    better_than_strict: float
    strict_error: float
    p_value: float
    samples: int

    @property
    def gain(self) -> str:
        """By how much the soft model differs from the others, in words.

        Example:
            >>> SoftComparison(0.5, 0.4, 0.3, 0.2, 0.02, 0.1, 0.03, 1e-4, 100).gain
            'the soft model is 0.2 ± 0.02 below the free one, 0.1 ± 0.03 below the strict one'
        """
        free = _apart(self.better_than_free, self.free_error)
        strict = _apart(self.better_than_strict, self.strict_error)
        return f"the soft model is {free} the free one, {strict} the strict one"

    def __str__(self) -> str:
        losses = {"soft model": self.soft, "strict model": self.strict, "free predictor": self.free}
        listed = ", ".join(f"{name} {loss:.4g}" for name, loss in losses.items())
        return f"mean loss on {self.samples} samples held out: {listed}"


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


def _apart(gain: float, error: float) -> str:
    return f"{abs(gain):.2g} ± {error:.1g} {'below' if gain >= 0 else 'above'}"


@dataclass(frozen=True, eq=False)
class SoftOffer:
    """A model that prefers a symmetry, and how it compares.

    Args:
        comparison: With the strict model and the free predictor, on rows held out.
        model: The model.
        model_spec: What ``build_model`` makes such a model from.

    Example:
        >>> comparison = SoftComparison(0.5, 0.4, 0.3, 0.2, 0.02, 0.1, 0.03, 1e-4, 100)
        >>> SoftOffer(comparison).comparison.soft
        0.3
    """

    comparison: SoftComparison
    model: nn.Module | None = field(default=None, repr=False)
    model_spec: Mapping[str, Any] | None = None

    @property
    def is_better(self) -> bool:
        """Whether there is a model that predicted the rows held out better than the strict one."""
        return self.model is not None and self.comparison.soft < self.comparison.strict

    def to_json(self) -> dict[str, Any]:
        """The comparison, and the description of the model."""
        spec = None if self.model_spec is None else dict(self.model_spec)
        return {"comparison": asdict(self.comparison), "model": spec}


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
