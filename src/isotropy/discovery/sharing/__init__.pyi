from isotropy.discovery.sharing._bilevel import BilevelOptions
from isotropy.discovery.sharing._learned_sharing import LearnedSharing
from isotropy.discovery.sharing._least_squares import LeastSquares
from isotropy.discovery.sharing._module_sharing import learn_module_sharing
from isotropy.discovery.sharing._partition_evidence import PartitionEvidence
from isotropy.discovery.sharing._partition_fits import FitOptions

__all__ = [
    "BilevelOptions",
    "FitOptions",
    "LearnedSharing",
    "LeastSquares",
    "PartitionEvidence",
    "learn_module_sharing",
]
