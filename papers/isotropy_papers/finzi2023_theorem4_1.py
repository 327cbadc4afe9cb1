"""Theorem 4.1 of the thesis: what aliasing costs in equivariance, as printed and as it is."""

from __future__ import annotations

import time

import torch
from torch import Tensor

from isotropy.equivariance import image_action, lie_derivative
from isotropy.run import ProgressCallback, Step, generator
from isotropy_papers._experiment import Cell, Experiment, Result, Settings
from isotropy_papers.aliasing import aliasing_lee, theorem_4_1

_SIZE = 16
_FACTORS = {"both axes": (2, 2), "columns": (1, 2), "rows": (2, 1)}
_DIRECTIONS = {"(1, 0)": (1.0, 0.0), "(0, 1)": (0.0, 1.0), "(1, 1)": (1.0, 1.0),
               "(1, −1)": (1.0, -1.0)}  # fmt: skip


def run(settings: Settings, progress: ProgressCallback) -> Result:
    """Measure the Lie derivative of subsampling, and compare it with both formulas.

    Args:
        settings: The seed of the image; quick and full are the same.
        progress: Called before each way of subsampling.

    Returns:
        For every second pixel along both axes, or along one, and four directions: the mean
        square of the Lie derivative found by differentiation, and the corrected formula; "theirs"
        is what the theorem says.

    Example:
        >>> cells = run(Settings(), lambda step: None).cells
        >>> wrong = [cell for cell in cells if abs(cell.theirs - cell.ours) > 1e-6]
        >>> sorted({cell.row.split(",")[0] for cell in wrong})
        ['both axes']
    """
    start = time.perf_counter()
    image = band_limited_image(_SIZE, settings.seed)
    cells = []
    for number, (name, factors) in enumerate(_FACTORS.items()):
        progress(Step(number, len(_FACTORS), name))
        for direction, v in _DIRECTIONS.items():
            printed = float(theorem_4_1(image, factors, v))
            corrected = float(aliasing_lee(image, factors, v))
            found = float(_measured(image, factors, v).square().mean())
            cells.append(Cell(f"{name}, v = {direction}", "measured", found, printed))
            cells.append(Cell(f"{name}, v = {direction}", "corrected", corrected, printed))
    notes = (
        "‖L‖² / dim of keeping every second pixel of white noise of unit variance, "
        f"{_SIZE}×{_SIZE}, without the Nyquist frequencies of the image and of what is left, seed "
        f"{settings.seed}; H is the discrete Fourier transform divided by the number of pixels",
        "measured: by differentiating; corrected: (2π)² Σ_k |Σ_{n: Alias(n) = k} H_n v·(k − n)|²; "
        "theirs: (2π)² Σ_n |H_n|² (v_x² (Alias(n) − n)² + v_y² (Alias(m) − m)²), as printed",
        "the printed formula holds where one axis is subsampled; along both, three frequencies "
        "are seen as one and add up before they are squared, and oblique directions have a cross "
        "term",
    )
    return Result("finzi2023/theorem4.1", cells, time.perf_counter() - start, notes)


def band_limited_image(size: int, seed: int) -> Tensor:
    """White noise of unit variance without the Nyquist frequencies, whose alias is not defined.

    Args:
        size: Height and width, a multiple of four.
        seed: The seed of the noise.

    Example:
        >>> spectrum = torch.fft.fft2(band_limited_image(8, 0))
        >>> bool(spectrum[4].abs().max() < 1e-12 and spectrum[:, 2].abs().max() < 1e-12)
        True
    """
    noise = torch.randn(size, size, generator=generator(seed), dtype=torch.float64)
    frequency = torch.fft.fftfreq(size, 1 / size).abs()
    kept = (frequency != size // 2) & (frequency != size // 4)
    image: Tensor = torch.fft.ifft2(torch.fft.fft2(noise) * kept * kept[:, None]).real
    return image


def _measured(image: Tensor, factors: tuple[int, int], v: tuple[float, float]) -> Tensor:
    def subsampled(x: Tensor) -> Tensor:
        return x[..., :: factors[0], :: factors[1]]

    parts = [
        along
        * lie_derivative(
            subsampled, image[None, None], image_action(f"translation_{axis}", boundary="periodic")
        )
        for axis, along in zip("xy", v, strict=True)
    ]
    return parts[0] + parts[1]


EXPERIMENT = Experiment(
    "finzi2023/theorem4.1", "Equivariance error of subsampling: as printed and corrected", run
)
