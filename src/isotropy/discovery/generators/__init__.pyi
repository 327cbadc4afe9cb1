from isotropy.discovery._one_kind import (
    GeneratorFindings,
    find_generators,
)
from isotropy.discovery.proposing.generators._algebras import ClassResult
from isotropy.discovery.proposing.generators._data_constraints import find_constraints
from isotropy.discovery.proposing.generators._generator_search import GeneratorOptions
from isotropy.discovery.proposing.generators._resampled_null_space import null_spaces
from isotropy.discovery.proposing.generators._snap import SnappedAlgebra, snap, snap_affine

__all__ = [
    "ClassResult",
    "GeneratorFindings",
    "GeneratorOptions",
    "SnappedAlgebra",
    "find_constraints",
    "find_generators",
    "null_spaces",
    "snap",
    "snap_affine",
]
