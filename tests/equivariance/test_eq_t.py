"""EQ-T and EQ-T_frac against rolls, Fourier phases by numpy, and integrals over the shifts."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from isotropy.equivariance import ShiftOptions, eq_t


def normal(*shape: int, seed: int = 0) -> Tensor:
    rng = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=rng)


def first_pixel(x: Tensor) -> Tensor:
    return x[:, :, 0, 0]


def shifted(x: Tensor, across: float, down: float) -> Tensor:
    """By Fourier phases, in pixels; for odd sizes."""
    height, width = x.shape[-2:]
    phase = np.exp(
        -2j * np.pi * (np.fft.fftfreq(height)[:, None] * down + np.fft.fftfreq(width) * across)
    )
    return torch.from_numpy(np.fft.ifft2(np.fft.fft2(x.numpy()) * phase).real)


def test_shifts_by_whole_pixels_and_their_chances() -> None:
    # an eighth of 16 pixels is 2: rounded, −2 … 2 with chances 1:2:2:2:1
    x = normal(3, 1, 16, 16)
    chances = torch.tensor([1.0, 2, 2, 2, 1], dtype=torch.float64) / 8
    true = torch.zeros(3, dtype=torch.float64)
    for i in range(5):
        for j in range(5):
            gap = first_pixel(x.roll((i - 2, j - 2), (2, 3))) - first_pixel(x)
            true += chances[i] * chances[j] * gap[:, 0] ** 2
    for n in range(3):
        found = eq_t(first_pixel, x[n : n + 1], samples=120)
        assert abs(found.value - float(true[n])) < 4 * found.standard_error
    assert found.kind == "mean squared error"


def test_fractional_shifts_of_a_wave() -> None:
    # the first pixel of cos(2π(2x + y) + φ), shifted by (s, t), is cos(φ − 2π(2s + t))
    place = torch.arange(16, dtype=torch.float64) / 16
    wave = torch.cos(2 * torch.pi * (2 * place + place[:, None]) + 0.4).expand(1, 1, 16, 16)
    share = torch.linspace(-0.2, 0.2, 801, dtype=torch.float64)
    gap = torch.cos(0.4 - 2 * torch.pi * (2 * share + share[:, None]))
    true = float((gap - torch.cos(torch.tensor(0.4).double())).square().mean())
    found = eq_t(first_pixel, wave, fractional=True, shifts=ShiftOptions(fraction=0.2), samples=250)
    assert abs(found.value - true) < 4 * found.standard_error
    assert found.standard_error < 0.1 * true


@pytest.mark.parametrize("fractional", [True, False])
def test_outputs_are_shifted_back(fractional: bool) -> None:
    x = normal(2, 3, 9, 15)
    expected = torch.zeros(2, dtype=torch.float64)
    drawn = torch.rand(5, 2, generator=torch.Generator().manual_seed(7), dtype=torch.float64)
    for across, down in (0.3 * (2 * drawn - 1)).tolist():
        across, down = across * 15, down * 9
        if not fractional:
            across, down = round(across), round(down)
        moved = torch.relu(shifted(x, across, down))[..., ::3, ::5]
        back = shifted(moved, -across / 5, -down / 3)
        expected += (back - torch.relu(x)[..., ::3, ::5]).square().mean((1, 2, 3)) / 5
    found = eq_t(
        lambda x: torch.relu(x)[..., ::3, ::5],
        x,
        fractional=fractional,
        shifts=ShiftOptions(fraction=0.3),
        samples=5,
        output="NCHW",
        generator=7,
    )
    assert found.value == pytest.approx(float(expected.mean()))
    assert found.value > 1e-2


def test_a_circular_network_sees_no_whole_pixels_but_fractions() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1, padding_mode="circular"), nn.ReLU())
    model = model.double()
    x = normal(2, 1, 8, 12)
    assert eq_t(model, x).value < 1e-28
    assert eq_t(model, x, fractional=True).value > 1e-4
    # without the nonlinearity nothing is aliased, not even at the highest frequency
    assert eq_t(model[0], x, fractional=True).value < 1e-28
    last = x.movedim(1, -1)
    assert eq_t(torch.relu, last, fractional=True, channels_last=True).value == pytest.approx(
        eq_t(torch.relu, x, fractional=True).value
    )


def test_the_margin_keeps_the_edge_out() -> None:
    torch.manual_seed(0)
    model = nn.Conv2d(1, 2, 3, padding=1).double()
    x = normal(2, 1, 16, 16)
    for boundary in ("periodic", "reflect"):
        everywhere = eq_t(model, x, shifts=ShiftOptions(boundary=boundary))
        # the shift, a pixel of padding, and half a pixel to the middle of the last one
        inside = eq_t(model, x, shifts=ShiftOptions(boundary=boundary, margin=0.125 + 1.5 / 16))
        assert everywhere.value > 1e-3
        assert inside.value < 1e-28
        assert eq_t(model, x, shifts=ShiftOptions(boundary=boundary, margin=0.125)).value > 1e-5
    with pytest.raises(ValueError, match=r"outputs within a margin of 0.4, got none of a map of"):
        eq_t(model, x[..., :2, :2], shifts=ShiftOptions(margin=0.4))


def test_the_margin_counts_only_what_is_compared() -> None:
    # f adds 1 to all pixels, but only where the first pixel is not 5: the error is 1 everywhere
    x = torch.zeros(1, 1, 8, 8, dtype=torch.float64)
    x[..., 0, 0] = 5

    def f(x: Tensor) -> Tensor:
        return x + (x[:, :, :1, :1] < 4.9)

    options = {"samples": 20, "output": "NCHW"}
    everywhere = eq_t(f, x, **options)  # type: ignore[arg-type]
    inside = eq_t(f, x, shifts=ShiftOptions(margin=0.25), **options)  # type: ignore[arg-type]
    assert 0.3 < everywhere.value < 1
    assert inside.value == pytest.approx(everywhere.value)


def test_batch_size_and_mode() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Dropout(0.5), nn.Flatten(), nn.Linear(72, 3))
    model = model.double()
    x = normal(5, 1, 8, 8)
    found = [eq_t(model, x, samples=3, batch_size=size) for size in (1, 2, 16)]
    for other in found[1:]:
        assert other.value == pytest.approx(found[0].value, rel=1e-12)
    assert found[0].value > 0
    assert model.training
    assert eq_t(model.float(), x, samples=3).value == pytest.approx(found[0].value, rel=1e-4)


def test_bad_input() -> None:
    x = normal(2, 1, 8, 8)
    with pytest.raises(ValueError, match=r"a fraction of the size between 0 and 1/2, got 0.5"):
        eq_t(torch.relu, x, shifts=ShiftOptions(fraction=0.5))
    with pytest.raises(ValueError, match=r"a margin from 0 to below 1/2 of the size, got -0.1"):
        eq_t(torch.relu, x, shifts=ShiftOptions(margin=-0.1))
    with pytest.raises(ValueError, match=r"a boundary among periodic, reflect, got 'zeros'"):
        eq_t(torch.relu, x, shifts=ShiftOptions(boundary="zeros"))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"expected inputs of shape \(N, C, H, W\) for shift"):
        eq_t(torch.relu, x[0])
    with pytest.raises(ValueError, match=r"expected samples of at least one, got 0"):
        eq_t(torch.relu, x, samples=0)
