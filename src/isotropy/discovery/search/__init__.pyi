from isotropy.discovery.search._by_network import ByNetwork
from isotropy.discovery.search._child import Trained
from isotropy.discovery.search._deep_q import DeepQ, DeepQOptions
from isotropy.discovery.search._grid_child import GridChild, Training
from isotropy.discovery.search._lattice_search import LatticeSearch
from isotropy.discovery.search._sampler import StrategySampler
from isotropy.discovery.search._search_groups import search_groups
from isotropy.discovery.search._search_result import SearchResult
from isotropy.discovery.search._space import SearchSpace, State
from isotropy.discovery.search._strategies import strategy_of
from isotropy.discovery.search._strategy import ChildProposal, Strategy

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
