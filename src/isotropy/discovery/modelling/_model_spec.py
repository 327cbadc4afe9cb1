"""The description of a model in a file: which kinds there are, and what each is made with.

A description is plain data. It names nothing that could be imported or called: a kind, a group and
a transformation are words of a list, and every number has a limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isotropy._run import amount
from isotropy._run._json import shown
from isotropy._run._json_fields import (
    Field,
    Misfit,
    array,
    either,
    flag,
    number,
    one_of,
    or_null,
    record,
    row,
    several,
    text,
    whole,
    within,
)
from isotropy.bases._orbits import is_signed
from isotropy.discovery.predictors._image_network import DEPTH
from isotropy.groups import GRID_TRANSFORMATIONS, DirectProduct, Group
from isotropy.groups._group_limits import bounded_reader, count_elements, weigh_group
from isotropy.nn._uniform_rep import uniform_rep
from isotropy.reps import Rep, Symmetry
from isotropy.reps._layout import layout_of, without_duals
from isotropy.reps._symmetry_limits import bounded_rep, bounded_symmetry

MOST_CHANNELS = 400  # of an EMLP; the cost of finding its weights grows with a high power of it
_SYMMETRY_LETTERS = 2**20
_LAYERS = whole(1, 8)
_WIDTH = whole(1, 2**24)
_SIDE = whole(1, 4096)
_IMAGE = row(whole(1, 4096), _SIDE, _SIDE)
# models around another one, each of them once
_AROUND = ("standardised", "homogeneous", "translated", "soft", "symmetrised")
_SOFTENED = ("emlp", "linear", "shared linear")

_NEEDED: dict[str, Mapping[str, Field]] = {
    "emlp": {
        "channels": either(
            "a number of channels or a representation",
            whole=whole(1, MOST_CHANNELS),
            text=text(10_000, 1),
        ),
        "layers": _LAYERS,
    },
    "linear": {},
    "shared linear": {},
    "mlp": {"inputs": _WIDTH, "outputs": _WIDTH, "channels": _WIDTH, "layers": _LAYERS},
    "symmetrised": {},
    "standardised": {},
    "homogeneous": {
        "symmetry": text(_SYMMETRY_LETTERS),
        "columns": several(whole(0, 2**24), 100_000),
        "degree": number(-100, 100),
    },
    "translated": {"symmetry": or_null(text(_SYMMETRY_LETTERS)), "along": array((2,), 2_000_000)},
    "soft": {"variances": row(number(0), number(0))},
    "image network": {
        "image": _IMAGE,
        "outputs": _WIDTH,
        "paths": several(several(one_of(("factored", "conv", "group_conv")), 3, 1), DEPTH, DEPTH),
    },
    "grid network": {
        "image": _IMAGE,
        "outputs": whole(1, 2**16),
        "groups": several(one_of(tuple(GRID_TRANSFORMATIONS)), len(GRID_TRANSFORMATIONS)),
        "hidden": several(whole(1, 64), 4, 1),
    },
}
_KNOWN: dict[str, Mapping[str, Field]] = {
    "emlp": {"bilinear": flag, "nonlinearity": one_of(("gated", "norm"))},
    "linear": {"bias": flag},
    "shared linear": {"bias": flag},
    "symmetrised": {"elements": whole(1, 1024), "seed": whole(0, 2**63 - 1)},
    "image network": {
        "alpha": whole(1, 256),
        "group": one_of(("p4", "p4m")),
        "maps": flag,
        "averaged": several(one_of(("turn", "half turn", "left-right", "top-bottom", "phases")), 5),
    },
}


def model_spec(value: Any) -> dict[str, Any]:
    """A description that ``build_model`` takes, as it was given.

    Raises:
        Misfit: If it names no such model, or something in it is not of its type and size.

    Example:
        >>> spec = {"kind": "mlp", "inputs": 3, "outputs": 1, "channels": 8, "layers": 2}
        >>> model_spec(spec) == spec
        True
        >>> model_spec({**spec, "layers": 10**9})
        Traceback (most recent call last):
        ...
        isotropy._run._json_fields.Misfit: expected a whole number from 1 to 8 as layers, \
