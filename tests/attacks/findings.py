"""Saved findings that a stranger could hand over: honest folders, each damaged in some way.

``mutated`` damages a copy at random. ``judge`` says what becomes of the folder: it must be refused
in one sentence, or be used like any other. What would run something leaves the file ``ran`` there.
"""

from __future__ import annotations

import json
import math
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from attacks.terminal import acting
from discovery.pieces import json_text
from isotropy.discovery import Finding, Findings

HONEST = Path(__file__).parents[1] / "honest" / "findings"
RAN = "ran"
FOLDERS = sorted(path.name for path in HONEST.iterdir() if path.is_dir())
_PROGRAM = "from pathlib import Path\n(Path(__file__).parent / 'ran').touch()\n"
_LONGEST_SENTENCE = 3000


def copied(name: str, folder: Path, *, anew: bool = False) -> Path:
    """A copy of an honest folder, with a program beside each model that would be seen to run.

    Args:
        name: Of the folder, which an earlier release wrote.
        folder: Where the copy goes.
        anew: Whether the copy is in the format of this release.
    """
    place = folder / name
    if anew:
        Findings.load(HONEST / name).save(place)
    else:
        shutil.copytree(HONEST / name, place)
    for one in [place, *(path for path in place.iterdir() if path.is_dir())]:
        (one / "use_model.py").write_text(_PROGRAM)
    return place


# --- what becomes of a folder -------------------------------------------------------------------


def judge(folder: Path, *, page: bool = False) -> str:
    """ "refused" or "loaded".

    Args:
        folder: Of findings.
        page: Whether to make the report as well.

    Raises:
        AssertionError: If it runs something, ends in anything but one sentence, or loads what is
            not of its type or cannot be used.
    """
    try:
        found = Findings.load(folder)
    except ValueError as error:
        _require_sentence(str(error))
        verdict = "refused"
    except Exception as error:
        raise AssertionError(f"{type(error).__name__} on loading: {error!s:.300}") from error
    else:
        try:
            _require_faithful(found, folder)
        except (TypeError, ValueError, OSError, LookupError) as error:
            raise AssertionError(f"{type(error).__name__} on comparing: {error!s:.300}") from error
        _require_usable(found, page)
        verdict = "loaded"
    assert not list(folder.rglob(RAN)), "something was run"
    return verdict


def _require_sentence(text: str) -> None:
    assert "expected" in text, f"says nothing of what was expected: {text!r:.300}"
    assert len(text) <= _LONGEST_SENTENCE, f"{len(text)} letters are no sentence: {text!r:.300}"
    assert not acting(text), f"codes in {text!r:.300}"
    assert not {"\n", "\t"} & set(text), f"line breaks in {text!r:.300}"


def _require_usable(found: Findings, page: bool) -> None:
    from isotropy.report import finding_page

    with tempfile.TemporaryDirectory() as elsewhere:
        uses: list[Callable[[], Any]] = [
            lambda: str(found),
            lambda: found.answer,
            lambda: found.best,
            lambda: json_text(found.to_json()),
            found._repr_html_,
            lambda: Findings.load(found.save(elsewhere)),
        ]
        if page:
            uses.append(lambda: finding_page(found))
        for one in _all(found):
            uses += [lambda one=one: str(one), one._repr_html_, lambda one=one: one.to_json()]
            uses += [
                lambda one=one, soft=soft: one.predict(rows_for(one, soft), soft=soft)
                for soft in (False, True)
            ]
        for use in uses:
            try:
                use()
            except ValueError:
                pass
            except Exception as error:
                raise AssertionError(f"{type(error).__name__} in use: {error!s:.300}") from error


