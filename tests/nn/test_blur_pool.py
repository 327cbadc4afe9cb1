"""Blurred subsampling against sums written out, and what `anti_aliased` makes of models."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from itertools import product
from math import comb
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from isotropy.nn import BlurPool2d, anti_aliased

NUMPY_MODES = {"reflect": "reflect", "circular": "wrap", "zeros": "constant", "replicate": "edge"}


def maps(*shape: int, seed: int = 0) -> Tensor:
    rng = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=rng)


def by_hand(x: Tensor, taps: int, stride: int, mode: str) -> Tensor:
    """Each output as the sum that defines it, along one axis after the other."""
    y = x.detach().numpy()
    for axis in (-2, -1):
        size = y.shape[axis]
        widths = [(0, 0)] * y.ndim
        widths[axis] = ((taps - 1) // 2, taps // 2)
        padded = np.pad(y, widths, mode=NUMPY_MODES[mode])  # type: ignore[call-overload]
        y = np.stack(
            [
                sum(
                    comb(taps - 1, i) / 2 ** (taps - 1) * padded.take(start + i, axis)
                    for i in range(taps)
                )
                for start in range(0, size, stride)
            ],
            axis,
        )
    return torch.from_numpy(y)


@pytest.mark.parametrize("mode", NUMPY_MODES)
@pytest.mark.parametrize("taps", [1, 2, 3, 4, 5, 8])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_sums_and_sizes(mode: Any, taps: int, stride: int) -> None:
    layer = BlurPool2d(taps=taps, stride=stride, padding_mode=mode, dtype=torch.float64)
    for size in ((8, 8), (9, 6), (7, 11), (1, 2), (3, 1)):
        x = maps(2, 3, *size)
        y = layer(x)
        assert y.shape == x[..., ::stride, ::stride].shape
        torch.testing.assert_close(y, by_hand(x, taps, stride, mode))


def test_each_axis_has_its_own_taps_and_stride() -> None:
    x = maps(2, 3, 9, 10)
    layer = BlurPool2d(taps=(1, 3), stride=(1, 2))
    rows = by_hand(x.reshape(54, 1, 10), 3, 2, "reflect")
    torch.testing.assert_close(layer(x), rows.reshape(2, 3, 9, 5))


@pytest.mark.parametrize("taps", [2, 3, 4, 5])
def test_constants_stay_and_the_finest_waves_go(taps: int) -> None:
    wave = (-1.0) ** torch.arange(8)
    for mode in ("reflect", "circular", "replicate"):
        layer = BlurPool2d(taps=taps, padding_mode=mode)  # type: ignore[arg-type]
        assert torch.equal(layer(torch.ones(1, 2, 8, 8)), torch.ones(1, 2, 4, 4))
    layer = BlurPool2d(taps=taps, padding_mode="circular")
    for x in (wave.expand(8, 8), wave[:, None].expand(8, 8), torch.outer(wave, wave)):
        assert x[::2, ::2].abs().min() == 1  # plain subsampling sees a constant
        assert layer(x[None]).abs().max() == 0


def test_shifts_by_the_stride() -> None:
    layer = BlurPool2d(taps=5, stride=3, padding_mode="circular")
    x = maps(1, 2, 12, 9)
    torch.testing.assert_close(layer(x.roll((3, -6), (2, 3))), layer(x).roll((1, -2), (2, 3)))


@pytest.mark.parametrize("taps", [3, 4])
def test_place(taps: int) -> None:
    ramp = torch.arange(16, dtype=torch.float64).expand(1, 16, 16)
    y = BlurPool2d(taps=taps, stride=4)(ramp)[0, 0]
    shift = 0 if taps % 2 else 0.5
    torch.testing.assert_close(y[1:], ramp[0, 0, 4::4] + shift)


def test_manners_of_a_module() -> None:
    layer = BlurPool2d(2, taps=3)
    x = maps(2, 2, 6, 5).float()
    y = layer(x)
    assert layer.state_dict() == {}
    assert list(layer.parameters()) == []
    buffer = io.BytesIO()
    torch.save(layer.state_dict(), buffer)
    layer.load_state_dict({}, strict=True)
    for twin in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert torch.equal(twin(x), y)
    assert torch.equal(layer(x[0]), y[0])  # no batch
    compiled = torch.compile(layer, fullgraph=True, backend="eager")
    assert torch.equal(compiled(x), y)
    assert torch.equal(compiled(x[..., :1]), layer(x[..., :1]))
    assert repr(layer) == "BlurPool2d(2, taps=3, stride=2, padding_mode='reflect')"
    assert repr(BlurPool2d(taps=(1, 4), stride=(1, 2), padding_mode="zeros")) == (
        "BlurPool2d(taps=(1, 4), stride=(1, 2), padding_mode='zeros')"
    )
    assert torch.autograd.gradcheck(layer.double(), (x.double().requires_grad_(),))
    assert layer.filter.dtype == torch.float64
    assert BlurPool2d(device="meta")(torch.zeros(1, 1, 4, 4, device="meta")).device.type == "meta"
    assert BlurPool2d(dtype=torch.bfloat16).filter.dtype == torch.bfloat16


def test_low_precision() -> None:
    x = maps(2, 3, 9, 9).float()
    layer = BlurPool2d()
    exact = layer(x)
    low = layer(x.bfloat16())
    assert low.dtype == torch.bfloat16
    torch.testing.assert_close(low.float(), exact, rtol=2e-2, atol=2e-2)
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(layer(x).float(), exact, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda: BlurPool2d(0), r"expected at least one channel, got 0"),
        (lambda: BlurPool2d(taps=0), r"expected taps of at least 1, got 0"),
        (lambda: BlurPool2d(stride=(2, 0)), r"expected stride of at least 1, got \(2, 0\)"),
        (lambda: BlurPool2d(taps=2.5), r"expected one or two whole numbers as taps, got 2\.5"),
        (lambda: BlurPool2d(stride=(1, 2, 3)), r"expected one or two .* stride, got \(1, 2, 3\)"),
        (
            lambda: BlurPool2d(padding_mode="wrap"),
            r"expected a padding among 'reflect', 'circular', 'zeros', 'replicate', got 'wrap'",
        ),
        (
            lambda: BlurPool2d(3)(torch.zeros(2, 4, 8, 8)),
            r"expected maps of shape \(n, 3, h, w\), got \(2, 4, 8, 8\)",
        ),
        (
            lambda: BlurPool2d()(torch.zeros(8, 8)),
            r"expected maps of shape \(n, channels, h, w\), got \(8, 8\)",
        ),
        (lambda: anti_aliased(nn.ReLU(), taps=0), r"expected taps of at least 1, got 0"),
        (
            lambda: anti_aliased(nn.Sequential(nn.MaxPool2d(2, return_indices=True))),
            r"0: expected a maximum without return_indices, got one with it",
        ),
        (
            lambda: anti_aliased(nn.MaxPool2d(2, 2, 1, ceil_mode=True)),
            r"MaxPool2d: expected windows that reach .* kernel_size 2, stride 2, padding 1",
        ),
        (
            lambda: anti_aliased(nn.AvgPool2d(3, 2, 1, ceil_mode=True)),
            r"AvgPool2d: expected windows that reach .* kernel_size 3, stride 2, padding 1",
        ),
        (
            lambda: anti_aliased(nn.AvgPool2d(2, divisor_override=1)),
            r"AvgPool2d: expected an average without divisor_override, got one with it",
        ),
    ],
)
def test_bad_inputs(build: Callable[[], Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        build()


# -- anti_aliased ----------------------------------------------------------------------------------


class Same(nn.Conv2d):
    """A convolution of the user's own, which pads in its forward pass."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(F.pad(x, (1, 1, 1, 1)))


