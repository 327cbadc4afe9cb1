"""Operations that change a tensor in place: which one, what they make, and who else sees it."""

from __future__ import annotations

from inspect import signature
from typing import Any

import torch
from torch import Tensor, nn

from isotropy.equivariance._axes_rules import names

_OPERATORS = names("__iadd__ __isub__ __imul__ __itruediv__ __ipow__ __setitem__")


def changed_in_place(name: str, args: Any, kwargs: dict[str, Any]) -> Tensor | None:
    """The tensor that an operation changes, None where it makes a new one.

    Args:
        name: What was called.
        args: Its arguments.
        kwargs: Its named arguments.
    """
    if not args or not isinstance(args[0], Tensor):
        return None
    if _is_changing_method(name) or name in _OPERATORS or kwargs.get("inplace"):
        return args[0]
    # functions such as relu(x, True) take inplace as a positional argument
    function = getattr(nn.functional, name, None)
    if function is not None and any(value is True for value in args):
        try:
            parameters = list(signature(function).parameters)
        except (TypeError, ValueError):
            return None
        at = parameters.index("inplace") if "inplace" in parameters else len(args)
        if at < len(args) and args[at] is True:
            return args[0]
    return None


def out_of_place(
    func: Any, name: str, args: Any, kwargs: dict[str, Any]
) -> tuple[Any, Any, dict[str, Any], str]:
    """The operation that makes a new tensor instead of changing one.

    Args:
        func: What was called.
        name: Its name.
        args: Its arguments, as they were before.
        kwargs: Its named arguments.

    Returns:
        The operation, its arguments and its name.
    """
    if name == "__setitem__":
        return _with_item_set, args, kwargs, name
    if name in _OPERATORS:
        plain = {"itruediv": "div"}.get(name.strip("_"), name.strip("_")[1:])
        return getattr(Tensor, plain), args, kwargs, plain
    if name == "copy_":
        return _copied, args, kwargs, "copy"
    if _is_changing_method(name):
        plain = name[:-1]
        function = getattr(Tensor, plain, None) or getattr(torch, plain, None)
        if function is None:
            return _on_copy(func), args, kwargs, plain
        return function, args, kwargs, plain
    if kwargs.get("inplace"):
        return func, args, {**kwargs, "inplace": False}, name
    if changed_in_place(name, args, kwargs) is not None:
        at = list(signature(getattr(nn.functional, name)).parameters).index("inplace")
        return func, (*args[:at], False, *args[at + 1 :]), kwargs, name
    return func, args, kwargs, name


def overwritten(other: Tensor, rows: Tensor, changed: Tensor, new: Tensor) -> Tensor | None:
    """The tangents of a tensor after one that shares its memory was changed.

    Args:
        other: The tensor.
        rows: Its tangents before, shape (rows, *other.shape).
        changed: What was changed.
        new: Its tangents, shape (rows, *changed.shape).

    Returns:
        The tangents of ``other``; None where the two do not read their memory the same way.
    """
    flipped = any(tensor.is_conj() or tensor.is_neg() for tensor in (other, changed))
    if other.dtype != changed.dtype or flipped:
        return None
    size = changed.untyped_storage().nbytes() // changed.element_size()
    entries = torch.arange(size, device=rows.device)

    def places(tensor: Tensor) -> Tensor:
        held = entries.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
        return held.reshape(-1)

    memory = rows.new_zeros(len(rows), size)
    memory[:, places(other)] = rows.reshape(len(rows), -1)
    memory[:, places(changed)] = new.reshape(len(rows), -1)
    return memory[:, places(other)].reshape(rows.shape)


def _is_changing_method(name: str) -> bool:
    return name.endswith("_") and not name.endswith("__") and name != "requires_grad_"


def _with_item_set(target: Tensor, index: Any, value: Any) -> Tensor:
    found = target.clone()
    found[index] = value
    return found


def _copied(target: Tensor, source: Tensor, non_blocking: bool = False) -> Tensor:
    del non_blocking  # as Tensor.copy_ has it
    return source.expand_as(target).to(target.device, target.dtype)


def _on_copy(func: Any) -> Any:
    """A method that has no counterpart, on a copy of what it changes."""

    def function(target: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        found: Tensor = func(target.clone(), *args, **kwargs)
        return found

    return function
