from isotropy.groups._abstract_name import abstract_name
from isotropy.groups._catalogue import FAMILIES, code_length, decode, encode
from isotropy.groups._given import MapLike
from isotropy.groups._grid_transformations import (
    GRID_TRANSFORMATIONS,
    Grid,
    GridTransformation,
    grid_transformations,
)
from isotropy.groups._grids import GridFlips, GridShifts, GridTurns, p4, p4m
from isotropy.groups._group import Group
from isotropy.groups._identify import Identity, identify
from isotropy.groups._intertwiners import orthonormal_span
from isotropy.groups._lie_groups import GL, O11, O13, SL, SO, SO13, SU, O, SO11p, SO13p, SOpq, Sp, U
from isotropy.groups._maps import Dense, LinearMap, Monomial
from isotropy.groups._motions import SE, DkeR3, E, O2eR3, Parity, Scaling, SO2eR3, TimeReversal
from isotropy.groups._operators import Operator
from isotropy.groups._parse_group import parse_group
from isotropy.groups._permutation_groups import A, C2d, D, D2d, Inversion, RubiksCube, S, Trivial, Z
from isotropy.groups._placements import embed
from isotropy.groups._products import DirectProduct, semidirect, wreath

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
    "C2d",
    "D",
    "D2d",
    "Dense",
    "DirectProduct",
    "DkeR3",
    "E",
    "Grid",
    "GridFlips",
    "GridShifts",
    "GridTransformation",
    "GridTurns",
    "Group",
    "Identity",
    "Inversion",
    "LinearMap",
    "MapLike",
    "Monomial",
    "O",
    "O2eR3",
    "Operator",
    "Parity",
    "RubiksCube",
    "S",
    "SO2eR3",
    "SO11p",
    "SO13p",
    "SOpq",
    "Scaling",
    "Sp",
    "TimeReversal",
    "Trivial",
    "U",
    "Z",
    "abstract_name",
    "code_length",
    "decode",
    "embed",
    "encode",
    "grid_transformations",
    "identify",
    "orthonormal_span",
    "p4",
    "p4m",
    "parse_group",
    "semidirect",
    "wreath",
]
