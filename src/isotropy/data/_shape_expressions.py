"""Sizes in exported programs: expressions that PyTorch would evaluate as Python.

How long SymPy takes for one is bounded first, from its terms and its divisions by sums.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from isotropy._run._json import shown
from isotropy.data._json_grammar import Refused

_LEAVES = frozenset({"Symbol", "Integer", "Rational", "Float"})
_POWERS = frozenset({"Pow", "PowByNatural"})
_DIVISIONS = frozenset({"CeilDiv", "CleanDiv", "FloorDiv", "Mod", "ModularIndexing", "PythonMod"})
# A unit is at most 5 milliseconds of SymPy 1.14 on one core, mostly 1. A division by a sum takes 5
# however few its terms, and 1 or 2 for each; outside of such divisions, 300 terms take 100.
_DIVISION = 8
_FREE_TERMS = 32
_TERMS_OF_UNIT = 6
# PyTorch's own expressions have a few dozen parts and a handful of symbols.
_LONGEST = 8192
_DEEPEST = 80
_MOST_PARTS = 2000
_CHARACTERS = re.compile(r"[\w ()\[\]'.,:@=+\-*/%<>!&|]*", re.ASCII)
_MOST_SYMBOLS = 12
_COMPARING = ("Max", "Min")  # SymPy compares their arguments with one another
_MOST_EXTREMES = 16
# If every symbol and every double had 64 bits, a value may have this many: powers of powers, whose
# size grows with the product of their exponents, are refused.
_MOST_BITS = 1024
SYMBOL_BITS = 64
_LARGEST_EXPONENT = 64
# Units of `shape_work`; the slowest expressions that pass take SymPy about 0.3 seconds.
_MOST_WORK = 160
_DECIMAL = re.compile(r"-?\d{1,40}(\.\d{0,60})?(e[-+]?\d{1,3})?")
_SYMBOL = re.compile(r"(?:s|zf)\d{1,9}|(?:u|zuf)\d{1,6}")
_ASSUMPTION_NAMES = """
    integer positive nonnegative negative nonpositive nonzero zero real finite
"""
_ASSUMPTIONS = frozenset(_ASSUMPTION_NAMES.split())
_NUMBERS = {"Integer": 1, "Rational": 2}
_POWERS_AND_SHIFTS = frozenset({"Pow", "PowByNatural", "LShift"})
_LITERAL_SECOND = frozenset({"RShift", "RoundDecimal"})
# Functions whose value is no larger than the largest of what they are given, or is a double.
_BOUNDED_NAMES = """
    Abs And BitwiseFn_bitwise_and BitwiseFn_bitwise_or BitwiseFn_bitwise_xor CeilDiv ceiling
    CeilToInt CleanDiv Equality FloatPow FloatTrueDiv floor FloorDiv FloorToInt
    GreaterThan Identity IntTrueDiv IsNonOverlappingAndDenseIndicator LessThan Max Min Mod
    ModularIndexing Not OpaqueUnaryFn_cos OpaqueUnaryFn_exp OpaqueUnaryFn_log OpaqueUnaryFn_log2
    OpaqueUnaryFn_sin OpaqueUnaryFn_sqrt OpaqueUnaryFn_tanh Or PythonMod RoundToInt
    StrictGreaterThan StrictLessThan ToFloat TruncToFloat TruncToInt Unequality Where
