from isotropy.discovery._discover import discover
from isotropy.discovery._example_tasks import example_tasks
from isotropy.discovery._finding import Finding
from isotropy.discovery._findings import Findings
from isotropy.discovery._reading import read_shape
from isotropy.discovery.augerino._augerino import Augerino
from isotropy.discovery.augerino._augmentations import (
    Augmentation,
    LearnedPermutations,
    LearnedShifts,
)
from isotropy.discovery.augerino._fit_augerino import AugerinoFit, fit_augerino
from isotropy.discovery.augerino._gumbel_sinkhorn import gumbel_sinkhorn, matched, sinkhorn
from isotropy.discovery.confirming._claim_test import ClaimTest, claim_test, confirm
from isotropy.discovery.confirming._confirm_action import confirm_action
from isotropy.discovery.confirming._data_support import DataSupport
from isotropy.discovery.confirming._orbit_average import orbit_average
from isotropy.discovery.generators import find_generators
from isotropy.discovery.layerwise import (
    LayerShares,
    LayerType,
    LayerwiseResult,
    layer_table,
    layer_types,
    learn_layers,
)
from isotropy.discovery.naming._automorphisms import Automorphisms, automorphisms
from isotropy.discovery.naming._naming import SharingName, name_sharing
from isotropy.discovery.search import GridChild, ScoreTable, SearchSpace, State, Training
from isotropy.discovery.search._deep_q import DeepQ
from isotropy.discovery.search._lattice_search import LatticeSearch
from isotropy.discovery.search._replay import replay
from isotropy.discovery.search._search_groups import search_groups
from isotropy.discovery.search._search_result import SearchResult
from isotropy.discovery.sharing._assignment import (
    canonical_labels,
    hard_assignment,
    rank_penalty,
    rounded,
    row_entropy,
    row_softmax,
)
from isotropy.discovery.sharing._bilevel import BilevelOptions
from isotropy.discovery.sharing._brute_force import best_partition, set_partitions, shared_solutions
from isotropy.discovery.sharing._hypergradient import (
    hypergradient,
    inverse_hvp_cg,
    inverse_hvp_neumann,
)
from isotropy.discovery.sharing._learned_sharing import LearnedSharing
from isotropy.discovery.sharing._least_squares import LeastSquares
from isotropy.discovery.sharing._module_sharing import ModuleSharingResult, learn_module_sharing
from isotropy.discovery.sharing._partition_evidence import PartitionEvidence
from isotropy.discovery.sharing._partition_fits import FitOptions
from isotropy.discovery.sharing._partition_search import cluster_values
from isotropy.discovery.sharing._relaxation import Relaxed, averaged, relax_sharing

__all__ = [
    "Augerino",
    "AugerinoFit",
    "Augmentation",
    "Automorphisms",
    "BilevelOptions",
    "ClaimTest",
    "DataSupport",
    "DeepQ",
    "Finding",
    "Findings",
    "FitOptions",
    "GridChild",
    "LatticeSearch",
    "LayerShares",
    "LayerType",
    "LayerwiseResult",
    "LearnedPermutations",
    "LearnedSharing",
    "LearnedShifts",
    "LeastSquares",
    "ModuleSharingResult",
    "PartitionEvidence",
    "Relaxed",
    "ScoreTable",
    "SearchResult",
    "SearchSpace",
    "SharingName",
    "State",
    "Training",
    "automorphisms",
    "averaged",
    "best_partition",
    "canonical_labels",
    "claim_test",
    "cluster_values",
    "confirm",
    "confirm_action",
    "discover",
    "example_tasks",
    "find_generators",
    "fit_augerino",
    "gumbel_sinkhorn",
    "hard_assignment",
    "hypergradient",
    "inverse_hvp_cg",
    "inverse_hvp_neumann",
    "layer_table",
    "layer_types",
    "learn_layers",
    "learn_module_sharing",
    "matched",
    "name_sharing",
    "orbit_average",
    "rank_penalty",
    "read_shape",
    "relax_sharing",
    "replay",
    "rounded",
    "row_entropy",
    "row_softmax",
    "search_groups",
    "set_partitions",
    "shared_solutions",
    "sinkhorn",
]
