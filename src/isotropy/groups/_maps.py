"""Linear maps kept as what they are: a permutation is an index array, a matrix a matrix.

Generators, group elements and their representations are all square linear maps. A map may be a
*batch* of maps: ``batch`` leading dimensions on its arrays, which broadcast against the leading
dimensions of what it is applied to. Compound maps (Kronecker products, blocks) live in
``_compound``.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from isotropy._run import require_memory


def broadcast_shapes(*shapes: tuple[int, ...]) -> torch.Size:
    """The common shape of batches; torch's own loads half a second of modules at its first call."""
    return torch.Size(np.broadcast_shapes(*shapes))


class LinearMap(ABC):
    """A square linear map M on R^n or C^n, or a batch of them.

    Attributes:
        size: The dimension n.
        batch: Shape of the batch; empty for a single map.
    """

    size: int
    batch: torch.Size

    def apply(self, x: Tensor) -> Tensor:
        """Return M x along the last axis of ``x``, shape (*, n), in the precision of ``x``."""
        if x.ndim == 0 or x.shape[-1] != self.size:
            raise ValueError(
                f"expected a tensor of width {self.size} to apply a linear map to, "
                f"got shape {tuple(x.shape)}"
            )
        return self._apply(x)

    @abstractmethod
    def _apply(self, x: Tensor) -> Tensor:
        """M x along the last axis."""

    @abstractmethod
    def transpose(self) -> LinearMap:
        """The transpose of M (without conjugation)."""

    @abstractmethod
    def inverse(self) -> LinearMap:
        """The inverse of M."""

    @abstractmethod
    def scaled(self, factor: float) -> LinearMap:
        """The map ``factor * M``."""

    @abstractmethod
    def det(self) -> Tensor:
        """The determinant, shape ``batch``."""

    @abstractmethod
    def trace(self) -> Tensor:
        """The trace, shape ``batch``."""

    @abstractmethod
    def unsqueeze(self, dims: int) -> LinearMap:
        """The same maps with ``dims`` singleton dimensions appended to ``batch``."""

    @abstractmethod
    def select(self, index: int | Tensor) -> LinearMap:
        """The maps at ``index`` along the first batch dimension."""

    @property
    @abstractmethod
    def is_complex(self) -> bool:
        """Whether the entries are complex."""

    @abstractmethod
    def value(self) -> bytes:
        """Bytes that are equal for equal maps; an opaque operator's are its own."""

    def monomial(self) -> Monomial | None:
        """This map as a signed permutation where it is one by construction, else None."""
        return None

    @property
    def is_monomial(self) -> bool:
        """Whether ``monomial`` gives one, without multiplying it out."""
        return False

    @property
    def by_value(self) -> bool:
        """Whether ``value`` describes the map fully (false for opaque operators)."""
        return True

    def dense(self) -> Tensor:
        """The matrix, shape (*batch, n, n), float64 or complex128."""
        width = 16 if self.is_complex else 8
        require_memory(
            width * self.size**2 * self.batch.numel(),
            f"the dense form of a linear map on {self.size} dimensions",
            "use its .apply(x), which never forms the matrix",
        )
        eye = torch.eye(self.size, dtype=torch.complex128 if self.is_complex else torch.float64)
        return self.unsqueeze(1).apply(eye.expand(*self.batch, *eye.shape)).mT.contiguous()

    def __matmul__(self, other: LinearMap) -> LinearMap:
        """The composition: (M @ N).apply(x) = M.apply(N.apply(x))."""
        if not isinstance(other, LinearMap):
            raise TypeError(
                f"expected a linear map to compose with, got {type(other).__name__}; "
                "use .apply(x) for vectors"
            )
        from isotropy.groups._compound import compose

        return compose(self, other)

    def __len__(self) -> int:
        if not self.batch:
            raise TypeError("a single linear map has no length; only a batch of maps has")
        return self.batch[0]

    def __getitem__(self, index: int | Tensor) -> LinearMap:
        if not self.batch:
            raise TypeError("a single linear map cannot be indexed; only a batch of maps can")
        if isinstance(index, int) and not -len(self) <= index < len(self):
            raise IndexError(f"index {index} is out of range for a batch of {len(self)} maps")
        return self.select(index)

    def __repr__(self) -> str:
        batch = f", batch={tuple(self.batch)}" if self.batch else ""
        return f"{type(self).__name__}(size={self.size}{batch})"


