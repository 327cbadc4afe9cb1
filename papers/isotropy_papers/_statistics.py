"""How far a number scatters over seeds."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

import numpy as np

_RESAMPLES = 10_000


def median_interval(values: list[float]) -> tuple[float, tuple[float, float] | None]:
    """The median, and 2.5 to 97.5 % of the medians of bootstrapped samples.

    Args:
        values: One for each seed.

    Returns:
        The median, and the interval; ``None`` for a single value.

    Example:
        >>> median_interval([1.0, 2.0, 30.0])
        (2.0, (1.0, 30.0))
    """
    median = float(np.median(values))
    if len(values) < 2:
        return median, None
    rng = np.random.default_rng(0)
    medians = np.median(rng.choice(values, (_RESAMPLES, len(values))), axis=1)
    low, high = np.quantile(medians, [0.025, 0.975], method="nearest")
    return median, (float(low), float(high))


def mean_interval(values: list[float]) -> tuple[float, tuple[float, float] | None]:
    """The mean, and one standard deviation to either side.

    Args:
        values: One for each seed.

    Returns:
        The mean, and the interval; ``None`` for a single value.

    Example:
        >>> mean_interval([1.0, 3.0])
        (2.0, (0.585..., 3.414...))
    """
    mean = float(np.mean(values))
    if len(values) < 2:
        return mean, None
    spread = float(np.std(values, ddof=1))
    return mean, (mean - spread, mean + spread)


def mean_95(values: Sequence[float]) -> tuple[float, tuple[float, float] | None]:
    """The mean, and 1.96 standard errors to either side.

    Args:
        values: One for each run.

    Returns:
        The mean, and the interval; ``None`` for a single value.

    Example:
        >>> mean, (low, high) = mean_95([1.0, 3.0])
        >>> round(mean, 2), round(low, 2), round(high, 2)
        (2.0, 0.04, 3.96)
    """
    mean = float(np.mean(values))
    if len(values) < 2:
        return mean, None
    error = 1.96 * float(np.std(values, ddof=1)) / sqrt(len(values))
    return mean, (mean - error, mean + error)
