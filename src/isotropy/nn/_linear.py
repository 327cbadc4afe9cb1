"""Linear layers whose weights live in a space of equivariant maps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from isotropy.groups import Group
from isotropy.nn._coordinates import Parts
from isotropy.nn._equivariant_weights import bias_space, weight_space
from isotropy.nn._module import EquivariantModule, bound, cast, floating_dtype, require_rows
from isotropy.nn._recorder import RecordedModule
from isotropy.nn._row_products import RowProduct
from isotropy.nn._schur_frames import SchurFrame, frame_of
from isotropy.nn._schur_weights import SchurBias, SchurWeights
from isotropy.nn._weight_spaces import WeightSpace
from isotropy.reps import Rep


class KeptWeights(nn.Module):
    """A layer that builds its matrix anew in every call, unless ``fixed_weights`` keeps it."""

    _kept: tuple[Tensor, Tensor | None] | None

    @property
    def _assembles(self) -> bool:
        """Whether a call builds the whole matrix."""
        raise NotImplementedError

    def _matrices(self) -> tuple[Tensor, Tensor | None]:
        """Matrix and bias, kept or built."""
        raise NotImplementedError

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_kept": None}


class StructuredLinear(RecordedModule, KeptWeights):
    """y = W x + b with W and b in given linear spaces; only their coefficients are learned.

    Attributes:
        coefficients: The free parameters of W, in weight units.
        bias_coefficients: Those of b; None without bias.
        weight_space: From coefficients to W.
        bias_space: From coefficients to b; None without bias.
    """

    weight_space: WeightSpace
    bias_space: WeightSpace | None
    coefficients: nn.Parameter
    _gain = 1.0
    bias_coefficients: nn.Parameter | None
    in_features: int
    out_features: int

    def _set_spaces(
        self,
        weights: WeightSpace,
        biases: WeightSpace | None,
        device: torch.device | str | None,
        dtype: torch.dtype,
    ) -> None:
        self.weight_space, self.bias_space = weights, biases
        self._kept: tuple[Tensor, Tensor | None] | None = None
        cast(self, device, dtype)
        self.coefficients = nn.Parameter(torch.empty(weights.rank, device=device, dtype=dtype))
        empty = None if biases is None else torch.empty(biases.rank, device=device, dtype=dtype)
        self.bias_coefficients = None if empty is None else nn.Parameter(empty)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new weights, as ``torch.nn.Linear`` does from its fan-in; biases start at zero."""
        with torch.no_grad():
            start = self.coefficients
            start.copy_(self._gain * self.weight_space.initial(start.dtype, start.device))
            if self.bias_coefficients is not None:
                self.bias_coefficients.zero_()

    @property
    def _assembles(self) -> bool:
        """Whether a call builds the whole matrix W."""
        return not isinstance(self.weight_space, SchurWeights)

    @property
    def weight(self) -> Tensor:
        """The matrix W, shape (out_features, in_features), as a function of the coefficients."""
        return self._matrices()[0]

    @property
    def bias(self) -> Tensor | None:
        """The vector b, shape (out_features,), or None."""
        return self._matrices()[1]

    def _matrices(self) -> tuple[Tensor, Tensor | None]:
        if self._kept is not None:
            return self._kept
        # the constants of a basis are not for reduced precision, whatever the product is in
        with torch.autocast(self.coefficients.device.type, enabled=False):
            weight = self.weight_space(self.coefficients)
            bias = None if self.bias_space is None else self.bias_space(self.bias_coefficients)
        return weight, bias

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layer along the last axis, shape (*, in_features) to (*, out_features)."""
        self._require_width(x)
        weight, bias = self._matrices()
        y = functional.linear(x, weight, bias)
        if self._recording:
            for product in self.weight_space.products():
                self._note_product("coefficients", product, x, y, x.shape[:-1])
            if self.bias_space is not None:
                for product in self.bias_space.products():
                    self._note_bias_product(product, y, x.shape[:-1])
        return y

    def _note_bias_product(self, product: RowProduct, y: Tensor, lead: Sequence[int]) -> None:
        ones = y.new_ones(()).expand(*y.shape[:-1], 1)
        self._note_product("bias_coefficients", product, ones, y, lead)

    def _note_product(
        self, parameter: str, product: RowProduct, x: Tensor, y: Tensor, lead: Sequence[int]
    ) -> None:
        """Keep one product, whose samples and positions have the shape ``lead``."""
        lead = tuple(lead) or (1,)  # one vector is one sample
        own = len(product.axes) + 1
        self.note(
            parameter,
            x,
            y,
            axes=("position",) * (len(lead) - 1) + product.axes,
            spread=partial(_rows, make=product.spread, lead=lead, own=own),
            gather=partial(_rows, make=product.gather, lead=lead, own=own),
            entries=product.entries.to(y.device),
            part=product.part,
            exact=product.exact,
        )

    def _require_width(self, x: Tensor) -> None:
        require_rows(x, self.in_features, self.coefficients.dtype)

    def export(self) -> nn.Linear:
        """The same function as a plain ``torch.nn.Linear`` with weights of its own."""
        with torch.no_grad():
            weight, bias = self._matrices()
            plain = nn.Linear(
                self.in_features,
                self.out_features,
                bias=bias is not None,
                device=weight.device,
                dtype=weight.dtype,
            )
            plain.weight.copy_(weight)
            if bias is not None:
                plain.bias.copy_(bias)
        return plain

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.extra_repr()})"

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_kept": None}


def _rows(
    x: Tensor, make: Callable[[Tensor], Tensor] | None, lead: tuple[int, ...], own: int
) -> Tensor:
    """What ``make`` makes of x, its last ``own`` axes behind those of samples and positions."""
    rows = x if make is None else make(x)
    return rows.reshape(-1, *lead[1:], *rows.shape[-own:])


class Linear(StructuredLinear, EquivariantModule):  # type: ignore[misc] # export is a layer
    """The general equivariant linear layer: all W with ρ_out(g) W = W ρ_in(g), all b = ρ_out(g) b.

    Three forms, chosen by the representations. Permutations share weights by orbit: a gather and
    one dense product. Real orthogonal ones are taken to coordinates in which W is one small
    matrix for each kind of irreducible piece. Others assemble W from a basis for each pair of
    terms (thesis Eq. 2.6 and 2.5.1). Complex representations have complex coefficients.

    Args:
        rep_in: How the group acts on inputs.
        rep_out: How it acts on outputs.
        group: The group; not needed where the representations have theirs.
        bias: Whether to add an invariant vector (where there is one).
        device: Where the parameters live.
        dtype: Their precision.

    Raises:
        ValueError: If there is no equivariant map but zero, or no group.

    Example:
        >>> import torch
        >>> from isotropy.groups import O
        >>> from isotropy.reps import Scalar, V
        >>> layer = Linear(5 * Scalar + 5 * V, 2 * V * V, group=O(3))
        >>> layer.coefficients.shape  # a scalar times the identity
        torch.Size([10])
        >>> layer(torch.randn(8, 20)).shape
        torch.Size([8, 18])
    """

    def __init__(
        self,
        rep_in: Rep | str,
        rep_out: Rep | str,
        group: Group | str | None = None,
        *,
        bias: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        _frame: SchurFrame | None = None,
        _gain: float = 1.0,
    ) -> None:
        rep_in, rep_out = bound(rep_in, rep_out, group)
        EquivariantModule.__init__(self, rep_in, rep_out)
        frame = frame_of([rep_in, rep_out]) if _frame is None else _frame
        weights, biases = _spaces(rep_in, rep_out, frame)
        if weights.rank == 0:
            raise ValueError(
                f"expected two spaces with an equivariant linear map between them, got {rep_in} "
                f"and {rep_out}: zero is the only one"
            )
        self.with_bias = bias
        self._gain = _gain
        kind = floating_dtype(rep_in + rep_out, dtype)
        self._set_spaces(weights, biases if bias else None, device, kind)

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layer along the last axis, shape (*, in_features) to (*, out_features)."""
        space = self.weight_space
        if not isinstance(space, SchurWeights):
            return super().forward(x)
        self._require_width(x)
        lead = x.shape[:-1]
        parts = self.on_parts(space.into.parts(x.reshape(-1, self.in_features)), lead)
        return space.out.rows(parts).reshape(*lead, self.out_features)

    def on_parts(self, parts: Parts, lead: Sequence[int]) -> Parts:
        """Apply the layer in the coordinates of its frame.

        Args:
            parts: The features.
            lead: The shape that their rows had.
        """
        space = self.weight_space
        assert isinstance(space, SchurWeights)
        found = space.on_parts(parts, self.coefficients, self.bias_coefficients)
        if self._recording:
            for product in space.products():
                k = product.part
                self._note_product("coefficients", product, parts[k], found[k], lead)
            if self.bias_space is not None:
                for product in self.bias_space.products():
                    self._note_bias_product(product, found[product.part], lead)
        return found

    def _require_width(self, x: Tensor) -> None:
        require_rows(x, self.in_features, self.coefficients.dtype, self.rep_in)


def _spaces(
    rep_in: Rep, rep_out: Rep, frame: SchurFrame | None
) -> tuple[WeightSpace, WeightSpace | None]:
    if frame is None:
        return weight_space(rep_in, rep_out), bias_space(rep_out)
    biases = SchurBias(rep_out, frame)
    return SchurWeights(rep_in, rep_out, frame), biases if biases.rank else None


@contextmanager
def fixed_weights(model: nn.Module) -> Iterator[None]:
    """Assemble every weight matrix once, for all calls within the context.

    For loops that call a network many times between two steps of the optimiser, such as an
    integrator's. Gradients flow through all calls to the parameters, for one backward pass;
    parameters must not change meanwhile.

    Args:
        model: A network.

    Example:
        >>> import torch
        >>> from isotropy.groups import S
        >>> from isotropy.reps import V
        >>> layer = Linear(V, V, S(4))
        >>> with fixed_weights(layer):
        ...     layer.weight is layer.weight
        True
    """
    layers = [
        layer
        for layer in model.modules()
        if isinstance(layer, KeptWeights) and layer._kept is None and layer._assembles
    ]
    try:
        for layer in layers:
            layer._kept = layer._matrices()
        yield
    finally:
        for layer in layers:
            layer._kept = None
