"""Contributions of layers: architectures of all kinds, brute force, and what is left behind."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import replace
from math import isnan, sqrt
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from isotropy.equivariance import (
    Layerwise,
    group_action,
    image_action,
    layerwise,
    lie_derivative,
    point_cloud_action,
    sequence_action,
)
from isotropy.groups import SO
from isotropy.nn import EMLP
from isotropy.reps import Scalar, Symmetry, V
from isotropy_papers._efficientnet_lite import efficientnet_lite
from isotropy_papers._vision_models import Mixer, ViT, ViTTokens, resnet18

SIZE = 16


class Written(nn.Module):
    """A model whose forward pass is a function of itself and the input."""

    def __init__(self, function: Callable[[Any, Tensor], Tensor], **parts: Any) -> None:
        super().__init__()
        self.function = function
        for name, part in parts.items():
            setattr(self, name, nn.Parameter(part) if isinstance(part, Tensor) else part)

    def forward(self, x: Tensor) -> Any:
        return self.function(self, x)


def conv(inputs: int = 3, outputs: int = 4, size: int = 3, **options: Any) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, size, **{"padding": size // 2, **options})


def images(count: int = 2, size: int = SIZE, dtype: torch.dtype = torch.float64) -> Tensor:
    generator = torch.Generator().manual_seed(3)
    return torch.rand(count, 3, size, size, generator=generator, dtype=torch.float64).to(dtype)


def by_differences(model: Any, x: Tensor, action: Any, step: float = 1e-7) -> Tensor:
    """The derivative of a model whose outputs are invariant, from its values alone."""
    tangent = action.tangent(x)
    with torch.no_grad():
        above, below = (model((x + h * tangent).clone()) for h in (step, -step))
    found: Tensor = (above - below) / (2 * step)
    return found


def names(found: Layerwise) -> list[str]:
    return [layer.name for layer in found.layers]


def assert_same(found: Layerwise, expected: Layerwise, tolerance: float) -> None:
    assert names(found) == names(expected)
    for one, other in zip(found.layers, expected.layers, strict=True):
        assert one.kind == other.kind
        assert abs(one.squared - other.squared) < tolerance * expected.lee
        assert abs(one.share - other.share) < tolerance


# --- architectures ----------------------------------------------------------------------------


def windows(m: Any, x: Tensor) -> Tensor:
    x = m.embed(x).permute(0, 2, 3, 1)
    batch, height, width, channels = x.shape
    around = x
    x = torch.roll(m.norm(x), (-2, -2), (1, 2))
    x = x.view(batch, height // 4, 4, width // 4, 4, channels).permute(0, 1, 3, 2, 4, 5)
    x = x.reshape(-1, 16, channels)
    q, k, v = m.qkv(x).reshape(-1, 16, 3, 2, channels // 2).permute(2, 0, 3, 1, 4).unbind(0)
    weights = ((q @ k.transpose(-2, -1)) * 0.5 + m.bias).softmax(-1)
    x = m.proj((weights @ v).transpose(1, 2).reshape(-1, 16, channels))
    x = x.view(batch, height // 4, width // 4, 4, 4, channels).permute(0, 1, 3, 2, 4, 5)
    x = around + torch.roll(x.reshape(batch, height, width, channels), (2, 2), (1, 2))
    return m.head(x.mean((1, 2)))  # type: ignore[no-any-return]


def convnext(m: Any, x: Tensor) -> Tensor:
    x = m.stem(x)
    y = m.fc2(F.gelu(m.fc1(m.norm(m.depthwise(x).permute(0, 2, 3, 1)))))
    x = x + (m.gamma * y).permute(0, 3, 1, 2)
    return m.head(F.adaptive_avg_pool2d(x, 1).flatten(1))  # type: ignore[no-any-return]


def transformer(m: Any, x: Tensor) -> Tensor:
    x = m.embed(x).flatten(2).transpose(1, 2) + m.position
    extra = [m.token.expand(len(x), -1, -1), m.registers.expand(len(x), -1, -1)]
    return m.head(m.encoder(torch.cat([*extra, x], 1))[:, 0])  # type: ignore[no-any-return]


def squeeze(m: Any, x: Tensor) -> Tensor:
    x = F.silu(m.bn(m.conv(x)), inplace=True)
    gate = torch.sigmoid(m.up(F.relu(m.down(x.mean((2, 3), keepdim=True)))))
    return m.head((x * gate).mean((2, 3)))  # type: ignore[no-any-return]


def unet(m: Any, x: Tensor) -> Tensor:
    a = m.conv(x).relu()
    b = m.deep(F.max_pool2d(a, 2)).relu()
    up = F.interpolate(b, scale_factor=2, mode="bilinear")
    return m.out(torch.cat([m.up(b), up, a, F.interpolate(b, size=a.shape[2:])], 1))  # type: ignore[no-any-return]


def dense(m: Any, x: Tensor) -> Tensor:
    x = torch.cat([x, F.relu(m.one(x))], 1)
    x = torch.cat([x, F.leaky_relu(m.two(x), 0.1, True)], 1)
    return m.head(torch.flatten(F.avg_pool2d(x, 2), 1))  # type: ignore[no-any-return]


def norms(m: Any, x: Tensor) -> Tensor:
    x = m.local(m.instance(m.group(m.conv(x)).relu()))
    return m.head(F.normalize(m.tracked(x), dim=1).mean((2, 3)))  # type: ignore[no-any-return]


def rows_of_pixels(m: Any, x: Tensor) -> Tensor:
    found = m.rnn(x.permute(0, 2, 1, 3).flatten(2))[0]
    return m.head(found[:, -1])  # type: ignore[no-any-return]


def masked_attention(m: Any, x: Tensor) -> Tensor:
    t = m.embed(x).flatten(2).mT
    q, k, v = F.linear(t, m.qkv).chunk(3, -1)
    mask = torch.ones(t.shape[1], t.shape[1], dtype=torch.bool).tril()
    a = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    a = a + F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.3)
    return m.head((a + m.attn(t, t, t, need_weights=False)[0]).mean(1))  # type: ignore[no-any-return]


def changed_in_place(m: Any, x: Tensor) -> Tensor:
    y = m.conv(x.mul_(2))
    y += torch.sin(y)
    m.relu(y)
    y[:, 0] = y[:, 1] * 2
    y[:, :2] += 1 + y[:, 2:]
    y[y > 3] = 0
    out = torch.zeros(len(x), 4, dtype=x.dtype)
    for i in range(4):
        out[:, i].copy_(y[:, i].mean((1, 2)))
    return m.head(out.clone())  # type: ignore[no-any-return]


def stopped(m: Any, x: Tensor) -> Tensor:
    y = m.conv(x)
    with torch.no_grad():
        gate = y.sigmoid()
    return m.head((y * gate * y.detach().tanh() + y.data.sin()).mean((2, 3)))  # type: ignore[no-any-return]


def chosen(m: Any, x: Tensor) -> Tensor:
    y = m.conv(x)
    flat = y.flatten(2)
    y = flat.gather(2, torch.arange(9).expand(len(x), 4, 9)).mean(-1) + flat.topk(3)[0].sum(-1)
    y = y + flat.index_select(2, torch.tensor([5, 2])).sum(-1) + flat.sort(-1)[0][..., ::7].mean(-1)
    z = torch.where(flat > 0, flat, flat.exp() - 1).cumsum(-1).clamp(m.low, flat.mean((1, 2), True))
    return F.log_softmax(m.head(y + z.norm(dim=-1)), -1)


def products(m: Any, x: Tensor) -> Tensor:
    y = m.conv(x)
    z = torch.einsum("bchw,cd->bdhw", y, m.matrix).maximum(-y).pow(2).mean((2, 3))
    z = (
        torch.addmm(m.bias, z, m.matrix)
        + torch.baddbmm(m.matrix[None], z[:, :, None], z[:, None])[:, 0]
    )
    return m.bilinear(z, F.glu(y, 1).minimum(y[:, :2]).mean((2, 3)))  # type: ignore[no-any-return]


def frequencies(m: Any, x: Tensor) -> Tensor:
    y = torch.fft.irfft2(torch.fft.rfft2(m.conv(x)) * m.filter, s=x.shape[2:])
    return m.head(y.relu().mean((2, 3)) + torch.fft.fft2(y).abs().mean((2, 3)))  # type: ignore[no-any-return]


MODELS: dict[str, Callable[[], nn.Module]] = {
    "lenet": lambda: nn.Sequential(
        conv(3, 4, 5, padding=0), nn.Tanh(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(144, 3)
    ),
    "vit": lambda: ViT(SIZE, 4, 12, 2, 2, classes=4, tokens=ViTTokens(registers=2)),
    "vit without a class token": lambda: ViT(
        SIZE, 4, 12, 1, 2, classes=4, tokens=ViTTokens(class_token=False, pooling="mean")
    ),
    "mixer": lambda: Mixer(SIZE, 4, 12, 2, 8, 16, 4),
    "windows": lambda: Written(
        windows, embed=conv(3, 8, 2, stride=2, padding=0), norm=nn.LayerNorm(8),
        qkv=nn.Linear(8, 24), proj=nn.Linear(8, 8), bias=torch.randn(2, 16, 16),
        head=nn.Linear(8, 3),
    ),
    "convnext": lambda: Written(
        convnext, stem=conv(3, 6, 2, stride=2, padding=0), depthwise=conv(6, 6, 5, groups=6),
        norm=nn.LayerNorm(6), fc1=nn.Linear(6, 12), fc2=nn.Linear(12, 6), gamma=torch.rand(6),
        head=nn.Linear(6, 3),
    ),
    "transformer": lambda: Written(
        transformer, embed=conv(3, 8, 4, stride=4, padding=0), position=torch.randn(1, 16, 8),
        token=torch.randn(1, 1, 8), registers=torch.randn(1, 3, 8), head=nn.Linear(8, 3),
        encoder=nn.TransformerEncoder(
            nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=True), 1,
            enable_nested_tensor=False,
        ),
    ),
    "squeeze and excite": lambda: Written(
        squeeze, conv=conv(stride=2), bn=nn.BatchNorm2d(4), down=conv(4, 2, 1), up=conv(2, 4, 1),
        head=nn.Linear(4, 3),
    ),
    "unet": lambda: Written(
        unet, conv=conv(), deep=conv(4, 6), up=nn.ConvTranspose2d(6, 4, 2, 2), out=conv(20, 2, 1)
    ),
    "dense": lambda: Written(dense, one=conv(), two=conv(7), head=nn.Linear(11 * 64, 3)),
    "norms": lambda: Written(
        norms, conv=conv(), group=nn.GroupNorm(2, 4), instance=nn.InstanceNorm2d(4),
        local=nn.LocalResponseNorm(3), tracked=nn.InstanceNorm2d(4, track_running_stats=True),
        head=nn.Linear(4, 3),
    ),
    "shuffled": lambda: nn.Sequential(
        nn.PixelUnshuffle(2), conv(12, 8, 3, dilation=2, padding="same"), nn.ReLU(),
        nn.PixelShuffle(2), conv(2, 3, groups=1),
    ),
    "unfolded": lambda: Written(
        lambda m, x: m.head(m.patch(F.unfold(x, 4, stride=4).mT).relu().mean(1)),
        patch=nn.Linear(48, 6), head=nn.Linear(6, 3),
    ),
    "cut": lambda: Written(
        lambda m, x: m.head(
            m.patch(x.unfold(2, 4, 4).unfold(3, 4, 4).permute(0, 2, 3, 1, 4, 5).flatten(3))
            .relu().mean((1, 2))
        ),
        patch=nn.Linear(48, 6), head=nn.Linear(6, 3),
    ),
    "embedding": lambda: Written(
        lambda m, x: m.head(
            (m.conv(x).flatten(2).mT + m.table(torch.arange(SIZE * SIZE)).type_as(x)).relu().mean(1)
        ),
        conv=conv(), table=nn.Embedding(SIZE * SIZE, 4), head=nn.Linear(4, 3),
    ),
    "shared": lambda: Written(
        lambda m, x: m.head(m.deep(m.act(m.deep(m.act(m.conv(x))))).mean((2, 3))),
        conv=conv(), deep=conv(4), act=nn.ReLU(), head=nn.Linear(4, 3),
    ),
    "functions": lambda: Written(
        lambda m, x: F.linear(F.max_pool2d(F.conv2d(x, m.w), 2).relu().mean((2, 3)), m.v),
        w=torch.randn(4, 3, 3, 3), v=torch.randn(3, 4),
    ),
    "lstm": lambda: Written(
        rows_of_pixels, rnn=nn.LSTM(3 * SIZE, 4, batch_first=True), head=nn.Linear(4, 3)
    ),
    "gru": lambda: Written(
        rows_of_pixels, rnn=nn.GRU(3 * SIZE, 4, batch_first=True), head=nn.Linear(4, 3)
    ),
    "masked attention": lambda: Written(
        masked_attention, embed=conv(3, 4, 4, stride=4, padding=0), qkv=torch.randn(12, 4),
        attn=nn.MultiheadAttention(4, 2, batch_first=True), head=nn.Linear(4, 3),
    ),
    "in place": lambda: Written(
        changed_in_place, conv=conv(), relu=nn.ReLU(inplace=True), head=nn.Linear(4, 3)
    ),
    "stopped gradients": lambda: Written(stopped, conv=conv(), head=nn.Linear(4, 3)),
    "chosen": lambda: Written(chosen, conv=conv(), head=nn.Linear(4, 3), low=torch.randn(4, 1)),
    "products": lambda: Written(
        products, conv=conv(), matrix=torch.randn(4, 4), bias=torch.randn(4),
        bilinear=nn.Bilinear(4, 2, 3),
    ),
    "frequencies": lambda: Written(
        frequencies, conv=conv(), head=nn.Linear(4, 3),
        filter=torch.randn(SIZE, SIZE // 2 + 1),
    ),
}  # fmt: skip
IN_REVERSE = set(MODELS) - {"unet", "shuffled", "in place"}


def build(name: str) -> nn.Module:
    torch.manual_seed(0)
    return MODELS[name]().eval().double()


@pytest.mark.parametrize("name", MODELS)
def test_contributions_add_up(name: str) -> None:
    """To the derivative by differences, however many inputs there are at a time, both ways."""
    model, x, action = build(name), images(), image_action("rotation")
    kept = x.clone()
    found = layerwise(model, x, action)
    assert found.closure < 1e-12
    assert sum(layer.share for layer in found.layers) == pytest.approx(1, abs=1e-10)
    if name not in ("unet", "shuffled"):
        slope = by_differences(model, x, action)
        assert found.lee == pytest.approx(float(slope.square().mean()), rel=1e-4)
    with torch.no_grad():
        inside = lie_derivative(model, x, action)
    outside = lie_derivative(model, x, action).detach()
    torch.testing.assert_close(inside, outside)
    assert float(inside.square().mean()) == pytest.approx(found.lee)
    assert_same(layerwise(model, x, action, batch_size=1), found, 1e-9)
    if name in IN_REVERSE:
        assert_same(layerwise(model, x, action, method="reverse"), found, 1e-9)
    assert torch.equal(x, kept)


@pytest.mark.parametrize(
    ("build", "size"),
    [
        (lambda: resnet18(10, 8), 64),
        (lambda: ViT(32, 8, 24, 2, 2, classes=10), 32),
        (lambda: Mixer(32, 8, 24, 2, 8, 32, 10), 32),
        (lambda: efficientnet_lite(0, classes=10), 32),
    ],
    ids=["resnet18", "vit", "mixer", "efficientnet-lite0"],
)
def test_single_precision(build: Callable[[], nn.Module], size: int) -> None:
    model = build().eval()
    for statistics in (m for m in model.modules() if isinstance(m, nn.BatchNorm2d)):
        statistics.running_var.uniform_(0.5, 2)  # type: ignore[union-attr]
    x = images(1, size, torch.float32)
    found = layerwise(model, x, "translation_x")
    assert found.closure < 1e-5
    exact = layerwise(model.double(), x.double(), "translation_x")
    assert exact.closure < 1e-12
    assert found.lee == pytest.approx(exact.lee, rel=1e-3)
    large = {layer.name: layer for layer in exact.layers if layer.squared > 1e-3 * exact.lee}
    assert len(large) >= 3
    for layer in found.layers:
        if layer.name in large:
            assert layer.contribution == pytest.approx(large[layer.name].contribution, rel=1e-3)


def test_batches_of_sixteen() -> None:
    model, x = build("squeeze and excite"), images(16)
    whole = layerwise(model, x, "scale", batch_size=16)
    assert whole.inputs == 16
    assert_same(layerwise(model, x, "scale", batch_size=1), whole, 1e-10)


# --- brute force ------------------------------------------------------------------------------


def picture(size: int, pitch: float, origin: float, channels: int) -> Any:
    """Where space is in maps whose samples lie so far apart in the input."""
    place: Any = image_action("rotation").input_place(torch.zeros(1, channels, size, size))
    side = replace(place.sides[0], pitch=pitch, origin=origin, whole=SIZE)
    return replace(place, sides=(side, side))


def test_against_brute_force() -> None:
    """C_i = J_{N:i+1} L f_i, with each layer alone and the Jacobian of all after it."""
    torch.manual_seed(0)
    steps: list[tuple[nn.Module, Any]] = [
        (conv(1, 2, 3, stride=2), picture(8, 2.0, 0.0, 2)),
        (nn.Tanh(), picture(8, 2.0, 0.0, 2)),
        (conv(2, 2), picture(8, 2.0, 0.0, 2)),
        (nn.Softplus(), picture(8, 2.0, 0.0, 2)),
        (nn.AvgPool2d(2), picture(4, 4.0, 1.0, 2)),
        (nn.Sigmoid(), picture(4, 4.0, 1.0, 2)),
        (nn.AdaptiveAvgPool2d(1), "invariant"),
        (nn.Flatten(), "invariant"),
        (nn.Linear(2, 3), "invariant"),
    ]
    model = nn.Sequential(*(layer for layer, _ in steps)).double().requires_grad_(False)
    x, action = images(1)[:, :1], image_action("rotation")
    place: Any = picture(SIZE, 1.0, 0.0, 1)
    expected, z = [], x
    for i, (layer, after) in enumerate(steps):
        moved = torch.func.jvp(layer, (z,), (action.act(z, place),))[1]
        z, place = layer(z), after
        own = moved - action.act(z, place)
        jacobian = torch.autograd.functional.jacobian(model[i + 1 :], z)
        expected.append(jacobian.reshape(3, -1) @ own.flatten())
    total = torch.stack(expected).sum(0)
    torch.testing.assert_close(total, lie_derivative(model, x, action)[0])
    for method in ("forward", "reverse"):
        found = layerwise(model, x, action, method=method)  # type: ignore[arg-type]
        by_name = {layer.name: layer for layer in found.layers}
        assert len(by_name) >= 6
        for i, part in enumerate(expected):
            squared = float(part.square().mean())
            if str(i) not in by_name:
                assert squared < 1e-20
                continue
            assert by_name[str(i)].squared == pytest.approx(squared, rel=1e-9)
            assert by_name[str(i)].contribution == pytest.approx(sqrt(squared), rel=1e-9)
            share = float(part @ total / (total @ total))
            assert by_name[str(i)].share == pytest.approx(share, rel=1e-9)


def test_probes_are_as_good_as_they_say() -> None:
    model, x = build("vit"), images(1)
    exact = layerwise(model, x, "rotation")
    scores = []
    for seed in range(12):
        found = layerwise(model, x, "rotation", method="probes", probes=40, generator=seed)
        assert names(found) == names(exact)
        assert found.closure < 1e-10
        for one, truth in zip(found.layers, exact.layers, strict=True):
            if truth.squared == 0:  # tokens that nothing reads
                assert one.squared == 0
                continue
            # (z·C)² is ‖C‖² times a chi-squared variable of one degree of freedom
            scores.append((one.squared / truth.squared - 1) / sqrt(2 / 40))
    scores_of = torch.tensor(scores)
    assert abs(float(scores_of.mean())) < 0.4
    assert 0.7 < float(scores_of.std()) < 1.3
    again = layerwise(model, x, "rotation", method="probes", probes=40, generator=11)
    assert repr(again) == repr(found)  # by repr: a number may be nan


def test_standard_error_over_inputs() -> None:
    model, x = build("lenet"), images(12)
    found = layerwise(model, x, "rotation")
    single = [layerwise(model, one[None], "rotation").layers for one in x]
    for i, layer in enumerate(found.layers):
        lengths = torch.tensor([layers[i].contribution for layers in single], dtype=torch.float64)
        assert layer.contribution == pytest.approx(float(lengths.mean()), rel=1e-9)
        assert layer.stderr == pytest.approx(float(lengths.std() / sqrt(12)), rel=1e-6)


def test_directions_are_averaged() -> None:
    model, x = build("lenet"), images()
    both = layerwise(model, x, "translation")
    one, other = (layerwise(model, x, f"translation_{letter}") for letter in "xy")
    assert both.lee == pytest.approx((one.lee + other.lee) / 2)
    for i, layer in enumerate(both.layers):
        mean = (one.layers[i].squared + other.layers[i].squared) / 2
        assert layer.squared == pytest.approx(mean)


def test_units_have_names_and_kinds() -> None:
    found = layerwise(build("vit"), images(), "rotation")
    kinds = {layer.name: layer.kind for layer in found.layers}
    assert "embedding" in kinds.values()
    assert any(kind == "attention" for kind in kinds.values())
    assert found.by_kind().keys() == set(kinds.values())
    assert sum(found.by_kind().values()) == pytest.approx(
        sum(layer.contribution for layer in found.layers)
    )
    assert found.data()["layers"][0]["name"] == found.layers[0].name
    shared = names(layerwise(build("shared"), images(), "rotation"))
    assert len(shared) == len(set(shared))


# --- layouts ----------------------------------------------------------------------------------


def test_layouts_by_name_and_pattern() -> None:
    """Tokens declared invariant are charged at once; undeclared, they are a picture."""
    model = nn.Sequential(
        conv(), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(256, 3)
    ).double()
    x = images()
    plain = layerwise(model, x, "rotation")
    declared = layerwise(model, x, "rotation", layouts={"0": "NCHW", "[12]": "NCHW"})
    assert_same(declared, plain, 1e-12)
    other = layerwise(model, x, "rotation", layouts={"0": "invariant"})
    assert names(other)[0] == "0"
    assert other.layers[0].share == pytest.approx(1)  # what follows then adds nothing
    assert other.lee == pytest.approx(plain.lee)
    assert other.closure < 1e-12


def test_a_layout_is_charged_to_the_module_it_is_given_for() -> None:
    torch.manual_seed(0)
    block = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1, padding_mode="circular"), nn.Identity())
    model = nn.Sequential(block, nn.Flatten(), nn.Linear(4 * SIZE**2, 2)).double()
    action = image_action("translation_x", boundary="periodic")
    assert names(layerwise(model, images(), action)) == ["2"]
    assert names(layerwise(model, images(), action, layouts={"0": "invariant"})) == ["0"]


@pytest.mark.parametrize(
    ("layouts", "message"),
    [
        ({"nowhere": "NCHW"}, r"expected layouts for modules among 0, 1, got 'nowhere'"),
        ({"0": "NWHC"}, r"expected a layout among invariant, NCHW, NHWC"),
        ({"0": "NLC"}, r"expected a value of layout NLC, got one of shape \(2, 4, 16, 16\)"),
    ],
)
def test_wrong_layouts_are_refused(layouts: dict[str, str], message: str) -> None:
    model = nn.Sequential(conv(), nn.ReLU())
    with pytest.raises(ValueError, match=message):
        layerwise(model, images(), "rotation", layouts=layouts)


def test_layouts_for_a_function_are_refused() -> None:
    with pytest.raises(ValueError, match=r"among no modules, got 'relu'"):
        layerwise(torch.relu, images(), "rotation", layouts={"relu": "NCHW"})


def test_outputs_of_all_layouts() -> None:
    """The same picture, given out in five ways, has the same error."""
    torch.manual_seed(0)
    layer, x = conv(3, 4, 2, stride=2, padding=0).double(), images()
    extra = torch.zeros(2, 3, 4, dtype=torch.float64)
    ways: dict[str, tuple[Callable[[Tensor], Tensor], str]] = {
        "NCHW": (lambda y: y, "NCHW"),
        "NHWC": (lambda y: y.permute(0, 2, 3, 1), "NHWC"),
        "NLC": (lambda y: y.flatten(2).mT, "NLC"),
        "NLC+3": (lambda y: torch.cat([extra[: len(y)], y.flatten(2).mT], 1), "NLC+3"),
    }
    square = None
    for way, output in ways.values():
        model = Written(lambda m, x, way=way: way(m.layer(x).tanh()), layer=layer)
        followed = layerwise(model, x, "rotation")
        declared = layerwise(model, x, "rotation", output=output)
        assert_same(declared, followed, 1e-10)
        total = followed.lee * model(x)[0].numel()
        square = square or total
        assert total == pytest.approx(square)
    other = layerwise(model, x, "rotation", output="invariant")
    slope = by_differences(model, x, image_action("rotation"))
    assert other.lee == pytest.approx(float(slope.square().mean()), rel=1e-5)
    with pytest.raises(ValueError, match=r"expected a layout among invariant"):
        layerwise(model, x, "rotation", output="CHWN")


# --- vectors, points, sequences ---------------------------------------------------------------


def test_vectors() -> None:
    """An equivariant network contributes nothing; of an MLP only the whole is known."""
    torch.manual_seed(0)
    symmetry = Symmetry(SO(3), 2 * V + Scalar, V)
    x = torch.randn(4, 7, dtype=torch.float64)
    exact = EMLP(symmetry.rep_in, symmetry.rep_out, SO(3), channels=16, layers=2).double()
    found = layerwise(exact, x, group_action(symmetry))
    assert found.lee < 1e-24
    assert all(layer.contribution < 1e-12 for layer in found.layers)
    plain = nn.Sequential(nn.Linear(7, 5), nn.Tanh(), nn.Linear(5, 3)).double()
    whole = layerwise(plain, x, group_action(symmetry, 1))
    assert [layer.share for layer in whole.layers] == [pytest.approx(1)]
    as_numbers = layerwise(plain, x, group_action(symmetry, 1), output="invariant")
    slope = by_differences(plain, x, group_action(symmetry, 1))
    assert as_numbers.lee == pytest.approx(float(slope.square().mean()), rel=1e-5)
    assert whole.lee != pytest.approx(as_numbers.lee, rel=1e-3)


def test_a_broken_layer_among_equivariant_ones_is_found() -> None:
    torch.manual_seed(0)
    symmetry = Symmetry(SO(3), 2 * V, V)
    stretch = torch.tensor([1.0, 1.0, 1.1], dtype=torch.float64).repeat(2)
    inner = EMLP(2 * V, 2 * V, SO(3), channels=8, layers=1).double()
    broken = Written(lambda m, x: x * stretch)
    last = EMLP(2 * V, V, SO(3), channels=8, layers=1).double()
    x = torch.randn(3, 6, dtype=torch.float64)
    model = nn.Sequential(inner, broken, last)
    found = layerwise(model, x, group_action(symmetry), layouts={"1": "2*V"})
    assert found.layers[0].name.startswith("1")
    assert found.layers[0].share == pytest.approx(1)
    assert found.lee > 1e-16  # the exact networks alone: below 1e-24
    with pytest.raises(ValueError, match=r"expected 9 columns for 3\*V, got shape \(3, 6\)"):
        layerwise(model, x, group_action(symmetry), layouts={"1": "3*V"})


def test_points() -> None:
    def energies(m: Any, x: Tensor) -> Tensor:
        squares = (x[:, :, None] - x[:, None]).square().sum(-1)
        return m.head(squares.neg().exp().mean((1, 2))[:, None])  # type: ignore[no-any-return]

    torch.manual_seed(0)
    model = Written(energies, head=nn.Linear(1, 2)).double()
    x = torch.randn(2, 5, 3, dtype=torch.float64)
    for name in ("rotation_z", "translation_x"):
        assert layerwise(model, x, point_cloud_action(name)).lee < 1e-24
    found = layerwise(model, x, point_cloud_action("scale"))
    slope = by_differences(model, x, point_cloud_action("scale"))
    assert found.lee == pytest.approx(float(slope.square().mean()), rel=1e-5)
    assert found.closure < 1e-12


def test_sequences() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv1d(2, 4, 3, stride=2, padding=1), nn.ReLU(), nn.Conv1d(4, 4, 3), nn.GELU(),
        nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(4, 3),
    ).double()  # fmt: skip
    x = torch.randn(2, 2, 24, dtype=torch.float64)
    action = sequence_action("translation")
    found = layerwise(model, x, action)
    slope = by_differences(model, x, action)
    assert found.lee == pytest.approx(float(slope.square().mean()), rel=1e-5)
    assert found.closure < 1e-12
    assert len(found.layers) >= 3
    assert_same(layerwise(model, x, action, method="reverse"), found, 1e-10)


# --- nothing is left behind -------------------------------------------------------------------


def state(model: nn.Module) -> list[Any]:
    return [
        [len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules()],
        [m.training for m in model.modules()],
        [p.requires_grad for p in model.parameters()],
        [p.grad is None for p in model.parameters()],
        [t.tolist() for t in model.state_dict().values()],
        torch.get_rng_state().tolist(),
        torch.is_grad_enabled(),
    ]


@pytest.mark.parametrize("method", ["forward", "reverse", "probes"])
def test_nothing_is_left_on_the_model(method: Any) -> None:
    model = Written(squeeze, conv=conv(stride=2), bn=nn.BatchNorm2d(4), down=conv(4, 2, 1),
                    up=conv(2, 4, 1), head=nn.Linear(4, 3)).train()  # fmt: skip
    model.bn.eval()
    model.down.requires_grad_(False)
    x = images(dtype=torch.float32).requires_grad_()
    before, kept = state(model), x.detach().clone()
    layerwise(model, x, "rotation", method=method, probes=2)
    assert state(model) == before
    assert torch.equal(x, kept)
    assert x.grad is None
    assert x.requires_grad


@pytest.mark.parametrize("method", ["forward", "reverse"])
def test_nothing_is_left_after_an_exception(method: Any) -> None:
    def fails(m: Any, x: Tensor) -> Tensor:
        m.conv(x)
        raise KeyError("from within")

    model = Written(fails, conv=nn.Sequential(conv(), nn.BatchNorm2d(4))).train()
    before = state(model)
    with pytest.raises(KeyError, match="from within"):
        layerwise(model, images(dtype=torch.float32), "rotation", method=method)
    assert state(model) == before
    assert torch.sin(torch.ones(1)).item() > 0  # no mode is left on


def test_models_that_catch_their_own_exceptions() -> None:
    def goes_on(m: Any, x: Tensor) -> Tensor:
        try:
            m.wrong(x)
        except RuntimeError:
            x = x * 1.0
        return m.head(m.conv(x).relu().mean((2, 3)))  # type: ignore[no-any-return]

    torch.manual_seed(0)
    parts = {"wrong": nn.Linear(99, 2), "conv": conv(), "head": nn.Linear(4, 3)}
    model = Written(goes_on, **parts).double()
    plain = Written(lambda m, x: m.head(m.conv(x * 1.0).relu().mean((2, 3))), **parts).double()
    found = layerwise(model, images(), "rotation")
    assert_same(found, layerwise(plain, images(), "rotation"), 1e-12)
    assert_same(layerwise(model, images(), "rotation", method="reverse"), found, 1e-10)


# --- what runs outside PyTorch's functions ----------------------------------------------------


class Square(torch.autograd.Function):
    """With its derivative, in the old manner."""

    factor = 2

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * x

    @classmethod
    def backward(cls, ctx: Any, gradient: Tensor) -> Tensor:
        return cls.factor * ctx.saved_tensors[0] * gradient


class Wrong(Square):
    factor = 5


class InNumpy(Square):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return torch.from_numpy(x.detach().numpy() ** 2)


def with_square(square: Any) -> nn.Module:
    torch.manual_seed(0)
    return Written(
        lambda m, x: m.head(square(m.conv(x)).mean((2, 3))), conv=conv(), head=nn.Linear(4, 3)
    ).double()


def test_custom_functions() -> None:
    x, action = images(), image_action("rotation")
    right = with_square(Square.apply)
    expected = by_differences(right, x, action)
    torch.testing.assert_close(
        lie_derivative(right, x, action).detach(), expected, rtol=1e-5, atol=1e-8
    )
    assert layerwise(right, x, action).closure < 1e-12
    assert layerwise(right, x, action).lee == pytest.approx(
        float(expected.square().mean()), rel=1e-5
    )
    with pytest.raises(RuntimeError, match=r"add up .* a custom autograd.Function"):
        layerwise(right, x, action, method="reverse")


def test_custom_functions_with_a_wrong_backward() -> None:
    x, action = images(), image_action("rotation")
    model = with_square(Wrong.apply)
    with torch.no_grad():  # nothing is taken from the backward function
        found = lie_derivative(model, x, action)
    torch.testing.assert_close(found, by_differences(model, x, action), rtol=1e-5, atol=1e-8)
    with pytest.raises(RuntimeError, match=r"expected backward functions that are derivatives"):
        lie_derivative(model, x, action)
    with pytest.raises(RuntimeError, match=r"expected backward functions that are derivatives"):
        layerwise(model, x, action)


def test_numpy_within() -> None:
    """With a backward function it can be differentiated, but not followed; without, neither."""
    x, action = images(), image_action("rotation")
    model = with_square(InNumpy.apply)
    found = lie_derivative(model, x, action).detach()
    torch.testing.assert_close(found, by_differences(model, x, action), rtol=1e-5, atol=1e-8)
    with pytest.raises(ValueError, match=r"follows from the input by PyTorch operations"):
        layerwise(model, x, action)
    hidden = with_square(lambda y: y + torch.from_numpy(y.detach().numpy() ** 2))
    for measure in (lie_derivative, layerwise):
        with pytest.raises(RuntimeError, match=r"computes with PyTorch's functions.*got numpy"):
            measure(hidden, x, action)


@pytest.mark.parametrize("leave", [lambda y: y.mean().item(), lambda y: float(y.mean())])
def test_numbers_that_leave_pytorch(leave: Callable[[Tensor], float]) -> None:
    """Python's numbers have no derivative: a model that depends on them is refused."""
    x = images()
    hidden = with_square(lambda y: y * leave(y))
    for measure in (lie_derivative, layerwise):
        with (
            torch.no_grad(),
            pytest.raises(RuntimeError, match=r"hides how outputs move"),
        ):
            measure(hidden, x, "rotation")
    harmless = with_square(lambda y: y * (2 if leave(y) > -9 else 1))
    with torch.no_grad():
        found = lie_derivative(harmless, x, "rotation")
    expected = by_differences(harmless, x, image_action("rotation"))
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-8)


