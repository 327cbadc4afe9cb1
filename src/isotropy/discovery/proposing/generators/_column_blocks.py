"""Columns in blocks: two four-vectors in one row, on which a group acts in the same way.

The names of columns are taken apart for it, into a block and a coordinate.
"""

from __future__ import annotations

import itertools
import operator
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from isotropy.discovery.proposing._proposing_thresholds import ProposingThresholds

NameReading = Callable[[str], tuple[str, str] | None]

_NUMBER, _WORD = "have the same names but for a number", "have the same names but for a word"
_AXIS, NUMBERED = "are named as components of vectors", "are numbered alike"
_DELIMITERS = r"[\s_.\-\[\](){}:/|]+"
_FOUR_VECTORS = (frozenset({"e", "px", "py", "pz"}), frozenset({"t", "x", "y", "z"}))
_VECTORS = (frozenset({"x", "y", "z"}), frozenset({"px", "py", "pz"}))


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


@dataclass(frozen=True)
class ColumnBlocks:
    """k blocks of d columns, in matching order, and the columns that are in none.

    Args:
        columns: The columns of each block.
        coordinates: The d names of matching columns.
        rest: Columns in no block.
        reason: Why these, as a sentence.

    Example:
        >>> blocks = ColumnBlocks(((0, 1), (3, 4)), ("x", "y"), (2,), "given")
        >>> blocks.k, blocks.d, blocks.n
        (2, 2, 5)
    """

    columns: tuple[tuple[int, ...], ...]
    coordinates: tuple[str, ...]
    rest: tuple[int, ...]
    reason: str

    @property
    def k(self) -> int:
        """The number of blocks."""
        return len(self.columns)

    @property
    def d(self) -> int:
        """The number of columns in a block."""
        return len(self.coordinates)

    @property
    def n(self) -> int:
        """The number of columns in all."""
        return self.k * self.d + len(self.rest)


def blocks_from_names(names: Sequence[str]) -> list[ColumnBlocks]:
    """Read blocks from names that repeat: E1, px1, …, E2, px2, …; p1_x, p1_y, p2_x, p2_y.

    Blocks differ by a number or a word in the name, or are the components x, y, z of several
    vectors, as ax, ay, az, bx, by, bz or xa, ya, za, xb, yb, zb. Well-known coordinates (E, px, py,
    pz; t, x, y, z; x, y, z) count for more than others, blocks of neighbouring columns for more
    than scattered ones. Names that only count, as x0, x1, x2, say nothing.

    Returns:
        At most four ways to see blocks of at least two columns, the most plausible first.

    Example:
        >>> names = ["m1", "x1", "y1", "z1", "m2", "x2", "y2", "z2"]
        >>> for blocks in blocks_from_names(names):
        ...     print(blocks.columns, blocks.coordinates, blocks.rest)
        ((1, 2, 3), (5, 6, 7)) ('x', 'y', 'z') (0, 4)
        ((0, 1, 2, 3), (4, 5, 6, 7)) ('m', 'x', 'y', 'z') ()
    """
    found: dict[tuple[tuple[int, ...], ...], tuple[float, ColumnBlocks]] = {}
    for worth, read, words in name_readings(names):
        places: dict[str, dict[str, int]] = {}
        for column, name in enumerate(names):
            parts = read(name)
            if parts is not None and parts[1] not in places.setdefault(parts[0], {}):
                places[parts[0]][parts[1]] = column
        for coordinates in _repeated(places):
            blocks = _blocks(places, coordinates, names, words)
            score = worth + _plausibility(blocks)
            if words == NUMBERED and not _contiguous(blocks):
                continue
            if blocks.columns not in found or found[blocks.columns][0] < score:
                found[blocks.columns] = (score, blocks)
    best = max((score for score, _ in found.values()), default=0.0)
    ranked = sorted(found.values(), key=lambda pair: (-pair[0], len(pair[1].rest)))
    # a reading with words at random says nothing beside one with well-known coordinates
    plausible = [blocks for score, blocks in ranked if score >= 1.0 or best < 2.0]
    return plausible[: ProposingThresholds.now().block_readings]


def blocks_of_width(n: int, k: int) -> ColumnBlocks:
    """Cut n columns into k consecutive blocks.

    Raises:
        ValueError: If k does not divide n.

    Example:
        >>> blocks_of_width(6, 2).columns
        ((0, 1, 2), (3, 4, 5))
    """
    if k < 1 or n < 1 or n % k:
        raise ValueError(f"expected a number of blocks that divides {n} columns, got {k}")
    d = n // k
    columns = tuple(tuple(range(start, start + d)) for start in range(0, n, d))
    return ColumnBlocks(
        columns, plain_names(d), (), f"{n} columns in {k} equal parts, in their order"
    )


