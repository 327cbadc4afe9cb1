"""Arrays into tensors: which kinds of numbers inputs, targets and groups become."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from isotropy.data._dataset import TaskKind, kind_of

_FEW = 20
_MOST_KEPT_LABELS = 1000


def check_task(task: str | None) -> TaskKind | None:
    """Refuse anything that is not the name of a task."""
    if task is not None and task not in get_args(TaskKind):
        raise ValueError(f"expected task 'regression', 'classification' or None, got {task!r}")
    return task  # type: ignore[return-value]


def input_tensor(values: Any, source: str, what: str = "inputs") -> Tensor:
    """Make inputs of an array: float64 stays, everything else numeric becomes float32."""
    tensor = values.detach() if isinstance(values, Tensor) else _numeric(values, source, what)
    if tensor.is_complex():
        raise ValueError(f"{source}: expected real {what}, got {kind_of(tensor)}")
    if tensor.dtype not in (torch.float32, torch.float64):
        tensor = tensor.to(torch.float32)
    return tensor[:, None] if tensor.ndim == 1 else tensor


def _numeric(values: Any, source: str, what: str) -> Tensor:
    try:
        array = np.asarray(values)
    except ValueError as error:  # rows of unequal length
        raise ValueError(f"{source}: expected {what} of one shape, got {error}") from error
    if array.dtype.kind not in "biufc":
        raise ValueError(
            f"{source}: expected numbers as {what}, got an array of {_array_kind(array)}"
        )
    return _from_numpy(array)


def _array_kind(array: NDArray[Any]) -> str:
    return {"U": "text", "S": "text", "T": "text", "O": "Python objects"}.get(
        array.dtype.kind, str(array.dtype)
    )


def _from_numpy(array: NDArray[Any]) -> Tensor:
    if array.dtype == np.uint64 and array.size and array.max() > np.iinfo(np.int64).max:
        array = array.astype(np.float64)
    elif array.dtype.kind in "ui" and array.dtype != np.uint8:
        array = array.astype(np.int64)  # PyTorch lacks most unsigned kinds
    elif array.dtype.kind == "f" and array.dtype.itemsize > 8:
        array = array.astype(np.float64)
    # A read-only array, or one of foreign byte order, has to be copied.
    native = array.dtype.newbyteorder("=")
    return torch.from_numpy(np.require(array, native, ["C", "W"]))


def target_tensor(
    values: Any, task: TaskKind | None, source: str
) -> tuple[Tensor, tuple[str, ...] | None]:
    """Make targets of an array, by the rule that `load` states.

    Args:
        values: Numbers, shape (n,) or (n, k), or text, shape (n,).
        task: What they are for; ``None`` to tell from the values.
        source: Where they came from, for messages.

    Returns:
        The targets, and the names of the classes (``None`` for regression).

    Raises:
        ValueError: If they are neither numbers nor text, or do not fit the task.
    """
    if isinstance(values, Tensor):
        values = values.detach().cpu()
        array = (values.float() if values.dtype == torch.bfloat16 else values).numpy()
    else:
        array = np.asarray(values)
    if array.dtype.kind == "O" and all(isinstance(value, str) for value in array.flat):
        array = array.astype(str)
    if array.dtype.kind not in "biufUST":
        raise ValueError(
            f"{source}: expected numbers or text as targets, got an array of {_array_kind(array)}"
        )
    if array.ndim == 0 or array.size == 0:
        raise ValueError(f"{source}: expected one target for each row, got shape {array.shape}")
    if task is None:
        _refuse_free_text(array, source)
        task = "classification" if _looks_like_classes(array) else "regression"
    if task == "classification":
        return _class_numbers(array, source)
    if array.dtype.kind in "UST":
        raise ValueError(
            f"{source}: expected numbers as targets of a regression, got {str(array.flat[0])!r}"
        )
    return input_tensor(array, source, "targets"), None


def _looks_like_classes(array: NDArray[Any]) -> bool:
    if array.dtype.kind in "bUST":
        return True
    if array.dtype.kind == "f" or array.size != len(array):
        return False
    return len(np.unique(array)) <= max(2, min(_FEW, len(array) // 2))


def _refuse_free_text(array: NDArray[Any], source: str) -> None:
    """Refuse text that differs from row to row: names, or numbers with a stray cell."""
    if array.dtype.kind not in "UST":
        return
    different = len(np.unique(array))
    if different > max(_FEW, array.size // 2):
        strays = [text for text in map(str, array.flat) if not _is_number(text)]
        raise ValueError(
            f"{source}: expected numbers or a few classes as targets, got text with {different:,} "
            f"different values in {array.size:,} rows, such as {(strays or [''])[0]!r}"
        )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _class_numbers(array: NDArray[Any], source: str) -> tuple[Tensor, tuple[str, ...]]:
    if array.size != len(array):
        raise ValueError(
            f"{source}: expected one target for each row of a classification, "
            f"got shape {array.shape}"
        )
    labels = array.reshape(-1)
    if labels.dtype.kind == "f":
        if not np.array_equal(labels, np.floor(labels)):  # also where one is not finite
            odd = labels[~(labels == np.floor(labels))][0]
            raise ValueError(f"{source}: expected whole numbers or text as classes, got {odd}")
        labels = labels.astype(np.int64)
    elif labels.dtype.kind == "S":
        labels = np.char.decode(labels, "utf-8")
    values, numbers = np.unique(labels, return_inverse=True)
    if labels.dtype.kind in "iu" and values[0] == 0 and values[-1] < _MOST_KEPT_LABELS:
        numbers, values = labels, np.arange(values[-1] + 1)
    return torch.from_numpy(numbers.astype(np.int64)), tuple(str(value) for value in values)


def group_numbers(values: Any, source: str) -> Tensor:
    """Number the distinct values of a column 0, 1, … in sorted order."""
    array = values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)
    if array.dtype.kind == "O" and all(isinstance(value, str) for value in array.flat):
        array = array.astype(str)
    if array.ndim != 1 or array.dtype.kind not in "biufUST":
        raise ValueError(
            f"{source}: expected one number or text for each row as groups, "
            f"got an array of {_array_kind(array)} and shape {array.shape}"
        )
    return torch.from_numpy(np.unique(array, return_inverse=True)[1].astype(np.int64))


def names_of(given: str | Sequence[str] | None, known: Sequence[str]) -> tuple[str, ...]:
    """Read one name, several, or several joined by commas."""
    if given is None:
        return ()
    if isinstance(given, str):
        return (given,) if given in known else tuple(part.strip() for part in given.split(","))
    return tuple(given)
