"""Files that someone planted in the cache of bases, with digests that are right."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

Tensors = dict[str, Tensor]


def digest(key: str, tensors: Tensors) -> str:
    """As the library computes it: whoever can write a file can do so too."""
    hasher = hashlib.blake2b(key.encode(), digest_size=32)
    for name in sorted(tensors):
        tensor = tensors[name].contiguous()
        hasher.update(f"{name} {tensor.dtype} {tuple(tensor.shape)};".encode())
        hasher.update(tensor.numpy().data)
    return hasher.hexdigest()


def plant(path: Path, tensors: Tensors) -> None:
    whole = {name: tensor.contiguous() for name, tensor in tensors.items()}
    save_file(whole, path, {"digest": digest(path.stem, whole)})


def _changed(name: str, change: Callable[[Tensor], Tensor]) -> Callable[[Path], None]:
    def poison(path: Path) -> None:
        tensors = load_file(path)
        plant(path, {**tensors, name: change(tensors[name])})

    return poison


def _all(change: Callable[[Tensors], Tensors]) -> Callable[[Path], None]:
    return lambda path: plant(path, change(load_file(path)))


def _with_nan(tensor: Tensor) -> Tensor:
    tensor.view(-1)[0] = torch.nan
    return tensor


def _random_columns(q: Tensor) -> Tensor:
    return torch.linalg.qr(torch.randn(q.shape, dtype=q.dtype)).Q


def _tilted(q: Tensor) -> Tensor:
    return torch.linalg.qr(q + 1e-4 * torch.randn(q.shape, dtype=q.dtype)).Q


def _wider(q: Tensor) -> Tensor:
    return torch.linalg.qr(torch.cat([q, torch.randn(len(q), 1, dtype=q.dtype)], 1)).Q


def _bytes(change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    return lambda path: path.write_bytes(change(path.read_bytes())) and None


def _without_digest(path: Path) -> None:
    save_file(load_file(path), path)


def _of_another_name(path: Path) -> None:
    tensors = load_file(path)
    save_file(tensors, path, {"digest": digest("0" * 40, tensors)})


def _replaced_by(make: Callable[[Path], object]) -> Callable[[Path], None]:
    def poison(path: Path) -> None:
        path.unlink()
        make(path)

    return poison


def _of_type(kind: str, size: int) -> Callable[[Path], None]:
    """Numbers of a type that NumPy does not know."""

    def poison(path: Path) -> None:
        shape = list(load_file(path)["q"].shape)
        length = size * shape[0] * shape[1]
        about = {"q": {"dtype": kind, "shape": shape, "data_offsets": [0, length]}}
        header = json.dumps(about).encode()
        path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(length))

    return poison


# of bases kept as the matrix Q
DENSE: dict[str, Callable[[Path], None]] = {
    "twice as long": _changed("q", lambda q: 2 * q),
    "not a number": _changed("q", _with_nan),
    "infinite": _changed("q", lambda q: q / 0),
    "integers": _changed("q", lambda q: q.round().long()),
    "single precision": _changed("q", lambda q: q.float()),
    "brain floats": _of_type("BF16", 2),
    "eighths": _of_type("F8_E8M0", 1),
    "flattened": _changed("q", lambda q: q.flatten()),
    "transposed": _changed("q", lambda q: q.mT),
    "a column less": _changed("q", lambda q: q[:, 1:]),
    "no column": _changed("q", lambda q: q[:, :0]),
    "a column more": _changed("q", _wider),
    "random columns": _changed("q", _random_columns),
    "slightly tilted": _changed("q", _tilted),
    "rows in another order": _changed("q", lambda q: q.roll(1, 0)),
    "another name": _all(lambda tensors: {"labels": tensors["q"]}),
    "one tensor too many": _all(lambda tensors: {**tensors, "x": torch.ones(1)}),
    "a flipped bit": _bytes(lambda content: content[:-3] + bytes([content[-3] ^ 1]) + content[-2:]),
    "no digest": _without_digest,
    "the digest of another key": _of_another_name,
    "cut short": _bytes(lambda content: content[: len(content) // 2]),
    "empty": _bytes(lambda content: b""),
    "an absurd header": _bytes(lambda content: b"\xff" * 7 + b"\x7f" + content[8:]),
    "a pickle": _replaced_by(lambda path: path.write_bytes(pickle.dumps({"q": [1.0]}))),
    "a folder": _replaced_by(lambda path: path.mkdir()),
    "a link to nowhere": _replaced_by(lambda path: path.symlink_to(path.parent / "nothing")),
    "a pipe": _replaced_by(os.mkfifo),
}
# of bases kept factored
FACTORED: dict[str, Callable[[Path], None]] = {
    "an index out of range": _changed("index", lambda index: index + 10**6),
    "a negative index": _changed("index", lambda index: index - 10**6),
    "an index twice": _changed("index", lambda index: index.clamp_min(int(index[1]))),
    "an index of reals": _changed("index", lambda index: index.double()),
    "null vectors missing": _changed("null", lambda null: null[:, 1:]),
    "null vectors turned": _changed("null", lambda null: null.roll(1, 0)),
    "null vectors not numbers": _changed("null", _with_nan),
    "other eigenvectors": _changed("vectors0", lambda vectors: vectors.roll(1, 0)),
    "eigenvectors too wide": _changed("vectors1", lambda vectors: torch.cat([vectors, vectors])),
    "no eigenvectors": _all(lambda tensors: {n: tensors[n] for n in ("index", "null")}),
}
