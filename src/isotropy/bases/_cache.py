"""Answers already found, in memory and on disk, keyed by value and by version.

A key is made of the generators themselves, so two groups share an answer only if they are
equal; whatever cannot be described by value (opaque operators, your own functions) is never
kept.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from math import prod
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors import torch as safetensors_torch
from torch import Tensor

from isotropy import __version__
from isotropy._run import atomic_write, cache_folder
from isotropy.bases._basis import Basis
from isotropy.bases._dense import DenseBasis
from isotropy.bases._orbits import OrbitBasis
from isotropy.bases._zero_weight import ZeroWeightBasis
from isotropy.groups import Group
from isotropy.reps import Rep

WORTH_A_FILE = 0.5  # seconds of solving
_FORMAT = 1


class BasisCache:
    """The answers found so far, the least recently used forgotten first.

    Args:
        capacity: How many bytes of answers to keep in memory.
        disk: Whether to keep answers on disk too.
    """

    def __init__(self, capacity: int = 512 * 2**20, *, disk: bool = True) -> None:
        self.capacity = capacity
        self.disk = disk
        self._kept: OrderedDict[str, Basis] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, rep: Rep, method: str) -> Basis | None:
        """The answer for a representation, from memory or disk, or None."""
        key = key_of(rep, method)
        if key is None:
            return None
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        basis = _read(key, rep, method) if self.disk else None
        if basis is not None:
            self._remember(key, basis)
        return basis

    def put(self, basis: Basis, method: str, seconds: float) -> None:
        """Keep an answer; on disk too if it took long to find."""
        key = key_of(basis.rep, method)
        if key is None:
            return
        self._remember(key, basis)
        if self.disk and seconds >= WORTH_A_FILE:
            _write(key, basis)

    def clear(self) -> None:
        """Forget what is in memory; files stay."""
        with self._lock:
            self._kept.clear()

    def _remember(self, key: str, basis: Basis) -> None:
        with self._lock:
            self._kept[key] = basis
            while len(self._kept) > 1 and sum(map(_bytes, self._kept.values())) > self.capacity:
                self._kept.popitem(last=False)


def key_of(rep: Rep, method: str) -> str | None:
    """A digest of everything the answer depends on, or None if that is not known by value."""
    if not all(group.by_value for group in rep.groups):
        return None
    digest = hashlib.blake2b(digest_size=20)
    digest.update(f"{_FORMAT}|{__version__}|{method}|".encode())
    return digest.hexdigest() if _feed(digest, rep._key()) else None


def _feed(digest: hashlib.blake2b, item: object) -> bool:
    """Add a nested key to the digest; False if part of it has no value of its own."""
    if isinstance(item, tuple):
        digest.update(b"(%d" % len(item))
        return (not item or item[0] != "opaque") and all(_feed(digest, part) for part in item)
    value = item.value if isinstance(item, Group) else item
    encoded = value if isinstance(value, bytes) else repr(value).encode()
    digest.update(b"%d:" % len(encoded) + encoded)
    return True


def _tensors(basis: Basis) -> dict[str, Tensor] | None:
    """What a basis is made of; None for kinds that are cheap to find again."""
    if isinstance(basis, OrbitBasis):
        signs = {} if basis.signs is None else {"signs": basis.signs}
        return {"labels": basis.labels, **signs}
    if isinstance(basis, DenseBasis):
        return {"q": basis.q.contiguous()}
    if isinstance(basis, ZeroWeightBasis):
        vectors = {f"vectors{i}": s.contiguous() for i, s in enumerate(basis.vectors)}
        return {"index": basis.index, "null": basis.null.contiguous(), **vectors}
    return None


def _from_tensors(rep: Rep, tensors: dict[str, Tensor], method: str) -> Basis:
    if "labels" in tensors:
        return OrbitBasis(rep, tensors["labels"], tensors.get("signs"))
    if "null" in tensors:
        vectors = [tensors[f"vectors{i}"] for i in range(len(tensors) - 2)]
        return ZeroWeightBasis(rep, vectors, tensors["index"], tensors["null"])
    return DenseBasis(rep, tensors["q"], method)


def _as_real(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Complex tensors as pairs of real ones, under a name that says so: the file holds no other."""
    return {
        f"complex {name}" if t.is_complex() else name: (
            torch.view_as_real(t).clone() if t.is_complex() else t
        )
        for name, t in tensors.items()
    }


def _as_complex(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The inverse of ``_as_real``."""
    # cloned, because the numbers in a mapped file need not lie where complex ones must
    return {
        name.removeprefix("complex "): torch.view_as_complex(t.clone())
        if name.startswith("complex ")
        else t
        for name, t in tensors.items()
    }


def _rows(basis: Basis) -> int:
    """The length of the vectors that a basis is really made of."""
    if isinstance(basis, OrbitBasis):
        return len(basis.labels)
    if isinstance(basis, ZeroWeightBasis):
        return prod(len(vectors) for vectors in basis.vectors)
    assert isinstance(basis, DenseBasis)
    return len(basis.q)


def _bytes(basis: Basis) -> int:
    return sum(t.numel() * t.element_size() for t in (_tensors(basis) or {}).values())


def _path(key: str) -> Path | None:
    folder = cache_folder()
    return None if folder is None else folder / "bases" / f"{key}.safetensors"


def _write(key: str, basis: Basis) -> None:
    path, tensors = _path(key), _tensors(basis)
    if path is None or tensors is None:
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as file:
            file.write(safetensors_torch.save(_as_real(tensors)))
    except (OSError, ValueError, RuntimeError, KeyError):
        return  # a cache that cannot be written is no reason to lose the answer


def _read(key: str, rep: Rep, method: str) -> Basis | None:
    path = _path(key)
    if path is None or not path.is_file():
        return None
    try:
        basis = _from_tensors(rep, _as_complex(safetensors_torch.load_file(path)), method)
    except (OSError, SafetensorError, KeyError):
        return None  # damaged: solve again
    return basis if _rows(basis) == rep.size() else None
