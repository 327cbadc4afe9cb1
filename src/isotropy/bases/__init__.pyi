from isotropy.bases._basis import Basis
from isotropy.bases._blocks import Block, BlockBasis
from isotropy.bases._cache import BasisCache, solved_anew
from isotropy.bases._constraints import Constraint, constraints
from isotropy.bases._dense import DenseBasis, solve_dense
from isotropy.bases._invariant_theory import (
    ContractionBasis,
    invariant_rank,
    solve_invariant_theory,
)
from isotropy.bases._krylov import solve_krylov
from isotropy.bases._null_space import null_space
from isotropy.bases._orbits import OrbitBasis, solve_orbits
from isotropy.bases._pair_orbits import pair_orbits
from isotropy.bases._product_rules import KronBasis
from isotropy.bases._solve import equivariant_basis
from isotropy.bases._wreath import WreathBasis
from isotropy.bases._zero_weight import ZeroWeightBasis, solve_zero_weight

__all__ = [
    "Basis",
    "BasisCache",
    "Block",
    "BlockBasis",
    "Constraint",
    "ContractionBasis",
    "DenseBasis",
    "KronBasis",
    "OrbitBasis",
    "WreathBasis",
    "ZeroWeightBasis",
    "constraints",
    "equivariant_basis",
    "invariant_rank",
    "null_space",
    "pair_orbits",
    "solve_dense",
    "solve_invariant_theory",
    "solve_krylov",
    "solve_orbits",
    "solve_zero_weight",
    "solved_anew",
]