def rows_for(finding: Finding, soft: bool) -> np.ndarray:
    """Rows that a model of a finding should take; none where there is no model."""
    model: Any = finding.soft.model if soft and finding.soft is not None else finding.model
    layout = finding.layout
    if layout.image:
        return np.full((2, *layout.image), 0.5)
    wide = getattr(model, "in_features", 1)
    shape = (wide,)
    if layout.channels > 1 or layout.sequences:
        sides = (wide // layout.channels, layout.channels)
        shape = sides[::-1] if layout.channels_first else sides
    return np.full((2, *shape), 0.5)


def _all(found: Findings) -> Iterator[Finding]:
    yield from (*found.findings, *found.nearly, *found.partly, *found.trivial)


# --- that what loads is what the files say, in the types that we declare ------------------------


def _is(*kinds: type) -> Callable[[Any], bool]:
    return lambda value: type(value) in kinds


def _tuple_of(check: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: type(value) is tuple and all(map(check, value))


def _array(axes: tuple[int, ...], kind: type) -> Callable[[Any], bool]:
    def check(value: Any) -> bool:
        return value is None or (
            isinstance(value, np.ndarray)
            and value.ndim in axes
            and value.dtype == kind
            and bool(np.isfinite(value).all())
        )

    return check


_TYPES: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("name", "group", "action", "method", "trivial"), _is(str)),
    **dict.fromkeys(("order", "dimension"), _is(int, type(None))),
    **dict.fromkeys(("approximate", "confirmed"), _is(bool)),
    "p_value": lambda p: type(p) is float and 0 <= p <= 1,
    **dict.fromkeys(("effect", "margin"), _is(float)),
    "interval": lambda pair: _tuple_of(_is(float))(pair) and len(pair) == 2,
    "samples": _is(int),
    **dict.fromkeys(("notes", "input_names", "output_names", "coordinates"), _tuple_of(_is(str))),
    "centre": _tuple_of(_is(float)),
    **dict.fromkeys(("classes", "discrete", "layers"), _tuple_of(_is(dict))),
    "labels": _array((1, 2), np.int64),
    "generators": _array((3,), np.float64),
    "metric": _array((2,), np.float64),
    "examples": _array((3, 4, 5), np.float64),
    "equivariance_error": _is(float, type(None)),
    "certificates": _is(dict, type(None)),
    "custom": _is(dict),
}


def _require_faithful(found: Findings, folder: Path) -> None:
    """Types are those declared, and values those of the files: nothing was turned into another."""
    said = json.loads((folder / "findings.json").read_text())
    told = found.to_json()
    for name in ("tried", "seconds", "notes", "reading", "stopped"):
        if name in said:
            assert _same(said[name], told[name]), f"{name}: {said[name]!r:.80} became another"
    assert type(found.seconds) is float
    kinds = (("findings", "finding"), ("nearly",) * 2, ("partly",) * 2, ("trivial",) * 2)
    for kind, word in kinds:
        for number, one in enumerate(getattr(found, kind), 1):
            raw = flat(json.loads((folder / f"{word}-{number}" / "finding.json").read_text()))
            written = flat(json.loads(json_text(one.to_json())))
            for name, check in _TYPES.items():
                value = getattr(one, name)
                assert check(value), f"{name} is {type(value).__name__}: {value!r:.80}"
            for name in raw.keys() & written.keys():
                if name != "layout":
                    wrong = f"{name}: {raw[name]!r:.80} became {written[name]!r:.80}"
                    assert _same(raw[name], written[name]), wrong
            assert raw["has_weights"] is (one.model is not None)


def flat(given: dict[str, Any]) -> dict[str, Any]:
    """The fields of a finding in either format, those of its kind beside the others."""
    rest = {name: value for name, value in given.items() if name not in ("format", "details")}
    details = dict(given.get("details", {}))
    # the first format wrote the fields of all kinds, and not how rows and targets move
    known = {k: v for k, v in details.items() if k not in ("kind", "rows", "outputs")}
    known["layout"] = {k: v for k, v in rest["layout"].items() if k != "output_image"}
    return {k: v for k, v in {**rest, **known}.items() if v not in (None, [])}


