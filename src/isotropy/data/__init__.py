"""What comes in: loading anything, tasks that know their symmetry."""

from isotropy._run._lazy_names import lazy_names

_MOVED = {
    "isotropy.data": "Scaling=Standardisation",
    "isotropy.data._fetch": "fetch_digest",
    "isotropy_papers.broken_symmetries": "modified_inertia windy_pendulum",
    "isotropy_papers.digit_tasks": "QuadrantDigits in_quadrants rotated translated",
    "isotropy_papers.grid_image_sets": "GridImageSet g_mnist grid_image_set",
    "isotropy_papers.grid_images": "AUGMENTATIONS transform_images",
    "isotropy_papers.hamiltonian_systems": "Chunks HamiltonianSystem double_spring_pendulum",
    "isotropy_papers.planted_problems": (
        "PlantedProblem breaking_cost broken planted_nulls planted_problems with_noise"
    ),
    "isotropy_papers.rollout_errors": "geometric_mean relative_error",
    "isotropy_papers.sharing_tasks": "SharingTask cross_correlation noisy_steps shared_means",
    "isotropy_papers.sum_of_numbers": "PositionwiseSum SumOfNumbers sum_of_numbers",
    "isotropy_papers.uci_tables": "as_images image_shape uci uci_names uci_split",
}
__getattr__, __dir__, __all__ = lazy_names(__name__, _MOVED)
