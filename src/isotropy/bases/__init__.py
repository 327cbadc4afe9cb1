"""What commutes with a group: equivariant subspaces, one solver per file."""

from isotropy._run._lazy_names import lazy_names

_DEPRECATED = {
    "Block": "isotropy.bases._block_basis:Block",
    "BlockBasis": "isotropy.bases._block_basis:BlockBasis",
    "Constraint": "isotropy.bases._constraints:Constraint",
    "ContractionBasis": "isotropy.bases._invariant_theory:ContractionBasis",
    "KronBasis": "isotropy.bases._product_rules:KronBasis",
    "WreathBasis": "isotropy.bases._wreath:WreathBasis",
    "ZeroWeightBasis": "isotropy.bases._zero_weight:ZeroWeightBasis",
    "constraints": "isotropy.bases._constraints:constraints",
    "invariant_rank": "isotropy.bases._invariant_theory:invariant_rank",
    "null_space": "isotropy.bases._null_space:null_space",
    "solve_invariant_theory": "isotropy.bases._invariant_theory:solve_invariant_theory",
    "solve_krylov": "isotropy.bases._krylov:solve_krylov",
    "solve_orbits": "isotropy.bases._orbits:solve_orbits",
    "solve_zero_weight": "isotropy.bases._zero_weight:solve_zero_weight",
}

__getattr__, __dir__, __all__ = lazy_names(__name__, _DEPRECATED)
