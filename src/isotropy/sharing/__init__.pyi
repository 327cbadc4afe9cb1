from isotropy.sharing._assignment import rounded
from isotropy.sharing._bilevel import BilevelOptions
from isotropy.sharing._brute_force import best_partition, shared_solutions
from isotropy.sharing._learned_sharing import LearnedSharing
from isotropy.sharing._module_sharing import ModuleSharingOptions, learn_module_sharing
from isotropy.sharing._partition_evidence import LeastSquares, PartitionEvidence
from isotropy.sharing._partition_fits import FitOptions, fit_partitions
from isotropy.sharing._relaxation import RelaxationOptions, relax_sharing
from isotropy.sharing._shared_module import SharedModule

__all__ = [
    "BilevelOptions",
    "FitOptions",
    "LearnedSharing",
    "LeastSquares",
    "ModuleSharingOptions",
    "PartitionEvidence",
    "RelaxationOptions",
    "SharedModule",
    "best_partition",
    "fit_partitions",
    "learn_module_sharing",
    "relax_sharing",
    "rounded",
    "shared_solutions",
]
