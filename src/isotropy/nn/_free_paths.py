"""The flexible paths of softened vector layers: any linear map, any Swish."""

from __future__ import annotations

from math import sqrt

import torch
from torch import Tensor, nn
from torch.nn import functional

from isotropy.nn._coordinates import FlatSpace
from isotropy.nn._recorder import RecordedModule

SMALL = 1e-3


class FreeLinear(nn.Linear):
    """A ``torch.nn.Linear`` whose weights start small: it corrects another layer.

    Example:
        >>> layer = FreeLinear(100, 5, start=1e-3)
        >>> bool(layer.weight.abs().max() <= 1e-4)
        True
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        *,
        start: float = SMALL,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        self.start = start
        super().__init__(in_features, out_features, bias, device, dtype)

    def reset_parameters(self) -> None:
        """Draw new weights, as ``torch.nn.Linear`` does, times ``start``."""
        super().reset_parameters()
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.mul_(self.start)


class FrameLinear(RecordedModule):
    """Any linear map between two spaces, written in the coordinates of a frame.

    The coordinates are orthonormal: a prior N(0, σ²) on these weights is the same as one on the
    entries of the ordinary matrix.
    """

    def __init__(
        self,
        into: FlatSpace,
        out: FlatSpace,
        *,
        bias: bool,
        start: float = SMALL,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.into, self.out, self.start = into, out, start
        self.in_features, self.out_features = into.size, out.size
        shape = (out.size, into.size)
        self.weight = nn.Parameter(torch.empty(shape, device=device, dtype=dtype))
        empty = torch.empty(out.size, device=device, dtype=dtype) if bias else None
        self.bias = None if empty is None else nn.Parameter(empty)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new weights, as ``torch.nn.Linear`` does, times ``start``."""
        bound = self.start / sqrt(self.in_features)
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -bound, bound)

    def matrix(self) -> Tensor:
        """The ordinary matrix, which acts on rows, shape (out_features, in_features)."""
        by_output = self.into.rows(self.weight)  # columns are inputs
        return self.out.rows(by_output.mT).mT

    def forward(self, x: Tensor) -> Tensor:
        """Apply the map along the last axis, shape (*, in_features) to (*, out_features)."""
        lead = x.shape[:-1]
        flat = self.into.flat(x.reshape(-1, self.in_features))
        y = functional.linear(flat, self.weight, self.bias)
        self.note_all(flat, y, lead)
        return self.out.rows(y).reshape(*lead, self.out_features)

    def note_all(self, x: Tensor, y: Tensor, lead: tuple[int, ...]) -> None:
        """Note the product with flat features, whose rows had the shape ``lead``."""
        if not self._recording:
            return
        lead = tuple(lead) or (1,)

        def by_sample(rows: Tensor) -> Tensor:
            return rows.reshape(-1, *lead[1:], rows.shape[-1])

        axes = ("position",) * (len(lead) - 1)
        self.note("weight", x, y, axes=axes, spread=by_sample, gather=by_sample)
        if self.bias is not None:
            ones = y.new_ones(()).expand(len(y), 1)
            self.note("bias", ones, y, axes=axes, spread=by_sample, gather=by_sample)

    def extra_repr(self) -> str:
        """The widths, as ``print(layer)`` shows them."""
        return f"{self.in_features}, {self.out_features}, bias={self.bias is not None}"


class FreeSwish(RecordedModule):
    """w ⊙ swish(v), one weight for each column: the Swish that no group asked for.

    Beside a gated nonlinearity it makes a network able to be any multilayer perceptron (thesis
    3.4, footnote). Gates come first among the inputs, and are not looked at. In a network that
    works in the coordinates of a frame, columns are those of the frame.

    Args:
        features: The width of values and outputs.
        gates: How many gates there are.
        space: The coordinates to be pointwise in; those of the input where None.
        labels: Which weight each column has, shape (features,), 0, 1, … without gaps, −1 for
            none; one for each where None.
        start: The weights to begin with.
        device: Where the parameters live.
        dtype: Their precision.

    Example:
        >>> swish = FreeSwish(2, gates=1, start=0.5)
        >>> swish(torch.tensor([[9.0, 0.0, 1.0]]))
        tensor([[0.0000, 0.3655]], grad_fn=<MulBackward0>)
    """

    columns: Tensor | None
    labels: Tensor | None

    def __init__(
        self,
        features: int,
        gates: int = 0,
        *,
        space: FlatSpace | None = None,
        labels: Tensor | None = None,
        start: float = SMALL,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.gates, self.space, self.start = gates, space, start
        self.in_features, self.out_features = gates + features, features
        columns = None if labels is None else (labels >= 0).nonzero().flatten()
        self._keep("columns", columns)
        self._keep("labels", None if labels is None else labels[columns])
        count = features if labels is None else int(labels.max()) + 1
        self.weight = nn.Parameter(torch.empty(count, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Let all weights begin at ``start``."""
        nn.init.constant_(self.weight, self.start)

    def forward(self, x: Tensor) -> Tensor:
        """Map (*, gates + features) to (*, features)."""
        values = x[..., self.gates :]
        weight: Tensor = self.weight
        if self.space is not None:
            values = self.space.flat(values)
        if self.columns is not None and self.labels is not None:
            values = values.index_select(-1, self.columns)
            weight = weight.index_select(0, self.labels)
        bent = functional.silu(values)
        y = weight * bent
        self.note_all(bent, y, x.shape[:-1])
        if self.columns is not None:
            shape = (*y.shape[:-1], self.out_features)
            y = y.new_zeros(shape).index_copy(-1, self.columns, y)
        return y if self.space is None else self.space.rows(y)

    def note_all(self, bent: Tensor, y: Tensor, lead: tuple[int, ...]) -> None:
        """Note the product of weights and what Swish gave, whose rows had the shape ``lead``."""
        if not self._recording:
            return
        lead = tuple(lead) or (1,)
        sharing = () if self.labels is None else ("group",)
        slots = None if self.labels is None else _by_label(self.labels)

        def by_weight(rows: Tensor) -> Tensor:
            if slots is not None:
                rows = functional.pad(rows, (0, 1))[..., slots]
            return rows.reshape(-1, *lead[1:], *rows.shape[-1 - len(sharing) :], 1)

        self.note(
            "weight",
            bent,
            y,
            axes=("position",) * (len(lead) - 1) + sharing,
            spread=by_weight,
            gather=by_weight,
            entries=torch.arange(len(self.weight), device=y.device).reshape(-1, 1, 1),
            blocks=True,
            exact=True,
        )

    def extra_repr(self) -> str:
        """The widths, as ``print(layer)`` shows them."""
        return f"{self.out_features}, gates={self.gates}"


def _by_label(labels: Tensor) -> Tensor:
    """The places of each label, one label a column, filled up with a place beyond the last."""
    counts = labels.bincount()
    order = labels.argsort(stable=True)
    rank = (
        torch.arange(len(labels), device=labels.device) - (counts.cumsum(0) - counts)[labels[order]]
    )
    slots = torch.full((int(counts.max()), len(counts)), len(labels), device=labels.device)
    slots[rank, labels[order]] = order
    return slots
