"""Random permutations with a gradient: the Gumbel-Sinkhorn relaxation (Mena et al., 2018)."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from isotropy.run import generator as make_generator


def sinkhorn(log_alpha: Tensor, iterations: int = 20) -> Tensor:
    """A doubly stochastic matrix: exp(log_alpha), columns and rows normalised in turn.

    The last step is on rows, which sum to one exactly; columns do so in the limit.

    Args:
        log_alpha: Logarithms of positive matrices, shape ``(*, n, n)``.
        iterations: How often columns and rows are normalised.

    Returns:
        Shape ``(*, n, n)``, differentiable.

    Raises:
        ValueError: If the matrices are not square or there are no iterations.

    Example:
        >>> sinkhorn(torch.tensor([[1.0, 0.0], [0.0, 1.0]]))
        tensor([[0.7311, 0.2689],
                [0.2689, 0.7311]])
    """
    return log_sinkhorn(log_alpha, iterations).exp()


def log_sinkhorn(log_alpha: Tensor, iterations: int = 20) -> Tensor:
    """The logarithm of ``sinkhorn``, finite where the matrix itself rounds to zero.

    Args:
        log_alpha: Shape ``(*, n, n)``.
        iterations: How often columns and rows are normalised.

    Returns:
        Shape ``(*, n, n)``, differentiable.

    Raises:
        ValueError: If the matrices are not square or there are no iterations.

    Example:
        >>> log_sinkhorn(torch.tensor([[0.0, -500.0], [-500.0, 0.0]]))
        tensor([[   0., -500.],
                [-500.,    0.]])
    """
    _require_square(log_alpha)
    if iterations < 1:
        raise ValueError(f"expected at least one iteration, got {iterations}")
    # a batch on the inside makes many small softmaxes seven times as fast
    logs = log_alpha.movedim((-2, -1), (0, 1)).contiguous()
    for _ in range(iterations):
        logs = logs.log_softmax(0).log_softmax(1)
    return logs.movedim((0, 1), (-2, -1))


def gumbel_sinkhorn(
    log_alpha: Tensor,
    samples: int,
    *,
    temperature: float = 0.1,
    iterations: int = 20,
    generator: torch.Generator | int | None = None,
) -> Tensor:
    """Relaxed random permutations, S((log_alpha + ε)/τ) with independent Gumbel noise ε.

    As τ → 0 and the iterations grow, S tends to the permutation that maximises
    Σ_i (log_alpha + ε)[i, π(i)], a draw from the Gumbel-matching law (Mena et al., Theorem 1).

    Args:
        log_alpha: Shape ``(*, n, n)``.
        samples: How many to draw for each matrix.
        temperature: τ.
        iterations: Of Sinkhorn's normalisation; low temperatures need more.
        generator: Seed or generator of the noise.

    Returns:
        Shape ``(samples, *, n, n)``; row i says where position i takes its value from. It is
        differentiable in ``log_alpha``.

    Raises:
        ValueError: If the matrices are not square, or the temperature, the number of samples or
            of iterations is not positive.

    Example:
        >>> drawn = gumbel_sinkhorn(torch.zeros(3, 3), 2, temperature=0.01, generator=0)
        >>> drawn.round().sum(-1)
        tensor([[1., 1., 1.],
                [1., 1., 1.]])
    """
    _require_square(log_alpha)
    if samples < 1:
        raise ValueError(f"expected at least one sample, got {samples}")
    if not (0 < temperature < math.inf):
        raise ValueError(f"expected a positive temperature, got {temperature}")
    noise = gumbel((samples, *log_alpha.shape), make_generator(generator)).to(log_alpha)
    return sinkhorn((log_alpha + noise) / temperature, iterations)


def gumbel(shape: tuple[int, ...], rng: torch.Generator) -> Tensor:
    """Standard Gumbel noise, −log of exponential noise, on the generator's device.

    Args:
        shape: The shape of the noise.
        rng: Where it comes from.

    Example:
        >>> noise = gumbel((100_000,), make_generator(0))
        >>> abs(float(noise.mean()) - 0.5772) < 0.02  # Euler's constant
        True
    """
    waits = torch.empty(shape, device=rng.device).exponential_(generator=rng)
    # a wait of zero would be infinite noise, whose differences are not numbers
    return -waits.clamp_min(torch.finfo(waits.dtype).tiny).log()


def matched(log_alpha: Tensor) -> Tensor:
    """The permutation that maximises Σ_i log_alpha[i, π(i)], by linear assignment.

    Args:
        log_alpha: Shape ``(*, n, n)``, finite.

    Returns:
        π as indices, shape ``(*, n)``: position i takes its value from position π(i).

    Raises:
        ValueError: If the matrices are not square, or not finite.

    Example:
        >>> matched(torch.tensor([[0.0, 2.0], [1.0, 2.5]]))
        tensor([1, 0])
    """
    from scipy.optimize import linear_sum_assignment

    _require_square(log_alpha)
    if not bool(log_alpha.isfinite().all()):
        raise ValueError("expected finite entries to match, got infinite ones or NaN")
    n = log_alpha.shape[-1]
    scores = log_alpha.detach().cpu().double().reshape(-1, n, n).numpy()
    chosen = [torch.as_tensor(linear_sum_assignment(s, maximize=True)[1]) for s in scores]
    indices = torch.stack(chosen) if chosen else torch.empty(0, n, dtype=torch.int64)
    return indices.reshape(log_alpha.shape[:-1]).to(log_alpha.device)


def _require_square(log_alpha: Tensor) -> None:
    shape = tuple(log_alpha.shape)
    if len(shape) < 2 or shape[-1] != shape[-2] or shape[-1] == 0:
        raise ValueError(f"expected square matrices, shape (*, n, n), got shape {shape}")
