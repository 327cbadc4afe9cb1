"""The file of a score table, read by a grammar: somebody else may have written it."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from torch import Tensor

from isotropy.run import bounded_json
from isotropy.search import SearchSpace, State
from isotropy_papers._all_networks import may_be_all_networks

FORMAT = 1
_ARRAYS = {
    "validation": ("I16", "I32"),
    "test": ("I16", "I32"),
    "parameters": ("I64",),
    "groups": ("U8",),
    "hidden": ("I64",),
}
_ROWS = ("validation rows", "test rows")
_ABOUT = {"name", "space", "complete", *_ROWS}
_LARGEST, _NAME, _NETWORKS = 2**30, 512, 10_000


def table_parts(place: str) -> dict[str, Any]:
    """What the table of a file is made of.

    Args:
        place: The file.

    Returns:
        The arguments of `ScoreTable`.

    Raises:
        ValueError: If there is none, it is damaged, or of another kind or a newer format.
    """
    if not Path(place).is_file():
        raise ValueError(f"expected the file of a score table, got {place!r}")
    try:
        metadata = _metadata(place)
    except (SafetensorError, ValueError, OSError) as error:
        raise ValueError(_damaged(place, error)) from error
    _check(metadata, place)
    try:
        tensors = _tensors(place)
    except (SafetensorError, ValueError, OSError) as error:
        raise ValueError(_damaged(place, error)) from error
    try:
        return _parts(tensors, metadata.get("table"))
    except ValueError as error:
        raise ValueError(f"{error}, in {place!r}") from error


def _damaged(place: str, error: Exception) -> str:
    return f"expected a score table, got a damaged file in {place!r} ({_short(str(error))})"


def _metadata(place: str) -> dict[str, str]:
    size = os.stat(place).st_size
    if size > _LARGEST:
        raise ValueError(f"expected up to {_LARGEST} bytes, got {size}")
    with safe_open(place, framework="pt") as file:
        return file.metadata() or {}


def _tensors(place: str) -> dict[str, Tensor]:
    with safe_open(place, framework="pt") as file:
        held = set(file.keys())
        for name, dtypes in _ARRAYS.items():
            got = file.get_slice(name).get_dtype() if name in held else "none"
            if got not in dtypes:
                raise ValueError(f"expected {name} in whole numbers, got {got}")
        return {name: file.get_tensor(name) for name in _ARRAYS}


def _parts(tensors: dict[str, Tensor], text: str | None) -> dict[str, Any]:
    """What a table is made of, from a file that somebody else may have written."""
    about = bounded_json(text, "what a score table says of itself")
    if not isinstance(about, dict) or not {"name", "space", *_ROWS} <= set(about) <= _ABOUT:
        raise ValueError(
            f"expected {', '.join(sorted(_ABOUT))} in a score table, got {_short(about)}"
        )
    if not isinstance(about["name"], str) or len(about["name"]) > _NAME:
        raise ValueError(f"expected a name of up to {_NAME} letters, got {_short(about['name'])}")
    for rows in _ROWS:
        if type(about[rows]) is not int or not 0 < about[rows] < 2**31:
            raise ValueError(f"expected {rows} from 1 to {2**31 - 1}, got {_short(about[rows])}")
    space = SearchSpace.of(json.dumps(about["space"]))
    networks = _networks(space, tensors["groups"], tensors["hidden"])
    complete = about.get("complete")
    if complete is None:
        complete = may_be_all_networks(space, networks)
    if type(complete) is not bool:
        raise ValueError(f"expected true or false as complete, got {_short(complete)}")
    if (tensors["parameters"] < 0).any():
        raise ValueError("expected numbers of parameters from 0 on, got negative ones")
    return {
        "name": about["name"],
        "space": space,
        "networks": networks,
        "validation": tensors["validation"].numpy().astype(np.int32),
        "test": tensors["test"].numpy().astype(np.int32),
        "validation_rows": about["validation rows"],
        "test_rows": about["test rows"],
        "parameters": tensors["parameters"].numpy(),
        "complete": complete,
    }


def _networks(space: SearchSpace, groups: Tensor, hidden: Tensor) -> tuple[State, ...]:
    count = len(groups) if groups.ndim else 0
    if groups.shape != (count, len(space.groups)) or hidden.shape != (count,) or count > _NETWORKS:
        raise ValueError(
            f"expected up to {_NETWORKS} networks of {len(space.groups)} groups, got "
            f"{tuple(groups.shape)} and {tuple(hidden.shape)}"
        )
    if (groups > 1).any() or (hidden < 0).any() or (hidden >= len(space.hidden)).any():
        raise ValueError(
            "expected groups that are there or not, and hidden grids of the space, got others"
        )
    return tuple(
        State(tuple(n for n, has in zip(space.groups, row, strict=True) if has), choice)
        for row, choice in zip(groups.tolist(), hidden.tolist(), strict=True)
    )


def _check(metadata: dict[str, str], place: str) -> None:
    version = metadata.get("isotropy_score_table", "")
    if not re.fullmatch(r"[1-9][0-9]{0,8}", version):
        raise ValueError(f"expected a score table of isotropy, got another file in {place!r}")
    if int(version) > FORMAT:
        raise ValueError(
            f"expected a score table of format {FORMAT} or older, got {version} in {place!r}"
        )


def _short(value: object) -> str:
    return ascii(value)[:60]
