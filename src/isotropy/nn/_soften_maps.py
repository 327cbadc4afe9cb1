"""Softening layers between maps: convolutions, group convolutions and others of that shape."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from isotropy._run import evaluation_mode, require_memory
from isotropy.nn._circular_conv import CircularConv2d
from isotropy.nn._free_paths import SMALL
from isotropy.nn._group_conv import GroupConv2d
from isotropy.nn._map_linear import MapLayer, MapLinear
from isotropy.nn._path_sum import PathSum
from isotropy.nn._soft_layers import FREE, STRICT

Lengths: TypeAlias = dict[str, Tensor | float]
GRID_SUBGROUPS = _TO_TRANSLATIONS, _TO_P4 = "translations", "p4"
_CONVOLUTIONS = {
    False: (nn.Conv1d, nn.Conv2d, nn.Conv3d),
    True: (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d),
}


class Shapes(NamedTuple):
    """What goes into a layer and what comes out, without the axis of samples.

    Args:
        into: (channels, *positions) of the input.
        out: Those of the output.
    """

    into: tuple[int, ...]
    out: tuple[int, ...]


def is_map_layer(layer: nn.Module) -> bool:
    """Whether a layer is a constrained linear map between maps.

    Those of other libraries are recognised by ``weight_uses``: how often each weight is used.
    """
    if isinstance(layer, _ConvNd | GroupConv2d) or hasattr(layer, "weight_uses"):
        return True
    return isinstance(layer, MapLayer) and type(layer) is not MapLinear


def observed(
    model: nn.Module, layers: Mapping[str, nn.Module], example: Tensor
) -> dict[str, tuple[Tensor, Tensor]]:
    """What goes into some layers of a network, and what comes out, by name."""
    if not isinstance(example, Tensor):
        raise TypeError(f"expected a tensor as the example, got {type(example).__name__}")
    found: dict[str, tuple[Tensor, Tensor]] = {}

    def note(name: str, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        before = found.setdefault(name, (inputs[0], output))[0].shape
        if before[1:] != inputs[0].shape[1:]:
            raise ValueError(
                f"expected inputs of one shape at {name!r}, got {tuple(before)} and "
                f"{tuple(inputs[0].shape)}"
            )

    handles = [
        layer.register_forward_hook(lambda _, x, y, name=name: note(name, x, y))
        for name, layer in layers.items()
    ]
    try:
        with evaluation_mode(model), torch.no_grad():
            model(example)
    finally:
        for handle in handles:
            handle.remove()
    return found


def map_shapes(model: nn.Module, example: Tensor | None) -> dict[str, Shapes]:
    """The shapes that the map layers of a network see, by name."""
    layers = {name: layer for name, layer in model.named_modules() if is_map_layer(layer)}
    if not layers:
        return {}
    if example is None:
        first = next(iter(layers))
        raise ValueError(
            "expected example inputs to learn the sizes of maps from, got none for the "
            f"{type(layers[first]).__name__} {first!r}: soften(model, inputs)"
        )
    return {
        name: shapes_of(name, layers[name], x, y)
        for name, (x, y) in observed(model, layers, example).items()
    }


def shapes_of(name: str, layer: nn.Module, x: Tensor, y: Tensor) -> Shapes:
    """The shapes of what a layer sees, without that of samples."""
    if isinstance(layer, _ConvNd) and x.ndim != len(layer.kernel_size) + 2:
        raise ValueError(
            f"expected maps with an axis of samples at {name!r}, got shape {tuple(x.shape)}"
        )
    return Shapes(tuple(x.shape[1:]), tuple(y.shape[1:]))


def soft_map_layer(
    name: str,
    layer: nn.Module,
    shapes: Shapes,
    variances: Mapping[str, float],
    *,
    into: str | None,
    start: float,
) -> PathSum | None:
    """A map layer beside a flexible one; None where ``into`` is nothing that it can break to."""
    like = next(layer.parameters())
    bias = any("bias" in part for part, _ in layer.named_parameters())
    if into is None:
        free: nn.Module = _free(name, shapes, bias, start, like)
    elif isinstance(layer, GroupConv2d):
        free = _looser(layer, into, bias, start).to(like.device, like.dtype)
    else:
        return None
    paths = {STRICT: layer, FREE: free}
    return PathSum(
        paths,
        prior_variances=variances,
        squared_lengths={path: map_lengths(module, shapes) for path, module in paths.items()},
    ).to(like.device)


def _free(name: str, shapes: Shapes, bias: bool, start: float, like: Tensor) -> MapLinear:
    require_memory(
        # weights, gradients and the two moments of Adam
        4 * prod(shapes.into) * prod(shapes.out) * like.element_size(),
        f"a free map from {shapes.into} to {shapes.out} beside {name!r}",
        "soften smaller maps, or fewer layers with flexible=",
    )
    return MapLinear(
        shapes.into[0],
        shapes.out[0],
        shapes.into[1:],
        shapes.out[1:],
        bias=bias,
        start=start,
        device=like.device,
        dtype=like.dtype,
    )


def _looser(layer: GroupConv2d, into: str, bias: bool, start: float) -> nn.Module:
    kind: dict[str, Any] = {
        "in_channels": layer.in_channels,
        "out_channels": layer.out_channels,
        "kernel_size": layer.kernel_size,
        "lifts": layer.lifts,
        "bias": bias,
        "start": start,
    }
    if into == _TO_TRANSLATIONS:
        return SliceConv2d(slices=layer.group.order, **kind)
    if into == _TO_P4 and layer.group.name == "p4m":
        return CosetConv2d(**kind)
    choices = "'translations' or 'p4'" if layer.group.name == "p4m" else "'translations'"
    raise ValueError(
        f"expected to break a group convolution over {layer.group.name} to {choices}, got {into!r}"
    )


def map_lengths(layer: nn.Module, shapes: Shapes) -> Lengths:
    """How often each weight of a convolution is used, by name; nothing for other layers.

    That is ‖A‖² of the Toeplitz matrix A of a single weight. Those of different weights are
    orthogonal, unless a kernel or its padding meets the same place twice.
    """
    if isinstance(layer, SliceConv2d | CosetConv2d):
        inner = map_lengths(layer.convolution, shapes)
        return {f"convolution.{name}": length for name, length in inner.items()}
    uses_by_name: Lengths | None = getattr(layer, "weight_uses", None)
    if uses_by_name is not None:
        return uses_by_name
    if isinstance(layer, GroupConv2d):
        if layer.form not in ("full", "pointwise"):
            return {}  # products of two stages: no linear space of matrices
        uses = float(layer.group.order * prod(shapes.out[2:]))
        return {name: uses for name, _ in layer.named_parameters()}
    if not isinstance(layer, _ConvNd):
        return {}
    axes = len(layer.kernel_size)
    # a tap that never meets the input is not felt by any output: any prior will do
    taps = _uses_of_taps(layer, shapes.into[-axes:]).clamp_min(1)
    lengths: Lengths = {
        "weight": taps.reshape(layer.kernel_size).expand(layer.weight.shape).contiguous(),
        "bias": float(prod(shapes.out[-axes:])),
    }
    own = dict(layer.named_parameters())  # without those that another parametrisation makes
    return {name: length for name, length in lengths.items() if name in own}


def _uses_of_taps(layer: _ConvNd, size: tuple[int, ...]) -> Tensor:
    """How many pairs of an input and an output each tap of a kernel connects, shape (taps,)."""
    taps = prod(layer.kernel_size)
    also = {"output_padding": layer.output_padding} if layer.transposed else {}
    # one channel out for each tap, and ones come in: every output is the number of its inputs
    probe = _CONVOLUTIONS[layer.transposed][len(size) - 1](
        1,
        taps,
        layer.kernel_size,
        stride=layer.stride,
        padding=layer.padding,
        dilation=layer.dilation,
        padding_mode=layer.padding_mode,
        bias=False,
        dtype=torch.float64,
        **also,
    )
    with torch.no_grad():
        eye = torch.eye(taps, dtype=torch.float64)
        probe.weight.copy_(eye.reshape(probe.weight.shape))
        seen: Tensor = probe(torch.ones(1, 1, *size, dtype=torch.float64))
    return seen.flatten(2).sum(-1).flatten()


class LooserConv2d(nn.Module):
    """A convolution between the features of another group, with weights that start small."""

    def __init__(self, convolution: CircularConv2d | GroupConv2d, start: float) -> None:
        super().__init__()
        self.convolution, self.start = convolution, start
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new weights, as the convolution does, times ``start``."""
        self.convolution.reset_parameters()
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.mul_(self.start)


