"""The description of a model in a file: which kinds there are, and what each is made with.

A description is plain data. It names nothing that could be imported or called: a kind, a group and
a transformation are words of a list, and every number has a limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from isotropy._run._bounded_json import shown
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
from isotropy.discovery.predictors._image_network import DEPTH
from isotropy.groups import GRID_TRANSFORMATIONS

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
