"""Convolutions that are not circular: shared along diagonals, but by no group."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_LARGEST_STRIDE = 3


@dataclass(frozen=True)
class PartialShift:
    """A pattern with labels[i + 1, j + stride] = labels[i, j] wherever both exist.

    Attributes:
        taps: The offsets j − stride · i of weights outside the background block.
        stride: How far the window moves from one output to the next.
        is_valid: Whether every window lies within the inputs, so that nothing is padded.
        has_background: Whether the two far corners share a block, that of structural zeros.
    """

    taps: tuple[int, ...]
    stride: int
    is_valid: bool
    has_background: bool

    def __str__(self) -> str:
        if not self.has_background:
            return "weights that depend on j − i alone"
        count = f"{len(self.taps)} tap" + ("s" if len(self.taps) > 1 else "")
        offsets = ", ".join(map(str, self.taps))
        if not self.is_valid:
            kind = f"zero-padded convolution with taps at {offsets}"
        elif self.taps == tuple(range(len(self.taps))):
            kind = f"valid cross-correlation with {count}"
        else:
            kind = f"valid cross-correlation with {count} at {offsets}"
        return kind if self.stride == 1 else f"{kind}, stride {self.stride}"


def partial_shift(labels: NDArray[np.int64]) -> PartialShift | None:
    """Recognise the pattern of a convolution with zeros at the ends, or none at all.

    A larger stride than 1 is recognised only with a background and windows within the inputs.

    Args:
        labels: The block of each weight, shape (outputs, inputs).

    Returns:
        None where the labels are not constant along diagonals, are all the same, or are too few
        to tell.

    Example:
        >>> print(partial_shift(np.array([[1, 2, 0, 0], [0, 1, 2, 0], [0, 0, 1, 2]])))
        valid cross-correlation with 2 taps
    """
    m, n = labels.shape
    for stride in range(1, _LARGEST_STRIDE + 1):
        # a single coincidence is no evidence
        if m < 2 or (m - 1) * (n - stride) < 2 or (labels == labels[0, 0]).all():
            return None
        if np.array_equal(labels[1:, stride:], labels[:-1, : n - stride]):
            found = _read(labels, stride)
            if stride == 1 or (found.is_valid and found.has_background and found.taps):
                return found
    return None


def _read(labels: NDArray[np.int64], stride: int) -> PartialShift:
    m, n = labels.shape
    offset = np.arange(n) - stride * np.arange(m)[:, None]
    background = labels[0, -1]
    has_background = bool(labels[-1, 0] == background)
    outside = labels != background if has_background else np.ones_like(labels, dtype=bool)
    taps = np.unique(offset[outside])
    window = n - stride * (m - 1)
    is_valid = bool((taps >= 0).all() and (taps < window).all()) and has_background
    return PartialShift(tuple(taps.tolist()), stride, is_valid, has_background)
