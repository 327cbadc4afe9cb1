"""Local equivariance errors on several sets, against each set measured by itself."""

from __future__ import annotations

from math import sqrt

import pytest
import torch
from torch import Tensor, nn

from isotropy.equivariance import LEE, lee
from isotropy_papers.equivariance_gap import EquivarianceGap, equivariance_gap


def images(count: int = 5, size: int = 8, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(count, 1, size, size, generator=generator, dtype=torch.float64)


def network(outputs: int = 3) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.Tanh(), nn.Flatten(), nn.Linear(144, outputs), nn.Softmax(-1)
    ).double()


def test_gap() -> None:
    model = network()
    sets = {"train": images(6), "test": images(5, seed=1), "noise": 2 * images(4, seed=2)}
    found = equivariance_gap(model, sets, "rotation", batch_size=4)
    alone = {name: lee(model, x, "rotation") for name, x in sets.items()}
    assert found.action == "rotation"
    assert list(found.sets) == list(sets)
    assert list(found.gaps()) == ["test", "noise"]
    for name, (gap, error) in found.gaps().items():
        assert gap == pytest.approx(alone[name].lee - alone["train"].lee)
        assert error == pytest.approx(sqrt(alone[name].stderr ** 2 + alone["train"].stderr ** 2))
    data = found.data()
    assert data["gaps"]["noise"]["gap"] == found.gaps()["noise"][0]
    assert data["sets"]["train"]["inputs"] == 6


def test_gap_needs_two_sets() -> None:
    with pytest.raises(ValueError, match=r"at least two sets of data by name, got 1"):
        equivariance_gap(network(), {"train": images()}, "rotation")
    with pytest.raises(ValueError, match=r"expected at least one input, got none"):
        equivariance_gap(network(), {"train": images(), "test": []}, "rotation")


def test_gap_of_equal_sets_is_nothing() -> None:
    same = LEE("rotation", 2.0, 0.5, 1.0, 0.1, 3)
    assert EquivarianceGap("rotation", {"a": same, "b": same}).gaps() == {"b": (0.0, sqrt(0.5))}
