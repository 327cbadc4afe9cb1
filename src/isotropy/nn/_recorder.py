"""What the layers of a network did: their linear operations, with inputs and outputs.

Curvature of a linear operation factorises into its input and the gradient at its output, so
whoever needs curvature asks for a record of both.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from isotropy.nn._constants import ExactConstants
from isotropy.nn._weight_spaces import WeightSpace


@dataclass(frozen=True)
class LinearOperation:
    """One use of a weight: ``output = input @ W.T (+ bias)`` along the last axes.

    Args:
        parameter: The full name of the parameter, as ``model.named_parameters`` has it.
        input: What came in, shape (*, in).
        output: What came out, shape (*, out), part of the graph when gradients are on.
        space: How W follows from the parameter; None where the parameter is W itself.
        bias: The full name of the bias parameter; None where there is none.
        bias_space: How the bias vector follows from it; None where it is the vector itself.
        transposed: Whether the parameter is stored as (in, out).
        scale: What the parameter is multiplied by to give W.
    """

    parameter: str
    input: Tensor
    output: Tensor
    space: WeightSpace | None = None
    bias: str | None = None
    bias_space: WeightSpace | None = None
    transposed: bool = False
    scale: float = 1.0


class RecordedModule(ExactConstants):
    """A layer that can tell of its linear operations.

    While a recording is on, ``_note`` keeps what it is told; otherwise it does nothing.
    """

    def __init__(self) -> None:
        super().__init__()
        self._record: list[LinearOperation] | None = None
        self._prefix = ""

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_record": None, "_prefix": ""}  # a copy records nothing

    def _note(
        self,
        parameter: str,
        x: Tensor,
        y: Tensor,
        *,
        space: WeightSpace | None = None,
        bias: str | None = None,
        bias_space: WeightSpace | None = None,
        transposed: bool = False,
        scale: float = 1.0,
    ) -> None:
        if self._record is not None:
            full_bias = None if bias is None else self._prefix + bias
            self._record.append(
                LinearOperation(
                    self._prefix + parameter, x, y, space, full_bias, bias_space, transposed, scale
                )
            )


@contextmanager
def record(model: nn.Module) -> Iterator[list[LinearOperation]]:
    """Keep every linear operation of our layers in ``model`` while the context is open.

    Layers of torch itself are not recorded; give those forward hooks.

    Args:
        model: A network.

    Yields:
        The operations, in the order in which they happened.

    Example:
        >>> import torch
        >>> from isotropy.groups import S
        >>> from isotropy.nn import Linear
        >>> from isotropy.reps import V
        >>> layer = Linear(V, V, S(4))
        >>> with record(layer) as operations:
        ...     y = layer(torch.randn(7, 4))
        >>> print({o.parameter: o.output.shape for o in operations})
        {'coefficients': torch.Size([7, 4])}
    """
    operations: list[LinearOperation] = []
    layers = [(n, m) for n, m in model.named_modules() if isinstance(m, RecordedModule)]
    before = [(layer, layer._record, layer._prefix) for _, layer in layers]
    for name, layer in layers:
        layer._record = operations
        layer._prefix = f"{name}." if name else ""
    try:
        yield operations
    finally:
        for layer, kept, prefix in before:
            layer._record, layer._prefix = kept, prefix
