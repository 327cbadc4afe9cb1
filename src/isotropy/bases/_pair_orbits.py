"""Which weights of a layer are equal: orbits of a group on pairs (output, input).

A matrix W commutes with a group if and only if it commutes with generators of it, whatever group
these generate: W P = Q W and W P' = Q' W give W P P' = Q Q' W. So weights that some generator
takes to one another are equal, and the equal weights of any number of groups together are the
connected components of all these pairs. Theorem 1 of Basu et al. 2021 is the case of a semidirect
product of two groups; neither that nor any other product needs to be known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def pair_orbits(out: Sequence[Tensor], into: Sequence[Tensor]) -> Tensor:
    """Label the weights of a layer by their orbit under generators of a group.

    Labels are lowered together until nothing changes: each generator hands every weight the label
    of the weight it is taken to, so do its square and fourth power, and labels follow their own
    labels. The work is a few gathers for each generator; it adds over groups, and never sees their
    product.

    Args:
        out: Generators on outputs: each tells where every output goes.
        into: The same generators on inputs.

    Returns:
        Labels 0, 1, … by first appearance, shape (outputs, inputs).

    Raises:
        ValueError: If there are none, not as many of one as of the other, or one is not a
            permutation of as many places as the first.

    Example:
        >>> turn, swap = torch.tensor([1, 2, 0]), torch.tensor([1, 0, 2])
        >>> pair_orbits([turn], [turn])  # Z(3)
        tensor([[0, 1, 2],
                [2, 0, 1],
                [1, 2, 0]])
        >>> pair_orbits([turn, swap], [turn, swap])  # S(3) = Z(3) ⋊ Z(2)
        tensor([[0, 1, 1],
                [1, 0, 1],
                [1, 1, 0]])
    """
    if len(out) != len(into) or not out:
        raise ValueError(
            f"expected as many generators on inputs as on outputs, at least one, got {len(into)} "
            f"and {len(out)}"
        )
    shape = len(out[0]), len(into[0])
    moves = [
        (_inverse(q, shape[0], "outputs"), _inverse(p, shape[1], "inputs"))
        for q, p in zip(out, into, strict=True)
    ]
    moves = [power for move in moves for power in _powers(*move)]
    kind = np.int32 if shape[0] * shape[1] < 2**31 else np.int64
    labels: NDArray[Any] = np.arange(shape[0] * shape[1], dtype=kind).reshape(shape)
    # memory that is used again and again costs half the time of memory that is asked for anew
    handed, moved = np.empty_like(labels), np.empty_like(labels)
    in_vain = turn = 0
    while in_vain < len(moves):
        rows, columns = moves[turn % len(moves)]
        labels.take(rows, axis=0, out=moved, mode="wrap")
        moved.take(columns, axis=1, out=handed, mode="wrap")
        np.minimum(labels, handed, out=handed)
        in_vain = in_vain + 1 if np.array_equal(labels, handed) else 0
        labels, handed = handed, labels
        turn += 1
        if turn % len(moves) == 0 and in_vain < len(moves):
            labels.ravel().take(labels, out=handed, mode="wrap")
            in_vain = in_vain if np.array_equal(labels, handed) else 0
            labels, handed = handed, labels
    return torch.from_numpy(_numbered(labels.ravel()).reshape(shape))


def _powers(
    rows: NDArray[np.int64], columns: NDArray[np.int64]
) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """A generator, its square and its fourth power, as long as these move anything."""
    found: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
    while len(found) < 3 and not (_is_identity(rows) and _is_identity(columns)):
        found.append((rows, columns))
        rows, columns = rows[rows], columns[columns]
    return found


def _inverse(permutation: Tensor, size: int, what: str) -> NDArray[np.int64]:
    places = permutation.numpy()
    inverse = np.argsort(places)
    if len(places) != size or not _is_identity(places[inverse]):
        raise ValueError(
            f"expected a permutation of {size} {what}, each place once, got {places.tolist()[:8]}"
            f"{' …' if len(places) > 8 else ''}"
        )
    return inverse


def _is_identity(permutation: NDArray[np.int64]) -> bool:
    return bool((permutation == np.arange(len(permutation))).all())


def _numbered(labels: NDArray[Any]) -> NDArray[np.int64]:
    """Labels 0, 1, …, where each was the first place that has it."""
    first = np.flatnonzero(labels == np.arange(len(labels), dtype=labels.dtype))
    numbers = np.zeros(len(labels), dtype=np.int64)  # read at first places alone
    numbers[first] = np.arange(len(first))
    return numbers.take(labels)
