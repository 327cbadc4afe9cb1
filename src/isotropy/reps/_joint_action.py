"""One group acting on several spaces at once, from its matrices on each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise, permutations

import torch
from torch import Tensor

from isotropy.groups import Group, MapLike, Z
from isotropy.groups._given import as_linear_map
from isotropy.reps._leaves import Block, Pseudoscalar, Scalar, V
from isotropy.reps._rep import Rep

_ZERO = 1e-12
_MOST_TRIED = 6  # columns of a block whose order is looked for


def joint_action(
    discrete: Sequence[Sequence[MapLike]], algebra: Sequence[Sequence[MapLike]] = ()
) -> tuple[Group, list[Rep]]:
    """The group that some matrices generate, and how it acts on each of several spaces.

    Columns that no generator mixes are split into blocks, so that equal ones are seen to be equal.
    The group is given on its different blocks, side by side.

    Args:
        discrete: For each discrete generator its matrix, or permutation, on each space.
        algebra: The same for a basis of the Lie algebra.

    Returns:
        The group, and its representation on each space. With a single generator of signs and
        exchanged pairs the group is Z(2), and they are written by ``Scalar``, ``Pseudoscalar`` and
        ``V``.

    Raises:
        ValueError: If there is no generator, or the sizes differ from one to the next.

    Example:
        >>> swap, signs = [1, 0, 2], [[-1.0, 0.0], [0.0, 1.0]]
        >>> group, (first, second) = joint_action([(swap, signs)])
        >>> print(group, first, second)
        Z(2) (V+Scalar)(Z(2)) (Pseudoscalar+Scalar)(Z(2))
    """
    h, a = ([_matrices(spaces) for spaces in given] for given in (discrete, algebra))
    sizes = {tuple(map(len, spaces)) for spaces in h + a}
    if not sizes:
        raise ValueError("expected at least one generator, got none")
    if len(sizes) != 1:
        raise ValueError(f"expected generators of one size on each space, got {sorted(sizes)}")
    whole = [[torch.block_diag(*spaces) for spaces in given] for given in (h, a)]
    group, pieces = _decomposed(*whole)
    reps = []
    for first, after in pairwise(accumulate(sizes.pop(), initial=0)):
        own = [
            (rep, [c - first for c in columns])
            for rep, columns in pieces
            if first <= columns[0] < after
        ]
        reps.append(_placed(own)(group))
    return group, reps


def _matrices(spaces: Iterable[MapLike]) -> tuple[Tensor, ...]:
    return tuple(as_linear_map(given).dense() for given in spaces)


def _placed(pieces: list[tuple[Rep, list[int]]]) -> Rep:
    """Pieces one kind after another, at their columns."""
    kinds = list(dict.fromkeys(rep for rep, _ in pieces))
    chosen = {kind: [columns for rep, columns in pieces if rep == kind] for kind in kinds}
    terms = [len(chosen[kind]) * kind for kind in kinds]
    order = [c for kind in kinds for columns in chosen[kind] for c in columns]
    together: Rep = sum(terms[1:], terms[0])
    return together if order == sorted(order) else together.on(order, len(order))


def _decomposed(
    discrete: list[Tensor], algebra: list[Tensor]
) -> tuple[Group, list[tuple[Rep, list[int]]]]:
    """The group on its distinct blocks, and the blocks of all columns."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    size = len((discrete + algebra)[0])
    linked = sum((m.abs() for m in discrete + algebra), torch.eye(size, dtype=torch.float64))
    links = csr_array((linked > _ZERO).numpy())
    labels = torch.from_numpy(connected_components(links, directed=False)[1]).long()
    known: list[tuple[list[Tensor], list[Tensor]]] = []
    found: list[tuple[int | None, list[int]]] = []
    for label in range(int(labels.max()) + 1):
        block = (labels == label).nonzero().flatten().tolist()
        cut = _cut(discrete, block), _cut(algebra, block)
        if len(block) == 1 and _is_trivial(*cut):
            found.append((None, block))
            continue
        place, order = _matched(known, *cut)
        if place is None:
            place, order = len(known), list(range(len(block)))
            known.append(cut)
        found.append((place, [block[i] for i in order]))
    group, kinds = _group_of(known, len(discrete), len(algebra))
    return group, [(Scalar if place is None else kinds[place], columns) for place, columns in found]


def _cut(matrices: list[Tensor], block: list[int]) -> list[Tensor]:
    columns = torch.tensor(block)
    return [matrix[columns[:, None], columns] for matrix in matrices]


def _is_trivial(discrete: list[Tensor], algebra: list[Tensor]) -> bool:
    return all(float(m[0, 0]) == 1 for m in discrete) and not any(map(torch.any, algebra))


def _matched(
    known: list[tuple[list[Tensor], list[Tensor]]], discrete: list[Tensor], algebra: list[Tensor]
) -> tuple[int | None, list[int]]:
    """A block met before that is this one up to the order of its columns, and that order."""
    for place, (old_discrete, old_algebra) in enumerate(known):
        olds, news = [*old_discrete, *old_algebra], [*discrete, *algebra]
        if len(olds[0]) != len(news[0]):
            continue
        places = range(len(news[0]))
        for order in permutations(places) if len(places) <= _MOST_TRIED else [places]:
            o = torch.tensor(list(order))
            if all(
                torch.allclose(old, new[o[:, None], o], atol=_ZERO)
                for old, new in zip(olds, news, strict=True)
            ):
                return place, list(order)
    return None, []


def _group_of(
    known: list[tuple[list[Tensor], list[Tensor]]], discrete: int, algebra: int
) -> tuple[Group, list[Rep]]:
    """The group on all distinct blocks side by side, and each block as a representation of it."""
    if not known:
        return Group(d=1), []
    if discrete == 1 and not algebra:
        of_two = [_of_two(h[0]) for h, _ in known]
        if all(rep is not None for rep in of_two):
            return Z(2), [rep for rep in of_two if rep is not None]
    h = [torch.block_diag(*(block[0][k] for block in known)) for k in range(discrete)]
    a = [torch.block_diag(*(block[1][k] for block in known)) for k in range(algebra)]
    starts, at = [], 0
    for left, right in known:
        width = len((left + right)[0])
        starts.append(Block(*range(at, at + width)))
        at += width
    return Group(h, a), starts


def _of_two(h: Tensor) -> Rep | None:
    """A block of an element of order two, in the terms of Z(2)."""
    swap = torch.tensor([[0.0, 1.0], [1.0, 0.0]], dtype=h.dtype)
    for matrix, rep in ((-swap[:1, 1:], Pseudoscalar), (swap, V), (-swap, V * Pseudoscalar)):
        if h.shape == matrix.shape and bool((h == matrix).all()):
            return rep
    return None
