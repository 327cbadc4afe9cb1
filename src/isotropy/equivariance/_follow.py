"""Following an action through a network: which operation adds how much to the Lie derivative.

Every value z of the network carries the tangent it has when the input moves, split as

    dz = X z + Σ_i D_i,

where X z is how z would move if everything so far were equivariant and D_i is what unit i has
added. An operation moves all of these at once. After it the first row should be X z of the new
value; the difference is the unit's own Lie derivative and goes to its row. At the output the rows
are the contributions C_i = df·L f_i of the chain rule (thesis, Eq. 4.6), and they add up to
L f, with nothing left out: an operation whose result has no known action only passes its tangents
on, and the next one that has is charged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils.weak import WeakTensorKeyDictionary

from isotropy.equivariance._action import INVARIANT, Action, Place
from isotropy.equivariance._axes import Axes
from isotropy.equivariance._axes_rules import (
    IDENTITIES,
    VIEWS,
    axes_after,
    axes_of_views,
    flat_tensors,
    names,
    share_memory,
)
from isotropy.equivariance._colour_actions import ColourAction
from isotropy.equivariance._evaluation import Model
from isotropy.equivariance._kinds import kind_of_function, kind_of_module
from isotropy.equivariance._tangents import push
from isotropy.reps import Rep

_ROUNDING = 256  # a difference of so many units of rounding is none
_PASSES_ON = VIEWS | IDENTITIES | {"pad"}
_IN_PLACE = names("__iadd__ __isub__ __imul__ __itruediv__ __setitem__")


@dataclass
class _Moving:
    """What a value carries: its tangents, how the action acts on it, and who moved it last."""

    rows: Tensor
    place: Place | None
    charge: tuple[str, str] | None = None  # the unit to charge, where a difference is not yet
    stale: bool = False


class Follower(TorchFunctionMode):
    """Carry tangents along every operation of a model.

    Args:
        model: The model.
        x: Inputs.
        action: One direction of an action.
        layouts: How the action acts on the outputs of modules, by patterns of their names.
        split: Whether to keep the units' contributions apart. If not, they are only handed to
            ``found``, and each value moves as X z.
        found: Told of each unit's own Lie derivative: the unit's number, the tensor, and at which
            call and in which of its results it was found.
    """

    def __init__(
        self,
        model: Model,
        x: Tensor,
        action: Action,
        layouts: Mapping[str, str],
        *,
        split: bool = True,
        found: Callable[[int, Tensor, tuple[int, int]], None] | None = None,
    ) -> None:
        super().__init__()
        self.model, self.action, self.layouts = model, action, layouts
        self.split, self.found = split, found
        self.at_input = action.input_place(x)
        self.units: dict[str, int] = {}
        self.kinds: list[str] = []
        self.calls = 0
        self._result = 0
        self._values: Any = WeakTensorKeyDictionary()
        self._active: list[tuple[str, nn.Module, bool]] = []
        self._constants: dict[int, str] = {}
        if isinstance(model, nn.Module):
            named = (*model.named_parameters(), *model.named_buffers())
            self._constants = {id(tensor): name for name, tensor in named}
        self._begin(x)

    def _begin(self, x: Tensor) -> None:
        self._values[x] = _Moving(self.action.act(x, self.at_input).unsqueeze(0), self.at_input)

    # --- who is at work -----------------------------------------------------------------------

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Follow the model's modules and operations; nothing stays on the model."""
        handles = []
        try:
            if isinstance(self.model, nn.Module):
                for name, module in self.model.named_modules():
                    is_unit = _is_unit(module)
                    handles.append(
                        module.register_forward_pre_hook(self._entering(name, module, is_unit))
                    )
                    handles.append(module.register_forward_hook(self._leaving, always_call=False))
            with self:
                yield
        finally:
            for handle in handles:
                handle.remove()
            self._active.clear()

    def _entering(self, name: str, module: nn.Module, is_unit: bool) -> Callable[..., None]:
        def enter(_: nn.Module, __: Any) -> None:
            self._active.append((name, module, is_unit))

        return enter

    def _leaving(self, _: nn.Module, __: Any, out: Any) -> None:
        name, module, is_unit = self._active.pop()
        inside = any(unit for _, _, unit in self._active)
        self.calls += 1
        with torch._C.DisableTorchFunction():
            for self._result, tensor in enumerate(flat_tensors(out)):
                moving = self._values.get(tensor)
                if moving is None:
                    continue
                self._override(name, module, tensor, moving)
                if is_unit and not inside:
                    unit = (name or type(module).__name__, kind_of_module(module))
                    if moving.charge is not None:
                        moving.charge = unit
                    self._settle(tensor, moving)

    def _override(self, name: str, module: nn.Module, out: Tensor, moving: _Moving) -> None:
        for pattern, layout in self.layouts.items():
            if fnmatchcase(name, pattern):
                shape = tuple(out.shape)
                moving.place = self.action.named_place(layout, shape, self.at_input)
                return
        rep = getattr(module, "rep_out", None)
        if not (isinstance(self.at_input, Rep) and isinstance(rep, Rep)):
            return
        if rep.size() == out.shape[-1]:
            moving.place = rep

    # --- operations ---------------------------------------------------------------------------

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        self.calls += 1
        given = [value for value in flat_tensors((args, kwargs)) if value in self._values]
        if not given:
            return func(*args, **kwargs)
        name = getattr(func, "__name__", str(func))
        if kwargs.get("out") is not None:
            raise ValueError(f"expected operations without out=, got {name}{self._where()}")
        changed = _changed_in_place(name, args, kwargs)
        if changed is None:
            out = func(*args, **kwargs)
            before = args
        else:
            before = (changed.detach().clone(), *args[1:])
            out = func(*args, **kwargs)
        results = flat_tensors(changed if changed is not None else out)
        results = [r for r in results if r.is_floating_point() or r.is_complex()]
        if results:
            self._check_fresh(given, name)
            self._carry(func, name, args, before, kwargs, changed, results)
        return out

    def _check_fresh(self, given: list[Tensor], name: str) -> None:
        if any(self._values[value].stale for value in given):
            raise ValueError(
                "expected values that do not change in place after a view of them was taken, got "
                f"one used by {name}{self._where()}; write the change out of place"
            )

    def _where(self) -> str:
        return f" in {self._active[-1][0] or 'the model'}" if self._active else ""

    def _carry(
        self,
        func: Any,
        name: str,
        args: Any,
        before: Any,
        kwargs: dict[str, Any],
        changed: Tensor | None,
        results: list[Tensor],
    ) -> None:
        given = [value for value in flat_tensors((args, kwargs)) if value in self._values]
        most = max(len(self._values[value].rows) for value in given)
        moving = {id(value): _with_rows(self._values[value].rows, most) for value in given}
        if changed is not None and changed in self._values:
            moving[id(before[0])] = moving[id(changed)]
        pure, pure_args, pure_kwargs = _out_of_place(func, name, before, kwargs)
        with torch.no_grad():
            if name == "__setitem__":
                stacks = [_set_item(pure_args, moving)]
            else:
                stacks = push(pure, pure_args, pure_kwargs, lambda value: moving.get(id(value)))
        if len(stacks) != len(results):
            raise RuntimeError(
                f"expected {len(results)} tangents from {name}, got {len(stacks)}{self._where()}"
            )
        places = self._places(pure, name, pure_args, pure_kwargs, args, results)
        earlier = next((self._values[v].charge for v in given if self._values[v].charge), None)
        if changed is not None:
            self._make_stale(changed)
        found = zip(results, stacks, places, strict=True)
        for self._result, (result, rows, place) in enumerate(found):
            charge = earlier
            if name not in _PASSES_ON:
                charge = self._unit(name, args, kwargs)
            if charge is not None and earlier is not None and charge[1] == "other":
                charge = earlier
            self._values[result] = value = _Moving(rows.contiguous(), place, charge)
            if not any(unit for _, _, unit in self._active):
                self._settle(result, value)

    def _make_stale(self, changed: Tensor) -> None:
        for other in list(self._values.keys()):
            if other is not changed and share_memory(other, changed):
                self._values[other].stale = True

    def _unit(self, name: str, args: Any, kwargs: Any) -> tuple[str, str]:
        """The name and kind of an operation that is called as a function."""
        plain = name.strip("_").removeprefix("i") if name in _IN_PLACE else name.strip("_")
        path = self._active[-1][0] if self._active else ""
        kind = kind_of_function(plain)
        if plain in ("add", "radd", "cat"):
            for value in flat_tensors((args, kwargs)):
                if id(value) in self._constants:
                    return self._constants[id(value)], "embedding"
        return (f"{path}.{plain}" if path else plain), kind

    # --- how the action acts on results -------------------------------------------------------

    def _places(
        self,
        func: Any,
        name: str,
        args: Any,
        kwargs: dict[str, Any],
        originals: Any,
        results: list[Tensor],
    ) -> list[Place | None]:
        if isinstance(self.action, ColourAction):
            return [INVARIANT] * len(results)
        if not isinstance(self.at_input, Axes):
            same = name in _PASSES_ON and all(r.shape == originals[0].shape for r in results)
            place = self._values[originals[0]].place if same else None
            return [place] * len(results)
        swap = dict(zip(map(id, args), originals, strict=True)) if args else {}

        def original(value: Any) -> Any:
            return swap.get(id(value), value)

        def tracked(value: Any) -> bool:
            return isinstance(value, Tensor) and original(value) in self._values

        def axes_of(value: Tensor) -> Axes | None:
            place = self._values[original(value)].place
            return place if isinstance(place, Axes) else None

        first = originals[0] if originals and isinstance(originals[0], Tensor) else None
        if name in VIEWS and first is not None and first in self._values:
            views = axes_of_views(func, args, kwargs, axes_of(first))
            if views is not None and len(views) == len(results):
                return list(views)
        found = axes_after(func, args, kwargs, results[0], tracked, axes_of)
        if found is None and name.startswith(("conv", "avg_pool", "max_pool", "batch_norm")):
            guess = self.action.guessed_place(tuple(results[0].shape), self.at_input)
            found = guess if isinstance(guess, Axes) else None
        return [found, *[None] * (len(results) - 1)]

    # --- charging -----------------------------------------------------------------------------

    def _settle(self, value: Tensor, moving: _Moving) -> None:
        """Where the action is known on a value, charge the unit that made it move differently."""
        if moving.charge is None or not _is_known(moving.place):
            return
        assert moving.place is not None
        own = self.action.act(value.detach(), moving.place)
        difference = moving.rows[0] - own
        scale = torch.maximum(moving.rows[0].abs().max(), own.abs().max())
        unit, moving.charge = moving.charge, None
        if float(difference.abs().max()) <= _ROUNDING * torch.finfo(own.dtype).eps * float(scale):
            return  # the first row keeps it, so that nothing is lost
        number = self._number(unit)
        if self.found is not None:
            self.found(number, difference, (self.calls, self._result))
        if self.split:
            rows = _with_rows(moving.rows, number + 2)
            rows = rows.clone() if rows is moving.rows else rows
            rows[0] = own
            rows[number + 1] += difference
            moving.rows = rows
        else:
            moving.rows = own.unsqueeze(0)

    def _number(self, unit: tuple[str, str]) -> int:
        name, kind = unit
        if name not in self.units:
            self.units[name] = len(self.units)
            self.kinds.append(kind)
        return self.units[name]

    def outcome(self, y: Tensor, place: Place) -> Tensor:
        """The contributions of all units at the output, shape (units, *y.shape).

        Args:
            y: What the model gave.
            place: How the action acts on it.
        """
        moving = self._values.get(y)
        if moving is None:
            raise ValueError(
                "expected an output that follows from the input by PyTorch operations, got one "
                "that does not"
            )
        moving.place = place
        moving.charge = moving.charge or ("output", "other")
        self._settle(y, moving)
        return _with_rows(moving.rows, len(self.units) + 1)[1:]

    def left_over(self, y: Tensor, place: Place) -> Tensor:
        """What the first row differs by at the output, which is charged to no unit."""
        rows: Tensor = self._values[y].rows
        return rows[0] - self.action.act(y.detach(), place)

    def place_of(self, y: Tensor) -> Place | None:
        """How the action acts on a value, where the operations before it tell."""
        moving = self._values.get(y)
        return moving.place if moving is not None and _is_known(moving.place) else None


