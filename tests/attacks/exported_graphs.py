"""Graphs of exported programs as an attacker makes them: what PyTorch would evaluate or call."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import torch

from attacks.exported_archives import (
    ATTRIBUTE,
    EXAMPLES,
    GRAPH,
    MARK,
    PAYLOAD,
    TRAP,
    Attack,
    packed,
    saved,
    unpacked,
    with_files,
    with_json,
)

Change = Callable[[dict[str, Any]], Any]


def with_program(change: Change, name: str = "linear") -> Callable[[], bytes]:
    """Change the file that holds the graph."""
    return with_json(GRAPH, change, name)


def with_graph(change: Change, name: str = "linear") -> Callable[[], bytes]:
    """Change the graph."""
    return with_json(GRAPH, lambda program: change(program["graph_module"]["graph"]), name)


def with_text(old: str, new: str, name: str = "linear") -> Callable[[], bytes]:
    """Replace a string wherever it stands in the file that holds the graph."""

    def build() -> bytes:
        files = unpacked(name)
        given, inner = json.dumps(old), json.dumps(new)
        assert given.encode() in files[GRAPH], old
        return packed({**files, GRAPH: files[GRAPH].replace(given.encode(), inner.encode())})

    return build


# --- expressions ------------------------------------------------------------------------------

_SYMBOL = "Symbol('s31', positive=True, integer=True)"


def _expression(text: str) -> Callable[[], bytes]:
    return with_text(_SYMBOL, text)


def _stride(graph: dict[str, Any]) -> None:
    graph["tensor_values"]["input"]["strides"][0] = {"as_expr": {"expr_str": PAYLOAD, "hint": None}}


def _offset(graph: dict[str, Any]) -> None:
    value = {"as_expr": {"expr_str": PAYLOAD, "hint": None}}
    graph["tensor_values"]["input"]["storage_offset"] = value


def _condition(graph: dict[str, Any]) -> None:
    graph["sym_bool_values"] = {"flag": {"as_expr": {"expr_str": PAYLOAD, "hint": None}}}


def _fraction(graph: dict[str, Any]) -> None:
    (value,) = list(graph["sym_float_values"].values())[:1]
    value["as_expr"]["expr_str"] = PAYLOAD


def _hint(graph: dict[str, Any]) -> None:
    size = graph["tensor_values"]["input"]["sizes"][0]["as_expr"]
    size["hint"] = {"as_int": PAYLOAD}


def _sum_of_symbols(*more: str) -> str:
    symbols = [f"Symbol('s{i}', positive=True, integer=True)" for i in range(1, 13)]
    return f"Add({', '.join([*symbols, *more])})"


def _divided_power(division: str) -> Callable[[], bytes]:
    """What PyTorch takes a greatest common divisor of, with a million terms."""
    power = f"Pow({_sum_of_symbols()}, Integer(13))"
    return _expression(f"{division}({power}, {_sum_of_symbols('Integer(1)')})")


def _many_divisions(graph: dict[str, Any]) -> None:
    """Divisions that each take a hundredth of a second."""
    text = f"FloorDiv(Pow(Add({_SYMBOL}, Integer(1)), Integer(9)), Add({_SYMBOL}, Integer(1)))"
    size = {"as_expr": {"expr_str": text, "hint": None}}
    graph["tensor_values"]["input"]["sizes"] = [size] * 60
    graph["tensor_values"]["input"]["strides"] = [size] * 60


def _inner_size(graph: dict[str, Any]) -> None:
    (branch,) = [n for n in graph["nodes"] if n["target"].endswith(".cond")]
    inner = branch["inputs"][1]["arg"]["as_graph"]["graph"]["tensor_values"]
    next(iter(inner.values()))["sizes"][0] = {"as_expr": {"expr_str": PAYLOAD, "hint": None}}


_HEX = "".join(f"\\x{ord(letter):02x}" for letter in PAYLOAD)
_EXPRESSIONS: list[Attack] = [
    ("a call", _expression(PAYLOAD)),
    ("a call within a sum", _expression(f"Add({_SYMBOL}, {PAYLOAD})")),
    ("a function at once", _expression(f"(lambda: {PAYLOAD})()")),
    ("attributes", _expression("Symbol('s31').__class__.__mro__[-1].__subclasses__()")),
    ("a comprehension", _expression(f"[{PAYLOAD} for x in [1]]")),
    ("a keyword", _expression(f"Symbol('s31', positive={PAYLOAD})")),
    ("a formatted string", _expression(f'f"{{{PAYLOAD}}}"')),
    ("an assignment", _expression(f"(x := {PAYLOAD})")),
    ("a starred call", _expression(f"Add(*[{PAYLOAD}])")),
    ("SymPy's own eval", _expression(f'S("{PAYLOAD}")')),
    ("SymPy's parser", _expression(f'parse_expr("{PAYLOAD}")')),
    ("SymPy's sympify", _expression(f'sympify("{_HEX}")')),
    ("SymPy's lambdify", _expression(f'lambdify([], "{PAYLOAD}")()')),
    ("a file through SymPy", _expression(f"preview(x, viewer='file', filename='{MARK}')")),
    ("other letters", _expression(f"__ｉmport__{PAYLOAD.removeprefix('__import__')}")),
    ("two lines", _expression(f"{_SYMBOL}\n{PAYLOAD}")),
    ("a comment", _expression(f"{_SYMBOL}#\r{PAYLOAD}")),
    ("a symbol that is code", _expression(f'Symbol("{PAYLOAD}")')),
    ("a symbol that is a function", _expression("Symbol('Integer')")),
    ("a power of powers", _expression("Pow(Integer(10), Pow(Integer(10), Integer(10)))")),
    ("powers within powers", _expression("Pow(" * 9 + "Integer(9)" + ", Integer(60))" * 9)),
    ("a long shift", _expression("LShift(Integer(1), Integer(99999999999))")),
    ("a factorial", _expression("factorial(Integer(99999999))")),
    ("a long number", _expression(f"Integer({'9' * 4000})")),
    ("a long fraction", _expression("TruncToInt(Float('1e999999999', precision=53))")),
    ("a precise fraction", _expression("Float('1.5', precision=99999999999)")),
    ("deep brackets", _expression("(" * 3000 + "1" + ")" * 3000)),
    ("deep calls", _expression("Add(" * 500 + _SYMBOL + ")" * 500)),
    ("deep signs", _expression("Integer(" + "-" * 4000 + "1)")),
    (
        "a maximum of many",
        _expression(f"Max({','.join(f'Mod({_SYMBOL},Integer({k}))' for k in range(2, 90))})"),
    ),
    *((f"{name} of a power", _divided_power(name)) for name in ("FloorDiv", "Mod", "CeilDiv")),
    (
        "a product of sums",
        _expression(f"FloorDiv(Mul({', '.join([_sum_of_symbols()] * 12)}), {_sum_of_symbols()})"),
    ),
    ("many divisions by sums", with_graph(_many_divisions)),
    (
        "a choice that SymPy does not end",
        _expression(
            "Piecewise(ExprCondPair(Integer(1), GreaterThan(Integer(5), "
            f"ToFloat(Rational(-2, 7)))), ExprCondPair({_SYMBOL}, true))"
        ),
    ),
    ("in a stride", with_graph(_stride)),
    ("in an offset", with_graph(_offset)),
    ("in a condition", with_graph(_condition)),
    ("in a fraction", with_graph(_fraction, "shapes")),
    ("in a hint", with_graph(_hint)),
    ("in a branch", with_graph(_inner_size, "branch")),
    ("an expression that is a list", with_text(_SYMBOL, "")),
]

# --- guards -----------------------------------------------------------------------------------


def _guard(text: Any) -> Callable[[], bytes]:
    return with_program(lambda program: program.update(guards_code=[text]))


_GUARDS: list[Attack] = [
    ("guard: a call", _guard(PAYLOAD)),
    (
        "guard: very many",
        with_program(
            lambda program: program.update(guards_code=["L['input'].size()[0] > 1"] * 501)
        ),
    ),
    ("guard: a call behind or", _guard(f"L['input'].size()[0] > 0 and {PAYLOAD}")),
    ("guard: the next line", _guard(f"True)\n  {PAYLOAD}\n  (True")),
    ("guard: out of the message", _guard(f"L['input\" + str({PAYLOAD}) + \"'] == 1")),
    ("guard: a file through a tensor", _guard(f"L['input'].numpy().tofile('{MARK}')")),
    ("guard: saving", _guard(f"torch.save(L['input'], '{MARK}')")),
    ("guard: loading", _guard("torch.load('x', weights_only=False)")),
    ("guard: modules of modules", _guard(f"math.__loader__.load_module('{TRAP}')")),
    ("guard: a module of PyTorch", _guard(f"torch.serialization.os.system('touch {MARK}') == 0")),
    ("guard: a method of an input", _guard("L['input'].resize_(9) is None")),
    ("guard: an index that calls", _guard(f"L['input'].size()[{PAYLOAD}] == 1")),
    ("guard: a lambda", _guard(f"(lambda: {PAYLOAD})()")),
    ("guard: a comprehension", _guard(f"any({PAYLOAD} for _ in [1])")),
    ("guard: a power of powers", _guard("9**9**9**9 > L['input'].size()[0]")),
    ("guard: a power by a size", _guard("9**L['input'].size()[0]**L['input'].size()[0] > 1")),
    ("guard: a long shift", _guard("1 << 99999999999 > 1")),
    ("guard: a formatted string", _guard(f"'%s' % {PAYLOAD}")),
    ("guard: builtins", _guard("__builtins__ == 1")),
    ("guard: an input without a name", _guard("L == 1")),
    ("guard: no text", _guard({"eval": PAYLOAD})),
    ("guard: deep", _guard("not " * 1500 + "1")),
]

# --- operators --------------------------------------------------------------------------------


def _text(value: str, name: str = "") -> dict[str, Any]:
    return {"name": name, "arg": {"as_string": value}, "kind": 1}


def _calls(target: str, *inputs: dict[str, Any], name: str = "linear") -> Callable[[], bytes]:
    """Make a node call something else; without inputs, on what it was called on."""

    def change(graph: dict[str, Any]) -> None:
        node = graph["nodes"][0]
        node["target"] = target
        if inputs:
            node["inputs"] = list(inputs)

    return with_graph(change, name)


def _operator_argument(graph: dict[str, Any]) -> None:
    graph["nodes"][0]["inputs"][0]["arg"] = {"as_operator": "torch.serialization.os.system"}


def _from_file(graph: dict[str, Any]) -> None:
    graph["nodes"][0] |= {
        "target": "torch.ops.aten.from_file.default",
        "inputs": [
            _text(MARK, "filename"),
            {"name": "shared", "arg": {"as_bool": True}, "kind": 1},
            {"name": "size", "arg": {"as_int": 20}, "kind": 1},
        ],
    }


def _kind_as_number(graph: dict[str, Any]) -> None:
    x = graph["nodes"][0]["inputs"][0]["arg"]
    graph["nodes"][0] |= {
        "target": "torch.ops.aten.softmax.int",
        "inputs": [
            {"name": "self", "arg": x, "kind": 1},
            {"name": "dim", "arg": {"as_int": 1}, "kind": 1},
            {"name": "dtype", "arg": {"as_int": 2**62}, "kind": 1},
        ],
    }


# These trust sizes, strides, lengths or scales that they are given.
_BEYOND = [
    "_reshape_alias.default",
    "as_strided_.default",
    "as_strided_scatter.default",
    "gru.data",
    "lstm.data",
    "rnn_relu.data",
    "rnn_tanh.data",
    "_native_batch_norm_legit.default",
    "linalg_lstsq.default",
    "_scaled_dot_product_flash_attention_for_cpu.default",
    "upsample_nearest1d.default",
    "upsample_bicubic2d.default",
    "_upsample_nearest_exact1d.default",
]
_VMAP = "torch._functorch.predispatch"
_SHELL = _text(f"touch {MARK}")
_OPERATORS: list[Attack] = [
    ("the shell", _calls("torch.serialization.os.system", _SHELL)),
    ("the shell of a module", _calls("torch._utils.sys.modules.os.system", _SHELL)),
    ("a hub", _calls("torch.hub.load", _text("a/b"), _text("c"))),
    ("loading", _calls("torch.load", _text("x"))),
    ("saving", _calls("torch.save", _text("x"), _text(MARK))),
    ("a library", _calls("torch.ops.load_library", _text("x.so"))),
    ("classes", _calls("torch.classes.load_library", _text("x.so"))),
    ("compiling", _calls("torch.utils.cpp_extension.load_inline", _text("x"), _text("y"))),
    ("evaluation by name", _calls("torch._C._jit_try_infer_type", _SHELL)),
    ("a file as a tensor", with_graph(_from_file)),
    ("printing", _calls("torch.ops.aten._print.default", _text("hello", "s"))),
    ("a storage", _calls("torch.ops.aten.set_.source_Tensor")),
    ("resizing", _calls("torch.ops.aten.resize_.default")),
    ("unchecked segments", _calls("torch.ops.aten.segment_reduce.default")),
    ("unchecked pivots", _calls("torch.ops.aten.linalg_lu_solve.default")),
    ("unchecked sparse indices", _calls("torch.ops.aten._sparse_coo_tensor_unsafe.default")),
    ("pointers in tensors", _calls("torch.ops.aten.fbgemm_linear_fp16_weight.default")),
    *((f"beyond a tensor: {name}", _calls(f"torch.ops.aten.{name}")) for name in _BEYOND),
    ("a kind that is any number", with_graph(_kind_as_number)),
    ("an output argument", _calls("torch.ops.aten.add.out")),
    ("strings of TorchScript", _calls("torch.ops.aten.add.str", _text("a", "a"), _text("b", "b"))),
    ("powers of TorchScript", _calls("torch.ops.aten.pow.int")),
    ("an operator of no overload", _calls("torch.ops.aten.linear")),
    ("an overload's attribute", _calls("torch.ops.aten.linear.default.__class__")),
    ("another namespace", _calls("torch.ops.inductor.resize_storage_bytes_.default")),
    ("processes", _calls("torch.ops.c10d.send.default")),
    ("a profiler", _calls("torch.ops.profiler._record_function_enter.default", _text("x", "name"))),
    ("an extension", _calls("#ext:op")),
    ("a method caller", _calls("_operator.methodcaller", _text("numpy"))),
    ("an attribute getter", _calls("_operator.attrgetter", _text("__class__"))),
    ("an operator's module", _calls("_operator.__loader__.load_module", _text(TRAP))),
    ("a module of mathematics", _calls("mathematics.exp")),
    ("mathematics' loader", _calls("math.__loader__.load_module", _text(TRAP))),
    ("a Triton kernel", _calls("torch.ops.higher_order.triton_kernel_wrapper_functional")),
    ("a call by reference", _calls("torch.ops.higher_order.auto_functionalized")),
    ("a script object's method", _calls("torch.ops.higher_order.call_torchbind", _text("run"))),
    ("higher-order printing", _calls("torch.ops.higher_order.print", _text("hello"))),
    ("compiled within", _calls("torch.ops.higher_order.executorch_call_delegate")),
    ("a vmap that is left open", _calls(f"{_VMAP}._vmap_increment_nesting", _SHELL)),
    ("a vmap that was not opened", _calls(f"{_VMAP}._vmap_decrement_nesting")),
    ("a level of vmap", _calls(f"{_VMAP}._add_batch_dim")),
    ("gradients switched off", _calls("torch._C._set_grad_enabled")),
    ("no operator", _calls("")),
    ("an operator as an argument", with_graph(_operator_argument)),
    (
        "an object as an argument",
        with_graph(
            lambda graph: graph["nodes"][0]["inputs"][0].update(
                arg={"as_custom_obj": {"name": "trap", "class_fqn": "__torch__.Trap"}}
            )
        ),
    ),
    (
        "an argument of another operator",
        with_graph(lambda graph: graph["nodes"][0]["inputs"][0].update(name="out")),
    ),
]

# --- names ------------------------------------------------------------------------------------


def _graph_name(name: str) -> Callable[[], bytes]:
    def change(graph: dict[str, Any]) -> None:
        (branch,) = [n for n in graph["nodes"] if n["target"].endswith(".cond")]
        branch["inputs"][1]["arg"]["as_graph"]["name"] = name

    return with_graph(change, "branch")


def _keyword_name(graph: dict[str, Any]) -> None:
    (branch,) = [n for n in graph["nodes"] if n["target"].endswith(".cond")]
    branch["inputs"][3] |= {"name": f"x={PAYLOAD}, y", "kind": 2}


def _stack_trace(graph: dict[str, Any]) -> None:
    graph["nodes"][0]["metadata"]["stack_trace"] = f'File "x", line 1, in f\n  pass\r    {PAYLOAD}'


def _constant_text(program: dict[str, Any]) -> None:
    text = f"' + str({PAYLOAD}) + '"
    module = program["graph_module"]
    for part in module["graph"]["inputs"]:
        part |= {"as_string": text} if "as_string" in part else {}
    for spec in module["signature"]["input_specs"]:
        if "constant_input" in spec:
            spec["constant_input"]["value"] = {"as_string": text}


def _key_of_inputs() -> bytes:
    """A key of an input, which is printed into a guard and into its message."""
    key = f"+str({PAYLOAD})+"
    files = unpacked("inputs")
    program = json.loads(files[GRAPH])
    call = program["graph_module"]["module_call_graph"][0]["signature"]
    call["in_spec"] = call["in_spec"].replace("left", key)
    x = torch.ones(3, 2)
    given = ((torch.ones(4, 3), {key: x, "right": [x]}), {"bias": x[0], "mode": "sum"})
    return packed({**files, GRAPH: json.dumps(program).encode(), EXAMPLES: saved(given)})


def _call(change: Change, name: str = "linear") -> Callable[[], bytes]:
    return with_program(
        lambda program: change(program["graph_module"]["module_call_graph"][0]["signature"]), name
    )


def _named_argument(signature: dict[str, Any]) -> None:
    signature["in_spec"] = signature["in_spec"].replace("bias", f"':{PAYLOAD},'")


_NAMES: list[Attack] = [
    ("an input's name", with_text("x", f"x={PAYLOAD}", "outputs")),
    ("a parameter's name", with_text("p_0_weight", f"x={PAYLOAD}")),
    ("a value's name", with_text("tanh", f"x={PAYLOAD};y")),
    ("a name of two lines", with_text("tanh", f"x\n    {PAYLOAD}\n    y")),
    ("a keyword as a name", with_text("tanh", "import")),
    ("PyTorch as a name", with_text("tanh", "torch")),
    ("self as a name", with_text("tanh", "self")),
    ("a name that Python reads otherwise", with_text("tanh", "ｔorch")),
    ("an empty name", with_text("tanh", "")),
    ("a graph's name", _graph_name(ATTRIBUTE)),
    ("a graph's name above", _graph_name("forward")),
    ("an argument's name", with_graph(_keyword_name, "branch")),
    ("arguments' names", _call(lambda call: call.update(forward_arg_names=[f"x={PAYLOAD}"]))),
    ("a named argument", _call(_named_argument, "inputs")),
    ("a constant's text", with_program(_constant_text, "inputs")),
    ("a key of inputs", _key_of_inputs),
]

# --- nestings ---------------------------------------------------------------------------------

_LEAF = {"type": None, "context": None, "children_spec": []}


def _nested(
    kind: str, context: Any, *children: Any, field: str = "out_spec"
) -> Callable[[], bytes]:
    spec = {"type": kind, "context": context, "children_spec": list(children)}
    return _call(lambda call: call.update({field: json.dumps([1, spec])}))


def _deep() -> bytes:
    text = '[1, {"type": "builtins.list", "context": "null", "children_spec": ['
    text = text[:4] + text[4:] * 3000 + json.dumps(_LEAF) + "]}" * 3000 + "]"
    return _call(lambda call: call.update(out_spec=text))()


_IMPORT = {"default_factory_module": TRAP, "default_factory_name": "x", "dict_context": ["a"]}
_ENUM = json.dumps([{"__enum__": True, "fqn": f"{TRAP}:Color", "name": "RED"}])
_TREES: list[Attack] = [
    ("a default that is imported", _nested("collections.defaultdict", _IMPORT, _LEAF)),
    ("an enumeration that is imported", _nested("builtins.dict", _ENUM, _LEAF)),
    ("an enumeration in a tuple", _nested("builtins.tuple", _ENUM, _LEAF)),
    ("a class by name", _nested("collections.namedtuple", "torch.return_types.max", _LEAF)),
    ("a registered class", _nested("transformers.DynamicCache", "[]", _LEAF)),
    ("a queue", _nested("collections.deque", "0", _LEAF)),
    ("a key that is code", _nested("builtins.dict", json.dumps([f"'+{PAYLOAD}+'"]), _LEAF)),
    ("a key twice", _nested("builtins.dict", '["a", "a"]', _LEAF, _LEAF)),
    ("more outputs", _nested("builtins.tuple", "null", _LEAF, _LEAF)),
    ("no inputs", _nested("builtins.tuple", "null", field="in_spec")),
    ("a deep nesting", _deep),
    ("no nesting", _call(lambda call: call.update(in_spec=PAYLOAD))),
]

# --- the rest ---------------------------------------------------------------------------------


def _tokens(program: dict[str, Any]) -> None:
    specs = program["graph_module"]["signature"]["input_specs"]
    specs.append({"token": {"arg": {"name": "token"}}})


def _object(program: dict[str, Any]) -> None:
    about = {"name": "trap", "class_fqn": "__torch__.Trap"}
    program["graph_module"]["graph"]["custom_obj_values"] = {"trap": about}


def _graph_text(change: Callable[[bytes], bytes]) -> Callable[[], bytes]:
    return lambda: with_files({GRAPH: change(unpacked()[GRAPH])})()


_REST: list[Attack] = [
    ("objects", with_program(_object)),
    ("tokens", with_program(_tokens)),
    ("a verifier by name", with_program(lambda program: program.update(verifiers=["EDGE"]))),
    ("an unknown field of the program", with_program(lambda program: program.update(code=PAYLOAD))),
    ("an unknown field of a graph", with_graph(lambda graph: graph.update(hook=PAYLOAD))),
    (
        "many symbols",
        with_program(
            lambda program: program["range_constraints"].update(
                {"u99999999999": {"min_val": 0, "max_val": 1}}
            )
        ),
    ),
    (
        "a range that is code",
        with_program(
            lambda program: program["range_constraints"].update(
                {PAYLOAD: {"min_val": 0, "max_val": 1}}
            )
        ),
    ),
    ("a field twice", _graph_text(lambda text: text.replace(b"{", b'{"guards_code": [], ', 1))),
    ("not a number", _graph_text(lambda text: text.replace(b'"min_val": 2', b'"min_val": NaN'))),
    (
        "a long number in JSON",
        _graph_text(lambda text: text.replace(b'"min_val": 2', b'"min_val": ' + b"9" * 5000)),
    ),
    ("deep JSON", with_files({GRAPH: b"[" * 200_000})),
    ("other bytes than UTF-8", _graph_text(lambda text: text.decode().encode("utf-16"))),
    ("half of the graph", _graph_text(lambda text: text[: len(text) // 2])),
    ("a list for a graph", with_files({GRAPH: b"[]"})),
    ("no graph", with_files({GRAPH: b"{}"})),
]

# What is not read, and does nothing.
UNREAD_REMARKS: list[Attack] = [
    ("a stack trace", with_graph(_stack_trace)),
    (
        "remarks on the graph",
        with_program(lambda program: program["graph_module"].update(metadata={"x": PAYLOAD})),
    ),
]

GRAPH_ATTACKS: list[Attack] = [
    *_EXPRESSIONS,
    *_GUARDS,
    *_OPERATORS,
    *_NAMES,
    *_TREES,
    *_REST,
]
