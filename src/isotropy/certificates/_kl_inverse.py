"""The bound of Seeger and Maurer: the inverse of the divergence of two coins."""

from __future__ import annotations

from math import log, log1p, sqrt

from isotropy.certificates._bound_arguments import checked_arguments, rounded_up

_HALVINGS = 60


def kl_inverse(errors: int, n: int, bits: float, delta: float) -> float:
    """The largest risk r with kl(r̂‖r) ≤ (bits · ln 2 + ln(2√n/δ)) / n.

    Here kl(p‖q) = p ln(p/q) + (1 − p) ln((1 − p)/(1 − q)), and r̂ = errors/n (Langford and
    Seeger 2001; Maurer 2004). It rests on E exp(n kl(r̂‖r)) ≤ 2√n, which Maurer proves from
    n = 8 on; for 0-1 losses the left side is a sum free of r, and holds below 8 too.

    Example:
        >>> round(kl_inverse(3000, 60_000, 2731, 0.05), 4)
        0.1241
    """
    given = checked_arguments(errors, n, bits, delta)
    return largest_risk(given.rate, (given.complexity + log(2 * sqrt(given.n))) / given.n)


def largest_risk(rate: float, divergence: float) -> float:
    """The largest r with kl(rate‖r) ≤ divergence, never rounded down.

    Bisects the gap r − rate: in terms of the gap the divergence loses no digits where r is close
    to the rate.

    Example:
        >>> round(largest_risk(0.0, 0.5), 6)  # 1 - exp(-1/2)
        0.393469
    """
    # Pinsker: kl(p‖q) ≥ 2 (q - p)²
    low, high = 0.0, min(1 - rate, sqrt(divergence / 2))
    for _ in range(_HALVINGS):
        gap = (low + high) / 2
        low, high = (low, gap) if _divergence(rate, gap) > divergence else (gap, high)
    return rounded_up(rate + high)


def _divergence(rate: float, gap: float) -> float:
    """kl(rate‖rate + gap), for a gap below 1 − rate."""
    wrong = -rate * log1p(gap / rate) if rate else 0.0
    right = 1 - rate
    # where rounding leaves no room below 1 the divergence is as good as infinite
    return wrong - right * log1p(-gap / right) if gap < right else float("inf")
