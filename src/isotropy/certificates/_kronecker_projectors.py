"""Projectors from small factors: the Kronecker product and the Kronecker sum."""

from __future__ import annotations

from math import isqrt
from typing import Unpack

import torch
from torch import Tensor

from isotropy.certificates._counter_random import random_normals, random_words
from isotropy.certificates._normal_matrix import NormalProjector
from isotropy.certificates._projector import FIRST_STREAM, Kept, Projector

_LEFT, _RIGHT, _ORDER = (FIRST_STREAM + 48 + k for k in range(3))
_MOST_LEFT_COLUMNS = 16
_BLOCK = 16
# below this many parameters, factors of any shape are small
_SMALL = 4096
_DEPENDENT = 1e-6


class KroneckerProjector(Projector):
    """P = Π E (Q₁ ⊗ Q₂), the first d of its columns (thesis Section 5.4.1).

    Q₁ (a₁ × b₁) and Q₂ (a₂ × b₂) have normal entries of variance 1/a₁ and 1/a₂, or orthonormal
    columns. With w, and zeros after it, as a matrix W (b₁ × b₂), (Q₁ ⊗ Q₂) w is Q₁ W Q₂ᵀ read row
    by row.

    Where a₁ a₂ is less than D, E shares an entry between two parameters, each having 1/√2 of it,
    for each of the D - a₁ a₂ parameters left over. EᵀE = 1, so no dimension is spent on those
    alone, each moves all parameters, and with orthonormal factors PᵀP = 1 but for rounding.
    The shapes are chosen to leave few over, mostly none.

    Π permutes the parameters in blocks of 16, which stay together in memory. Without it a layer as
    wide as Q₂ᵀ moves by matrices of rank b₁ alone and learns little; random signs in its place
    helped training less, and a permutation of single parameters no more, at several times the cost.

    The factors are found in float64 on the CPU.

    Raises:
        ValueError: If d is so near D that no factors of about √D rows will do.

    Example:
        >>> P = KroneckerProjector(1009, 12, seed=0, orthonormal=True, dtype=torch.float64)
        >>> gram = P.transpose(P(torch.eye(12, dtype=torch.float64)))
        >>> bool((gram - torch.eye(12)).abs().max() < 1e-12)
        True
    """

    _left: Tensor
    _right: Tensor
    _shared: Tensor
    _order: Tensor
    _inverse: Tensor

    def __init__(
        self, D: int, d: int, seed: int, *, orthonormal: bool = False, **kept: Unpack[Kept]
    ) -> None:
        super().__init__(D, d, **kept)
        device = self._empty.device
        (a1, b1), (a2, b2) = kronecker_shapes(D, d)
        left, right = _factor(a1, b1, seed, _LEFT), _factor(a2, b2, seed, _RIGHT)
        if orthonormal:
            left, right = _orthonormal(left), _orthonormal(right)
        self._keep("_left", left.to(self._empty))
        self._keep("_right", right.mT.to(self._empty).contiguous())
        self._covered = a1 * a2
        over = D - self._covered
        # far apart, lest two parameters of one small layer be tied
        shared = torch.arange(over, device=device) * self._covered // max(1, over)
        self._keep("_shared", shared)
        self._block = _BLOCK if D > _SMALL else 1
        order = random_words(seed, _ORDER, self._covered // self._block).argsort()
        self._keep("_order", order.to(device))
        self._keep("_inverse", order.argsort().to(device))

    def _combine(self, w: Tensor) -> Tensor:
        (a1, b1), (b2, a2) = self._left.shape, self._right.shape
        padded = w.new_zeros(len(w), b1 * b2)
        padded[:, : self.d] = w
        folded = w.new_empty(len(w), self._covered)
        for row, half in zip(folded, padded.view(-1, b1, b2) @ self._right, strict=True):
            torch.mm(self._left, half, out=row.view(a1, a2))
        out = w.new_empty(len(w), self.D)
        if self._covered < self.D:
            halves = folded[:, self._shared].mul_(0.5**0.5)
            folded[:, self._shared] = halves
            out[:, self._covered :] = halves
        self._permute(folded, self._order, out)
        return out

    def _coordinates(self, theta: Tensor) -> Tensor:
        folded = theta.new_empty(len(theta), self._covered)
        self._permute(theta, self._inverse, folded)
        if self._covered < self.D:
            halves = folded[:, self._shared].add_(theta[:, self._covered :])
            folded[:, self._shared] = halves.mul_(0.5**0.5)
        gradient = (self._left.mT @ folded.unflatten(1, (len(self._left), -1))) @ self._right.mT
        kept: Tensor = gradient.flatten(1)[:, : self.d]
        return kept.contiguous()

    def _permute(self, source: Tensor, order: Tensor, target: Tensor) -> None:
        """Write the blocks of ``source`` in another order, and after them what fills no block."""
        blocked = len(order) * self._block
        for row, into in zip(source, target, strict=True):
            blocks = row[:blocked].view(-1, self._block)
            torch.index_select(blocks, 0, order, out=into[:blocked].view(-1, self._block))
        target[:, blocked : self._covered] = source[:, blocked : self._covered]


class KroneckerSumProjector(Projector):
    """P = (1 ⊗ R₁ + R₂ ⊗ 1)/√(2D), the first D of its rows (thesis Section 5.4.1).

    R₁ (a₂ × d) and R₂ (a₁ × d) have standard normal entries, with a₁ a₂ ≥ D as near square as may
    be. Its rank is at most a₁ + a₂ - 1, about 2√D.

    Raises:
        ValueError: If d is more than the rank.

    Example:
        >>> P = KroneckerSumProjector(10_000, 3, seed=0)
        >>> gram = P.transpose(P(torch.eye(3)))
        >>> bool((gram - torch.eye(3)).abs().max() < 0.4)
        True
    """

    def __init__(self, D: int, d: int, seed: int, **kept: Unpack[Kept]) -> None:
        super().__init__(D, d, **kept)
        height = isqrt(D - 1) + 1
        width = -(-D // height)
        if d > height + width - 1:
            raise ValueError(
                f"expected at most {height + width - 1} dimensions for a Kronecker sum of {D} "
                f"parameters, got {d}"
            )
        self._across, self._down = (
            NormalProjector(rows, d, seed, stream=stream, keep=True, **kept)
            for stream, rows in ((1, width), (2, height))
        )

    def _combine(self, w: Tensor) -> Tensor:
        across = self._across._combine(w) * (self._across.D / (2 * self.D)) ** 0.5
        down = self._down._combine(w) * (self._down.D / (2 * self.D)) ** 0.5
        folded: Tensor = down[:, :, None] + across[:, None]
        return folded.flatten(1)[:, : self.D].contiguous()

    def _coordinates(self, theta: Tensor) -> Tensor:
        width = self._across.D
        full = self.D // width
        across = theta.new_zeros(len(theta), width)
        down = theta.new_zeros(len(theta), self._down.D)
        folded = theta[:, : full * width].unflatten(1, (full, width))
        across += folded.sum(1)
        down[:, :full] = folded.sum(2)
        rest = theta[:, full * width :]
        if rest.shape[1]:
            across[:, : rest.shape[1]] += rest
            down[:, full] = rest.sum(1)
        gradient: Tensor = self._across._coordinates(across) * (width / (2 * self.D)) ** 0.5
        gradient += self._down._coordinates(down) * (self._down.D / (2 * self.D)) ** 0.5
        return gradient


def kronecker_shapes(D: int, d: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """The shapes (a₁, b₁) and (a₂, b₂) of two factors with a₁ a₂ ≤ D and b₁ b₂ ≥ d.

    b₁ is small, since a product costs about D b₁ + d a₂ multiplications; a₁ leaves the fewest
    parameters D - a₁ a₂ over, and is near √D.

    Raises:
        ValueError: If d is so near D that none with a₁ near √D will do.

    Example:
        >>> kronecker_shapes(431_080, 1000)
        ((520, 16), (829, 63))
    """
    root = isqrt(D)
    heights = range(root // 2 + 1, 2 * root + 1) if D > _SMALL else range(1, D + 1)
    # then b₁ ≤ a₁ and b₂ ≤ a₂, so that both factors can be orthonormal
    fits = [a for a in heights if a * (D // a) >= d]
    if not fits:
        most = max(a * (D // a) for a in heights)
        raise ValueError(
            f"expected at most {most} dimensions for a Kronecker product of {D} parameters, got {d}"
        )
    a1 = min(fits, key=lambda a: (D % a, abs(a - root), a))
    a2 = D // a1
    # a block that stays together lies in one row of the fold, which moves in b₂ directions
    b1 = max(min(d // _BLOCK, _MOST_LEFT_COLUMNS, a1), -(-d // a2), 1)
    return (a1, b1), (a2, -(-d // b1))


def _factor(rows: int, columns: int, seed: int, stream: int) -> Tensor:
    """Normal entries of variance 1/rows, shape (rows, columns)."""
    return random_normals(seed, stream, rows * columns).view(rows, columns).mul_(rows**-0.5)


def _orthonormal(factor: Tensor) -> Tensor:
    """Gram and Schmidt's columns, which libraries give up to signs."""
    columns: Tensor
    columns, r = torch.linalg.qr(factor)
    lengths = r.diagonal().abs()
    # none, or one number, depends on nothing
    if factor.numel() > 1 and bool((lengths <= _DEPENDENT * lengths.amax()).any()):
        # only a few parameters and many dimensions can do this
        raise ValueError("expected factors with independent columns, got a seed that makes others")
    return columns.mul_(torch.where(r.diagonal() < 0, -1.0, 1.0))
