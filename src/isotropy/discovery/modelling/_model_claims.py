"""The model stage: what stands, each with the network that has it, beside a free predictor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from isotropy._run import Patience
from isotropy._run import generator as make_generator
from isotropy.discovery.claims._claim import Claim, FittedModel, NoModel, predictions
from isotropy.discovery.modelling._finding_models import ModelComparison, Models, SoftOffer
from isotropy.discovery.modelling._modelling_thresholds import ModellingThresholds
from isotropy.discovery.predictors._free_predictor import FreePredictor
from isotropy.discovery.reading._task_data import TaskData
from isotropy.discovery.testing._bench import Bench
from isotropy.discovery.testing._claim_test import Floats, holm
from isotropy.discovery.testing._tested import Tested


@dataclass(frozen=True, eq=False)
class Modelled:
    """A claim that stands, and its models.

    Args:
        tested: The claim and its test.
        models: Its models; none where there was no time, or there is none.
        notes: Why there is none.
    """

    tested: Tested
    models: Models = field(default_factory=Models)
    notes: tuple[str, ...] = ()


def modelled(
    reported: Sequence[Tested],
    bench: Bench,
    patience: Patience,
    tell: Callable[[str], None],
    *,
    with_models: bool = True,
) -> list[Modelled]:
    """A model for each claim that stands; the first has a curve of models of fewer rows.

    Models are compared on equal terms: both fitted to all rows but those of the test.
    """
    if not with_models:
        return [Modelled(one) for one in reported]
    tell("fitting models")
    found = []
    for one in reported:
        work = _Work(one, bench)
        made = patience.attempt("fitting models", work.modelled)
        found.append(Modelled(one) if made is None else made)
    compared = [
        at
        for at, one in enumerate(found)
        if one.models.comparison is not None and not one.tested.claim.of_network
    ]
    if compared and _is_quick(bench):
        first = compared[0]
        tell("fitting models to fewer rows")
        draw = partial(_Work(found[first].tested, bench).curve, found[first])
        curve = patience.attempt("fitting models to fewer rows", draw)
        found[first] = curve or found[first]
    return found


def soft_models(
    near: Sequence[Tested],
    found: Sequence[Modelled],
    bench: Bench,
    patience: Patience,
    tell: Callable[[str], None],
) -> list[Modelled]:
    """Claims that hold nearly, whose soft model predicts better than what there is without them.

    That is the free predictor, and every model of a symmetry that stands: a one-sided test of
    paired losses on the rows held out, with Holm's correction over the claims. Being as good is
    not enough, for then nothing is gained by a symmetry that does not hold.
    """
    if not near:
        return []
    tell("fitting soft models")
    made = patience.attempt("fitting soft models", lambda: _offered(near, found, bench))
    return [] if made is None else made


def _offered(near: Sequence[Tested], found: Sequence[Modelled], bench: Bench) -> list[Modelled]:
    outside = bench.problem.outside
    models = [one.models.model for one in found]
    models += [one.models.soft.model for one in found if one.models.soft is not None]
    losses = [_losses(predictions(m, outside.x), outside) for m in models if m is not None]
    offers: list[tuple[Tested, FittedModel, SoftOffer]] = []
    for one in near:
        work = _Work(one, bench)
        try:
            fitted = work.fitted(softened=True)
        except NoModel:
            continue
        offers.append((one, fitted, work.softened(fitted, losses)))
    adjusted = holm([offer.comparison.p_value for _, _, offer in offers])
    return [
        Modelled(
            one,
            Models(
                *fitted,
                soft=replace(offer, comparison=replace(offer.comparison, p_value=float(p))),
            ),
        )
        for (one, fitted, offer), p in zip(offers, adjusted, strict=True)
        if p <= bench.level
    ]


@dataclass(frozen=True, eq=False)
class _Work:
    """The models of one claim."""

    tested: Tested
    bench: Bench

    @property
    def claim(self) -> Claim:
        return self.tested.claim

    @property
    def rival(self) -> FreePredictor:
        """A predictor free of the symmetry, fitted to the same rows."""
        return self.claim.rival(self.bench.problem.seen, self.bench)

    def fitted(self, *, softened: bool = False) -> FittedModel:
        """The strict model."""
        seen, seed = self.bench.problem.seen, self.bench.seed
        return self.claim.fit(seen, self.rival, seed, softened=softened)

    def modelled(self) -> Modelled:
        """The strict model, and a soft one where the claim is approximate."""
        one, softened = self.tested, self.tested.approximate and self.claim.can_be_softened
        try:
            model, spec = self.fitted(softened=softened)
        except NoModel as none:
            return Modelled(one, notes=(f"no model: {none}",))
        bench, outside = self.bench, self.bench.problem.outside
        soft = self.softened((model, spec)) if softened else None
        comparison = _comparison(predictions(model, outside.x), self.rival, bench)
        error = self.claim.equivariance_error(model, outside, bench.seed)
        return Modelled(one, Models(model, spec, soft, comparison, error))

    def softened(self, fitted: FittedModel, rivals: Sequence[Floats] = ()) -> SoftOffer:
        """The soft model of a strict one."""
        seen, outside = self.bench.problem.seen, self.bench.problem.outside
        assert isinstance(seen, TaskData)  # no other kind of rows has claims that can be softened
        assert isinstance(outside, TaskData)
        from isotropy.discovery.modelling._soft_model import soft_offer

        seed = self.bench.seed
        return soft_offer(*fitted, seen, outside, self.rival, rivals=rivals, seed=seed)

    def curve(self, one: Modelled) -> Modelled:
        """The same, with what models of fewer rows lose."""
        limits, bench = ModellingThresholds.now(), self.bench
        seen, outside, comparison = bench.problem.seen, bench.problem.outside, one.models.comparison
        assert comparison is not None
        order = torch.randperm(len(seen.x), generator=make_generator(bench.seed)).numpy()
        points = []
        for share in limits.curve_shares:
            count = int(len(seen.x) * share)
            few = seen.rows(np.sort(order[:count]))
            if count < limits.fewest_rows or not few.targets_vary:
                continue
            free = self.claim.rival(few, bench)
            try:
                model, _ = self.claim.fit(few, free, bench.seed, softened=False)
            except NoModel:
                return one
            both = predictions(model, outside.x), free.predict(outside.x)
            losses = [float(_losses(some, outside).mean()) for some in both]
            if np.isfinite(losses).all():
                points.append((count, losses[0], losses[1]))
        last = (comparison.fitted, comparison.strict, comparison.free)
        drawn = replace(comparison, curve=(*points, last))
        return replace(one, models=replace(one.models, comparison=drawn))


@torch.no_grad()
def _comparison(predicted: torch.Tensor, rival: FreePredictor, bench: Bench) -> ModelComparison:
    """How a model does beside its rival and a constant, on the rows held out."""
    outside, seen = bench.problem.outside, bench.problem.seen
    free = rival.predict(outside.x)
    constant = rival.constant.expand(len(outside.x), -1)
    strict, without, flat = (_losses(some, outside) for some in (predicted, free, constant))
    return ModelComparison(
        outside.loss_words,
        float(strict.mean()),
        float(without.mean()),
        float(flat.mean()),
        float((strict - without).std(ddof=1) / np.sqrt(len(strict))),
        len(strict),
        len(seen.x),
        outside.accuracy(predicted),
        outside.accuracy(free),
    )


def _losses(predicted: torch.Tensor, rows: Any) -> NDArray[np.float64]:
    losses: NDArray[np.float64] = rows.losses(predicted).double().numpy()
    return losses


def _is_quick(bench: Bench) -> bool:
    """Whether models of fewer rows take little time."""
    limits, problem = ModellingThresholds.now(), bench.problem
    most = limits.curve_pixels if problem.kind == "images" else limits.curve_entries
    return problem.kind != "transitions" and problem.seen.x.numel() <= most
