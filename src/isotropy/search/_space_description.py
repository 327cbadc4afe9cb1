"""The description of a search space, read by a grammar: bounded before anything is made of it."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import NamedTuple

from isotropy._run._json import bounded_json, shown

_NAME = re.compile(r"[a-z][a-z ]{0,63}")
_NAMES, _CHOICES, _LAYERS, _SIDE, _CHANNELS = 64, 64, 16, 2048, 4096
# A network's weights are compared one by one, in seconds and 1 GB at the most, and all grids are
# moved by every group. An image of 64 by 64 with hidden grids of 20 by 20 has 1.8 million weights.
_LARGEST_NETWORK, _LARGEST_SPACE = 2**23, 2**23


class SpaceDescription(NamedTuple):
    """What the description of a space says.

    Args:
        image: Channels, height and width.
        groups: Names of transformations.
        hidden: Choices of hidden grids, each with the side of every hidden layer.
        step: Of translations, in cells.
    """

    image: tuple[int, int, int]
    groups: tuple[str, ...]
    hidden: tuple[tuple[int, ...], ...]
    step: int | None


def space_description(text: object) -> SpaceDescription:
    """Read a description, as `SearchSpace.description` writes it.

    Args:
        text: One line of JSON.

    Raises:
        ValueError: If it is of another form, or of a space too large to look at.

    Example:
        >>> space_description(
        ...     '{"image": [1, 8, 8], "groups": ["rotation"], "hidden": [[4]], "step": null}'
        ... ).hidden
        ((4,),)
    """
    found = bounded_json(text, "the description of a space")
    if not isinstance(found, dict) or set(found) != {"image", "groups", "hidden", "step"}:
        raise ValueError(
            f"expected a space with image, groups, hidden and step, got {shown(found)}"
        )
    image, groups, hidden, step = (found[part] for part in ("image", "groups", "hidden", "step"))
    if not _sizes(image, 3, 3, _CHANNELS) or max(image[1:]) > _SIDE:
        raise ValueError(
            f"expected an image as up to {_CHANNELS} channels, and height and width up to {_SIDE}, "
            f"got {shown(image)}"
        )
    _check_groups(groups)
    if not isinstance(hidden, list) or not 0 < len(hidden) <= _CHOICES:
        raise ValueError(f"expected 1 to {_CHOICES} choices of hidden grids, got {shown(hidden)}")
    for grids in hidden:
        if not _sizes(grids, 1, _LAYERS, _SIDE):
            raise ValueError(
                f"expected the sides of 1 to {_LAYERS} hidden grids, each up to {_SIDE}, got "
                f"{shown(grids)}"
            )
    if step is not None and not _sizes([step], 1, 1, _SIDE):
        raise ValueError(f"expected a step of up to {_SIDE} cells or none, got {shown(step)}")
    _require_small(image, hidden)
    # Two texts of one space would be two spaces to whoever compares them.
    if text != json.dumps({"image": image, "groups": groups, "hidden": hidden, "step": step}):
        raise ValueError(f"expected the description of a space in one form, got {shown(text)}")
    return SpaceDescription(
        (image[0], image[1], image[2]), tuple(groups), tuple(map(tuple, hidden)), step
    )


def _check_groups(groups: object) -> None:
    distinct = isinstance(groups, list) and len(set(map(str, groups))) == len(groups)
    if not isinstance(groups, list) or len(groups) > _NAMES or not distinct:
        raise ValueError(f"expected up to {_NAMES} different groups, got {shown(groups)}")
    for name in groups:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ValueError(f"expected names of transformations as groups, got {shown(name)}")


def _sizes(found: object, fewest: int, most: int, largest: int) -> bool:
    """Whether it is a list of so many whole numbers above 0."""
    return (
        isinstance(found, list)
        and fewest <= len(found) <= most
        and all(type(one) is int and 0 < one <= largest for one in found)
    )


def _require_small(image: list[int], hidden: list[list[int]]) -> None:
    cells = 0
    for grids in hidden:
        layers = [image[1] * image[2], *(side * side for side in grids)]
        cells += sum(layers)
        weights = sum(one * other for one, other in pairwise(layers))
        if weights > _LARGEST_NETWORK:
            raise ValueError(
                f"expected a network of at most {_LARGEST_NETWORK} weights for each channel, got "
                f"one of {weights}"
            )
    if cells > _LARGEST_SPACE:
        raise ValueError(f"expected grids of {_LARGEST_SPACE} cells in all, got {cells}")
