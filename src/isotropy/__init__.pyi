from isotropy.bases import Basis, equivariant_basis
from isotropy.certificates import certify, verify
from isotropy.discovery import Finding, discover
from isotropy.equivariance import (
    assert_equivariant,
    equivariance_error,
    layerwise,
    lee,
    lie_derivative,
    measure,
)
from isotropy.groups import Group, identify, parse_group
from isotropy.nn import EMLP, soften
from isotropy.reps import CustomRep, Pseudoscalar, Regular, Rep, Scalar, Symmetry, T, V, parse_rep

__version__: str

__all__ = [
    "EMLP",
    "Basis",
    "CustomRep",
    "Finding",
    "Group",
    "Pseudoscalar",
    "Regular",
    "Rep",
    "Scalar",
    "Symmetry",
    "T",
    "V",
    "__version__",
    "assert_equivariant",
    "certify",
    "discover",
    "equivariance_error",
    "equivariant_basis",
    "identify",
    "layerwise",
    "lee",
    "lie_derivative",
    "measure",
    "parse_group",
    "parse_rep",
    "soften",
    "verify",
]
