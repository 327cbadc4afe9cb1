from isotropy.search._by_network import ByNetwork
from isotropy.search._child import Trained
from isotropy.search._deep_q import DeepQ, DeepQOptions
from isotropy.search._grid_child import GridChild, Training
from isotropy.search._lattice_search import LatticeSearch
from isotropy.search._sampler import StrategySampler
from isotropy.search._search_groups import search_groups
from isotropy.search._search_result import SearchResult
from isotropy.search._space import SearchSpace, State
from isotropy.search._strategies import strategy_of
from isotropy.search._strategy import ChildProposal, Strategy

__all__ = [
    "ByNetwork",
    "ChildProposal",
    "DeepQ",
    "DeepQOptions",
    "GridChild",
    "LatticeSearch",
    "SearchResult",
    "SearchSpace",
    "State",
    "Strategy",
    "StrategySampler",
    "Trained",
    "Training",
    "search_groups",
    "strategy_of",
]
