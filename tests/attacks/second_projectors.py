"""Random numbers by counting, and the nine matrices P of θ = θ₀ + P w, with numpy alone."""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt, prod

import numpy as np

from attacks.second_bits import Outside, require

PROJECTORS = (
    *("kronecker", "kronecker-orthonormal", "kronecker-sum", "dense", "sparse", "fastfood"),
    *("film", "film+kronecker", "identity"),
)
FIRST_STREAM = 1 << 32
_STEP = 0x9E3779B97F4A7C15
_FACTORS = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_WORDS_AT_ONCE = 1 << 20
MOST_WORK = 1 << 31


def _mixed(words: np.ndarray) -> np.ndarray:
    """The mixing function of SplitMix64, modulo 2⁶⁴."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(_FACTORS[0])
    words = (words ^ (words >> np.uint64(27))) * np.uint64(_FACTORS[1])
    return words ^ (words >> np.uint64(31))


def words(seed: int, stream: int, count: int, start: int = 0) -> np.ndarray:
    """64 random bits for each number of a stream, from ``start``, as uint64."""
    with np.errstate(over="ignore"):
        first = _mixed(np.array([(seed + _STEP) % 2**64], np.uint64))
        key = _mixed(first + np.uint64(stream))
        counter = np.arange(start + 1, start + count + 1, dtype=np.uint64)
        return _mixed(counter * np.uint64(_STEP) + key)


def normals(seed: int, stream: int, count: int, start: int = 0) -> np.ndarray:
    """Sums of the eight bytes of words, less their mean, over their deviation."""
    drawn = words(seed, stream, count, start)
    sums = drawn.view(np.uint8).reshape(-1, 8).sum(1, dtype=np.int64)
    return (sums - 1020) / np.sqrt(8 * (256**2 - 1) / 12)


def _signs(drawn: np.ndarray) -> np.ndarray:
    return np.where(drawn >> np.uint64(63), -1.0, 1.0)


def _order(drawn: np.ndarray) -> np.ndarray:
    """The order of words as signed numbers, along the last axis."""
    return drawn.view(np.int64).argsort(-1)


def displacement(
    kind: str, w: np.ndarray, seed: int, shapes: Sequence[tuple[int, ...]], film: Sequence[bool]
) -> np.ndarray:
    """P w, of the size D of all parameters.

    Args:
        kind: Which projector.
        w: The d coordinates.
        seed: Names the random numbers.
        shapes: Of the parameters, in order.
        film: Which of them are of normalisations or of the head.
    """
    sizes = [prod(shape) for shape in shapes]
    D, d = sum(sizes), len(w)
    require(d <= D, "there are more dimensions than parameters")
    moving = np.repeat(np.array(film, bool), sizes)
    F = int(moving.sum())
    entries = {"sparse": isqrt(D), "dense": D, "film": F, "film+kronecker": F}.get(kind, 0) * d
    require(entries <= (1 << 31 if kind == "sparse" else 1 << 34), "a projector is too large")
    if entries > MOST_WORK:
        raise Outside(f"a {kind} projector of {entries} entries takes too long")
    if d == 0:
        return np.zeros(D)
    if kind == "dense":
        return _dense(w, seed, 0, D)
    if kind == "sparse":
        return _sparse(w, seed, D)
    if kind == "fastfood":
        return _fastfood(w, seed, D)
    if kind == "identity":
        return np.concatenate([w, np.zeros(D - d)])
    if kind == "kronecker-sum":
        return _kronecker_sum(w, seed, D)
    if kind.startswith("kronecker"):
        return _kronecker(w, seed, D, orthonormal=kind != "kronecker")
    require(F, "nothing moves")
    require(kind != "film" or d <= F, "there are more dimensions than parameters that move")
    out = np.zeros(D)
    out[moving] = _dense(w, seed, 3, F)
    if kind == "film":
        return out
    return (out + _kronecker(w, seed, D, orthonormal=False)) / np.sqrt(2)


def _dense(w: np.ndarray, seed: int, stream: int, rows: int) -> np.ndarray:
    """Normal entries of variance 1/rows."""
    d, out = len(w), np.empty(rows)
    step = max(1, _WORDS_AT_ONCE // d)
    for first in range(0, rows, step):
        count = min(step, rows - first)
        drawn = normals(seed, FIRST_STREAM + stream, count * d, first * d)
        out[first : first + count] = drawn.reshape(count, d) @ w
    return out / np.sqrt(rows)


def _sparse(w: np.ndarray, seed: int, D: int) -> np.ndarray:
    """One entry ±1/√m in each of m = ⌊√D⌋ strata of rows."""
    d, strata = len(w), isqrt(D)
    edges = np.arange(strata + 1) * D // strata
    out = np.zeros(D)
    step = max(1, _WORDS_AT_ONCE // d)
    for first in range(0, strata, step):
        last = min(first + step, strata)
        drawn = words(seed, FIRST_STREAM + 16, (last - first) * d, first * d).reshape(-1, d)
        heights = np.diff(edges[first : last + 1]).astype(np.uint64)[:, None]
        inside = (drawn & np.uint64(0xFFFFFFFF)) * heights >> np.uint64(32)
        places = inside.astype(np.int64) + edges[first:last, None]
        out += np.bincount(places.ravel(), (_signs(drawn) * w).ravel(), D)
    return out / np.sqrt(strata)


def _fastfood(w: np.ndarray, seed: int, D: int) -> np.ndarray:
    """Blocks S H G Π H B, one below another."""
    width = 1 << (len(w) - 1).bit_length()
    count = -(-D // width)
    shape, total = (count, width), count * width
    signs, order, lengths = (FIRST_STREAM + 32 + k for k in range(3))
    padded = np.concatenate([w, np.zeros(width - len(w))])
    mixed = _hadamard(padded * _signs(words(seed, signs, total)).reshape(shape))
    mixed = np.take_along_axis(mixed, _order(words(seed, order, total).reshape(shape)), 1)
    numbers = normals(seed, lengths, total).reshape(shape)
    numbers[(numbers == 0).all(1)] = 1.0
    numbers = numbers / np.sqrt(D * (numbers * numbers).sum(1, keepdims=True))
    return _hadamard(mixed * numbers).ravel()[:D]


def _hadamard(x: np.ndarray) -> np.ndarray:
    """Sylvester's matrix along the last axis, by butterflies."""
    step = 1
    while step < x.shape[-1]:
        pairs = x.reshape(len(x), -1, 2, step)
        x = np.stack([pairs[:, :, 0] + pairs[:, :, 1], pairs[:, :, 0] - pairs[:, :, 1]], 2)
        x = x.reshape(len(x), -1)
        step *= 2
    return x