def test_scripted_modules_are_refused_by_name() -> None:
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        scripted = torch.jit.script(nn.Sequential(nn.ReLU(), conv(4, 4)))
    model = nn.Sequential(conv(), scripted, nn.AdaptiveAvgPool2d(1), nn.Flatten()).double()
    x, action = images(), image_action("rotation")
    with pytest.raises(RuntimeError, match=r"run in Python.*got a scripted one at 1;"):
        layerwise(model, x, action)
    assert state(model)[0] == [0] * len(list(model.modules()))
    with torch.no_grad():
        found = lie_derivative(model, x, action)
    torch.testing.assert_close(found, by_differences(model, x, action), rtol=1e-5, atol=1e-8)


@pytest.fixture
def compiled() -> Iterator[nn.Module]:
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        inner = torch.compile(nn.Sequential(nn.ReLU(), conv(4, 4)).double(), backend="eager")
        yield nn.Sequential(conv().double(), inner, nn.AdaptiveAvgPool2d(1), nn.Flatten())


def test_compiled_modules_run_as_written(compiled: nn.Module) -> None:
    x, action = images(), image_action("rotation")
    with torch.compiler.set_stance("force_eager"):
        expected = by_differences(compiled, x, action)
    found = layerwise(compiled, x, action)
    assert found.closure < 1e-12
    assert found.lee == pytest.approx(float(expected.square().mean()), rel=1e-5)
    assert any("relu" in layer.name or layer.kind == "activation" for layer in found.layers)
    torch.testing.assert_close(
        lie_derivative(compiled, x, action).detach(), expected, rtol=1e-5, atol=1e-8
    )


