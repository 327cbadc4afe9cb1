"""The container: what is read back, and every way in which it may be damaged or forged."""

from __future__ import annotations

import hashlib
import json
import struct
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from certificate_parts import pack_start, unpack_start
from isotropy.certificates import Certificate, Rejected, certify

X = torch.randn(120, 2, generator=torch.Generator().manual_seed(5))
SAMPLE = X, (X[:, 0] > 0).long()
_LENGTHS = struct.Struct("<HIIQ")


@pytest.fixture(scope="module")
def certificate() -> Certificate:
    return certify("mlp-4", SAMPLE, d=5, levels=3, epochs=5, quantised_epochs=5, test=SAMPLE)


def container(
    header: bytes, message: bytes, start: bytes = b"", /, *, version: int = 1, **lengths: int
) -> bytes:
    """The format by its description, sealed as an attacker would."""
    declared = {"header": len(header), "message": len(message), "start": len(start), **lengths}
    body = b"isotropy" + _LENGTHS.pack(version, *declared.values()) + header + message + start
    return body + hashlib.sha256(body).digest()


def header_of(certificate: Certificate) -> dict[str, Any]:
    return {
        "claims": dict(certificate.claims),
        "data": certificate.data,
        "model": certificate.model,
        "model_digest": certificate.model_digest,
        "notes": dict(certificate.notes or {}),
    }


def test_what_is_written_is_what_is_read(certificate: Certificate, tmp_path: Path) -> None:
    path = tmp_path / "cert.iso"
    certificate.save(path)
    again = Certificate.load(path)
    assert path.read_bytes() == certificate.to_bytes() == again.to_bytes()
    assert header_of(again) == header_of(certificate)
    assert again.message == certificate.message
    assert again.test_error == again.train_error == certificate.errors / 120
    assert str(again).startswith("mlp-4: risk at most ")
    assert list(tmp_path.iterdir()) == [path]


def test_the_layout_is_as_described(certificate: Certificate) -> None:
    header = json.dumps(header_of(certificate), sort_keys=True).encode()
    assert container(header, certificate.message) == certificate.to_bytes()


def test_any_flipped_bit_is_rejected(certificate: Certificate) -> None:
    content = certificate.to_bytes()
    for place in range(8 * len(content)):
        changed = bytearray(content)
        changed[place // 8] ^= 1 << place % 8
        with pytest.raises(Rejected, match=r"^the (file|certificate) is "):
            Certificate.from_bytes(bytes(changed))


def test_any_other_length_is_rejected(certificate: Certificate) -> None:
    content = certificate.to_bytes()
    for length in range(len(content)):
        with pytest.raises(Rejected, match=r"not a certificate|damaged"):
            Certificate.from_bytes(content[:length])
    with pytest.raises(Rejected, match=r"length is not the one it declares"):
        Certificate.from_bytes(content + b"\0")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"version": 2}, r"^the certificate is of format 2, newer than format 1, which this "),
        ({"version": 65535}, r"format 65535, newer"),
        ({"version": 0}, r"there is no format 0"),
        ({"header": 2**32 - 1}, r"length is not the one"),
        ({"message": 2**32 - 1}, r"length is not the one"),
        ({"start": 2**64 - 1}, r"length is not the one"),
    ],
    ids=["newer", "newest", "zero", "header", "message", "start"],
)
def test_versions_and_lengths(
    certificate: Certificate, change: dict[str, int], sentence: str
) -> None:
    content = container(b"{}", certificate.message, **change)
    tracemalloc.start()
    with pytest.raises(Rejected, match=sentence):
        Certificate.from_bytes(content)
    assert tracemalloc.get_traced_memory()[1] < 1e6
    tracemalloc.stop()


def claim(**changed: Any) -> Callable[[dict[str, Any]], None]:
    return lambda header: header["claims"].update(changed)


