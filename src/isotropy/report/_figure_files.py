"""Figures of matplotlib as PNG files."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

from isotropy._run import atomic_write

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def save_figure(figure: Figure, path: str | Path, *, tight: bool = False) -> Path:
    """Write a figure as a PNG file of 150 dots per inch, atomically.

    Args:
        figure: What to write.
        path: The file; its folder must exist.
        tight: Whether to cut off empty margins.

    Returns:
        The path written.

    Example:
        >>> import tempfile
        >>> from matplotlib.figure import Figure
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_figure(Figure(), f"{folder}/empty.png").name
        'empty.png'
    """
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=150, bbox_inches="tight" if tight else None)
    with atomic_write(path) as file:
        file.write(buffer.getvalue())
    return Path(path)


def png_path(path: str | Path) -> Path:
    """Refuse the name of a picture that does not end in .png."""
    path = Path(path)
    if path.suffix.lower() != ".png":
        raise ValueError(f"expected a picture file that ends in .png, got {str(path)!r}")
    return path
