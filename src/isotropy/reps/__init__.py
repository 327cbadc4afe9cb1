"""How a group acts: representations, their algebra, and symmetries."""

from isotropy._run._lazy_names import lazy_names

_DEPRECATED = {
    "Determinant": "isotropy.reps._leaves:Determinant",
    "Layout": "isotropy.reps._layout:Layout",
    "Leaf": "isotropy.reps._leaves:Leaf",
    "Rebased": "isotropy.reps._placed:Rebased",
    "Selected": "isotropy.reps._placed:Selected",
    "Term": "isotropy.reps._layout:Term",
    "Vector": "isotropy.reps._leaves:Vector",
    "layout_of": "isotropy.reps._layout:layout_of",
    "parts_of_algebra": "isotropy.reps._elements:parts_of_algebra",
    "parts_of_element": "isotropy.reps._elements:parts_of_element",
    "without_duals": "isotropy.reps._layout:without_duals",
}

__getattr__, __dir__, __all__ = lazy_names(__name__, _DEPRECATED)
