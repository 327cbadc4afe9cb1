"""Whether the operations of a network account for its parameters, all of them and wholly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from isotropy.evidence._sample_gradients import sample_gradients, scattered
from isotropy.nn import LinearOperation

_TOLERANCE = {torch.float64: 1e-7, torch.float32: 1e-3}


def require_captured(
    parameters: Mapping[str, Tensor], outputs: Tensor, operations: Sequence[LinearOperation]
) -> None:
    """Refuse parameters whose influence on the outputs the operations do not tell in full.

    The gradient of a random combination of the outputs is taken twice: by autograd, and from
    the operations. A parameter that enters by a way of its own (a function of it as weights, a
    second derivative, a layer that nobody listens to) shows as a difference.

    Args:
        parameters: Those that the evidence integrates out, by name.
        outputs: What the network gives for a few samples.
        operations: What was recorded meanwhile.

    Raises:
        ValueError: If a parameter is not, or not wholly, accounted for.
    """
    seen = {operation.parameter for operation in operations}
    noted = [operation for operation in operations if operation.parameter in parameters]
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
    for name in names:
        expected = by_autograd[name]
        if expected is None:
            raise ValueError(
                f"expected every parameter to reach the output, got {name}, which does not: "
                "freeze it (requires_grad_(False)), or leave it out of params"
            )
        if name not in seen:
            raise ValueError(
                f"expected layers whose operations are recorded, got {name} of another kind of "
                "layer: let the layer inherit from isotropy.nn.RecordedModule and note its "
                "operations, name the parameter in hyperparameters=, or freeze it"
            )
        got = by_operations.get(name, torch.zeros_like(expected))
        error = (got - expected).norm()
        scale = expected.norm() + got.norm()
        if not error <= _TOLERANCE.get(expected.dtype, 5e-2) * scale:
            raise ValueError(
                f"expected {name} to act through its recorded operations alone, got other uses "
                f"of it (its gradient differs by {float(error / scale):.1%}): such a parameter "
                "has no curvature here; name it in hyperparameters=, or freeze it"
            )


def _from_operations(
    operations: Sequence[LinearOperation],
    gradients: Sequence[Tensor | None],
    parameters: Mapping[str, Tensor],
) -> dict[str, Tensor]:
    parts = []
    for operation, gradient in zip(operations, gradients, strict=True):
        if gradient is not None:
            rows = operation.gradient_rows(gradient)
            inputs = operation.input_rows()
            # samples need not be told apart: all rows add up
            one = sample_gradients(operation, inputs.unsqueeze(0), rows.unsqueeze(0))
            parts.append((operation, one))
    whole = scattered(parts, parameters)
    return {name: gradient.reshape(parameters[name].shape) for name, gradient in whole.items()}


def require_real(parameters: Mapping[str, Tensor]) -> None:
    """Refuse complex parameters.

    Raises:
        ValueError: If one is complex.
    """
    for name, parameter in parameters.items():
        if parameter.is_complex():
            raise ValueError(
                f"expected real parameters, got {name} of {parameter.dtype}: the evidence has "
                "no prior for complex ones"
            )
