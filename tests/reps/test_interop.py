"""Representations of e3nn and escnn: e3nn itself, and stand-ins with escnn's interface."""

from __future__ import annotations

import copy
import math
import pickle
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from isotropy.bases import equivariant_basis
from isotropy.equivariance import assert_equivariant
from isotropy.groups import SO, D, Dense, Group, O, S
from isotropy.reps import (
    Irrep,
    Pseudoscalar,
    Rep,
    Scalar,
    Symmetry,
    T,
    V,
    from_e3nn,
    from_escnn,
    parse_rep,
    to_e3nn,
    to_escnn,
)
from isotropy.reps._e3nn import solid_harmonics


@pytest.fixture
def o3() -> Iterator[Any]:
    """e3nn in float64: it computes in torch's default precision."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield pytest.importorskip("e3nn.o3")
    torch.set_default_dtype(before)


# --- e3nn -------------------------------------------------------------------------------------


def elements(n: int = 4) -> Tensor:
    """Rotations and rotary reflections."""
    drawn = SO(3).sample(n, generator=0).dense()
    return torch.cat([drawn, -drawn, O(3).discrete[0].dense().unsqueeze(0)])


@pytest.mark.parametrize("degree", range(9))
@pytest.mark.parametrize("parity", [1, -1])
def test_irreps_are_those_of_e3nn(o3: Any, degree: int, parity: int) -> None:
    g = elements()
    expected = o3.Irrep(degree, parity).D_from_matrix(g)
    written = f"{degree}{'e' if parity > 0 else 'o'}"
    for rep in (Irrep(degree, parity)(O(3)), from_e3nn(written) + from_e3nn("1o")):
        image = rep.rho(Dense(g)).dense()[:, : 2 * degree + 1, : 2 * degree + 1]
        torch.testing.assert_close(image, expected, atol=1e-12, rtol=0)


def test_a_sum_is_laid_out_as_in_e3nn(o3: Any) -> None:
    irreps = o3.Irreps("3x0e + 2x1e + 0x5o + 2x3o + 1x0o + 2e + 2x1o")
    rep = from_e3nn(irreps)
    assert rep == from_e3nn(str(irreps)) == from_e3nn("3x0e+2 x 1e+2x3o+0o+2e+2x1o")
    assert rep.group == O(3)
    g = elements()
    torch.testing.assert_close(
        rep.rho(Dense(g)).dense(), irreps.D_from_matrix(g), atol=1e-12, rtol=0
    )


def test_the_derivative_is_that_of_the_exponential() -> None:
    for rep in (Irrep(2, 1), Irrep(3, -1), Irrep(3, 1), Irrep(4, -1)):
        for a in SO(3).algebra:
            step = torch.linalg.matrix_exp(0.7 * a.dense())
            image = torch.linalg.matrix_exp(0.7 * rep(O(3)).drho(a).dense())
            torch.testing.assert_close(rep(O(3)).rho(step).dense(), image, atol=1e-12, rtol=0)


def test_harmonics_are_harmonic_and_turn_with_their_argument() -> None:
    x = torch.randn(3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for degree in range(6):
        hessian = torch.func.vmap(torch.func.hessian(lambda p, n=degree: solid_harmonics(n, p)))(x)
        laplacian = hessian.diagonal(dim1=-2, dim2=-1).sum(-1)
        assert float(laplacian.abs().max()) < 1e-9
        g = elements(1)[1]
        turned = Irrep(degree, (-1) ** degree)(O(3)).rho(g).apply(solid_harmonics(degree, x))
        torch.testing.assert_close(solid_harmonics(degree, x @ g.mT), turned)


def schur(a: dict[str, int], b: dict[str, int]) -> int:
    """Schur's lemma for real irreps of O(3): one map for each pair of equal ones."""
    return sum(a[k] * b.get(k, 0) for k in a)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ({"0e": 1, "1o": 1}, {"0e": 1, "1o": 1}),
        ({"0e": 1, "1o": 1}, {"0e": 3, "1e": 2, "1o": 2, "2e": 1}),
        ({"2e": 2, "3o": 1}, {"2e": 3, "2o": 4, "3o": 2}),
        ({"2o": 1}, {"2e": 1, "0e": 1}),
    ],
)
def test_equivariant_maps_are_counted_by_schur_and_commute(
    o3: Any, a: dict[str, int], b: dict[str, int]
) -> None:
    written = ["+".join(f"{n}x{k}" for k, n in side.items()) for side in (a, b)]
    source, target = map(from_e3nn, written)
    basis = equivariant_basis(source >> target)
    assert basis.rank == schur(a, b)
    beta = torch.randn(basis.rank, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    weight = basis.combine(beta).reshape(target.size(), source.size())
    g = elements()
    d_in, d_out = (o3.Irreps(text).D_from_matrix(g) for text in written)
    torch.testing.assert_close(d_out @ weight, weight @ d_in, atol=1e-10, rtol=0)
    if basis.rank:
        assert_equivariant(lambda x: x @ weight.mT, symmetry=Symmetry(O(3), source, target))


@pytest.mark.parametrize(("first", "second"), [(1, 2), (2, 3)])
def test_products_are_counted_by_clebsch_and_gordan(first: int, second: int) -> None:
    product = from_e3nn(f"{first}{'eo'[first % 2]}") * from_e3nn(f"{second}{'eo'[second % 2]}")
    natural = (-1) ** (first + second)
    for degree in range(first + second + 2):
        for parity in (1, -1):
            inside = abs(first - second) <= degree <= first + second and parity == natural
            rank = equivariant_basis(product >> Irrep(degree, parity)(O(3))).rank
            assert rank == int(inside), (degree, parity)


def test_irreps_compare_by_value_and_travel() -> None:
    rep = from_e3nn("2x2e + 3o")
    assert rep == from_e3nn("2e+2e+3o")
    assert hash(rep) == hash(from_e3nn("2e+2e+3o"))
    assert rep != from_e3nn("2x2o + 3o")
    assert pickle.loads(pickle.dumps(rep)) == rep
    assert copy.deepcopy(rep) == rep
    assert parse_rep(str(rep), {"L2e": Irrep(2, 1), "L3o": Irrep(3, -1)}) == rep
    assert rep.T == rep
    assert from_e3nn("0e+0o+1o+1e") == (Scalar + Pseudoscalar + V + V * Pseudoscalar)(O(3))
    restricted = rep.restrict(SO(3))
    assert restricted.group == SO(3)
    assert equivariant_basis(restricted >> from_e3nn("2o").restrict(SO(3))).rank == 2
    # the five real d orbitals under the group of the square prism's rotations about z
    quarter = Group([[[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]])
    assert equivariant_basis(from_e3nn("2e").restrict(quarter)).rank == 1


REDUCIBLE = [
    (T(2), "1x0e+1x1e+1x2e", "1x0e+1x1e+1x2e"),
    (V, "1x1o", "1x1e"),
    (2 * Scalar + V * Pseudoscalar + Pseudoscalar, "1x0o+2x0e+1x1e", "3x0e+1x1e"),
    (T(3), "1x0o+3x1o+2x2o+1x3o", "1x0e+3x1e+2x2e+1x3e"),
    (Irrep(2, 1) * V + Irrep(4, -1), "1x1o+1x2o+1x3o+1x4o", "1x1e+1x2e+1x3e+1x4e"),
    (V.on([3, 0, 2], of=4), "1x0e+1x1o", "1x0e+1x1e"),
]


@pytest.mark.parametrize(("rep", "under_o", "under_so"), REDUCIBLE, ids=lambda p: str(p))
def test_decompositions(o3: Any, rep: Rep, under_o: str, under_so: str) -> None:
    for group, written in ((O(3), under_o), (SO(3), under_so)):
        bound = rep(group)
        irreps, change = to_e3nn(bound)
        assert irreps == o3.Irreps(written)
        torch.testing.assert_close(
            change @ change.mT, torch.eye(bound.size(), dtype=torch.float64), atol=1e-12, rtol=0
        )
        g = group.sample(6, generator=2)
        torch.testing.assert_close(
            change @ bound.rho(g).dense() @ change.mT,
            irreps.D_from_matrix(g.dense()),
            atol=1e-11,
            rtol=0,
        )


def test_there_and_back(o3: Any) -> None:
    irreps = o3.Irreps("2x0e+1x1o+2x2e+1x3o")
    again, change = to_e3nn(from_e3nn(irreps))
    assert again == irreps
    assert float((change @ change.mT - torch.eye(irreps.dim)).abs().max()) < 1e-12
    only, change = to_e3nn(3 * Scalar)
    assert (only, change.shape) == (o3.Irreps("3x0e"), (3, 3))


def test_bad_input_for_e3nn() -> None:
    for text in ("1x1x1o", "1o 1o", "V", "", "1u", "-1x1o", "1o+"):
        with pytest.raises(ValueError, match=r"expected irreps such as '2x0e\+1x1o', got"):
            from_e3nn(text)
    with pytest.raises(ValueError, match=r"expected at least one irrep, got '0x1o'"):
        from_e3nn("0x1o")
    for wrong in (3, [1, 2], [(1, "1o")]):
        with pytest.raises(ValueError, match=r"expected e3nn's Irreps or their text, got"):
            from_e3nn(wrong)
    for degree in (-1, 61, True, 1.0):
        with pytest.raises(ValueError, match=r"expected a degree between 0 and 60, got"):
            Irrep(degree, 1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"expected the parity 1 or -1, got 0"):
        Irrep(1, 0)
    for group in (SO(2), Group(algebra=[torch.eye(3)])):
        with pytest.raises(ValueError, match=r"expected O\(3\) or a subgroup for an irrep"):
            Irrep(2, 1)(group)
    with pytest.raises(TypeError, match=r"expected a representation, got str"):
        to_e3nn("V")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"representation of O\(3\) or SO\(3\), got V\(O\(4\)\)"):
        to_e3nn(V(O(4)))
    with pytest.raises(ValueError, match=r"expected a representation with its group"):
        to_e3nn(V)
    skewed = V(O(3)).change_basis([[1.0, 1.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    with pytest.raises(ValueError, match=r"real orthogonal matrices"):
        to_e3nn(skewed)


# --- escnn, by stand-ins with its interface -----------------------------------------------------


class Element:
    """An element of a stand-in group: what escnn's GroupElement lets one do."""

    def __init__(self, value: Any, group: Any) -> None:
        self.value, self.group = value, group

    def __matmul__(self, other: Element) -> Element:
        return Element(self.group.combine(self.value, other.value), self.group)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Element) and other.value == self.value

    def __hash__(self) -> int:
        return hash(self.value)


class Dihedral:
    """r^k f^j as (j, k), as escnn writes its dihedral group; the identity is listed last."""

    continuous = False

    def __init__(self, n: int) -> None:
        self.n, self.name = n, f"D{n}"
        pairs = [(j, k) for j in (0, 1) for k in range(n)]
        self.elements = [Element(pair, self) for pair in pairs[::-1]]
        self.identity = Element((0, 0), self)
        self.generators = [Element((1, 0), self), Element((0, 1), self)]

    def combine(self, a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
        return (a[0] + b[0]) % 2, (a[1] + (-1 if a[0] else 1) * b[1]) % self.n


class Orthogonal:
    """SO(2), O(2), SO(3) or O(3), elements as matrices or (flip, rotation), as in escnn."""

    continuous = True
    elements = None

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    def generators(self) -> list[Element]:
        raise ValueError("infinitesimal")

    def element(self, value: Any, param: str) -> Element:
        assert param == "MAT"
        rotation = value[1] if self.name[0] == "O" else value
        assert np.isclose(np.linalg.det(rotation), 1.0)
        assert np.allclose(rotation @ rotation.T, np.eye(len(rotation)))
        return Element(value, self)


class Representation:
    """A stand-in for escnn's."""

    def __init__(
        self, group: Any, name: str, size: int, function: Callable[[Any], np.ndarray]
    ) -> None:
        self.group, self.name, self.size, self.function = group, name, size, function

    def __call__(self, element: Element) -> np.ndarray:
        assert element.group is self.group
        return self.function(element.value)


def turn(angle: float) -> np.ndarray:
    return np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])


def plane(group: Dihedral, frequency: int) -> Representation:
    return Representation(
        group,
        f"irrep_1,{frequency}",
        2,
        lambda v: turn(2 * math.pi * frequency * v[1] / group.n) @ np.diag([1.0, 1 - 2.0 * v[0]]),
    )


def sign(group: Dihedral) -> Representation:
    return Representation(group, "irrep_1,0", 1, lambda v: np.array([[1.0 - 2 * v[0]]]))


def corners(group: Dihedral) -> Representation:
    def permutation(v: tuple[int, int]) -> np.ndarray:
        matrix = np.zeros((group.n, group.n))
        for i in range(group.n):
            matrix[(v[1] + (-1 if v[0] else 1) * i) % group.n, i] = 1.0
        return matrix + 1e-16

    return Representation(group, "quotient", group.n, permutation)


def test_a_finite_group_becomes_permutations_of_itself() -> None:
    group = Dihedral(5)
    rep = from_escnn(plane(group, 1))
    ours = rep.group
    assert ours is not None
    assert ours.order() == 10
    assert ours.is_permutation
    for i, h in enumerate(group.generators):
        torch.testing.assert_close(
            rep.rho(ours.discrete[i]).dense(), torch.from_numpy(plane(group, 1)(h))
        )
    batch = ours.elements()
    images = rep.rho(batch).dense()
    products = rep.rho(batch @ ours.discrete[0]).dense()
    torch.testing.assert_close(products, images @ rep.rho(ours.discrete[0]).dense())
    # one for all representations of the group
    assert from_escnn(sign(group)).group == ours
    assert from_escnn(sign(Dihedral(4))).group != ours


def test_maps_between_representations_of_a_finite_group() -> None:
    group = Dihedral(5)
    one, two, odd, five = map(
        from_escnn, (plane(group, 1), plane(group, 2), sign(group), corners(group))
    )
    # the corners of a pentagon: the trivial irrep and both planes
    assert equivariant_basis(one >> five).rank == 1
    assert equivariant_basis(two >> five).rank == 1
    assert equivariant_basis(odd >> five).rank == 0
    found = equivariant_basis(five >> five)
    assert found.rank == 3 == equivariant_basis((V >> V)(D(5))).rank
    assert found.method == "orbits"
    assert equivariant_basis(one * one >> two + odd + Scalar).rank == 3
    assert equivariant_basis(V(one.group) >> one).rank == 2  # V is regular
    basis = equivariant_basis(2 * one + five >> five * odd)
    weight = basis.combine(torch.ones(basis.rank, dtype=torch.float64))
    weight = weight.reshape(5, 9)
    for element in group.elements:
        plane_image = plane(group, 1)(element)
        source = np.zeros((9, 9))
        source[:2, :2] = source[2:4, 2:4] = plane_image
        source[4:, 4:] = corners(group)(element)
        target = corners(group)(element) * sign(group)(element)
        np.testing.assert_allclose(target @ weight.numpy(), weight.numpy() @ source, atol=1e-12)
    assert_equivariant(
        lambda x: x @ weight.mT, symmetry=Symmetry(one.group, 2 * one + five, five * odd)
    )


def test_a_representation_that_is_not_orthogonal() -> None:
    group = Dihedral(3)
    skew = np.array([[2.0, 1.0], [0.0, 1.0]])
    inner = plane(group, 1)
    rep = from_escnn(
        Representation(group, "2 skew", 2, lambda v: skew @ inner.function(v) @ np.linalg.inv(skew))
    )
    g = rep.rho(rep.group.discrete[1])
    torch.testing.assert_close(rep.T.rho(rep.group.discrete[1]).dense(), g.inverse().dense().mT)
    assert rep.T.T.size() == 2
    assert rep.T != rep
    assert equivariant_basis(rep >> rep).rank == 1
    assert str(rep).startswith("escnn_2_skew(")


CONTINUOUS: list[tuple[str, Callable[[Any], np.ndarray], Rep, Group]] = [
    ("SO(2)", lambda r: r, V, SO(2)),
    ("SO(2)", lambda r: np.kron(r, r), T(2), SO(2)),
    ("O(2)", lambda v: v[1] @ np.diag([1.0, 1 - 2.0 * v[0]]), V, O(2)),
    ("O(2)", lambda v: np.array([[1 - 2.0 * v[0]]]), Pseudoscalar, O(2)),
    ("SO(3)", lambda r: np.kron(r, r), T(2), SO(3)),
    ("O(3)", lambda v: (1 - 2.0 * v[0]) * v[1], V, O(3)),
    ("O(3)", lambda v: v[1], V * Pseudoscalar, O(3)),
]


@pytest.mark.parametrize(
    ("name", "function", "known", "group"),
    CONTINUOUS,
    ids=lambda p: "" if callable(p) and not isinstance(p, Rep) else str(p),
)
def test_continuous_groups(
    name: str, function: Callable[[Any], np.ndarray], known: Rep, group: Group
) -> None:
    size = known(group).size()
    rep = from_escnn(Representation(Orthogonal(name), "given", size, function))
    assert rep.group == group
    g = group.sample(8, generator=0)
    torch.testing.assert_close(rep.rho(g).dense(), known(group).rho(g).dense())
    assert rep.rho(g.select(0)).dense().shape == (size, size)
    for a in group.algebra:
        torch.testing.assert_close(
            rep.drho(a).dense(), known(group).drho(a).dense(), atol=1e-11, rtol=0
        )
    # they are one action, so the identity is among the maps between them
    basis = equivariant_basis(rep >> known(group))
    assert basis.rank == equivariant_basis((known >> known)(group)).rank
    eye = torch.eye(size, dtype=torch.float64).flatten()
    torch.testing.assert_close(basis.project(eye), eye, atol=1e-9, rtol=0)
    assert rep.T == rep


def test_fast_rotations_are_not_mistaken_for_slow_ones() -> None:
    def spun(r: np.ndarray) -> np.ndarray:
        return turn(101 * math.atan2(r[1, 0], r[0, 0]))

    rep = from_escnn(Representation(Orthogonal("SO(2)"), "irrep_101", 2, spun))
    frequency = rep.drho(SO(2).algebra[0]).dense()
    assert float(frequency.abs().max()) == pytest.approx(101, abs=1e-8)
    assert rep.restrict(Group([turn(math.pi / 2)])).size() == 2


def test_what_escnn_gave_travels() -> None:
    reps = [
        from_escnn(plane(Dihedral(5), 2)),
        from_escnn(Representation(Orthogonal("O(2)"), "det", 1, lambda v: [[1 - 2.0 * v[0]]])),
    ]
    for rep in reps:
        again = pickle.loads(pickle.dumps(rep))
        assert again == rep
        assert hash(again) == hash(rep)
        assert again + rep == 2 * rep
    assert from_escnn(plane(Dihedral(5), 2)) == reps[0]
    assert from_escnn(plane(Dihedral(5), 1)) != reps[0]


def test_back_to_escnn(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("escnn.group.representation")
    built: dict[str, Any] = {}

    def build(images: dict[Any, np.ndarray], name: str, group: Any, kinds: list[str]) -> str:
        built.update(images=images, name=name, group=group)
        return name

    module.build_from_discrete_group_representation = build  # type: ignore[attr-defined]
    for name in ("escnn", "escnn.group"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    group = Dihedral(4)
    rep = from_escnn(plane(group, 1)) * from_escnn(sign(group)) + from_escnn(corners(group))
    assert to_escnn(rep, group, name="mine") == "mine"
    assert set(built["images"]) == set(group.elements)
    for element, image in built["images"].items():
        expected = np.zeros((6, 6))
        expected[:2, :2] = plane(group, 1)(element) * sign(group)(element)
        expected[2:, 2:] = corners(group)(element)
        np.testing.assert_allclose(image, expected, atol=1e-12)
    to_escnn(2 * Scalar, group)
    assert built["name"] == "2*Scalar"
    assert all(np.array_equal(m, np.eye(2)) for m in built["images"].values())


def test_bad_input_for_escnn() -> None:
    group = Dihedral(3)
    with pytest.raises(TypeError, match=r"expected an escnn representation, got str"):
        from_escnn("regular")
    wrong = Representation(group, "wrong", 1, lambda v: np.array([[1.0 + v[1]]]))
    with pytest.raises(ValueError, match=r"expected wrong to be a representation, .* error of"):
        from_escnn(wrong)
    zero = Representation(group, "zero", 1, lambda v: np.zeros((1, 1)))
    with pytest.raises(ValueError, match=r"expected zero to be a representation"):
        from_escnn(zero)
    with pytest.raises(ValueError, match=r"expected matrices of shape \(2, 2\) .* got \(1, 1\)"):
        from_escnn(Representation(group, "wide", 2, lambda v: np.ones((1, 1))))
    with pytest.raises(ValueError, match=r"SO\(2\), O\(2\), SO\(3\) or O\(3\) from escnn, got 'SU"):
        from_escnn(Representation(Orthogonal("SU(2)"), "spin", 2, lambda v: v))
    angle = np.arctan2

    def given(function: Callable[[Any], Any], name: str = "SO(2)") -> Representation:
        return Representation(Orthogonal(name), "rough", 1, function)

    with pytest.raises(ValueError, match=r"expected rough to be a smooth representation"):
        from_escnn(given(lambda r: [[1 + angle(r[1, 0], r[0, 0]) ** 2]]))
    with pytest.raises(ValueError, match=r"expected rough to be a representation"):
        from_escnn(given(lambda r: [[2.0]]))
    with pytest.raises(ValueError, match=r"expected rough to be a representation"):
        from_escnn(given(lambda r: [[math.exp(angle(r[1, 0], r[0, 0]) % (2 * math.pi))]]))
    with pytest.raises(ValueError, match=r"expected rough to be a representation"):
        from_escnn(given(lambda v: [[1.0 + v[0] * v[1][0, 1]]], "O(2)"))
    with pytest.raises(TypeError, match=r"expected a representation, got str"):
        to_escnn("V", group)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"expected a finite escnn group, got 'SO\(2\)'"):
        to_escnn(V, Orthogonal("SO(2)"))
    with pytest.raises(
        ValueError, match=r"permutations of D3's own elements, .* got one of S\(6\)"
    ):
        to_escnn(V(S(6)), group)
    rotations = from_escnn(Representation(Orthogonal("SO(2)"), "given", 2, lambda r: r))
    with pytest.raises(ValueError, match=r"expected a rotation for given, got a reflection"):
        rotations.rho(O(2).discrete[0])
    with pytest.raises(ValueError, match=r"expected a permutation of 6 points as an element"):
        from_escnn(sign(group)).rho(-torch.eye(6, dtype=torch.float64))
    to_complex = V(from_escnn(sign(group)).group).change_basis(1j * torch.eye(6))
    with pytest.raises(ValueError, match=r"expected a real representation"):
        to_escnn(to_complex, group)
