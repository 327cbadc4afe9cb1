"""One stage of a group convolution: kernels that are turned for every slice of the output."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional

from isotropy.nn._grid_network import GridGroup
from isotropy.nn._module import cast
from isotropy.nn._patches import circular_gram, padded, patches
from isotropy.nn._recorder import RecordedModule

Reads: TypeAlias = Literal["image", "own slice", "all slices"]


class RotatedKernelConv2d(RecordedModule):
    r"""One stage of a group convolution: a circular convolution with a kernel for every slice.

    The kernels of slice k' are those of the identity, turned by k'. What the stage reads:

    - "all slices": y(c', k', p) = b(c') + Σ_c Σ_k Σ_q x(c, k, p + q) θ(c', c, k⁻¹k', k'⁻¹q);
    - "own slice": the same with k = k' alone and θ(c', c, k'⁻¹q);
    - "image": the same of images x(c, p + q).

    Depthwise, each channel is made from its own alone; weights start random, or at ``start``.

    Example:
        >>> layer = RotatedKernelConv2d(3, 4, 3, group=GridGroup("p4"), reads="own slice")
        >>> layer(torch.randn(2, 3, 4, 5, 5)).shape
        torch.Size([2, 4, 4, 5, 5])
    """

    turned: Tensor
    turned_back: Tensor
    bias: nn.Parameter | None

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        *,
        group: GridGroup,
        reads: Reads,
        depthwise: bool = False,
        bias: bool = True,
        start: float | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.in_channels, self.out_channels = in_channels, out_channels
        self.kernel_size, self.group, self.reads = kernel_size, group, reads
        self.depthwise, self.start = depthwise, start
        places = group.places(kernel_size)
        slices = (group.order,) if reads == "all slices" else ()
        if slices:
            # from places (k', q) of one kernel to places (k', (k, q)) of kernels for all k
            at = group.quotients().mT.unsqueeze(-1) * places.shape[1] + places.unsqueeze(1)
            places = at.flatten(1)
        self._keep("turned", places)
        self._keep("turned_back", places.argsort(1))
        seen = 1 if depthwise else in_channels
        kind: dict[str, Any] = {"device": device, "dtype": dtype}
        shape = (out_channels, seen, *slices, kernel_size, kernel_size)
        self.weight = nn.Parameter(torch.empty(shape, **kind))
        self.bias = nn.Parameter(torch.empty(out_channels, **kind)) if bias else None
        cast(self, device, self.weight.dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the weights anew; biases become zero."""
        if self.start is None:
            nn.init.kaiming_uniform_(self.weight, nonlinearity="relu")
        else:
            nn.init.constant_(self.weight, self.start)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Map (n, in, K, h, w), or images (n, in, h, w), to (n, out, K, h, w)."""
        self._require_maps(x)
        if self.reads != "own slice":
            y = self._from_all(x)
        elif self.kernel_size == 1:  # a single place is not turned: slices are like space
            weight = self.weight.flatten(2)
            y = functional.conv1d(x.flatten(2), weight, self.bias, groups=self._blocks)
            y = y.unflatten(2, x.shape[2:])
        else:
            y = self._from_own(x)
        if self._recording:
            self._note_all(x, y)
        return y

    @property
    def _blocks(self) -> int:
        return self.in_channels if self.depthwise else 1

    def _turned_weights(self) -> Tensor:
        """Weights for every slice, shape (out, in, K, columns)."""
        weight = self.weight.flatten(2)
        index = self.turned.flatten().expand(*weight.shape[:2], -1)
        turned: Tensor = weight.gather(2, index).unflatten(2, self.turned.shape)
        return turned

    def _from_all(self, x: Tensor) -> Tensor:
        size, slices, blocks = self.kernel_size, self.group.order, self._blocks
        kernel = self._turned_weights().transpose(1, 2)
        kernel = kernel.reshape(self.out_channels * slices, -1, size, size)
        bias = None if self.bias is None else self.bias.repeat_interleave(slices)
        x = self._padded(x if x.ndim == 4 else x.flatten(1, 2))
        y: Tensor = functional.conv2d(x, kernel, bias, groups=blocks).unflatten(1, (-1, slices))
        return y

    def _from_own(self, x: Tensor) -> Tensor:
        size, slices, blocks = self.kernel_size, self.group.order, self._blocks
        kernel = self._turned_weights().unflatten(0, (blocks, -1)).permute(0, 3, 1, 2, 4)
        kernel = kernel.reshape(self.out_channels * slices, -1, size, size)
        bias: Tensor | None = None
        if self.bias is not None:
            bias = self.bias.reshape(blocks, 1, -1).expand(-1, slices, -1).flatten()
        by_slice = self._padded(self._by_slice(x))
        found = functional.conv2d(by_slice, kernel, bias, groups=blocks * slices)
        y: Tensor = found.unflatten(1, (blocks, slices, -1)).transpose(2, 3).flatten(1, 2)
        return y

    def _by_slice(self, x: Tensor) -> Tensor:
        """Maps (n, blocks · K · in, h, w): what a slice of a block is made from, together."""
        maps: Tensor = x.unflatten(1, (self._blocks, -1)).transpose(2, 3).flatten(1, 3)
        return maps

    def _padded(self, x: Tensor) -> Tensor:
        side = self.kernel_size // 2
        return padded(x, [(side, side)] * 2, "circular")

    def _note_all(self, x: Tensor, y: Tensor) -> None:
        axes = ("group", "space")
        self.note(
            "weight",
            x,
            y,
            axes=axes,
            spread=self._rows,
            gather=_rows_of_channels if self.depthwise else _rows_of_slices,
            blocks=self.depthwise,
            gram=self._gram if self._gram_pays(x) else None,
        )
        if self.bias is not None:
            ones = y.new_ones(()).expand(y.shape[0], y.shape[2], y.shape[3:].numel(), 1)
            self.note("bias", ones, y, axes=axes, gather=_rows_of_slices)

    def _rows(self, x: Tensor) -> Tensor:
        """What the weights are multiplied with, shape (n, K, positions, [in,] columns)."""
        rows: Tensor
        n, size, back = x.shape[0], (self.kernel_size,) * 2, self.turned_back
        side = self.kernel_size // 2
        padding = [(side, side)] * 2
        if self.reads == "own slice":
            maps = x.transpose(1, 2).flatten(0, 1)
            rows = patches(maps, size, padding=padding, padding_mode="circular")
            rows = rows.unflatten(-1, (-1, back.shape[1])).unflatten(0, (n, back.shape[0]))
            rows = rows.gather(-1, back[:, None, None].expand(*rows.shape))
        else:
            maps = x if x.ndim == 4 else x.flatten(1, 2)
            rows = patches(maps, size, padding=padding, padding_mode="circular")
            rows = rows.unflatten(-1, (-1, back.shape[1]))[..., back].permute(0, 3, 1, 2, 4)
        return rows if self.depthwise else rows.flatten(-2)

    def _gram_pays(self, x: Tensor) -> bool:
        """Whether the Gram matrix of all slices is had faster without rows for each of them."""
        samples, positions = x.shape[0], x.shape[-2:].numel()
        if self.kernel_size == 1:
            return self.reads == "all slices"
        seen = self.weight.shape[1] * (self.group.order if self.reads == "all slices" else 1)
        copies = 1 if self.reads == "own slice" else self.group.order
        # measured: below, turning costs more than is saved; and it must not take more memory
        return samples * positions >= 256 and seen <= samples * copies * self.kernel_size**2

    def _gram(self, x: Tensor) -> Tensor:
        """Σ aaᵀ over rows of all slices: that of patches, turned back for each and added."""
        blocks, slices = self._blocks, self.group.order
        own = self.reads == "own slice"
        maps = self._by_slice(x) if own else x if x.ndim == 4 else x.flatten(1, 2)
        gram = _gram_of_patches(maps, self.kernel_size, blocks * slices if own else blocks)
        columns = self.turned.shape[1]
        seen = gram.shape[-1] // columns
        shape = (blocks, seen * columns, seen * columns)
        gram = gram.reshape(blocks, slices if own else 1, seen, columns, seen, columns)
        total = torch.zeros_like(gram[:, 0])
        for k, back in enumerate(self.turned_back):
            total = total + gram[:, k if own else 0].index_select(2, back).index_select(4, back)
        return total.reshape(shape if self.depthwise else shape[1:])

    def _require_maps(self, x: Tensor) -> None:
        slices = () if self.reads == "image" else (self.group.order,)
        ahead = (self.in_channels, *slices)
        if x.ndim != len(ahead) + 3 or tuple(x.shape[1:-2]) != ahead:
            shape = ", ".join(map(str, ("n", *ahead, "h", "w")))
            raise ValueError(f"expected maps of shape ({shape}), got {tuple(x.shape)}")
        if min(x.shape[-2:]) < self.kernel_size // 2:
            least = self.kernel_size // 2
            raise ValueError(
                f"expected maps of at least {least} by {least} for a kernel of "
                f"{self.kernel_size}, got {x.shape[-2]} by {x.shape[-1]}"
            )
        if x.dtype != self.weight.dtype and not torch.is_autocast_enabled(x.device.type):
            raise ValueError(f"expected maps of the layer's own {self.weight.dtype}, got {x.dtype}")

    def extra_repr(self) -> str:
        """The arguments, for ``print``."""
        depthwise = ", depthwise=True" if self.depthwise else ""
        return (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
            f"reads={self.reads!r}{depthwise}"
        )


def _rows_of_slices(gradient: Tensor) -> Tensor:
    return gradient.flatten(3).permute(0, 2, 3, 1)


def _rows_of_channels(gradient: Tensor) -> Tensor:
    return _rows_of_slices(gradient).unsqueeze(-1)


def _gram_of_patches(x: Tensor, size: int, groups: int) -> Tensor:
    """Σ aaᵀ over circular patches, shape (groups, columns, columns)."""
    if size > 1:
        gram = circular_gram(x, (size, size), groups=groups)
        return gram.reshape(groups, *gram.shape[-2:])
    columns: Tensor = x.transpose(0, 1).flatten(1).unflatten(0, (groups, -1))
    return columns @ columns.mT
