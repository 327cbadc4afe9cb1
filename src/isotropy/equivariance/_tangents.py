"""Many tangents through one operation at once.

A value z carries a stack of tangents, shape (rows, *z.shape). An operation moves the whole stack in
one call: linear ones apply themselves to it, elementwise ones multiply it by their derivative, all
others are differentiated in forward mode, vectorised over the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_unflatten

from isotropy.equivariance._axes_rules import IDENTITIES, VIEWS, names
from isotropy.equivariance._lie_derivative import plain_attention

_ELEMENTWISE = names(
    "relu relu6 hardtanh gelu silu hardswish hardsigmoid sigmoid tanh exp softplus elu "
    "selu celu leaky_relu mish log sqrt rsqrt abs square neg sin cos erf softsign "
    "tanhshrink threshold clamp logsigmoid reciprocal log1p expm1 clamp_min clamp_max"
)
_LINEAR_ON_BATCH = ("conv1d", "conv2d", "conv3d", "avg_pool", "adaptive_avg_pool")
_LINEAR = names("mean sum roll flip")


def push(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    stacks: Callable[[Any], Tensor | None],
) -> list[Tensor]:
    """The tangents of the results of an operation, from those of its arguments.

    Args:
        function: The operation; it must change nothing in place.
        args: Its arguments, as they were before it.
        kwargs: Its named arguments.
        stacks: The tangents of an argument, all of one number of rows; None for a constant.

    Returns:
        A stack for each tensor among the results.
    """
    name = function.__name__
    leaves, _ = tree_flatten((list(args), kwargs))
    moving = [leaf for leaf in leaves if isinstance(leaf, Tensor) and stacks(leaf) is not None]
    first = args[0] if args else None
    if len(moving) == 1 and moving[0] is first:
        found = _push_one(name, function, args, kwargs, stacks(first))  # type: ignore[arg-type]
        if found is not None:
            return found
    if name in ("add", "__radd__") and not kwargs and len(args) == 2:
        return [_sum(args, stacks)]
    if len(moving) == 1 and name in ("mul", "__rmul__", "matmul", "bmm", "__rmatmul__", "einsum"):
        return _vectorised(function, args, kwargs, stacks)
    if name in ("cat", "concat", "stack") and not kwargs.get("out"):
        return _vectorised(function, args, kwargs, stacks, constants_to_zero=True)
    return _differentiated(function, args, kwargs, stacks)


def _push_one(
    name: str,
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    stack: Tensor,
) -> list[Tensor] | None:
    """Operations with only their first argument moving; None for those that have no short way."""
    if name in IDENTITIES:
        return [function(stack, *args[1:], **kwargs)] if name != "type_as" else [stack]
    if name in VIEWS or name in _LINEAR:
        found = torch.vmap(lambda t: function(t, *args[1:], **kwargs))(stack)
        return [found] if isinstance(found, Tensor) else list(found)
    if name in _ELEMENTWISE and all(not isinstance(value, Tensor) for value in args[1:]):
        value = args[0].detach()
        slope = torch.func.jvp(
            lambda z: function(z, *args[1:], **kwargs), (value,), (torch.ones_like(value),)
        )[1]
        return [stack * slope]
    if name == "linear":
        return [torch.nn.functional.linear(stack, _argument("weight", 1, args, kwargs))]
    if name == "batch_norm" and not kwargs.get("training", args[5] if len(args) > 5 else False):
        return [stack * _batch_norm_slope(args, kwargs)]
    if name.startswith(_LINEAR_ON_BATCH) and args[0].ndim == _dimensions(name) + 2:
        rows, batch = stack.shape[:2]
        rest, named = list(args[1:]), dict(kwargs)
        if name.startswith("conv"):
            named.pop("bias", None)
            if len(rest) > 1:
                rest[1] = None
        out = function(stack.flatten(0, 1), *rest, **named)
        return [out.unflatten(0, (rows, batch))]
    if name == "div" and len(args) == 2 and not kwargs:
        return [torch.vmap(lambda t: function(t, args[1]))(stack)]
    return None


def _dimensions(name: str) -> int:
    return int(name[-2])


def _argument(name: str, at: int, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    return args[at] if len(args) > at else kwargs[name]


def _batch_norm_slope(args: Sequence[Any], kwargs: dict[str, Any]) -> Tensor:
    variance = _argument("running_var", 2, args, kwargs)
    weight = kwargs.get("weight", args[3] if len(args) > 3 else None)
    eps = kwargs.get("eps", args[7] if len(args) > 7 else 1e-5)
    slope: Tensor = (variance + eps).rsqrt()
    if weight is not None:
        slope = slope * weight
    return slope.detach().reshape([-1] + [1] * (args[0].ndim - 2))


def _sum(args: Sequence[Any], stacks: Callable[[Any], Tensor | None]) -> Tensor:
    shapes = [value.shape if isinstance(value, Tensor) else torch.Size() for value in args]
    shape = torch.broadcast_shapes(*shapes)
    total: Tensor | None = None
    for value in args:
        stack = stacks(value) if isinstance(value, Tensor) else None
        if stack is None:
            continue
        missing = len(shape) - value.ndim
        aligned = stack.reshape(stack.shape[0], *[1] * missing, *value.shape)
        aligned = aligned.expand(stack.shape[0], *shape)
        total = aligned if total is None else total + aligned
    assert total is not None
    return total


def _vectorised(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    stacks: Callable[[Any], Tensor | None],
    constants_to_zero: bool = False,
) -> list[Tensor]:
    """A function that is linear in what moves, on all rows."""
    leaves, spec = tree_flatten((list(args), kwargs))
    at = [i for i, leaf in enumerate(leaves) if isinstance(leaf, Tensor) and _has(stacks, leaf)]
    fixed = [
        torch.zeros_like(leaf) if constants_to_zero and isinstance(leaf, Tensor) else leaf
        for leaf in leaves
    ]

    def on_rows(*tangents: Tensor) -> Any:
        for i, tangent in zip(at, tangents, strict=True):
            fixed[i] = tangent
        new_args, new_kwargs = tree_unflatten(fixed, spec)
        return function(*new_args, **new_kwargs)

    found = torch.vmap(on_rows)(*(row for i in at if (row := stacks(leaves[i])) is not None))
    return [found] if isinstance(found, Tensor) else list(found)


def _has(stacks: Callable[[Any], Tensor | None], leaf: Tensor) -> bool:
    return stacks(leaf) is not None


def _differentiated(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    stacks: Callable[[Any], Tensor | None],
) -> list[Tensor]:
    """Any function, in forward mode."""
    leaves, spec = tree_flatten((list(args), kwargs))
    leaves = [leaf.detach() if isinstance(leaf, torch.nn.Parameter) else leaf for leaf in leaves]
    at = [i for i, leaf in enumerate(leaves) if isinstance(leaf, Tensor) and _has(stacks, leaf)]

    def of_moving(*values: Tensor) -> list[Tensor]:
        filled = list(leaves)
        for i, value in zip(at, values, strict=True):
            filled[i] = value
        new_args, new_kwargs = tree_unflatten(filled, spec)
        return _floating(function(*new_args, **new_kwargs))

    primals = tuple(leaves[i].detach() for i in at)
    rows = tuple(stack for i in at if (stack := stacks(leaves[i])) is not None)
    with plain_attention():
        found: list[Tensor] = torch.vmap(
            lambda *tangents: torch.func.jvp(of_moving, primals, tangents)[1]
        )(*rows)
    return found


def _floating(values: Any) -> list[Tensor]:
    if isinstance(values, Tensor):
        values = [values]
    elif isinstance(values, dict):
        values = list(values.values())
    flat = [value for value in values if isinstance(value, Tensor)]
    return [value for value in flat if value.is_floating_point() or value.is_complex()]
