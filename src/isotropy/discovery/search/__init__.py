"""The old place of ``isotropy.search``: its names work until version 0.2, and warn."""

from isotropy._run._lazy_names import lazy_names

_MOVED = {
    "isotropy.search": (
        "ByNetwork ChildProposal DeepQ DeepQOptions GridChild LatticeSearch SearchResult "
        "SearchSpace State Strategy StrategySampler Trained Training search_groups strategy_of "
        "Proposal=ChildProposal"
    ),
    "isotropy.search._child": "Child",
    "isotropy.search._random_search": "RandomSearch>strategy_of",
    "isotropy.search._deep_q": "bounded_reward published_reward",
    "isotropy.search._search_groups": "child_seed",
    "isotropy.search._search_result": "Origin ScoredChild",
    "isotropy.search._strategies": "STRATEGIES",
    "isotropy.search._tpe": "TPE>strategy_of",
    "isotropy_papers.children_together": "ChildrenTogether",
    "isotropy_papers.replay": "Needed Replay ReplayedSearch replay",
    "isotropy_papers.score_table": "ScoreTable",
}
__getattr__, __dir__, __all__ = lazy_names(__name__, _MOVED)
