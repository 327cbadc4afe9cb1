"""Changed predictions against counting them over all shifts."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from isotropy.equivariance import consistency


def images(*shape: int, seed: int = 0) -> Tensor:
    rng = torch.Generator().manual_seed(seed)
    return torch.rand(*shape, generator=rng)


def first_pixel(x: Tensor) -> Tensor:
    return x[:, :, 0, 0]


@pytest.mark.parametrize("boundary", ["periodic", "reflect"])
def test_shifts_are_uniform_and_never_none(boundary: str) -> None:
    # the first pixel after a shift by (i, j) is the one at (−i, −j), mirrored where there is none
    x = images(1, 4, 6, 7)
    counted = []
    for i in range(-2, 3):
        for j in range(-2, 3):
            at = [-i, -j] if boundary == "periodic" else [k if k >= 0 else -k - 1 for k in (-i, -j)]
            if (i, j) != (0, 0):
                counted.append(int(x[0, :, at[0], at[1]].argmax() != x[0, :, 0, 0].argmax()))
    true = sum(counted) / 24
    found = consistency(first_pixel, x, pixels=2, samples=800, boundary=boundary)  # type: ignore[arg-type]
    assert abs(found.value - true) < 4 * found.standard_error
    assert found.kind == "share of changed predictions"
    assert 0 < true < 1


def test_no_shift_is_never_drawn() -> None:
    # a unique bright pixel: every shift moves it away from the corner
    x = torch.zeros(1, 1, 5, 5)
    x[..., 0, 0] = 1

    def corner(x: Tensor) -> Tensor:
        return torch.stack([x[:, 0, 0, 0], torch.full((len(x),), 0.5)], 1)

    assert consistency(corner, x, pixels=1, samples=200).value == 1
    assert consistency(lambda x: x.amax((2, 3)).repeat(1, 2), x, pixels=10).value == 0


def test_batch_size_channels_last_and_mode() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(2, 4, 3), nn.Dropout(), nn.Flatten(), nn.Linear(144, 9))
    x = images(7, 2, 8, 8)
    found = [consistency(model, x, samples=5, batch_size=size) for size in (1, 3, 16)]
    assert found[0] == found[1] == found[2]
    assert 0 < found[0].value < 1
    assert found[0].standard_error > 0
    assert model.training
    last = consistency(
        lambda x: model.eval()(x.movedim(-1, 1)), x.movedim(1, -1), samples=5, channels_last=True
    )
    assert last == found[0]
    assert consistency(model, x, samples=5, generator=3) != found[0]


def test_bad_input() -> None:
    x = images(2, 1, 4, 4)
    for pixels in (0, True, 1.5):
        with pytest.raises(ValueError, match=r"expected shifts by at least one pixel, got"):
            consistency(first_pixel, x, pixels=pixels)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"expected outputs of shape \(N, classes\), got"):
        consistency(torch.relu, x)
    with pytest.raises(ValueError, match=r"a boundary among periodic, reflect, got 'zeros'"):
        consistency(first_pixel, x, boundary="zeros")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"expected inputs of shape \(N, C, H, W\)"):
        consistency(first_pixel, x[0])
    with pytest.raises(ValueError, match=r"expected batch_size of at least one, got 0"):
        consistency(first_pixel, x, batch_size=0)
