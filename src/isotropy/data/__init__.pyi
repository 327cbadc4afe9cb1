from isotropy.data._augment import Augment
from isotropy.data._broken_inertia import modified_inertia
from isotropy.data._dataset import Dataset
from isotropy.data._digit_tasks import (
    QuadrantDigits,
    in_quadrants,
    rotated,
    small_digits,
    standardised,
    translated,
)
from isotropy.data._double_spring_pendulum import double_spring_pendulum, windy_pendulum
from isotropy.data._fetch import fetch, fetch_digest
from isotropy.data._grid_image_sets import GridImageSet, g_mnist, grid_image_set
from isotropy.data._grid_images import AUGMENTATIONS, transform_images
from isotropy.data._guess_target import guess_target
from isotropy.data._hamiltonian_systems import Chunks, HamiltonianSystem
from isotropy.data._image_warps import resized
from isotropy.data._load import load
from isotropy.data._models import load_model
from isotropy.data._planted import planted_nulls, planted_problems, with_noise
from isotropy.data._planted_breaking import breaking_cost, broken
from isotropy.data._planted_problem import PlantedProblem
from isotropy.data._regression_tasks import inertia, lorentz_scattering, o5_invariant
from isotropy.data._rollout_errors import geometric_mean, relative_error
from isotropy.data._sharing_tasks import SharingTask, cross_correlation, noisy_steps, shared_means
from isotropy.data._sum_of_numbers import PositionwiseSum, SumOfNumbers, sum_of_numbers
from isotropy.data._task import Scaling, Splits, Task
from isotropy.data._transitions import TransitionChunks, Transitions
from isotropy.data._uci_tables import as_images, image_shape, uci, uci_names, uci_split

__all__ = [
    "AUGMENTATIONS",
    "Augment",
    "Chunks",
    "Dataset",
    "GridImageSet",
    "HamiltonianSystem",
    "PlantedProblem",
    "PositionwiseSum",
    "QuadrantDigits",
    "Scaling",
    "SharingTask",
    "Splits",
    "SumOfNumbers",
    "Task",
    "TransitionChunks",
    "Transitions",
    "as_images",
    "breaking_cost",
    "broken",
    "cross_correlation",
    "double_spring_pendulum",
    "fetch",
    "fetch_digest",
    "g_mnist",
    "geometric_mean",
    "grid_image_set",
    "guess_target",
    "image_shape",
    "in_quadrants",
    "inertia",
    "load",
    "load_model",
    "lorentz_scattering",
    "modified_inertia",
    "noisy_steps",
    "o5_invariant",
    "planted_nulls",
    "planted_problems",
    "relative_error",
    "resized",
    "rotated",
    "shared_means",
    "small_digits",
    "standardised",
    "sum_of_numbers",
    "transform_images",
    "translated",
    "uci",
    "uci_names",
    "uci_split",
    "windy_pendulum",
    "with_noise",
]
