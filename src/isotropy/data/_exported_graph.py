"""The graph of an exported program, by a grammar of our own.

PyTorch prints a graph's names into Python code, looks its operators up by their dots, evaluates
its sizes and its guards, and imports what its nestings name. Here every field is known and every
string is of its kind; what remains is written anew, without the remarks that nothing needs
(stack traces, names of modules), so that PyTorch reads nothing that was not parsed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from isotropy._run._json import shown
from isotropy.data._exported_names import attribute, variable
from isotropy.data._exported_nodes import boundary, nodes, plain_text
from isotropy.data._exported_tensors import sym_bool, sym_float, sym_int, tensor
from isotropy.data._exported_trees import leaves, parse_tree, require_arguments
from isotropy.data._json_grammar import (
    Refused,
    Rule,
    flag,
    listing,
    mapping,
    one_of,
    optional,
    read_json,
    real,
    record,
    tagged,
    unread,
    whole,
    words,
)
from isotropy.data._shape_expressions import shape_work
from isotropy.data._shape_guards import parse_guard

# Units of `shape_work` for all sizes in a file: at most 3 seconds, besides the milliseconds that
# each takes. Networks have no divisions by sums, or few.
_MOST_WORK = 1600
_MOST_GUARDS = 500  # PyTorch compiles them one by one

_nothing: Rule = mapping(words("(?!)", "no field"), flag)
_graph: Rule = record(
    {
        "inputs": listing(boundary),
        "outputs": listing(boundary),
        "nodes": nodes(lambda graph: _graph(graph)),
        "tensor_values": mapping(variable, tensor),
        "sym_int_values": mapping(variable, sym_int),
        "sym_bool_values": mapping(variable, sym_bool),
    },
    {
        "is_single_tensor_return": flag,
        "custom_obj_values": _nothing,
        "sym_float_values": mapping(variable, sym_float),
    },
)

# --- what goes in and comes out ---------------------------------------------------------------

_constant = tagged(
    {"as_none": flag, "as_int": whole(), "as_float": real, "as_string": plain_text, "as_bool": flag}
)
_named = record({"name": variable})
_user = record({"arg": boundary})
_input = tagged(
    {
        "user_input": _user,
        "parameter": record({"arg": _named, "parameter_name": attribute}),
        "buffer": record({"arg": _named, "buffer_name": attribute, "persistent": flag}),
        "tensor_constant": record({"arg": _named, "tensor_constant_name": attribute}),
        "constant_input": record({"name": variable, "value": _constant}),
    }
)
_output = tagged(
    {
        "user_output": _user,
        "buffer_mutation": record({"arg": _named, "buffer_name": attribute}),
        "parameter_mutation": record({"arg": _named, "parameter_name": attribute}),
        "user_input_mutation": record({"arg": _named, "user_input_name": variable}),
    }
)
_call = record(
    {
        "inputs": listing(boundary),
        "outputs": listing(boundary),
        "in_spec": parse_tree,
        "out_spec": parse_tree,
    },
    {"forward_arg_names": optional(listing(variable))},
)
_graph_module = record(
    {
        "graph": _graph,
        "signature": record({"input_specs": listing(_input), "output_specs": listing(_output)}),
        "module_call_graph": listing(
            record(
                {"fqn": words(r"[^\x00-\x1f]{0,1000}", "a module")}, {"signature": optional(_call)}
            )
        ),
    },
    {"metadata": unread, "treespec_namedtuple_fields": _nothing},
)
_range = record({"min_val": optional(whole()), "max_val": optional(whole())})
_program = record(
    {
        "graph_module": _graph_module,
        "opset_version": mapping(words(r"\w{1,50}", "a set of operators"), whole()),
        "range_constraints": mapping(
            words(r"(?!u|zuf)[\w+\-*/(), .]{1,2000}|(u|zuf)\d{1,6}", "an expression"), _range
        ),
        "schema_version": record({"major": whole(0, 999), "minor": whole(0, 999)}),
    },
    {
        "verifiers": listing(one_of(["TRAINING", "ATEN", ""]), 1),
        "torch_version": words(r"[\w.+<>=]{1,50}", "a version of PyTorch"),
        "guards_code": listing(parse_guard, _MOST_GUARDS),
    },
)


def parse_program(content: bytes) -> dict[str, Any]:
    """Parse the graph of an exported program.

    Args:
        content: The file ``models/model.json``.

    Returns:
        The graph, with nothing in it that the grammar does not name.

    Raises:
        Refused: If it holds anything else.
    """
    program: dict[str, Any] = _program(read_json(content, "the graph of a program"))
    if sum(map(shape_work, _expressions(program))) > _MOST_WORK:
        raise Refused("sizes that SymPy evaluates in seconds", "too many divisions by sums")
    module = program["graph_module"]
    calls = module["module_call_graph"]
    if not calls or calls[0]["fqn"] or not calls[0].get("signature"):
        raise Refused("an exported program that this PyTorch reads", "none of its arguments")
    module["module_call_graph"] = [{**calls[0]}]  # the inner modules' are remarks as well
    _require_agreement(module["signature"], calls[0]["signature"])
    return program


def _expressions(value: Any) -> Iterator[str]:
    """Every expression of sizes, as often as PyTorch evaluates it."""
    for name, inner in value.items() if isinstance(value, dict) else enumerate(value):
        if name == "expr_str":
            yield inner
        elif isinstance(inner, dict | list):
            yield from _expressions(inner)


def _require_agreement(signature: Mapping[str, Any], call: Mapping[str, Any]) -> None:
    """Check that the nestings have as many leaves as the graph has inputs and outputs."""
    require_arguments(call["in_spec"], call.get("forward_arg_names"))
    for nesting, specs, kinds in (
        (call["in_spec"], signature["input_specs"], ("user_input", "constant_input")),
        (call["out_spec"], signature["output_specs"], ("user_output",)),
    ):
        number = sum(kind in spec for spec in specs for kind in kinds)
        if leaves(nesting) != number:
            raise Refused(f"{number} inputs or outputs", f"a nesting of {leaves(nesting)}")


def require_tensors(program: Mapping[str, Any], stored: Mapping[str, Any]) -> None:
    """Check that the graph expects of every parameter and buffer what is stored of it.

    Args:
        program: The graph, as `parse_program` returned it.
        stored: The description of each tensor that the file holds.

    Raises:
        Refused: If one is missing, or of another shape or kind.
    """
    module = program["graph_module"]
    values = module["graph"]["tensor_values"]
    for spec in module["signature"]["input_specs"]:
        ((kind, about),) = spec.items()
        name = about.get(f"{kind}_name")
        if name is None:
            continue
        if name not in stored:
            raise Refused(f"the {kind} {shown(name)}", "none of that name")
        expected, found = values.get(about["arg"]["name"], {}), stored[name]["tensor_meta"]
        for field in ("dtype", "sizes"):
            if expected.get(field) != found[field]:
                raise Refused(f"the {kind} {shown(name)} as it is stored", f"another {field}")


def write_program(program: Mapping[str, Any]) -> bytes:
    """The graph, written from what `parse_program` returned."""
    return json.dumps(program, allow_nan=False).encode()
