"""The elements of a finite group in their order, and convolutions by the table of their products.

Maps on a group G are (n, channels, |G|).
"""

from __future__ import annotations

import math
from functools import cached_property

import torch
from torch import Tensor

from isotropy.groups import Group, parse_group

LARGEST_GROUP = 2048  # a table has the square of it as entries, and a layer's matrix so many each


class GroupTable:
    """A finite group as a table: its elements are 0, 1, … in the order of ``group.elements()``.

    The identity is 0. A map on the group is a tensor (*, K) with an entry for each of the K
    elements, and the group acts on it by (g x)(h) = x(g⁻¹h), which is ``Regular(group)``.

    Args:
        group: A finite group, or its name.

    Attributes:
        group: The group.
        products: Which element ab is, shape (K, K) for (a, b).

    Raises:
        TypeError: If it is no group.
        ValueError: If the group is infinite or has more than 2048 elements.

    Example:
        >>> from isotropy.groups import S
        >>> from isotropy.reps import Regular
        >>> table = GroupTable(S(3))
        >>> table.order
        6
        >>> x = torch.randn(4, 2, 6, dtype=torch.float64)
        >>> moved = Regular(S(3)).rho(S(3).elements()[4]).apply(x)
        >>> torch.equal(table.move(x, 4), moved)
        True
    """

    def __init__(self, group: Group | str) -> None:
        self.group = _finite(parse_group(group) if isinstance(group, str) else group)
        self.products = _products(self.group)

    @property
    def order(self) -> int:
        """The number K of elements."""
        return len(self.products)

    @cached_property
    def inverses(self) -> Tensor:
        """Which element a⁻¹ is, shape (K,)."""
        return (self.products == 0).int().argmax(1)

    @cached_property
    def quotients(self) -> Tensor:
        """Which element g⁻¹h is, shape (K, K) for (h, g): that whose weight takes g to h."""
        return self.products[self.inverses].mT.contiguous()

    def sources(self, support: Tensor) -> Tensor:
        """Which element hk⁻¹ is, shape (K, |support|) for (h, k): that which k takes to h."""
        return self.products[:, self.inverses[support]]

    def move(self, x: Tensor, element: int) -> Tensor:
        """Maps (*, K) moved by one element g: (g x)(h) = x(g⁻¹h).

        Raises:
            ValueError: If there is no such element.
        """
        if not 0 <= element < self.order:
            raise ValueError(f"expected an element from 0 to {self.order - 1}, got {element}")
        return x[..., self.products[self.inverses[element]].to(x.device)]

    def places(self, subgroup: Group | str) -> Tensor:
        """Which elements are those of a subgroup, in the order of this table.

        Raises:
            TypeError: If it is no group.
            ValueError: If it is no subgroup.

        Example:
            >>> from isotropy.groups import D, Z
            >>> len(GroupTable(D(4)).places(Z(4)))
            4
        """
        subgroup = parse_group(subgroup) if isinstance(subgroup, str) else subgroup
        if not isinstance(subgroup, Group):
            raise TypeError(f"expected a group, got {type(subgroup).__name__}")
        found: list[int | None] = [None]
        if subgroup.d == self.group.d and not math.isinf(subgroup.order()):
            inside, elements = subgroup.elements(), self.group.element_table
            found = [elements.find(inside[at]) for at in range(len(inside))]
        places = [place for place in found if place is not None]
        if len(places) < len(found):
            raise ValueError(f"expected a subgroup of {self.group}, got {subgroup}")
        return torch.tensor(places).sort().values

    def representatives(self, subgroup: Tensor) -> Tensor:
        """The first element t of each coset Nt, so that every element is one product n t.

        Args:
            subgroup: The elements of N, as ``places`` has them.

        Example:
            >>> table = GroupTable("Z(6)")
            >>> table.representatives(table.places("Z(6)"))
            tensor([0])
        """
        firsts: Tensor = self.products[subgroup].amin(0).unique()
        return firsts

    def points(self) -> Tensor:
        """A point for each element, shape (K, d): elements that differ by a generator are near.

        They are the slowest waves on the group, eigenvectors of the Laplacian of the graph that
        joins a with ah for every generator h, divided by the square root of their eigenvalue: as
        few eigenspaces as tell all elements apart, those of the smallest eigenvalues. Such points
        are an orbit, p(g) = ρ(g) p(1), of a faithful orthogonal representation, so that
        |p(ga) − p(gb)| = |p(a) − p(b)|. Those of Z(n) are the corners of the regular n-gon. The
        group's own matrices would not do: a cyclic permutation has no neighbours among the others.

        Nearest elements are one unit apart. The identity is at the origin and every axis is
        determined by the first element off those before, so that the points of a group are the
        same wherever they are computed.

        Example:
            >>> torch.cdist(points := GroupTable("Z(4)").points(), points)[0].round(decimals=4)
            tensor([0.0000, 1.0000, 1.4142, 1.0000], dtype=torch.float64)
        """
        if self.order == 1:
            return torch.zeros(1, 1, dtype=torch.float64)
        values, vectors = torch.linalg.eigh(self._laplacian())
        values, waves = values[1:], vectors[:, 1:] / values[1:].sqrt()
        from_identity = waves - waves[0]
        nearest = from_identity[1:].square().cumsum(1).amin(0)
        whole = values.diff(append=values.new_full((1,), math.inf)) > 1e-8 * values[-1]
        enough = whole & (nearest > 1e-9 * nearest[-1])
        number = int(enough.int().argmax()) + 1
        return _in_frame(from_identity[:, :number] / nearest[number - 1].sqrt())

    def _laplacian(self) -> Tensor:
        elements = self.group.element_table
        steps = [int(elements.left_multiplication(h).index[0]) for h in self.group.discrete]
        joined = torch.zeros(self.order, self.order, dtype=torch.float64)
        for step in steps:
            if step:
                joined.scatter_(1, self.products[:, step, None], 1.0)
                joined.scatter_(1, self.products[:, self.inverses[step], None], 1.0)
        return joined.sum(1).diag() - joined


