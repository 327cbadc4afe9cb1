"""Logged transitions (s, a, s′) of an environment or a controlled system."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from isotropy._run import atomic_write
from isotropy._run import generator as _source
from isotropy.data._transition_files import NEEDED, check_suffix, read_transitions


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
        """Some of the transitions.

        Episodes stay while rows of one stay next to each other, as in a slice, or where whole
        episodes are left out. Where the index leaves out or exchanges rows within an episode, the
        transitions are one by one, without episodes.

        Args:
            index: Whatever tensors take as an index of rows.

        Example:
            >>> walk = torch.arange(7.0)[:, None]
            >>> numbers = torch.tensor([0, 0, 0, 1, 1, 1])
            >>> steps = Transitions(walk[:-1], walk[:-1], walk[1:], episodes=numbers)
            >>> steps.rows(slice(1, 4)).episodes
            tensor([0, 0, 1])
            >>> steps.rows(torch.tensor([0, 2])).episodes is None
            True
        """
        return Transitions(
            self.observations[index],
            self.actions[index],
            self.next_observations[index],
            None if self.rewards is None else self.rewards[index],
            self._kept_episodes(index),
        )

    def _kept_episodes(self, index: Tensor | slice) -> Tensor | None:
        if self.episodes is None:
            return None
        device = index.device if isinstance(index, Tensor) else None
        follows = torch.arange(len(self), device=device)[index].diff().cpu() == 1
        kept = self.episodes[index]
        ends = (kept[1:] != kept[:-1]).cpu()
        return kept if bool((follows | ends).all()) else None

    def split(
        self, share: float = 0.8, *, generator: torch.Generator | int | None = None
    ) -> tuple[Transitions, Transitions]:
        """Two parts, each of whole episodes, such as those to learn from and those to test on.

        States of one episode resemble each other, so a test on rows of the same episodes is too
        easy. Rows keep their order. Without episodes, rows are drawn one by one.

        Args:
            share: The share of all rows in the first part, as close as whole episodes allow.
            generator: The source of randomness, or a seed.

        Raises:
            ValueError: If the share is not between 0 and 1, or there is one episode only.

        Example:
            >>> s = torch.arange(8.0)[:, None]
            >>> steps = Transitions(s, s, s + 1, episodes=torch.arange(8) // 2)
            >>> learn, test = steps.split(0.75, generator=0)
            >>> len(learn), len(test), test.episodes.unique().numel()
            (6, 2, 1)
        """
        if not 0 < share < 1:
            raise ValueError(f"expected a share between 0 and 1, got {share!r}")
        rows = torch.arange(len(self))
        numbers = rows if self.episodes is None else self.episodes.cpu()
        _, own, counts = numbers.unique(return_inverse=True, return_counts=True)
        if len(counts) < 2:
            raise ValueError(
                "expected two or more episodes to split, got one: rows(slice(...)) cuts within it"
            )
        order = torch.randperm(len(counts), generator=_source(generator))
        # how far off each number of episodes would be; neither part may be empty
        off = (counts[order].cumsum(0)[:-1] - share * len(self)).abs()
        first = torch.zeros(len(counts), dtype=torch.bool)
        first[order[: int(off.argmin()) + 1]] = True
        return self._whole(rows[first[own]]), self._whole(rows[~first[own]])

    def _whole(self, index: Tensor) -> Transitions:
        """Rows of whole episodes, also of those whose numbers come more than once."""
        part = self.rows(index.to(self.observations.device))
        if self.episodes is None or part.episodes is not None:
            return part
        return replace(part, episodes=self._stretch()[index].to(self.observations.device))

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
            known = (
                ""
                if self.episodes is not None
                else ", as there are no episodes, which rows(index) drops where rows of one are "
                "left out or exchanged"
            )
            raise ValueError(
                f"expected {length} transitions that follow each other, got stretches of at most "
                f"{int(torch.bincount(self._stretch()).max())}{known}"
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
        check_suffix(path)
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
        names them) that is true. Where there are no next_observations, they are the observations
        of the rows that follow, and the last row of every episode is left out; ends that such a
        file does not tell, such as time limits where it has ``terminals`` only, are then taken
        for steps.

        Args:
            path: The file. Python objects in it are never unpickled.

        Raises:
            ValueError: If it is damaged, lacks an array, or the arrays do not fit together.
        """
        check_suffix(path)
        arrays = read_transitions(path)
        try:
            return Transitions(**arrays)
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
    source = _source(seed)
    full = [torch.randperm(available, generator=source) for _ in range(n // available)]
    rest = torch.randperm(available, generator=source)[: n % available]
    return torch.cat([*full, rest])
