"""Inputs in units fit for fitting, and what no fit can learn from them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isotropy.discovery.proposing._proposing_thresholds import ProposingThresholds
from isotropy.discovery.proposing.generators._column_blocks import ColumnBlocks
from isotropy.discovery.proposing.generators._thin_polynomials import (
    column_spread,
    linear_relations,
    polynomial_words,
    spaced_rows,
    tidied,
    value_errors,
)

Array = NDArray[np.float64]

_SINGLE, _DOUBLE = 2.0**-24, 2.0**-53  # floating point: relative rounding of the formats


@dataclass(frozen=True, eq=False)
class Conditioned:
    """Standardised inputs z = (x − shift) / scale.

    Args:
        x: The standardised inputs z, (N, n).
        shift: Taken from each column, the same on matching columns of all blocks, (n,).
        scale: Divides each column, the same on matching columns of all blocks, (n,).
        rounding: Standard deviation of the rounding error of each value of z, (N, n).

    Example:
        >>> z = condition([[1.0, 10.0], [3.0, 14.0]], None)
        >>> z.shift.tolist(), z.x.round(3).tolist()
        ([2.0, 12.0], [[-0.632, -1.265], [0.632, 1.265]])
    """

    x: Array
    shift: Array
    scale: Array
    rounding: Array = field(repr=False)


def condition(x: ArrayLike, blocks: ColumnBlocks | None) -> Conditioned:
    """Standardise inputs so that a linear or affine action on blocks stays one.

    Matching columns of all blocks have a common shift and scale. Columns whose standard deviations
    lie within a factor of ten of each other are divided by one number, so that their coordinates
    stay the user's up to a factor; where they spread further, each coordinate has its own.

    Raises:
        ValueError: If the inputs are no finite table or have another number of columns.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> x = rng.normal(size=(50, 4)) * [3.0, 5.0, 3.0, 5.0]
        >>> len(set(condition(x, None).scale.tolist()))
        1
    """
    x = _table(x)
    n = x.shape[1]
    if blocks is not None and blocks.n != n:
        raise ValueError(f"expected inputs of {blocks.n} columns for these blocks, got {n}")
    matching = [[column] for column in range(n)]
    if blocks is not None:
        matching = [list(columns) for columns in zip(*blocks.columns, strict=True)]
        matching += [[column] for column in blocks.rest]
    shift, spread = np.zeros(n), np.zeros(n)
    constant = _constant_columns(x)
    for columns in matching:
        shift[columns] = x[:, columns].mean()
        varying = [column for column in columns if not constant[column]]
        # not about the common shift: blocks far apart are no reason for a large unit
        spread[columns] = math.sqrt(np.mean(x[:, varying].var(0))) if varying else 0.0
    scale = _common_units(spread)
    return Conditioned((x - shift) / scale, shift, scale, rounding_errors(x) / scale)


def rounding_errors(x: ArrayLike) -> Array:
    """Standard deviation of the rounding error of each value, as its digits tell it.

    Columns whose values all end after some decimals, or all have some number of significant
    digits, are taken as rounded there; others as rounded by their floating-point format, single
    precision if all values have one.

    Example:
        >>> errors = rounding_errors([[1.25, 1.25], [0.5, 0.1234567891234]])
        >>> (errors * np.sqrt(12)).round(4).tolist()
        [[0.01, 0.0], [0.01, 0.0]]
    """
    x = _table(x)
    sample = x[spaced_rows(len(x))]
    epsilon = _precision(x)
    magnitude = np.abs(x)
    errors: Array = magnitude * epsilon / math.sqrt(3.0)
    for column, precision in enumerate(epsilon):
        seen = sample[:, column]
        decimals = _decimals(seen, precision)
        if decimals is not None:
            step = 10.0**-decimals / math.sqrt(12.0)
            errors[:, column] = np.maximum(errors[:, column], step)
        digits = _significant(seen, precision)
        if digits is not None:
            steps = _last_digit(x[:, column], digits) / math.sqrt(12.0)
            errors[:, column] = np.maximum(errors[:, column], steps)
    return errors


def invisible_combinations(x: ArrayLike, names: Sequence[str]) -> tuple[str, ...]:
    """Linear combinations of columns that do not vary: nothing can be learned of them.

    A combination counts as constant if it varies by no more than the rounding of the data explains,
    or than a thousandth of what its columns do. With fewer than three samples for each column, only
    constant columns are named.

    Raises:
        ValueError: If the inputs are no finite table or there are not as many names as columns.

    Example:
        >>> first, second = np.random.default_rng(0).normal(size=(2, 50))
        >>> x = np.stack([first, second, first + second, np.full(50, 3.0)], 1)
        >>> invisible_combinations(x, ["x0", "x1", "x2", "E"])
        ('E is constant', 'x2 − x0 − x1 is constant')
    """
    x = _table(x, names)
    constant = _constant_columns(x)
    sentences = [f"{names[column]} is constant" for column in np.flatnonzero(constant).tolist()]
    varying = np.flatnonzero(~constant)
    if not len(varying):
        return tuple(sentences)
    rows = spaced_rows(len(x))
    rounding = rounding_errors(x)[rows][:, varying]
    centred = x[rows][:, varying]
    centred = centred - centred.mean(0)
    spread = column_spread(centred)
    spread[spread == 0.0] = 1.0
    errors = value_errors(rounding, spread)
    relations, pivots = linear_relations(centred / spread, errors / spread)
    for relation, pivot in zip(relations, pivots, strict=True):
        order = np.array([pivot, *np.delete(np.arange(len(varying)), pivot)])
        terms = np.stack([order, np.full(len(order), -1)], 1)
        tidy = tidied(centred, errors, terms, (relation / spread)[order])
        words = polynomial_words(terms, tidy, [names[column] for column in varying.tolist()])
        sentences.append(f"{words} is constant")
    return tuple(sentences)


def unit_problem(x: ArrayLike, names: Sequence[str]) -> str | None:
    """A sentence if columns have units of wildly different size, a factor of a million or more.

    Raises:
        ValueError: If the inputs are no finite table or there are not as many names as columns.

    Example:
        >>> print(unit_problem([[1e-9, 2.0], [3e-9, 4.0]], ["q", "m"]))
        units differ by a factor of 1e+09: m has standard deviation 1, q has 1e-09; rescale them
    """
    x = _table(x, names)
    spread = np.where(_constant_columns(x), np.nan, x.std(0))
    if np.isnan(spread).all():
        return None
    least, most = int(np.nanargmin(spread)), int(np.nanargmax(spread))
    ratio = spread[most] / spread[least]
    if ratio <= ProposingThresholds.now().wild_units:
        return None
    return (
        f"units differ by a factor of {ratio:.2g}: {names[most]} has standard deviation "
        f"{spread[most]:.2g}, {names[least]} has {spread[least]:.2g}; rescale them"
    )


def _table(x: ArrayLike, names: Sequence[str] | None = None) -> Array:
    x = np.asarray(x, np.float64)
    if x.ndim != 2 or 0 in x.shape:
        raise ValueError(f"expected inputs of shape (N, n), got {x.shape}")
    if names is not None and len(names) != x.shape[1]:
        raise ValueError(f"expected {x.shape[1]} names of columns, got {len(names)}")
    finite = np.isfinite(x).all(0)
    if not finite.all():
        column = int(np.argmin(finite))
        called = column if names is None else names[column]
        raise ValueError(f"expected finite inputs, got nan or infinity in column {called}")
    return x


def _precision(x: Array) -> Array:
    """The relative rounding of each column's floating-point format."""
    with np.errstate(over="ignore", under="ignore"):
        single = (x.astype(np.float32).astype(np.float64) == x).all(0)
    return np.where(single, _SINGLE, _DOUBLE)


