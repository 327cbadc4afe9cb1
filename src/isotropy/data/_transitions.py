"""Logged transitions (s, a, s′) of an environment or a controlled system."""

from __future__ import annotations

import os
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from isotropy._run import atomic_write, generator

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
# what numpy raises at a file whose bytes are not what its header says
_DAMAGED = (ValueError, EOFError, MemoryError, zipfile.BadZipFile, zlib.error)


class TransitionChunks(NamedTuple):
    """Stretches of trajectories under known actions.

    Attributes:
        observations: Shape (n, length + 1, observation size).
        actions: Shape (n, length, action size).
    """

    observations: Tensor
    actions: Tensor


@dataclass(frozen=True, eq=False)
class Transitions:
    """Transitions of an environment: s, a and the s′ that followed.

    Args:
        observations: s, shape (N, n).
        actions: a, shape (N, m).
        next_observations: s′, shape (N, n).
        rewards: What each step gave, shape (N,), or None.
        episodes: A number for each transition, shape (N,): rows with one number follow each other
            in time, in their order. None where all are one by one.

    Raises:
        TypeError: If something is no tensor.
        ValueError: If the shapes do not fit together, or a value is not finite.

    Example:
        >>> walk = torch.randn(11, 2).cumsum(0)
        >>> steps = Transitions(walk[:-1], walk.diff(dim=0), walk[1:], episodes=torch.zeros(10))
        >>> steps.chunks(3, length=4, generator=0).observations.shape
        torch.Size([3, 5, 2])
    """

    observations: Tensor
    actions: Tensor
    next_observations: Tensor
    rewards: Tensor | None = None
    episodes: Tensor | None = None

    def __post_init__(self) -> None:
        for name in NEEDED:
            _check_table(name, getattr(self, name))
        rows = len(self.observations)
        if self.next_observations.shape != self.observations.shape:
            raise ValueError(
                f"expected next_observations of shape {tuple(self.observations.shape)}, as "
                f"observations have, got {tuple(self.next_observations.shape)}"
            )
        for name in ("actions", "rewards", "episodes"):
            values = getattr(self, name)
            if values is None:
                continue
            if not isinstance(values, Tensor):
                raise TypeError(f"expected {name} as a tensor, got {type(values).__name__}")
            if len(values) != rows or (name != "actions" and values.ndim != 1):
                one_each = (rows, "m") if name == "actions" else (rows,)
                raise ValueError(
                    f"expected {name} of shape ({', '.join(map(str, one_each))}"
                    f"{',' if len(one_each) == 1 else ''}), one for each observation, "
                    f"got {tuple(values.shape)}"
                )
            if not bool(values.isfinite().all()):
                raise ValueError(f"expected finite {name}, got {_bad(values)} that are not")

    def __len__(self) -> int:
        return len(self.observations)

    def rows(self, index: Tensor | slice) -> Transitions:
        """Some of the transitions; episodes stay where the index is a slice of rows in a row.

        Example:
            >>> steps = Transitions(torch.zeros(9, 2), torch.zeros(9, 1), torch.ones(9, 2))
            >>> len(steps.rows(slice(0, 4)))
            4
        """
        in_a_row = isinstance(index, slice) and index.step in (None, 1)
        return Transitions(
            self.observations[index],
            self.actions[index],
            self.next_observations[index],
            None if self.rewards is None else self.rewards[index],
            self.episodes[index] if in_a_row and self.episodes is not None else None,
        )

    def chunks(
        self, n: int, *, length: int = 10, generator: torch.Generator | int | None = None
    ) -> TransitionChunks:
        """Draw ``n`` stretches of ``length`` transitions in a row, uniformly among all.

        They may overlap, and are all different while there are enough. None goes on from one
        episode into the next.

        Args:
            n: How many.
            length: How many transitions each has.
            generator: The source of randomness, or a seed.

        Raises:
            ValueError: If no stretch is so long, or a number is not positive.
        """
        for name, value in (("stretches", n), ("transitions in a stretch", length)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"expected a positive number of {name}, got {value!r}")
        starts = self._starts(length)
        if len(starts) == 0:
            raise ValueError(
                f"expected {length} transitions that follow each other, got stretches of at most "
                f"{int(torch.bincount(self._stretch()).max())}"
            )
        drawn = starts[_draws(len(starts), n, generator)].to(self.observations.device)
        rows = drawn[:, None] + torch.arange(length, device=drawn.device)
        last = self.next_observations[rows[:, -1:]]
        return TransitionChunks(torch.cat([self.observations[rows], last], 1), self.actions[rows])

    def _stretch(self) -> Tensor:
        """The number of the stretch that each transition belongs to, shape (N,)."""
        if self.episodes is None:
            return torch.arange(len(self))
        ends = (self.episodes[1:] != self.episodes[:-1]).long().cpu()
        return torch.cat([ends.new_zeros(1), ends.cumsum(0)])

    def _starts(self, length: int) -> Tensor:
        """Rows at which so many transitions in a row begin."""
        stretch = self._stretch()
        if length > len(stretch):
            return stretch[:0]
        same = stretch[length - 1 :] == stretch[: len(stretch) - length + 1]
        return same.nonzero().flatten()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write an ``.npz`` file that ``load`` and ``isotropy discover`` read.

        Args:
            path: The file; it appears once it is complete.

        Raises:
            ValueError: If its name does not end in ``.npz``, or its folder does not exist.
        """
        _check_suffix(path)
        arrays = {
            name: values.detach().cpu().numpy()
            for name, values in vars(self).items()
            if values is not None
        }
        with atomic_write(path) as file:
            np.savez_compressed(file, **arrays)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Transitions:
        """Read an ``.npz`` file with observations, actions and next_observations.

        Names are those of ``save``, or others in use, such as ``obs``, ``act`` and ``next_obs``.
        Without ``episodes``, an episode ends with each of ``terminals`` and ``timeouts`` (as D4RL
        names them) that is true.

        Args:
            path: The file. Python objects in it are never unpickled.

        Raises:
            ValueError: If it is damaged, lacks an array, or the arrays do not fit together.
        """
        _check_suffix(path)
        found = _arrays(path)
        for name in NEEDED:
            if name not in found:
                raise ValueError(
                    f"{os.fspath(path)}: expected an array {name}, got "
                    f"{', '.join(sorted(found)) or 'none'}"
                )
        try:
            s, a, following = (_tensor(found[name], floating=True) for name in NEEDED)
            return Transitions(s, a, following, _optional(found, "rewards"), _episodes(found))
        except (TypeError, ValueError) as error:
            raise ValueError(f"{os.fspath(path)}: {error}") from error


def _check_table(name: str, values: object) -> None:
    if not isinstance(values, Tensor):
        raise TypeError(f"expected {name} as a tensor, got {type(values).__name__}")
    if values.ndim != 2 or values.numel() == 0:
        raise ValueError(f"expected {name} of shape (N, size), got {tuple(values.shape)}")
    if not values.is_floating_point():
        raise TypeError(f"expected {name} of floating-point numbers, got {values.dtype}")
    if not bool(values.isfinite().all()):
        raise ValueError(f"expected finite {name}, got {_bad(values)} that are not")


def _bad(values: Tensor) -> int:
    return int((~values.isfinite()).sum())


def _draws(available: int, n: int, seed: torch.Generator | int | None) -> Tensor:
    """``n`` places, all different while there are enough."""
    source = generator(seed)
    full = [torch.randperm(available, generator=source) for _ in range(n // available)]
    rest = torch.randperm(available, generator=source)[: n % available]
    return torch.cat([*full, rest])


def _check_suffix(path: str | os.PathLike[str]) -> None:
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
        except _DAMAGED as error:
            got = (
                "Python objects, which are never unpickled"
                if "allow_pickle" in str(error)
                else f"a damaged one ({error})"
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
