"""Functions with a known Lie algebra of symmetries, and functions with none: what a finder faces.

The algebra of a problem is complete within its class of actions: every A of the class with
⟨∇f(x), A x⟩ = 0, or Df(x) A x = B f(x) for outputs that transform, is in it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import pad

from isotropy._run import generator as make_generator
from isotropy.data._task import require_count
from isotropy.groups import SE, SL, SO, SU, Group, SO11p, SO13p, SOpq, Sp, U

Output = Literal["invariant", "vector", "matrix"]
Draw = Callable[[int, torch.Generator], Tensor]
Function = Callable[[Tensor], Tensor]

_MARGIN = 0.05  # of the variance: what a claim of symmetry may cost
_SCALE_ROWS = 4096  # rows on which the size of a function is measured


@dataclass(frozen=True, eq=False)
class PlantedProblem:
    """A function, its inputs, and all of its symmetries in one class of actions.

    Args:
        name: A short name.
        d_in: The width of inputs.
        d_out: The width of outputs.
        blocks: ``None`` for one A on all of R^n; k for the same A on k consecutive blocks.
        affine: Whether the class has translations; matrices are then homogeneous.
        output: How outputs move: not at all, as ``"vector"`` by B = A, as ``"matrix"`` by
            B = A⊗1 + 1⊗A.
        algebra: A basis of the symmetries, shape (D, d, d), with d the width of a block, and one
            more where the class is affine.
        title: How the name of the group begins; empty where there is none.
        holds: Whether the symmetry is there to be claimed: exactly, or at less cost than 5 % of
            the variance.
        broken: The size of the term that breaks it, relative to the function.
        standard: Whether the basis is the textbook's, so that exact generators can be compared.
        draw_inputs: (n, generator) ↦ inputs.
        function: The target on inputs of shape (*, d_in), giving (*, d_out).

    Example:
        >>> problem = planted_problems()["so13-two"]
        >>> problem.title, tuple(problem.algebra.shape), problem.blocks
        ('SO⁺(1,3)', (6, 4, 4), 2)
        >>> x = problem.sample(5, generator=0)
        >>> tuple(x.shape), tuple(problem.target(x).shape)
        ((5, 8), (5, 1))
    """

    name: str
    d_in: int
    d_out: int
    blocks: int | None
    affine: bool
    output: Output
    algebra: Tensor = field(repr=False)
    title: str
    holds: bool
    broken: float
    standard: bool
    draw_inputs: Draw = field(repr=False)
    function: Function = field(repr=False)

    @property
    def width(self) -> int:
        """The width of a block."""
        return self.d_in // (self.blocks or 1)

    def sample(self, n: int, generator: torch.Generator | int | None = None) -> Tensor:
        """Inputs, float64 of shape (n, d_in).

        Raises:
            ValueError: If ``n`` is not a positive integer.
        """
        require_count(n, "rows")
        return self.draw_inputs(n, make_generator(generator))

    def target(self, x: Tensor) -> Tensor:
        """The exact outputs, shape (*, d_out).

        Raises:
            ValueError: If the width of the inputs is another.
        """
        if x.ndim == 0 or x.shape[-1] != self.d_in:
            raise ValueError(
                f"expected inputs of width {self.d_in} for {self.name}, got {tuple(x.shape)}"
            )
        return self.function(x)

    def moved_inputs(self, g: Tensor, x: Tensor) -> Tensor:
        """Inputs moved by group elements of shape (*, d, d), one for each row or one for all."""
        d = self.width
        at: Tensor = x.unflatten(-1, (-1, d)) @ g[..., :d, :d].mT
        if self.affine:
            at = at + g[..., None, :d, d]
        return at.flatten(-2)

    def moved_outputs(self, g: Tensor, y: Tensor) -> Tensor:
        """Outputs moved by the same elements."""
        if self.output == "vector":
            return (g @ y.unsqueeze(-1)).squeeze(-1)
        if self.output == "matrix":
            y = g @ y.unflatten(-1, (self.width, self.width)) @ g.mT
            return y.flatten(-2)
        return y


def planted_problems() -> dict[str, PlantedProblem]:
    """Problems with a symmetry, by name.

    Example:
        >>> problems = planted_problems()
        >>> len(problems), all(problem.holds for problem in problems.values())
        (31, True)
    """
    problems = [*_rotations(), *_pseudorotations(), *_classical(), *_motions(), *_equivariant()]
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
        (22, False)
    """
    problems = planted_problems()
    nulls = [broken(problems[name], strength) for name, strength in _BREAKINGS.items()]
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


