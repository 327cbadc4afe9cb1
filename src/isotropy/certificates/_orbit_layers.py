"""Layers for images that share weights on the orbits of quarter turns and flips."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional

ImageGroup: TypeAlias = Literal["p4", "p4m", "GridFlips"]
_IN_COMMON = 0.7


class OrbitConv2d(nn.Module):
    """A convolution whose kernels are constant on the orbits of turns or flips.

    Kernels that look the same from every side: the layer commutes with the group as plain maps
    are turned, without slices.

    Attributes:
        fan_in: The variance of outputs for weights and inputs of variance one; see ``coherent``.

    Example:
        >>> layer = OrbitConv2d(1, 2, 3, group="p4")
        >>> layer.weight.shape  # middle, edges, corners
        torch.Size([2, 1, 3])
    """

    labels: Tensor

    def __init__(
        self,
        into: int,
        out: int,
        size: int,
        *,
        group: ImageGroup,
        lifts: bool = False,
        padding: int = 0,
        bias: bool = False,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        self.size, self.padding = size, padding
        labels = pixel_orbits(group, size, size)
        counts = labels.bincount()
        self.fan_in = into * float((counts if lifts else coherent(counts)).sum())
        self.register_buffer("labels", labels, persistent=False)
        shape = (out, into, int(labels.max()) + 1)
        self.weight = nn.Parameter(torch.empty(shape, device=device))
        bound = (6 / self.fan_in) ** 0.5
        nn.init.uniform_(self.weight, -bound, bound)
        self.bias = nn.Parameter(torch.zeros(out, device=device)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """Map (n, into, h, w) to (n, out, h', w')."""
        kernel = self.weight.index_select(2, self.labels)
        kernel = kernel.unflatten(2, (self.size, self.size))
        return functional.conv2d(x, kernel, self.bias, padding=self.padding)


class OrbitSum(nn.Module):
    """Sums over the orbits of pixels, divided so that they are as large as what is summed.

    What a linear layer with weights equal on orbits can read of a map, and all that it can. A sum
    of m numbers is divided by √coherent(m).

    Example:
        >>> OrbitSum("p4", 2, 2)(torch.ones(1, 3, 2, 2)).round(decimals=3)
        tensor([[1.1360, 1.1360, 1.1360]])
    """

    members: Tensor

    def __init__(self, group: ImageGroup, height: int, width: int) -> None:
        super().__init__()
        labels = pixel_orbits(group, height, width)
        members = functional.one_hot(labels).to(torch.get_default_dtype())
        self.orbits = members.shape[1]
        self.register_buffer("members", members, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Map (n, channels, h, w) to (n, channels · orbits)."""
        # roots are taken here, in the precision of the maps: zeros and ones are exact in any
        scales = coherent(self.members.sum(0)).rsqrt()
        return (x.flatten(2) @ self.members * scales).flatten(1)


def coherent(counts: Tensor) -> Tensor:
    """E[(Σ x)²] / E[x²] for sums of m numbers from a ReLU and a max pool: m + 0.7 (m² − m).

    They have a mean in common that adds up where weights are shared; for the largest of four
    independent normal numbers and zero, E[x]² = 0.70 E[x²].

    Example:
        >>> coherent(torch.tensor([1, 4])).round(decimals=2)
        tensor([ 1.0000, 12.4000])
    """
    return counts + _IN_COMMON * (counts * counts - counts)


def pixel_orbits(group: ImageGroup, height: int, width: int) -> Tensor:
    """The orbit of every pixel under the turns or flips of a group, shape (height · width,).

    Raises:
        ValueError: If the group is another, or turns a grid that is not square.

    Example:
        >>> pixel_orbits("p4", 3, 3).reshape(3, 3)
        tensor([[0, 1, 0],
                [1, 2, 1],
                [0, 1, 0]])
    """
    if group not in get_args(ImageGroup):
        raise ValueError(f"expected a group {' or '.join(get_args(ImageGroup))}, got {group!r}")
    if group != "GridFlips" and height != width:
        raise ValueError(f"expected square maps for {group}, got {height} by {width}")
    grid = torch.arange(height * width).reshape(height, width)
    if group == "GridFlips":
        seen = [grid, grid.flip(0), grid.flip(1), grid.flip(0, 1)]
    else:
        faces = [grid] if group == "p4" else [grid, grid.flip(1)]
        seen = [face.rot90(k) for face in faces for k in range(4)]
    first = torch.stack(seen).amin(0).flatten()
    labels: Tensor = first.unique(return_inverse=True)[1]
    return labels
