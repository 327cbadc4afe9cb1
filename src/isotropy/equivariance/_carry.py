"""Carrying tangents along every operation of a model, as it runs.

Operations are seen where PyTorch's functions are called from Python. They run as they are; beside
each, `push` moves the tangents of its arguments to its results. Values are distinguished by
identity; a change in place is passed on to all values that share its memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map
from torch.utils.weak import WeakTensorKeyDictionary

from isotropy.equivariance._axes_rules import flat_tensors, floating_tensors, names, share_memory
from isotropy.equivariance._evaluation import Model, modules_of
from isotropy.equivariance._in_place import changed_in_place, out_of_place, overwritten
from isotropy.equivariance._tangents import push

LEAVES_PYTORCH = names(
    "item tolist numpy __array__ __float__ __complex__ data_ptr __dlpack__ untyped_storage "
    "tensor asarray grad backward __set__"
)
_ALIKE = names("to type_as expand_as view_as reshape_as")
_NEW = names(
    "zeros_like ones_like empty_like full_like rand_like randn_like new_zeros new_ones new_empty "
    "new_full new_tensor"
)
_IS_RANDOM = names("dropout alpha_dropout feature_dropout dropout1d dropout2d dropout3d")


def called(func: Any) -> tuple[Any, str]:
    """What PyTorch was asked to do, and its name; reading ``data`` is detaching."""
    if getattr(func, "__self__", None) is Tensor.data and func.__name__ == "__get__":
        return Tensor.detach, "detach"
    if isinstance(func, torch._ops.OpOverload):
        return func, str(func)  # of an exported program; its arguments come in another order
    return func, getattr(func, "__name__", str(func)).partition(".")[0]


@dataclass
class Moving:
    """What a value carries.

    Args:
        rows: Its tangents, shape (rows, *value.shape).
        stale: Whether the value was changed in a way that cannot be followed.
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
        keep_graph: Whether gradients, where they are enabled, flow through the tangents.
    """

    def __init__(self, model: Model, x: Tensor, rows: Tensor, *, keep_graph: bool = False) -> None:
        super().__init__()
        self.keep_graph = keep_graph
        self.grads = torch.is_grad_enabled()
        self.values: Any = WeakTensorKeyDictionary()
        self.constants: Any = WeakTensorKeyDictionary()
        self.names_of_constants: dict[int, str] = {}
        self.escaped = False  # whether a value went where it cannot be followed
        self.strangers = False  # whether a value came from where it could not be seen
        self.coarsest = torch.finfo(rows.dtype).eps  # of all types that values had
        self.calls = 0
        for module in modules_of(model):
            named = (*module.named_parameters(), *module.named_buffers())
            self.names_of_constants.update({id(tensor): name for name, tensor in named})
        self.values[x] = self._new(rows)

    def _new(self, rows: Tensor) -> Moving:
        return Moving(rows)

    def where(self) -> str:
        """Where in the model an operation is, for messages."""
        return ""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        self.calls += 1
        func, name = called(func)
        if name == "_set_grad_enabled":
            self.grads = bool(args[0])
        elif self.keep_graph and self.grads and not torch.is_grad_enabled():
            self.escaped = True  # inside a custom function, whose gradients are its own affair
        tensors = flat_tensors((args, kwargs))
        given = [value for value in tensors if value in self.values]
        if not given or _only_alike(name, args, given):
            return self._constant(func, args, kwargs, tensors)
        if kwargs.get("out") is not None:
            raise ValueError(f"expected operations without out=, got {name}{self.where()}")
        if _draws(name, args, kwargs):
            raise ValueError(
                "expected a model that draws no random numbers in evaluation mode, got "
                f"{name}{self.where()}"
            )
        self._look_for_strangers(tensors)
        self.escaped |= name in LEAVES_PYTORCH
        self.escaped |= isinstance(func, torch._ops.OpOverload) and func._schema.is_mutable
        self.escaped |= name.startswith("_foreach") and name.endswith("_")
        changed = changed_in_place(name, args, kwargs)
        swap: dict[int, Tensor] = {}
        before = (args, kwargs) if changed is None else _as_before(changed, (args, kwargs), swap)
        out = func(*args, **kwargs)
        results = floating_tensors(changed if changed is not None else out)
        if results:
            self._check_fresh(given, name)
            pure, pure_args, pure_kwargs, pure_name = out_of_place(func, name, *before)
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
        for tensor in flat_tensors(out):
            if tensor not in self.values:  # counts and comparisons move in jumps, if at all
                self.constants[tensor] = True
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
            is_parameter = tensor.is_leaf and tensor.requires_grad
            is_number = tensor.is_floating_point() or tensor.is_complex()
            if is_number and not known and not is_parameter:
                self.strangers |= id(tensor) not in self.names_of_constants

    def _check_fresh(self, given: list[Tensor], name: str) -> None:
        if any(self.values[value].stale for value in given):
            raise ValueError(
                "expected values that do not change in place after a view of another type was "
                f"taken, got one used by {name}{self.where()}; write the change out of place"
            )

    def _carry(self, call: Call, results: list[Tensor]) -> None:
        most = max(len(self.values[value].rows) for value in call.given)
        moving = {id(value): with_rows(self.values[value].rows, most) for value in call.given}

        def stack(value: Any) -> Tensor | None:
            return moving.get(id(call.original(value)))

        with torch.set_grad_enabled(self.keep_graph and torch.is_grad_enabled()):
            if call.name == "__setitem__":
                stacks = [_set_item(call.args, stack, next(iter(moving.values())))]
            else:
                stacks = push(call.function, call.name, call.args, call.kwargs, stack, results)
        if len(stacks) != len(results):
            raise RuntimeError(
                f"expected {len(results)} tangents from {call.name}, got {len(stacks)}"
                f"{self.where()}"
            )
        for result, rows in zip(results, stacks, strict=True):
            if rows.shape[1:] != result.shape:
                raise RuntimeError(
                    f"expected tangents of shape {tuple(result.shape)} from {call.name}, got "
                    f"{tuple(rows.shape[1:])}{self.where()}"
                )
        stacks = [rows.to(result.dtype) for result, rows in zip(results, stacks, strict=True)]
        self.coarsest = max(self.coarsest, *(torch.finfo(rows.dtype).eps for rows in stacks))
        self._store(call, results, stacks)
        if call.changed is not None:
            self._follow_aliases(call, call.changed)

    def _store(self, _call: Call, results: list[Tensor], stacks: list[Tensor]) -> None:
        for result, rows in zip(results, stacks, strict=True):
            self.values[result] = self._new(rows)

    def _follow_aliases(self, call: Call, changed: Tensor) -> None:
        """Pass a change in place on to the values that share its memory."""
        new = self.values[changed].rows
        for other in (*self.values.keys(), *self.constants.keys()):
            if other is changed or not share_memory(other, changed):
                continue
            if other not in self.values:
                self.values[other] = self._new(new.new_zeros(len(new), *other.shape))
                self.constants.pop(other, None)
            moving = self.values[other]
            count = max(len(new), len(moving.rows))
            rows = with_rows(moving.rows, count)
            found = overwritten(other, rows, changed, with_rows(new, count))
            moving.stale |= found is None
            moving.rows = rows if found is None else found
            self._changed_along(call, moving)

    def _changed_along(self, call: Call, moving: Any) -> None:
        """Called for a value that a change in place of another has changed."""


def with_rows(rows: Tensor, count: int) -> Tensor:
    """A stack of tangents with zeros added up to a number of rows."""
    missing = count - len(rows)
    if missing <= 0:
        return rows
    return torch.cat([rows, rows.new_zeros(missing, *rows.shape[1:])])


def _only_alike(name: str, args: Any, given: list[Tensor]) -> bool:
    """Whether an operation takes no more than type and shape from the values that move."""
    if name in _NEW:
        return len(given) == 1 and given[0] is args[0]
    return name in _ALIKE and all(value is not args[0] for value in given)


def _draws(name: str, args: Any, kwargs: dict[str, Any]) -> bool:
    """Whether an operation leaves out entries at random."""
    if name == "scaled_dot_product_attention":
        return bool(args[4] if len(args) > 4 else kwargs.get("dropout_p"))
    if name.rstrip("_") not in _IS_RANDOM:
        return False
    share = args[1] if len(args) > 1 else kwargs.get("p", 0.5)
    return bool(share and (args[2] if len(args) > 2 else kwargs.get("training", True)))


def _as_before(changed: Tensor, values: Any, swap: dict[int, Tensor]) -> Any:
    """Arguments with copies of those that a change in place changes; ``swap`` leads back."""

    def kept(value: Any) -> Any:
        if not isinstance(value, Tensor) or not share_memory(value, changed):
            return value
        copy = value.clone()
        swap[id(copy)] = value
        return copy

    return tree_map(kept, values)


def _set_item(args: Any, stack: Callable[[Any], Tensor | None], like: Tensor) -> Tensor:
    target, index, value = args
    found = stack(target)
    found = like.new_zeros(len(like), *target.shape) if found is None else found.clone()
    tangent = stack(value) if isinstance(value, Tensor) else None
    for i in range(len(found)):  # an axis in front would change what several indices mean
        row = found[i]
        row[index] = 0 if tangent is None else tangent[i].to(row.dtype)
    return found
