"""How the rows of a table move when a group permutes its columns."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from isotropy.groups import Group, LinearMap, Monomial
from isotropy.groups._given import as_linear_map
from isotropy.groups._maps import Zero
from isotropy.reps import Rep
from isotropy.reps._leaves import Leaf


class RowRep(Leaf):
    """The permutation of a table's rows that goes with a permutation of its columns.

    For an element g, row i goes to the row i' with table[i', g(j)] = table[i, j] for all j. Where
    every output of a layer has its own row of weights, the outputs move so. Rows of an identity
    matrix give the action of a group on some of its own coordinates.

    Args:
        name: How it is written; ``parse_rep`` reads it back when it is given.
        table: Integers, shape (rows, columns of the group), all rows distinct.
        group: The group, of permutations of the columns.

    Raises:
        ValueError: If two rows are equal, or an element does not permute the rows.

    Example:
        >>> from isotropy.groups import D
        >>> edges = RowRep("Edges", [[1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1], [1, 0, 0, 1]])
        >>> edges(D(4)).rho([1, 2, 3, 0]).apply(torch.tensor([1.0, 2.0, 3.0, 4.0]))
        tensor([4., 1., 2., 3.])
    """

    def __init__(self, name: str, table: ArrayLike, group: Group | None = None) -> None:
        # a permutation representation is its own dual
        super().__init__(group, dual=False)
        self.name = name
        given = np.asarray(table)
        rows: NDArray[np.int64] = np.unique(given, return_inverse=True)[1].reshape(given.shape)
        self.table = torch.as_tensor(rows)
        if len(np.unique(rows, axis=0)) < len(rows):
            raise ValueError("expected a table of distinct rows, got two that are equal")
        if group is not None and group.d != rows.shape[1]:
            raise ValueError(
                f"expected a table with the {group.d} columns of {group}, got {rows.shape[1]}"
            )

    def _name(self) -> str:
        return self.name

    def _with(self, group: Group | None, *, dual: bool) -> RowRep:
        del dual  # it is its own
        return RowRep(self.name, self.table.numpy(), group)

    @property
    def T(self) -> Rep:
        """Itself: permutations are orthogonal."""
        return self

    def size(self) -> int:
        """The number of rows."""
        return len(self.table)

    def _rho(self, g: Mapping[Group, LinearMap]) -> LinearMap:
        part = self._part(g)
        monomial = part.monomial()
        if monomial is None and not part.batch:
            monomial = as_linear_map(part.dense()).monomial()
        if monomial is None or monomial.sign is not None:
            raise ValueError(f"expected a permutation of {self._bound_group()}, got {part!r}")
        images = [self._image(index) for index in monomial.index.reshape(-1, monomial.size)]
        if not monomial.batch:
            return Monomial(images[0])
        flat = torch.stack(images) if images else torch.empty(0, dtype=torch.int64)
        return Monomial(flat.reshape(*monomial.batch, self.size()))

    def _image(self, index: Tensor) -> Tensor:
        """Where one permutation of the columns takes each row."""
        moved = torch.empty_like(self.table)
        moved[:, index] = self.table
        place = {row.tobytes(): i for i, row in enumerate(self.table.numpy())}
        images = [place.get(row.tobytes()) for row in moved.numpy()]
        if None in images:
            raise ValueError(
                f"expected an element that permutes the rows of {self.name}, got one that does not"
            )
        return torch.tensor(images)

    def _drho(self, a: Mapping[Group, LinearMap]) -> LinearMap:
        del a  # a group of permutations has no Lie algebra
        return Zero(self.size())

    def _kind(self) -> tuple[object, ...]:
        return (*super()._kind(), tuple(self.table.shape), self.table.numpy().tobytes())
