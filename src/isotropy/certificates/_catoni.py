"""Catoni's bound, with the choice of its λ paid."""

from __future__ import annotations

from math import inf, log

import numpy as np

from isotropy.certificates._bound_arguments import checked_arguments, checked_number, rounded_up

_FINEST = 1.0001
_FLAT = 50.0  # 1 - exp(-50) is 1 in float64


def catoni(errors: int, n: int, bits: float, delta: float, *, alpha: float = 1.05) -> float:
    """The least of Catoni's bounds over a geometric grid of λ (Catoni 2007; Theorem A.3).

        min over k = 0, 1, 2, …  of  Φ⁻¹_{λ/n}(r̂ + [bits · ln 2 + ln(1/δ) + ln((k+1)(k+2))] / λ),
        λ = αᵏ,   Φ⁻¹_γ(x) = (1 − e^{−γx}) / (1 − e^{−γ}),   r̂ = errors/n.

    Finzi (2023) prints Φ⁻¹ without the two minus signs; that is no bound at all.

    *One λ.* With Φ_γ(r) = −ln(1 − r(1 − e^{−γ}))/γ the mean of exp(λ(Φ_{λ/n}(r) − r̂)) is 1 for
    every hypothesis of risk r. By Markov's inequality, weighted by 2^{−bits}, the bound with this
    λ, and without its last logarithm, holds for all hypotheses at once with probability 1 − δ.

    *The choice of λ.* λ = αᵏ gets the share 1/((k+1)(k+2)) of δ; the shares of all k sum to 1.
    So any of these λ may be chosen after the fact, and no other is used here.

    *All λ ≥ 1*, as Theorem A.3 has it, are then covered and never better. Let αᵏ ≤ λ < αᵏ⁺¹:
    then 1/αᵏ < α/λ and (k+1)(k+2) ≤ (k+2)² ≤ (ln(α²λ)/ln α)², so the argument of Φ⁻¹ at αᵏ is
    below the theorem's at λ; and Φ⁻¹_γ(x) grows with γ for x in [0, 1], because Φ_γ(r) is the
    mean −ln E[e^{−γX}]/γ of a coin X, which falls with γ.

    The ratio ``alpha`` of the grid is at least 1.0001, and to be fixed before the data are seen.

    Raises:
        ValueError: If ``alpha`` is out of range.

    Example:
        >>> round(catoni(2400, 60_000, 3113, 0.05, alpha=1.0001), 4)
        0.1157
        >>> round(catoni(2400, 60_000, 3113, 0.05), 4)
        0.1155
    """
    given = checked_arguments(errors, n, bits, delta)
    alpha = checked_number("alpha", alpha)
    if not _FINEST <= alpha < inf:
        raise ValueError(f"expected alpha to be finite and at least {_FINEST}, got {alpha}")
    # after the first λ past 50 n the denominator stays 1 and the numerator grows
    k = np.arange(int(log(_FLAT * given.n) / log(alpha)) + 2)
    scale = alpha**k
    x = given.rate + (given.complexity + np.log((k + 1.0) * (k + 2.0))) / scale
    values = np.expm1(-scale / given.n * x) / np.expm1(-scale / given.n)
    return rounded_up(float(values.min()))
