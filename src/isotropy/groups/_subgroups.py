"""Whether one group is part of another."""

from __future__ import annotations

from isotropy.groups._group import Group
from isotropy.groups._products import in_span


def require_subgroup(subgroup: Group, group: Group) -> None:
    """Refuse a ``subgroup`` that is seen not to be one.

    Every generator is tested where the group can tell its elements (permutations, finite and
    classical groups); a group that cannot tell is trusted.

    Raises:
        TypeError: If it is no group.
        ValueError: If the two act on different spaces, or a generator lies outside ``group``.

    Example:
        >>> from isotropy.groups import O, SO
        >>> require_subgroup(SO(3), O(3))
        >>> require_subgroup(O(3), SO(3))
        Traceback (most recent call last):
        ...
        ValueError: expected a subgroup of SO(3), got O(3): its discrete generator 0 is outside
    """
    if not isinstance(subgroup, Group):
        raise TypeError(f"expected a group, got {type(subgroup).__name__}")
    if subgroup.d != group.d:
        raise ValueError(
            f"expected a subgroup of {group}, which acts on {group.d} dimensions, "
            f"got {subgroup} on {subgroup.d}"
        )
    if subgroup == group:
        return
    problem = f"expected a subgroup of {group}, got {subgroup}: its"
    for i, h in enumerate(subgroup.discrete):
        if group.contains(h) is False:
            raise ValueError(f"{problem} discrete generator {i} is outside")
    for i, a in enumerate(subgroup.algebra):
        if a.by_value and group.by_value and not in_span(a, group.algebra):
            raise ValueError(f"{problem} Lie algebra element {i} is outside")