def _same(said: Any, told: Any) -> bool:
    """Whether two values are one in JSON: true is not 1, and "1" is not 1."""
    if isinstance(said, dict) and isinstance(told, dict):
        return said.keys() <= told.keys() and all(_same(v, told[k]) for k, v in said.items())
    if isinstance(said, list) and isinstance(told, list | tuple):
        return len(said) == len(told) and all(map(_same, said, told))
    numbers = (int, float)
    if type(said) in numbers and type(told) in numbers:
        return said == told or (type(told) is float and float(said) == told)
    return type(said) is type(told) and said == told


# --- damage at random ---------------------------------------------------------------------------

NASTY: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 3, 7, 100, 0.5, -0.5, 1.5, 1e308, -1e308, 5e-324, 1e-9),
    *(10**9, 10**30, 10**400, 2**31, 2**53 + 1, 2**63, -(2**63) - 1),
    *("", "no", "true", "1", "0.01", "NaN", "null", "é" * 50, "x" * 100_000, "a\nb", "\x00"),
    *(
        "\x1b[2J\x1b]0;gone\x07",
        "\x9b31m",
        "\u202egnp.exe",
        "\ud800",
        "[red]x[/red]",
        "{0.__class__}",
    ),
    *("<script>alert(1)</script>", "'><img src=x onerror=alert(1)>", "</script><!--", "../../etc"),
    *(
        "S(1000000000)",
        "SO(100000)",
        "S(9)",
        "SO(3)",
        "Z(4)*Z(4)",
        "wreath(S(999),S(999))",
        "GL(40)",
    ),
    *("+".join(["S(2)"] * 200), "*".join(["Z(9)"] * 30), "(" * 60 + "Z(2)" + ")" * 60, "Z(²)"),
    *("V", "Scalar", "T(40)", "T(3)", "((V**1000)**1000)**1000", "Regular", "(V+Scalar)**40"),
    *("V.on([0],99999999)", "9999999*V", "V*V*V*V*V*V", "Block(0)", "5*(V+Scalar)", "V>>V", "V.T"),
    *("Group(discrete=[[1,0]])", "Group(discrete=[[1,2,3,4,5,6,7,0],[1,0,2,3,4,5,6,7]])"),
    *("embed(SO(3),100000)", "conjugate(Z(2),[[1,1],[0,1]])", "semidirect(S(50),S(50))"),
    *("S(3): V >> Scalar", "SO(2): V >> V", "linear", "emlp", "mlp", "image network", "soft"),
    *(
        [],
        {},
        [[]],
        [None],
        ["a"],
        [1, 2, 3],
        [1.5],
        [[1, 0], [0, 1]],
        [[1], [2, 3]],
        [True, False],
    ),
    *([0] * 5000, [[0] * 60] * 60, [[[[[[[[]]]]]]]], {"a": {"b": {"c": {}}}}, {"kind": "linear"}),
    {"kind": "mlp", "inputs": 5, "outputs": 1, "channels": 2**24, "layers": 16},
    {"kind": "mlp", "inputs": 3, "outputs": 1, "channels": 4, "layers": 1},
    {"kind": "emlp", "channels": "V", "layers": 1},
    {"kind": "emlp", "channels": 512, "layers": 16},
    {"kind": "standardised", "model": {"kind": "linear", "bias": False}},
    {"kind": "symmetrised", "model": {"kind": "linear"}, "elements": 1024},
    {"kind": "soft", "model": {"kind": "linear"}, "variances": [1.0, 1.0]},
    {"kind": "shared linear", "bias": False},
    {"format": 1, "group": "S(4)", "rep_in": "V", "rep_out": "V"},
    {"format": 1, "group": "SO(3)", "rep_in": "T(2)", "rep_out": "Scalar"},
    {"format": 1, "group": "S(200000)", "rep_in": "V", "rep_out": "V"},
)