got 1000000000
    """
    return _described(value, ())


def innermost(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """The description of the network inside all that is around it.

    Example:
        >>> innermost({"kind": "standardised", "model": {"kind": "linear"}})
        {'kind': 'linear'}
    """
    while "model" in spec:
        spec = spec["model"]
    return spec


def _described(value: Any, around: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Misfit("the description of a model", shown(value))
    kind = within("kind", one_of(tuple(_NEEDED)), value.get("kind"))
    if kind in around:
        raise Misfit(f"a model of kind {kind!r} once", "one within another")
    if around[-1:] == ("soft",) and kind not in _SOFTENED:
        raise Misfit(f"a model of kind {', '.join(map(repr, _SOFTENED))} to soften", repr(kind))
    needed: dict[str, Field] = {"kind": one_of((kind,)), **_NEEDED[kind]}
    if kind in _AROUND:
        needed["model"] = lambda inner: _described(inner, (*around, kind))
    record(needed, _KNOWN.get(kind, {}))(value)
    return value


# measured on one core: at each of these limits building takes up to ten seconds and 1 GB
_WEIGHTS = 2**23  # entries of all matrices of a network
_MOVED = 2**27  # of groups that permute: entries times generators, for each moves all of them
# of groups that do not permute: squares of the unknowns of each equation, together, for each may
# have as many solutions; and unknowns times generators
_SOLUTIONS, _EQUATIONS = 2**23, 2**21
_LISTED = 1024  # elements of a group to average over
_AVERAGED = 2**26  # numbers of all elements


def require_modest(
    spec: Mapping[str, Any], symmetry: Symmetry | None, labels: NDArray[np.int64] | None
) -> None:
    """Refuse the description of a model that would take long, or much memory, to build.

    Args:
        spec: A description, checked by ``model_spec``.
        symmetry: That of the finding.
        labels: Which weights of a ``"shared linear"`` one are equal.

    Raises:
        ValueError: If it is too large, or an action that it names does not fit.

    Example:
        >>> from isotropy.groups import S
        >>> from isotropy.reps import Scalar, V
        >>> require_modest({"kind": "linear"}, Symmetry(S(9000), V, V), None)
        Traceback (most recent call last):
        ...
        ValueError: expected a model of at most 8388608 weights, got one of 81000000
    """
    kind = spec["kind"]
    if kind in ("homogeneous", "translated"):
        text = spec["symmetry"]
        symmetry = None if text is None else bounded_symmetry(text)
    if kind == "symmetrised" and symmetry is not None:
        _require_average(symmetry, spec.get("elements"))
    if "model" in spec:
        require_modest(spec["model"], symmetry, labels)
    elif kind == "grid network":
        channels, *sides = spec["image"]
        cells = [channels * prod(sides), *(side * side for side in spec["hidden"])]
        _require_weights(sum(n * m for n, m in pairwise([*cells, spec["outputs"]])))
    elif kind in ("emlp", "linear") and symmetry is not None:
        _require_equations(_spaces(spec, symmetry), symmetry.group)


def _spaces(spec: Mapping[str, Any], symmetry: Symmetry) -> list[Rep]:
    """The spaces that the layers of a network lead through."""
    if spec["kind"] == "linear":
        return [symmetry.rep_in, symmetry.rep_out]
    channels, group = spec["channels"], symmetry.group
    hidden = (
        bounded_rep(channels, group) if isinstance(channels, str) else uniform_rep(channels, group)
    )
    return [symmetry.rep_in, *[hidden] * spec["layers"], symmetry.rep_out]


def _require_equations(spaces: list[Rep], group: Group) -> None:
    weights = sum(a.size() * b.size() for a, b in pairwise(spaces))
    generators = max(1, len(group.discrete) + len(group.algebra))
    _require_weights(weights)
    if group.is_monomial:  # weights are orbits of pairs of columns, and no equation is solved
        _require_moves(weights, generators)
        if any(is_signed(h) for space in set(spaces) for h in space.generators()[1]):
            _require_weights(2 * weights, "weights and their negatives")  # orbits of both
            _require_moves(2 * weights, generators)
        return
    sizes = {space: [t.size for t in layout_of(without_duals(space)).terms] for space in spaces}
    pairs = [np.multiply.outer(sizes[a], sizes[b]) for a, b in set(pairwise(spaces))]
    unknowns = sum(int(one.sum()) for one in pairs)
    solutions = sum(int((one.astype(float) ** 2).sum()) for one in pairs)
    # coordinates that suit a group are looked for among all matrices of its size
    factors = group.factors if isinstance(group, DirectProduct) else (group,)
    solutions += max((one.d for one in factors if not one.is_monomial), default=0) ** 4
    if solutions > _SOLUTIONS or unknowns * generators > _EQUATIONS:
        raise ValueError(
            f"expected a model of smaller tensors or a group of fewer generators, got "
            f"{amount(unknowns)} unknown weights and {generators} generators"
        )


def _require_weights(count: int, what: str = "weights") -> None:
    if count > _WEIGHTS:
        raise ValueError(f"expected a model of at most {_WEIGHTS} {what}, got one of {count}")


def _require_moves(entries: int, generators: int) -> None:
    if entries * generators > _MOVED:
        raise ValueError(
            f"expected a model of fewer weights or a group of fewer generators, got "
            f"{amount(entries)} entries that {generators} generators move"
        )


def _require_average(symmetry: Symmetry, asked: int | None) -> None:
    """Refuse a group whose elements cannot be listed or drawn in no time."""
    group, text = symmetry.group, str(symmetry.group)
    size = weigh_group(bounded_reader(text, "group"))
    known = size.named and (size.permutes or size.parts == 1)
    order = min(group.order(), _LISTED) if known else count_elements(group, _LISTED)
    each = symmetry.rep_in.size() + symmetry.rep_out.size() + 2 * group.d
    numbers = max(order, asked or 1) * each
    if numbers > _AVERAGED:
        raise ValueError(
            f"expected at most {_AVERAGED} numbers to average a model over a group, got "
            f"{amount(int(numbers))}"
        )