"""
_BOUNDED = frozenset(_BOUNDED_NAMES.split())
_FUNCTIONS = _POWERS_AND_SHIFTS | _LITERAL_SECOND | _BOUNDED | {"Add", "Mul"}


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


def parse_shape(text: object) -> str:
    """Parse an expression of sizes as SymPy's ``srepr`` writes it.

    Args:
        text: The expression.

    Returns:
        The same expression, written from what was parsed.

    Raises:
        Refused: If it holds anything that such an expression does not, or would be too large.

    Example:
        >>> parse_shape("Mul(Integer(2), Symbol('s31', positive=True, integer=True))")
        "Mul(Integer(2), Symbol('s31', positive=True, integer=True))"
        >>> parse_shape("__import__('os').system('ls')")
        Traceback (most recent call last):
        ...
        isotropy.data._json_grammar.Refused: expected an expression of sizes, got
        "__import__('os').system('ls')"
    """
    found = parse_text(text, "an expression of sizes", _shape_bits)
    if shape_work(found) > _MOST_WORK:
        raise Refused("an expression of sizes", f"{shown(text)}, which has too many terms")
    return found


class NotInGrammar(Exception):
    """What stands in the text is no part of the grammar."""


def parse_text(text: object, what: str, bits: Callable[[ast.expr], int]) -> str:
    """Parse a text as Python reads it, without running it, and write it anew.

    Args:
        text: The text.
        what: What it should be, for the error.
        bits: Says how many bits its value has at most, or raises `NotInGrammar`.

    Returns:
        The text.

    Raises:
        Refused: If it is not in the grammar, or would be too large.
    """
    if not isinstance(text, str) or len(text) > _LONGEST or not _CHARACTERS.fullmatch(text):
        raise Refused(what, shown(text))
    if len(set(_SYMBOL.findall(text))) > _MOST_SYMBOLS:
        raise Refused(what, shown(text))
    try:
        tree = ast.parse(text, mode="eval").body
        _require_small(tree)
        most, written = bits(tree), ast.unparse(tree)
    except (NotInGrammar, SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise Refused(what, shown(text)) from error
    if most > _MOST_BITS:
        raise Refused(what, shown(text))
    return written


def _require_small(tree: ast.expr) -> None:
    level: list[ast.AST] = [tree]
    parts = extremes = depth = 0
    while level:
        parts, depth = parts + len(level), depth + 1
        extremes += sum(map(_extremes, level))
        if parts > _MOST_PARTS or depth > _DEEPEST or extremes > _MOST_EXTREMES:
            raise NotInGrammar
        level = [child for node in level for child in ast.iter_child_nodes(node)]


def _extremes(node: ast.AST) -> int:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return len(node.args) if node.func.id in _COMPARING else 0
    return 0


def _shape_bits(node: ast.expr) -> int:
    """How many bits the value of an expression has at most."""
    if is_constant(node, bool):
        return 1
    if isinstance(node, ast.Name) and node.id in ("true", "false"):
        return 1
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        raise NotInGrammar
    name = node.func.id
    if name == "Symbol":
        return _symbol_bits(node)
    if name == "Float":
        return _float_bits(node)
    if node.keywords:
        raise NotInGrammar
    if name in _NUMBERS:
        return max(integer(part).bit_length() for part in _count(node.args, _NUMBERS[name]))
    if name not in _FUNCTIONS or not node.args:
        raise NotInGrammar
    return _function_bits(name, node.args)


def _function_bits(name: str, arguments: list[ast.expr]) -> int:
    if name in _POWERS_AND_SHIFTS | _LITERAL_SECOND:
        base, second = _count(arguments, 2)
        return power_bits(name, _shape_bits(base), _literal_integer(second))
    sizes = [_shape_bits(part) for part in arguments]
    if name == "Mul":
        return sum(sizes)
    return max(sizes) + (len(sizes) if name == "Add" else 0)


def power_bits(name: str, base: int, second: int) -> int:
    """How many bits a power or a shift has at most, given those of its base."""
    if abs(second) > _LARGEST_EXPONENT:
        raise NotInGrammar
    if name == "LShift":
        return base + abs(second)
    return base * max(1, abs(second)) if name in _POWERS_AND_SHIFTS else base


def _symbol_bits(node: ast.Call) -> int:
    if not _SYMBOL.fullmatch(_text(node)):
        raise NotInGrammar
    for keyword in node.keywords:
        if keyword.arg not in _ASSUMPTIONS or not is_constant(keyword.value, bool):
            raise NotInGrammar
    return SYMBOL_BITS


def _float_bits(node: ast.Call) -> int:
    digits = _text(node)
    precisions = [keyword.value for keyword in node.keywords if keyword.arg == "precision"]
    if len(precisions) != len(node.keywords) or any(integer(part) != 53 for part in precisions):
        raise NotInGrammar
    if not _DECIMAL.fullmatch(digits) or not math.isfinite(float(digits)):
        raise NotInGrammar
    return SYMBOL_BITS


def _text(node: ast.Call) -> str:
    """The value of a call's only argument, a string."""
    (only,) = _count(node.args, 1)
    if not isinstance(only, ast.Constant) or not isinstance(only.value, str):
        raise NotInGrammar
    return only.value


def _literal_integer(node: ast.expr) -> int:
    """The value of ``Integer(2)`` or ``2``."""
    if isinstance(node, ast.Call):
        if not isinstance(node.func, ast.Name) or node.func.id != "Integer" or node.keywords:
            raise NotInGrammar
        (node,) = _count(node.args, 1)
    return integer(node)


def integer(node: ast.expr) -> int:
    """The value of a whole number, with its sign."""
    sign = 1
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        sign, node = -1, node.operand
    if not isinstance(node, ast.Constant) or type(node.value) is not int:
        raise NotInGrammar
    if node.value.bit_length() > SYMBOL_BITS:
        raise NotInGrammar
    return sign * node.value


def _count(arguments: list[ast.expr], number: int) -> list[ast.expr]:
    if len(arguments) != number:
        raise NotInGrammar
    return arguments


def is_constant(node: ast.expr, kind: type) -> bool:
    """Whether a part is a literal of just this kind."""
    return isinstance(node, ast.Constant) and type(node.value) is kind
