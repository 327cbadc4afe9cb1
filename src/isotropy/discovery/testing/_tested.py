"""What a test says of a claim, and the tests of all claims corrected for being several."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import isnan
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from isotropy.discovery.testing._claim_test import ClaimTest, Floats
from isotropy.discovery.testing._testing_thresholds import TestingThresholds

if TYPE_CHECKING:
    from isotropy.discovery.claims._claim import Claim
    from isotropy.discovery.claims._statement import Statement

_SURE = 1e-2  # smaller p-values are no reason to prefer one finding to a larger one
_NEGLIGIBLE = 1e-5  # size of an effect below which its digits are noise
_SMALLEST_SHOWN = 1e-6  # the normal approximation of the test says nothing of smaller chances


@dataclass(frozen=True)
class Outcome:
    """Whether a claim stands, and what it costs.

    Args:
        confirmed: Whether the test on rows held out stands.
        approximate: Whether the symmetry holds only in part.
        p_value: Of that test, corrected for all that was tested.
        effect: What the symmetry costs, as a share of what can be learned.
        interval: Limits of the effect, each at 95 %.
        margin: The largest effect that counts as a symmetry.
        samples: How many rows, or groups of rows, it was tested on.

    Example:
        >>> test = ClaimTest(0.01, 0.03, (0.02, 0.04), 0.05, 1e-9, 300, 0.02)
        >>> Outcome.of(test).approximate, Outcome.of(test).p_value
        (True, 0.02)
    """

    confirmed: bool = False
    approximate: bool = False
    p_value: float = 1.0
    effect: float = math.nan
    interval: tuple[float, float] = (-math.inf, math.inf)
    margin: float = 0.05
    samples: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.p_value <= 1:
            raise ValueError(f"expected a p-value between 0 and 1, got {self.p_value!r}")
        object.__setattr__(self, "interval", (float(self.interval[0]), float(self.interval[1])))
        for name, kind in (("approximate", bool), ("confirmed", bool), ("p_value", float)):
            object.__setattr__(self, name, kind(getattr(self, name)))  # numpy's own have no JSON

    @property
    def cost(self) -> str:
        """The effect in words."""
        if math.isnan(self.effect):
            return "nothing can be learned"
        if abs(self.effect) < _NEGLIGIBLE:  # rounding errors have no meaning, nor has their sign
            return f"costs less than {_NEGLIGIBLE * 100:g} % of what can be learned"
        verb = "costs" if self.effect >= 0 else "saves"
        percent = float(f"{abs(self.effect) * 100:.2g}")
        return f"{verb} {percent:g} % of what can be learned"

    @staticmethod
    def of(test: ClaimTest, *, exact: bool = True) -> Outcome:
        """What a test says.

        Args:
            test: The test.
            exact: Whether the claim was proposed as one that holds exactly.
        """
        return Outcome(
            test.confirmed,
            is_approximate(test) or not exact,
            test.adjusted_p_value,
            test.effect,
            test.interval,
            test.margin,
            test.samples,
        )


def is_approximate(test: ClaimTest) -> bool:
    """Whether a symmetry costs significantly more than rounding and noise explain."""
    return test.interval[0] > TestingThresholds.now().significant_cost


def shown_p_value(value: float) -> str:
    """A p-value in text.

    Example:
        >>> shown_p_value(0.0123), shown_p_value(1e-46)
        ('p = 0.012', 'p < 1e-06')
    """
    return f"p = {value:.2g}" if value >= _SMALLEST_SHOWN else f"p < {_SMALLEST_SHOWN:.0e}"


def rank(claim: Statement, test: Outcome, of_network: bool) -> tuple[Any, ...]:
    """What findings are sorted by: the task before layers, sure ones first, then the largest."""
    whole = (claim.trivial != "", not test.confirmed, of_network)
    return *whole, max(test.p_value, _SURE), -(claim.dimension or 0), -(claim.order or 0)


def joint_p_values(tests: Sequence[ClaimTest]) -> Floats:
    """P-values adjusted for being several, in the order given: the chance of any false claim.

    Shifts, shifts with reflections, and all permutations are tested by almost the same numbers,
    row by row. Holm's correction takes the worst case, in which such claims never look good
    together. Here the chance that the best of those that are left looks as good as this one is
    taken from their correlations (Westfall & Young 1993, step-down maxT, normal statistics):

        p̃_(j) = max over i ≤ j of P(max over k ≥ i of Z_k ≥ z_(i)),   Z ~ N(0, R),

    with R the correlations of the tests' values over rows. Tests of other rows than most are added
    up, as in Holm's correction, which is never less than this.

    Example:
        >>> from isotropy.discovery.testing._claim_test import claim_test
        >>> rng = np.random.default_rng(0)
        >>> cost, zero = rng.normal(1.0, 5.0, size=400), np.zeros(400)
        >>> test = claim_test(cost, zero, zero + 30.0)
        >>> bool(joint_p_values([test, test]).max() < 1.1 * test.p_value)  # Holm's are twice that
        True
    """
    p = np.array([test.p_value for test in tests], dtype=np.float64)
    together = _together(tests)
    reached = _largest_normals(tests, together)
    order = np.argsort(p, kind="stable")
    adjusted, so_far = np.empty_like(p), 0.0
    for at, place in enumerate(order):
        rest = order[at:]
        joined = [together.index(k) for k in rest if k in together]
        alone = len(rest) - len(joined)
        chance = alone * p[place] + _any_as_small(float(p[place]), reached[:, joined])
        so_far = max(so_far, min(1.0, chance))
        adjusted[place] = so_far
    return adjusted


def jointly_corrected(tests: Sequence[ClaimTest]) -> list[ClaimTest]:
    """The tests, their p-values adjusted by ``joint_p_values``."""
    adjusted = joint_p_values(tests)
    return [replace(t, adjusted_p_value=float(p)) for t, p in zip(tests, adjusted, strict=True)]


def _any_as_small(p_value: float, normals: Floats) -> float:
    """The chance that any of some correlated p-values is so small."""
    from scipy.stats import norm

    count = int(normals.shape[1])
    if count <= 1 or p_value < TestingThresholds.now().drawn_p_value:
        return float(count * p_value)
    if p_value >= 1:
        return 1.0
    shown = float((normals.max(1) >= norm.isf(p_value)).mean())
    return float(min(max(shown, p_value), count * p_value))


def _together(tests: Sequence[ClaimTest]) -> list[int]:
    """The tests whose values are of the same rows, as most are."""
    lengths = [0 if test.values is None else len(test.values) for test in tests]
    usual = max(set(lengths), key=lambda n: (lengths.count(n) if n else 0, n), default=0)
    return [k for k, n in enumerate(lengths) if n == usual and n > 0]


def _largest_normals(tests: Sequence[ClaimTest], together: Sequence[int]) -> Floats:
    """Draws of normal statistics that are correlated as the tests are, shape (draws, tests)."""
    if len(together) < 2:
        return np.zeros((1, len(together)))
    values = np.stack([np.asarray(tests[k].values) for k in together])
    centred = values - values.mean(1, keepdims=True)
    sizes = np.linalg.norm(centred, axis=1, keepdims=True)
    # what does not vary has nothing to do with the others
    unit: NDArray[np.float64] = centred / np.where(sizes > 0, sizes, 1.0)
    own = np.sqrt(np.clip(1 - (unit**2).sum(1), 0.0, 1.0))
    correlations = unit @ unit.T + np.diag(own**2)
    spectrum, axes = np.linalg.eigh(correlations)
    root = axes * np.sqrt(np.clip(spectrum, 0.0, None))
    draws = np.random.default_rng(0).standard_normal(
        (TestingThresholds.now().correction_draws, len(together))
    )
    normals: Floats = draws @ root.T
    return normals


@dataclass(frozen=True, eq=False)
class ElementTest:
    """The test of a single element beyond a connected group.

    Args:
        name: What it does.
        matrix: How it acts on rows, [A | b] or A.
        test: Its test.
        reason: Why the data cannot tell; empty where they can.
    """

    name: str
    matrix: Tensor
    test: ClaimTest
    reason: str = ""


@dataclass(frozen=True, eq=False)
class Tested:
    """A claim that was put to the test.

    Args:
        claim: The claim.
        test: Its test; its p-value is 1 where the data cannot tell.
        reason: Why the data cannot tell; empty where they can.
        note: Why it is not claimed, though its test stood.
        covered: Whether another that holds says this and more, and is reported in its place.
        elements: Reflections and the like beyond a connected group, each with a test.
        share: Of the rows, those that it could be tested on.
        averages: What the free predictor, averaged over the group, says of the rows of the test.
    """

    __test__: ClassVar[bool] = False  # pytest takes classes of such names for tests

    claim: Claim
    test: ClaimTest
    reason: str = ""
    note: str = ""
    covered: bool = False
    elements: tuple[ElementTest, ...] = ()
    share: float = 1.0
    averages: Tensor | None = field(default=None, repr=False)

    @property
    def confirmed(self) -> bool:
        """Whether its test stands."""
        return not self.reason and self.test.confirmed

    @property
    def reported(self) -> bool:
        """Whether it is a finding of its own."""
        return self.confirmed and not self.covered

    @property
    def approximate(self) -> bool:
        """Whether it has a significant cost."""
        return is_approximate(self.test) or not self.claim.exact

    @property
    def outcome(self) -> Outcome:
        """What the test says, for a finding."""
        return Outcome.of(self.test, exact=self.claim.exact)

    @property
    def near_outcome(self) -> Outcome:
        """What the test with a wide margin says, which confirms nothing."""
        return replace(self.outcome, confirmed=False, approximate=True)

    def withdrawn(self, why: str) -> Tested:
        """The same, not claimed though its test stood; nothing changes where it did not."""
        if not self.confirmed:
            return self
        elements = tuple(
            one if one.reason else replace(one, test=replace(one.test, adjusted_p_value=1.0))
            for one in self.elements
        )
        test = replace(self.test, adjusted_p_value=1.0)
        return replace(self, test=test, note=why, elements=elements)

    def line(self) -> dict[str, Any]:
        """A line of what was tried."""
        chance, note = self.claim.chance, self.note or self.reason
        return {
            "name": self.claim.label,
            "method": self.claim.method,
            **({} if chance is None else {"chance": chance}),
            "effect": None if isnan(self.test.effect) else self.test.effect,
            "p_value": self.test.adjusted_p_value,
            "confirmed": self.confirmed,
            **({"note": note} if note else {}),
        }


def corrected(tested: Sequence[Tested]) -> list[Tested]:
    """The same, with p-values for all of them together.

    What could not be tested takes no part. A claim that is tested in an order (``after``) counts
    only if those before it stand: it takes their p-value where that is larger, and no more.
    """
    first = [one for one in tested if one.claim.after is None]
    counted = [test for one in first for test in _that_count(one)]
    adjusted = iter(jointly_corrected(counted))
    found: dict[Claim, Tested] = {}
    for one in tested:
        if one.claim.after is None:
            found[one.claim] = _with(one, adjusted)
            continue
        before = found[one.claim.after]
        p_value = 1.0 if before.reason else before.test.adjusted_p_value
        own = replace(one.test, adjusted_p_value=max(p_value, one.test.p_value))
        found[one.claim] = replace(one, test=own)
    return [found[one.claim] for one in tested]


def _that_count(one: Tested) -> list[ClaimTest]:
    own = [] if one.reason else [one.test]
    return own + [element.test for element in one.elements if not element.reason]


def _with(one: Tested, adjusted: Any) -> Tested:
    test = one.test if one.reason else next(adjusted)
    elements = tuple(
        element if element.reason else replace(element, test=next(adjusted))
        for element in one.elements
    )
    return replace(one, test=test, elements=elements)
