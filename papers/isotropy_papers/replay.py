"""Search strategies against a table of scores: many searches in seconds, without any training."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isotropy.search import ByNetwork, ChildProposal, SearchSpace, State, Strategy
from isotropy_papers.score_table import ScoreTable

_ROUNDING = 1e-9  # shares that are equal but for it are equal


@dataclass(frozen=True)
class ReplayedSearch:
    """One search against a table.

    Args:
        seed: Of the strategy.
        training_seed: Which of the table's trainings it saw.
        proposals: The children in the order of their training.
        best: The best validation accuracy of a child trained in full so far, after each child; nan
            before the first of these.
        test: The test accuracy of the network that was best on validation rows.
        cost: Epochs after each child, in units of a full training.
    """

    seed: int
    training_seed: int
    proposals: tuple[ChildProposal, ...]
    best: NDArray[Any]
    test: float
    cost: NDArray[Any]

    def needed(self, accuracy: float) -> float:
        """How many children it trained until one reached this validation accuracy.

        Args:
            accuracy: A share.

        Returns:
            A whole number; infinity where it never did.
        """
        return children_needed(self.best, accuracy)

    def needed_cost(self, accuracy: float) -> float:
        """What it spent until a child reached this accuracy, in units of a full training.

        Args:
            accuracy: A share.

        Returns:
            Infinity where it never did.
        """
        children = self.needed(accuracy)
        return float(self.cost[int(children) - 1]) if children < float("inf") else children


@dataclass(frozen=True)
class Needed:
    """How many children a strategy needs, over seeds.

    Args:
        each: The number for every seed; infinity where it was not reached.
        median: Their median.
        low: The lower end of the bootstrap interval of the median.
        high: Its upper end.
    """

    each: tuple[float, ...]
    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:g} ({self.low:g} to {self.high:g})"


@dataclass(frozen=True)
class Replay:
    """Searches of one strategy against a table, one for every seed.

    Args:
        searches: In the order of their seeds.
        by_network: Whether children are networks, or states as in the paper.
    """

    searches: tuple[ReplayedSearch, ...]
    by_network: bool

    @property
    def final(self) -> NDArray[Any]:
        """The validation accuracy that each search ended with."""
        return np.array([one.best[-1] for one in self.searches])

    @property
    def test(self) -> NDArray[Any]:
        """The test accuracy of the network that each search selected."""
        return np.array([one.test for one in self.searches])

    def curves(self, children: int) -> NDArray[Any]:
        """Best validation accuracy after each child, of shape (searches, children).

        Args:
            children: How many; a search that ended before keeps what it had.
        """
        rows = [
            np.pad(one.best, (0, max(0, children - len(one.best))), mode="edge")
            for one in self.searches
        ]
        return np.stack([row[:children] for row in rows])

    def needed(
        self,
        accuracy: float | Sequence[float] | NDArray[Any] | Replay,
        *,
        cost: bool = False,
        level: float = 0.95,
        resamples: int = 2000,
        seed: int = 0,
    ) -> Needed:
        """How many children the strategy needs to reach an accuracy, with a bootstrap interval.

        Args:
            accuracy: A share; one for every search; or another replay, of as many searches, whose
                final accuracy is to be reached seed by seed.
            cost: Count full trainings, short ones by their share, in place of children.
            level: Of the interval.
            resamples: Of the searches.
            seed: Of resampling.

        Raises:
            ValueError: If there is not one accuracy for every search.
        """
        wanted = accuracy.final if isinstance(accuracy, Replay) else np.asarray(accuracy, float)
        if wanted.ndim and wanted.shape != (len(self.searches),):
            raise ValueError(
                f"expected one accuracy, or {len(self.searches)}, got shape {wanted.shape}"
            )
        goals = np.broadcast_to(wanted, (len(self.searches),))
        each = np.array(
            [
                one.needed_cost(goal) if cost else one.needed(goal)
                for one, goal in zip(self.searches, goals.tolist(), strict=True)
            ]
        )
        low, high = _bootstrap(each, level, resamples, seed)
        return Needed(tuple(each.tolist()), _median(each), low, high)


def children_needed(accuracies: Sequence[float] | NDArray[Any], accuracy: float) -> float:
    """How many children there are up to the first that is as accurate as wanted.

    Args:
        accuracies: Of children in the order of their training, or of the best so far.
        accuracy: A share.

    Returns:
        A whole number; infinity where none is.

    Example:
        >>> children_needed([0.1, 0.3, 0.2], 0.3), children_needed([0.1], 0.2)
        (2.0, inf)
    """
    reached = np.flatnonzero(np.asarray(accuracies) >= accuracy - _ROUNDING)
    return float(reached[0] + 1) if len(reached) else float("inf")


def replay(
    table: ScoreTable,
    strategy_factory: Callable[[SearchSpace, int], Strategy],
    *,
    seeds: int | Sequence[int],
    children: int,
    by_network: bool = True,
    goal: float | None = None,
) -> Replay:
    """Run a strategy against a table for several seeds.

    Search r sees the trainings of seed r modulo the number of the table's seeds. A short training
    and the longer one that goes on with it are epochs of a single training of the table; a real
    child that goes on has a fresh optimiser, so that its score would be another.

    Args:
        table: Of all networks of a space.
        strategy_factory: From the space and a seed to a fresh strategy, as
            ``lambda space, seed: strategy_of("dqn", space, seed=seed)``.
        seeds: How many, counted from 0, or which.
        children: The most that each search trains, short trainings and long ones.
        by_network: Whether a network is trained once, whichever states ask for it; otherwise every
            state is a child of its own, as in the cache of Basu et al. 2021.
        goal: The validation accuracy, a share, at which a search ends.

    Raises:
        ValueError: If there is no seed or no child, or a strategy asks for what is not tabulated.

    Example:
        >>> from isotropy.search import strategy_of
        >>> space = SearchSpace((1, 8, 8), ("horizontal flip", "vertical flip"), ((4,),))
        >>> counts, sizes = np.array([70, 82, 79, 90]).reshape(4, 1, 1), np.full(4, 100)
        >>> states = tuple(space.states())
        >>> table = ScoreTable("flips", space, states, counts, counts, 100, 100, sizes)
        >>> found = replay(
        ...     table,
        ...     lambda space, seed: strategy_of("random", space, seed=seed),
        ...     seeds=3,
        ...     children=4,
        ... )
        >>> found.final
        array([0.9, 0.9, 0.9])
    """
    chosen = range(seeds) if isinstance(seeds, int) else seeds
    if not len(chosen) or children < 1:
        raise ValueError(
            f"expected at least one seed and one child, got {len(chosen)} and {children}"
        )
    searches = []
    for seed in chosen:
        strategy = strategy_factory(table.space, seed)
        if by_network:
            strategy = ByNetwork(strategy, table.network)
        searches.append(_search(table, strategy, seed, children, goal))
    return Replay(tuple(searches), by_network)


def _search(
    table: ScoreTable, strategy: Strategy, seed: int, children: int, goal: float | None
) -> ReplayedSearch:
    training = seed % table.seeds
    scores: dict[ChildProposal, float] = {}
    best: list[float] = []
    cost: list[float] = []
    selected: ChildProposal | None = None
    reached: dict[State, int] = {}
    spent = 0
    while len(scores) < children:
        if goal is not None and best and best[-1] >= goal - _ROUNDING:
            break
        proposal = strategy.propose(scores, ())
        if proposal is None:
            break
        if proposal in scores:
            raise ValueError(f"expected a new child, got {proposal.key!r} twice")
        scores[proposal] = table.score(proposal, training)
        epochs = table.epochs if proposal.epochs is None else proposal.epochs
        spent += epochs - (reached.get(proposal.state, 0) if proposal.start is not None else 0)
        reached[proposal.state] = epochs
        full = proposal.epochs is None
        if full and (selected is None or scores[proposal] > scores[selected]):
            selected = proposal
        best.append(float("nan") if selected is None else scores[selected])
        cost.append(spent / table.epochs)
    test = float("nan") if selected is None else table.test_score(selected, training)
    return ReplayedSearch(seed, training, tuple(scores), np.array(best), test, np.array(cost))


def _median(values: NDArray[Any]) -> float:
    """The lower median, which is one of the values: infinity does not spread to its neighbour."""
    return float(np.sort(values)[(len(values) - 1) // 2])


def _bootstrap(
    values: NDArray[Any], level: float, resamples: int, seed: int
) -> tuple[float, float]:
    random = np.random.default_rng(seed)
    drawn = values[random.integers(len(values), size=(resamples, len(values)))]
    medians = np.sort(np.sort(drawn, axis=1)[:, (len(values) - 1) // 2])
    low = int((1 - level) / 2 * resamples)
    return float(medians[low]), float(medians[resamples - 1 - low])
