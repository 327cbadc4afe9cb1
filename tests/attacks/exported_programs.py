"""Exported programs as an attacker makes them: a list, a judge of each, and a source of others."""

from __future__ import annotations

import contextlib
import io
import json
import random
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_unflatten

from attacks.exported_archives import (
    ARCHIVE_ATTACKS,
    CONSTANTS,
    GRAPH,
    HONEST,
    MARK,
    PAYLOAD,
    TRAP,
    UNREAD_INPUTS,
    WEIGHTS,
    Attack,
    packed,
)
from attacks.exported_graphs import GRAPH_ATTACKS, UNREAD_REMARKS
from isotropy.data import load_model

ATTACKS: list[Attack] = [*ARCHIVE_ATTACKS, *GRAPH_ATTACKS]
UNREAD: list[Attack] = [*UNREAD_INPUTS, *UNREAD_REMARKS]

_TEXTS = [
    PAYLOAD,
    f"x={PAYLOAD}",
    f"'+str({PAYLOAD})+'",
    f'"+str({PAYLOAD})+"',
    f"x\n    {PAYLOAD}",
    f"#\r    {PAYLOAD}",
    f"True)\n  {PAYLOAD}\n  (True",
    "torch.serialization.os.system",
    "torch.ops.aten.from_file.default",
    "torch.save",
    "__class__",
    "self",
    "torch",
    MARK,
    f"touch {MARK}",
    TRAP,
    "collections.defaultdict",
    "Pow(Integer(9), Integer(99999999))",
    "9**9**9**9",
    "",
]
_NUMBERS = [0, 1, -1, 2, 7, 99, 2**31, 2**63 - 1, -(2**63), 2**64, 10**30, 0.5, 1e308]
_KEYS = ["as_operator", "as_custom_obj", "as_expr", "as_int", "as_string", "as_graph", "use_pickle"]


def judge(content: bytes, folder: Path) -> str:
    """Load a program, and call it where it loads.

    Args:
        content: The file.
        folder: An empty folder, in which whatever runs leaves its mark.

    Returns:
        "refused" or "loaded".

    Raises:
        AssertionError: If anything ran, or an error was not one sentence of a ValueError.
    """
    path = folder / "program.pt2"
    path.write_bytes(content)
    (folder / f"{TRAP}.py").write_text(f"{PAYLOAD}\n")
    before = {file.name for file in folder.iterdir()}
    with _watched(folder):
        try:
            module = load_model(path)
        except ValueError as error:
            verdict, sentence = "refused", str(error)
        except Exception as error:
            verdict, sentence = type(error).__name__, str(error)
        else:
            verdict, sentence = "loaded", f"{path}: expected nothing, got nothing"
            _call(module)
    left = {file.name for file in folder.iterdir()} - before - {"__pycache__"}
    assert not left, f"it ran: {left}"
    assert TRAP not in sys.modules, "it was imported"
    assert verdict in ("refused", "loaded"), f"{verdict}: {sentence}"
    assert sentence.startswith(f"{path}: expected "), sentence
    assert ", got " in sentence, sentence
    assert "\n" not in sentence, sentence
    assert len(sentence) < len(str(path)) + 600, sentence
    return verdict


@contextlib.contextmanager
def _watched(folder: Path) -> Iterator[None]:
    sys.path.insert(0, str(folder))
    try:
        with contextlib.chdir(folder):
            yield
    finally:
        sys.path.remove(str(folder))


def _call(module: nn.Module) -> None:
    """Call a program on zeros of the sizes that it says; it may fail as it likes."""
    with contextlib.suppress(Exception), torch.no_grad():
        values = [node.meta["val"] for node in module.graph.nodes if node.op == "placeholder"]
        leaves = [_zeros(value) if isinstance(value, torch.Tensor) else value for value in values]
        args, kwargs = tree_unflatten(leaves, module._in_spec)
        module(*args, **kwargs)


def _zeros(like: torch.Tensor) -> torch.Tensor:
    sizes = [size if isinstance(size, int) else size.node.hint for size in like.shape]
    assert all(size < 1000 for size in sizes)
    return torch.zeros(sizes, dtype=like.dtype)


# --- mutations --------------------------------------------------------------------------------


def honest(chance: random.Random) -> bytes:
    """One of the honest programs."""
    return chance.choice(sorted(HONEST.glob("*.pt2"))).read_bytes()


def mutated(content: bytes, chance: random.Random) -> bytes:
    """Change a program in a few places: in its bytes, or in what its JSON says.

    Args:
        content: The file.
        chance: Draws the changes.

    Returns:
        The changed file.
    """
    if chance.random() < 0.2:
        return _mutated_bytes(content, chance)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        files = {n.partition("/")[2]: archive.read(n) for n in archive.namelist()}
    name = chance.choices([GRAPH, WEIGHTS, CONSTANTS, ""], [16, 2, 1, 1])[0]
    if not name:
        name = chance.choice(list(files))
        files[name] = _mutated_bytes(files[name] or b"x", chance)
        return packed(files)
    described = json.loads(files[name])
    for _ in range(chance.choice([1, 1, 1, 2, 5])):
        _mutate_json(described, chance)
    files[name] = json.dumps(described).encode()
    return packed(files)


def _mutated_bytes(content: bytes, chance: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(chance.choice([1, 1, 2, 8])):
        place = chance.randrange(len(changed))
        kind = chance.randrange(4)
        if kind == 0:
            changed[place] = chance.randrange(256)
        elif kind == 1:
            changed[place] ^= 1 << chance.randrange(8)
        elif kind == 2:
            del changed[place : place + chance.choice([1, 4, 100])]
        else:
            changed[place:place] = chance.choice([b"\0", b'"', b"PK\1\2", PAYLOAD.encode()])
        if not changed:
            return b""
    return bytes(changed)


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Every place in a JSON value, as what holds it and its key there."""
    found: list[tuple[Any, Any]] = []
    waiting = [value]
    while waiting:
        holder = waiting.pop()
        keys = holder if isinstance(holder, dict) else range(len(holder))
        for key in keys:
            found.append((holder, key))
            if isinstance(holder[key], dict | list):
                waiting.append(holder[key])
    return found


def _mutate_json(value: Any, chance: random.Random) -> None:
    places = [place for place in _places(value) if place[1] != "stack_trace"]
    if not places:
        return
    holder, key = chance.choice(places)
    kind = chance.randrange(7)
    if kind == 0:
        holder[key] = chance.choice(_TEXTS)
    elif kind == 1:
        holder[key] = chance.choice(_NUMBERS)
    elif kind == 2:
        other, name = chance.choice(places)
        holder[key] = json.loads(json.dumps(other[name]))
    elif kind == 3 and isinstance(holder, dict):
        holder[chance.choice([*_TEXTS, *_KEYS])] = holder.pop(key)
    elif kind == 4:
        del holder[key]
    elif kind == 5 and isinstance(holder[key], str):
        text = holder[key]
        place = chance.randrange(len(text) + 1)
        holder[key] = text[:place] + chance.choice(_TEXTS) + text[place:]
    else:
        holder[key] = chance.choice([None, True, [], {}, [PAYLOAD], {"as_string": PAYLOAD}])
