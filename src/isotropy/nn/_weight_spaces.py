"""Linear spaces of weight matrices: from free coefficients to the matrix, and back.

A space holds no parameters. It maps coefficients β to a matrix W that commutes with the group
by construction, and any matrix to the coefficients of the nearest such one. Coefficients are in
weight units: one step of β moves the weights that it touches by about one step, so that
learning rates and priors mean what they mean for an ordinary layer.
"""

from __future__ import annotations

from abc import abstractmethod
from functools import partial
from math import prod

import torch
from torch import Tensor

from isotropy.nn._constants import ExactConstants
from isotropy.nn._row_products import (
    Pair,
    RowProduct,
    first_copy,
    orbit_rows,
    orbit_sums,
    row_products,
)
from isotropy.reps._layout import Layout


class WeightSpace(ExactConstants):
    """A linear space of matrices W (out × in), or of vectors (out,).

    Attributes:
        shape: The shape of W.
        rank: The number of coefficients.
    """

    shape: tuple[int, ...]
    rank: int

    @abstractmethod
    def forward(self, coefficients: Tensor) -> Tensor:
        """The matrix with these coefficients."""

    @abstractmethod
    def coordinates(self, weight: Tensor) -> Tensor:
        """The coefficients of the matrix of this space that is nearest to ``weight``."""

    @abstractmethod
    def initial(
        self, dtype: torch.dtype | None = None, device: torch.device | str | None = None
    ) -> Tensor:
        """Random coefficients, as ``torch.nn.Linear`` draws its weights: ±1/√fan-in."""

    @abstractmethod
    def row_counts(self) -> Tensor:
        """How many weights that can differ from zero lead to each output: the fan-in, (out,)."""

    @abstractmethod
    def squared_lengths(self) -> Tensor:
        """‖W‖² for one unit of each coefficient alone, shape (rank,).

        The matrices of different coefficients are orthogonal, so that ‖W(β)‖² = Σ cᵢ|βᵢ|².
        """

    @abstractmethod
    def products(self) -> list[RowProduct]:
        """W x as products of rows with coefficients; vectors are maps of the number one."""

    def right_inverse(self, weight: Tensor) -> Tensor:
        """As ``coordinates``; the name under which torch's parametrisations ask for it."""
        return self.coordinates(weight)


def drawn_by_fan_in(
    fan_in: Tensor, dtype: torch.dtype | None, device: torch.device | str | None
) -> Tensor:
    """Numbers drawn uniformly from ±1/√fan-in; complex ones with that variance."""
    bound = fan_in.clamp_min(1).rsqrt()
    if dtype is not None and dtype.is_complex:
        beta = torch.randn(len(fan_in), dtype=dtype, device=device) / 3**0.5
    else:
        beta = 2 * torch.rand(len(fan_in), dtype=dtype, device=device) - 1
    return beta * bound.to(beta.device, beta.dtype)


