"""Thin data: quadrics on which all inputs lie, such as E² − p² = m², and what is tangent to them.

A polynomial c of degree at most two is taken for a constraint if the inputs lie on c = 0 up to
their rounding, or up to a small part of their spread. How far they lie from it is, to first order,
|c| / |∇c|; the polynomials with the least mean c² for their mean |∇c|² are eigenvectors of

    mean(m mᵀ) a = λ mean(∇m Σ ∇mᵀ) a,     c = a · m,

with m the centred monomials and Σ the variances of the errors of one input (Taubin 1991, IEEE
TPAMI 13(11), there with Σ = 1): λ is about one if errors alone keep c from zero. Strongly
correlated columns, whose squared difference is small, do not make λ small.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import qr, solve_triangular

from isotropy.discovery.generators._column_blocks import ColumnBlocks

Array = NDArray[np.float64]
IntArray = NDArray[np.int64]

_TOLERANCE = 1e-3  # of the spread of a column: thinner than this, data do not tell a gradient
_COARSEST = 0.01  # of the spread: rounding to fewer digits explains nothing
_WITHIN = 3.0  # errors, of which a constraint may be off
_GAP = 5.0  # by which the next best polynomial must be further off
_ROWS = 4096  # more tell no more
_NORMALS = 256
_NEW_DIRECTION = 0.1  # sine of the angle to known normals
_SAMPLES_PER_TERM = 3
_MOST_COLUMNS, _MOST_SQUARES = 24, 200
_GREATEST_DENOMINATOR = 12


@dataclass(frozen=True, eq=False)
class DataConstraints:
    """Polynomials xᵀQx + b·x + c that vanish on the inputs.

    Args:
        quadratic: Q of each, symmetric, (count, n, n).
        linear: b of each, (count, n).
        constant: c of each, (count,).
        inputs: Inputs they were found on, (rows, n): they decide what is tidy.
        errors: The error allowed for each value of these inputs, (rows, n).

    Example:
        >>> angle = np.linspace(0.0, 6.0, 50)
        >>> circle = find_constraints(np.stack([np.cos(angle), np.sin(angle)], 1))
        >>> circle.count, circle.sentences(["x", "y"], np.zeros(2), np.ones(2))
        (1, ('x² + y² = 1',))
    """

    quadratic: Array
    linear: Array
    constant: Array
    inputs: Array = field(repr=False)
    errors: Array = field(repr=False)

    @property
    def count(self) -> int:
        """The number of constraints."""
        return len(self.linear)

    def gradients(self, x: ArrayLike) -> Array:
        """Normals of the surface, as long as the polynomials make them.

        Args:
            x: Inputs in the units of those the constraints were found on, (N, n).

        Returns:
            Gradients, of shape (N, count, n).

        Example:
            >>> line = find_constraints(np.outer(np.arange(9.0), [1.0, 2.0]))
            >>> normal = line.gradients(np.zeros((1, 2)))[0, 0]
            >>> float(abs(normal @ [1.0, 2.0]).round(9))
            0.0
        """
        x = np.asarray(x, np.float64)
        n = self.linear.shape[1]
        if x.ndim != 2 or x.shape[1] != n:
            raise ValueError(f"expected inputs of shape (N, {n}), got {x.shape}")
        curved: Array = 2.0 * np.einsum("cij,sj->sci", self.quadratic, x)
        return curved + self.linear

    def sentences(self, names: Sequence[str], shift: Array, scale: Array) -> tuple[str, ...]:
        """The constraints in the user's units, as E1² − px1² − py1² − pz1² = 0.011.

        Args:
            names: The names of the columns.
            shift: What was taken from the user's inputs, (n,).
            scale: What they were divided by after that, (n,).

        Example:
            >>> angle = np.linspace(0.0, 6.0, 50)
            >>> circle = find_constraints(np.stack([np.cos(angle), np.sin(angle)], 1))
            >>> circle.sentences(["x", "y"], np.array([3.0, 0.0]), np.array([2.0, 2.0]))
            ('x² + y² − 6 x = −5',)
        """
        shift, scale = np.asarray(shift, np.float64), np.asarray(scale, np.float64)
        x, errors = self.inputs * scale + shift, self.errors * np.abs(scale)
        written = []
        for quadratic, linear in zip(self.quadratic, self.linear, strict=True):
            moved = quadratic / np.outer(scale, scale)
            terms, coefficients = _as_terms(moved, linear / scale - 2.0 * moved @ shift)
            tidy = tidied(x, errors, terms, coefficients)
            value = _constant_words(x, errors, terms, tidy)
            written.append(f"{polynomial_words(terms, tidy, names)} = {value}")
        return tuple(written)


def find_constraints(
    z: ArrayLike,
    blocks: ColumnBlocks | None = None,
    *,
    rounding: ArrayLike | None = None,
    tolerance: float | None = None,
) -> DataConstraints:
    """Polynomials of degree at most two that the inputs satisfy; usually there are none.

    Looked for are linear relations, then quadrics that do not follow from them: the same in all
    blocks, in one block, and over all columns. A set of monomials is tried where there are three
    samples for each: all of them for at most 24 columns, else no products.

    Args:
        z: Inputs, (N, n).
        blocks: Blocks of columns that may share constraints, up to their constants.
        rounding: Standard deviation of the rounding error of each value of ``z``, of a shape that
            broadcasts to (N, n); without it, only ``tolerance`` decides.
        tolerance: Distance from the surface, in spreads of a column, that counts as none; 1e-3
            if not given.

    Raises:
        ValueError: If shapes do not match, or values are not finite or negative.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> p = rng.normal(size=(100, 3))
        >>> energy = np.sqrt(1.0 + (p**2).sum(1, keepdims=True))
        >>> find_constraints(np.hstack([energy, p])).count, find_constraints(p).count
        (1, 0)
    """
    z = _checked(z)
    n = z.shape[1]
    if blocks is not None and blocks.n != n:
        raise ValueError(f"expected inputs of {blocks.n} columns for these blocks, got {n}")
    tolerance = _TOLERANCE if tolerance is None else float(tolerance)
    if not 0.0 < tolerance < 1.0:
        raise ValueError(f"expected a tolerance between 0 and 1, got {tolerance}")
    noise = np.zeros(n) if rounding is None else np.asarray(rounding, np.float64)
    try:
        noise = np.broadcast_to(noise, z.shape)
    except ValueError:
        raise ValueError(f"expected rounding of shape {z.shape}, got {noise.shape}") from None
    if not (np.isfinite(noise).all() and (noise >= 0.0).all()):
        raise ValueError("expected rounding that is finite and not negative, got other values")
    rows = spaced_rows(len(z))
    z = z[rows]
    mean, spread = _shared_units(z, blocks)
    errors = value_errors(noise[rows], spread, tolerance)
    u, noise = (z - mean) / spread, errors / spread
    known = _Found(u)
    if len(z) >= _SAMPLES_PER_TERM:  # a single sample is no constant
        _search_all(u, noise, blocks, known)
    quadratic, linear = known.arrays()
    quadratic = quadratic / np.outer(spread, spread)
    linear = linear / spread - 2.0 * quadratic @ mean
    values = np.einsum("si,cij,sj->sc", z, quadratic, z) + z @ linear.T
    return DataConstraints(quadratic, linear, -np.median(values, axis=0), z, errors)


def tangent(jacobian: ArrayLike, normals: ArrayLike) -> Array:
    """The part of gradients that is tangent to the surface with these normals.

    Args:
        jacobian: m gradients at each of N points, (N, m, n).
        normals: c normals at each point, of any length, dependent or zero ones too, (N, c, n).

    Raises:
        ValueError: If shapes do not match.

    Example:
        >>> tangent(np.array([[[3.0, 4.0]]]), np.array([[[0.0, 9.0]]])).tolist()
        [[[3.0, 0.0]]]
    """
    jacobian, normals = np.asarray(jacobian, np.float64), np.asarray(normals, np.float64)
    if jacobian.ndim != 3 or normals.ndim != 3 or jacobian.shape[::2] != normals.shape[::2]:
        raise ValueError(
            "expected gradients (N, m, n) and normals (N, c, n), "
            f"got {jacobian.shape} and {normals.shape}"
        )
    if 0 in normals.shape:
        return jacobian.copy()
    lengths = np.linalg.norm(normals, axis=2, keepdims=True)
    least = 1e-9 * lengths.max(axis=0, keepdims=True)
    unit = np.where(lengths > least, normals / np.maximum(lengths, 1e-300), 0.0)
    _, sizes, directions = np.linalg.svd(unit, full_matrices=False)
    directions = directions * (sizes > _TOLERANCE)[:, :, None]
    along: Array = (jacobian @ directions.transpose(0, 2, 1)) @ directions
    return jacobian - along


class _Found:
    """Constraints found so far, on all n columns of samples u in shared units."""

    def __init__(self, u: Array) -> None:
        self.u = u
        self.relations = np.zeros((0, u.shape[1]))
        self.dropped = np.zeros(0, np.int64)
        self.quadrics: _Quadrics = []

    def add(
        self, groups: IntArray, relations: Array, pivots: IntArray, quadrics: _Quadrics
    ) -> None:
        """Take what ``_search`` found in each group, but for quadrics with no new normal."""
        n = self.u.shape[1]
        for group in groups:
            placed = np.zeros((len(relations), n))
            placed[:, group] = relations
            self.relations = np.vstack([self.relations, placed])
            self.dropped = np.concatenate([self.dropped, group[pivots]])
        for group in groups:
            for within_quadratic, within_linear in quadrics:
                quadratic, linear = np.zeros((n, n)), np.zeros(n)
                quadratic[np.ix_(group, group)], linear[group] = within_quadratic, within_linear
                if self._has_new_normal(quadratic, linear):
                    self.quadrics.append((quadratic, linear))

    def _has_new_normal(self, quadratic: Array, linear: Array) -> bool:
        """Whether a normal leaves the span of the known ones at a quarter of samples or more."""
        u = self.u[:: max(1, len(self.u) // _NORMALS)]
        known, flat = self.arrays()
        normals = 2.0 * np.einsum("cij,sj->sci", known, u) + flat
        own = (2.0 * u @ quadratic + linear)[:, None]
        lengths = np.linalg.norm(own, axis=2)[:, 0]
        outside = np.linalg.norm(tangent(own, normals), axis=2)[:, 0]
        sines = outside / np.maximum(lengths, 1e-6 * lengths.max() + 1e-300)
        return bool(np.quantile(sines, 0.75) > _NEW_DIRECTION)

    def arrays(self) -> tuple[Array, Array]:
        """Q and b of all of them, relations first."""
        n = self.u.shape[1]
        flat = np.zeros((len(self.relations), n, n))
        curved = np.array([q for q, _ in self.quadrics]).reshape(-1, n, n)
        linear = np.array([b for _, b in self.quadrics]).reshape(-1, n)
        return np.concatenate([flat, curved]), np.concatenate([self.relations, linear])


def _search_all(u: Array, errors: Array, blocks: ColumnBlocks | None, known: _Found) -> None:
    """Add what all blocks share, then what single blocks have, then what all columns have."""
    steps = [np.arange(u.shape[1])[None]]
    if blocks is not None:
        columns = np.array(blocks.columns, np.int64).reshape(blocks.k, -1)
        steps = [*([columns] if blocks.k > 1 else []), *columns[:, None], *steps]
    for groups in steps:
        known.add(groups, *_search(u, errors, groups, known))


def _search(
    u: Array, errors: Array, groups: IntArray, known: _Found
) -> tuple[Array, IntArray, _Quadrics]:
    """What holds in all groups of d columns alike; quadrics may follow from what is known.

    Returns:
        Linear relations (m, d), the columns they determine (m,), and quadrics on d columns.
    """
    k, d = groups.shape
    samples = np.concatenate([u[:, group] for group in groups])
    noise = np.concatenate([errors[:, group] for group in groups])
    left = np.array([i for i in range(d) if not np.isin(groups[:, i], known.dropped).any()], int)
    relations, pivots = linear_relations(samples[:, left], noise[:, left], k)
    placed = np.zeros((len(relations), d))
    placed[:, left] = relations
    terms = _affordable(np.delete(left, pivots), len(samples))
    if not len(terms):
        return placed, left[pivots], []
    rows, distances = thin_polynomials(samples, noise, terms, k)
    reduced, _ = echelon_rows(rows[: _clear_count(distances)], _preference(terms))
    return placed, left[pivots], [_as_matrices(terms, row, d) for row in reduced]


def linear_relations(u: Array, errors: Array, groups: int = 1) -> tuple[Array, IntArray]:
    """Combinations of columns that are constant up to their errors, in echelon form.

    Args:
        u: Samples of d columns in units of their spread, those of each group together.
        errors: The error of each value.
        groups: The number of equal groups of samples, each with constants of its own.

    Returns:
        Rows (m, d), and the column that is one in each row and zero in the others, (m,).
    """
    samples, d = u.shape
    terms = _terms(np.arange(d), "linear")
    if d == 0:
        return np.zeros((0, 0)), np.zeros(0, np.int64)
    if samples >= _SAMPLES_PER_TERM * d:
        rows, distances = thin_polynomials(u, errors, terms, groups)
        rows = rows[distances <= _WITHIN]
    else:  # too few to see combinations
        alone = [
            thin_polynomials(u[:, [i]], errors[:, [i]], terms[:1], groups)[1][0] for i in range(d)
        ]
        rows = np.eye(d)[np.array(alone) <= _WITHIN]
    # the later columns are more often computed from others
    preference: Array = np.linspace(1.0, 1.5, d)
    return echelon_rows(rows, preference)


def thin_polynomials(
    x: Array, errors: Array, terms: IntArray, groups: int = 1
) -> tuple[Array, Array]:
    """Polynomials over some terms by how far the samples are from them, in errors: √λ above.

    Returns:
        Coefficients, one polynomial in each row, the thinnest first; and the distances.
    """
    weights = _weights(x)
    gram = _gradient_gram(x, errors * weights, terms)
    size = np.sqrt(np.maximum(np.diag(gram), 1e-300))
    # a polynomial whose gradient vanishes on all samples has no distance
    gram = gram / np.outer(size, size) + 1e-12 * np.eye(len(terms))
    factor = np.linalg.cholesky(gram)
    values = _centred(_values(x, terms), weights, groups) * weights / size
    whitened = solve_triangular(factor, values.T, lower=True).T
    if len(whitened) > len(terms):
        whitened = np.linalg.qr(whitened, mode="r")
    _, distances, rows = np.linalg.svd(whitened)
    distances = np.pad(distances, (0, len(terms) - len(distances))) / math.sqrt(len(x))
    coefficients = solve_triangular(factor.T, rows.T).T / size
    return coefficients[::-1], distances[::-1]


def echelon_rows(rows: Array, weights: Array, tolerance: float = 1e-9) -> tuple[Array, IntArray]:
    """The row space with a unit matrix in the columns that suit it best, and these columns."""
    if not len(rows):
        return rows, np.zeros(0, np.int64)
    _, sizes, basis = np.linalg.svd(rows / np.linalg.norm(rows, axis=1, keepdims=True))
    basis = basis[: int((sizes > tolerance * sizes[0]).sum())]
    _, _, order = qr(basis * weights, pivoting=True, mode="economic")
    pivots = np.sort(order[: len(basis)]).astype(np.int64)
    return np.linalg.solve(basis[:, pivots], basis), pivots


def tidied(x: Array, errors: Array, terms: IntArray, coefficients: Array) -> Array:
    """Coefficients with zeros and small whole numbers where the samples do not speak against it.

    Args:
        x: Samples, (N, n).
        errors: The error of each value.
        terms: The terms.
        coefficients: Their coefficients, up to a common factor, (P,).

    Returns:
        Coefficients, the first of which is not negative.
    """
    unit = np.sqrt((x**2).mean(0))
    unit[unit == 0.0] = 1.0
    x, errors = x / unit, errors / unit
    size = np.append(unit, 1.0)[terms].prod(1)
    scaled = coefficients * size
    allowed = 1.5 * _distance(x, errors, terms, scaled) + 1e-3
    # a product that is zero on all samples is worth as much as its gradient is
    worth = np.abs(scaled) * np.sqrt(np.diag(_gradient_gram(x, errors * _weights(x), terms)))
    scaled = np.where(worth > 1e-9 * worth.max(), scaled, 0.0)
    for threshold in (0.3, 0.1, 0.03, 1e-2, 1e-3, 1e-4):
        support = worth >= threshold * worth.max()
        fewer = np.zeros(len(terms))
        fewer[support] = thin_polynomials(x, errors, terms[support])[0][0]
        alike = abs(fewer @ scaled) / (np.linalg.norm(fewer) * np.linalg.norm(scaled))
        if alike > 0.9 and _distance(x, errors, terms, fewer) <= allowed:
            scaled = fewer
            break
    in_units: Array = scaled / size
    in_units = in_units / in_units[np.flatnonzero(in_units)[0]]
    for greatest in range(1, _GREATEST_DENOMINATOR + 1):
        simple = [Fraction(value).limit_denominator(greatest) for value in in_units]
        whole = math.lcm(*(fraction.denominator for fraction in simple))
        rounded = np.array([float(fraction * whole) for fraction in simple])
        if whole <= 60 and _distance(x, errors, terms, rounded * size) <= allowed:
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


def spaced_rows(count: int) -> slice:
    """At most a few thousand evenly spaced rows."""
    return slice(None, None, max(1, math.ceil(count / _ROWS)))


def column_spread(x: Array) -> Array:
    """Median absolute deviation as the standard deviation of a Gaussian column.

    A few far outliers do not make the rest look thin in these units. Columns that are mostly one
    value have a small part of their mean absolute deviation.
    """
    away = np.abs(x - np.median(x, axis=0))
    spread: Array = np.maximum(1.4826 * np.median(away, axis=0), _COARSEST * away.mean(0))
    return spread


def value_errors(rounding: Array, spread: Array, tolerance: float = _TOLERANCE) -> Array:
    """The error to allow for each value: rounding, no more than some and no less than some."""
    allowed: Array = np.clip(rounding, tolerance / _WITHIN * spread, _COARSEST * spread)
    return allowed


_Quadrics = list[tuple[Array, Array]]


def _checked(z: ArrayLike) -> Array:
    z = np.asarray(z, np.float64)
    if z.ndim != 2 or 0 in z.shape:
        raise ValueError(f"expected inputs of shape (N, n), got {z.shape}")
    if not np.isfinite(z).all():
        column = int(np.flatnonzero(~np.isfinite(z).all(0))[0])
        raise ValueError(f"expected finite inputs, got nan or infinity in column {column}")
    return z


def _shared_units(z: Array, blocks: ColumnBlocks | None) -> tuple[Array, Array]:
    """Mean and spread of each column, the same on matching columns of all blocks."""
    mean, spread = z.mean(0), column_spread(z)
    if blocks is not None:
        for matching in zip(*blocks.columns, strict=True):
            columns = list(matching)
            mean[columns], spread[columns] = mean[columns].mean(), spread[columns].mean()
    # rounding errors of constant columns are no spread
    spread[spread <= 1e-9 * spread.max()] = spread.max() or 1.0
    return mean, spread


def _terms(columns: IntArray, kind: str) -> IntArray:
    """Monomials as pairs of columns, with −1 for none."""
    linear = [(i, -1) for i in columns]
    squares = [(i, i) for i in columns]
    products = [(i, j) for place, i in enumerate(columns) for j in columns[place:]]
    chosen = {"linear": [], "squares": squares, "all": products}[kind]
    return np.array([*chosen, *linear], np.int64).reshape(-1, 2)


def _affordable(columns: IntArray, samples: int) -> IntArray:
    """The most terms for which there are samples enough."""
    d = len(columns)
    for kind, count, most in (
        ("all", d * (d + 3) // 2, _MOST_COLUMNS),
        ("squares", 2 * d, _MOST_SQUARES),
    ):
        if 0 < d <= most and samples >= _SAMPLES_PER_TERM * count:
            return _terms(columns, kind)
    return np.zeros((0, 2), np.int64)


def _preference(terms: IntArray) -> Array:
    return np.where(terms[:, 1] < 0, 1e-3, 1.0)


def _with_one(x: Array) -> Array:
    return np.hstack([x, np.ones((len(x), 1))])


def _values(x: Array, terms: IntArray) -> Array:
    values: Array = _with_one(x)[:, terms].prod(2)
    return values


def _weights(x: Array) -> Array:
    """Weights that bound what one sample adds to a mean of squares of quadrics, (N, 1)."""
    norms = np.linalg.norm(x, axis=1, keepdims=True)
    weights: Array = 1.0 / (1.0 + (norms / (np.median(norms) or 1.0)) ** 2)
    return weights


def _centred(values: Array, weights: Array, groups: int = 1) -> Array:
    """Values less their weighted mean in each of some equal groups of samples."""
    parts = values.reshape(groups, -1, values.shape[1])
    weighed = weights.reshape(groups, -1, 1) ** 2
    means = (parts * weighed).sum(1, keepdims=True) / weighed.sum(1, keepdims=True)
    centred: Array = (parts - means).reshape(values.shape)
    return centred


def _gradient_gram(x: Array, errors: Array, terms: IntArray) -> Array:
    """The mean of ∇m Σ ∇mᵀ."""
    full, gram = _with_one(x), np.zeros((len(terms), len(terms)))
    for column in np.unique(terms[terms >= 0]):
        own = np.flatnonzero((terms == column).any(1))
        i, j = terms[own].T
        slope = (i == column) * full[:, j] + (j == column) * full[:, i]
        slope = slope * errors[:, column, None]
        gram[np.ix_(own, own)] += slope.T @ slope / len(x)
    return gram


def _distance(x: Array, errors: Array, terms: IntArray, coefficients: Array) -> float:
    """√λ of one polynomial."""
    weights = _weights(x)
    values = _centred(_values(x, terms) @ coefficients[:, None], weights) * weights
    gram = _gradient_gram(x, errors * weights, terms)
    error = float(coefficients @ gram @ coefficients)
    return float(np.sqrt((values**2).mean())) / math.sqrt(max(error, 1e-300))


def _clear_count(distances: Array) -> int:
    """How many of the least distances are small and clearly less than the next."""
    count = int((distances <= _WITHIN).sum())
    while count and count < len(distances) and distances[count] < _GAP * distances[count - 1]:
        count -= 1
    return count


def _as_terms(quadratic: Array, linear: Array) -> tuple[IntArray, Array]:
    i, j = np.nonzero(np.triu(quadratic))
    (k,) = np.nonzero(linear)
    terms = np.concatenate([np.stack([i, j], 1), np.stack([k, np.full(len(k), -1)], 1)])
    return terms, np.concatenate([np.where(i == j, 1.0, 2.0) * quadratic[i, j], linear[k]])


def _as_matrices(terms: IntArray, coefficients: Array, d: int) -> tuple[Array, Array]:
    quadratic, linear = np.zeros((d, d)), np.zeros(d)
    for (i, j), value in zip(terms, coefficients, strict=True):
        if j < 0:
            linear[i] = value
        else:
            quadratic[i, j] += value / 2
            quadratic[j, i] += value / 2
    return quadratic, linear


def _constant_words(x: Array, errors: Array, terms: IntArray, coefficients: Array) -> str:
    """The value of a polynomial on samples, with the digits they tell."""
    quadratic, linear = _as_matrices(terms, coefficients, x.shape[1])
    curved = x @ quadratic
    values = (curved * x).sum(1) + x @ linear
    variance = ((2.0 * curved + linear) ** 2 * errors**2).sum(1)
    weights = 1.0 / (variance + 0.01 * variance.mean() + 1e-300)
    weights /= weights.sum()
    value = float(weights @ values)
    error = math.sqrt(float(weights**2 @ (values - value) ** 2))
    error += 1e-12 * float(np.abs(_values(x, terms) * coefficients).sum(1).mean())
    if abs(value) <= 3.0 * error:
        return "0"
    digits = 1 + math.floor(math.log10(abs(value))) - math.floor(math.log10(error))
    sign = "−" if value < 0 else ""
    return f"{sign}{abs(value):.{min(4, max(1, digits - 1))}g}"
