"""How large a representation is, computed from its text before it is built.

A few letters can name one of any size: T(40), or ((V**1000)**1000)**1000, whose factors alone would
fill the memory. Text from strangers is weighed first, by the grammar of ``parse_rep``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from isotropy._run import amount
from isotropy.groups import Group, parse_group
from isotropy.groups._group_limits import bounded_reader, count_elements, weigh_group
from isotropy.groups._text import Reader
from isotropy.reps import Rep, Symmetry, parse_rep

_WIDEST = 2**20  # columns
_TERMS = 1024  # once sums are opened, and factors of them
_ELEMENTS = 2048  # of a group whose regular representation is asked for
_BLOCKED = 2048  # dimensions of a group of which a block is asked for
_BOUNDLESS = 2**62  # more is not counted
_PLAIN = ("V", "Scalar", "Pseudoscalar", "Regular")


@dataclass(frozen=True)
class _Size:
    """Columns, terms once sums are opened, factors of the longest; and whether it is regular."""

    columns: int
    terms: int = 1
    factors: int = 1
    regular: bool = False


# from the dimension of a group to what a representation of it takes
_Plan: TypeAlias = Callable[[int], _Size]


def bounded_symmetry(text: str, custom: Mapping[str, Rep] | None = None) -> Symmetry:
    """A symmetry from its text, if it is not too large.

    Args:
        text: As ``str`` writes it.
        custom: Representations that it may name, with so many columns whatever the group.

    Raises:
        ValueError: If it does not parse, or is too large.

    Example:
        >>> print(bounded_symmetry("S(4): V >> Scalar"))
        S(4): V >> Scalar
        >>> bounded_symmetry("S(1000000000): V >> Scalar")
        Traceback (most recent call last):
        ...
        ValueError: cannot read the symmetry 'S(1000000000): V >> Scalar': expected permutations \
