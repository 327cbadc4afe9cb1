"""The linear operations of torch's normalisations: a scale and a shift of each channel.

Whatever they divide by, the scale γ multiplies what is normalised already: y = γ ⊙ x̂ + β.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from torch import Tensor, nn
from torch.nn import functional

from isotropy.nn._recorder import TorchOperations

BatchNorm: TypeAlias = nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d
InstanceNorm: TypeAlias = nn.InstanceNorm1d | nn.InstanceNorm2d | nn.InstanceNorm3d


def layer_norm(layer: nn.LayerNorm, x: Tensor, y: Tensor) -> TorchOperations:
    """Scale and shift of a ``LayerNorm``."""
    shape = layer.normalized_shape
    return _of_trailing(lambda x: functional.layer_norm(x, shape, eps=layer.eps), len(shape), x, y)


def rms_norm(layer: nn.RMSNorm, x: Tensor, y: Tensor) -> TorchOperations:
    """The scale of an ``RMSNorm``."""
    shape = layer.normalized_shape
    return _of_trailing(lambda x: functional.rms_norm(x, shape, eps=layer.eps), len(shape), x, y)


def group_norm(layer: nn.GroupNorm, x: Tensor, y: Tensor) -> TorchOperations:
    """Scale and shift of a ``GroupNorm``."""
    groups, eps = layer.num_groups, layer.eps
    return _of_channels(lambda x: functional.group_norm(x, groups, eps=eps), x, y)


def batch_norm(layer: BatchNorm, x: Tensor, y: Tensor) -> TorchOperations:
    """Scale and shift of a batch norm, by whichever statistics it took."""
    mean, variance = _running(layer)
    eps = layer.eps

    def normalised(x: Tensor) -> Tensor:
        return functional.batch_norm(x, mean, variance, training=mean is None, eps=eps)

    return _of_channels(normalised, x, y)


def instance_norm(layer: InstanceNorm, x: Tensor, y: Tensor) -> TorchOperations:
    """Scale and shift of an instance norm, by whichever statistics it took."""
    if x.ndim == layer._get_no_batch_dim():
        return iter(())
    mean, variance = _running(layer)
    eps = layer.eps

    def normalised(x: Tensor) -> Tensor:
        return functional.instance_norm(x, mean, variance, use_input_stats=mean is None, eps=eps)

    return _of_channels(normalised, x, y)


def _running(layer: BatchNorm | InstanceNorm) -> tuple[Tensor, Tensor] | tuple[None, None]:
    if layer.training or layer.running_mean is None or layer.running_var is None:
        return None, None
    return layer.running_mean.clone(), layer.running_var.clone()  # training goes on in place


def _of_trailing(
    normalised: Callable[[Tensor], Tensor], trailing: int, x: Tensor, y: Tensor
) -> TorchOperations:
    """One scale for each entry of the last axes."""
    if x.ndim <= trailing:
        return
    axes = ("position",) * (x.ndim - trailing - 1)

    def flat(y: Tensor) -> Tensor:
        return y.flatten(-trailing)

    yield from _scale_and_shift(normalised, flat, axes, x, y)


def _of_channels(normalised: Callable[[Tensor], Tensor], x: Tensor, y: Tensor) -> TorchOperations:
    """One scale for each channel, the second axis."""
    spatial = x.ndim - 2
    axes = ("space",) * (spatial > 0)

    def channels_last(y: Tensor) -> Tensor:
        return y.flatten(-spatial).mT if spatial else y

    yield from _scale_and_shift(normalised, channels_last, axes, x, y)


def _scale_and_shift(
    normalised: Callable[[Tensor], Tensor],
    rows: Callable[[Tensor], Tensor],
    axes: tuple[str, ...],
    x: Tensor,
    y: Tensor,
) -> TorchOperations:
    def spread(x: Tensor) -> Tensor:
        return rows(normalised(x)).unsqueeze(-1)

    def gather(gradient: Tensor) -> Tensor:
        return rows(gradient).unsqueeze(-1)

    scales = {"axes": axes, "spread": spread, "gather": gather, "blocks": True, "exact": True}
    yield "weight", x, scales
    ones = y.new_ones(()).expand(*rows(y).shape[:-1], 1)
    yield "bias", ones, {"axes": axes, "gather": rows}
