"""Operators that PyTorch runs unchecked, with checks of the tensors that they are given.

PyTorch checks some arguments in Python, in ``nn.LSTM`` or ``nn.utils.parametrizations``, and not in
the operator below, which then reads and writes beyond its tensors. A program from a file calls the
operator itself, and the shapes that the file states may be false. So each node that calls such an
operator calls a function of this module, which sees the tensors as the program runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import torch
from torch import Tensor, nn

_aten = torch.ops.aten
_FARTHEST = 2**60  # elements from the start of a storage; PyTorch's own sum overflows beyond 2**63
_LARGEST_FOLD = 2**15  # `col2im` writes beyond its tensor for a padding of 2**31


def check_operators(module: nn.Module) -> None:
    """Let every graph of a program call unchecked operators through their checks.

    Args:
        module: The program, which is changed in place.

    Example:
        >>> graph = torch.fx.Graph()
        >>> x = graph.placeholder("x")
        >>> view = graph.call_function(torch.ops.aten.as_strided.default, (x, [2], [2**62]))
        >>> _ = graph.output(view)
        >>> module = torch.fx.GraphModule(nn.Module(), graph)
        >>> check_operators(module)
        >>> module(torch.zeros(3))
        Traceback (most recent call last):
        ...
        ValueError: as_strided: expected elements of the tensor, got one at 9223372036854775808
    """
    for part in module.modules():
        if isinstance(part, torch.fx.GraphModule):
            for node in part.graph.nodes:
                if node.op == "call_function" and node.target in _CHECKED:
                    node.target = _CHECKED[node.target]
            part.recompile()


def _before(operator: Any) -> Callable[[Callable[..., None]], Callable[..., Any]]:
    """Make of a check of an operator's arguments a function that checks and then calls it."""

    def decorate(check: Callable[..., None]) -> Callable[..., Any]:
        @wraps(check)
        def checked(*args: Any, **kwargs: Any) -> Any:
            check(*args, **kwargs)
            return operator(*args, **kwargs)

        return checked

    return decorate


def _require(holds: bool, operator: str, expected: str, got: object) -> None:
    if not holds:
        raise ValueError(f"{operator}: expected {expected}, got {got}")


# --- norms ------------------------------------------------------------------------------------


