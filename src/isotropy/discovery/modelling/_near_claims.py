"""Symmetries that are broken too much to be claimed, offered where a soft model gains by them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import torch

from isotropy.discovery.modelling._soft_model import UNBOUND, fit_soft_model
from isotropy.discovery.modelling._soft_offer import SoftOffer
from isotropy.discovery.modelling._standardised import StandardisedModel
from isotropy.discovery.predictors._free_predictor import FreePredictor, sample_losses
from isotropy.discovery.reading._task_data import TaskData
from isotropy.discovery.telling._finding import Finding
from isotropy.discovery.testing._claim_test import ClaimTest, Floats, holm
from isotropy.discovery.testing._soft_comparison import compare_soft

StrictModel: TypeAlias = tuple[StandardisedModel, Mapping[str, Any]]


@dataclass(frozen=True, eq=False)
class NearClaim:
    """A symmetry that may hold approximately.

    Args:
        test: Whether it costs less than a wide margin.
        described: The finding of a test, without models.
        fit_strict: Fits a model that has the symmetry, to all rows but those of the test; None
            where there is none that can be softened.
    """

    test: ClaimTest
    described: Callable[[ClaimTest], Finding]
    fit_strict: Callable[[], StrictModel | None]


def standing(claims: Sequence[NearClaim]) -> list[NearClaim]:
    """Those that cost significantly less than the wide margin, after Holm's correction."""
    adjusted = holm([claim.test.p_value for claim in claims])
    tested = [
        replace(claim, test=replace(claim.test, adjusted_p_value=float(p)))
        for claim, p in zip(claims, adjusted, strict=True)
    ]
    return [claim for claim in tested if claim.test.confirmed]


def offered(
    claims: Sequence[NearClaim],
    seen: TaskData,
    outside: TaskData,
    free: FreePredictor,
    *,
    rivals: Sequence[Finding] = (),
    level: float,
    seed: int,
) -> list[Finding]:
    """The findings whose soft model predicts significantly better than what there is without them.

    That is the free predictor, and every model of a symmetry that is confirmed: a one-sided test
    of paired losses on the rows held out, with Holm's correction over the findings. Being as good
    is not enough, for then nothing is gained by a symmetry that does not hold.
    """
    models = [one.model for one in rivals]
    models += [one.soft.model for one in rivals if one.soft is not None]
    losses = [_losses(model, outside) for model in models if model is not None]
    found = []
    for claim in claims:
        fitted = claim.fit_strict()
        if fitted is None:
            continue
        model, spec = fitted
        offer = soft_offer(model, spec, seen, outside, free, rivals=losses, seed=seed)
        found.append(
            replace(
                claim.described(claim.test),
                confirmed=False,
                approximate=True,
                model=model,
                model_spec=spec,
                soft=offer,
            )
        )
    offers = [one.soft for one in found if one.soft is not None]
    adjusted = holm([offer.comparison.p_value for offer in offers])
    return [
        replace(one, soft=replace(offer, comparison=replace(offer.comparison, p_value=float(p))))
        for one, offer, p in zip(found, offers, adjusted, strict=True)
        if p <= level
    ]


def soft_offer(
    strict: StandardisedModel,
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
