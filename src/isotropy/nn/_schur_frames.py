"""Coordinates in which equivariant maps are block diagonal (Schur's lemma).

An orthogonal representation splits into irreducible pieces. In coordinates that follow the
pieces, aligned so that equivalent ones have equal matrices, every equivariant map is one small
matrix for each kind of piece, the same for all of its dimensions.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from isotropy.bases import Basis, equivariant_basis
from isotropy.groups._sampling import is_skew_hermitian, is_unitary
from isotropy.reps import Rep, Scalar
from isotropy.reps._layout import layout_of, without_duals

LARGEST_FRAME = 400
_DRAWS = 6  # the quaternions have four dimensions
_ROUNDING = 1e-8


@dataclass(frozen=True)
class Kind:
    """A kind of irreducible piece.

    Args:
        size: Its dimension.
        units: Orthogonal matrices that span its equivariant maps to itself, the identity
            first: one for a real kind, two for a complex one, four for a quaternionic one.
    """

    size: int
    units: Tensor


@dataclass(frozen=True)
class SchurFrame:
    """Orthonormal coordinates for a set of representations, equivalent pieces aligned.

    Args:
        kinds: The kinds of pieces; the first is the trivial one.
        bases: For each representation a matrix whose columns run through its pieces: kind by
            kind, dimension by dimension, piece by piece.
        pieces: For each representation how many pieces it has of each kind, in that order.
    """

    kinds: tuple[Kind, ...]
    bases: dict[Rep, Tensor]
    pieces: dict[Rep, dict[int, int]]


def frame_of(reps: Iterable[Rep]) -> SchurFrame | None:
    """The common frame of all terms of some representations.

    Returns:
        None where there is none to be had or to be gained: for representations that are not
        real and orthogonal, for permutations (whose coordinates nonlinearities need), and for
        very large ones.
    """
    terms = list(dict.fromkeys(t.rep for rep in reps for t in layout_of(without_duals(rep)).terms))
    terms = [Scalar, *(term for term in terms if term != Scalar)]
    if any(term.size() > LARGEST_FRAME or not _is_suitable(term) for term in terms):
        return None
    rng = torch.Generator().manual_seed(0)
    builder = _Builder(rng)
    for term in terms:
        if not builder.add(term):
            return None
    return builder.frame()


def _is_suitable(term: Rep) -> bool:
    if term == Scalar:
        return True
    if term.is_complex:
        return False
    algebra, discrete = term.generators()
    if not all(map(is_skew_hermitian, algebra)) or not all(map(is_unitary, discrete)):
        return False
    # permutations keep their coordinates; signed ones lose nothing by leaving theirs
    return bool(algebra) or any(_has_signs(h) for h in discrete)


def _has_signs(h: object) -> bool:
    monomial = h.monomial()  # type: ignore[attr-defined]
    return monomial is None or (monomial.sign is not None and bool((monomial.sign != 1).any()))


class _Builder:
    """Splits one representation after another and aligns its pieces with those before."""

    def __init__(self, rng: torch.Generator) -> None:
        self.rng = rng
        self.kinds: list[Kind] = []
        self.first: list[tuple[Rep, Tensor]] = []  # where each kind was met, and its basis there
        self.bases: dict[Rep, Tensor] = {}
        self.pieces: dict[Rep, dict[int, int]] = {}

    def frame(self) -> SchurFrame:
        return SchurFrame(tuple(self.kinds), self.bases, self.pieces)

    def add(self, rep: Rep) -> bool:
        """Split a representation; False where the pieces do not account for all its maps."""
        commutant = equivariant_basis(rep >> rep)
        links = {known: self._drawn(known, rep) for known, _ in self.first}
        drawn = torch.stack([self._drawn(rep, rep) for _ in range(_DRAWS)])
        found: dict[int, list[Tensor]] = {}
        for rough in _eigenspaces(self._drawn(rep, rep)):
            space = _polished(rough, commutant)
            kind, basis = self._kind(rep, space, links, drawn)
            found.setdefault(kind, []).append(basis)
        kinds = sorted(found)
        self.bases[rep] = torch.cat([torch.stack(found[k], 2).flatten(1) for k in kinds], 1)
        self.pieces[rep] = {kind: len(found[kind]) for kind in kinds}
        return all(self._accounts_for(rep, other) for other in self.pieces)

    def _drawn(self, source: Rep, target: Rep) -> Tensor:
        """A random equivariant map: the nearest to a random one, whatever basis finds it.

        Bases come out differently on other machines, and coefficients must mean the same there.
        """
        size = target.size(), source.size()
        matrix = torch.randn(size, dtype=torch.float64, generator=self.rng)
        return equivariant_basis(source >> target).project(matrix.flatten()).reshape(size)

    def _kind(
        self, rep: Rep, space: Tensor, links: dict[Rep, Tensor], drawn: Tensor
    ) -> tuple[int, Tensor]:
        for kind, (known, reference) in enumerate(self.first):
            if reference.shape[1] != space.shape[1]:
                continue
            through = links.get(known)
            link = space.mT @ (drawn[0] if through is None else through) @ reference
            length = link.norm() / len(link) ** 0.5
            if length > _ROUNDING:
                return kind, space @ (link / length)
        self.kinds.append(Kind(space.shape[1], _units(space.mT @ drawn @ space)))
        self.first.append((rep, space))
        return len(self.kinds) - 1, space

    def _accounts_for(self, rep: Rep, other: Rep) -> bool:
        counted = sum(
            len(self.kinds[kind].units) * count * self.pieces[other].get(kind, 0)
            for kind, count in self.pieces[rep].items()
        )
        basis = self.bases[rep]
        eye = torch.eye(len(basis), dtype=basis.dtype)
        orthonormal = bool((basis.mT @ basis - eye).abs().max() < _ROUNDING)
        return orthonormal and counted == equivariant_basis(other >> rep).rank


def _polished(rough: Tensor, commutant: Basis) -> Tensor:
    """The invariant space nearest to a rough one, which gaps between eigenvalues have blurred."""
    size = len(rough)
    projector = commutant.project((rough @ rough.mT).flatten()).reshape(size, size)
    vectors: Tensor = torch.linalg.eigh((projector + projector.mT) / 2)[1]
    return vectors[:, -rough.shape[1] :]


def _eigenspaces(mixed: Tensor) -> list[Tensor]:
    """The eigenspaces of the symmetric part: irreducible, for a generic equivariant map."""
    values, vectors = torch.linalg.eigh((mixed + mixed.mT) / 2)
    gaps = values.diff() > _ROUNDING * values.abs().max()
    ends = [0, *(gaps.nonzero().flatten() + 1).tolist(), len(values)]
    return [vectors[:, a:b] for a, b in pairwise(ends)]


def _units(maps: Tensor) -> Tensor:
    """Orthogonal matrices, the identity first, with the same span as ``maps`` (k, d, d)."""
    d = maps.shape[-1]
    eye = torch.eye(d, dtype=maps.dtype).unsqueeze(0)
    flat = torch.cat([eye, maps]).flatten(1)
    units: list[Tensor] = []
    for rest in flat:
        for unit in units:
            rest = rest - (rest @ unit) * unit
        if rest.norm() > _ROUNDING:
            units.append(rest / rest.norm())
    scaled: Tensor = torch.stack(units).reshape(-1, d, d) * d**0.5
    return scaled
