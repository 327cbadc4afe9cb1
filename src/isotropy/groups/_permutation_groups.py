"""Permutation groups of the catalogue: cyclic, symmetric, alternating, dihedral, Rubik's cube."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import product

import torch

from isotropy.groups._given import as_linear_map, as_monomial
from isotropy.groups._maps import Dense, LinearMap, Monomial
from isotropy.groups._named_group import NamedGroup, NamedWithoutInteger, permutation


class Trivial(NamedGroup):
    """The group of the identity alone, acting on R^n."""

    def _order(self) -> int:
        return 1


class Z(NamedGroup):
    """The cyclic group of order n, shifting n places: i ↦ i + 1 mod n."""

    def _discrete(self) -> Iterable[LinearMap]:
        return () if self.n == 1 else (_rotation(self.n),)

    def _order(self) -> int:
        return self.n

    def _sample(self, n: int, rng: torch.Generator) -> LinearMap:
        shift = torch.randint(self.n, (n, 1), generator=rng)
        return Monomial((torch.arange(self.n) + shift) % self.n)

    def _contains(self, g: LinearMap) -> bool:
        return _is_affine(g, 1)


class S(NamedGroup):
    """The symmetric group: all n! permutations of n places."""

    def _discrete(self) -> Iterable[LinearMap]:
        if self.n == 1:
            return ()
        swap = permutation([1, 0, *range(2, self.n)])
        return (swap,) if self.n == 2 else (swap, _rotation(self.n))

    def _order(self) -> int:
        return math.factorial(self.n)

    def _sample(self, n: int, rng: torch.Generator) -> LinearMap:
        keys = torch.rand(n, self.n, dtype=torch.float64, generator=rng)
        return Monomial(keys.argsort(-1))

    def _contains(self, g: LinearMap) -> bool:
        monomial = as_monomial(g)
        return monomial is not None and monomial.sign is None


class A(NamedGroup):
    """The alternating group: the n!/2 even permutations of n places."""

    smallest = 3

    def _discrete(self) -> Iterable[LinearMap]:
        # the 3-cycles (0 1 k) generate it; two elements suffice: (0 1 2) and a long cycle
        three = permutation([1, 2, 0, *range(3, self.n)])
        if self.n == 3:
            return (three,)
        if self.n % 2:
            return (three, _rotation(self.n))
        return (three, permutation([0, *range(2, self.n), 1]))

    def _order(self) -> int:
        return math.factorial(self.n) // 2

    def _contains(self, g: LinearMap) -> bool:
        monomial = as_monomial(g)
        return monomial is not None and monomial.sign is None and bool(monomial.det() == 1)

    def _sample(self, n: int, rng: torch.Generator) -> LinearMap:
        drawn = torch.rand(n, self.n, dtype=torch.float64, generator=rng).argsort(-1)
        odd = Monomial(drawn).det() < 0
        swapped = drawn.clone()
        swapped[:, [0, 1]] = drawn[:, [1, 0]]
        return Monomial(torch.where(odd.unsqueeze(-1), swapped, drawn))


class D(NamedGroup):
    """The dihedral group of order 2n, acting on the n corners of the n-gon."""

    smallest = 3

    def _discrete(self) -> Iterable[LinearMap]:
        return (_rotation(self.n), permutation([-i % self.n for i in range(self.n)]))

    def _order(self) -> int:
        return 2 * self.n

    def _sample(self, n: int, rng: torch.Generator) -> LinearMap:
        turn = torch.randint(self.n, (n, 1), generator=rng)
        side = 1 - 2 * torch.randint(2, (n, 1), generator=rng)
        return Monomial((side * torch.arange(self.n) + turn) % self.n)

    def _contains(self, g: LinearMap) -> bool:
        return _is_affine(g, 1) or _is_affine(g, -1)


class C2d(NamedGroup):
    """The n rotations of the regular n-gon, as matrices of the plane."""

    def _dimension(self, _n: int) -> int:
        return 2

    def _discrete(self) -> Iterable[LinearMap]:
        return () if self.n == 1 else (_plane_rotation(self.n),)

    def _order(self) -> int:
        return self.n

    def _sample(self, n: int, rng: torch.Generator) -> LinearMap:
        turn = torch.randint(self.n, (n,), generator=rng)
        return Dense(_rotation_matrices(turn, self.n))


class D2d(NamedGroup):
    """The 2n rotations and reflections of the regular n-gon, as matrices of the plane."""

    def _dimension(self, _n: int) -> int:
        return 2

    def _discrete(self) -> Iterable[LinearMap]:
        mirror = as_linear_map([[-1.0, 0.0], [0.0, 1.0]])
        return (mirror,) if self.n == 1 else (_plane_rotation(self.n), mirror)

    def _order(self) -> int:
        return 2 * self.n

    def _sample(self, n: int, rng: torch.Generator) -> LinearMap:
        turn = torch.randint(self.n, (n,), generator=rng)
        matrices = _rotation_matrices(turn, self.n)
        flip = torch.randint(2, (n,), generator=rng, dtype=torch.bool)
        matrices[flip, :, 0] *= -1
        return Dense(matrices)


class Inversion(NamedGroup):
    """The two-element group {1, -1} on R^n."""

    def _discrete(self) -> Iterable[LinearMap]:
        return (Monomial(torch.arange(self.n), -torch.ones(self.n)),)

    def _order(self) -> int:
        return 2


def _is_affine(g: LinearMap, side: int) -> bool:
    """Whether g is the permutation i ↦ side · i + constant."""
    monomial = as_monomial(g)
    if monomial is None or monomial.sign is not None:
        return False
    expected = (side * torch.arange(g.size) + monomial.index[0]) % g.size
    return torch.equal(monomial.index, expected)


def _rotation(n: int) -> Monomial:
    return permutation([*range(1, n), 0])


def _rotation_matrices(turn: torch.Tensor, n: int) -> torch.Tensor:
    """Rotations by turn · 2π/n, with exact zeros and ones at the quarter turns."""
    quarters = 4 * turn.double() / n
    angle = math.pi / 2 * quarters
    cos, sin = angle.cos(), angle.sin()
    exact = quarters == quarters.round()
    cos, sin = torch.where(exact, cos.round(), cos), torch.where(exact, sin.round(), sin)
    return torch.stack([torch.stack([cos, -sin], -1), torch.stack([sin, cos], -1)], -2)


def _plane_rotation(n: int) -> LinearMap:
    return as_linear_map(_rotation_matrices(torch.tensor(1), n))


Vector = tuple[int, int, int]


class RubiksCube(NamedWithoutInteger):
    """The Rubik's cube group on its 48 movable facelets, generated by six quarter turns.

    A facelet is the position of its cubie and its outward normal; a quarter turn of a face
    rotates both for the nine cubies of that layer. The order is 43252003274489856000. (The
    reference implementation of the thesis moves whole faces without turning the stickers and
    generates another group, of order about 1.9e47; its ranks 2, 6, 22 belong to that one.)

    Example:
        >>> RubiksCube().order()
        43252003274489856000
    """

    dimension = 48

    def _discrete(self) -> Iterable[LinearMap]:
        places = facelets()
        number = {facelet: i for i, facelet in enumerate(places)}
        for axis, side in product(range(3), (1, -1)):
            yield permutation(
                number[_turn(facelet, axis, side)] if facelet[0][axis] == side else i
                for i, facelet in enumerate(places)
            )

    def _order(self) -> int:
        # corners and edges permuted with equal parity; twists and flips sum to zero
        corners = math.factorial(8) * 3**7
        edges = math.factorial(12) * 2**11
        return corners * edges // 2


def facelets() -> list[tuple[Vector, Vector]]:
    """The 48 facelets as (cubie position, outward normal), corner ones before edge ones."""
    found = []
    for position in product((-1, 0, 1), repeat=3):
        if sum(map(abs, position)) < 2:
            continue  # the core and the six centres do not move
        for axis in range(3):
            if position[axis]:
                normal = tuple(position[axis] if i == axis else 0 for i in range(3))
                found.append((position, normal))
    found.sort(key=lambda facelet: -sum(map(abs, facelet[0])))
    return found  # type: ignore[return-value]


def _turn(facelet: tuple[Vector, Vector], axis: int, side: int) -> tuple[Vector, Vector]:
    """A facelet after a quarter turn about an axis, clockwise seen from outside."""
    return _rotate(facelet[0], axis, side), _rotate(facelet[1], axis, side)


def _rotate(vector: Vector, axis: int, side: int) -> Vector:
    first, second = (axis + 1) % 3, (axis + 2) % 3
    turned = list(vector)
    turned[first], turned[second] = side * vector[second], -side * vector[first]
    return turned[0], turned[1], turned[2]
