"""Running a model to measure it: evaluation mode, and everything as it was afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import RLock
from typing import Any

import torch
from torch import Tensor, nn

from isotropy._run import evaluation_mode

Model = Callable[[Tensor], Any]

# a model's mode and hooks, and PyTorch's forward mode, are shared by all threads
_ONE_AT_A_TIME = RLock()


def modules_of(model: Model) -> list[nn.Module]:
    """The module that a model is, or those that a function holds by name."""
    if isinstance(model, nn.Module):
        return [model]
    held = [getattr(model, "__self__", None), getattr(model, "func", None)]
    for cell in getattr(model, "__closure__", None) or ():
        try:
            held.append(cell.cell_contents)
        except ValueError:  # not yet filled
            continue
    code = getattr(model, "__code__", None)
    known = getattr(model, "__globals__", {})
    held += [known.get(name) for name in (code.co_names if code is not None else ())]
    return [value for value in held if isinstance(value, nn.Module)]


@contextmanager
def evaluating(model: Model) -> Iterator[None]:
    """Evaluation mode; each submodule's own mode, and the tensors it holds, come back.

    Threads that measure take turns.
    """
    with _ONE_AT_A_TIME, _restoring(model):
        yield


@contextmanager
def _restoring(model: Model) -> Iterator[None]:
    wholes = modules_of(model)
    modules = [module for whole in wholes for module in whole.modules()]
    with evaluation_mode(*wholes):
        held = [(dict(vars(module)), dict(_mapping(module._buffers))) for module in modules]
        try:
            yield
        finally:
            for module, (attributes, buffers) in zip(modules, held, strict=True):
                _restore(module, attributes, buffers)


def _restore(module: nn.Module, attributes: dict[str, Any], buffers: dict[str, Any]) -> None:
    """Give a module its attributes back, where it kept tensors of a call.

    Those may be of no use outside of it. What goes with them, such as a note that they are
    there, goes too.
    """
    now = vars(module)
    if any(
        isinstance(value, Tensor) and attributes.get(k) is not value for k, value in now.items()
    ):
        now.clear()
        now.update(attributes)
    for name, buffer in buffers.items():
        if module._buffers.get(name) is not buffer:
            module._buffers[name] = buffer


def _mapping(buffers: Any) -> dict[str, Any]:
    return buffers if isinstance(buffers, dict) else {}  # a scripted module's are another thing


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
        return None  # a function takes what it is given
    tensors = (*model.parameters(), *model.buffers())
    return next((t for t in tensors if t.is_floating_point() or t.is_complex()), None)


def output_of(y: Any) -> Tensor:
    """The output of a model, which must be one tensor, the batch first."""
    if not isinstance(y, Tensor):
        raise TypeError(f"expected a tensor from the model, got {type(y).__name__}")
    if not (y.is_floating_point() or y.is_complex()):
        raise TypeError(f"expected real or complex outputs, got {y.dtype}")
    return y
