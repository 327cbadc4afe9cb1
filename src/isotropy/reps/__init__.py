"""How a group acts: representations, their algebra, and symmetries."""

from isotropy.reps._algebra import Product, Sum
from isotropy.reps._leaves import (
    CustomRep,
    Leaf,
    Pseudoscalar,
    Regular,
    Scalar,
    T,
    V,
)
from isotropy.reps._parse import parse_rep
from isotropy.reps._placed import Rebased, Selected
from isotropy.reps._rep import Rep
from isotropy.reps._symmetry import Symmetry

__all__ = [
    "CustomRep",
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
    "V",
    "parse_rep",
]
