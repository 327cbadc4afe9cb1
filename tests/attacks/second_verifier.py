"""A second verifier of certificates: the standard library, numpy and scipy, nothing else.

Written from the description of the format, to be run beside `isotropy.certificates.verify`:
whatever that accepts, this must count the same errors of, and bound the same. The other modules
named ``second_*`` hold its parts.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammaln, logsumexp

from attacks.second_bits import Outside, Wrong, require
from attacks.second_layers import Network, Parameter
from attacks.second_message import Message, decode
from attacks.second_networks import network_of
from attacks.second_projectors import displacement, normals, words

__all__ = ["Checked", "Module", "Outside", "Wrong", "check", "decode", "outputs_of"]

_LENGTHS = struct.Struct("<HIIQ")
_MOST = (1 << 16, 1 << 18, 1 << 28)
_BATCH = 500
_ROUNDED = 1e-12  # what is right by less is an error
_CLOSE = 1e-9  # outputs so near to each other, or to a tolerance, may be rounded to either side


class Checked(NamedTuple):
    """What the second verifier found.

    Args:
        errors: How many rows are wrong.
        n: How many rows are counted.
        bits: Of the message.
        bound: On the risk.
        unsure: How many rows are decided by rounding errors, and may be counted otherwise.
    """

    errors: int
    n: int
    bits: int
    bound: float
    unsure: int = 0


@dataclass(frozen=True)
class Module:
    """A user's own module, told in numpy.

    Args:
        parameters: In the module's order.
        forward: From tensors, parameters and then buffers, and inputs to outputs.
        buffers: Of floating point, in order; a stored start holds them after the parameters.
        name: Of its class, and
        digest: The SHA-256 that the header must have, where they are to be compared.
    """

    parameters: Sequence[Parameter]
    forward: Callable[[Sequence[np.ndarray], np.ndarray], np.ndarray]
    buffers: Sequence[np.ndarray] = ()
    name: str | None = None
    digest: str | None = None


class Container(NamedTuple):
    header: Mapping[str, Any]
    message: bytes
    start: bytes


def check(content: bytes, x: np.ndarray, y: np.ndarray, *, module: Module | None = None) -> Checked:
    """Verify a certificate a second time.

    Args:
        content: The file's bytes.
        x: Inputs, (n, …).
        y: Labels, (n,), or numbers, (n, k).
        module: The user's own, where the certificate speaks of one.

    Raises:
        Wrong: If the bytes are no certificate of these data, by this reading.
        Outside: If this verifier cannot judge.
    """
    header, message, start = unpack(content)
    claims = header["claims"]
    require(header["data"] in _digests(x, y), "the data are others")
    said = decode(message)
    _require_model(said, header, module)
    outputs, rows = _outputs(said, start, x, y, module)
    wrong, unsure = _errors(said, outputs, y[rows])
    errors, n, bits = int(wrong.sum()), len(rows), 8 * len(message)
    bound = bound_of(errors, n, bits, claims["delta"])
    require(claims["kind"] == "binomial_tail", "the bound is of another kind")
    require(bits <= claims["message_bits"], "the message is longer than claimed")
    require(n == claims["n"], "there are more rows, or fewer, than claimed")
    require(errors - int(unsure.sum()) <= claims["errors"], "there are more errors than claimed")
    if not unsure.any():
        require(bound <= claims["bound"] + 1e-8, "the bound is larger than claimed")
    return Checked(errors, n, bits, bound, int(unsure.sum()))


def outputs_of(
    content: bytes, x: np.ndarray, y: np.ndarray, *, module: Module | None = None
) -> np.ndarray:
    """The network's outputs on the rows that are counted, unscaled."""
    _, message, start = unpack(content)
    return _outputs(decode(message), start, x, y, module)[0]


# --- the container ----------------------------------------------------------------------------


def unpack(content: bytes) -> Container:
    """The parts of a file, its header checked."""
    fixed = 8 + _LENGTHS.size
    require(content[:8] == b"isotropy" and len(content) >= fixed, "this is no certificate")
    version, *lengths = _LENGTHS.unpack_from(content, 8)
    require(version == 1, "the format is another")
    require(all(a <= b for a, b in zip(lengths, _MOST, strict=True)), "a part is too long")
    require(len(content) == fixed + sum(lengths) + 32, "the length is another")
    require(hashlib.sha256(content[:-32]).digest() == content[-32:], "the seal is broken")
    at = fixed + lengths[0]
    header = _header(content[fixed:at])
    return Container(header, content[at : at + lengths[1]], content[at + lengths[1] : -32])


