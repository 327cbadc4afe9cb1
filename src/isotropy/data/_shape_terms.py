"""How long SymPy takes for a size, from its terms when multiplied out and its divisions by sums.

PyTorch takes the greatest common divisor of a polynomial and a sum that divides it, and simplifies
what remains. ``FloorDiv(Pow(Add(a, ..., l), 13), Add(a, ..., l, 1))`` is short, and has a million
terms.
"""

from __future__ import annotations

import ast
import math
from functools import lru_cache
from typing import NamedTuple

_LEAVES = frozenset({"Symbol", "Integer", "Rational", "Float"})
_POWERS = frozenset({"Pow", "PowByNatural"})
_DIVISIONS = frozenset({"CeilDiv", "CleanDiv", "FloorDiv", "Mod", "ModularIndexing", "PythonMod"})
# A unit is at most 5 milliseconds of SymPy 1.14 on one core, mostly 1. A division by a sum takes 5
# however few its terms, and 1 or 2 for each; outside of such divisions, 300 terms take 100.
_DIVISION = 8
_FREE_TERMS = 32
_TERMS_OF_UNIT = 6


class _Cost(NamedTuple):
    """What a part costs."""

    terms: int  # at most, when it is multiplied out
    most: int  # the terms of its longest part
    divisions: int  # units for the divisions by sums in it


@lru_cache(maxsize=4096)
def shape_work(text: str) -> int:
    """How long SymPy takes for an expression of sizes, beyond what its length explains.

    Args:
        text: The expression, in the grammar of `parse_shape`.

    Returns:
        The time in units of 1 to 5 milliseconds.

    Example:
        >>> a, b = "Symbol('s1', integer=True)", "Symbol('s2', integer=True)"
        >>> shape_work(f"FloorDiv(Pow(Add({a}, {b}), Integer(3)), {b})")
        0
        >>> shape_work(f"FloorDiv(Pow(Add({a}, {b}), Integer(3)), Add({b}, Integer(1)))")
        14
    """
    cost = _cost(ast.parse(text, mode="eval").body)
    return cost.divisions + max(0, cost.most - _FREE_TERMS) // _TERMS_OF_UNIT


def _cost(node: ast.expr) -> _Cost:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        return _Cost(1, 1, 0)
    name = node.func.id
    if name in _LEAVES:
        return _Cost(1, 1, 0)
    parts = [_cost(part) for part in node.args]
    terms = [part.terms for part in parts]
    divisions = sum(part.divisions for part in parts)
    if name in _DIVISIONS and max(terms[1:], default=1) > 1:
        divisions += _DIVISION + sum(terms)
    found = _terms(name, terms, node.args)
    return _Cost(found, max(sum(terms), found, *(part.most for part in parts)), divisions)


def _terms(name: str, terms: list[int], arguments: list[ast.expr]) -> int:
    if name == "Add":
        return sum(terms)
    if name == "Mul":
        return math.prod(terms)
    if name in _POWERS:
        second = arguments[1]
        literal = second.args[0] if isinstance(second, ast.Call) else second
        exponent = abs(int(ast.literal_eval(literal)))
        return math.comb(terms[0] + exponent - 1, exponent)
    return max(terms)  # SymPy may put any of its arguments in place of a function
