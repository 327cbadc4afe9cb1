"""Shifts of each layer by itself, against the layer taken out of its model."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from isotropy.equivariance import ShiftOptions, eq_t, layerwise_eq_t


def images(*shape: int, seed: int = 0) -> Tensor:
    rng = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=rng)


class Network(nn.Module):
    """Convolutions, an activation that works in place and is called twice, pooling, a head."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, 3, 3, padding=1, padding_mode="circular")
        self.act = nn.ReLU(inplace=True)
        self.down = nn.Conv2d(3, 4, 3, stride=2, padding=1, padding_mode="circular")
        self.norm = nn.BatchNorm2d(4)
        self.drop = nn.Dropout(0.5)
        self.head = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.act(self.stem(x))
        x = self.drop(self.act(self.norm(self.down(x))))
        return self.head(x.mean((2, 3)))


def network() -> Network:
    torch.manual_seed(0)
    return Network().double().eval()


@pytest.mark.parametrize("fractional", [True, False])
def test_each_layer_is_as_if_it_were_alone(fractional: bool) -> None:
    model, x = network(), images(2, 1, 8, 8)
    found = layerwise_eq_t(model, x, fractional=fractional, samples=4)
    with torch.no_grad():
        h1 = model.stem(x)
        h2 = torch.relu(h1)
        h3 = model.down(h2)
        h4 = model.norm(h3)
        h5 = torch.relu(h4)
    alone = {
        "stem": (model.stem, x),
        "act": (torch.relu, h1),
        "down": (model.down, h2),
        "norm": (model.norm, h3),
        "act (call 2)": (torch.relu, h4),
        "drop": (nn.Identity(), h5),
    }
    assert [layer.name for layer in found] == list(alone)
    for layer in found:
        f, h = alone[layer.name]
        expected = eq_t(f, h, fractional=fractional, samples=4, output="NCHW")
        assert layer.error.value == pytest.approx(expected.value, abs=1e-20)
        assert layer.error.standard_error == pytest.approx(expected.standard_error, abs=1e-20)
    errors = {layer.name: layer.error.value for layer in found}
    assert errors["stem"] < 1e-28
    assert errors["norm"] < 1e-28
    # whole pixels see the stride but not the activation
    assert errors["down"] > 1e-4
    assert (errors["act"] > 1e-4) == fractional


def test_normalisations() -> None:
    model, x = network(), images(2, 1, 8, 8)
    options = {"fractional": True, "samples": 3}
    by_name = {}
    for name in ("1", "1/sqrt(N)", "1/N"):
        layers = layerwise_eq_t(model, x, normalisation=name, **options)  # type: ignore[arg-type]
        by_name[name] = {layer.name: layer for layer in layers}
    for name, size in (("act", 3 * 8 * 8), ("down", 4 * 4 * 4)):
        total = by_name["1"][name].error.value
        assert by_name["1"][name].size == size
        assert by_name["1/sqrt(N)"][name].error.value == pytest.approx(total / size**0.5)
        assert by_name["1/N"][name].error.value == pytest.approx(total / size)
    assert by_name["1/N"]["act"].error.kind == "mean squared error"
    assert by_name["1"]["act"].error.kind == "squared norm times 1"


def test_batch_size_and_margin() -> None:
    model, x = network(), images(5, 1, 8, 8)
    for shifts in (ShiftOptions(), ShiftOptions(margin=0.25, boundary="reflect")):
        found = [
            layerwise_eq_t(model, x, fractional=True, samples=2, batch_size=size, shifts=shifts)
            for size in (1, 2, 16)
        ]
        for other in found[1:]:
            for a, b in zip(found[0], other, strict=True):
                assert (a.name, a.kind, a.size) == (b.name, b.kind, b.size)
                assert b.error.value == pytest.approx(a.error.value, rel=1e-9, abs=1e-25)
    assert found[0][0].size == 3 * 4 * 4


def test_tokens_and_what_is_left_out() -> None:
    class Tokens(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Conv2d(1, 6, 2, 2)
            self.norm = nn.LayerNorm(6)
            self.mix = nn.Bilinear(6, 6, 2)  # two inputs: left out
            self.odd = nn.Linear(6, 2)  # three tokens tile nothing: left out

        def forward(self, x: Tensor) -> Tensor:
            tokens = self.norm(self.embed(x).flatten(2).mT)
            return self.mix(tokens, tokens).sum(1) + self.odd(tokens[:, :3].contiguous()).sum(1)

    torch.manual_seed(0)
    model = Tokens().double()
    found = layerwise_eq_t(model, images(2, 1, 12, 12), fractional=True, samples=2)
    assert [layer.name for layer in found] == ["embed", "norm"]
    assert all(layer.error.value > 1e-4 for layer in found)
    assert layerwise_eq_t(nn.Flatten().double(), images(2, 1, 4, 4)) == ()


def test_the_model_is_as_it_was() -> None:
    model = network().train()
    model.drop.eval()
    x = images(2, 1, 8, 8)
    kept = {name: value.clone() for name, value in model.state_dict().items()}
    layerwise_eq_t(model, x, samples=2)
    assert all(torch.equal(value, kept[name]) for name, value in model.state_dict().items())
    model.head = nn.Linear(5, 2).double()
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        layerwise_eq_t(model, x, samples=2)
    with pytest.raises(ValueError, match=r"outputs within a margin of 0.45, got none of a map of"):
        layerwise_eq_t(model, x[..., :2, :2], samples=2, shifts=ShiftOptions(margin=0.45))
    modules = list(model.modules())
    assert [module.training for module in modules].count(False) == 1
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in modules)


def test_bad_input() -> None:
    x = images(1, 1, 8, 8)
    with pytest.raises(TypeError, match=r"expected a module, got function"):
        layerwise_eq_t(lambda x: x, x)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"a normalisation among 1, 1/sqrt\(N\), 1/N, got 'sqrt'"):
        layerwise_eq_t(nn.ReLU(), x, normalisation="sqrt")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"expected inputs of shape \(N, C, H, W\) for shift"):
        layerwise_eq_t(nn.ReLU(), x[0])
