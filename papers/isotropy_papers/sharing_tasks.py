"""Linear tasks whose true parameter sharing is known (Yeh et al. 2022, 5.1, 5.3 and D.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from isotropy.run import generator as make_generator
from isotropy_papers._counts import require_count

_LISTED = 6
_SPACING = 3.0
_STEP = (1.0, 50.0)
_OFFSET = (-5.0, 5.0)


@dataclass(frozen=True, eq=False)
class SharingTask:
    """Rows of y ≈ Gx together with what there is to find: G, and which of its entries are equal.

    Args:
        x: Inputs, shape (samples, n); ``None`` where y has a mean and no inputs.
        y: Targets, shape (samples, m).
        map: The true G, shape (m, n), or the true mean, shape (m,).
        labels: The block of each entry of ``map``, in its shape.

    Example:
        >>> task = cross_correlation(3, (1, 3), seed=0)
        >>> task.map
        tensor([[1., 3., 0.],
                [0., 1., 3.]], dtype=torch.float64)
        >>> task.labels
        array([[1, 2, 0],
               [0, 1, 2]])
    """

    x: Tensor | None
    y: Tensor
    map: Tensor
    labels: NDArray[np.int64]


def shared_means(
    dimensions: int,
    rank: int = 1,
    *,
    samples: int = 100,
    sigma: float = 1.0,
    seed: int = 0,
) -> SharingTask:
    """Gaussian vectors some of whose means are equal: y ~ N(Aψ, σ²I), ψ_k = 3k (Eq. 7).

    Up to six dimensions, A is uniform over the partitions with as many blocks as ``rank`` says;
    above, the first elements have a block each and every other one is in a random one of these.

    Args:
        dimensions: K, how many means.
        rank: How many of them are different; at rank 1 all are 0.
        samples: How many vectors.
        sigma: σ, the standard deviation of each entry.
        seed: Of numpy's legacy generator, whose numbers the published ones rest on.

    Raises:
        ValueError: If a count is not positive, the rank exceeds the dimensions, or σ or the seed
            is out of range.

    Example:
        >>> task = shared_means(4, rank=2, seed=1)
        >>> task.labels, task.map.tolist(), tuple(task.y.shape)
        (array([0, 1, 1, 0]), [0.0, 3.0, 3.0, 0.0], (100, 4))
    """
    require_count(dimensions, "dimensions")
    require_count(samples, "samples")
    _require_not_negative(sigma, "a standard deviation sigma")
    if isinstance(rank, bool) or not isinstance(rank, int) or not 1 <= rank <= dimensions:
        raise ValueError(f"expected a rank between 1 and the {dimensions} dimensions, got {rank!r}")
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**32:
        raise ValueError(f"expected a seed in [0, 2**32), got {seed!r}")
    rng = np.random.RandomState(seed)
    if dimensions <= _LISTED:
        listed = _partitions(dimensions, rank)
        labels = np.array(listed[rng.randint(len(listed))], dtype=np.int64)
    else:
        others = rng.randint(rank, size=dimensions - rank)
        labels = np.concatenate([np.arange(rank), others]).astype(np.int64)
    mean = _SPACING * labels
    y = mean + sigma * rng.randn(samples, dimensions)
    return SharingTask(None, torch.from_numpy(y), torch.from_numpy(mean), labels)


def cross_correlation(
    inputs: int,
    kernel: Sequence[float] = (1, 3, 5),
    *,
    samples: int = 150,
    noise: float = 0.1,
    circular: bool = False,
    seed: int | torch.Generator | None = None,
) -> SharingTask:
    """A filter that slides over its input: y[k] = Σ_j x[k+j] g[j] + ε, x ~ N(0, 1) (Eq. 27).

    The blocks are the distinct values of the map: one for each value of the kernel, one for the
    zeros outside it.

    Args:
        inputs: n, the length of the input.
        kernel: g.
        samples: How many rows.
        noise: The standard deviation of ε; the paper's "N(0, 0.1)" leaves open whether it is that
            or the variance.
        circular: Whether the input goes on at its start, so that there are n outputs; otherwise
            there are only those for which the kernel lies inside the input.
        seed: Of inputs and noise.

    Raises:
        ValueError: If a count is not positive, the kernel is empty, not finite or longer than the
            input, or the noise is negative.

    Example:
        >>> cross_correlation(3, (1, 3), circular=True, seed=0).map.int().tolist()
        [[1, 3, 0], [0, 1, 3], [3, 0, 1]]
    """
    require_count(inputs, "inputs")
    require_count(samples, "samples")
    _require_not_negative(noise, "a standard deviation of the noise")
    taps = np.asarray(kernel, dtype=np.float64)
    if taps.ndim != 1 or not 1 <= taps.size <= inputs or not np.isfinite(taps).all():
        raise ValueError(
            f"expected a kernel of 1 to {inputs} finite numbers, as long as the input at most, "
            f"got {kernel!r}"
        )
    outputs = inputs if circular else inputs - taps.size + 1
    g = np.zeros((outputs, inputs))
    for k in range(outputs):
        g[k, (k + np.arange(taps.size)) % inputs] = taps
    labels = np.unique(g, return_inverse=True)[1].reshape(g.shape)
    rng = make_generator(seed)
    map = torch.from_numpy(g)
    x = torch.randn(samples, inputs, generator=rng, dtype=torch.float64)
    epsilon = torch.randn(samples, outputs, generator=rng, dtype=torch.float64)
    return SharingTask(x, x @ map.mT + noise * epsilon, map, labels)


def noisy_steps(
    length: int,
    *,
    samples: int = 150,
    noise: float = 10.0,
    seed: int | torch.Generator | None = None,
) -> SharingTask:
    """Steps to be cleaned of noise: y[k] = s U(k − t) + b, x = y + ε (Eq. 51).

    U is 1 from 0 on, s ~ U[1, 50], b ~ U[−5, 5], and t is uniform on 0, …, length. The map of the
    task is the best linear one, C(C + σ²I)⁻¹ with

        C_kl = E[y_k y_l] = E[s²] (min(k, l) + 1)/(length + 1) + E[b²].

    It is only nearly constant along diagonals, since a window has ends; the labels are those of
    the diagonals, which the paper looks for.

    Args:
        length: How many places a signal has.
        samples: How many rows.
        noise: σ, the standard deviation of ε.
        seed: Of signals and noise.

    Raises:
        ValueError: If a count is not positive or the noise is negative.

    Example:
        >>> task = noisy_steps(3, samples=5, noise=0.0, seed=0)
        >>> bool((task.x == task.y).all())
        True
        >>> task.labels
        array([[2, 3, 4],
               [1, 2, 3],
               [0, 1, 2]])
    """
    require_count(length, "places")
    require_count(samples, "samples")
    _require_not_negative(noise, "a standard deviation of the noise")
    rng = make_generator(seed)

    def uniform(low: float, high: float) -> Tensor:
        drawn = torch.rand(samples, 1, generator=rng, dtype=torch.float64)
        return low + (high - low) * drawn

    scale, offset = uniform(*_STEP), uniform(*_OFFSET)
    start = torch.randint(length + 1, (samples, 1), generator=rng)
    place = torch.arange(length)
    y = scale * (place >= start) + offset
    x = y + noise * torch.randn(samples, length, generator=rng, dtype=torch.float64)
    labels = (place + (length - 1 - place)[:, None]).numpy()
    return SharingTask(x, y, _best_denoiser(length, noise), labels)


def _best_denoiser(length: int, noise: float) -> Tensor:
    place = torch.arange(length, dtype=torch.float64)
    seen = (torch.minimum(place, place[:, None]) + 1) / (length + 1)
    second = _second_moment(*_STEP) * seen + _second_moment(*_OFFSET)
    noisy = second + noise**2 * torch.eye(length, dtype=torch.float64)
    # both matrices are symmetric and commute
    best: Tensor = torch.linalg.solve(noisy, second)
    return best


def _second_moment(low: float, high: float) -> float:
    return (high**2 + high * low + low**2) / 3


def _partitions(size: int, blocks: int) -> list[tuple[int, ...]]:
    """All partitions of 0, …, size−1 into so many blocks, numbered by their first elements."""
    found: list[tuple[int, ...]] = [(0,)]
    for _ in range(size - 1):
        found = [(*one, j) for one in found for j in range(min(max(one) + 2, blocks))]
    return [one for one in found if max(one) == blocks - 1]


def _require_not_negative(value: float, what: str) -> None:
    if not 0 <= value < inf:
        raise ValueError(f"expected {what} that is finite and not negative, got {value}")