# --- inputs --------------------------------------------------------------------------------------


def _normal(width: int, n: int, rng: torch.Generator) -> Tensor:
    return torch.randn(n, width, dtype=torch.float64, generator=rng)


def _uniform(shape: tuple[int, ...], low: float, high: float, rng: torch.Generator) -> Tensor:
    return low + (high - low) * torch.rand(shape, dtype=torch.float64, generator=rng)


def _time_like(vectors: int, n: int, rng: torch.Generator) -> Tensor:
    """Momenta (E, p) with normal p and masses that differ from row to row."""
    momentum = torch.randn(n, vectors, 3, dtype=torch.float64, generator=rng)
    mass = _uniform((n, vectors, 1), 0.5, 2.0, rng)
    energy = (mass.square() + momentum.square().sum(-1, keepdim=True)).sqrt()
    return torch.cat([energy, momentum], -1).flatten(1)


def _over_positive(n: int, rng: torch.Generator) -> Tensor:
    """Two normal numbers, and a third that may divide them."""
    return torch.cat([_normal(2, n, rng), _uniform((n, 1), 0.7, 2.1, rng)], 1)


def _shells(vectors: int, width: int, n: int, rng: torch.Generator) -> Tensor:
    """Vectors of every direction, of lengths between 1 and 2."""
    at = torch.randn(n, vectors, width, dtype=torch.float64, generator=rng)
    length = _uniform((n, vectors, 1), 1.0, 2.0, rng)
    return (length * torch.nn.functional.normalize(at, dim=-1)).flatten(1)


# --- problems ------------------------------------------------------------------------------------


def _planted(
    name: str,
    title: str,
    algebra: Tensor,
    function: Function,
    blocks: int | None = None,
    *,
    draw: Draw | None = None,
    affine: bool = False,
    output: Output = "invariant",
) -> PlantedProblem:
    """A problem whose function is written on blocks (*, k, d), and gives (*) or (*, d_out)."""
    width = algebra.shape[-1] - affine
    d_in = width * (blocks or 1)

    def on_rows(x: Tensor) -> Tensor:
        y = function(x.unflatten(-1, (blocks or 1, width)))
        return y.unsqueeze(-1) if output == "invariant" else y

    return PlantedProblem(
        name=name,
        d_in=d_in,
        d_out={"invariant": 1, "vector": width, "matrix": width**2}[output],
        blocks=blocks,
        affine=affine,
        output=output,
        algebra=algebra,
        title=title,
        holds=True,
        broken=0.0,
        standard=True,
        draw_inputs=draw or partial(_normal, d_in),
        function=on_rows,
    )


def _hidden(problem: PlantedProblem, seed: int, *, move_inputs: bool) -> PlantedProblem:
    """The problem in a random basis of condition number at most 4."""
    rng = make_generator(seed)
    d = problem.width
    left, right = (torch.linalg.qr(_normal(d, d, rng)).Q for _ in range(2))
    change = left @ torch.diag(2 ** _uniform((d,), -1.0, 1.0, rng)) @ right
    inverse = torch.linalg.inv(change)

    def draw(n: int, generator: torch.Generator) -> Tensor:
        x = problem.draw_inputs(n, generator)
        return problem.moved_inputs(change, x) if move_inputs else x

    return replace(
        problem,
        name=f"{problem.name}-hidden",
        algebra=change @ problem.algebra @ inverse,
        standard=False,
        draw_inputs=draw,
        function=lambda x: problem.function(problem.moved_inputs(inverse, x)),
    )


