"""Gaussian data with shared means: what sharing is worth, and how to split the data to learn it.

The data are y ~ N(θ, σ²I) in K dimensions, with θ constant on the blocks of a partition; P_A takes
means over the blocks of a scheme A, rk(A) counts them (Yeh et al., 2022, section 4.1).
"""

from __future__ import annotations

from math import ceil, exp, log, log1p, sqrt
from numbers import Integral
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import chdtri
from torch import Tensor

Proof = Literal["paper", "corrected"]


def shared_mean_mse(
    labels: ArrayLike | Tensor, theta: ArrayLike | Tensor, *, samples: int, sigma: float = 1.0
) -> float:
    """The mean squared error of means that are estimated with a given sharing (Claim 1).

        E ‖θ̂ − θ‖² = ‖P_A θ − θ‖² + rk(A) σ² / n

    The scheme is held fixed. One that was itself chosen on some of the n samples errs more.

    Args:
        labels: The block of each dimension under the scheme A, any integers, shape (K,).
        theta: The true means, shape (K,).
        samples: The number n of samples.
        sigma: The standard deviation of the noise.

    Raises:
        TypeError: If the labels or the number of samples are not integers.
        ValueError: If the shapes differ, a mean is not finite, or a number is out of range.

    Example:
        >>> shared_mean_mse([0, 0, 1], [1.0, 1.0, 5.0], samples=10)
        0.2
        >>> shared_mean_mse([0, 0, 0], [1.0, 1.0, 4.0], samples=10)
        6.1
    """
    blocks = _label_array(labels)
    means = theta.detach().cpu().numpy() if isinstance(theta, Tensor) else np.asarray(theta)
    means = means.astype(np.float64)
    if means.shape != blocks.shape:
        raise ValueError(f"expected means of shape {blocks.shape}, got {means.shape}")
    if not np.isfinite(means).all():
        raise ValueError("expected finite means, got NaN or infinity")
    _check_counts(samples=samples)
    _check_sigma(sigma)
    blocks, means = np.unique(blocks, return_inverse=True)[1].ravel(), means.ravel()
    averages = np.bincount(blocks, means) / np.bincount(blocks)
    bias = averages[blocks] - means
    return float(bias @ bias + len(averages) * sigma**2 / samples)


def mse_gap_bound(
    ratio: ArrayLike,
    samples: int,
    rank: int,
    alpha: float,
    sigma: float = 1.0,
    dimensions: int | None = None,
    *,
    proof: Proof = "paper",
) -> NDArray[np.float64]:
    """A bound on the error that a learned sharing adds to that of the true one (Claim 2).

    The gap is MSE(A_val) − MSE(A_gt), both by `shared_mean_mse` on all n samples, with A_val the
    minimiser of ‖P_A θ − mean(V)‖² + rk(A) σ²/|T| (Eq. 13: the validation loss in expectation over
    T, which a fit to one T can only approach), |T| = rn and |V| = (1 − r)n. The bound is for all
    means at once, and may fail with probability α.

    ``proof="paper"`` is Eq. 15, for α < e^{−K/10}:

        σ²/n · ((1 − r)/r · (rk − 1) − 40 ln α / (1 − r)).

    It is not a theorem. Its Eq. 39 has ‖a‖² − ‖b‖² ≤ ‖a − b‖², which holds for norms and not for
    their squares, and the bound fails where validation rows are some 1,200 times as many as
    training rows: with K = rk = 2, |T| = 1, |V| = 3000 and α = 0.05 there are means for which it
    does with probability 0.14.

    ``proof="corrected"`` holds for every α. With Z = mean(V) − θ, a = P_val θ − θ and
    c = (rk_gt − rk_val) σ²/|T|, that A_val is the minimiser says ‖a‖² ≤ 2⟨a, Z⟩ + c, so
    ‖a‖ ≤ ‖Z‖ + √(‖Z‖² + c). The gap ‖a‖² − rc then grows with c, which is at most
    (rk − 1) σ²/|T|, and ‖Z‖² |V|/σ² is χ² with K degrees of freedom, of which the exact quantile q
    is taken:

        gap ≤ (z + √(z² + c))² − rc,   z² = q σ² / ((1 − r)n),   c = (rk − 1) σ² / (rn).

    At rank 1 every scheme is unbiased, a = 0, and the minimiser is the one with a single block: the
    gap is zero.

    Args:
        ratio: r, the share of the data that is trained on, any shape.
        samples: n, the number of samples.
        rank: The number of blocks of the true scheme.
        alpha: The probability that the bound may fail with.
        sigma: The standard deviation of the noise.
        dimensions: K; the corrected bound needs it, for the paper's it is checked against α.
        proof: Which bound.

    Returns:
        The bound, in the shape of ``ratio``.

    Raises:
        TypeError: If a number of samples, blocks or dimensions is not an integer.
        ValueError: If a number is out of range, α is too large for the paper's bound, or the
            dimensions are missing.

    Example:
        >>> mse_gap_bound([0.3, 0.6], samples=100, rank=4, alpha=0.05).round(2)
        array([1.78, 3.02])
        >>> mse_gap_bound([0.3, 0.6], 100, 4, 0.05, dimensions=5, proof="corrected").round(2)
        array([0.79, 1.17])
    """
    r = _checked_ratio(ratio)
    _check_counts(samples=samples, rank=rank)
    _check_alpha(alpha)
    _check_sigma(sigma)
    if dimensions is not None:
        _check_counts(dimensions=dimensions)
        if rank > dimensions:
            raise ValueError(f"expected a rank of at most {dimensions} dimensions, got {rank}")
    if _is_printed(proof):
        if dimensions is not None and not alpha < exp(-dimensions / 10):
            raise ValueError(
                f"expected alpha below exp(−K/10) = {exp(-dimensions / 10):.3g} for the paper's "
                f"bound in {dimensions} dimensions, got {alpha}"
            )
        return np.asarray(_printed_gap(r, rank, alpha) * (sigma**2 / samples))
    if dimensions is None:
        raise ValueError("expected the number of dimensions for the corrected bound, got None")
    gap = _corrected_gap(r, rank, alpha, np.asarray(dimensions))
    return np.asarray(gap * (sigma**2 / samples))


