"""From text to group: ``Z(8)*Z(8)``, ``S(5)+S(5)``, ``wreath(Z(3),Z(3))``, ``SO13p``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from isotropy.groups._catalogue import FAMILIES, family
from isotropy.groups._group import Group
from isotropy.groups._placements import (
    Conjugate,
    embed,
)
from isotropy.groups._products import (
    semidirect,
    wreath,
)
from isotropy.groups._text import Reader, Token


def parse_group(text: str) -> Group:
    """Read a group as ``str`` writes it; the text is never evaluated.

    Names with an integer (``SO(3)``) or without (``SO13p``), ``*`` for direct products,
    ``+`` for side by side, ``wreath(G,H)`` or ``G wr H``, ``semidirect(N,H)``,
    ``embed(G,d,at)``, ``conjugate(G,P)``, and ``Group(discrete=[…],algebra=[…])``.

    Raises:
        ValueError: If it does not parse; the message says where.

    Example:
        >>> parse_group("Z(8)*Z(8)").order()
        64
        >>> parse_group("Z(8")
        Traceback (most recent call last):
        ...
        ValueError: cannot read the group 'Z(8': expected ')', got the end of the text at position 3
    """
    reader = Reader(text, "group")
    with reader.nesting():
        group = read_group(reader)
    reader.finish()
    return group


def read_group(reader: Reader) -> Group:
    """Read a group at the cursor: terms joined by ``+``."""
    group = _read_product(reader)
    while reader.take("+"):
        group = group + _read_product(reader)
    return group


def _read_product(reader: Reader) -> Group:
    group = _read_atom(reader)
    while True:
        if reader.take("*"):
            group = group * _read_atom(reader)
        elif reader.take("wr"):
            group = wreath(group, _read_atom(reader))
        else:
            return group


def _read_atom(reader: Reader) -> Group:
    if reader.take("("):
        group = read_group(reader)
        reader.expect(")")
        return group
    name = reader.token
    if name.kind != "name":
        raise reader.error("expected a group")
    reader.advance()
    if name.text in _CONSTRUCTIONS:
        reader.expect("(")
        group = _located(reader, name, lambda: _CONSTRUCTIONS[name.text](reader))
        reader.expect(")")
        return group
    return _read_named(reader, name)


def _read_named(reader: Reader, name: Token) -> Group:
    row = family(name.text)
    if row is None:
        known = ", ".join(f.name for f in FAMILIES)
        raise reader.error_at(name.at, f"unknown group {name.text!r} (known: {known})")
    make: Callable[..., Group] = row.kind
    if not row.integers:
        if reader.take("("):
            reader.expect(")")
        return make()
    reader.expect("(")
    numbers = [reader.integer()]
    while len(numbers) < row.integers:
        reader.expect(",")
        numbers.append(reader.integer())
    reader.expect(")")
    return _located(reader, name, lambda: make(*numbers))


def _located(reader: Reader, name: Token, make: Callable[[], Group]) -> Group:
    """Build a group; if its arguments are refused, say where in the text they stand."""
    try:
        return make()
    except ValueError as error:
        if str(error).startswith("cannot read"):
            raise
        raise reader.error_at(name.at, str(error)) from error


def _read_two(reader: Reader) -> tuple[Group, Group]:
    first = read_group(reader)
    reader.expect(",")
    return first, read_group(reader)


def _read_wreath(reader: Reader) -> Group:
    return wreath(*_read_two(reader))


def _read_semidirect(reader: Reader) -> Group:
    return semidirect(*_read_two(reader))


def _read_embedding(reader: Reader) -> Group:
    inner = read_group(reader)
    reader.expect(",")
    d = reader.integer()
    return embed(inner, d, reader.integer() if reader.take(",") else 0)


def _read_conjugate(reader: Reader) -> Group:
    inner = read_group(reader)
    reader.expect(",")
    return Conjugate(inner, reader.nested_list())


def _read_generators(reader: Reader) -> Group:
    given: dict[str, Any] = {}
    while reader.token.text != ")":
        if given:
            reader.expect(",")
        key = reader.advance()
        if key.text not in ("discrete", "algebra", "d") or key.text in given:
            raise reader.error_at(key.at, f"expected discrete=, algebra= or d=, got {key.text!r}")
        reader.expect("=")
        if key.text != "d" and reader.token.text != "[":
            raise reader.error("expected a list of generators")
        given[key.text] = reader.integer() if key.text == "d" else reader.nested_list()
    return Group(given.get("discrete", ()), given.get("algebra", ()), d=given.get("d"))


_CONSTRUCTIONS: dict[str, Callable[[Reader], Group]] = {
    "wreath": _read_wreath,
    "semidirect": _read_semidirect,
    "embed": _read_embedding,
    "conjugate": _read_conjugate,
    "Group": _read_generators,
}
