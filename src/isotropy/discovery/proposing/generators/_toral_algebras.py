"""Commuting semisimple matrices by their weights: subspaces of a Cartan algebra, made rational.

Commuting matrices Z_j act on a common generalised eigenspace by one number each, the weight. Such
algebras are not rigid: any weights near the estimated ones give an algebra as exact. A rotation is
distinguished from a slow spiral only by the simplicity of (0, 1) beside (0.02, 1), so weights
become fractions with small numerators and denominators where the error allows.

The nearest Lie algebra with a centre: a semisimple ideal, and the centre with simple weights.

The semisimple part is rigid and found by closing it under brackets; the centre lies in what
commutes with it and is found by its weights. The sum is exact by construction.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.linalg import schur
from scipy.sparse.csgraph import connected_components

from isotropy.discovery.proposing._proposing_thresholds import ProposingThresholds
from isotropy.discovery.proposing.generators._closure import (
    Array,
    closed_near,
    commutant,
    largest_sine,
    nearest_conjugate,
    rows_of,
)
from isotropy.discovery.proposing.generators._simple_numbers import echelon, heights, rounded
from isotropy.groups import orthonormal_span

_SAME = 1e-10  # floating point: relative distance of eigenvalues that are equal


@dataclass(frozen=True)
class WeightSpaces:
    """A splitting of the space by clusters of eigenvalues of a generic element.

    Attributes:
        projections: Onto each cluster; of a pair of conjugate clusters only one is kept.
        is_real: Whether the cluster is its own conjugate.
    """

    projections: tuple[Array, ...]
    is_real: tuple[bool, ...]

    def weights(self, matrices: Array) -> Array:
        """One row for each matrix: real weights, real and imaginary parts of complex ones."""
        columns = []
        for projection, real in zip(self.projections, self.is_real, strict=True):
            multiplicity = np.trace(projection).real
            weight = np.einsum("ij,kji->k", projection, matrices) / multiplicity
            columns += [weight.real] if real else [weight.real, weight.imag]
        return np.array(columns).T

    def matrices(self, weights: Array) -> Array:
        """The matrices with given rows of weights."""
        units = []
        for projection, real in zip(self.projections, self.is_real, strict=True):
            if real:
                units.append(projection.real)
            else:
                units += [2.0 * projection.real, -2.0 * projection.imag]
        moved: Array = np.tensordot(weights, np.array(units), 1)
        return moved


def weight_spaces(matrices: Array, seed: int = 0) -> list[WeightSpaces]:
    """Splittings by the eigenvalues of a random combination, from one cluster to all apart."""
    rng = np.random.default_rng(seed)
    x = np.tensordot(rng.standard_normal(len(matrices)), matrices, 1)
    values = np.diag(schur(x, output="complex")[0])
    distances = np.abs(values[:, None] - values[None])
    distances[distances < _SAME * np.linalg.norm(x)] = 0.0
    found = []
    last = 0
    for threshold in np.unique(distances)[::-1]:
        reach = threshold * (1.0 + 1e-9)
        count, labels = connected_components(distances <= reach, directed=False)
        if count > last:
            last = count
            split = _split(x, values, labels, count)
            found += [] if split is None else [split]
    return found


def _split(x: Array, values: Array, labels: Array, count: int) -> WeightSpaces | None:
    """The spectral projections of the clusters; None where rounding moves the eigenvalues."""
    frames = []
    for cluster in range(count):

        def inside(value: complex, cluster: int = cluster) -> bool:
            return bool(labels[np.abs(values - value).argmin()] == cluster)

        try:
            _, vectors, size = schur(x, output="complex", sort=inside)
        except np.linalg.LinAlgError:
            return None
        if size != (labels == cluster).sum():
            return None
        frames.append(vectors[:, :size])
    widths = [frame.shape[1] for frame in frames]
    coframes = np.split(np.linalg.pinv(np.hstack(frames)), np.cumsum(widths)[:-1])
    projections, is_real, covered = [], [], 0
    for cluster in range(count):
        conjugates = values[labels == cluster].conj()
        nearest = np.abs(values[:, None] - conjugates[None]).argmin(0)
        mates = set(labels[nearest].tolist())
        if mates != {cluster} and min(mates) < cluster:
            continue
        projections.append(frames[cluster] @ coframes[cluster])
        is_real.append(mates == {cluster})
        covered += widths[cluster] * (1 if is_real[-1] else 2)
    return WeightSpaces(tuple(projections), tuple(is_real)) if covered == len(x) else None


def toral_candidates(matrices: Array, error: float) -> Iterator[Array]:
    """Exactly commuting semisimple matrices near given ones, the simplest weights first.

    Yields:
        Orthonormal bases of shape (k, d, d): with weights of fractions of growing height, each for
        the splittings from the coarsest on; then with those of the smallest weights zero that the
        error cannot tell from it; then with the weights as they are.
    """
    limits = ProposingThresholds.now()
    splittings = []
    # eigenvalues of one combination may lie near each other by accident
    draws = range(1 if len(matrices) == 1 else limits.weight_draws)
    for spaces in [spaces for seed in draws for spaces in weight_spaces(matrices, seed)]:
        weights = spaces.weights(matrices)
        singular = np.linalg.svd(weights, compute_uv=False)
        if (
            weights.shape[1] >= len(weights)
            and singular[-1] > limits.independent_weights * singular[0]
        ):
            splittings.append((spaces, echelon(weights)))
    for height in heights(error):
        for spaces, weights in splittings:
            yield orthonormal_span(spaces.matrices(rounded(weights, height)), 0.0)
    for spaces, weights in splittings:
        zeros = np.where(np.abs(weights) < limits.zero_weight * error, 0.0, weights)
        yield orthonormal_span(spaces.matrices(zeros), 0.0)
    for spaces, weights in splittings:
        yield orthonormal_span(spaces.matrices(weights), 0.0)


def has_simple_weights(matrices: Array) -> bool:
    """Whether exactly commuting matrices have fractions of small height as weights.

    Example:
        >>> spiral = np.array([[[1.0, 1.0], [-1.0, 0.0]]])  # eigenvalues (1 ± i√3) / 2
        >>> has_simple_weights(spiral), has_simple_weights(spiral - 0.5 * np.eye(2))
        (False, True)
    """
    if not len(matrices):
        return True
    for spaces in weight_spaces(matrices):
        semisimple = spaces.matrices(spaces.weights(matrices))
        rest = matrices - semisimple
        # eigenvalues of what is left are zero only if each cluster has one weight
        spread = np.abs(np.linalg.eigvals(rest)).max()
        if spread > 1e-3 * np.linalg.norm(matrices):
            continue
        weights = spaces.weights(matrices)
        weights = weights[np.abs(weights).max(1) > 1e-6]
        if not len(weights):
            return True
        rank = np.linalg.matrix_rank(weights, tol=1e-6)
        basis = np.linalg.svd(weights)[2][:rank]
        reduced = echelon(basis)
        return any(np.abs(rounded(reduced, h) - reduced).max() < 1e-6 for h in heights(1e-6))
    return False


def reductive_near(target: Array, error: float) -> Array | None:
    """An orthonormal basis of the simplest reductive, not semisimple algebra near a span.

    Args:
        target: An orthonormal basis of the estimate, of shape (D, d, d).
        error: The greatest sine of a principal angle from it.
    """
    limits = ProposingThresholds.now()
    hopeless = min(limits.hopeless_sine, limits.conjugated_sine * error)
    for semisimple, rest in _ideals(target):
        for centre in toral_candidates(rest, error):
            whole = orthonormal_span(np.concatenate([semisimple, centre]), 1e-9)
            if len(whole) < len(target) or largest_sine(target, whole) > hopeless:
                continue
            found = nearest_conjugate(whole, target)
            if largest_sine(target, found) <= error:
                return found
    return None


def _ideals(target: Array) -> Iterator[tuple[Array, Array]]:
    """Exact semisimple algebras near a part of the span, and a basis of the rest.

    The derived algebra is spanned by the brackets: its dimension is where their singular values
    fall most, among the dimensions that semisimple algebras have.
    """
    limits, count = ProposingThresholds.now(), len(target)
    commutators = target[:, None] @ target[None] - target[None] @ target[:, None]
    constants = np.tensordot(commutators, target, ((2, 3), (1, 2))).reshape(-1, count)
    _, values, directions = np.linalg.svd(constants, full_matrices=False)
    padded = np.concatenate([[1.0], values])
    drops = {s: padded[s + 1] / max(padded[s], 1e-300) for s in range(count)}
    least = limits.bracket_drop
    possible = [s for s in drops if (s in (0, 3, 6) or s >= 8) and drops[s] < least]
    for size in sorted(possible, key=lambda s: drops[s])[: limits.semisimple_tried]:
        derived = np.tensordot(directions[:size], target, 1)
        semisimple = closed_near(derived) if size else derived
        if semisimple is None or not _is_semisimple(semisimple):
            continue
        yield semisimple, _commuting_part(semisimple, target)


def _is_semisimple(algebra: Array) -> bool:
    if not len(algebra):
        return True
    commutators = algebra[:, None] @ algebra[None] - algebra[None] @ algebra[:, None]
    constants = np.tensordot(commutators, algebra, ((2, 3), (1, 2)))
    killing = np.linalg.eigvalsh(np.einsum("ikl,jlk->ij", constants, constants, optimize=True))
    return bool(np.abs(killing).min() > 1e-7 * np.abs(killing).max())


def _commuting_part(semisimple: Array, target: Array) -> Array:
    """The rest of the span, as matrices that exactly commute with the semisimple part."""
    size = len(target) - len(semisimple)
    if not len(semisimple):
        return target
    moves = target[:, None] @ semisimple[None] - semisimple[None] @ target[:, None]
    _, vectors = np.linalg.eigh(rows_of(moves) @ rows_of(moves).T)
    rest = np.tensordot(vectors[:, :size].T, target, 1)
    basis = rows_of(commutant(semisimple))
    projected: Array = (rows_of(rest) @ basis.T @ basis).reshape(rest.shape)
    return projected
