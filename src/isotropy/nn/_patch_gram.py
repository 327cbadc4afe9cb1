"""The Gram matrix of the patches of maps, from correlations of channels in place of patches."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from isotropy.nn._patches import padded, patches


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

    Args:
        x: Maps of shape (n, channels, *sizes). Low precision is raised to float32.
        kernel_size: The size of the kernel along each axis.
        dilation: The step between places of the kernel along each axis; 1 where not given.
        groups: Into how many groups the channels are divided.

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

    Args:
        x: Maps of shape (n, channels, *sizes). Low precision is raised to float32.
        kernel_size: The size of the kernel along each axis.
        padding: How many zeros are added (before, after) along each axis.
        dilation: The step between places of the kernel along each axis; 1 where not given.
        groups: Into how many groups the channels are divided.

    Returns:
        As ``circular_gram`` does.

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
