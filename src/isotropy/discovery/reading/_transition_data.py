"""Transitions as discovery takes them: (s, a), s′ − s, and which rows belong together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from isotropy.data import Transitions
from isotropy.discovery.predictors._free_predictor import (
    FreePredictor,
    fit_free_predictor,
    notes_of_share,
)
from isotropy.discovery.reading._reading_thresholds import ReadingThresholds

if TYPE_CHECKING:
    from isotropy.discovery.testing._bench import Bench

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class TransitionData:
    """Observations and actions beside each other, and what observations change by.

    Args:
        x: (s, a), shape (N, d), float64; one action of several is an indicator for each.
        increments: s′ − s, shape (N, n).
        spread: The deviations of all increments, shape (n,); 1 where there are none.
        names: Of the entries of x.
        groups: Rows with one value belong together, shape (N,); None where each is by itself.
        cut: Whether these are stretches of few episodes.
        choices: How many entries at the end are indicators, which have no sign to turn.
    """

    x: Tensor
    increments: Tensor
    spread: Tensor
    names: tuple[str, ...]
    groups: NDArray[np.int64] | None
    cut: bool = False
    choices: int = 0

    @staticmethod
    def of(
        transitions: Transitions,
        observation_names: Sequence[str] | None = None,
        action_names: Sequence[str] | None = None,
    ) -> TransitionData:
        """Read transitions.

        Raises:
            ValueError: If there are not as many names as entries, or all increments are the same.

        Example:
            >>> walk = torch.arange(6.0)[:, None] ** 2
            >>> choices = torch.tensor([[0.0], [1.0], [0.0], [2.0], [1.0]])
            >>> TransitionData.of(Transitions(walk[:-1], choices, walk[1:])).names
            ('o0', 'a is 0', 'a is 1', 'a is 2')
        """
        s = transitions.observations.detach().cpu().double()
        a = transitions.actions.detach().cpu().double()
        increments = transitions.next_observations.detach().cpu().double() - s
        spread = increments.std(0, correction=0)
        varies = spread > ReadingThresholds.now().constant_step * (1 + s.abs().amax(0))
        if not bool(varies.any()):
            raise ValueError("expected increments s′ − s that vary, got the same throughout")
        named = [
            _names("observation", observation_names, s.shape[1]),
            _names("action", action_names, a.shape[1]),
        ]
        count = 0
        if _is_choice(a):
            count = int(a.max()) + 1
            a = functional.one_hot(a[:, 0].long(), count).double()
            stem = "a" if action_names is None else named[1][0]
            named[1] = [f"{stem} is {choice}" for choice in range(count)]
        groups, cut = _groups(transitions)
        return TransitionData(
            torch.cat([s, a], 1),
            increments,
            torch.where(varies, spread, 1.0),
            (*named[0], *named[1]),
            groups,
            cut,
            count,
        )

    @property
    def n(self) -> int:
        """How many entries an observation has."""
        return self.increments.shape[1]

    def rows(self, chosen: NDArray[np.int64] | NDArray[np.bool_]) -> TransitionData:
        """The same with some rows only."""
        index = torch.as_tensor(chosen)
        part = None if self.groups is None else self.groups[chosen]
        return replace(self, x=self.x[index], increments=self.increments[index], groups=part)

    def errors(self, prediction: Tensor) -> Floats:
        """Squared errors of all entries in deviations, none above nine, shape (N, n).

        Collisions are rare, large, and hardly learned: errors count up to three deviations.
        """
        error = ((prediction.double() - self.increments) / self.spread).square()
        errors: Floats = error.clamp_max(ReadingThresholds.now().largest_error).numpy()
        return errors

    @property
    def targets_vary(self) -> bool:
        """Whether there is more than one target."""
        return len(self.increments.unique(dim=0)) > 1

    def losses(self, prediction: Tensor) -> Tensor:
        """The error of a mean entry of each row, shape (N,)."""
        return torch.from_numpy(self.errors(prediction).mean(1))

    @property
    def loss_words(self) -> str:
        """What the losses are."""
        return "squared error of an entry in deviations, nine at most"

    def accuracy(self, prediction: Tensor) -> float | None:
        """There are no classes."""
        del prediction
        return None

    def notes(self, bench: Bench) -> list[str]:
        """What kind of predictor there is, how much it leaves, and whether episodes were cut."""
        free, fitted, outside = bench.free, bench.problem.fitted, bench.problem.outside
        assert isinstance(outside, TransitionData)
        left, constant = (
            float(outside.errors(one).mean()) for one in (free.predict(outside.x), free.constant)
        )
        share = left / max(constant, 1e-300)
        found = [
            f"transitions; free predictor of s′ − s: {free.kind}, leaves {share:.2g} of the "
            f"variance; fitted to {len(fitted.x)} rows, claims tested on {len(outside.x)} others"
        ]
        if self.cut:
            found.append(
                "there are few episodes, so that stretches of them stand for whole ones: rows of "
                "one episode are in several parts"
            )
        return [*found, *notes_of_share(share)]

    def free_predictor(self, seed: int) -> FreePredictor:
        """A predictor of increments free of symmetry, best in deviations of the columns."""
        spread = self.spread
        scaled = fit_free_predictor(
            self.x,
            self.increments / spread,
            "regression",
            groups=self.groups,
            trees=False,
            seed=seed,
        )
        return replace(
            scaled,
            predict=lambda rows: scaled.predict(rows) * spread,
            constant=scaled.constant * spread,
        )


def _names(what: str, given: Sequence[str] | None, count: int) -> list[str]:
    if given is None:
        return [f"{what[0]}{i}" for i in range(count)]
    names = [str(name) for name in given]
    if len(names) != count:
        raise ValueError(f"expected {count} names of entries of an {what}, got {len(names)}")
    return names


def _is_choice(actions: Tensor) -> bool:
    """Whether an action is one of several, numbered from 0."""
    if actions.shape[1] != 1:
        return False
    values = actions.unique()
    count = len(values)
    few = 1 < count <= ReadingThresholds.now().most_choices
    return few and bool((values == torch.arange(count)).all())


def _groups(transitions: Transitions) -> tuple[NDArray[np.int64] | None, bool]:
    """Which rows belong together: episodes, or stretches of them where there are few."""
    rows, limits = len(transitions), ReadingThresholds.now()
    if transitions.episodes is not None:
        given = transitions.episodes.cpu().numpy()
        ends = given[1:] != given[:-1]
    else:
        # a row that starts where the one before ended belongs to it
        s, following = transitions.observations, transitions.next_observations
        ends = (following[:-1] != s[1:]).any(1).cpu().numpy()
    labels = np.concatenate([[0], np.cumsum(ends)]).astype(np.int64)
    count = int(labels[-1]) + 1
    if count == rows:
        return None, False
    if count >= limits.episodes:
        return labels, False
    length = max(limits.shortest_stretch, rows // limits.stretches)
    within = np.arange(rows) - np.searchsorted(labels, labels)
    pieces = labels * (rows + 1) + within // length
    return np.unique(pieces, return_inverse=True)[1].astype(np.int64), True
