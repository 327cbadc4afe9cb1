"""The thresholds of the reading stage."""

from __future__ import annotations

from dataclasses import dataclass

from isotropy.discovery._thresholds import Thresholds


@dataclass(frozen=True)
class ReadingThresholds(Thresholds):
    """How data are read; ``python benchmarks/thresholds.py --only FIELD`` shows what each does.

    Example:
        >>> sum(ReadingThresholds.now().parts)
        1.0
    """

    most_rows: int = 20_000  # more find finer symmetries, fewer take less time
    seconds_for_groups: float = 900.0  # of a budget that leave time to search sets of groups, too
    fewest_of_class: int = 10  # rows of the second class: with fewer nothing can be tested
    parts: tuple[float, float, float] = (0.4, 0.3, 0.3)  # to find, to fit, to confirm on
    parts_of_images: tuple[float, float, float] = (0.2, 0.45, 0.35)  # networks want rows to fit to
    few_images: int = 400  # of fewer the first part would be too small with the shares of images
    images_looked_at: int = 2000  # by the evidence of layers, whose time grows with them
    images_searched: int = 5000  # that networks of a group search are trained on
    images_fitted: int = 4000  # more teach networks more, fewer take less time
    images_tested: int = 1500  # more confirm finer symmetries, fewer take less time
    map_pixels: int = 400_000  # of targets that are images every pixel is a number to fit
    fewest_maps: int = 300  # of these, however large they are
    fewest_pixels: int = 6  # side of a square that is an image; smaller takes tables for pictures
    clear_image: int = 12  # side of an oblong that is one
    few_channels: int = 4  # a larger first axis is positions
    many_steps: int = 8  # a second axis so long is positions
    picture: float = 0.1  # by how much neighbouring pixels agree more than others; less sees more
    picture_rows: int = 2000  # that this is judged by
    constant_step: float = 1e-9  # of sizes: an increment that varies less is constant
    most_choices: int = 20  # values of an action that is one of several
    episodes: int = 70  # fewer are cut into stretches, so that parts can be drawn of them
    stretches: int = 120  # that they are cut into
    shortest_stretch: int = 10  # rows; neighbours within one are not independent
    largest_error: float = 9.0  # squared deviations that an error of an increment counts at most
