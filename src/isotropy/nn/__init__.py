"""Layers that respect a symmetry: exactly, softly, or by sharing."""

from isotropy._run._lazy_names import lazy_names

_MOVED = {
    "isotropy.nn._group_conv": "OnSlices",
    "isotropy.nn._recorder": "LinearOperation>RecordedModule.note",
    "isotropy.nn._symmetric_network": "NetworkKind",
    "isotropy_papers.deep_ensemble": "DeepEnsemble",
    "isotropy_papers.group_linear": "GroupLinear",
    "isotropy_papers.group_table": "GroupTable",
    "isotropy_papers.sparse_group_linear": "SparseGroupLinear",
}
__getattr__, __dir__, __all__ = lazy_names(__name__, _MOVED)
