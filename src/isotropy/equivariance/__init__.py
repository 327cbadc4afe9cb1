"""How far a function is from a symmetry."""

from isotropy._run._lazy_names import lazy_names

_MOVED = {
    "isotropy.equivariance._elements_to_try": "all_elements",
    "isotropy.equivariance._layerwise_eq_t": "LayerEqT",
    "isotropy_papers.aliasing": "alias aliasing_lee theorem_4_1",
    "isotropy_papers.equivariance_gap": "EquivarianceGap equivariance_gap",
    "isotropy_papers.shared_mean_theory": (
        "mse_gap_bound shared_mean_mse sharing_threshold suggest_split"
    ),
}
__getattr__, __dir__, __all__ = lazy_names(__name__, _MOVED)