def _constant_columns(x: Array) -> NDArray[np.bool_]:
    constant: NDArray[np.bool_] = x.std(0) <= 16.0 * _precision(x) * np.abs(x).max(0)
    return constant


def _common_units(spread: Array) -> Array:
    """One unit for columns of similar spread, one each where similar ones reach too far."""
    scale = np.ones(len(spread))
    varying = np.flatnonzero(spread)
    if not len(varying):
        return scale
    similar = ProposingThresholds.now().similar_units
    order = varying[np.argsort(spread[varying])]
    breaks = np.flatnonzero(spread[order][1:] > similar * spread[order][:-1]) + 1
    families = np.split(order, breaks)
    for family in families:
        own = spread[family]
        together = own[-1] <= similar * own[0]
        scale[family] = math.sqrt(np.mean(own**2)) if together else own
        if together and len(families) == 1:
            scale[spread == 0.0] = scale[family[0]]
    return scale


def _decimals(values: Array, precision: float) -> int | None:
    """After how many decimals all values end, if they do before their format does."""
    for decimals in range(ProposingThresholds.now().digits_tried + 1):
        if _are_whole(values * 10.0**decimals, precision):
            return decimals
    return None


def _significant(values: Array, precision: float) -> int | None:
    """How many significant digits all values have, if less than their format has."""
    values = values[values != 0.0]
    for digits in range(1, ProposingThresholds.now().digits_tried + 1):
        if _are_whole(values / _last_digit(values, digits), precision):
            return digits
    return None


def _are_whole(values: Array, precision: float) -> bool:
    """Whether values are whole up to their format, and would hardly be so by chance."""
    slack = 4.0 * precision * np.abs(values)
    informative = (slack > 0.0) & (slack < 0.25)
    if (np.abs(values - np.rint(values)) > slack)[informative].any():
        return False
    chance = ProposingThresholds.now().rounded_by_chance
    return bool(np.log(2.0 * slack[informative]).sum() < math.log(chance))


def _last_digit(values: Array, digits: int) -> Array:
    """The unit of the last of some significant digits of each value; 0 for 0."""
    magnitude = np.abs(values)
    exponent = np.floor(np.log10(np.where(magnitude > 0.0, magnitude, 1.0)))
    unit: Array = np.where(magnitude > 0.0, 10.0 ** (exponent - digits + 1), 0.0)
    return unit
