"""How a group acts: representations, their algebra, and symmetries."""

from isotropy._run._lazy_names import lazy_names

_MOVED = {
    "isotropy.reps._elements": "parts_of_algebra parts_of_element",
    "isotropy.reps._layout": "Layout layout_of without_duals",
    "isotropy.reps._leaves": "Determinant Leaf Vector",
    "isotropy.reps._placed": "Rebased Selected",
}
_DEPRECATED = {old: f"{now}:{old}" for now, names in _MOVED.items() for old in names.split()}
_DEPRECATED["Term"] = "isotropy.reps._layout:LayoutTerm"

__getattr__, __dir__, __all__ = lazy_names(__name__, _DEPRECATED)
