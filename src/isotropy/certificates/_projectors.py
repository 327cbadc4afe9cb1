"""All kinds of projectors, by name."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import prod

import torch
from torch import Tensor

from isotropy.certificates._fastfood import FastfoodProjector
from isotropy.certificates._film_projector import (
    FilmKroneckerProjector,
    FilmProjector,
    film_parameters,
)
from isotropy.certificates._kronecker_projectors import KroneckerProjector, KroneckerSumProjector
from isotropy.certificates._normal_matrix import NormalProjector
from isotropy.certificates._projector import Kept, Projector
from isotropy.certificates._sparse_projector import SparseProjector

# A message holds the place of a name in this tuple, so it only ever grows at its end.
PROJECTORS: tuple[str, ...] = (
    "kronecker",
    "kronecker-orthonormal",
    "kronecker-sum",
    "dense",
    "sparse",
    "fastfood",
    "film",
    "film+kronecker",
    "identity",
)


def projector(
    kind: str,
    parameters: Mapping[str, Sequence[int]],
    d: int,
    seed: int,
    *,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
    film: Collection[str] | None = None,
) -> Projector:
    """The matrix P (D × d) of a random subspace of a network's parameters, θ = θ₀ + P w.

    The same arguments give the same P on every device: its numbers come from a counter.

    The kinds, and what a product costs:

    - ``kronecker``: a Kronecker product of normal factors; D b + d √D, with b at most 16 for
      common d.
    - ``kronecker-orthonormal``: of orthonormal factors, so that PᵀP = 1; the same.
    - ``kronecker-sum``: a Kronecker sum, d up to about 2√D; D + d √D.
    - ``dense``: normal entries, made anew in every product; D d, by far the slowest.
    - ``sparse``: √D entries ±D^(-1/4) in each column; D + d √D.
    - ``fastfood``: blocks S H G Π H B; D log d.
    - ``film``: normal entries in the F rows of some parameters, d up to F; D + F d.
    - ``film+kronecker``: the sum of both over √2.
    - ``identity``: the first d columns of 1, all of them for a pruned network.

    No kind keeps more than 2²⁶ numbers and some times D, whatever d is.

    Args:
        kind: One of ``PROJECTORS``.
        parameters: Names and shapes of the parameters, in order; D is the sum of their sizes.
        d: The dimension of the subspace; with 0, P w is zero.
        seed: Names the random numbers, a natural number below 2⁶⁴.
        device: Where its numbers are kept.
        dtype: float32 or float64.
        film: The parameters of normalisation layers and of the head, for the kinds that move
            those; guessed by names and shapes where not given.

    Raises:
        ValueError: If the kind is unknown, d is not from 0 to D or more than the kind has, or
            another argument is out of range.

    Example:
        >>> shapes = {name: p.shape for name, p in torch.nn.Linear(20, 30).named_parameters()}
        >>> P = projector("kronecker-orthonormal", shapes, 9, seed=0)
        >>> P
        KroneckerProjector(D=630, d=9)
        >>> P(torch.ones(9)).shape, round(float(P(torch.ones(9)).norm()), 5)
        (torch.Size([630]), 3.0)
    """
    D = sum(prod(shape) for shape in parameters.values())
    _check(kind, D, d, seed, dtype)
    kept: Kept = {"device": device, "dtype": dtype}
    names = film_parameters(parameters) if film is None else film
    match kind:
        case "kronecker" | "kronecker-orthonormal":
            return KroneckerProjector(D, d, seed, orthonormal=kind != "kronecker", **kept)
        case "kronecker-sum":
            return KroneckerSumProjector(D, d, seed, **kept)
        case "dense":
            return NormalProjector(D, d, seed, **kept)
        case "sparse":
            return SparseProjector(D, d, seed, **kept)
        case "fastfood":
            return FastfoodProjector(D, d, seed, **kept)
        case "film":
            moving = FilmProjector(parameters, names, d, seed, **kept)
            if d > moving.moved:
                raise ValueError(
                    f"expected at most {moving.moved} dimensions, as film has parameters, got {d}"
                )
            return moving
        case "identity":
            return IdentityProjector(D, d, **kept)
        case _:
            return FilmKroneckerProjector(parameters, names, d, seed, **kept)


class IdentityProjector(Projector):
    """P = 1, or its first d columns: every dimension is a parameter (pruned networks).

    Example:
        >>> projector("identity", {"a": (2, 2)}, 4, seed=0)(torch.arange(4.0)).tolist()
        [0.0, 1.0, 2.0, 3.0]
    """

    def _combine(self, w: Tensor) -> Tensor:
        return torch.nn.functional.pad(w, (0, self.D - self.d))

    def _coordinates(self, theta: Tensor) -> Tensor:
        return theta[:, : self.d].clone()


def _check(kind: str, D: int, d: int, seed: int, dtype: torch.dtype) -> None:
    if kind not in PROJECTORS:
        raise ValueError(f"expected one of {', '.join(PROJECTORS)}, got {kind!r}")
    if not D:
        raise ValueError("expected at least one parameter to project into, got none")
    if not 0 <= d <= D:
        raise ValueError(f"expected a dimension from 0 to the {D} parameters, got {d}")
    if not 0 <= seed < 1 << 64:
        raise ValueError(f"expected a seed from 0 to 2⁶⁴ - 1, got {seed}")
    if dtype not in (torch.float32, torch.float64):
        raise ValueError(f"expected the dtype float32 or float64, got {dtype}")
