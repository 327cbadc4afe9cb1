"""Linear layers whose weights live in a space of equivariant maps."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from isotropy.groups import Group
from isotropy.nn._module import bound, cast, floating_dtype
from isotropy.nn._parts import Parts, PartsModule, joined, split
from isotropy.nn._recorder import RecordedModule
from isotropy.nn._weight_spaces import (
    BlockWeights,
    Cluster,
    SharedWeights,
    WeightSpace,
    bias_space,
    weight_space,
)
from isotropy.reps import Rep


@dataclass
class _Kept:
    """Weights assembled once, for all calls within ``fixed_weights``."""

    matrices: tuple[Tensor, Tensor | None] | None = None
    clusters: list[tuple[Cluster, Tensor, Tensor | None]] | None = None


class StructuredLinear(RecordedModule):
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
        self._kept: _Kept | None = None
        cast(self, device, dtype)
        self.coefficients = nn.Parameter(torch.empty(weights.rank, device=device, dtype=dtype))
        empty = None if biases is None else torch.empty(biases.rank, device=device, dtype=dtype)
        self.bias_coefficients = None if empty is None else nn.Parameter(empty)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new weights: unit inputs give outputs of unit variance; biases start at zero."""
        with torch.no_grad():
            start = self.coefficients
            start.copy_(self.weight_space.initial(start.dtype, start.device))
            if self.bias_coefficients is not None:
                self.bias_coefficients.zero_()

    @property
    def weight(self) -> Tensor:
        """The matrix W, shape (out_features, in_features), as a function of the coefficients."""
        return self._matrices()[0]

    @property
    def bias(self) -> Tensor | None:
        """The vector b, shape (out_features,), or None."""
        return self._matrices()[1]

    def _matrices(self) -> tuple[Tensor, Tensor | None]:
        if self._kept is not None and self._kept.matrices is not None:
            return self._kept.matrices
        # the constants of a basis are not for reduced precision, whatever the product is in
        with torch.autocast(self.coefficients.device.type, enabled=False):
            weight = self.weight_space(self.coefficients)
            bias = None if self.bias_space is None else self.bias_space(self.bias_coefficients)
        if self._kept is not None:
            self._kept.matrices = (weight, bias)
        return weight, bias

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layer along the last axis, shape (*, in_features) to (*, out_features)."""
        self._require_width(x)
        weight, bias = self._matrices()
        y = functional.linear(x, weight, bias)
        self._note(
            "coefficients",
            x,
            y,
            space=self.weight_space,
            bias=None if bias is None else "bias_coefficients",
            bias_space=self.bias_space,
        )
        return y

    def _require_width(self, x: Tensor) -> None:
        if x.shape[-1:] != (self.in_features,):
            raise ValueError(
                f"expected inputs of width {self.in_features}, got shape {tuple(x.shape)}"
            )

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
        return {**self.__dict__, "_kept": None, "_record": None, "_prefix": ""}


class SharedLinear(StructuredLinear):
    """A linear layer that shares weights by label: W_ij = θ[label_ij].

    The layer of any permutation group, of a learned sharing pattern, of a group search: whoever
    has labels has a layer.

    Args:
        labels: An integer for every weight, shape (out, in): 0, 1, … without gaps; −1 for
            weights that stay zero.
        signs: ±1 for every weight; None where all are +1.
        bias: True for one free bias per output, False for none, or labels of shape (out,).
        device: Where the parameters live.
        dtype: Their precision.

    Raises:
        ValueError: If the labels are not such integers, or every weight is to stay zero.

    Example:
        >>> import torch
        >>> layer = SharedLinear(torch.tensor([[0, 1, 2], [2, 0, 1], [1, 2, 0]]), bias=False)
        >>> layer.coefficients.shape  # a circulant matrix
        torch.Size([3])
        >>> layer(torch.ones(5, 3)).shape
        torch.Size([5, 3])
    """

    def __init__(
        self,
        labels: Tensor,
        signs: Tensor | None = None,
        *,
        bias: bool | Tensor = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        labels = torch.as_tensor(labels)
        if labels.ndim != 2:
            raise ValueError(f"expected labels of shape (out, in), got {tuple(labels.shape)}")
        weights = SharedWeights(labels, signs)
        if weights.rank == 0:
            raise ValueError("expected a label for at least one weight, got -1 for all of them")
        self.out_features, self.in_features = labels.shape
        biases: WeightSpace | None = None
        if bias is not False:
            places = torch.arange(self.out_features) if bias is True else torch.as_tensor(bias)
            if places.shape != (self.out_features,):
                raise ValueError(
                    f"expected bias labels of shape ({self.out_features},), "
                    f"got {tuple(places.shape)}"
                )
            biases = SharedWeights(places)
        kind = torch.get_default_dtype() if dtype is None else dtype
        self._set_spaces(weights, biases, device, kind)

    def extra_repr(self) -> str:
        """Widths and the number of free weights, as ``print(layer)`` shows them."""
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"free_weights={self.weight_space.rank}, bias={self.bias_space is not None}"
        )


class Linear(StructuredLinear, PartsModule):
    """The general equivariant linear layer: all W with ρ_out(g) W = W ρ_in(g), all b = ρ_out(g) b.

    W is assembled once a call from the coefficients of its basis (thesis Eq. 2.6 and 2.5.1),
    by a gather for permutation representations and by small products elsewhere, and applied
    as one dense product. Complex representations have complex coefficients.

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
        rep_in: Rep,
        rep_out: Rep,
        group: Group | None = None,
        *,
        bias: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        rep_in, rep_out = bound(rep_in, rep_out, group)
        PartsModule.__init__(self, rep_in, rep_out)
        weights = weight_space(rep_in, rep_out)
        if weights.rank == 0:
            raise ValueError(
                f"expected two spaces with an equivariant linear map between them, got {rep_in} "
                f"and {rep_out}: zero is the only one"
            )
        self.with_bias = bias
        kind = floating_dtype(rep_in + rep_out, dtype)
        self._set_spaces(weights, bias_space(rep_out) if bias else None, device, kind)

    def on_parts(self, parts: Parts) -> Parts:
        """Apply the layer to the parts of its input, one product for each connected set of terms."""
        space = self.weight_space
        if self._record is not None or not isinstance(space, BlockWeights):
            flat = joined(parts)
            if self.layout_in.order is not None:
                flat = flat.index_select(-1, self.layout_in.order.argsort())
            y = StructuredLinear.forward(self, flat)
            if self.layout_out.order is not None:
                y = y.index_select(-1, self.layout_out.order)
            return split(y, self.layout_out)
        out: dict[int, Tensor] = {}
        for cluster, weight, bias in self._cluster_matrices():
            terms = [self.layout_out.terms[i] for i in cluster.targets]
            x = [parts[j].flatten(1) for j in cluster.sources]
            if x:
                y = functional.linear(torch.cat(x, 1) if len(x) > 1 else x[0], weight, bias)
            else:
                constant = weight.new_zeros(len(weight)) if bias is None else bias
                y = constant.expand(len(parts[0]), -1)
            for i, term, part in zip(
                cluster.targets, terms, y.split([term.width for term in terms], 1), strict=True
            ):
                out[i] = part.unflatten(1, (term.size, term.count))
        return [out[i] for i in range(len(out))]

    def _cluster_matrices(self) -> list[tuple[Cluster, Tensor, Tensor | None]]:
        assert isinstance(self.weight_space, BlockWeights)
        if self._kept is not None and self._kept.clusters is not None:
            return self._kept.clusters
        with torch.autocast(self.coefficients.device.type, enabled=False):
            weights = self.weight_space.by_cluster(self.coefficients)
            biases: list[Tensor | None] = [None] * len(weights)
            if self.bias_space is not None:
                flat = self.bias_space(self.bias_coefficients)
                if self.back is not None:
                    flat = flat.index_select(0, self.layout_out.order.to(flat.device))
                by_term = [part.flatten() for part in split(flat.unsqueeze(0), self.layout_out)]
                biases = [torch.cat([by_term[i] for i in c.targets]) for c, _ in weights]
        found = [(c, w, b) for (c, w), b in zip(weights, biases, strict=True)]
        if self._kept is not None:
            self._kept.clusters = found
        return found

    def _require_width(self, x: Tensor) -> None:
        PartsModule._require_width(self, x)


@contextmanager
def fixed_weights(model: nn.Module) -> Iterator[None]:
    """Assemble every weight matrix once, for all calls within the context.

    For loops that call a network many times between two steps of the optimiser, such as an
    integrator's. Gradients flow as ever; parameters must not change meanwhile.

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
    layers = [m for m in model.modules() if isinstance(m, StructuredLinear) and m._kept is None]
    try:
        for layer in layers:
            layer._kept = _Kept()
        yield
    finally:
        for layer in layers:
            layer._kept = None
