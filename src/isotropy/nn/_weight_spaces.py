"""Linear spaces of weight matrices: from free coefficients to the matrix, and back.

A space holds no parameters. It maps coefficients β to a matrix W that commutes with the group
by construction, and any matrix to the coefficients of the nearest such one. Coefficients are in
weight units: one step of β moves the weights that it touches by about one step, so that
learning rates and priors mean what they mean for an ordinary layer.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from math import prod

import torch
from torch import Tensor

from isotropy._run import require_memory
from isotropy.bases import Basis, equivariant_basis
from isotropy.nn._constants import ExactConstants
from isotropy.reps import Layout, Rep, Scalar, Term, layout_of, without_duals

LARGEST_DENSE_BLOCK = 2_000_000
FEW_LABELS = 32  # for as many, products with their masks are faster than sums by index


@dataclass(frozen=True)
class RowProduct:
    """A share of W x: rows made of x, times a matrix that is made of coefficients alone.

    Args:
        entries: Where the coefficients of the matrix are, shape (out, in).
        spread: From inputs to rows, shape (*, rows, in); None where they are their own rows.
        gather: From outputs to the rows that this is a share of, shape (*, rows, out); None
            where they are their own rows.
        part: The place of the output term, or the kind of piece.
        axes: What the axis of the rows is called; nothing where there is no such axis.
        exact: Whether the matrix is all there is: one row of coefficients without structure.
    """

    entries: Tensor
    spread: Callable[[Tensor], Tensor] | None = None
    gather: Callable[[Tensor], Tensor] | None = None
    part: int = 0
    axes: tuple[str, ...] = ("group",)
    exact: bool = False


@dataclass(frozen=True)
class _Pair:
    """All maps between two terms.

    Args:
        entries: Where their coefficients are, shape (copies out, copies in · rank).
        rows: Every map on every copy, (*, copies, size in) to (*, size out, copies, rank).
    """

    entries: Tensor
    rows: Callable[[Tensor], Tensor]


def _products(
    layout_in: Layout, layout_out: Layout, pairs: Mapping[tuple[int, int], _Pair]
) -> list[RowProduct]:
    """One product for each output term that any map leads to: all of these maps side by side."""
    found = []
    for i, out in enumerate(layout_out.terms):
        own = {j: pair for (place, j), pair in pairs.items() if place == i}
        if own:
            terms = {layout_in.terms[j]: pair.rows for j, pair in own.items()}
            found.append(
                RowProduct(
                    torch.cat([pair.entries for pair in own.values()], 1),
                    partial(_spread, layout=layout_in, terms=terms),
                    partial(_gathered, layout=layout_out, term=out),
                    part=i,
                )
            )
    return found


def _spread(x: Tensor, layout: Layout, terms: dict[Term, Callable[[Tensor], Tensor]]) -> Tensor:
    return torch.cat(
        [rows(_copies(x, layout, term)).flatten(-2) for term, rows in terms.items()], -1
    )


def _gathered(y: Tensor, layout: Layout, term: Term) -> Tensor:
    return _copies(y, layout, term).mT


def _copies(x: Tensor, layout: Layout, term: Term) -> Tensor:
    """The copies of a term, (*, size of the space) to (*, copies, size)."""
    if layout.order is not None:
        x = x.index_select(-1, layout.order[term.columns].to(x.device))
    else:
        x = x[..., term.columns]
    copies: Tensor = x.unflatten(-1, (term.count, term.size))
    return copies


def _first_copy(layout: Layout, term: Term) -> Tensor:
    places = torch.arange(term.offset, term.offset + term.size)
    return places if layout.order is None else layout.order[places]


def _orbit_rows(x: Tensor, orbits: Callable[[Tensor], Tensor]) -> Tensor:
    return orbits(x).transpose(-3, -2)


def _orbit_sums(x: Tensor, labels: Tensor, signs: Tensor | None, rank: int) -> Tensor:
    """Σ_t ± x_t over the entries t of row s with each label, shape (*, t) to (*, s, rank)."""
    labels = labels.to(x.device)
    signs = None if signs is None else signs.to(x.device)
    if rank <= FEW_LABELS:
        masks = (labels == label for label in range(rank))
        signed = (mask if signs is None else mask * signs for mask in masks)
        return torch.stack([x @ mask.to(x.dtype).mT for mask in signed], -1)
    rows, columns = (labels >= 0).nonzero(as_tuple=True)
    values = x.index_select(-1, columns)
    values = values if signs is None else values * signs[rows, columns]
    sums = x.new_zeros(*x.shape[:-1], len(labels) * rank)
    sums = sums.index_add(-1, rows * rank + labels[rows, columns], values)
    by_row: Tensor = sums.unflatten(-1, (len(labels), rank))
    return by_row


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


class SharedWeights(WeightSpace):
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
        beta = torch.nn.functional.pad(coefficients, (0, 1)) if self.has_zeros else coefficients
        weight: Tensor = beta.index_select(-1, self._slots()).reshape(self.shape)
        return weight if self.signs is None else weight * self.signs

    def coordinates(self, weight: Tensor) -> Tensor:
        signed = weight if self.signs is None else weight * self.signs
        sums = weight.new_zeros(self.rank + 1).index_add(0, self._slots(), signed.flatten())
        return sums[: self.rank] / self.counts

    def row_counts(self) -> Tensor:
        return (self._exact["labels"] >= 0).reshape(self.shape[0], -1).sum(-1)

    def initial(
        self, dtype: torch.dtype | None = None, device: torch.device | str | None = None
    ) -> Tensor:
        labels = self._exact["labels"].flatten()
        rows = torch.arange(len(labels)) // max(1, prod(self.shape[1:]))
        fan_in = torch.zeros(self.rank)
        fan_in[labels[labels >= 0]] = self.row_counts()[rows[labels >= 0]].float()
        return drawn_by_fan_in(fan_in, dtype, device)

    def products(self) -> list[RowProduct]:
        if self.layouts is not None:
            return _products(*self.layouts, self._pairs(*self.layouts))
        labels, signs = self._exact["labels"], self._exact.get("signs")
        if labels.ndim == 1 and signs is None and torch.equal(labels, torch.arange(self.rank)):
            return [RowProduct(labels.unsqueeze(-1), axes=())]  # a plain bias
        labels = labels.reshape(len(labels), -1)
        signs = None if signs is None else signs.reshape(labels.shape)
        spread = partial(_orbit_sums, labels=labels, signs=signs, rank=self.rank)
        entries = torch.arange(self.rank).unsqueeze(0)
        return [RowProduct(entries, spread, partial(torch.unsqueeze, dim=-1), exact=True)]

    def _pairs(self, layout_in: Layout, layout_out: Layout) -> dict[tuple[int, int], _Pair]:
        """The orbits of each pair of terms, read off the labels of its first copies."""
        pairs: dict[tuple[int, int], _Pair] = {}
        for i, out in enumerate(layout_out.terms):
            rows = _first_copy(layout_out, out)
            for j, into in enumerate(layout_in.terms):
                box = rows.unsqueeze(-1), _first_copy(layout_in, into)
                labels = self._exact["labels"][box]
                if not bool((labels >= 0).any()):
                    continue
                start = int(labels[labels >= 0].min())
                rank = int(labels.max()) + 1 - start
                signs = None if self.signs is None else self._exact["signs"][box]
                labels = torch.where(labels < 0, labels, labels - start)
                orbits = partial(_orbit_sums, labels=labels, signs=signs, rank=rank)
                entries = start + torch.arange(out.count * into.count * rank)
                pairs[i, j] = _Pair(
                    entries.reshape(out.count, into.count * rank),
                    partial(_orbit_rows, orbits=orbits),
                )
        return pairs


def canonical(q: Tensor) -> Tensor:
    """Another orthonormal basis of the span of q (size × rank), the same whatever q spans it.

    Bases come out differently on other machines, and coefficients must mean the same there.
    """
    rng = torch.Generator().manual_seed(0)
    drawn = torch.randn(*q.shape, dtype=torch.float64, generator=rng).to(q.dtype)
    turned, triangle = torch.linalg.qr(q.mH @ drawn)
    basis: Tensor = q @ (turned * triangle.diagonal().sgn())
    return basis


class _Block:
    """All copies of the maps between two terms; β has shape (rank, copies out, copies in)."""

    def __init__(self, counts: tuple[int, int], sizes: tuple[int, int], basis: Basis) -> None:
        self.counts = counts
        self.sizes = sizes
        self.rank = prod(counts) * basis.rank
        self.basis_rank = basis.rank
        self.is_plain = sizes == (1, 1)
        entries = basis.size * basis.rank
        self.basis = None if entries <= LARGEST_DENSE_BLOCK else basis
        matrix = torch.empty(0, 0)
        if self.basis is None:
            matrix = canonical(basis.dense()).mT.contiguous()
        touched = self._touched(basis, matrix)
        # β = 1 throughout gives weights of root mean square 1 where they may differ from zero
        self.scale = (int(touched.sum()) / basis.rank) ** 0.5
        self.matrix = matrix * self.scale
        self.row_counts = counts[1] * touched.reshape(sizes).sum(-1).double()

    @staticmethod
    def _touched(basis: Basis, matrix: Tensor) -> Tensor:
        if matrix.numel():
            magnitude = matrix.abs().amax(0)
        else:
            rng = torch.Generator().manual_seed(0)
            beta = torch.randn(4, basis.rank, dtype=basis.dtype, generator=rng)
            magnitude = basis.combine(beta).abs().amax(0)
        return magnitude > 1e-10 * magnitude.max()

    def weight(self, beta: Tensor, matrix: Tensor) -> Tensor:
        (m_out, m_in), (s_out, s_in) = self.counts, self.sizes
        if self.is_plain:
            return (beta * matrix.flatten()).reshape(m_out, m_in)
        copies = beta.reshape(self.basis_rank, m_out * m_in)
        if self.basis is None:
            spread = matrix.mT @ copies
        else:
            spread = self.basis.combine(copies.mT).mT * self.scale
        spread = spread.reshape(s_out, s_in, m_out, m_in).permute(2, 0, 3, 1)
        weight: Tensor = spread.reshape(m_out * s_out, m_in * s_in)
        return weight

    def coordinates(self, weight: Tensor, matrix: Tensor) -> Tensor:
        (m_out, m_in), (s_out, s_in) = self.counts, self.sizes
        copies = weight.reshape(m_out, s_out, m_in, s_in).permute(0, 2, 1, 3)
        copies = copies.reshape(m_out * m_in, s_out * s_in)
        if self.basis is None:
            found = copies @ matrix.mH / self.scale**2
        else:
            found = self.basis.coordinates(copies) / self.scale
        coefficients: Tensor = found.mT.flatten()
        return coefficients

    def pair(self, start: int, matrix: Tensor) -> _Pair:
        """The same maps as coefficients from place ``start`` and what they multiply."""
        m_out, m_in = self.counts
        entries = start + torch.arange(self.rank).reshape(self.basis_rank, m_out, m_in)
        entries = entries.permute(1, 2, 0).reshape(m_out, m_in * self.basis_rank)
        return _Pair(entries, partial(self._rows, matrix=matrix))

    def _rows(self, x: Tensor, matrix: Tensor) -> Tensor:
        if self.basis is None:
            return torch.einsum("qst,...nt->...snq", matrix.unflatten(-1, self.sizes), x)
        found = []
        for one in torch.eye(self.basis_rank, dtype=x.dtype, device=x.device):
            # one map at a time: all of them are too many to be kept
            found.append(x @ (self.basis.combine(one) * self.scale).reshape(self.sizes).mT)
        return torch.stack(found, -1).transpose(-3, -2)


class BlockWeights(WeightSpace):
    """Weights between sums of representations: one small basis for each pair of terms.

    Args:
        layout_in: The terms of the inputs.
        layout_out: The terms of the outputs.
        bases: The equivariant maps between the terms of each pair, by their places; pairs
            with none are left out.
    """

    rows: Tensor | None
    rows_back: Tensor | None
    columns: Tensor | None
    columns_back: Tensor | None

    def __init__(
        self, layout_in: Layout, layout_out: Layout, bases: dict[tuple[int, int], Basis]
    ) -> None:
        super().__init__()
        self.shape = (layout_out.size, layout_in.size)
        self.layout_in, self.layout_out = layout_in, layout_out
        self.places = list(bases)
        self.blocks: list[_Block] = []
        for (i, j), basis in bases.items():
            out, into = layout_out.terms[i], layout_in.terms[j]
            block = _Block((out.count, into.count), (out.size, into.size), basis)
            self._keep(f"matrix_{i}_{j}", block.matrix)
            self.blocks.append(block)
        self.ranks = [block.rank for block in self.blocks]
        self.rank = sum(self.ranks)
        for side, layout in (("rows", layout_out), ("columns", layout_in)):
            order = layout.order
            self._keep(side, None if order is None else order.argsort())
            self._keep(f"{side}_back", order)

    def _pairs(self) -> list[tuple[tuple[int, int], _Block, Tensor]]:
        return [
            (place, block, getattr(self, f"matrix_{place[0]}_{place[1]}"))
            for place, block in zip(self.places, self.blocks, strict=True)
        ]

    def forward(self, coefficients: Tensor) -> Tensor:
        parts = coefficients.split(self.ranks)
        filled = {
            place: block.weight(beta, matrix)
            for (place, block, matrix), beta in zip(self._pairs(), parts, strict=True)
        }
        rows = []
        for i, out in enumerate(self.layout_out.terms):
            row = [
                filled[i, j] if (i, j) in filled else coefficients.new_zeros(out.width, into.width)
                for j, into in enumerate(self.layout_in.terms)
            ]
            rows.append(torch.cat(row, 1) if len(row) > 1 else row[0])
        weight = torch.cat(rows) if len(rows) > 1 else rows[0]
        if self.rows is not None:
            weight = weight.index_select(0, self.rows)
        return weight if self.columns is None else weight.index_select(1, self.columns)

    def coordinates(self, weight: Tensor) -> Tensor:
        if self.rows_back is not None:
            weight = weight.index_select(0, self.rows_back)
        if self.columns_back is not None:
            weight = weight.index_select(1, self.columns_back)
        parts = []
        for (i, j), block, matrix in self._pairs():
            rows, columns = self.layout_out.terms[i].columns, self.layout_in.terms[j].columns
            parts.append(block.coordinates(weight[rows, columns], matrix))
        return torch.cat(parts) if parts else weight.new_zeros(0)

    def row_counts(self) -> Tensor:
        counts = torch.zeros(self.shape[0], dtype=torch.float64)
        for (i, _), block, _ in self._pairs():
            # the mean over a term's components: they mix under the group
            counts[self.layout_out.terms[i].columns] += block.row_counts.mean()
        return counts if self.layout_out.order is None else counts[self.layout_out.order.argsort()]

    def initial(
        self, dtype: torch.dtype | None = None, device: torch.device | str | None = None
    ) -> Tensor:
        fans = [0.0] * len(self.layout_out.terms)
        for (i, _), block, _ in self._pairs():
            fans[i] += float(block.row_counts.mean())
        parts = [torch.full((b.rank,), fans[i]) for (i, _), b, _ in self._pairs()]
        return drawn_by_fan_in(torch.cat(parts) if parts else torch.zeros(0), dtype, device)

    def products(self) -> list[RowProduct]:
        starts = accumulate(self.ranks, initial=0)
        pairs = {
            place: block.pair(start, matrix)
            for (place, block, matrix), start in zip(self._pairs(), starts, strict=False)
        }
        return _products(self.layout_in, self.layout_out, pairs)


class BiasSpace(WeightSpace):
    """Vectors that the group leaves as they are: maps from the trivial representation.

    Args:
        maps: The space of matrices with one column.
    """

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
        return SharedWeights(labels, signs, (layout_in, layout_out))
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
