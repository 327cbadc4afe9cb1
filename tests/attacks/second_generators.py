"""Generators of the groups that a message can name: signed permutations, or matrices.

Signed permutations are kept apart from other matrices, because networks treat them otherwise:
what is a permutation by construction has no gates, whatever its entries look like in numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, product
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from attacks.second_bits import Wrong

if TYPE_CHECKING:
    from attacks.second_groups import Group

GRIDS = ("GridShifts", "GridTurns", "GridFlips", "p4", "p4m")


@dataclass(frozen=True, eq=False)
class Signed:
    """The signed permutation that sends e_i to sign_i · e_{index_i}."""

    index: np.ndarray
    sign: np.ndarray

    def dense(self) -> np.ndarray:
        matrix = np.zeros((len(self.index),) * 2)
        matrix[self.index, np.arange(len(self.index))] = self.sign
        return matrix


def moved(*index: int) -> Signed:
    return Signed(np.array(index, np.int64), np.ones(len(index)))


def signed_permutation(matrix: np.ndarray) -> Signed | None:
    """A matrix as a signed permutation, where it is one exactly."""
    filled = matrix != 0
    if (filled.sum(0) != 1).any() or (filled.sum(1) != 1).any() or (abs(matrix[filled]) != 1).any():
        return None
    return Signed(filled.argmax(0), matrix.sum(0))


def is_plain(h: Signed | np.ndarray) -> bool:
    return isinstance(h, Signed) and bool((h.sign == 1).all())


def dense(h: Signed | np.ndarray) -> np.ndarray:
    return h.dense() if isinstance(h, Signed) else h


def _exact(matrix: np.ndarray) -> Signed | np.ndarray:
    found = signed_permutation(matrix)
    return matrix if found is None else found


def kron(a: Signed | np.ndarray, b: Signed | np.ndarray) -> Signed | np.ndarray:
    if isinstance(a, Signed) and isinstance(b, Signed):
        index = (a.index[:, None] * len(b.index) + b.index).ravel()
        return Signed(index, np.outer(a.sign, b.sign).ravel())
    return np.kron(dense(a), dense(b))


def _beside(blocks: list[Signed | np.ndarray]) -> Signed | np.ndarray:
    if all(isinstance(block, Signed) for block in blocks):
        starts = np.cumsum([0, *(len(block.index) for block in blocks)])
        index = [block.index + start for block, start in zip(blocks, starts, strict=False)]
        return Signed(np.concatenate(index), np.concatenate([block.sign for block in blocks]))
    sizes = [len(dense(block)) for block in blocks]
    out, at = np.zeros((sum(sizes),) * 2), 0
    for block, size in zip(blocks, sizes, strict=True):
        out[at : at + size, at : at + size] = dense(block)
        at += size
    return out


def _one(d: int) -> Signed:
    return moved(*range(d))


Maps = tuple[tuple[Signed | np.ndarray, ...], tuple[np.ndarray, ...]]


@lru_cache(maxsize=512)
def generators(group: Group) -> Maps:
    """Generators of the components, and a basis of the Lie algebra."""
    if group.kind == "Group":
        count = len(group.matrices) - group.of_algebra
        matrices = [np.array(m) for m in group.matrices]
        return (
            (*(moved(*p) for p in group.permutations), *map(_exact, matrices[:count])),
            tuple(matrices[count:]),
        )
    if group.kind == "Conjugate":
        return _conjugated(group)
    if group.parts:
        return _compound(group)
    if group.is_complex:
        raise Wrong("complex matrices have no network here")
    return _family(group.kind, group.integers)


def _conjugated(group: Group) -> Maps:
    discrete, algebra = generators(group.parts[0])
    if group.permutations:
        change: Signed | np.ndarray = moved(*group.permutations[0])
    else:
        change = _exact(np.array(group.matrices[0]))
    if isinstance(change, Signed) and not algebra and all(isinstance(h, Signed) for h in discrete):
        return tuple(_relabelled(h, change) for h in discrete), ()
    matrix = dense(change)
    back = matrix.T if isinstance(change, Signed) else np.linalg.inv(matrix)

    def move(h: Signed | np.ndarray) -> Signed | np.ndarray:
        if isinstance(h, Signed) and isinstance(change, Signed):
            return _relabelled(h, change)
        return matrix @ dense(h) @ back

    return tuple(map(move, discrete)), tuple(matrix @ a @ back for a in algebra)


def _relabelled(h: Signed, by: Signed) -> Signed:
    """P h P⁻¹: what h does to e_i happens to P e_i."""
    index, sign = np.empty_like(h.index), np.empty_like(h.sign)
    index[by.index] = by.index[h.index]
    sign[by.index] = by.sign * h.sign * by.sign[h.index]
    return Signed(index, sign)


def _compound(group: Group) -> Maps:
    parts, discrete, algebra = group.parts, [], []
    if group.kind == "Embedding":
        d, at = group.integers
        return _embedded(generators(parts[0]), at, d - at - parts[0].d)
    if group.kind == "Wreath":
        inner, outer = parts
        blocks = outer.d
        orbit = orbits([h.index for h in generators(outer)[0]], blocks)
        for block in np.unique(orbit, return_index=True)[1]:
            rest = _one(inner.d * block), _one(inner.d * (blocks - block - 1))
            discrete += [_beside([rest[0], h, rest[1]]) for h in generators(inner)[0]]
        discrete += [kron(h, _one(inner.d)) for h in generators(outer)[0]]
        for unit in np.eye(blocks):
            algebra += [np.kron(np.diag(unit), a) for a in generators(inner)[1]]
        return tuple(discrete), tuple(algebra)
    for place, part in enumerate(parts):
        own, span = generators(part)
        if group.kind == "SideBySide":
            before, after = (sum(p.d for p in side) for side in (parts[:place], parts[place + 1 :]))
            own, span = _embedded((own, span), before, after)
            discrete += own
            algebra += span
        else:
            before, after = (
                math.prod(p.d for p in side) for side in (parts[:place], parts[place + 1 :])
            )
            discrete += [kron(kron(_one(before), h), _one(after)) for h in own]
            algebra += [np.kron(np.kron(np.eye(before), a), np.eye(after)) for a in span]
    return tuple(discrete), tuple(algebra)


def _embedded(inner: Maps, before: int, after: int) -> Maps:
    """On more coordinates, which stay as they are."""
    discrete, algebra = inner
    return (
        tuple(_beside([_one(before), h, _one(after)]) for h in discrete),
        tuple(np.pad(a, ((before, after), (before, after))) for a in algebra),
    )


def orbits(permutations: list[np.ndarray], size: int) -> np.ndarray:
    """The orbit of every point, numbered by first appearance."""
    sources = np.tile(np.arange(size), len(permutations))
    targets = np.concatenate([np.zeros(0, np.int64), *permutations])
    graph = csr_array((np.ones(len(sources), np.int8), (sources, targets)), shape=(size, size))
    labels = connected_components(graph, directed=False)[1]
    _, first, numbers = np.unique(labels, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[numbers]


def _family(kind: str, integers: tuple[int, ...]) -> Maps:
    n = integers[0] if integers else 0
    if kind in ("Z", "S", "A", "D", "Trivial", "Inversion", "RubiksCube", *GRIDS):
        return tuple(_permuting(kind, n)), ()
    if kind in ("C2d", "D2d"):
        mirror = [] if kind == "C2d" else [_exact(np.diag([-1.0, 1.0]))]
        return (*([] if n == 1 else [_exact(_turn(n))]), *mirror), ()
    if kind in ("SO2eR3", "O2eR3", "DkeR3"):
        inner = {"SO2eR3": ("SO", (2,)), "O2eR3": ("O", (2,))}.get(kind, ("D2d", integers))
        return _embedded(_family(*inner), 0, 1)
    return tuple(map(_exact, _components(kind, n))), tuple(_algebra(kind, integers))


def _turn(n: int) -> np.ndarray:
    """The rotation by 2π/n, exact at quarter turns."""
    quarters = 4 / n
    if quarters == round(quarters):
        cos, sin = [(1, 0), (0, 1), (-1, 0), (0, -1)][round(quarters) % 4]
    else:
        cos, sin = math.cos(math.pi / 2 * quarters), math.sin(math.pi / 2 * quarters)
    return np.array([[cos, -sin], [sin, cos]], float)


def _permuting(kind: str, n: int) -> list[Signed]:
    if kind == "Trivial" or (n == 1 and kind != "Inversion"):
        return []
    if kind == "Inversion":
        return [Signed(np.arange(n), -np.ones(n))]
    if kind == "RubiksCube":
        return _cube()
    if kind in GRIDS:
        grid = np.arange(n * n).reshape(n, n)
        # a map of images takes e_i to where number i is found afterwards
        shifts = [np.roll(grid, 1, 0), np.roll(grid, 1, 1)]
        turn, flips = [np.rot90(grid)], [grid[::-1], grid[:, ::-1]]
        images = {"GridShifts": shifts, "GridTurns": turn, "GridFlips": flips}
        images |= {"p4": shifts + turn, "p4m": [*shifts, *turn, flips[1]]}
        return [moved(*np.argsort(image.ravel())) for image in images[kind]]
    cycle = moved(*range(1, n), 0)
    if kind == "Z":
        return [cycle]
    if kind == "S":
        return [moved(1, 0, *range(2, n)), cycle][: n - 1]
    if kind == "D":
        return [cycle, moved(*(-i % n for i in range(n)))]
    three = moved(1, 2, 0, *range(3, n))
    return [three, cycle if n % 2 else moved(0, *range(2, n), 1)][: n - 2]


def _cube() -> list[Signed]:
    """Quarter turns of the six faces, on 48 facelets (cubie, normal), those of corners first."""
    cubies = [np.array(p) for p in product((-1, 0, 1), repeat=3) if np.abs(p).sum() >= 2]
    facelets = [
        (tuple(cubie), tuple(cubie * np.eye(3, dtype=int)[axis]))
        for cubie in cubies
        for axis in range(3)
        if cubie[axis]
    ]
    facelets.sort(key=lambda facelet: -np.abs(facelet[0]).sum())
    found = []
    for axis, side in product(range(3), (1, -1)):
        after, last = (axis + 1) % 3, (axis + 2) % 3
        turn = np.zeros((3, 3), int)
        turn[axis, axis], turn[after, last], turn[last, after] = 1, side, -side
        image = [
            (tuple(turn @ cubie), tuple(turn @ normal)) if cubie[axis] == side else (cubie, normal)
            for cubie, normal in facelets
        ]
        found.append(moved(*map(facelets.index, image)))
    return found


def _components(kind: str, n: int) -> list[np.ndarray]:
    """Generators of the components of a Lie group, and reversals."""
    first = np.diag([-1.0] + [1.0] * 3)
    if kind in ("O", "GL", "E"):
        size = n + 1 if kind == "E" else n
        return [np.diag([-1.0] + [1.0] * (size - 1))]
    return {
        "SO13": [-np.eye(4)],
        "O13": [-np.eye(4), first],
        "O11": [-np.eye(2), np.diag([-1.0, 1.0])],
        "Parity": [-first],
        "TimeReversal": [first],
    }.get(kind, [])


def _algebra(kind: str, integers: tuple[int, ...]) -> list[np.ndarray]:
    n = integers[0] if integers else {"SO11p": 2, "O11": 2}.get(kind, 4)
    if kind in ("Parity", "TimeReversal"):
        return []
    if kind == "Scaling":
        return [np.eye(n)]
    if kind == "SOpq" or kind.endswith(("11p", "11", "13p", "13")):
        metric = np.ones(sum(integers) if integers else n)
        metric[integers[0] if integers else 1 :] = -1
        return _keeping(metric)
    if kind in ("SO", "O"):
        return _keeping(np.ones(n))
    if kind in ("SE", "E"):
        turns = [np.pad(a, ((0, 1), (0, 1))) for a in _keeping(np.ones(n))]
        return turns + [_unit(n + 1, i, n) for i in range(n)]
    if kind == "Sp":
        pairs = [
            _unit(2 * n, i, j) - _unit(2 * n, n + j, n + i) for i in range(n) for j in range(n)
        ]
        for i in range(n):
            for j in range(i + 1):
                for a, b in ((i, n + j), (n + i, j)):
                    pairs.append(
                        np.sign(
                            _unit(2 * n, a, b) + _unit(2 * n, (b - n) % (2 * n), (a + n) % (2 * n))
                        )
                    )
        return pairs
    units = [_unit(n, i, j) for i in range(n) for j in range(n) if kind == "GL" or i != j]
    if kind == "SL":
        units += [_unit(n, i, i) - _unit(n, i + 1, i + 1) for i in range(n - 1)]
    return units


def _keeping(metric: np.ndarray) -> list[np.ndarray]:
    """A basis of what keeps a diagonal metric: AᵀM + MA = 0."""
    n = len(metric)
    return [
        _unit(n, j, i) - metric[i] * metric[j] * _unit(n, i, j)
        for i, j in combinations(range(n), 2)
    ]


def _unit(n: int, i: int, j: int) -> np.ndarray:
    matrix = np.zeros((n, n))
    matrix[i, j] = 1
    return matrix
