"""No zero on trust: whether a model runs on the inputs, depends on them, and has a derivative."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from isotropy.equivariance._action import Action
from isotropy.equivariance._evaluation import Model, evaluating, inputs_for, output_of
from isotropy.equivariance._lie_derivative import jvp


def outputs_shape(model: Model, batches: Sequence[Tensor]) -> tuple[int, ...]:
    """Call a model once on each shape of batch, and say what it gives for the first.

    Args:
        model: A module or function.
        batches: Inputs.

    Returns:
        The shape of its outputs.

    Raises:
        TypeError: If it does not give a tensor of numbers with a fraction.
        ValueError: If it fails, gives something else than one output for each input, or values
            that are not finite.
    """
    shape: tuple[int, ...] = ()
    seen: set[torch.Size] = set()
    for x in batches:
        if x.shape in seen:
            continue
        seen.add(x.shape)
        y = _called(model, x)
        if y.ndim == 0 or len(y) != len(x):
            raise ValueError(
                f"expected an output for each of {len(x)} inputs, got shape {tuple(y.shape)}"
            )
        if not bool(torch.isfinite(y).all()):
            raise ValueError("expected finite outputs, got one that is not")
        shape = shape or tuple(y.shape)
    return shape


def _called(model: Model, x: Tensor) -> Tensor:
    """The outputs, without gradients, in evaluation mode; the model's own error is the cause."""
    x = inputs_for(model, x).clone()  # it may work in place
    try:
        with evaluating(model), torch.no_grad():
            y = model(x)
    except Exception as error:
        message = " ".join(str(error).split())
        raise ValueError(
            f"expected the model to take inputs of shape {tuple(x.shape)}, got "
            f"{type(error).__name__}: {message[:_LONGEST]}"
        ) from error
    return output_of(y)


_LONGEST = 300


def require_derivative(
    model: Model, batches: Sequence[Tensor], action: Action, scale: float
) -> None:
    """Refuse a derivative that is zero for another reason than symmetry.

    Args:
        model: A module or function.
        batches: Inputs.
        action: What moves them.
        scale: How far to move them to see whether outputs change, in the action's unit.

    Raises:
        ValueError: If the derivative along the action is zero although the outputs change, or the
            outputs are the same whatever the inputs are.
    """
    x = inputs_for(model, batches[0])
    still = True
    with evaluating(model), torch.no_grad():
        for direction in action.directions:
            tangent = direction.tangent(x)
            if not bool(tangent.any()):
                continue
            still = False
            moved, _ = jvp(model, x, tangent)
            if bool(moved.any()):
                return
    y = _called(model, x)
    for direction in action.directions:
        for t in (scale, -scale):
            if not still and _differ(_called(model, direction.transform(x, t)), y):
                raise ValueError(
                    "expected a model that can be differentiated, got one whose derivative under "
                    f"{action.name} is zero although its outputs change: something in it stops "
                    "derivatives (detach, rounding, a comparison)"
                )
    _require_dependence(model, batches, y)


def _require_dependence(model: Model, batches: Sequence[Tensor], y: Tensor) -> None:
    x = batches[0]
    noise = torch.rand(x.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    spread = float(x.abs().double().mean()) + 1e-3
    same = bool((y == y[:1]).all())
    for probe in (noise * spread, -2 * noise * spread):
        same = same and bool((_called(model, probe.to(x.device, x.dtype)) == y).all())
    if same:
        raise ValueError("expected outputs that depend on the inputs, got the same for all inputs")


def _differ(found: Tensor, expected: Tensor) -> bool:
    """Whether values differ by more than rounding."""
    allowed = float(torch.finfo(expected.dtype).eps ** 0.5 * expected.abs().max())
    return float((found - expected).abs().max()) > allowed