def mutated(folder: Path, chance: random.Random) -> str:
    """Damage a folder of findings in place; what was done, in words.

    Args:
        folder: A copy of an honest one (``copied``).
        chance: Draws what is done.
    """
    jsons = sorted(path for path in folder.rglob("*.json"))
    weights = sorted(folder.rglob("*.safetensors"))
    done = []
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        draw = chance.random()
        if draw < 0.8:
            path = chance.choice(jsons)
            done.append(f"{path.name}: {_mutated_json(path, chance, jsons)}")
        elif draw < 0.87:
            path = chance.choice(jsons)
            done.append(f"{path.name}: {_mutated_bytes(path, chance)}")
        elif draw < 0.95 and weights:
            path = chance.choice(weights)
            done.append(f"{path.name}: {chance.choice(_ON_WEIGHTS)(path, chance)}")
        else:
            path = chance.choice([*jsons, *weights])
            done.append(f"{path.name}: {chance.choice(_ON_FILES)(path, chance)}")
        jsons = [path for path in jsons if path.is_file() and _read(path) is not None] or jsons[:1]
        if not jsons[0].is_file() or _read(jsons[0]) is None:
            break
        weights = [path for path in weights if path.is_file()]
    if chance.random() < 0.7:
        signed(folder)
    return "; ".join(done)


def _read(path: Path) -> Any:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _mutated_json(path: Path, chance: random.Random, others: list[Path]) -> str:
    value = _read(path)
    if value is None:
        return "left"
    if isinstance(value.get("examples"), list) and chance.random() < 0.8:
        value["examples"] = value["examples"][:1]  # else most places are in there
    holder, key = chance.choice(list(_places(value)))
    words = f"{key!r}"
    way = chance.randrange(9)
    if way <= 3:
        holder[key] = chance.choice(NASTY)
        words += f" = {holder[key]!r:.60}"
    elif way == 4:
        del holder[key]
        words += " deleted"
    elif way == 5:
        new = chance.choice(("extra", "Confirmed", "__class__", "model", "kind", "group", ""))
        if isinstance(holder, dict):
            holder[new] = chance.choice(NASTY)
        else:
            holder.insert(key, chance.choice(NASTY))
        words += f" beside {new!r}"
    elif way == 6:
        donor = _read(chance.choice(_DONORS))
        other, at = chance.choice(list(_places(donor)))
        holder[key] = other[at]
        words += f" = spliced {at!r}"
    elif way == 7:
        other, at = chance.choice(list(_places(value)))
        holder[key], other[at] = json.loads(json.dumps([other[at], holder[key]]))
        words += f" swapped with {at!r}"
    else:
        holder[key] = _bent(holder[key], chance)
        words += f" bent to {holder[key]!r:.60}"
    path.write_text(json.dumps(value), encoding="utf-8")
    return words


def _bent(value: Any, chance: random.Random) -> Any:
    """Nearly the same value."""
    if isinstance(value, bool):
        return chance.choice((int(value), str(value), [value], not value))
    if isinstance(value, int):
        return chance.choice(
            (value + 1, value - 1, -value, value * 10**6, float(value), str(value))
        )
    if isinstance(value, float):
        return chance.choice((value * (1 + 1e-9), -value, value * 1e300, str(value), [value]))
    if isinstance(value, str):
        at = chance.randrange(len(value) + 1)
        put = chance.choice(("\x1b", "\u202e", "<b>", "9", "(", ")", "*", "**9", "+V", " ", "'\""))
        return chance.choice((value[:at] + put + value[at:], value[:at], value * 2, [value], 3))
    if isinstance(value, list):
        copy = list(value)
        chance.shuffle(copy)
        return chance.choice(
            (copy, value[1:], value * 2, [value], {str(k): v for k, v in enumerate(value)})
        )
    if isinstance(value, dict):
        return chance.choice((list(value.values()), [value], {**value, "extra": 1}, str(value)))
    return chance.choice(NASTY)


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in a value that holds another."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in list(items):
        yield value, key
        if isinstance(item, dict | list):
            yield from _places(item)


_DONORS = sorted(HONEST.rglob("finding.json"))


def _mutated_bytes(path: Path, chance: random.Random) -> str:
    data = bytearray(path.read_bytes())
    for _ in range(chance.choice((1, 1, 2, 8))):
        at = chance.randrange(max(1, len(data)))
        way = chance.randrange(3)
        if way == 0:
            data[at : at + 1] = bytes([chance.randrange(256)])
        elif way == 1:
            del data[at : at + chance.choice((1, 1, 20))]
        else:
            data[at:at] = chance.choice(
                (b'"', b"[", b"]", b"{", b"9", b"\xff", b"NaN", b",", b"\\u")
            )
    path.write_bytes(bytes(data))
    return "bytes"


