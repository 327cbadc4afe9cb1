"""The file: a message, what it is claimed to prove, and nothing that runs.

Layout, all numbers little-endian: the eight bytes ``isotropy``; the format's version (2 bytes);
the lengths of header, message and start (4, 4 and 8 bytes); the header, JSON in UTF-8; the message;
the start, θ₀ as float32 where it was given or trained; the SHA-256 of all that.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from isotropy._run import atomic_write
from isotropy.certificates._bounds import Bound
from isotropy.certificates._hypothesis import Hypothesis
from isotropy.certificates._rejected import Rejected

FORMAT = 1
_MAGIC = b"isotropy"
_LENGTHS = struct.Struct("<HIIQ")
_SEAL = hashlib.sha256().digest_size
MOST_HEADER = 1 << 16
MOST_MESSAGE = 1 << 18
MOST_START = 1 << 28
MOST_ROWS = 1 << 48
_DIGEST = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True, eq=False)
class Certificate:
    """A network, coded, and a bound on its risk.

    Args:
        message: The network; see `Hypothesis`.
        claims: ``bound``, ``kind``, ``errors``, ``n``, ``delta`` and ``message_bits``.
        data: The SHA-256 of the sample.
        model: What the network is, in words: the architecture's text or the class of the user's.
        model_digest: The SHA-256 of a user's own module (names, shapes, buffers, text); ``None``
            for one of the catalogue.
        start: θ₀ and the buffers as little-endian float32 in the module's order, where the message
            says that they were given or trained; else empty.
        notes: What is not claimed to be checkable: versions, the test error, the recipe.

    Example:
        >>> import tempfile
        >>> from isotropy import certify
        >>> x = torch.randn(500, 2, generator=torch.Generator().manual_seed(0))
        >>> certificate = certify("mlp-8", (x, (x[:, 0] > 0).long()), d=5, epochs=5)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     certificate.save(Path(folder) / "cert.iso")
        ...     again = Certificate.load(Path(folder) / "cert.iso")
        >>> again.bound == certificate.bound
        True
    """

    message: bytes
    claims: Mapping[str, Any]
    data: str
    model: str
    model_digest: str | None = None
    start: bytes = b""
    notes: Mapping[str, Any] | None = None

    @property
    def bound(self) -> float:
        """The claimed bound on the risk."""
        return float(self.claims["bound"])

    @property
    def delta(self) -> float:
        """The probability that the bound fails is at most this."""
        return float(self.claims["delta"])

    @property
    def errors(self) -> int:
        """The claimed number of errors on the sample."""
        return int(self.claims["errors"])

    @property
    def n(self) -> int:
        """The claimed number of rows that are counted."""
        return int(self.claims["n"])

    @property
    def train_error(self) -> float:
        """The claimed share of errors on the rows that are counted."""
        return self.errors / self.n

    @property
    def test_error(self) -> float | None:
        """The share of errors on a test sample, where one was given; nothing rests on it."""
        found = (self.notes or {}).get("test_error")
        return None if found is None else float(found)

    @property
    def message_bits(self) -> int:
        """What the message costs: eight bits for each of its bytes."""
        return 8 * len(self.message)

    def hypothesis(self) -> Hypothesis:
        """The decoded message.

        Raises:
            Rejected: If it is not a message.
        """
        return Hypothesis.from_message(self.message)

    def __str__(self) -> str:
        return (
            f"{self.model}: risk at most {100 * self.bound:.2f} % with probability "
            f"{1 - self.delta:g} ({self.message_bits} bits, {self.errors} errors in {self.n})"
        )

    def to_bytes(self) -> bytes:
        """The file's content.

        Raises:
            ValueError: If a part is longer than `from_bytes` accepts.
        """
        header = json.dumps(
            {
                "claims": dict(self.claims),
                "data": self.data,
                "model": self.model,
                "model_digest": self.model_digest,
                "notes": dict(self.notes or {}),
            },
            sort_keys=True,
            allow_nan=False,
        ).encode()
        for part, content, most in (
            ("header", header, MOST_HEADER),
            ("message", self.message, MOST_MESSAGE),
            ("start", self.start, MOST_START),
        ):
            if len(content) > most:
                raise ValueError(
                    f"expected a certificate with a {part} of at most {most} bytes, "
                    f"got {len(content)}"
                )
        lengths = _LENGTHS.pack(FORMAT, len(header), len(self.message), len(self.start))
        body = _MAGIC + lengths + header + self.message + self.start
        return body + hashlib.sha256(body).digest()

    @classmethod
    def from_bytes(cls, content: bytes) -> Certificate:
        """Read a file's content. Nothing in it is believed yet: `verify` does that.

        Raises:
            Rejected: If it is damaged, no certificate, or of a newer format.
        """
        fixed = len(_MAGIC) + _LENGTHS.size
        if len(content) < fixed or not content.startswith(_MAGIC):
            raise Rejected("the file is not a certificate")
        version, of_header, of_message, of_start = _LENGTHS.unpack_from(content, len(_MAGIC))
        if version > FORMAT:
            raise Rejected(
                f"the certificate is of format {version}, newer than format {FORMAT}, "
                "which this version of isotropy reads"
            )
        if version == 0:
            raise Rejected("the file is damaged: there is no format 0")
        if (
            of_header > MOST_HEADER
            or of_message > MOST_MESSAGE
            or of_start > MOST_START
            or len(content) != fixed + of_header + of_message + of_start + _SEAL
        ):
            raise Rejected("the file is damaged: its length is not the one it declares")
        if hashlib.sha256(memoryview(content)[:-_SEAL]).digest() != content[-_SEAL:]:
            raise Rejected("the file is damaged: its SHA-256 is not the one it ends with")
        header = _checked_header(content[fixed : fixed + of_header])
        at = fixed + of_header
        message, at = content[at : at + of_message], at + of_message
        return cls(message=message, start=content[at : at + of_start], **header)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the file, whole or not at all."""
        content = self.to_bytes()
        with atomic_write(path) as file:
            file.write(content)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Certificate:
        """Read a file.

        Raises:
            Rejected: If it is damaged, no certificate, or of a newer format.
        """
        most = MOST_HEADER + MOST_MESSAGE + MOST_START + 128
        with Path(path).open("rb") as file:
            content = file.read(most + 1)
        if len(content) > most:
            raise Rejected(f"the file is longer than any certificate, which has at most {most}")
        return cls.from_bytes(content)


