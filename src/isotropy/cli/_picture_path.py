"""Pictures are refused before anything is computed for them."""

from pathlib import Path


def check_picture(path: Path) -> None:
    """Refuse a picture that could not be written before anything is computed for it.

    Args:
        path: What was given as ``--plot``.

    Raises:
        ValueError: If it is not the name of a PNG file in a folder that exists.

    Example:
        >>> check_picture(Path("orbits.svg"))
        Traceback (most recent call last):
        ...
        ValueError: expected a file name ending in .png for --plot, got 'orbits.svg'
    """
    if path.suffix.lower() != ".png":
        raise ValueError(f"expected a file name ending in .png for --plot, got {str(path)!r}")
    if not path.absolute().parent.is_dir():
        raise ValueError(f"expected an existing folder for --plot, got {str(path.parent)!r}")
    if path.is_dir():
        raise ValueError(f"expected a file for --plot, got the folder {str(path)!r}")
