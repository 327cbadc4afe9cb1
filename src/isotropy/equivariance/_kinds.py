"""What kind of layer a unit of a network is, for tables and colours."""

from __future__ import annotations

from torch import nn

_ACTIVATIONS = (
    "relu",
    "elu",
    "silu",
    "swish",
    "sigmoid",
    "tanh",
    "mish",
    "softplus",
    "glu",
    "softmax",
    "act",
)
_MODULES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("attention", ("attention", "attn", "mhsa")),
    ("normalisation", ("norm", "affine")),
    ("pooling", ("pool", "blur", "upsample", "pixelshuffle")),
    ("activation", _ACTIVATIONS),
    ("embedding", ("embed",)),
    ("linear", ("linear", "mlp", "dense", "identity")),
)
_FUNCTIONS: dict[str, str] = {
    "scaled_dot_product_attention": "attention",
    "multi_head_attention_forward": "attention",
    "matmul": "attention",
    "bmm": "attention",
    "einsum": "attention",
    "layer_norm": "normalisation",
    "batch_norm": "normalisation",
    "group_norm": "normalisation",
    "normalize": "normalisation",
    "rms_norm": "normalisation",
    "linear": "linear",
    "cat": "embedding",
    "mean": "pooling",
    "amax": "pooling",
    "interpolate": "pooling",
    "getitem": "pooling",
}


def kind_of_module(module: nn.Module) -> str:
    """Convolution (strided or not), embedding, pooling, activation, normalisation and so on."""
    stride = getattr(module, "stride", 1)
    kernel = getattr(module, "kernel_size", None)
    if isinstance(module, nn.Conv1d | nn.Conv2d | nn.Conv3d) or (
        "conv" in type(module).__name__.lower() and kernel is not None
    ):
        strides = stride if isinstance(stride, tuple) else (stride,)
        if max(strides) == 1:
            return "convolution"
        return "embedding" if kernel == strides and max(strides) > 2 else "strided convolution"
    name = type(module).__name__.lower()
    for kind, signs in _MODULES:
        if any(sign in name for sign in signs):
            return kind
    return "other"


def kind_of_function(name: str) -> str:
    """The kind of an operation that is called as a function."""
    name = name.strip("_")
    if name in _FUNCTIONS:
        return _FUNCTIONS[name]
    if name.startswith("conv"):
        return "convolution"
    if "pool" in name:
        return "pooling"
    if any(sign in name for sign in _ACTIVATIONS):
        return "activation"
    return "other"
