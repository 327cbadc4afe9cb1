"""Which states have the same network, found by looking at the weights of few of them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

from isotropy.search._space import State


class ClosedSets:
    """The network of many states from those of few.

    The largest set of groups with the network of a set is its closure: it grows with the set, and
    closing twice changes nothing. So where the closure of P is known to be Q, a set that holds P
    has the closure of its union with Q. States asked for in the order of their sizes need one look
    at weights for each network, and one for each rule P → Q that does not follow from others: of
    the 2¹² sets of all twelve transformations fewer than 200.

    Args:
        network: The state that stands for the network of a state, as `SearchSpace.network`.

    Example:
        >>> from isotropy.search import SearchSpace
        >>> space = SearchSpace(
        ...     (1, 8, 8), ("rotation", "horizontal flip", "vertical flip"), ((4,),)
        ... )
        >>> closed = ClosedSets(space.network)
        >>> for state in closed.states_of(State(space.groups)):
        ...     print(state)
        rotation, horizontal flip
        rotation, vertical flip
        rotation, horizontal flip, vertical flip
    """

    def __init__(self, network: Callable[[State], State]) -> None:
        self._network = network
        self._closures: dict[State, State] = {}
        self._states: dict[State, tuple[State, ...]] = {}
        self._rules: dict[int, list[tuple[frozenset[str], frozenset[str]]]] = {}

    def states_of(self, network: State) -> tuple[State, ...]:
        """All states with a network, the smallest first, itself last."""
        if network not in self._states:
            self._closures[network] = network
            subsets = (
                State(chosen, network.hidden)
                for size in range(len(network.groups) + 1)
                for chosen in combinations(network.groups, size)
            )
            self._states[network] = tuple(
                state for state in subsets if self._closure(state, network) == network
            )
        return self._states[network]

    def _closure(self, state: State, within: State) -> State:
        """The closure of a state that is known to be a part of another closed one."""
        if state not in self._closures:
            grown = self._grown(state, within)
            if grown != state:
                found = self._closure(grown, within)
            else:
                found = self._network(state)
                if found != state:
                    rule = frozenset(state.groups), frozenset(found.groups)
                    self._rules.setdefault(state.hidden, []).append(rule)
            self._closures[state] = found
        return self._closures[state]

    def _grown(self, state: State, within: State) -> State:
        """The state with all groups that known rules add to it."""
        held, before = frozenset(state.groups), -1
        while len(held) > before:
            before = len(held)
            for few, many in self._rules.get(state.hidden, ()):
                if few <= held:
                    held |= many
        return State(_ordered(held, within), state.hidden)


def _ordered(groups: frozenset[str], within: State) -> tuple[str, ...]:
    return tuple(name for name in within.groups if name in groups)
