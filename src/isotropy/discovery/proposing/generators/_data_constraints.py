"""Thin data: quadrics on which all inputs lie, such as E² − p² = m².

A polynomial c of degree at most two is taken for a constraint if the inputs lie on c = 0 up to
their rounding, or up to a small part of their spread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from isotropy.discovery.proposing._proposing_thresholds import ProposingThresholds
from isotropy.discovery.proposing.generators._column_blocks import ColumnBlocks
from isotropy.discovery.proposing.generators._conditioning import condition
from isotropy.discovery.proposing.generators._thin_polynomials import (
    Array,
    IntArray,
    as_matrices,
    as_terms,
    clear_count,
    column_spread,
    constant_words,
    echelon_rows,
    linear_relations,
    monomials,
    polynomial_words,
    spaced_rows,
    thin_polynomials,
    tidied,
    value_errors,
)


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
    spans = sizes > ProposingThresholds.now().independent_direction
    directions = directions * spans[:, :, None]
    along: Array = (jacobian @ directions.transpose(0, 2, 1)) @ directions
    return jacobian - along


@dataclass(frozen=True, eq=False)
class Surface:
    """Constraints of the data in the user's units."""

    inner: DataConstraints
    centre: Array
    scale: Array
    sentences: tuple[str, ...]

    @property
    def count(self) -> int:
        return self.inner.count

    def gradients(self, x: Array) -> Array:
        return self.inner.gradients((x - self.centre) / self.scale) / self.scale


def surface_of(x: Array, names: tuple[str, ...], blocks: ColumnBlocks | None) -> Surface | None:
    """The surface that the data lie on, where they lie on one."""
    unit = condition(x, blocks)
    found = find_constraints(unit.x, blocks, rounding=unit.rounding)
    if not found.count:
        return None
    return Surface(found, unit.shift, unit.scale, found.sentences(names, unit.shift, unit.scale))


_Quadrics = list[tuple[Array, Array]]


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

        Returns:
            Gradients, of shape (N, count, n).

        Raises:
            ValueError: If inputs have another width.

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
            terms, coefficients = as_terms(moved, linear / scale - 2.0 * moved @ shift)
            tidy = tidied(x, errors, terms, coefficients)
            value = constant_words(x, errors, terms, tidy)
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
    limits = ProposingThresholds.now()
    tolerance = limits.thin_spread if tolerance is None else float(tolerance)
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
    known = _KnownConstraints(u)
    if len(z) >= limits.samples_per_term:  # a single sample is no constant
        _search_all(u, noise, blocks, known)
    quadratic, linear = known.arrays()
    quadratic = quadratic / np.outer(spread, spread)
    linear = linear / spread - 2.0 * quadratic @ mean
    values = np.einsum("si,cij,sj->sc", z, quadratic, z) + z @ linear.T
    return DataConstraints(quadratic, linear, -np.median(values, axis=0), z, errors)


class _KnownConstraints:
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
        """Whether a normal leaves the span of the known ones at a share of samples or more."""
        limits = ProposingThresholds.now()
        u = self.u[:: max(1, len(self.u) // limits.normal_rows)]
        known, flat = self.arrays()
        normals = 2.0 * np.einsum("cij,sj->sci", known, u) + flat
        own = (2.0 * u @ quadratic + linear)[:, None]
        lengths = np.linalg.norm(own, axis=2)[:, 0]
        outside = np.linalg.norm(tangent(own, normals), axis=2)[:, 0]
        sines = outside / np.maximum(lengths, 1e-6 * lengths.max() + 1e-300)
        return bool(np.quantile(sines, 1.0 - limits.new_normal_share) > limits.new_normal)

    def arrays(self) -> tuple[Array, Array]:
        """Q and b of all of them, relations first."""
        n = self.u.shape[1]
        flat = np.zeros((len(self.relations), n, n))
        curved = np.array([q for q, _ in self.quadrics]).reshape(-1, n, n)
        linear = np.array([b for _, b in self.quadrics]).reshape(-1, n)
        return np.concatenate([flat, curved]), np.concatenate([self.relations, linear])


def _search_all(
    u: Array, errors: Array, blocks: ColumnBlocks | None, known: _KnownConstraints
) -> None:
    """Add what all blocks share, then what single blocks have, then what all columns have."""
    steps = [np.arange(u.shape[1])[None]]
    if blocks is not None:
        columns = np.array(blocks.columns, np.int64).reshape(blocks.k, -1)
        steps = [*([columns] if blocks.k > 1 else []), *columns[:, None], *steps]
    for groups in steps:
        known.add(groups, *_search(u, errors, groups, known))


def _search(
    u: Array, errors: Array, groups: IntArray, known: _KnownConstraints
) -> tuple[Array, IntArray, _Quadrics]:
    """What holds in all groups of d columns; quadrics may follow from what is known.

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
    reduced, _ = echelon_rows(rows[: clear_count(distances)], _preference(terms))
    return placed, left[pivots], [as_matrices(terms, row, d) for row in reduced]


def _affordable(columns: IntArray, samples: int) -> IntArray:
    """The most terms for which there are samples enough."""
    limits, d = ProposingThresholds.now(), len(columns)
    for kind, count, most in (
        ("all", d * (d + 3) // 2, limits.quadric_columns),
        ("squares", 2 * d, limits.square_columns),
    ):
        if 0 < d <= most and samples >= limits.samples_per_term * count:
            return monomials(columns, kind)
    return np.zeros((0, 2), np.int64)


def _preference(terms: IntArray) -> Array:
    return np.where(terms[:, 1] < 0, 1e-3, 1.0)


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
