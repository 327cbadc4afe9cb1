"""A convolution on a torus is torch's own with circular padding, and is recorded as such."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from isotropy.evidence import laplace
from isotropy.nn import CircularConv2d


# torch pads no further than around once
@pytest.mark.parametrize(
    ("size", "shape"),
    [(k, shape) for k in (1, 3, 5) for shape in ((6, 5), (2, 2), (1, 4)) if k // 2 <= min(shape)],
    ids=str,
)
def test_as_torch_does_it(size: int, shape: tuple[int, int]) -> None:
    layer = CircularConv2d(2, 3, size, dtype=torch.float64)
    plain = nn.Conv2d(2, 3, size, padding=size // 2, padding_mode="circular", dtype=torch.float64)
    plain.load_state_dict(layer.state_dict())
    x = torch.randn(4, 2, *shape, dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(layer(x), plain(x))
    ours, theirs = (torch.autograd.grad(f(x).pow(3).sum(), x)[0] for f in (layer, plain))
    torch.testing.assert_close(ours, theirs)


def test_every_shift_commutes() -> None:
    layer, x = CircularConv2d(2, 3), torch.randn(2, 2, 4, 5)
    for i in range(4):
        for j in range(5):
            shifted = layer(x.roll((i, j), (-2, -1)))
            torch.testing.assert_close(shifted, layer(x).roll((i, j), (-2, -1)))


def test_its_evidence_is_that_of_the_padded_layer() -> None:
    torch.manual_seed(0)
    x, y = torch.randn(30, 2, 4, 4, dtype=torch.float64), torch.arange(30) % 3
    layer = CircularConv2d(2, 4)
    rest = [nn.ReLU(), nn.Flatten(), nn.Linear(64, 3)]
    ours = nn.Sequential(layer, *rest).double()
    inner = nn.Conv2d(2, 4, 3)
    inner.load_state_dict(layer.state_dict())
    other = nn.Sequential(nn.CircularPad2d(1), inner, *rest).double()
    values = [
        laplace(model, "classification", (x, y)).log_marginal_likelihood()
        for model in (ours, other)
    ]
    torch.testing.assert_close(*values)


def test_starts_and_bad_input() -> None:
    layer = CircularConv2d(50, 60)
    assert not bool(layer.bias.any())
    assert float(layer.weight.detach().var()) == pytest.approx(2 / (50 * 9), rel=0.05)
    assert CircularConv2d(1, 1, bias=False).bias is None
    with pytest.raises(ValueError, match=r"expected an odd kernel size, got 4"):
        CircularConv2d(1, 1, 4)
    for size in (-1, 0, (3, 3), True):
        with pytest.raises(ValueError, match=r"expected an odd kernel size, got"):
            CircularConv2d(1, 1, size)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"at least 3 by 3 for a kernel of 7, got 2 by 2"):
        CircularConv2d(1, 1, 7)(torch.randn(1, 1, 2, 2))
