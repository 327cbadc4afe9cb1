"""Our side of ``bases.py``, one row a process."""

from __future__ import annotations

import scipy.sparse.csgraph  # noqa: F401 - with the next, loaded at first use: imports are not timed
import torch.fx.experimental.symbolic_shapes  # noqa: F401
from measure import solve_twice

from isotropy import Basis, Rep, equivariant_basis, parse_group, parse_rep


def build(group: str, rep: str) -> Rep:
    return parse_rep(rep)(parse_group(group))


def solve(rep: Rep) -> Basis:
    return equivariant_basis(rep, cache=False)


def describe(rep: Rep, basis: Basis) -> dict[str, object]:
    return {
        "size": rep.size(),
        "rank": basis.rank,
        "residual": basis.residual(),
        "solver": basis.method,
    }


if __name__ == "__main__":
    solve_twice(build, solve, describe)
