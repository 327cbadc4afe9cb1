"""Bytes that nobody vouches for: no crash, no hang, and no claim accepted that is not true.

Whatever is accepted is checked by a second verifier, written here from the format's description
with Python's integers, numpy and scipy alone. ``make fuzz`` runs `test_mutations` for minutes.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import random
import struct
import sys
import time
from bisect import bisect_right
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import binom

from isotropy.certificates import Certificate, Hypothesis, Rejected, certify, verify

ROWS = 150
_LENGTHS = struct.Struct("<HIIQ")
_MASK = (1 << 64) - 1


def sample() -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.randn(ROWS, 2, generator=torch.Generator().manual_seed(3))
    return x, (x[:, 0] + x[:, 1] > 0).long()


SAMPLE = sample()


@pytest.fixture(scope="module")
def certificate() -> Certificate:
    return certify(
        "mlp-5", SAMPLE, d=8, levels=3, projector="dense", epochs=20, quantised_epochs=10, seed=1
    )


# --- the second verifier ----------------------------------------------------------------------


class Outside(Exception):
    """A message of another family than perceptrons with drawn starts and dense projectors."""


class Bits:
    def __init__(self, content: bytes) -> None:
        self.text = "".join(f"{byte:08b}" for byte in content)

    def number(self, width: int) -> int:
        taken, self.text = self.text[:width], self.text[width:]
        return int(taken or "0", 2)

    def elias(self) -> int:
        zeros = len(self.text) - len(self.text.lstrip("0"))
        self.text = self.text[zeros:]
        length = self.number(zeros + 1)
        return (1 << length - 1) + self.number(length - 1)

    def natural(self) -> int:
        return self.elias() - 1

    def one_of(self, count: int) -> int:
        return self.number(_width(count))

    def subset(self, count: int, limit: int) -> list[int]:
        place, chosen = self.one_of(math.comb(limit, count)), []
        for size in range(count, 0, -1):
            found = bisect_right(range(limit), place, key=lambda c, k=size: math.comb(c, k)) - 1
            place -= math.comb(found, size)
            chosen.append(found)
        return chosen[::-1]

    def arrangement(self, size: int, levels: int) -> list[int]:
        bars = [-1, *self.subset(levels - 1, size + levels - 1), size + levels - 1]
        left = [b - a - 1 for a, b in pairwise(bars)]
        place, found = self.one_of(_multinomial(left)), []
        for _ in range(size):
            for symbol in range(levels):
                if not left[symbol]:
                    continue
                left[symbol] -= 1
                ways = _multinomial(left)
                if place < ways:
                    found.append(symbol)
                    break
                place -= ways
                left[symbol] += 1
        return found


def _width(count: int) -> int:
    width = 0
    while 1 << width < count:
        width += 1
    return width


def _multinomial(counts: list[int]) -> int:
    ways = math.factorial(sum(counts))
    for count in counts:
        ways //= math.factorial(count)
    return ways


class Decoded(NamedTuple):
    widths: list[int]
    outputs: int
    seed: int
    weights: np.ndarray


def decode(message: bytes) -> Decoded:
    bits = Bits(message)
    if bits.number(1) or bits.number(2):
        raise Outside
    widths = [150, 150, 150]
    if bits.number(1):
        widths = [bits.natural() + 1 for _ in range(bits.natural() + 1)]
    if bits.number(1) or bits.number(1):  # not plain; a regression
        raise Outside
    outputs = bits.natural()
    if bits.number(1) or bits.number(2):  # scaled inputs; another start than a drawn one
        raise Outside
    seed, d = bits.natural(), bits.natural()
    if d == 0:
        return Decoded(widths, outputs, seed, np.zeros(0))
    if bits.natural() != 3:
        raise Outside
    levels = bits.natural()
    if bits.number(1):
        positive = [place + 1 for place in bits.subset(levels // 2, 31743)]
        places = [-p for p in positive[::-1]] + [0] * (levels % 2) + positive
    else:
        places = [place - 31743 for place in bits.subset(levels, 63487)]
    book = [math.copysign(float(np.uint16(abs(p)).view(np.float16)), p) for p in places]
    if levels == 1:
        symbols = [0] * d
    elif not bits.number(1):
        symbols = bits.arrangement(d, levels)
    else:
        symbols = []
        for step in bits.arrangement(d, (levels + 1) // 2):
            middle = levels % 2 == 1 and step == 0
            upper = 0 if middle else bits.number(1)
            symbols.append(levels // 2 + step if upper else (levels - 1) // 2 - step)
    return Decoded(widths, outputs, seed, np.array(book)[symbols])


def _mix(word: int) -> int:
    word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    word = (word ^ word >> 27) * 0x94D049BB133111EB & _MASK
    return word ^ word >> 31


def normals(seed: int, stream: int, count: int) -> np.ndarray:
    step = 0x9E3779B97F4A7C15
    key = _mix(_mix(seed + step & _MASK) + stream & _MASK)
    sums = [sum((_mix(i * step + key & _MASK)).to_bytes(8, "little")) for i in range(1, count + 1)]
    return (np.array(sums, float) - 1020) / math.sqrt(8 * (256**2 - 1) / 12)


def errors_of(message: bytes, x: np.ndarray, y: np.ndarray) -> int:
    net = decode(message)
    sizes = [x.shape[1], *net.widths, net.outputs]
    shapes = list(zip(sizes[1:], sizes, strict=False))
    if sum(a * (b + 1) for a, b in shapes) > 2000:
        raise Outside  # slow by design
    start = []
    for layer, (out, into) in enumerate(shapes):
        start += [normals(net.seed, 2 * layer, into * out) / math.sqrt(into), np.zeros(out)]
    theta = np.concatenate(start)
    if d := len(net.weights):
        matrix = normals(net.seed, 1 << 32, len(theta) * d).reshape(-1, d) / math.sqrt(len(theta))
        theta = theta + matrix @ net.weights
    for layer, (out, into) in enumerate(shapes):
        weight, theta = theta[: into * out].reshape(out, into), theta[into * out :]
        bias, theta = theta[:out], theta[out:]
        x = x @ weight.T + bias
        if layer < len(shapes) - 1:
            x = np.maximum(x, 0)
    ranked = np.sort(x, 1)
    tied = ranked[:, -1] == ranked[:, -2] if net.outputs > 1 else np.zeros(len(x), bool)
    return int(((x.argmax(1) != y) | tied).sum())


def bound_of(errors: int, n: int, bits: int, delta: float) -> float:
    wanted = math.log(delta) - bits * math.log(2)
    if errors == n:
        return 1.0
    high = 1 - 1e-15
    if binom.logcdf(errors, n, high) >= wanted:
        return 1.0
    return float(brentq(lambda r: binom.logcdf(errors, n, r) - wanted, errors / n, high))


def parts(content: bytes) -> tuple[dict[str, Any], bytes, bytes]:
    _, header, message, start = _LENGTHS.unpack_from(content, 8)
    at = 8 + _LENGTHS.size
    table = json.loads(content[at : at + header])
    at += header
    return table, content[at : at + message], content[at + message : at + message + start]


def sealed(header: bytes | dict[str, Any], message: bytes, start: bytes = b"") -> bytes:
    """A container as an attacker makes one, with a SHA-256 that is right."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    body = b"isotropy" + _LENGTHS.pack(1, len(text), len(message), len(start))
    body += text + message + start
    return body + hashlib.sha256(body).digest()


