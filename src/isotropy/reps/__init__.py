"""How a group acts: representations, their algebra, and symmetries."""

from isotropy.reps._algebra import Product, Sum
from isotropy.reps._elements import parts_of_algebra, parts_of_element
from isotropy.reps._layout import Layout, Term, layout_of, without_duals
from isotropy.reps._leaves import (
    CustomRep,
    Determinant,
    Leaf,
    Pseudoscalar,
    Regular,
    Scalar,
    T,
    V,
    Vector,
)
from isotropy.reps._parse import parse_rep
from isotropy.reps._placed import Rebased, Selected
from isotropy.reps._rep import Rep
from isotropy.reps._symmetry import Symmetry

__all__ = [
    "CustomRep",
    "Determinant",
    "Layout",
    "Leaf",
    "Product",
    "Pseudoscalar",
    "Rebased",
    "Regular",
    "Rep",
    "Scalar",
    "Selected",
    "Sum",
    "Symmetry",
    "T",
    "Term",
    "V",
    "Vector",
    "layout_of",
    "parse_rep",
    "parts_of_algebra",
    "parts_of_element",
    "without_duals",
]
