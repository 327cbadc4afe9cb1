"""Arrays with names, in npz files or dictionaries: which are inputs and which are targets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from isotropy.data._arrays import from_arrays
from isotropy.data._dataset import Dataset, TaskKind
from isotropy.data._intake import Intake, Rows
from isotropy.data._stored_arrays import DAMAGED, require_content, stored_length, stored_rows

# Names under which people keep inputs and targets, lower case, the commonest first.
_PAIRS = (
    ("x", "y"),
    ("inputs", "targets"),
    ("inputs", "outputs"),
    ("features", "labels"),
    ("features", "targets"),
    ("images", "labels"),
    ("data", "target"),
    ("data", "labels"),
)
# Taken where none of the above is there: the first of either list.
_OTHER_INPUTS = (
    "x", "inputs", "input", "features", "images", "data", "samples", "points", "signals",
)  # fmt: skip
_OTHER_TARGETS = (
    "y", "targets", "target", "labels", "label", "outputs", "output", "classes", "class",
)  # fmt: skip
_SPLITS = ("train", "test")


def load_npy(path: Path, task: TaskKind | None, groups: Any, intake: Intake) -> Dataset:
    """Load one array as inputs."""
    with _reading(path) as array:
        if not isinstance(array, np.ndarray):
            raise ValueError(f"{path}: expected one array, got an archive of several; name it .npz")
        require_content(array, str(path), "an array")
    return from_arrays(array, None, task, groups, str(path), intake)


def load_npz(
    path: Path,
    target: str | None,
    task: TaskKind | None,
    groups: Any,
    split: str | None,
    intake: Intake,
) -> Dataset:
    """Load the inputs and targets of an archive of arrays."""
    with _reading(path) as archive:
        if isinstance(archive, np.ndarray):
            raise ValueError(f"{path}: expected an archive of arrays, got one array; name it .npy")
        members = _Members(archive, path)
        return from_mapping(members, target, task, groups, split, str(path), intake)


@contextmanager
def _reading(path: Path) -> Iterator[Any]:
    with path.open("rb") as file:  # numpy leaves a damaged file open
        first = file.read(1)
        file.seek(0)
        try:
            content = np.load(file, allow_pickle=False)
        except DAMAGED as error:
            # numpy takes for a pickle whatever is none of pickle, array and archive
            if first not in (b"\x80", b"\x93", b"P"):
                raise ValueError(
                    f"{path}: expected an array file of numpy, got a file of another kind"
                ) from error
            raise _unreadable(path, "an array file of numpy", error) from error
        yield content


def _unreadable(path: Path, what: str, error: Exception) -> ValueError:
    if "allow_pickle" in str(error):
        return ValueError(f"{path}: expected {what}, got Python objects, which are never unpickled")
    return ValueError(f"{path}: expected {what}, got a damaged one ({error!s:.300})")


class _Members(Mapping[str, Any]):
    """The arrays of an archive, each read when asked for."""

    def __init__(self, archive: Any, path: Path) -> None:
        self._archive = archive
        self._path = path

    def __getitem__(self, name: str) -> Any:
        with self._blamed(name):
            array = self._archive[name]
        if isinstance(array, np.ndarray):
            require_content(array, str(self._path), f"an array {name!r}")
        return array

    def __iter__(self) -> Iterator[str]:
        return iter(self._archive.files)

    def __len__(self) -> int:
        return len(self._archive.files)

    def length(self, name: str) -> int | None:
        """How many rows an array has, where they can be read one after the other."""
        with self._blamed(name):
            return stored_length(self._archive.zip, name)

    def rows(self, name: str, rows: Rows) -> Any:
        """Read the chosen rows, without holding the others."""
        with self._blamed(name):
            return stored_rows(self._archive.zip, name, rows)

    @contextmanager
    def _blamed(self, name: str) -> Iterator[None]:
        try:
            yield
        except DAMAGED as error:
            raise _unreadable(self._path, f"an array {name!r} of numbers", error) from error


def from_mapping(
    arrays: Mapping[str, Any],
    target: str | None,
    task: TaskKind | None,
    groups: Any,
    split: str | None,
    source: str,
    intake: Intake,
) -> Dataset:
    """Find inputs and targets among named arrays."""
    names = {str(name).lower(): name for name in arrays}
    notes: tuple[str, ...] = ()
    if intake.guess and split is None and _both_splits(names) and target is None:
        split, notes = "train", ("of the splits train and test, 'train' was taken",)
    if isinstance(groups, str):
        groups = arrays[_named(groups, arrays, "groups", source)]
    elif groups is None and "groups" in names and split is None:
        groups = arrays[names["groups"]]
    x_name: str
    y_name: str | None
    if target is not None:
        y_name = _named(target, arrays, "target", source)
        x_name = _inputs_beside(y_name, names, source)
    else:
        guessed = _guessed(arrays, names) if intake.guess and split is None else None
        if guessed is None:
            x_name, y_name = _pair(names, split, source)
        else:
            x_name, y_name = guessed
            notes += (f"{x_name!r} was taken as inputs and {y_name!r} as targets",)
    drawn = _drawn(arrays, x_name, y_name, groups, source, intake)
    if drawn is not None:
        x, y, groups, added = drawn
        return from_arrays(x, y, task, groups, source, intake, (*notes, *added))
    y = None if y_name is None else arrays[y_name]
    return from_arrays(arrays[x_name], y, task, groups, source, intake, notes)


def _drawn(
    arrays: Mapping[str, Any],
    x_name: str,
    y_name: str | None,
    groups: Any,
    source: str,
    intake: Intake,
) -> tuple[Any, Any, Any, tuple[str, ...]] | None:
    """Draw rows while a file is read; ``None`` where that is left to arrays in memory."""
    if intake.most_rows is None or not isinstance(arrays, _Members):
        return None
    count = arrays.length(x_name)
    if count is None or count <= intake.most_rows:
        return None
    if y_name is not None and arrays.length(y_name) != count:
        return None
    rows = intake.drawn(count, groups, source)
    if rows is None:
        return None
    y = None if y_name is None else arrays.rows(y_name, rows)
    groups = None if groups is None else np.asarray(groups)[rows]
    return arrays.rows(x_name, rows), y, groups, intake.note(rows, count)


def _named(name: str, arrays: Mapping[str, Any], what: str, source: str) -> str:
    if name not in arrays:
        raise ValueError(
            f"{source}: expected {what} among the arrays {_list(arrays)}, got {name!r}"
        )
    return name


def _list(arrays: Any) -> str:
    return ", ".join(sorted(map(str, arrays))) or "(none)"


def _inputs_beside(y_name: str, names: Mapping[str, str], source: str) -> str:
    for candidate, _ in _PAIRS:
        if candidate in names and names[candidate] != y_name:
            return names[candidate]
    others = [name for name in names.values() if name not in (y_name, names.get("groups"))]
    if len(others) != 1:
        raise ValueError(
            f"{source}: expected inputs x beside the target {y_name!r}, "
            f"got the arrays {_list(names.values())}"
        )
    return others[0]


def _pairs_of(names: Mapping[str, str], part: str) -> list[tuple[str, str]]:
    spelled = ((f"{x}_{part}", f"{y}_{part}", f"{part}_{x}", f"{part}_{y}") for x, y in _PAIRS)
    return [
        (x, y)
        for ending_x, ending_y, starting_x, starting_y in spelled
        for x, y in ((ending_x, ending_y), (starting_x, starting_y))
        if x in names and y in names
    ]


def _both_splits(names: Mapping[str, str]) -> bool:
    plain = any(x in names and y in names for x, y in _PAIRS)
    return not plain and all(_pairs_of(names, part) for part in _SPLITS)


def _pair(names: Mapping[str, str], split: str | None, source: str) -> tuple[str, str | None]:
    """Pick the one pair that is there, or the pair of a split."""
    plain = [p for p in _PAIRS if p[0] in names and p[1] in names]
    splits = {part: _pairs_of(names, part) for part in _SPLITS}
    there = [part for part in _SPLITS if splits[part]]
    if split is not None:
        found = splits[split]
    elif plain:
        found = plain
    elif len(there) == 2:
        raise ValueError(
            f"{source}: expected split='train' or split='test', got None for the arrays "
            f"{_list(names.values())}"
        )
    else:
        found = splits[there[0]] if there else []
    if len(found) == 1:
        return names[found[0][0]], names[found[0][1]]
    if not found and split is None:
        other = _other_pair(names)
        if other is not None:
            return other
        if "x" in names or len(names) == 1:
            return names.get("x", next(iter(names.values()))), None
    raise ValueError(
        f"{source}: expected one pair of arrays such as x and y"
        + (f" of the split {split!r}" if split else "")
        + f", got the arrays {_list(names.values())}"
    )


def _other_pair(names: Mapping[str, str]) -> tuple[str, str] | None:
    """A name for inputs and a name for targets that are seldom together."""
    inputs = [name for name in _OTHER_INPUTS if name in names]
    targets = [name for name in _OTHER_TARGETS if name in names]
    if len(inputs) != 1 or len(targets) != 1:
        return None
    return names[inputs[0]], names[targets[0]]


def _guessed(arrays: Mapping[str, Any], names: Mapping[str, str]) -> tuple[str, str] | None:
    """Of two arrays of one length whose names say nothing, take the larger as inputs."""
    if any(x in names and y in names for x, y in _PAIRS) or _other_pair(names) is not None:
        return None
    others = [name for lower, name in names.items() if lower != "groups"]
    if len(others) != 2:
        return None
    first, second = (np.asarray(arrays[name]) for name in others)
    if first.ndim == 0 or second.ndim == 0 or len(first) != len(second):
        return None
    known = [name for name in others if name.lower() in _OTHER_INPUTS]
    if len(known) == 1:
        return known[0], next(name for name in others if name != known[0])
    known = [name for name in others if name.lower() in _OTHER_TARGETS]
    if len(known) == 1:
        return next(name for name in others if name != known[0]), known[0]
    swapped = (second.ndim, second.size) > (first.ndim, first.size)
    return (others[1], others[0]) if swapped else (others[0], others[1])