def test_checkpoints() -> None:
    model = with_square(lambda y: checkpoint(torch.tanh, y, use_reentrant=False))
    plain = with_square(torch.tanh)
    assert_same(layerwise(model, images(), "scale"), layerwise(plain, images(), "scale"), 1e-12)


# --- bad input --------------------------------------------------------------------------------


def test_randomness_is_refused() -> None:
    dropping = with_square(lambda y: F.dropout(y, 0.5))
    with pytest.raises(
        ValueError, match=r"draws no random numbers in evaluation mode, got dropout"
    ):
        layerwise(dropping, images(), "rotation")
    noisy = with_square(lambda y: y * torch.rand_like(y))
    with pytest.raises(RuntimeError, match=r"add up.* or draws random numbers"):
        layerwise(noisy, images(), "rotation")
    parts = {"drop": nn.Dropout(0.5), "conv": conv(), "head": nn.Linear(4, 3)}
    still = Written(lambda m, x: m.head(m.drop(m.conv(x)).mean((2, 3))), **parts).train().double()
    assert layerwise(still, images(), "rotation").closure < 1e-12


def test_changes_that_backward_passes_cannot_follow() -> None:
    def overwrite(y: Tensor) -> Tensor:
        z = y.sigmoid()
        out = z * y
        y.zero_()
        return out

    model = with_square(overwrite)
    found = layerwise(model, images(), "rotation")
    expected = with_square(lambda y: y * y.sigmoid())
    assert found.lee == pytest.approx(layerwise(expected, images(), "rotation").lee)
    with pytest.raises(RuntimeError, match=r'by backward passes.*method="forward" does without'):
        layerwise(model, images(), "rotation", method="reverse")


