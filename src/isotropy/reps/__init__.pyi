from isotropy.reps._algebra import Product, Sum
from isotropy.reps._e3nn import Irrep, from_e3nn, to_e3nn
from isotropy.reps._escnn import from_escnn, to_escnn
from isotropy.reps._joint_action import joint_action
from isotropy.reps._leaves import Block, CustomRep, Pseudoscalar, Regular, Scalar, T, V
from isotropy.reps._parse_rep import parse_rep
from isotropy.reps._rep import Rep
from isotropy.reps._symmetry import Symmetry

__all__ = [
    "Block",
    "CustomRep",
    "Irrep",
    "Product",
    "Pseudoscalar",
    "Regular",
    "Rep",
    "Scalar",
    "Sum",
    "Symmetry",
    "T",
    "V",
    "from_e3nn",
    "from_escnn",
    "joint_action",
    "parse_rep",
    "to_e3nn",
    "to_escnn",
]
