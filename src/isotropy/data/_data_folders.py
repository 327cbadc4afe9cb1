"""What a folder holds: idx files, images by class, or one of these for each split."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from isotropy.data._dataset import Dataset, TaskKind
from isotropy.data._idx import idx_splits, load_idx_file
from isotropy.data._image_folder import (
    ImageReading,
    folders_within,
    images_within,
    load_image_folder,
)
from isotropy.data._intake import Intake, refuse_options

_SPLIT_FOLDERS = ("train", "test")


def load_folder(
    path: Path,
    task: TaskKind | None,
    groups: Any,
    split: str | None,
    reading: ImageReading,
    intake: Intake,
) -> Dataset:
    """Load idx files or images, of one split where there are two."""
    idx = idx_splits(path)
    if idx:
        refuse_options(path, **reading.options())
        part, notes = _split_of(path, sorted(idx, reverse=True), split, intake)
        return _noted(load_idx_file(idx[part], task, groups, intake), notes)
    folders = [folder.name for folder in folders_within(path)]
    parts = [part for part in _SPLIT_FOLDERS if part in folders]
    if parts and (split is not None or len(parts) == 2):
        part, notes = _split_of(path, parts, split, intake)
        return _noted(load_folder(path / part, task, groups, None, reading, intake), notes)
    refuse_options(path, split=split)
    if not folders and not images_within(path):
        raise ValueError(f"{path}: expected idx files or images, got a folder without them")
    if task == "regression":
        raise ValueError(
            f"{path}: expected task 'classification' for images by class, got {task!r}"
        )
    return load_image_folder(path, reading, groups, intake)


def _split_of(
    path: Path, there: list[str], split: str | None, intake: Intake
) -> tuple[str, tuple[str, ...]]:
    if split is None and len(there) == 1:
        return there[0], ()
    if split is None and intake.guess and "train" in there:
        return "train", ("of the splits train and test, 'train' was taken",)
    if split not in there:
        choices = " or ".join(f"split={part!r}" for part in there)
        raise ValueError(f"{path}: expected {choices}, got {split!r}")
    return split, ()


def _noted(data: Dataset, notes: tuple[str, ...]) -> Dataset:
    return replace(data, notes=(*notes, *data.notes)) if notes else data
