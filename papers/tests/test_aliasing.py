"""The closed form of aliasing against the Lie derivative of subsampling, which knows nothing of it.

For a random 8×8 image without Nyquist frequencies, 2×2 subsampling and v = (1, 0), (0, 1), (1, 1),
(1, −1), Theorem 4.1 as printed is off by the factors in ``PRINTED_OVER_TRUE``.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from isotropy.equivariance import lie_derivative
from isotropy.equivariance._grid_actions import GridAction
from isotropy_papers.aliasing import alias, aliasing_lee, theorem_4_1

DIRECTIONS = [(1.0, 0.0), (0.0, 1.0), (1.0, 1.0), (1.0, -1.0), (0.3, -2.0)]


def images(*shape: int, seed: int = 0) -> Tensor:
    rng = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=rng)


def without(image: Tensor, *frequencies: int) -> Tensor:
    """The image without these frequencies, on either axis."""
    spectrum = torch.fft.fft2(image)
    for frequency in frequencies:
        for sign in (1, -1):
            spectrum[..., sign * frequency, :] = 0
            spectrum[..., :, sign * frequency] = 0
    return torch.fft.ifft2(spectrum).real


def measured(image: Tensor, factors: tuple[int, int], direction: tuple[float, float]) -> Tensor:
    """The mean square of the Lie derivative, by differentiation."""
    matrix = ((0.0, 0.0, direction[0]), (0.0, 0.0, direction[1]))
    action = GridAction("translation", "size", matrix, boundary="periodic")
    found = lie_derivative(
        lambda x: x[..., :: factors[0], :: factors[1]], image, action, output="NCHW"
    )
    return found.square().mean((-2, -1))


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 8])
def test_alias_is_the_frequency_that_looks_the_same_in_the_samples(size: int) -> None:
    n = torch.arange(-2 * size, 2 * size + 1)
    k = alias(n, size)
    assert bool((2 * k > -size).all())
    assert bool((2 * k <= size).all())
    places = torch.arange(size, dtype=torch.float64) / size
    waves = [torch.exp(2j * torch.pi * m.double()[:, None] * places) for m in (n, k)]
    torch.testing.assert_close(waves[0], waves[1])


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize(
    ("shape", "factors"),
    [
        ((8, 8), (2, 2)),
        ((8, 12), (2, 3)),
        ((9, 15), (3, 5)),
        ((6, 8), (1, 4)),
        ((10, 7), (5, 1)),
        ((6, 10), (6, 2)),
    ],
)
def test_equals_the_lie_derivative_of_subsampling_for_every_image(
    shape: tuple[int, int], factors: tuple[int, int], direction: tuple[float, float]
) -> None:
    image = images(2, 3, *shape)  # Nyquist frequencies and all
    torch.testing.assert_close(
        aliasing_lee(image, factors, direction),
        measured(image, factors, direction),
        rtol=1e-9,
        atol=1e-12,
    )


def test_is_zero_where_nothing_is_aliased() -> None:
    smooth = without(images(1, 1, 16, 16), *range(4, 9))
    assert float(aliasing_lee(smooth, (2, 2), (1.0, 1.0))) < 1e-24
    assert float(aliasing_lee(images(1, 1, 16, 16), (1, 1), (1.0, 1.0))) == 0


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("factors", [(2, 1), (1, 2)])
def test_theorem_4_1_holds_where_one_axis_is_subsampled_by_two(
    factors: tuple[int, int], direction: tuple[float, float]
) -> None:
    image = without(images(3, 1, 16, 16), 4, 8)  # 8 is the Nyquist frequency, 4 that of 8 samples
    torch.testing.assert_close(
        theorem_4_1(image, factors, direction), aliasing_lee(image, factors, direction)
    )


def test_theorem_4_1_fails_at_the_new_nyquist_frequency_and_for_a_factor_of_three() -> None:
    across = torch.arange(16, dtype=torch.float64) / 16
    at_nyquist = torch.cos(2 * torch.pi * 4 * across + 0.4).expand(1, 1, 16, 16)
    assert float(theorem_4_1(at_nyquist, (1, 2))) < 1e-24
    # ±4 are both seen as the cosine in 8 samples: only the sine part is lost, 4 periods of it
    lost = (2 * torch.pi * 4 * torch.sin(torch.tensor(0.4, dtype=torch.float64))) ** 2
    assert float(aliasing_lee(at_nyquist, (1, 2))) == pytest.approx(float(lost))
    # all frequencies of a single bright pixel are 1/9; six are seen as others, three off, and
    # those that are seen as the same lie on either side of it: they cancel
    pixel = torch.zeros(1, 1, 1, 9, dtype=torch.float64)
    pixel[..., 0] = 1
    assert float(aliasing_lee(pixel, (1, 3))) < 1e-24
    assert float(measured(pixel, (1, 3), (1.0, 0.0))) < 1e-24
    assert float(theorem_4_1(pixel, (1, 3))) == pytest.approx((2 * torch.pi) ** 2 * 6 * 9 / 81)


PRINTED_OVER_TRUE = [1.039, 0.963, 0.779, 1.395]


@pytest.mark.parametrize(
    ("direction", "factor"), list(zip(DIRECTIONS[:4], PRINTED_OVER_TRUE, strict=True))
)
def test_theorem_4_1_fails_for_both_axes(direction: tuple[float, float], factor: float) -> None:
    image = without(images(1, 1, 8, 8), 2, 4)
    true = measured(image, (2, 2), direction)
    printed = 0.0
    spectrum = torch.fft.fft2(image[0, 0]) / 64
    for m in range(-3, 4):
        for n in range(-3, 4):
            down, across = (k - (k + 1) % 4 + 1 for k in (m, n))  # k − Alias(k), without ±2
            weight = (direction[0] * across) ** 2 + (direction[1] * down) ** 2
            printed += (2 * torch.pi) ** 2 * float(spectrum[m, n].abs()) ** 2 * weight
    assert float(theorem_4_1(image, (2, 2), direction)) == pytest.approx(printed)
    assert float(theorem_4_1(image, (2, 2), direction) / true) == pytest.approx(factor, abs=5e-4)


def test_theorem_4_1_lacks_the_cross_term_of_a_single_wave() -> None:
    # one frequency (3, 3) in 8×8 is seen as (−1, −1) in 4×4: k − n = (−4, −4)
    place = torch.arange(8, dtype=torch.float64) / 8
    wave = torch.exp(2j * torch.pi * 3 * (place[:, None] + place))
    unit = (2 * torch.pi * 4) ** 2
    for direction, true, printed in [((1, 1), 4, 2), ((1, -1), 0, 2), ((1, 0), 1, 1)]:
        assert float(aliasing_lee(wave, (2, 2), direction)) == pytest.approx(true * unit, abs=1e-9)
        assert float(theorem_4_1(wave, (2, 2), direction)) == pytest.approx(printed * unit)


def test_what_happens_to_nyquist_energy() -> None:
    """The checkerboard has no slope on its pixels and none after: no error. The theorem agrees."""
    row = (-1.0) ** torch.arange(8, dtype=torch.float64)
    board = row[:, None] * row
    assert float(aliasing_lee(board, (2, 2), (1.0, 1.0))) < 1e-24
    assert float(theorem_4_1(board, (2, 2), (1.0, 1.0))) < 1e-24


def test_single_precision_and_shape() -> None:
    image = images(2, 3, 8, 8)
    found = aliasing_lee(image.float(), (2, 2), (1.0, 1.0))
    assert found.shape == (2, 3)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), aliasing_lee(image, (2, 2), (1.0, 1.0)), rtol=1e-4,
                               atol=1e-4)  # fmt: skip


def test_bad_input() -> None:
    with pytest.raises(ValueError, match=r"expected at least one sample, got 0"):
        alias(1, 0)
    with pytest.raises(ValueError, match=r"expected images of shape \(\*, H, W\), got \(8,\)"):
        aliasing_lee(torch.zeros(8))
    with pytest.raises(ValueError, match=r"expected images of shape \(\*, H, W\), got \(0, 8\)"):
        theorem_4_1(torch.zeros(0, 8))
    with pytest.raises(ValueError, match=r"a factor that divides the size 8, got 3"):
        aliasing_lee(torch.zeros(8, 8), (2, 3))
    with pytest.raises(ValueError, match=r"a factor that divides the size 8, got 0"):
        theorem_4_1(torch.zeros(8, 8), (0, 2))
    with pytest.raises(ValueError, match=r"a factor that divides the size 8, got True"):
        aliasing_lee(torch.zeros(8, 8), (True, 2))
