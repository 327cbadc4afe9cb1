from isotropy.bases._cache import BasisCache, solved_anew
from isotropy.bases._dense import DenseBasis, solve_dense
from isotropy.bases._orbits import OrbitBasis
from isotropy.bases._orthonormal_basis import Basis
from isotropy.bases._pair_orbits import pair_orbits
from isotropy.bases._solve import equivariant_basis

__all__ = [
    "Basis",
    "BasisCache",
    "DenseBasis",
    "OrbitBasis",
    "equivariant_basis",
    "pair_orbits",
    "solve_dense",
    "solved_anew",
]
