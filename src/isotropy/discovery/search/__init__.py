"""Searching for the set of groups whose network does best."""

from isotropy.discovery.search._child import Child, Trained
from isotropy.discovery.search._space import SearchSpace, State

__all__ = ["Child", "SearchSpace", "State", "Trained"]