def blocks_by_size(n: int) -> list[ColumnBlocks]:
    """All ways to cut n columns into at least two equal consecutive blocks of at least two.

    Example:
        >>> [(blocks.k, blocks.d) for blocks in blocks_by_size(12)]
        [(2, 6), (3, 4), (4, 3), (6, 2)]
    """
    return [blocks_of_width(n, k) for k in range(2, n // 2 + 1) if n % k == 0]


def as_blocks(
    blocks: int | Sequence[Sequence[int]] | Sequence[Sequence[str]],
    names: Sequence[str] | None,
    n: int,
) -> ColumnBlocks:
    """Read blocks as a user gives them.

    Args:
        blocks: Their number, if all columns are in them in order, or the columns of each, as
            numbers or names in matching order.
        names: The name of each column, if they have names.
        n: The number of columns.

    Raises:
        ValueError: If they are not blocks of equal length without a column in common.
        TypeError: If they are something else.

    Example:
        >>> as_blocks([["xa", "ya"], ["xb", "yb"]], ["m", "xa", "xb", "ya", "yb"], 5)
        ColumnBlocks(columns=((1, 3), (2, 4)), coordinates=('x', 'y'), rest=(0,), reason='given')
    """
    if names is not None and len(names) != n:
        raise ValueError(f"expected {n} names of columns, got {len(names)}")
    if hasattr(blocks, "__index__") and not isinstance(blocks, bool):
        cut = blocks_of_width(n, operator.index(blocks))
        return ColumnBlocks(cut.columns, shared_names(cut.columns, names), (), cut.reason)
    if not isinstance(blocks, Iterable) or isinstance(blocks, str):
        raise TypeError(f"expected a number of blocks or lists of columns, got {blocks!r:.80}")
    columns = tuple(_columns(block, names, n) for block in blocks)
    lengths = sorted({len(block) for block in columns})
    if len(lengths) != 1 or lengths[0] == 0:
        got = " and ".join(map(str, lengths)) or "no blocks"
        raise ValueError(f"expected blocks of one length, with at least one column, got {got}")
    taken = [column for block in columns for column in block]
    for column in taken:
        if taken.count(column) > 1:
            name = names[column] if names is not None else column
            raise ValueError(f"expected each column in one block at most, got {name} twice")
    rest = tuple(column for column in range(n) if column not in set(taken))
    return ColumnBlocks(columns, shared_names(columns, names), rest, "given")


def _columns(
    block: Sequence[int] | Sequence[str], names: Sequence[str] | None, n: int
) -> tuple[int, ...]:
    if isinstance(block, str) or not isinstance(block, Iterable):
        raise TypeError(f"expected each block as a list of columns, got {block!r:.80}")
    columns: list[int] = []
    for column in block:
        if isinstance(column, str):
            if names is None or column not in names:
                known = "names for the columns" if names is None else f"one of {', '.join(names)}"
                raise ValueError(f"expected {known:.200}, got {column!r} in a block")
            columns.append(list(names).index(column))
        elif isinstance(column, bool) or not hasattr(column, "__index__"):
            raise TypeError(f"expected a column's number or name in a block, got {column!r:.80}")
        else:
            number = int(column)
            if not 0 <= number < n:
                raise ValueError(f"expected a column from 0 to {n - 1} in a block, got {number}")
            columns.append(number)
    return tuple(columns)


def _repeated(places: dict[str, dict[str, int]]) -> list[tuple[str, ...]]:
    """Sets of coordinates that at least two blocks have: most columns, and well-known ones."""
    kinds = {frozenset(block) for block in places.values() if len(block) > 1}
    counts = {kind: sum(kind <= set(block) for block in places.values()) for kind in kinds}
    sizes = {kind: count * len(kind) for kind, count in counts.items() if count > 1}
    if not sizes:
        return []
    most = max((size, sorted(kind)) for kind, size in sizes.items())[1]
    short = {c: name.lower() for c, name in zip(most, without_prefix(most), strict=True)}
    wanted = [tuple(most)]
    for family in _FOUR_VECTORS:  # vectors of three are found by their components
        part = tuple(c for c in most if short[c] in family)
        if {short[c] for c in part} == family and len(part) == len(family):
            wanted.append(part)
    return wanted


def _blocks(
    places: dict[str, dict[str, int]], coordinates: tuple[str, ...], names: Sequence[str], why: str
) -> ColumnBlocks:
    chosen = [block for block in places.values() if set(coordinates) <= set(block)]
    chosen.sort(key=lambda block: min(block[c] for c in coordinates))
    order = sorted(coordinates, key=lambda c: chosen[0][c])
    columns = tuple(tuple(block[c] for c in order) for block in chosen)
    taken = {column for block in columns for column in block}
    rest = tuple(column for column in range(len(names)) if column not in taken)
    listed = [", ".join(names[column] for column in block) for block in columns]
    if len(listed) > ProposingThresholds.now().blocks_listed:
        listed = [listed[0], f"{len(listed) - 1} more blocks"]
    return ColumnBlocks(columns, without_prefix(order), rest, f"columns {_joined(listed)} {why}")


def _plausibility(blocks: ColumnBlocks) -> float:
    coordinates = {coordinate.lower() for coordinate in blocks.coordinates}
    known = 3.0 * (coordinates in _FOUR_VECTORS) + 2.0 * (coordinates in _VECTORS)
    return known + _contiguous(blocks)


def _contiguous(blocks: ColumnBlocks) -> bool:
    return all(block[-1] - block[0] == blocks.d - 1 for block in blocks.columns)


def _joined(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else "".join(words)
