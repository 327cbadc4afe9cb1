"""Which sets of groups a search among images ranges over, and the hidden grids that suit them."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, sqrt

from isotropy.groups import GRID_TRANSFORMATIONS, GridTransformation, grid_transformations
from isotropy.search._space import SearchSpace

_SIDES = range(4, 21)
_NARROWEST = 8  # a grid that is aimed at has no smaller side: else there is nothing to share
_SHIFTS = 4  # shifts of fewer elements are halves that change places, which have their own names
_LARGEST_SIDE, _MOST_PIXELS = 64, 12288


def group_space(image: tuple[int, int, int], names: Sequence[str] = ()) -> SearchSpace:
    """The sets of groups that act on an image, with two hidden grids on which they act as well.

    Raises:
        ValueError: If the image is too large, a name is unknown, or a transformation does not act.

    Example:
        >>> group_space((1, 28, 28)).hidden, len(group_space((1, 28, 28)).groups)
        (((20, 20),), 12)
        >>> group_space((1, 5, 5)).groups
        ('rotation', 'horizontal flip', 'vertical flip', 'horizontal translation', \
'vertical translation')
    """
    channels, height, width = image
    if max(height, width) > _LARGEST_SIDE or channels * height * width > _MOST_PIXELS:
        raise ValueError(
            f"expected images of at most {_LARGEST_SIDE} by {_LARGEST_SIDE} pixels and "
            f"{_MOST_PIXELS} numbers to search groups for, got {channels} channels of {height} by "
            f"{width}"
        )
    asked = grid_transformations(names or GRID_TRANSFORMATIONS)
    for one in asked if names else ():
        one.permutations(image[1:])
    side = hidden_side(height, width, asked)
    return SearchSpace(image, tuple(one.name for one in asked) if names else (), ((side, side),))


def hidden_side(height: int, width: int, asked: Sequence[GridTransformation]) -> int:
    """The side of hidden grids on which as many transformations as possible act with the image.

    Among these, one that leaves shifts of several steps, and then the one nearest to the image's
    own side, or to 20 where that is larger.

    Example:
        >>> every = tuple(GRID_TRANSFORMATIONS.values())
        >>> [hidden_side(n, n, every) for n in (8, 28, 27, 32)]
        [8, 20, 18, 20]
    """
    aim = min(_SIDES[-1], max(_NARROWEST, round(sqrt(height * width))))

    def suits(side: int) -> tuple[int, int, int, int]:
        acting = sum(one.acts_on((height, width), side) for one in asked)
        steps = min(gcd(height, side), gcd(width, side), _SHIFTS)
        return acting, steps, -abs(side - aim), side

    return max(_SIDES, key=suits)
