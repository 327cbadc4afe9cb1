"""Arrays: npz and npy files, dictionaries, pairs, and PyTorch's own data sets."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from isotropy.data._dataset import Dataset, TaskKind
from isotropy.data._tensors import group_numbers, input_tensor, target_tensor

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
_SPLITS = ("train", "test")


def from_arrays(x: Any, y: Any, task: TaskKind | None, groups: Any, source: str) -> Dataset:
    """Make a data set of two arrays; the second may be ``None``."""
    inputs = input_tensor(x, source)
    targets, classes = (None, None) if y is None else target_tensor(y, task, source)
    numbers = None if groups is None else group_numbers(groups, source)
    return Dataset(inputs, targets, classes=classes, groups=numbers, source=source)


def load_npy(path: Path, task: TaskKind | None, groups: Any) -> Dataset:
    """Load one array as inputs."""
    with _reading(path) as array:
        if not isinstance(array, np.ndarray):
            raise ValueError(f"{path}: expected one array, got an archive of several; name it .npz")
    return from_arrays(array, None, task, groups, str(path))


def load_npz(
    path: Path, target: str | None, task: TaskKind | None, groups: Any, split: str | None
) -> Dataset:
    """Load the inputs and targets of an archive of arrays."""
    with _reading(path) as archive:
        if isinstance(archive, np.ndarray):
            raise ValueError(f"{path}: expected an archive of arrays, got one array; name it .npy")
        return from_mapping(_Members(archive, path), target, task, groups, split, str(path))


# what numpy raises at a file whose bytes are not what its header says
_DAMAGED = (ValueError, EOFError, MemoryError, zipfile.BadZipFile, zlib.error)


@contextmanager
def _reading(path: Path) -> Iterator[Any]:
    with path.open("rb") as file:  # numpy leaves a damaged file open
        try:
            content = np.load(file, allow_pickle=False)
        except _DAMAGED as error:
            raise _unreadable(path, "an array file of numpy", error) from error
        yield content


def _unreadable(path: Path, what: str, error: Exception) -> ValueError:
    if "allow_pickle" in str(error):
        return ValueError(f"{path}: expected {what}, got Python objects, which are never unpickled")
    return ValueError(f"{path}: expected {what}, got a damaged one ({error})")


class _Members(Mapping[str, Any]):
    """The arrays of an archive, each read when asked for."""

    def __init__(self, archive: Any, path: Path) -> None:
        self._archive = archive
        self._path = path

    def __getitem__(self, name: str) -> Any:
        try:
            return self._archive[name]
        except _DAMAGED as error:
            raise _unreadable(self._path, f"an array {name!r} of numbers", error) from error

    def __iter__(self) -> Iterator[str]:
        return iter(self._archive.files)

    def __len__(self) -> int:
        return len(self._archive.files)


def from_mapping(
    arrays: Mapping[str, Any],
    target: str | None,
    task: TaskKind | None,
    groups: Any,
    split: str | None,
    source: str,
) -> Dataset:
    """Find inputs and targets among named arrays."""
    names = {str(name).lower(): name for name in arrays}
    if isinstance(groups, str):
        groups = arrays[_named(groups, arrays, "groups", source)]
    elif groups is None and "groups" in names and split is None:
        groups = arrays[names["groups"]]
    y_name: str | None
    if target is not None:
        y_name = _named(target, arrays, "target", source)
        x_name = _inputs_beside(y_name, names, source)
    else:
        x_name, y_name = _pair(names, split, source)
    y = None if y_name is None else arrays[y_name]
    return from_arrays(arrays[x_name], y, task, groups, source)


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


def _pair(names: Mapping[str, str], split: str | None, source: str) -> tuple[str, str | None]:
    """Pick the one pair that is there, or the pair of a split."""
    plain = [p for p in _PAIRS if p[0] in names and p[1] in names]
    splits = {
        part: [
            (f"{x}_{part}", f"{y}_{part}")
            for x, y in _PAIRS
            if f"{x}_{part}" in names and f"{y}_{part}" in names
        ]
        for part in _SPLITS
    }
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
    if not found and split is None and ("x" in names or len(names) == 1):
        return names.get("x", next(iter(names.values()))), None
    raise ValueError(
        f"{source}: expected one pair of arrays such as x and y"
        + (f" of the split {split!r}" if split else "")
        + f", got the arrays {_list(names.values())}"
    )


def from_torch_dataset(items: Any, task: TaskKind | None, groups: Any) -> Dataset:
    """Stack the items of a map-style data set: each (x, y), or x alone."""
    source = type(items).__name__
    count = len(items)
    if count == 0:
        raise ValueError(f"{source}: expected items, got none")
    xs: list[Tensor] = []
    ys: list[Any] = []
    for number in range(count):
        x, y = _parts(items[number], number, source)
        if xs and x.shape != xs[0].shape:
            raise ValueError(
                f"{source}: expected inputs of one shape, got {tuple(x.shape)} in item {number} "
                f"after {tuple(xs[0].shape)}"
            )
        xs.append(x)
        ys.append(y)
    without = sum(y is None for y in ys)
    if 0 < without < count:
        raise ValueError(
            f"{source}: expected a target in every item or in none, got {without} without"
        )
    return from_arrays(
        torch.stack(xs), None if without else _stacked(ys, source), task, groups, source
    )


def _parts(item: Any, number: int, source: str) -> tuple[Tensor, Any]:
    if isinstance(item, tuple | list):
        if len(item) not in (1, 2):
            raise ValueError(
                f"{source}: expected items (x, y) or x, got {len(item)} parts in item {number}"
            )
        x, y = item[0], item[1] if len(item) == 2 else None
    else:
        x, y = item, None
    if not isinstance(x, Tensor | np.ndarray | np.number | float | int):
        raise ValueError(
            f"{source}: expected tensors, arrays or numbers as inputs, "
            f"got {type(x).__name__} in item {number}"
        )
    return torch.as_tensor(x), y


def _stacked(ys: list[Any], source: str) -> Any:
    if all(isinstance(y, str) for y in ys):
        return np.array(ys)
    try:
        return torch.stack([torch.as_tensor(y) for y in ys])
    except (RuntimeError, TypeError, ValueError) as error:
        raise ValueError(
            f"{source}: expected numbers, tensors of one shape or text as targets, got {error}"
        ) from error
