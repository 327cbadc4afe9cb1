"""A representation on chosen columns, or in another basis."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from isotropy.groups import Dense, Group, LinearMap, Monomial
from isotropy.groups._compound import BlockDiagonal, Chain
from isotropy.groups._group import require_invertible
from isotropy.groups._maps import Zero
from isotropy.reps._rep import Key, Rep, atom


class Selected(Rep):
    """An action on some columns of a wider table."""

    def __init__(self, inner: Rep, columns: tuple[int, ...], of: int) -> None:
        bad = [c for c in columns if isinstance(c, bool) or not isinstance(c, int)]
        if bad or len(set(columns)) != len(columns) or not all(0 <= c < of for c in columns):
            raise ValueError(
                f"expected distinct columns between 0 and {of - 1}, got {list(columns)}"
            )
        if inner.is_bound and inner.size() != len(columns):
            raise ValueError(
                f"expected {inner.size()} columns for {inner}, got {len(columns)}: {list(columns)}"
            )
        self.inner = inner
        self.columns = columns
        self.of = of

    def order(self) -> Tensor:
        """The column at each place of the layout: the selected ones first, then the rest."""
        chosen = set(self.columns)
        return torch.tensor([*self.columns, *(c for c in range(self.of) if c not in chosen)])

    def size(self) -> int:
        return self.of

    def _placed(self, inner: LinearMap, rest: LinearMap) -> LinearMap:
        spare = self.of - len(self.columns)
        block = BlockDiagonal((inner, rest), (1, spare)) if spare else inner
        place = Monomial(self.order())
        return Chain((place, block, place.inverse()))

    def _rho(self, g: Mapping[Group, LinearMap]) -> LinearMap:
        return self._placed(self.inner._rho(g), Monomial.identity(1))

    def _drho(self, a: Mapping[Group, LinearMap]) -> LinearMap:
        return self._placed(self.inner._drho(a), Zero(1))

    def _bind(self, group: Group) -> Rep:
        return Selected(self.inner._bind(group), self.columns, self.of)

    def _rebind(self, subgroups: Mapping[Group, Group]) -> Rep:
        return Selected(self.inner._rebind(subgroups), self.columns, self.of)

    @property
    def T(self) -> Rep:
        return Selected(self.inner.T, self.columns, self.of)

    def _leaf_groups(self) -> tuple[Group | None, ...]:
        return self.inner._leaf_groups()

    @property
    def is_complex(self) -> bool:
        return self.inner.is_complex

    def _key(self) -> Key:
        return ("on", self.inner._key(), self.columns, self.of)

    def _text(self, silent: Group | None) -> str:
        columns = ",".join(map(str, self.columns))
        return f"{atom(self.inner._text(silent))}.on([{columns}],{self.of})"


class Rebased(Rep):
    """An action in another basis: P ρ(g) P⁻¹."""

    def __init__(self, inner: Rep, change: LinearMap) -> None:
        require_invertible(change, "a change of basis")
        self._back = change.inverse()
        if inner.is_bound and inner.size() != change.size:
            raise ValueError(
                f"expected a change of basis of size {inner.size()} for {inner}, "
                f"got size {change.size}"
            )
        self.inner = inner
        self.change = change

    def size(self) -> int:
        return self.change.size

    def _moved(self, inner: LinearMap) -> LinearMap:
        return Chain((self.change, inner, self._back))

    def _rho(self, g: Mapping[Group, LinearMap]) -> LinearMap:
        return self._moved(self.inner._rho(g))

    def _drho(self, a: Mapping[Group, LinearMap]) -> LinearMap:
        return self._moved(self.inner._drho(a))

    def _bind(self, group: Group) -> Rep:
        return Rebased(self.inner._bind(group), self.change)

    def _rebind(self, subgroups: Mapping[Group, Group]) -> Rep:
        return Rebased(self.inner._rebind(subgroups), self.change)

    @property
    def T(self) -> Rep:
        # (P ρ P⁻¹)⁻ᵀ = P⁻ᵀ ρ⁻ᵀ Pᵀ
        back = self._back.transpose()
        return Rebased(self.inner.T, back if isinstance(back, Monomial) else Dense(back.dense()))

    def _leaf_groups(self) -> tuple[Group | None, ...]:
        return self.inner._leaf_groups()

    @property
    def is_complex(self) -> bool:
        return self.inner.is_complex or self.change.is_complex

    def _key(self) -> Key:
        kind = "change_basis" if self.change.by_value else "opaque"
        return (kind, self.inner._key(), self.change.value())

    def _text(self, silent: Group | None) -> str:
        if isinstance(self.change, Monomial) and self.change.sign is None:
            values = self.change.index
        else:
            values = self.change.dense()
        listed = str(values.tolist()).replace(" ", "")
        return f"{atom(self.inner._text(silent))}.change_basis({listed})"
