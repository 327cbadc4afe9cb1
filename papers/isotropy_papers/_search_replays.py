"""Searches replayed against stored tables, each kept as it ends."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from isotropy.run import ProgressCallback
from isotropy.search import SearchSpace, Strategy
from isotropy_papers._experiment import Settings
from isotropy_papers._finished import Finished
from isotropy_papers._image_sets import digest_of
from isotropy_papers._search_tables import own_plan, published_plan, stored_table
from isotropy_papers.score_table import ScoreTable

PUBLISHED_DQN = "published dqn"
STRATEGIES = (PUBLISHED_DQN, "lattice", "dqn", "random", "tpe")
CHILDREN = 1000  # of the published search


@dataclass(frozen=True)
class Search:
    """One search against a table.

    Args:
        accuracies: Validation accuracy of each child, a share, in the order of training.
        test: Test accuracy of the child that is best on validation rows.
    """

    accuracies: tuple[float, ...]
    test: float

    @property
    def best(self) -> float:
        """The largest validation accuracy."""
        return max(self.accuracies)

    def needed(self, accuracy: float) -> float:
        """How many children were trained until one was so accurate; infinity where none was.

        Args:
            accuracy: A share.
        """
        from isotropy_papers.replay import children_needed

        return children_needed(self.accuracies, accuracy)


class Replays:
    """Searches by data set, strategy and seed, each run once.

    The published search goes on to its 1000 children, every set of groups a child of its own. The
    others train each network once, and stop where they are as good as it was in the end.

    Args:
        settings: ``out`` may hold tables, and keeps searches.
        progress: Called before each search.
        published: Whether to search among the paper's networks on the paper's images, the best
            epoch of each, in place of ours.
    """

    def __init__(
        self, settings: Settings, progress: ProgressCallback, *, published: bool = False
    ) -> None:
        self._settings, self._published = settings, published
        self._parts = Finished("basu2021/searches", {"children": CHILDREN}, settings, progress)
        self._tables: dict[tuple[str, str], ScoreTable] = {}
        self._names: list[str] = []

    def search(self, base: str, augmentation: str, strategy: str, seed: int) -> Search:
        """One search.

        Args:
            base: The images.
            augmentation: How they are moved.
            strategy: One of ``STRATEGIES``.
            seed: Of the strategy, and which training of each network it meets.
        """
        goal = None
        if strategy != PUBLISHED_DQN:
            goal = self.search(base, augmentation, PUBLISHED_DQN, seed).best
        table = self._table(base, augmentation)
        digest = digest_of(torch.from_numpy(table.validation))
        name = f"{base} {augmentation}, {strategy}, seed {seed}, table {digest}"

        def compute(_: list[str]) -> list[Any]:
            return [_searched(table, strategy, seed, goal)]

        found = self._parts.get([*self._names, name], compute)
        self._names = list(found)
        return Search(tuple(found[name]["accuracies"]), found[name]["test"])

    def close(self) -> float:
        """End a run that has all its searches; the seconds that they took."""
        return self._parts.close()

    def _table(self, base: str, augmentation: str) -> ScoreTable:
        if (base, augmentation) not in self._tables:
            plan = (published_plan if self._published else own_plan)(base, augmentation, 4000)
            table = stored_table(plan, self._settings)
            self._tables[base, augmentation] = _best_epochs(table) if self._published else table
        return self._tables[base, augmentation]


def _best_epochs(table: ScoreTable) -> ScoreTable:
    """The same networks, each with the epoch alone that was best on validation rows."""
    best = table.validation.argmax(2)[..., None]
    validation, test = (np.take_along_axis(one, best, 2) for one in (table.validation, table.test))
    return replace(table, validation=validation, test=test)


def _searched(table: ScoreTable, strategy: str, seed: int, goal: float | None) -> dict[str, Any]:
    from isotropy.search import DeepQ, strategy_of
    from isotropy_papers.replay import replay

    def made(space: SearchSpace, seed: int) -> Strategy:
        if strategy == PUBLISHED_DQN:
            return DeepQ.published(space, seed=seed)
        return strategy_of(strategy, space, seed=seed)

    by_network = strategy != PUBLISHED_DQN
    children = len(table.networks) if by_network else CHILDREN
    (found,) = replay(
        table, made, seeds=[seed], children=children, by_network=by_network, goal=goal
    ).searches
    accuracies = [table.score(one, found.training_seed) for one in found.proposals]
    return {"accuracies": accuracies, "test": found.test}
