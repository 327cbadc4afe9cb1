"""The nodes of an exported graph: which operator each calls, on what, and what it gives."""

from __future__ import annotations

from typing import Any

from isotropy._run._json import shown
from isotropy.data._exported_names import inner_graph, variable
from isotropy.data._exported_operators import aten_arguments, is_control_flow, require_operator
from isotropy.data._exported_tensors import device, layout, scalar_type
from isotropy.data._json_grammar import (
    Refused,
    Rule,
    flag,
    listing,
    one_of,
    optional,
    real,
    record,
    tagged,
    unread,
    whole,
    words,
)

_named = record({"name": variable})
_sym_int = tagged({"as_name": variable, "as_int": whole()})
_sym_float = tagged({"as_name": variable, "as_float": real})
_sym_bool = tagged({"as_name": variable, "as_bool": flag})
_maybe_tensor = tagged({"as_tensor": _named, "as_none": flag})
_printable = words(r"[^\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029]{0,2000}", "a line of text")
_VALUES: dict[str, Rule] = {
    "as_none": flag,
    "as_tensor": _named,
    "as_tensors": listing(_named),
    "as_int": whole(),
    "as_ints": listing(whole()),
    "as_float": real,
    "as_floats": listing(real),
    "as_string": _printable,
    "as_sym_int": _sym_int,
    "as_sym_ints": listing(_sym_int),
    "as_scalar_type": scalar_type,
    "as_memory_format": one_of([1, 2, 3, 4]),
    "as_layout": layout,
    "as_device": device,
    "as_bool": flag,
    "as_bools": listing(flag),
    "as_sym_bool": _sym_bool,
    "as_sym_bools": listing(_sym_bool),
    "as_optional_tensor": _maybe_tensor,
    "as_optional_tensors": listing(_maybe_tensor),
    "as_sym_float": _sym_float,
    "as_sym_floats": listing(_sym_float),
    "as_complex": record({"real": real, "imag": real}),
}
# PyTorch's operators take any number for one of these, and look it up in a table unchecked.
_ENUMERATIONS = {
    "ScalarType": "as_scalar_type",
    "Layout": "as_layout",
    "MemoryFormat": "as_memory_format",
    "Device": "as_device",
}

# PyTorch compares inputs that are strings with their text between quotes, in code.
plain_text: Rule = words(r"[^'\"\\\x00-\x1f\x7f-\x9f\u2028\u2029]{0,200}", "plain text")
# What goes into a graph or comes out of it.
boundary: Rule = tagged({**_VALUES, "as_string": plain_text})


def _argument(graph: Rule | None) -> Rule:
    """A value that an operator takes; one that is a graph only where a rule for it is given."""
    if graph is None:
        return tagged(_VALUES)
    return tagged({**_VALUES, "as_graph": record({"name": inner_graph, "graph": graph})})


def nodes(graph: Rule) -> Rule:
    """The nodes of a graph, in the order in which they run.

    Args:
        graph: The rule for graphs within this one.
    """
    plain, controlled = _node(None), _node(graph)

    def node(given: Any) -> dict[str, Any]:
        target = given.get("target") if isinstance(given, dict) else None
        control = isinstance(target, str) and is_control_flow(target)
        found: dict[str, Any] = (controlled if control else plain)(given)
        return found

    return listing(node)


def _node(graph: Rule | None) -> Rule:
    given = record(
        {"name": _argument_name, "arg": _argument(graph)}, {"kind": optional(one_of([0, 1, 2]))}
    )
    fields = record(
        {
            "target": require_operator,
            "inputs": listing(given),
            "outputs": listing(boundary),
            "metadata": unread,
        },
        {"is_hop_single_tensor_return": optional(flag), "name": optional(variable)},
    )

    def rule(value: Any) -> dict[str, Any]:
        found: dict[str, Any] = fields(value)
        _require_arguments(found)
        return found

    return rule


def _argument_name(value: Any) -> str:
    """What an operator calls its argument; PyTorch prints it into code where there is no schema."""
    if not isinstance(value, str) or (value and not (value.isascii() and value.isidentifier())):
        raise Refused("the name of an argument", shown(value))
    return value


def _require_arguments(node: dict[str, Any]) -> None:
    target, given = node["target"], node["inputs"]
    known = aten_arguments(target)
    names = [item["name"] for item in given]
    if known is None:
        for name in names:
            if name:
                variable(name)
    else:
        for i, item in enumerate(given):
            if item["name"] not in known or item["name"] in names[:i]:
                raise Refused(f"the arguments of {target}, each once", shown(item["name"]))
            _require_enumeration(known[item["name"]], item["arg"])


def _require_enumeration(kind: str, given: dict[str, Any]) -> None:
    tag = _ENUMERATIONS.get(kind.removeprefix("Optional[").removesuffix("]"))
    if tag and not given.keys() <= {tag, "as_none"}:
        raise Refused(f"a value of kind {kind}", shown(given))
