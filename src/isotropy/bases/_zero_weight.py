"""Lie groups by zero-weight reduction.

Take one diagonalisable element A of the algebra. In the product of its eigenvectors dρ(A) is
diagonal and its eigenvalues are sums of the factors' eigenvalues, so its null space is read
off: the multi-indices whose eigenvalues sum to zero. What is left of the other constraints on
that small space is sparse, because a root vector E shifts weights: dρ(E) touches few entries.
For algebras closed under † half of the roots suffice: where v has weight zero and E v = 0,
‖E†v‖² = ⟨v, [E, E†] v⟩ = 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from isotropy._run import require_memory
from isotropy.bases._null_space import (
    UNCLEAR,
    Array,
    largest_eigenvalue,
    null_space,
    require_clear,
)
from isotropy.bases._orthonormal_basis import Basis
from isotropy.bases._toral import Eigenbasis, Torus, eigenbasis_of, is_unitary, torus_of
from isotropy.groups import Group
from isotropy.reps import Product, Rep

if TYPE_CHECKING:
    from scipy.sparse import csr_array

LARGEST_DENSE = 400
_ZERO_SUM = 1e-9
_RANK = 1e-9
_NOTHING = 1e-11
_SMALLEST_SCALE = 1e-3  # constraints are scaled to entries of one: less is no scale to judge by


class ZeroWeightBasis(Basis):
    """A basis kept factored: eigenvectors of each factor, zero-weight index, small null space.

    Q = Re[(S₁ ⊗ … ⊗ S_k) P U], with P the embedding of the zero weights; the real part is the
    whole for real groups.

    Args:
        rep: The representation.
        vectors: The eigenvectors S of each factor.
        index: Flat multi-indices of the zero weights, shape (z,).
        null: U, shape (z, rank), complex.
    """

    def __init__(self, rep: Rep, vectors: list[Tensor], index: Tensor, null: Tensor) -> None:
        self.rep = rep
        self.method = "zero-weight"
        self.vectors = vectors
        self.index = index
        self.null = null
        self.rank = null.shape[1]

    @property
    def is_unitary(self) -> bool:
        """Whether all eigenvectors are orthonormal, so that no rounding error is magnified."""
        return all(is_unitary(s.numpy()) for s in self.vectors)

    def _combine(self, beta: Tensor) -> Tensor:
        dtype = torch.promote_types(beta.dtype, torch.complex32)
        null = self.null.to(beta.device, dtype)
        weights = beta.to(dtype) @ null.mT
        flat = torch.zeros(*beta.shape[:-1], self.size, dtype=dtype, device=beta.device)
        flat = flat.index_copy(-1, self.index.to(beta.device), weights)
        v = self._apply(flat, [s.to(beta.device, dtype) for s in self.vectors])
        return v if self.rep.is_complex or beta.is_complex() else v.real

    def _coordinates(self, v: Tensor) -> Tensor:
        dtype = torch.promote_types(v.dtype, torch.complex32)
        back = self._apply(v.to(dtype), [s.mH.to(v.device, dtype) for s in self.vectors])
        beta = back[..., self.index.to(v.device)] @ self.null.conj().to(v.device, dtype)
        return beta if self.rep.is_complex or v.is_complex() else beta.real

    def _apply(self, x: Tensor, matrices: list[Tensor]) -> Tensor:
        """(M₁ ⊗ … ⊗ M_k) x along the last axis: the last axis is turned to the front each time."""
        lead = x.shape[:-1]
        for matrix in reversed(matrices):
            n = len(matrix)
            x = (x.reshape(*lead, self.size // n, n) @ matrix.mT).mT
        return x.reshape(*lead, self.size)


@dataclass(frozen=True)
class _Problem:
    """What is left after the reduction: factors in their eigenbases and the zero weights."""

    factors: list[Eigenbasis]
    index: Array  # multi-indices of the zero weights, shape (z, k)

    @property
    def sizes(self) -> list[int]:
        return [len(factor.weights) for factor in self.factors]

    @property
    def strides(self) -> list[int]:
        sizes = self.sizes
        return [prod(sizes[i + 1 :]) for i in range(len(sizes))]

    @property
    def flat(self) -> Array:
        return np.asarray(self.index @ np.array(self.strides, dtype=np.int64))


def is_solvable_by_zero_weight(rep: Rep) -> bool:
    """Whether the representation's group has a Lie algebra with a diagonalisable element."""
    groups = rep.groups
    if len(groups) != 1 or not groups[0].algebra or not groups[0].by_value:
        return False
    factors = rep.factors if isinstance(rep, Product) else (rep,)
    return all(eigenbasis_of(factor, groups[0]) is not None for factor in dict.fromkeys(factors))