def judge(content: bytes) -> str:
    """Verify, and check what is accepted; says what happened."""
    try:
        verdict = verify(content, SAMPLE)
    except ValueError as error:
        # only the caller can help here: the message says that the module is theirs
        if not str(error).startswith("expected the architecture of"):
            raise
        return "needs a module"
    assert verdict.reason
    if not verdict:
        return "rejected"
    header, message, _ = parts(content)
    claims, x, y = header["claims"], SAMPLE[0].double().numpy(), SAMPLE[1].numpy()
    assert claims["message_bits"] >= 8 * len(message)
    assert claims["n"] == ROWS
    told, errors = "accepted", verdict.details["errors"]
    with suppress(Outside):
        told, errors = "accepted by both", errors_of(message, x, y)
    assert verdict.details["errors"] == errors <= claims["errors"]
    truth = bound_of(errors, claims["n"], 8 * len(message), claims["delta"])
    assert verdict.bound == pytest.approx(truth, abs=1e-7)
    assert claims["bound"] >= truth - 1e-7
    return told


# --- attacks ----------------------------------------------------------------------------------


def modest(content: bytes, message: bytes) -> bytes:
    """Another message, with claims that any network meets."""
    header, _, start = parts(content)
    with suppress(Rejected):
        header["model"] = str(Hypothesis.from_message(message).architecture)
    header["claims"] |= {"bound": 1.0, "errors": ROWS, "message_bits": 8 * len(message)}
    return sealed(header, message, start)


