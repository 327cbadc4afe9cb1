"""Bases on disk: written with a digest, and checked as a stranger's before they are used.

Whoever can write the cache folder could plant a basis of another space. So what a file says
counts for nothing until

- it holds the digest of its key and of its numbers (a flipped bit, a renamed file);
- its tensors have the shapes and types that the representation asks for;
- its numbers are finite, and its columns orthonormal on random coordinates;
- on a random vector, Q Q† is the orthogonal projection on the symmetric vectors, found from the
  constraints alone by conjugate gradients. This shows vectors that are not symmetric as well as
  symmetric ones that are missing. The vector is drawn anew each time, so that no file can be
  made to suit it.

A file is copied whole before it is looked at, so that no later change of it matters. Whatever fails
is solved anew. Orbits are never kept on disk: reading and checking them takes as
long as finding them.
"""

from __future__ import annotations

import hashlib
import secrets
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from isotropy._run import atomic_write, cache_folder, require_memory
from isotropy._run._json import bounded_json, utf8_text
from isotropy.bases._dense import DenseBasis, constraint_gram
from isotropy.bases._null_space import project_on_null_space
from isotropy.bases._orthonormal_basis import Basis
from isotropy.bases._zero_weight import ZeroWeightBasis
from isotropy.reps import Product, Rep

_DIGEST = "digest"
_DTYPES = (torch.float64, torch.int64)  # of all numbers in a file
# honest bases are within 1e-10 of these; conjugate gradients within 1e-8 of the projection
_ORTHONORMAL = 1e-8
_PROJECTION = 1e-6


def write_basis(key: str, basis: Basis) -> None:
    """Keep a basis, where it is of a kind that takes long to find and the folder can be written."""
    path, tensors = _path(key), _tensors(basis)
    if path is None or tensors is None:
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        content = save(tensors, {_DIGEST: _digest(key, tensors)})
        with atomic_write(path) as file:
            file.write(content)
    except (OSError, ValueError, RuntimeError, KeyError):
        return  # a cache that cannot be written is no reason to lose the answer


def read_basis(key: str, rep: Rep, method: str) -> Basis | None:
    """A basis that was kept; None where there is none, or none that can be believed."""
    path = _path(key)
    if path is None or not path.is_file():
        return None
    try:
        require_memory(3 * path.stat().st_size, "a basis that was kept", "it is solved anew")
        content = path.read_bytes()
        tensors = load(content)
        shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
        if any(tensor.dtype not in _DTYPES for tensor in tensors.values()):
            return None
        if not _shapes_fit(shapes, rep) or _declared(content) != _digest(key, tensors):
            return None
        basis = _from_tensors(rep, tensors, method)
        return basis if basis is not None and _is_the_basis(basis) else None
    except (OSError, SafetensorError, ValueError, RuntimeError, TypeError, KeyError):
        return None  # damaged, or too hard to check


def _declared(content: bytes) -> object:
    """The digest that a file holds of itself; its header is JSON, of a length that comes first."""
    header = content[8 : 8 + int.from_bytes(content[:8], "little")]
    found = bounded_json(utf8_text(header, "a header"), "a header").get("__metadata__")
    return found.get(_DIGEST) if isinstance(found, dict) else None


def _path(key: str) -> Path | None:
    folder = cache_folder()
    return None if folder is None else folder / "bases" / f"{key}.safetensors"


def _digest(key: str, tensors: dict[str, Tensor]) -> str:
    hasher = hashlib.blake2b(key.encode(), digest_size=32)
    for name in sorted(tensors):
        tensor = tensors[name].contiguous()
        hasher.update(f"{name} {tensor.dtype} {tuple(tensor.shape)};".encode())
        hasher.update(tensor.numpy().data)
    return hasher.hexdigest()


def _tensors(basis: Basis) -> dict[str, Tensor] | None:
    """What a basis is made of; None for kinds that are cheap to find again."""
    if isinstance(basis, DenseBasis):
        return {"q": _as_real(basis.q)}
    if isinstance(basis, ZeroWeightBasis):
        vectors = {f"vectors{i}": _as_real(s) for i, s in enumerate(basis.vectors)}
        return {"index": basis.index, "null": _as_real(basis.null), **vectors}
    return None


def _as_real(tensor: Tensor) -> Tensor:
    """Complex numbers as pairs of real ones: the file holds no other."""
    return (torch.view_as_real(tensor) if tensor.is_complex() else tensor).clone(
        memory_format=torch.contiguous_format
    )


def _shapes_fit(shapes: dict[str, tuple[int, ...]], rep: Rep) -> bool:
    """Whether tensors of these shapes can be a basis of a representation."""
    size = rep.size()
    if set(shapes) == {"q"}:
        rank = shapes["q"][1] if len(shapes["q"]) > 1 else -1
        return 0 <= rank <= size and shapes["q"] == (size, rank, *(2,) * rep.is_complex)
    factors = rep.factors if isinstance(rep, Product) else (rep,)
    wanted = {f"vectors{i}": (f.size(), f.size(), 2) for i, f in enumerate(factors)}
    if set(shapes) != {"index", "null", *wanted} or len(shapes["null"]) != 3:
        return False
    zeros, rank, _ = shapes["null"]
    wanted |= {"null": (zeros, rank, 2)}
    return rank <= zeros <= size and shapes == {**wanted, "index": (zeros,)}


def _from_tensors(rep: Rep, tensors: dict[str, Tensor], method: str) -> Basis | None:
    """The basis that tensors of fitting shapes make; None where they are of other types."""
    numbers = {name: tensor for name, tensor in tensors.items() if name != "index"}
    for tensor in numbers.values():
        if tensor.dtype != torch.float64 or not bool(torch.isfinite(tensor).all()):
            return None
    if "q" in tensors:
        q = tensors["q"]
        # cloned, because the numbers of a file need not lie where complex ones must
        return DenseBasis(rep, torch.view_as_complex(q.clone()) if rep.is_complex else q, method)
    index = tensors["index"]
    if index.dtype != torch.int64 or bool((index.diff() <= 0).any()):
        return None
    if len(index) and not 0 <= int(index[0]) <= int(index[-1]) < rep.size():
        return None
    parts = {name: torch.view_as_complex(tensor.clone()) for name, tensor in numbers.items()}
    vectors = [parts[f"vectors{i}"] for i in range(len(parts) - 1)]
    return ZeroWeightBasis(rep, vectors, index, parts["null"])


def _is_the_basis(basis: Basis) -> bool:
    """Whether Q has orthonormal columns and Q Q† projects on the symmetric vectors."""
    rng = np.random.default_rng(secrets.randbits(64))
    dtype = basis.dtype
    beta = torch.from_numpy(rng.normal(size=(2, basis.rank))).to(dtype)
    again = basis.coordinates(basis.combine(beta))
    if not float((again - beta).norm()) <= _ORTHONORMAL * float(beta.norm()):
        return False
    x = rng.normal(size=(basis.size, 1)).astype(np.complex128 if dtype.is_complex else np.float64)
    projected = project_on_null_space(constraint_gram(basis.rep), x)[:, 0]
    ours = basis.project(torch.from_numpy(x[:, 0])).numpy()
    return bool(np.linalg.norm(ours - projected) <= _PROJECTION * np.linalg.norm(x))
