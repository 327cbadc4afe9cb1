"""What lies between the pixels: derivatives and shifts of sampled signals, with a boundary rule.

A row of n samples z_j at the places x_j = (j + ½)/n − ½ of an interval of length 1 stands for a
function on the line. Its boundary rule says how the function goes on outside:

- ``"periodic"``: it repeats. The Fourier series through the samples is the function, shifts are
  exact on the circle, and the derivative multiplies the frequency k by 2πik.
- ``"reflect"``: it is mirrored at both ends (… z_1 z_0 | z_0 z_1 …), then repeats: the Fourier
  series of twice the length.

In an even number of samples the highest (Nyquist) frequency has no derivative; it counts as the
cosine through the samples, whose derivative is zero there.

``"bilinear"`` interpolation, which has a kink at every sample, takes one-sided differences; it
is there to compare with the published method.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal, TypeAlias, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Boundary: TypeAlias = Literal["periodic", "reflect"]
Interpolation: TypeAlias = Literal["fourier", "bilinear"]
Side: TypeAlias = Literal["plus", "minus", "central"]

_Array: TypeAlias = NDArray[np.float64]

_LONGEST_BY_MATRIX = 1024


def check_rules(boundary: str, interpolation: str, side: str) -> None:
    """Refuse names of rules that there are none of."""
    for what, given, known in (
        ("boundary", boundary, get_args(Boundary)),
        ("interpolation", interpolation, get_args(Interpolation)),
        ("side", side, get_args(Side)),
    ):
        if given not in known:
            raise ValueError(f"expected a {what} among {', '.join(known)}, got {given!r}")


def derivative(n: int, boundary: Boundary, like: Tensor) -> Tensor:
    """The matrix (n, n) of d/dx, in units of the length, of the type and place of a tensor.

    Args:
        n: The number of samples.
        boundary: How the signal goes on outside.
        like: A tensor of the type and on the device of the result.

    Example:
        >>> x = torch.arange(8, dtype=torch.float64) / 8
        >>> slope = derivative(8, "periodic", x) @ torch.sin(2 * torch.pi * x)
        >>> torch.allclose(slope, 2 * torch.pi * torch.cos(2 * torch.pi * x))
        True
    """
    return _placed("derivative", n, boundary, _real(like.dtype), str(like.device))


def slope(x: Tensor, boundary: Boundary) -> Tensor:
    """The derivative along the last axis, in units of its length.

    Short axes are multiplied by a matrix, long ones transformed.

    Args:
        x: Samples, shape (*, n).
        boundary: How the signal goes on outside.

    Example:
        >>> x = torch.rand(2000, dtype=torch.float64)
        >>> by_matrix = derivative(2000, "reflect", x) @ x
        >>> torch.allclose(slope(x, "reflect"), by_matrix, atol=1e-6)
        True
    """
    n = x.shape[-1]
    if n <= _LONGEST_BY_MATRIX:
        return x @ derivative(n, boundary, x).mT
    if boundary == "reflect":
        return slope(torch.cat([x, x.flip(-1)], -1), "periodic")[..., :n] / 2
    exact = torch.promote_types(x.dtype, torch.float32)
    frequency = torch.fft.fftfreq(n, 1 / n, device=x.device, dtype=exact.to_real())
    if n % 2 == 0:
        frequency[n // 2] = 0
    found = torch.fft.ifft(torch.fft.fft(x.to(exact)) * (2j * torch.pi * frequency))
    moved: Tensor = (found if x.is_complex() else found.real).to(x.dtype)
    return moved


def difference(n: int, boundary: Boundary, forward: bool, like: Tensor) -> Tensor:
    """The matrix (n, n) of one-sided differences, z_{j+1} − z_j or z_j − z_{j−1}, times n."""
    kind = "forward" if forward else "backward"
    return _placed(kind, n, boundary, _real(like.dtype), str(like.device))


def _real(dtype: torch.dtype) -> torch.dtype:
    return dtype.to_real() if dtype.is_complex else dtype


@lru_cache(maxsize=256)
def _placed(kind: str, n: int, boundary: Boundary, dtype: torch.dtype, device: str) -> Tensor:
    make = {"derivative": _derivative, "forward": _forward, "backward": _backward}[kind]
    return torch.from_numpy(make(n, boundary)).to(device, dtype)


def _derivative(n: int, boundary: Boundary) -> _Array:
    if boundary == "reflect":
        doubled = _derivative(2 * n, "periodic")[:n]
        return np.ascontiguousarray((doubled[:, :n] + doubled[:, n:][:, ::-1]) / 2)
    gap = np.arange(n)[:, None] - np.arange(n)
    angle = np.pi * np.where(gap == 0, 0.5, gap / n)
    sign = np.where(gap % 2 == 0, 1.0, -1.0)
    kernel = 1 / (np.tan(angle) if n % 2 == 0 else np.sin(angle))
    return np.where(gap == 0, 0.0, np.pi * sign * kernel)


def _forward(n: int, boundary: Boundary) -> _Array:
    following = (np.arange(n) + 1) % n if boundary == "periodic" else np.arange(n) + 1
    following = np.minimum(following, n - 1)
    matrix = np.zeros((n, n))
    matrix[np.arange(n), following] += n
    matrix[np.arange(n), np.arange(n)] -= n
    return matrix


def _backward(n: int, boundary: Boundary) -> _Array:
    return np.ascontiguousarray(-_forward(n, boundary)[::-1, ::-1])


def resample(x: Tensor, places: Tensor, boundary: Boundary) -> Tensor:
    """The Fourier interpolant of the last axis at other places.

    Args:
        x: Samples, shape (*, n).
        places: Where to evaluate, in samples: j is the place of sample j. Shape (m,).
        boundary: How the signal goes on outside.

    Returns:
        Shape (*, m).

    Example:
        >>> x = torch.cos(torch.arange(5, dtype=torch.float64) * 2 * torch.pi / 5)
        >>> float(resample(x, torch.tensor([2.5]), "periodic"))
        -1.0
    """
    return x @ _kernel(places.to(x.device, x.dtype), x.shape[-1], boundary).mT


def _kernel(places: Tensor, n: int, boundary: Boundary) -> Tensor:
    samples = torch.arange(n, dtype=places.dtype, device=places.device)
    if boundary == "reflect":
        gap = places[:, None] - torch.cat([samples, 2 * n - 1 - samples])
        both = _dirichlet(gap, 2 * n)
        return both[:, :n] + both[:, n:]
    return _dirichlet(places[:, None] - samples, n)


def _dirichlet(gap: Tensor, n: int) -> Tensor:
    """What a single 1 among n samples interpolates to, a gap of samples away, on the circle."""
    gap = gap - n * torch.round(gap / n).detach()
    angle = torch.pi * gap / n
    on_sample = gap == 0  # the limit is 1, with slope 0
    safe = torch.where(on_sample, torch.ones_like(angle), angle)
    kernel = torch.sin(n * safe) / (n * (torch.tan(safe) if n % 2 == 0 else torch.sin(safe)))
    return torch.where(on_sample, torch.ones_like(angle), kernel)


def shift(x: Tensor, by: Tensor, boundary: Boundary) -> Tensor:
    """Shift the last axis by Fourier phases: sample j takes the value at j − by.

    Args:
        x: Samples, shape (*, n).
        by: How far, in samples; shape () or, one for each row, anything that broadcasts with (*).
        boundary: How the signal goes on outside.

    Returns:
        Shape (*, n).

    Example:
        >>> shift(torch.tensor([1.0, 0.0, 0.0]), torch.tensor(1.0), "periodic").round().abs()
        tensor([0., 1., 0.])
    """
    n = x.shape[-1]
    if boundary == "reflect":
        return shift(torch.cat([x, x.flip(-1)], -1), by, "periodic")[..., :n]
    frequency = torch.fft.rfftfreq(n, device=x.device, dtype=x.dtype)
    angle = -2 * torch.pi * frequency * by.to(x.device, x.dtype).unsqueeze(-1)
    phase = torch.complex(torch.cos(angle), torch.sin(angle))
    if n % 2 == 0:
        phase = torch.cat([phase[..., :-1], phase[..., -1:].real.to(phase.dtype)], -1)
    shifted: Tensor = torch.fft.irfft(torch.fft.rfft(x) * phase, n)
    return shifted
