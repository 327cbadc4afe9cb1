"""How far a function is from a symmetry."""

from isotropy._run._lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    deprecated={
        "EquivarianceGap": "isotropy_papers.equivariance_gap:EquivarianceGap",
        "LayerEqT": "isotropy.equivariance._layerwise_eq_t:LayerEqT",
        "alias": "isotropy_papers.aliasing:alias",
        "aliasing_lee": "isotropy_papers.aliasing:aliasing_lee",
        "all_elements": "isotropy.equivariance._elements_to_try:all_elements",
        "equivariance_gap": "isotropy_papers.equivariance_gap:equivariance_gap",
        "mse_gap_bound": "isotropy_papers.shared_mean_theory:mse_gap_bound",
        "shared_mean_mse": "isotropy_papers.shared_mean_theory:shared_mean_mse",
        "sharing_threshold": "isotropy_papers.shared_mean_theory:sharing_threshold",
        "suggest_split": "isotropy_papers.shared_mean_theory:suggest_split",
        "theorem_4_1": "isotropy_papers.aliasing:theorem_4_1",
    },
)
