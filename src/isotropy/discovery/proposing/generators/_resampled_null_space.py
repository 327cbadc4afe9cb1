"""The null space of a matrix known in two noisy estimates: its dimension by test, not threshold.

With estimates M_A = M + E_A and M_B = M + E_B whose errors are independent, the sum and the
difference have the same noise, and M is in the sum alone:

    T = (M_A + M_B)ᵀ(M_A + M_B) / 4N,    S = (M_A − M_B)ᵀ(M_A − M_B) / 4N.

In the null space of M both are noise, and the ratio θᵀTθ / θᵀSθ is about one; outside T holds M as
well. So the generalised eigenvalues of (T, S), in order, stay near one and then rise: the null
space ends where they do, if the rise is steep in every resampling of the rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh, subspace_angles

from isotropy.discovery.proposing._proposing_thresholds import ProposingThresholds

Array = NDArray[Any]

# floating point: eigenvalues of T, relative to those of an unrelated direction, with none of M
_ZERO = 1e-6


@dataclass(frozen=True, eq=False)
class NullSpace:
    """A null space, and how sure its dimension is.

    Args:
        basis: Orthonormal rows, shape ``(D, p)``.
        energy: The root mean square of M θ in each direction of all p, in units of what a
            direction has on average, in increasing order.
        ratios: Generalised eigenvalues of (T, S), in increasing order.
        gap: By how much the ratio rises after the null space: the least in nine of ten
            resamplings of the rows.
        error: How far off the space may be: the sine of the largest angle between the estimates.
        exact: Whether noise explains all that is left in it; else it is small, and not zero.
    """

    basis: Array
    energy: Array
    ratios: Array
    gap: float
    error: float
    exact: bool

    @property
    def dimension(self) -> int:
        """The number of independent directions."""
        return len(self.basis)


def null_spaces(
    first: Array,
    second: Array,
    *,
    margin: float,
    floor: float = 1e-20,
    usual: float | None = None,
    largest_ratio: float | None = None,
    seed: int = 0,
) -> list[NullSpace]:
    """Null spaces that stand out: one as exact as the noise tells, and one that is only small.

    Args:
        first: M_A, shape ``(N, p)`` or ``(N, m, p)``: N samples of m rows each.
        second: M_B.
        margin: The largest mean square of M θ, relative to that of an average direction, that
            counts as small.
        floor: The least relative noise to reckon with.
        usual: The mean square of M θ to expect of a direction that has nothing to do with M; by
            default what M has on average. With it all of the space can be null.
        largest_ratio: What a ratio may be in an exact null space; 12 if not given. More than one: a
            bias that both estimates share is not in their difference.
        seed: Of the resampling.

    Returns:
        At most two, the exact one first; none where nothing stands out.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> rows = rng.normal(size=(500, 2)) @ rng.normal(size=(2, 5))  # of rank 2
        >>> noisy = [rows + 0.1 * rng.normal(size=rows.shape) for _ in range(2)]
        >>> null_spaces(*noisy, margin=0.05)[0].dimension
        3
    """
    limits = ProposingThresholds.now()
    largest_ratio = limits.noise_and_bias if largest_ratio is None else largest_ratio
    a, b = (m.reshape(len(m), -1, m.shape[-1]) for m in (first, second))
    unknowns = a.shape[-1]
    parts = _grams(a, b)
    total, noise = parts.mean(1)
    mean = float(np.trace(total)) / unknowns
    unit = max(mean, usual or 0.0)
    if unit <= 0:
        return []
    ratios, directions = _ratios(total, noise, floor * unit)
    energies = np.linalg.eigvalsh(total)
    energy = np.sqrt(np.maximum(energies, 0.0) / max(mean, 1e-300))
    rng = np.random.default_rng(seed)
    drawn = []
    for _ in range(limits.resamplings):
        t, s = parts[:, rng.integers(parts.shape[1], size=parts.shape[1])].mean(1)
        drawn.append((_ratios(t, s, floor * unit)[0], np.linalg.eigvalsh(t)))
    found: list[NullSpace] = []

    def consider(dimension: int, basis: Array, gap: float, exact: bool) -> None:
        if dimension:
            error = _disagreement(a, b, dimension)
            found.append(NullSpace(basis, energy, ratios, gap, error, exact))

    largest = float(energies[-1])
    zero = ratios[-1] <= largest_ratio or largest <= _ZERO * unit
    if usual is not None and largest <= margin * usual and zero:
        consider(unknowns, np.eye(unknowns), usual / max(largest, 1e-300), True)
        return found
    gaps = _gaps([r for r, _ in drawn])
    allowed = ratios[:-1] <= largest_ratio
    dimension, gap = _steepest(gaps, allowed, limits.smallest_gap)
    consider(dimension, _orthonormal(directions[:, :dimension]).T, gap, True)
    drops = _gaps([e for _, e in drawn])
    small = energies[:-1] <= margin * mean
    small[:dimension] = False  # beyond what is exact
    wide, drop = _steepest(drops, small, limits.smallest_drop)
    if wide > dimension:
        vectors = np.linalg.eigh(total)[1]
        consider(wide, vectors[:, :wide].T, drop, False)
    return found


def _grams(a: Array, b: Array) -> Array:
    """T and S of as many equal parts of the samples as are resampled, ``(2, parts, p, p)``."""
    limits, unknowns = ProposingThresholds.now(), a.shape[-1]
    parts = limits.resampled_parts // (1 if unknowns <= limits.many_unknowns else 2)
    count = min(len(a), parts)
    grams = np.empty((2, count, unknowns, unknowns))
    for at, rows in enumerate(np.array_split(np.arange(len(a)), count)):
        for which, m in enumerate((a[rows] + b[rows], a[rows] - b[rows])):
            flat = m.reshape(-1, unknowns)
            grams[which, at] = flat.T @ flat / (4 * len(rows))
    return grams


def _ratios(total: Array, noise: Array, floor: float) -> tuple[Array, Array]:
    limits, unknowns = ProposingThresholds.now(), len(total)
    even = limits.evened_noise * np.trace(noise) / unknowns + floor
    evened = (1 - limits.evened_noise) * noise + even * np.eye(unknowns)
    values, vectors = eigh(total, evened)
    return np.maximum(values, limits.least_ratio), vectors


def _gaps(resampled: list[Array]) -> Array:
    """For each k the rise from the k-th value to the next that almost all resamplings have."""
    share = ProposingThresholds.now().gap_quantile
    logs = np.log(np.maximum(np.stack(resampled), 1e-300))
    gaps: Array = np.exp(np.quantile(np.diff(logs, axis=1), share, axis=0))
    return gaps


def _steepest(gaps: Array, allowed: Array, least: float) -> tuple[int, float]:
    """The end of the values that may be noise where they rise most, and by how much."""
    steps = np.where(allowed, gaps, 0.0)
    if not len(steps) or steps.max() < least:
        return 0, 1.0
    return int(steps.argmax()) + 1, float(steps.max())


def _orthonormal(columns: Array) -> Array:
    frame: Array = np.linalg.qr(columns)[0]
    return frame


def _disagreement(a: Array, b: Array, dimension: int) -> float:
    """The sine of the largest angle between the least directions of each estimate alone."""
    spaces = []
    for m in (a, b):
        rows = m.reshape(-1, m.shape[-1])
        spaces.append(np.linalg.eigh(rows.T @ rows)[1][:, :dimension])
    return float(np.sin(subspace_angles(*spaces).max()))