def _is_unit(module: nn.Module) -> bool:
    """Whether a module is charged as a whole: one without parts, or that does not call them."""
    return isinstance(module, nn.MultiheadAttention) or next(module.children(), None) is None


def _is_known(place: Place | None) -> bool:
    if isinstance(place, Axes):
        return place.is_whole or place.is_invariant
    return place is not None


def _with_rows(rows: Tensor, count: int) -> Tensor:
    missing = count - len(rows)
    if missing <= 0:
        return rows
    return torch.cat([rows, rows.new_zeros(missing, *rows.shape[1:])])


def _changed_in_place(name: str, args: Any, kwargs: dict[str, Any]) -> Tensor | None:
    """The tensor that an operation changes, None where it makes a new one."""
    if not args or not isinstance(args[0], Tensor):
        return None
    is_method = name.endswith("_") and not name.endswith("__") and name != "requires_grad_"
    if is_method or name in _IN_PLACE or kwargs.get("inplace"):
        return args[0]
    # functions such as relu(x, True) take inplace as their last positional argument
    function = getattr(nn.functional, name, None)
    if len(args) > 1 and args[-1] is True and function is not None:
        from inspect import signature

        try:
            names = list(signature(function).parameters)
        except (TypeError, ValueError):
            return None
        if len(names) >= len(args) and names[len(args) - 1] == "inplace":
            return args[0]
    return None


