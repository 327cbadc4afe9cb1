from isotropy.groups._abstract_name import abstract_name
from isotropy.groups._balanced_frame import balanced_frame
from isotropy.groups._catalogue import FAMILIES, Family, code_length, decode, decode_prefix, encode
from isotropy.groups._compound import BlockDiagonal, Chain, Kron, KronSum
from isotropy.groups._finite import double_cover
from isotropy.groups._given import MapLike, as_linear_map
from isotropy.groups._grid_transformations import (
    GRID_TRANSFORMATIONS,
    Grid,
    GridTransformation,
    grid_transformations,
)
from isotropy.groups._grids import GridFlips, GridShifts, GridTurns, p4, p4m
from isotropy.groups._group import Group, require_invertible
from isotropy.groups._identify import Identity, identify
from isotropy.groups._intertwiners import orthonormal_span
from isotropy.groups._lie_groups import GL, O11, O13, SL, SO, SO13, SU, O, SO11p, SO13p, SOpq, Sp, U
from isotropy.groups._maps import Dense, LinearMap, Monomial, Zero, digest
from isotropy.groups._motions import SE, DkeR3, E, O2eR3, Parity, Scaling, SO2eR3, TimeReversal
from isotropy.groups._operators import Operator
from isotropy.groups._orbits import components
from isotropy.groups._parse import parse_group, read_group
from isotropy.groups._permutation_groups import A, C2d, D, D2d, Inversion, S, Trivial, Z
from isotropy.groups._placements import Conjugate, Embedding, embed
from isotropy.groups._products import (
    DirectProduct,
    Semidirect,
    SideBySide,
    Wreath,
    in_span,
    semidirect,
    wreath,
)
from isotropy.groups._rubik import RubiksCube
from isotropy.groups._sampling import is_skew_hermitian, is_unitary
from isotropy.groups._subgroups import require_subgroup
from isotropy.groups._text import Reader

__all__ = [
    "FAMILIES",
    "GL",
    "GRID_TRANSFORMATIONS",
    "O11",
    "O13",
    "SE",
    "SL",
    "SO",
    "SO13",
    "SU",
    "A",
    "BlockDiagonal",
    "C2d",
    "Chain",
    "Conjugate",
    "D",
    "D2d",
    "Dense",
    "DirectProduct",
    "DkeR3",
    "E",
    "Embedding",
    "Family",
    "Grid",
    "GridFlips",
    "GridShifts",
    "GridTransformation",
    "GridTurns",
    "Group",
    "Identity",
    "Inversion",
    "Kron",
    "KronSum",
    "LinearMap",
    "MapLike",
    "Monomial",
    "O",
    "O2eR3",
    "Operator",
    "Parity",
    "Reader",
    "RubiksCube",
    "S",
    "SO2eR3",
    "SO11p",
    "SO13p",
    "SOpq",
    "Scaling",
    "Semidirect",
    "SideBySide",
    "Sp",
    "TimeReversal",
    "Trivial",
    "U",
    "Wreath",
    "Z",
    "Zero",
    "abstract_name",
    "as_linear_map",
    "balanced_frame",
    "code_length",
    "components",
    "decode",
    "decode_prefix",
    "digest",
    "double_cover",
    "embed",
    "encode",
    "grid_transformations",
    "identify",
    "in_span",
    "is_skew_hermitian",
    "is_unitary",
    "orthonormal_span",
    "p4",
    "p4m",
    "parse_group",
    "read_group",
    "require_invertible",
    "require_subgroup",
    "semidirect",
    "wreath",
]
