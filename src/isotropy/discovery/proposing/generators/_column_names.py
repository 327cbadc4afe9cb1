"""Names of columns taken apart, into a block and a coordinate, and what matching names share."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from functools import partial

NameReading = Callable[[str], tuple[str, str] | None]

_NUMBER, _WORD = "have the same names but for a number", "have the same names but for a word"
_AXIS, NUMBERED = "are named as components of vectors", "are numbered alike"
_DELIMITERS = r"[\s_.\-\[\](){}:/|]+"


def name_readings(names: Sequence[str]) -> list[tuple[float, NameReading, str]]:
    """Ways to take a name apart into a block and a coordinate, with their worth."""
    runs = max((len(re.findall(r"\d+", name)) for name in names), default=0)
    numbered: list[tuple[float, NameReading, str]] = [
        (1.0, partial(_by_number, run=run), _NUMBER) for run in range(runs)
    ]
    return [
        *numbered,
        (1.0, _by_axis, _AXIS),
        (1.0, _by_first_axis, _AXIS),
        (0.5, _by_component_number, NUMBERED),
        (0.5, _by_last_words, _WORD),
        (0.5, _by_first_words, _WORD),
    ]


def _by_number(name: str, run: int) -> tuple[str, str] | None:
    numbers = list(re.finditer(r"\d+", name))
    if len(numbers) <= run:
        return None
    here = numbers[run]
    before, after = name[: here.start()], name[here.end() :]
    stem = _trimmed(f"{before}{after}")
    return (here.group(), stem) if stem else None


def _by_component_number(name: str) -> tuple[str, str] | None:
    """What is numbered as the block, the number as the coordinate."""
    parts = _by_number(name, 0)
    return None if parts is None or _by_number(name, 1) is not None else (parts[1], parts[0])


def _by_first_words(name: str) -> tuple[str, str] | None:
    words = _words(name)
    return ("_".join(words[:-1]), words[-1]) if len(words) > 1 else None


def _by_last_words(name: str) -> tuple[str, str] | None:
    words = _words(name)
    return ("_".join(words[1:]), words[0]) if len(words) > 1 else None


def _words(name: str) -> list[str]:
    """The words of a name; none if there is a number in it, which says more."""
    return [] if re.search(r"\d", name) else [w for w in re.split(_DELIMITERS, name) if w]


def _by_axis(name: str) -> tuple[str, str] | None:
    """The letter x, y or z as the coordinate, alone or after one other letter."""
    axes = list(re.finditer(r"(?<![A-Za-z])[A-Za-z]?([xyzXYZ])(?![A-Za-z])", name))
    if not axes:
        return None
    start, end = axes[-1].span(1)
    return f"{name[:start]}*{name[end:]}", name[start:end]


def _by_first_axis(name: str) -> tuple[str, str] | None:
    """The letter x, y or z as the coordinate, before one other letter: xa, ya, za."""
    axis = re.fullmatch(r"([xyzXYZ])([A-Wa-w])", name)
    return None if axis is None else (axis[2], axis[1])


def shared_names(columns: Sequence[Sequence[int]], names: Sequence[str] | None) -> tuple[str, ...]:
    """What the names of matching columns have in common, if that tells coordinates apart."""
    d = len(columns[0])
    if names is None:
        return plain_names(d)
    if len(columns) == 1:
        return tuple(names[column] for column in columns[0])
    shared = []
    for matching in zip(*columns, strict=True):
        here = [names[column] for column in matching]
        before = _start(here).rstrip("0123456789")
        tails = [name[len(before) :][::-1] for name in here]
        after = _start(tails)[::-1].lstrip("0123456789")
        shared.append(_trimmed(f"{before}{after}"))
    if "" in shared or len(set(shared)) < d:
        return plain_names(d)
    return without_prefix(shared)


def plain_names(d: int) -> tuple[str, ...]:
    """Names that only count."""
    return tuple(f"x{i}" for i in range(d))


def without_prefix(stems: Sequence[str]) -> tuple[str, ...]:
    """Coordinates without a first word that all share: p_x, p_y to x, y."""
    words = [re.split(_DELIMITERS, stem, maxsplit=1) for stem in stems]
    if all(len(w) == 2 and w[0] == words[0][0] and not w[1].isdigit() for w in words):
        return tuple(w[1] for w in words)
    return tuple(stems)


def _start(texts: Sequence[str]) -> str:
    """The characters with which all of them start."""
    common = itertools.takewhile(lambda letters: len(set(letters)) == 1, zip(*texts, strict=False))
    return "".join(letters[0] for letters in common)


def _trimmed(text: str) -> str:
    """Without delimiters at its ends, and with one where a number was between two."""
    inner = re.sub(r"\[\]|\(\)|\{\}", "", text)
    return re.sub(r"([_.\-:/|])[_.\-:/|]+", r"\1", inner).strip(" _.-:/|")
