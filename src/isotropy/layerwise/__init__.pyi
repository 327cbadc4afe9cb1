from isotropy.layerwise._image_batches import AugmentedBatches
from isotropy.layerwise._layer_types import LayerType, layer_table, layer_types
from isotropy.layerwise._layerwise_result import LayerwiseResult
from isotropy.layerwise._learn_layers import LayerLearningOptions, NetworkOptions, learn_layers
from isotropy.layerwise._starting_precisions import (
    begin_with_strict_paths,
    starting_precisions,
)

__all__ = [
    "AugmentedBatches",
    "LayerLearningOptions",
    "LayerType",
    "LayerwiseResult",
    "NetworkOptions",
    "begin_with_strict_paths",
    "layer_table",
    "layer_types",
    "learn_layers",
    "starting_precisions",
]
