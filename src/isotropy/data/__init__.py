"""What comes in: loading anything, tasks that know their symmetry, dynamical systems."""

from isotropy._run._lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    deprecated={
        "AUGMENTATIONS": "isotropy_papers.grid_images:AUGMENTATIONS",
        "GridImageSet": "isotropy_papers.grid_image_sets:GridImageSet",
        "PlantedProblem": "isotropy_papers.planted_problems:PlantedProblem",
        "PositionwiseSum": "isotropy_papers.sum_of_numbers:PositionwiseSum",
        "QuadrantDigits": "isotropy_papers.digit_tasks:QuadrantDigits",
        "SharingTask": "isotropy_papers.sharing_tasks:SharingTask",
        "SumOfNumbers": "isotropy_papers.sum_of_numbers:SumOfNumbers",
        "as_images": "isotropy_papers.uci_tables:as_images",
        "breaking_cost": "isotropy_papers.planted_problems:breaking_cost",
        "broken": "isotropy_papers.planted_problems:broken",
        "cross_correlation": "isotropy_papers.sharing_tasks:cross_correlation",
        "fetch_digest": "isotropy.data._fetch:fetch_digest",
        "g_mnist": "isotropy_papers.grid_image_sets:g_mnist",
        "grid_image_set": "isotropy_papers.grid_image_sets:grid_image_set",
        "image_shape": "isotropy_papers.uci_tables:image_shape",
        "in_quadrants": "isotropy_papers.digit_tasks:in_quadrants",
        "modified_inertia": "isotropy_papers.broken_symmetries:modified_inertia",
        "noisy_steps": "isotropy_papers.sharing_tasks:noisy_steps",
        "planted_nulls": "isotropy_papers.planted_problems:planted_nulls",
        "planted_problems": "isotropy_papers.planted_problems:planted_problems",
        "rotated": "isotropy_papers.digit_tasks:rotated",
        "shared_means": "isotropy_papers.sharing_tasks:shared_means",
        "sum_of_numbers": "isotropy_papers.sum_of_numbers:sum_of_numbers",
        "transform_images": "isotropy_papers.grid_images:transform_images",
        "translated": "isotropy_papers.digit_tasks:translated",
        "uci": "isotropy_papers.uci_tables:uci",
        "uci_names": "isotropy_papers.uci_tables:uci_names",
        "uci_split": "isotropy_papers.uci_tables:uci_split",
        "windy_pendulum": "isotropy_papers.broken_symmetries:windy_pendulum",
        "with_noise": "isotropy_papers.planted_problems:with_noise",
    },
)