STRIDED: dict[str, Callable[[], nn.Module]] = {
    "convolution": lambda: nn.Conv2d(4, 6, 3, stride=2, padding=1),
    "groups and dilation": lambda: nn.Conv2d(4, 4, 3, stride=3, dilation=2, groups=4),
    "one axis": lambda: nn.Conv2d(4, 6, (3, 5), stride=(1, 2), padding=(0, 2)),
    "circular": lambda: nn.Conv2d(4, 6, 3, 2, padding=1, padding_mode="circular", bias=False),
    "pointwise": lambda: nn.Conv2d(4, 6, 1, stride=2),
    "even": lambda: nn.Conv2d(4, 6, 2, stride=2),
    "of the user's own": lambda: Same(4, 6, 3, stride=2),
    "maximum": lambda: nn.MaxPool2d(3, stride=2, padding=1),
    "maximum over squares": lambda: nn.MaxPool2d(2),
    "maximum rounding up": lambda: nn.MaxPool2d(3, stride=2, ceil_mode=True),
    "maximum with holes": lambda: nn.MaxPool2d((3, 2), (2, 3), (1, 0), (2, 3), ceil_mode=True),
}
SIZES = ((8, 8), (9, 11), (7, 10), (12, 13))


@pytest.mark.parametrize("name", STRIDED)
def test_without_a_blur_nothing_changes(name: str) -> None:
    torch.manual_seed(0)
    model = STRIDED[name]().double()
    same = anti_aliased(model, taps=1)
    blurred = anti_aliased(model, taps=4)
    for size in SIZES:
        x = maps(2, 4, *size)
        torch.testing.assert_close(same(x), model(x))
        y = blurred(x)
        assert y.shape == model(x).shape
        assert torch.isfinite(y).all()
        assert not torch.allclose(y, model(x))


