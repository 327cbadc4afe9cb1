"""Many tangents through one operation at once.

A value z carries a stack of tangents, shape (rows, *z.shape). An operation moves the whole stack in
one call: linear ones apply themselves to it, elementwise ones multiply it by their derivative,
norms and attention have their own rules, and all others are differentiated in forward mode,
vectorised over the rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_unflatten

from isotropy.equivariance._axes_rules import IDENTITIES, VIEWS, flat_tensors, names

Stacks: TypeAlias = Callable[[Any], Tensor | None]
Rule: TypeAlias = Callable[
    [Callable[..., Any], Sequence[Any], dict[str, Any], Stacks, Tensor], Tensor | None
]

_ELEMENTWISE = names(
    "relu relu6 hardtanh gelu silu hardswish hardsigmoid sigmoid tanh exp softplus elu selu celu "
    "leaky_relu mish log sqrt rsqrt abs square neg sin cos erf softsign tanhshrink threshold clamp "
    "logsigmoid reciprocal log1p expm1 clamp_min clamp_max"
)
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
        return _on_rows(function, name, args, kwargs, stacks, results)
    rule = _RULES.get(name)
    if rule is not None and (only_first or name in _SEVERAL_MOVE):
        found = rule(function, args, kwargs, stacks, results[0])
        if found is not None:
            return [found]
    return _differentiated(function, args, kwargs, stacks)


def _on_rows(
    function: Callable[..., Any],
    name: str,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    stacks: Stacks,
    results: Sequence[Tensor],
) -> list[Tensor]:
    """Operations that are linear, or only move entries."""
    stack = stacks(args[0])
    assert stack is not None
    if name in IDENTITIES:
        return [stack.to(results[0].device, results[0].dtype)]
    rest = args[1:]
    if name == "pad":  # with zeros, whatever the value
        rest, kwargs = args[1:3], {key: kwargs[key] for key in kwargs if key != "value"}
    if name in ("view", "view_as") and results[0].dtype == args[0].dtype:
        function = torch.reshape  # tangents may lie in memory in another way
        rest, kwargs = (results[0].shape,), {}

    def of_row(row: Tensor) -> list[Tensor]:
        return _floating(function(row, *rest, **kwargs))

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


# --- rules ------------------------------------------------------------------------------------


def _elementwise(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    stacks: Stacks,
    out: Tensor,
) -> Tensor | None:
    stack = stacks(args[0])
    if stack is None or any(isinstance(value, Tensor) for value in (*args[1:], *kwargs.values())):
        return None
    if stack.is_complex():
        return None  # abs, for one, has no complex slope
    value = args[0]
    slope: Tensor = torch.func.jvp(
        lambda z: function(z, *args[1:], **kwargs), (value,), (torch.ones_like(value),)
    )[1]
    return stack * slope


def _known_slope(
    slope: Callable[[Tensor, Tensor, dict[str, Any]], Tensor],
    fused: Callable[[Tensor, Tensor], Tensor] | None = None,
) -> Rule:
    """The rule of an elementwise function whose slope follows from its argument and result.

    Args:
        slope: From argument, result and options to the slope.
        fused: A tangent times the slope in one step, from tangent and result: for a single row.
    """

    def rule(
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: dict[str, Any],
        stacks: Stacks,
        out: Tensor,
    ) -> Tensor | None:
        stack = stacks(args[0])
        if stack is None or any(value not in (False, None) for value in args[1:]):
            return None
        if fused is not None and len(stack) == 1 and stack.dtype == out.dtype:
            return fused(stack, out.unsqueeze(0))
        return stack * slope(args[0], out, kwargs)

    return rule


def _gelu_slope(z: Tensor, out: Tensor, kwargs: dict[str, Any]) -> Tensor:
    approximate = kwargs.get("approximate", "none")
    slope: Tensor = torch.ops.aten.gelu_backward(torch.ones_like(z), z, approximate=approximate)
    return slope


def _linear(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    stacks: Stacks,
    out: Tensor,
) -> Tensor | None:
    stack, weight = stacks(args[0]), _argument("weight", 1, args, kwargs)
    return None if stack is None else torch.nn.functional.linear(stack, weight)


def _on_batch(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    stacks: Stacks,
    out: Tensor,
) -> Tensor | None:
    """Convolutions without their bias, and averages: rows are more inputs."""
    stack = stacks(args[0])
    weight = _option("weight", 1, args, kwargs, None)
    axes = weight.ndim if isinstance(weight, Tensor) else 4
    if stack is None or args[0].ndim != axes:
        return None  # a single input without its batch axis
    rest, named = list(args[1:]), dict(kwargs)
    if len(rest) > 1 and (rest[1] is None or isinstance(rest[1], Tensor)):
        rest[1] = None
    if isinstance(named.get("bias"), Tensor):
        named["bias"] = None
    found: Tensor = function(stack.flatten(0, 1), *rest, **named)
    unfolded: Tensor = found.unflatten(0, stack.shape[:2])
    return unfolded


def _batch_norm(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    stacks: Stacks,
    out: Tensor,
) -> Tensor | None:
    stack = stacks(args[0])
    variance = _argument("running_var", 2, args, kwargs)
    if stack is None or variance is None or _option("training", 5, args, kwargs, False):
        return None
    weight = _option("weight", 3, args, kwargs, None)
    slope: Tensor = (variance + _option("eps", 7, args, kwargs, 1e-5)).rsqrt()
    slope = slope if weight is None else slope * weight
    moved: Tensor = stack * slope.reshape([-1] + [1] * (args[0].ndim - 2))
    return moved


def _layer_norm(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    stacks: Stacks,
    out: Tensor,
) -> Tensor | None:
    stack = stacks(args[0])
    if stack is None:
        return None
    count = len(_argument("normalized_shape", 1, args, kwargs))
    weight = _option("weight", 2, args, kwargs, None)
    moved = _normalised(args[0], stack, count, _option("eps", 4, args, kwargs, 1e-5))
    return moved if weight is None else moved * weight


def _instance_norm(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    stacks: Stacks,
    out: Tensor,
) -> Tensor | None:
    stack = stacks(args[0])
    if stack is None or not _option("use_input_stats", 5, args, kwargs, True):
        return None
    weight = _option("weight", 3, args, kwargs, None)
    count = args[0].ndim - 2
    moved = _normalised(args[0], stack, count, _option("eps", 7, args, kwargs, 1e-5))
    return moved if weight is None else moved * weight.reshape([-1] + [1] * count)


def _normalised(z: Tensor, stack: Tensor, count: int, eps: float) -> Tensor:
    """With n(z) = (z − mean)/s over the last axes: dn = (dz − mean dz − n · mean(n dz))/s.

    PyTorch's own rules for these take mean and s for constants when gradients flow through them.
    """
    dims = tuple(range(-count, 0))
    if torch.is_grad_enabled():
        variance, mean = torch.var_mean(z, dims, correction=0, keepdim=True)
        scale = (variance + eps).rsqrt()
        normal = (z - mean) * scale
    else:
        shape = list(z.shape[-count:])
        normal, _, scale = torch.native_layer_norm(z, shape, None, None, eps)
    centred = stack - stack.mean(dims, keepdim=True)
    moved: Tensor = (centred - normal * (stack * normal).mean(dims, keepdim=True)) * scale
    return moved


def _softmax(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    stacks: Stacks,
    out: Tensor,
) -> Tensor | None:
    stack = stacks(args[0])
    dim = _option("dim", 1, args, kwargs, None)
    if stack is None or not isinstance(dim, int) or out.dtype != args[0].dtype:
        return None
    at = dim % out.ndim - out.ndim
    weighted = stack * out
    return weighted - out * weighted.sum(at, keepdim=True)


def _attention(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    stacks: Stacks,
    out: Tensor,
) -> Tensor | None:
    """With A = softmax(s q kᵀ): d(Av) = dA v + A dv, dA = A ∘ (dS − Σ A ∘ dS)."""
    plain = all(kwargs.get(key) in (None, False) for key in ("is_causal", "enable_gqa"))
    mask = kwargs.get("attn_mask")
    if len(args) != 3 or not plain or (mask is not None and stacks(mask) is not None):
        return None
    query, key, value = args
    dq, dk, dv = (stacks(given) for given in args)
    if dq is None or dk is None or dv is None or query.shape[:-2] != key.shape[:-2]:
        return None
    scale = kwargs.get("scale") or query.shape[-1] ** -0.5
    logits = query @ key.mT * scale
    if mask is not None:
        is_kept = mask.dtype == torch.bool
        logits = logits.masked_fill(~mask, -torch.inf) if is_kept else logits + mask
    weights = torch.softmax(logits, -1)
    if mask is not None:
        weights = weights.nan_to_num()  # nothing is attended to where all is masked
    scores = (dq @ key.mT + query @ dk.mT) * (weights * scale)
    moved: Tensor = scores @ value - scores.sum(-1, keepdim=True) * out + weights @ dv
    return moved


def _max_pool(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    stacks: Stacks,
    out: Tensor,
) -> Tensor | None:
    stack = stacks(args[0])
    if stack is None or args[0].ndim != 4 or kwargs.get("return_indices"):
        return None
    named = {key: value for key, value in kwargs.items() if key != "return_indices"}
    _, index = torch.nn.functional.max_pool2d(args[0], *args[1:], **named, return_indices=True)
    taken = index.flatten(-2).expand(len(stack), *index.shape[:2], -1)
    return stack.flatten(-2).gather(-1, taken).reshape(len(stack), *index.shape)


def _sum(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    stacks: Stacks,
    out: Tensor,
) -> Tensor | None:
    if kwargs or len(args) != 2:
        return None
    total: Tensor | None = None
    for value in args:
        stack = _aligned(value, stacks, out)
        if stack is not None:
            total = stack if total is None else total + stack
    return None if total is None else total.expand(len(total), *out.shape)


def _product(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    stacks: Stacks,
    out: Tensor,
) -> Tensor | None:
    if kwargs or len(args) != 2:
        return None
    total: Tensor | None = None
    for value, other in (args, args[::-1]):
        stack = _aligned(value, stacks, out)
        if stack is not None:
            part: Tensor = stack * other
            total = part if total is None else total + part
    return None if total is None else total.expand(len(total), *out.shape)


def _aligned(value: Any, stacks: Stacks, out: Tensor) -> Tensor | None:
    """A stack whose rows broadcast with a result of more axes."""
    stack = stacks(value) if isinstance(value, Tensor) else None
    if stack is None or value.ndim == out.ndim:
        return stack
    return stack.reshape(len(stack), *[1] * (out.ndim - value.ndim), *value.shape)


def _matmul(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    stacks: Stacks,
    out: Tensor,
) -> Tensor | None:
    if len(args) != 2 or kwargs or any(value.ndim < 2 for value in args):
        return None
    left, right = (_aligned(value, stacks, out) for value in args)
    total: Tensor | None = None
    if left is not None:
        total = left @ args[1]
    if right is not None:
        part = args[0] @ right
        total = part if total is None else total + part
    return total


def _joined(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    stacks: Stacks,
    out: Tensor,
) -> Tensor | None:
    parts = list(args[0] if args else kwargs["tensors"])
    dim = _option("dim", 1, args, kwargs, kwargs.get("axis", 0))
    if not isinstance(dim, int):
        return None
    found = [stacks(part) for part in parts]
    rows = next(len(stack) for stack in found if stack is not None)
    filled = [
        part.new_zeros(rows, *part.shape) if stack is None else stack
        for part, stack in zip(parts, found, strict=True)
    ]
    at = dim if dim < 0 else dim + 1
    return torch.stack(filled, at) if out.ndim > parts[0].ndim else torch.cat(filled, at)


def _argument(name: str, at: int, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    return args[at] if len(args) > at else kwargs[name]


def _option(name: str, at: int, args: Sequence[Any], kwargs: dict[str, Any], default: Any) -> Any:
    return args[at] if len(args) > at else kwargs.get(name, default)


_RULES: dict[str, Rule] = {
    **dict.fromkeys(_ELEMENTWISE, _elementwise),
    **dict.fromkeys(("add", "__radd__"), _sum),
    **dict.fromkeys(("mul", "__rmul__"), _product),
    **dict.fromkeys(("matmul", "bmm", "__matmul__"), _matmul),
    **dict.fromkeys(("cat", "concat", "stack"), _joined),
    **dict.fromkeys(("conv1d", "conv2d", "conv3d"), _on_batch),
    **dict.fromkeys(("avg_pool2d", "adaptive_avg_pool2d"), _on_batch),
    "relu": _known_slope(
        lambda z, out, kwargs: out > 0,
        lambda stack, out: torch.ops.aten.threshold_backward(stack, out, 0),
    ),
    "relu6": _known_slope(
        lambda z, out, kwargs: (out > 0) & (out < 6),
        lambda stack, out: torch.ops.aten.hardtanh_backward(stack, out, 0.0, 6.0),
    ),
    "tanh": _known_slope(lambda z, out, kwargs: 1 - out * out),
    "sigmoid": _known_slope(lambda z, out, kwargs: out * (1 - out)),
    "gelu": _known_slope(_gelu_slope),
    "linear": _linear,
    "batch_norm": _batch_norm,
    "layer_norm": _layer_norm,
    "instance_norm": _instance_norm,
    "softmax": _softmax,
    "scaled_dot_product_attention": _attention,
    "max_pool2d": _max_pool,
}
_SEVERAL_MOVE = names(
    "add __radd__ mul __rmul__ matmul bmm __matmul__ cat concat stack scaled_dot_product_attention"
)


# --- everything else --------------------------------------------------------------------------


def _differentiated(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    stacks: Stacks,
) -> list[Tensor]:
    """Any function, in forward mode."""
    from isotropy.equivariance._lie_derivative import lacks_forward_rule, plain_attention

    leaves, spec = tree_flatten((list(args), kwargs))
    at = [i for i, leaf in enumerate(leaves) if isinstance(leaf, Tensor) and _moves(stacks, leaf)]
    primals = tuple(leaves[i] for i in at)
    rows = tuple(stack for i in at if (stack := stacks(leaves[i])) is not None)

    def of_moving(*values: Tensor) -> list[Tensor]:
        filled = list(leaves)
        for i, value in zip(at, values, strict=True):
            filled[i] = value
        new_args, new_kwargs = tree_unflatten(filled, spec)
        return _floating(function(*new_args, **new_kwargs))

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
    wants_graph = torch.is_grad_enabled()
    with torch.enable_grad():
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


def _moves(stacks: Stacks, leaf: Tensor) -> bool:
    return stacks(leaf) is not None


def _floating(values: Any) -> list[Tensor]:
    flat = flat_tensors(values)
    return [value for value in flat if value.is_floating_point() or value.is_complex()]
