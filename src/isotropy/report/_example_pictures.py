"""Rows of data as they are, and moved by elements of the group."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from isotropy.report._finding_pictures import png_text

if TYPE_CHECKING:
    from isotropy.discovery import Finding

_ROWS, _MOVED = 3, 4  # rows, and elements, that are shown
_BARS = 32  # values that are bars; more are a line
_WIDTH, _HEIGHT = 120.0, 44.0
_MOST_CHANNELS = 4

Floats = NDArray[np.float64]


def example_pictures(finding: Finding) -> str:
    """A row of small pictures for each example, as HTML; nothing where there are none."""
    if finding.examples is None or not finding.examples.size:
        return ""
    shown = np.asarray(finding.examples)[:_ROWS, : 1 + _MOVED]
    rows, across = shown.shape[:2]
    drawn = _images(shown) if finding.layout.image else _graphs(finding, shown)
    cells = "".join(
        one.replace("WORDS", f"example {row + 1} " + (f"moved {at}" if at else "as given"))
        for row in range(rows)
        for at, one in enumerate(drawn[row * across : (row + 1) * across])
    )
    heads = "<p class='aside'>as given</p>" + "<p class='aside'>moved</p>" * (across - 1)
    return (
        f"<figure class='block'><div class='examples' style='--across: {across}'>{heads}{cells}"
        "</div><figcaption>Examples from the data, and what elements of the group make of them: "
        "the task treats each row alike.</figcaption></figure>"
    )


def _images(shown: Floats) -> list[str]:
    low, high = float(shown.min()), float(shown.max())
    scaled = np.round((shown - low) / (high - low or 1.0) * 255).astype(np.uint8)
    return [
        f"<img alt='WORDS' src='{png_text(_seen(image))}'>"
        for image in scaled.reshape(-1, *shown.shape[2:])
    ]


def _seen(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Height by width, with three colours last where there are three; else the first channel."""
    if image.ndim == 2:
        return image
    colours = image.shape[-1]
    if not (colours in (1, 3, 4) and colours < min(image.shape[:2])):
        image = np.moveaxis(image, 0, -1)
    if image.shape[-1] >= 3:
        return np.ascontiguousarray(image[..., :3])
    return np.ascontiguousarray(image[..., 0])


def _graphs(finding: Finding, shown: Floats) -> list[str]:
    """Bars where there are few values, else lines, one for each channel."""
    drawn = []
    for row in shown:  # rows differ in size, and a motion keeps it
        values = row.reshape(len(row), -1) if row.ndim == 2 else row
        if values.ndim == 2:
            values = values[:, None]
        elif not finding.layout.channels_first:
            values = values.swapaxes(1, 2)
        values = values.reshape(len(row), -1, values.shape[-1])[:, :_MOST_CHANNELS]
        low, high = min(float(values.min()), 0.0), max(float(values.max()), 0.0)
        drawn += [_graph(one, low, high or 1.0, at == 0) for at, one in enumerate(values)]
    return drawn


def _graph(channels: Floats, low: float, high: float, given: bool) -> str:
    """Values of shape (channels, places) between two limits that have zero between them."""
    places = channels.shape[1]
    step = _WIDTH / places
    heights = (1 - (channels - low) / (high - low)) * _HEIGHT
    zero = (1 + low / (high - low)) * _HEIGHT
    if places <= _BARS and len(channels) == 1:
        paths = "".join(
            f"M{(at + 0.12) * step:.1f} {zero:.1f}V{y:.1f}h{0.76 * step:.1f}V{zero:.1f}z"
            for at, y in enumerate(heights[0])
        )
        marks = f"<path d='{paths}' fill='currentColor'/>"
    else:
        lines = (
            "L".join(f"{(at + 0.5) * step:.1f} {y:.1f}" for at, y in enumerate(line))
            for line in heights
        )
        marks = "".join(
            f"<path d='M{line}' fill='none' stroke='currentColor' stroke-width='1.6' "
            f"opacity='{1 - 0.22 * k:.2f}'/>"
            for k, line in enumerate(lines)
        )
    return (
        f"<svg class='{'given' if given else 'moved'}' viewBox='0 0 {_WIDTH:g} {_HEIGHT:g}' "
        f"role='img' aria-label='WORDS'><path d='M0 {zero:.1f}H{_WIDTH:g}' class='lines'/>"
        f"{marks}</svg>"
    )
