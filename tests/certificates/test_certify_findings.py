"""Certificates of discovered symmetries, and of plain networks beside them."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from isotropy.certificates import Certificate, certify, certify_finding, verify
from isotropy.certificates._finding_networks import CannotCertify, networks_for
from isotropy.discovery import Finding
from isotropy.groups import (
    SO,
    GridFlips,
    GridShifts,
    GridTurns,
    Group,
    S,
    SO13p,
    Trivial,
    Z,
    code_length,
    embed,
    p4,
    p4m,
    wreath,
)
from isotropy.reps import Rep, Scalar, Symmetry, V

QUICK = {"d": 20, "levels": 3, "epochs": 2, "quantised_epochs": 1}


def finding_of(group: Group, rep_in: Rep, rep_out: Rep = Scalar, **fields: object) -> Finding:
    symmetry = Symmetry(group, rep_in, rep_out)
    name = str(group)
    return Finding.of(name, name, "as told", "by hand", symmetry=symmetry, confirmed=True, **fields)


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def change(d: int) -> Tensor:
    return torch.eye(d).double() + drawn(d, d).double() / 8


def test_permutations_that_leave_a_class_pay_for_themselves() -> None:
    x = drawn(2000, 8)
    y = (x.square().sum(1) > 7.3).long()
    both = certify_finding(finding_of(S(8), V, 2 * Scalar), (x, y), d=50, epochs=20)
    assert both.paid
    assert both.with_symmetry.bound < 0.35 < both.without.bound
    for one in (both.with_symmetry, both.without):
        verdict = verify(one.to_bytes(), (x, y))
        assert verdict.valid
        assert verdict.bound == pytest.approx(one.bound)
        assert one.delta == 0.05
        assert one.n == 2000
        assert one.hypothesis().input_scale is None
    # plain or not, which of two, and the catalogue's code; a plain network has the first bit too
    assert both.group_bits == 1 + code_length(S(8))
    assert str(both).startswith("the symmetry paid for itself: risk at most ")
    assert f"{both.group_bits} of them for the group" in str(both)


def test_rotations_that_leave_a_number_pay_for_themselves() -> None:
    x = 100 * drawn(1000, 6)
    a, b = x[:, :3] / 100, x[:, 3:] / 100
    y = (a.norm(dim=1) + 2 * (a * b).sum(1))[:, None]
    both = certify_finding(finding_of(SO(3), 2 * V), (x, y), d=50, epochs=12, quantised_epochs=6)
    assert both.paid
    assert both.with_symmetry.bound < 0.4 < both.without.bound
    sizes = [one.hypothesis() for one in (both.with_symmetry, both.without)]
    for hypothesis in sizes:
        deviation = float((y - y.mean()).square().mean().sqrt())
        assert hypothesis.goal.tolerance == pytest.approx(deviation / 2, rel=1e-3)
        assert hypothesis.goal.tolerance >= deviation / 2
        assert hypothesis.input_scale == pytest.approx(100, rel=0.05)
    counts = [h.architecture.parameter_count((6,), 1) for h in sizes]
    assert counts[1] == pytest.approx(counts[0], rel=0.05)
    assert verify(both.with_symmetry, (x, y))
    assert verify(both.without, (x, y))
    wide = certify_finding(finding_of(SO(3), 2 * V), (x, y), tolerance=1e4, **QUICK)
    assert wide.with_symmetry.errors == wide.without.errors == 0
    assert not wide.paid  # the group is named, and of no use
    assert str(wide).startswith("the symmetry did not pay for itself")


def test_images_that_may_be_turned() -> None:
    y = torch.arange(200) % 2
    x = drawn(200, 1, 8, 8) * (1 + 2 * y.view(-1, 1, 1, 1))
    finding = finding_of(p4m(8), V, 2 * Scalar)
    finding = finding.with_values(layout=replace(finding.layout, image=(1, 8, 8)))
    both = certify_finding(finding, (x, y), **QUICK)
    assert both.with_symmetry.model == "convnet-4 equivariant p4m"
    assert both.without.model == "convnet-4"
    assert both.group_bits == 1 + code_length(p4m(3))
    for one in (both.with_symmetry, both.without):
        assert one.hypothesis().input_scale is None
        assert verify(one, (x, y))


@pytest.mark.parametrize(
    ("group", "rep", "shape", "text"),
    [
        (S(5), V, (5,), "mlp-40-40 shared S(5)"),
        (
            S(5) + S(5),
            V.on([0, 2, 4, 6, 8, 1, 3, 5, 7, 9], 10),
            (10,),
            "mlp-80-80 shared conjugate(S(5)+S(5),[0,2,4,6,8,1,3,5,7,9])",
        ),
        (Z(2), V.on([3, 1], 4), (4,), "mlp-32-32 shared Group(discrete=[[0,3,2,1]])"),
        (
            wreath(Z(2), S(3)),
            V.on([1, 5, 2, 6, 3, 7], 8),
            (8,),
            "mlp-64-64 shared conjugate(wreath(Z(2),S(3))+Trivial(2),[1,5,2,6,3,7,0,4])",
        ),
        (Z(4) * Z(5), 2 * V, (2, 4, 5), "mlp-160-160 shared Z(4)*Z(5)"),
        (Trivial(4) * Group([[3, 2, 1, 0]]), V, (1, 4, 4), "mlp-128-128 shared Trivial(4)*Group("),
        (GridFlips(8), V, (1, 8, 8), "mlp-512-512 shared GridFlips(8)"),
        (GridTurns(8), V, (1, 8, 8), "convnet-4 equivariant p4"),
        (p4(8), V, (1, 8, 8), "convnet-4 equivariant p4"),
        (
            Group([*GridTurns(8).discrete, *GridFlips(8).discrete]),
            2 * V,
            (2, 8, 8),
            "convnet-4 equivariant p4m",
        ),
        (GridTurns(4), V, (1, 4, 4), "mlp-128-128 shared GridTurns(4)"),
        (SO(3), V + 2 * Scalar, (5,), "mlp-30-30 equivariant SO(3) V+2*Scalar"),
        (SO13p(), 2 * V, (8,), "mlp-48-48 equivariant SO13p 2*V"),
        (
            SO(2),
            (2 * V + Scalar).on([0, 2, 1, 3, 4], 5),
            (5,),
            "mlp-48-48 equivariant conjugate(Trivial(2)*SO(2)+Trivial(1),[0,2,1,3,4]) V",
        ),
        (SO(3).conjugate(change(3)), V, (3,), "mlp-30-30 equivariant conjugate(SO(3),[["),
        (
            embed(SO(2).conjugate(change(2)), 3).conjugate(change(3)),
            V,
            (3,),
            "mlp-30-30 equivariant conjugate(embed(SO(2),3),[[",
        ),
        (
            Group(algebra=[[[0.0, 0.1], [-0.4, 0.0]]]),
            2 * V,
            (4,),
            "mlp-30-30 equivariant Group(algebra=[[[0,0.1000",
        ),
    ],
    ids=[
        *("permutations", "interleaved", "two of four", "blocks", "shifts", "mirror", "flips"),
        *("turns", "p4", "turns and flips", "few pixels", "rotations", "boosts", "placed"),
        *("hidden basis", "embedded", "generators"),
    ],
)
def test_the_network_has_the_symmetry(
    group: Group, rep: Rep, shape: tuple[int, ...], text: str
) -> None:
    finding = finding_of(group, rep, 3 * Scalar)
    network, plain = networks_for(finding, shape, 3)
    assert str(network).startswith(text)
    assert plain.group is None
    torch.manual_seed(0)
    model = network.build(shape, 3).double()
    x = drawn(4, *shape).double()
    shifts = GridShifts(8).discrete
    with torch.no_grad():
        y = model(x)
        assert (y - y.mean(0)).abs().max() > 1e-3  # what ignores its inputs has every symmetry
        moves = [*group.discrete, *(torch.matrix_exp(a.dense() / 2) for a in group.algebra)]
        for h in moves:
            if "convnet" in text and any(torch.equal(h.dense(), s.dense()) for s in shifts):  # type: ignore[attr-defined]
                continue  # convolutions with edges commute with shifts only nearly
            moved = finding.symmetry.apply(h, x.flatten(1)).view_as(x)
            # a change of basis is known to 16 bits
            tolerance = 2e-2 if "conjugate(" in text and "[[" in text else 1e-6
            torch.testing.assert_close(model(moved), y, atol=tolerance, rtol=tolerance)


def test_a_hidden_basis_is_paid_for_in_16_bit_numbers() -> None:
    frame = change(3)
    x = drawn(400, 3).double() @ frame.mT
    radius = torch.linalg.solve(frame, x.mT).norm(dim=0)
    y = (radius > 1.5).long()
    finding = finding_of(SO(3).conjugate(frame), V, 2 * Scalar)
    both = certify_finding(finding, (x, y), **QUICK)
    named = certify_finding(finding_of(SO(3), V, 2 * Scalar), (x, y), **QUICK)
    assert both.group_bits == named.group_bits + 16 + 1 + 9 * 16
    again = Certificate.from_bytes(both.with_symmetry.to_bytes())
    assert verify(again, (x, y)).valid


def test_the_best_of_the_recipes_is_kept_and_both_networks_have_the_same() -> None:
    x = drawn(300, 4)
    y = (x.sum(1) > 0).long()
    few = {"epochs": 2, "quantised_epochs": 1}
    both = certify_finding(finding_of(S(4), V, 2 * Scalar), (x, y), **few)
    for one in (both.with_symmetry, both.without):
        each = [
            certify(one.model, (x, y), d=d, levels=5, delta=0.05, clip=1.0, **few).bound
            for d in (20, 50, 100)
        ]
        assert one.bound == min(each)


def test_too_few_rows_are_said_to_be() -> None:
    x = drawn(16, 4)
    y = (x.sum(1) > 0).long()
    both = certify_finding(finding_of(S(4), V, 2 * Scalar), (x, y), **QUICK)
    assert both.has_too_few_rows
    assert str(both).startswith("16 rows are too few for a bound below 99 %")


def test_json_says_what_the_certificates_claim() -> None:
    x = drawn(300, 4)
    both = certify_finding(finding_of(S(4), V, 2 * Scalar), (x, (x.sum(1) > 0).long()), **QUICK)
    said = both.to_json()
    assert set(said) == {"with", "without", "group_bits", "paid"}
    for name, one in (("with", both.with_symmetry), ("without", both.without)):
        assert said[name] == {
            "model": one.model,
            "bound": one.bound,
            "train_error": one.errors / 300,
            "message_bits": 8 * len(one.message),
            "n": 300,
            "delta": 0.05,
        }
    swapped = replace(both, with_symmetry=both.without, without=both.with_symmetry)
    assert swapped.paid != both.paid


def test_progress_says_which_network_it_is_of() -> None:
    heard: list[str] = []
    x = drawn(60, 3)
    certify_finding(
        finding_of(S(3), V, 2 * Scalar),
        (x, (x.sum(1) > 0).long()),
        progress=lambda step: heard.append(step.message),
        **QUICK,
    )
    assert any(told.startswith("certifying mlp-24-24 shared S(3), 1/1: ") for told in heard)
    assert any(told.startswith("certifying mlp-10-10, 1/1: ") for told in heard)


TRANSLATION = np.zeros((1, 4, 4))
TRANSLATION[0, :2, 3] = 1


@pytest.mark.parametrize(
    ("finding", "shape", "sentence"),
    [
        (finding_of(Z(6), V, V), (6,), r"no certificate: outputs move with the inputs"),
        (
            finding_of(SO(3), V, centre=(3.0, 3.0, 3.0)),
            (3,),
            r"no certificate: the symmetry is about a point that is not the origin",
        ),
        (
            finding_of(Group(algebra=list(TRANSLATION)), V),
            (3,),
            r"no certificate: the symmetry has translations",
        ),
        (
            Finding.of("shifts", "Z(8)", "of two layers", "layers", confirmed=True),
            (1, 8, 8),
            r"no certificate: the symmetry is of some layers of a network",
        ),
        (
            finding_of(S(5), 3 * V),
            (5, 3),
            r"no certificate: .* not sequences and sets of shape \(5,",
        ),
        (finding_of(SO(4), V), (1, 2, 2), r"no certificate: groups of matrices act on rows"),
        (finding_of(SO(9), V), (9,), r"no certificate: expected a group on at most 8 dimensions"),
        (
            finding_of(SO(2), (V * V).on([0, 2, 1, 3], 5)),
            (5,),
            r"no certificate: the catalogue's networks do not take T\(2\).on",
        ),
        (finding_of(SO(2), V**3), (8,), r"no certificate: expected a term Scalar, .* got 'T\(3\)'"),
        (
            finding_of(S(5000), V),
            (5000,),
            r"no certificate: expected sizes from 1 to 4096, got 5000",
        ),
        (
            finding_of(SO(2).conjugate([[1.0, 0.0], [0.0, 1e-4]]), V),
            (2,),
            r"no certificate: SO\(2\) cannot be named in a certificate: .* condition at most 100",
        ),
    ],
    ids=[
        *("outputs", "centre", "translations", "layers", "sets", "matrices of pixels", "nine"),
        *("tensors placed", "order three", "large", "condition"),
    ],
)
def test_what_the_catalogue_does_not_have_is_told_in_a_sentence(
    finding: Finding, shape: tuple[int, ...], sentence: str
) -> None:
    y = torch.arange(20) % 2
    with pytest.raises(CannotCertify, match=sentence):
        certify_finding(finding, (drawn(20, *shape), y))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"delta": 0.0}, r"expected delta between 0 and 1, got 0.0"),
        ({"tolerance": 1.0}, r"expected a tolerance for a regression, got one with labels"),
        ({"speed": 2}, r"expected a setting of the recipe .* got 'speed'"),
    ],
    ids=["delta", "tolerance", "setting"],
)
def test_bad_options_are_errors_of_the_user(options: dict, sentence: str) -> None:
    x = drawn(60, 3)
    with pytest.raises(ValueError, match=sentence) as caught:
        certify_finding(finding_of(S(3), V, 2 * Scalar), (x, (x.sum(1) > 0).long()), **options)
    assert not isinstance(caught.value, CannotCertify)
