"""Searching for the set of groups whose network does best."""

from isotropy._run._lazy_names import lazy_names

_ROOM = "isotropy.discovery.search"
_OLD = {
    "ChildrenTogether": "isotropy_papers.children_together:ChildrenTogether",
    "Needed": "isotropy_papers.replay:Needed",
    "Replay": "isotropy_papers.replay:Replay",
    "ReplayedSearch": "isotropy_papers.replay:ReplayedSearch",
    "ScoreTable": "isotropy_papers.score_table:ScoreTable",
    "replay": "isotropy_papers.replay:replay",
    "STRATEGIES": f"{_ROOM}._strategies:STRATEGIES",
    "TPE": f"{_ROOM}._tpe:TPE",
    "Child": f"{_ROOM}._child:Child",
    "Origin": f"{_ROOM}._search_result:Origin",
    "Proposal": f"{_ROOM}:ChildProposal",
    "RandomSearch": f"{_ROOM}._random_search:RandomSearch",
    "ScoredChild": f"{_ROOM}._search_result:ScoredChild",
    "bounded_reward": f"{_ROOM}._rewards:bounded_reward",
    "child_seed": f"{_ROOM}._search_groups:child_seed",
    "published_reward": f"{_ROOM}._rewards:published_reward",
}
__getattr__, __dir__, __all__ = lazy_names(__name__, _OLD)
