"""Running a model to measure it: evaluation mode, and everything as it was afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

Model = Callable[[Tensor], Any]


@contextmanager
def evaluating(model: Model) -> Iterator[None]:
    """Evaluation mode; each submodule's own mode comes back."""
    modules = list(model.modules()) if isinstance(model, nn.Module) else []
    modes = [module.training for module in modules]
    try:
        for module in modules:
            module.training = False
        yield
    finally:
        for module, mode in zip(modules, modes, strict=True):
            module.training = mode


def inputs_for(model: Model, x: Tensor) -> Tensor:
    """Inputs of the type and on the device of a model's parameters."""
    if not isinstance(x, Tensor):
        raise TypeError(f"expected a tensor of inputs, got {type(x).__name__}")
    own = parameter_of(model)
    if own is None:
        return x if x.is_floating_point() or x.is_complex() else x.to(torch.get_default_dtype())
    if x.is_complex() or own.is_complex():
        return x.to(own.device)
    return x.to(own.device, own.dtype)


def parameter_of(model: Model) -> Tensor | None:
    """The first parameter or buffer of a floating type."""
    if not isinstance(model, nn.Module):
        return None
    tensors = (*model.parameters(), *model.buffers())
    return next((t for t in tensors if t.is_floating_point() or t.is_complex()), None)


def output_of(y: Any) -> Tensor:
    """The output of a model, which must be one tensor, the batch first."""
    if not isinstance(y, Tensor):
        raise TypeError(f"expected a tensor from the model, got {type(y).__name__}")
    if not (y.is_floating_point() or y.is_complex()):
        raise TypeError(f"expected real or complex outputs, got {y.dtype}")
    return y
