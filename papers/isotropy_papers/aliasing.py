"""What aliasing costs in equivariance, in closed form: subsampling under translations."""

from __future__ import annotations

import torch
from torch import Tensor


def alias(n: int | Tensor, size: int) -> Tensor:
    """The frequency that a frequency is seen as in so many samples (thesis, Eq. 4.2).

    The equation leaves open what becomes of half the number of samples, the Nyquist frequency:
    here it stays, and minus half is seen as it.

    Args:
        n: Whole frequencies, in periods over the samples' whole length.
        size: The number of samples.

    Returns:
        Frequencies above −size/2 and up to size/2, of the shape of ``n``.

    Raises:
        ValueError: If there is no sample.

    Example:
        >>> alias(torch.arange(-4, 5), 4)
        tensor([ 0,  1,  2, -1,  0,  1,  2, -1,  0])
    """
    if size < 1:
        raise ValueError(f"expected at least one sample, got {size}")
    wrapped = torch.as_tensor(n) % size
    return torch.where(2 * wrapped > size, wrapped - size, wrapped)


def aliasing_lee(
    image: Tensor, factors: tuple[int, int] = (2, 2), direction: tuple[float, float] = (1.0, 0.0)
) -> Tensor:
    """The local equivariance error of subsampling, f(h) = h[::a, ::b], under a translation.

    With the Fourier series h(p) = Σ_n H_n e^{2πi n·p} of the image on the torus (so that H is the
    discrete Fourier transform divided by the number of pixels) and Alias of Eq. 4.2 on each axis,

        ‖L_v f(h)‖² / dim = (2π)² Σ_k | Σ_{n: Alias(n) = k} H_n v·(k − n) |²,

    with dim the number of samples left. All frequencies that are seen as k come together before
    the square, because they add up in the samples; Theorem 4.1 of the thesis squares them one by
    one (see `theorem_4_1`). It is what `lie_derivative` gives with the periodic boundary, without
    a derivative being taken.

    The highest (Nyquist) frequency of an even number of samples counts as the cosine through the
    samples, which has no slope there: on its axis it enters v·(k − n) as zero, as n in the image
    and as k in what is left. With that the equation holds for every image.

    Args:
        image: Images, shape (*, H, W).
        factors: The stride along rows and columns: every a-th row and b-th column is kept.
        direction: v = (v_x, v_y), to the right in widths and down in heights.

    Returns:
        The mean square of the Lie derivative over the samples left, shape (*).

    Raises:
        ValueError: If there is no image, or a factor does not divide its size.

    Example:
        >>> x = torch.arange(8, dtype=torch.float64) / 8
        >>> wave = torch.cos(2 * torch.pi * 3 * x).expand(8, 8)  # in 4 samples seen as −1
        >>> round(float(aliasing_lee(wave)) / (2 * torch.pi * 4) ** 2, 6)
        0.5
        >>> float(aliasing_lee(wave, direction=(0, 1)))
        0.0
    """
    spectrum, speeds, _ = _speeds(image, factors, direction)
    landing = spectrum * speeds
    # entries n and n + W/b are seen as the same frequency: add up the blocks of the spectrum
    height, width = image.shape[-2:]
    blocks = landing.unflatten(-1, (factors[1], width // factors[1]))
    blocks = blocks.unflatten(-3, (factors[0], height // factors[0]))
    seen: Tensor = blocks.sum((-4, -2))
    return (2 * torch.pi) ** 2 * seen.abs().square().sum((-2, -1))


def theorem_4_1(
    image: Tensor, factors: tuple[int, int] = (2, 2), direction: tuple[float, float] = (1.0, 0.0)
) -> Tensor:
    """The error of subsampling as Theorem 4.1 of the thesis prints it, to compare with.

        (2π)² Σ_nm |H_nm|² (v_x² (Alias(n) − n)² + v_y² (Alias(m) − m)²),

    with H normalised as in `aliasing_lee`, in place of the thesis' 1/2π.

    It holds where one axis is subsampled, by two, and nothing is seen at the Nyquist frequency of
    what is left: then one frequency besides k itself is seen as k, and squares need no sum. It
    fails where several are: for a factor above two, and for both axes, where three are; and for
    oblique directions it lacks the cross term 2 v_x v_y (Alias(n) − n)(Alias(m) − m). It may come
    out above or below the true value. Frequencies at a Nyquist frequency, where Eq. 4.2 is not
    defined, are left out.

    Args:
        image: Images, shape (*, H, W).
        factors: The stride along rows and columns: every a-th row and b-th column is kept.
        direction: v = (v_x, v_y), to the right in widths and down in heights.

    Returns:
        Shape (*).

    Raises:
        ValueError: If there is no image, or a factor does not divide its size.

    Example:
        >>> image = torch.rand(9, 9, generator=torch.Generator().manual_seed(0))
        >>> error = theorem_4_1(image, (3, 3)) / aliasing_lee(image, (3, 3)) - 1
        >>> bool(error.abs() > 0.01)
        True
    """
    spectrum, _, squares = _speeds(image, factors, direction)
    return (2 * torch.pi) ** 2 * (spectrum.abs().square() * squares).sum((-2, -1))


def _speeds(
    image: Tensor, factors: tuple[int, int], direction: tuple[float, float]
) -> tuple[Tensor, Tensor, Tensor]:
    """The spectrum; v·(k − n) for each of its entries; the theorem's sum of squares."""
    if image.ndim < 2 or image.numel() == 0:
        raise ValueError(f"expected images of shape (*, H, W), got {tuple(image.shape)}")
    terms, squares = [], []
    spectrum = torch.fft.fft2(image, norm="forward")
    real = spectrum.real.dtype
    for axis, factor, along in zip((-2, -1), factors, reversed(direction), strict=True):
        size = image.shape[axis]
        if isinstance(factor, bool) or factor < 1 or size % factor:
            raise ValueError(f"expected a factor that divides the size {size}, got {factor!r}")
        n = alias(torch.arange(size, device=image.device), size)
        k = alias(n, size // factor)
        at_nyquist = (2 * n == size) | (2 * k == size // factor)
        gap = (_slope(k, size // factor) - _slope(n, size)).to(real)
        printed = torch.where(at_nyquist, torch.zeros_like(k), k - n).to(real)
        terms.append((along * gap).reshape([-1] + [1] * (-1 - axis)))
        squares.append(((along * printed) ** 2).reshape(terms[-1].shape))
    return spectrum, terms[0] + terms[1], squares[0] + squares[1]


def _slope(n: Tensor, size: int) -> Tensor:
    """What a frequency counts for in the derivative: nothing at the Nyquist frequency."""
    return torch.where(2 * n == size, torch.zeros_like(n), n)
