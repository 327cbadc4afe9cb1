"""Four small regression tables of the UCI repository, and table rows laid out as images."""

from __future__ import annotations

import gzip
import math
from dataclasses import replace
from importlib import resources
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from isotropy.data import Dataset
from isotropy_papers._counts import require_count

# the tables have no headers; where a table's origin is known, its values tell the target
_TARGETS = {
    "energy": "heating load",
    "fertility": "hours spent sitting",
    "pendulum": None,
    "wine": "alcohol",
}
_SPLITS = 10


def uci_names() -> tuple[str, ...]:
    """The tables that :func:`uci` knows.

    Example:
        >>> uci_names()
        ('energy', 'fertility', 'pendulum', 'wine')
    """
    return tuple(_TARGETS)


def uci(name: str) -> Dataset:
    """A regression table of thesis 3.5.3, from the UCI repository (Dua and Graff, 2017).

    =========  ====  ======  ===================  ===============
    name       rows  inputs  target               target variance
    =========  ====  ======  ===================  ===============
    energy      768       8  heating load                   101.7
    fertility   100       9  hours spent sitting           0.0344
    pendulum    630       9  not documented                  9.64
    wine       1599      11  alcohol                        1.135
    =========  ====  ======  ===================  ===============

    Every column has its mean over the table subtracted and keeps its scale. In ``fertility`` and
    ``wine`` the target is not the one their authors set: diagnosis and quality are the last input.

    Args:
        name: One of :func:`uci_names`.

    Returns:
        Inputs (n, d) and targets (n, 1), float32.

    Raises:
        ValueError: If there is no such table.

    Example:
        >>> uci("energy")
        Dataset(x (768, 8) float32, y (768, 1) float32, from 'uci/energy')
    """
    table = torch.from_numpy(_numbers(name, "data.csv.gz")).float()
    target = _TARGETS[name]
    return Dataset(
        table[:, :-1].contiguous(),
        table[:, -1:].contiguous(),
        y_names=None if target is None else (target,),
        source=f"uci/{name}",
    )


def uci_split(name: str, split: int | None = None) -> tuple[Dataset, Dataset]:
    """A table of :func:`uci` in two parts, to fit on and to judge on.

    Args:
        name: One of :func:`uci_names`.
        split: Which of ten fixed splits; each has a tenth of the rows to judge on, and every row
            is judged on once. ``None``: as the reference code of the thesis does, the last fifth
            of the rows.

    Returns:
        The rows for fitting and those for judging.

    Raises:
        ValueError: If there is no such table or no such split.

    Example:
        >>> print(*(len(part) for part in uci_split("wine", 0)))
        1440 159
        >>> print(*(len(part) for part in uci_split("wine")))
        1279 320
    """
    data = uci(name)
    if split is None:
        test = torch.arange(len(data)) >= len(data) * 4 // 5
    elif isinstance(split, bool) or not isinstance(split, int) or not 0 <= split < _SPLITS:
        raise ValueError(f"expected a split from 0 to {_SPLITS - 1}, or None, got {split!r}")
    else:
        test = torch.from_numpy(_numbers(name, "test_mask.csv.gz")[:, split] == 1)
    return _rows(data, ~test), _rows(data, test)


def image_shape(columns: int) -> tuple[int, int]:
    """Height and width of the smallest image that holds ``columns`` numbers and is almost square.

    The height is the width or one more. For the tables of :func:`uci` these are the shapes that
    the reference code of the thesis takes.

    Raises:
        ValueError: If ``columns`` is not a positive integer.

    Example:
        >>> image_shape(8), image_shape(9), image_shape(11)
        ((3, 3), (3, 3), (4, 3))
    """
    require_count(columns, "columns")
    height = math.isqrt(columns - 1) + 1
    return (height, height - 1) if height * (height - 1) >= columns else (height, height)


def as_images(x: Tensor, height: int | None = None, width: int | None = None) -> Tensor:
    """Rows of a table as images of one channel: line by line, the rest zero (thesis 3.5.3).

    Args:
        x: Rows, shape (n, d).
        height: Of the images; without height and width, both are those of :func:`image_shape`.
        width: Of the images.

    Returns:
        Shape (n, 1, height, width).

    Raises:
        ValueError: If ``x`` is not of that shape, one of height and width is missing or not a
            positive integer, or an image has fewer pixels than a row has numbers.

    Example:
        >>> as_images(torch.arange(1.0, 6.0)[None])
        tensor([[[[1., 2.],
                  [3., 4.],
                  [5., 0.]]]])
    """
    if x.ndim != 2 or x.shape[1] == 0:
        raise ValueError(f"expected rows of shape (n, d) with d >= 1, got {tuple(x.shape)}")
    columns = x.shape[1]
    if height is None and width is None:
        height, width = image_shape(columns)
    if height is None or width is None:
        raise ValueError(
            f"expected both a height and a width or neither, got height {height} and width {width}"
        )
    require_count(height, "pixels of height")
    require_count(width, "pixels of width")
    if height * width < columns:
        raise ValueError(f"expected an image of at least {columns} pixels, got {height}x{width}")
    padded = torch.nn.functional.pad(x, (0, height * width - columns))
    return padded.reshape(len(x), 1, height, width)


def _numbers(name: str, file: str) -> NDArray[Any]:
    if name not in _TARGETS:
        raise ValueError(f"expected a table among {', '.join(_TARGETS)}, got {name!r}")
    path = resources.files("isotropy_papers").joinpath("uci", name, file)
    with path.open("rb") as packed, gzip.open(packed, "rt", encoding="ascii") as text:
        return np.loadtxt(text, delimiter=",", ndmin=2)


def _rows(data: Dataset, chosen: Tensor) -> Dataset:
    assert data.y is not None  # every table has a target
    return replace(data, x=data.x[chosen], y=data.y[chosen])
