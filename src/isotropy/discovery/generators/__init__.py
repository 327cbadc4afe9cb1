"""Continuous symmetry: generators from data, snapped to an exact Lie algebra and named."""

from isotropy._run._lazy_names import lazy_names

_DEPRECATED = {
    "ActionClass": "isotropy.discovery.generators._action_class:ActionClass",
    "ColumnBlocks": "isotropy.discovery.generators._column_blocks:ColumnBlocks",
    "DataConstraints": "isotropy.discovery.generators._data_constraints:DataConstraints",
    "NullSpace": "isotropy.discovery.generators._resampled_null_space:NullSpace",
    "SmoothFit": "isotropy.discovery.generators._smooth_fit:SmoothFit",
    "action_class": "isotropy.discovery.generators._action_class:action_class",
    "blocks_from_names": "isotropy.discovery.generators._column_blocks:blocks_from_names",
    "fit_smooth": "isotropy.discovery.generators._smooth_fit:fit_smooth",
}

__getattr__, __dir__, __all__ = lazy_names(__name__, deprecated=_DEPRECATED)
