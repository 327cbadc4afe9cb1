"""Classes of actions: which linear or affine motions of inputs and outputs are looked for.

An element is a pair of matrices: [A | b] moves inputs, x ↦ A x + b, and B moves outputs, y ↦ B y.
A class is a linear space of such pairs, given by a basis. A function f has the infinitesimal
symmetry if Df(x) (A x + b) = B f(x) at all x: linear equations for the coordinates in that basis.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Output = Literal["invariant", "vector", "matrix", "free"]

OUTPUTS: dict[str, str] = {
    "invariant": "y stays",
    "vector": "y moves as the inputs do",
    "matrix": "y moves as a matrix, B = A⊗1 + 1⊗A",
    "free": "y moves by any matrix B",
}


@dataclass(frozen=True, eq=False)
class ActionClass:
    """A linear space of actions.

    Args:
        small: A basis as it acts on one block, ``(p, d, d + 1)``: [A | b].
        inputs: The same on the whole input, ``(p, n, n + 1)``.
        outputs: On the output, ``(p, m, m)``.
        columns: The blocks of columns, k of d each; the others stay.
        output: How outputs move.
    """

    small: Array
    inputs: Array
    outputs: Array
    columns: tuple[tuple[int, ...], ...]
    output: Output

    @property
    def unknowns(self) -> int:
        """The dimension of the space."""
        return len(self.small)

    @property
    def width(self) -> int:
        """The width d of a block."""
        return int(self.small.shape[1])

    def equations(self, x: Array, values: Array, jacobian: Array) -> Array:
        """The coefficients of Df(x)(A x + b) − B f(x), shape ``(N, m, p)``."""
        padded = np.concatenate([x, np.ones((len(x), 1))], 1)
        moved = np.einsum("pij,Nj->Npi", self.inputs, padded, optimize=True)
        change = np.einsum("Nmi,Npi->Nmp", jacobian, moved, optimize=True)
        if self.output == "invariant":
            return np.asarray(change)
        return np.asarray(change - np.einsum("pij,Nj->Nip", self.outputs, values, optimize=True))

    def motions(self, x: Array) -> Array:
        """The velocities A x + b of points, shape ``(N, p, n)``."""
        padded = np.concatenate([x, np.ones((len(x), 1))], 1)
        return np.asarray(np.einsum("pij,Nj->Npi", self.inputs, padded, optimize=True))

    def restricted(self, coordinates: Array) -> ActionClass:
        """The part of the class that is spanned by combinations of its basis, ``(q, p)``."""
        small, inputs, outputs = (
            np.asarray(np.tensordot(coordinates, basis, 1))
            for basis in (self.small, self.inputs, self.outputs)
        )
        return ActionClass(small, inputs, outputs, self.columns, self.output)

    def matrices(self, coordinates: Array) -> Array:
        """Elements as they act on one block, ``(D, d, d + 1)``."""
        return np.asarray(np.tensordot(coordinates, self.small, 1))


def action_class(
    columns: tuple[tuple[int, ...], ...],
    n: int,
    *,
    outputs: int = 1,
    output: Output = "invariant",
    affine: bool = True,
    symplectic: bool = False,
) -> ActionClass:
    """The same A (and b) on every block of columns.

    Args:
        columns: k blocks of d columns, disjoint.
        n: The width of the input.
        outputs: The width m of the output.
        output: ``"invariant"``; ``"vector"``: m is a multiple of d, and each d outputs move by
            A; ``"matrix"``: m = d², row by row; ``"free"``: by any matrix, an unknown as well.
        affine: Whether there are translations b.
        symplectic: Whether only canonical transformations count: the input is (q, p), of equal
            width, and A must be in sp(n).

    Raises:
        ValueError: If the output's width does not fit.

    Example:
        >>> action_class(((0, 1, 2), (3, 4, 5)), 6, affine=False).unknowns
        9
        >>> action_class(((0, 1, 2, 3),), 4, affine=False, symplectic=True).unknowns
        10
    """
    d = len(columns[0])
    units = [(i, j) for i in range(d) for j in range(d + affine)]
    small = np.zeros((len(units), d, d + 1))
    small[range(len(units)), [i for i, _ in units], [j for _, j in units]] = 1.0
    if symplectic:
        kept = canonical_part(on_rows(small, columns, n))
        small = np.tensordot(kept, small, 1)
    on_outputs = _on_outputs(small, outputs, output)
    if output == "free":
        free = np.zeros((outputs**2, d, d + 1))
        small = np.concatenate([small, free])
    return ActionClass(small, on_rows(small, columns, n), on_outputs, columns, output)


def on_rows(small: Array, columns: tuple[tuple[int, ...], ...], n: int) -> Array:
    """Actions on one block, done to every block of an input of width n: ``(p, n, n + 1)``."""
    whole = np.zeros((len(small), n, n + 1))
    for block in columns:
        place = np.array(block)
        whole[:, place[:, None], place] = small[:, :, :-1]
        whole[:, place, n] = small[:, :, -1]
    return whole


def on_vector(a: Array, outputs: int) -> Array:
    """A on each of outputs/d vectors, ``(p, m, m)``."""
    copies = np.eye(outputs // a.shape[-1])
    return np.asarray(np.einsum("kl,pij->pkilj", copies, a)).reshape(len(a), outputs, outputs)


def on_matrix(a: Array) -> Array:
    """A⊗1 + 1⊗A on matrices, row by row, ``(p, d², d²)``."""
    d = a.shape[-1]
    one = np.eye(d)
    both = np.einsum("pij,kl->pikjl", a, one) + np.einsum("ij,pkl->pikjl", one, a)
    return np.asarray(both).reshape(len(a), d * d, d * d)


def _on_outputs(small: Array, outputs: int, output: Output) -> Array:
    a, d = small[:, :, :-1], small.shape[1]
    if output == "vector":
        if outputs % d:
            raise ValueError(
                f"expected a multiple of {d} outputs that move as vectors of {d}, got {outputs}"
            )
        return on_vector(a, outputs)
    if output == "matrix":
        if outputs != d * d:
            raise ValueError(f"expected {d * d} outputs for a matrix of {d} x {d}, got {outputs}")
        return on_matrix(a)
    still = np.zeros((len(small), outputs, outputs))
    if output == "invariant":
        return still
    units = np.eye(outputs**2).reshape(-1, outputs, outputs)
    return np.concatenate([still, units])


def canonical_part(rows: Array) -> Array:
    """Combinations of motions of (q, p) that preserve Σ dq ∧ dp: Aᵀ Ω + Ω A = 0.

    Args:
        rows: Motions [A | b], shape ``(p, n, n + 1)``, the first half of the columns positions.

    Returns:
        Orthonormal combinations, shape ``(q, p)``.

    Raises:
        ValueError: If the number of columns is odd.
    """
    n = rows.shape[1]
    if n % 2:
        raise ValueError(f"expected as many momenta as positions, got {n} columns")
    omega = np.kron([[0.0, 1.0], [-1.0, 0.0]], np.eye(n // 2))
    a = rows[:, :, :-1]
    defect = (a.transpose(0, 2, 1) @ omega + omega @ a).reshape(len(rows), -1)
    left, values, _ = np.linalg.svd(defect, full_matrices=True)
    rank = int((values > 1e-9 * max(values.max(initial=0.0), 1e-300)).sum())
    return np.asarray(left[:, rank:].T)
