"""Answers that were once wrong."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from isotropy import CustomRep, Regular, Rep, Scalar, Symmetry, V, equivariant_basis, parse_rep
from isotropy.bases import BasisCache, _cache, _change_of_basis, solve_dense
from isotropy.groups import (
    SO,
    C2d,
    D2d,
    Dense,
    GridShifts,
    GridTurns,
    Group,
    Operator,
    S,
    SO13p,
    Trivial,
    Z,
    decode,
    embed,
    encode,
    p4,
    parse_group,
    semidirect,
)
from isotropy.reps import T


def test_equal_groups_with_their_elements_in_another_order() -> None:
    a, b = p4(3), semidirect(GridShifts(3), GridTurns(3))
    assert a == b
    assert Regular(a) != Regular(b)
    cache = BasisCache()
    for group in (a, b):
        assert equivariant_basis((V >> Regular)(group), cache=cache).residual() == 0.0


def test_complex_answers_are_kept_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ISOTROPY_CACHE", str(tmp_path))
    monkeypatch.setattr(_cache, "WORTH_A_FILE", 0.0)
    rep = T(1, 1)(Group(algebra=[[[1j, 0.0], [0.0, 0.0]]]))
    first = equivariant_basis(rep, method="dense", cache=BasisCache())
    second = equivariant_basis(rep, method="dense", cache=BasisCache())
    assert torch.equal(first.dense(), second.dense())


def test_complex_representations_of_real_groups() -> None:
    charge = CustomRep("Charge", lambda g: torch.complex(g[0, 0], g[1, 0])[None, None])
    assert charge(SO(2)).is_complex
    assert equivariant_basis(charge(SO(2))).rank == 0
    assert equivariant_basis((charge * charge.T)(SO(2))).rank == 1
    change = torch.tensor([[1, 1], [1j, -1j]], dtype=torch.complex128)
    assert equivariant_basis(V(SO(2)).change_basis(change) ** 2).rank == 2


@pytest.mark.parametrize(
    "rep",
    [
        Symmetry(S(3) * SO(2), V, V(SO(2))).maps,
        (V(Z(2)) * V)(Z(2) * Z(3)),
        (V(SO(2)) + V)(D2d(3) * SO(2)),
        (V(SO(2)) * V)(D2d(3) * SO(2)),
    ],
    ids=str,
)
def test_a_product_beside_one_of_its_factors(rep: Rep) -> None:
    basis = equivariant_basis(rep, cache=False)
    q, p = basis.dense(), solve_dense(rep).dense()
    torch.testing.assert_close(q @ q.T, p @ p.T)


def test_generators_are_copied() -> None:
    given = torch.tensor([1, 2, 0])
    group = Group([given])
    given.copy_(torch.arange(3))
    assert group == Z(3)
    rep = V(Z(3))
    with pytest.raises(AttributeError, match="immutable"):
        rep.dual = True  # type: ignore[attr-defined]


def test_opaque_changes_of_basis_are_never_kept() -> None:
    flip = Operator(2, lambda x: x.flip(-1))
    rep, cache = V(SO(2)).change_basis(flip), BasisCache(disk=False)
    cache.put(equivariant_basis(rep, cache=False), "dense", 0.0)
    assert cache.get(rep, "dense") is None
    assert Operator(2, torch.neg).value() != Operator(3, torch.neg).value()


def test_integer_coordinates() -> None:
    basis = equivariant_basis(V(S(3)))
    torch.testing.assert_close(
        basis.combine(torch.tensor([1])), torch.full((3,), 3**-0.5, dtype=torch.float64)
    )


def test_rounded_generators_are_refused() -> None:
    angle = 2 * math.pi / 3
    turn = [[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]]
    assert equivariant_basis(T(2)(Group([turn]))).rank == 2
    with pytest.raises(ValueError, match=r"in float64, got torch\.float32"):
        Group([torch.tensor(turn)])
    assert Group([torch.tensor([[0.0, -1.0], [1.0, 0.0]])]).order() == 4


def test_sampling_does_not_depend_on_the_scale_or_basis_of_generators() -> None:
    tiny = Group(algebra=[1e-8 * SO(2).algebra[0].dense()])
    assert abs(float(tiny.sample(4000, generator=0).trace().mean())) < 0.15
    tilted = Group(C2d(100).conjugate([[1.0, 0.5], [0.0, 2.0]]).discrete)
    assert tilted.is_compact
    assert abs(float(tilted.sample(4000, generator=0).trace().mean())) < 0.15
    mirrors = Group(D2d(100).discrete)
    assert abs(float(mirrors.sample(4000, generator=0).trace().mean())) < 0.15


def test_orders() -> None:
    turn = [[math.cos(0.411), -math.sin(0.411)], [math.sin(0.411), math.cos(0.411)]]
    with pytest.raises(ValueError, match="infinite or larger order"):
        Group([turn]).order()
    assert Group(algebra=[[[0.0, 0.0], [0.0, 0.0]]], d=2).order() == 1


def test_semidirect_products_check_the_acting_algebra() -> None:
    with pytest.raises(ValueError, match="normalise"):
        semidirect(embed(C2d(3), 3), embed(SO(2), 3, 1))


def test_membership_of_large_boosts() -> None:
    boost = torch.linalg.matrix_exp(10 * SO13p().algebra[0].dense())
    assert SO13p().contains(boost)


@pytest.mark.parametrize(
    "group",
    [
        Group((D2d(3) * Z(2)).discrete),
        Group([Dense(torch.tensor([[0.0, 1.0], [1.0, 0.0]]))]),
        Z(2).conjugate([[0.0, 2.0], [0.5, 0.0]]).conjugate([[0.0, 2.0], [0.5, 0.0]]),
    ],
    ids=str,
)
def test_groups_that_did_not_parse_back(group: Group) -> None:
    assert parse_group(str(group)) == group


def test_bases_that_did_not_parse_back() -> None:
    rep = V(Z(2)).change_basis(Dense(torch.eye(2)))
    assert parse_rep(str(rep)) == rep
    named = equivariant_basis(T(3)(Group([[1, 2, 3, 0]])))
    assert str(named.rep).startswith("T(3)(Group")
    assert str(equivariant_basis(T(3)(Z(4))).rep) == "T(3)(Z(4))"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Group(discrete=5)", "expected a list of generators"),
        ("(" * 5000 + "Z(3)" + ")" * 5000, "fewer brackets"),
    ],
)
def test_hostile_texts(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_group(text)


def test_hostile_sizes() -> None:
    with pytest.raises(ValueError, match=r"needs \d+\.\d GB"):
        Z(10**10).discrete  # noqa: B018
    with pytest.raises(ValueError, match=r"Lie algebra of SO\(400\) needs"):
        SO(400).algebra  # noqa: B018
    with pytest.raises(ValueError, match="between 0 and 1000"):
        parse_rep("T(99999999)")
    with pytest.raises(ValueError, match=r"needs \d+\.\d GB"):
        equivariant_basis(T(100)(parse_group("GL(2)")))
    permutation = encode(Group([[1, 0]]))[:7]
    with pytest.raises(ValueError, match="ends too early"):
        decode(permutation + "0" * 4 + "11010" + format(10**8 - 2**26, "026b") + "0100")


def test_bad_generators() -> None:
    for bad in ([S(3).sample(4)], [Dense(torch.zeros(3, 3))]):
        with pytest.raises(ValueError, match=r"single map|singular"):
            Group(bad)
    with pytest.raises(ValueError, match="at least two groups"):
        type(Z(2) * Z(2))(Z(2))


@pytest.mark.parametrize(
    ("text", "rep"),
    [
        *(("Inversion(3)", T(2)), ("Scaling(3)", T(1, 1)), ("SO(3)", T(3)), ("O(3)", T(2, 2))),
        *(("SU(2)", T(1, 1)), ("SO13p", T(2)), ("S(3)", T(2, 1)), ("D2d(5)", T(3))),
    ],
)
@pytest.mark.parametrize("condition", [3.0, 1e4, 1e6])
def test_ranks_do_not_depend_on_coordinates(text: str, rep: Rep, condition: float) -> None:
    group = parse_group(text)
    rng = torch.Generator().manual_seed(0)
    u, _, v = torch.linalg.svd(torch.randn(group.d, group.d, dtype=torch.float64, generator=rng))
    change = u @ torch.diag(torch.logspace(0, math.log10(condition), group.d).double()) @ v
    moved = group.conjugate(change)
    basis = equivariant_basis(rep(moved), cache=False)
    assert basis.rank == equivariant_basis(rep(group), cache=False).rank
    q = basis.dense()
    torch.testing.assert_close(q.mH @ q, torch.eye(basis.rank, dtype=basis.dtype))
    if condition < 10 and basis.rank:
        p = solve_dense(rep(moved)).dense()
        torch.testing.assert_close(q @ q.mH, p @ p.mH)
        v = torch.randn(2, basis.size, dtype=basis.dtype, generator=rng)
        torch.testing.assert_close(basis.coordinates(v), v @ q.conj())
        assert basis.combine(torch.ones(basis.rank)).dtype in (torch.float32, torch.complex64)


@pytest.mark.parametrize("largest", [0, 10**7])
def test_changed_coordinates_of_a_representation(
    largest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_change_of_basis, "LARGEST_MATRIX", largest)
    change = [[1.0, 0.5], [0.0, 2.0]]
    for rep in (
        V(SO(2)).change_basis(change) ** 2,
        V(SO(2)).change_basis(change) >> V(SO(2)),
        (V(Z(2)).change_basis(change) + Scalar) >> V(Z(2)),
    ):
        basis = equivariant_basis(rep, cache=False)
        q, p = basis.dense(), solve_dense(rep).dense()
        torch.testing.assert_close(q @ q.mH, p @ p.mH)
        torch.testing.assert_close(q.mH @ q, torch.eye(basis.rank, dtype=basis.dtype))
        v = torch.randn(2, basis.size, dtype=basis.dtype)
        torch.testing.assert_close(basis.coordinates(v), v @ q.conj())


def test_a_wide_sum_is_cheap_to_compare() -> None:
    assert SO(3) + Trivial(50_000) == SO(3) + Trivial(50_000)
    assert (Scalar + V)(SO(2)).is_complex is False


def test_functions_that_are_no_generators() -> None:
    with pytest.raises(ValueError, match="discrete generator 0 to be linear"):
        Group([Operator(4, lambda x: x**2)])
    with pytest.raises(ValueError, match="keeps the shape"):
        Group([Operator(4, lambda x: x[..., :2])])
    with pytest.raises(ValueError, match="expected a list of discrete generators, got 5"):
        Group(5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="opaque operators"):
        Group([Operator(4, lambda x: x.roll(1, -1))]).order()


def test_names_that_are_taken_and_groups_without_a_text() -> None:
    with pytest.raises(ValueError, match="expected a new name"):
        CustomRep("Scalar", lambda g: g)
    opaque = Symmetry(Group([Operator(4, lambda x: x.roll(1, -1))]), V, V)
    with pytest.raises(ValueError, match="can be written down"):
        opaque.to_json()


def test_arguments_of_the_wrong_kind() -> None:
    with pytest.raises(TypeError, match="representation as rep_out, got str"):
        Symmetry(SO(3), V, "V")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="expected a group, got str"):
        Symmetry(SO(3), V, V).restrict("SO(3)")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="the class SO; add its brackets"):
        V(SO)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"width 3 to apply a linear map to, got shape \(4,\)"):
        SO(3).sample(generator=0).apply(torch.ones(4))
    with pytest.raises(TypeError, match=r"use \.apply"):
        SO(3).sample(generator=0) @ torch.ones(3)  # type: ignore[operator]
    with pytest.raises(ValueError, match="a change of basis to be invertible"):
        V(SO(2)).change_basis([[1.0, 0.0], [0.0, 0.0]])
    assert equivariant_basis(V(S(3))).combine([1.0]).shape == (3,)  # type: ignore[arg-type]


def test_membership_through_parts() -> None:
    both = SO(3) + Z(2)
    assert both.contains(both.sample(generator=0))
    assert not both.contains(torch.eye(5) * -1)
    about_z = embed(SO(2), 3)
    assert about_z.contains(about_z.sample(generator=0))
    assert not about_z.contains(SO(3).sample(generator=0))


@pytest.mark.parametrize(
    ("group", "rep"),
    [
        *(("Z(99999999999999999999)", "V"), ("SO(3)", "T(700)"), ("S(3)", "T(900)")),
        *(("SO(100000)", "V"), ("GridShifts(100000)", "V"), ("S(3)", "T(2000)")),
    ],
)
def test_huge_questions_get_a_sentence(group: str, rep: str) -> None:
    with pytest.raises(ValueError, match=r"needs|expected") as caught:
        equivariant_basis(parse_rep(rep)(parse_group(group)))
    assert len(str(caught.value)) < 300


def test_many_copies_cost_nothing() -> None:
    basis = equivariant_basis((10**5 * V >> 10**5 * V)(S(3)))
    assert basis.rank == 2 * 10**10
    assert basis.residual() == 0.0


def test_progress_is_reported_block_by_block() -> None:
    steps = []
    equivariant_basis((V + Scalar >> V + Scalar)(SO(3)), progress=steps.append)
    assert [step.done for step in steps] == [0, 1, 2, 3]
    assert {step.total for step in steps} == {4}


def test_vanishing_entries_stay_white(tmp_path: Path) -> None:
    from PIL import Image

    from isotropy.report import plot_basis

    path = plot_basis(equivariant_basis(T(4)(SO(3)), method="dense"), tmp_path / "basis.png")
    with Image.open(path) as image:
        colours = {colour for count, colour in image.convert("RGB").getcolors(10**6) if count > 999}
    assert (153, 153, 153) not in colours


@pytest.mark.parametrize("group", [Z(1) * S(3), S(3) * Z(1), Trivial(1) * Z(4)], ids=str)
def test_a_product_that_equals_one_of_its_factors(group: Group) -> None:
    """It was taken for a factor of itself, and left out."""
    rep = (V >> V)(group)
    assert rep.groups == (group,)
    assert equivariant_basis(rep, cache=False).rank == solve_dense(rep).rank < group.d**2
