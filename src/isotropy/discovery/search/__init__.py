"""Searching for the set of groups whose network does best."""

from isotropy._run._lazy_names import lazy_names

_MOVED = {
    "isotropy.discovery.search": "Proposal=ChildProposal",
    "isotropy.discovery.search._child": "Child",
    "isotropy.discovery.search._random_search": "RandomSearch>strategy_of",
    "isotropy.discovery.search._rewards": "bounded_reward published_reward",
    "isotropy.discovery.search._search_groups": "child_seed",
    "isotropy.discovery.search._search_result": "Origin ScoredChild",
    "isotropy.discovery.search._strategies": "STRATEGIES",
    "isotropy.discovery.search._tpe": "TPE>strategy_of",
    "isotropy_papers.children_together": "ChildrenTogether",
    "isotropy_papers.replay": "Needed Replay ReplayedSearch replay",
    "isotropy_papers.score_table": "ScoreTable",
}
__getattr__, __dir__, __all__ = lazy_names(__name__, _MOVED)
