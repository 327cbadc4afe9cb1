"""From a representation to the basis of its symmetric vectors, by the best solver at hand."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal, get_args

from isotropy._run import ProgressCallback
from isotropy.bases._block_basis import axes_of, solve_blocks
from isotropy.bases._cache import BasisCache, current_cache
from isotropy.bases._change_of_basis import in_good_coordinates, solve_rebased
from isotropy.bases._dense import solve_dense, solve_krylov
from isotropy.bases._invariant_theory import solve_invariant_theory
from isotropy.bases._null_space import ranks_must_be_clear
from isotropy.bases._orbits import is_solvable_by_orbits, solve_orbits
from isotropy.bases._orthonormal_basis import Basis
from isotropy.bases._product_rules import expanded, is_kronecker, solve_kronecker, without_place
from isotropy.bases._wreath import is_solvable_by_wreath_rule, solve_wreath
from isotropy.bases._zero_weight import (
    ZeroWeightBasis,
    is_solvable_by_zero_weight,
    solve_zero_weight,
)
from isotropy.groups import Group
from isotropy.reps import Product, Rep, Symmetry
from isotropy.reps._layout import without_duals

Method = Literal["auto", "orbits", "zero-weight", "invariant-theory", "krylov", "dense"]

_SOLVERS: dict[str, Callable[[Rep], Basis]] = {
    "orbits": solve_orbits,
    "zero-weight": solve_zero_weight,
    "invariant-theory": solve_invariant_theory,
    "krylov": solve_krylov,
    "dense": solve_dense,
}
LARGEST_DENSE = 1000
# of tensors of order four in eight dimensions, the largest that a certificate can ask for
LARGEST_CLEAR = 4096
# zero-weight bases in coordinates so bad that rounding is more than this are solved otherwise
_WORST_RESIDUAL = 1e-8


def equivariant_basis(
    rep: Rep | Symmetry,
    *,
    method: Method = "auto",
    cache: bool | BasisCache = True,
    progress: ProgressCallback | None = None,
) -> Basis:
    """The basis of all vectors that a representation's group leaves as they are.

    For ``rep_in >> rep_out`` these are the equivariant linear maps. Sums are split into blocks
    and each distinct block is solved once: by orbits where the generators act by permutations
    up to signs, by a dense decomposition elsewhere.

    Args:
        rep: A representation bound to its group, or a symmetry (for its linear maps).
        method: "auto", or one solver for all blocks.
        cache: Whether to look up and keep answers; or a cache of your own.
        progress: Called before each block of a sum.

    Raises:
        TypeError: If it is neither.
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
    if cache is True:
        cache = current_cache()
    elif cache is False:
        cache = BasisCache(disk=False)  # equal blocks are solved once all the same
    return _solve(rep, method, cache, progress)


def _solve(
    rep: Rep, method: Method, cache: BasisCache, progress: ProgressCallback | None = None
) -> Basis:
    def solve(part: Rep) -> Basis:
        return _solve(part, method, cache)

    axes = axes_of(rep)
    if not all(axis.is_simple for axis in axes):
        return solve_blocks(rep, axes, solve, progress)
    plain = without_place(without_duals(rep))
    if method != "auto" and plain.groups:
        return _solve_alone(plain, method, cache).of(rep)
    if is_solvable_by_orbits(plain):
        return _solve_alone(plain, "orbits", cache).of(rep)
    if ranks_must_be_clear() and any(type(group) is Group for group in plain.groups):
        return _solve_clearly(plain, cache).of(rep)
    through_parts = expanded(plain)
    if through_parts != plain:
        return solve(through_parts).of(rep)
    if is_kronecker(plain):
        assert isinstance(plain, Product)
        return solve_kronecker(plain, solve).of(rep)
    good = in_good_coordinates(plain)
    if good is not None:
        return solve_rebased(plain, *good, solve).of(rep)
    if is_solvable_by_wreath_rule(plain):
        return solve_wreath(plain, solve).of(rep)
    return _solve_any(plain, cache).of(rep)


def _solve_clearly(rep: Rep, cache: BasisCache) -> Basis:
    """Matrices of anyone's choice: by the plainest solver, so that others can follow its rank."""
    if rep.size() > LARGEST_CLEAR:
        raise ValueError(
            f"expected at most {LARGEST_CLEAR} dimensions of a group given by generators, got "
            f"{rep.size()}"
        )
    return _solve_alone(rep, "dense", cache)


def _solve_any(rep: Rep, cache: BasisCache) -> Basis:
    if is_solvable_by_zero_weight(rep):
        found = _solve_alone(rep, "zero-weight", cache)
        assert isinstance(found, ZeroWeightBasis)
        if found.is_unitary or found.residual() <= _WORST_RESIDUAL:
            return found
    return _solve_alone(rep, "dense" if rep.size() <= LARGEST_DENSE else "krylov", cache)


def _solve_alone(rep: Rep, solver: str, cache: BasisCache) -> Basis:
    found = cache.get(rep, solver)
    if found is None:
        start = time.perf_counter()
        found = _SOLVERS[solver](rep)
        cache.put(found, solver, time.perf_counter() - start)
    return found
