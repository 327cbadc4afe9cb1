import pytest
import torch
from torch import Tensor, nn

from isotropy.evidence import EffectiveParameters, laplace
from isotropy.layerwise import LayerType, layer_table, layer_types
from isotropy.nn import FactoredLinear, LayerwiseNetwork, PathSum, SparseConv2d


def factored_and_conv() -> nn.Sequential:
    paths = {"factored": FactoredLinear(1, 2, 4), "conv": nn.Conv2d(1, 2, 3, padding=1)}
    return nn.Sequential(PathSum(paths, average=True), nn.Flatten(), nn.Linear(32, 2))


def numbers(model: nn.Module, **counts: float) -> EffectiveParameters:
    """Effective numbers, zero but for tensors whose name ends as said."""
    own = dict(model.named_parameters())
    given = {n: next((c for k, c in counts.items() if n.endswith(k)), 0.0) for n in own}
    return EffectiveParameters(given, {n: p.numel() for n, p in own.items()})


def test_the_numbers_of_table_4() -> None:
    # row 6 of the table: an FC path of 80·16·80·4 weights and a CONV path of 80·80·9
    sizes = {"FC": 80 * 16 * 80 * 4, "CONV": 80 * 80 * 9}
    counts = {"FC": 0.00721232 * sizes["FC"], "CONV": 0.00000522 * sizes["CONV"]}
    layer = LayerType.of(counts, sizes)
    assert layer.kind == "FC"
    assert layer.paths["FC"] == pytest.approx(0.99927627, abs=1e-6)
    assert layer.paths["CONV"] == pytest.approx(0.00072373, abs=1e-6)


def test_factors_of_a_path_are_put_together_and_biases_left_out() -> None:
    model = factored_and_conv()
    counts = {"inner": 3.0, "outer": 5.0, "conv.weight": 9.0, "bias": 0.5}
    found = layer_types(model, numbers(model, **counts))
    assert list(found) == ["0"]
    layer = found["0"]
    # inner and outer have 2·1·16 entries each, the kernel has 2·1·3·3
    assert layer.normalised == pytest.approx({"factored": 8 / 64, "conv": 9 / 18})
    assert layer.paths == pytest.approx({"factored": 0.2, "conv": 0.8})
    assert layer.kind == "conv"


def test_mean_squares_and_precisions() -> None:
    model = factored_and_conv()
    soft = model[0]
    with torch.no_grad():
        for name, value in (("inner", 1.0), ("outer", 3.0), ("inner_bias", 7.0)):
            getattr(soft.paths["factored"], name).fill_(value)
    precisions = dict.fromkeys(dict(model.named_parameters()), 1.0)
    precisions["0.paths.factored.inner"], precisions["0.paths.factored.outer"] = 4.0, 1.0
    precisions["0.paths.factored.inner_bias"] = 1e6
    layer = layer_types(model, numbers(model, weight=1.0), precisions)["0"]
    assert layer.mean_squares["factored"] == 1.0
    kernel = soft.paths["conv"].weight.detach()
    assert layer.mean_squares["conv"] == pytest.approx(float(kernel.square().mean()))
    assert layer.precisions == {"factored": 4.0, "conv": 1.0}


def test_without_precisions_those_that_the_paths_carry() -> None:
    paths = {"a": nn.Linear(2, 2), "b": nn.Linear(2, 2)}
    model = PathSum(paths, prior_variances={"a": 0.01, "b": 4.0})
    layer = layer_types(model, numbers(model, weight=1.0))[""]
    assert layer.precisions == pytest.approx({"a": 100.0, "b": 0.25})