def test_outputs_that_are_not_finite_are_refused() -> None:
    model = with_square(lambda y: (y - y.amax()).log())
    for method in ("forward", "reverse"):
        with pytest.raises(ValueError, match=r"expected finite outputs and derivatives under rot"):
            layerwise(model, images(), "rotation", method=method)  # type: ignore[arg-type]


def test_complex_outputs() -> None:
    model = with_square(torch.fft.fft2)
    model.head = nn.Identity()
    found = layerwise(model, images(), "rotation")
    slope = by_differences(model, images(), image_action("rotation"))
    assert found.lee == pytest.approx(float(slope.abs().square().mean()), rel=1e-5)
    with pytest.raises(ValueError, match=r'real outputs unless method="forward", got torch.comp'):
        layerwise(model, images(), "rotation", method="reverse")
    pictures = Written(
        lambda m, x: torch.complex(m.conv(x), x[:, :1] * 2), conv=conv(3, 1)
    ).double()
    parts = Written(lambda m, x: torch.cat([m.conv(x), x[:, :1] * 2], 1), conv=pictures.conv)
    both = layerwise(pictures, images(), "rotation").lee
    assert both == pytest.approx(2 * layerwise(parts, images(), "rotation").lee)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "backward"}, r"expected a method among forward, reverse, probes, got 'backwa"),
        ({"batch_size": 0}, r"batch size of at least 1 and at least 2 probes, got 0 and 100"),
        ({"probes": 1}, r"batch size of at least 1 and at least 2 probes, got 4 and 1"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        layerwise(nn.Identity(), images(), "rotation", **options)


def test_outputs_that_do_not_follow_are_refused() -> None:
    with pytest.raises(ValueError, match=r"follows from the input by PyTorch operations"):
        layerwise(lambda x: torch.ones(len(x), 3), images(), "rotation")
    with pytest.raises(ValueError, match=r"expected outputs on which rotation is known to act"):
        layerwise(lambda x: x.flatten()[:30].view(2, 3, 5), images(), "rotation")
    with pytest.raises(ValueError, match=r"got \(0, 3, 16, 16\)"):
        layerwise(nn.Identity(), images()[:0], "rotation")


def test_where_rounding_hides_the_sum_it_is_found_in_double_precision(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 14 * 14, 2))
    x = torch.rand(1, 3, 16, 16)

    def rounded(f: Any, x: Tensor, tangent: Tensor) -> tuple[Tensor, Tensor]:
        y, moved = torch.func.jvp(f, (x,), (tangent.contiguous(),))
        return (moved * 1.05 if x.dtype == torch.float32 else moved), y  # a kink that flips

    monkeypatch.setattr("isotropy.equivariance._layerwise.forward_mode", rounded)
    found = layerwise(model, x, "rotation")
    exact = layerwise(deepcopy(model).double(), x.double(), "rotation")
    assert repr(found) == repr(exact)  # by repr: a number may be nan
    assert found.closure < 1e-12
    assert next(model.parameters()).dtype == torch.float32
    with pytest.raises(RuntimeError, match=r"expected contributions that add up"):
        layerwise(lambda x: model(x), x, "rotation")  # a function has no double


