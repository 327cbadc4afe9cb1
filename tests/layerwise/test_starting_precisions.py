"""What paths begin with, before the evidence is asked."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from isotropy.layerwise import begin_with_strict_paths, starting_precisions
from isotropy.nn import LayerwiseNetwork, MapLinear, PathSum


def tensors(model: nn.Module) -> list[str]:
    return [name for name, _ in model.named_parameters()]


def test_all_but_the_most_symmetric_paths_are_held_back() -> None:
    torch.manual_seed(0)
    for paths, held in (
        (("factored", "conv"), {"factored"}),
        (("factored", "conv", "group_conv"), {"factored", "conv"}),
        (("sparse_fc", "sparse_conv"), {"sparse_fc"}),
        (("fc",), set()),
    ):
        model = LayerwiseNetwork(1, 3, paths=paths, alpha=1)
        found = starting_precisions(model, tensors(model), 10.0)
        for name, parameter in model.named_parameters():
            path = name.split(".")[3] if name.startswith("layers") else ""
            last = name.rpartition(".")[2]
            if path not in held or last == "omega":
                assert found[name] == 1, name
            elif "bias" in last:
                assert found[name] == 10, name
            else:
                square = float(parameter.detach().double().square().mean())
                assert found[name] == pytest.approx(10 / square), name


def test_what_paths_carry_is_kept() -> None:
    paths = {"fc": MapLinear(1, 1, 4), "conv": nn.Conv2d(1, 1, 3, padding=1)}
    model = PathSum(paths, prior_variances={"fc": 0.25})
    found = starting_precisions(model, tensors(model), 10.0)
    assert found == pytest.approx(
        {
            "paths.fc.weight": 4,
            "paths.fc.bias": 4,
            "paths.conv.weight": 1,
            "paths.conv.bias": 1,
        }
    )
    plain = PathSum({"fc": MapLinear(1, 1, 4), "conv": nn.Conv2d(1, 1, 3, padding=1)})
    assert set(starting_precisions(plain, tensors(plain), None).values()) == {1.0}


@pytest.mark.parametrize("form", ["full", "separable", "depthwise", "pointwise"])
def test_strict_paths_begin_with_the_gain_of_all(form: Any) -> None:
    torch.manual_seed(0)
    paths: Any = ("factored", "conv", "group_conv")
    model = LayerwiseNetwork(1, 3, paths=paths, alpha=1, form=form)
    x = torch.randn(2, 2, 4, 16, 16)
    strict = model.layers[3].paths["group_conv"]  # type: ignore[union-attr, index]
    free = model.layers[3].paths["conv"]  # type: ignore[union-attr, index]
    with torch.no_grad():
        before, unchanged = strict(x), free(x)
        begin_with_strict_paths(model)
        torch.testing.assert_close(strict(x), 3 * before)
        assert torch.equal(free(x), unchanged)


@pytest.mark.parametrize("number", [0.0, -1.0, float("nan"), float("inf")], ids=str)
def test_only_positive_numbers(number: float) -> None:
    model = PathSum({"fc": MapLinear(1, 1, 4)})
    with pytest.raises(ValueError, match=r"expected hold_back to be positive or None, got"):
        starting_precisions(model, tensors(model), number)
