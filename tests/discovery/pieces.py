"""Pieces of discovery that several tests take apart: one place to change when they move."""

from isotropy._run import OutOfTime, Patience, Step, generator, json_text, one_thread
from isotropy.discovery._thresholds import replaced
from isotropy.discovery.claims._image_motions import (
    SHIFTS,
    asked_motions,
    moved_at_random,
    moved_together,
    usual_motions,
)
from isotropy.discovery.claims._layer_group_claim import GridBench, LayerGroupClaim
from isotropy.discovery.claims._permutation_claim import GroupProposal, PermutationClaim
from isotropy.discovery.modelling._finding_models import ModelComparison, SoftComparison, SoftOffer
from isotropy.discovery.modelling._modelling_thresholds import ModellingThresholds
from isotropy.discovery.modelling._soft_model import compare_soft, soft_offer
from isotropy.discovery.modelling._standardised import StandardisedModel, build_model
from isotropy.discovery.predictors._free_predictor import (
    FreePredictor,
    fit_free_predictor,
    held_out_rows,
    quadratic_terms,
    sample_losses,
)
from isotropy.discovery.predictors._image_predictors import FittedPredictor, rivals
from isotropy.discovery.predictors._predictor_thresholds import PredictorThresholds
from isotropy.discovery.predictors._smooth_fit import SmoothFit, fit_smooth, values_and_jacobian
from isotropy.discovery.proposing._layer_group_proposer import SearchProgress, group_space
from isotropy.discovery.proposing._layer_proposer import LayerProposer, LearnedLayers
from isotropy.discovery.proposing._proposing_thresholds import ProposingThresholds
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
from isotropy.discovery.proposing.generators._data_constraints import tangent
from isotropy.discovery.proposing.generators._discrete_candidates import (
    DiscreteCandidate,
    candidates_for_rows,
    coset_candidates,
)
from isotropy.discovery.proposing.permutations._natural_groups import (
    block_groups,
    log_conjugates,
    log_natural,
    natural_groups,
    plain_groups,
)
from isotropy.discovery.proposing.permutations._screening import (
    Screening,
    chance_of_cost,
    orbits_of_pairs,
)
from isotropy.discovery.reading._image_data import ImageData
from isotropy.discovery.reading._read_problem import Problem, three_way_split
from isotropy.discovery.reading._task_data import Arrangement, TaskData
from isotropy.discovery.testing._claim_test import _p_negative_mean, group_average, holm
from isotropy.discovery.testing._image_bench import ImageBench, distinguishability
from isotropy.discovery.testing._tested import Tested, joint_p_values
from isotropy.discovery.testing._testing_thresholds import TestingThresholds
from isotropy.naming._pair_group import PairGroup, symmetric
from isotropy.search._search_result import ScoredChild

__all__ = [
    "SHIFTS",
    "Arrangement",
    "Chart",
    "ColumnBlocks",
    "DiscreteCandidate",
    "FittedPredictor",
    "FreePredictor",
    "GridBench",
    "GroupProposal",
    "ImageBench",
    "ImageData",
    "LayerGroupClaim",
    "LayerProposer",
    "LearnedLayers",
    "ModelComparison",
    "ModellingThresholds",
    "OutOfTime",
    "PairGroup",
    "Patience",
    "PermutationClaim",
    "PredictorThresholds",
    "Problem",
    "ProposingThresholds",
    "ScoredChild",
    "Screening",
    "SearchProgress",
    "SmoothFit",
    "SoftComparison",
    "SoftOffer",
    "StandardisedModel",
    "Step",
    "TaskData",
    "Tested",
    "TestingThresholds",
    "_p_negative_mean",
    "as_blocks",
    "asked_motions",
    "block_groups",
    "blocks_by_size",
    "blocks_from_names",
    "blocks_of_width",
    "build_model",
    "candidates_for_rows",
    "chance_of_cost",
    "chart_of_columns",
    "chart_of_combinations",
    "combination_text",
    "compare_soft",
    "condition",
    "coset_candidates",
    "distinguishability",
    "fit_free_predictor",
    "fit_smooth",
    "generator",
    "group_average",
    "group_space",
    "held_out_rows",
    "holm",
    "invisible_combinations",
    "joint_p_values",
    "json_text",
    "log_conjugates",
    "log_natural",
    "moved_at_random",
    "moved_together",
    "natural_groups",
    "one_thread",
    "orbits_of_pairs",
    "plain_groups",
    "quadratic_terms",
    "replaced",
    "rivals",
    "rounding_errors",
    "sample_losses",
    "simple_subspace",
    "soft_offer",
    "symmetric",
    "tangent",
    "three_way_split",
    "unit_problem",
    "usual_motions",
    "values_and_jacobian",
]
