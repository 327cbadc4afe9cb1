"""Carrying tangents along every operation of a model, as it runs.

Operations are seen where PyTorch's functions are called from Python. They run as they are; beside
each, `push` moves the tangents of its arguments to its results. Values are told from one another
by identity, so changes in place are followed too, unless a view of the changed value lives on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from inspect import signature
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils.weak import WeakTensorKeyDictionary

from isotropy.equivariance._axes_rules import flat_tensors, names, share_memory
from isotropy.equivariance._evaluation import Model
from isotropy.equivariance._tangents import push

IN_PLACE = names("__iadd__ __isub__ __imul__ __itruediv__ __setitem__")
_LEAVES_PYTORCH = names("item tolist numpy __array__ __float__ data_ptr")
_STOPS_GRADIENTS = names("detach detach_ _set_grad_enabled")


@dataclass
class Moving:
    """What a value carries.

    Args:
        rows: Its tangents, shape (rows, *value.shape).
        stale: Whether the value was changed behind this tensor's back.
    """

    rows: Tensor
    stale: bool = False


@dataclass(frozen=True)
class Call:
    """An operation that was carried out.

    Args:
        function: What was called, as an operation that makes a new tensor.
        name: What it is called, without version or trailing underscore.
        args: Its arguments as they were before.
        kwargs: Its named arguments.
        given: The arguments that move, as they are now.
        original: From an argument as it was before to the tensor that the model holds.
        changed: The tensor that was changed in place, if one was.
    """

    function: Callable[..., Any]
    name: str
    args: Any
    kwargs: dict[str, Any]
    given: list[Tensor]
    original: Callable[[Any], Any]
    changed: Tensor | None


class Carrier(TorchFunctionMode):
    """Carry tangents from an input to everything that follows from it.

    Args:
        model: The model, whose parameters are known not to move.
        x: The input.
        rows: Its tangents, shape (rows, *x.shape).
    """

    def __init__(self, model: Model, x: Tensor, rows: Tensor) -> None:
        super().__init__()
        self.values: Any = WeakTensorKeyDictionary()
        self.constants: Any = WeakTensorKeyDictionary()
        self.names_of_constants: dict[int, str] = {}
        self.escaped = False  # whether a value may have come from outside PyTorch's functions
        self.stops = False  # whether gradients, as opposed to derivatives, are stopped somewhere
        self.calls = 0
        if isinstance(model, nn.Module):
            named = (*model.named_parameters(), *model.named_buffers())
            self.names_of_constants = {id(tensor): name for name, tensor in named}
        self.values[x] = self._new(rows)

    def _new(self, rows: Tensor) -> Moving:
        return Moving(rows)

    def where(self) -> str:
        """Where in the model an operation is, for messages."""
        return ""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        self.calls += 1
        name = getattr(func, "__name__", str(func)).partition(".")[0]
        tensors = flat_tensors((args, kwargs))
        given = [value for value in tensors if value in self.values]
        self.stops |= name in _STOPS_GRADIENTS
        if not given:
            return self._constant(func, args, kwargs, tensors)
        if kwargs.get("out") is not None:
            raise ValueError(f"expected operations without out=, got {name}{self.where()}")
        self._look_for_strangers(tensors)
        self.escaped |= name in _LEAVES_PYTORCH
        changed = _changed_in_place(name, args, kwargs)
        before = args if changed is None else (changed.detach().clone(), *args[1:])
        out = func(*args, **kwargs)
        results = _floating(changed if changed is not None else out)
        if results:
            self._check_fresh(given, name)
            pure, pure_args, pure_kwargs, pure_name = _out_of_place(func, name, before, kwargs)
            swap = {id(before[0]): changed} if changed is not None else {}
            call = Call(
                pure,
                pure_name,
                pure_args,
                pure_kwargs,
                given,
                lambda value: swap.get(id(value), value),
                changed,
            )
            self._carry(call, results)
        return out

    def _constant(self, func: Any, args: Any, kwargs: Any, tensors: list[Tensor]) -> Any:
        """An operation on values that do not move."""
        self._look_for_strangers(tensors)
        out = func(*args, **kwargs)
        for tensor in flat_tensors(out):
            self.constants[tensor] = True
        return out

    def _look_for_strangers(self, tensors: list[Tensor]) -> None:
        """Notice tensors that no operation made: they may hide a dependence on the input."""
        for tensor in tensors:
            known = tensor in self.values or tensor in self.constants
            if not known and id(tensor) not in self.names_of_constants and tensor.ndim > 0:
                self.escaped = True

    def _check_fresh(self, given: list[Tensor], name: str) -> None:
        if any(self.values[value].stale for value in given):
            raise ValueError(
                "expected values that do not change in place after a view of them was taken, got "
                f"one used by {name}{self.where()}; write the change out of place"
            )

    def _carry(self, call: Call, results: list[Tensor]) -> None:
        most = max(len(self.values[value].rows) for value in call.given)
        moving = {id(value): with_rows(self.values[value].rows, most) for value in call.given}

        def stack(value: Any) -> Tensor | None:
            return moving.get(id(call.original(value)))

        with torch.no_grad():
            if call.name == "__setitem__":
                stacks = [_set_item(call.args, stack, next(iter(moving.values())))]
            else:
                stacks = push(call.function, call.name, call.args, call.kwargs, stack, results)
        if len(stacks) != len(results):
            raise RuntimeError(
                f"expected {len(results)} tangents from {call.name}, got {len(stacks)}"
                f"{self.where()}"
            )
        if call.changed is not None:
            self._make_stale(call.changed)
        self._store(call, results, stacks)

    def _store(self, call: Call, results: list[Tensor], stacks: list[Tensor]) -> None:
        for result, rows in zip(results, stacks, strict=True):
            self.values[result] = self._new(rows)

    def _make_stale(self, changed: Tensor) -> None:
        for other in list(self.values.keys()):
            if other is not changed and share_memory(other, changed):
                self.values[other].stale = True


def with_rows(rows: Tensor, count: int) -> Tensor:
    """A stack of tangents with zeros added up to a number of rows."""
    missing = count - len(rows)
    if missing <= 0:
        return rows
    return torch.cat([rows, rows.new_zeros(missing, *rows.shape[1:])])


def _floating(values: Any) -> list[Tensor]:
    return [v for v in flat_tensors(values) if v.is_floating_point() or v.is_complex()]


# --- changes in place -------------------------------------------------------------------------


def _is_changing_method(name: str) -> bool:
    return name.endswith("_") and not name.endswith("__") and name != "requires_grad_"


def _changed_in_place(name: str, args: Any, kwargs: dict[str, Any]) -> Tensor | None:
    """The tensor that an operation changes, None where it makes a new one."""
    if not args or not isinstance(args[0], Tensor):
        return None
    if _is_changing_method(name) or name in IN_PLACE or kwargs.get("inplace"):
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


def _out_of_place(
    func: Any, name: str, args: Any, kwargs: dict[str, Any]
) -> tuple[Any, Any, dict[str, Any], str]:
    """The operation that makes a new tensor instead of changing one, and its name."""
    if name == "__setitem__":
        return func, args, kwargs, name
    if name in IN_PLACE:
        plain = {"itruediv": "div"}.get(name.strip("_"), name.strip("_")[1:])
        return getattr(Tensor, plain), args, kwargs, plain
    if name == "copy_":
        return Tensor.expand_as, (args[1], args[0]), {}, "expand_as"
    if _is_changing_method(name):
        plain = name[:-1]
        return getattr(Tensor, plain, None) or getattr(torch, plain), args, kwargs, plain
    if kwargs.get("inplace"):
        return func, args, {**kwargs, "inplace": False}, name
    if _changed_in_place(name, args, kwargs) is not None:
        at = list(signature(getattr(nn.functional, name)).parameters).index("inplace")
        return func, (*args[:at], False, *args[at + 1 :]), kwargs, name
    return func, args, kwargs, name


def _set_item(args: Any, stack: Callable[[Any], Tensor | None], like: Tensor) -> Tensor:
    target, index, value = args
    index = index if isinstance(index, tuple) else (index,)
    found = stack(target)
    found = like.new_zeros(len(like), *target.shape) if found is None else found.clone()
    tangent = stack(value) if isinstance(value, Tensor) else None
    found[(slice(None), *index)] = 0 if tangent is None else tangent
    return found
