"""Random search: every state that was not seen yet is as likely as any other."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import torch

from isotropy._run import generator
from isotropy.search._by_network import seen_states
from isotropy.search._space import SearchSpace, State
from isotropy.search._strategy import ChildProposal


class RandomSearch:
    """Proposes states in an order drawn once from the seed, each trained in full and once.

    The order of all states is a uniform one, so the next unseen state is uniform among the unseen.

    Args:
        space: What to search.
        seed: Of the order.

    Example:
        >>> space = SearchSpace((1, 8, 8), ("rotation", "vertical flip"), ((4,),))
        >>> search, scores = RandomSearch(space, seed=0), {}
        >>> while (proposal := search.propose(scores, ())) is not None:
        ...     scores[proposal] = 0.5
        >>> len(scores)
        4
    """

    keeps_weights = False

    def __init__(self, space: SearchSpace, seed: int) -> None:
        states = list(space.states())
        order = torch.randperm(len(states), generator=generator(seed))
        self.order = tuple(states[k] for k in order.tolist())

    def propose(
        self, scores: Mapping[ChildProposal, float], taken: Collection[ChildProposal]
    ) -> ChildProposal | None:
        """The first state of the order that is not trained in full; ``None`` after the last."""
        state = self.unseen(seen_states(scores, taken))
        return None if state is None else ChildProposal(state)

    def unseen(self, seen: Collection[State]) -> State | None:
        """The first state of the order that was not seen."""
        return next((state for state in self.order if state not in seen), None)
