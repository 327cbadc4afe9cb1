from isotropy.reps._algebra import Product, Sum
from isotropy.reps._e3nn import Irrep, from_e3nn, to_e3nn
from isotropy.reps._elements import parts_of_algebra, parts_of_element
from isotropy.reps._escnn import from_escnn, to_escnn
from isotropy.reps._joint_action import joint_action
from isotropy.reps._layout import Layout, Term, layout_of, without_duals
from isotropy.reps._leaves import (
    Block,
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
    "Block",
    "CustomRep",
    "Determinant",
    "Irrep",
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
    "from_e3nn",
    "from_escnn",
    "joint_action",
    "layout_of",
    "parse_rep",
    "parts_of_algebra",
    "parts_of_element",
    "to_e3nn",
    "to_escnn",
    "without_duals",
]
