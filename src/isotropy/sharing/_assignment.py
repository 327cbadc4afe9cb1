"""Assignment matrices of parameter sharing: relaxed, penalised, rounded (Yeh et al., 4.2)."""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

RankNorm = Literal["columns", "nuclear"]


def row_softmax(logits: Tensor) -> Tensor:
    """A relaxed assignment matrix: non-negative, rows that sum to one.

    Args:
        logits: Shape ``(*, K, K)``.

    Example:
        >>> row_softmax(torch.zeros(2, 2))
        tensor([[0.5000, 0.5000],
                [0.5000, 0.5000]])
    """
    return logits.softmax(-1)


def row_entropy(assignment: Tensor) -> Tensor:
    """The mean over rows of the entropy −Σ_j A_ij log A_ij (Eq. 20, divided by K).

    Args:
        assignment: Shape ``(*, K, K)``.

    Returns:
        Shape ``(*)``; zero where every row is one-hot.

    Example:
        >>> float(row_entropy(torch.eye(3)).round(decimals=4))
        0.0
    """
    # the published numbers come with this constant inside both factors
    kept = assignment + 1e-6
    return -(kept * kept.log()).sum(-1).mean(-1)


def rank_penalty(assignment: Tensor, norm: RankNorm = "columns") -> Tensor:
    """A convex stand-in for the number of blocks.

    Args:
        assignment: Shape ``(*, K, K)``.
        norm: ``"columns"`` is Σ_j ‖A_:j‖₂, which Yeh et al.'s numbers rest on (they write Eq. 21,
            the nuclear norm, and take the square root of AᵀA entry by entry); ``"nuclear"`` is the
            nuclear norm, the sum of singular values.

    Returns:
        Shape ``(*)``.

    Raises:
        ValueError: If the norm is unknown.

    Example:
        >>> together, apart = torch.eye(4)[[0, 0, 0, 0]], torch.eye(4)
        >>> rank_penalty(together), rank_penalty(apart)
        (tensor(2.), tensor(4.))
    """
    if norm == "columns":
        columns: Tensor = torch.linalg.vector_norm(assignment, dim=-2)
        return columns.sum(-1)
    if norm == "nuclear":
        singular: Tensor = torch.linalg.svdvals(assignment)
        return singular.sum(-1)
    raise ValueError(f"expected the rank norm 'columns' or 'nuclear', got {norm!r}")


def hard_assignment(labels: ArrayLike) -> Tensor:
    """The assignment matrix of a partition: A_ij = 1 where element i is in block j.

    Args:
        labels: The block of each element, shape ``(K,)``.

    Example:
        >>> hard_assignment([0, 1, 0]).int().tolist()
        [[1, 0, 0], [0, 1, 0], [1, 0, 0]]
    """
    blocks = canonical_labels(np.asarray(labels))
    return torch.eye(len(blocks), dtype=torch.float64)[torch.as_tensor(blocks)]


def rounded(assignment: Tensor) -> NDArray[np.int64]:
    """The partition nearest to a relaxed assignment: each row to its largest entry.

    Args:
        assignment: Shape ``(*, K, K)``.

    Returns:
        Canonical labels, shape ``(*, K)``.

    Example:
        >>> rounded(torch.tensor([[0.1, 0.9], [0.4, 0.6]]))
        array([0, 0])
    """
    labels = assignment.detach().cpu().argmax(-1).numpy()
    return np.apply_along_axis(canonical_labels, -1, labels)


def canonical_labels(labels: NDArray[np.integer]) -> NDArray[np.int64]:
    """The same partition with blocks numbered 0, 1, … in the order of their first elements.

    Args:
        labels: The block of each element, any integers, shape ``(K,)``.

    Example:
        >>> canonical_labels(np.array([7, 2, 7, 5]))
        array([0, 1, 0, 2])
    """
    _, first, blocks = np.unique(labels, return_index=True, return_inverse=True)
    order = np.empty(len(first), dtype=np.int64)
    order[np.argsort(first)] = np.arange(len(first))
    renumbered: NDArray[np.int64] = order[blocks.reshape(np.shape(labels))]
    return renumbered