def sharing_threshold(
    ratio: float, alpha: float, rank: int = 1, *, proof: Proof = "paper"
) -> int | None:
    """The smallest K above the rank where a bound says that learned sharing helps (Eq. 19).

    That is, where MSE(A_gt) plus the bound on the gap is at most Kσ²/n, the error of means that
    are estimated one by one.

    ``proof="paper"`` is K ≥ 1 − 40 ln(α)/(1 − r) for rank 1, as printed. The promise is empty:
    Claim 2 asks for α < e^{−K/10}, and then the right hand side is above 1 + 4K/(1 − r), which is
    above K. No r, α and K satisfy both.

    ``proof="corrected"`` heeds what its bound asks for. At rank 1 it is 2: every scheme is
    unbiased, so no sharing errs more than none, whatever the data. Above rank 1 it is ``None`` for
    every α up to 0.99: the bound is at least 4‖Z‖², and ‖Z‖² alone is about Kσ²/|V|, more than the
    error that is to be beaten. Nor is only the proof at fault. For two means about 4σ/√|V| apart,
    the minimiser of Eq. 13 puts them together so often that, with half of the data for training,
    it does worse than no sharing for K = 2, 4 and 6 (``isotropy reproduce yeh2022/figure1``).

    Args:
        ratio: r, the share of the data that is trained on.
        alpha: The probability that the bound may fail with.
        rank: The number of blocks of the true scheme.
        proof: Which bound, see `mse_gap_bound`.

    Returns:
        The number of dimensions, or ``None`` where no number is enough.

    Raises:
        TypeError: If the rank is not an integer.
        ValueError: If a number is out of range.

    Example:
        >>> K = sharing_threshold(0.3, 0.05)
        >>> K, 0.05 < exp(-K / 10)
        (173, False)
        >>> sharing_threshold(0.3, 0.05, proof="corrected")
        2
        >>> sharing_threshold(0.3, 0.05, rank=2, proof="corrected") is None
        True
    """
    r = _checked_ratio(ratio)
    if r.ndim:
        raise ValueError(f"expected one ratio, got shape {r.shape}")
    _check_counts(rank=rank)
    _check_alpha(alpha)
    if _is_printed(proof):
        return max(rank + 1, ceil(rank + _printed_gap(r, rank, alpha)))
    # the quantile q is at least K − 2√(Kx), x = −ln(1 − α) (Laurent & Massart, 2000): beyond
    # K = 64x/9 this is over K/4, and the bound is at least 4q/(1 − r)
    last = max(rank + 1, int(-64 / 9 * log1p(-alpha)))
    dimensions = np.arange(rank + 1, last + 1)
    enough = rank + _corrected_gap(r, rank, alpha, dimensions) <= dimensions
    return int(dimensions[enough.argmax()]) if enough.any() else None


