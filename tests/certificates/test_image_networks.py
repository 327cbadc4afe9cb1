"""Networks for images: exact invariance, functions of one image, parameters as arguments."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad
from torch.nn import functional

from isotropy.certificates import architecture, initial_parameters
from isotropy.certificates._image_layers import Halve2d, Prepared, SliceNorm, TurnedConv2d
from isotropy.certificates._orbit_layers import (
    OrbitConv2d,
    OrbitSum,
    coherent,
    pixel_orbits,
)
from isotropy.nn import GroupConv2d

NAMES = ("lenet5", "convnet-4", "resnet20-4")
VARIANTS = ("", " equivariant p4", " equivariant p4m", " shared p4", " shared p4m")
TEXTS = tuple(name + variant for name in NAMES for variant in VARIANTS)


def images(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.rand(shape, dtype=dtype, generator=torch.Generator().manual_seed(0))


def network(text: str, shape: tuple[int, ...], classes: int = 3) -> nn.Module:
    model = architecture(text).build(shape, classes).double()
    model.load_state_dict(initial_parameters(model, 0))
    return model


# --- layers -----------------------------------------------------------------------------


@pytest.mark.parametrize("group", ["p4", "p4m"])
@pytest.mark.parametrize("lifts", [True, False])
def test_turned_convolution_is_the_group_convolution(group: str, lifts: bool) -> None:
    """On maps that are padded as a torus is, where ``GroupConv2d`` is the independent twin."""
    twin = GroupConv2d(3, 2, group=group, lifts=lifts).double()  # type: ignore[arg-type]
    mine = TurnedConv2d(3, 2, 3, group=group, lifts=lifts, bias=True).double()  # type: ignore[arg-type]
    assert mine.bias is not None
    with torch.no_grad():
        mine.weight.copy_(twin.filter.weight.reshape(mine.weight.shape))
        twin.filter.bias.copy_(torch.tensor([0.3, -0.7]))
        mine.bias.copy_(twin.filter.bias)
    slices = 1 if lifts else twin.group.order
    x = images(2, 3 * slices, 6, 6)
    wanted = twin(x if lifts else x.unflatten(1, (3, slices))).flatten(1, 2)
    torch.testing.assert_close(mine(functional.pad(x, (1,) * 4, mode="circular")), wanted)


@pytest.mark.parametrize("size", [3, 4, 5])
def test_turned_convolution_turns_with_its_maps(size: int) -> None:
    layer = TurnedConv2d(2, 3, size, group="p4m", padding=1).double()
    point_group = GroupConv2d(1, 1, group="p4m").group
    x = images(2, 2, 8, 7, 7)
    y = layer(x.flatten(1, 2)).unflatten(1, (3, 8))
    for k in range(8):
        moved = layer(point_group.turn_slices(x, k).flatten(1, 2)).unflatten(1, (3, 8))
        torch.testing.assert_close(moved, point_group.turn_slices(y, k))


@pytest.mark.parametrize(
    ("group", "size", "orbits"),
    [("p4", 3, 3), ("p4m", 3, 3), ("GridFlips", 3, 4), ("p4", 5, 7), ("p4m", 5, 6), ("p4", 4, 4)],
)
def test_orbits_of_pixels_by_burnside(group: str, size: int, orbits: int) -> None:
    labels = pixel_orbits(group, size, size)  # type: ignore[arg-type]
    assert int(labels.max()) + 1 == orbits
    grid = labels.reshape(size, size)
    assert torch.equal(grid, grid.flip(0)) == (group != "p4" or size == 3)
    assert torch.equal(grid, grid.rot90()) == (group != "GridFlips")


def test_shared_kernels_look_the_same_from_every_side() -> None:
    layer = OrbitConv2d(2, 3, 5, group="p4", bias=True).double()
    x = images(2, 2, 9, 9)
    kernel = layer.weight[:, :, pixel_orbits("p4", 5, 5)].reshape(3, 2, 5, 5)
    assert torch.equal(kernel, kernel.rot90(1, (2, 3)))
    torch.testing.assert_close(layer(x), functional.conv2d(x, kernel, layer.bias))


def test_sums_over_orbits_keep_their_size() -> None:
    """For what a ReLU and a max pool make of noise, which has a mean in common."""
    noise = torch.randn(400, 8, 8, 8, generator=torch.Generator().manual_seed(0))
    x = Halve2d("max")(noise.relu())
    sums = OrbitSum("p4m", 4, 4)(x)
    assert sums.shape == (400, 8 * 3)
    assert abs(float(sums.square().mean() / x.square().mean()) - 1) < 0.05
    ratio = x.reshape(-1, 4).sum(1).square().mean() / x.square().mean()
    assert abs(float(ratio / coherent(torch.tensor(4.0))) - 1) < 0.02


@pytest.mark.parametrize("kind", ["max", "mean"])
@pytest.mark.parametrize("side", [6, 7])
def test_halving_commutes_with_turns(kind: str, side: int) -> None:
    pool = Halve2d(kind)  # type: ignore[arg-type]
    x = images(1, 2, side, side) - 2  # all below zero: no border of zeros may win
    y = pool(x)
    assert y.shape[-2:] == (-(-side // 2),) * 2
    torch.testing.assert_close(pool(x.rot90(1, (2, 3))), y.rot90(1, (2, 3)))
    torch.testing.assert_close(pool(x.flip(3)), y.flip(3))
    corner = x[0, 0, :2, :2]
    assert float(y[0, 0, 0, 0]) == pytest.approx(
        float(corner.max() if kind == "max" else corner.mean())
    )


def test_normalisation_is_that_of_each_group_of_channels() -> None:
    norm = SliceNorm(8, 4).double()
    with torch.no_grad():
        norm.weight.copy_(torch.arange(1.0, 9.0))
    y = norm(images(2, 32, 5, 5)).unflatten(1, (8, 4)) / norm.weight.view(-1, 1, 1, 1)
    by_group = y.unflatten(1, (2, 4)).flatten(2)
    torch.testing.assert_close(by_group.mean(2), torch.zeros(2, 2).double())
    torch.testing.assert_close(
        by_group.var(2, correction=0), torch.ones(2, 2).double(), atol=1e-3, rtol=0
    )


def test_images_are_standardised_each_by_itself() -> None:
    prepare = Prepared((3, 4, 4))
    x = images(5, 3, 4, 4)
    y = prepare(x)
    torch.testing.assert_close(y.mean((1, 2, 3)), torch.zeros(5).double())
    torch.testing.assert_close(
        y.var((1, 2, 3), correction=0), torch.ones(5).double(), atol=1e-3, rtol=0
    )
    assert not prepare(torch.full((1, 3, 4, 4), 0.7).double()).abs().gt(1e-9).any()
    with pytest.raises(ValueError, match=r"expected inputs of shape \(n, 3, 4, 4\), got \(5, 3, 4"):
        prepare(x[..., :3])


def test_bad_orbits() -> None:
    with pytest.raises(ValueError, match=r"expected a group p4 or p4m or GridFlips, got 'p6'"):
        pixel_orbits("p6", 3, 3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"expected square maps for p4, got 3 by 4"):
        pixel_orbits("p4", 3, 4)


# --- networks ---------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32), (1, 15, 15)], ids=str)
@pytest.mark.parametrize("text", TEXTS)
def test_logits_do_not_change_as_images_turn(text: str, shape: tuple[int, ...]) -> None:
    model = network(text, shape)
    x = images(2, *shape)
    y = model(x).detach()
    spread = float(y.std(0).max())
    assert spread > 1e-3  # images differ, so that invariance says something
    turned = float((model(x.rot90(1, (2, 3))).detach() - y).abs().max())
    flipped = float((model(x.flip(3)).detach() - y).abs().max())
    assert (turned < 1e-10) == (text not in NAMES)
    if "p4m" in text:
        assert flipped < 1e-10
    elif text in NAMES or "equivariant" in text:
        assert flipped > 1e-4 * spread


@pytest.mark.parametrize("name", NAMES)
def test_flips_alone_of_images_that_are_not_square(name: str) -> None:
    model = network(f"{name} shared GridFlips", (1, 14, 20))
    x = images(2, 1, 14, 20)
    for flips in ((2,), (3,), (2, 3)):
        torch.testing.assert_close(model(x.flip(flips)), model(x))


def test_float32_is_exact_to_its_precision() -> None:
    model = architecture("resnet20-8 equivariant p4").build((1, 28, 28), 10)
    x = images(2, 1, 28, 28, dtype=torch.float32)
    torch.testing.assert_close(model(x.rot90(1, (2, 3))), model(x), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("text", TEXTS)
def test_networks_are_functions_of_one_image_and_their_parameters(text: str) -> None:
    model = network(text, (1, 16, 16)).train()
    assert set(model.state_dict()) == {name for name, _ in model.named_parameters()}
    assert not any("BatchNorm" in type(module).__name__ for module in model.modules())
    before = {name: buffer.clone() for name, buffer in model.named_buffers()}
    x = images(3, 1, 16, 16)
    together = model(x)
    assert all(torch.equal(buffer, before[name]) for name, buffer in model.named_buffers())
    alone = torch.cat([model.eval()(x[i : i + 1]) for i in range(3)])
    torch.testing.assert_close(together, alone)


@pytest.mark.parametrize("text", TEXTS)
def test_parameters_as_arguments_with_gradients(text: str) -> None:
    model = network(text, (1, 16, 16))
    x, target = images(2, 1, 16, 16), torch.tensor([0, 2])
    point = initial_parameters(model, 1)

    def loss(parameters: dict[str, Tensor]) -> Tensor:
        return functional.cross_entropy(functional_call(model, parameters, (x,)), target)

    slopes = grad(loss)(point)
    assert all(bool(slope.any()) for slope in slopes.values())
    step = 1e-8  # small, for slopes jump wherever a ReLU does
    direction = {name: torch.sign(slope) for name, slope in slopes.items()}
    ahead, behind = (
        loss({name: value + sign * step * direction[name] for name, value in point.items()})
        for sign in (1, -1)
    )
    predicted = sum(float(slope.abs().sum()) for slope in slopes.values())
    assert float(ahead - behind) / (2 * step) == pytest.approx(predicted, rel=1e-3)


@pytest.mark.parametrize("text", ["lenet5", *TEXTS[-4:], "lenet5 shared p4"])
def test_all_constants_are_buffers(text: str) -> None:
    """A network moves to another device by its tensors alone; one without memory stands for it."""
    model = network(text, (1, 16, 16))
    tensors = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    moved = {name: value.detach().to("meta") for name, value in tensors.items()}
    assert functional_call(model, moved, (images(2, 1, 16, 16).to("meta"),)).is_meta
