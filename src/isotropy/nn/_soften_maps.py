"""Softening layers between maps: convolutions, group convolutions and others of that shape."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd

from isotropy._run import require_memory
from isotropy.nn._circular_conv import CircularConv2d
from isotropy.nn._group_conv import GroupConv2d
from isotropy.nn._group_linear import GroupLinear
from isotropy.nn._map_linear import MapLayer, MapLinear
from isotropy.nn._path_sum import PathSum
from isotropy.nn._soft_layers import FREE, STRICT
from isotropy.nn._sparse_group_linear import SparseGroupLinear

Lengths: TypeAlias = dict[str, Tensor | float]
GRID_SUBGROUPS = _TO_TRANSLATIONS, _TO_P4 = "translations", "p4"


class Shapes(NamedTuple):
    """What goes into a layer and what comes out, without the axis of samples.

    Args:
        into: (channels, *positions) of the input.
        out: Those of the output.
    """

    into: tuple[int, ...]
    out: tuple[int, ...]


def is_map_layer(layer: nn.Module) -> bool:
    """Whether a layer is a constrained linear map between maps."""
    known = (_ConvNd, GroupConv2d, GroupLinear, SparseGroupLinear)
    return isinstance(layer, known) or (
        isinstance(layer, MapLayer) and type(layer) is not MapLinear
    )


def map_shapes(model: nn.Module, example: Tensor | None) -> dict[str, Shapes]:
    """The shapes that the map layers of a network see, by name.

    Args:
        model: The network; it runs once, in evaluation mode.
        example: Its inputs.

    Raises:
        TypeError: If the example is no tensor.
        ValueError: If there are map layers and no example, or one sees maps of several sizes.
    """
    layers = {name: layer for name, layer in model.named_modules() if is_map_layer(layer)}
    if not layers:
        return {}
    if example is None:
        first = next(iter(layers))
        raise ValueError(
            "expected example inputs to learn the sizes of maps from, got none for the "
            f"{type(layers[first]).__name__} {first!r}: soften(model, inputs)"
        )
    if not isinstance(example, Tensor):
        raise TypeError(f"expected a tensor as the example, got {type(example).__name__}")
    found: dict[str, Shapes] = {}

    def note(name: str, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        shapes = Shapes(tuple(inputs[0].shape[1:]), tuple(output.shape[1:]))
        if found.setdefault(name, shapes) != shapes:
            raise ValueError(
                f"expected maps of one size at {name!r}, got {found[name].into} and {shapes.into}"
            )

    handles = [
        layer.register_forward_hook(lambda _, x, y, name=name: note(name, x, y))
        for name, layer in layers.items()
    ]
    training = [module for module in model.modules() if module.training]
    try:
        model.eval()
        with torch.no_grad():
            model(example)
    finally:
        for handle in handles:
            handle.remove()
        for module in training:
            module.training = True
    return found


def soft_map_layer(
    name: str,
    layer: nn.Module,
    shapes: Shapes,
    variances: Mapping[str, float],
    *,
    into: str | None,
    start: float,
) -> PathSum | None:
    """A map layer beside a flexible one; None where ``into`` is nothing that it can break to.

    Args:
        name: Its name, for messages.
        layer: The layer.
        shapes: What it sees.
        variances: σ² of both paths.
        into: "translations" or "p4" for group convolutions; all is free where None.
        start: What the starting weights of the flexible path are multiplied by.
    """
    like = next(layer.parameters())
    if into is None:
        entries = torch.Size(shapes.into).numel() * torch.Size(shapes.out).numel()
        require_memory(
            4 * entries * like.element_size(),  # weights, gradients and the two moments of Adam
            f"a free map from {shapes.into} to {shapes.out} beside {name!r}",
            "soften smaller maps, or fewer layers with flexible=",
        )
        free: nn.Module = MapLinear(
            shapes.into[0],
            shapes.out[0],
            shapes.into[1:],
            shapes.out[1:],
            bias=any("bias" in part for part, _ in layer.named_parameters()),
            start=start,
            device=like.device,
            dtype=like.dtype,
        )
    elif isinstance(layer, GroupConv2d):
        free = _looser(layer, into).to(like.device, like.dtype)
        with torch.no_grad():
            for parameter in free.parameters():
                parameter.mul_(start)
    else:
        return None
    lengths = {STRICT: _lengths(layer, shapes)}
    if isinstance(free, SliceConv2d):
        lengths[FREE] = {
            f"convolution.{name}": length
            for name, length in _lengths(free.convolution, _flat_slices(shapes)).items()
        }
    elif isinstance(free, CosetConv2d):
        lengths[FREE] = {
            f"convolution.{name}": length
            for name, length in _lengths(free.convolution, _cosets(shapes)).items()
        }
    return PathSum(
        {STRICT: layer, FREE: free}, prior_variances=variances, squared_lengths=lengths
    ).to(like.device)


class SliceConv2d(nn.Module):
    """A convolution that mixes slices as it mixes channels: turns of the map mean nothing to it.

    Args:
        in_channels: Channels that come in.
        out_channels: Channels that go out.
        kernel_size: The side of the kernel, odd.
        slices: How many slices each channel has.
        lifts: Whether inputs are images.
        bias: Whether there is one.

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
    ) -> None:
        super().__init__()
        self.slices, self.lifts = slices, lifts
        channels = in_channels * (1 if lifts else slices)
        self.convolution = CircularConv2d(channels, out_channels * slices, kernel_size, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        """Map (n, in, K, h, w), or (n, in, h, w) where it lifts, to (n, out, K, h, w)."""
        maps: Tensor = self.convolution(x if self.lifts else x.flatten(1, 2))
        return maps.unflatten(1, (-1, self.slices))


class CosetConv2d(nn.Module):
    """A convolution over quarter turns between features of p4m: flips mean nothing to it.

    The eight slices of a channel are those of two channels under turns alone.

    Args:
        in_channels: Channels that come in.
        out_channels: Channels that go out.
        kernel_size: The side of the kernel, odd.
        lifts: Whether inputs are images.
        bias: Whether there is one.

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
    ) -> None:
        super().__init__()
        self.lifts = lifts
        channels = in_channels if lifts else 2 * in_channels
        self.convolution = GroupConv2d(
            channels, 2 * out_channels, kernel_size, group="p4", lifts=lifts, bias=bias
        )

    def forward(self, x: Tensor) -> Tensor:
        """Map (n, in, 8, h, w), or (n, in, h, w) where it lifts, to (n, out, 8, h, w)."""
        if not self.lifts:
            x = x.unflatten(2, (2, 4)).flatten(1, 2)
        maps: Tensor = self.convolution(x)
        return maps.unflatten(1, (-1, 2)).flatten(2, 3)


def _looser(layer: GroupConv2d, into: str) -> nn.Module:
    kind = {
        "in_channels": layer.in_channels,
        "out_channels": layer.out_channels,
        "kernel_size": layer.kernel_size,
        "lifts": layer.lifts,
        "bias": any("bias" in name for name, _ in layer.named_parameters()),
    }
    if into == _TO_TRANSLATIONS:
        return SliceConv2d(slices=layer.group.order, **kind)  # type: ignore[arg-type]
    if into == _TO_P4 and layer.group.name == "p4m":
        return CosetConv2d(**kind)  # type: ignore[arg-type]
    choices = "'translations' or 'p4'" if layer.group.name == "p4m" else "'translations'"
    raise ValueError(
        f"expected to break a group convolution over {layer.group.name} to {choices}, got {into!r}"
    )


def _flat_slices(shapes: Shapes) -> Shapes:
    into = shapes.into if len(shapes.into) == 3 else (-1, *shapes.into[2:])
    return Shapes(into, (-1, *shapes.out[2:]))


def _cosets(shapes: Shapes) -> Shapes:
    return Shapes(shapes.into, (2 * shapes.out[0], 4, *shapes.out[2:]))


def _lengths(layer: nn.Module, shapes: Shapes) -> Lengths:
    """How often each weight of a convolution is used, by name; nothing for other layers."""
    if isinstance(layer, GroupConv2d):
        if layer.form not in ("full", "pointwise"):
            return {}  # products of two stages: no linear space of matrices
        uses = float(torch.Size(shapes.out[1:]).numel())
        return {f"filter.{name}": uses for name, _ in layer.filter.named_parameters()}
    if not isinstance(layer, _ConvNd) or isinstance(layer, _ConvTransposeNd):
        return {}
    taps = torch.Size(layer.kernel_size).numel()
    used = torch.full((taps,), float(torch.Size(shapes.out[1:]).numel()))
    if layer.padding_mode == "zeros":
        used = _uses_of_taps(layer, shapes.into[1:], taps)
    # a tap that never meets the input is not felt by any output: any prior will do
    every = used.clamp_min(1.0).reshape(layer.kernel_size).expand(layer.weight.shape)
    found: Lengths = {"weight": every.contiguous()}
    if layer.bias is not None:
        found["bias"] = float(torch.Size(shapes.out[1:]).numel())
    return found


def _uses_of_taps(layer: _ConvNd, size: tuple[int, ...], taps: int) -> Tensor:
    """At how many outputs each tap of a kernel lies within the map, shape (taps,)."""
    kind = type(layer) if type(layer) in (nn.Conv1d, nn.Conv2d, nn.Conv3d) else None
    if kind is None:
        kind = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[len(size) - 1]
    probe = kind(
        1,
        taps,
        layer.kernel_size,  # type: ignore[arg-type]
        layer.stride,  # type: ignore[arg-type]
        layer.padding,  # type: ignore[arg-type]
        layer.dilation,  # type: ignore[arg-type]
        bias=False,
    )
    with torch.no_grad():
        probe.weight.copy_(torch.eye(taps).reshape(probe.weight.shape))
        seen: Tensor = probe(torch.ones(1, 1, *size))
    return seen.flatten(2).sum(-1).flatten()
