"""Polynomials of degree at most two that samples are near to, by how far they are from them.

How far samples lie from c = 0 is, to first order, |c| / |∇c|; the polynomials with the least mean
c² for their mean |∇c|² are eigenvectors of

    mean(m mᵀ) a = λ mean(∇m Σ ∇mᵀ) a,     c = a · m,

with m the centred monomials and Σ the variances of the errors of one input (Taubin 1991, IEEE
TPAMI 13(11), there with Σ = 1): λ is about one if errors alone keep c from zero. Strongly
correlated columns, whose squared difference is small, do not make λ small.

Polynomials as people write them: few terms, whole numbers, and a constant with its digits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr, solve_triangular

from isotropy.discovery.proposing._proposing_thresholds import ProposingThresholds


def tidied(x: Array, errors: Array, terms: IntArray, coefficients: Array) -> Array:
    """Coefficients with zeros and small whole numbers where the samples do not speak against it.

    Returns:
        Coefficients, the first of which is not negative.
    """
    limits = ProposingThresholds.now()
    unit = np.sqrt((x**2).mean(0))
    unit[unit == 0.0] = 1.0
    x, errors = x / unit, errors / unit
    size = np.append(unit, 1.0)[terms].prod(1)
    scaled = coefficients * size
    allowed = limits.tidy_slack * distance(x, errors, terms, scaled) + 1e-3
    # a product that is zero on all samples is worth as much as its gradient is
    worth = np.abs(scaled) * np.sqrt(np.diag(gradient_gram(x, errors * sample_weights(x), terms)))
    scaled = np.where(worth > 1e-9 * worth.max(), scaled, 0.0)
    for threshold in limits.tidy_shares:
        support = worth >= threshold * worth.max()
        fewer = np.zeros(len(terms))
        fewer[support] = thin_polynomials(x, errors, terms[support])[0][0]
        cosine = abs(fewer @ scaled) / (np.linalg.norm(fewer) * np.linalg.norm(scaled))
        if cosine > limits.tidy_cosine and distance(x, errors, terms, fewer) <= allowed:
            scaled = fewer
            break
    in_units: Array = scaled / size
    in_units = in_units / in_units[np.flatnonzero(in_units)[0]]
    for greatest in range(1, limits.largest_simple + 1):
        simple = [Fraction(value).limit_denominator(greatest) for value in in_units]
        whole = math.lcm(*(fraction.denominator for fraction in simple))
        rounded = np.array([float(fraction * whole) for fraction in simple])
        if whole <= limits.largest_whole and distance(x, errors, terms, rounded * size) <= allowed:
            return rounded
    return in_units


def polynomial_words(terms: IntArray, coefficients: Array, names: Sequence[str]) -> str:
    """A polynomial as people write it.

    Example:
        >>> terms = np.array([[0, 0], [0, 1], [1, -1]])
        >>> polynomial_words(terms, np.array([1.0, -2.0, 0.5]), ["x", "y"])
        'x² − 2 x·y + 0.5 y'
    """
    text = ""
    for (i, j), value in zip(terms, coefficients, strict=True):
        if value == 0.0:
            continue
        name = f"{names[i]}²" if i == j else names[i] if j < 0 else f"{names[i]}·{names[j]}"
        number = f"{abs(value):.4g}"
        sign = ("−" if value < 0 else "") if not text else (" − " if value < 0 else " + ")
        text += sign + (name if number == "1" else f"{number} {name}")
    return text


def constant_words(x: Array, errors: Array, terms: IntArray, coefficients: Array) -> str:
    """The value of a polynomial on samples, with the digits they tell."""
    quadratic, linear = as_matrices(terms, coefficients, x.shape[1])
    curved = x @ quadratic
    values = (curved * x).sum(1) + x @ linear
    variance = ((2.0 * curved + linear) ** 2 * errors**2).sum(1)
    weights = 1.0 / (variance + 0.01 * variance.mean() + 1e-300)
    weights /= weights.sum()
    value = float(weights @ values)
    error = math.sqrt(float(weights**2 @ (values - value) ** 2))
    error += 1e-12 * float(np.abs(term_values(x, terms) * coefficients).sum(1).mean())
    if abs(value) <= ProposingThresholds.now().constraint_errors * error:
        return "0"
    digits = 1 + math.floor(math.log10(abs(value))) - math.floor(math.log10(error))
    sign = "−" if value < 0 else ""
    return f"{sign}{abs(value):.{min(4, max(1, digits - 1))}g}"


Array = NDArray[np.float64]
IntArray = NDArray[np.int64]


def thin_polynomials(
    x: Array, errors: Array, terms: IntArray, groups: int = 1
) -> tuple[Array, Array]:
    """Polynomials over some terms by how far the samples are from them, in errors: √λ above.

    Returns:
        Coefficients, one polynomial in each row, the thinnest first; and the distances.
    """
    weights = sample_weights(x)
    gram = gradient_gram(x, errors * weights, terms)
    size = np.sqrt(np.maximum(np.diag(gram), 1e-300))
    # a polynomial whose gradient vanishes on all samples has no distance
    gram = gram / np.outer(size, size) + 1e-12 * np.eye(len(terms))
    factor = np.linalg.cholesky(gram)
    values = _centred(term_values(x, terms), weights, groups) * weights / size
    whitened = solve_triangular(factor, values.T, lower=True).T
    if len(whitened) > len(terms):
        whitened = np.linalg.qr(whitened, mode="r")
    _, distances, rows = np.linalg.svd(whitened)
    distances = np.pad(distances, (0, len(terms) - len(distances))) / math.sqrt(len(x))
    coefficients = solve_triangular(factor.T, rows.T).T / size
    return coefficients[::-1], distances[::-1]


def linear_relations(u: Array, errors: Array, groups: int = 1) -> tuple[Array, IntArray]:
    """Combinations of columns that are constant up to their errors, in echelon form.

    Args:
        u: Samples of d columns in units of their spread, those of each group together.
        errors: The error of each value.
        groups: The number of equal groups of samples, each with constants of its own.

    Returns:
        Rows (m, d), and the column that is one in each row and zero in the others, (m,).
    """
    limits, (samples, d) = ProposingThresholds.now(), u.shape
    terms = monomials(np.arange(d), "linear")
    if d == 0:
        return np.zeros((0, 0)), np.zeros(0, np.int64)
    if samples >= limits.samples_per_term * d:
        rows, distances = thin_polynomials(u, errors, terms, groups)
        rows = rows[distances <= limits.constraint_errors]
    else:  # too few to see combinations
        alone = [
            thin_polynomials(u[:, [i]], errors[:, [i]], terms[:1], groups)[1][0] for i in range(d)
        ]
        rows = np.eye(d)[np.array(alone) <= limits.constraint_errors]
    # the later columns are more often computed from others
    preference: Array = np.linspace(1.0, 1.5, d)
    return echelon_rows(rows, preference)


def echelon_rows(rows: Array, weights: Array, tolerance: float = 1e-9) -> tuple[Array, IntArray]:
    """The row space with a unit matrix in the columns that suit it best, and these columns."""
    if not len(rows):
        return rows, np.zeros(0, np.int64)
    _, sizes, basis = np.linalg.svd(rows / np.linalg.norm(rows, axis=1, keepdims=True))
    basis = basis[: int((sizes > tolerance * sizes[0]).sum())]
    _, _, order = qr(basis * weights, pivoting=True, mode="economic")
    pivots = np.sort(order[: len(basis)]).astype(np.int64)
    return np.linalg.solve(basis[:, pivots], basis), pivots


def clear_count(distances: Array) -> int:
    """How many of the least distances are small and clearly less than the next."""
    limits = ProposingThresholds.now()
    count, gap = int((distances <= limits.constraint_errors).sum()), limits.constraint_gap
    while count and count < len(distances) and distances[count] < gap * distances[count - 1]:
        count -= 1
    return count


# --- samples, their units and errors -----------------------------------------------------------


def spaced_rows(count: int) -> slice:
    """At most a few thousand evenly spaced rows."""
    return slice(None, None, max(1, math.ceil(count / ProposingThresholds.now().constraint_rows)))


def column_spread(x: Array) -> Array:
    """Median absolute deviation as the standard deviation of a Gaussian column.

    A few far outliers do not make the rest look thin in these units. Columns that are mostly one
    value have a small part of their mean absolute deviation.
    """
    away = np.abs(x - np.median(x, axis=0))
    least = ProposingThresholds.now().coarsest_rounding * away.mean(0)
    spread: Array = np.maximum(1.4826 * np.median(away, axis=0), least)
    return spread


def value_errors(rounding: Array, spread: Array, tolerance: float | None = None) -> Array:
    """The error to allow for each value: rounding, no more than some and no less than some."""
    limits = ProposingThresholds.now()
    thin = limits.thin_spread if tolerance is None else tolerance
    least = thin / limits.constraint_errors * spread
    allowed: Array = np.clip(rounding, least, limits.coarsest_rounding * spread)
    return allowed


def sample_weights(x: Array) -> Array:
    """Weights that bound what one sample adds to a mean of squares of quadrics, (N, 1)."""
    norms = np.linalg.norm(x, axis=1, keepdims=True)
    weights: Array = 1.0 / (1.0 + (norms / (np.median(norms) or 1.0)) ** 2)
    return weights


# --- terms -------------------------------------------------------------------------------------


def monomials(columns: IntArray, kind: str) -> IntArray:
    """Monomials as pairs of columns, with −1 for none."""
    linear = [(i, -1) for i in columns]
    squares = [(i, i) for i in columns]
    products = [(i, j) for place, i in enumerate(columns) for j in columns[place:]]
    chosen = {"linear": [], "squares": squares, "all": products}[kind]
    return np.array([*chosen, *linear], np.int64).reshape(-1, 2)


def term_values(x: Array, terms: IntArray) -> Array:
    """The terms on samples, (N, P)."""
    values: Array = _with_one(x)[:, terms].prod(2)
    return values


def _with_one(x: Array) -> Array:
    return np.hstack([x, np.ones((len(x), 1))])


def _centred(values: Array, weights: Array, groups: int = 1) -> Array:
    """Values less their weighted mean in each of some equal groups of samples."""
    parts = values.reshape(groups, -1, values.shape[1])
    weighed = weights.reshape(groups, -1, 1) ** 2
    means = (parts * weighed).sum(1, keepdims=True) / weighed.sum(1, keepdims=True)
    centred: Array = (parts - means).reshape(values.shape)
    return centred


def gradient_gram(x: Array, errors: Array, terms: IntArray) -> Array:
    """The mean of ∇m Σ ∇mᵀ."""
    full, gram = _with_one(x), np.zeros((len(terms), len(terms)))
    for column in np.unique(terms[terms >= 0]):
        own = np.flatnonzero((terms == column).any(1))
        i, j = terms[own].T
        slope = (i == column) * full[:, j] + (j == column) * full[:, i]
        slope = slope * errors[:, column, None]
        gram[np.ix_(own, own)] += slope.T @ slope / len(x)
    return gram


def distance(x: Array, errors: Array, terms: IntArray, coefficients: Array) -> float:
    """√λ of one polynomial."""
    weights = sample_weights(x)
    values = _centred(term_values(x, terms) @ coefficients[:, None], weights) * weights
    gram = gradient_gram(x, errors * weights, terms)
    error = float(coefficients @ gram @ coefficients)
    return float(np.sqrt((values**2).mean())) / math.sqrt(max(error, 1e-300))


def as_terms(quadratic: Array, linear: Array) -> tuple[IntArray, Array]:
    """xᵀQx + b·x as terms and their coefficients."""
    i, j = np.nonzero(np.triu(quadratic))
    (k,) = np.nonzero(linear)
    terms = np.concatenate([np.stack([i, j], 1), np.stack([k, np.full(len(k), -1)], 1)])
    return terms, np.concatenate([np.where(i == j, 1.0, 2.0) * quadratic[i, j], linear[k]])


def as_matrices(terms: IntArray, coefficients: Array, d: int) -> tuple[Array, Array]:
    """Terms with coefficients as Q and b of xᵀQx + b·x."""
    quadratic, linear = np.zeros((d, d)), np.zeros(d)
    for (i, j), value in zip(terms, coefficients, strict=True):
        if j < 0:
            linear[i] = value
        else:
            quadratic[i, j] += value / 2
            quadratic[j, i] += value / 2
    return quadratic, linear
