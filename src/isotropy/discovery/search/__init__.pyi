from isotropy.discovery.search._by_network import ByNetwork
from isotropy.discovery.search._child import Child, Trained
from isotropy.discovery.search._children_together import ChildrenTogether
from isotropy.discovery.search._deep_q import DeepQ
from isotropy.discovery.search._grid_child import GridChild, Training
from isotropy.discovery.search._lattice_search import LatticeSearch
from isotropy.discovery.search._random_search import RandomSearch
from isotropy.discovery.search._replay import Needed, Replay, ReplayedSearch, replay
from isotropy.discovery.search._rewards import bounded_reward, published_reward
from isotropy.discovery.search._sampler import StrategySampler
from isotropy.discovery.search._score_table import ScoreTable
from isotropy.discovery.search._search_groups import child_seed, search_groups
from isotropy.discovery.search._search_result import Origin, ScoredChild, SearchResult
from isotropy.discovery.search._space import SearchSpace, State
from isotropy.discovery.search._strategies import STRATEGIES, strategy_of
from isotropy.discovery.search._strategy import Proposal, Strategy
from isotropy.discovery.search._tpe import TPE

__all__ = [
    "STRATEGIES",
    "TPE",
    "ByNetwork",
    "Child",
    "ChildrenTogether",
    "DeepQ",
    "GridChild",
    "LatticeSearch",
    "Needed",
    "Origin",
    "Proposal",
    "RandomSearch",
    "Replay",
    "ReplayedSearch",
    "ScoreTable",
    "ScoredChild",
    "SearchResult",
    "SearchSpace",
    "State",
    "Strategy",
    "StrategySampler",
    "Trained",
    "Training",
    "bounded_reward",
    "child_seed",
    "published_reward",
    "replay",
    "search_groups",
    "strategy_of",
]
