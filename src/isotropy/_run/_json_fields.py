"""Kinds of fields in JSON that anyone may have written: each is of its type and size, or refused.

A field is a function of a parsed value. It returns the value as we use it (lists as tuples, arrays
of numpy), or raises `Misfit`. Nothing is converted: a text is no number, 1 is no flag.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from isotropy._run import amount
from isotropy._run._json import shown
from isotropy._run._terminal_text import ACTING

Field: TypeAlias = Callable[[Any], Any]

LONG = 200_000  # letters of a sentence, which may list the columns of a wide table
_PLAIN_DEPTH, _PLAIN_VALUES = 4, 20_000


class Misfit(ValueError):
    """A value that is not what a field takes, and the names that lead to it."""

    def __init__(self, expected: str, got: str) -> None:
        super().__init__(expected, got)
        self.expected, self.got = expected, got
        self.path: list[str] = []

    def __str__(self) -> str:
        place = f" as {'.'.join(reversed(self.path))}" if self.path else ""
        return f"expected {self.expected}{place}, got {self.got}"


def within(name: str, field: Field, value: Any) -> Any:
    """The value of a field inside another, whose name is in the error.

    Raises:
        Misfit: If the value is not what the field takes.

    Example:
        >>> within("confirmed", flag, "no")
        Traceback (most recent call last):
        ...
        isotropy._run._json_fields.Misfit: expected true or false as confirmed, got 'no'
    """
    try:
        return field(value)
    except Misfit as misfit:
        misfit.path.append(name)
        raise


# --- single values ----------------------------------------------------------------------------


def flag(value: Any) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise Misfit("true or false", shown(value))
    return value


def whole(low: int, high: int) -> Field:
    """A whole number between two others."""

    def field(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise Misfit(f"a whole number from {low} to {amount(high)}", shown(value))
        return value

    return field


def number(low: float = -math.inf, high: float = math.inf) -> Field:
    """A finite number between two others."""
    words = "a finite number"
    if math.isfinite(low):
        words += f" of at least {low:g}" if math.isinf(high) else f" from {low:g} to {high:g}"

    def field(value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise Misfit(words, shown(value))
        try:
            found = float(value)
        except OverflowError:
            raise Misfit(words, shown(value)) from None
        if not math.isfinite(found) or not low <= found <= high:
            raise Misfit(words, shown(value))
        return found

    return field


def text(most: int = LONG, least: int = 0) -> Field:
    """Letters that can be seen, and line breaks: no code that acts on a terminal."""

    def field(value: Any) -> str:
        if not isinstance(value, str):
            raise Misfit("a text", shown(value))
        if not least <= len(value) <= most:
            raise Misfit(f"a text of {least} to {most} letters", f"one of {len(value)}")
        if acting := ACTING.search(value):
            raise Misfit("a text of printable letters", f"the character {acting[0]!a}")
        return value

    return field


def one_of(values: Collection[str]) -> Field:
    """One of a few words."""

    def field(value: Any) -> str:
        if not isinstance(value, str) or value not in values:
            raise Misfit(f"one of {', '.join(map(repr, values))}", shown(value))
        return value

    return field


def or_null(field: Field, instead: Any = None) -> Field:
    """A field, or null, which stands for None, or for a number that JSON has no spelling of."""
    return lambda value: instead if value is None else field(value)


def as_given(field: Field) -> Field:
    """The value itself, once a field has taken it: lists stay lists, and numbers what they were."""

    def same(value: Any) -> Any:
        field(value)
        return value

    return same


def either(words: str, **kinds: Field) -> Field:
    """A field for each type that JSON has: ``text``, ``whole``, ``object``."""
    types = {"text": str, "whole": int, "object": dict, "list": list}

    def field(value: Any) -> Any:
        for kind, one in kinds.items():
            if isinstance(value, types[kind]) and not isinstance(value, bool):
                return one(value)
        raise Misfit(words, shown(value))

    return field


# --- what holds others ------------------------------------------------------------------------


def several(field: Field, most: int, least: int = 0) -> Field:
    """A list, as a tuple."""

    def each(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise Misfit("a list", shown(value))
        if not least <= len(value) <= most:
            raise Misfit(f"a list of {least} to {most}", shown(value))
        return tuple(within(str(at), field, one) for at, one in enumerate(value))

    return each


def row(*fields: Field) -> Field:
    """A list with a field for each of its places, as a tuple."""

    def each(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list) or len(value) != len(fields):
            raise Misfit(f"a list of {len(fields)}", shown(value))
        pairs = zip(fields, value, strict=True)
        return tuple(within(str(at), one, item) for at, (one, item) in enumerate(pairs))

    return each


def named(field: Field, name: Field, most: int) -> Field:
    """An object whose names are of one kind, and its values of another."""

    def each(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict) or len(value) > most:
            raise Misfit(f"an object of at most {most}", shown(value))
        return {name(key): within(shown(key), field, item) for key, item in value.items()}

    return each


def record(
    needed: Mapping[str, Field], known: Mapping[str, Field] | None = None, *, others: bool = False
) -> Field:
    """An object with some fields, and perhaps others.

    Args:
        needed: Fields that it must have.
        known: Fields that it may have.
        others: Whether it may have any others of plain values, which are only shown; else a field
            that we do not know is refused, for it may change what the others mean.
    """
    fields = {**needed, **(known or {})}

    def each(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise Misfit("an object", shown(value))
        missing = [name for name in needed if name not in value]
        if missing:
            raise Misfit(f"the field {missing[0]!r}", "none")
        unknown = [name for name in value if name not in fields]
        if unknown and not others:
            got = f"the field {shown(unknown[0])}, which a later one may have written"
            raise Misfit("fields that this version knows", got)
        rest = {text(200)(name): within(shown(name), plain, value[name]) for name in unknown}
        return {
            **{name: within(name, fields[name], value[name]) for name in value if name in fields},
            **rest,
        }

    return each


def plain(value: Any) -> Any:
    """Any value that is only shown: texts, numbers and what holds them, not too deep or many."""
    left = [_PLAIN_VALUES]

    def walk(one: Any, depth: int) -> Any:
        left[0] -= 1
        if depth > _PLAIN_DEPTH or left[0] < 0:
            words = f"at most {_PLAIN_VALUES} values nested {_PLAIN_DEPTH} deep"
            raise Misfit(words, "more")
        if one is None or isinstance(one, bool):
            return one
        if isinstance(one, str):
            return text()(one)
        if isinstance(one, int):
            return whole(-(2**63), 2**63 - 1)(one)
        if isinstance(one, float):
            return number()(one)
        if isinstance(one, list):
            return [walk(item, depth + 1) for item in one]
        return {text(200)(name): walk(item, depth + 1) for name, item in one.items()}

    return walk(value, 0)


def array(
    axes: Collection[int], most: int, *, integers: bool = False, square: bool = False
) -> Field:
    """Nested lists of finite numbers, all of one shape, as an array.

    Example:
        >>> array((2,), 9)([[1, 2], [3, 4.5]])
        array([[1. , 2. ],
               [3. , 4.5]])
    """
    what = "whole numbers" if integers else "finite numbers"
    counts = " or ".join(map(str, axes))
    words = f"an array of {what} with {counts} axes"

    def field(value: Any) -> NDArray[Any]:
        shape, flat = _flattened(value, max(axes), most, words)
        if len(shape) not in axes:
            raise Misfit(words, f"one with {len(shape)}" if shape else shown(value))
        if square and shape[-1] != shape[-2]:
            raise Misfit("square matrices", f"{shape[-2]} by {shape[-1]}")
        known = (int,) if integers else (int, float)
        for one in flat:
            if type(one) not in known or (integers and not -(2**63) <= one < 2**63):
                raise Misfit(words, shown(one))
        try:
            found = np.array(flat, np.int64 if integers else np.float64)
        except (OverflowError, ValueError):
            raise Misfit(words, "a number beyond their range") from None
        if not np.isfinite(found).all():
            raise Misfit(words, "a number beyond their range")
        return found.reshape(shape)

    return field


def _flattened(value: Any, axes: int, most: int, words: str) -> tuple[list[int], list[Any]]:
    """The shape of nested lists, and what is in them."""
    shape: list[int] = []
    flat: list[Any] = [value]
    while len(shape) < axes and flat and isinstance(flat[0], list):
        length = len(flat[0])
        if not all(isinstance(one, list) and len(one) == length for one in flat):
            raise Misfit(words, "lists of several lengths")
        shape.append(length)
        if math.prod(shape) > most:
            raise Misfit(f"an array of at most {most} numbers", f"one of shape {shown(shape)}")
        flat = [item for one in flat for item in one]
    return shape, flat