def flipped(content: bytes, places: list[int]) -> bytes:
    changed = bytearray(content)
    for place in places:
        changed[place // 8 % len(changed)] ^= 1 << place % 8
    return bytes(changed)


WORDS: list[Any] = [
    *(None, True, -1, 0, 1, 2**63, 10**400, 0.0, -0.0, 1e-320, 0.5, 1.0, 1e308),
    *("", "0.05", "\x1b[2J", "\ud800", "a" * 64, [], {}, [[]], {"bound": 0.1}),
]


def mutated(content: bytes, chance: random.Random) -> bytes:
    header, message, start = parts(content)
    match chance.randrange(6):
        case 0:
            places = [chance.randrange(8 * len(message)) for _ in range(chance.randint(1, 3))]
            return modest(content, flipped(message, places))
        case 1:
            return modest(content, chance.randbytes(chance.randint(0, 24)))
        case 2:
            places = [chance.randrange(8 * len(message)) for _ in range(chance.randint(1, 3))]
            return sealed(header, flipped(message, places), start)
        case 3:
            table = chance.choice([header, header["claims"], header["notes"]])
            name = chance.choice([*table, "unknown", "test_error"])
            table[name] = chance.choice(WORDS)
            return sealed(header, message, start)
        case 4:
            text = bytearray(json.dumps(header).encode())
            for _ in range(chance.randint(1, 4)):
                text[chance.randrange(len(text))] = chance.randrange(256)
            return sealed(bytes(text), message, start)
        case _:
            net = Hypothesis.from_message(message)
            symbols = net.symbols.copy()
            symbols[chance.randrange(len(symbols))] = chance.randrange(len(net.codebook))
            book = np.unique(net.codebook + np.float16(chance.choice([0, 0, 0.5, -1])))
            if len(book) < len(net.codebook):
                book = net.codebook
            other = replace(net, symbols=symbols, codebook=book, seed=chance.choice([1, 1, 7]))
            return modest(content, other.to_message())


def test_the_second_verifier_agrees(certificate: Certificate) -> None:
    assert judge(certificate.to_bytes()) == "accepted by both"
    decoded = decode(certificate.message)
    assert decoded.widths == [5]
    hypothesis = certificate.hypothesis()
    np.testing.assert_array_equal(decoded.weights, hypothesis.codebook[hypothesis.symbols])


@given(st.binary(max_size=200))
def test_random_bytes_are_no_certificate(content: bytes) -> None:
    for bytes_ in (content, b"isotropy" + content, b"isotropy\1\0" + content):
        with pytest.raises(Rejected):
            Certificate.from_bytes(bytes_)


@settings(max_examples=300)
@given(st.binary(max_size=64))
def test_random_messages_are_rejected_or_canonical(message: bytes) -> None:
    with suppress(Rejected):
        assert Hypothesis.from_message(message).to_message() == message


def test_mutations(certificate: Certificate) -> None:
    seconds = float(os.environ.get("ISOTROPY_FUZZ_SECONDS", "0"))
    first = int(os.environ.get("ISOTROPY_FUZZ_SEED", "0")) or (
        time.time_ns() % 2**32 if seconds else 1
    )
    few: dict[str, Any] = {"d": 4, "levels": 3, "epochs": 1, "quantised_epochs": 1}
    others = [
        certify("mlp-4-3 shared S(2)", SAMPLE, **few),
        certify("mlp-6 equivariant D2d(4) V", SAMPLE, seed=2, **few),
        certify("mlp-5", SAMPLE, projector="film+kronecker", **few),
    ]
    # the second verifier knows the family of the first alone, so that one comes more often
    bases = [certificate.to_bytes()] * 5 + [other.to_bytes() for other in others]
    seen, slowest = Counter[str](), 0.0
    began = time.monotonic()
    number = first
    while number < first + 250 if not seconds else time.monotonic() < began + seconds:
        chance = random.Random(number)
        case, start = mutated(chance.choice(bases), chance), time.monotonic()
        try:
            seen[judge(case)] += 1
        except BaseException as error:
            error.add_note(f"ISOTROPY_FUZZ_SEED={number} does it again; the bytes: {case.hex()}")
            raise
        slowest = max(slowest, time.monotonic() - start)
        number += 1
    if seconds:
        told = f"{number - first} mutations from seed {first}: {dict(seen)}"
        sys.stderr.write(
            f"\n{told}, {slowest:.1f} s at most\n"
            "accepted are certificates of other networks that claim no more than holds: by both, "
            "the second verifier counted too; else only the bound was checked again\n"
        )
    assert seen["rejected"] > 50
    assert seen["accepted by both"] > 10
