"""Certificates that were altered or made by hand, and what becomes of them.

``mutated`` makes one from an honest certificate of any kind: other bits, other networks, splices of
two, other starts, groups and claims, mostly sealed again so that only the contents can give them
away. ``judge`` verifies it, and has whatever is accepted reproduced by the second verifier.
"""

from __future__ import annotations

import hashlib
import json
import math
import random
import struct
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from attacks import second_verifier
from attacks.second_draws import drawn_certificate, matrices, numbers, permutations
from attacks.second_networks import Parameter
from certificate_parts import Examples, TensorSum
from isotropy.certificates import (
    PROJECTORS,
    Architecture,
    Certificate,
    Goal,
    Hypothesis,
    Rejected,
    verify,
)
from isotropy.groups import GridFlips, Group, Trivial, p4, p4m, wreath

HONEST = Path(__file__).parents[1] / "honest" / "certificates"
MOST_MEMORY, MOST_SECONDS = 400 * 10**6, 5.0
_LENGTHS = struct.Struct("<HIIQ")


@dataclass(frozen=True, eq=False)
class Base:
    """An honest certificate, and the rows it speaks of."""

    name: str
    content: bytes
    sample: Examples


class Disagreement(Exception):
    """The library accepts what the second verifier does not reproduce."""


class TooDear(Exception):
    """Checking took more than the limit allows."""


def own_module() -> nn.Module:
    return nn.Sequential(nn.Linear(2, 6), nn.Tanh(), nn.Linear(6, 2))


def _own_forward(tensors: Sequence[np.ndarray], x: np.ndarray) -> np.ndarray:
    first, first_bias, last, last_bias = tensors
    hidden: np.ndarray = np.tanh(x @ first.T + first_bias)
    return hidden @ last.T + last_bias


OWN = second_verifier.Module(
    [
        Parameter((6, 2), math.sqrt(1 / 2)),
        Parameter((6,)),
        Parameter((2, 6), math.sqrt(1 / 6), film=True),
        Parameter((2,), film=True),
    ],
    _own_forward,
)


@cache
def bases() -> tuple[Base, ...]:
    """Those that the tests keep, one of each kind; plain ones several times, as they cost least."""
    told = json.loads((HONEST / "verdicts.json").read_text())
    with np.load(HONEST / "rows.npz") as held:
        arrays = {name: torch.from_numpy(held[name]) for name in held.files}
    few = torch.arange(6)
    found = []
    for name, then in told.items():
        x, y = (arrays[part] for part in then["data"])
        certificate = Certificate.load(HONEST / f"{name}.iso")
        sample = Examples(x, y)
        assert sample.digest() == certificate.data
        images = name.startswith("images")
        symmetric = name in ("shared", "equivariant", "planar", "own-basis")
        if images:  # fewer rows are checked faster
            sample = sample.rows(few)
            certificate = _of(certificate, sample)
        times = 1 if images else 4 if symmetric else 40
        found += [Base(name, certificate.to_bytes(), sample)] * times
    return tuple(found)


def _of(certificate: Certificate, sample: Examples) -> Certificate:
    """The same network with claims about other rows that any network meets."""
    claims = {**certificate.claims, "n": len(sample), "errors": len(sample), "bound": 1.0}
    return replace(certificate, claims=claims, data=sample.digest())


# --- what an attacker does ------------------------------------------------------------------------


def parts(content: bytes) -> tuple[dict[str, Any], bytes, bytes]:
    _, header, message, start = _LENGTHS.unpack_from(content, 8)
    at = 8 + _LENGTHS.size
    table = json.loads(content[at : at + header])
    at += header
    return table, content[at : at + message], content[at + message : at + message + start]


