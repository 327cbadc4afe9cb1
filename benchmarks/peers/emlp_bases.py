"""The side of emlp (Finzi, Welling & Wilson 2021) in ``bases.py``, one row a process.

It solves in float32, its default. The residual is taken in float64 with its own generators, so
that the probe adds no rounding of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import numpy as np
from emlp import groups, reps
from emlp.groups import Group
from emlp.reps import Rep
from measure import relative_residual, solve_twice

_PROBES = 2


class Problem(NamedTuple):
    """A representation and its group; sums of representations do not know theirs."""

    group: Group
    rep: Rep


def build(group: str, rep: str) -> Problem:
    """Read the texts of our own table, which happen to be Python in emlp's names."""
    acting = eval(group, vars(groups))
    return Problem(acting, eval(rep, vars(reps))(acting))


def solve(problem: Problem) -> Any:
    """A basis from scratch; jax answers before it is done, so wait for all it has started."""
    Rep.solcache.clear()
    np.random.seed(0)  # noqa: NPY002 - emlp draws its first guess from this one
    basis = problem.rep.equivariant_basis()
    jax.block_until_ready([basis, *Rep.solcache.values()])
    return basis


def describe(problem: Problem, basis: Any) -> dict[str, object]:
    size, rank = basis.shape
    with jax.enable_x64(True):
        residual = relative_residual(_errors(problem, basis)) if rank else 0.0
    return {"size": size, "rank": rank, "residual": residual}


def _errors(problem: Problem, basis: Any) -> Iterator[tuple[float, float]]:
    """How far each constraint moves the basis, and how far it moves anything."""
    rng = np.random.default_rng(0)
    size, rank = basis.shape
    v = np.asarray(basis @ rng.standard_normal((rank, _PROBES)))
    x = rng.standard_normal((size, _PROBES))
    for h in problem.group.discrete_generators:
        rho = problem.rep.rho(h)
        yield _relative(rho @ v - v, v), _relative(rho @ x - x, x)
    for a in problem.group.lie_algebra:
        drho = problem.rep.drho(a)
        yield _relative(drho @ v, v), _relative(drho @ x, x)


def _relative(moved: Any, v: np.ndarray) -> float:
    return float(np.linalg.norm(np.asarray(moved)) / np.linalg.norm(v))


if __name__ == "__main__":
    solve_twice(build, solve, describe)
