"""Equivariant networks of every real group, and how their channels are shared out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from isotropy.equivariance import assert_equivariant, equivariance_error
from isotropy.groups import (
    FAMILIES,
    GL,
    SL,
    SO,
    SU,
    C2d,
    D,
    Group,
    O,
    S,
    Scaling,
    SO13p,
    Sp,
    Z,
    embed,
    semidirect,
    wreath,
)
from isotropy.nn import EMLP, MLP, EMLPBlock, uniform_rep
from isotropy.reps import Pseudoscalar, Regular, Rep, Scalar, Sum, Symmetry, T, V


def small(family: Any) -> Group:
    """The group of a family with three dimensions, or the first that there is."""
    for n in (3, 2, 1, 4):
        try:
            return family.kind(*range(n, n - family.integers, -1))
        except ValueError:
            continue
    raise AssertionError(f"no small group of {family.name}")


REAL = [group for group in map(small, FAMILIES) if not group.is_complex]
COMBINED = [
    SO(3) * S(2),
    Z(3) + O(2),
    semidirect(Z(5), D(5)),
    wreath(Z(2), S(2)),
    embed(SO(2), 4, at=1),
    SO(3).conjugate([[2.0, 1.0, 0.0], [0.0, 1.0, 0.5], [0.0, 0.0, 1.0]]),
]


def rows(width: int, *batch: int) -> Tensor:
    rng = torch.Generator().manual_seed(1)
    return torch.randn(*batch, width, dtype=torch.float64, generator=rng)


def perturbed(model: EMLP) -> EMLP:
    """The network away from its start, so that biases are tested too."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


# --- equivariance -----------------------------------------------------------------------------


@pytest.mark.parametrize("group", [*REAL, *COMBINED], ids=str)
def test_networks_of_every_real_group_are_equivariant_to_rounding(group: Group) -> None:
    model = EMLP(Scalar + 2 * V, V + Scalar, group, channels=2 * group.d, layers=2)
    perturbed(model)
    x = rows(model.in_features, 8)
    assert_equivariant(model, x.float(), tolerance=1e-5, samples=4)
    assert_equivariant(model.double(), x, tolerance=1e-12, samples=4)
    assert model.symmetry == Symmetry(group, Scalar + 2 * V, V + Scalar)


