"""From text to representation: ``2*V+Scalar``, ``T(3,3)``, ``V>>V``, ``V(SO(3))*V(S(5))``."""

from __future__ import annotations

from collections.abc import Mapping

from isotropy.groups._parse_group import read_group
from isotropy.groups._text import Reader
from isotropy.reps._leaves import Block, Pseudoscalar, Regular, Scalar, T, V
from isotropy.reps._rep import Rep

_NAMES: dict[str, Rep] = {
    "V": V,
    "Scalar": Scalar,
    "Pseudoscalar": Pseudoscalar,
    "Regular": Regular,
}


def parse_rep(text: str, custom: Mapping[str, Rep] | None = None) -> Rep:
    """Read a representation as ``str`` writes it; the text is never evaluated.

    Args:
        text: For example ``2*V+Scalar``, ``T(3,3)``, ``V>>V``, ``V(SO(3))*V(S(5))``.
        custom: Your own representations by name, where the text mentions any.

    Raises:
        ValueError: If it does not parse; the message says where.

    Example:
        >>> parse_rep("2*V + Scalar") == 2 * V + Scalar
        True
        >>> parse_rep("V + W")
        Traceback (most recent call last):
        ...
        ValueError: cannot read the representation 'V + W': expected V, Scalar, Pseudoscalar, \
Regular, T(p,q) or a bracket, got 'W' at position 4
    """
    reader = Reader(text, "representation")
    with reader.nesting():
        rep = read_rep(reader, dict(custom or {}))
    reader.finish()
    return rep


def read_rep(reader: Reader, custom: Mapping[str, Rep], *, maps: bool = True) -> Rep:
    """Read a representation at the cursor: sums joined by ``>>`` unless ``maps`` is False."""
    rep = _read_sum(reader, custom)
    while maps and reader.take(">>"):
        rep = rep >> _read_sum(reader, custom)
    return rep


def _read_sum(reader: Reader, custom: Mapping[str, Rep]) -> Rep:
    rep = _read_product(reader, custom)
    while reader.take("+"):
        rep = rep + _read_product(reader, custom)
    return rep


def _read_product(reader: Reader, custom: Mapping[str, Rep]) -> Rep:
    copies = 1
    while reader.token.kind == "number":
        at = reader.token.at
        count = reader.integer()
        if count < 1:
            raise reader.error_at(at, f"expected at least one copy, got {count}")
        copies *= count
        reader.expect("*")
    rep = _read_power(reader, custom)
    rep = rep if copies == 1 else copies * rep
    while reader.take("*"):
        if reader.token.kind == "number":
            rep = reader.integer() * rep
        else:
            rep = rep * _read_power(reader, custom)
    return rep


def _read_power(reader: Reader, custom: Mapping[str, Rep]) -> Rep:
    rep = _read_postfix(reader, custom)
    return rep ** reader.integer() if reader.take("**") else rep


def _read_postfix(reader: Reader, custom: Mapping[str, Rep]) -> Rep:
    rep = _read_atom(reader, custom)
    while True:
        at = reader.token.at
        try:
            if reader.take("("):
                rep = rep(read_group(reader))
                reader.expect(")")
            elif reader.take("."):
                rep = _read_method(reader, rep)
            else:
                return rep
        except ValueError as error:
            if str(error).startswith("cannot read"):
                raise
            raise reader.error_at(at, str(error)) from error


def _read_method(reader: Reader, rep: Rep) -> Rep:
    name = reader.advance()
    if name.text == "T":
        return rep.T
    if name.text not in ("on", "change_basis", "restrict"):
        raise reader.error_at(
            name.at, f"expected T, on, change_basis or restrict, got {name.text!r}"
        )
    reader.expect("(")
    if name.text == "restrict":
        rep = rep.restrict(read_group(reader))
    elif name.text == "change_basis":
        rep = rep.change_basis(reader.nested_list())
    else:
        columns = reader.nested_list()
        if not isinstance(columns, list):
            raise reader.error_at(name.at, "expected a list of columns")
        reader.expect(",")
        rep = rep.on(columns, reader.integer())
    reader.expect(")")
    return rep


def _read_atom(reader: Reader, custom: Mapping[str, Rep]) -> Rep:
    if reader.take("("):
        rep = read_rep(reader, custom)
        reader.expect(")")
        return rep
    name = reader.token.text
    if name == "T":
        reader.advance()
        reader.expect("(")
        p = reader.integer()
        q = reader.integer() if reader.take(",") else 0
        reader.expect(")")
        if max(p, q) > 1000:
            raise reader.error(f"expected a tensor power between 0 and 1000, not {max(p, q)}")
        return T(p, q)
    if name == "Block":
        at = reader.advance().at
        reader.expect("(")
        columns = [reader.integer()]
        while reader.take(","):
            columns.append(reader.integer())
        reader.expect(")")
        try:
            return Block(*columns)
        except ValueError as error:
            raise reader.error_at(at, str(error)) from error
    found = _NAMES.get(name) or custom.get(name)
    if found is None:
        raise reader.error("expected V, Scalar, Pseudoscalar, Regular, T(p,q) or a bracket")
    reader.advance()
    return found
