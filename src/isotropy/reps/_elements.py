"""The parts of a group element, or of a Lie algebra element, in the factors of a product."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from isotropy.groups import Dense, DirectProduct, Group, LinearMap
from isotropy.groups._compound import Kron, KronSum
from isotropy.groups._given import as_linear_map


def parts_of_element(group: Group | None, g: Any) -> dict[Group, LinearMap]:
    """An element of ``group`` and, for a direct product, its part in each factor."""
    if group is None:
        return {}
    element = _as_map(g, group, "an element")
    return {group: element, **_factor_parts(group, element, Kron)}


def parts_of_algebra(group: Group | None, a: Any) -> dict[Group, LinearMap]:
    """A Lie algebra element of ``group`` and, for a direct product, its part in each factor."""
    if group is None:
        return {}
    element = _as_map(a, group, "a Lie algebra element")
    return {group: element, **_factor_parts(group, element, KronSum)}


def _factor_parts(group: Group, g: LinearMap, kind: type[Kron | KronSum]) -> dict[Group, LinearMap]:
    if not isinstance(group, DirectProduct) or not isinstance(g, kind):
        return {}
    found = zip(group.factors, g.parts, strict=True)
    # a factor that occurs twice has no part of its own
    return {f: part for f, part in found if group.factors.count(f) == 1}


def _as_map(g: Any, group: Group, what: str) -> LinearMap:
    if isinstance(g, Tensor) and g.ndim > 2:
        element: LinearMap = Dense(g)
    else:
        element = as_linear_map(g, what)
    if element.size != group.d:
        raise ValueError(
            f"expected {what} of {group}, of size {group.d}, got one of size {element.size}"
        )
    return element