def field(**changed: Any) -> Callable[[dict[str, Any]], None]:
    return lambda header: header.update(changed)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (claim(bound=1), r"bound is of the wrong kind"),
        (claim(bound=True), r"bound is of the wrong kind"),
        (claim(bound="0.1"), r"bound is of the wrong kind"),
        (claim(bound=-0.1), r"bound is -0.1, not from 0 to 1"),
        (claim(bound=1e300), r"not from 0 to 1"),
        (claim(errors=3.0), r"errors is of the wrong kind"),
        (claim(errors=-1), r"a number of errors among some rows"),
        (claim(errors=121), r"a number of errors among some rows"),
        (claim(n=0, errors=0), r"a number of errors among some rows"),
        (claim(n=10**400), r"a number of errors among some rows"),
        (claim(delta=0.0), r"delta is 0.0, not between 0 and 1"),
        (claim(delta=1.0), r"delta is 1.0, not between 0 and 1"),
        (claim(delta="0.05"), r"delta is of the wrong kind"),
        (claim(message_bits=-8), r"the length of a message"),
        (claim(message_bits=10**30), r"the length of a message"),
        (claim(more=1), r"does not claim bound, kind, errors"),
        (field(claims=[]), r"claims is of the wrong kind"),
        (field(claims={}), r"does not claim bound"),
        (field(data="0" * 63), r"data is not a SHA-256"),
        (field(data="G" * 64), r"data is not a SHA-256"),
        (field(model_digest="\x1b[2J"), r"model_digest is not a SHA-256"),
        (field(model="mlp-4\x1b[2J"), r"model holds what cannot be printed"),
        (field(model="\ud800"), r"got half of a surrogate pair"),
        (field(notes=[]), r"notes is of the wrong kind"),
        (field(notes={"test_error": "low"}), r"test error is not a share"),
        (field(notes={"test_error": 1.5}), r"test error is not a share"),
        (field(more=1), r"header does not hold claims, data"),
    ],
    ids=lambda value: None if callable(value) else value[:24],
)
def test_headers_of_another_kind(
    certificate: Certificate, change: Callable[[dict[str, Any]], None], sentence: str
) -> None:
    header = header_of(certificate)
    change(header)
    with pytest.raises(Rejected, match=sentence):
        Certificate.from_bytes(container(json.dumps(header).encode(), certificate.message))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"delta": 0.05', '"delta": NaN'),
        ('"delta": 0.05', '"delta": 1e999'),
        ('"delta": 0.05', '"delta": -Infinity'),
        ('"delta": 0.05', '"delta": 0.05, "delta": 0.5'),
        ('"notes": {', '"notes": {"a": 1e999, '),
        ('"notes": {', '"notes": {"a": ' + "[" * 20_000 + "]" * 20_000 + ", "),
        ('"notes": {', '"notes": {"a": ' + "9" * 5000 + ", "),
        ('"notes": {', '"notes": {"\udcff": '),
        ('"notes"', "'notes'"),
    ],
    ids=[
        *("NaN", "overflow", "infinity", "twice", "in notes", "nested", "digits", "no text"),
        "no JSON",
    ],
)
def test_headers_that_are_no_json(certificate: Certificate, old: str, new: str) -> None:
    text = json.dumps(header_of(certificate))
    assert old in text
    forged = text.replace(old, new).encode(errors="surrogateescape")
    with pytest.raises(Rejected, match=r"^expected .* certificate's header"):
        Certificate.from_bytes(container(forged, certificate.message))


def test_deep_headers_are_no_harm(certificate: Certificate) -> None:
    for depth in range(880, 1000, 7):
        header = header_of(certificate)
        text = json.dumps(header).replace('"delta": 0.05', '"delta": ' + "[" * depth + "]" * depth)
        with pytest.raises(Rejected, match=r"nested at most 32 deep"):
            Certificate.from_bytes(container(text.encode(), certificate.message))


def test_what_could_not_be_read_is_not_written(certificate: Certificate) -> None:
    with pytest.raises(ValueError, match=r"header of at most 65536 bytes, got \d+"):
        replace(certificate, notes={"a": "b" * 2**16}).to_bytes()
    with pytest.raises(ValueError, match=r"message of at most 262144 bytes, got 262145"):
        replace(certificate, message=bytes(2**18 + 1)).to_bytes()


def test_files_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / "cert.iso"
    path.write_bytes(b"")
    with pytest.raises(Rejected, match=r"^the file is not a certificate$"):
        Certificate.load(path)
    with path.open("wb") as file:
        file.truncate(1 << 29)
    with pytest.raises(Rejected, match=r"longer than any certificate"):
        Certificate.load(path)
    with pytest.raises(FileNotFoundError):
        Certificate.load(tmp_path / "none.iso")


class Normed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(2)
        self.head = nn.Linear(2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.norm(x))


def test_a_start_is_read_as_it_was_written() -> None:
    model = Normed()
    own = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    packed = pack_start(model, own)
    assert len(packed) == 4 * (2 + 2 + 4 + 2 + 2 + 2)  # the count of batches is no real number
    found = unpack_start(model, packed, buffers=True)
    assert set(own) - set(found) == {"norm.num_batches_tracked"}
    for name, tensor in found.items():
        assert torch.equal(tensor.float(), own[name])
    with pytest.raises(Rejected, match=r"holds 52 bytes of start, its network needs 56"):
        unpack_start(model, packed[4:], buffers=True)
    with pytest.raises(Rejected, match=r"not a finite number"):
        unpack_start(model, struct.pack("<f", float("inf")) + packed[4:], buffers=True)


def test_the_digest_is_of_all_but_the_values_of_parameters() -> None:
    def model_digest(module: nn.Module) -> str | None:
        return certify(module, SAMPLE, d=0).model_digest

    model, other = Normed(), Normed()
    with torch.no_grad():
        other.head.weight.add_(1)
    digest = model_digest(model)
    assert digest is not None
    assert model_digest(other) == digest
    other.norm.running_mean.add_(1)  # type: ignore[operator]
    assert model_digest(other) != digest
    assert model_digest(nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 2))) != digest