def _flip_weights(path: Path, chance: random.Random) -> str:
    data = bytearray(path.read_bytes())
    for _ in range(chance.choice((1, 4))):
        at = chance.randrange(chance.choice((8, min(len(data), 600), len(data))))
        data[at] ^= 1 << chance.randrange(8)
    path.write_bytes(bytes(data))
    return "bits"


def tensors_in(path: Path) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
    with safe_open(path, framework="pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {}  # noqa: SIM118


def _change_weights(path: Path, chance: random.Random) -> str:
    try:
        tensors, metadata = tensors_in(path)
    except Exception:
        return "left"
    name = chance.choice(sorted(tensors) or ["none"])
    one = tensors.get(name, torch.zeros(1))
    way = chance.randrange(10)
    if way == 0:
        tensors[name] = torch.full_like(one, chance.choice((math.nan, math.inf, -math.inf)))
    elif way == 1:
        tensors[name] = one.to(
            chance.choice((torch.float16, torch.float64, torch.int64, torch.bool))
        )
    elif way == 2:
        tensors[name] = one.flatten()[:-1].clone()
    elif way == 3:
        tensors[name] = one.reshape(-1, 1).clone()
    elif way == 4:
        del tensors[name]
    elif way == 5:
        tensors[f"{name}.extra"] = one.clone()
    elif way == 6:
        tensors[name] = torch.zeros_like(one)
    elif way == 7:
        tensors = {key: value.double() for key, value in tensors.items()}
    elif way == 8:
        key = chance.choice(("complex", "state", "isotropy_checkpoint", "fingerprint"))
        nasty = ("[" * 100_000, "{}", "[]", "null", f'["{name}"]', '["gone"]', "9" * 5000, "", "²")
        metadata[key] = chance.choice(nasty)
    else:
        metadata.pop(chance.choice(sorted(metadata)) if metadata else "", None)
    save_file({k: v.contiguous() for k, v in tensors.items()}, path, metadata)
    return f"weights {name} {way}"


def _cut(path: Path, chance: random.Random) -> str:
    data = path.read_bytes()
    path.write_bytes(data[: chance.randrange(len(data) + 1)])
    return "cut"


def _gone(path: Path, chance: random.Random) -> str:
    path.unlink()
    return "gone"


def _link_out(path: Path, chance: random.Random) -> str:
    outside = Path(tempfile.mkdtemp(dir=_root(path).parent)) / path.name
    path.rename(outside)
    path.symlink_to(outside)
    return "a link out of the folder"


def _root(path: Path) -> Path:
    return path.parent if path.parent.name in FOLDERS else path.parent.parent


def _folder_instead(path: Path, chance: random.Random) -> str:
    path.unlink()
    path.mkdir()
    return "a folder"


def _other_file(path: Path, chance: random.Random) -> str:
    donor = HONEST / "ring" / "finding-1" / chance.choice(("finding.json", "model.safetensors"))
    shutil.copyfile(donor, path)
    return f"{donor.name} of another"


_ON_WEIGHTS = (_flip_weights, _change_weights, _change_weights, _cut)
_ON_FILES = (_cut, _gone, _link_out, _folder_instead, _other_file)


def signed(folder: Path) -> None:
    """Make weights belong to what is in the folder, as whoever damages it could."""
    from isotropy.discovery.telling._finding_files import fingerprint

    for path in folder.rglob("*.safetensors"):
        raw = _read(path.with_name("finding.json"))
        try:
            assert raw is not None
            spec = raw["model"] if path.name == "model.safetensors" else raw["soft"]["model"]
            tensors, metadata = tensors_in(path)
            metadata["fingerprint"] = fingerprint(raw, spec)
            save_file(tensors, path, metadata)
        except Exception:  # no longer weights, or no longer a finding
            continue