def sealed(header: bytes | dict[str, Any], message: bytes, start: bytes = b"") -> bytes:
    """A container with a SHA-256 that is right."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    body = b"isotropy" + _LENGTHS.pack(1, len(text), len(message), len(start))
    body += text + message + start
    return body + hashlib.sha256(body).digest()


def modest(base: Base, message: bytes, start: bytes | None = None) -> bytes:
    """Another message, with claims that any network meets."""
    header, _, kept = parts(base.content)
    rows = header["claims"]["n"]
    with suppress(Rejected, ValueError):
        said = Hypothesis.from_message(message)
        if said.architecture is not None:
            header["model"], header["model_digest"] = str(said.architecture), None
        rows = len(base.sample)
        if said.percent is not None:
            rows -= rows * said.percent // 100
    header["claims"] |= {"bound": 1.0, "errors": rows, "n": rows, "message_bits": 8 * len(message)}
    return sealed(header, message, kept if start is None else start)


def flipped(content: bytes, chance: random.Random, most: int = 3) -> bytes:
    changed = bytearray(content)
    for _ in range(chance.randint(1, most)):
        if changed:
            place = chance.randrange(8 * len(changed))
            changed[place // 8] ^= 1 << place % 8
    return bytes(changed)


WORDS: list[Any] = [
    *(None, True, -1, 0, 1, 2**63, 10**400, 0.0, -0.0, 1e-320, 0.04, 0.5, 1.0, 1e308),
    *("", "0.05", "\x1b[2J", "\ud800", "a" * 64, [], {}, [[]], {"bound": 0.1}, "binomial_tail"),
]


def _other_bits(base: Base, chance: random.Random) -> bytes:
    return modest(base, flipped(parts(base.content)[1], chance))


def _claimed_as_before(base: Base, chance: random.Random) -> bytes:
    header, message, start = parts(base.content)
    return sealed(header, flipped(message, chance), start)


def _random_message(base: Base, chance: random.Random) -> bytes:
    return modest(base, chance.randbytes(chance.randint(0, 40)))


def _longer_or_shorter(base: Base, chance: random.Random) -> bytes:
    message = parts(base.content)[1]
    at = chance.randrange(len(message) + 1)
    inner = chance.randbytes(chance.randint(0, 3))
    return modest(base, message[:at] + inner + message[at + chance.randint(0, 3) :])


def _other_words(base: Base, chance: random.Random) -> bytes:
    header, message, start = parts(base.content)
    table = chance.choice([header, header["claims"], header["claims"], header["notes"]])
    table[chance.choice([*table, "unknown", "test_error"])] = chance.choice(WORDS)
    return sealed(header, message, start)


def _better_claims(base: Base, chance: random.Random) -> bytes:
    header, message, start = parts(base.content)
    claims = header["claims"]
    name = chance.choice(["bound", "errors", "n", "delta", "message_bits"])
    factor = chance.choice([0.5, 0.9, 0.999999, 1.000001, 1.1, 2.0])
    claims[name] = type(claims[name])(claims[name] * factor)
    return sealed(header, message, start)


def _other_text(base: Base, chance: random.Random) -> bytes:
    header, message, start = parts(base.content)
    text = bytearray(json.dumps(header).encode())
    for _ in range(chance.randint(1, 4)):
        text[chance.randrange(len(text))] = chance.randrange(256)
    return sealed(bytes(text), message, start)


def _other_container(base: Base, chance: random.Random) -> bytes:
    lengths = list(_LENGTHS.unpack_from(base.content, 8))
    at = chance.randrange(4)
    lengths[at] = chance.choice([0, 1, lengths[at] + 1, lengths[at] - 1, 2**16 - 1]) % 2**16
    body = base.content[:8] + _LENGTHS.pack(*lengths) + base.content[8 + _LENGTHS.size : -32]
    return body + hashlib.sha256(body).digest()


def _not_sealed(base: Base, chance: random.Random) -> bytes:
    return flipped(base.content, chance)


def _splice(base: Base, chance: random.Random) -> bytes:
    other = chance.choice(bases())
    message, another = parts(base.content)[1], parts(other.content)[1]
    at = chance.randrange(min(len(message), len(another)) + 1)
    joined = message[:at] + another[at:] if chance.random() < 0.7 else another
    start = parts(other.content)[2] if chance.random() < 0.3 else None
    return modest(base, joined, start)


def _other_start(base: Base, chance: random.Random) -> bytes:
    _, message, start = parts(base.content)
    if not start or chance.random() < 0.2:
        return modest(base, message, chance.randbytes(chance.choice([0, 4, 40, 1000])))
    values = np.frombuffer(start, "<f4").copy()
    change = chance.randrange(5)
    if change == 0:
        return modest(base, message, flipped(start, chance))
    if change == 1:
        nasty = [np.inf, np.nan, -np.inf, 3e38, -3e38, 1e-45, -0.0]
        values[chance.randrange(len(values))] = chance.choice(nasty)
    elif change == 2:
        values *= np.float32(chance.choice([0, -1, 1e10, 1e30, 1e-30]))
    elif change == 3:
        values = values[: chance.randrange(len(values))]
    else:
        values = np.random.default_rng(chance.getrandbits(32)).normal(size=len(values))
    return modest(base, message, values.astype("<f4").tobytes())


def _other_network(base: Base, chance: random.Random) -> bytes:
    """A change of one part of what a message says."""
    net = Hypothesis.from_message(parts(base.content)[1])
    outputs = net.goal.outputs
    change: dict[str, Any] = {}
    match chance.randrange(7):
        case 0:
            change["projector"] = chance.choice(PROJECTORS)
        case 1:
            start = chance.choice(["drawn", "zero", "given", "rows"])
            change["start"] = start
            change["percent"] = chance.randrange(100) if start == "rows" else None
        case 2:
            change["seed"] = chance.getrandbits(chance.randint(0, 64))
        case 3:
            change["input_scale"] = chance.choice([None, 2.0**-24, 0.5, 65504.0])
        case 4:
            kind = chance.choice(["classification", "regression"])
            limits = (chance.choice([2.0**-24, 1.0, 65504.0]) for _ in range(2))
            many = chance.choice([outputs, 1, 2, 3, 40])
            change["goal"] = (
                Goal(kind, many) if kind == "classification" else Goal(kind, many, *limits)
            )
        case 5:
            symbols = net.symbols.copy()
            if len(symbols):
                symbols[chance.randrange(len(symbols))] = chance.randrange(len(net.codebook))
                steps = np.float16(chance.choice([0, 0.5, -1, 1000]))
                book = np.unique(net.codebook + steps)
                if len(book) == len(net.codebook) and np.isfinite(book).all():
                    change["codebook"] = book
            change["symbols"] = symbols
        case _:
            d = chance.choice([1, 2, 5, 20, 100])
            rng = np.random.default_rng(chance.getrandbits(32))
            book = np.unique(rng.normal(size=chance.choice([1, 2, 3, 8])).astype(np.float16))
            change["symbols"] = rng.integers(0, len(book), d)
            change["codebook"] = book
    with suppress(ValueError):
        return modest(base, replace(net, **change).to_message())
    return base.content


def _other_architecture(base: Base, chance: random.Random) -> bytes:
    net = Hypothesis.from_message(parts(base.content)[1])
    if net.architecture is None:
        with suppress(ValueError):
            return modest(base, replace(net, groups=(permutations(chance, 2),)).to_message())
        return base.content
    features = math.prod(base.sample.x.shape[1:])
    sizes = tuple(chance.choice([1, 2, 3, 7, 20]) for _ in range(chance.randint(1, 3)))
    with suppress(ValueError):
        if net.architecture.name != "mlp":
            made = replace(net.architecture, sizes=sizes[:1]) if net.architecture.sizes else None
            made = made or Architecture("convnet", sizes[:1])
        else:
            kind = chance.choice(["plain", "plain", "plain", "shared", "equivariant"])
            if kind == "plain":
                made = Architecture("mlp", sizes)
            elif kind == "shared":
                made = Architecture("mlp", sizes, "shared", permutations(chance, 2))
            else:
                group = matrices(chance, 2) if chance.random() < 0.5 else numbers(chance)
                copies, left = divmod(features, group.d)
                terms = [f"{copies}*V"] * (copies > 0) + [f"{left}*Scalar"] * (left > 0)
                made = Architecture(
                    "mlp", sizes, "equivariant", group, TensorSum.parse("+".join(terms))
                )
        return modest(base, replace(net, architecture=made).to_message())
    return base.content


def _greedy(base: Base, chance: random.Random) -> bytes:
    """As much as a few bytes can ask for."""
    net = Hypothesis.from_message(parts(base.content)[1])
    width = chance.choice([100, 500, 2000, 4096])
    d = chance.choice([1, 100, 5000, 10**5, 10**6])
    with suppress(ValueError):
        if base.sample.x.ndim == 4:
            name = chance.choice(["convnet", "resnet20"])
            variant, group = chance.choice(_IMAGE_VARIANTS)
            made = Architecture(name, (width // 4,), variant, group)
        elif chance.random() < 0.5:
            made = Architecture("mlp", (width,) * chance.randint(1, 6))
        else:
            made = _many_generators(base.sample.x.shape[1], chance)
        greedy = replace(
            net,
            architecture=made,
            groups=(),
            projector=chance.choice(PROJECTORS),
            symbols=np.zeros(d, np.int64),
            codebook=np.ones(1, np.float16),
        )
        return modest(base, greedy.to_message())
    return base.content


def _many_generators(features: int, chance: random.Random) -> Architecture:
    """A network whose group has many generators: of two places each, they take a bit."""
    side = chance.choice([n for n in range(1, features + 1) if features % n == 0])
    moves = [chance.sample(range(side), side) for _ in range(chance.choice([10, 100, 1000]))]
    group = wreath(Group(moves, d=side), Trivial(features // side))
    return Architecture("mlp", (features,) * chance.randint(1, 16), "shared", group)


_IMAGE_VARIANTS: tuple[Any, ...] = (
    ("plain", None),
    ("equivariant", p4(3)),
    ("equivariant", p4m(3)),
    ("shared", p4(3)),
    ("shared", GridFlips(2)),
)

# how often each is drawn: those after which a network must be run take ten times as long
ATTACKS: tuple[tuple[Callable[[Base, random.Random], bytes], int], ...] = (
    (_other_bits, 10),
    (_claimed_as_before, 5),
    (_random_message, 18),
    (_longer_or_shorter, 12),
    (_other_words, 10),
    (_better_claims, 4),
    (_other_text, 10),
    (_other_container, 5),
    (_not_sealed, 4),
    (_splice, 14),
    (_other_start, 4),
    (_other_network, 7),
    (_other_architecture, 1),
    (_greedy, 2),
)
_DRAWN_ANEW = 0.002  # the share of cases that begin from a certificate that is drawn, not kept


def mutated(chance: random.Random) -> tuple[str, Base, bytes]:
    """A certificate that nobody vouches for: how it was made, from what, and its bytes."""
    base = chance.choice(bases())
    if chance.random() < _DRAWN_ANEW:
        drawn = drawn_certificate(chance)
        base = Base("drawn", drawn.certificate.to_bytes(), drawn.sample)
    attacks, weights = zip(*ATTACKS, strict=True)
    (attack,) = chance.choices(attacks, weights)
    return f"{base.name}{attack.__name__}", base, attack(base, chance)


# --- what becomes of it ---------------------------------------------------------------------------


def judge(content: bytes, base: Base, *, timed: bool = False) -> str:
    """Verify a certificate, and have what is accepted reproduced; says what happened.

    Args:
        content: The file.
        base: What it was made from.
        timed: Whether to hold the time it took against the limit, as a soak does.

    Raises:
        Disagreement: If the second verifier does not reproduce what the library accepts.
        TooDear: If checking took longer than the limit.
    """
    arch = own_module() if base.name == "own-module" else None
    began = time.process_time()
    try:
        verdict = verify(
            content, base.sample, arch=arch, most_memory=MOST_MEMORY, most_time=MOST_SECONDS
        )
    except ValueError as error:
        # only the caller can help here: whether a module is theirs
        if not str(error).startswith(("expected the architecture of", "expected no architecture")):
            raise
        return "needs another call"
    if timed and (seconds := time.process_time() - began) > MOST_SECONDS:
        raise TooDear(f"{seconds:.1f} seconds: {verdict}")
    assert verdict.reason
    if verdict.verdict == "rejected":
        return "over the price" if "checking it takes about" in verdict.reason else "rejected"
    x, y = base.sample.x.numpy(), base.sample.y.numpy()
    try:
        checked = second_verifier.check(content, x, y, module=None if arch is None else OWN)
    except (second_verifier.Outside, second_verifier.Wrong) as error:
        raise Disagreement(f"{type(error).__name__}: {error}; {verdict}") from error
    found = verdict.details["errors"]
    if abs(found - checked.errors) > checked.unsure or verdict.details["n"] != checked.n:
        raise Disagreement(f"{checked} against {verdict}")
    told = second_verifier.bound_of(found, checked.n, checked.bits, verdict.details["delta"])
    if not math.isclose(verdict.bound or 0.0, told, abs_tol=1e-7):
        raise Disagreement(f"a bound of {told} against {verdict}")
    return verdict.verdict if found == checked.errors else "accepted, rows decided by rounding"
