"""The test stage: all claims of all kinds tested, corrected together, and chosen among."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from isotropy._run import Patience, spawn
from isotropy._run import generator as make_generator
from isotropy.discovery.claims._claim import Claim, uncovered
from isotropy.discovery.testing._bench import Bench
from isotropy.discovery.testing._claim_test import ClaimTest, holm
from isotropy.discovery.testing._tested import Tested, corrected, rank


@dataclass(frozen=True, eq=False)
class Outcomes:
    """What became of the claims of a search.

    Args:
        tested: All that were tested, in order.
        trivial: Those that hold, and are no discoveries.
        near: Those that cost more than the margin, and less than the near one.
    """

    tested: tuple[Tested, ...] = ()
    trivial: tuple[Tested, ...] = ()
    near: tuple[Tested, ...] = ()

    @property
    def reported(self) -> list[Tested]:
        """What is a finding of its own, ranked: what comes first gets its model first."""
        found = [one for one in self.tested if one.reported and not one.claim.statement.trivial]
        return sorted(
            found, key=lambda one: rank(one.claim.statement, one.outcome, one.claim.of_network)
        )


def all_tested(claims: Sequence[Claim], bench: Bench) -> list[Tested]:
    """A test of each claim, corrected for all of them together; trivial ones have their own.

    Args:
        claims: All that proposers yielded.
        bench: What they are tested with.
    """
    others = [claim for claim in claims if not claim.is_trivial]
    generators = spawn(make_generator(bench.seed), len(others))
    return corrected(
        [claim.test(bench, rng) for claim, rng in zip(others, generators, strict=True)]
    )


def chosen(tested: Sequence[Tested], bench: Bench, patience: Patience) -> list[Tested]:
    """What stands and is to be reported: each kind chooses among its own, then all together.

    Kinds choose in the order in which they were proposed, and see what those before them chose. A
    group without a name is not claimed beside another kind that has one.
    """
    trivial = [one for one in tested if one.claim.statement.trivial]  # no reason to drop others
    found = [one for one in tested if not one.claim.statement.trivial]
    for kind in dict.fromkeys(type(one.claim) for one in found):
        own = [one for one in found if type(one.claim) is kind]
        beside = [one for one in found if type(one.claim) is not kind]
        found = beside + kind.chosen(own, beside, bench, patience)
    places = {one.claim: at for at, one in enumerate(tested)}
    found.sort(key=lambda one: places.get(one.claim, len(places)))
    named = {type(one.claim) for one in found if one.reported and one.claim.is_named}
    why = "its group has no name, and another kind of symmetry has"
    left = [
        one.withdrawn(why)
        if one.reported and not one.claim.is_named and named - {type(one.claim)}
        else one
        for one in found
    ]
    return [*uncovered(left), *trivial]


def trivial_outcomes(
    claims: Sequence[Claim], tested: Sequence[Tested], bench: Bench
) -> list[Tested]:
    """Those of the trivial claims that hold beside what stands, each by a test of its own."""
    standing = [one.claim for one in tested if one.confirmed]
    found = [one for one in tested if one.confirmed and one.claim.statement.trivial]
    rng = make_generator(bench.seed)
    for claim in claims:
        beside = claim.beside(standing, bench) if claim.is_trivial else None
        if beside is not None and (one := beside.test(bench, rng)).confirmed:
            found.append(one)
    return found


def near_outcomes(tested: Sequence[Tested], bench: Bench) -> list[Tested]:
    """Claims that were refused, and cost significantly less than a wide margin.

    Each kind names the few that are worth it, and Holm's correction is among these. Of the two
    tests of a claim the first says what it costs.

    Args:
        tested: Claims, tested with the usual margin.
        bench: With the wide one.
    """
    promising: list[Tested] = []
    for kind in dict.fromkeys(type(one.claim) for one in tested):
        promising += kind.promising([one for one in tested if type(one.claim) is kind])
    generators = spawn(make_generator(bench.seed), len(promising))
    again = [one.claim.test(bench, rng) for one, rng in zip(promising, generators, strict=True)]
    adjusted = holm([one.test.p_value for one in again])
    found = [
        replace(
            one,
            test=replace(
                one.test,
                adjusted_p_value=float(p),
                **({} if first.reason else _cost(first.test)),
            ),
            elements=(),
        )
        for one, first, p in zip(again, promising, adjusted, strict=True)
    ]
    return [one for one in found if one.confirmed]


def _cost(test: ClaimTest) -> dict[str, Any]:
    return {"effect": test.effect, "interval": test.interval}


def outcomes(
    claims: Sequence[Claim],
    bench: Bench,
    near_margin: float | None,
    patience: Patience,
    tell: Callable[[str], None],
) -> Outcomes | None:
    """Test all claims; None where there was no time for it.

    Args:
        claims: All that proposers yielded.
        bench: What they are tested with.
        near_margin: The wide margin; None where nothing is to be looked for that holds nearly.
        patience: How long it may take.
        tell: Whom to tell.
    """
    if patience.stopped and not claims:
        return None
    tell("fitting a predictor free of symmetry")
    of_networks = all(claim.of_network for claim in claims) if claims else bench.of_images

    def test() -> list[Tested]:
        if not of_networks:  # which bring their own
            bench.free  # noqa: B018 - fitted here, so that whoever watches knows what takes its time
        tell("testing claims")
        return all_tested(claims, bench)

    by = 0.9  # of a budget, so that models have some time
    first = patience.attempt("testing what was found", test, share=by, needed=True)
    if first is None:
        return None
    near = None
    real = [one for one in first if not one.claim.statement.trivial]
    if near_margin is not None and not any(one.confirmed for one in real):
        wide = bench.with_margin(near_margin)  # what is confirmed is what to build on
        near = patience.attempt("looking for what holds nearly", lambda: near_outcomes(real, wide))
    tested = chosen(first, bench, patience)
    trivial = patience.attempt(
        "testing what holds trivially", lambda: trivial_outcomes(claims, tested, bench), needed=True
    )
    if trivial is None:
        trivial = [one for one in tested if one.confirmed and one.claim.statement.trivial]
    return Outcomes(tuple(tested), tuple(trivial), tuple(near or ()))
