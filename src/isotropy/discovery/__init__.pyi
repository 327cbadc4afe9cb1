from isotropy.discovery._discover import discover
from isotropy.discovery._examples import example_tasks
from isotropy.discovery._finding import Finding
from isotropy.discovery._findings import Findings
from isotropy.discovery._layout import Layout
from isotropy.discovery._model_comparison import ModelComparison
from isotropy.discovery._reading import Reading, read_shape
from isotropy.discovery._soft_offer import SoftOffer
from isotropy.discovery._standardised import HomogeneousModel, StandardisedModel, build_model
from isotropy.discovery.augerino._augerino import Augerino
from isotropy.discovery.augerino._augmentations import (
    Augmentation,
    LearnedPermutations,
    LearnedShifts,
)
from isotropy.discovery.augerino._fit_augerino import AugerinoFit, fit_augerino
from isotropy.discovery.augerino._gumbel_sinkhorn import gumbel_sinkhorn, matched, sinkhorn
from isotropy.discovery.confirming._claim_test import (
    ClaimTest,
    claim_test,
    confirm,
    group_average,
    holm,
)
from isotropy.discovery.confirming._confirm_action import ActionTest, confirm_action
from isotropy.discovery.confirming._data_support import DataSupport
from isotropy.discovery.confirming._orbit_average import OrbitAverage, orbit_average
from isotropy.discovery.confirming._soft_comparison import SoftComparison
from isotropy.discovery.confirming._splits import three_way_split
from isotropy.discovery.generators import (
    ActionClass,
    ClassResult,
    ColumnBlocks,
    DataConstraints,
    GeneratorFindings,
    NullSpace,
    SmoothFit,
    SnappedAlgebra,
    action_class,
    blocks_from_names,
    find_constraints,
    find_generators,
    fit_smooth,
    null_spaces,
    snap,
    snap_affine,
)
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
from isotropy.discovery.transitions._discover_transitions import discover_transitions

__all__ = [
    "ActionClass",
    "ActionTest",
    "Augerino",
    "AugerinoFit",
    "Augmentation",
    "Automorphisms",
    "BilevelOptions",
    "ClaimTest",
    "ClassResult",
    "ColumnBlocks",
    "DataConstraints",
    "DataSupport",
    "DeepQ",
    "Finding",
    "Findings",
    "FitOptions",
    "GeneratorFindings",
    "GridChild",
    "HomogeneousModel",
    "LatticeSearch",
    "LayerShares",
    "LayerType",
    "LayerwiseResult",
    "Layout",
    "LearnedPermutations",
    "LearnedSharing",
    "LearnedShifts",
    "LeastSquares",
    "ModelComparison",
    "ModuleSharingResult",
    "NullSpace",
    "OrbitAverage",
    "PartitionEvidence",
    "Reading",
    "Relaxed",
    "ScoreTable",
    "SearchResult",
    "SearchSpace",
    "SharingName",
    "SmoothFit",
    "SnappedAlgebra",
    "SoftComparison",
    "SoftOffer",
    "StandardisedModel",
    "State",
    "Training",
    "action_class",
    "automorphisms",
    "averaged",
    "best_partition",
    "blocks_from_names",
    "build_model",
    "canonical_labels",
    "claim_test",
    "cluster_values",
    "confirm",
    "confirm_action",
    "discover",
    "discover_transitions",
    "example_tasks",
    "find_constraints",
    "find_generators",
    "fit_augerino",
    "fit_smooth",
    "group_average",
    "gumbel_sinkhorn",
    "hard_assignment",
    "holm",
    "hypergradient",
    "inverse_hvp_cg",
    "inverse_hvp_neumann",
    "layer_table",
    "layer_types",
    "learn_layers",
    "learn_module_sharing",
    "matched",
    "name_sharing",
    "null_spaces",
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
    "snap",
    "snap_affine",
    "three_way_split",
]