class Monomial(LinearMap):
    """A signed permutation: e_i is sent to sign_i · e_{index_i}.

    Args:
        index: Integer tensor (*batch, n): where each basis vector goes.
        sign: Tensor of ±1 of the same shape, or None for a plain permutation.

    Example:
        >>> shift = Monomial(torch.tensor([1, 2, 0]))
        >>> shift.apply(torch.tensor([10.0, 20.0, 30.0]))
        tensor([30., 10., 20.])
    """

    def __init__(self, index: Tensor, sign: Tensor | None = None) -> None:
        self.index = index.to(torch.int64)
        self.sign = None if sign is None or bool((sign == 1).all()) else sign.to(torch.int8)
        self.size = index.shape[-1]
        self.batch = index.shape[:-1]

    @staticmethod
    def identity(size: int) -> Monomial:
        """The identity on ``size`` dimensions."""
        return Monomial(torch.arange(size))

    @cached_property
    def is_identity(self) -> bool:
        """Whether every map of the batch is the identity."""
        return self.sign is None and bool((self.index == torch.arange(self.size)).all())

    @cached_property
    def _source(self) -> Tensor:
        """Inverse index: which entry of x lands at each place."""
        places = torch.arange(self.size).expand_as(self.index)
        return torch.empty_like(self.index).scatter_(-1, self.index, places)

    def _apply(self, x: Tensor) -> Tensor:
        if self.is_identity:
            return x.expand(*broadcast_shapes(x.shape[:-1], self.batch), self.size)
        if self.sign is not None:
            x = x * self.sign.to(x.device, x.dtype)
        source = self._source.to(x.device)
        if not self.batch:
            return x[..., source]
        lead = broadcast_shapes(x.shape[:-1], self.batch)
        return x.expand(*lead, self.size).gather(-1, source.expand(*lead, self.size))

    def inverse(self) -> Monomial:
        sign = None if self.sign is None else self.sign.gather(-1, self._source)
        return Monomial(self._source, sign)

    def transpose(self) -> Monomial:
        return self.inverse()

    def scaled(self, factor: float) -> LinearMap:
        if factor == 1:
            return self
        if factor == -1:
            sign = torch.ones_like(self.index) if self.sign is None else self.sign
            return Monomial(self.index, -sign)
        return Dense(factor * self.dense())

    def det(self) -> Tensor:
        if self.size <= 32:  # inversions of a whole batch at once
            later = torch.ones(self.size, self.size, dtype=torch.bool).triu(1)
            inverted = (self.index.unsqueeze(-1) > self.index.unsqueeze(-2)) & later
            parity = 1.0 - 2.0 * (inverted.sum((-1, -2)) % 2).double()
        else:
            flat = self.index.reshape(-1, self.size).numpy()
            parity = torch.tensor([_parity(row) for row in flat], dtype=torch.float64)
            parity = parity.reshape(self.batch)
        return parity if self.sign is None else parity * self.sign.prod(-1)

    def trace(self) -> Tensor:
        fixed = (self.index == torch.arange(self.size)).to(torch.float64)
        return (fixed if self.sign is None else fixed * self.sign).sum(-1)

    def unsqueeze(self, dims: int) -> Monomial:
        if not self.batch:
            return self
        shape = (*self.batch, *(1,) * dims, self.size)
        sign = None if self.sign is None else self.sign.reshape(shape)
        return Monomial(self.index.reshape(shape), sign)

    def select(self, index: int | Tensor) -> Monomial:
        return Monomial(self.index[index], None if self.sign is None else self.sign[index])

    def compose_monomial(self, other: Monomial) -> Monomial:
        """The composition with another signed permutation, again one."""
        lead = broadcast_shapes(self.batch, other.batch)
        first = other.index.expand(*lead, self.size)
        index = self.index.expand(*lead, self.size).gather(-1, first)
        sign = None if other.sign is None else other.sign.expand_as(first)
        if self.sign is not None:
            moved = self.sign.expand_as(first).gather(-1, first)
            sign = moved if sign is None else sign * moved
        return Monomial(index, sign)

    def monomial(self) -> Monomial:
        return self

    @property
    def is_monomial(self) -> bool:
        return True

    @property
    def is_complex(self) -> bool:
        return False

    def value(self) -> bytes:
        sign = b"+" if self.sign is None else self.sign.numpy().tobytes()
        return digest(b"monomial", self.index.numpy().tobytes(), sign)

    def dense(self) -> Tensor:
        require_memory(
            8 * self.size**2 * self.batch.numel(),
            f"the dense form of a permutation of {self.size} points",
            "use its .apply(x), which never forms the matrix",
        )
        matrix = torch.zeros(*self.batch, self.size, self.size, dtype=torch.float64)
        values = torch.ones_like(self.index) if self.sign is None else self.sign
        return matrix.scatter_(-2, self.index.unsqueeze(-2), values.double().unsqueeze(-2))