def solve_zero_weight(rep: Rep) -> ZeroWeightBasis:
    """The basis of a representation of a Lie group."""
    factors = list(rep.factors) if isinstance(rep, Product) else [rep]
    if not factors or not is_solvable_by_zero_weight(rep):
        raise ValueError(
            f"expected one group with a diagonalisable Lie algebra element for zero-weight "
            f"reduction, got {rep}"
        )
    group = rep.groups[0]
    torus = torus_of(group)
    eigenbases = [e for e in (eigenbasis_of(factor, group) for factor in factors) if e is not None]
    assert torus is not None
    assert len(eigenbases) == len(factors)
    problem = _Problem(eigenbases, zero_weights([e.weights for e in eigenbases]))
    unitary = all(e.is_unitary for e in eigenbases)
    half = unitary and torus.is_normal and all(e.keeps_adjoints for e in eigenbases)
    constraint = _constraint_matrix(problem, torus, group, half=half)
    null = _null_vectors(problem, constraint, real=not rep.is_complex, unitary=unitary)
    vectors = [torch.from_numpy(e.vectors) for e in eigenbases]
    found = ZeroWeightBasis(rep, vectors, torch.from_numpy(problem.flat), torch.from_numpy(null))
    return found if unitary else _orthonormalised(found)


def zero_weights(weights: list[Array]) -> Array:
    """All multi-indices whose weights sum to zero, shape (z, k), in lexicographic order.

    Sums of the first and of the second half of the factors are matched, so that the whole
    product is never formed.
    """
    half = len(weights) // 2
    larger = max(prod(len(w) for w in part) for part in (weights[:half], weights[half:]))
    require_memory(
        80 * larger,
        f"summing the weights of {len(weights)} factors",
        "take a tensor of lower order",
    )
    left, right = _all_sums(weights[:half]), _all_sums(weights[half:])
    # A is of norm one: weights far below that are rounding error, not a scale
    scale = max(1.0, *(float(np.abs(w).max()) for w in weights))
    # a generic real functional of the sums: zero sums have zero values of it
    turn = np.exp(0.7391j)
    keys = (right * turn).real
    order = np.argsort(keys, kind="stable")
    wanted = -(left * turn).real
    low = np.searchsorted(keys[order], wanted - UNCLEAR[1] * scale, "left")
    high = np.searchsorted(keys[order], wanted + UNCLEAR[1] * scale, "right")
    counts = high - low
    require_memory(
        int(counts.sum()) * 8 * (len(weights) + 6),
        f"an index of {int(counts.sum())} zero weights",
        "use method='krylov', which needs none",
    )
    first = np.repeat(np.arange(len(left)), counts)
    offsets = np.arange(len(first)) - np.repeat(np.cumsum(counts) - counts, counts)
    second = order[np.repeat(low, counts) + offsets]
    sums = np.abs(left[first] + right[second]) / scale
    require_clear(sums)
    close = sums <= 2 * _ZERO_SUM
    flat = np.sort(first[close] * len(right) + second[close])
    shape = [len(w) for w in weights]
    return (
        np.stack(np.unravel_index(flat, shape), axis=-1)
        if flat.size
        else np.zeros((0, len(shape)), np.int64)
    )


def _all_sums(weights: list[Array]) -> Array:
    sums = np.zeros(1, np.complex128)
    for w in weights:
        sums = (sums[:, None] + w).ravel()
    return sums


