"""Permutation representations need no linear algebra: a basis is the orbits' indicators.

The fixed vectors of permutations are constant on orbits, the connected components of the
graph i → π(i) over the generators. For signed permutations take the components of the double
cover (i,+), (i,−): an orbit that meets its own negative carries no fixed vector.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from isotropy._run import amount, require_memory
from isotropy.bases._orthonormal_basis import Basis
from isotropy.groups import LinearMap, Monomial
from isotropy.groups._block_systems import components
from isotropy.groups._finite import double_cover
from isotropy.reps import Rep


class OrbitBasis(Basis):
    """A basis of orbit indicators, kept as a label for every entry.

    Combining is a gather, coordinates a sum over each orbit.

    Args:
        rep: The representation.
        labels: The orbit of every entry, shape (size,); -1 for entries that must vanish.
        signs: ±1 for every entry, or None where all are +1.

    Example:
        >>> from isotropy.bases import equivariant_basis
        >>> from isotropy.groups import Z
        >>> from isotropy.reps import V
        >>> basis = equivariant_basis((V >> V)(Z(3)))  # circulant matrices
        >>> basis.labels.reshape(3, 3)
        tensor([[0, 1, 2],
                [2, 0, 1],
                [1, 2, 0]])
    """

    def __init__(self, rep: Rep, labels: Tensor, signs: Tensor | None = None) -> None:
        self.rep = rep
        self.method = "orbits"
        self.labels = labels
        self.signs = signs
        numbers = labels.numpy()
        self.counts = torch.from_numpy(np.bincount(numbers[numbers >= 0]))
        self.rank = len(self.counts)

    def orbits(self) -> OrbitBasis:
        """This basis."""
        return self

    @property
    def _lengths(self) -> Tensor:
        """The length of each orbit's indicator vector."""
        return self.counts.double().sqrt()  # the root of an integer tensor would be float32

    @property
    def _slots(self) -> Tensor:
        """Labels with the vanishing entries sent to one slot beyond the last orbit."""
        if bool((self.labels >= 0).all()):
            return self.labels
        return torch.where(self.labels < 0, self.rank, self.labels)

    def _combine(self, beta: Tensor) -> Tensor:
        scaled = beta / self._lengths.to(beta.device, beta.dtype)
        padded = torch.nn.functional.pad(scaled, (0, 1))
        v = padded[..., self._slots.to(beta.device)]
        return v if self.signs is None else v * self.signs.to(beta.device, beta.dtype)

    def _coordinates(self, v: Tensor) -> Tensor:
        signed = v if self.signs is None else v * self.signs.to(v.device, v.dtype)
        sums = v.new_zeros(*v.shape[:-1], self.rank + 1)
        sums = sums.index_add(-1, self._slots.to(v.device), signed)[..., : self.rank]
        return sums / self._lengths.to(v.device, v.dtype)


def is_solvable_by_orbits(rep: Rep) -> bool:
    """Whether every generator acts by a signed permutation."""
    algebra, discrete = rep.generators()
    return not algebra and all(h.is_monomial for h in discrete)


def solve_orbits(rep: Rep) -> OrbitBasis:
    """The basis of a representation by signed permutations."""
    if not is_solvable_by_orbits(rep):
        raise ValueError(
            f"expected a representation by (signed) permutations for the orbit solver, got {rep}"
        )
    size = rep.size()
    require_memory(
        48 * size,
        f"labelling the orbits of {rep} ({amount(size)} entries)",
        "use rep.rho(g).apply(v), which needs no labels",
    )
    _, discrete = rep.generators()
    monomials = (h.monomial() for h in discrete)
    if any(is_signed(h) for h in discrete):
        covers = (Monomial(double_cover(m)) for m in monomials if m is not None)
        doubled = components(covers, 2 * size)  # one cover at a time is held
        return OrbitBasis(rep, *_from_double_cover(doubled))
    return OrbitBasis(rep, components(monomials, size))


def is_signed(h: LinearMap) -> bool:
    """Whether a signed permutation, or a part of it, has signs."""
    parts = getattr(h, "parts", None)
    if parts is None:
        return isinstance(h, Monomial) and h.sign is not None
    return any(is_signed(part) for part in parts)


def _from_double_cover(doubled: Tensor) -> tuple[Tensor, Tensor | None]:
    """Labels and signs of the entries from the components of (i,+) and (i,−).

    Two mirror components form one orbit; of the two, the one that appears first is positive.
    """
    size = len(doubled) // 2
    plus, minus = doubled[:size], doubled[size:]
    orbit = torch.minimum(plus, minus)
    vanishing = plus == minus
    signs = torch.where(plus == orbit, 1, -1).to(torch.int8)
    labels = torch.unique(orbit[~vanishing], return_inverse=True)[1]
    everywhere = torch.full((size,), -1, dtype=torch.int64)
    everywhere[~vanishing] = labels
    signs[vanishing] = 1
    return everywhere, None if bool((signs == 1).all()) else signs
