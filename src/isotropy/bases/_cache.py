"""Answers already found, in memory and on disk, keyed by value and by version.

A key is made of the generators themselves, so two groups share an answer only if they are
equal; whatever cannot be described by value (opaque operators, your own functions) is never
kept. Files are checked before they are believed (``_cache_files``).
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from math import inf

from isotropy import __version__
from isotropy.bases._cache_files import read_basis, write_basis
from isotropy.bases._dense import DenseBasis
from isotropy.bases._null_space import ranks_must_be_clear, strict_solving
from isotropy.bases._orbits import OrbitBasis
from isotropy.bases._orthonormal_basis import Basis
from isotropy.bases._zero_weight import ZeroWeightBasis
from isotropy.groups import Group
from isotropy.reps import Rep

WORTH_A_FILE = 0.5  # seconds of solving
_FORMAT = 2


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
        basis = read_basis(key, rep, method) if self.disk else None
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
            write_basis(key, basis)

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


def _bytes(basis: Basis) -> int:
    match basis:
        case OrbitBasis():
            tensors = [basis.labels, *([] if basis.signs is None else [basis.signs])]
        case DenseBasis():
            tensors = [basis.q]
        case ZeroWeightBasis():
            tensors = [basis.index, basis.null, *basis.vectors]
        case _:
            tensors = []
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


_SHARED = BasisCache()
_CURRENT: ContextVar[BasisCache] = ContextVar("current basis cache", default=_SHARED)


def current_cache() -> BasisCache:
    """The cache that ``equivariant_basis`` uses where it is given none."""
    return _CURRENT.get()


@contextmanager
def solved_anew(*, most_work: float = inf, clear_ranks: bool = False) -> Iterator[None]:
    """Solve every basis anew while this is open, and read no file.

    For work whose result must not depend on what others could write, such as checking a
    certificate. Equal blocks are solved once all the same. Within another one the stricter of both
    limits hold.

    Args:
        most_work: How many numbers iterative solvers may go over in all; beyond it they end in a
            `ValueError`. A second of one core goes over some four million.
        clear_ranks: Whether to refuse, by a `ValueError`, generators so near to others that
            rounding decides what they leave as it is: another machine could find another space.

    Example:
        >>> from isotropy.bases import equivariant_basis
        >>> from isotropy.groups import SO
        >>> from isotropy.reps import V
        >>> with solved_anew():
        ...     equivariant_basis((V >> V)(SO(3))).rank
        1
    """
    # what was solved without clear ranks is no answer where they are asked for
    kept = not current_cache().disk and (ranks_must_be_clear() or not clear_ranks)
    token = _CURRENT.set(current_cache() if kept else BasisCache(disk=False))
    try:
        with strict_solving(most_work, clear_ranks):
            yield
    finally:
        _CURRENT.reset(token)