def _algebra(group: Group) -> Tensor:
    return torch.stack([a.dense() for a in group.algebra])


def _as_real(matrices: Tensor) -> Tensor:
    """Complex matrices on (Re z, Im z)."""
    a, b = matrices.real, matrices.imag
    return torch.cat([torch.cat([a, -b], -1), torch.cat([b, a], -1)], -2)


def _scaling(*weights: float) -> Tensor:
    return torch.diag(torch.tensor(weights, dtype=torch.float64))[None]


def _dot(u: Tensor, v: Tensor) -> Tensor:
    return (u * v).sum(-1)


def _wedge(u: Tensor, v: Tensor) -> Tensor:
    """The determinant of two vectors of the plane."""
    return u[..., 0] * v[..., 1] - u[..., 1] * v[..., 0]


def _minkowski(u: Tensor, v: Tensor) -> Tensor:
    return u[..., 0] * v[..., 0] - _dot(u[..., 1:], v[..., 1:])


def _symplectic(u: Tensor, v: Tensor) -> Tensor:
    """The symplectic form of R⁴, and the imaginary part of ⟨u, v⟩ for spinors (Re z, Im z)."""
    return _dot(u[..., :2], v[..., 2:]) - _dot(u[..., 2:], v[..., :2])


def _rotations() -> list[PlantedProblem]:
    def logarithm(x: Tensor) -> Tensor:
        return torch.log1p(x[..., 0, :].square().sum(-1))

    def polynomial(x: Tensor) -> Tensor:
        r2 = x[..., 0, :].square().sum(-1)
        return r2 - r2.square() / (5 * x.shape[-1])

    def two(x: Tensor) -> Tensor:
        u, v = x.unbind(-2)
        return (1 + _dot(u, u)).sqrt() + torch.tanh(_dot(u, v) / x.shape[-1])

    def about_z(x: Tensor) -> Tensor:
        u, v = x.unbind(-2)
        flat = _dot(u[..., :2], v[..., :2]) + _wedge(u, v) * u[..., 2] / 2
        return flat + torch.sin(v[..., 2]) - u[..., 2] * v[..., 2] / 2

    def side_by_side(x: Tensor) -> Tensor:
        a, b = x[..., 0, :3].square().sum(-1), x[..., 0, 3:].square().sum(-1)
        return torch.log1p(a) + torch.sin(b / 2) + a * b / 8

    so2, so3 = _algebra(SO(2)), _algebra(SO(3))
    both = torch.cat([pad(so3, (0, 2, 0, 2)), pad(so2, (3, 0, 3, 0))])
    one = _planted("so3", "SO(3)", so3, polynomial)
    return [
        _planted("so2", "SO(2)", so2, logarithm),
        _planted("so2-axis", "SO(2)", pad(so2, (0, 1, 0, 1)), about_z, 2),
        one,
        _hidden(one, 1, move_inputs=False),
        _planted("so3-two", "SO(3)", so3, two, 2),
        _planted("so4", "SO(4)", _algebra(SO(4)), polynomial),
        _planted("so5-two", "SO(5)", _algebra(SO(5)), two, 2),
        _planted("so3+so2", "SO(3) × SO(2)", both, side_by_side),
    ]


def _pseudorotations() -> list[PlantedProblem]:
    def mass_squared(x: Tensor) -> Tensor:
        total = x.sum(-2)
        return _minkowski(total, total)

    def mass(x: Tensor) -> Tensor:
        return mass_squared(x).sqrt()

    def four(x: Tensor) -> Tensor:
        p, q, r, s = x.unbind(-2)
        return _minkowski(p, q) + 2 * _minkowski(r, s) - _minkowski(p, s)

    lorentz = _algebra(SO13p())
    so13 = _planted("so13", "SO⁺(1,3)", lorentz, mass, draw=partial(_time_like, 1))
    pairs = partial(_time_like, 2)
    # time is the last coordinate of SOpq(2,1)
    so21 = _planted(
        "so21", "SO⁺(1,2)", _algebra(SOpq(2, 1)), lambda x: torch.asinh(-mass_squared(x.flip(-1)))
    )
    return [
        _planted("so11", "SO⁺(1,1)", _algebra(SO11p()), lambda x: torch.tanh(mass_squared(x) / 2)),
        so21,
        _hidden(so21, 2, move_inputs=False),
        so13,
        _hidden(so13, 3, move_inputs=True),
        _planted("so13-two", "SO⁺(1,3)", lorentz, mass_squared, 2, draw=pairs),
        _planted("so13-two-mass", "SO⁺(1,3)", lorentz, mass, 2, draw=pairs),
        _planted("so13-four", "SO⁺(1,3)", lorentz, four, 4, draw=partial(_time_like, 4)),
    ]