def _constraint_matrix(problem: _Problem, torus: Torus, group: Group, *, half: bool) -> csr_array:
    """The constraints on the zero weights, rows numbered as they are met."""
    from scipy.sparse import csr_array, vstack

    chosen = list(range(len(torus.roots)))
    if half:
        functional = (torus.roots * np.exp(0.7391j)).real
        largest = np.abs(torus.roots).max(initial=0.0)
        chosen = [i for i in chosen if functional[i] >= -1e-9 * largest]
    blocks = []
    for root in chosen:
        matrices = [factor.roots[root] for factor in problem.factors]
        block = _sum_of_factors(problem, matrices)
        norm = max(float(np.abs(m).max()) for m in matrices)
        # root vectors are of norm one; what is left of zero is rounding error
        if block.nnz and norm > _NOTHING:
            blocks.append(block / norm)
    for h in range(len(group.discrete)):
        block = _product_of_factors(problem, [f.discrete[h] for f in problem.factors])
        blocks.append(block / max(1.0, float(np.abs(block.data).max(initial=0.0))))
    columns = len(problem.index)
    return vstack(blocks, format="csr") if blocks else csr_array((0, columns), dtype=np.complex128)


def _sum_of_factors(problem: _Problem, matrices: list[Array]) -> csr_array:
    """Σ_f 1 ⊗ … ⊗ M_f ⊗ … ⊗ 1 from the zero weights to wherever it leads."""
    flat, rows, columns, values = problem.flat, [], [], []
    for f, (matrix, stride) in enumerate(zip(matrices, problem.strides, strict=True)):
        column, target, value = _step(matrix, problem.index[:, f])
        rows.append(flat[column] + (target - problem.index[column, f]) * stride)
        columns.append(column)
        values.append(value)
    return _compressed(rows, columns, values, len(flat))


def _product_of_factors(problem: _Problem, matrices: list[Array]) -> csr_array:
    """M₁ ⊗ … ⊗ M_k − 1 from the zero weights to wherever it leads."""
    count = len(problem.index)
    columns, rows, values = np.arange(count), np.zeros(count, np.int64), np.ones(count, complex)
    for f, (matrix, stride) in enumerate(zip(matrices, problem.strides, strict=True)):
        nonzero = (matrix != 0).sum(0)[problem.index[columns, f]]
        require_memory(
            int(nonzero.sum()) * 64,
            "a discrete generator on the zero weights",
            "use method='krylov', which never forms it",
        )
        previous, target, value = _step(matrix, problem.index[columns, f])
        rows = rows[previous] + target * stride
        values = values[previous] * value
        columns = columns[previous]
    everywhere = np.arange(count)
    return _compressed(
        [rows, problem.flat], [columns, everywhere], [values, -np.ones(count)], count
    )


def _step(matrix: Array, index: Array) -> tuple[Array, Array, Array]:
    """The nonzeros of columns ``index``: which of them, the row reached, the value."""
    targets, sources = np.nonzero(matrix)
    order = np.argsort(sources, kind="stable")
    targets, sources = targets[order], sources[order]
    counts = np.bincount(sources, minlength=len(matrix))
    starts = np.cumsum(counts) - counts
    each = counts[index]
    which = np.repeat(np.arange(len(index)), each)
    offset = np.arange(len(which)) - np.repeat(np.cumsum(each) - each, each)
    at = np.repeat(starts[index], each) + offset
    return which, targets[at], matrix[targets[at], sources[at]]


def _compressed(
    rows: list[Array], columns: list[Array], values: list[Array], width: int
) -> csr_array:
    """A sparse matrix from its entries, without empty rows and what cancels to rounding error."""
    from scipy.sparse import csr_array

    _, row = np.unique(np.concatenate(rows), return_inverse=True)
    height = int(row.max(initial=-1)) + 1
    value = np.concatenate(values)
    entries = (value, (row, np.concatenate(columns)))
    matrix = csr_array(entries, shape=(height, width), dtype=np.complex128)
    matrix.sum_duplicates()
    matrix.data[np.abs(matrix.data) <= 1e-12 * np.abs(value).max(initial=0.0)] = 0.0
    matrix.eliminate_zeros()
    return matrix


