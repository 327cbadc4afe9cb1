"""A basis as a coloured matrix: equal entries share a colour (thesis Figures 2.2, 2.3)."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from isotropy.bases import Basis
from isotropy.report._figure_files import png_path, save_figure
from isotropy.reps import Product, Rep
from isotropy.reps._leaves import Leaf

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LARGEST_PICTURE = 25_000_000
_GOLDEN = (5**0.5 - 1) / 2


def plot_basis(basis: Basis | Sequence[tuple[str, Basis]], path: str | Path) -> Path:
    """Draw a basis as a matrix and write it as a PNG file.

    Entries with the same colour are equal in every symmetric matrix, up to sign where the
    colour is darker; white entries vanish.

    Args:
        basis: What to draw; or several bases side by side, each with its title.
        path: Where to write it; must end in .png.

    Returns:
        The path written.

    Raises:
        ValueError: If the path does not end in .png, or there are too many entries to draw.

    Example:
        >>> import tempfile
        >>> from isotropy import V, equivariant_basis
        >>> from isotropy.groups import Z
        >>> basis = equivariant_basis((V >> V)(Z(4)))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     plot_basis([("circulant", basis)], f"{folder}/basis.png").name
        'basis.png'
    """
    from matplotlib.figure import Figure

    path = png_path(path)
    titled = [(str(basis.rep), basis)] if isinstance(basis, Basis) else basis
    figure = Figure(figsize=(3.6 * len(titled), 4.0), layout="constrained")
    axes = figure.subplots(1, len(titled), squeeze=False)[0]
    for axis, (title, one) in zip(axes, titled, strict=True):
        _draw(axis, title, one)
    return save_figure(figure, path, tight=True)


def matrix_shape(rep: Rep) -> tuple[int, int]:
    """Rows and columns to draw a representation's vectors as a matrix.

    Linear maps (trailing duals) have their outputs as rows and inputs as columns; other
    tensors have the first half of their indices as rows; a single index is one row.

    Raises:
        ValueError: If there are too many entries to draw.
    """
    if rep.size() > LARGEST_PICTURE:
        raise ValueError(
            f"expected at most {LARGEST_PICTURE} entries to draw, got {rep.size()} for {rep}"
        )
    if not isinstance(rep, Product) or len(rep.factors) < 2:
        return 1, rep.size()
    factors = rep.factors
    inputs = 0
    while inputs < len(factors) - 1 and _is_dual(factors[len(factors) - 1 - inputs]):
        inputs += 1
    rows = len(factors) - inputs if inputs else (len(factors) + 1) // 2
    return prod(f.size() for f in factors[:rows]), prod(f.size() for f in factors[rows:])


def _is_dual(factor: Rep) -> bool:
    return isinstance(factor, Leaf) and factor.dual


def colour_classes(basis: Basis) -> tuple[Tensor, Tensor]:
    """A class for every entry (-1: always zero) and its sign within the class.

    Two entries are in one class when they are equal, up to sign, in every symmetric vector.
    """
    orbits = basis.orbits()
    if orbits is not None:
        signs = torch.ones_like(orbits.labels) if orbits.signs is None else orbits.signs
        return orbits.labels, signs
    # equal rows of Q are equal in a generic combination, and different ones differ
    rng = torch.Generator().manual_seed(0)
    generic = basis.combine(torch.randn(basis.rank, dtype=basis.dtype, generator=rng))
    size = generic.abs()
    digits = (size / size.max().clamp_min(1e-300) * 1e8).round()
    values, labels = torch.unique(digits, return_inverse=True)
    if len(values) and float(values[0]) == 0.0:
        labels = labels - 1
    sign = generic.real if generic.is_complex() else generic
    return labels, torch.where(sign < 0, -1, 1)


def _draw(axis: Axes, title: str, basis: Basis) -> None:
    shape = matrix_shape(basis.rep)
    labels, signs = colour_classes(basis)
    count = int(labels.max()) + 1 if len(labels) else 0
    palette = np.concatenate([_palette(count), [[1.0, 1.0, 1.0]]])
    colours = palette[labels.numpy()]
    colours[(signs.numpy() < 0) & (labels.numpy() >= 0)] *= 0.6
    axis.imshow(colours.reshape(*shape, 3), interpolation="nearest", aspect="auto")
    axis.set_title(f"{title}\nrank {basis.rank}", fontsize=9)
    axis.set_xticks([])
    axis.set_yticks([])
    if shape[0] == shape[1]:
        axis.set_aspect("equal")


def _palette(count: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Distinct colours: hues a golden ratio apart, at changing brightness."""
    from matplotlib.colors import hsv_to_rgb

    steps = np.arange(count)
    hue = (0.55 + steps * _GOLDEN) % 1.0
    saturation = 0.45 + 0.4 * ((steps * 7) % 3) / 2
    value = 0.75 + 0.2 * ((steps * 5) % 4) / 3
    return np.asarray(hsv_to_rgb(np.stack([hue, saturation, value], -1))).reshape(-1, 3)
