"""Bounds on the risk of a hypothesis that was sent in few bits.

Every bound takes the errors of a hypothesis on n independent samples and its length in a
prefix-free code that was fixed before the samples were seen. It is a risk of at most 1, and holds
with probability 1 − δ for all hypotheses of the code at once, so how one was searched for does not
matter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import log, sqrt
from types import MappingProxyType

from isotropy.certificates._binomial_tail import binomial_tail
from isotropy.certificates._bound_arguments import (
    check_delta,
    checked_arguments,
    checked_number,
    rounded_up,
)
from isotropy.certificates._catoni import catoni
from isotropy.certificates._kl_inverse import kl_inverse


def finite_hypothesis(errors: int, n: int, bits: float, delta: float) -> float:
    """The bound r̂ + √((bits · ln 2 + ln(1/δ)) / 2n), by Hoeffding's inequality (5.1).

    A class of |H| hypotheses has codes of log₂|H| bits. With no bits it is Hoeffding's bound for
    one hypothesis fixed before the samples were seen.

    Example:
        >>> round(finite_hypothesis(100, 1000, 0, 0.05), 4)
        0.1387
    """
    given = checked_arguments(errors, n, bits, delta)
    return rounded_up(given.rate + sqrt(given.complexity / (2 * given.n)))


def mcallester(errors: int, n: int, bits: float, delta: float) -> float:
    """The bound r̂ + √((bits · ln 2 + ln(n/δ) + 2) / (2n − 1)) (McAllester 1999; (5.2)).

    Made for hypotheses drawn at random; for a single one it is never below ``finite_hypothesis``.

    Example:
        >>> round(mcallester(3000, 60_000, 2731, 0.05), 4)
        0.1761
    """
    given = checked_arguments(errors, n, bits, delta)
    complexity = given.complexity + log(given.n) + 2
    return rounded_up(given.rate + sqrt(complexity / (2 * given.n - 1)))


_FUNCTIONS: Mapping[str, Callable[[int, int, float, float], float]] = MappingProxyType(
    {
        "binomial_tail": binomial_tail,
        "kl_inverse": kl_inverse,
        "catoni": catoni,
        "finite_hypothesis": finite_hypothesis,
        "mcallester": mcallester,
    }
)
KINDS = tuple(_FUNCTIONS)


@dataclass(frozen=True)
class Bound:
    """An upper bound on the risk that holds with probability 1 − δ.

    Attributes:
        value: The bound, at most 1.
        kind: Which bound it is, one of ``KINDS``.
        delta: The probability with which it may fail, the choice of the kind included.
        errors: How many samples the hypothesis gets wrong.
        n: How many samples there are.
        bits: The length of the hypothesis in a prefix-free code.
        values: The bound of each kind that was tried, each at δ over their number.

    Example:
        >>> bound = smallest_bound(2400, 60_000, 3113, 0.05, kinds=["catoni", "kl_inverse"])
        >>> bound.kind, round(bound.value, 4)
        ('kl_inverse', 0.1154)
    """

    value: float
    kind: str
    delta: float
    errors: int
    n: int
    bits: float
    values: dict[str, float] = field(hash=False)


def smallest_bound(
    errors: int, n: int, bits: float, delta: float, kinds: Sequence[str] = KINDS
) -> Bound:
    """The smallest of several bounds, the choice paid: each holds at δ over their number.

    At one δ of at most ½ ``binomial_tail`` is the smallest, so with it alone the choice
    costs nothing and the bound is the best of all; the others are for comparison.

    Args:
        errors: How many of the samples the hypothesis gets wrong.
        n: How many samples there are, independent and not used to choose the code.
        bits: The length of the hypothesis in a prefix-free code.
        delta: The probability with which the bound may fail, for any hypothesis of the code.
        kinds: Which to choose from; to be fixed before the samples are seen. One costs nothing.

    Returns:
        The smallest, with the values of all.

    Raises:
        TypeError: If counts are not integers, or the others not numbers.
        ValueError: If one of them is out of range, or kinds are unknown, repeated or missing.

    Example:
        >>> bound = smallest_bound(2400, 60_000, 3113, 0.05)
        >>> bound.kind, round(bound.value, 3), len(bound.values)
        ('binomial_tail', 0.115, 5)
    """
    kinds = (kinds,) if isinstance(kinds, str) else tuple(kinds)
    unknown = [kind for kind in kinds if kind not in _FUNCTIONS]
    if unknown:
        raise ValueError(f"expected kinds among {', '.join(KINDS)}, got {unknown[0]!r}")
    if not kinds or len(set(kinds)) < len(kinds):
        raise ValueError(f"expected at least one kind and none twice, got {list(kinds)}")
    delta = checked_number("delta", delta)
    check_delta(delta)
    share = delta / len(kinds)
    values = {kind: _FUNCTIONS[kind](errors, n, bits, share) for kind in kinds}
    kind = min(values, key=values.__getitem__)
    return Bound(values[kind], kind, delta, int(errors), int(n), float(bits), values)
