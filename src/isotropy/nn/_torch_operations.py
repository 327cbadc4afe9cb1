"""The linear operations of torch's convolutions and normalisations."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional

from isotropy.nn._patches import circular_gram, every, patches, zero_padded_gram
from isotropy.nn._recorder import TorchOperations

Convolution: TypeAlias = nn.Conv1d | nn.Conv2d | nn.Conv3d
TransposedConvolution: TypeAlias = nn.ConvTranspose1d | nn.ConvTranspose2d | nn.ConvTranspose3d


def convolution(layer: Convolution, x: Tensor, y: Tensor) -> TorchOperations:
    """The operations of a convolution: its kernel is multiplied with the patches of the input."""
    axes = len(layer.kernel_size)
    if x.ndim != axes + 2:
        return

    def spread(x: Tensor) -> Tensor:
        rows = patches(
            x,
            layer.kernel_size,
            stride=layer.stride,
            dilation=layer.dilation,
            padding=padding,
            padding_mode=layer.padding_mode,
        )
        return _in_groups(rows, layer.groups)

    padding = _padding(layer)
    about = {"spread": spread, **_output(axes, layer.groups)}
    gram = _fast_gram(layer, padding, x)
    if gram is not None:
        about["gram"] = gram
    yield "weight", x, about
    yield "bias", _ones(y), _output(axes)


def transposed_convolution(layer: TransposedConvolution, x: Tensor, y: Tensor) -> TorchOperations:
    """The operations of a transposed one: a convolution of the input with zeros in between."""
    axes = len(layer.kernel_size)
    if x.ndim != axes + 2:
        return
    stride, dilation, kernel_size = layer.stride, layer.dilation, layer.kernel_size
    spans = _spans(layer)
    cut: tuple[int, ...] = layer.padding  # type: ignore[assignment]
    before = [span - less for span, less in zip(spans, cut, strict=True)]
    # from the output, since its size may be asked for at each call
    after = [
        size + span - first - step * (n - 1) - 1
        for size, span, first, step, n in zip(
            y.shape[2:], spans, before, stride, x.shape[2:], strict=True
        )
    ]

    def spread(x: Tensor) -> Tensor:
        sizes = [step * (n - 1) + 1 for step, n in zip(stride, x.shape[2:], strict=True)]
        apart = x.new_zeros(*x.shape[:2], *sizes)
        every(apart, stride).copy_(x)
        sides = list(zip(before, after, strict=True))
        rows = patches(apart, kernel_size, dilation=dilation, padding=sides)
        return _in_groups(rows, layer.groups)

    entries = _transposed_entries(layer)
    yield "weight", x, {"spread": spread, "entries": entries, **_output(axes, layer.groups)}
    yield "bias", _ones(y), _output(axes)


def _padding(layer: Convolution) -> list[tuple[int, int]]:
    if isinstance(layer.padding, str):
        if layer.padding == "valid":
            return [(0, 0)] * len(layer.kernel_size)
        return [(span // 2, span - span // 2) for span in _spans(layer)]
    return [(n, n) for n in layer.padding]


def _fast_gram(
    layer: Convolution, padding: list[tuple[int, int]], x: Tensor
) -> Callable[[Tensor], Tensor] | None:
    samples, channels, places = x.shape[0], x.shape[1] // layer.groups, math.prod(layer.kernel_size)
    # measured: to transform all pairs of channels pays where it saves many products, and it must
    # not take more memory than the patches would
    pays = samples * places**2 >= 1024 and channels <= samples * places
    if not pays or any(step > 1 for step in layer.stride) or not x.is_floating_point():
        return None
    settings: dict[str, Any] = {
        "kernel_size": layer.kernel_size,
        "dilation": layer.dilation,
        "groups": layer.groups,
    }
    spans = _spans(layer)
    if layer.padding_mode == "circular" and [sum(sides) for sides in padding] == spans:
        return partial(circular_gram, **settings)
    geometry = list(zip(x.shape[2:], spans, padding, strict=True))
    meeting = math.prod(size + span for size, span, _ in geometry)
    inside = math.prod(size + min(a, span) + min(b, span) - span for size, span, (a, b) in geometry)
    # measured: taking away the frame costs what it saves where that is half as large as the rest
    if layer.padding_mode == "zeros" and 3 * (meeting - inside) <= inside:
        return partial(zero_padded_gram, padding=padding, **settings)
    return None


def _spans(layer: Convolution | TransposedConvolution) -> list[int]:
    """How far apart the first and the last place of the kernel are along each axis."""
    steps = zip(layer.kernel_size, layer.dilation, strict=True)
    return [step * (places - 1) for places, step in steps]


def _transposed_entries(layer: TransposedConvolution) -> Tensor:
    """Where the weights are in a parameter of shape (in, out / groups, *kernel)."""
    groups, axes = layer.groups, len(layer.kernel_size)
    shape = (layer.in_channels, layer.out_channels // groups, *layer.kernel_size)
    device = layer.weight.device
    entries = torch.arange(torch.Size(shape).numel(), device=device).reshape(shape)
    entries = entries.flip(tuple(range(2, 2 + axes)))
    entries = entries.reshape(groups, -1, *shape[1:]).transpose(1, 2).flatten(2)
    return entries if groups > 1 else entries[0]


def _in_groups(rows: Tensor, groups: int) -> Tensor:
    return rows if groups == 1 else rows.unflatten(-1, (groups, rows.shape[-1] // groups))


def _ones(y: Tensor) -> Tensor:
    return y.new_ones(()).expand(y.shape[0], y.shape[2:].numel(), 1)


def _output(axes: int, groups: int = 1) -> dict[str, Any]:
    gather = partial(_rows_of_map, axes=axes, groups=groups)
    return {"axes": ("space",), "gather": gather, "blocks": groups > 1}


def _rows_of_map(gradient: Tensor, axes: int, groups: int) -> Tensor:
    return _in_groups(gradient.flatten(-axes).mT, groups)


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
