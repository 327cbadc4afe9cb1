"""Where training starts: θ₀ as a function of the model and a seed, the same on every machine."""

from __future__ import annotations

from math import sqrt

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from isotropy.certificates._counter_random import random_normals
from isotropy.certificates._orbit_layers import OrbitConv2d
from isotropy.certificates._vector_networks import ProjectedLinear
from isotropy.nn import BiLinear, Linear, SharedLinear

# linear layers of an equivariant perceptron start small: products of their outputs are added
_BESIDE_PRODUCTS = 0.85


def initial_parameters(model: nn.Module, seed: int) -> dict[str, Tensor]:
    """Parameters to start from, drawn by a counter: one stream for each, in their order.

    Weights are normal with variance 1/fan-in, where the fan-in is the number of entries for one
    output: half of what is usual with ReLU, because what is learned lies in few dimensions and
    must not drown in what was drawn. What the model was constructed with at one constant, such as
    scales of one and shifts of zero, stays; other vectors, and the biases of linear layers and
    convolutions, become zero. So nothing is left of PyTorch's own random numbers.

    Layers of this library have fan-ins of their own: shared weights count as often as they are
    used, bilinear layers, which scale themselves, start from the standard normal, and the linear
    layers beside them at 0.85 of the deviation.

    Args:
        model: Any module with real parameters.
        seed: A natural number below 2⁶⁴.

    Returns:
        A float64 tensor on the CPU for every parameter, by name.

    Raises:
        ValueError: If the model has no parameters, or some that are complex or without memory.

    Example:
        >>> model = nn.Sequential(nn.Linear(200, 100), nn.ReLU(), nn.Linear(100, 3))
        >>> start = initial_parameters(model, seed=0)
        >>> print(*(abs(round(float(values.std()), 1)) for values in start.values()))
        0.1 0.0 0.1 0.0
    """
    owners = _owners(model)
    start: dict[str, Tensor] = {}
    for place, (name, parameter) in enumerate(model.named_parameters()):
        if not parameter.is_floating_point():
            raise ValueError(f"expected real parameters, got {name} of {parameter.dtype}")
        if parameter.is_meta:
            raise ValueError(f"expected parameters with values, got {name} without memory")
        value = parameter.detach().to("cpu", torch.float64, copy=True)
        owner, attribute = owners[name]
        deviation = _deviation(owner, attribute, value)
        if deviation == 0:
            value.zero_()
        elif deviation is not None:
            drawn = random_normals(seed, place, value.numel())
            value = deviation * drawn.reshape(value.shape)
        start[name] = value
    return start


def film_names(model: nn.Module) -> list[str]:
    """The parameters of normalisations and of the last layer, which FiLM subspaces train.

    A normalisation is a module with ``Norm`` in the name of its class; the last layer is the last
    module, in the order of construction, that has a weight matrix of its own.

    Returns:
        Names, in the order of ``model.named_parameters()``.

    Raises:
        ValueError: If the model has no parameters.

    Example:
        >>> film_names(nn.Sequential(nn.Linear(2, 3), nn.LayerNorm(3), nn.Linear(3, 2)))
        ['1.weight', '1.bias', '2.weight', '2.bias']
    """
    owners, last = _owners(model), _last_layer(model)
    return [
        name
        for name, _ in model.named_parameters()
        if (owner := owners[name][0]) is last or "norm" in type(owner).__name__.lower()
    ]


def _owners(model: nn.Module) -> dict[str, tuple[nn.Module, str]]:
    """The module of every parameter, and its name there; a bilinear layer owns its lists."""
    owners: dict[str, tuple[nn.Module, str]] = {}
    for prefix, module in model.named_modules():
        whole = isinstance(module, BiLinear)
        for attribute, _ in module.named_parameters(recurse=whole):
            owners.setdefault(f"{prefix}.{attribute}" if prefix else attribute, (module, attribute))
    if not owners:
        raise ValueError(f"expected a model with parameters, got {type(model).__name__} with none")
    return owners


def _last_layer(model: nn.Module) -> nn.Module | None:
    def has_weights(module: nn.Module) -> bool:
        own = module.parameters(recurse=False)
        return isinstance(module, Linear | SharedLinear) or any(p.ndim > 1 for p in own)

    return next((m for m in reversed(list(model.modules())) if has_weights(m)), None)


def _deviation(owner: nn.Module, attribute: str, value: Tensor) -> float | None:
    """Of the numbers to draw: 0 for zeros, None where the value stays."""
    if isinstance(owner, BiLinear):
        return 1.0
    if isinstance(owner, OrbitConv2d) and attribute == "weight":
        return sqrt(1 / owner.fan_in)
    if isinstance(owner, ProjectedLinear) and attribute == "weight":
        return _BESIDE_PRODUCTS * sqrt(1 / value.shape[1])
    if isinstance(owner, Linear | SharedLinear) and attribute == "coefficients":
        return sqrt(1 / float(owner.weight_space.row_counts().double().mean()))
    if value.numel() > 1:
        drawn = bool((value != value.flatten()[0]).any())
    else:  # one number is a constant, but these layers draw it
        drawn = value.numel() == 1 and isinstance(owner, nn.Linear | _ConvNd | nn.Bilinear)
    if not drawn:
        return None
    return sqrt(value.shape[0] / value.numel()) if value.ndim > 1 else 0.0
