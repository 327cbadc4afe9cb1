"""How a group acts: representations, their algebra, and symmetries."""

from isotropy._run._lazy_names import lazy_names

_MOVED = {
    "isotropy.reps._elements": "parts_of_algebra parts_of_element",
    "isotropy.reps._layout": "Layout Term=LayoutTerm layout_of without_duals",
    "isotropy.reps._leaves": "Determinant>Pseudoscalar Leaf Vector>V",
    "isotropy.reps._placed": "Rebased Selected",
}
__getattr__, __dir__, __all__ = lazy_names(__name__, _MOVED)
