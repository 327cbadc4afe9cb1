"""Positions in words: "even and odd positions", "positions 0–4 and 5–9", "x0…x11"."""

from __future__ import annotations

import re
from collections.abc import Sequence

_RUN = re.compile(r"\d+(?:–\d+)?")
_PLACES = re.compile(r"(?:\d+|–|, | and |[{}])+(?: together)?")
_LISTED = 24
_SHORT_RUN = 4  # a run of fewer is listed: "x1, x2, x3"


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