def convolved(x: Tensor, filters: Tensor, quotients: Tensor, *, depthwise: bool = False) -> Tensor:
    """Σ_c Σ_g θ(c', c, g⁻¹h) x(c, g), by one matrix for all samples, shape (n, C', |G|).

    Args:
        x: Maps, shape (n, C, |G|).
        filters: θ, shape (C', C, |G|), or (C, 1, |G|) where depthwise.
        quotients: Those of the table.
        depthwise: Whether each channel is made from its own alone.

    Example:
        >>> table = GroupTable("Z(3)")
        >>> convolved(torch.eye(3)[:, None], torch.tensor([[[5.0, 7, 9]]]), table.quotients)[0]
        tensor([[5., 7., 9.]])
    """
    matrix = filters.index_select(2, quotients.flatten()).unflatten(2, quotients.shape)
    if depthwise:
        return torch.einsum("ncg,chg->nch", x, matrix.squeeze(1))
    return torch.einsum("ncg,dchg->ndh", x, matrix)


def seen_by_each(x: Tensor, sources: Tensor) -> Tensor:
    """What each output h is made from: x(c, hk⁻¹), shape (n, C, |G|, |support|)."""
    seen: Tensor = x.index_select(2, sources.flatten()).unflatten(2, sources.shape)
    return seen


def combined(seen: Tensor, filters: Tensor, *, depthwise: bool = False) -> Tensor:
    """Σ_c Σ_k θ(c', c, k) x(c, hk⁻¹) from what is seen, shape (n, C', |G|)."""
    if depthwise:
        return torch.einsum("nchk,ck->nch", seen, filters.squeeze(1))
    return torch.einsum("nchk,dck->ndh", seen, filters)


def correlations(x: Tensor, sources: Tensor, *, depthwise: bool = False) -> Tensor:
    """Σ_n Σ_h x(c, hk⁻¹) x(d, hl⁻¹), shape (C, |G|, C, |G|) for (c, k, d, l).

    It depends on lk⁻¹ alone: the sum over h is taken for one k and serves all.

    Args:
        x: Maps, shape (n, C, |G|).
        sources: Those of the whole group.
        depthwise: Whether c = d alone is wanted, shape (C, |G|, |G|).
    """
    pairs = "ncg,nch->cgh" if depthwise else "ncg,ndh->cdgh"
    products = torch.einsum(pairs, x, x)
    lagged = products.gather(-1, sources.expand_as(products)).sum(-2)
    found = lagged[..., sources.mT]
    return found if depthwise else found.transpose(1, 2)


def _finite(group: object) -> Group:
    if not isinstance(group, Group):
        raise TypeError(f"expected a finite group, got {type(group).__name__}")
    order = group.order()
    if math.isinf(order):
        raise ValueError(f"expected a finite group, got {group.name:.80}")
    if order > LARGEST_GROUP:
        raise ValueError(
            f"expected a group of at most {LARGEST_GROUP} elements, whose products are listed, got "
            f"{group.name:.80} with {order}"
        )
    return group


def _products(group: Group) -> Tensor:
    """Rows L_a with L_a(b) = ab, from those of the generators: L_ha = L_h ∘ L_a."""
    elements = group.element_table
    by_generator = [elements.left_multiplication(h).index for h in group.discrete]
    order = len(elements)
    products = torch.empty(order, order, dtype=torch.int64)
    products[0] = torch.arange(order)
    known, at = [0], 0
    seen = {0}
    while at < len(known):
        row = products[known[at]]
        for times in by_generator:
            place = int(times[known[at]])
            if place not in seen:
                seen.add(place)
                known.append(place)
                products[place] = times[row]
        at += 1
    assert len(known) == order
    return products


def _in_frame(points: Tensor) -> Tensor:
    """Points in the frame that they themselves determine, one after the other (Gram–Schmidt)."""
    frame = points.new_zeros(0, points.shape[1])
    for point in points:
        rest = point - frame.mT @ (frame @ point)
        rest = rest - frame.mT @ (frame @ rest)
        if len(frame) < points.shape[1] and bool(rest.norm() > 1e-6 * point.norm()):
            frame = torch.cat([frame, (rest / rest.norm()).unsqueeze(0)])
    return points @ frame.mT
