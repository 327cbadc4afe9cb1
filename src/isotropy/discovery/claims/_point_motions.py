"""Turns and mirrors of images about their centre, as torch's own verbs."""

from __future__ import annotations

from collections.abc import Collection

from torch import Tensor

TURN, HALF_TURN, LEFT_RIGHT, TOP_BOTTOM = "turn", "half turn", "left-right", "top-bottom"
# a motion: left and right change places, or not, and then so many quarter turns
Element = tuple[bool, int]
_GENERATORS: dict[str, Element] = {
    TURN: (False, 1),
    HALF_TURN: (False, 2),
    LEFT_RIGHT: (True, 0),
    TOP_BOTTOM: (True, 2),
}


def point_group(names: Collection[str]) -> tuple[Element, ...]:
    """All elements that some motions generate, the identity first.

    Raises:
        ValueError: If a name is unknown.

    Example:
        >>> point_group(["left-right"])
        ((False, 0), (True, 0))
        >>> len(point_group(["turn", "left-right"]))
        8
    """
    unknown = set(names) - set(_GENERATORS)
    if unknown:
        raise ValueError(
            f"expected motions among {', '.join(_GENERATORS)}, got {sorted(unknown)!r:.80}"
        )
    found = {(False, 0)}
    while True:
        more = {_product(_GENERATORS[name], element) for name in names for element in found}
        if more <= found:
            return tuple(sorted(found))
        found |= more


def moved(maps: Tensor, element: Element) -> Tensor:
    """Maps of shape (…, height, width), moved."""
    flipped, turns = element
    if flipped:
        maps = maps.flip(-1)
    if turns == 2:
        return maps.flip((-2, -1))
    return maps.rot90(turns, (-2, -1)) if turns else maps


def moved_back(maps: Tensor, element: Element) -> Tensor:
    """What ``moved`` is undone by.

    Example:
        >>> import torch
        >>> x = torch.rand(1, 4, 4)
        >>> torch.equal(moved_back(moved(x, (True, 1)), (True, 1)), x)
        True
    """
    flipped, turns = element
    if turns == 2:
        maps = maps.flip((-2, -1))
    elif turns:
        maps = maps.rot90(-turns, (-2, -1))
    return maps.flip(-1) if flipped else maps


def _product(first: Element, second: Element) -> Element:
    """First the second, then the first: a mirror turns what it comes after around."""
    flipped = first[0] != second[0]
    turns = (first[1] + (-second[1] if first[0] else second[1])) % 4
    return flipped, turns