def batch_norm_of_statistics(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor,
    running_var: Tensor,
    momentum: float,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """``_native_batch_norm_legit_no_training``, through the operator that checks."""
    output = _aten.batch_norm.default(
        input, weight, bias, running_mean, running_var, False, momentum, eps, False
    )
    return output, input.new_empty(0), input.new_empty(0)


def batch_norm_of_batch(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """``_native_batch_norm_legit.no_stats``, through the operator that checks.

    What it keeps for the gradient, its second and third result, is left empty.
    """
    output = _aten.batch_norm.default(
        input, weight, bias, None, None, training, momentum, eps, False
    )
    return output, input.new_empty(0), input.new_empty(0)


def weight_norm(v: Tensor, g: Tensor, dim: int = 0) -> Tensor:
    """``_weight_norm``: g v / |v|, by operators that check."""
    return v * (g / torch.norm_except_dim(v, 2, dim))


# --- recurrences ------------------------------------------------------------------------------


@_before(_aten.lstm.input)
def lstm(
    input: Tensor,
    hx: Sequence[Tensor],
    params: Sequence[Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> None:
    """``lstm.input``, which oneDNN computes from pointers and the sizes of the input."""
    del dropout, train
    given = [input, *hx, *params]
    _require(input.dim() == 3 and len(hx) == 2, "lstm", "a batch of sequences", input.shape)
    _require(len({x.dtype for x in given}) == 1, "lstm", "one kind of numbers", "several")
    _require(all(x.dim() for x in hx), "lstm", "states of every row", "numbers")
    directions = 2 if bidirectional else 1
    output, hidden = (x.shape[-1] for x in hx)
    rows = input.shape[0 if batch_first else 1]
    expected: list[tuple[int, ...]]
    expected = [(num_layers * directions, rows, size) for size in (output, hidden)]
    columns = input.shape[2]
    for _ in range(min(num_layers, len(params))):
        each: list[tuple[int, ...]] = [(4 * hidden, columns), (4 * hidden, output)]
        each += [(4 * hidden,)] * (2 if has_biases else 0)
        each += [(output, hidden)] if output != hidden else []
        expected += each * directions
        columns = output * directions
    found = [tuple(x.shape) for x in given[1:]]
    _require(found == expected, "lstm", f"states and weights of shapes {expected}", found)


# --- attention --------------------------------------------------------------------------------


@_before(_aten.scaled_dot_product_attention.default)
def attention(query: Tensor, key: Tensor, value: Tensor, *_: Any, **__: Any) -> None:
    """``scaled_dot_product_attention``, which reads as many keys as there are values."""
    del query
    got = f"{tuple(key.shape)} and {tuple(value.shape)}"
    holds = key.dim() == value.dim() and key.shape[:-1] == value.shape[:-1]
    _require(holds, "scaled_dot_product_attention", "as many keys as values", got)


# --- images and views -------------------------------------------------------------------------


def _require_scales(
    input: Tensor,
    output_size: Sequence[int],
    align_corners: bool,
    scales_h: float | None = None,
    scales_w: float | None = None,
) -> None:
    del align_corners
    for size, found, scale in zip(input.shape[-2:], output_size, (scales_h, scales_w), strict=True):
        holds = scale is None or (0 < scale < _FARTHEST and int(size * scale) == found)
        _require(holds, "upsample", f"a scale that takes {size} pixels to {found}", scale)


@_before(_aten._upsample_bilinear2d_aa.default)
def bilinear(*args: Any, **kwargs: Any) -> None:
    """``_upsample_bilinear2d_aa``, whose filter is as wide as the scales say."""
    _require_scales(*args, **kwargs)


@_before(_aten._upsample_bicubic2d_aa.default)
def bicubic(*args: Any, **kwargs: Any) -> None:
    """``_upsample_bicubic2d_aa``, whose filter is as wide as the scales say."""
    _require_scales(*args, **kwargs)


@_before(_aten.col2im.default)
def fold(
    input: Tensor,
    output_size: Sequence[int],
    kernel_size: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    stride: Sequence[int],
) -> None:
    """``col2im``."""
    del input
    numbers = [*output_size, *kernel_size, *dilation, *padding, *stride]
    expected = f"numbers up to {_LARGEST_FOLD}"
    _require(all(0 <= x <= _LARGEST_FOLD for x in numbers), "col2im", expected, numbers)


@_before(torch.as_strided)
def as_strided(
    input: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> None:
    """``as_strided``, whose own check of the bounds overflows."""
    del input
    last = sum(abs(n) * abs(step) for n, step in zip(size, stride, strict=False))
    last += abs(storage_offset or 0)
    _require(last < _FARTHEST, "as_strided", "elements of the tensor", f"one at {last}")


# --- linear algebra ---------------------------------------------------------------------------


def eigenvalues(input: Tensor) -> Tensor:
    """``linalg_eigvals``, by the operator that refuses numbers that are not finite."""
    found: Tensor = torch.linalg.eig(input)[0]
    return found


_CHECKED: dict[Any, Callable[..., Any]] = {
    _aten._native_batch_norm_legit_no_training.default: batch_norm_of_statistics,
    _aten._native_batch_norm_legit.no_stats: batch_norm_of_batch,
    _aten._weight_norm.default: weight_norm,
    _aten.lstm.input: lstm,
    _aten.scaled_dot_product_attention.default: attention,
    _aten._upsample_bilinear2d_aa.default: bilinear,
    _aten._upsample_bicubic2d_aa.default: bicubic,
    _aten.col2im.default: fold,
    _aten.as_strided.default: as_strided,
    _aten.linalg_eigvals.default: eigenvalues,
    _aten._linalg_eigvals.default: eigenvalues,
}
