"""The old place of ``isotropy.layerwise``: its names work until version 0.2, and warn."""

from isotropy._run._lazy_names import lazy_names

_MOVED = {
    "isotropy.layerwise": (
        "AugmentedBatches LayerLearningOptions LayerType LayerwiseResult NetworkOptions "
        "begin_with_strict_paths layer_table layer_types learn_layers starting_precisions"
    ),
    "isotropy.layerwise._layerwise_result": "LayerShares",
}
__getattr__, __dir__, __all__ = lazy_names(__name__, _MOVED)
