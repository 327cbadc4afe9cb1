"""What commutes with a group: equivariant subspaces, one solver per file."""

from isotropy._run._lazy_names import lazy_names

_MOVED = {
    "isotropy.bases._block_basis": "Block BlockBasis",
    "isotropy.bases._constraints": "Constraint constraints",
    "isotropy.bases._invariant_theory": (
        "ContractionBasis invariant_rank>equivariant_basis solve_invariant_theory>equivariant_basis"
    ),
    "isotropy.bases._dense": "solve_krylov>equivariant_basis",
    "isotropy.bases._null_space": "null_space",
    "isotropy.bases._orbits": "solve_orbits>equivariant_basis",
    "isotropy.bases._product_rules": "KronBasis",
    "isotropy.bases._wreath": "WreathBasis",
    "isotropy.bases._zero_weight": "ZeroWeightBasis solve_zero_weight>equivariant_basis",
}
__getattr__, __dir__, __all__ = lazy_names(__name__, _MOVED)
