"""Rules of single operations: how their tangents follow, without differentiating them anew."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor

from isotropy.equivariance._axes_rules import names

Stacks: TypeAlias = Callable[[Any], Tensor | None]


@dataclass(frozen=True)
class Operation:
    """An operation that was carried out.

    Args:
        function: What was called.
        args: Its arguments, as they were before it.
        kwargs: Its named arguments.
        stack: The tangents of an argument, shape (rows, *argument.shape); None for a constant.
        out: What it gave.
    """

    function: Callable[..., Any]
    args: Sequence[Any]
    kwargs: dict[str, Any]
    stack: Stacks
    out: Tensor

    def argument(self, name: str, at: int) -> Any:
        """An argument given by name or by place."""
        return self.args[at] if len(self.args) > at else self.kwargs[name]

    def option(self, name: str, at: int, default: Any) -> Any:
        """The same, with a default."""
        return self.args[at] if len(self.args) > at else self.kwargs.get(name, default)


# The tangents of the result; None where the rule does not cover this use of the operation.
Rule: TypeAlias = Callable[[Operation], Tensor | None]

_ELEMENTWISE = names(
    "relu relu6 hardtanh gelu silu hardswish hardsigmoid sigmoid tanh exp softplus elu selu celu "
    "leaky_relu mish log sqrt rsqrt abs square neg sin cos erf softsign tanhshrink threshold clamp "
    "logsigmoid reciprocal log1p expm1 clamp_min clamp_max"
)


def _elementwise(op: Operation) -> Tensor | None:
    stack = op.stack(op.args[0])
    if stack is None or any(
        isinstance(value, Tensor) for value in (*op.args[1:], *op.kwargs.values())
    ):
        return None
    if stack.is_complex():
        return None  # abs, for one, has no complex slope
    value = op.args[0]
    slope: Tensor = torch.func.jvp(
        lambda z: op.function(z, *op.args[1:], **op.kwargs), (value,), (torch.ones_like(value),)
    )[1]
    return stack * slope


def _known_slope(
    slope: Callable[[Tensor, Tensor, dict[str, Any]], Tensor],
    fused: Callable[[Tensor, Tensor], Tensor] | None = None,
) -> Rule:
    """The rule of an elementwise function whose slope follows from its argument and result.

    ``fused`` takes tangent and result to the tangent times the slope, for a single row.
    """

    def rule(op: Operation) -> Tensor | None:
        stack = op.stack(op.args[0])
        if stack is None or any(value not in (False, None) for value in op.args[1:]):
            return None
        if fused is not None and len(stack) == 1 and stack.dtype == op.out.dtype:
            return fused(stack, op.out.unsqueeze(0))
        return stack * slope(op.args[0], op.out, op.kwargs)

    return rule


def _hardtanh(op: Operation) -> Tensor | None:
    stack, out = op.stack(op.args[0]), op.out
    if stack is None or stack.dtype != out.dtype:
        return None
    low, high = op.option("min_val", 1, -1.0), op.option("max_val", 2, 1.0)
    if len(stack) == 1:
        moved: Tensor = torch.ops.aten.hardtanh_backward(stack, out.unsqueeze(0), low, high)
        return moved
    slope: Tensor = (out > low) & (out < high)
    return stack * slope


def _glu(op: Operation) -> Tensor | None:
    """A · σ(b): da σ(b) + a σ(b)(1 − σ(b)) db."""
    stack, dim = op.stack(op.args[0]), op.option("dim", 1, -1)
    if stack is None:
        return None
    at = dim % op.args[0].ndim - op.args[0].ndim
    (a, b), (da, db) = op.args[0].chunk(2, at), stack.chunk(2, at)
    gate = torch.sigmoid(b)
    moved: Tensor = gate * (da + a * (1 - gate) * db)
    return moved


def _gelu_slope(z: Tensor, _out: Tensor, kwargs: dict[str, Any]) -> Tensor:
    approximate = kwargs.get("approximate", "none")
    slope: Tensor = torch.ops.aten.gelu_backward(torch.ones_like(z), z, approximate=approximate)
    return slope


def _linear(op: Operation) -> Tensor | None:
    stack, weight = op.stack(op.args[0]), op.argument("weight", 1)
    return None if stack is None else torch.nn.functional.linear(stack, weight)


def _on_batch(op: Operation) -> Tensor | None:
    """Convolutions without their bias, and averages: rows are more inputs."""
    stack = op.stack(op.args[0])
    weight = op.option("weight", 1, None)
    axes = weight.ndim if isinstance(weight, Tensor) else 4
    if stack is None or op.args[0].ndim != axes:
        return None  # a single input without its batch axis
    rest, named = list(op.args[1:]), dict(op.kwargs)
    if len(rest) > 1 and (rest[1] is None or isinstance(rest[1], Tensor)):
        rest[1] = None
    if isinstance(named.get("bias"), Tensor):
        named["bias"] = None
    found: Tensor = op.function(stack.flatten(0, 1), *rest, **named)
    unfolded: Tensor = found.unflatten(0, stack.shape[:2])
    return unfolded


def _batch_norm(op: Operation) -> Tensor | None:
    stack = op.stack(op.args[0])
    if stack is None or op.function is not torch.nn.functional.batch_norm:
        return None  # torch.batch_norm takes its arguments in another order
    weight, variance = op.option("weight", 3, None), op.argument("running_var", 2)
    if op.option("training", 5, False) or variance is None:
        dims = (0, *range(2, op.args[0].ndim))
        moved = _normalised(op.args[0], stack, dims, op.option("eps", 7, 1e-5))
        return moved if weight is None else moved * weight.reshape([-1] + [1] * (len(dims) - 1))
    slope: Tensor = (variance + op.option("eps", 7, 1e-5)).rsqrt()
    slope = slope if weight is None else slope * weight
    return stack * slope.reshape([-1] + [1] * (op.args[0].ndim - 2))


def _layer_norm(op: Operation) -> Tensor | None:
    stack = op.stack(op.args[0])
    if stack is None:
        return None
    dims = tuple(range(-len(op.argument("normalized_shape", 1)), 0))
    weight = op.option("weight", 2, None)
    moved = _normalised(op.args[0], stack, dims, op.option("eps", 4, 1e-5))
    return moved if weight is None else moved * weight


def _instance_norm(op: Operation) -> Tensor | None:
    stack = op.stack(op.args[0])
    is_ours = op.function is torch.nn.functional.instance_norm
    if stack is None or not is_ours or not op.option("use_input_stats", 5, True):
        return None
    weight, count = op.option("weight", 3, None), op.args[0].ndim - 2
    dims = tuple(range(-count, 0))
    moved = _normalised(op.args[0], stack, dims, op.option("eps", 7, 1e-5))
    return moved if weight is None else moved * weight.reshape([-1] + [1] * count)


def _normalised(z: Tensor, stack: Tensor, dims: tuple[int, ...], eps: float) -> Tensor:
    """With n(z) = (z − mean)/s over some axes: dn = (dz − mean dz − n · mean(n dz))/s.

    PyTorch's own rules for these take mean and s for constants when gradients flow through them.
    """
    if torch.is_grad_enabled() or dims[0] == 0:
        variance, mean = torch.var_mean(z, dims, correction=0, keepdim=True)
        scale = (variance + eps).rsqrt()
        normal = (z - mean) * scale
    else:
        shape = list(z.shape[-len(dims) :])
        normal, _, scale = torch.native_layer_norm(z, shape, None, None, eps)
    dims = tuple(dim % z.ndim - z.ndim for dim in dims)  # rows have one axis more in front
    centred = stack - stack.mean(dims, keepdim=True)
    moved: Tensor = (centred - normal * (stack * normal).mean(dims, keepdim=True)) * scale
    return moved


def _softmax(op: Operation) -> Tensor | None:
    stack = op.stack(op.args[0])
    dim = op.option("dim", 1, None)
    if stack is None or not isinstance(dim, int) or op.out.dtype != op.args[0].dtype:
        return None
    at = dim % op.out.ndim - op.out.ndim
    weighted = stack * op.out
    return weighted - op.out * weighted.sum(at, keepdim=True)


def _attention(op: Operation) -> Tensor | None:
    """With A = softmax(s q kᵀ): d(Av) = dA v + A dv, dA = A ∘ (dS − Σ A ∘ dS)."""
    plain = all(op.kwargs.get(key) in (None, False) for key in ("is_causal", "enable_gqa"))
    mask = op.kwargs.get("attn_mask")
    if len(op.args) != 3 or not plain or (mask is not None and op.stack(mask) is not None):
        return None
    query, key, value = op.args
    dq, dk, dv = (op.stack(given) for given in op.args)
    if dq is None or dk is None or dv is None or query.shape[:-2] != key.shape[:-2]:
        return None
    scale = op.kwargs.get("scale") or query.shape[-1] ** -0.5
    logits = query @ key.mT * scale
    if mask is not None:
        is_kept = mask.dtype == torch.bool
        logits = logits.masked_fill(~mask, -torch.inf) if is_kept else logits + mask
    weights = torch.softmax(logits, -1)
    if mask is not None:
        weights = weights.nan_to_num()  # nothing is attended to where all is masked
    scores = (dq @ key.mT + query @ dk.mT) * (weights * scale)
    moved: Tensor = scores @ value - scores.sum(-1, keepdim=True) * op.out + weights @ dv
    return moved


def _max_pool(op: Operation) -> Tensor | None:
    stack = op.stack(op.args[0])
    if stack is None or op.args[0].ndim != 4 or op.kwargs.get("return_indices"):
        return None
    named = {key: value for key, value in op.kwargs.items() if key != "return_indices"}
    _, index = torch.nn.functional.max_pool2d(
        op.args[0], *op.args[1:], **named, return_indices=True
    )
    taken = index.flatten(-2).expand(len(stack), *index.shape[:2], -1)
    return stack.flatten(-2).gather(-1, taken).reshape(len(stack), *index.shape)


def _sum(op: Operation) -> Tensor | None:
    if op.kwargs or len(op.args) != 2:
        return None
    total: Tensor | None = None
    for value in op.args:
        stack = _aligned(value, op)
        if stack is not None:
            total = stack if total is None else total + stack
    return None if total is None else total.expand(len(total), *op.out.shape)


def _product(op: Operation) -> Tensor | None:
    if op.kwargs or len(op.args) != 2:
        return None
    total: Tensor | None = None
    for value, other in (op.args, op.args[::-1]):
        stack = _aligned(value, op)
        if stack is not None:
            part: Tensor = stack * other
            total = part if total is None else total + part
    return None if total is None else total.expand(len(total), *op.out.shape)


def _aligned(value: Any, op: Operation) -> Tensor | None:
    """A stack whose rows broadcast with a result of more axes."""
    stack = op.stack(value) if isinstance(value, Tensor) else None
    if stack is None or value.ndim == op.out.ndim:
        return stack
    return stack.reshape(len(stack), *[1] * (op.out.ndim - value.ndim), *value.shape)


def _matmul(op: Operation) -> Tensor | None:
    if len(op.args) != 2 or op.kwargs or any(value.ndim < 2 for value in op.args):
        return None
    left, right = (_aligned(value, op) for value in op.args)
    total: Tensor | None = None
    if left is not None:
        total = left @ op.args[1]
    if right is not None:
        part = op.args[0] @ right
        total = part if total is None else total + part
    return total


def _distances(op: Operation) -> Tensor | None:
    """Euclidean distances |a − b|: ⟨a − b, da − db⟩ / |a − b|."""
    if len(op.args) < 2 or op.option("p", 2, 2.0) != 2:
        return None
    (a, b), (da, db) = op.args[:2], (op.stack(value) for value in op.args[:2])
    gap = a.unsqueeze(-2) - b.unsqueeze(-3)
    moved = 0.0
    for tangent, sign, axis in ((da, 1, -2), (db, -1, -3)):
        if tangent is not None:
            moved = moved + sign * (gap * tangent.unsqueeze(axis)).sum(-1)
    found: Tensor = torch.as_tensor(moved) / op.out
    return torch.where(op.out > 0, found, 0.0)  # where points meet, PyTorch takes zero too


def _joined(op: Operation) -> Tensor | None:
    parts = list(op.args[0] if op.args else op.kwargs["tensors"])
    dim = op.option("dim", 1, op.kwargs.get("axis", 0))
    if not isinstance(dim, int):
        return None
    found = [op.stack(part) for part in parts]
    rows = next(len(stack) for stack in found if stack is not None)
    filled = [
        part.new_zeros(rows, *part.shape) if stack is None else stack
        for part, stack in zip(parts, found, strict=True)
    ]
    at = dim if dim < 0 else dim + 1
    return torch.stack(filled, at) if op.out.ndim > parts[0].ndim else torch.cat(filled, at)


RULES: dict[str, Rule] = {
    **dict.fromkeys(_ELEMENTWISE, _elementwise),
    **dict.fromkeys(("add", "__radd__"), _sum),
    **dict.fromkeys(("mul", "__rmul__"), _product),
    **dict.fromkeys(("matmul", "bmm", "__matmul__"), _matmul),
    **dict.fromkeys(("cat", "concat", "stack"), _joined),
    **dict.fromkeys(("conv1d", "conv2d", "conv3d"), _on_batch),
    **dict.fromkeys(("avg_pool2d", "adaptive_avg_pool2d"), _on_batch),
    "relu": _known_slope(
        lambda _z, out, _kwargs: out > 0,
        lambda stack, out: torch.ops.aten.threshold_backward(stack, out, 0),
    ),
    "relu6": _known_slope(
        lambda _z, out, _kwargs: (out > 0) & (out < 6),
        lambda stack, out: torch.ops.aten.hardtanh_backward(stack, out, 0.0, 6.0),
    ),
    "hardtanh": _hardtanh,
    "hardsigmoid": _known_slope(lambda _z, out, _kwargs: ((out > 0) & (out < 1)) / 6),
    "glu": _glu,
    "cdist": _distances,
    "tanh": _known_slope(lambda _z, out, _kwargs: 1 - out * out),
    "sigmoid": _known_slope(lambda _z, out, _kwargs: out * (1 - out)),
    "gelu": _known_slope(_gelu_slope),
    "linear": _linear,
    "batch_norm": _batch_norm,
    "layer_norm": _layer_norm,
    "instance_norm": _instance_norm,
    "softmax": _softmax,
    "scaled_dot_product_attention": _attention,
    "max_pool2d": _max_pool,
}
SEVERAL_MOVE = names(
    "add __radd__ mul __rmul__ matmul bmm __matmul__ cat concat stack cdist "
    "scaled_dot_product_attention"
)
