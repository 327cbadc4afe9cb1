"""Networks for vectors: invariance, and weights that do not depend on a basis."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.func import functional_call, grad

from isotropy.certificates import architecture, initial_parameters
from isotropy.certificates._vector_networks import ProjectedLinear
from isotropy.equivariance import assert_equivariant
from isotropy.groups import SO, D2d, Group, S
from isotropy.nn import Linear, SharedLinear
from isotropy.reps import Rep, Scalar, T, V


@pytest.mark.parametrize(
    ("text", "rep_in"),
    [
        ("mlp-20-20 shared S(5)", 2 * V),
        ("mlp-30 shared Z(3)*S(2)", V),
        ("mlp-64 shared p4(4)", 3 * V),
        ("mlp-40-40 equivariant SO(3) 2*V+Scalar", 2 * V + Scalar),
        ("mlp-40 equivariant SO13p 3*V", 3 * V),
        ("mlp-40 equivariant Sp(1) V+T(0,1)+2*Scalar", V + V.T + 2 * Scalar),
        ("mlp-30 equivariant D2d(5) V+T(2)", V + T(2)),
    ],
    ids=str,
)
def test_logits_are_invariant(text: str, rep_in: Rep) -> None:
    value = architecture(text)
    assert value.group is not None
    features = rep_in(value.group).size()
    model = value.build((features,), 3).double()
    model.load_state_dict(initial_parameters(model, 0))
    assert_equivariant(
        model, symmetry=value.group, rep_in=rep_in, rep_out=3 * Scalar, tolerance=1e-9
    )


def test_shared_perceptron_turns_with_images_of_several_channels() -> None:
    model = architecture("mlp-64 shared p4(6)").build((2, 6, 6), 4)
    x = torch.rand(3, 2, 6, 6, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(model(x.rot90(1, (2, 3))), model(x), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(model(x.roll(2, 3)), model(x), atol=1e-5, rtol=1e-5)
    assert float((model(x.flip(3)) - model(x)).abs().max().detach()) > 1e-4


def test_shared_layers_have_the_weights_of_deep_sets() -> None:
    """S(n) leaves two weights for each pair of channels, and one bias for each (Zaheer 2017)."""
    model = architecture("mlp-20-10 shared S(5)").build((5,), 3)
    sizes = [value.numel() for value in model.parameters()]
    assert sizes == [2 * 1 * 4, 4, 2 * 4 * 2, 2, 2 * 3, 3]


def average(group: Group, rep_in: Rep, rep_out: Rep, weight: Tensor) -> Tensor:
    """The projection as a mean over all elements of a finite orthogonal group."""
    total = torch.zeros_like(weight)
    elements = group.elements()
    for place in range(len(elements)):
        into = rep_in(group).rho(elements[place]).dense()
        out = rep_out(group).rho(elements[place]).dense()
        total += out @ weight @ into.mT
    return total / len(elements)


@pytest.mark.parametrize(
    ("group", "rep_in", "rep_out"),
    [(D2d(3), 2 * V + Scalar, V + T(2)), (S(3), V + Scalar, 2 * V), (D2d(4), T(2), T(2))],
    ids=["D2d(3)", "S(3)", "D2d(4)"],
)
def test_projection_is_the_mean_over_the_group(group: Group, rep_in: Rep, rep_out: Rep) -> None:
    basis = Linear(rep_in, rep_out, group)
    layer = ProjectedLinear(basis, None).double()
    weight = torch.randn(layer.weight.shape, generator=torch.Generator().manual_seed(0)).double()
    bias = torch.randn(len(weight), generator=torch.Generator().manual_seed(1)).double()
    eye = torch.eye(weight.shape[1]).double()
    none = torch.zeros_like(eye[:1])
    with torch.no_grad():
        layer.weight.copy_(weight)
        assert layer.bias is not None
        layer.bias.copy_(bias)
        shift = layer(none)
        found = (layer(eye) - shift).mT
    factor = (weight.numel() / basis.weight_space.rank) ** 0.5
    torch.testing.assert_close(found, factor * average(group, rep_in, rep_out, weight))
    torch.testing.assert_close(shift.mT, average(group, Scalar, rep_out, bias[:, None]))


def test_projection_keeps_the_size_of_random_weights() -> None:
    layer = ProjectedLinear(Linear(30 * V + 30 * Scalar, 40 * V, SO(3)), None)
    x = torch.randn(2000, 120, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        layer.weight.copy_(torch.randn(120, 120, generator=torch.Generator().manual_seed(1)))
        size = float((layer(x) / 120**0.5).square().mean())
    assert abs(size - 1) < 0.1


@pytest.mark.parametrize(
    ("text", "features"),
    [("mlp-9", 4), ("mlp-20 shared Z(4)", 4), ("mlp-30 equivariant SO(3) V+Scalar", 4)],
)
def test_parameters_as_arguments_with_gradients(text: str, features: int) -> None:
    model = architecture(text).build((features,), 3).double()
    x = torch.randn(5, features, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    point = initial_parameters(model, 1)

    def loss(parameters: dict[str, Tensor]) -> Tensor:
        return functional_call(model, parameters, (x,)).square().sum()

    slopes = grad(loss)(point)
    step = 1e-6
    for name, slope in slopes.items():
        ahead, behind = (
            loss({**point, name: point[name] + sign * step * slope.sign()}) for sign in (1, -1)
        )
        # the last block forms products that an invariant head cannot read
        assert bool(slope.any()) or "bilinear" in name
        found = float(ahead - behind) / (2 * step)
        assert found == pytest.approx(float(slope.abs().sum()), rel=1e-4, abs=1e-9), name


@pytest.mark.parametrize("group", ["SO(3)", "SO13p", "S(4)"])
def test_all_constants_are_buffers(group: str) -> None:
    """A network moves to another device by its tensors alone; one without memory stands for it."""
    value = architecture(f"mlp-30 equivariant {group} V+Scalar")
    assert value.group is not None
    model = value.build((value.group.d + 1,), 3)
    tensors = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    moved = {name: tensor.detach().to("meta") for name, tensor in tensors.items()}
    x = torch.zeros(2, value.group.d + 1, device="meta")
    assert functional_call(model, moved, (x,)).is_meta


def test_plain_perceptron_is_linear_layers_with_relu() -> None:
    model = architecture("mlp-7-5").build((4,), 3)
    first, second, last = (value for value in model.parameters() if value.ndim == 2)
    for value in model.parameters():
        if value.ndim == 1:
            torch.nn.init.zeros_(value)
    x = torch.randn(6, 4)
    wanted = ((x @ first.mT).relu() @ second.mT).relu() @ last.mT
    torch.testing.assert_close(model(x), wanted)


def test_shared_linear_is_what_the_room_below_calls_it() -> None:
    """The first layer, by labels of orbits of pairs: Z(3) has circulant matrices."""
    model = architecture("mlp-3 shared Z(3)").build((3,), 2)
    labels = torch.tensor([[0, 1, 2], [2, 0, 1], [1, 2, 0]])
    layer = SharedLinear(labels, bias=False)
    first = model.get_submodule("features.1")
    with torch.no_grad():
        layer.coefficients.copy_(first.weight[0])
        torch.testing.assert_close(layer.weight, first.weight)
