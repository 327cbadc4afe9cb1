"""Search along the lattice of networks: from few equal weights to many, near the best ones."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from math import ceil

import numpy as np
import torch

from isotropy._run import generator
from isotropy.search._by_network import full_scores
from isotropy.search._lattice_surrogate import predict
from isotropy.search._space import SearchSpace, State
from isotropy.search._strategy import ChildProposal


class LatticeSearch:
    """Proposes networks next to the best ones, the most promising first.

    Sets of groups with the same network are one: its largest set, `SearchSpace.network`. These
    closed sets are a lattice under inclusion. The search starts at the bottom, the network without
    groups, and asks for joins of good networks with one more group and for what is left of them
    without one: neighbours of the ``beam`` best. Good is what a regression on all scores so far
    holds to be good, not the single score, which is known to about half a point only; candidates
    are ordered by the regression's optimistic guess, its mean and a deviation. Where nothing new is
    next to the best, the beam is widened, so that every network that can be reached is trained in
    the end.

    With ``rungs``, candidates are trained for few epochs first, and of the neighbours of the beam
    only a ``share``, the best after those epochs, is trained on (successive halving).

    It keeps no record: proposals follow from scores, what is taken, and the seed.

    Args:
        space: What to search.
        seed: Of the order of equally promising networks.
        beam: How many of the best networks have their neighbours trained.
        rungs: Epochs of shorter trainings, growing; none to train every candidate in full.
        share: Of candidates at each rung that are trained on.
        warm: Start a candidate from the trained child that it is a neighbour of.
        optimism: How many deviations a candidate's guess is raised by.

    Raises:
        ValueError: If an argument is out of range.

    Example:
        >>> space = SearchSpace((1, 8, 8), ("horizontal flip", "vertical flip"), ((4,),))
        >>> search = LatticeSearch(space, seed=0)
        >>> first = search.propose({}, ())
        >>> str(first.state), str(search.propose({first: 0.9}, ()).state)
        ('no group', 'vertical flip')
    """

    aliases = "unknown"

    def __init__(
        self,
        space: SearchSpace,
        seed: int,
        *,
        beam: int = 12,
        rungs: tuple[int, ...] = (),
        share: float = 0.5,
        warm: bool = False,
        optimism: float = 1.0,
    ) -> None:
        if beam < 1:
            raise ValueError(f"expected a beam of at least 1, got {beam}")
        if any(n < 1 for n in rungs) or list(rungs) != sorted(set(rungs)):
            raise ValueError(f"expected growing numbers of epochs from 1 on, got {rungs}")
        if not 0 < share <= 1:
            raise ValueError(f"expected a share above 0 and up to 1, got {share}")
        if optimism < 0:
            raise ValueError(f"expected no negative optimism, got {optimism}")
        self.keeps_weights = warm or bool(rungs)
        self._space, self._beam, self._rungs, self._share = space, beam, rungs, share
        self._warm, self._optimism = warm, optimism
        states = list(space.states())
        order = torch.randperm(len(states), generator=generator(seed)).tolist()
        self._order = dict(zip(states, order, strict=True))

    def propose(
        self, scores: Mapping[ChildProposal, float], taken: Collection[ChildProposal]
    ) -> ChildProposal | None:
        """The most promising child to train next; ``None`` where no network is left.

        Args:
            scores: Accuracy of every child trained so far.
            taken: Children that others are training now.
        """
        network = self._space.network
        full = {network(state): accuracy for state, accuracy in full_scores(scores).items()}
        busy = {network(one.state) for one in taken}
        bottoms = [State((), k) for k in range(len(self._space.hidden))]
        for bottom in bottoms[: None if full else 1]:
            if bottom not in full and bottom not in busy:
                return ChildProposal(bottom)
        if not full:
            return self._first_joins(bottoms[0], busy, scores)
        ranked = self._ranked(full, list(full))
        width = self._beam
        while True:
            beam = ranked[:width]
            near = self._neighbours(beam)
            found = self._next(near, full, busy, scores, last=width >= len(ranked))
            if found is not None or width >= len(ranked):
                return found
            width *= 2

    def _first_joins(
        self, bottom: State, busy: set[State], scores: Mapping[ChildProposal, float]
    ) -> ChildProposal | None:
        """Something to train while another trains the network without groups."""
        passed, _ = self._passed(self._neighbours([bottom]), scores)
        new = [one for one, trainings in passed.items() if not trainings and one not in busy]
        if not new:
            return None
        return ChildProposal(min(new, key=self._order.__getitem__), (*self._rungs, None)[0])

    def _ranked(self, full: Mapping[State, float], networks: list[State]) -> list[State]:
        """Networks from the best on, by their smoothed scores raised by what is not known."""
        if not networks:
            return []
        means, deviations = predict(self._space, full, networks)
        guesses = np.round(means + self._optimism * deviations, 6).tolist()
        order = [(-guess, self._order[one]) for guess, one in zip(guesses, networks, strict=True)]
        return [one for _, one in sorted(zip(order, networks, strict=True))]

    def _neighbours(self, networks: Iterable[State]) -> dict[State, State]:
        """Networks one group more or less than some, each with the first that it is next to."""
        found: dict[State, State] = {}
        for one in networks:
            for state in self._space.neighbours(one):
                near = self._space.network(state)
                if near != one:
                    found.setdefault(near, one)
        return found

    def _next(
        self,
        near: Mapping[State, State],
        full: Mapping[State, float],
        busy: set[State],
        scores: Mapping[ChildProposal, float],
        last: bool,
    ) -> ChildProposal | None:
        """The next training among some networks: the first rungs of all, then more of the best."""
        passed, marks = self._passed(near, scores)
        new = [one for one in near if not passed[one] and one not in busy]
        if new:
            state = self._ranked(full, new)[0]
            start = near[state] if self._warm and near[state] in full else None
            return ChildProposal(state, (*self._rungs, None)[0], start)
        for rung in range(1, len(self._rungs) + 1):
            quota = ceil(len(near) * self._share**rung)
            ahead = sum(passed[one] > rung for one in near)
            waiting = [one for one in near if passed[one] == rung and one not in busy]
            ahead += sum(passed[one] == rung for one in near) - len(waiting)
            if waiting and (last or ahead < quota):
                state = max(waiting, key=lambda one: (marks[one], -self._order[one]))
                return ChildProposal(state, (*self._rungs, None)[rung], state)
        return None

    def _passed(
        self, near: Iterable[State], scores: Mapping[ChildProposal, float]
    ) -> tuple[dict[State, int], dict[State, float]]:
        """How many trainings each network has behind it, and its score after the last of them."""
        passed = dict.fromkeys(near, 0)
        marks: dict[State, float] = {}
        lengths = {epochs: k + 1 for k, epochs in enumerate((*self._rungs, None))}
        for one, accuracy in scores.items():
            state = self._space.network(one.state)
            if lengths.get(one.epochs, 0) > passed.get(state, len(lengths)):
                passed[state], marks[state] = lengths[one.epochs], accuracy
        return passed, marks
