"""Guards of exported programs: conditions on their inputs, which PyTorch runs as Python.

A guard, ``L['x'].size()[0] % 2 == 0``, becomes a line of a function. It is parsed here by a
grammar of its own and written anew from what was parsed.
"""

from __future__ import annotations

import ast

from isotropy.data._exported_names import is_plain_key
from isotropy.data._shape_expressions import (
    SYMBOL_BITS,
    NotInGrammar,
    integer,
    is_constant,
    parse_text,
    power_bits,
)

_CALL_NAMES = """
    max min abs round math.floor math.ceil math.trunc torch.sym_float torch._sym_sqrt
"""
_CALLS = frozenset(_CALL_NAMES.split())
_OPERATIONS = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod, ast.Div, ast.BitAnd, ast.BitOr)
_COMPARISONS = (ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_SIGNS = (ast.USub, ast.UAdd, ast.Not)


def parse_guard(text: object) -> str:
    """Parse a condition on the sizes of inputs.

    Args:
        text: The condition.

    Returns:
        The same condition, written from what was parsed.

    Raises:
        Refused: If it holds anything but comparisons of sizes, or would be too large.

    Example:
        >>> parse_guard("(L['x'].size()[0] % 2) == 0")
        "L['x'].size()[0] % 2 == 0"
    """
    return parse_text(text, "a condition on the sizes of inputs", _guard_bits)


def _guard_bits(node: ast.expr) -> int:
    """How many bits the value of a part of a guard has at most."""
    if isinstance(node, ast.BoolOp):
        return max(map(_guard_bits, node.values))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, _SIGNS):
        return _guard_bits(node.operand)
    if isinstance(node, ast.Compare) and all(isinstance(op, _COMPARISONS) for op in node.ops):
        return max(map(_guard_bits, [node.left, *node.comparators]))
    if isinstance(node, ast.IfExp):
        return max(map(_guard_bits, [node.test, node.body, node.orelse]))
    if isinstance(node, ast.BinOp):
        return _operation_bits(node)
    if isinstance(node, ast.Call) and ast.unparse(node.func) in _CALLS:
        if node.keywords or not node.args:
            raise NotInGrammar
        return max(map(_guard_bits, node.args))
    return _value_bits(node)


def _value_bits(node: ast.expr) -> int:
    """The same for a literal or a size."""
    if is_constant(node, int):
        return abs(integer(node)).bit_length()
    if is_constant(node, bool):
        return 1
    is_number = is_constant(node, float) or ast.unparse(node) in ("math.inf", "math.nan")
    if is_number or _is_size(node):
        return SYMBOL_BITS
    raise NotInGrammar


def _operation_bits(node: ast.BinOp) -> int:
    left = _guard_bits(node.left)
    if isinstance(node.op, ast.Pow | ast.LShift | ast.RShift):
        if is_constant(node.right, float):  # n ** 0.5
            return max(left, SYMBOL_BITS)
        name = {ast.Pow: "Pow", ast.LShift: "LShift", ast.RShift: "RShift"}[type(node.op)]
        return power_bits(name, left, integer(node.right))
    if not isinstance(node.op, _OPERATIONS):
        raise NotInGrammar
    right = _guard_bits(node.right)
    return left + right if isinstance(node.op, ast.Mult) else max(left, right) + 1


def _is_size(node: ast.expr) -> bool:
    """Whether a part is ``L['x'][0].size()[1]``, another property of that input, or a number."""
    if isinstance(node, ast.Subscript) and is_constant(node.slice, int):
        inner = node.value
        if isinstance(inner, ast.Call) and not inner.args and not inner.keywords:
            return _is_property(inner, ("size", "stride"))
    if isinstance(node, ast.Call) and not node.args and not node.keywords:
        return _is_property(node, ("storage_offset",))
    return _is_input(node)


def _is_property(node: ast.Call, names: tuple[str, ...]) -> bool:
    return (
        isinstance(node.func, ast.Attribute)
        and node.func.attr in names
        and _is_input(node.func.value)
    )


def _is_input(node: ast.expr) -> bool:
    """Whether a part is ``L['x']``, with further keys or positions behind it."""
    keys = 0
    while isinstance(node, ast.Subscript):
        if not (is_constant(node.slice, int) or _is_key(node.slice)):
            return False
        node, keys = node.value, keys + 1
    return keys > 0 and isinstance(node, ast.Name) and node.id == "L"


def _is_key(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Constant) and isinstance(node.value, str) and is_plain_key(node.value)
    )
