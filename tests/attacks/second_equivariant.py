"""Spaces of equivariant maps, and the equivariant perceptron that is made of them.

A tensor is the tuple of its factors, 1 for V and -1 for its dual; a scalar is the empty one. The
maps between two tensors are the null space of one constraint for each generator, found by a
singular value decomposition. Networks see a space only through the projection on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, reduce
from math import prod

import numpy as np
from scipy.sparse import csr_array, eye_array
from scipy.sparse import kron as sparse_kron

from attacks.second_bits import Outside, require
from attacks.second_generators import Signed, dense, generators, is_plain, kron
from attacks.second_groups import Group

Tensor = tuple[int, ...]
KINDS: tuple[Tensor, ...] = ((), (1,), (1, 1), (-1,), (1, -1), (-1, -1))

TOLERANCE = 1e-9  # singular values below, as a share of the largest, are zero
# between these, the same decomposition on another machine may decide otherwise
UNCLEAR = (3e-10, 3e-9)
_ROUNDING = 1e-12
_DIRECT = 300


@lru_cache(maxsize=512)
def is_orthogonal(group: Group) -> bool:
    """Whether V and its dual are one."""
    discrete, algebra = generators(group)
    for h in discrete:
        matrix = dense(h)
        if (
            not isinstance(h, Signed)
            and abs(matrix.T @ matrix - np.eye(len(matrix))).max() >= 1e-10
        ):
            return False
    return all(abs(a + a.T).max() <= 1e-12 * abs(a).max() for a in algebra)


def without_duals(group: Group, tensor: Tensor) -> Tensor:
    return tuple(map(abs, tensor)) if is_orthogonal(group) else tensor


@lru_cache(maxsize=4096)
def acts_by_permutations(group: Group, tensor: Tensor) -> bool:
    """Whether every element permutes the entries of a tensor, by construction."""
    if not tensor:
        return True
    discrete, algebra = generators(group)
    if algebra and (group.d > 1 or (any(a[0, 0] for a in algebra) and sum(tensor))):
        return False
    # the dual of a signed permutation is itself
    return all(
        isinstance(h, Signed) and is_plain(reduce(kron, [h] * len(tensor))) for h in discrete
    )


@lru_cache(maxsize=4096)
def maps_between(group: Group, into: Tensor, out: Tensor) -> np.ndarray:
    """An orthonormal basis of the equivariant maps, shape (size out · size in, rank)."""
    return _invariants(group, (*out, *(-factor for factor in into)))


@lru_cache(maxsize=4096)
def _invariants(group: Group, tensor: Tensor) -> np.ndarray:
    tensor = without_duals(group, tensor)
    if not tensor:
        return np.ones((1, 1))
    if group.kind == "Conjugate" and group.matrices:
        # in the coordinates of the catalogue, where the condition of the change does no harm
        change = np.array(group.matrices[0])
        factors = {1: change, -1: np.linalg.inv(change).T}
        found = _invariants(group.parts[0], tensor)
        return np.linalg.qr(reduce(np.kron, [factors[f] for f in tensor]) @ found)[0]
    return _null_space(_constraints(group, tensor), group.d ** len(tensor))


def _constraints(group: Group, tensor: Tensor) -> list[csr_array]:
    """ρ(h) − 1 and dρ(A), each of unit norm; what is rounding error is left out."""
    discrete, algebra = generators(group)
    size = group.d ** len(tensor)
    found = []
    for h in map(dense, discrete):
        factors = {1: h, -1: np.linalg.inv(h).T}
        whole = reduce(sparse_kron, [csr_array(factors[f]) for f in tensor])
        scale = max(1.0, np.sqrt((whole.multiply(whole)).sum() / size))
        found.append((csr_array(whole - eye_array(size)), scale))
    for a in algebra:
        factors = {1: a, -1: -a.T}
        whole = csr_array((size, size))
        for place, factor in enumerate(tensor):
            before, after = group.d**place, group.d ** (len(tensor) - place - 1)
            inside = sparse_kron(csr_array(factors[factor]), eye_array(after))
            whole = whole + sparse_kron(eye_array(before), inside)
        found.append((csr_array(whole), np.sqrt((a * a).sum() / len(a))))
    norms = [np.sqrt(c.multiply(c).sum()) for c, _ in found]
    return [
        c / norm
        for (c, scale), norm in zip(found, norms, strict=True)
        if norm / np.sqrt(size) > _ROUNDING * scale
    ]


def _null_space(constraints: list[csr_array], size: int) -> np.ndarray:
    if not constraints:
        return np.eye(size)
    if size <= _DIRECT:
        triangle = np.zeros((0, size))
        for constraint in constraints:
            triangle = np.linalg.qr(np.concatenate([triangle, constraint.toarray()]), mode="r")
        _, singular, right = np.linalg.svd(triangle, full_matrices=True)
        singular = np.pad(singular, (0, size - len(singular)))
        largest = singular[0]
    else:
        # near null vectors by the Gram matrix, which squares; among them by the matrix itself
        gram = sum((c.T @ c for c in constraints[1:]), constraints[0].T @ constraints[0])
        values, vectors = np.linalg.eigh(gram.toarray())
        largest = np.sqrt(values[-1])
        near = vectors[:, values <= 1e-8 * values[-1]]
        triangle = np.zeros((0, near.shape[1]))
        for constraint in constraints:
            triangle = np.linalg.qr(np.concatenate([triangle, constraint @ near]), mode="r")
        _, singular, turned = np.linalg.svd(triangle, full_matrices=True)
        singular = np.pad(singular, (0, near.shape[1] - len(singular)))
        right = turned @ near.T
    share = singular / largest
    between = share[(UNCLEAR[0] < share) & (share < UNCLEAR[1])]
    if len(between):
        raise Outside(f"a rank is unclear: a singular value is {between.min():.1e}")
    return right[share <= TOLERANCE].T


# --- the perceptron ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Term:
    """Copies of one tensor."""

    count: int
    tensor: Tensor
    size: int


def hidden_terms(width: int, group: Group) -> list[Term]:
    """A third of the width for vectors and for tensors of order two, as far as they fit."""
    d = group.d
    vectors, pairs = width // 3 // d, width // 3 // (d * d)
    scalars = max(1, width - vectors * d - pairs * d * d)
    if is_orthogonal(group):
        counts = [(scalars, ()), (vectors, (1,)), (pairs, (1, 1))]
    else:
        counts = [(scalars, ()), (vectors - vectors // 2, (1,)), (vectors // 2, (-1,))]
        counts.append((pairs, (1, -1)))
    return terms_of(group, [(count, tensor) for count, tensor in counts if count])


def terms_of(group: Group, counts: list[tuple[int, Tensor]]) -> list[Term]:
    return [
        Term(count, without_duals(group, tensor), group.d ** len(tensor))
        for count, tensor in counts
    ]


class Projection:
    """Π on the equivariant matrices between two spaces, block by block; its rank."""

    def __init__(self, group: Group, into: list[Term], out: list[Term]) -> None:
        self.into, self.out = into, out
        self.shape = tuple(sum(t.count * t.size for t in terms) for terms in (out, into))
        self.bases = {(a, b): maps_between(group, b.tensor, a.tensor) for a in out for b in into}
        self.rank = sum(a.count * b.count * self.bases[a, b].shape[1] for a in out for b in into)

    def __call__(self, weight: np.ndarray) -> np.ndarray:
        out = np.zeros(self.shape)
        row = 0
        for a in self.out:
            column = 0
            for b in self.into:
                box = np.s_[row : row + a.count * a.size, column : column + b.count * b.size]
                copies = weight[box].reshape(a.count, a.size, b.count, b.size)
                flat = copies.transpose(0, 2, 1, 3).reshape(-1, a.size * b.size)
                basis = self.bases[a, b]
                back = (flat @ basis @ basis.T).reshape(a.count, b.count, a.size, b.size)
                out[box] = back.transpose(0, 2, 1, 3).reshape(out[box].shape)
                column += b.count * b.size
            row += a.count * a.size
        return out


@dataclass(frozen=True)
class Action:
    """The first ``objects`` copies of a term act on those of another, to give a third."""

    acting: int
    objects: int
    source: int
    target: int
    order: tuple[int, ...]


def actions(group: Group, terms: list[Term]) -> list[Action]:
    """All terms that can be read as maps from one term to another."""
    found = []
    for target, into in enumerate(terms):
        for source, of in enumerate(terms):
            if not of.tensor and is_orthogonal(group):
                continue
            duals = tuple(-factor for factor in of.tensor)
            wanted = without_duals(group, into.tensor + duals)
            for acting, term in enumerate(terms):
                if term.tensor and sorted(term.tensor) == sorted(wanted):
                    left = list(enumerate(term.tensor))
                    order = []
                    for factor in wanted:
                        place = next(n for n, (_, own) in enumerate(left) if own == factor)
                        order.append(left.pop(place)[0])
                    objects = min(term.count, group.d)
                    found.append(Action(acting, objects, source, target, tuple(order)))
    return found


class Products:
    """The bilinear layer of a hidden space: shapes of its weights, and what they add."""

    def __init__(self, group: Group, terms: list[Term]) -> None:
        self.d, self.terms = group.d, terms
        every = actions(group, terms)
        self.fan_in = [0] * len(terms)
        for a in every:
            self.fan_in[a.target] += a.objects * terms[a.source].count * terms[a.source].size
        self.first = [a for a in every if terms[a.source].size < terms[a.target].size]
        last = [a for a in every if terms[a.source].size >= terms[a.target].size]
        sources = list(dict.fromkeys(a.source for a in last))
        by_source = [a for source in sources for a in last if a.source == source]
        self.last = {
            target: [a for a in by_source if a.target == target]
            for target in sorted({a.target for a in last})
        }
        self.shapes = [
            (terms[a.source].count, a.objects * terms[a.target].count) for a in self.first
        ]
        self.shapes += [
            (sum(a.objects * terms[a.source].count for a in of), terms[target].count)
            for target, of in self.last.items()
        ]

    def __call__(self, weights: list[np.ndarray], objects: list[np.ndarray]) -> list[np.ndarray]:
        """What is added to each term; objects are (rows, copies, size)."""
        sums = [np.zeros_like(v) for v in objects]
        for a, weight in zip(self.first, weights, strict=False):
            mixing = weight.reshape(len(weight), a.objects, -1)
            mixed = np.einsum("njs,joc->nsoc", objects[a.source], mixing)
            added = np.einsum("nots,nsoc->nct", self._maps(a, objects), mixed)
            sums[a.target] += added * self.fan_in[a.target] ** -0.5
        for (target, of), weight in zip(self.last.items(), weights[len(self.first) :], strict=True):
            acted = [
                np.einsum("nots,njs->ntoj", self._maps(a, objects), objects[a.source]) for a in of
            ]
            flat = np.concatenate([z.reshape(*z.shape[:2], -1) for z in acted], 2)
            added = (flat @ weight).transpose(0, 2, 1)
            sums[target] += added * self.fan_in[target] ** -0.5
        return sums

    def _maps(self, a: Action, objects: list[np.ndarray]) -> np.ndarray:
        """Acting objects as matrices, shape (rows, objects, size of target, size of source)."""
        v = objects[a.acting][:, : a.objects]
        spread = v.reshape(*v.shape[:2], *[self.d] * len(a.order))
        turned = spread.transpose(0, 1, *(2 + place for place in a.order))
        return turned.reshape(*v.shape[:2], self.terms[a.target].size, self.terms[a.source].size)


class Block:
    """One hidden layer: projected linear, products, gates."""

    def __init__(self, group: Group, into: list[Term], terms: list[Term]) -> None:
        self.terms = terms
        self.pointwise = [acts_by_permutations(group, term.tensor) for term in terms]
        gates = [0 if p else t.count for p, t in zip(self.pointwise, terms, strict=True)]
        self.gates = sum(gates)
        gated = [Term(self.gates, (), 1), *terms] if self.gates else terms
        self.weights = Projection(group, into, gated)
        require(self.weights.rank, "a layer of the network is zero")
        self.biases = Projection(group, [Term(1, (), 1)], gated)
        self.products = Products(group, terms)

    def __call__(self, tensors: list[np.ndarray], x: np.ndarray) -> np.ndarray:
        y = linear(self.weights, self.biases, tensors[0], tensors[1], x)
        gates, values = y[:, : self.gates], y[:, self.gates :]
        objects, at = [], 0
        for term in self.terms:
            width = term.count * term.size
            objects.append(values[:, at : at + width].reshape(-1, term.count, term.size))
            at += width
        if self.products.shapes:
            added = self.products(tensors[2:], objects)
            objects = [v + w for v, w in zip(objects, added, strict=True)]
        opened, at = [], 0
        for v, pointwise in zip(objects, self.pointwise, strict=True):
            if pointwise:
                opened.append(v / (1 + np.exp(-v)))
            else:
                gate = gates[:, at : at + v.shape[1], None]
                opened.append(v * (1 / (1 + np.exp(-gate))))
                at += v.shape[1]
        return np.concatenate([v.reshape(len(v), -1) for v in opened], 1)


def linear(
    weights: Projection, biases: Projection, weight: np.ndarray, bias: np.ndarray, x: np.ndarray
) -> np.ndarray:
    """√(mn/r) Π(W) x + Π(b)."""
    scale = np.sqrt(prod(weights.shape) / weights.rank)
    return x @ (scale * weights(weight)).T + biases(bias[:, None])[:, 0]
