"""What a finding in logged transitions does to observations and to actions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

if TYPE_CHECKING:
    from isotropy.discovery import Finding


def finding_blocks(finding: Finding) -> tuple[int, list[Tensor], list[Tensor]]:
    """The size n of an observation, and the matrices of generators on (s, a).

    Args:
        finding: A finding on (s, a) and s′ − s.

    Returns:
        n, the matrices of discrete generators, and those of continuous ones, each (n + m, n + m).

    Raises:
        ValueError: If it is not about transitions, mixes observations with actions, or acts about
            another point than the origin.
    """
    symmetry = finding.symmetry
    if symmetry is None or symmetry.rep_out.size() >= symmetry.rep_in.size():
        raise ValueError(
            "expected a finding of transitions, which acts on (s, a) and s′ − s, got "
            f"{finding.name!r}"
        )
    centre = getattr(finding.details, "centre", ())
    if any(centre):
        raise ValueError(
            "expected a symmetry about the origin of observations and actions, got one about "
            f"{list(centre)}: subtract that from them"
        )
    n, group = symmetry.rep_out.size(), symmetry.group
    on_both, on_increments = (
        ([rep.rho(h).dense() for h in group.discrete], [rep.drho(a).dense() for a in group.algebra])
        for rep in (symmetry.rep_in, symmetry.rep_out)
    )
    discrete, algebra = on_both
    moves = [*on_increments[0], *on_increments[1]]
    for m, moved in zip([*discrete, *algebra], moves, strict=True):
        whole = m.clone()
        whole[:n, :n] -= moved
        if bool(whole[:n].any()) or bool(m[n:, :n].any()):
            raise ValueError(
                "expected a symmetry that moves s and s′ − s equally and keeps actions apart, got "
                f"{finding.name!r}"
            )
    return n, discrete, algebra
