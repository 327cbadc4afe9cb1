from isotropy.discovery.generators._action_class import ActionClass, action_class
from isotropy.discovery.generators._algebras import ClassResult
from isotropy.discovery.generators._column_blocks import ColumnBlocks, blocks_from_names
from isotropy.discovery.generators._data_constraints import DataConstraints, find_constraints
from isotropy.discovery.generators._find_generators import GeneratorFindings, find_generators
from isotropy.discovery.generators._null_space import NullSpace, null_spaces
from isotropy.discovery.generators._smooth_fit import SmoothFit, fit_smooth
from isotropy.discovery.generators._snap import SnappedAlgebra, snap
from isotropy.discovery.generators._snap_affine import snap_affine

__all__ = [
    "ActionClass",
    "ClassResult",
    "ColumnBlocks",
    "DataConstraints",
    "GeneratorFindings",
    "NullSpace",
    "SmoothFit",
    "SnappedAlgebra",
    "action_class",
    "blocks_from_names",
    "find_constraints",
    "find_generators",
    "fit_smooth",
    "null_spaces",
    "snap",
    "snap_affine",
]
