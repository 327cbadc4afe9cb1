"""Irreducible representations of O(3) in e3nn's coordinates, and the way back."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from isotropy.groups import SO, Dense, Group, LinearMap, O
from isotropy.reps._leaves import Leaf, Pseudoscalar, Scalar, V
from isotropy.reps._rep import Key, Rep

_IRREP = re.compile(r"(?:(\d+)\s*x\s*)?(\d+)\s*([eo])")


class Irrep(Leaf):
    """The irreducible representation of O(3) on harmonic polynomials of one degree.

    Y(g x) = ρ(g) Y(x) for the solid harmonics Y of degree l, times det g where the parity is
    not that of the polynomials. As an integral over the sphere, ρ(g) = ⟨Y(g x) Y(x)ᵀ⟩, which a
    quadrature gives exactly: a polynomial in the entries of g.

    Args:
        degree: The degree l; the dimension is 2l + 1.
        parity: What the inversion -1 does: 1 ("even") or -1 ("odd").

    Example:
        >>> quadrupole = Irrep(2, 1)(O(3))
        >>> print(quadrupole, quadrupole.size())
        L2e(O(3)) 5
    """

    def __init__(self, degree: int, parity: int, group: Group | None = None) -> None:
        if isinstance(degree, bool) or not isinstance(degree, int) or not 0 <= degree <= 60:
            raise ValueError(f"expected a degree between 0 and 60, got {degree!r}")
        if parity not in (1, -1):
            raise ValueError(f"expected the parity 1 or -1, got {parity!r}")
        if group is not None and (group.d != 3 or not group.is_orthogonal):
            raise ValueError(f"expected O(3) or a subgroup for an irrep of it, got {group}")
        super().__init__(group, dual=False)
        self.degree = degree
        self.parity = parity

    def _name(self) -> str:
        return f"L{self.degree}{'e' if self.parity > 0 else 'o'}"

    def _with(self, group: Group | None, *, dual: bool) -> Irrep:
        del dual  # real and orthogonal
        return Irrep(self.degree, self.parity, group)

    @property
    def T(self) -> Rep:
        return self  # real and orthogonal

    def size(self) -> int:
        return 2 * self.degree + 1

    def matrix(self, g: Tensor) -> Tensor:
        """ρ as a polynomial in matrices of shape (*, 3, 3)."""
        points, weights, values = _quadrature(self.degree)
        moved = solid_harmonics(self.degree, points @ g.mT)
        images = torch.einsum("...ki,k,kj->...ij", moved, weights, values)
        if self.parity != (-1) ** self.degree:
            images = images * torch.linalg.det(g)[..., None, None]
        return images

    def _rho(self, g: Mapping[Group, LinearMap]) -> LinearMap:
        return Dense(self.matrix(self._part(g).dense()))

    def _drho(self, a: Mapping[Group, LinearMap]) -> LinearMap:
        identity = torch.eye(3, dtype=torch.float64)
        tangent: Tensor = torch.func.jvp(self.matrix, (identity,), (self._part(a).dense(),))[1]
        return Dense(tangent)

    def _key(self) -> Key:
        return (*self._kind(), self.leaf_group)


def solid_harmonics(degree: int, x: Tensor) -> Tensor:
    """The harmonic polynomials of one degree, of mean square 1 over the sphere.

    Real, without the Condon-Shortley sign, in e3nn's order: m = -l … l about the y axis.

    Args:
        degree: The degree l.
        x: Points, shape (*, 3).

    Returns:
        Values, shape (*, 2l + 1).

    Example:
        >>> x = torch.tensor([1.0, 2.0, 3.0])
        >>> torch.allclose(solid_harmonics(1, x), 3**0.5 * x)
        True
    """
    across, polar, along = x.unbind(-1)  # e3nn's x, y, z: the azimuth turns from z towards x
    squared = x.square().sum(-1)
    cosine, sine = torch.ones_like(polar), torch.zeros_like(polar)
    values: list[Tensor] = [polar] * (2 * degree + 1)
    first = 1.0
    for m in range(degree + 1):
        if m:
            cosine, sine = along * cosine - across * sine, along * sine + across * cosine
            first *= 2 * m - 1
        before, legendre = torch.zeros_like(polar), torch.full_like(polar, first)
        for n in range(m + 1, degree + 1):
            following = (2 * n - 1) * polar * legendre - (n + m - 1) * squared * before
            before, legendre = legendre, following / (n - m)
        factorials = math.lgamma(degree - m + 1) - math.lgamma(degree + m + 1)
        scale = math.sqrt((2 * degree + 1) * (2 if m else 1)) * math.exp(factorials / 2)
        values[degree - m] = scale * legendre * sine
        values[degree + m] = scale * legendre * cosine
    return torch.stack(values, -1)


@cache
def _quadrature(degree: int) -> tuple[Tensor, Tensor, Tensor]:
    """Points on the sphere and weights exact to twice the degree, and the harmonics there."""
    heights, weights = np.polynomial.legendre.leggauss(degree + 1)
    turns = 2 * degree + 1
    angles = 2 * math.pi * np.arange(turns) / turns
    radius = np.sqrt(1 - heights**2)[:, None]
    points = np.stack(
        [radius * np.sin(angles), heights[:, None] + 0 * angles, radius * np.cos(angles)], -1
    )
    at = torch.from_numpy(points.reshape(-1, 3))
    return (
        at,
        torch.from_numpy(np.repeat(weights / (2 * turns), turns)),
        solid_harmonics(degree, at),
    )


def from_e3nn(irreps: Any) -> Rep:
    """The representation of O(3) that e3nn writes as ``irreps``, in e3nn's coordinates.

    ρ(g) is what ``irreps.D_from_matrix(g)`` gives. 0e, 0o, 1o and 1e are Scalar, Pseudoscalar,
    V and V*Pseudoscalar: e3nn's vectors are (x, y, z).

    Args:
        irreps: e3nn's ``Irreps``, or its text, for example ``"8x0e + 1x1o + 2e"``. e3nn itself
            is not needed.

    Raises:
        ValueError: If the text is not such a sum, or there is nothing in it.

    Example:
        >>> print(from_e3nn("2x0e + 1x1o + 1x2e"))
        (2*Scalar+V+L2e)(O(3))
    """
    terms = [
        count * _simplest(degree, parity) for count, degree, parity in _terms(irreps) if count > 0
    ]
    if not terms:
        raise ValueError(f"expected at least one irrep, got {irreps!r:.80}")
    total: Rep = sum(terms[1:], terms[0])
    return total(O(3))


def _simplest(degree: int, parity: int) -> Rep:
    if degree > 1:
        return Irrep(degree, parity)
    if degree == 1:
        return V if parity < 0 else V * Pseudoscalar
    return Scalar if parity > 0 else Pseudoscalar


def _terms(irreps: Any) -> Iterable[tuple[int, int, int]]:
    """Multiplicity, degree and parity of each term."""
    if isinstance(irreps, str):
        found = [_IRREP.fullmatch(part.strip()) for part in irreps.split("+")]
        if None in found:
            raise ValueError(f"expected irreps such as '2x0e+1x1o', got {irreps!r:.80}")
        return [
            (int(m[1] or 1), int(m[2]), 1 if m[3] == "e" else -1) for m in found if m is not None
        ]
    try:
        return [(int(mul), int(ir.l), int(ir.p)) for mul, ir in irreps]
    except (TypeError, ValueError, AttributeError) as error:
        raise ValueError(
            f"expected e3nn's Irreps or their text, got {type(irreps).__name__}"
        ) from error


def to_e3nn(rep: Rep) -> tuple[Any, Tensor]:
    """Decompose a representation of O(3) or SO(3) into e3nn's irreps.

    The vectors of each copy of an irrep follow from the one that rotations about the y axis
    leave as it is, e₀: √(2l+1) ⟨Y_m(g y) ρ(g) e₀⟩, averaged over the sphere of axes g y.

    Args:
        rep: A representation by orthogonal matrices. Rotations alone do not tell parities: for
            SO(3) all irreps are called even.

    Returns:
        e3nn's ``Irreps``, by degree and then parity, and the orthogonal matrix Q, float64, with
        Q ρ(g) Qᵀ = ``irreps.D_from_matrix(g)``: features carry over as ``x @ Q.T``.

    Raises:
        TypeError: If it is no representation.
        ValueError: If it is of another group, or not orthogonal.
        ImportError: If e3nn is not installed.

    Example:
        >>> from isotropy.reps import T
        >>> irreps, change = to_e3nn(T(2)(O(3)))
        >>> print(irreps, tuple(change.shape))
        1x0e+1x1e+1x2e (9, 9)
    """
    if not isinstance(rep, Rep):
        raise TypeError(f"expected a representation, got {type(rep).__name__}")
    group = rep._only_group()
    if group not in (None, O(3), SO(3)):
        raise ValueError(f"expected a representation of O(3) or SO(3), got {rep} of {group}")
    with warnings.catch_warnings():
        # e3nn compiles itself by torch.jit at import, which torch deprecates
        warnings.simplefilter("ignore")
        from e3nn import o3

    copies = _fixed_by_polar_turns(rep, even=group != O(3) and group is not None)
    blocks = [_spanned(rep, degree, fixed) for (degree, _), fixed in copies]
    irreps = o3.Irreps([(fixed.shape[1], key) for key, fixed in copies])
    return irreps, torch.cat(blocks)


def _fixed_by_polar_turns(rep: Rep, *, even: bool) -> list[tuple[tuple[int, int], Tensor]]:
    """For each (degree, parity): orthonormal columns e₀, one for each copy of the irrep."""
    turns = [rep.drho(Dense(_cross_matrix(axis))).dense() for axis in range(3)]
    asymmetry = max(float((a + a.mT).abs().max()) for a in turns)
    inversion = rep.rho(Dense(-torch.eye(3, dtype=torch.float64))) if not even else None
    if turns[0].is_complex() or asymmetry > 1e-9:
        raise ValueError(f"expected a representation by real orthogonal matrices, got {rep}")
    squares, vectors = torch.linalg.eigh(turns[1].mT @ turns[1])
    fixed = vectors[:, squares < 0.5]
    casimir = sum(((a @ fixed).mT @ (a @ fixed) for a in turns), torch.zeros(()))
    eigenvalues, vectors = torch.linalg.eigh(casimir)
    degrees = ((1 + 4 * eigenvalues).sqrt() / 2 - 0.5).round().long()
    found: list[tuple[tuple[int, int], Tensor]] = []
    for degree in degrees.unique().tolist():
        columns = fixed @ vectors[:, degrees == degree]
        if inversion is None:
            found.append(((degree, 1), columns))
            continue
        parities, mixed = torch.linalg.eigh(columns.mT @ inversion.apply(columns.mT).mT)
        for parity in (-1, 1):
            chosen = parities * parity > 0
            if bool(chosen.any()):
                found.append(((degree, parity), columns @ mixed[:, chosen]))
    return found


def _spanned(rep: Rep, degree: int, fixed: Tensor) -> Tensor:
    """The rows of each copy of an irrep, from its vectors e₀ (columns of ``fixed``)."""
    points, weights, values = _quadrature(degree)
    moved = rep.rho(Dense(_turning_the_pole(points))).unsqueeze(1).apply(fixed.mT)
    moved = moved.expand(len(points), *fixed.mT.shape)
    rows = torch.einsum("k,km,kcn->cmn", weights, values, moved) * math.sqrt(2 * degree + 1)
    return rows.flatten(0, 1)


def _turning_the_pole(points: Tensor) -> Tensor:
    """Rotations that carry the y axis to points of the sphere: about x, then about y."""
    across, polar, along = points.unbind(-1)
    radius = (across**2 + along**2).sqrt().clamp_min(1e-300)
    sine, cosine = across / radius, along / radius
    zero, one = torch.zeros_like(polar), torch.ones_like(polar)
    about_y = torch.stack([cosine, zero, sine, zero, one, zero, -sine, zero, cosine], -1)
    about_x = torch.stack([one, zero, zero, zero, polar, -radius, zero, radius, polar], -1)
    turned: Tensor = about_y.reshape(-1, 3, 3) @ about_x.reshape(-1, 3, 3)
    return turned


def _cross_matrix(axis: int) -> Tensor:
    """The infinitesimal rotation about a coordinate axis: v ↦ e × v."""
    unit = torch.zeros(3, dtype=torch.float64)
    unit[axis] = 1.0
    crossed: Tensor = torch.linalg.cross(unit.expand(3, 3), torch.eye(3, dtype=torch.float64))
    return crossed.mT
