from isotropy.discovery._discover import discover
from isotropy.discovery._examples import example_tasks
from isotropy.discovery._finding import Finding
from isotropy.discovery._findings import Findings
from isotropy.discovery._layout import Layout
from isotropy.discovery._model_comparison import ModelComparison
from isotropy.discovery._reading import Reading, read_shape
from isotropy.discovery._soft_offer import SoftOffer
from isotropy.discovery._standardised import HomogeneousModel, StandardisedModel, build_model
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
from isotropy.discovery.transitions._discover_transitions import discover_transitions

__all__ = [
    "ActionClass",
    "ActionTest",
    "ClaimTest",
    "ClassResult",
    "ColumnBlocks",
    "DataConstraints",
    "DataSupport",
    "Finding",
    "Findings",
    "GeneratorFindings",
    "HomogeneousModel",
    "Layout",
    "ModelComparison",
    "NullSpace",
    "OrbitAverage",
    "Reading",
    "SmoothFit",
    "SnappedAlgebra",
    "SoftComparison",
    "SoftOffer",
    "StandardisedModel",
    "action_class",
    "blocks_from_names",
    "build_model",
    "claim_test",
    "confirm",
    "confirm_action",
    "discover",
    "discover_transitions",
    "example_tasks",
    "find_constraints",
    "find_generators",
    "fit_smooth",
    "group_average",
    "holm",
    "null_spaces",
    "orbit_average",
    "read_shape",
    "snap",
    "snap_affine",
    "three_way_split",
]
