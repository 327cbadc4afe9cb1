"""Functions whose symmetry is exact, with the groups they have it from, some in a hidden basis."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import pad

from isotropy.groups import SE, SL, SO, SU, Group, SO11p, SO13p, SOpq, Sp, U
from isotropy.run import generator as make_generator
from isotropy_papers._planted_inputs import normal_rows, over_positive, shells, time_like, uniform
from isotropy_papers._planted_problem import Draw, Function, Output, PlantedProblem


def symmetric_problems() -> list[PlantedProblem]:
    """Functions whose symmetry is exact."""
    return [*_rotations(), *_pseudorotations(), *_classical(), *_motions(), *_equivariant()]


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
    so13 = _planted("so13", "SO⁺(1,3)", lorentz, mass, draw=partial(time_like, 1))
    pairs = partial(time_like, 2)
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
        _planted("so13-four", "SO⁺(1,3)", lorentz, four, 4, draw=partial(time_like, 4)),
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

    se2 = _algebra(SE(2))
    return [
        _planted("translations-two", "translations", se2[1:], difference, 2, affine=True),
        _planted("se2-two", "SO(2) ⋉ R²", se2, distance, 2, affine=True),
        _planted("scaling", "scalings", _scaling(1, 1, 1), ratios, draw=over_positive),
        _planted(
            "scaling-weights", "scalings", _scaling(1, 1, 2), weighted_ratios, draw=over_positive
        ),
        _planted(
            "so3-scaling", "SO(3) × scalings", _similarities(), angle, 2, draw=partial(shells, 2, 3)
        ),
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


# --- how a problem is put together --------------------------------------------------------------


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
        draw_inputs=draw or partial(normal_rows, d_in),
        function=on_rows,
    )


def _hidden(problem: PlantedProblem, seed: int, *, move_inputs: bool) -> PlantedProblem:
    """The problem in a random basis of condition number at most 4."""
    rng = make_generator(seed)
    d = problem.width
    left, right = (torch.linalg.qr(normal_rows(d, d, rng)).Q for _ in range(2))
    change = left @ torch.diag(2 ** uniform((d,), -1.0, 1.0, rng)) @ right
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


# --- algebras ----------------------------------------------------------------------------------


def _algebra(group: Group) -> Tensor:
    return torch.stack([a.dense() for a in group.algebra])


def _as_real(matrices: Tensor) -> Tensor:
    """Complex matrices on (Re z, Im z)."""
    a, b = matrices.real, matrices.imag
    return torch.cat([torch.cat([a, -b], -1), torch.cat([b, a], -1)], -2)


def _scaling(*weights: float) -> Tensor:
    return torch.diag(torch.tensor(weights, dtype=torch.float64))[None]


def _similarities() -> Tensor:
    """Rotations and scalings of R³."""
    return torch.cat([_algebra(SO(3)), _scaling(1, 1, 1)])


# --- invariants --------------------------------------------------------------------------------


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
