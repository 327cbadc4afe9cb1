"""Derivatives, shifts and resampling against numpy's FFT and Fourier sums written out."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from isotropy.equivariance._interpolation import (
    Boundary,
    check_rules,
    derivative,
    difference,
    resample,
    shift,
)

SIZES = [1, 2, 3, 4, 5, 8, 9]
BOUNDARIES: tuple[Boundary, ...] = ("periodic", "reflect")


def rows(n: int, seed: int = 0) -> Tensor:
    rng = torch.Generator().manual_seed(seed)
    return torch.randn(3, n, dtype=torch.float64, generator=rng)


def mirrored(x: Tensor, boundary: Boundary) -> NDArray[np.float64]:
    """One whole period of the signal."""
    return (x if boundary == "periodic" else torch.cat([x, x.flip(-1)], -1)).numpy()


def fourier_sum(x: Tensor, places: NDArray[np.float64], boundary: Boundary) -> Tensor:
    """Σ_k c_k e^{2πi k p/N}, one term at a time, the Nyquist frequency as a cosine."""
    period = mirrored(x, boundary)
    n = period.shape[-1]
    total = np.zeros((len(period), len(places)), dtype=complex)
    for k in range(-(n // 2), n // 2 + 1):
        coefficient = (period * np.exp(-2j * np.pi * k * np.arange(n) / n)).mean(-1)
        share = 0.5 if 2 * abs(k) == n else 1.0  # ±n/2 are one frequency in the samples
        total += share * coefficient[:, None] * np.exp(2j * np.pi * k * places / n)
    return torch.from_numpy(total.real)


@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize("n", SIZES)
def test_derivative_is_that_of_numpys_fft(n: int, boundary: Boundary) -> None:
    x = rows(n)
    period = mirrored(x, boundary)
    size = period.shape[-1]
    frequency = np.fft.fftfreq(size, 1 / size)
    if size % 2 == 0:
        frequency[size // 2] = 0
    length = size / n
    slope = np.fft.ifft(np.fft.fft(period) * 2j * np.pi * frequency / length).real[:, :n]
    found = x @ derivative(n, boundary, x).mT
    torch.testing.assert_close(found, torch.from_numpy(slope), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("n", [4, 7])
def test_derivative_of_mirrored_waves_in_closed_form(n: int) -> None:
    # cos(πm(j + ½)/n) is even about both ends
    place = (torch.arange(n, dtype=torch.float64) + 0.5) / n
    for m in range(n):
        wave = torch.cos(torch.pi * m * place)
        slope = -torch.pi * m * torch.sin(torch.pi * m * place)
        torch.testing.assert_close(
            derivative(n, "reflect", wave) @ wave, slope, rtol=1e-12, atol=1e-12
        )


@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize("n", SIZES)
def test_resample_is_the_fourier_sum(n: int, boundary: Boundary) -> None:
    x = rows(n)
    inside = np.linspace(-0.5, n - 0.5, 13)
    places = np.concatenate([inside, np.arange(n), [-n - 0.3, 2.6 * n, 5.0 * n]])
    found = resample(x, torch.from_numpy(places), boundary)
    torch.testing.assert_close(found, fourier_sum(x, places, boundary), rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(found[:, 13 : 13 + n], x)


@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize("n", SIZES)
def test_shift_is_the_fourier_sum(n: int, boundary: Boundary) -> None:
    x = rows(n)
    for by in (0.0, 0.37, -1.9, 2.5 * n):
        found = shift(x, torch.tensor(by), boundary)
        expected = fourier_sum(x, np.arange(n) - by, boundary)
        # the doubled signal has no Nyquist frequency of its own, so nothing is lost
        torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)
    steps = torch.tensor([0.2, -1.0, 3.3], dtype=torch.float64)
    each = shift(x, steps, boundary)
    for i in range(3):
        torch.testing.assert_close(each[i], shift(x[i], steps[i], boundary))


@pytest.mark.parametrize("n", SIZES)
def test_whole_shifts_move_samples(n: int) -> None:
    x = rows(n)
    for by in range(-n, n + 1):
        step = torch.tensor(float(by))
        torch.testing.assert_close(shift(x, step, "periodic"), x.roll(by, -1))
        period = torch.cat([x, x.flip(-1)], -1)
        torch.testing.assert_close(shift(x, step, "reflect"), period.roll(by, -1)[:, :n])


@pytest.mark.parametrize("n", SIZES)
def test_shifts_add_up_on_the_circle(n: int) -> None:
    x = rows(n)
    if n % 2 == 0:  # the highest frequency is a standing cosine, which a shift only dampens
        x = x - (x * (-1.0) ** torch.arange(n)).mean(-1, True) * (-1.0) ** torch.arange(n)
    a, b = torch.tensor(0.3, dtype=torch.float64), torch.tensor(1.45, dtype=torch.float64)
    twice = shift(shift(x, a, "periodic"), b, "periodic")
    torch.testing.assert_close(twice, shift(x, a + b, "periodic"))


@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize("n", [1, 4, 5])
def test_differences_are_those_of_neighbours(n: int, boundary: Boundary) -> None:
    x = rows(n)
    period = torch.from_numpy(mirrored(x, boundary))
    after, before = period.roll(-1, -1)[:, :n], period.roll(1, -1)[:, :n]
    if boundary == "reflect":
        before[:, 0] = x[:, 0]
    forward = x @ difference(n, boundary, True, x).mT
    backward = x @ difference(n, boundary, False, x).mT
    torch.testing.assert_close(forward, n * (after - x))
    torch.testing.assert_close(backward, n * (x - before))


@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize("n", [3, 4, 9])
def test_gradients_of_places_and_steps_are_the_derivative(n: int, boundary: Boundary) -> None:
    x = rows(n)
    slope = x @ derivative(n, boundary, x).mT / n  # in samples
    places = torch.arange(n, dtype=torch.float64)
    one = torch.ones_like(places)
    _, found = torch.func.jvp(lambda p: resample(x, p, boundary), (places,), (one,))
    torch.testing.assert_close(found, slope, rtol=1e-10, atol=1e-10)
    zero, unit = torch.zeros(1, dtype=torch.float64), torch.ones(1, dtype=torch.float64)
    _, found = torch.func.jvp(lambda by: shift(x, by, boundary), (zero,), (unit,))
    torch.testing.assert_close(found, -slope, rtol=1e-10, atol=1e-10)


def test_precision_and_type() -> None:
    x = rows(9)
    for boundary in BOUNDARIES:
        single = x.float()
        assert derivative(9, boundary, single).dtype == torch.float32
        assert derivative(9, boundary, x.to(torch.complex64)).dtype == torch.float32
        step, places = torch.tensor(0.7), torch.linspace(0, 8, 20)
        for low, high in (
            (shift(single, step, boundary), shift(x, step, boundary)),
            (resample(single, places, boundary), resample(x, places, boundary)),
        ):
            torch.testing.assert_close(low.double(), high, rtol=1e-4, atol=1e-5)


def test_bad_rules() -> None:
    check_rules("periodic", "fourier", "central")
    with pytest.raises(ValueError, match=r"a boundary among periodic, reflect, got 'zeros'"):
        check_rules("zeros", "fourier", "central")
    with pytest.raises(ValueError, match=r"an? interpolation among fourier, bilinear, got 'cubic'"):
        check_rules("periodic", "cubic", "central")
    with pytest.raises(ValueError, match=r"a side among plus, minus, central, got 'left'"):
        check_rules("periodic", "fourier", "left")
