"""Recording a network: our layers note their operations, hooks note those of torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeAlias

from torch import Tensor, nn

from isotropy.nn._recorder import LinearOperation, RecordedModule, Recording, TorchOperations
from isotropy.nn._torch_operations import (
    batch_norm,
    convolution,
    group_norm,
    instance_norm,
    layer_norm,
    rms_norm,
    transposed_convolution,
)

Describe: TypeAlias = Callable[[Any, Tensor, Tensor], TorchOperations]


def linear(_layer: nn.Linear, x: Tensor, y: Tensor) -> TorchOperations:
    """The operations of y = x Wᵀ + b."""
    if x.ndim < 2:
        return
    axes = ("position",) * (x.ndim - 2)
    yield "weight", x, {"axes": axes}
    yield "bias", y.new_ones(()).expand(*y.shape[:-1], 1), {"axes": axes}


_DESCRIBED: dict[type[nn.Module], Describe] = {
    nn.Linear: linear,
    nn.Conv1d: convolution,
    nn.Conv2d: convolution,
    nn.Conv3d: convolution,
    nn.ConvTranspose1d: transposed_convolution,
    nn.ConvTranspose2d: transposed_convolution,
    nn.ConvTranspose3d: transposed_convolution,
    nn.LayerNorm: layer_norm,
    nn.RMSNorm: rms_norm,
    nn.GroupNorm: group_norm,
    nn.BatchNorm1d: batch_norm,
    nn.BatchNorm2d: batch_norm,
    nn.BatchNorm3d: batch_norm,
    nn.InstanceNorm1d: instance_norm,
    nn.InstanceNorm2d: instance_norm,
    nn.InstanceNorm3d: instance_norm,
}


@contextmanager
def listen(model: nn.Module, operations: Recording) -> Iterator[None]:
    """Keep the operations of the layers of torch in ``model`` while the context is open.

    Heard are ``Linear``, convolutions, transposed convolutions and normalisations, and what
    inherits from them without a ``forward`` of its own. Not heard is a parameter that the layer
    does not hold itself, such as a weight with a parametrisation, nor a call without an axis of
    samples.

    Example:
        >>> import torch
        >>> model = nn.Sequential(nn.Conv2d(3, 4, 3, padding="same"), nn.BatchNorm2d(4))
        >>> with listen(model, operations := Recording({})):
        ...     y = model(torch.randn(2, 3, 5, 5))
        >>> for operation in operations:
        ...     print(operation.parameter, tuple(operation.input_rows().shape))
        0.weight (2, 25, 27)
        0.bias (2, 25, 1)
        1.weight (2, 25, 4, 1)
        1.bias (2, 25, 1)
    """
    handles = []
    try:
        for name, layer in model.named_modules():
            describe = _description(layer)
            if describe is not None:
                hook = _hook(describe, f"{name}." if name else "", operations)
                # first, so that the output is the layer's own and not what another hook made of it
                handles.append(layer.register_forward_hook(hook, prepend=True, with_kwargs=True))
        yield
    finally:
        for handle in handles:
            handle.remove()


def _description(layer: nn.Module) -> Describe | None:
    if isinstance(layer, RecordedModule):
        return None
    for kind, describe in _DESCRIBED.items():
        if isinstance(layer, kind):
            # another forward may use the parameters in another way
            own = getattr(layer.forward, "__func__", None)
            return describe if own is kind.forward else None
    return None


def _hook(
    describe: Describe, prefix: str, operations: Recording
) -> Callable[[nn.Module, tuple[Any, ...], Mapping[str, Any], Tensor], Tensor]:
    def hook(
        layer: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], output: Tensor
    ) -> Tensor:
        x = args[0] if args else kwargs["x" if isinstance(layer, nn.RMSNorm) else "input"]
        for parameter, input, about in describe(layer, x, output):
            if layer._parameters.get(parameter) is not None:
                operations.append(LinearOperation(prefix + parameter, input, output, **about))
        # what follows may work in place, and the gradient at the output would be lost with it
        return output.clone()

    return hook


@contextmanager
def record(model: nn.Module) -> Iterator[list[LinearOperation]]:
    """Keep every linear operation of the layers in ``model`` while the context is open.

    Recorded are all layers of ours, ``torch.nn.Linear``, convolutions of any dimension and
    padding (transposed ones too), normalisations, and layers of your own that inherit from
    ``RecordedModule``.

    Args:
        model: A network.

    Yields:
        The operations, in the order in which they happened.

    Example:
        >>> import torch
        >>> from isotropy.groups import S
        >>> from isotropy.nn import Linear
        >>> from isotropy.reps import V
        >>> model = nn.Sequential(Linear(V, V, S(4), bias=False), nn.Linear(4, 2))
        >>> with record(model) as operations:
        ...     y = model(torch.randn(7, 4))
        >>> for operation in operations:
        ...     print(operation.parameter, tuple(operation.input_rows().shape))
        0.coefficients (7, 4, 2)
        1.weight (7, 4)
        1.bias (7, 1)
    """
    first: dict[int, str] = {}
    names = {
        name: first.setdefault(id(parameter), name)
        for name, parameter in model.named_parameters(remove_duplicate=False)
    }
    operations = Recording(names)
    layers = [(n, m) for n, m in model.named_modules() if isinstance(m, RecordedModule)]
    before = [(layer, layer._record, layer._prefix) for _, layer in layers]
    for name, layer in layers:
        layer._record = operations
        layer._prefix = f"{name}." if name else ""
    # what follows a layer may work in place, and the gradient at its output would be lost with it
    handles = [layer.register_forward_hook(_copied) for _, layer in layers]
    try:
        with listen(model, operations):
            yield operations
    finally:
        for handle in handles:
            handle.remove()
        for layer, kept, prefix in before:
            layer._record, layer._prefix = kept, prefix


def _copied(_layer: nn.Module, _inputs: object, output: object) -> object:
    return output.clone() if isinstance(output, Tensor) else output
