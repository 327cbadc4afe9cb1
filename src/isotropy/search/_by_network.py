"""A strategy that proposes sets of groups, made to propose networks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from itertools import chain

from isotropy.search._closed_sets import ClosedSets
from isotropy.search._space import State
from isotropy.search._strategy import ChildProposal, Strategy


class ByNetwork:
    """Proposes only the largest set of groups of each network, so that no network is trained twice.

    The strategy inside gets the accuracy of every state whose network is scored, as if each had
    been trained, and every state whose network is taken counts as taken. Both follow from scores
    and what is taken alone: after a restart, or for another worker, they are the same.

    A strategy may say in an attribute ``aliases`` what it makes of states that are not the largest
    of their network: "scored", the default, as above; "taken" to get scores of networks only,
    other states of these counting as taken; "unknown" where it asks for networks only.

    Args:
        strategy: Any strategy.
        network: The state that stands for the network of a state, as `SearchSpace.network`.

    Example:
        >>> from isotropy.search import SearchSpace
        >>> from isotropy.search._random_search import RandomSearch
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
        self._aliases: str = getattr(strategy, "aliases", "scored")
        self._strategy = strategy
        self._network = network
        self._closed = ClosedSets(network)
        self._same_network: dict[ChildProposal, tuple[ChildProposal, ...]] = {}

    def propose(
        self, scores: Mapping[ChildProposal, float], taken: Collection[ChildProposal]
    ) -> ChildProposal | None:
        """The strategy's next proposal of a network that is neither scored nor taken.

        Args:
            scores: Accuracy of every child trained so far, of networks.
            taken: Networks that others are training now.

        Raises:
            ValueError: If the strategy proposes the same child again.
        """
        known, busy = self._seen_inside(scores, taken)
        before: set[ChildProposal] = set()
        while True:
            asked = self._strategy.propose(known, busy)
            if asked is None:
                return None
            if asked in before:
                raise ValueError(
                    "expected a strategy that proposes what is not trained, "
                    f"got {asked.key!r} again"
                )
            before.add(asked)
            proposal = self._of_network(asked)
            if proposal in scores:
                known[asked] = scores[proposal]
            elif proposal in taken:
                busy.add(asked)
            else:
                return proposal

    def _seen_inside(
        self, scores: Mapping[ChildProposal, float], taken: Collection[ChildProposal]
    ) -> tuple[StateScores, set[ChildProposal]]:
        """Scores and what is taken for the strategy inside, with aliases as it wants them."""
        if self._aliases == "unknown":
            return StateScores(scores, len(full_scores(scores))), set(taken)
        known, busy = StateScores({}, len(full_scores(scores))), set(taken)
        for one in taken:
            busy.update(self._aliases_of(one))
        for one, accuracy in scores.items():
            known[one] = accuracy
            aliases = [alias for alias in self._aliases_of(one) if alias not in scores]
            if self._aliases == "taken":
                busy.update(aliases)
            else:
                known.update(dict.fromkeys(aliases, accuracy))
        return known, busy

    def _aliases_of(self, one: ChildProposal) -> tuple[ChildProposal, ...]:
        """The same training as every state with its network would ask for it."""
        if one not in self._same_network:
            self._same_network[one] = tuple(
                ChildProposal(state, one.epochs, state if one.start == one.state else one.start)
                for state in self._closed.states_of(self._network(one.state))
                if state != one.state
            )
        return self._same_network[one]

    def _of_network(self, asked: ChildProposal) -> ChildProposal:
        start = None if asked.start is None else self._network(asked.start)
        return ChildProposal(self._network(asked.state), asked.epochs, start)


class StateScores(dict[ChildProposal, float]):
    """Scores of more states than there are children, and how many children were trained in full.

    Args:
        scores: Of some states.
        models: How many children.

    Example:
        >>> scores = StateScores({ChildProposal(State()): 0.5}, models=1)
        >>> scores[ChildProposal(State(("rotation",)))] = 0.5  # of the same child
        >>> models_in(scores), models_in(dict(scores))
        (1, 2)
    """

    def __init__(self, scores: Mapping[ChildProposal, float], models: int) -> None:
        super().__init__(scores)
        self.models = models


def models_in(scores: Mapping[ChildProposal, float]) -> int:
    """How many children were trained in full.

    Args:
        scores: Accuracy of every child trained so far, or what `ByNetwork` makes of it.
    """
    return scores.models if isinstance(scores, StateScores) else len(full_scores(scores))


def full_scores(scores: Mapping[ChildProposal, float]) -> dict[State, float]:
    """The accuracy of every state that was trained in full, the last where there are several."""
    return {one.state: accuracy for one, accuracy in scores.items() if one.epochs is None}


def seen_states(
    scores: Mapping[ChildProposal, float], taken: Collection[ChildProposal]
) -> set[State]:
    """All states trained in full or on their way to it; a shorter training does not count."""
    return {one.state for one in chain(scores, taken) if one.epochs is None}