class Dense(LinearMap):
    """A map given by its matrix, shape (*batch, n, n), float64 or complex128."""

    def __init__(self, matrix: Tensor) -> None:
        dtype = torch.complex128 if matrix.is_complex() else torch.float64
        self.matrix = matrix.to(dtype).resolve_conj().contiguous()
        self.size = matrix.shape[-1]
        self.batch = matrix.shape[:-2]

    def _apply(self, x: Tensor) -> Tensor:
        if not (x.is_floating_point() or x.is_complex()):
            x = x.double()
        dtype = torch.promote_types(x.dtype, torch.complex32) if self.is_complex else x.dtype
        matrix = self.matrix.to(x.device, dtype)
        if not self.batch:
            return x.to(dtype) @ matrix.mT
        return (matrix @ x.to(dtype).unsqueeze(-1)).squeeze(-1)

    def transpose(self) -> Dense:
        return Dense(self.matrix.mT)

    def inverse(self) -> Dense:
        return Dense(torch.linalg.inv(self.matrix))

    def scaled(self, factor: float) -> Dense:
        return Dense(factor * self.matrix)

    def det(self) -> Tensor:
        determinant: Tensor = torch.linalg.det(self.matrix)
        return determinant

    def trace(self) -> Tensor:
        return self.matrix.diagonal(dim1=-2, dim2=-1).sum(-1)

    def unsqueeze(self, dims: int) -> Dense:
        if not self.batch:
            return self
        return Dense(self.matrix.reshape(*self.batch, *(1,) * dims, self.size, self.size))

    def select(self, index: int | Tensor) -> Dense:
        return Dense(self.matrix[index])

    @property
    def is_complex(self) -> bool:
        return self.matrix.is_complex()

    def value(self) -> bytes:
        # adding zero turns -0.0 into 0.0: they are equal numbers with different bytes
        matrix = (self.matrix + 0.0).numpy()
        return digest(b"dense", str(matrix.shape).encode(), matrix.tobytes())

    def dense(self) -> Tensor:
        return self.matrix


class Zero(LinearMap):
    """The zero map; what a Lie algebra does to a space its group leaves alone."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.batch = torch.Size()

    def _apply(self, x: Tensor) -> Tensor:
        return torch.zeros_like(x)

    def transpose(self) -> Zero:
        return self

    def inverse(self) -> LinearMap:
        raise ValueError("the zero map has no inverse")

    def scaled(self, _factor: float) -> Zero:
        return self

    def det(self) -> Tensor:
        return torch.zeros((), dtype=torch.float64)

    def trace(self) -> Tensor:
        return torch.zeros((), dtype=torch.float64)

    def unsqueeze(self, _dims: int) -> Zero:
        return self

    def select(self, _index: int | Tensor) -> Zero:
        return self

    @property
    def is_complex(self) -> bool:
        return False

    def value(self) -> bytes:
        return digest(b"zero", str(self.size).encode())


def _parity(permutation: np.ndarray[Any, Any]) -> int:
    """Sign of a permutation: (-1)^(n - number of cycles)."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    size = len(permutation)
    graph = csr_array((np.ones(size), permutation, np.arange(size + 1)), shape=(size, size))
    cycles = connected_components(graph, directed=True, connection="strong", return_labels=False)
    return 1 if (size - cycles) % 2 == 0 else -1


def digest(*parts: bytes) -> bytes:
    """A collision-resistant digest of byte strings, unambiguous about where each part ends."""
    hashed = hashlib.blake2b(digest_size=20)
    for part in parts:
        hashed.update(len(part).to_bytes(8, "little"))
        hashed.update(part)
    return hashed.digest()
