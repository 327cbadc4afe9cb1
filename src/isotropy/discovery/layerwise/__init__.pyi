from isotropy.discovery.layerwise._layer_types import LayerType, layer_table, layer_types
from isotropy.discovery.layerwise._layerwise_result import LayerwiseResult
from isotropy.discovery.layerwise._learn_layers import learn_layers

__all__ = [
    "LayerType",
    "LayerwiseResult",
    "layer_table",
    "layer_types",
    "learn_layers",
]
