"""Search strategies by name."""

from __future__ import annotations

from isotropy.search._deep_q import NETWORK_EPSILON, DeepQ
from isotropy.search._lattice_search import LatticeSearch
from isotropy.search._random_search import RandomSearch
from isotropy.search._space import SearchSpace
from isotropy.search._strategy import Strategy
from isotropy.search._tpe import TPE

STRATEGIES = ("lattice", "dqn", "random", "tpe")


def strategy_of(name: str, space: SearchSpace, *, seed: int) -> Strategy:
    """A fresh strategy with its usual options.

    Args:
        name: One of ``STRATEGIES``: along the lattice of networks, deep Q-learning with
            ``NETWORK_EPSILON``, random, or the tree-structured Parzen estimator of Optuna.
        space: What to search.
        seed: Of whatever it draws.

    Raises:
        ValueError: If there is none of that name.

    Example:
        >>> space = SearchSpace((1, 8, 8), ("horizontal flip", "vertical flip"), ((4,),))
        >>> strategy_of("lattice", space, seed=0).propose({}, ()).key
        '/0'
    """
    if name == "lattice":
        return LatticeSearch(space, seed)
    if name == "dqn":
        return DeepQ(space, seed, epsilon=NETWORK_EPSILON)
    if name == "random":
        return RandomSearch(space, seed)
    if name == "tpe":
        return TPE(space, seed)
    raise ValueError(f"expected a strategy among {', '.join(STRATEGIES)}, got {name!r}")
