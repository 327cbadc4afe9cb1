"""A grammar of JSON: every field is known, every value is of its kind, and the rest is refused.

A rule takes a value and returns it, rebuilt from its parts, or raises `Refused`. What a rule
returns therefore holds nothing but what the grammar names.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from isotropy._run._json import bounded_json, shown, utf8_text

Rule = Callable[[Any], Any]

_READABLE = "an exported program that this PyTorch reads"
_LONGEST_PLACE = 150
_DEPTH = 104  # fifty tuples within each other, or a dozen graphs
_NOT_FINITE = ("Infinity", "-Infinity", "NaN")


class Refused(ValueError):
    """A value that the grammar does not have, and the fields that lead to it."""

    def __init__(self, expected: str, got: str) -> None:
        super().__init__(expected, got)
        self.expected, self.got, self.fields = expected, got, list[str]()

    def __str__(self) -> str:
        place = ".".join(reversed(self.fields))
        if len(place) > _LONGEST_PLACE:
            place = "..." + place[-_LONGEST_PLACE:]
        return f"expected {self.expected}, got {self.got}" + (f" ({place})" if place else "")


def read_json(content: bytes | str, what: str) -> Any:
    """Read JSON of an exported program.

    Args:
        content: The bytes of a file, or a text inside one.
        what: What it should be, for the error.

    Raises:
        Refused: If it is no JSON, too long or nested too deeply, or holds a name twice.

    Example:
        >>> read_json(b'{"sizes": [3, 4]}', "a graph")
        {'sizes': [3, 4]}
        >>> read_json(b'{"sizes": 3, "sizes": 4}', "a graph")
        Traceback (most recent call last):
        ...
        isotropy.data._json_grammar.Refused: expected every name once in a graph, got 'sizes' twice
    """
    try:
        text = content if isinstance(content, str) else utf8_text(content, what)
        return bounded_json(text, what, depth=_DEPTH)
    except ValueError as error:
        expected, _, got = str(error).removeprefix("expected ").partition(", got ")
        raise Refused(expected, got) from None


# --- values -----------------------------------------------------------------------------------


def flag(value: Any) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise Refused("true or false", shown(value))
    return value


def whole(least: int = -(2**63), most: int = 2**63 - 1) -> Rule:
    """A whole number within bounds; by default those of 64 bits."""

    def rule(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise Refused(f"a whole number from {least} to {most}", shown(value))
        return value

    return rule


def real(value: Any) -> float | str:
    """A number, or one of the words that PyTorch writes for those that are not finite."""
    if isinstance(value, str) and value in _NOT_FINITE:
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Refused("a number", shown(value))
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise Refused("a finite number", shown(value))
    return number


def words(pattern: str, what: str) -> Rule:
    """A string that matches a pattern as a whole."""
    compiled = re.compile(pattern)

    def rule(value: Any) -> str:
        if not isinstance(value, str) or not compiled.fullmatch(value):
            raise Refused(what, shown(value))
        return value

    return rule


def one_of(values: Collection[Any]) -> Rule:
    """One of a few values, all strings or all whole numbers."""

    def rule(value: Any) -> Any:
        if isinstance(value, bool) or not isinstance(value, str | int) or value not in values:
            raise Refused(f"one of {', '.join(map(str, values))}", shown(value))
        return value

    return rule


def unread(_: Any) -> dict[str, Any]:
    """Remarks that nothing needs, whatever they are: an empty object in their place."""
    return {}


# --- what holds values ------------------------------------------------------------------------


def optional(rule: Rule) -> Rule:
    """A value, or null."""
    return lambda value: None if value is None else rule(value)


def listing(rule: Rule, most: int | None = None) -> Rule:
    """A list of values, with at most so many."""

    def each(value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise Refused("a list", shown(value))
        if most is not None and len(value) > most:
            raise Refused(f"a list of at most {most}", shown(value))
        return [_within(str(i), rule, item) for i, item in enumerate(value)]

    return each


def mapping(key: Rule, rule: Rule) -> Rule:
    """An object whose fields bear names of one kind and hold values of one kind."""

    def each(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise Refused("an object", shown(value))
        return {key(name): _within(shown(name), rule, item) for name, item in value.items()}

    return each


def record(required: Mapping[str, Rule], defaulted: Mapping[str, Rule] | None = None) -> Rule:
    """An object with just these fields, of which the second kind may be missing."""
    rules = {**required, **(defaulted or {})}

    def each(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise Refused(_READABLE, shown(value))
        for name in required:
            if name not in value:
                raise Refused(_READABLE, f"no field {name!r}")
        for name in value:
            if name not in rules:
                raise Refused(_READABLE, f"the field {shown(name)}")
        return {name: _within(name, rules[name], item) for name, item in value.items()}

    return each


def tagged(rules: Mapping[str, Rule]) -> Rule:
    """An object with one field, whose name says the kind of its value."""

    def each(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict) or len(value) != 1:
            raise Refused("an object with one field", shown(value))
        ((name, item),) = value.items()
        if name not in rules:
            raise Refused("a value of a kind that programs have", shown(name))
        return {name: _within(name, rules[name], item)}

    return each


def _within(field: str, rule: Rule, value: Any) -> Any:
    try:
        return rule(value)
    except Refused as refused:
        refused.fields.append(field)
        raise