@pytest.mark.parametrize("name", ["convolution", "one axis", "maximum"])
def test_the_blur_is_that_of_every_window(name: str) -> None:
    torch.manual_seed(0)
    model = STRIDED[name]().double()
    dense = copy.deepcopy(model)
    dense.stride = (1, 1)
    x = maps(2, 4, 12, 11)
    if name == "one axis":
        y = dense(x)
        expected = by_hand(y.reshape(-1, 1, y.shape[-1]), 5, 2, "reflect").reshape(*y.shape[:3], -1)
    else:
        expected = by_hand(dense(x), 5, 2, "reflect")
    torch.testing.assert_close(anti_aliased(model, taps=5)(x), expected)


def test_averages_keep_size_and_place() -> None:
    line = torch.arange(17, dtype=torch.float64)
    tried = 0
    for kernel, stride, padding, up in product((1, 2, 3, 4, 5), (2, 3), (0, 1, 2), (False, True)):
        if padding > kernel // 2:
            continue
        pool = nn.AvgPool2d(kernel, stride, padding, ceil_mode=up)
        taps = 4 if kernel % 2 == 0 else 3
        try:
            blurred = anti_aliased(pool, taps=taps)
        except ValueError:
            assert up
            continue
        for size in range(8, 18):
            ramp = line[:size].expand(1, 3, size, size).clone()
            y, expected = blurred(ramp)[0, 0, 1], pool(ramp)[0, 0, 1]
            assert y.shape == expected.shape
            # both see the ramp's own value at the middle of a window that is clear of the border
            centres = torch.arange(len(y)) * stride + (kernel - 1) / 2 - padding
            inner = (centres - 2 >= max(0, kernel // 2 - padding)) & (centres + 2 <= size - 1)
            torch.testing.assert_close(y[inner], centres[inner].double())
        tried += 1
    assert tried > 20


def test_what_is_left_alone() -> None:
    for module in (
        nn.Conv2d(3, 8, 16, stride=16),
        nn.Conv2d(3, 8, (4, 6), stride=(4, 6)),
        nn.Conv2d(3, 8, 3, padding=1),
        nn.AvgPool2d(8),
        nn.AvgPool2d(3, 1, 1),
        nn.MaxPool2d(3, stride=1),
        nn.AdaptiveAvgPool2d(1),
    ):
        assert type(anti_aliased(module)) is type(module)
    assert isinstance(anti_aliased(nn.Conv2d(3, 8, 11, stride=4)), nn.Sequential)


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU(inplace=True))
        self.pool = nn.MaxPool2d(3, 2, 1)
        self.body = nn.Conv2d(8, 8, 3, padding=1)
        self.mean = nn.AvgPool2d(2)
        self.head = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.pool(self.stem(x))  # the same pooling twice
        x = self.mean(self.pool(torch.relu(self.body(x))))
        y: Tensor = self.head(x.mean((2, 3)))
        return y


def test_a_whole_model() -> None:
    torch.manual_seed(0)
    model = Network().double().eval()
    before = copy.deepcopy(model.state_dict())
    x = maps(4, 3, 64, 64)
    y = model(x)
    blurred = anti_aliased(model)
    assert torch.equal(model(x), y)
    assert model.stem[0].stride == (2, 2)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    kinds = [type(module).__name__ for module in blurred.modules()]
    assert kinds.count("BlurPool2d") == 3
    assert not blurred.training
    renamed = {name.replace("stem.0.", "stem.0.0."): value for name, value in before.items()}
    blurred.load_state_dict(renamed)
    with torch.no_grad():
        blurred.body.weight.zero_()
    assert torch.equal(model(x), y)


def test_shifts_change_less() -> None:
    torch.manual_seed(0)
    model = Network().double()
    x = maps(8, 3, 64, 64)
    moved = x.roll(1, 3)

    def change(net: nn.Module) -> Tensor:
        y = net(x)
        return (net(moved) - y).norm() / (y - y.mean(0)).norm()

    with torch.no_grad():
        plain, three, five = (
            change(net) for net in (model, anti_aliased(model, taps=3), anti_aliased(model, taps=5))
        )
    assert five < three < plain
    assert five < plain / 2


def test_hooks_and_parametrisations_survive() -> None:
    layer = nn.utils.parametrizations.weight_norm(nn.Conv2d(3, 4, 3, stride=2))
    x = maps(1, 3, 9, 9).float()
    torch.testing.assert_close(anti_aliased(layer, taps=1)(x), layer(x))