def suggest_split(samples: int, rank: int = 1, alpha: float = 0.05, floor: float = 0.2) -> int:
    """How many samples to train on when a sharing scheme is learned on the others.

    It minimises Eq. 15 of `mse_gap_bound` over whole numbers of samples, near the share

        r* = √(rk − 1) / (√(rk − 1) + √(−40 ln α)),

    but keeps at least a share ``floor`` for training, and at least one sample on either side. The
    bound alone asks for too little: nothing at all at rank 1, 8 to 14 % at ranks 2 to 4. It is in
    expectation over the training samples, so their noise does not tell against it. (The corrected
    bound has its least value at 17 % for rank 2 and 25 % for rank 4 of five.) What splits cost in
    truth is measured by ``isotropy reproduce yeh2022/figure3`` (rank 1) and ``yeh2022/figure6``
    (rank 4).

    Args:
        samples: The number of samples to split.
        rank: The number of blocks that is expected.
        alpha: The probability that the bound may fail with.
        floor: The least share of the samples to train on.

    Returns:
        The number of training samples; the others are for validation.

    Raises:
        TypeError: If the number of samples or the rank is not an integer.
        ValueError: If there are fewer than two samples, or a number is out of range.

    Example:
        >>> suggest_split(100), suggest_split(100, rank=40)
        (20, 36)
    """
    _check_counts(samples=samples, rank=rank)
    _check_alpha(alpha)
    if samples < 2:
        raise ValueError(f"expected at least two samples to split, got {samples}")
    if not 0 <= floor < 1:
        raise ValueError(f"expected a floor in [0, 1), got {floor}")
    sharing, confidence = sqrt(rank - 1), sqrt(-40 * log(alpha))
    # the bound is convex in r: the best whole number is next to the best number
    below = int(samples * sharing / (sharing + confidence))
    around = np.clip([below, below + 1], 1, samples - 1)
    best = int(around[_printed_gap(around / samples, rank, alpha).argmin()])
    return min(max(best, ceil(floor * samples)), samples - 1)


def _label_array(labels: ArrayLike | Tensor) -> NDArray[np.integer[Any]]:
    found = labels.detach().cpu().numpy() if isinstance(labels, Tensor) else np.asarray(labels)
    if found.size == 0:
        raise ValueError("expected labels of at least one element, got none")
    if found.dtype.kind not in "iu":
        raise TypeError(f"expected integers as labels, got {found.dtype}")
    return found


def _printed_gap(ratio: NDArray[np.float64], rank: int, alpha: float) -> NDArray[np.float64]:
    """Eq. 15 in units of σ²/n."""
    return (1 - ratio) / ratio * (rank - 1) - 40 * log(alpha) / (1 - ratio)


def _corrected_gap(
    ratio: NDArray[np.float64], rank: int, alpha: float, dimensions: NDArray[np.integer]
) -> NDArray[np.float64]:
    """The corrected bound in units of σ²/n."""
    if rank == 1:
        return np.zeros(np.broadcast_shapes(ratio.shape, dimensions.shape))
    noise = chdtri(dimensions, alpha) / (1 - ratio)
    slack = (rank - 1) / ratio
    bound: NDArray[np.float64] = (np.sqrt(noise) + np.sqrt(noise + slack)) ** 2 - ratio * slack
    return bound


def _is_printed(proof: str) -> bool:
    if proof not in ("paper", "corrected"):
        raise ValueError(f"expected the proof 'paper' or 'corrected', got {proof!r}")
    return proof == "paper"


def _checked_ratio(ratio: ArrayLike) -> NDArray[np.float64]:
    r = np.asarray(ratio, dtype=np.float64)
    if not ((r > 0) & (r < 1)).all():
        raise ValueError(f"expected ratios between 0 and 1, got {r.tolist()}")
    return r


def _check_counts(**counts: int) -> None:
    for name, count in counts.items():
        if isinstance(count, bool) or not isinstance(count, Integral):
            raise TypeError(f"expected an integer as {name}, got {count!r}")
        if count < 1:
            raise ValueError(f"expected {name} of at least 1, got {count}")


def _check_alpha(alpha: float) -> None:
    if not 0 < alpha < 1:
        raise ValueError(f"expected alpha between 0 and 1, got {alpha}")


def _check_sigma(sigma: float) -> None:
    if not 0 <= sigma < float("inf"):
        raise ValueError(f"expected sigma of at least 0, got {sigma}")
