"""Orbits of permutations: connected components of the graph i → π(i)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from isotropy.groups._maps import Monomial

Labels: TypeAlias = np.ndarray[Any, np.dtype[Any]]


def components(permutations: Iterable[Monomial | None], size: int) -> Tensor:
    """The orbit of every point under plain permutations, numbered by first appearance.

    Generators are taken one after another, each on the orbits of those before it: the graph
    shrinks as it goes, and no more than one index array is needed at a time.
    """
    labels = np.arange(size, dtype=np.int32 if size < 2**31 else np.int64)
    count = size
    for permutation in permutations:
        assert permutation is not None
        assert permutation.sign is None
        labels, count = _merge(labels, count, permutation.index.numpy())
    return torch.from_numpy(_by_first_appearance(labels, count))


def _merge(labels: Labels, count: int, target: Labels) -> tuple[Labels, int]:
    """Join the orbits ``labels`` (``count`` of them) of every point and its image."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    source, sink = labels, labels[target]
    apart = source != sink
    if not apart.any():
        return labels, count
    source, sink = source[apart], sink[apart]
    graph = csr_array((np.ones(len(source), np.int8), (source, sink)), shape=(count, count))
    found, part = connected_components(graph, directed=False)
    return part[labels], found


def _by_first_appearance(labels: Labels, count: int) -> Labels:
    """Number orbits in the order in which they are met."""
    first = np.full(count, len(labels), dtype=np.int64)
    np.minimum.at(first, labels, np.arange(len(labels)))
    rank = np.empty(count, dtype=np.int64)
    rank[np.argsort(first)] = np.arange(count)
    return rank[labels]
