"""Figure 4.2 of the thesis: non-linearities make new frequencies, which a grid cannot hold."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from isotropy.equivariance import image_action, lee
from isotropy.run import ProgressCallback, Step
from isotropy_papers._experiment import Cell, Experiment, Result, Settings
from isotropy_papers._photographs import pink_noise
from isotropy_papers.aliasing import aliasing_lee

_HARMONICS = 8
_FINE = 2**12  # samples of one period, for amplitudes
_SIZE, _WAVES = 32, 5
_UPSAMPLING = 512

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "identity": lambda x: x,
    "square": torch.square,
    "tanh": torch.tanh,
    "GELU": F.gelu,
    "SiLU": F.silu,
    "ReLU": F.relu,
    "sign": torch.sign,
}


def run(settings: Settings, progress: ProgressCallback) -> Result:
    """Find the spectrum of non-linearities of a wave, and their equivariance error.

    Args:
        settings: ``models`` chooses activations; quick and full are the same.
        progress: Called before each activation.

    Returns:
        For each activation: the amplitudes of the harmonics of the activation of sin x; its LEE
        under translation on a wave and on random images; and what aliasing says the former is.

    Example:
        >>> cells = run(Settings(models=("square",)), lambda step: None).cells
        >>> {cell.column: round(cell.ours, 6) for cell in cells[:4]}
        {'harmonic 0': 0.5, 'harmonic 1': 0.0, 'harmonic 2': 0.5, 'harmonic 3': 0.0}
    """
    start = time.perf_counter()
    names = settings.chosen(list(ACTIVATIONS))
    images = 3 * (pink_noise(8, 1, _SIZE, settings.seed).double() - 0.5)
    shift = image_action("translation_x", boundary="periodic")
    cells = []
    for number, name in enumerate(names):
        progress(Step(number, len(names), name))
        activation = ACTIVATIONS[name]
        for k, amplitude in enumerate(harmonics(activation, _HARMONICS)):
            cells.append(Cell(name, f"harmonic {k}", amplitude))
        if name == "sign":  # its derivative is zero where there is one, so its jumps would be lost
            continue
        wave = _wave(_SIZE)
        fine = activation(_wave(_UPSAMPLING * _SIZE))
        aliased = float(aliasing_lee(fine.expand(2, -1), (1, _UPSAMPLING)))
        found = lee(activation, wave.expand(1, 1, 2, -1), shift)
        cells.append(Cell(name, "LEE on a wave", found.lee))
        cells.append(Cell(name, "LEE on a wave, by aliasing", aliased))
        found = lee(activation, images, shift)
        spread = (found.lee - found.stderr, found.lee + found.stderr)
        cells.append(Cell(name, "LEE on images", found.lee, None, spread))
    notes = (
        "harmonic k: the amplitude of frequency k in the activation of sin x",
        f"LEE on a wave: under translation of sin of {_WAVES} waves in {_SIZE} pixels; by "
        f"aliasing: the corrected Theorem 4.1 on the activation of {_UPSAMPLING} times as many "
        "samples of the wave, which are then thinned out to the pixels",
        f"LEE on images: 8 random images of {_SIZE}×{_SIZE} pixels with a spectrum of 1/frequency, "
        "0 ± 0.6; interval: one standard error",
        "the thesis says that non-linearities make high harmonics, which alias; ours agree: on the "
        "wave aliasing accounts for all of the LEE, and a kink (ReLU) costs more than smooth "
        "functions; on images, which have all frequencies, so does a smooth one that doubles them "
        "(square)",
    )
    return Result("finzi2023/figure4.2", cells, time.perf_counter() - start, notes)


def harmonics(activation: Callable[[Tensor], Tensor], highest: int) -> list[float]:
    """The amplitudes of frequencies 0 to a highest one in an activation of sin x.

    Args:
        activation: A pointwise function.
        highest: The last frequency.

    Example:
        >>> [round(amplitude, 6) for amplitude in harmonics(lambda x: x**3, 3)]
        [0.0, 0.75, 0.0, 0.25]
    """
    x = (torch.arange(_FINE, dtype=torch.float64) + 0.5) * (2 * torch.pi / _FINE)
    spectrum = torch.fft.rfft(activation(torch.sin(x)), norm="forward").abs()
    spectrum[1:] *= 2
    # what is left of a frequency that is not there is rounding
    return [a if a > 1e-12 else 0.0 for a in spectrum[: highest + 1].tolist()]


def _wave(size: int) -> Tensor:
    """One row of a picture; the phase keeps samples off the kinks."""
    x = (torch.arange(size, dtype=torch.float64) + 0.3 * size / _SIZE) / size
    return torch.sin(2 * torch.pi * _WAVES * x)


def plot(result: Result, path: Path) -> Path:
    """Draw the amplitudes, a panel for each activation.

    Args:
        result: What ``run`` gave.
        path: The PNG file.
    """
    from matplotlib.figure import Figure

    from isotropy.report import save_figure

    rows = list(dict.fromkeys(cell.row for cell in result.cells))
    figure = Figure(figsize=(1.0 + 1.7 * len(rows), 2.6), layout="constrained")
    axes = figure.subplots(1, len(rows), sharey=True, squeeze=False)[0]
    for axis, row in zip(axes, rows, strict=True):
        bars = [
            (int(cell.column.removeprefix("harmonic ")), cell.ours)
            for cell in result.cells
            if cell.row == row and cell.column.startswith("harmonic ")
        ]
        axis.bar(*zip(*bars, strict=True), color="C0")
        axis.set_yscale("log")
        axis.set_ylim(1e-4, 2)
        axis.set_title(row)
        axis.set_xlabel("harmonic")
    axes[0].set_ylabel("amplitude")
    return save_figure(figure, path)


EXPERIMENT = Experiment(
    "finzi2023/figure4.2", "Non-linearities make harmonics, and these an error", run, plot
)
