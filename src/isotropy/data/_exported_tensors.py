"""Tensors of exported programs: their descriptions, and the bytes of those that are stored."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from isotropy._run._json import shown
from isotropy.data._exported_names import attribute
from isotropy.data._json_grammar import (
    Refused,
    Rule,
    flag,
    listing,
    mapping,
    one_of,
    optional,
    read_json,
    real,
    record,
    tagged,
    whole,
    words,
)
from isotropy.data._shape_expressions import parse_shape

# PyTorch's numbers for kinds of elements, by the bytes of one.
_KINDS = {
    1: (1, 2, 12, 29, 30, 31, 32, 33),
    2: (3, 6, 13, 28),
    4: (4, 7, 9, 34),
    8: (5, 8, 10, 35),
    16: (11,),
}
_BYTES = dict(sorted((kind, size) for size, kinds in _KINDS.items() for kind in kinds))
_DIFFERENTIABLE = {6, 7, 8, 9, 10, 11, 13}
_STRIDED = 7
_MOST_DIMENSIONS = 64

scalar_type: Rule = one_of(_BYTES)
layout: Rule = one_of([_STRIDED])
device: Rule = record(
    {"type": one_of(["cpu", "cuda", "mps", "xpu", "meta"])}, {"index": optional(whole(0, 127))}
)
_hint = tagged({"as_int": whole(), "as_bool": flag, "as_float": real})
_expression = record({"expr_str": parse_shape}, {"hint": optional(_hint)})
sym_int: Rule = tagged({"as_expr": _expression, "as_int": whole()})
sym_float: Rule = tagged({"as_expr": _expression, "as_float": real})
sym_bool: Rule = tagged({"as_expr": _expression, "as_bool": flag})


def _description(size: Rule) -> Rule:
    sizes = listing(size, _MOST_DIMENSIONS)
    fields = record(
        {
            "dtype": scalar_type,
            "sizes": sizes,
            "requires_grad": flag,
            "device": device,
            "strides": sizes,
            "storage_offset": size,
            "layout": layout,
        }
    )

    def rule(value: Any) -> dict[str, Any]:
        found: dict[str, Any] = fields(value)
        if len(found["sizes"]) != len(found["strides"]):
            raise Refused("a stride for every size", f"{len(found['strides'])} strides")
        if found["requires_grad"] and found["dtype"] not in _DIFFERENTIABLE:
            raise Refused("a gradient of real or complex numbers", "one of whole numbers")
        return found

    return rule


_size = tagged({"as_expr": _expression, "as_int": whole(least=0)})
tensor: Rule = _description(_size)
_stored = _description(tagged({"as_int": whole(least=0)}))


def parse_stored(
    content: bytes, folder: str, prefix: str, files: Mapping[str, bytes]
) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Parse the list of a program's weights or constants, and check it against their bytes.

    Args:
        content: The list, as JSON.
        folder: Where the bytes are in the archive.
        prefix: How the names of their files begin.
        files: The archive.

    Returns:
        The description of each tensor, by its name, and the files that hold them.

    Raises:
        Refused: If it names objects or pickles, or a tensor that its file does not hold.
    """
    given = read_json(content, "the tensors of a program")
    if not isinstance(given, dict) or not isinstance(given.get("config"), dict):
        raise Refused("an exported program", f"a damaged one, whose tensors are {shown(given)}")
    file_name = words(prefix + r"\d{1,9}", "a file of a plain tensor")
    entry = record(
        {
            "use_pickle": _not_pickled,
            "path_name": file_name,
            "is_param": flag,
            "tensor_meta": _stored,
        }
    )
    found = record({"config": mapping(attribute, entry)})(given)["config"]
    used: dict[str, bytes] = {}
    kinds: dict[str, int] = {}
    for name, about in found.items():
        path = f"{folder}/{about['path_name']}"
        if path not in files:
            raise Refused("an exported program", f"no {path} for {shown(name)}")
        used[path] = files[path]
        if kinds.setdefault(path, about["tensor_meta"]["dtype"]) != about["tensor_meta"]["dtype"]:
            raise Refused("one kind of numbers in a file", f"two in {path}")
        _require_within(about["tensor_meta"], len(files[path]), name)
    return found, used


def write_stored(found: Mapping[str, Any]) -> bytes:
    """The list of weights or constants, written from what `parse_stored` found."""
    return json.dumps({"config": found}, allow_nan=False).encode()


def _not_pickled(value: Any) -> bool:
    if flag(value):
        raise Refused("plain tensors", "a pickled one, which could run any code")
    return False


def _require_within(about: Mapping[str, Any], stored: int, name: str) -> None:
    """Check that a tensor with these sizes and strides lies within its file."""
    sizes = [size["as_int"] for size in about["sizes"]]
    strides = [stride["as_int"] for stride in about["strides"]]
    last = about["storage_offset"]["as_int"]
    last += sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
    each = _BYTES[about["dtype"]]
    needed = (last + 1) * each if math.prod(sizes) else 0
    if stored % each or needed > stored or (not stored and math.prod(sizes)):
        raise Refused(f"{needed} bytes for {shown(name)}", f"{stored}")
