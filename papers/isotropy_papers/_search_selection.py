"""What a table of trained networks says: which to choose, on validation rows, and how sure one is.

A network is trained with several seeds, and all of them answer the same test rows. So the error of
a mean accuracy has two parts: of seeds, by Student's t, and of rows, by the binomial; the interval
adds their squares.
"""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isotropy_papers.score_table import ScoreTable

Shares = NDArray[Any]


def scores(table: ScoreTable, *, best_epoch: bool) -> tuple[Shares, Shares]:
    """Validation and test accuracy in percent, each of shape (networks, seeds).

    Args:
        table: Of trained networks.
        best_epoch: Take the epoch that is best on validation rows, in place of the last.

    Example:
        >>> from isotropy.search import SearchSpace, State
        >>> space = SearchSpace((1, 8, 8), ("vertical flip",), ((4,),))
        >>> right = np.array([[[6, 9, 8]]])
        >>> table = ScoreTable("a", space, (State(),), right, right, 10, 10, np.ones(1), False)
        >>> scores(table, best_epoch=True)[0], scores(table, best_epoch=False)[1]
        (array([[90.]]), array([[80.]]))
    """
    epochs = table.validation.argmax(2) if best_epoch else np.full(table.validation.shape[:2], -1)
    validation, test = (
        np.take_along_axis(counts, epochs[..., None], 2)[..., 0]
        for counts in (table.validation, table.test)
    )
    return 100 * (validation / table.validation_rows), 100 * (test / table.test_rows)


def best_on_validation(table: ScoreTable, count: int, *, best_epoch: bool) -> list[int]:
    """The networks of the largest mean validation accuracy, by number, from the best on.

    Args:
        table: Of trained networks.
        count: How many.
        best_epoch: As in `scores`.
    """
    validation, _ = scores(table, best_epoch=best_epoch)
    found: list[int] = np.argsort(-validation.mean(1), kind="stable")[:count].tolist()
    return found


def mean_accuracy(percent: Shares, rows: int) -> tuple[float, tuple[float, float]]:
    """The mean over seeds, and its 95 % interval.

    Args:
        percent: Accuracy for each seed.
        rows: How many test rows there are.

    Example:
        >>> mean, (low, high) = mean_accuracy(np.array([89.5, 90.5]), 10_000)
        >>> round(mean, 2), round(high - mean, 2)  # √((12.7 · 0.5)² + (1.96 · 0.3)²)
        (90.0, 6.38)
    """
    mean = float(percent.mean())
    return _interval(percent, mean * (100 - mean) / rows)


def mean_difference(percent: Shares, other: Shares, rows: int) -> tuple[float, tuple[float, float]]:
    """How much more accurate one network is than another, seed by seed, with its 95 % interval.

    Rows are taken as if each network had its own: where both are right on the same rows, as
    networks that learn from the same images mostly are, the interval is wider than it need be.

    Args:
        percent: Accuracy for each seed.
        other: Of the other network, with the same seeds.
        rows: How many test rows there are.

    Example:
        >>> difference, _ = mean_difference(np.array([90.0, 91.0]), np.array([80.0, 82.0]), 1000)
        >>> difference
        9.5
    """
    means = [float(one.mean()) for one in (percent, other)]
    return _interval(percent - other, sum(mean * (100 - mean) / rows for mean in means))


def _interval(values: Shares, row_variance: float) -> tuple[float, tuple[float, float]]:
    from scipy.stats import t

    mean, of_seeds = float(values.mean()), 0.0
    if len(values) > 1:
        error = float(values.std(ddof=1)) / sqrt(len(values))
        of_seeds = float(t.ppf(0.975, len(values) - 1)) * error
    half = sqrt(of_seeds**2 + 1.96**2 * row_variance)
    return mean, (mean - half, mean + half)


INTERVAL_NOTE = (
    "intervals: 95 %, of seeds by Student's t and of test rows by the binomial, squares added; of "
    "a difference the seeds are paired, rows are not, which makes it wider than it need be"
)
