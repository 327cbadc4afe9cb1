"""Where the data are: most new data, nothing far, in any linear coordinates."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from isotropy.discovery import DataSupport


def normal(n: int, width: int, seed: int) -> Tensor:
    return torch.randn(n, width, generator=torch.Generator().manual_seed(seed)).double()


@pytest.mark.parametrize("n", [1, 2, 6])
def test_support_holds_most_new_data_and_nothing_far(n: int) -> None:
    support = DataSupport(normal(500, n, 0))
    assert support.contains(normal(1000, n, 1)).double().mean() > 0.88
    assert not support.contains(normal(100, n, 2) + 8).any()
    assert not support.contains(torch.full((1, n), math.inf)).any()


def test_support_does_not_depend_on_linear_coordinates() -> None:
    x, images = normal(300, 3, 0), 2 * normal(500, 3, 1)
    change = torch.diag(torch.tensor([1e6, 1.0, 1e-5]).double()) @ (normal(3, 3, 2) + torch.eye(3))
    inside = DataSupport(x).contains(images)
    assert 0.1 < inside.double().mean() < 0.9
    assert torch.equal(inside, DataSupport(x @ change.T + 5).contains(images @ change.T + 5))


def test_support_keeps_to_what_is_constant() -> None:
    x = normal(100, 2, 0)
    x = torch.cat([x, x.sum(1, keepdim=True)], 1)
    support = DataSupport(x)
    assert support.directions == 2
    assert support.contains(x).double().mean() > 0.8
    assert not support.contains(x + torch.tensor([0.0, 0.0, 0.01])).any()


def test_support_errors() -> None:
    with pytest.raises(ValueError, match=r"expected at least 20 rows of data, got 19"):
        DataSupport(normal(19, 2, 0))
    with pytest.raises(ValueError, match=r"expected real data of shape \(N, n\), got .* \(30,\)"):
        DataSupport(torch.zeros(30))
    with pytest.raises(ValueError, match=r"expected finite data, got NaN or infinity"):
        DataSupport(torch.full((30, 2), math.nan))
    with pytest.raises(ValueError, match=r"expected data that vary, got the same row throughout"):
        DataSupport(torch.ones(30, 2))
    with pytest.raises(ValueError, match=r"expected a coverage between 0 and 1, got 1"):
        DataSupport(normal(30, 2, 0), coverage=1)
    with pytest.raises(ValueError, match=r"expected rows of width 2, got shape \(3, 3\)"):
        DataSupport(normal(30, 2, 0)).contains(normal(3, 3, 0))
