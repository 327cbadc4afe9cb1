"""What a symmetry group is: generators and Lie algebra, products, the catalogue of names."""

from isotropy._run._lazy_names import lazy_names

_DEPRECATED = {
    "BlockDiagonal": "isotropy.groups._compound:BlockDiagonal",
    "Chain": "isotropy.groups._compound:Chain",
    "Conjugate": "isotropy.groups._placements:Conjugate",
    "Embedding": "isotropy.groups._placements:Embedding",
    "Family": "isotropy.groups._catalogue:Family",
    "Kron": "isotropy.groups._compound:Kron",
    "KronSum": "isotropy.groups._compound:KronSum",
    "Reader": "isotropy.groups._text:Reader",
    "Semidirect": "isotropy.groups._products:Semidirect",
    "SideBySide": "isotropy.groups._products:SideBySide",
    "Wreath": "isotropy.groups._products:Wreath",
    "Zero": "isotropy.groups._maps:Zero",
    "as_linear_map": "isotropy.groups._given:as_linear_map",
    "balanced_frame": "isotropy.groups._balanced_frame:balanced_frame",
    "components": "isotropy.groups._connected_components:components",
    "decode_prefix": "isotropy.groups._catalogue:decode_prefix",
    "digest": "isotropy.groups._maps:digest",
    "double_cover": "isotropy.groups._finite:double_cover",
    "in_span": "isotropy.groups._products:in_span",
    "is_skew_hermitian": "isotropy.groups._sampling:is_skew_hermitian",
    "is_unitary": "isotropy.groups._sampling:is_unitary",
    "read_group": "isotropy.groups._parse_group:read_group",
    "require_invertible": "isotropy.groups._group:require_invertible",
    "require_subgroup": "isotropy.groups._subgroups:require_subgroup",
}

__getattr__, __dir__, __all__ = lazy_names(__name__, _DEPRECATED)
