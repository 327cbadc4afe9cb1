"""Whether a list of networks is all of a search space, and which of them a state has."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from itertools import combinations

import numpy as np

from isotropy.search import SearchSpace, State


@lru_cache(maxsize=64)
def network_numbers(space: SearchSpace, networks: tuple[State, ...]) -> dict[State, int]:
    """For every state the number of the smallest network that holds its groups.

    Args:
        space: The states.
        networks: All networks of it.

    Raises:
        ValueError: If there is no smallest one for some state, so that some are missing.

    Example:
        >>> space = SearchSpace((1, 8, 8), ("horizontal flip", "vertical flip"), ((4,),))
        >>> list(network_numbers(space, tuple(space.states())).values())
        [0, 1, 2, 3]
    """
    bit = {name: 1 << k for k, name in enumerate(space.groups)}
    masks = np.array([sum(bit[name] for name in one.groups) for one in networks])
    hidden = np.array([one.hidden for one in networks])
    number = {one: k for k, one in enumerate(networks)}
    found: dict[State, int] = {}
    for state in space.states():
        wanted = sum(bit[name] for name in state.groups)
        around = masks[(hidden == state.hidden) & (masks & wanted == wanted)]
        shared = int(np.bitwise_and.reduce(around, initial=-1))
        smallest = State(tuple(n for n in space.groups if bit[n] & shared), state.hidden)
        if smallest not in number:
            raise ValueError(f"expected all networks of the space, got none for {state.key!r}")
        found[state] = number[smallest]
    return found


def may_be_all_networks(space: SearchSpace, networks: tuple[State, ...]) -> bool:
    """Whether nothing is missing as far as can be seen without weights.

    Args:
        space: The states.
        networks: Some or all of its networks.
    """
    try:
        network_numbers(space, networks)
    except ValueError:
        return False
    return True


@lru_cache(maxsize=64)
def check_all_networks(space: SearchSpace, networks: tuple[State, ...]) -> None:
    """Check by weights that no network of a space is missing.

    If they are all, some states have the networks of larger ones. A few of these `rules` give all
    others, and where their states do have these networks, every network of the space obeys the
    rules and is among those given.

    Args:
        space: The states.
        networks: Closed sets of groups.

    Raises:
        ValueError: If one is missing.
    """
    numbers = network_numbers(space, networks)
    for hidden in range(len(space.hidden)):
        top = State(space.groups, hidden)
        for state, found in rules(lambda state: networks[numbers[state]], top).items():
            if space.network(state) != found:
                raise ValueError(
                    f"expected all networks of the space, got none for {state.key!r}, whose "
                    f"network is not that of {found.key!r}"
                )


def rules(network: Callable[[State], State], top: State) -> dict[State, State]:
    """States whose networks all others follow from, each with its network.

    The largest set of groups with the network of a set is its closure: it grows with the set, and
    closing twice changes nothing. So where the closure of P is Q, a set that holds P has the
    closure of its union with Q.

    Args:
        network: The state that stands for the network of a state.
        top: The state with all groups.
    """
    found: dict[State, State] = {}
    known: list[tuple[frozenset[str], frozenset[str]]] = []
    for size in range(len(top.groups) + 1):
        for chosen in combinations(top.groups, size):
            state, groups = State(chosen, top.hidden), frozenset(chosen)
            follows = any(few <= groups and not many <= groups for few, many in known)
            if not follows and (closed := network(state)) != state:
                found[state] = closed
                known.append((groups, frozenset(closed.groups)))
    return found