def _null_vectors(problem: _Problem, constraint: csr_array, *, real: bool, unitary: bool) -> Array:
    """Orthonormal null vectors, shape (z, rank), those of real vectors where ``real``."""
    if not len(problem.index):
        return np.zeros((0, 0), np.complex128)
    if not real:
        return _null_space(constraint, unitary=unitary).astype(np.complex128)
    from scipy.sparse import vstack

    to_real = _real_coordinates(problem)
    turned = constraint @ to_real
    stacked = vstack([turned.real, turned.imag], format="csr")
    return np.asarray(to_real @ _null_space(stacked, unitary=unitary).astype(np.complex128))


def _real_coordinates(problem: _Problem) -> csr_array:
    """Columns (e_I + e_Ī)/√2 and i(e_I − e_Ī)/√2: the vectors that stand for real tensors."""
    from scipy.sparse import csr_array

    conjugate = np.stack(
        [factor.conjugates[problem.index[:, f]] for f, factor in enumerate(problem.factors)], -1
    )
    flat = problem.flat
    partner = np.searchsorted(flat, conjugate @ np.array(problem.strides, dtype=np.int64))
    here = np.arange(len(flat))
    alone, first = here[partner == here], here[partner > here]
    second = partner[first]
    size, root = len(flat), 1 / np.sqrt(2)
    plus = np.arange(len(alone), len(alone) + len(first))
    minus = plus + len(first)
    one = np.ones(len(first))
    rows = np.concatenate([alone, first, second, first, second])
    columns = np.concatenate([np.arange(len(alone)), plus, plus, minus, minus])
    values = np.concatenate(
        [np.ones(len(alone)), root * one, root * one, 1j * root * one, -1j * root * one]
    )
    return csr_array((values, (rows, columns)), shape=(size, size))


def _null_space(matrix: csr_array, *, unitary: bool) -> Array:
    """Orthonormal null vectors of a sparse matrix, from a unitary eigenbasis or any other."""
    size = matrix.shape[1]
    if not matrix.nnz:
        return np.eye(size)
    gram = (matrix.conj().T @ matrix).tocsr()
    if size > LARGEST_DENSE:
        found = null_space(lambda x: gram @ x, size, gram.dtype.type)
        largest = largest_eigenvalue(lambda x: gram @ x, size)
    elif unitary:
        values, vectors = np.linalg.eigh(gram.toarray())
        largest = max(float(values[-1]), _SMALLEST_SCALE**2)
        found = vectors[:, values <= 1e-6 * largest]
    else:
        # the condition of the coordinates is in the matrix: leave nothing to its square
        found, largest = np.eye(size), float(np.abs(gram).sum(0).max())
    return _really_null(matrix, found, largest**0.5)


def _really_null(matrix: csr_array, found: Array, largest: float) -> Array:
    """The part of the columns that the matrix itself sends to zero.

    Directions with a singular value below the root of the rounding error are zero to the Gram
    matrix and not to the matrix.
    """
    if not found.shape[1]:
        return found
    triangle = np.linalg.qr(matrix @ found, mode="r")
    _, singular, vh = np.linalg.svd(triangle, full_matrices=True)
    scale = max(largest, _SMALLEST_SCALE)
    require_clear(singular / scale)
    rank = int((singular > _RANK * scale).sum())
    return np.asarray(found @ vh[rank:].conj().T)


def _orthonormalised(basis: ZeroWeightBasis) -> ZeroWeightBasis:
    """The same space with orthonormal columns, where the eigenvectors are not."""
    if basis.rank == 0:
        return basis
    triangle = torch.linalg.qr(basis.dense(), mode="r").R
    null = torch.linalg.solve_triangular(
        triangle.to(basis.null.dtype), basis.null, upper=True, left=False
    )
    return ZeroWeightBasis(basis.rep, basis.vectors, basis.index, null)