def claims_of(bound: Bound, message: bytes) -> dict[str, Any]:
    """What a certificate claims, as its header holds it."""
    return {
        "bound": bound.value,
        "kind": bound.kind,
        "errors": bound.errors,
        "n": bound.n,
        "delta": bound.delta,
        "message_bits": 8 * len(message),
    }


def model_digest(model: nn.Module) -> str:
    """The SHA-256 of what a module is apart from its parameters' values."""
    hasher = hashlib.sha256(repr(model).encode())
    for name, parameter in model.named_parameters():
        hasher.update(f"{name} {tuple(parameter.shape)};".encode())
    for name, buffer in model.named_buffers():
        array = buffer.detach().cpu().contiguous()
        hasher.update(f"{name} {array.dtype} {tuple(array.shape)};".encode())
        hasher.update(array.flatten().view(torch.uint8).numpy().tobytes() if array.numel() else b"")
    return hasher.hexdigest()


def pack_start(model: nn.Module, tensors: Mapping[str, Tensor]) -> bytes:
    """θ₀ and the buffers as float32, in the module's order."""
    parts = [
        tensors[name].detach().cpu().flatten().to(torch.float32) for name in _start_names(model)
    ]
    return torch.cat(parts).numpy().astype("<f4").tobytes()


def unpack_start(model: nn.Module, content: bytes) -> dict[str, Tensor]:
    """The tensors that `pack_start` wrote, in float64.

    Raises:
        Rejected: If there are more or fewer numbers than the module has, or one is not finite.
    """
    names = _start_names(model)
    wanted = sum(tensor.numel() for tensor in names.values())
    if len(content) != 4 * wanted:
        raise Rejected(
            f"the certificate holds {len(content)} bytes of start, its network needs {4 * wanted}"
        )
    numbers = torch.from_numpy(np.frombuffer(content, "<f4").astype(np.float64))
    if not bool(torch.isfinite(numbers).all()):
        raise Rejected("the certificate's start holds what is not a finite number")
    start, at = {}, 0
    for name, tensor in names.items():
        start[name] = numbers[at : at + tensor.numel()].view(tensor.shape)
        at += tensor.numel()
    return start


def _start_names(model: nn.Module) -> dict[str, Tensor]:
    names: dict[str, Tensor] = dict(model.named_parameters())
    names.update((n, b) for n, b in model.named_buffers() if b.is_floating_point())
    return names


def _checked_header(content: bytes) -> dict[str, Any]:
    try:
        header = json.loads(
            content.decode(),
            parse_constant=_finite,
            parse_float=_finite,
            object_pairs_hook=_without_repeats,
        )
    except (ValueError, RecursionError):
        raise Rejected("the certificate's header is not JSON") from None
    kinds: dict[str, Any] = {
        "claims": dict,
        "data": str,
        "model": str,
        "model_digest": str | None,
        "notes": dict,
    }
    if not isinstance(header, dict) or set(header) != set(kinds):
        raise Rejected(f"the certificate's header does not hold {', '.join(kinds)}")
    numbers: dict[str, Any] = {
        "bound": float,
        "kind": str,
        "errors": int,
        "n": int,
        "delta": float,
        "message_bits": int,
    }
    for table, expected in ((header, kinds), (header["claims"], numbers)):
        if not isinstance(table, dict) or set(table) != set(expected):
            raise Rejected(f"the certificate does not claim {', '.join(numbers)}")
        for name, kind in expected.items():
            if isinstance(table[name], bool) or not isinstance(table[name], kind):
                raise Rejected(f"the certificate's {name} is of the wrong kind")
    _check_claims(header["claims"])
    for name in ("data", "model_digest"):
        if header[name] is not None and not _DIGEST.fullmatch(header[name]):
            raise Rejected(f"the certificate's {name} is not a SHA-256")
    if not header["model"].isprintable():
        raise Rejected("the certificate's model holds what cannot be printed")
    test_error = header["notes"].get("test_error", 0.0)
    if not isinstance(test_error, int | float) or not 0 <= test_error <= 1:
        raise Rejected("the certificate's test error is not a share")
    return header


def _check_claims(claims: Mapping[str, Any]) -> None:
    if not 0 < claims["delta"] < 1:
        raise Rejected(f"the certificate's delta is {claims['delta']}, not between 0 and 1")
    if not 0 <= claims["bound"] <= 1:
        raise Rejected(f"the certificate's bound is {claims['bound']}, not from 0 to 1")
    if not 1 <= claims["n"] <= MOST_ROWS or not 0 <= claims["errors"] <= claims["n"]:
        raise Rejected("the certificate does not claim a number of errors among some rows")
    if not 0 <= claims["message_bits"] <= 8 * MOST_MESSAGE:
        raise Rejected("the certificate does not claim the length of a message")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    # of two values for one name, readers differ in which they take
    table = dict(pairs)
    if len(table) < len(pairs):
        raise ValueError("expected every name once")
    return table
