"""The old place of ``isotropy.sharing``: its names work until version 0.2, and warn."""

from isotropy._run._lazy_names import lazy_names

_MOVED = {
    "isotropy.sharing": (
        "BilevelOptions FitOptions LearnedSharing LeastSquares ModuleSharingOptions "
        "PartitionEvidence RelaxationOptions SharedModule best_partition fit_partitions "
        "learn_module_sharing relax_sharing rounded shared_solutions"
    ),
}
__getattr__, __dir__, __all__ = lazy_names(__name__, _MOVED)
