"""Many tangents through one operation at once.

A value z carries a stack of tangents, shape (rows, *z.shape). An operation moves the whole stack in
one call: linear ones apply themselves to it, elementwise ones multiply it by their derivative,
norms and attention have their own rules, and all others are differentiated in forward mode,
vectorised over the rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_unflatten

from isotropy.equivariance._axes_rules import IDENTITIES, VIEWS, floating_tensors, names
from isotropy.equivariance._tangent_rules import RULES, SEVERAL_MOVE, Operation, Stacks

_LINEAR = names("mean sum roll flip pad")


def push(
    function: Callable[..., Any],
    name: str,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    stacks: Stacks,
    results: Sequence[Tensor],
) -> list[Tensor]:
    """The tangents of the results of an operation, from those of its arguments.

    Args:
        function: The operation; it must change nothing in place.
        name: What it is called.
        args: Its arguments, as they were before it.
        kwargs: Its named arguments.
        stacks: The tangents of an argument, all of one number of rows; None for a constant.
        results: What it gave.

    Returns:
        A stack for each of the results.
    """
    leaves, _ = tree_flatten((list(args), kwargs))
    moving = [leaf for leaf in leaves if isinstance(leaf, Tensor) and stacks(leaf) is not None]
    only_first = len(moving) == 1 and bool(args) and moving[0] is args[0]
    if only_first and (name in IDENTITIES or name in VIEWS or name in _LINEAR):
        return _on_rows(name, Operation(function, args, kwargs, stacks, results[0]))
    rule = RULES.get(name)
    if rule is not None and (only_first or name in SEVERAL_MOVE):
        found = rule(Operation(function, args, kwargs, stacks, results[0]))
        if found is not None:
            return [found]
    return _differentiated(function, args, kwargs, stacks)


def _on_rows(name: str, op: Operation) -> list[Tensor]:
    """Operations that are linear, or only move entries."""
    stack = op.stack(op.args[0])
    assert stack is not None
    if name in IDENTITIES:
        stack = stack.detach() if name == "detach" else stack
        return [stack.to(op.out.device, op.out.dtype)]
    function, rest, kwargs = op.function, op.args[1:], op.kwargs
    if name == "pad":  # with zeros, whatever the value
        rest, kwargs = op.args[1:3], {key: kwargs[key] for key in kwargs if key != "value"}
    if name in ("view", "view_as") and op.out.dtype == op.args[0].dtype:
        # tangents may lie in memory in another way
        function, rest, kwargs = torch.reshape, (op.out.shape,), {}

    def of_row(row: Tensor) -> list[Tensor]:
        return floating_tensors(function(row, *rest, **kwargs))

    return _over_rows(of_row, (stack,))


def _over_rows(function: Callable[..., list[Tensor]], stacks: tuple[Tensor, ...]) -> list[Tensor]:
    """A function of one row of each stack, for all rows."""
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "There is a performance drop")
            return list(torch.vmap(function)(*stacks))
    except RuntimeError as error:
        if "vmap" not in str(error) and "atching rule" not in str(error):
            raise
    found = [function(*rows) for rows in zip(*stacks, strict=True)]
    return [torch.stack(rows) for rows in zip(*found, strict=True)]


# --- everything else --------------------------------------------------------------------------


def _differentiated(
    function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], stacks: Stacks
) -> list[Tensor]:
    """Any function, in forward mode."""
    from isotropy.equivariance._lie_derivative import lacks_forward_rule, plain_attention

    leaves, spec = tree_flatten((list(args), kwargs))
    tensors = [(i, leaf) for i, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]
    moving = {i: stack for i, leaf in tensors if (stack := stacks(leaf)) is not None}
    primals, rows = tuple(leaves[i] for i in moving), tuple(moving.values())

    def of_moving(*values: Tensor) -> list[Tensor]:
        filled = list(leaves)
        for i, value in zip(moving, values, strict=True):
            filled[i] = value
        new_args, new_kwargs = tree_unflatten(filled, spec)
        return floating_tensors(function(*new_args, **new_kwargs))

    def one_row(*tangents: Tensor) -> list[Tensor]:
        moved: list[Tensor] = torch.func.jvp(of_moving, primals, tangents)[1]
        return moved

    with plain_attention():
        try:
            if len(rows[0]) == 1:
                return [row.unsqueeze(0) for row in one_row(*(row[0] for row in rows))]
            found = _over_rows(one_row, rows)
        except (NotImplementedError, RuntimeError) as error:
            if not lacks_forward_rule(error):
                raise
            try:
                return _in_reverse(of_moving, primals, rows)
            except (NotImplementedError, RuntimeError) as other:
                name = getattr(function, "__name__", str(function))
                raise RuntimeError(
                    "expected operations that can be differentiated, forwards or twice in reverse, "
                    f"got {name}: {other}"
                ) from other
    return found


def _in_reverse(
    function: Callable[..., list[Tensor]], primals: Sequence[Tensor], rows: Sequence[Tensor]
) -> list[Tensor]:
    """The same for a function without a forward rule: reverse mode twice, row by row."""
    from isotropy.equivariance._lie_derivative import twice_differentiable

    wants_graph = torch.is_grad_enabled()
    with torch.enable_grad(), twice_differentiable():
        points = [primal.clone().requires_grad_() for primal in primals]
        values = function(*points)
        dummies = [torch.zeros_like(value, requires_grad=True) for value in values]
        pulled = torch.autograd.grad(
            values, points, dummies, create_graph=True, materialize_grads=True
        )
        found: list[list[Tensor]] = [[] for _ in values]
        for row in zip(*rows, strict=True):
            moved = torch.autograd.grad(
                pulled,
                dummies,
                row,
                retain_graph=True,
                create_graph=wants_graph,
                materialize_grads=True,
            )
            for stack, tangent in zip(found, moved, strict=True):
                stack.append(tangent if wants_graph else tangent.detach())
    return [torch.stack(stack) for stack in found]
