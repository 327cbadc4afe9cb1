"""Recording a network: our layers note their operations, hooks note those of torch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor, nn

from isotropy.nn._recorder import LinearOperation, RecordedModule, Recording
from isotropy.nn._torch_layers import listen


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