MODELS: dict[str, Callable[[], EMLP]] = {
    "inertia": lambda: EMLP(2 * Scalar + 2 * V, T(2), O(3), channels=40, layers=2),
    "three orders": lambda: EMLP(2 * V, Scalar, SO13p(), channels=48, layers=2),
    "symplectic": lambda: EMLP(2 * V, Scalar + V.T, Sp(1), channels=30, layers=2),
    "sets": lambda: EMLP(2 * V, V + T(2), S(4), channels=60, layers=2),
    "regular": lambda: EMLP(V, Regular, D(3), channels=4 * Regular + V, layers=2),
    "pseudoscalar": lambda: EMLP(
        2 * V, Pseudoscalar, O(2), channels=2 * V + 2 * V * Pseudoscalar + 3 * Pseudoscalar
    ),
    "norm": lambda: EMLP(2 * V, V, O(3), channels=40, layers=2, nonlinearity="norm"),
    "norm of sets": lambda: EMLP(2 * V, V, S(3), channels=20, layers=2, nonlinearity="norm"),
    "no bilinear": lambda: EMLP(2 * V, V, O(3), channels=40, layers=2, bilinear=False),
    "columns": lambda: EMLP(
        V.on([3, 1, 0], of=4), V.on([0, 1, 4], of=5), O(3), channels=24, layers=1
    ),
    "factors": lambda: EMLP(
        V + V(S(2)), V(SO(2)), SO(2) * S(2), channels=V + 2 * V(SO(2)) + 3 * Scalar
    ),
    "factors that permute": lambda: EMLP(
        V + V(S(3)),
        V(SO(2)) + V(S(3)),
        SO(2) * S(3),
        channels=V + 2 * V(SO(2)) + 2 * V(S(3)) + 3 * Scalar + T(2)(S(3)),
        layers=2,
    ),
    "nothing but vectors": lambda: EMLP(2 * V, V, O(3), channels=4 * V, layers=2),
    "signs": lambda: EMLP(
        V + Pseudoscalar, V + Pseudoscalar, S(3), channels=3 * V + 2 * Pseudoscalar + V * V
    ),
    "many copies": lambda: EMLP(2 * V, V + Scalar, O(3), channels=[200, 30]),
    "growing orders": lambda: EMLP(2 * V + T(2), T(3), SO(3), channels=[2 * V + T(2), 150]),
    "sixth turns": lambda: EMLP(2 * V, V + T(2), C2d(6), channels=40, layers=2),
    "scattered": lambda: EMLP(
        V, V, SO(3), channels=V + Scalar + T(2) + V + 2 * Scalar + T(2), layers=2
    ),
    "skewed": lambda: EMLP(
        V.change_basis([[2.0, 1.0], [0.0, 1.0]]), V + Scalar, O(2), channels=20, layers=2
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_networks_of_many_shapes_are_equivariant(name: str) -> None:
    model = perturbed(MODELS[name]())
    x = rows(model.in_features, 8)
    assert_equivariant(model, x.float(), tolerance=1e-5)
    assert_equivariant(model.double(), x, tolerance=1e-12)


def test_a_network_is_not_equivariant_to_a_larger_group() -> None:
    model = perturbed(EMLP(2 * V, V, SO(2), channels=20, layers=2)).double()
    assert equivariance_error(model, rows(4, 8), Symmetry(O(2), 2 * V, V)) > 1e-3
    ordinary = MLP(2 * V, V, SO(2), channels=20).double()
    assert equivariance_error(ordinary, rows(4, 8), Symmetry(SO(2), 2 * V, V)) > 1e-2


# --- shapes -----------------------------------------------------------------------------------


def test_channels_may_be_a_number_a_representation_or_a_list() -> None:
    hidden = 4 * Scalar + 2 * V
    for channels, widths in (
        (40, [40, 40, 40]),
        (hidden, [10, 10, 10]),
        ([40, hidden], [40, 10]),
        ((6,), [6]),
    ):
        model = EMLP(2 * V, V, O(3), channels=channels)
        blocks = [m for m in model.modules() if isinstance(m, EMLPBlock)]
        assert [block.out_features for block in blocks] == widths
        assert model(torch.zeros(5, 6)).shape == (5, 3)
    blocks = [m for m in EMLP(2 * V, V, O(3), channels=40).modules() if isinstance(m, EMLPBlock)]
    assert all(block.rep_out == uniform_rep(40, O(3)) for block in blocks)


@pytest.mark.parametrize("layers", [1, 2, 4])
def test_the_number_of_hidden_layers_is_as_asked(layers: int) -> None:
    model = EMLP(V, V, O(3), channels=6, layers=layers)
    assert sum(isinstance(m, EMLPBlock) for m in model.modules()) == layers


def test_the_default_is_three_layers_of_384_channels() -> None:
    model = EMLP(V, V, S(12))
    blocks = [m for m in model.modules() if isinstance(m, EMLPBlock)]
    assert [block.out_features for block in blocks] == [384] * 3


def test_the_group_may_come_with_the_representations() -> None:
    torch.manual_seed(0)
    given_apart = EMLP(2 * V, V, SO(3), channels=12, layers=1)
    torch.manual_seed(0)
    given_inside = EMLP((2 * V)(SO(3)), V(SO(3)), channels=12, layers=1)
    x = torch.randn(4, 6)
    assert torch.equal(given_apart(x), given_inside(x))
    assert given_inside.symmetry == given_apart.symmetry


# --- what a network can and cannot do ---------------------------------------------------------


def test_without_the_bilinear_layer_a_scalar_of_vectors_is_constant() -> None:
    """Thesis A.1.4: with vectors and scalars alone, nothing of O(3) turns one into the other."""
    hidden = 8 * Scalar + 4 * V
    x = rows(3, 20)
    without = EMLP(V, Scalar, O(3), channels=hidden, bilinear=False, dtype=torch.float64)
    y = without(x)
    assert bool((y - y[0]).abs().max() < 1e-12)
    y = EMLP(V, Scalar, O(3), channels=hidden, dtype=torch.float64)(x).detach()
    assert float(y.std()) > 1e-2 * float(y.abs().mean())


@pytest.mark.parametrize("nonlinearity", ["gated", "norm"])
def test_without_the_bilinear_layer_even_orders_do_not_see_odd_ones(nonlinearity: str) -> None:
    model = EMLP(
        V, T(2), O(3), channels=48, layers=2, bilinear=False, nonlinearity=nonlinearity
    ).double()
    y = model(rows(3, 5))
    torch.testing.assert_close(y, y[:1].expand_as(y))


def test_a_network_learns_an_invariant() -> None:
    model = EMLP(2 * V, Scalar, O(3), channels=24, layers=2)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    x = torch.randn(128, 6)
    wanted = (x[:, :3] * x[:, 3:]).sum(-1, keepdim=True)
    for _ in range(150):
        optimizer.zero_grad()
        loss = (model(x) - wanted).square().mean()
        loss.backward()
        optimizer.step()
    assert float(loss.detach()) < 0.05 * float(wanted.square().mean())
    assert_equivariant(model)


# --- channels ---------------------------------------------------------------------------------


def multiplicities(rep: Rep) -> Counter[Rep]:
    """How many copies of each representation there are in sums of sums."""
    if not isinstance(rep, Sum):
        return Counter([rep])
    found: Counter[Rep] = Counter()
    for count, term in rep.terms:
        for part, copies in multiplicities(term).items():
            found[part] += count * copies
    return found


def counts(rep: Rep) -> dict[int, int]:
    """How many objects of each size there are."""
    found: Counter[int] = Counter()
    for part, count in multiplicities(rep).items():
        found[part.size()] += count
    return dict(found)


@pytest.mark.parametrize(
    ("channels", "expected"),
    [
        (256, {1: 70, 3: 23, 9: 7, 27: 2}),
        (384, {1: 102, 3: 34, 9: 11, 27: 3}),
    ],
)
def test_channels_are_shared_out_as_in_the_thesis(channels: int, expected: dict[int, int]) -> None:
    assert counts(uniform_rep(channels, SO(3))) == expected
    tensors = 70 * Scalar + 23 * V + 7 * T(2) + 2 * T(3)
    assert uniform_rep(256, SO(3)) == tensors(SO(3))


@settings(max_examples=150)
@given(
    st.sampled_from(
        [SO(3), O(2), SO(1), S(4), Z(7), SO13p(), Sp(1), Sp(2), GL(1), GL(3), SL(2), Scaling(3)]
    ),
    st.integers(0, 400),
)
def test_every_channel_is_used_and_every_order_has_its_share(group: Group, more: int) -> None:
    channels = 2 * group.d + more
    rep = uniform_rep(channels, group)
    assert rep.size() == channels
    assert rep.group == group
    found = counts(rep)
    orders = sorted(found)
    assert {1, group.d} <= set(orders)
    for small_order, large_order in pairwise(orders):
        assert found[small_order] >= found[large_order]
        # no order takes more than its share of what the smaller ones have
        assert found[large_order] * large_order <= found[small_order] * small_order


def test_upper_and_lower_indices_share_one_order() -> None:
    rep = uniform_rep(3 * 2**2 * 5, Sp(1))
    multiplicity = {str(part): count for part, count in multiplicities(rep).items()}
    vectors = multiplicity["V(Sp(1))"], multiplicity["V.T(Sp(1))"]
    assert abs(vectors[0] - vectors[1]) <= 1
    matrices = [multiplicity.get(f"T({name})(Sp(1))", 0) for name in ("2", "1,1", "0,2")]
    assert matrices[1] >= max(matrices[0], matrices[2])
    orthogonal = {str(part) for part in multiplicities(uniform_rep(60, O(2)))}
    assert not any("," in name or ".T" in name for name in orthogonal)


@pytest.mark.parametrize(
    ("channels", "group"), [(5, SO(3)), (0, O(2)), (-3, O(2)), (True, SO(1)), (8.0, O(2))]
)
def test_too_few_channels_are_refused(channels: int, group: Group) -> None:
    sentence = rf"expected at least {2 * group.d} channels, .* got {channels!r}"
    with pytest.raises(ValueError, match=sentence):
        uniform_rep(channels, group)
    with pytest.raises(ValueError, match=r"expected at least 6 channels"):
        EMLP(V, V, SO(3), channels=5)


# --- wrong arguments --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rep_in", "rep_out", "group", "channels"),
    [
        (V + Scalar, Scalar + V, O(3), 2 * Scalar + T(2)),
        (V, Scalar + Pseudoscalar, O(3), 12),
        (3 * V, Pseudoscalar, O(3), 384),
        (3 * Scalar, V, O(3), 64),
        (2 * V, Scalar, GL(3), 40),
    ],
    ids=["no vector", "no pseudoscalar", "triple product", "from scalars", "no invariant"],
)
def test_an_output_that_no_input_changes_is_refused(
    rep_in: Rep, rep_out: Rep, group: Group, channels: int | Rep
) -> None:
    sentence = r"expected an output that depends on the input, got .* no input changes"
    with pytest.raises(ValueError, match=sentence):
        EMLP(rep_in, rep_out, group, channels=channels, layers=2)


def test_a_triple_product_can_be_reached_with_more_channels() -> None:
    assert_equivariant(EMLP(3 * V, Pseudoscalar, O(3), channels=420, dtype=torch.float64))


def test_a_layer_without_any_map_is_refused() -> None:
    with pytest.raises(ValueError, match=r"got V\(O\(3\)\) and .*: zero is the only one"):
        EMLP(V, Scalar, O(3), channels=3 * Scalar)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"layers": 0}, r"expected at least one hidden layer, got 0"),
        ({"layers": True}, r"expected at least one hidden layer, got True"),
        ({"layers": 1.5}, r"expected at least one hidden layer, got 1\.5"),
        (
            {"channels": []},
            r"expected channels for each of one or more hidden layers, got a list",
        ),
        ({"nonlinearity": "relu"}, r"expected a nonlinearity 'gated' or 'norm', got 'relu'"),
        ({"channels": V(S(3))}, r"expected a representation of O\(3\), got V\(S\(3\)\)"),
        ({"group": None}, r"expected a group for V >> V, got none"),
    ],
    ids=["no layer", "truth", "half a layer", "empty", "nonlinearity", "other group", "no group"],
)
def test_bad_options_are_refused(options: dict[str, object], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        EMLP(V, V, **{"group": O(3), "channels": 6, **options})


def test_groups_without_a_fitting_nonlinearity_are_refused() -> None:
    with pytest.raises(ValueError, match=r"expected a representation that preserves lengths"):
        EMLP(V, V, SO13p(), channels=8, nonlinearity="norm")
    with pytest.raises(ValueError, match=r"expected a real representation"):
        EMLP(V, V, SU(2), channels=8)


def test_inputs_of_the_wrong_width_are_refused() -> None:
    with pytest.raises(ValueError, match=r"expected inputs of width 3 for .*, got shape \(2, 4\)"):
        EMLP(V, V, O(3), channels=6, layers=1)(torch.ones(2, 4))


# --- the ordinary network to compare with -----------------------------------------------------


def test_the_ordinary_network_takes_widths_or_representations() -> None:
    by_reps = MLP(5 * Scalar + 5 * V, T(2), O(3), channels=16, layers=2)
    by_widths = MLP(20, 9, channels=16, layers=2)
    assert sum(p.numel() for p in by_reps.parameters()) == 20 * 16 + 16 + 16 * 17 + 17 * 9
    by_widths.load_state_dict(by_reps.state_dict())
    x = torch.randn(2, 3, 20)
    assert torch.equal(by_reps(x), by_widths(x))
    assert by_reps(x).shape == (2, 3, 9)


@pytest.mark.parametrize(
    ("arguments", "options", "sentence"),
    [
        ((0, 3), {}, r"expected a width of at least 1 or a representation as rep_in, got 0"),
        ((3, "V"), {}, r"expected a width of at least 1 or a representation as rep_out, got 'V'"),
        ((3, 3), {"layers": 0}, r"expected at least one hidden layer and channel, got 0 and 384"),
        ((3, 3), {"channels": 0}, r"expected at least one hidden layer and channel, got 3 and 0"),
    ],
    ids=["width", "text", "layers", "channels"],
)
def test_bad_widths_of_the_ordinary_network_are_refused(
    arguments: tuple[object, object], options: dict[str, int], sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        MLP(*arguments, **options)
    with pytest.raises(ValueError, match=r"expected inputs of width 3, got shape \(4,\)"):
        MLP(3, 3, channels=4)(torch.ones(4))
