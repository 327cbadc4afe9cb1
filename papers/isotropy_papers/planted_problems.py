"""Functions whose Lie algebra of symmetries is known, and some that have none."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from isotropy.run import generator as make_generator
from isotropy_papers._planted_breaking import breaking_cost, broken
from isotropy_papers._planted_inputs import normal_rows, uniform
from isotropy_papers._planted_problem import Function, PlantedProblem
from isotropy_papers._planted_symmetric import symmetric_problems

__all__ = [
    "PlantedProblem",
    "breaking_cost",
    "broken",
    "planted_nulls",
    "planted_problems",
    "with_noise",
]

# width of inputs, blocks, whether affine, and a seed with which no symmetry is near
_GENERIC_CLASSES: tuple[tuple[int, int | None, bool, int], ...] = (
    (3, None, True, 15),
    (4, None, False, 14),
    (6, 2, False, 20),
)
_NOT_FAR = 0.3  # breaks a symmetry by about twice the margin
# how strongly each is broken: by 15 to 60 % of the variance
_BREAKINGS = {
    "so2": 0.6,
    "so3": 0.8,
    "so3-two": 0.7,
    "so4": 0.8,
    "so21": 0.8,
    "so13-two": 0.8,
    "so3+so2": 0.8,
    "sl2-three": 0.9,
    "translations-two": 0.8,
    "so3-vector": 0.7,
}


def planted_problems() -> dict[str, PlantedProblem]:
    """Problems with a symmetry, by name.

    Example:
        >>> problems = planted_problems()
        >>> len(problems), all(problem.holds for problem in problems.values())
        (31, True)
    """
    problems = symmetric_problems()
    by_name = {problem.name: problem for problem in problems}
    slightly = [broken(by_name[name], 0.1) for name in ("so3", "so13-two")]
    return {problem.name: problem for problem in [*problems, *slightly]}


def planted_nulls() -> dict[str, PlantedProblem]:
    """Problems without a symmetry in their class, by name.

    Those that begin with ``noise`` cannot be learned: their values jump from one point to the
    next, so that no sample tells them from noise.

    Example:
        >>> nulls = planted_nulls()
        >>> len(nulls), any(problem.holds for problem in nulls.values())
        (25, False)
    """
    problems = planted_problems()
    nulls = [broken(problems[name], strength) for name, strength in _BREAKINGS.items()]
    nulls += [broken(problems[name], _NOT_FAR) for name in ("so2", "so3", "so13-two")]
    for d_in, blocks, affine, seed in _GENERIC_CLASSES:
        for kind, function in _GENERIC.items():
            name = f"{kind}-{d_in}" + ("" if blocks is None else f"-blocks-{blocks}")
            seeded = function(d_in, make_generator(seed))
            nulls.append(_null(name, d_in, blocks, affine, seeded))
    return {problem.name: problem for problem in nulls}


def with_noise(y: Tensor, level: float, generator: torch.Generator | int | None = None) -> Tensor:
    """Outputs with normal noise of ``level`` times the standard deviation of each column.

    Raises:
        ValueError: If the level is negative or not finite.

    Example:
        >>> y = torch.linspace(0, 1, 1000, dtype=torch.float64).unsqueeze(-1)
        >>> round(float((with_noise(y, 0.1, generator=0) - y).std() / y.std()), 2)
        0.1
    """
    if not 0 <= level < math.inf:
        raise ValueError(f"expected a noise level of at least 0, got {level}")
    rng = make_generator(generator)
    normal = torch.randn(y.shape, dtype=y.dtype, generator=rng)
    return y + level * y.std(0, correction=0) * normal


# --- functions without a symmetry ----------------------------------------------------------------


def _null(
    name: str, d_in: int, blocks: int | None, affine: bool, function: Function
) -> PlantedProblem:
    d = d_in // (blocks or 1) + affine
    return PlantedProblem(
        name=name,
        d_in=d_in,
        d_out=1,
        blocks=blocks,
        affine=affine,
        output="invariant",
        algebra=torch.zeros(0, d, d, dtype=torch.float64),
        title="",
        holds=False,
        broken=0.0,
        standard=True,
        draw_inputs=partial(normal_rows, d_in),
        function=function,
    )


def _cubic(d_in: int, rng: torch.Generator) -> Function:
    """Hermite polynomials t³ − 3t along the axes of a random frame, and a quadratic form."""
    frame, form = (
        torch.linalg.qr(normal_rows(d_in, d_in, rng)).Q,
        normal_rows(d_in, d_in, rng) / d_in,
    )

    def function(x: Tensor) -> Tensor:
        t: Tensor = x @ frame
        return (t**3 - 3 * t + t * (t @ form)).sum(-1, keepdim=True)

    return function


def _sines(d_in: int, rng: torch.Generator) -> Function:
    directions = 2.2 * torch.linalg.qr(normal_rows(d_in, d_in, rng)).Q
    phases = uniform((d_in,), -math.pi, math.pi, rng)
    return lambda x: torch.sin(x @ directions + phases).sum(-1, keepdim=True)


def _network(d_in: int, rng: torch.Generator) -> Function:
    first, shift = 2 * normal_rows(16, d_in, rng) / math.sqrt(d_in), normal_rows(1, 16, rng)[:, 0]
    second, last = normal_rows(16, 16, rng), normal_rows(1, 16, rng)
    return lambda x: torch.tanh(torch.tanh(x @ first + shift) @ second + shift) @ last


def _unlearnable(d_in: int, rng: torch.Generator) -> Function:
    direction = 1e5 * normal_rows(1, d_in, rng)
    return lambda x: torch.sin(x @ direction)


_GENERIC: dict[str, Callable[[int, torch.Generator], Function]] = {
    "cubic": _cubic,
    "network": _network,
    "sines": _sines,
    "noise": _unlearnable,
}
