"""P-values of several claims at once: Holm's correction, less for claims that go together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from isotropy.discovery.testing._claim_test import ClaimTest, Floats

_DRAWS = 20_000
# of smaller p-values that many draws show too few; the sum of p-values does for them
_SHOWN = 2e-3


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
    if count <= 1 or p_value < _SHOWN:
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
    draws = np.random.default_rng(0).standard_normal((_DRAWS, len(together)))
    normals: Floats = draws @ root.T
    return normals
