from isotropy.discovery.sharing._assignment import rounded
from isotropy.discovery.sharing._bilevel import BilevelOptions
from isotropy.discovery.sharing._brute_force import best_partition, shared_solutions
from isotropy.discovery.sharing._learned_sharing import LearnedSharing
from isotropy.discovery.sharing._least_squares import LeastSquares
from isotropy.discovery.sharing._module_sharing import ModuleSharingOptions, learn_module_sharing
from isotropy.discovery.sharing._partition_evidence import PartitionEvidence
from isotropy.discovery.sharing._partition_fits import FitOptions, fit_partitions
from isotropy.discovery.sharing._relaxation import RelaxationOptions, relax_sharing
from isotropy.discovery.sharing._shared_module import SharedModule

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
