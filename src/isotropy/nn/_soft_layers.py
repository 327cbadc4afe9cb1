"""Sums of a strict and a flexible linear layer that are computed as one product."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from isotropy.nn._coordinates import cat
from isotropy.nn._free_paths import FrameLinear, FreeSwish
from isotropy.nn._linear import KeptWeights, Linear, StructuredLinear
from isotropy.nn._path_sum import PathSum
from isotropy.nn._row_products import RowProduct
from isotropy.nn._schur_weights import SchurWeights

STRICT, FREE = "strict", "free"


class SoftLinear(PathSum, KeptWeights):
    """A sum of linear layers with matrices of their own, which are added up first."""

    def __init__(
        self,
        strict: nn.Module,
        free: nn.Module,
        *,
        prior_variances: Mapping[str, float] | None = None,
        squared_lengths: Mapping[str, Mapping[str, Tensor | float]] | None = None,
    ) -> None:
        super().__init__(
            {STRICT: strict, FREE: free},
            prior_variances=prior_variances,
            squared_lengths=squared_lengths,
        )
        self._kept: tuple[Tensor, Tensor | None] | None = None

    @property
    def _assembles(self) -> bool:
        return all(
            path._assembles if isinstance(path, StructuredLinear) else isinstance(path, nn.Linear)
            for path in self.paths.values()
        )

    def _matrices(self) -> tuple[Tensor, Tensor | None]:
        if self._kept is not None:
            return self._kept
        weights: list[Tensor] = []
        biases: list[Tensor] = []
        path: Any
        for path in self.paths.values():
            weight, bias = (
                path._matrices() if isinstance(path, StructuredLinear) else (path.weight, path.bias)
            )
            weights.append(weight)
            biases += [] if bias is None else [bias]
        bias = sum(biases[1:], biases[0]) if biases else None
        return sum(weights[1:], weights[0]), bias

    @property
    def _is_recording(self) -> bool:
        # torch's own layers are listened to through hooks, which a fused product would not call
        return any(bool(path._forward_hooks) for path in self.paths.values()) or any(
            isinstance(path, StructuredLinear) and path._recording for path in self.paths.values()
        )

    def forward(self, x: Tensor) -> Tensor:
        """Apply the sum along the last axis, shape (*, in_features) to (*, out_features)."""
        if not self._assembles or self._is_recording:
            return super().forward(x)
        strict = self.paths[STRICT]
        if isinstance(strict, StructuredLinear):
            strict._require_width(x)
        return functional.linear(x, *self._matrices())


class SoftFrameLinear(SoftLinear):
    """A sum of an equivariant and a free layer in one frame: one dense product.

    In the coordinates of a frame an equivariant map is one number in many places (Schur's lemma).
    These are added to the dense matrix, which then costs what a free layer costs.
    """

    places: Tensor
    labels: Tensor
    values: Tensor | None
    bias_places: Tensor | None

    def __init__(self, strict: Linear, free: FrameLinear, **priors: Any) -> None:
        super().__init__(strict, free, **priors)
        space = strict.weight_space
        assert isinstance(space, SchurWeights)
        into, out = free.into.places(), free.out.places()
        self._kinds = {k: (into[k], out[k]) for k in space.kinds}
        places, labels, values = _entries(space, into, out, free.in_features)
        ones = bool((values == 1).all())
        constants = {
            "places": places,
            "labels": labels,
            "values": None if ones else values.to(free.weight.dtype),
            "bias_places": None if strict.bias_coefficients is None else out[0].flatten(),
        }
        for name, constant in constants.items():
            moved = None if constant is None else constant.to(free.weight.device)
            self.register_buffer(name, moved, persistent=False)

    @property
    def strict(self) -> Linear:
        """The equivariant path."""
        path = self.paths[STRICT]
        assert isinstance(path, Linear)
        return path

    @property
    def free(self) -> FrameLinear:
        """The free path."""
        path = self.paths[FREE]
        assert isinstance(path, FrameLinear)
        return path

    @property
    def _assembles(self) -> bool:
        return True

    def _matrices(self) -> tuple[Tensor, Tensor | None]:
        """The whole matrix and bias in the coordinates of the frame."""
        if self._kept is not None:
            return self._kept
        strict, free = self.strict, self.free
        entries = strict.coefficients.index_select(0, self.labels)
        if self.values is not None:
            entries = entries * self.values
        weight = free.weight.flatten().index_add(0, self.places, entries).view_as(free.weight)
        bias: Tensor | None = free.bias
        if strict.bias_coefficients is not None and self.bias_places is not None:
            start = weight.new_zeros(free.out_features) if bias is None else bias
            bias = start.index_add(0, self.bias_places, strict.bias_coefficients)
        return weight, bias

    def on_flat(self, x: Tensor, lead: Sequence[int]) -> Tensor:
        """Apply the sum to flat features."""
        y = functional.linear(x, *self._matrices())
        if self.strict._recording:
            self._note_all(x, y, tuple(lead))
        return y

    def forward(self, x: Tensor) -> Tensor:
        """Apply the sum along the last axis, shape (*, in_features) to (*, out_features)."""
        self.strict._require_width(x)
        lead, free = x.shape[:-1], self.free
        flat = free.into.flat(x.reshape(-1, free.in_features))
        return free.out.rows(self.on_flat(flat, lead)).reshape(*lead, free.out_features)

    def _note_all(self, x: Tensor, y: Tensor, lead: tuple[int, ...]) -> None:
        strict = self.strict
        self.free.note_all(x, y, lead)
        space = strict.weight_space
        assert isinstance(space, SchurWeights)
        for product in space.products():
            into, out = (p.to(x.device) for p in self._kinds[product.part])
            spread = partial(_columns, places=into, then=product.spread)
            moved = RowProduct(
                product.entries, spread, partial(_columns, places=out), part=product.part
            )
            strict._note_product("coefficients", moved, x, y, lead)
        if strict.bias_space is not None and self.bias_places is not None:
            (product,) = strict.bias_space.products()
            places = self.bias_places.unsqueeze(0)
            own = RowProduct(
                product.entries, partial(torch.unsqueeze, dim=-2), partial(_columns, places=places)
            )
            strict._note_bias_product(own, y, lead)


def _columns(x: Tensor, places: Tensor, then: object = None) -> Tensor:
    """The columns of flat features at places (d, n): shape (rows, d, n)."""
    found = x[:, places]
    return then(found) if callable(then) else found


def _entries(
    space: SchurWeights, into: dict[int, Tensor], out: dict[int, Tensor], width: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Places in the flat matrix, the coefficient that goes to each, and its factor there."""
    places, labels, values, start = [], [], [], 0
    for k, count, rank in zip(space.kinds, space.unit_counts, space.ranks, strict=True):
        columns, rows = into[k], out[k]  # (d, copies in), (d, copies out)
        d, copies = columns.shape
        units = space._exact[f"units_{k}"] if count > 1 else torch.eye(d).unsqueeze(0)
        number = start + torch.arange(rank).reshape(rows.shape[1], count, copies)
        for u, i, j in units.nonzero().tolist():
            at = rows[i].unsqueeze(1) * width + columns[j]
            places.append(at.flatten())
            labels.append(number[:, u].flatten())
            values.append(torch.full((at.numel(),), float(units[u, i, j])))
        start += rank
    nothing = torch.zeros(0, dtype=torch.int64)
    if not places:
        return nothing, nothing, torch.zeros(0)
    return torch.cat(places), torch.cat(labels), torch.cat(values)


def soft_gated(
    nonlinearity: nn.Module,
    values: Mapping[int, Tensor],
    gates: Mapping[int, Tensor],
    lead: Sequence[int],
) -> Tensor:
    """A gated nonlinearity, and a free Swish beside it, on objects of all terms: flat features.

    Args:
        nonlinearity: Their sum, or the gated one alone.
        values: The objects of each term in order, shape (rows, size, copies).
        gates: The gates of terms that have some, shape (rows, copies).
        lead: The shape that the rows had.
    """
    free = free_swish(nonlinearity)
    if free is None:
        return cat([_gated(v, gates.get(t)) for t, v in values.items()], -1)
    if free._recording:
        every = cat([functional.silu(v).flatten(1) for v in values.values()], -1)
        corrected = free.weight * every
        free.note_all(every, corrected, tuple(lead))
        return cat([_gated(v, gates.get(t)) for t, v in values.items()], -1) + corrected
    found = []
    weights = free.weight.split([v.shape[1] * v.shape[2] for v in values.values()])
    for (t, v), weight in zip(values.items(), weights, strict=True):
        weight = weight.view(v.shape[1:])
        if t in gates:
            y = torch.addcmul(v * gates[t].sigmoid().unsqueeze(1), functional.silu(v), weight)
        else:
            y = functional.silu(v) * (1 + weight)
        found.append(y.flatten(1))
    return cat(found, -1)


def free_swish(nonlinearity: nn.Module) -> FreeSwish | None:
    """The Swish that stands beside a nonlinearity, if there is one."""
    free = nonlinearity.paths[FREE] if isinstance(nonlinearity, PathSum) else None
    return free if isinstance(free, FreeSwish) else None


def _gated(v: Tensor, gate: Tensor | None) -> Tensor:
    y = functional.silu(v) if gate is None else v * gate.sigmoid().unsqueeze(1)
    return y.flatten(1)


class Slot(NamedTuple):
    """Some neighbouring features that a linear layer gives."""

    width: int
    term: int
    is_gate: bool