class OrbitWeights(WeightSpace):
    """Weights that are equal wherever their labels are: W_ij = ± β[label_ij].

    Args:
        labels: An integer for every weight, 0 … rank−1, or −1 for weights that stay zero.
        signs: ±1 for every weight, or None where all are +1.
        layouts: The terms of inputs and of outputs, where every pair of their copies has labels
            of its own; None where nothing is known of the labels.
    """

    labels: Tensor
    counts: Tensor
    signs: Tensor | None

    def __init__(
        self,
        labels: Tensor,
        signs: Tensor | None = None,
        layouts: tuple[Layout, Layout] | None = None,
    ) -> None:
        super().__init__()
        self.layouts = layouts
        labels = torch.as_tensor(labels)
        if labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool:
            raise ValueError(f"expected integer labels, got {labels.dtype}")
        labels = labels.long()
        if labels.numel() == 0 or int(labels.min()) < -1:
            raise ValueError(
                "expected a label 0, 1, … for every weight, or -1 for zero, "
                f"got {'none' if labels.numel() == 0 else int(labels.min())}"
            )
        self.rank = int(labels.max()) + 1
        counts = torch.bincount(labels[labels >= 0].flatten(), minlength=self.rank)
        if self.rank and not bool((counts > 0).all()):
            unused = int((counts == 0).nonzero()[0])
            raise ValueError(
                f"expected every label up to {self.rank - 1} to be used, got none with {unused}"
            )
        self.shape = tuple(labels.shape)
        self.has_zeros = bool((labels < 0).any())
        places = torch.arange(labels.numel()).reshape(labels.shape)
        self._is_free = signs is None and torch.equal(labels.cpu(), places)
        self._keep("labels", labels)
        self._keep("counts", counts)
        if signs is None:
            self.signs = None
        else:
            signs = torch.as_tensor(signs)
            if signs.shape != labels.shape or not bool((signs.abs() == 1).all()):
                raise ValueError(
                    f"expected signs ±1 of shape {tuple(labels.shape)}, "
                    f"got shape {tuple(signs.shape)}"
                )
            self._keep("signs", signs.to(torch.int8))

    def _slots(self) -> Tensor:
        """Labels with the vanishing weights sent to one slot beyond the last."""
        flat = self.labels.flatten()
        return torch.where(flat < 0, self.rank, flat) if self.has_zeros else flat

    def forward(self, coefficients: Tensor) -> Tensor:
        if self._is_free:
            return coefficients.reshape(self.shape).clone()  # no view of what may be set in place
        beta = torch.nn.functional.pad(coefficients, (0, 1)) if self.has_zeros else coefficients
        weight: Tensor = beta.index_select(-1, self._slots()).reshape(self.shape)
        return weight if self.signs is None else weight * self.signs

    def coordinates(self, weight: Tensor) -> Tensor:
        signed = weight if self.signs is None else weight * self.signs
        sums = weight.new_zeros(self.rank + 1).index_add(0, self._slots(), signed.flatten())
        return sums[: self.rank] / self.counts

    def squared_lengths(self) -> Tensor:
        return self._exact["counts"].double()

    def row_counts(self) -> Tensor:
        return (self._exact["labels"] >= 0).reshape(self.shape[0], -1).sum(-1)

    def initial(
        self, dtype: torch.dtype | None = None, device: torch.device | str | None = None
    ) -> Tensor:
        labels = self._exact["labels"].flatten()
        rows = torch.arange(len(labels)) // max(1, prod(self.shape[1:]))
        counts = self.row_counts().to(torch.get_default_dtype())
        fan_in = torch.zeros(self.rank)
        fan_in[labels[labels >= 0]] = counts[rows[labels >= 0]]
        return drawn_by_fan_in(fan_in, dtype, device)

    def products(self) -> list[RowProduct]:
        if self.layouts is not None:
            return row_products(*self.layouts, self._pairs(*self.layouts), "group")
        labels, signs = self._exact["labels"], self._exact.get("signs")
        if labels.ndim == 1 and signs is None and torch.equal(labels, torch.arange(self.rank)):
            return [RowProduct(labels.unsqueeze(-1), axes=())]  # a plain bias
        labels = labels.reshape(len(labels), -1)
        signs = None if signs is None else signs.reshape(labels.shape)
        spread = partial(orbit_sums, labels=labels, signs=signs, rank=self.rank)
        entries = torch.arange(self.rank).unsqueeze(0)
        return [
            RowProduct(
                entries, spread, partial(torch.unsqueeze, dim=-1), axes=("group",), exact=True
            )
        ]

    def _pairs(self, layout_in: Layout, layout_out: Layout) -> dict[tuple[int, int], Pair]:
        """The orbits of each pair of terms, read off the labels of its first copies."""
        pairs: dict[tuple[int, int], Pair] = {}
        for i, out in enumerate(layout_out.terms):
            rows = first_copy(layout_out, out)
            for j, into in enumerate(layout_in.terms):
                box = rows.unsqueeze(-1), first_copy(layout_in, into)
                labels = self._exact["labels"][box]
                if not bool((labels >= 0).any()):
                    continue
                start = int(labels[labels >= 0].min())
                rank = int(labels.max()) + 1 - start
                signs = None if self.signs is None else self._exact["signs"][box]
                labels = torch.where(labels < 0, labels, labels - start)
                orbits = partial(orbit_sums, labels=labels, signs=signs, rank=rank)
                entries = start + torch.arange(out.count * into.count * rank)
                pairs[i, j] = Pair(
                    entries.reshape(out.count, into.count * rank),
                    partial(orbit_rows, orbits=orbits),
                )
        return pairs
