"""Classes of actions: their equations against motions done, their dimensions against formulas."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.linalg import expm

from isotropy.discovery.proposing.generators._action_class import (
    ActionClass,
    Output,
    action_class,
    on_matrix,
    on_vector,
)

Array = NDArray[np.float64]
BLOCKS = ((0, 1, 2), (5, 3, 4))  # of seven columns, not in order; the last stays
Function = Callable[[Array], Array]


def scalar(x: Array) -> Array:
    return np.stack([np.sin(x[:, 0]) * x[:, 4] + x[:, 2] ** 3 * x[:, 6] - x[:, 5] * x[:, 1]], 1)


def vector(x: Array) -> Array:
    a, b = x[:, :3], x[:, [5, 3, 4]]
    return np.concatenate([np.cross(a, b) * x[:, 6:], a * b**2], 1)


def matrix(x: Array) -> Array:
    a, b = x[:, :3], np.cos(x[:, [5, 3, 4]])
    return np.asarray(np.einsum("ni,nj->nij", a, b).reshape(len(x), 9) + x[:, 6:])


def derivative(f: Function, x: Array, step: float = 1e-6) -> Array:
    eye = step * np.eye(x.shape[1])
    return np.stack([(f(x + e) - f(x - e)) / (2 * step) for e in eye], 2)


def moved(small: Array, x: Array, t: float) -> Array:
    """The flow of x ↦ A x + b for a time t, block by block, by the matrix exponential."""
    d = len(small)
    flow = expm(t * np.vstack([small, np.zeros(d + 1)]))
    out = x.copy()
    for block in BLOCKS:
        out[:, block] = x[:, block] @ flow[:d, :d].T + flow[:d, d]
    return out


def output_matrix(small: Array, output: Output, outputs: int) -> Array:
    """Done to tensors, not by Kronecker products."""
    a = small[:, :-1]
    eye = np.eye(outputs)
    if output == "vector":
        return np.stack([np.concatenate([a @ e[:3], a @ e[3:]]) for e in eye], 1)
    if output == "matrix":
        tensors = eye.reshape(-1, 3, 3)
        return np.stack([(a @ m + m @ a.T).ravel() for m in tensors], 1)
    return np.zeros((outputs, outputs))


@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize(
    ("f", "output", "outputs"),
    [
        (scalar, "invariant", 1),
        (vector, "invariant", 6),
        (vector, "vector", 6),
        (matrix, "matrix", 9),
    ],
)
def test_equations_are_the_change_of_f_along_the_motion(
    f: Function, output: Output, outputs: int, affine: bool
) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(6, 7))
    kind = action_class(BLOCKS, 7, outputs=outputs, output=output, affine=affine)
    assert kind.unknowns == 9 + 3 * affine
    theta = rng.normal(size=kind.unknowns)
    small = kind.matrices(theta[None])[0]
    got = kind.equations(x, f(x), derivative(f, x)) @ theta
    # d/dt of exp(−tB) f(exp(tA) x)
    b, t = output_matrix(small, output, outputs), 1e-4
    ahead, behind = (f(moved(small, x, s * t)) @ expm(-s * t * b).T for s in (1, -1))
    assert np.allclose(got, (ahead - behind) / (2 * t), rtol=1e-5, atol=1e-5)
    velocity = (moved(small, x, t) - moved(small, x, -t)) / (2 * t)
    assert np.allclose(np.einsum("Npi,p->Ni", kind.motions(x), theta), velocity, atol=1e-6)
    assert np.abs(velocity).max() > 0.1
    assert not np.abs(velocity[:, 6]).any()


def test_a_free_output_is_any_matrix_apart_from_the_inputs() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(8, 7))
    kind = action_class(BLOCKS, 7, outputs=6, output="free", affine=False)
    assert kind.unknowns == 9 + 36
    a, b = rng.normal(size=(3, 3)), rng.normal(size=(6, 6))
    theta = np.concatenate([a.ravel(), b.ravel()])
    values, jacobian = vector(x), derivative(vector, x)
    velocity = np.zeros((8, 7))
    for block in BLOCKS:
        velocity[:, block] = x[:, block] @ a.T
    expected = np.einsum("Nmi,Ni->Nm", jacobian, velocity) - values @ b.T
    assert np.allclose(kind.equations(x, values, jacobian) @ theta, expected)


def rank(kind: ActionClass) -> int:
    return int(np.linalg.matrix_rank(kind.small.reshape(kind.unknowns, -1), tol=1e-9))


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("affine", [False, True])
def test_canonical_transformations_are_sp_of_dimension_n_2n_1(n: int, affine: bool) -> None:
    kind = action_class((tuple(range(2 * n)),), 2 * n, affine=affine, symplectic=True)
    assert kind.unknowns == rank(kind) == n * (2 * n + 1) + 2 * n * affine
    omega = np.block([[np.zeros((n, n)), np.eye(n)], [-np.eye(n), np.zeros((n, n))]])
    for a in kind.small[:, :, :-1]:
        assert np.allclose(expm(a).T @ omega @ expm(a), omega)


@pytest.mark.parametrize("d", [1, 2, 3, 4])
def test_the_same_matrix_on_positions_and_momenta_is_canonical_if_it_is_a_rotation(d: int) -> None:
    columns = (tuple(range(d)), tuple(range(d, 2 * d)))
    kind = action_class(columns, 2 * d, affine=False, symplectic=True)
    assert kind.unknowns == d * (d - 1) // 2
    a = kind.small[:, :, :-1]
    assert np.allclose(a, -a.transpose(0, 2, 1))


def test_the_same_matrix_on_each_pair_of_position_and_momentum_is_sl2() -> None:
    kind = action_class(((0, 2), (1, 3)), 4, affine=False, symplectic=True)
    assert kind.unknowns == rank(kind) == 3
    assert np.allclose(np.trace(kind.small[:, :, :-1], axis1=1, axis2=2), 0.0)


def test_vectors_and_matrices_move_as_tensors_do() -> None:
    a = np.random.default_rng(2).normal(size=(1, 3, 3))
    small = np.concatenate([a, np.zeros((1, 3, 1))], 2)[0]
    assert np.allclose(on_vector(a, 6)[0], output_matrix(small, "vector", 6))
    assert np.allclose(on_matrix(a)[0], output_matrix(small, "matrix", 9))


def test_outputs_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match=r"a multiple of 3 outputs that move as vectors of 3, got"):
        action_class(BLOCKS, 7, outputs=4, output="vector")
    with pytest.raises(ValueError, match=r"expected 9 outputs for a matrix of 3 x 3, got 6"):
        action_class(BLOCKS, 7, outputs=6, output="matrix")
    with pytest.raises(ValueError, match=r"as many momenta as positions, got 3 columns"):
        action_class(((0, 1, 2),), 3, symplectic=True)
