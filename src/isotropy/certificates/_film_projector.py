"""Projectors onto the parameters that scale and shift features, and onto the head."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import prod
from typing import Unpack

import torch
from torch import Tensor

from isotropy.certificates._kronecker_projectors import KroneckerProjector
from isotropy.certificates._normal_matrix import NormalProjector
from isotropy.certificates._projector import Kept, Projector


class FilmProjector(Projector):
    """P with normal entries in the rows of some parameters, and zeros in all others.

    The rows are those of normalisation layers and of the last linear layer: featurewise linear
    modulation (thesis Section 5.4.1). The entries have variance 1/F, with F the number of those
    rows, so that columns have about unit length.

    Raises:
        ValueError: If none of the parameters moves, or a name is not one of theirs.

    Example:
        >>> P = FilmProjector({"a": (2, 2), "b": (2,)}, ["b"], 1, seed=0).dense()
        >>> (P != 0).flatten().tolist()
        [False, False, False, False, True, True]
    """

    def __init__(
        self,
        parameters: Mapping[str, Sequence[int]],
        film: Collection[str],
        d: int,
        seed: int,
        **kept: Unpack[Kept],
    ) -> None:
        unknown = sorted(set(film) - set(parameters))
        if unknown:
            raise ValueError(f"expected names of parameters for film, got {unknown[0]!r}")
        slices: list[slice] = []
        first = 0
        for name, shape in parameters.items():
            last = first + prod(shape)
            if name in film:
                slices.append(slice(first, last))
            first = last
        moved = sum(part.stop - part.start for part in slices)
        if not moved:
            raise ValueError(
                "expected parameters of normalisation layers or of a last linear layer for film, "
                "got none"
            )
        super().__init__(first, d, **kept)
        self._slices = slices
        self._moved = NormalProjector(moved, d, seed, stream=3, keep=True, **kept)

    @property
    def moved(self) -> int:
        """The number of parameters that move."""
        return self._moved.D

    def _combine(self, w: Tensor) -> Tensor:
        return self._add_to(w.new_zeros(len(w), self.D), w)

    def _add_to(self, out: Tensor, w: Tensor) -> Tensor:
        """``out`` with P w added in place."""
        moved = self._moved._combine(w)
        first = 0
        for part in self._slices:
            last = first + part.stop - part.start
            out[:, part] += moved[:, first:last]
            first = last
        return out

    def _coordinates(self, theta: Tensor) -> Tensor:
        return self._moved._coordinates(torch.cat([theta[:, part] for part in self._slices], 1))


class FilmKroneckerProjector(Projector):
    """P = (P_film + P_⊗)/√2 (thesis Section 5.4.1): everything moves, the film parameters more.

    Example:
        >>> P = FilmKroneckerProjector({"a": (30, 30), "b": (30,)}, ["b"], 9, seed=0)
        >>> w = torch.ones(9)
        >>> both = (P.film(w) + P.kronecker(w)) / 2**0.5
        >>> bool(torch.allclose(P(w), both, atol=1e-6))
        True
    """

    def __init__(
        self,
        parameters: Mapping[str, Sequence[int]],
        film: Collection[str],
        d: int,
        seed: int,
        **kept: Unpack[Kept],
    ) -> None:
        part = FilmProjector(parameters, film, d, seed, **kept)
        super().__init__(part.D, d, **kept)
        self.film = part
        self.kronecker = KroneckerProjector(part.D, d, seed, **kept)

    def _combine(self, w: Tensor) -> Tensor:
        w = w * 0.5**0.5
        return self.film._add_to(self.kronecker._combine(w), w)

    def _coordinates(self, theta: Tensor) -> Tensor:
        both = self.film._coordinates(theta) + self.kronecker._coordinates(theta)
        return both.mul_(0.5**0.5)


def film_parameters(parameters: Mapping[str, Sequence[int]]) -> tuple[str, ...]:
    """The names that look like normalisation layers or the head.

    A weight and a bias of one axis and equal length are a normalisation layer; the last weight of
    two axes, with its bias, is the head.

    Example:
        >>> film_parameters({"a.weight": (3, 3), "n.weight": (3,), "n.bias": (3,), "b": (2, 3)})
        ('n.weight', 'n.bias', 'b')
    """
    found = set()
    head = None
    for name, shape in parameters.items():
        bias = _beside(name)
        if len(shape) == 2:
            head = name
        if len(shape) == 1 and bias != name and tuple(parameters.get(bias, ())) == tuple(shape):
            found |= {name, bias}
    if head is not None:
        found |= {head, _beside(head)}
    return tuple(name for name in parameters if name in found)


def _beside(weight: str) -> str:
    """The name that the bias of a weight has, or the name itself where it is not a weight's."""
    stem, dot, last = weight.rpartition(".")
    return f"{stem}{dot}bias" if last == "weight" else weight
