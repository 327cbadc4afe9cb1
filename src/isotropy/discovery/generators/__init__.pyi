from isotropy.discovery.generators._algebras import ClassResult
from isotropy.discovery.generators._data_constraints import find_constraints
from isotropy.discovery.generators._find_generators import GeneratorFindings, find_generators
from isotropy.discovery.generators._generator_search import GeneratorOptions
from isotropy.discovery.generators._resampled_null_space import null_spaces
from isotropy.discovery.generators._snap import SnappedAlgebra, snap
from isotropy.discovery.generators._snap_affine import snap_affine

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
