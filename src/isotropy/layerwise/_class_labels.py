"""Labels of classes, checked and counted."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def require_labels(y: Any, samples: int) -> Tensor:
    """Labels as whole numbers, one for each sample.

    Raises:
        TypeError: If they are not whole numbers.
        ValueError: If there are more or fewer.

    Example:
        >>> require_labels([3, 5], 2)
        tensor([3, 5])
    """
    try:
        labels = torch.as_tensor(y)
    except (TypeError, ValueError) as error:
        raise TypeError(f"expected labels as whole numbers, got {type(y).__name__}") from error
    if labels.dtype == torch.bool or labels.is_floating_point() or labels.is_complex():
        raise TypeError(f"expected labels as whole numbers, got {labels.dtype}")
    if tuple(labels.shape) != (samples,):
        raise ValueError(f"expected {samples} labels in one axis, got {tuple(labels.shape)}")
    return labels.to(torch.int64)


def class_places(labels: Tensor, outputs: int | None = None) -> tuple[tuple[int, ...], Tensor]:
    """Which classes there are, and the place of every label among them.

    Args:
        labels: Whole numbers, shape (n,).
        outputs: How many outputs a network has; where there are more than labels that occur,
            labels have to be their places.

    Returns:
        The classes, and the places, shape (n,).

    Raises:
        ValueError: If there is but one class, or they do not fit the outputs.

    Example:
        >>> class_places(torch.tensor([7, 3, 7]))
        ((3, 7), tensor([1, 0, 1]))
        >>> class_places(torch.tensor([2, 0]), outputs=3)
        ((0, 1, 2), tensor([2, 0]))
    """
    values, places = labels.unique(return_inverse=True)
    if len(values) < 2:
        raise ValueError(f"expected labels of at least two classes, got {len(values)}")
    if outputs is None or outputs == len(values):
        return tuple(values.tolist()), places
    if outputs < len(values) or int(values[0]) < 0 or int(values[-1]) >= outputs:
        raise ValueError(
            f"expected labels from 0 to {outputs - 1}, as the model has {outputs} outputs, got "
            f"{len(values)} from {int(values[0])} to {int(values[-1])}"
        )
    return tuple(range(outputs)), labels
