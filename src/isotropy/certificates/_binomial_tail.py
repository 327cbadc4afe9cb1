"""Occam's razor with the exact tail of the binomial distribution."""

from __future__ import annotations

from collections.abc import Callable
from math import log, log1p, sqrt
from sys import float_info

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammaln

from isotropy.certificates._bound_arguments import checked_arguments, rounded_up
from isotropy.certificates._kl_inverse import largest_risk

_MOST_TERMS = 1_000_000
_BELOW_ONE = 1 - float_info.epsilon / 2


def binomial_tail(errors: int, n: int, bits: float, delta: float) -> float:
    """The largest risk r with Pr(Bin(n, r) ≤ errors) ≥ δ · 2^{−bits} (Langford 2005).

    A hypothesis of risk r errs Bin(n, r) times. It makes so few errors that the bound fails with
    probability at most δ · 2^{−bits}, and these sum to at most δ over a prefix-free code. No other
    bound of these arguments that grows with the errors and pays for each hypothesis by itself is
    smaller. δ · 2^{−bits} above ½ counts as ½.

    Example:
        >>> round(binomial_tail(0, 10, 0, 0.05), 6)  # 1 - 0.05 ** (1 / 10)
        0.258866
        >>> round(binomial_tail(2400, 60_000, 3113, 0.05), 4)
        0.1151
    """
    given = checked_arguments(errors, n, bits, delta)
    complexity = max(given.complexity, log(2))
    # Chernoff: ln Pr(Bin(n, r) ≤ errors) ≤ -n kl(errors/n‖r), and no error makes it exact
    chernoff = largest_risk(given.rate, complexity / given.n)
    if given.errors in (0, given.n) or chernoff == 1:
        return chernoff
    log_tail = _log_tail(given.errors, given.n)

    def excess(risk: float) -> float:
        return log_tail(risk) + complexity

    # beyond 10¹² samples the rounding that is allowed for may exceed what the tail gains
    if excess(chernoff) >= 0:
        return chernoff
    # errors is a median at risk errors/n, so the tail there is above ½
    risk = float(brentq(excess, given.rate, chernoff, xtol=4 * float_info.epsilon))
    step = 4 * float_info.epsilon
    while excess(risk) >= 0:
        risk += step
        step *= 2
        if risk >= chernoff:
            return chernoff
    return rounded_up(risk)


def _log_tail(errors: int, n: int) -> Callable[[float], float]:
    """An upper bound on ln Pr(Bin(n, risk) ≤ errors), close to it, for risks from errors/n on.

    There the terms fall from that of ``errors`` downwards, each by a smaller ratio than the last:
    terms left out are less than a geometric series, which is added in their place.
    """
    count = min(errors, int(5 * sqrt(n)) + 64, _MOST_TERMS)
    falling = np.arange(errors, errors - count, -1.0)
    ratios = falling / (n + 1 - falling)
    factorials = gammaln(n + 1), gammaln(errors + 1), gammaln(n - errors + 1)
    ways = float(factorials[0] - factorials[1] - factorials[2])

    def log_tail(risk: float) -> float:
        steps = ratios * ((1 - risk) / risk)
        terms = np.cumprod(steps)
        total = 1 + float(terms.sum())
        if count < errors:
            total += float(terms[-1] * steps[-1] / (1 - steps[-1]))
        wrong, right = errors * log(risk), (n - errors) * log1p(-risk)
        # every summand is good to a few units of its last place
        size = float(sum(factorials)) - wrong - right + count
        return ways + wrong + right + log(total) + 16 * float_info.epsilon * size

    return log_tail
