"""The prior precisions that make the evidence of a given approximation largest."""

from __future__ import annotations

from collections.abc import Mapping
from math import exp, inf, log, pi
from typing import Literal

from torch import Tensor

from isotropy.evidence._laplace import Laplace

LIMITS = (1e-8, 1e12)
_TOLERANCE = 1e-11  # of logarithms
_ROUGHLY = 1e-2
_PLAIN = 3  # steps between two that extrapolate
_ROUNDS = 200
_HALVINGS = 60


def best_precisions(
    laplace: Laplace,
    *,
    noise: float | Literal["learn"] | None = None,
    temperature: float = 1.0,
    limits: tuple[float, float] = LIMITS,
) -> tuple[dict[str, float], float | None]:
    """Empirical Bayes after the fact: parameters and curvature stay, the prior moves.

    The evidence is largest where γ_g(δ) = δ_g‖θ_g‖² in every group (MacKay 1992). The step

        log δ_g ← ½ (log δ_g + log(γ_g(δ)/‖θ_g‖²))

    brings any two starts at least twice as near to each other: −∂ log γ_g/∂ log δ_g lies in
    [0, 1], and what the other groups contribute is no more than that in all. So there is one such
    point, and the iteration finds it, for every structure of the curvature. (MacKay's own step,
    without the mean, can run in a circle of two.)

    The noise, where it is learned, is set in turn to where S/(σ²T) + γ(σ) = M/T, for the sum S
    of squares of M residuals; the evidence rises with each turn.

    Args:
        laplace: The approximation.
        noise: The standard deviation of observations, for regression; 1 where None; "learn" to
            find it too.
        temperature: That of the likelihood.
        limits: The least and the largest precision, of the noise (1/σ²) too. A group that the
            data do not need ends at the largest.

    Returns:
        The precisions by group, and the noise; None where the likelihood has none.

    Raises:
        ValueError: If limits, noise or temperature are not positive numbers, or there is noise
            to learn where none belongs.

    Example:
        >>> import torch
        >>> from torch import nn
        >>> from isotropy.evidence import laplace
        >>> x = torch.randn(200, 3, dtype=torch.float64)
        >>> model = nn.Linear(3, 1, bias=False, dtype=torch.float64)
        >>> nn.init.constant_(model.weight, 0.5).shape
        torch.Size([1, 3])
        >>> found = laplace(model, "regression", (x, x.sum(1) / 2))
        >>> precisions, noise = best_precisions(found, noise=0.1)
        >>> round(precisions["weight"], 2)  # 1 / 0.5²
        4.0
    """
    lower, upper = _checked(limits)
    gaussian = laplace.likelihood.has_noise
    learns = noise == "learn"
    if learns and not gaussian:
        raise ValueError(f"expected no noise for {laplace.likelihood.name}, got noise='learn'")
    if isinstance(noise, str) and not learns:
        raise ValueError(f"expected a number, None or 'learn' as the noise, got {noise!r}")
    sigma = 1.0 if noise is None or isinstance(noise, str) else float(noise)
    laplace.log_likelihood(noise=sigma, temperature=temperature)  # refuses what is out of range
    squares = laplace.squared_norms()
    found = dict.fromkeys(squares, min(max(1.0, lower), upper))
    tolerance = _ROUGHLY if learns else _TOLERANCE
    for _ in range(_ROUNDS):
        before = dict(found), sigma
        found = _settled(laplace, squares, found, sigma, temperature, (lower, upper), tolerance)
        if not learns:
            break
        sigma = _best_noise(laplace, found, temperature, (lower, upper))
        change = max(_change(found, before[0]), abs(log(sigma / before[1])))
        if change < _TOLERANCE:
            break
        # no better than the noise is known by now
        tolerance = max(_ROUGHLY * min(change, 1.0), _TOLERANCE)
    return found, sigma if gaussian else None


def _checked(limits: tuple[float, float]) -> tuple[float, float]:
    lower, upper = map(float, limits)
    if not 0 < lower <= upper < inf:
        raise ValueError(f"expected limits with 0 < least ≤ largest < ∞, got {limits}")
    return lower, upper


def _settled(
    laplace: Laplace,
    squares: Mapping[str, float],
    start: Mapping[str, float],
    noise: float,
    temperature: float,
    limits: tuple[float, float],
    tolerance: float,
) -> dict[str, float]:
    """The precisions at which γ = δ‖θ‖² for a given noise.

    After every third step it goes on to where these seem to lead. Three steps leave at most an
    eighth of the error, and this adds at most the last one, three eighths: half of the error is
    gone in any case, and almost all of it where groups hardly depend on each other.
    """
    found, moved = dict(start), dict.fromkeys(start, 0.0)
    for count in range(1, _ROUNDS + 1):
        effective = laplace.effective_parameters(found, noise=noise, temperature=temperature)
        wanted = {
            group: _within(limits, max(effective.counts[group], 0.0) / square if square else inf)
            for group, square in squares.items()
        }
        moves = {g: log(wanted[g] / delta) / 2 for g, delta in found.items()}
        found = {g: delta * exp(moves[g]) for g, delta in found.items()}
        if max(map(abs, moves.values())) < tolerance:
            break
        if count % _PLAIN == 0:
            found = {g: d * exp(_rest(moved[g], moves[g])) for g, d in found.items()}
        moved = moves
    return {group: _within(limits, delta) for group, delta in found.items()}


def _rest(first: float, second: float) -> float:
    """What is left of steps that go on shrinking as these two did: at least by a half."""
    ratio = min(max(second / first, 0.0), 0.5) if first else 0.0
    return second * ratio / (1 - ratio)


def _best_noise(
    laplace: Laplace,
    precisions: Mapping[str, float | Tensor],
    temperature: float,
    limits: tuple[float, float],
) -> float:
    """The noise that the evidence wants for given precisions: its slope falls as it grows."""
    low, high = -log(limits[1]) / 2, -log(limits[0]) / 2
    # one decomposition serves for every noise
    values = laplace.relative_eigenvalues(precisions)
    squares, count = residual_sums(laplace)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        scaled = values * (exp(-2 * middle) / temperature)
        fit = (squares * exp(-2 * middle) - count) / temperature
        slope = fit + float((scaled / (1 + scaled)).sum())
        low, high = (middle, high) if slope > 0 else (low, middle)
    return exp((low + high) / 2)


def residual_sums(laplace: Laplace) -> tuple[float, float]:
    """The sum S of squared residuals of a regression, and the number M of them.

    The log likelihood is −S/(2σ²) − M (½ log 2π + log σ), of which one term is all that counts
    where the noise is huge or tiny.
    """
    huge, tiny, constant = 1e100, 1e-100, log(2 * pi) / 2
    count = -float(laplace.log_likelihood(noise=huge)) / (constant + log(huge))
    rest = float(laplace.log_likelihood(noise=tiny)) + count * (constant + log(tiny))
    return max(-2 * tiny**2 * rest, 0.0), count


def _within(limits: tuple[float, float], value: float) -> float:
    return min(max(value, limits[0]), limits[1])


def _change(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    return max((abs(log(one[name] / other[name])) for name in one), default=0.0)
