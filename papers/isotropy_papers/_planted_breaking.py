"""A symmetry broken by a term without one, and what it costs to symmetrise a function."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from isotropy.run import generator as make_generator
from isotropy_papers._planted_inputs import normal_rows, uniform
from isotropy_papers._planted_problem import Function, PlantedProblem

_MARGIN = 0.05  # of the variance: what a claim of symmetry may cost
_SCALE_ROWS = 4096  # rows on which the size of a function is measured


def broken(problem: PlantedProblem, strength: float) -> PlantedProblem:
    """The problem with a term added that breaks its symmetry.

    The term is a sum of sines without symmetry in any of our classes. Its standard deviation is
    ``strength`` times that of the function, so that symmetrising costs about s²/(1 + s²) of the
    variance; see :func:`breaking_cost` for the number itself.

    Args:
        problem: A problem with a symmetry.
        strength: s, positive.

    Returns:
        The broken problem. It still ``holds`` where s²/(1 + s²) is below 5 %.

    Raises:
        ValueError: If the strength is not positive, or the problem has no symmetry.

    Example:
        >>> from isotropy_papers.planted_problems import planted_problems
        >>> null = broken(planted_problems()["so3"], 0.8)
        >>> null.name, null.holds, tuple(null.algebra.shape)
        ('so3-broken-0.8', False, (3, 3, 3))
    """
    if not 0 < strength < math.inf:
        raise ValueError(f"expected a positive strength, got {strength}")
    if len(problem.algebra) == 0:
        raise ValueError(f"expected a problem with a symmetry to break, got {problem.name!r}")
    rng = make_generator(7)
    x = problem.sample(_SCALE_ROWS, rng)
    ripples = _ripples(problem.d_in, rng, d_out=problem.d_out, like=x)
    size = strength * _spread(problem.target(x)) / _spread(ripples(x))

    def function(at: Tensor) -> Tensor:
        return problem.function(at) + size * ripples(at)

    return replace(
        problem,
        name=f"{problem.name}-broken-{strength:g}",
        holds=problem.holds and strength**2 / (1 + strength**2) < _MARGIN,
        broken=strength,
        function=function,
    )


def breaking_cost(
    problem: PlantedProblem,
    *,
    algebra: Tensor | None = None,
    rows: int = 1000,
    elements: int = 128,
    generator: torch.Generator | int | None = 0,
) -> float:
    """What symmetrising the true function costs, as a share of its variance.

    With S f(x) the mean of ρ_out(g)⁻¹ f(g x) over group elements g, it is
    E|f − S f|² / E|f − E f|². Elements of a compact group come from long random walks, near its
    Haar measure. Those of other groups stay near the identity: exp A for A normal in the algebra,
    of mean square norm 2, as of a rotation by one radian or a boost of rapidity one.

    Args:
        problem: The problem.
        algebra: Another algebra of the same class of actions to average over.
        rows: On how many inputs.
        elements: Over how many group elements for each.
        generator: Random numbers, or a seed.

    Raises:
        ValueError: If the algebra is empty, or there are fewer than two elements.

    Example:
        >>> from isotropy_papers.planted_problems import planted_problems
        >>> so3 = planted_problems()["so3"]
        >>> abs(breaking_cost(so3, rows=50)) < 1e-12
        True
        >>> 0.3 < breaking_cost(broken(so3, 0.8), rows=500, elements=32) < 0.5
        True
    """
    algebra = problem.algebra if algebra is None else algebra
    if len(algebra) == 0:
        raise ValueError(f"expected an algebra to average over, got an empty one ({problem.name})")
    if elements < 2:
        raise ValueError(f"expected at least 2 group elements, got {elements}")
    rng = make_generator(generator)
    x = problem.sample(rows, rng)
    y = problem.target(x)
    rest = []
    # two independent means, so that the error of a mean does not count as breaking
    for _ in range(2):
        total = torch.zeros_like(y)
        for _ in range(elements // 2):
            g = _near_identity(algebra, rows, rng)
            there = problem.target(problem.moved_inputs(g, x))
            total += problem.moved_outputs(torch.linalg.inv(g), there)
        rest.append(y - total / (elements // 2))
    return float((rest[0] * rest[1]).sum(-1).mean()) / _spread(y) ** 2


def _near_identity(algebra: Tensor, n: int, rng: torch.Generator) -> Tensor:
    flat = torch.linalg.qr(algebra.flatten(1).T).Q.T
    basis = flat.unflatten(1, algebra.shape[1:]) * math.sqrt(2 / len(algebra))

    def draw(count: int) -> Tensor:
        weights = torch.randn(count, len(basis), dtype=torch.float64, generator=rng)
        drawn: Tensor = torch.tensordot(weights, basis, 1)
        return drawn

    g: Tensor = torch.matrix_exp(draw(n))
    far = torch.matrix_exp(1e3 * draw(8))
    is_compact = bool((far.abs() < 1e2).all())  # else some one-parameter group runs away
    for _ in range(5 if is_compact else 0):
        g = torch.matmul(g, torch.matrix_exp(2 * draw(n)))
    return g


def _spread(y: Tensor) -> float:
    """The standard deviation, all columns together."""
    return float((y - y.mean(0)).square().sum(-1).mean().sqrt())


def _ripples(d_in: int, rng: torch.Generator, *, d_out: int, like: Tensor) -> Function:
    """Sines along the axes of a random frame, less their linear part on normal numbers.

    A linear or quadratic term would break little: other rotations leave it as it is.
    """
    frame = torch.linalg.qr(normal_rows(d_in, d_in, rng)).Q
    mean, scale = like.mean(0), like.std(0)
    weights = uniform((d_in, d_out), 0.8, 1.2, rng) * normal_rows(d_out, d_in, rng).sign()

    def function(x: Tensor) -> Tensor:
        t: Tensor = 1.5 * ((x - mean) / scale) @ frame
        return (torch.sin(t) - math.exp(-(1.5**2) / 2) * t) @ weights

    return function
