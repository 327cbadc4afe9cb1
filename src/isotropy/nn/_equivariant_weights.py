"""The spaces of all equivariant weights and biases between two representations."""

from __future__ import annotations

import torch
from torch import Tensor

from isotropy._run import require_memory
from isotropy.bases import Basis, equivariant_basis
from isotropy.nn._block_weights import BlockWeights
from isotropy.nn._row_products import RowProduct
from isotropy.nn._weight_spaces import OrbitWeights, WeightSpace
from isotropy.reps import Rep, Scalar
from isotropy.reps._layout import Layout, layout_of, without_duals


class BiasSpace(WeightSpace):
    """Vectors that the group leaves as they are: maps from the trivial representation."""

    def __init__(self, maps: WeightSpace) -> None:
        super().__init__()
        self.maps = maps
        self.shape = maps.shape[:1]
        self.rank = maps.rank

    def forward(self, coefficients: Tensor) -> Tensor:
        weight: Tensor = self.maps(coefficients)
        return weight.flatten()

    def coordinates(self, weight: Tensor) -> Tensor:
        return self.maps.coordinates(weight.unsqueeze(-1))

    def squared_lengths(self) -> Tensor:
        return self.maps.squared_lengths()

    def row_counts(self) -> Tensor:
        return self.maps.row_counts()

    def initial(
        self, dtype: torch.dtype | None = None, device: torch.device | str | None = None
    ) -> Tensor:
        return self.maps.initial(dtype, device)

    def products(self) -> list[RowProduct]:
        return self.maps.products()


def weight_space(rep_in: Rep, rep_out: Rep) -> WeightSpace:
    """The space of all equivariant linear maps between two bound representations.

    Permutation representations give shared weights, others a basis for each pair of terms.
    The space may be of rank 0.
    """
    layout_in, layout_out = layout_of(without_duals(rep_in)), layout_of(without_duals(rep_out))
    bases: dict[tuple[int, int], Basis] = {}
    for i, out in enumerate(layout_out.terms):
        for j, into in enumerate(layout_in.terms):
            basis = equivariant_basis(into.rep >> out.rep)
            if basis.rank:
                bases[i, j] = basis
    require_memory(
        16 * layout_in.size * layout_out.size,
        f"a weight matrix from {rep_in} to {rep_out}",
        "take fewer channels",
    )
    if bases and all(basis.orbits() is not None for basis in bases.values()):
        labels, signs = _labels(layout_in, layout_out, bases)
        return OrbitWeights(labels, signs, (layout_in, layout_out))
    return BlockWeights(layout_in, layout_out, bases)


def bias_space(rep: Rep) -> WeightSpace | None:
    """The space of invariant vectors; None where zero is the only one."""
    space = weight_space(Scalar, rep)
    return BiasSpace(space) if space.rank else None


def _labels(
    layout_in: Layout, layout_out: Layout, bases: dict[tuple[int, int], Basis]
) -> tuple[Tensor, Tensor | None]:
    """One label for every weight, from the orbits of each pair of terms."""
    labels = torch.full((layout_out.size, layout_in.size), -1)
    signs = torch.ones_like(labels, dtype=torch.int8)
    start = 0
    for (i, j), basis in bases.items():
        out, into = layout_out.terms[i], layout_in.terms[j]
        orbits = basis.orbits()
        assert orbits is not None
        copies = torch.arange(out.count * into.count).unsqueeze(-1) * orbits.rank
        numbered = torch.where(orbits.labels < 0, orbits.labels, start + copies + orbits.labels)
        boxes = [numbered]
        if orbits.signs is not None:
            boxes.append(orbits.signs.expand(len(copies), -1))
        placed = [
            box.reshape(out.count, into.count, out.size, into.size)
            .transpose(1, 2)
            .reshape(out.width, into.width)
            for box in boxes
        ]
        labels[out.columns, into.columns] = placed[0]
        if orbits.signs is not None:
            signs[out.columns, into.columns] = placed[1]
        start += len(copies) * orbits.rank
    if layout_out.order is not None:
        back = layout_out.order.argsort()
        labels, signs = labels[back], signs[back]
    if layout_in.order is not None:
        back = layout_in.order.argsort()
        labels, signs = labels[:, back], signs[:, back]
    return labels, None if bool((signs == 1).all()) else signs