of at most 262144 dimensions, not 1000000000 at position 0
    """
    names = dict(custom or {})
    reader = bounded_reader(text, "symmetry")
    group = weigh_group(reader)
    end = reader.token.at
    reader.expect(":")
    rep_in = _weigh_rep(reader, names, group.d)
    reader.expect(">>")
    rep_out = _weigh_rep(reader, names, group.d)
    reader.finish()
    if rep_in.regular or rep_out.regular:
        count_elements(parse_group(text[:end]), _ELEMENTS)
    return Symmetry.parse(text, names)


def bounded_rep(text: str, group: Group) -> Rep:
    """A representation of a group from its text, if it is not too large.

    Raises:
        ValueError: If it does not parse, or is too large.

    Example:
        >>> from isotropy.groups import S
        >>> bounded_rep("2*V+Scalar", S(3)).size()
        7
    """
    reader = bounded_reader(text, "representation")
    size = _weigh_rep(reader, {}, group.d)
    reader.finish()
    if size.regular:
        count_elements(group, _ELEMENTS)
    return parse_rep(text)(group)


def _weigh_rep(reader: Reader, custom: Mapping[str, Rep], d: int) -> _Size:
    """What the representation at the cursor takes, of a group of some dimension."""
    at = reader.token.at
    size = _weigh_sum(reader, custom)(d)
    for count, most, what in (
        (size.columns, _WIDEST, "columns"),
        (size.terms, _TERMS, "terms"),
        (size.factors, _TERMS, "factors"),
    ):
        if count > most:
            problem = f"expected a representation of at most {most} {what}, not {amount(count)}"
            raise reader.error_at(at, problem)
    return size


def _weigh_sum(reader: Reader, custom: Mapping[str, Rep]) -> _Plan:
    plans = [_weigh_product(reader, custom)]
    while reader.take("+"):
        plans.append(_weigh_product(reader, custom))
    return plans[0] if len(plans) == 1 else lambda d: _sum([plan(d) for plan in plans])


def _weigh_product(reader: Reader, custom: Mapping[str, Rep]) -> _Plan:
    copies, plans = 1, []
    while reader.token.kind == "number":
        copies = _capped(copies * reader.integer())
        reader.expect("*")
    plans.append(_weigh_power(reader, custom))
    while reader.take("*"):
        if reader.token.kind == "number":
            copies = _capped(copies * reader.integer())
        else:
            plans.append(_weigh_power(reader, custom))
    return lambda d: _copies(copies, _product([plan(d) for plan in plans]))


def _weigh_power(reader: Reader, custom: Mapping[str, Rep]) -> _Plan:
    plan = _weigh_postfix(reader, custom)
    if not reader.take("**"):
        return plan
    power = reader.integer()
    return lambda d: _power(plan(d), power)


def _weigh_postfix(reader: Reader, custom: Mapping[str, Rep]) -> _Plan:
    plan, bound = _weigh_atom(reader, custom), False
    while reader.token.text in ("(", "."):
        at = reader.token.at
        if reader.take("("):
            if bound:
                raise reader.error_at(at, "expected a representation of one group")
            plan, bound = _bound(plan, weigh_group(reader).d, reader, at), True
            reader.expect(")")
        else:
            reader.advance()
            plan = _weigh_method(reader, plan)
    return plan


def _weigh_method(reader: Reader, plan: _Plan) -> _Plan:
    name = reader.advance()
    if name.text == "T":
        return plan
    if name.text not in ("on", "change_basis"):
        raise reader.error_at(name.at, f"expected T, on or change_basis, got {name.text!a}")
    reader.expect("(")
    given = reader.nested_list()
    columns = len(given) if isinstance(given, list) else 1
    if name.text == "on":
        reader.expect(",")
        columns = reader.integer()
    reader.expect(")")
    return lambda d: _placed(plan(d), columns, reader, name.at)


def _weigh_atom(reader: Reader, custom: Mapping[str, Rep]) -> _Plan:
    if reader.take("("):
        plan = _weigh_sum(reader, custom)
        reader.expect(")")
        return plan
    name = reader.token
    if name.text == "T":
        reader.advance()
        reader.expect("(")
        power = reader.integer()
        power += reader.integer() if reader.take(",") else 0
        reader.expect(")")
        return lambda d: _power(_Size(d), power)
    if name.text == "Block":
        reader.advance()
        reader.expect("(")
        columns = [reader.integer()]
        while reader.take(","):
            columns.append(reader.integer())
        reader.expect(")")
        return lambda d: _block(d, len(columns), reader, name.at)
    if name.text not in (*_PLAIN, *custom):
        raise reader.error("expected V, Scalar, Pseudoscalar, Regular, T(p,q) or a bracket")
    reader.advance()
    if name.text == "V":
        return _Size
    if name.text == "Regular":
        return lambda _d: _Size(_ELEMENTS, regular=True)
    width = 1 if name.text in _PLAIN else custom[name.text].size()
    return lambda _d: _Size(width)


def _sum(sizes: list[_Size]) -> _Size:
    return _Size(
        _capped(sum(one.columns for one in sizes)),
        _capped(sum(one.terms for one in sizes)),
        max(one.factors for one in sizes),
        any(one.regular for one in sizes),
    )


def _product(sizes: list[_Size]) -> _Size:
    columns = terms = 1
    for one in sizes:
        columns, terms = _capped(columns * one.columns), _capped(terms * one.terms)
    factors = _capped(sum(one.factors for one in sizes))
    return _Size(columns, terms, factors, any(one.regular for one in sizes))


def _power(size: _Size, power: int) -> _Size:
    few = min(power, 64)  # two to a power beyond is more than is counted
    return _Size(
        1 if power == 0 else _capped(size.columns**few),
        1 if power == 0 else _capped(size.terms**few),
        _capped(size.factors * power),
        size.regular,
    )


def _copies(count: int, size: _Size) -> _Size:
    """Copies of one term are one, copies of several are opened one by one."""
    terms = size.terms if size.terms == 1 else _capped(count * size.terms)
    return _Size(_capped(count * size.columns), terms, size.factors, size.regular)


def _bound(plan: _Plan, d: int, reader: Reader, at: int) -> _Plan:
    size = plan(d)
    if size.regular:
        raise reader.error_at(at, "expected a regular representation of the group itself")
    return lambda _: size


def _placed(size: _Size, columns: int, reader: Reader, at: int) -> _Size:
    if size.regular:
        raise reader.error_at(at, "expected a regular representation as it is")
    return _Size(_capped(max(columns, size.columns)), size.terms + 1, size.factors)


def _block(d: int, columns: int, reader: Reader, at: int) -> _Size:
    if d > _BLOCKED:
        problem = f"expected a block of a group of at most {_BLOCKED} dimensions, not {amount(d)}"
        raise reader.error_at(at, problem)
    return _Size(columns)


def _capped(count: int) -> int:
    return min(count, _BOUNDLESS)
