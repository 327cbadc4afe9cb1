"""Layers of image classifiers that are functions of one image: pooling, norms, turned kernels.

Maps are (n, channels · slices, h, w) throughout, slices being the elements of the point group of
an equivariant network and one otherwise; so one layout serves all kinds of network.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from isotropy.nn import Lift

_SMALL_VARIANCE = 1e-5


class Prepared(nn.Module):
    """Refuses inputs of another shape, and standardises every image by its own numbers.

        x ← (x − mean(x)) / √(var(x) + 10⁻⁵),    over all channels and pixels of one image.

    Statistics of the training set would be training data that no message carries. Vectors are
    left as they are.

    Args:
        shape: Of one input, (channels, h, w) or (features,).

    Example:
        >>> x = Prepared((1, 2, 2))(torch.tensor([[[[0.0, 1.0], [1.0, 0.0]]]]))
        >>> x.flatten().round(decimals=3)
        tensor([-1.,  1.,  1., -1.])
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.shape = shape

    def forward(self, x: Tensor) -> Tensor:
        """Map (n, *shape) to the same shape."""
        if x.shape[1:] != self.shape or x.ndim == 0:
            wanted = ", ".join(map(str, self.shape))
            raise ValueError(f"expected inputs of shape (n, {wanted}), got {tuple(x.shape)}")
        if len(self.shape) == 1:
            return x
        centred = x - x.mean((1, 2, 3), keepdim=True)
        variance = centred.square().mean((1, 2, 3), keepdim=True)
        return centred * (variance + _SMALL_VARIANCE).rsqrt()


class Halve2d(nn.Module):
    """Pooling to half the side, ⌈side/2⌉, that commutes with quarter turns and flips.

    Even sides are cut into pairs; odd ones are covered by overlapping threes around every second
    pixel, the border filled so that it changes nothing. Either grid is its own mirror image,
    which pairs that leave out the last pixel are not.

    Example:
        >>> x = torch.arange(25.0).reshape(1, 1, 5, 5)
        >>> pool = Halve2d("max")
        >>> bool((pool(x.rot90(1, (2, 3))) == pool(x).rot90(1, (2, 3))).all())
        True
    """

    def __init__(self, kind: Literal["max", "mean"]) -> None:
        super().__init__()
        self.kind = kind

    def forward(self, x: Tensor) -> Tensor:
        """Map (n, channels, h, w) to (n, channels, ⌈h/2⌉, ⌈w/2⌉)."""
        odd = [side % 2 for side in x.shape[-2:]]
        size = [2 + side for side in odd]
        if self.kind == "max":
            return functional.max_pool2d(x, size, 2, odd)
        return functional.avg_pool2d(x, size, 2, odd, count_include_pad=False)

    def extra_repr(self) -> str:
        """The argument, for ``print``."""
        return repr(self.kind)


class TurnedConv2d(nn.Module):
    r"""A group convolution over the turns of p4 or p4m with zeros, or nothing, around its maps.

        y(c', k', p) = b(c') + Σ_c Σ_k Σ_q x(c, k, p + q) θ(c', c, k⁻¹k', k'⁻¹q)

    One ``conv2d`` with a kernel turned for every slice (Cohen and Welling 2016).
    ``isotropy.nn.GroupConv2d`` is the same on a torus; images have borders.

    Args:
        into: Channels that come in.
        out: Channels that go out.
        size: The side of the kernel.
        group: "p4" for 4 slices, "p4m" for 8.
        lifts: Whether the input is an image, without slices.
        padding: Rows of zeros around the maps.
        bias: Whether there is a bias for each channel.
        device: Where the parameters live.

    Example:
        >>> layer = TurnedConv2d(2, 3, 4, group="p4", lifts=True)
        >>> layer(torch.randn(5, 2, 9, 9)).shape
        torch.Size([5, 12, 6, 6])
    """

    index: Tensor

    def __init__(
        self,
        into: int,
        out: int,
        size: int,
        *,
        group: Literal["p4", "p4m"],
        lifts: bool = False,
        padding: int = 0,
        bias: bool = False,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        point_group = Lift(group).group
        self.slices, self.padding = point_group.order, padding
        places = point_group.places(size)
        seen = 1 if lifts else self.slices
        # (k', k, q) for slice k' of the output and k of the input
        start = point_group.quotients().mT[:, :seen, None] * (size * size if seen > 1 else 0)
        self.register_buffer("index", start + places[:, None], persistent=False)
        shape = (out, into, seen, size, size)
        self.weight = nn.Parameter(torch.empty(shape, device=device))
        nn.init.kaiming_uniform_(self.weight)
        self.bias = nn.Parameter(torch.zeros(out, device=device)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """Map (n, into · slices, h, w), or (n, into, h, w) where it lifts, to (n, out · slices)."""
        out, into, seen, size, _ = self.weight.shape
        kernel = self.weight.flatten(2).index_select(2, self.index.flatten())
        kernel = kernel.reshape(out, into, self.slices, seen, -1).transpose(1, 2)
        kernel = kernel.reshape(out * self.slices, into * seen, size, size)
        bias = None if self.bias is None else self.bias.repeat_interleave(self.slices)
        return functional.conv2d(x, kernel, bias, padding=self.padding)


class SliceNorm(nn.GroupNorm):
    """Group normalisation with one scale and shift for all slices of a channel.

    Means and variances are those of one image, over groups of four channels or more where the
    number of channels has such divisors; batch normalisation's running statistics would be
    training data outside the message.

    Example:
        >>> SliceNorm(16, 4).num_groups
        4
    """

    def __init__(
        self, channels: int, slices: int = 1, *, device: torch.device | str | None = None
    ) -> None:
        most = max(1, channels // 4)
        groups = next(g for g in range(most, 0, -1) if channels % g == 0)
        super().__init__(groups, channels, device=device)
        self.slices = slices

    def forward(self, x: Tensor) -> Tensor:
        """Map (n, channels · slices, h, w) to the same shape."""
        if self.slices == 1:
            return super().forward(x)
        return super().forward(x.unflatten(1, (self.num_channels, self.slices))).flatten(1, 2)