def _header(content: bytes) -> Mapping[str, Any]:
    def number(text: str) -> float:
        require(math.isfinite(float(text)), "a number of the header is not finite")
        return float(text)

    def table(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        require(len(dict(pairs)) == len(pairs), "a name is there twice")
        return dict(pairs)

    try:
        header = json.loads(
            content.decode(), parse_float=number, parse_constant=number, object_pairs_hook=table
        )
    except (ValueError, RecursionError) as error:
        raise Wrong(f"the header is not JSON: {error!s:.80}") from error
    kinds = {"claims": dict, "data": str, "model": str, "model_digest": (str, type(None))}
    _require_kinds(header, {**kinds, "notes": dict})
    claims = header["claims"]
    kinds = {"bound": float, "kind": str, "errors": int, "n": int, "delta": float}
    _require_kinds(claims, {**kinds, "message_bits": int})
    require(0 < claims["delta"] < 1 and 0 <= claims["bound"] <= 1, "a share is none")
    require(1 <= claims["n"] <= 1 << 48 and 0 <= claims["errors"] <= claims["n"], "no such errors")
    require(0 <= claims["message_bits"] <= 8 * _MOST[1], "no such message")
    for digest in (header["data"], header["model_digest"]):
        require(digest is None or re.fullmatch("[0-9a-f]{64}", digest), "a digest is none")
    require(header["model"].isprintable(), "the model cannot be printed")
    share = header["notes"].get("test_error", 0.0)
    require(isinstance(share, int | float) and 0 <= share <= 1, "the test error is no share")
    return header


def _require_kinds(table: Any, kinds: Mapping[str, Any]) -> None:
    require(isinstance(table, dict) and set(table) == set(kinds), "the header has other names")
    for name, kind in kinds.items():
        right = isinstance(table[name], kind) and not isinstance(table[name], bool)
        require(right, f"{name} is of the wrong kind")


def _digests(x: np.ndarray, y: np.ndarray) -> set[str]:
    """The SHA-256 of the data, of inputs in 32 bits as well where they fit."""
    found = set()
    for inputs in (x, x.astype(np.float32)):
        hasher = hashlib.sha256()
        for array in (inputs, y):
            little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
            hasher.update(f"{array.dtype.name} {array.shape};".encode())
            hasher.update(little.data)
        if (inputs == x).all():
            found.add(hasher.hexdigest())
    return found


def _require_model(said: Message, header: Mapping[str, Any], module: Module | None) -> None:
    if said.architecture is not None:
        require(header["model_digest"] is None, "there is a digest of no module")
        require(header["model"] == str(said.architecture), "the header names another network")
        return
    if module is None:
        raise Outside("the network is the user's own")
    for own, claimed in ((module.name, header["model"]), (module.digest, header["model_digest"])):
        require(own in (None, claimed), "the module is another")


# --- the network ------------------------------------------------------------------------------


def _outputs(
    said: Message, start: bytes, x: np.ndarray, y: np.ndarray, module: Module | None
) -> tuple[np.ndarray, np.ndarray]:
    """The outputs, and which rows they are of."""
    if said.architecture is None:
        if module is None:
            raise Outside("the network is the user's own")
        net = Network(list(module.parameters), [module.forward], list(module.buffers))
    else:
        net = network_of(said.architecture, x.shape[1:], said.outputs)
    require(len(said.weights) <= net.size, "there are more dimensions than parameters")
    _require_targets(said, y)
    tensors = _tensors(said, start, net)
    rows = _rows(said, len(x))
    inputs = x[rows].astype(np.float64) / (said.input_scale or 1.0)
    parts = [net(tensors, inputs[at : at + _BATCH]) for at in range(0, len(rows), _BATCH)]
    outputs = np.concatenate(parts)
    require(outputs.shape == (len(rows), said.outputs), "the outputs are of another shape")
    return outputs, rows


def _require_targets(said: Message, y: np.ndarray) -> None:
    if said.tolerance is None:
        require(y.ndim == 1 and y.dtype == np.int64, "targets are no labels")
        require(0 <= y.min() and y.max() < said.outputs, "a label is of no class")
    else:
        require(y.ndim == 2 and y.shape[1] == said.outputs, "targets are of another shape")


def _tensors(said: Message, start: bytes, net: Network) -> list[np.ndarray]:
    """θ₀ + P w, cut into tensors; then buffers, which a file says of a user's own module alone."""
    shapes = [parameter.shape for parameter in net.parameters]
    stored = [np.asarray(values, np.float64) for values in net.stored]
    if said.start in ("given", "rows"):
        need = net.size + sum(values.size for values in stored)
        # how many numbers the bases of equivariant spaces have is nobody's business: none is used
        right = len(start) == 4 * need or (net.has_bases and len(start) > 4 * need)
        require(right and len(start) % 4 == 0, "the start is of another length")
        with np.errstate(invalid="ignore"):
            numbers = np.frombuffer(start, "<f4").astype(np.float64)
        require(np.isfinite(numbers).all(), "the start is not finite")
        flat = numbers[: net.size]
        largest = 65504 if said.architecture is not None else np.inf
        require((abs(flat) <= largest).all(), "the start is too large")
        if said.architecture is None:
            stored = _cut(numbers[net.size :], [values.shape for values in stored])
    else:
        require(not start, "there is a start without use")
        drawn = said.start == "drawn"
        flat = _drawn(said.seed, net.parameters) if drawn else np.zeros(net.size)
    film = [parameter.film for parameter in net.parameters]
    moved = flat + displacement(said.projector, said.weights, said.seed, shapes, film)
    return [*_cut(moved, shapes), *stored]


def _drawn(seed: int, parameters: Sequence[Parameter]) -> np.ndarray:
    parts = []
    for stream, parameter in enumerate(parameters):
        size = prod(parameter.shape)
        if parameter.deviation is None:
            parts.append(np.full(size, parameter.constant))
        else:
            parts.append(parameter.deviation * normals(seed, stream, size))
    return np.concatenate(parts)


def _cut(flat: np.ndarray, shapes: Sequence[tuple[int, ...]]) -> list[np.ndarray]:
    ends = np.cumsum([0, *(prod(shape) for shape in shapes)])
    return [flat[a:b].reshape(s) for a, b, s in zip(ends, ends[1:], shapes, strict=False)]


def _rows(said: Message, n: int) -> np.ndarray:
    """The rows that are counted: all, or those that were not dealt to the start."""
    if said.start != "rows":
        return np.arange(n)
    first = n * said.percent // 100
    require(0 < first < n, "no rows are left on one side")
    order = words(n, (1 << 32) + said.percent, n).view(np.int64).argsort(kind="stable")
    return np.sort(order[first:])


# --- errors and their bound -------------------------------------------------------------------


def _errors(said: Message, outputs: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which rows are wrong, and for which of them rounding errors decide."""
    with np.errstate(all="ignore"):
        if said.tolerance is None:
            own = outputs[np.arange(len(y)), y]
            others = outputs.copy()
            others[np.arange(len(y)), y] = -np.inf
            rival = others.max(1)
            right = own - rival > _ROUNDED * (1 + abs(outputs).max(1))
            close = abs(own - rival) <= _CLOSE * (1 + abs(outputs).max(1))
            exact = own == rival
        else:
            missed = abs(said.scale * outputs - y)
            rounded = said.scale * _ROUNDED * (1 + abs(outputs).max(1))
            right = missed.max(1) + rounded <= said.tolerance
            size = 1 + abs(said.scale * outputs) + abs(y)
            near = abs(missed - said.tolerance) <= _CLOSE * size
            close = near.any(1) & (missed <= said.tolerance + _CLOSE * size).all(1)
            exact = np.zeros(len(y), bool)
        settled = exact & (outputs == 0).all(1)
        finite = np.isfinite(outputs).all(1)
    return ~(right & finite), close & finite & ~settled


@lru_cache(maxsize=1 << 14)
def bound_of(errors: int, n: int, bits: int, delta: float) -> float:
    """The largest r with Pr(Bin(n, r) ≤ errors) ≥ δ · 2^(−bits)."""
    wanted = math.log(delta) - bits * math.log(2)
    if errors == n:
        return 1.0
    if errors == 0:
        return -math.expm1(wanted / n)
    k = np.arange(errors + 1)
    ways = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)

    def excess(odds: float) -> float:
        """In terms of ln(r / (1 − r)), so that r may be as near to one as it will."""
        log_right = -np.logaddexp(0, odds)
        return float(logsumexp(ways + k * odds) + n * log_right - wanted)

    low = math.log(errors / (n - errors))
    high = low + 1
    while excess(high) > 0:
        high += 2 * (high - low)
    odds = brentq(excess, low, high, xtol=1e-14, rtol=1e-14)
    return float(1 / (1 + math.exp(-odds)))
