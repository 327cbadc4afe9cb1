"""What is to be certified: the rows, what counts as an error on them, and a module that fits."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from isotropy.certificates._architectures import Architecture, architecture
from isotropy.certificates._certification_options import CertificationOptions
from isotropy.certificates._counting import require_same
from isotropy.certificates._examples import Examples, examples
from isotropy.certificates._goal import Goal, half_above
from isotropy.certificates._subspace import parameter_shapes


@dataclass(frozen=True, eq=False)
class CertificationProblem:
    """A sample and a module that can be trained on it."""

    sample: Examples
    test: Examples | None
    goal: Goal
    text: str
    module: nn.Module
    architecture: Architecture | None
    parameters: int
    input_scale: float | None

    def inputs(self, x: Tensor, device: str | torch.device) -> Tensor:
        """Inputs as the network takes them, where it is trained."""
        scaled = x if self.input_scale is None else x / self.input_scale
        return scaled.float().to(device)


def problem(
    model: str | Architecture | nn.Module,
    data: Any,
    test: Any,
    options: CertificationOptions,
) -> CertificationProblem:
    """Check what a user gives to `certify`."""
    sample = examples(data)
    classes = options.classes
    if classes is None and sample.classes is not None:
        classes = len(sample.classes)
    goal = _goal(sample.y, classes, options.tolerance)
    goal.check(sample.y)
    held_out = None if test is None else examples(test, sample.classes)
    if held_out is not None:
        goal.check(held_out.y)
    text, module, named = _module(model, tuple(sample.x.shape[1:]), goal.outputs)
    parameters = sum(shape.numel() for shape in parameter_shapes(module).values())
    scale = None if options.input_scale is None else half_above(options.input_scale)
    _require_outputs(module, sample, goal)
    return CertificationProblem(sample, held_out, goal, text, module, named, parameters, scale)


@torch.no_grad()
def _require_outputs(module: nn.Module, sample: Examples, goal: Goal) -> None:
    """Refuse a network that will not do before hours of training, not after."""
    trial = copy.deepcopy(module).double().cpu().eval()
    rows = sample.x[:5].double()
    try:
        outputs = trial(rows)
    except RuntimeError as error:
        raise ValueError(
            f"expected a model that takes float64 inputs of shape {tuple(rows.shape)}, "
            f"got one that fails: {str(error).splitlines()[0]}"
        ) from error
    wanted = (len(rows), goal.outputs)
    if tuple(outputs.shape) != wanted:
        raise ValueError(
            f"expected a model with outputs of shape {wanted} for {wanted[0]} rows, "
            f"got {tuple(outputs.shape)}; classes= says how many classes there are"
        )
    try:
        alone = trial(rows[-1:])
    except (RuntimeError, ValueError) as error:
        raise ValueError(
            "expected a model that takes one row alone, got one that fails: "
            f"{str(error).splitlines()[0]}"
        ) from error
    require_same(alone, outputs[-1:], outputs[-1:].abs().amax(1))


def require_untrained(module: nn.Module) -> None:
    """Refuse running statistics that may be of the data, where the start is not given."""
    for name, buffer in module.named_buffers():
        if name.endswith("num_batches_tracked") and int(buffer) > 0:
            raise ValueError(
                f"expected a model with running statistics as constructed, got {name} of "
                f"{int(buffer)}: give start='given' if they never saw the data"
            )


def _goal(y: Tensor, classes: int | None, tolerance: float | None) -> Goal:
    if y.is_floating_point():
        if tolerance is None:
            raise ValueError(
                "expected labels, or for a regression a tolerance: the distance from the target "
                "beyond which a prediction counts as an error"
            )
        spread = float((y - y.mean(0)).pow(2).mean().sqrt())
        return Goal("regression", y.shape[1], half_above(tolerance), half_above(spread or 1.0))
    if tolerance is not None:
        raise ValueError("expected a tolerance for a regression, got one with labels")
    return Goal("classification", int(y.max()) + 1 if classes is None else classes)


def _module(
    model: str | Architecture | nn.Module, shape: tuple[int, ...], outputs: int
) -> tuple[str, nn.Module, Architecture | None]:
    if isinstance(model, nn.Module):
        return type(model).__name__, model, None
    named = architecture(model) if isinstance(model, str) else model
    return str(named), named.build(shape, outputs), named
