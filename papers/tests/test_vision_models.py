"""Image classifiers: their sums by other means, their names and what they refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from isotropy_papers._vision_models import (
    Mixer,
    SmallCNN,
    ViT,
    ViTTokens,
    mixer_s16,
    resnet18,
    seeded,
    vit_tiny,
)

SMALL: dict[str, Callable[..., nn.Module]] = {
    "resnet": lambda **seed: resnet18(10, 4, "imagenet", **seed),
    "small resnet": lambda **seed: resnet18(10, 4, "small", **seed),
    "cnn": lambda **seed: SmallCNN(10, width=4, **seed),
    "vit": lambda **seed: ViT(32, 8, 24, 2, 3, classes=10, **seed),
    "vit with registers": lambda **seed: ViT(
        32, 8, 24, 2, 3, classes=10, tokens=ViTTokens(registers=4), **seed
    ),
    "vit without class token": lambda **seed: ViT(
        32, 8, 24, 2, 3, classes=10, tokens=ViTTokens(False, 2, "mean"), **seed
    ),
    "mixer": lambda **seed: Mixer(32, 8, 24, 2, 12, 48, classes=10, **seed),
}


def images(n: int, channels: int = 3, size: int = 32, **kind: Any) -> Tensor:
    return torch.rand(n, channels, size, size, generator=torch.Generator().manual_seed(5), **kind)


def perturbed(model: nn.Module) -> nn.Module:
    """Move every parameter and running statistic off its simple start."""
    rng = torch.Generator().manual_seed(6)
    with torch.no_grad():
        for tensor in (*model.parameters(), *model.buffers()):
            if tensor.is_floating_point():
                noise = torch.rand(tensor.shape, generator=rng, dtype=tensor.dtype)
                tensor.add_(0.3 * noise)
    return model.eval()


@pytest.mark.parametrize("name", SMALL)
def test_a_seed_decides_and_leaves_the_generator_alone(name: str) -> None:
    torch.manual_seed(0)
    before = torch.get_rng_state()
    first, second, other = SMALL[name](seed=1), SMALL[name](seed=1), SMALL[name](seed=2)
    assert torch.equal(torch.get_rng_state(), before)
    state = second.state_dict()
    assert all(torch.equal(value, state[key]) for key, value in first.state_dict().items())
    assert not torch.equal(first.eval()(images(2)), other.eval()(images(2)))
    torch.manual_seed(1)  # PyTorch's own seed does the same
    state = SMALL[name]().state_dict()
    assert all(torch.equal(value, state[key]) for key, value in first.state_dict().items())


def test_a_seed_that_is_none() -> None:
    with pytest.raises(TypeError, match=r"expected an int, a torch.Generator or None as the seed"):
        SmallCNN(seed="a")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"expected a seed in \[0, 2\*\*64\), got -1"):
        resnet18(seed=-1)


def test_an_error_leaves_the_generator_alone() -> None:
    before = torch.get_rng_state()
    with pytest.raises(ValueError, match=r"divides, got 30"), seeded(3):
        ViT(torch.randint(30, 31, ()).item(), 8)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("name", SMALL)
def test_outputs_depend_on_the_image(name: str) -> None:
    x = images(2).requires_grad_()
    logits = SMALL[name](seed=0).eval()(x)
    assert logits.shape == (2, 10)
    assert (logits[0] - logits[1]).abs().max() > 1e-3
    (slope,) = torch.autograd.grad(logits.square().sum(), x)
    assert (slope != 0).float().mean() > 0.9  # of every pixel, but where a ReLU or maximum is off


@pytest.mark.parametrize(
    ("build", "parameters"),
    [(resnet18, 11_689_512), (vit_tiny, 5_717_416), (mixer_s16, 18_528_264)],
)
def test_published_sizes(build: Callable[[], nn.Module], parameters: int) -> None:
    with torch.device("meta"):
        model = build()
    assert sum(p.numel() for p in model.parameters()) == parameters


def test_names_of_the_residual_network() -> None:
    norm = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")
    names = ["conv1.weight", *(f"bn1.{part}" for part in norm), "fc.weight", "fc.bias"]
    for stage in range(1, 5):
        for block in range(2):
            place = f"layer{stage}.{block}"
            for number in (1, 2):
                names.append(f"{place}.conv{number}.weight")
                names += [f"{place}.bn{number}.{part}" for part in norm]
        if stage > 1:
            names.append(f"layer{stage}.0.downsample.0.weight")
            names += [f"layer{stage}.0.downsample.1.{part}" for part in norm]
    assert set(resnet18(width=2).state_dict()) == set(names)


@pytest.mark.parametrize("stem", ["imagenet", "small"])
def test_the_residual_network_by_its_formula(stem: Any) -> None:
    model = perturbed(resnet18(7, 4, stem, channels=2, seed=0)).double()
    w = model.state_dict()

    def conv(x: Tensor, name: str, norm: str, stride: int) -> Tensor:
        weight = w[f"{name}.weight"]
        x = F.conv2d(x, weight, stride=stride, padding=weight.shape[-1] // 2)
        mean, var, gain, shift = (
            w[f"{norm}.{part}"][:, None, None]
            for part in ("running_mean", "running_var", "weight", "bias")
        )
        return (x - mean) / (var + 1e-5).sqrt() * gain + shift

    x = images(2, 2, 40, dtype=torch.float64)
    large = stem == "imagenet"
    y = conv(x, "conv1", "bn1", 2 if large else 1).clamp(min=0)
    assert w["conv1.weight"].shape[-1] == (7 if large else 3)
    if large:
        y = F.max_pool2d(y, 3, 2, 1)
    for stage in range(1, 5):
        for block in range(2):
            place, stride = f"layer{stage}.{block}", 2 if stage > 1 and block == 0 else 1
            z = conv(y, f"{place}.conv1", f"{place}.bn1", stride).clamp(min=0)
            z = conv(z, f"{place}.conv2", f"{place}.bn2", 1)
            if f"{place}.downsample.0.weight" in w:
                y = conv(y, f"{place}.downsample.0", f"{place}.downsample.1", stride)
            y = (y + z).clamp(min=0)
    expected = y.mean((2, 3)) @ w["fc.weight"].T + w["fc.bias"]
    torch.testing.assert_close(model(x), expected)


def test_the_transformer_against_torch() -> None:
    model = perturbed(ViT(12, 4, 12, 3, 2, mlp_ratio=2, classes=5, channels=2, seed=0)).double()
    w = model.state_dict()
    x = images(3, 2, 12, dtype=torch.float64)
    patches = x.reshape(3, 2, 3, 4, 3, 4).permute(0, 2, 4, 1, 3, 5).reshape(3, 9, 32)
    tokens = patches @ w["patch_embed.proj.weight"].flatten(1).T + w["patch_embed.proj.bias"]
    tokens = torch.cat([w["cls_token"].expand(3, 1, 12), tokens], 1) + w["pos_embed"]
    renamed = {
        "norm1": "norm1",
        "norm2": "norm2",
        "attn.proj": "self_attn.out_proj",
        "mlp.fc1": "linear1",
        "mlp.fc2": "linear2",
    }
    for block in range(3):
        layer = nn.TransformerEncoderLayer(
            12, 2, 24, 0.0, "gelu", 1e-6, batch_first=True, norm_first=True, dtype=torch.float64
        )
        state = {
            f"{theirs}.{part}": w[f"blocks.{block}.{ours}.{part}"]
            for ours, theirs in renamed.items()
            for part in ("weight", "bias")
        }
        for part in ("weight", "bias"):
            state[f"self_attn.in_proj_{part}"] = w[f"blocks.{block}.attn.qkv.{part}"]
        layer.load_state_dict(state)
        tokens = layer(tokens)
    tokens = F.layer_norm(tokens, (12,), w["norm.weight"], w["norm.bias"], 1e-6)
    torch.testing.assert_close(model.tokens(x), tokens)
    torch.testing.assert_close(model(x), tokens[:, 0] @ w["head.weight"].T + w["head.bias"])


@pytest.mark.parametrize("class_token", [True, False])
@pytest.mark.parametrize("registers", [0, 3])
def test_tokens_and_the_mean_of_patches(class_token: bool, registers: int) -> None:
    beside = ViTTokens(class_token, registers, "mean")
    model = ViT(32, 8, 24, 1, 3, classes=5, tokens=beside, seed=0)
    x = images(2)
    tokens = model.tokens(x)
    assert tokens.shape == (2, 16 + class_token + registers, 24)
    torch.testing.assert_close(model(x), model.head(tokens[:, -16:].mean(1)))


def test_without_positions_patches_may_be_shuffled() -> None:
    model = ViT(32, 8, 24, 2, 3, classes=5, tokens=ViTTokens(registers=2), seed=0)
    x = images(2)
    grid = x.reshape(2, 3, 4, 8, 4, 8)
    shuffled = grid[:, :, [2, 0, 3, 1]][:, :, :, :, [1, 3, 0, 2]].reshape(x.shape)
    assert (model(x) - model(shuffled)).abs().max() > 1e-4
    with torch.no_grad():
        model.pos_embed.zero_()
    torch.testing.assert_close(model(x), model(shuffled))


def test_the_mixer_by_its_formula() -> None:
    model = perturbed(Mixer(12, 4, 6, 2, 5, 7, classes=4, channels=2, seed=0)).double()
    w = model.state_dict()
    x = images(3, 2, 12, dtype=torch.float64)
    y = torch.einsum(
        "ncaibj,dcij->nabd", x.reshape(3, 2, 3, 4, 3, 4), w["stem.proj.weight"]
    ).reshape(3, 9, 6)
    y = y + w["stem.proj.bias"]

    def norm(y: Tensor, name: str) -> Tensor:
        z = (y - y.mean(-1, True)) / (y.var(-1, unbiased=False, keepdim=True) + 1e-6).sqrt()
        return z * w[f"{name}.weight"] + w[f"{name}.bias"]

    def mlp(y: Tensor, name: str) -> Tensor:
        z = F.gelu(y @ w[f"{name}.fc1.weight"].T + w[f"{name}.fc1.bias"])
        return z @ w[f"{name}.fc2.weight"].T + w[f"{name}.fc2.bias"]

    for block in ("blocks.0", "blocks.1"):
        y = y + mlp(norm(y, f"{block}.norm1").mT, f"{block}.mlp_tokens").mT
        y = y + mlp(norm(y, f"{block}.norm2"), f"{block}.mlp_channels")
    expected = norm(y, "norm").mean(1) @ w["head.weight"].T + w["head.bias"]
    torch.testing.assert_close(model(x), expected)


def test_the_small_network_by_its_formula() -> None:
    model = SmallCNN(5, channels=1, width=2, seed=0).double()
    x = images(2, 1, 13, dtype=torch.float64)
    y = x
    for conv, size in ((model.conv1, 6), (model.conv2, 3)):
        y = conv(y).clamp(min=0)
        # the maximum over squares of 2×2 pixels, an odd row or column left out
        y = y[..., : 2 * size, : 2 * size].reshape(2, -1, size, 2, size, 2).amax((3, 5))
    y = model.conv3(y).clamp(min=0).sum((2, 3)) / 9
    torch.testing.assert_close(model(x), y @ model.fc.weight.T + model.fc.bias)


@pytest.mark.parametrize("name", SMALL)
def test_models_compile_and_train(name: str) -> None:
    model = SMALL[name](seed=0)
    x, y = images(8), torch.arange(8)
    optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
    losses = []
    for _ in range(6):
        loss = F.cross_entropy(model(x), y)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < losses[0]
    model.eval()
    compiled = torch.compile(model, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(x), model(x))


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda: resnet18(0), r"expected classes of at least 1, got 0"),
        (lambda: resnet18(width=-1), r"expected width of at least 1, got -1"),
        (lambda: resnet18(stem="big"), r"expected the stem 'imagenet' or 'small', got 'big'"),
        (lambda: SmallCNN(channels=0), r"expected channels of at least 1, got 0"),
        (lambda: ViT(30, 8), r"expected an image size that 8, the patch, divides, got 30"),
        (lambda: ViT(32, 8, 10, heads=3), r"expected a width that 3, the heads, divides, got 10"),
        (lambda: ViT(32, 8, depth=0), r"expected depth of at least 1, got 0"),
        (lambda: ViT(32, 8, heads=0), r"expected heads of at least 1, got 0"),
        (lambda: ViTTokens(registers=-1), r"expected a number of registers, got -1"),
        (lambda: ViTTokens(pooling="max"), r"expected the pooling 'token' or 'mean', got 'max'"),
        (
            lambda: ViTTokens(class_token=False),
            r"expected the pooling 'mean' where there is no class token, got 'token'",
        ),
        (lambda: Mixer(32, 0), r"expected patch of at least 1, got 0"),
        (lambda: Mixer(32, 8, token_hidden=0), r"expected token_hidden of at least 1, got 0"),
        (
            lambda: ViT(32, 8, dim=6)(torch.zeros(2, 3, 32, 24)),
            r"expected images of shape \(n, 3, 32, 32\), got \(2, 3, 32, 24\)",
        ),
        (
            lambda: Mixer(32, 8, dim=6)(torch.zeros(3, 32, 32)),
            r"expected images of shape \(n, 3, 32, 32\), got \(3, 32, 32\)",
        ),
    ],
)
def test_bad_inputs(build: Callable[[], Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        build()
