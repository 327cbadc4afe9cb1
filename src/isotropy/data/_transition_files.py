"""Files of logged transitions, under the names in use."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from isotropy.data._stored_arrays import DAMAGED, require_content

SPELLINGS = {
    "observations": ("observations", "obs", "states", "s"),
    "actions": ("actions", "action", "act", "a"),
    "next_observations": ("next_observations", "next_obs", "next_states", "s_next", "s2"),
    "rewards": ("rewards", "reward", "r"),
    "episodes": ("episodes", "episode"),
    "terminals": ("terminals", "terminations", "terminated", "dones", "done"),
    "timeouts": ("timeouts", "truncations", "truncated"),
}
NEEDED = ("observations", "actions", "next_observations")


def read_transitions(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The arguments of ``Transitions`` from an ``.npz`` file.

    Raises:
        ValueError: If it is damaged, lacks an array, or has one that is not of numbers.
    """
    found = _arrays(path)
    _require_arrays(path, found)
    try:
        tables = {name: _tensor(found[name], floating=True) for name in NEEDED if name in found}
        rewards, episodes = _optional(found, "rewards"), _episodes(found)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{os.fspath(path)}: {error}") from error
    read = {**tables, "rewards": rewards, "episodes": episodes}
    return read if "next_observations" in read else _with_next(path, read)


def _require_arrays(path: str | os.PathLike[str], found: dict[str, Any]) -> None:
    got = ", ".join(sorted(found)) or "none"
    for name in ("observations", "actions"):
        if name not in found:
            raise ValueError(f"{os.fspath(path)}: expected an array {name}, got {got}")
    ends = ("episodes", "terminals", "timeouts")
    if "next_observations" not in found and found.keys().isdisjoint(ends):
        raise ValueError(
            f"{os.fspath(path)}: expected an array next_observations, or one of "
            f"{', '.join(ends)}, by which rows are known to follow each other, got {got}"
        )


def _with_next(
    path: str | os.PathLike[str], read: dict[str, Tensor | None]
) -> dict[str, Tensor | None]:
    """With the observations that follow; the last row of each episode has none."""
    states, episodes = read["observations"], read["episodes"]
    assert states is not None
    assert episodes is not None
    for name, values in read.items():
        if values is not None and len(values) != len(states):
            raise ValueError(
                f"{os.fspath(path)}: expected {name} for each of {len(states)} observations, "
                f"got {len(values)}"
            )
    followed = (episodes[1:] == episodes[:-1]).nonzero().flatten()
    if len(followed) == 0:
        raise ValueError(
            f"{os.fspath(path)}: expected episodes of two rows or more, to take "
            "next_observations from, got none"
        )
    kept = {name: None if values is None else values[followed] for name, values in read.items()}
    return {**kept, "next_observations": states[followed + 1]}


def check_suffix(path: str | os.PathLike[str]) -> None:
    """Refuse what is not named as a file of arrays."""
    if Path(path).suffix != ".npz":
        raise ValueError(f"expected a file of transitions named .npz, got {os.fspath(path)!r}")


def _arrays(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The arrays of a file under the names of ``SPELLINGS``."""
    with Path(path).open("rb") as file:
        try:
            archive = np.load(file, allow_pickle=False)
            if isinstance(archive, np.ndarray):
                raise ValueError("one array without a name")
            spelled = {str(name).lower(): name for name in archive.files}
            return {
                ours: archive[spelled[found[0]]]
                for ours, names in SPELLINGS.items()
                if (found := [name for name in names if name in spelled])
            }
        except DAMAGED as error:
            got = (
                "Python objects, which are never unpickled"
                if "allow_pickle" in str(error)
                else f"a damaged one ({error!s:.300})"
            )
            raise ValueError(
                f"{os.fspath(path)}: expected an archive of arrays, got {got}"
            ) from error


def _tensor(array: np.ndarray[Any, Any], *, floating: bool) -> Tensor:
    if array.dtype.kind not in "fiub":
        raise TypeError(f"expected numbers, got an array of {array.dtype}")
    values = torch.from_numpy(np.ascontiguousarray(array))
    # half precision has no place for the differences of states; one column is one number
    if floating and values.dtype not in (torch.float32, torch.float64):
        values = values.float()
    return values.unsqueeze(1) if floating and values.ndim == 1 else values


def _optional(found: dict[str, Any], name: str) -> Tensor | None:
    if name not in found:
        return None
    values = _tensor(found[name], floating=False)
    return values.flatten() if values.ndim == 2 and values.shape[1] == 1 else values


def _episodes(found: dict[str, Any]) -> Tensor | None:
    given = _optional(found, "episodes")
    ends = [_optional(found, name) for name in ("terminals", "timeouts")]
    known = [end.bool() for end in ends if end is not None]
    if given is not None or not known:
        return given
    over = torch.stack(known).any(0)
    return torch.cat([torch.zeros(1, dtype=torch.int64), over.long().cumsum(0)[:-1]])


def holds_transitions(path: str | os.PathLike[str]) -> bool:
    """Whether a file has observations, actions and the observations that followed.

    One of the last two is enough where names are words: ``Transitions.load`` then finds the rest,
    or says what is missing.

    Args:
        path: Any file or folder; only an ``.npz`` is opened, and only its list of names is read.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder) / "log.npz"
        ...     np.savez(path, obs=np.zeros(3), act=np.zeros(3), next_obs=np.zeros(3))
        ...     holds_transitions(path)
        True
    """
    path = Path(path).expanduser()
    if path.suffix.lower() != ".npz" or not zipfile.is_zipfile(path):
        return False
    try:
        with zipfile.ZipFile(path) as archive:
            names = {name.removesuffix(".npy").lower() for name in archive.namelist()}
    except (zipfile.BadZipFile, NotImplementedError, OSError, ValueError):
        return False  # whoever loads it says what is wrong
    there = [needed for needed in NEEDED if not names.isdisjoint(SPELLINGS[needed])]
    words = {name for name in names if len(name) > 2}
    spelled = [needed for needed in NEEDED if not words.isdisjoint(SPELLINGS[needed])]
    return len(there) == len(NEEDED) or (len(spelled) > 1 and spelled[0] == "observations")


def transition_names(
    path: str | os.PathLike[str],
) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """The arrays ``observation_names`` and ``action_names`` of a file, where it has both.

    Raises:
        ValueError: If they are not lists of text.
    """
    keys = ("observation_names", "action_names")
    try:
        with np.load(Path(path).expanduser(), allow_pickle=False) as archive:
            if not set(keys) <= set(archive.files):
                return None
            named = [np.asarray(archive[key]) for key in keys]
    except (*DAMAGED, OSError) as error:
        raise ValueError(
            f"{path}: expected an npz file, got a damaged one ({error!s:.300})"
        ) from error
    for key, array in zip(keys, named, strict=True):
        require_content(array, str(path), key)
        if array.ndim != 1 or array.dtype.kind != "U":
            raise ValueError(
                f"{path}: expected {key} as a list of text, got {array.dtype} of {array.shape}"
            )
    return tuple(named[0].tolist()), tuple(named[1].tolist())
