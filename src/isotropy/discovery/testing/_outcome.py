"""What a test says of a claim, corrected for all that was tested."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from isotropy.discovery.testing._claim_test import ClaimTest
from isotropy.discovery.testing._testing_thresholds import TestingThresholds

if TYPE_CHECKING:
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