def _out_of_place(
    func: Any, name: str, args: Any, kwargs: dict[str, Any]
) -> tuple[Any, Any, dict[str, Any]]:
    """The operation that makes a new tensor instead of changing one."""
    if name in _IN_PLACE and name != "__setitem__":
        return getattr(Tensor, name.strip("_")[1:]), args, kwargs
    if name.endswith("_") and not name.endswith("__") and name != "requires_grad_":
        if name == "copy_":
            return Tensor.expand_as, (args[1], args[0]), {}
        return getattr(Tensor, name[:-1]), args, kwargs
    if kwargs.get("inplace"):
        return func, args, {**kwargs, "inplace": False}
    if args and args[-1] is True and _changed_in_place(name, args, kwargs) is not None:
        return func, (*args[:-1], False), kwargs
    return func, args, kwargs


def _set_item(args: Any, moving: dict[int, Tensor]) -> Tensor:
    target, index, value = args
    index = index if isinstance(index, tuple) else (index,)
    rows = next(iter(moving.values()))
    found = moving.get(id(target))
    found = rows.new_zeros(len(rows), *target.shape) if found is None else found.clone()
    tangent = moving.get(id(value)) if isinstance(value, Tensor) else None
    found[(slice(None), *index)] = 0 if tangent is None else tangent
    return found
