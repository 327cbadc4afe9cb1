"""Figure 7 of Basu et al. 2021: samples of G-MNIST under several transformations."""

from __future__ import annotations

from isotropy._run import ProgressCallback
from isotropy.papers._experiment import Experiment, Result, Settings
from isotropy.papers._search_pictures import combined_pictures, draw_pictures


def run(settings: Settings, progress: ProgressCallback) -> Result:
    """Move an image of each of four classes.

    Args:
        settings: ``seed`` of the moves; ``models``: "as published", the default, or "by the
            groups"; ``data`` may name a folder of the images.
        progress: Not told of anything.

    Returns:
        The share of pixels that change, and the images for the picture.
    """
    return combined_pictures("basu2021/figure7", "mnist", settings, progress)


EXPERIMENT = Experiment(
    "basu2021/figure7",
    "Samples of G-MNIST under combinations of transformations",
    run,
    draw_pictures,
)
