"""The file: a message, what it is claimed to prove, and nothing that runs.

Layout, all numbers little-endian: the eight bytes ``isotropy``; the format's version (2 bytes);
the lengths of header, message and start (4, 4 and 8 bytes); the header, JSON in UTF-8; the message;
the start, θ₀ as float32 where it was given or trained; the SHA-256 of all that.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from isotropy._run import atomic_write
from isotropy.certificates._bound_arguments import confidence
from isotropy.certificates._bounds import Bound
from isotropy.certificates._header import MOST_HEADER, MOST_MESSAGE, Rejected, checked_header
from isotropy.certificates._hypothesis import Hypothesis

FORMAT = 1
_MAGIC = b"isotropy"
_LENGTHS = struct.Struct("<HIIQ")
_SEAL = hashlib.sha256().digest_size
MOST_START = 1 << 28


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
            f"{confidence(self.delta)} ({self.message_bits} bits, {self.errors} errors in {self.n})"
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
        if len(content) != fixed + of_header + of_message + of_start + _SEAL:
            raise Rejected("the file is damaged: its length is not the one it declares")
        if of_header > MOST_HEADER or of_message > MOST_MESSAGE or of_start > MOST_START:
            raise Rejected(
                f"the certificate's header, message or start is longer than {MOST_HEADER}, "
                f"{MOST_MESSAGE} and {MOST_START} bytes"
            )
        if hashlib.sha256(memoryview(content)[:-_SEAL]).digest() != content[-_SEAL:]:
            raise Rejected("the file is damaged: its SHA-256 is not the one it ends with")
        header = checked_header(content[fixed : fixed + of_header])
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
    """The SHA-256 of what a module is: its text, names, shapes, constants and buffers.

    Not of its code: two modules with the same text may compute something else.
    """
    hasher = hashlib.sha256(repr(model).encode())
    for name, parameter in model.named_parameters():
        hasher.update(f"{name} {tuple(parameter.shape)};".encode())
        value = parameter.detach().cpu().double().flatten()
        # constants stay as they were constructed when a start is drawn
        if len(value) and bool((value == value[0]).all()):
            hasher.update(f"{float(value[0])!r};".encode())
    for name, buffer in model.named_buffers():
        array = buffer.detach().cpu().contiguous()
        hasher.update(f"{name} {array.dtype} {tuple(array.shape)};".encode())
        hasher.update(array.flatten().view(torch.uint8).numpy().tobytes() if array.numel() else b"")
    return hasher.hexdigest()
