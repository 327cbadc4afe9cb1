"""Contributions of layers from backward passes: exact with all outputs, estimated with probes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from threading import get_ident
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_flatten, tree_unflatten

from isotropy.equivariance._action import Action, place_of_output
from isotropy.equivariance._axes_rules import flat_tensors, share_memory
from isotropy.equivariance._carry import called
from isotropy.equivariance._evaluation import Model, output_of
from isotropy.equivariance._follow import Follower
from isotropy.equivariance._in_place import changed_in_place, out_of_place
from isotropy.equivariance._lie_derivative import forward_mode, not_compiled, plain_attention


@dataclass(frozen=True)
class InReverse:
    """What backward passes showed.

    Args:
        follower: Which knows the units.
        derivative: The Lie derivative of the whole, shape of the outputs.
        squares: ‖C‖² / K of each unit and input; (units, inputs).
        noise: The standard error of these over probes; zero where all outputs were taken.
        products: ⟨C, L⟩ / K likewise.
        closure: How far the contributions are from adding up, along all directions tried.
    """

    follower: Follower
    derivative: Tensor
    squares: Tensor
    noise: Tensor
    products: Tensor
    closure: float


def contributions_in_reverse(
    model: Model,
    x: Tensor,
    action: Action,
    layouts: Mapping[str, str],
    output: str | None,
    probes: int | None,
    rng: torch.Generator,
) -> InReverse:
    """Squared lengths of all contributions, by backward passes.

    Each unit's own Lie derivative D_i, found in one forward pass, is put into a second one as
    z_i + ε_i D_i; the gradient of v·f with respect to ε_i is then v·C_i, for all units at once.

    Args:
        model: The model.
        x: One input, as a batch.
        action: One direction.
        layouts: As for `layerwise`.
        output: As for `layerwise`.
        probes: How many standard normal v to average over; None takes each output in turn.
        rng: Of the probes.

    Raises:
        ValueError: If outputs are complex.
    """
    found: dict[tuple[int, int], tuple[int, Tensor]] = {}
    point = x.clone()  # a model may change its input
    follower = Follower(
        model,
        point,
        action,
        layouts,
        split=False,
        found=lambda number, own, at: found.__setitem__(at, (number, own)),
    )
    with plain_attention():
        with torch.no_grad(), follower.watching():
            y = output_of(model(point))
        if y.is_complex():
            raise ValueError(f'expected real outputs unless method="forward", got {y.dtype}')
        place = place_of_output(follower.place_of(y), tuple(y.shape), action, x, output)
        follower.calls += 1  # what the output itself adds comes after all calls
        follower.outcome(y, place)
        with torch.no_grad():
            moved, _ = forward_mode(model, x, action.tangent(x))
            derivative = moved - action.act(y, place)
        at_end = found.pop((follower.calls, 0), None)
        left_over = follower.left_over(y, place)
        injector = _Injector(model, x, len(follower.units), found)
        point = x.clone()
        with torch.enable_grad(), injector.watching():
            y = output_of(model(point))
    rows = y.reshape(len(x), -1)
    own = None if at_end is None else (at_end[0], at_end[1].reshape(len(x), -1))
    return _gather(follower, injector, rows, derivative, own, left_over, probes, rng)


def _gather(
    follower: Follower,
    injector: _Injector,
    rows: Tensor,
    derivative: Tensor,
    at_end: tuple[int, Tensor] | None,
    left_over: Tensor,
    probes: int | None,
    rng: torch.Generator,
) -> InReverse:
    inputs, outputs = rows.shape
    whole = derivative.reshape(inputs, outputs)
    squares = torch.zeros(len(follower.units), inputs, dtype=torch.float64)
    fourths, products = torch.zeros_like(squares), torch.zeros_like(squares)
    gap = scale = 0.0
    for v in _directions(rows, probes, rng):
        parts = injector.along(rows, v)
        if at_end is not None:
            parts[at_end[0]] += (v * at_end[1]).sum(-1).double().cpu()
        expected = (v * whole).sum(-1).double().cpu()
        rest = (v * left_over.reshape(inputs, outputs)).sum(-1).double().cpu()
        gap += float((parts.sum(0) + rest - expected).square().sum())
        scale += float(expected.square().sum())
        squares += parts.square()
        fourths += parts.square().square()
        products += parts * expected
    count = outputs if probes is None else outputs * probes
    closure = (gap / scale) ** 0.5 if scale else gap**0.5
    noise = torch.zeros_like(squares)
    if probes is not None:
        variance = (fourths / probes - (squares / probes).square()) / (probes - 1)
        noise = variance.clamp(min=0).sqrt() / outputs
    return InReverse(follower, derivative, squares / count, noise, products / count, closure)


def _directions(rows: Tensor, probes: int | None, rng: torch.Generator) -> Iterator[Tensor]:
    if probes is None:
        for i in range(rows.shape[1]):
            v = torch.zeros_like(rows)
            v[:, i] = 1
            yield v
        return
    for _ in range(probes):
        drawn = torch.randn(rows.shape, generator=rng, dtype=torch.float64, device=rng.device)
        yield drawn.to(rows)


class _Injector(TorchFunctionMode):
    """Add ε_i D_i to the values at which a follower found D_i."""

    def __init__(
        self, model: Model, x: Tensor, units: int, found: dict[tuple[int, int], tuple[int, Tensor]]
    ) -> None:
        super().__init__()
        self.model, self.found, self.calls = model, found, 0
        self._thread = get_ident()
        self.results: dict[int, int] = {}
        for call, result in found:
            self.results[call] = max(result, self.results.get(call, 0))
        self.epsilon = torch.zeros(units, dtype=x.dtype, device=x.device, requires_grad=True)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Follow the model as the follower did; nothing stays on the model."""
        handles = []
        try:
            if isinstance(self.model, nn.Module):
                for module in self.model.modules():
                    leaving = module.register_forward_hook(self._leaving, always_call=True)
                    handles.append(leaving)
            with not_compiled(), self:
                yield
        finally:
            for handle in handles:
                handle.remove()

    def _leaving(self, _: nn.Module, args: Any, out: Any) -> Any:
        if get_ident() != self._thread:  # another one may use the model at the same time
            return out
        self.calls += 1
        with torch._C.DisableTorchFunction():
            return self._injected(out, flat_tensors(args))

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls += 1
        func, name = called(func)
        kwargs = kwargs or {}
        if name in ("detach", "detach_"):  # it stops gradients, but not how values depend
            return self._injected(args[0].view_as(args[0]), [])
        if name == "_set_grad_enabled":
            return self._injected(None, [])
        changed = changed_in_place(name, args, kwargs)
        if changed is None or not torch.is_grad_enabled():
            return self._injected(func(*args, **kwargs), [])
        copy = changed.clone()  # backward passes may need it as it was
        before = tuple(copy if value is changed else value for value in args)
        pure, pure_args, pure_kwargs, _ = out_of_place(func, name, before, kwargs)
        new = pure(*pure_args, **pure_kwargs)
        if new.shape != changed.shape or share_memory(new, copy):  # a view in place
            return self._injected(func(*args, **kwargs), [])
        changed.copy_(new)
        self._injected(changed, [changed])
        return None if name == "__setitem__" else changed

    def _injected(self, out: Any, held: list[Tensor]) -> Any:
        """Results with ε D added, in place for tensors that the model holds already."""
        if self.calls not in self.results:
            return out
        leaves, spec = tree_flatten(out)
        at = [i for i, leaf in enumerate(leaves) if _is_floating(leaf)]
        for result, i in enumerate(at):
            event = self.found.get((self.calls, result))
            if event is None:
                continue
            added = self.epsilon[event[0]] * event[1]
            if any(leaves[i] is tensor for tensor in held):
                leaves[i].add_(added)
            else:
                leaves[i] = leaves[i] + added
        return tree_unflatten(leaves, spec)

    def along(self, rows: Tensor, v: Tensor) -> Tensor:
        """v·C for each unit, shape (units, 1)."""
        if not rows.requires_grad:
            return torch.zeros(len(self.epsilon), 1, dtype=torch.float64)
        try:
            (slope,) = torch.autograd.grad(
                rows, self.epsilon, v, retain_graph=True, materialize_grads=True
            )
        except RuntimeError as error:
            raise RuntimeError(
                "expected a model that can be differentiated by backward passes, got one that "
                f'cannot; method="forward" does without them: {error}'
            ) from error
        return slope.double().cpu().unsqueeze(1)


def _is_floating(leaf: Any) -> bool:
    return isinstance(leaf, Tensor) and (leaf.is_floating_point() or leaf.is_complex())
