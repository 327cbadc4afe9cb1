"""One verb for whatever the data come in."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from isotropy._run._moved_keywords import moved_keywords
from isotropy.data._dataset import Dataset, TaskKind
from isotropy.data._image_folder import ImageReading, Unreadable
from isotropy.data._intake import Intake, refuse_options
from isotropy.data._tensors import check_task

_KNOWN = ".csv, .csv.gz, .tsv, .tsv.gz, .npz, .npy, .parquet, idx files or a folder"


@moved_keywords(intake=Intake)
def load(
    source: Any,
    *,
    target: str | Sequence[str] | None = None,
    task: TaskKind | None = None,
    groups: Any = None,
    split: str | None = None,
    size: tuple[int, int] | None = None,
    crop: bool = False,
    unreadable: Unreadable = "refuse",
    intake: Intake | None = None,
) -> Dataset:
    r"""Load data from a file, a folder or memory.

    - ``.csv``, ``.tsv`` (also ``.gz``): a table with a header. All columns but ``target`` and
      ``groups`` are inputs and must be numbers.
    - ``.parquet``, or a pandas DataFrame: the same (``pip install pandas pyarrow``).
    - ``.npz``, or a dictionary: the arrays x and y, or another obvious pair: inputs and targets,
      data and target, images and labels, x_train and y_train. Nothing is unpickled.
    - ``.npy``, or one array: inputs without targets.
    - idx files, MNIST's format (also ``.gz``): images of shape (n, c, h, w) in [0, 1] and the
      labels beside them. The folder that holds them will do.
    - a folder of images: one folder for each class, or no folders and no targets. Shape
      (n, c, h, w) in [0, 1], grey where all are grey, otherwise RGB.
    - (x, y): two arrays or tensors.
    - a map-style PyTorch data set, or a list, with items (x, y) or x.

    Inputs are float32; float64 stays float64 in arrays and npz files. Targets are floats of shape
    (n, k) for a regression and int64 of shape (n,) for a classification. With ``task=None``, text,
    truth values, labels of images and single columns of whole numbers with few distinct values
    (at most 20, and at most half as many as rows unless there are two) are classes; everything
    else is a regression. Whole-number classes that start at 0 and stay under 1000 keep their
    numbers, others are numbered in sorted order; ``classes`` names them.

    What is done to the data on the way in stands in ``notes``.

    Args:
        source: What to load.
        target: The column or columns (a list, or ``"a,b"``) to predict, or the array of an npz.
        task: ``"regression"``, ``"classification"``, or ``None`` to tell from the targets.
        groups: Which rows belong together: the name of a column or array, or one value for each
            row. An npz or dictionary with an array ``groups`` needs no mention of it.
        split: ``"train"`` or ``"test"``, where the source holds both.
        size: (height, width) to which a folder's images are resized.
        crop: Whether their aspect ratio is kept: each is resized until it just covers ``size``, and
            the centre is taken. Otherwise they are squeezed.
        unreadable: Whether a folder with a file that is no image or a damaged one is refused
            (``"refuse"``), or the file is left out, with a warning in the log, and named in
            ``skipped`` (``"skip"``; every image is then decoded twice).
        intake: How many rows to take, and whether to leave out what cannot be used and to guess
            what was not given; by default all rows, and neither.

    Returns:
        The data, in memory.

    Raises:
        TypeError: If ``source`` is of a kind that is not listed.
        ValueError: If the file is missing, damaged, unreadable or of an unknown kind, if a value is
            missing or not finite, or if rows or lengths do not match; the message names the place.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder) / "pets.csv"
        ...     _ = path.write_text("legs,weight,kind\n4,3.5,cat\n4,20,dog\n2,0.1,bird\n")
        ...     data = load(path, target="kind")
        >>> data.x_names, data.classes, data.y
        (('legs', 'weight'), ('bird', 'cat', 'dog'), tensor([1, 2, 0]))
        >>> load((np.zeros((5, 3)), np.linspace(0, 1, 5)))
        Dataset(x (5, 3) float64, y (5, 1) float64, from 'arrays')
    """
    check_task(task)
    if split not in (None, "train", "test"):
        raise ValueError(f"expected split 'train', 'test' or None, got {split!r}")
    reading = _checked_reading(size, crop, unreadable)
    intake = intake or Intake()
    if isinstance(source, str | os.PathLike):
        path = Path(source).expanduser()
        try:
            data = _load_path(path, target, task, groups, split, reading, intake)
        except OSError as error:
            place, reason = error.filename or path, error.strerror or error
            raise ValueError(
                f"{place}: expected a file that can be read, got {str(reason).lower()!r}"
            ) from error
    else:
        data = _load_object(source, target, task, groups, split, reading, intake)
    if task is not None and data.y is None:
        raise ValueError(f"{data.source}: expected targets for a {task}, got none")
    return data


def _checked_reading(size: Any, crop: bool, unreadable: Any) -> ImageReading:
    if unreadable not in ("refuse", "skip"):
        raise ValueError(f"expected unreadable 'refuse' or 'skip', got {unreadable!r}")
    if size is None:
        if crop:
            raise ValueError("expected size (height, width) to crop to, got None")
        return ImageReading(unreadable=unreadable)
    sides = tuple(size) if isinstance(size, tuple | list) else ()
    if len(sides) != 2 or not all(isinstance(side, int) and side > 0 for side in sides):
        raise ValueError(f"expected size (height, width), got {size!r}")
    return ImageReading((sides[0], sides[1]), crop, unreadable)


def _load_path(
    path: Path,
    target: Any,
    task: TaskKind | None,
    groups: Any,
    split: str | None,
    reading: ImageReading,
    intake: Intake,
) -> Dataset:
    if not path.exists():
        raise ValueError(f"{path}: expected a file or folder, got a path where nothing is")
    if path.is_dir():
        from isotropy.data._data_folders import load_folder

        refuse_options(path, target=target)
        return load_folder(path, task, _rows_apart(groups, path), split, reading, intake)
    refuse_options(path, **reading.options())
    if path.stat().st_size == 0:
        raise ValueError(f"{path}: expected data, got an empty file")
    name = path.name.lower()
    if name.endswith(".npz"):
        from isotropy.data._named_arrays import load_npz

        return load_npz(path, _one(target, path), task, groups, split, intake)
    refuse_options(path, split=split)
    if name.endswith((".csv", ".csv.gz", ".tsv", ".tsv.gz")):
        from isotropy.data._delimited_text import load_csv

        return load_csv(path, target, task, groups, intake)
    if name.endswith(".parquet"):
        from isotropy.data._data_frames import load_parquet

        return load_parquet(path, target, task, groups, intake)
    refuse_options(path, target=target)
    if name.endswith(".npy"):
        from isotropy.data._named_arrays import load_npy

        return load_npy(path, task, groups, intake)
    from isotropy.data._idx import is_idx, load_idx_file

    if is_idx(path):
        return load_idx_file(path, task, _rows_apart(groups, path), intake)
    raise ValueError(f"{path}: expected {_KNOWN}, got a file ending in {path.suffix!r}")


def _load_object(
    source: Any,
    target: Any,
    task: TaskKind | None,
    groups: Any,
    split: str | None,
    reading: ImageReading,
    intake: Intake,
) -> Dataset:
    refuse_options("arrays", **reading.options())
    if isinstance(source, Mapping):
        from isotropy.data._named_arrays import from_mapping

        return from_mapping(source, _one(target, "arrays"), task, groups, split, "arrays", intake)
    refuse_options("arrays", split=split)
    if type(source).__module__.partition(".")[0] == "pandas" and hasattr(source, "columns"):
        from isotropy.data._data_frames import load_frame

        return load_frame(source, target, task, groups, intake)
    refuse_options("arrays", target=target)
    from isotropy.data._arrays import from_arrays, from_dataset, from_torch_dataset

    groups = _rows_apart(groups, "arrays")
    if isinstance(source, Dataset):
        return from_dataset(source, groups, intake)
    if isinstance(source, Tensor | np.ndarray):
        return from_arrays(source, None, task, groups, "arrays", intake)
    if _is_list_of_items(source):
        return from_torch_dataset(source, task, groups, intake)
    if isinstance(source, tuple | list):
        if len(source) != 2:
            raise ValueError(f"expected a pair (x, y) of arrays, got {len(source)} things")
        return from_arrays(source[0], source[1], task, groups, "arrays", intake)
    if hasattr(source, "__getitem__") and hasattr(source, "__len__"):
        return from_torch_dataset(source, task, groups, intake)
    raise TypeError(
        "expected a path, arrays or a data set with a length and items, "
        f"got {type(source).__name__}"
    )


def _is_list_of_items(source: Any) -> bool:
    """Tell [(x, y), (x, y), …] from [x, y]: there items are tuples that start with an array."""
    return (
        isinstance(source, list)
        and bool(source)
        and all(
            isinstance(item, tuple) and item and isinstance(item[0], Tensor | np.ndarray)
            for item in source
        )
    )


def _one(target: Any, source: Any) -> str | None:
    if target is None or isinstance(target, str):
        return target
    raise ValueError(f"{source}: expected the name of one array as target, got {target!r}")


def _rows_apart(groups: Any, source: Any) -> Any:
    if isinstance(groups, str):
        raise ValueError(f"{source}: expected one value for each row as groups, got {groups!r}")
    return groups