class SliceConv2d(LooserConv2d):
    """A convolution that mixes slices as it mixes channels: turns of the map mean nothing to it.

    Example:
        >>> SliceConv2d(2, 3, 3, slices=4)(torch.randn(5, 2, 4, 6, 6)).shape
        torch.Size([5, 3, 4, 6, 6])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        slices: int,
        *,
        lifts: bool = False,
        bias: bool = True,
        start: float = SMALL,
    ) -> None:
        channels = in_channels * (1 if lifts else slices)
        super().__init__(
            CircularConv2d(channels, out_channels * slices, kernel_size, bias=bias), start
        )
        self.slices, self.lifts = slices, lifts

    def forward(self, x: Tensor) -> Tensor:
        """Map (n, in, K, h, w), or (n, in, h, w) where it lifts, to (n, out, K, h, w)."""
        y = self.convolution(x if self.lifts else x.flatten(1, 2))
        maps: Tensor = y.unflatten(1, (-1, self.slices))
        return maps


class CosetConv2d(LooserConv2d):
    """A convolution over quarter turns between features of p4m: flips mean nothing to it.

    The eight slices of a channel are those of two channels under turns alone.

    Example:
        >>> CosetConv2d(2, 3, 3)(torch.randn(5, 2, 8, 6, 6)).shape
        torch.Size([5, 3, 8, 6, 6])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        *,
        lifts: bool = False,
        bias: bool = True,
        start: float = SMALL,
    ) -> None:
        channels = in_channels if lifts else 2 * in_channels
        super().__init__(
            GroupConv2d(
                channels, 2 * out_channels, kernel_size, group="p4", lifts=lifts, bias=bias
            ),
            start,
        )
        self.lifts = lifts

    def forward(self, x: Tensor) -> Tensor:
        """Map (n, in, 8, h, w), or (n, in, h, w) where it lifts, to (n, out, 8, h, w)."""
        if not self.lifts:
            x = x.unflatten(2, (2, 4)).flatten(1, 2)
        maps: Tensor = self.convolution(x).unflatten(1, (-1, 2)).flatten(2, 3)
        return maps
