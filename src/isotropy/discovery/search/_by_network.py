"""A strategy that proposes sets of groups, made to propose networks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from itertools import chain

from isotropy.discovery.search._space import State
from isotropy.discovery.search._strategy import Proposal, Strategy


class ByNetwork:
    """Proposes only the largest set of groups of each network, so that no network is trained twice.

    Where the strategy inside asks for a state whose network is trained already, it is told that
    network's accuracy at once and asked again. It meets such states in the order in which it asks
    for them, as if each had been trained.

    Args:
        strategy: Any strategy.
        network: The state that stands for the network of a state, as `SearchSpace.network`.

    Example:
        >>> from isotropy.discovery.search import SearchSpace
        >>> from isotropy.discovery.search._random_search import RandomSearch
        >>> space = SearchSpace(
        ...     (1, 8, 8), ("rotation", "horizontal flip", "vertical flip"), ((4,),)
        ... )
        >>> search, scores = ByNetwork(RandomSearch(space, 0), space.network), {}
        >>> while (proposal := search.propose(scores, ())) is not None:
        ...     scores[proposal] = 0.5
        >>> len(scores), len(list(space.states()))  # a turn with a flip makes the other flip
        (6, 8)
    """

    def __init__(self, strategy: Strategy, network: Callable[[State], State]) -> None:
        self.keeps_weights: bool = getattr(strategy, "keeps_weights", False)
        self._strategy = strategy
        self._network = network
        self._told: dict[Proposal, float] = {}
        self._asked: dict[Proposal, Proposal] = {}

    def propose(
        self, scores: Mapping[Proposal, float], taken: Collection[Proposal]
    ) -> Proposal | None:
        """The strategy's next proposal of a network that is neither scored nor taken.

        Args:
            scores: Accuracy of every child trained so far, of networks.
            taken: Networks that others are training now.
        """
        for alias, proposal in self._asked.items():
            if proposal in scores:
                self._told.setdefault(alias, scores[proposal])
        for proposal, accuracy in scores.items():
            self._told.setdefault(proposal, accuracy)
        busy = {one for one in self._asked if self._asked[one] in taken and one not in self._told}
        busy.update(taken)
        while True:
            asked = self._strategy.propose(self._told, busy)
            if asked is None:
                return None
            proposal = self._of_network(asked)
            self._asked[asked] = proposal
            if proposal in scores:
                self._told[asked] = scores[proposal]
            elif proposal in taken:
                busy.add(asked)
            else:
                return proposal

    def _of_network(self, asked: Proposal) -> Proposal:
        start = None if asked.start is None else self._network(asked.start)
        return Proposal(self._network(asked.state), asked.epochs, start)


def full_scores(scores: Mapping[Proposal, float]) -> dict[State, float]:
    """The accuracy of every state that was trained in full, the last where there are several.

    Args:
        scores: Accuracy of every child trained so far.
    """
    return {one.state: accuracy for one, accuracy in scores.items() if one.epochs is None}


def seen_states(scores: Mapping[Proposal, float], taken: Collection[Proposal]) -> set[State]:
    """All states trained in full or on their way to it.

    Args:
        scores: Accuracy of every child trained so far.
        taken: Children that others are training now.
    """
    return {one.state for one in chain(scores, taken) if one.epochs is None}