def _classical() -> list[PlantedProblem]:
    def unitary(x: Tensor) -> Tensor:
        u, v = x.unbind(-2)
        return _dot(u, u) / 2 + _symplectic(u, v) + torch.sin(_dot(u, v) / 2)

    def special_unitary(x: Tensor) -> Tensor:
        u, v = x.unbind(-2)
        determinant = _wedge(u[..., :2], v[..., :2]) - _wedge(u[..., 2:], v[..., 2:])
        return _dot(u, u) / 2 + _symplectic(u, v) + determinant.square() / 3

    def symplectic(x: Tensor) -> Tensor:
        u, v, w = x.unbind(-2)
        return _symplectic(u, v) + _symplectic(v, w) / 2 + torch.sin(_symplectic(u, w) / 2)

    def areas(x: Tensor) -> Tensor:
        u, v, w = x.unbind(-2)
        return _wedge(u, v) + _wedge(v, w) * _wedge(u, w) / 2

    return [
        _planted("su2-two", "SU(2)", _as_real(_algebra(SU(2))), special_unitary, 2),
        _planted("u2-two", "U(2)", _as_real(_algebra(U(2))), unitary, 2),
        _planted("sp4-three", "Sp(4,R)", _algebra(Sp(2)), symplectic, 3),
        _planted("sl2-three", "SL(2,R)", _algebra(SL(2)), areas, 3),
        _planted("sl3-three", "SL(3,R)", _algebra(SL(3)), torch.linalg.det, 3),
    ]


def _motions() -> list[PlantedProblem]:
    def difference(x: Tensor) -> Tensor:
        a, b = (x[..., 0, :] - x[..., 1, :]).unbind(-1)
        return torch.sin(a) + a * b / 2 - b**3 / 12

    def distance(x: Tensor) -> Tensor:
        return torch.log1p((x[..., 0, :] - x[..., 1, :]).square().sum(-1))

    def ratios(x: Tensor) -> Tensor:
        a, b, c = x[..., 0, :].unbind(-1)
        return a / c + (b / c).square() / 2 - torch.sin(a * b / c.square())

    def weighted_ratios(x: Tensor) -> Tensor:
        a, b, c = x[..., 0, :].unbind(-1)
        return a.square() / c - 2 * torch.sin(a * b / c) + b / c.sqrt()

    def angle(x: Tensor) -> Tensor:
        u, v = x.unbind(-2)
        uu, vv, uv = _dot(u, u), _dot(v, v), _dot(u, v)
        return uv / (uu * vv).sqrt() + uu / (uu + vv)

    se2, shells = _algebra(SE(2)), partial(_shells, 2, 3)
    return [
        _planted("translations-two", "translations", se2[1:], difference, 2, affine=True),
        _planted("se2-two", "SO(2) ⋉ R²", se2, distance, 2, affine=True),
        _planted("scaling", "scalings", _scaling(1, 1, 1), ratios, draw=_over_positive),
        _planted(
            "scaling-weights", "scalings", _scaling(1, 1, 2), weighted_ratios, draw=_over_positive
        ),
        _planted("so3-scaling", "SO(3) × scalings", _similarities(), angle, 2, draw=shells),
    ]


