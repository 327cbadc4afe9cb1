"""What commutes with a group: equivariant subspaces, one solver per file."""

from isotropy.bases._basis import Basis
from isotropy.bases._blocks import Block, BlockBasis
from isotropy.bases._cache import BasisCache
from isotropy.bases._constraints import Constraint, constraints
from isotropy.bases._dense import DenseBasis, solve_dense
from isotropy.bases._orbits import OrbitBasis, solve_orbits
from isotropy.bases._solve import equivariant_basis

__all__ = [
    "Basis",
    "BasisCache",
    "Block",
    "BlockBasis",
    "Constraint",
    "DenseBasis",
    "OrbitBasis",
    "constraints",
    "equivariant_basis",
    "solve_dense",
    "solve_orbits",
]
