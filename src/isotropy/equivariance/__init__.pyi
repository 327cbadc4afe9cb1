from isotropy.equivariance._action import Action
from isotropy.equivariance._eq_t import ShiftOptions, consistency, eq_t
from isotropy.equivariance._grid_actions import sequence_action
from isotropy.equivariance._group_actions import group_action
from isotropy.equivariance._image_actions import image_action
from isotropy.equivariance._kinds import kind_of_module
from isotropy.equivariance._layerwise import LayerContribution, Layerwise, layerwise
from isotropy.equivariance._layerwise_eq_t import layerwise_eq_t
from isotropy.equivariance._lee import LEE, lee, lee_penalty
from isotropy.equivariance._lie_derivative import lie_derivative
from isotropy.equivariance._measure_model import MeasureOptions, measure
from isotropy.equivariance._measurement import Measurement
from isotropy.equivariance._partition import partition_distance
from isotropy.equivariance._point_actions import point_cloud_action
from isotropy.equivariance._residuals import SampledError
from isotropy.equivariance._sampled import sampled_equivariance
from isotropy.equivariance._tester import assert_equivariant, equivariance_error

__all__ = [
    "LEE",
    "Action",
    "LayerContribution",
    "Layerwise",
    "MeasureOptions",
    "Measurement",
    "SampledError",
    "ShiftOptions",
    "assert_equivariant",
    "consistency",
    "eq_t",
    "equivariance_error",
    "group_action",
    "image_action",
    "kind_of_module",
    "layerwise",
    "layerwise_eq_t",
    "lee",
    "lee_penalty",
    "lie_derivative",
    "measure",
    "partition_distance",
    "point_cloud_action",
    "sampled_equivariance",
    "sequence_action",
]