# --- who is charged ---------------------------------------------------------------------------


class Every(nn.Module):
    """Subsampling by slicing."""

    def forward(self, x: Tensor) -> Tensor:
        return x[..., ::2, ::2]


@pytest.mark.parametrize("where", ["module", "function"])
def test_slicing_is_charged_for_its_aliasing(where: str) -> None:
    torch.manual_seed(0)
    circular = nn.Conv2d(3, 2, 3, padding=1, padding_mode="circular")
    action = image_action("translation_x", boundary="periodic")
    if where == "module":
        model: Any = nn.Sequential(Every(), circular).double()
    else:
        circular.double()
        model = Written(lambda m, x: m.inner(x[..., ::2, ::2]), inner=circular)
    found = layerwise(model, images(), action)
    assert [layer.share for layer in found.layers] == [pytest.approx(1.0)]
    assert found.layers[0].name == ("0" if where == "module" else "getitem")
    same = layerwise(nn.Sequential(nn.MaxPool2d(1, 2), circular).double(), images(), action)
    assert found.layers[0].contribution == pytest.approx(same.layers[0].contribution)


def test_standard_errors_are_over_inputs_whatever_the_directions() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 14**2, 3))
    model.double()
    x = images(6)
    both = layerwise(model, x, "translation")
    for unit, layer in enumerate(both.layers):
        lengths = [
            sum(
                layerwise(model, x[i : i + 1], f"translation_{a}").layers[unit].contribution
                for a in "xy"
            )
            / 2
            for i in range(6)
        ]
        spread = torch.tensor(lengths, dtype=torch.float64)
        assert layer.contribution == pytest.approx(float(spread.mean()))
        assert layer.stderr == pytest.approx(float(spread.std()) / sqrt(6))
    alone = layerwise(model, x[:1], "translation")
    assert all(isnan(layer.stderr) for layer in alone.layers)


