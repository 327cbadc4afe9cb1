"""Pieces of discovery that several tests take apart: one place to change when they move."""

from isotropy._run import OutOfTime, Patience, Step, generator, json_text, one_thread
from isotropy.discovery.claims._motions import (
    SHIFTS,
    asked_motions,
    moved_at_random,
    moved_together,
    usual_motions,
)
from isotropy.discovery.claims._permutation_claim import (
    PermutationClaim,
    confirm_permutations,
)
from isotropy.discovery.claims._signed_permutation import SignedPermutation, generated
from isotropy.discovery.modelling._model_comparison import ModelComparison
from isotropy.discovery.modelling._soft_offer import SoftOffer
from isotropy.discovery.modelling._standardised import StandardisedModel, build_model
from isotropy.discovery.predictors._free_predictor import (
    FreePredictor,
    fit_free_predictor,
    held_out_rows,
    quadratic_terms,
    sample_losses,
)
from isotropy.discovery.predictors._smooth_fit import SmoothFit, fit_smooth, values_and_jacobian
from isotropy.discovery.proposing.generators._charts import (
    Chart,
    chart_of_columns,
    chart_of_combinations,
    combination_text,
    simple_subspace,
)
from isotropy.discovery.proposing.generators._column_blocks import (
    ColumnBlocks,
    as_blocks,
    blocks_by_size,
    blocks_from_names,
    blocks_of_width,
)
from isotropy.discovery.proposing.generators._conditioning import (
    condition,
    invisible_combinations,
    rounding_errors,
    unit_problem,
)
from isotropy.discovery.proposing.generators._discrete_candidates import (
    DiscreteCandidate,
    candidates_for_rows,
    coset_candidates,
)
from isotropy.discovery.proposing.generators._tangent import tangent
from isotropy.discovery.proposing.images._discover_images import discover_images
from isotropy.discovery.proposing.images._image_search import ImageSearch
from isotropy.discovery.proposing.permutations._natural_groups import (
    block_groups,
    log_conjugates,
    log_natural,
    natural_groups,
    plain_groups,
)
from isotropy.discovery.proposing.permutations._proposals import GroupProposal, Proposals, propose
from isotropy.discovery.reading._image_data import ImageData
from isotropy.discovery.reading._row_layout import RowLayout
from isotropy.discovery.reading._splits import three_way_split
from isotropy.discovery.reading._task_data import TaskData
from isotropy.discovery.reading._transition_data import TransitionData
from isotropy.discovery.testing._claim_test import _p_negative_mean, group_average, holm
from isotropy.discovery.testing._confirmed_groups import ConfirmedGroups
from isotropy.discovery.testing._soft_comparison import SoftComparison, compare_soft
from isotropy.naming._pair_group import PairGroup, symmetric

__all__ = [
    "SHIFTS",
    "Chart",
    "ColumnBlocks",
    "ConfirmedGroups",
    "DiscreteCandidate",
    "FreePredictor",
    "GroupProposal",
    "ImageData",
    "ImageSearch",
    "ModelComparison",
    "OutOfTime",
    "PairGroup",
    "Patience",
    "PermutationClaim",
    "Proposals",
    "RowLayout",
    "SignedPermutation",
    "SmoothFit",
    "SoftComparison",
    "SoftOffer",
    "StandardisedModel",
    "Step",
    "TaskData",
    "TransitionData",
    "_p_negative_mean",
    "as_blocks",
    "asked_motions",
    "block_groups",
    "blocks_by_size",
    "blocks_from_names",
    "blocks_of_width",
    "build_model",
    "candidates_for_rows",
    "chart_of_columns",
    "chart_of_combinations",
    "combination_text",
    "compare_soft",
    "condition",
    "confirm_permutations",
    "coset_candidates",
    "discover_images",
    "fit_free_predictor",
    "fit_smooth",
    "generated",
    "generator",
    "group_average",
    "held_out_rows",
    "holm",
    "invisible_combinations",
    "json_text",
    "log_conjugates",
    "log_natural",
    "moved_at_random",
    "moved_together",
    "natural_groups",
    "one_thread",
    "plain_groups",
    "propose",
    "quadratic_terms",
    "rounding_errors",
    "sample_losses",
    "simple_subspace",
    "symmetric",
    "tangent",
    "three_way_split",
    "unit_problem",
    "usual_motions",
    "values_and_jacobian",
]
