"""Positions in words (even and odd positions, x0…x11), and what a group does to them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from isotropy.groups import A, D, DirectProduct, Group, S, Z
from isotropy.groups._products import Wreath

_RUN = re.compile(r"\d+(?:–\d+)?")
_PLACES = re.compile(r"(?:\d+|–|, | and |[{}])+(?: together)?")
_LISTED = 24
_SHORT_RUN = 4  # a run of fewer is listed: "x1, x2, x3"
IntArray = NDArray[np.int64]
_LARGEST_GRID = 144
_ANY, _SWAPS = "any permutation", "swaps"


def position_words(sets: Sequence[Sequence[int]], count: int, noun: str = "positions") -> str:
    """Say which of ``count`` positions some sets are.

    Example:
        >>> position_words([range(10)], 10), position_words([range(0, 6, 2), range(1, 6, 2)], 6)
        ('all positions', 'even and odd positions')
        >>> position_words([range(5), range(5, 10)], 10), position_words([[0, 4, 5]], 6)
        ('positions 0–4 and 5–9', 'positions 0, 4, 5')
    """
    members = [sorted(places) for places in sets]
    if len(members) == 1 and len(members[0]) == count:
        return f"all {noun}"
    parities = [_parity(places, count) for places in members]
    if all(parities):
        return f"{joined([word for word in parities if word])} {noun}"
    ranges = [_range(places) for places in members]
    if len(members) > 1 and not all(
        len(places) == 1 or "–" in text for places, text in zip(members, ranges, strict=True)
    ):
        ranges = [f"{{{text}}}" for text in ranges]
    return f"{noun} {joined(ranges)}"


def column_words(places: Sequence[int], names: Sequence[str]) -> str:
    """Name columns: a run by its ends, others one by one.

    Example:
        >>> names = ["a", "b", "c", "d", "e"]
        >>> column_words([0, 1, 2, 3], names), column_words([1, 3], names)
        ('a…d', 'b, d')
    """
    places = sorted(places)
    if len(places) >= _SHORT_RUN and places[-1] - places[0] == len(places) - 1:
        return f"{names[places[0]]}…{names[places[-1]]}"
    return listed([names[place] for place in places])


def in_column_names(text: str, names: Sequence[str]) -> str:
    """A name that says which positions are meant, with columns in their place.

    Example:
        >>> names = ["a", "b", "c", "d", "e"]
        >>> in_column_names("S(3), positions 0–2", names)
        'S(3), columns a…c'
        >>> in_column_names("S(2)+S(2), positions {0, 4} and {1, 2}", names)
        'S(2)+S(2), columns {a, e} and {b, c}'
        >>> in_column_names("S(5), all positions", names)
        'S(5), all positions'
    """
    group, noun, rest = text.partition(", positions ")
    if not noun or _PLACES.fullmatch(rest) is None:
        return text

    def named(match: re.Match[str]) -> str:
        return "…".join(names[int(place)] for place in match[0].split("–"))

    return f"{group}, columns {_RUN.sub(named, rest)}"


def listed(words: Sequence[str]) -> str:
    """A list with commas, cut where it is very long.

    Example:
        >>> listed(["a", "b"])
        'a, b'
    """
    if len(words) <= _LISTED:
        return ", ".join(words)
    return f"{', '.join(words[:_LISTED])}, … ({len(words)} in all)"


def joined(words: Sequence[str]) -> str:
    """A list with "and" before the last, cut where it is very long.

    Example:
        >>> joined(["a", "b", "c"])
        'a, b and c'
    """
    if len(words) > _LISTED:
        return listed(words)
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _parity(places: list[int], count: int) -> str | None:
    for start, word in enumerate(("even", "odd")):
        # of two or three positions, the even ones are better listed
        if count > 3 and places == list(range(start, count, 2)):
            return word
    return None


def _range(places: list[int]) -> str:
    if len(places) > 2 and places[-1] - places[0] == len(places) - 1:
        return f"{places[0]}–{places[-1]}"
    return listed(list(map(str, places)))


@dataclass(frozen=True)
class Motion:
    """What moves, and how.

    Args:
        verb: What is done.
        places: The sets of positions it is done to.
        style: Whether each set moves, all in the same way; or only the order in each set says how;
            or the sets are moved as blocks.
    """

    verb: str
    places: tuple[IntArray, ...]
    style: Literal["sets", "orders", "blocks"] = "sets"

    def in_positions(self, count: int) -> str:
        """In positions of ``count``: "cyclic shift", "even positions".

        Example:
            >>> motion(Z(4), [np.arange(4)], 4).in_positions(4)
            'cyclic shift'
        """
        if self.style == "orders":
            return self._in_order([str(place) for place in range(count)])
        where = position_words([p.tolist() for p in self.places], count) + self._together
        if self.verb == _ANY:
            return where
        return self.verb if where == "all positions" else f"{self.verb} of {where}"

    def in_columns(self, names: Sequence[str]) -> str:
        """In the names of columns: "cyclic shift of x0…x5".

        Example:
            >>> motion(S(3), [np.arange(3)], 3).in_columns(["a", "b", "c"])
            'any permutation of a, b, c'
        """
        if self.style == "orders":
            return self._in_order(names)
        if self.verb == _ANY and len(self.places) == 1 and len(self.places[0]) == 2:
            return f"{_SWAPS} {' ↔ '.join(names[place] for place in sorted(self.places[0]))}"
        sets = [column_words(places.tolist(), names) for places in self.places]
        if len(sets) > 1:
            sets = [f"{{{text}}}" for text in sets]
        return f"{self.verb} of {joined(sets)}{self._together}"

    @property
    def _together(self) -> str:
        return " together" if len(self.places) > 1 and self.style != "blocks" else ""

    def _in_order(self, names: Sequence[str]) -> str:
        if self.verb == _SWAPS:
            pairs = [f"{names[a]} ↔ {names[b]}" for a, b in self.places]
            return f"{self.verb} {joined(pairs)}{self._together}"
        orders = [listed([names[place] for place in places]) for places in self.places]
        if len(orders) == 1:
            return f"{self.verb} in the order {orders[0]}"
        return f"{self.verb} in the orders {joined([f'({o})' for o in orders])} together"


def motion(core: Group, copies: Sequence[IntArray], count: int) -> Motion:
    """Describe a group that moves one or more sets of ``count`` positions in the same way.

    Example:
        >>> motion(D(4), [np.array([0, 2, 4, 6]), np.array([1, 3, 5, 7])], 8).verb
        'shifts by 2 and reflections'
    """
    sets, union = tuple(copies), (np.sort(np.concatenate(copies)),)
    if isinstance(core, Z) and core.d == 2 and _is_reflection(sets, count):
        return Motion("reflection", (np.arange(count),))
    if isinstance(core, S):
        return Motion(_ANY, sets)
    if isinstance(core, A):
        return Motion("even permutations", sets)
    if isinstance(core, Z | D):
        step = f" by {len(sets)}" if len(sets) > 1 else ""
        shift, plain = (
            (f"cyclic shift{step}", "cyclic shift")
            if isinstance(core, Z)
            else (f"shifts{step} and reflections", "shifts and reflections")
        )
        if _is_shift(np.searchsorted(union[0], np.stack(sets)), len(sets)):
            return Motion(shift, union)
        if core.d > 2 and _is_shift(np.argsort(np.argsort(np.stack(sets), 1), 1), 1):
            return Motion(plain, sets)
        return Motion(_SWAPS if core.d == 2 else plain, sets, "orders")
    if isinstance(core, DirectProduct):
        grid = _grid(core, sets, count)
        return Motion(grid, union) if grid else Motion("product action", sets, "orders")
    if isinstance(core, Wreath):
        blocks = [block for copy in sets for block in copy.reshape(core.outer.d, -1)]
        return Motion("permutations within and among blocks", tuple(blocks), "blocks")
    return Motion("permutations", sets, "orders")


def _is_reflection(copies: tuple[IntArray, ...], count: int) -> bool:
    return len(copies) == count // 2 and all(int(a + b) == count - 1 for a, b in copies)


def _is_shift(ranks: IntArray, step: int) -> bool:
    """Whether adding ``step`` to every rank moves all copies by one number of places."""
    size = ranks.max() + 1
    ahead = (ranks + step) % size
    turns = np.flatnonzero(ranks[0] == ahead[0, 0])
    return bool(turns.size) and np.array_equal(np.roll(ranks, -int(turns[0]), 1), ahead)


def _grid(core: DirectProduct, copies: tuple[IntArray, ...], count: int) -> str | None:
    """Words for shifts of a grid, or for permutations of its rows and columns."""
    if len(copies) > 1 or core.d != count or len(core.factors) != 2 or count > _LARGEST_GRID:
        return None
    kinds = {type(factor) for factor in core.factors}
    if kinds not in ({Z}, {S}):
        return None
    places, back = copies[0], np.argsort(copies[0])
    for height in range(2, count // 2 + 1):
        if count % height:
            continue
        cells = np.arange(count).reshape(height, -1)
        swapped = [np.arange(size) for size in cells.shape]
        for index in swapped:
            index[:2] = index[1::-1]
        moved = [cells[swapped[0]], cells[:, swapped[1]]] if kinds == {S} else []
        moved += [np.roll(cells, 1, axis) for axis in (0, 1)]
        if all(core.contains(back[g.ravel()[places]].tolist()) for g in moved):
            size = f"{cells.shape[0]}×{cells.shape[1]} grid"
            return (
                f"shifts of a {size}" if kinds == {Z} else f"permuted rows and columns of a {size}"
            )
    return None
