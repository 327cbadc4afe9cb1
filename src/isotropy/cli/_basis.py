"""``isotropy basis``: what commutes with a group."""

import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from isotropy.cli._options import check_picture
from isotropy.cli._verbs import Answer, CommonOptions, verb


class Method(StrEnum):
    """How to solve for a basis."""

    auto = "auto"
    orbits = "orbits"
    zero_weight = "zero-weight"
    invariant_theory = "invariant-theory"
    krylov = "krylov"
    dense = "dense"


@verb("basis")
def basis(
    common: CommonOptions,
    group: Annotated[str, Argument(metavar="GROUP", help='A group: "S(5)", "Z(8)*Z(8)", "SO(3)".')],
    rep: Annotated[str, Argument(metavar="REP", help='How it acts: "V>>V", "T(4)", "2*V+Scalar".')],
    method: Annotated[Method, Option(help="How to solve.")] = Method.auto,
    plot: Annotated[
        Path | None, Option(metavar="OUT.PNG", help="Draw the basis into this file.")
    ] = None,
    no_cache: Annotated[
        bool, Option("--no-cache", help="Solve anew, and keep nothing on disk.")
    ] = False,
) -> Answer:
    """Solve for the vectors, or linear maps, that commute with a group."""
    if plot is not None:
        check_picture(plot)

    from isotropy.bases import equivariant_basis
    from isotropy.groups import parse_group
    from isotropy.reps import parse_rep

    symmetry = parse_group(group)
    acting = parse_rep(rep)(symmetry)
    if plot is not None:
        from isotropy.report._basis_picture import matrix_shape

        matrix_shape(acting)  # refuses what is too large to draw before it is solved
    with common.progress("solving") as progress:
        start = time.perf_counter()
        solved = equivariant_basis(
            acting, method=method.value, cache=not no_cache, progress=progress
        )
        seconds = time.perf_counter() - start
    data: dict[str, Any] = {
        "group": str(symmetry),
        "rep": rep.strip(),  # as it was asked: V>>V and T(1,1) are one representation
        "dim": solved.size,
        "rank": solved.rank,
        "method": solved.method,
        "seconds": seconds,
        "residual": solved.residual(),
    }
    if plot is not None:
        from isotropy.report import plot_basis

        plot_basis(solved, plot)
        data["plot"] = str(plot)
    rounded = {"seconds": f"{seconds:.3g}", "residual": f"{data['residual']:.1e}"}
    return Answer(data, str(Answer({**data, **rounded})))