def _equivariant() -> list[PlantedProblem]:
    def polar(x: Tensor) -> Tensor:
        u, v = x.unbind(-2)
        return (1 + _dot(u, u)[..., None] / 3) * v - _dot(u, v)[..., None] * u / 2

    def chiral(x: Tensor) -> Tensor:
        u, v = x.unbind(-2)
        cross: Tensor = torch.linalg.cross(u, v)
        return cross + u + _dot(u, v)[..., None] * v / 3

    def inertia(x: Tensor) -> Tensor:
        masses = x.new_tensor([1.0, 2.0, 0.5])
        moment: Tensor = torch.einsum("k,...ka,...kb->...ab", masses, x, x)
        trace = moment.diagonal(dim1=-2, dim2=-1).sum(-1)[..., None, None]
        return torch.flatten(trace * torch.eye(3).to(x) - moment, -2)

    so3 = _algebra(SO(3))
    return [
        _planted("so3-vector", "SO(3)", so3, polar, 2, output="vector"),
        _planted("so3-chiral-vector", "SO(3)", so3, chiral, 2, output="vector"),
        _planted("so3-inertia", "SO(3) × scalings", _similarities(), inertia, 3, output="matrix"),
    ]


def _similarities() -> Tensor:
    """Rotations and scalings of R³."""
    return torch.cat([_algebra(SO(3)), _scaling(1, 1, 1)])


# --- functions without a symmetry ----------------------------------------------------------------


def _ripples(d_in: int, rng: torch.Generator, *, d_out: int, like: Tensor) -> Function:
    """Sines along the axes of a random frame, less their linear part on normal numbers.

    A linear or quadratic term would break little: other rotations leave it as it is.
    """
    frame = torch.linalg.qr(_normal(d_in, d_in, rng)).Q
    mean, scale = like.mean(0), like.std(0)
    weights = _uniform((d_in, d_out), 0.8, 1.2, rng) * _normal(d_out, d_in, rng).sign()

    def function(x: Tensor) -> Tensor:
        t: Tensor = 1.5 * ((x - mean) / scale) @ frame
        return (torch.sin(t) - math.exp(-(1.5**2) / 2) * t) @ weights

    return function


def _cubic(d_in: int, rng: torch.Generator) -> Function:
    """Hermite polynomials t³ − 3t along the axes of a random frame, and a quadratic form."""
    frame, form = torch.linalg.qr(_normal(d_in, d_in, rng)).Q, _normal(d_in, d_in, rng) / d_in

    def function(x: Tensor) -> Tensor:
        t: Tensor = x @ frame
        return (t**3 - 3 * t + t * (t @ form)).sum(-1, keepdim=True)

    return function


def _sines(d_in: int, rng: torch.Generator) -> Function:
    directions = 2.2 * torch.linalg.qr(_normal(d_in, d_in, rng)).Q
    phases = _uniform((d_in,), -math.pi, math.pi, rng)
    return lambda x: torch.sin(x @ directions + phases).sum(-1, keepdim=True)


def _network(d_in: int, rng: torch.Generator) -> Function:
    first, shift = 2 * _normal(16, d_in, rng) / math.sqrt(d_in), _normal(1, 16, rng)[:, 0]
    second, last = _normal(16, 16, rng), _normal(1, 16, rng)
    return lambda x: torch.tanh(torch.tanh(x @ first + shift) @ second + shift) @ last


def _unlearnable(d_in: int, rng: torch.Generator) -> Function:
    direction = 1e5 * _normal(1, d_in, rng)
    return lambda x: torch.sin(x @ direction)


_GENERIC: dict[str, Callable[[int, torch.Generator], Function]] = {
    "cubic": _cubic,
    "network": _network,
    "sines": _sines,
    "noise": _unlearnable,
}
# width of inputs, blocks, whether affine, and a seed with which no symmetry is near
_GENERIC_CLASSES: tuple[tuple[int, int | None, bool, int], ...] = (
    (3, None, True, 15),
    (4, None, False, 14),
    (6, 2, False, 20),
)
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
        draw_inputs=partial(_normal, d_in),
        function=function,
    )
