"""What a symmetry group is: generators and Lie algebra, products, the catalogue of names."""

from isotropy._run._lazy_names import lazy_names

_MOVED = {
    "isotropy.groups._balanced_frame": "balanced_frame",
    "isotropy.groups._catalogue": "Family decode_prefix",
    "isotropy.groups._compound": "BlockDiagonal Chain Kron KronSum",
    "isotropy.groups._block_systems": "components>bases.pair_orbits",
    "isotropy.groups._finite": "double_cover require_subgroup>Symmetry.restrict",
    "isotropy.groups._given": "as_linear_map>Group",
    "isotropy.groups._group": "require_invertible",
    "isotropy.groups._maps": "Zero digest",
    "isotropy.groups._parse_group": "read_group",
    "isotropy.groups._placements": "Conjugate>Group.conjugate Embedding>embed",
    "isotropy.groups._products": "Semidirect>semidirect SideBySide>G+H Wreath>wreath in_span",
    "isotropy.groups._sampling": "is_skew_hermitian is_unitary",
    "isotropy.groups._text": "Reader",
}
__getattr__, __dir__, __all__ = lazy_names(__name__, _MOVED)
