"""The patches that the kernel of a convolution is multiplied with, and their Gram matrix."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional


def patches(
    x: Tensor,
    kernel_size: Sequence[int],
    *,
    stride: Sequence[int] | None = None,
    dilation: Sequence[int] | None = None,
    padding: Sequence[tuple[int, int]] | None = None,
    padding_mode: str = "zeros",
) -> Tensor:
    """Lay out what a kernel sees at each of its positions, so that a convolution is a product.

    Columns are in the order of ``weight.flatten(1)``: the channel is slowest, then the places in
    the kernel. With more than one group the channels of a group are contiguous among them.

    Unless the kernel has one place, when no copy is made, the positions of all samples are laid out
    fastest in memory: products over all rows then need no other copy.

    Args:
        x: Maps of shape (n, channels, *sizes), with any number of spatial axes.
        kernel_size: The size of the kernel along each axis.
        stride: The step between positions along each axis; 1 where not given.
        dilation: The step between places of the kernel along each axis; 1 where not given.
        padding: How much is added (before, after) along each axis; none where not given. Zeros
            may also be taken away.
        padding_mode: What is added, as ``torch.nn.Conv2d`` calls it: "zeros", "reflect",
            "replicate" or "circular".

    Returns:
        Patches of shape (n, positions, channels · places).

    Raises:
        ValueError: If the settings are not one for each spatial axis, or the padded map is smaller
            than the kernel.

    Example:
        >>> import torch
        >>> x, weight = torch.randn(2, 3, 5, 5), torch.randn(4, 3, 3, 3)
        >>> y = patches(x, (3, 3), stride=(2, 2)) @ weight.flatten(1).T
        >>> expected = functional.conv2d(x, weight, stride=2)
        >>> torch.allclose(y, expected.flatten(2).mT, atol=1e-5)
        True
    """
    axes = x.ndim - 2
    stride = stride or (1,) * axes
    dilation = dilation or (1,) * axes
    padding = padding or ((0, 0),) * axes
    if any(len(given) != axes for given in (kernel_size, stride, dilation, padding)):
        raise ValueError(
            f"expected a kernel, a stride, a dilation and a padding for each of {axes} axes, got "
            f"{tuple(kernel_size)}, {tuple(stride)}, {tuple(dilation)} and {tuple(padding)}"
        )
    x = padded(x, padding, padding_mode)
    spans = [step * (places - 1) + 1 for places, step in zip(kernel_size, dilation, strict=True)]
    if any(size < span for size, span in zip(x.shape[2:], spans, strict=True)):
        raise ValueError(
            f"expected maps of at least {tuple(spans)} after padding, got {tuple(x.shape[2:])}"
        )
    if max(kernel_size) == 1:
        return every(x, stride).flatten(2).mT
    for axis, span in enumerate(spans, start=2):
        x = x.unfold(axis, span, stride[axis - 2])
    # the window along each axis is now an axis of its own at the end
    x = every(x, dilation)
    spatial, places = range(2, 2 + axes), range(2 + axes, 2 + 2 * axes)
    samples, columns = x.shape[0], x.shape[1] * x.shape[2 + axes :].numel()
    x = x.permute(1, *places, 0, *spatial)
    return x.reshape(columns, samples, x.shape[2 + axes :].numel()).permute(1, 2, 0)


def padded(x: Tensor, padding: Sequence[tuple[int, int]], padding_mode: str = "zeros") -> Tensor:
    """Pad the spatial axes of ``x`` by (before, after) each, as a convolution of torch does.

    Example:
        >>> import torch
        >>> padded(torch.tensor([[[1, 2, 3]]]), [(1, 2)], "circular")
        tensor([[[3, 1, 2, 3, 1, 2]]])
    """
    if not any(side for sides in padding for side in sides):
        return x
    if padding_mode == "circular" and _wraps_once(x, padding):
        for axis, (before, after) in enumerate(padding, x.ndim - len(padding)):
            # torch's own writes into slices, which cannot be differentiated many times at once
            parts = [x.narrow(axis, x.shape[axis] - before, before), x, x.narrow(axis, 0, after)]
            x = torch.cat([part for part in parts if part.shape[axis]], axis)
        return x
    last_axis_first = [side for sides in reversed(padding) for side in sides]
    mode = "constant" if padding_mode == "zeros" else padding_mode
    return functional.pad(x, last_axis_first, mode=mode)


def _wraps_once(x: Tensor, padding: Sequence[tuple[int, int]]) -> bool:
    sizes = x.shape[x.ndim - len(padding) :]
    return all(0 <= side <= n for n, sides in zip(sizes, padding, strict=True) for side in sides)


def every(x: Tensor, steps: Sequence[int]) -> Tensor:
    """A view of every ``steps``-th entry of ``x`` along its last axes.

    Example:
        >>> import torch
        >>> every(torch.arange(10).reshape(2, 5), [2])
        tensor([[0, 2, 4],
                [5, 7, 9]])
    """
    whole = (slice(None),) * (x.ndim - len(steps))
    return x[whole + tuple(slice(None, None, step) for step in steps)]


def circular_gram(
    x: Tensor,
    kernel_size: Sequence[int],
    *,
    dilation: Sequence[int] | None = None,
    groups: int = 1,
) -> Tensor:
    r"""Sum aaᵀ over the patches a around all places of maps that go round.

    On a torus Σ_p x_c(p + k) x_c'(p + k') depends on k' − k alone: it is the correlation of two
    channels,

        R_cc'(δ) = Σ_p x_c(p) x_c'(p + δ) = 1/P Σ_f conj(X_c(f)) X_c'(f) exp(2πi f·δ / size),

    where X is the discrete Fourier transform and P the number of places. Patches would take K²
    products for each place and pair of channels, with a kernel of K places; this takes two.

    Returns:
        Shape (channels · K, channels · K), in the order of the columns of ``patches``; with more
        than one group (groups, channels / groups · K, channels / groups · K).

    Example:
        >>> x = torch.randn(2, 3, 5, 5)
        >>> a = patches(x, (3, 3), padding=[(1, 1), (1, 1)], padding_mode="circular").flatten(0, 1)
        >>> torch.allclose(circular_gram(x, (3, 3)), a.T @ a, atol=1e-4)
        True
    """
    samples, channels = x.shape[0], x.shape[1] // groups
    sizes = x.shape[2:]
    axes = tuple(range(len(sizes)))
    if x.dtype in (torch.float16, torch.bfloat16):
        x = x.float()
    spectrum = torch.fft.rfftn(x, dim=tuple(axis + 2 for axis in axes))
    frequencies = spectrum.shape[2:]
    spectrum = spectrum.reshape(samples, groups, channels, -1).permute(3, 1, 2, 0).contiguous()
    power = (spectrum.conj() @ spectrum.mT).reshape(*frequencies, groups, channels, channels)
    correlation = torch.fft.irfftn(power, s=tuple(sizes), dim=axes).flatten(0, len(sizes) - 1)
    offsets = _offsets(kernel_size, dilation or (1,) * len(sizes), sizes).to(x.device)
    gram: Tensor = correlation[offsets].permute(2, 3, 0, 4, 1)
    columns = channels * math.prod(kernel_size)
    return gram.reshape(*(() if groups == 1 else (groups,)), columns, columns)


def zero_padded_gram(
    x: Tensor,
    kernel_size: Sequence[int],
    *,
    padding: Sequence[tuple[int, int]],
    dilation: Sequence[int] | None = None,
    groups: int = 1,
) -> Tensor:
    """Sum aaᵀ over the patches a of a convolution of stride 1 with zeros beyond the border.

    Over all positions where a patch meets the map at all, this is the sum on a torus so much larger
    that nothing meets itself. The positions among them that the convolution leaves out are a thin
    frame, whose patches are then taken away.

    Example:
        >>> x = torch.randn(2, 3, 5, 5)
        >>> a = patches(x, (3, 3), padding=[(1, 1), (0, 2)]).flatten(0, 1)
        >>> gram = zero_padded_gram(x, (3, 3), padding=[(1, 1), (0, 2)])
        >>> torch.allclose(gram, a.T @ a, atol=1e-4)
        True
    """
    if x.dtype in (torch.float16, torch.bfloat16):
        x = x.float()
    dilation = dilation or (1,) * len(kernel_size)
    spans = [step * (places - 1) for places, step in zip(kernel_size, dilation, strict=True)]
    torus = padded(x, [(0, span) for span in spans])
    gram = circular_gram(torus, kernel_size, dilation=dilation, groups=groups)
    rest = padded(x, [(span, span) for span in spans])
    for axis, (span, (before, after)) in enumerate(zip(spans, padding, strict=True), start=2):
        first, last = max(span - before, 0), max(span - after, 0)
        size = rest.shape[axis]
        for start, positions in ((0, first), (size - span - last, last)):
            if positions:
                strip = rest.narrow(axis, start, positions + span)
                gram = gram - _gram(patches(strip, kernel_size, dilation=dilation), groups)
        rest = rest.narrow(axis, first, size - first - last)
    return gram


def _gram(rows: Tensor, groups: int) -> Tensor:
    columns = rows.permute(2, 0, 1).flatten(1)
    if groups > 1:
        columns = columns.reshape(groups, -1, columns.shape[1])
    return columns @ columns.mT


def _offsets(kernel_size: Sequence[int], dilation: Sequence[int], sizes: Sequence[int]) -> Tensor:
    """For each two places of the kernel, which place of the flattened map the difference is."""
    flat = torch.zeros(1, 1, dtype=torch.int64)
    for places, step, size in zip(kernel_size, dilation, sizes, strict=True):
        at = step * torch.arange(places)
        apart = (at - at[:, None]) % size
        flat = flat[:, None, :, None] * size + apart[:, None, :]
        flat = flat.flatten(2, 3).flatten(0, 1)
    return flat