def _kronecker_sum(w: np.ndarray, seed: int, D: int) -> np.ndarray:
    height = isqrt(D - 1) + 1
    width = -(-D // height)
    require(len(w) < height + width, "there are more dimensions than a Kronecker sum has")
    across = _dense(w, seed, 1, width) * np.sqrt(width)
    down = _dense(w, seed, 2, height) * np.sqrt(height)
    return (down[:, None] + across).ravel()[:D] / np.sqrt(2 * D)


def _kronecker(w: np.ndarray, seed: int, D: int, *, orthonormal: bool) -> np.ndarray:
    """The fold Q₁ W Q₂ᵀ read row by row, in random order, entries shared where it is too small."""
    (a1, b1), (a2, b2) = kronecker_shapes(D, len(w))
    streams = [FIRST_STREAM + 48 + k for k in range(3)]
    left = normals(seed, streams[0], a1 * b1).reshape(a1, b1) / np.sqrt(a1)
    right = normals(seed, streams[1], a2 * b2).reshape(a2, b2) / np.sqrt(a2)
    if orthonormal:
        left, right = _gram_schmidt(left), _gram_schmidt(right)
    padded = np.concatenate([w, np.zeros(b1 * b2 - len(w))]).reshape(b1, b2)
    fold = (left @ padded @ right.T).ravel()
    over = D - len(fold)
    rest = np.zeros(0)
    if over:
        shared = np.arange(over) * len(fold) // over
        fold[shared] /= np.sqrt(2)
        rest = fold[shared]
    block = 16 if D > 4096 else 1
    order = _order(words(seed, streams[2], len(fold) // block))
    blocks = fold[: len(order) * block].reshape(-1, block)[order].ravel()
    return np.concatenate([blocks, fold[len(blocks) :], rest])


def kronecker_shapes(D: int, d: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """(a₁, b₁) and (a₂, b₂) with a₁ a₂ ≤ D and b₁ b₂ ≥ d, few left over, a₁ near √D."""
    root = isqrt(D)
    heights = np.arange(1, D + 1) if D <= 4096 else np.arange(root // 2 + 1, 2 * root + 1)
    heights = heights[heights * (D // heights) >= d]
    require(len(heights), "there are more dimensions than a Kronecker product has")
    best = np.lexsort((heights, abs(heights - root), D % heights))[0]
    a1 = int(heights[best])
    a2 = D // a1
    b1 = max(min(d // 16, 16, a1), -(-d // a2), 1)
    return (a1, b1), (a2, -(-d // b1))


def _gram_schmidt(factor: np.ndarray) -> np.ndarray:
    """Orthonormal columns, each turned to the side of what it was made from."""
    columns, triangle = np.linalg.qr(factor)
    lengths = abs(np.diagonal(triangle))
    require(lengths.min() > 1e-6 * lengths.max(), "the columns of a factor are not independent")
    return columns * np.where(np.diagonal(triangle) < 0, -1.0, 1.0)
