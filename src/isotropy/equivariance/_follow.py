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
from threading import get_ident
from typing import Any

import torch
from torch import Tensor, nn

from isotropy.equivariance._action import INVARIANT, Action, Place
from isotropy.equivariance._axes import Axes
from isotropy.equivariance._axes_rules import (
    IDENTITIES,
    VIEWS,
    axes_after,
    axes_of_views,
    flat_tensors,
)
from isotropy.equivariance._carry import Call, Carrier, Moving, with_rows
from isotropy.equivariance._evaluation import Model
from isotropy.equivariance._image_actions import ColourAction
from isotropy.equivariance._kinds import kind_of_function, kind_of_module
from isotropy.equivariance._lie_derivative import not_compiled
from isotropy.reps import Rep

_DIGITS = 2 / 3  # values that agree in so many of their digits are equal
_MAKES_PICTURES = ("conv", "avg_pool", "max_pool", "batch_norm", "fft_i")
_PASSES_ON = IDENTITIES | {"pad"}


@dataclass
class _Followed(Moving):
    """What a value carries beside its tangents.

    Args:
        place: How the action acts on it, if that is known.
        charge: The unit to charge for how it moves, where that is still to be done.
    """

    place: Place | None = None
    charge: tuple[str, str] | None = None


class Follower(Carrier):
    """Carry the tangents of an action, and charge each unit for what it adds.

    Args:
        model: The model.
        x: Inputs.
        action: One direction of an action.
        layouts: How the action acts on the outputs of modules, by patterns of their names.
        split: Whether to keep the units' contributions apart. If not, they are only handed to
            ``found``, and each value moves as X z.
        found: Called with each unit's own Lie derivative: the unit's number, the tensor, and the
            number of the call and of the result in which it was found.
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
        self.model, self.action, self.layouts = model, action, layouts
        self.split, self.found = split, found
        self.at_input = action.input_place(x)
        self.units: dict[str, int] = {}
        self.kinds: list[str] = []
        self._result = 0
        self._thread = get_ident()
        self._active: list[tuple[str, nn.Module, bool]] = []
        super().__init__(model, x, action.act(x, self.at_input).unsqueeze(0))
        self.values[x].place = self.at_input

    def _new(self, rows: Tensor) -> Moving:
        return _Followed(rows)

    # --- who is at work -----------------------------------------------------------------------

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Follow the model's modules and operations; nothing stays on the model."""
        handles = []
        try:
            if isinstance(self.model, nn.Module):
                for name, module in self.model.named_modules():
                    _require_python(name, module)
                    entering = self._entering(name, module, _is_unit(name, module))
                    handles.append(module.register_forward_pre_hook(entering))
                    # also where a module raises and the model goes on
                    leaving = module.register_forward_hook(self._leaving, always_call=True)
                    handles.append(leaving)
            with not_compiled(), self:
                yield
        finally:
            for handle in handles:
                handle.remove()
            self._active.clear()

    def _entering(self, name: str, module: nn.Module, is_unit: bool) -> Callable[..., None]:
        def enter(_: nn.Module, __: Any) -> None:
            if get_ident() == self._thread:  # another one may use the model at the same time
                self._active.append((name, module, is_unit))

        return enter

    def _leaving(self, module: nn.Module, __: Any, out: Any) -> None:
        if get_ident() != self._thread:
            return
        name, _, is_unit = self._active.pop()
        self.calls += 1
        with torch._C.DisableTorchFunction():
            for self._result, tensor in enumerate(flat_tensors(out)):
                moving = self.values.get(tensor)
                if moving is None:
                    continue
                is_given = self._override(name, module, tensor, moving)
                if self._in_unit() or not (is_unit or is_given):
                    continue
                if is_given or moving.charge is not None:
                    moving.charge = (name or type(module).__name__, kind_of_module(module))
                self._settle(tensor, moving)

    def _in_unit(self) -> bool:
        return any(is_unit for _, _, is_unit in self._active)

    def where(self) -> str:
        """The module at work."""
        return f" in {self._active[-1][0] or 'the model'}" if self._active else ""

    def _override(self, name: str, module: nn.Module, out: Tensor, moving: _Followed) -> bool:
        """Take the action on a module's output from the caller, or from the module itself."""
        for pattern, layout in self.layouts.items():
            if fnmatchcase(name, pattern):
                moving.place = self.action.named_place(layout, tuple(out.shape), self.at_input)
                return True
        rep = getattr(module, "rep_out", None)
        acts = isinstance(self.at_input, Rep) and isinstance(rep, Rep)
        if acts and rep.size() == out.shape[-1]:  # type: ignore[union-attr]  # it is one
            moving.place = rep
            return True
        return False

    # --- results ------------------------------------------------------------------------------

    def _store(self, call: Call, results: list[Tensor], stacks: list[Tensor]) -> None:
        places = self._places(call, results)
        earlier = next((self.values[v].charge for v in call.given if self.values[v].charge), None)
        found = zip(results, stacks, places, strict=True)
        for self._result, (result, rows, place) in enumerate(found):
            charge = earlier
            if call.name not in _PASSES_ON:
                charge = self._unit(call)
                moves_only = call.name in VIEWS or charge[1] == "other"
                charge = earlier if earlier is not None and moves_only else charge
            self.values[result] = value = _Followed(rows, place=place, charge=charge)
            if not self._in_unit():
                self._settle(result, value)

    def _changed_along(self, call: Call, moving: _Followed) -> None:
        moving.charge = moving.charge or self._unit(call)

    def _unit(self, call: Call) -> tuple[str, str]:
        """The name and kind of an operation that is called as a function."""
        name = call.name.strip("_")
        if name in ("add", "radd", "cat"):
            for value in flat_tensors((call.args, call.kwargs)):
                if id(value) in self.names_of_constants:
                    return self.names_of_constants[id(value)], "embedding"
        path = self._active[-1][0] if self._active else ""
        return (f"{path}.{name}" if path else name), kind_of_function(name)

    def _places(self, call: Call, results: list[Tensor]) -> list[Place | None]:
        """How the action acts on results."""
        if isinstance(self.action, ColourAction):
            return [INVARIANT] * len(results)
        first = call.original(call.args[0]) if call.args else None
        if not isinstance(first, Tensor) or first not in self.values:
            first = None
        if not isinstance(self.at_input, Axes):
            same = first is not None and call.name in _PASSES_ON
            same = same and all(result.shape == first.shape for result in results)  # type: ignore[union-attr]
            return [self.values[first].place if same else None] * len(results)

        def tracked(value: Any) -> bool:
            return isinstance(value, Tensor) and call.original(value) in self.values

        def axes_of(value: Tensor) -> Axes | None:
            place = self.values[call.original(value)].place
            return place if isinstance(place, Axes) else None

        if call.name in VIEWS and first is not None:
            views = axes_of_views(call.function, call.args, call.kwargs, axes_of(first))
            if views is not None and len(views) == len(results):
                return list(views)
        found = axes_after(call.name, call.args, call.kwargs, results[0], tracked, axes_of)
        if found is None and call.name.startswith(_MAKES_PICTURES):
            guess = self.action.guessed_place(tuple(results[0].shape), self.at_input)
            found = guess if isinstance(guess, Axes) else None
        return [found, *[None] * (len(results) - 1)]

    # --- charging -----------------------------------------------------------------------------

    def _settle(self, value: Tensor, moving: _Followed) -> None:
        """Where the action is known on a value, charge the unit that made it move differently."""
        if moving.charge is None or not _is_known(moving.place):
            return
        assert moving.place is not None
        own = self.action.act(value.detach(), moving.place)
        difference = moving.rows[0] - own
        scale = torch.maximum(moving.rows[0].abs().max(), own.abs().max())
        unit, moving.charge = moving.charge, None
        rounding = torch.finfo(own.dtype).eps ** _DIGITS
        if float(difference.abs().max()) <= rounding * float(scale):
            return  # the first row keeps it, so that nothing is lost
        number = self._number(unit)
        if self.found is not None:
            self.found(number, difference, (self.calls, self._result))
        if self.split:
            rows = with_rows(moving.rows, number + 2)
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

        Raises:
            ValueError: If the output does not follow from the input by PyTorch operations.
        """
        moving = self.values.get(y)
        if moving is None:
            raise ValueError(
                "expected an output that follows from the input by PyTorch operations, got one "
                "that does not"
            )
        moving.place = place
        moving.charge = moving.charge or ("output", "other")
        self._settle(y, moving)
        return with_rows(moving.rows, len(self.units) + 1)[1:]

    def left_over(self, y: Tensor, place: Place) -> Tensor:
        """What the first row differs by at the output, which is charged to no unit."""
        rows: Tensor = self.values[y].rows
        return rows[0] - self.action.act(y.detach(), place)

    def place_of(self, y: Tensor) -> Place | None:
        """How the action acts on a value, where the operations before it tell."""
        moving = self.values.get(y)
        return moving.place if moving is not None and _is_known(moving.place) else None


def _require_python(name: str, module: nn.Module) -> None:
    if isinstance(module, torch.jit.ScriptModule):
        raise RuntimeError(
            "expected modules that run in Python, so that they can be followed, got a scripted one"
            f"{' at ' + name if name else ''}; lie_derivative and lee take it as a whole"
        )


def _is_unit(name: str, module: nn.Module) -> bool:
    """Whether a module is charged as a whole: one without parts, or that does not call them."""
    if isinstance(module, nn.MultiheadAttention):
        return True
    if next(module.children(), None) is not None:
        return False
    # a whole model that is written in functions is looked into
    return bool(name) or type(module).__module__.startswith("torch.nn.")


def _is_known(place: Place | None) -> bool:
    if isinstance(place, Axes):
        return place.is_whole or place.is_invariant
    return place is not None
