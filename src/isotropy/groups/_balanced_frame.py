"""Coordinates in which a Lie algebra of matrices is closed under transposes, where there are any.

Every algebra that acts completely reducibly has such coordinates (Mostow 1955). Among the bases P
of the space they minimise the volume that P⁻¹ A_1 P, …, P⁻¹ A_D P span,

    f(P) = ½ log det Gram(P⁻¹ A_i P),

a convex function along the geodesics P exp(tH), H Hermitian (Kempf and Ness 1979): with the A_i
made orthonormal, its gradient is -Σ [A_i, A_i†] and its Hessian 2 Σ |[H, A_i] outside the span|².
Invariant subspaces are then orthogonal and invariant forms have eigenvalues ±1, so that what
follows is well conditioned, whatever the coordinates at the start.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from isotropy.groups._intertwiners import Array, flattened, intertwiner_gram, orthonormal_span

_LONGEST_STEP = 0.5  # along each eigenvector of the Hessian; beyond, f is no longer quadratic
_FLAT = 1e-8  # relative curvature below which a direction leaves the span where it is
_ALMOST_FLAT = 1e-6  # the same, for a move after the descent
_WORST_CONDITION = 1e8  # of P; beyond, P⁻¹ A P is rounding error
_CONVERGED = 1e-6  # turn of the span below which the next would be of the order of rounding
_STEPS = 40


def balanced_frame(algebra: Array) -> Array:
    """The P for which the span of P⁻¹ A_i P is as near to closed under adjoints as can be.

    Args:
        algebra: An orthonormal basis of a Lie algebra, of shape (D, d, d).

    Returns:
        P, of shape (d, d); the identity where the algebra is closed under adjoints already, or
        where the minimum runs off to infinity.
    """
    size = algebra.shape[1]
    frame: Array = np.eye(size, dtype=algebra.dtype)
    directions = hermitian_basis(size, np.iscomplexobj(algebra))
    for _ in range(_STEPS):
        moved = orthonormal_span(np.linalg.inv(frame) @ algebra @ frame, 0.0)
        step, change, flat = _newton_step(moved, directions)
        frame = frame @ _exponential(step)
        if change < _CONVERGED:
            return _well_conditioned(frame, flat)
        if np.linalg.cond(frame) > _WORST_CONDITION:
            break
    return np.eye(size, dtype=algebra.dtype)


def _exponential(hermitian: Array) -> Array:
    values, vectors = np.linalg.eigh(hermitian)
    result: Array = (vectors * np.exp(values)) @ vectors.conj().T
    return result


def _well_conditioned(frame: Array, flat: Array) -> Array:
    """The frame moved along flat directions to the least |P|² + |P⁻¹|², by Newton's method.

    Translations make f fall for ever along a flat direction, and the descent drifts along it.
    """
    rows = flattened(flat)
    for _ in range(_STEPS):
        square = frame.conj().T @ frame
        inverse = np.linalg.inv(square)
        slopes = 2.0 * rows @ flattened((square - inverse)[None])[0]
        weighted = (square + inverse) @ flat
        hessian = 2.0 * rows @ flattened(weighted + weighted.conj().transpose(0, 2, 1)).T
        step = -np.linalg.solve(hessian, slopes)
        frame = frame @ _exponential(np.tensordot(step, flat, 1))
        if np.linalg.norm(step) < 1e-3:
            break
    return frame


def hermitian_basis(size: int, with_complex: bool) -> Array:
    """An orthonormal basis of the symmetric, or of the Hermitian matrices."""
    pairs = list(combinations(range(size), 2))
    count = size + len(pairs) * (2 if with_complex else 1)
    basis: Array = np.zeros((count, size, size), dtype=complex if with_complex else float)
    basis[range(size), range(size), range(size)] = 1.0
    for at, (i, j) in enumerate(pairs, start=size):
        basis[at, i, j] = basis[at, j, i] = np.sqrt(0.5)
        if with_complex:
            basis[at + len(pairs), i, j] = 1j * np.sqrt(0.5)
            basis[at + len(pairs), j, i] = -1j * np.sqrt(0.5)
    return basis


def _newton_step(algebra: Array, directions: Array) -> tuple[Array, float, Array]:
    """The step H of Newton's method, how far it turns the span, and the flat directions."""
    adjoint = algebra.conj().transpose(0, 2, 1)
    descent = (algebra @ adjoint - adjoint @ algebra).sum(0)
    slopes = flattened(directions) @ flattened(descent[None])[0]
    curvatures, axes = np.linalg.eigh(_hessian(algebra, directions))
    scale = max(curvatures[-1], 1e-4)  # for scalings alone all directions are flat
    curved = curvatures > _FLAT * scale
    newton = np.divide(axes.T @ slopes, curvatures, where=curved, out=np.zeros_like(curvatures))
    newton = np.clip(newton, -_LONGEST_STEP, _LONGEST_STEP)
    change = float(np.sqrt(newton**2 @ np.where(curved, curvatures, 0.0)))
    flat = np.tensordot(axes.T[curvatures <= _ALMOST_FLAT * scale], directions, 1)
    return np.tensordot(axes @ newton, directions, 1), change, flat


def _hessian(algebra: Array, directions: Array) -> Array:
    """2 Σ_i |[H, A_i]|² - 2 Σ_ij <A_j, [H, A_i]>², with <A_j, [H, A_i]> = Re tr H [A_i, A_j†]."""
    count = len(algebra)
    rows = directions.reshape(len(directions), -1)
    total = (rows.conj() @ intertwiner_gram(algebra, algebra) @ rows.T).real
    adjoint = algebra.conj().transpose(0, 2, 1)
    inside = np.zeros_like(total)
    for i in range(count):
        later = adjoint[i:]
        commutators = (algebra[i] @ later - later @ algebra[i]).reshape(count - i, -1)
        traces = (commutators @ rows.conj().T).real  # tr H C = Σ conj(H) C, as H is Hermitian
        traces[1:] *= np.sqrt(2.0)  # the pair (j, i) gives what (i, j) gives
        inside += traces.T @ traces
    hessian: Array = 2.0 * (total - inside)
    return hessian
