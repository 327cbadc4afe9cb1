"""How an exported program nests its inputs and outputs, which PyTorch rebuilds from text.

PyTorch's own reader imports the module that a ``defaultdict`` or an enumeration names, and builds
whatever class was registered under a name. Here a tree is a leaf, a tuple, a list, or a dictionary
with plain keys; other classes are refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from isotropy._run._json import shown
from isotropy.data._exported_names import is_plain_key, variable
from isotropy.data._json_grammar import Refused, read_json

_SEQUENCES = ("builtins.tuple", "builtins.list", "torch.Size")
_DICTIONARIES = ("builtins.dict", "collections.OrderedDict")
_FIELDS = {"type", "context", "children_spec"}
_PROTOCOL = 1


def parse_tree(text: Any) -> str:
    """Parse the nesting of inputs or outputs.

    Args:
        text: The nesting as ``torch.utils._pytree.treespec_dumps`` writes it.

    Returns:
        The same, written from what was parsed.

    Raises:
        Refused: If it holds anything but tuples, lists, dictionaries and leaves.

    Example:
        >>> leaf = {"type": None, "context": None, "children_spec": []}
        >>> pair = {"type": "builtins.tuple", "context": "null", "children_spec": [leaf, leaf]}
        >>> leaves(parse_tree(json.dumps([1, pair])))
        2
    """
    if not isinstance(text, str):
        raise Refused("a nesting of inputs", shown(text))
    parsed = read_json(text, "a nesting of inputs")
    if not isinstance(parsed, list) or len(parsed) != 2 or parsed[0] != _PROTOCOL:
        raise Refused("a nesting of inputs", shown(text))
    return json.dumps([_PROTOCOL, _rebuilt(parsed[1])])


def _rebuilt(spec: Any) -> dict[str, Any]:
    if not isinstance(spec, dict) or set(spec) != _FIELDS:
        raise Refused("a nesting of tuples, lists and dictionaries", shown(spec))
    kind, context, children = spec["type"], spec["context"], spec["children_spec"]
    if not isinstance(children, list):
        raise Refused("a list", shown(children))
    if kind is None and context is None and not children:
        return {"type": None, "context": None, "children_spec": []}
    if kind in _SEQUENCES:
        if context != "null":
            raise Refused("'null'", shown(context))
    elif kind in _DICTIONARIES:
        context = json.dumps(_keys(context, len(children)))
    else:
        raise Refused("a tuple, list or dictionary", shown(kind))
    inner = [_rebuilt(child) for child in children]
    return {"type": kind, "context": context, "children_spec": inner}


def _keys(context: Any, number: int) -> list[str | int]:
    if not isinstance(context, str):
        raise Refused("the keys of a dictionary", shown(context))
    keys = read_json(context, "the keys of a dictionary")
    if not isinstance(keys, list) or len(keys) != number:
        raise Refused(f"{number} keys of a dictionary", shown(context))
    for key in keys:
        if isinstance(key, str) and is_plain_key(key):
            continue
        if type(key) is not int or not -(2**63) <= key < 2**63:
            raise Refused("a plain key", shown(key))
    if len(set(keys)) < number:
        raise Refused("every key once", shown(context))
    return keys


def require_arguments(text: str, names: list[str] | None) -> None:
    """Check that a nesting is one of positional and of named arguments.

    Args:
        text: The nesting, as `parse_tree` returned it.
        names: What the arguments are called, where the file says so.

    Raises:
        Refused: If it is not, or the names are not those of arguments.
    """
    spec = json.loads(text)[1]
    kinds = [child["type"] for child in spec["children_spec"]]
    if spec["type"] != "builtins.tuple" or kinds != ["builtins.tuple", "builtins.dict"]:
        raise Refused("positional and named arguments", "another nesting of inputs")
    positional, named = spec["children_spec"]
    keys = json.loads(named["context"])
    for key in keys:
        variable(key)
    number = len(positional["children_spec"]) + len(keys)
    if names and (len(names) != number or len(set(names)) < number):
        raise Refused(f"{number} names of arguments", shown(names))


def leaves(text: str) -> int:
    """How many leaves a nesting has that `parse_tree` returned."""
    return _leaves(json.loads(text)[1])


def _leaves(spec: dict[str, Any]) -> int:
    return 1 if spec["type"] is None else sum(map(_leaves, spec["children_spec"]))


def filled(text: str, leaf: Callable[[], Any]) -> Any:
    """A value that is nested as `parse_tree` returned it, with new leaves.

    Example:
        >>> leaf = {"type": None, "context": None, "children_spec": []}
        >>> named = {"type": "builtins.dict", "context": '["x"]', "children_spec": [leaf]}
        >>> filled(parse_tree(json.dumps([1, named])), lambda: 0)
        {'x': 0}
    """
    return _filled(json.loads(text)[1], leaf)


def _filled(spec: dict[str, Any], leaf: Callable[[], Any]) -> Any:
    if spec["type"] is None:
        return leaf()
    inner = [_filled(child, leaf) for child in spec["children_spec"]]
    if spec["type"] in _DICTIONARIES:
        return dict(zip(json.loads(spec["context"]), inner, strict=True))
    return tuple(inner) if spec["type"] == "builtins.tuple" else inner
