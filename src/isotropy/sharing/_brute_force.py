"""Learned sharing solved exactly, by looking at every partition."""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from isotropy.sharing._partition_evidence import LeastSquares, PartitionEvidence

Criterion = Literal["validation", "evidence"]

_MOST = 10
_CHUNK = 4096


def set_partitions(size: int) -> NDArray[np.int64]:
    """All partitions of 0, …, K−1 as canonical labels, shape ``(Bell(K), K)``.

    Args:
        size: K, at most 10 (115,975 partitions).

    Raises:
        ValueError: If there are more.

    Example:
        >>> set_partitions(3).tolist()
        [[0, 0, 0], [0, 0, 1], [0, 1, 0], [0, 1, 1], [0, 1, 2]]
    """
    if not 1 <= size <= _MOST:
        raise ValueError(
            f"expected between 1 and {_MOST} elements to list every partition, got {size}"
        )
    found = np.zeros((1, 1), dtype=np.int64)
    for _ in range(1, size):
        blocks = found.max(1) + 1
        repeated = np.repeat(found, blocks + 1, axis=0)
        starts = np.repeat(np.cumsum(blocks + 1) - (blocks + 1), blocks + 1)
        found = np.column_stack([repeated, np.arange(len(repeated)) - starts])
    return found


def shared_solutions(problem: LeastSquares, labels: NDArray[np.int64]) -> Tensor:
    """The exact lower level: least squares among the maps that share as each partition says.

    Args:
        problem: One least-squares problem of K = m·n parameters.
        labels: Canonical labels, shape ``(P, K)``.

    Returns:
        Maps, shape ``(P, m, n)``.

    Example:
        >>> y = torch.tensor([[1.0, 2.0, 6.0]]).double()
        >>> both = np.array([[0, 0, 1], [0, 0, 0]])
        >>> shared_solutions(LeastSquares.of(None, y), both).squeeze(-1)
        tensor([[1.5000, 1.5000, 6.0000],
                [3.0000, 3.0000, 3.0000]], dtype=torch.float64)
    """
    m, n = problem.shape
    choice = torch.eye(int(labels.max()) + 1, dtype=problem.gram.dtype)[torch.as_tensor(labels)]
    rows = choice.unflatten(1, (m, n))
    inner = torch.einsum("pmak,ab,pmbl->pkl", rows, problem.gram, rows)
    linear = torch.einsum("pmak,ma->pk", rows, problem.cross)
    inverse: Tensor = torch.linalg.pinv(inner, hermitian=True)
    psi = inverse @ linear[..., None]
    maps: Tensor = (choice @ psi).squeeze(-1).unflatten(-1, (m, n))
    return maps


def best_partition(
    train: LeastSquares,
    validation: LeastSquares,
    *,
    rank: float = 0.01,
    criterion: Criterion = "validation",
) -> NDArray[np.int64]:
    """The best of all partitions, for up to ten parameters.

    Args:
        train: What the lower level is fitted to.
        validation: What the upper level is measured on.
        rank: The weight of Σ_k √|block k|, which is the rank penalty of a partition.
        criterion: ``"validation"`` minimises the validation loss with that penalty (Eq. 6);
            ``"evidence"`` takes both sets as one and maximises ``PartitionEvidence.score``.

    Raises:
        ValueError: If there are more than ten parameters, or the criterion is unknown.

    Example:
        >>> near, far = torch.tensor([[1.1, 1.0, 5.0]]), torch.tensor([[1.0, 1.1, 5.2]])
        >>> best_partition(LeastSquares.of(None, near), LeastSquares.of(None, far))
        array([0, 0, 1])
    """
    size = train.shape[0] * train.shape[1]
    everything = set_partitions(size)
    if criterion == "evidence":
        evidence = PartitionEvidence(train + validation)
        scores = [evidence.score(labels) for labels in everything]
        return np.asarray(everything[int(np.argmax(scores))])
    if criterion != "validation":
        raise ValueError(f"expected the criterion 'validation' or 'evidence', got {criterion!r}")
    sizes = (everything[:, :, None] == np.arange(size)).sum(1)
    penalty = rank * np.sqrt(sizes).sum(1)
    losses = [
        validation.loss(shared_solutions(train, everything[start : start + _CHUNK]))
        for start in range(0, len(everything), _CHUNK)
    ]
    return np.asarray(everything[int(np.argmin(torch.cat(losses).numpy() + penalty))])
