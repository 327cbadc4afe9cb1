"""What the layers of a network did: their linear operations, with inputs and outputs.

Curvature of a linear operation factorises into its input and the gradient at its output, so
whoever needs curvature asks for a record of both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from torch import Tensor

from isotropy.nn._constants import ExactConstants


@dataclass(frozen=True, eq=False)
class LinearOperation:
    """One use of a parameter θ as the weights of a linear map between rows.

        rows of output = rows of input @ W.T,    W = θ.flatten()[entries].

    Rows of the input have shape (samples, *axes, in), rows of the output (samples, *axes, out);
    with blocks, (samples, *axes, blocks, in) and (samples, *axes, blocks, out), and each block
    has a matrix of its own. What several operations make of one output adds up: a bias is an
    operation whose input is one. ``RecordedModule.note`` explains the other fields.

    Args:
        parameter: The full name of θ, as ``model.named_parameters`` has it.
        input: What came in, as the layer had it.
        output: What came out, as the layer has it; part of the graph when gradients are on.
    """

    parameter: str
    input: Tensor
    output: Tensor
    axes: tuple[str, ...] = ()
    spread: Callable[[Tensor], Tensor] | None = None
    gather: Callable[[Tensor], Tensor] | None = None
    entries: Tensor | None = None
    blocks: bool = False
    part: int = 0
    exact: bool = False
    gram: Callable[[Tensor], Tensor] | None = None

    def input_rows(self) -> Tensor:
        """The rows that the weights multiply, shape (samples, *axes, in), blocks before in."""
        return self.input if self.spread is None else self.spread(self.input)

    def gradient_rows(self, gradient: Tensor) -> Tensor:
        """The rows of a gradient at the output, shape (samples, *axes, out), blocks before out."""
        return gradient if self.gather is None else self.gather(gradient)


TorchOperations: TypeAlias = Iterator[tuple[str, Tensor, dict[str, Any]]]
"""How torch layers describe their linear operations: for each use of a parameter its name in the
layer, the input, and the rest of a ``LinearOperation``. The layer may lack the parameter."""


class Recording(list[LinearOperation]):
    """Operations in the order in which they happened."""

    def __init__(self, names: Mapping[str, str]) -> None:
        super().__init__()
        self._names = names

    def append(self, operation: LinearOperation) -> None:
        """Keep an operation, under the first name of its parameter."""
        name = self._names.get(operation.parameter, operation.parameter)
        same = name == operation.parameter
        super().append(operation if same else replace(operation, parameter=name))


class RecordedModule(ExactConstants):
    """A layer that notes its linear operations.

    While a recording is on, ``note`` keeps what it is given; otherwise it does nothing. A layer
    of your own becomes known to ``record``, and so to ``isotropy.evidence``, by inheriting from
    this class and noting each product with a parameter in ``forward``.

    Example:
        >>> import torch
        >>> from torch import nn
        >>> from isotropy.nn import record
        >>> class Scaled(RecordedModule):
        ...     def __init__(self) -> None:
        ...         super().__init__()
        ...         self.weight = nn.Parameter(torch.randn(2, 3))
        ...
        ...     def forward(self, x: Tensor) -> Tensor:
        ...         y = 5 * x @ self.weight.mT
        ...         self.note("weight", x, y, spread=lambda x: 5 * x)
        ...         return y
        >>> with record(layer := Scaled()) as operations:
        ...     y = layer(torch.randn(7, 3))
        >>> torch.allclose(y, operations[0].input_rows() @ layer.weight.mT)
        True
    """

    def __init__(self) -> None:
        super().__init__()
        self._record: Recording | None = None
        self._prefix = ""

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_record": None, "_prefix": ""}  # a copy records nothing

    @property
    def _known_names(self) -> list[str]:
        return [name for name, _ in self.named_parameters(remove_duplicate=False)]

    @property
    def _recording(self) -> bool:
        return self._record is not None

    def note(self, parameter: str, input: Tensor, output: Tensor, **about: Any) -> None:
        """Keep an operation of this layer while a recording is on.

        It is rows of input @ W.T = rows of output, W = θ.flatten()[entries]. Say of it, by name:

        - ``axes``: A name for each axis of rows along which the weights are shared: "space" for
          positions of a map, "position" for other axes of the input, "group" for things that a
          group permutes, "component" for components of vectors and tensors.
        - ``spread``: From the input to its rows, shape (samples, *axes, in), or with blocks
          (samples, *axes, blocks, in); by default it is its own. Whatever stands between parameter
          and weights (patches, a basis, a scale) goes in here.
        - ``gather``: From a gradient at the output to its rows, likewise; it may be given gradients
          of several passes at once, as if there were more samples.
        - ``entries``: Where the weights are in θ.flatten(), shape (out, in) or (blocks, out, in);
          by default θ, reshaped, is W.
        - ``blocks``: Whether there are blocks, each with a matrix of its own.
        - ``part``: Distinguishes operations on different entries of one parameter.
        - ``exact``: Whether the weights have no structure that factorises, so that curvature should
          be that of all entries together.
        - ``gram``: Computes Σ aaᵀ over all rows a of the input, shape (in, in) or (blocks, in, in),
          where there is a faster way than through the rows.

        Args:
            parameter: The name of the parameter within this layer.
            input: What came in.
            output: What came out.
            **about: Any of the above.

        Raises:
            ValueError: If this layer has no such parameter.
        """
        if self._record is not None:
            if parameter not in self._known_names:
                known = ", ".join(self._known_names) or "none"
                raise ValueError(
                    f"expected the name of a parameter of {type(self).__name__} ({known}), "
                    f"got {parameter!r}"
                )
            self._record.append(LinearOperation(self._prefix + parameter, input, output, **about))

    def note_bias(self, parameter: str, output: Tensor, axes: tuple[str, ...] = ()) -> None:
        """Keep the addition of a parameter, of the width of ``output``, to all its rows."""
        ones = output.new_ones(()).expand(*output.shape[:-1], 1)
        self.note(parameter, ones, output, axes=axes)