def test_gamma_of_a_laplace_approximation() -> None:
    # with inputs orthonormal over the samples all eigenvalues are n, and scale² n where scaled
    n, d, scale = 8, 4, 0.1

    class Scaled(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return scale * x

    scaled = nn.Sequential(Scaled(), nn.Linear(d, 1, bias=False))
    paths = {"plain": nn.Linear(d, 1, bias=False), "scaled": scaled}
    model = nn.Sequential(PathSum(paths)).double()
    x = torch.linalg.qr(torch.randn(n, d, dtype=torch.float64))[0] * n**0.5
    found = laplace(model, "regression", (x, torch.zeros(n)))
    effective = found.effective_parameters(2.0, by="tensor")
    layer = layer_types(model, effective, dict.fromkeys(effective.counts, 2.0))["0"]
    assert layer.normalised["plain"] == pytest.approx(n / (n + 2.0))
    assert layer.normalised["scaled"] == pytest.approx(n * scale**2 / (n * scale**2 + 2.0))


def test_every_layer_of_the_network_in_order() -> None:
    model = LayerwiseNetwork(1, 3, paths=("factored", "conv", "group_conv"), alpha=1)
    found = layer_types(model, numbers(model, weight=1.0))
    assert list(found) == [f"layers.{k}" for k in range(8)]
    assert all(list(layer.paths) == ["factored", "conv", "group_conv"] for layer in found.values())


def test_lengthscales_are_no_weights_and_hyperparameters_are_left_out() -> None:
    model = PathSum({"sparse": SparseConv2d(1, 2), "conv": nn.Conv2d(1, 2, 3, padding=1)})
    everything = numbers(model, omega=1.0, u=2.0, weight=3.0, bias=4.0)
    found = layer_types(model, everything)
    assert list(found) == [""]
    assert found[""].normalised == {
        "sparse": 2.0 / model.get_parameter("paths.sparse.u").numel(),
        "conv": 3.0 / model.get_parameter("paths.conv.weight").numel(),
    }
    few = {n: c for n, c in everything.counts.items() if "conv" not in n}
    assert list(layer_types(model, EffectiveParameters(few, everything.sizes))[""].paths) == [
        "sparse"
    ]


def test_a_sum_within_a_path_answers_for_itself() -> None:
    inner = PathSum({"a": nn.Linear(2, 2), "b": nn.Linear(2, 2)})
    model = PathSum({"soft": inner, "free": nn.Linear(2, 2)})
    found = layer_types(model, numbers(model, weight=1.0))
    assert {name: list(layer.paths) for name, layer in found.items()} == {
        "": ["free"],
        "paths.soft": ["a", "b"],
    }


def test_a_compiled_model() -> None:
    class Compiled(nn.Module):
        """As ``torch.compile`` leaves a network, in no time."""

        def __init__(self, model: nn.Module) -> None:
            super().__init__()
            self._orig_mod = model

    model = factored_and_conv()
    assert layer_types(Compiled(model), numbers(model, inner=1.0))["0"].kind == "factored"


def test_nothing_determined() -> None:
    layer = LayerType.of({"fc": 0.0, "conv": 0.0}, {"fc": 5, "conv": 2})
    assert layer.kind == "none"
    assert layer.paths == {"fc": 0.5, "conv": 0.5}
    assert layer.to_json()["kind"] == "none"
    lines = layer_table({"": layer}).splitlines()
    assert lines[1].split() == ["model", "fc", "0.00000", "0.50000", "none"]
    assert lines[2].split() == ["conv", "0.00000", "0.50000"]


def test_bad_input() -> None:
    model = factored_and_conv()
    with pytest.raises(ValueError, match=r"expected a model with PathSum layers.*none in Linear"):
        layer_types(nn.Linear(2, 2), EffectiveParameters({}, {}))
    by_path = EffectiveParameters({"0.paths.conv": 1.0}, {"0.paths.conv": 20})
    with pytest.raises(ValueError, match=r"by tensor of the model, got one of '0\.paths\.conv'"):
        layer_types(model, by_path)
    head = EffectiveParameters({"2.weight": 1.0}, {"2.weight": 64})
    with pytest.raises(ValueError, match=r"expected weights in paths of a PathSum .* got none"):
        layer_types(model, head)
    with pytest.raises(ValueError, match=r"precision for every tensor, got none for '0\.paths\.f"):
        layer_types(model, numbers(model), {"0.paths.conv.weight": 1.0})
