"""Layers that respect a symmetry: exactly, softly, or by sharing."""

from isotropy._run._lazy_names import lazy_names

_DEPRECATED = {
    "GroupLinear": "isotropy_papers.group_linear:GroupLinear",
    "GroupTable": "isotropy_papers.group_table:GroupTable",
    "LinearOperation": "isotropy.nn._recorder:LinearOperation",
    "NetworkKind": "isotropy.nn._symmetric_network:NetworkKind",
    "OnSlices": "isotropy.nn._on_slices:OnSlices",
    "SparseGroupLinear": "isotropy_papers.sparse_group_linear:SparseGroupLinear",
    "grid_sharing": "isotropy.nn._grid_network:grid_sharing",
    "symmetric_network": "isotropy.rl:symmetric_network",
}

__getattr__, __dir__, __all__ = lazy_names(__name__, _DEPRECATED)
