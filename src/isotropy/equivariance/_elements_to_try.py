"""Which group elements to try: all of a small group, else generators and random ones."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from isotropy.groups import Dense, DirectProduct, Group, LinearMap, Monomial, Operator
from isotropy.groups._compound import BlockDiagonal, Chain, Kron
from isotropy.reps import Symmetry
from isotropy.reps._elements import parts_of_element

_ROUNDS = 24
_ROUNDS_AT_FULL_SIZE = 8
_LARGEST_DENSE = 512

_Maps = tuple[LinearMap, LinearMap]


def elements_to_try(
    symmetry: Symmetry, samples: int, rng: torch.Generator, max_condition: float
) -> Iterator[tuple[str, _Maps]]:
    """Elements to test, each with a description, as maps of inputs and of outputs."""
    group = symmetry.group
    listed = all_elements(group, samples)
    if listed is not None:
        first = 0 if len(listed) == 1 else 1  # the identity, which comes first, shows nothing
        for i in range(first, len(listed)):
            yield f"element {i} of {len(listed)}", _maps(symmetry, listed.select(i))
        return
    for i, h in enumerate(group.discrete):
        maps = _maps(symmetry, h)
        condition = float(_condition(maps))
        if condition > max_condition:
            raise ValueError(
                f"expected generators with a condition number of at most {max_condition:g}, got "
                f"{condition:.3g} for discrete generator {i} of {group!s:.80}; raise max_condition"
            )
        yield f"discrete generator {i}", maps
    if group.is_discrete and not group.by_value:
        return  # opaque operators cannot be sampled, but they generate
    found, smallest = 0, math.inf
    for round_ in range(_ROUNDS):
        drawn = _draw(group, samples, max(0, round_ + 1 - _ROUNDS_AT_FULL_SIZE), rng)
        conditions = _condition(_maps(symmetry, drawn)).expand(samples)
        smallest = min(smallest, float(conditions.min()))
        for i in (conditions <= max_condition).nonzero().flatten().tolist():
            yield f"random element {found}", _maps(symmetry, drawn.select(i))
            found += 1
            if found == samples:
                return
    if not found:
        raise ValueError(
            f"expected elements of {group!s:.80} with a condition number of at most "
            f"{max_condition:g}, got none below {smallest:.3g}; raise max_condition"
        )


def _maps(symmetry: Symmetry, g: LinearMap) -> _Maps:
    parts = parts_of_element(symmetry.group, g)
    return symmetry.rep_in._rho(parts), symmetry.rep_out._rho(parts)


def all_elements(group: Group, most: int) -> LinearMap | None:
    """All elements of a group that has at most ``most``, the identity first; else None.

    Those of a direct product keep their factors apart, as representations of one factor need
    them; ``group.elements()`` multiplies them out.

    Args:
        group: The group.
        most: The largest number of elements to list.

    Example:
        >>> from isotropy.groups import S, Z
        >>> len(all_elements(S(3) * Z(2), 12)), all_elements(S(3) * Z(2), 11)
        (12, None)
    """
    if not group.is_discrete or not group.by_value:
        return None
    if isinstance(group, DirectProduct):
        factors = [all_elements(factor, most) for factor in group.factors]
        known = [factor for factor in factors if factor is not None]
        if len(known) < len(factors) or math.prod(map(len, known)) > most:
            return None
        places = torch.cartesian_prod(*(torch.arange(len(factor)) for factor in known))
        return Kron(tuple(f.select(at) for f, at in zip(known, places.T, strict=True)))
    try:
        return group.elements() if group.order() <= most else None
    except ValueError:  # infinite, or too many to list
        return None


def _draw(group: Group, n: int, halvings: int, rng: torch.Generator) -> LinearMap:
    """Random elements; with ``halvings``, nearer and nearer to the identity."""
    if not halvings or group.is_unitary or not group.algebra:
        return group.sample(n, generator=rng)
    if isinstance(group, DirectProduct):
        return Kron(tuple(_draw(factor, n, halvings, rng) for factor in group.factors))
    basis = torch.stack([a.dense() / a.dense().norm() for a in group.algebra])
    weights = torch.randn(n, len(basis), dtype=torch.float64, generator=rng) * 0.5**halvings
    weights = (weights / len(basis) ** 0.5).to(basis.dtype)
    return Dense(torch.linalg.matrix_exp(torch.einsum("ni,iab->nab", weights, basis)))


def _condition(maps: _Maps) -> Tensor:
    """The larger of the condition numbers of the two actions, for each element."""
    (a, b), (c, d) = _singular_range(maps[0]), _singular_range(maps[1])
    return torch.maximum(a / b, c / d)


def _singular_range(m: LinearMap) -> tuple[Tensor, Tensor]:
    """The largest and the smallest singular value; bounds for large compositions."""
    one = torch.ones((), dtype=torch.float64)
    if isinstance(m, Monomial | Operator) or m.is_monomial:
        return one, one
    if isinstance(m, Kron | BlockDiagonal) or (isinstance(m, Chain) and m.size > _LARGEST_DENSE):
        ranges = [_singular_range(part) for part in m.parts]
        largest, smallest = one, one
        for at, (high, low) in enumerate(ranges):
            if not isinstance(m, BlockDiagonal):
                largest, smallest = largest * high, smallest * low
            elif at == 0:
                largest, smallest = high, low
            else:
                largest, smallest = torch.maximum(largest, high), torch.minimum(smallest, low)
        return largest, smallest
    values: Any = torch.linalg.svdvals(m.dense())
    return values[..., 0], values[..., -1]
