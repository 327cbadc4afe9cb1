"""Fastfood: random matrices from Hadamard's (Le, Sarlós and Smola 2013)."""

from __future__ import annotations

from typing import Unpack

import torch
from torch import Tensor

from isotropy.certificates._counter_random import random_normals, random_words
from isotropy.certificates._projector import FIRST_STREAM, Kept, Projector, random_signs

_SIGNS, _ORDER, _LENGTHS = (FIRST_STREAM + 32 + k for k in range(3))
# beyond this, Hadamard's matrix is a Kronecker product of smaller ones
_LARGEST_FACTOR = 64


class FastfoodProjector(Projector):
    """P as blocks S H G Π H B, one below another, each n × n with n the power of 2 from d on.

    H is Hadamard's matrix, B random signs, Π a permutation, G normal numbers, all drawn anew for
    each block (ones where all of G is zero), S = 1/(‖G‖ √D), so that every whole block has columns
    of the same length √(n/D).
    The first d columns and D rows are kept. A product costs D log d steps.

    Example:
        >>> P = FastfoodProjector(4096, 4, seed=0).dense()
        >>> [round(length, 5) for length in P.norm(dim=0).tolist()]
        [1.0, 1.0, 1.0, 1.0]
    """

    _signs: Tensor
    _order: Tensor
    _lengths: Tensor

    def __init__(self, D: int, d: int, seed: int, **kept: Unpack[Kept]) -> None:
        super().__init__(D, d, **kept)
        self._width = 1 << max(0, d - 1).bit_length()
        self._count = -(-D // self._width)
        shape = self._count, self._width
        total = self._count * self._width
        self._keep("_signs", random_signs(seed, _SIGNS, total).view(shape).to(self._empty))
        self._keep(
            "_order",
            random_words(seed, _ORDER, total).view(shape).argsort(1).to(self._empty.device),
        )
        lengths = random_normals(seed, _LENGTHS, total).view(shape)
        lengths[(lengths == 0).all(1)] = 1.0  # a block of one number can be zero
        lengths /= lengths.norm(dim=1, keepdim=True) * D**0.5
        self._keep("_lengths", lengths.to(self._empty))

    def _combine(self, w: Tensor) -> Tensor:
        padded = w.new_zeros(len(w), 1, self._width)
        padded[:, 0, : self.d] = w
        mixed = hadamard_transform(padded * self._signs)
        mixed = mixed.gather(2, self._order.expand_as(mixed)).mul_(self._lengths)
        return hadamard_transform(mixed).flatten(1)[:, : self.D].contiguous()

    def _coordinates(self, theta: Tensor) -> Tensor:
        whole = theta.new_zeros(len(theta), self._count * self._width)
        whole[:, : self.D] = theta
        mixed = hadamard_transform(whole.view(-1, self._count, self._width)).mul_(self._lengths)
        mixed = torch.empty_like(mixed).scatter_(2, self._order.expand_as(mixed), mixed)
        return hadamard_transform(mixed).mul_(self._signs).sum(1)[:, : self.d].contiguous()


def hadamard_transform(x: Tensor) -> Tensor:
    """H x along the last axis, whose width is a power of 2; H in Sylvester's order, entries ±1.

    H of width 2ᵃ⁺ᵇ is the Kronecker product of those of widths 2ᵃ and 2ᵇ: small matrix products
    instead of single butterflies.

    Example:
        >>> hadamard_transform(torch.tensor([1.0, 2.0, 3.0, 4.0])).tolist()
        [10.0, -2.0, -4.0, 0.0]
    """
    width = x.shape[-1]
    if width <= _LARGEST_FACTOR:
        return x @ _hadamard(width, x)
    # factors of about equal widths cost least
    count = -(-(width.bit_length() - 1) // (_LARGEST_FACTOR.bit_length() - 1))
    factor = 1 << ((width.bit_length() - 1) // count)
    parts = x.unflatten(-1, (factor, width // factor))
    return (_hadamard(factor, x) @ hadamard_transform(parts)).flatten(-2)


def _hadamard(width: int, like: Tensor) -> Tensor:
    """Hadamard's matrix: entry (i, j) is -1 to the number of bits that i and j share."""
    numbers = torch.arange(width, device=like.device)
    shared = numbers[:, None] & numbers
    odd = torch.zeros_like(shared)
    for bit in range(width.bit_length() - 1):
        odd ^= shared >> bit & 1
    return (1 - 2 * odd).to(like.dtype)
