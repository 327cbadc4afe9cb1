"""The bilinear layer against contractions written out by hand."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from isotropy.equivariance import assert_equivariant
from isotropy.groups import SO, SU, Group, O, S, SO13p, Sp
from isotropy.nn import BiLinear
from isotropy.reps import Rep, Scalar, Symmetry, T, V

ACTING = {
    "O(3)": Symmetry(O(3), 2 * V + T(2), 2 * Scalar + V + T(2)),
    "SO(2) with duals": Symmetry(SO(2), 2 * V + V.T + T(1, 1), Scalar + V.T),
    "SO13p": Symmetry(SO13p(), V + 2 * V.T + T(1, 1) + T(2), 2 * Scalar + V + V.T),
    "S(4)": Symmetry(S(4), 2 * V + T(2), Scalar + V + T(2)),
    "Sp(1)": Symmetry(Sp(1), V + V.T + T(0, 2), Scalar + V.T),
    "scattered": Symmetry(O(3), V + Scalar + T(2) + V, V + Scalar + 2 * V),
    "one factor": Symmetry(O(2) * S(3), V + V(O(2)) + V(S(3)), Scalar + V(O(2)) + V(S(3))),
    "columns": Symmetry(O(2), (V + T(2)).on([4, 0, 3, 1, 6, 5], of=7), V.on([1, 2], of=3)),
}


def rows(width: int, *batch: int) -> Tensor:
    rng = torch.Generator().manual_seed(1)
    return torch.randn(*batch, width, dtype=torch.float64, generator=rng)


def per_weight(layer: BiLinear, x: Tensor) -> Tensor:
    """The output for each weight alone, which the layer is linear in: (outputs, weights)."""
    weights = dict(layer.named_parameters())

    def output(given: dict[str, Tensor]) -> Tensor:
        return torch.func.functional_call(layer, given, x).flatten()

    jacobian = torch.func.jacrev(output)(weights)
    return torch.cat([part.flatten(1) for part in jacobian.values()], 1).detach()


def same_span(first: Tensor, second: Tensor) -> bool:
    ranks = [
        int(torch.linalg.matrix_rank(m)) for m in (first, second, torch.cat([first, second], 1))
    ]
    return ranks[0] == ranks[1] == ranks[2]


@pytest.mark.parametrize("symmetry", ACTING.values(), ids=ACTING.keys())
def test_bilinear_layers_are_equivariant_and_homogeneous_of_degree_two(symmetry: Symmetry) -> None:
    layer = BiLinear(symmetry.rep_in, symmetry.rep_out)
    assert_equivariant(layer, symmetry=symmetry, tolerance=1e-5)
    layer.double()
    assert_equivariant(layer, symmetry=symmetry, tolerance=1e-12)
    x, y = rows(layer.in_features, 6), rows(layer.in_features, 7)[1:]
    torch.testing.assert_close(layer(2 * x), 4 * layer(x))
    torch.testing.assert_close(layer(-x), layer(x))
    # f(x + y) + f(x − y) = 2f(x) + 2f(y) holds for quadratic forms alone
    torch.testing.assert_close(layer(x + y) + layer(x - y), 2 * layer(x) + 2 * layer(y))


def test_the_layer_is_every_contraction_of_its_objects() -> None:
    layer = BiLinear(2 * V + 2 * T(2), Scalar + V, O(3), dtype=torch.float64)
    x = rows(24, 9)
    v, m = x[:, :6].reshape(9, 2, 3), x[:, 6:].reshape(9, 2, 3, 3)
    by_hand = []
    for a in range(2):
        for b in range(2):
            for scalar in ((v[:, a] * v[:, b]).sum(-1), (m[:, a] * m[:, b]).sum((-2, -1))):
                by_hand.append(torch.cat([scalar[:, None], torch.zeros(9, 3).double()], 1))
            vector = torch.einsum("nij,nj->ni", m[:, a], v[:, b])
            by_hand.append(torch.cat([torch.zeros(9, 1).double(), vector], 1))
    assert same_span(per_weight(layer, x), torch.stack([y.flatten() for y in by_hand], 1))


@pytest.mark.parametrize("copies", [4, 20])
def test_only_the_first_copies_act(copies: int) -> None:
    layer = BiLinear(copies * V, Scalar + V, O(2), dtype=torch.float64)
    x = rows(2 * copies, 80)
    v = x.reshape(80, copies, 2)
    # two copies act, as many as the plane has dimensions
    pairs = [(v[:, a] * v[:, b]).sum(-1) for a in range(2) for b in range(copies)]
    by_hand = [torch.stack([dot, 0 * dot, 0 * dot], 1).flatten() for dot in pairs]
    assert same_span(per_weight(layer, x), torch.stack(by_hand, 1))


def test_indices_are_contracted_as_the_group_asks() -> None:
    """For groups that are not orthogonal only an upper index meets a lower one."""
    layer = BiLinear(V + 2 * V.T + T(1, 1), Scalar + V + V.T, SO13p(), dtype=torch.float64)
    x = rows(28, 40)
    up, low, m = x[:, :4], x[:, 4:12].reshape(-1, 2, 4), x[:, 12:].reshape(-1, 4, 4)
    by_hand = [
        {0: torch.einsum("nij,nji->n", m, m).unsqueeze(-1)},
        {1: torch.einsum("nij,nj->ni", m, up)},
    ]
    for a in range(2):
        by_hand.append({0: (low[:, a] * up).sum(-1, keepdim=True)})
        by_hand.append({2: torch.einsum("nij,ni->nj", m, low[:, a])})
    columns = []
    for parts in by_hand:
        empty = {i: torch.zeros(40, size).double() for i, size in enumerate((1, 4, 4))}
        columns.append(torch.cat(list({**empty, **parts}.values()), 1).flatten())
    assert same_span(per_weight(layer, x), torch.stack(columns, 1))


@pytest.mark.parametrize(
    ("rep_in", "rep_out", "group", "target"),
    [
        (2 * V, Scalar, O(3), lambda x: (x[:, :3] * x[:, 3:]).sum(-1, keepdim=True)),
        (2 * V, Scalar, S(5), lambda x: (x[:, :5] * x[:, 5:]).sum(-1, keepdim=True)),
        (
            V + V.T,
            Scalar,
            Sp(1),
            lambda x: (x[:, :2] * x[:, 2:]).sum(-1, keepdim=True),
        ),
        (
            V + T(2),
            V,
            O(3),
            lambda x: torch.einsum("nij,nj->ni", x[:, 3:].reshape(-1, 3, 3), x[:, :3]),
        ),
    ],
    ids=["dot product", "dot product of permutations", "symplectic pairing", "matrix times vector"],
)
def test_known_products_can_be_represented(
    rep_in: Rep, rep_out: Rep, group: Group, target: Callable[[Tensor], Tensor]
) -> None:
    layer = BiLinear(rep_in, rep_out, group, dtype=torch.float64)
    x = rows(layer.in_features, 30)
    features, wanted = per_weight(layer, x), target(x).flatten()
    weights = torch.linalg.pinv(features) @ wanted
    torch.testing.assert_close(features @ weights, wanted)
    at = 0
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(weights[at : at + parameter.numel()].view_as(parameter))
            at += parameter.numel()
    other = rows(layer.in_features, 50)[30:]
    torch.testing.assert_close(layer(other), target(other))


def test_a_dot_product_is_learned_from_gradients() -> None:
    layer = BiLinear(2 * V, Scalar, O(3), dtype=torch.float64)
    optimizer = torch.optim.LBFGS(layer.parameters(), line_search_fn="strong_wolfe")
    x = rows(6, 64)
    wanted = (x[:, :3] * x[:, 3:]).sum(-1, keepdim=True)

    def loss() -> Tensor:
        optimizer.zero_grad()
        value = (layer(x) - wanted).square().mean()
        value.backward()
        return value

    for _ in range(5):
        optimizer.step(loss)
    assert float(loss().detach()) < 1e-6


def test_outputs_that_nothing_acts_on_stay_zero() -> None:
    layer = BiLinear(2 * V, Scalar + V, O(3), dtype=torch.float64)
    y = layer(rows(6, 5))
    assert bool(y[:, 0].all())
    assert not bool(y[:, 1:].any())


def test_new_weights_are_drawn() -> None:
    layer = BiLinear(2 * V, Scalar, O(3))
    before = [p.detach().clone() for p in layer.parameters()]
    layer.reset_parameters()
    assert not any(torch.equal(p, q) for p, q in zip(layer.parameters(), before, strict=True))


@pytest.mark.parametrize(
    ("rep_in", "rep_out", "group", "sentence"),
    [
        (2 * V, V, O(3), r"expected objects in \(2\*V\)\(O\(3\)\) that map others of it to V"),
        (
            3 * Scalar,
            Scalar,
            O(3),
            r"expected objects in 3\*Scalar that map others of it to Scalar",
        ),
        (
            2 * V,
            Scalar,
            SO13p(),
            r"expected objects in .* that map others of it to Scalar, got none",
        ),
        (V + T(1, 1), V, SU(2), r"expected real representations for a bilinear layer, got"),
        (2 * V, Scalar, None, r"expected a group for 2\*V >> Scalar, got none"),
    ],
    ids=["no map", "scalars do not act", "two upper indices", "complex", "no group"],
)
def test_layers_in_which_nothing_can_act_are_refused(
    rep_in: Rep, rep_out: Rep, group: Group | None, sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        BiLinear(rep_in, rep_out, group)


def test_inputs_of_the_wrong_width_are_refused() -> None:
    with pytest.raises(ValueError, match=r"expected inputs of width 6 for .*, got shape \(2, 5\)"):
        BiLinear(2 * V, Scalar, O(3))(torch.ones(2, 5))
