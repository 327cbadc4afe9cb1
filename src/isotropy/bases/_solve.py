"""From a representation to the basis of its symmetric vectors, by the best solver at hand."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal, get_args

from isotropy.bases._basis import Basis
from isotropy.bases._blocks import axes_of, solve_blocks
from isotropy.bases._cache import BasisCache
from isotropy.bases._dense import solve_dense
from isotropy.bases._orbits import is_solvable_by_orbits, solve_orbits
from isotropy.reps import Product, Rep, Symmetry
from isotropy.reps._leaves import Vector

Method = Literal["auto", "orbits", "dense"]

_SOLVERS: dict[str, Callable[[Rep], Basis]] = {"orbits": solve_orbits, "dense": solve_dense}
_CACHE = BasisCache()


def equivariant_basis(
    rep: Rep | Symmetry, *, method: Method = "auto", cache: bool | BasisCache = True
) -> Basis:
    """The basis of all vectors that a representation's group leaves as they are.

    For ``rep_in >> rep_out`` these are the equivariant linear maps. Sums are split into blocks
    and each distinct block is solved once: by orbits where the generators act by permutations
    up to signs, by a dense decomposition elsewhere.

    Args:
        rep: A representation bound to its group, or a symmetry (for its linear maps).
        method: "auto", or one solver for all blocks.
        cache: Whether to look up and keep answers; or a cache of your own.

    Raises:
        ValueError: If the representation has no group yet, the method cannot solve it, or
            memory does not suffice.

    Example:
        >>> from isotropy.groups import S
        >>> from isotropy.reps import V
        >>> basis = equivariant_basis((V >> V)(S(5)))  # deep sets: 1 and the all-ones matrix
        >>> basis.rank, basis.method
        (2, 'orbits')
    """
    if isinstance(rep, Symmetry):
        rep = rep.maps
    if not isinstance(rep, Rep):
        raise TypeError(f"expected a representation or a symmetry, got {type(rep).__name__}")
    if method not in get_args(Method):
        raise ValueError(f"expected a method among {', '.join(get_args(Method))}, got {method!r}")
    if not rep.is_bound:
        raise ValueError(f"expected a representation with its group, got {rep}; write rep(G)")
    store = _CACHE if cache is True else (cache or None)
    return _solve(rep, method, store)


def _solve(rep: Rep, method: Method, cache: BasisCache | None) -> Basis:
    axes = axes_of(rep)
    if not all(axis.is_simple for axis in axes):
        return solve_blocks(rep, axes, lambda part: _solve(part, method, cache))
    plain = _without_duals(rep)
    solver = _choose(plain) if method == "auto" else method
    found = None if cache is None else cache.get(plain, solver)
    if found is None:
        start = time.perf_counter()
        found = _SOLVERS[solver](plain)
        if cache is not None:
            cache.put(found, solver, time.perf_counter() - start)
    return found.of(rep)


def _choose(rep: Rep) -> str:
    return "orbits" if is_solvable_by_orbits(rep) else "dense"


def _without_duals(rep: Rep) -> Rep:
    """The same action with V* written as V where the group is orthogonal and they agree."""
    if isinstance(rep, Vector) and rep.dual and rep._bound_group().is_orthogonal:
        return rep.T
    if isinstance(rep, Product):
        return Product.of([_without_duals(factor) for factor in rep.factors])
    return rep
