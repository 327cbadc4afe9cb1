"""The mean of a table of errors, and its standard error."""

from __future__ import annotations

import math

import pytest
import torch

from isotropy.equivariance import SampledError, eq_t


@pytest.mark.parametrize("drawn", [True, False])
def test_standard_error_is_the_spread_of_the_mean_over_repetitions(drawn: bool) -> None:
    # errors with a part for each element, one for each input and one for each pair of them
    rng = torch.Generator().manual_seed(0)
    elements, inputs, repetitions = 4, 6, 3000
    rows = torch.randn(repetitions, elements, 1, generator=rng, dtype=torch.float64)
    columns = 2 * torch.randn(repetitions, 1, inputs, generator=rng, dtype=torch.float64)
    both = 3 * torch.randn(repetitions, elements, inputs, generator=rng, dtype=torch.float64)
    if not drawn:  # the same elements every time
        rows = rows[:1].expand_as(rows)
    found = [SampledError.of(table, "norm", drawn=drawn) for table in rows + columns + both]
    values = torch.tensor([each.value for each in found], dtype=torch.float64)
    squares = torch.tensor([each.standard_error**2 for each in found], dtype=torch.float64)
    true = (1 / elements if drawn else 0) + 4 / inputs + 9 / (elements * inputs)
    assert float(values.var()) == pytest.approx(true, rel=0.1)
    assert float(squares.mean()) == pytest.approx(true, rel=0.05)


def test_one_input_or_one_element() -> None:
    table = torch.tensor([[1.0], [3.0]])
    assert SampledError.of(table, "norm", drawn=True) == SampledError(2.0, 1.0, "norm", 1, 2)
    assert math.isnan(SampledError.of(table, "norm", drawn=False).standard_error)
    assert SampledError.of(table.T, "norm", drawn=True) == SampledError(2.0, 1.0, "norm", 2, 1)
    assert math.isnan(SampledError.of(table[:1], "norm", drawn=True).standard_error)


def test_psnr() -> None:
    error = SampledError(1e-4, 1e-6, "mean squared error", 8, 20)
    decibels = error.psnr(peak=1.0)
    assert decibels.value == pytest.approx(40)
    assert decibels.kind == "PSNR (dB)"
    above = SampledError(1e-4 + 1e-6, 0.0, "mean squared error", 8, 20).psnr(peak=1.0)
    assert decibels.value - above.value == pytest.approx(decibels.standard_error, rel=0.01)
    assert error.psnr().value == pytest.approx(40 + 20 * math.log10(2))
    assert SampledError(0.0, 0.0, "mean squared error", 8, 20).psnr().value == math.inf
    with pytest.raises(ValueError, match=r"expected a mean squared error for the PSNR, got a norm"):
        SampledError(1.0, 0.0, "norm", 8, 20).psnr()
    with pytest.raises(ValueError, match=r"expected a positive peak, got 0"):
        error.psnr(0)


def test_bad_counts() -> None:
    with pytest.raises(TypeError, match=r"expected a tensor of inputs, got list"):
        eq_t(torch.relu, [1.0], samples=1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"expected a batch of inputs, got shape \(0, 3\)"):
        eq_t(torch.relu, torch.zeros(0, 3), samples=1)
    for samples in (0, True, 1.5):
        with pytest.raises(ValueError, match=r"expected samples of at least one, got"):
            eq_t(torch.relu, torch.zeros(1, 3), samples=samples)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"expected batch_size of at least one, got 0"):
        eq_t(torch.relu, torch.zeros(1, 3), samples=1, batch_size=0)
