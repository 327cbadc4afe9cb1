"""From images to sets of groups that hidden layers may commute with, by searching among them."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from torch import Tensor

from isotropy._run import ProgressCallback, Step
from isotropy.discovery.claims._layer_group_claim import LayerGroupClaim, listed
from isotropy.discovery.predictors._free_predictor import sample_losses
from isotropy.discovery.predictors._group_search_networks import ComparedNetworks, fit_grid_network
from isotropy.discovery.predictors._train_classifier import outputs_of
from isotropy.discovery.proposing.layer_groups._group_search_children import (
    TrainedChildren,
    train_children,
)
from isotropy.discovery.proposing.layer_groups._group_search_space import group_space
from isotropy.discovery.reading._image_data import ImageData
from isotropy.discovery.reading._row_layout import RowLayout
from isotropy.discovery.reading._splits import three_way_split
from isotropy.discovery.telling._finding import Finding, is_approximate, tested_fields
from isotropy.discovery.telling._findings import Findings
from isotropy.discovery.testing._claim_test import ClaimTest, claim_test
from isotropy.discovery.testing._joint_correction import jointly_corrected
from isotropy.search._search_result import ScoredChild
from isotropy.search._space import State

CHILDREN = 60
METHOD = "search among sets of groups"
_MOST_SEARCHED, _MOST_FITTED, _MOST_TESTED = 5000, 4000, 1500
_CLAIMED, _SEEDS = 3, 3
_NOTHING = 0.95


def discover_groups(
    data: ImageData,
    *,
    names: Sequence[str] = (),
    study: str | os.PathLike[str] | None = None,
    strategy: str = "lattice",
    children: int | None = None,
    margin: float = 0.05,
    level: float = 0.05,
    fit_models: bool = True,
    seed: int = 0,
    progress: ProgressCallback | None = None,
) -> Findings:
    """Search for sets of groups that hidden layers may commute with, and test the best of them.

    Rows are split in three. On the first part small networks are trained, one for each set of
    groups that is tried. The best sets are claims: to the second part their networks, the free
    one and the best one of a single group are fitted, several times each, and on the third part a
    network with the set must lose no more than ``margin`` to the free one, to that of a single
    group, and to those of other claims that lack one of its groups. Where no single group was
    tried, those that the set is made of stand for the best.

    Raises:
        ValueError: If images are too large, a transformation is unknown or does not act on them,
            or the study is of other data, groups or another seed.
        ConnectionError: If the database cannot be reached.

    Example:
        >>> from isotropy.data import load
        >>> rng = np.random.default_rng(0)
        >>> x, y = rng.normal(size=(120, 4, 4)), rng.integers(2, size=120)
        >>> found = discover_groups(ImageData.of(load((x, y))), names=["rotation"])  # noise
        >>> len(found), found.tried[0]
        (0, '2 children trained, no network twice, among 2 sets of groups')
    """
    tell = progress or (lambda _step: None)
    search = _GroupSearch(data, names, margin, level, seed, tell)
    trained = train_children(
        search.searched_on,
        search.space,
        study=study,
        strategy=strategy,
        children=CHILDREN if children is None else children,
        seed=seed,
        tell=tell,
    )
    return search.findings(trained, fit_models)


class _GroupSearch:
    """One search: its data, its options and whom it tells."""

    def __init__(
        self,
        data: ImageData,
        names: Sequence[str],
        margin: float,
        level: float,
        seed: int,
        tell: ProgressCallback,
    ) -> None:
        self.started = time.perf_counter()
        if data.task != "classification":
            raise ValueError("expected classes for a search among sets of groups, got numbers")
        self.data, self.margin, self.level, self.seed, self.tell = data, margin, level, seed, tell
        self.space = group_space(data.image, names)
        find, fit, held = three_way_split(len(data.x), seed=seed, groups=data.groups)
        self.searched_on = data.rows(find).at_most(_MOST_SEARCHED, seed)
        self.fitted = data.rows(fit).at_most(_MOST_FITTED, seed)
        self.outside = data.rows(held).at_most(_MOST_TESTED, seed)
        self.seen = data.rows(np.concatenate([find, fit])).at_most(_MOST_FITTED, seed)
        self.done = self.planned = 0
        self.compared = ComparedNetworks(
            self.space, self.fitted, self.outside, range(seed + 1, seed + 1 + _SEEDS), self._fit_one
        )

    def findings(self, trained: TrainedChildren, fit_models: bool) -> Findings:
        """The claims that stand on the third part of the rows."""
        ranked = trained.ranked
        claims = [
            LayerGroupClaim(self.space, one.state)
            for one in ranked
            if one.state.groups and one.accuracy >= trained.baseline
        ][:_CLAIMED]
        rivals = [self._rivals(claim, claims, ranked) for claim in claims]
        networks = {state for some in rivals for state in some} | {one.state for one in claims}
        self.planned = _SEEDS * len(networks) + (1 + len(claims) if fit_models else 0)
        tests = [self._tested(*pair) for pair in zip(claims, rivals, strict=True)]
        tests = jointly_corrected(tests)
        found = self._reported(claims, tests, fit_models)
        tried: list[str | Mapping[str, Any]] = [*trained.lines()]
        tried += [_tried(*pair) for pair in zip(claims, tests, strict=True)]
        seconds = time.perf_counter() - self.started
        return Findings(found, tried, seconds, self._notes(trained, claims, tests))

    def _fit_one(self, state: State) -> None:
        self.done += 1
        self.tell(Step(self.done, self.planned, f"fitted a network with {state}"))

    def _rivals(
        self,
        claim: LayerGroupClaim,
        claims: Sequence[LayerGroupClaim],
        ranked: Sequence[ScoredChild],
    ) -> list[State]:
        """The free network, the best with a single group, and what is claimed without all of it.

        A set that fits well with one group too many is thus held against the set without it.
        """
        single = {self.space.network(self.space.state(name)) for name in self.space.groups}
        alone = [one.state for one in ranked if one.state in single - {claim.state}][:1]
        if not alone:
            parts = (self.space.network(self.space.state(name)) for name in claim.generators)
            alone = [state for state in parts if state != claim.state]
        others = [one.state for one in claims if one != claim and not claim.is_within(one)]
        return list(dict.fromkeys([State(), *alone, *others]))

    def _tested(self, claim: LayerGroupClaim, rivals: Sequence[State]) -> ClaimTest:
        """The cost against the strongest rival, and the largest p-value against any of them."""
        losses = self.compared.losses(claim.state)
        tests = [
            claim_test(
                losses,
                self.compared.losses(rival),
                self._constant_losses(),
                margin=self.margin,
                level=self.level,
                groups=self.outside.groups,
            )
            for rival in rivals
        ]
        means = [float(self.compared.losses(rival).mean()) for rival in rivals]
        strongest = tests[means.index(min(means))]
        worst = max(tests, key=lambda test: test.p_value)
        return replace(strongest, p_value=worst.p_value, values=worst.values)

    def _constant_losses(self) -> Tensor:
        constant = self.fitted.constant.expand(len(self.outside.x), -1)
        return sample_losses(constant, self.outside.y, "classification")

    def _reported(
        self, claims: Sequence[LayerGroupClaim], tests: Sequence[ClaimTest], fit_models: bool
    ) -> list[Finding]:
        """What is confirmed, in the order of claims: the best on validation rows first."""
        sure = [pair for pair in zip(claims, tests, strict=True) if pair[1].confirmed]
        found = [self._finding(*pair) for pair in sure]
        if not fit_models or not found:
            return found
        self.planned = self.done + 1 + len(found)  # not every claim stands
        free, _ = self._model(State())
        return [self._with_model(f, claim, free) for f, (claim, _) in zip(found, sure, strict=True)]

    def _finding(self, claim: LayerGroupClaim, test: ClaimTest) -> Finding:
        ours, free = (100 * self.compared.accuracy(one) for one in (claim.state, State()))
        return Finding(
            name=claim.name,
            group=str(claim.group),
            action=claim.action,
            method=METHOD,
            order=claim.order,
            layers=claim.layers(self.data.classes),
            approximate=is_approximate(test),
            **tested_fields(test),
            layout=RowLayout(self.data.image[0], image=self.data.given),
            notes=(
                f"fitted to the second part of the rows, mean of {_SEEDS} trainings: accuracy on "
                f"the {len(self.outside.x)} rows held out {ours:.4g} % with the groups, "
                f"{free:.4g} % of the free network",
                f"gain in accuracy over the free network: {ours - free:+.2f} points",
            ),
        )

    def _model(self, state: State) -> tuple[Any, dict[str, Any]]:
        network, spec = fit_grid_network(self.seen, self.space, state, self.seed + 1)
        self._fit_one(state)
        return network, spec

    def _with_model(self, finding: Finding, claim: LayerGroupClaim, free: Any) -> Finding:
        model, spec = self._model(claim.state)
        constant = self.seen.constant.expand(len(self.outside.x), -1)
        outputs = {
            "model with the symmetry": outputs_of(model, self.outside.x),
            "free network": outputs_of(free, self.outside.x),
            "constant": constant,
        }
        texts = ", ".join(
            f"{name} {float(sample_losses(one, self.outside.y, 'classification').mean()):.4g}"
            for name, one in outputs.items()
        )
        note = f"fitted to the first two parts of the rows: mean loss on the others: {texts}"
        return replace(finding, model=model, model_spec=spec, notes=(note, *finding.notes))

    def _notes(
        self,
        trained: TrainedChildren,
        claims: Sequence[LayerGroupClaim],
        tests: Sequence[ClaimTest],
    ) -> list[str]:
        side = self.space.hidden[0][0]
        notes = [
            f"classification of images; sets of {listed(self.space.groups)}; hidden grids of "
            f"{side}×{side} units; accuracy of the free child {trained.baseline:.1%} on "
            f"{trained.validation} validation rows; networks fitted to {len(self.fitted.x)} rows, "
            f"claims tested on {len(self.outside.x)} others"
        ]
        if not claims:
            notes.append("no set of groups did as well as the free network, so nothing is claimed")
            return notes
        left = self.compared.losses(State()).mean() / self._constant_losses().mean()
        if left > _NOTHING:
            notes.append(
                "next to nothing could be learned from these rows, so nothing can be claimed"
            )
            return notes
        if not any(test.confirmed for test in tests):
            best = listed(claims[0].generators)
            notes.append(
                f"no claim stands; the best set on validation rows was {best}, at a cost of "
                f"{tests[0].effect:.1%} of what can be learned"
            )
        notes.append(
            "a claim says that sharing weights by these groups loses next to nothing against the "
            "free network, the best with a single group and other claims: what it costs is against "
            "the strongest of these; it does not say that the class stays when an image is moved"
        )
        return notes


def _tried(claim: LayerGroupClaim, test: ClaimTest) -> dict[str, Any]:
    return {
        "name": claim.name,
        "method": METHOD,
        "effect": test.effect,
        "p_value": test.adjusted_p_value,
        "confirmed": test.confirmed,
    }
