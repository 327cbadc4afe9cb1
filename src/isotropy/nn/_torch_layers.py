"""Recording the layers of torch by hooks, since they cannot note their operations themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeAlias

from torch import Tensor, nn

from isotropy.nn._recorder import LinearOperation, RecordedModule, Recording, TorchOperations
from isotropy.nn._torch_convolutions import convolution, transposed_convolution
from isotropy.nn._torch_normalisations import (
    batch_norm,
    group_norm,
    instance_norm,
    layer_norm,
    rms_norm,
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
