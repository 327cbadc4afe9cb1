"""Continuous symmetry: generators from data, snapped to an exact Lie algebra and named."""

from isotropy._run._lazy_names import lazy_names

_MOVED = {
    "isotropy.discovery.proposing.generators._action_class": "ActionClass action_class",
    "isotropy.discovery.proposing.generators._column_blocks": "ColumnBlocks blocks_from_names",
    "isotropy.discovery.proposing.generators._data_constraints": "DataConstraints",
    "isotropy.discovery.proposing.generators._resampled_null_space": "NullSpace",
    "isotropy.discovery.predictors._smooth_fit": "SmoothFit fit_smooth",
}
__getattr__, __dir__, __all__ = lazy_names(__name__, _MOVED)