def test_standard_errors_of_probes_on_one_input_are_calibrated() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 14**2, 8))
    model.double()
    x = images(1)
    exact = layerwise(model, x, "rotation")
    scores = []
    for seed in range(40):
        found = layerwise(model, x, "rotation", method="probes", probes=60, generator=seed)
        for ours, true in zip(found.layers, exact.layers, strict=True):
            scores.append((ours.contribution - true.contribution) / ours.stderr)
    spread = torch.tensor(scores).std()
    assert 0.75 < float(spread) < 1.35


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_checked_too(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(conv(), nn.ReLU(), nn.Flatten(), nn.Linear(4 * SIZE**2, 2)).to(dtype)
    found = layerwise(model, images(dtype=dtype), "rotation")
    assert found.closure < 1e-3


def test_what_a_model_keeps_of_a_call_does_not_stay() -> None:
    class Keeps(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = conv().double()
            self.cached: Tensor | None = None
            self.is_cached = False

        def forward(self, x: Tensor) -> Tensor:
            self.last = self.inner(x)
            if not self.is_cached:
                self.cached, self.is_cached = torch.ones(1, dtype=x.dtype) + 0 * x.sum(), True
            return self.last.mean((2, 3)) * self.cached

    model = Keeps().train()
    layerwise(model, images(), "rotation")
    assert not hasattr(model, "last")
    assert model.cached is None
    assert not model.is_cached
    assert model.training
    deepcopy(model)
    assert model(images()).shape == (2, 4)


def test_threads_do_not_see_one_another() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(conv(), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(256, 3))
    model.double()
    x = images()
    expected = layerwise(model, x, "rotation")
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: layerwise(model, x, "rotation"), range(8)))
    assert all([u.name for u in one.layers] == [u.name for u in expected.layers] for one in found)
    assert all(one.lee == pytest.approx(expected.lee) for one in found)


def test_gradients_inside_a_model_are_not_lost() -> None:
    inner = conv().double()

    def descent(x: Tensor) -> Tensor:
        with torch.enable_grad():
            point = x.detach().requires_grad_()
            energy = inner(point).tanh().square().sum()
        (slope,) = torch.autograd.grad(energy, point)
        return (x - slope).mean((2, 3))

    with torch.no_grad(), pytest.raises(RuntimeError, match=r"computes with PyTorch's functions"):
        lie_derivative(descent, images(), "rotation")
