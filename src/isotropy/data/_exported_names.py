"""Names in exported programs, which PyTorch prints into Python code that it runs."""

from __future__ import annotations

import keyword
import re
import unicodedata
from functools import cache
from typing import Any

import torch
from torch import nn

from isotropy._run._json import shown
from isotropy.data._json_grammar import Refused

# What the code that PyTorch writes for a graph calls by these names.
_TAKEN = frozenset({"self", "torch", "fx_pytree", "pytree", "getattr", "device", "inf", "nan"})
_LONGEST = 500
_PART = re.compile(r"[\w\-/:+@ ]+", re.ASCII)


def variable(value: Any) -> str:
    """The name of a value, an input or a graph, which becomes a variable.

    Example:
        >>> variable("linear_1")
        'linear_1'
        >>> variable("x=print('hello')")
        Traceback (most recent call last):
        ...
        isotropy.data._json_grammar.Refused: expected a name, got "x=print('hello')"

    Raises:
        Refused: If it is not a name that generated code can hold.
    """
    if not _is_variable(value):
        raise Refused("a name", shown(value))
    return str(value)


def _is_variable(value: Any) -> bool:
    return (
        isinstance(value, str)
        and len(value) <= _LONGEST
        and value.isidentifier()
        and unicodedata.normalize("NFKC", value) == value  # as Python reads it
        and not keyword.iskeyword(value)
        and not value.startswith("__")
        and value not in _TAKEN
    )


def inner_graph(value: Any) -> str:
    """The name of a graph within another: a variable there, and an attribute of its module."""
    if not _is_variable(value) or value in _root_attributes():
        raise Refused("the name of a graph", shown(value))
    return str(value)


def attribute(value: Any) -> str:
    """The name of a parameter, buffer or constant: names of modules and its own, with dots.

    Example:
        >>> attribute("layers.0.weight")
        'layers.0.weight'
        >>> attribute("layers.__class__")
        Traceback (most recent call last):
        ...
        isotropy.data._json_grammar.Refused: expected the name of a tensor, got 'layers.__class__'

    Raises:
        Refused: If it is too long, or a part is no name or means something to PyTorch.
    """
    if isinstance(value, str) and 0 < len(value) <= _LONGEST:
        root, *rest = value.split(".")
        if _is_free(root, _root_attributes()) and all(
            _is_free(part, _module_attributes()) for part in rest
        ):
            return value
    raise Refused("the name of a tensor", shown(value))


def _is_free(part: str, attributes: frozenset[str]) -> bool:
    readable = _PART.fullmatch(part) or (
        part.isidentifier() and unicodedata.normalize("NFKC", part) == part
    )
    return bool(readable) and not part.startswith("__") and part not in attributes


@cache
def _module_attributes() -> frozenset[str]:
    """What a module has before it is given anything."""
    return frozenset(dir(nn.Module()))


@cache
def _root_attributes() -> frozenset[str]:
    """What the module of a program has besides."""
    graph = torch.fx.Graph()
    graph.output(None)
    own = dir(torch.fx.GraphModule(nn.Module(), graph))
    later = {"range_constraints", "validate_inputs", "_guards_fn", "_in_spec", "_out_spec"}
    return frozenset({*own, *later})


def is_plain_key(text: str) -> bool:
    r"""Whether a key can stand between quotes of either kind, as PyTorch prints it into code.

    Example:
        >>> is_plain_key("left hand"), is_plain_key("x'] or exit() or L['x")
        (True, False)
    """
    return 0 < len(text) <= 200 and text.isprintable() and not set(text) & set("'\"\\")
