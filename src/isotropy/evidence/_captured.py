"""Whether the operations of a network account for its parameters, all of them and wholly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from isotropy.evidence._sample_gradients import sample_gradients, scattered
from isotropy.nn._recorder import LinearOperation

# relative to the gradient, and to the sum of the sizes of its terms, which may cancel
_TOLERANCES = {torch.float64: (1e-7, 1e-12), torch.float32: (1e-3, 1e-4)}
_ON_GPU = (1e-2, 1e-3)  # where products may be rounded to ten bits


def require_captured(
    model: nn.Module,
    parameters: Mapping[str, Tensor],
    outputs: Tensor,
    operations: Sequence[LinearOperation],
) -> None:
    """Refuse parameters whose influence on the outputs the operations do not tell in full.

    The gradient of a random combination of the outputs is taken twice: by autograd, and from
    the operations. A parameter that enters by a way of its own (a function of it as weights, a
    second derivative, a layer that nobody listens to) shows as a difference.

    Raises:
        ValueError: If a parameter is not, or not wholly, accounted for.
    """
    seen = {operation.parameter for operation in operations}
    noted = [o for o in operations if o.parameter in parameters and o.output.requires_grad]
    for operation in noted:
        _require_fitting(operation, parameters[operation.parameter])
    ends = [operation.output for operation in noted]
    names = list(parameters)
    generator = torch.Generator().manual_seed(0)
    weights = torch.randn(outputs.shape, generator=generator, dtype=torch.float64)
    found = torch.autograd.grad(
        outputs,
        [*parameters.values(), *ends],
        weights.to(outputs),
        retain_graph=True,
        allow_unused=True,
    )
    by_autograd = dict(zip(names, found, strict=False))
    by_operations = _from_operations(noted, found[len(names) :], parameters)
    sizes: dict[str, Tensor] | None = None  # seldom asked for
    for name in names:
        expected = by_autograd[name]
        if expected is None:
            raise ValueError(
                f"expected every parameter to reach the output, got {name}, which does not: "
                "freeze it (requires_grad_(False)), or leave it out of params"
            )
        if name not in seen:
            others = sum(other not in seen for other in names) - 1
            layer = model.get_submodule(name.rpartition(".")[0])
            raise ValueError(
                f"expected layers whose operations are recorded, got {name}"
                f"{f' and {others} more' if others else ''}, of {type(layer).__name__}: freeze "
                "it, or hold it fixed by naming it in hyperparameters=; a layer of your own can "
                "inherit from isotropy.nn.RecordedModule and note its operations"
            )
        got = by_operations.get(name, torch.zeros_like(expected))
        error = (got - expected).norm()
        if not bool(error.isfinite()):
            raise ValueError(f"expected finite gradients, got some of {name} that are not")
        scale = expected.norm() + got.norm()
        near, rounding = _TOLERANCES.get(expected.dtype, (5e-2, 1e-2))
        if expected.is_cuda and expected.dtype == torch.float32:
            near, rounding = _ON_GPU
        if error <= near * scale:
            continue
        if sizes is None:
            sizes = _from_operations(noted, found[len(names) :], parameters, sizes=True)
        terms = sizes.get(name, torch.zeros_like(expected)).norm()
        if not error <= rounding * terms:
            apart = float((error / scale).detach())
            raise ValueError(
                f"expected {name} to act through its recorded operations alone, got other uses "
                f"of it, or a note that does not describe what its layer does (its gradient "
                f"differs by {apart:.1%}): freeze it, or hold it fixed by naming it in "
                "hyperparameters="
            )


def _require_fitting(operation: LinearOperation, parameter: Tensor) -> None:
    """Refuse a note whose rows and weights do not go together."""
    name = operation.parameter
    inputs, rows = operation.input_rows(), operation.gradient_rows(operation.output.detach())
    own = 2 if operation.blocks else 1
    axes = rows.ndim - own - 1
    if inputs.ndim != rows.ndim or inputs.shape[:-1] != rows.shape[:-1] or axes < 0:
        raise ValueError(
            f"expected rows of the input and of the output of {name} that are alike but for "
            f"their width, got shapes {tuple(inputs.shape)} and {tuple(rows.shape)}"
        )
    if len(operation.axes) != axes:
        raise ValueError(
            f"expected a name for each of the {axes} axes between samples and weights of {name}, "
            f"got axes={operation.axes!r} for rows of shape {tuple(rows.shape)}"
        )
    blocks = rows.shape[-2] if operation.blocks else 1
    wanted = blocks * rows.shape[-1] * inputs.shape[-1]
    size = parameter.numel() if operation.entries is None else operation.entries.numel()
    if wanted != size:
        raise ValueError(
            f"expected {wanted} weights of {name} for rows of shapes {tuple(inputs.shape)} and "
            f"{tuple(rows.shape)}, got {size}"
        )


def require_separate(
    outputs: Tensor, alone: Tensor, operations: Sequence[LinearOperation], by_sample: set[int]
) -> None:
    """Refuse a network that mixes samples, and rows that are not samples where they must be."""
    change = (outputs[: len(alone)] - alone).detach().abs().max()
    size = outputs.detach().abs().max()
    if not change <= 1e3 * torch.finfo(outputs.dtype).eps ** 0.75 * size:
        raise ValueError(
            "expected outputs that depend on their own sample alone, got ones that change with "
            "the rest of the batch: the evidence needs samples that are independent (a "
            "normalisation by statistics of the batch is not)"
        )
    chosen = [o for k, o in enumerate(operations) if k in by_sample]
    if len(outputs) < 2 or not chosen:
        return
    first = torch.zeros_like(outputs)
    first[0] = 1
    gradients = torch.autograd.grad(
        outputs, [o.output for o in chosen], first, retain_graph=True, allow_unused=True
    )
    for operation, gradient in zip(chosen, gradients, strict=True):
        if gradient is not None and bool(operation.gradient_rows(gradient)[1:].any()):
            raise ValueError(
                f"expected samples along the first axis of what {operation.parameter} sees, got "
                "another axis there: only Kronecker factors with sharing='expand' can do without "
                "knowing which row is whose"
            )


def require_one_layout(operations: Sequence[LinearOperation]) -> None:
    """Refuse uses of one parameter as different matrices, which have no common factors."""
    seen: dict[tuple[str, int], Tensor | None] = {}
    for operation in operations:
        key = operation.parameter, operation.part
        entries = seen.setdefault(key, operation.entries)
        same = entries is operation.entries or (
            entries is not None
            and operation.entries is not None
            and entries.shape == operation.entries.shape
            and bool((entries == operation.entries).all())
        )
        if not same:
            raise ValueError(
                f"expected all uses of {operation.parameter} to take it as the same matrix, got "
                "another arrangement (a convolution tied to its transpose?): take "
                "structure='block' or structure='diagonal'"
            )


def _from_operations(
    operations: Sequence[LinearOperation],
    gradients: Sequence[Tensor | None],
    parameters: Mapping[str, Tensor],
    *,
    sizes: bool = False,
) -> dict[str, Tensor]:
    """The gradients of all parameters, or the sums of the absolute values of their terms."""
    parts = []
    for operation, gradient in zip(operations, gradients, strict=True):
        if gradient is not None:
            rows = operation.gradient_rows(gradient)
            inputs = operation.input_rows()
            if sizes:
                rows, inputs = rows.abs(), inputs.abs()
            # samples need not be distinguished: all rows add up
            one = sample_gradients(operation, inputs.unsqueeze(0), rows.unsqueeze(0))
            parts.append((operation, one))
    whole = scattered(parts, parameters)
    return {name: gradient.reshape(parameters[name].shape) for name, gradient in whole.items()}


def require_usable(parameters: Mapping[str, Tensor]) -> None:
    """Refuse parameters that are complex, or have no values."""
    for name, parameter in parameters.items():
        if parameter.is_complex():
            raise ValueError(
                f"expected real parameters, got {name} of {parameter.dtype}: the evidence has "
                "no prior for complex ones"
            )
        if parameter.is_meta:
            raise ValueError(f"expected parameters with values, got {name} on the meta device")
