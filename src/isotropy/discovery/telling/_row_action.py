"""How a symmetry acts on rows as they were given, in the user's own columns and units."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from isotropy._run import generator as make_generator
from isotropy.discovery.claims._statement import ContinuousDetails, Statement
from isotropy.groups import LinearMap
from isotropy.reps import Symmetry

Array = NDArray[np.float64]
_NO_MATRIX = 1e-6  # share of the largest entry up to which the others are rounding


@dataclass(frozen=True, eq=False)
class RowMap:
    """An affine map of rows, flattened as they were given: x ↦ A x + b.

    Args:
        affine: [A | b], shape (n, n + 1); None where the map is a signed permutation.
        index: Where a signed permutation takes each number: number j goes to place ``index[j]``.
        sign: What it is multiplied by, ±1 each.

    Example:
        >>> swap = RowMap(index=np.array([1, 0]), sign=np.array([1, -1]))
        >>> swap([[3.0, 4.0]]).tolist(), swap.matrix.tolist()
        ([[-4.0, 3.0]], [[0.0, -1.0, 0.0], [1.0, 0.0, 0.0]])
    """

    affine: Array | None = None
    index: NDArray[np.int64] | None = None
    sign: NDArray[np.int64] | None = None

    @property
    def size(self) -> int:
        """How many numbers a row has."""
        if self.affine is not None:
            return len(self.affine)
        assert self.index is not None
        return len(self.index)

    @property
    def matrix(self) -> Array:
        """[A | b], shape (n, n + 1); of a signed permutation b is zero."""
        if self.affine is not None:
            return self.affine
        assert self.index is not None
        assert self.sign is not None
        matrix = np.zeros((self.size, self.size + 1))
        matrix[self.index, np.arange(self.size)] = self.sign
        return matrix

    def __call__(self, rows: ArrayLike) -> Array:
        """Rows moved, float64 of the same shape; axes behind the first are flattened in between."""
        given = np.asarray(rows, dtype=np.float64)
        flat = given.reshape(len(given), -1)
        if flat.shape[1] != self.size:
            raise ValueError(
                f"expected rows of {self.size} numbers, got an array of shape {given.shape}"
            )
        if self.affine is not None:
            return (flat @ self.affine[:, :-1].T + self.affine[:, -1]).reshape(given.shape)
        moved = np.empty_like(flat)
        assert self.sign is not None
        moved[:, self.index] = flat * self.sign
        return moved.reshape(given.shape)


@dataclass(frozen=True, eq=False)
class RowAction:
    """How a group acts on inputs and on outputs.

    Args:
        generators: Of the continuous part, [A | b] each, shape (D, n, n + 1): rows move by
            dx/dt = A x + b. D is 0 for finite groups.
        elements: Elements that generate the finite part.
        output_generators: What outputs do meanwhile, shape (D, m, m + 1); None where they stay.
        output_elements: Those of ``elements`` on outputs; None where they stay, empty where it is
            not known how they move.
        symmetry: The group and its actions, from which elements are drawn where it is finite.

    Example:
        >>> turn = RowAction(np.array([[[0.0, -1, 0], [1, 0, 0]]]))
        >>> x, y = turn.moved([[1.0, 0.0]], [[5.0]])
        >>> round(float(np.linalg.norm(x)), 12), y.tolist()
        (1.0, [[5.0]])
    """

    generators: Array
    elements: tuple[RowMap, ...] = ()
    output_generators: Array | None = None
    output_elements: tuple[RowMap, ...] | None = None
    symmetry: _Ordered | None = field(default=None, repr=False)

    def drawn(self, seed: int = 0) -> tuple[RowMap, RowMap | None]:
        """An element at random, on inputs and on outputs; None where these stay.

        Of a finite group each is as likely as any other; along each generator of a continuous one
        it goes by a normal number, times half a turn where the generator turns rows and no more.
        """
        if self.symmetry is not None:
            g = self.symmetry.of.group.sample(1, generator=seed).select(0)
            return self.symmetry.maps(g)
        rng = make_generator(seed)
        t = torch.randn(len(self.generators), generator=rng, dtype=torch.float64).numpy()
        t *= [_step(generator[:, :-1]) for generator in self.generators]
        flips = torch.randint(2, (len(self.elements),), generator=rng).tolist()
        moved = _flow(self.generators, t)
        stays = self.output_generators is None
        for element, flip in zip(self.elements, flips, strict=True):
            if flip and stays:  # else it is not known how outputs follow
                moved = _square(element.matrix) @ moved
        out = (
            None
            if self.output_generators is None
            else RowMap(_flow(self.output_generators, t)[:-1])
        )
        return RowMap(moved[:-1]), out

    def moved(self, x: Any, y: Any = None, *, seed: int = 0) -> Any:
        """Inputs, or inputs and targets, moved by an element at random."""
        inputs, outputs = self.drawn(seed)
        if y is None:
            return inputs(x)
        return inputs(x), np.asarray(y, dtype=np.float64) if outputs is None else outputs(y)


@dataclass(frozen=True, eq=False)
class _Ordered:
    """A symmetry, and where the rows as given have the numbers that it acts on."""

    of: Symmetry
    inputs: Tensor
    outputs: Tensor
    centre: Array

    def maps(self, g: LinearMap) -> tuple[RowMap, RowMap]:
        """An element on inputs and on outputs."""
        moved = _map(self.of.rep_in.rho(g), self.inputs, self.centre)
        return moved, _map(self.of.rep_out.rho(g), self.outputs)


def row_action(claim: Statement) -> RowAction:
    """How what is claimed acts on rows.

    Raises:
        ValueError: If nothing is said of rows.
    """
    details, symmetry = claim.details, claim.symmetry
    if isinstance(details, ContinuousDetails) and details.rows is not None:
        return _of_generators(details)
    if symmetry is None:
        raise ValueError(
            f"expected a symmetry that moves rows, got {claim.name!r:.80}, which has no action on "
            "them"
        )
    n, m = symmetry.rep_in.size(), symmetry.rep_out.size()
    columns = len(claim.input_names) * claim.layout.channels
    if columns and columns != n:  # an earlier release wrote it, which did not keep the rest
        raise ValueError(
            f"expected a symmetry of rows of {columns} columns, got one that acts on {n} "
            "coordinates: search for it again with this release"
        )
    centre = np.zeros(n)
    if isinstance(details, ContinuousDetails) and details.centre:
        centre = np.array(details.centre)
    ordered = _Ordered(symmetry, claim.layout.input_order(n), claim.layout.output_order(m), centre)
    maps = [ordered.maps(h) for h in symmetry.group.discrete]
    flows = [
        (
            _flow_of(symmetry.rep_in.drho(a), ordered.inputs, centre),
            _flow_of(symmetry.rep_out.drho(a), ordered.outputs, np.zeros(m)),
        )
        for a in symmetry.group.algebra
    ]
    return RowAction(
        np.array([one for one, _ in flows]).reshape(-1, n, n + 1),
        tuple(one for one, _ in maps),
        np.array([one for _, one in flows]).reshape(-1, m, m + 1),
        tuple(one for _, one in maps),
        None if flows else ordered,
    )


def _of_generators(details: ContinuousDetails) -> RowAction:
    """What was found as generators, with the reflections that hold beside them."""
    rows, outputs = details.rows, details.outputs
    assert rows is not None
    # however far its centre is, the largest entry of what turns rows is 1
    largest = np.abs(rows[..., :-1]).max((1, 2))
    scale = 1 / np.where(largest > _NO_MATRIX * np.abs(rows).max((1, 2)), largest, 1.0)
    rows = rows * scale[:, None, None]
    outputs = None if outputs is None else outputs * scale[:, None, None]
    elements = tuple(
        RowMap(_affine(np.array(one["matrix"], dtype=np.float64)))
        for one in details.discrete
        if one.get("holds") and "matrix" in one
    )
    if outputs is None:
        return RowAction(rows, elements)
    return RowAction(rows, elements, np.concatenate([outputs, 0 * outputs[..., :1]], 2), ())


def _map(element: LinearMap, order: Tensor, centre: Array | None = None) -> RowMap:
    """An element in the order in which rows were given, about a centre."""
    monomial = element.monomial()
    if monomial is not None and (centre is None or not centre.any()):
        index, sign = torch.empty_like(order), torch.empty_like(order)
        index[order] = order[monomial.index]
        sign[order] = 1 if monomial.sign is None else monomial.sign.to(order)
        return RowMap(index=index.numpy(), sign=sign.numpy())
    matrix = _given_order(element, order)
    middle = np.zeros(len(matrix)) if centre is None else centre
    return RowMap(np.concatenate([matrix, (middle - matrix @ middle)[:, None]], 1))


def _flow_of(generator: LinearMap, order: Tensor, centre: Array) -> Array:
    matrix = _given_order(generator, order)
    return np.concatenate([matrix, -(matrix @ centre)[:, None]], 1)


def _given_order(linear: LinearMap, order: Tensor) -> Array:
    matrix = torch.zeros(len(order), len(order), dtype=torch.float64)
    matrix[order[:, None], order[None]] = linear.dense().to(torch.float64)
    found: Array = matrix.numpy()
    return found


def _affine(matrix: Array) -> Array:
    """[A | b] of A or of [A | b]."""
    wide = matrix.shape[1] > len(matrix)
    return matrix if wide else np.concatenate([matrix, np.zeros((len(matrix), 1))], 1)


def _step(matrix: Array) -> float:
    """How far to go along a generator: half a turn where it only turns, else as far as it says."""
    values = np.linalg.eigvals(matrix)
    fastest = float(np.abs(values).max())
    turns = fastest > 0 and float(np.abs(values.real).max()) < _NO_MATRIX * fastest
    return np.pi / fastest if turns else 1.0


def _square(affine: Array) -> Array:
    """[A | b] over a last row that keeps the 1."""
    return np.concatenate([affine, np.eye(1, affine.shape[1], affine.shape[1] - 1)])


def _flow(generators: Array, t: Array) -> Array:
    """exp(Σ tₖ [Aₖ | bₖ]) on rows with a 1 behind them."""
    total = np.einsum("k,kij->ij", t, generators)
    wide = np.concatenate([total, np.zeros((1, total.shape[1]))])
    found: Array = torch.linalg.matrix_exp(torch.as_tensor(wide)).numpy()
    return found
