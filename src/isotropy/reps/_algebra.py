"""Direct sums and tensor products of representations (thesis Table 2.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from isotropy.groups import Group, LinearMap, Monomial
from isotropy.groups._compound import BlockDiagonal, Kron, KronSum
from isotropy.groups._maps import Zero
from isotropy.reps._rep import Key, Rep, atom


class Product(Rep):
    """The tensor product of factors; of none: the trivial representation, Scalar."""

    def __init__(self, factors: tuple[Rep, ...]) -> None:
        self.factors = factors

    @staticmethod
    def of(parts: Sequence[Rep]) -> Rep:
        """The product, with nested products opened up."""
        flat: list[Rep] = []
        for part in parts:
            flat.extend(part.factors if isinstance(part, Product) else [part])
        return flat[0] if len(flat) == 1 else Product(tuple(flat))

    def size(self) -> int:
        return prod(factor.size() for factor in self.factors)

    def _rho(self, g: Mapping[Group, LinearMap]) -> LinearMap:
        if not self.factors:
            return Monomial.identity(1)
        return Kron(tuple(factor._rho(g) for factor in self.factors))

    def _drho(self, a: Mapping[Group, LinearMap]) -> LinearMap:
        if not self.factors:
            return Zero(1)
        return KronSum(tuple(factor._drho(a) for factor in self.factors))

    def _bind(self, group: Group) -> Rep:
        return Product.of([factor._bind(group) for factor in self.factors])

    def _rebind(self, subgroups: Mapping[Group, Group]) -> Rep:
        return Product.of([factor._rebind(subgroups) for factor in self.factors])

    @property
    def T(self) -> Rep:
        return Product.of([factor.T for factor in self.factors])

    def _leaf_groups(self) -> tuple[Group | None, ...]:
        return tuple(g for factor in self.factors for g in factor._leaf_groups())

    @property
    def is_complex(self) -> bool:
        return any(factor.is_complex for factor in self.factors)

    def _key(self) -> Key:
        return ("product", *(factor._key() for factor in self.factors))

    def _text(self, silent: Group | None) -> str:
        from isotropy.reps._leaves import tensor_text

        return tensor_text(self.factors, silent) if self.factors else "Scalar"


class Sum(Rep):
    """The direct sum of terms, each with its number of copies."""

    def __init__(self, terms: tuple[tuple[int, Rep], ...]) -> None:
        self.terms = terms

    @staticmethod
    def of(terms: Sequence[tuple[int, Rep]]) -> Rep:
        """The sum, with nested sums opened up and equal neighbours counted."""
        flat: list[tuple[int, Rep]] = []
        for count, rep in terms:
            opened = rep.terms if count == 1 and isinstance(rep, Sum) else ((count, rep),)
            if isinstance(rep, Sum) and len(rep.terms) == 1:
                opened = ((count * rep.terms[0][0], rep.terms[0][1]),)
            for n, term in opened:
                if flat and flat[-1][1] == term:
                    flat[-1] = (flat[-1][0] + n, term)
                else:
                    flat.append((n, term))
        return flat[0][1] if len(flat) == 1 and flat[0][0] == 1 else Sum(tuple(flat))

    def size(self) -> int:
        return sum(count * term.size() for count, term in self.terms)

    def _rho(self, g: Mapping[Group, LinearMap]) -> LinearMap:
        return self._blocks([term._rho(g) for _, term in self.terms])

    def _drho(self, a: Mapping[Group, LinearMap]) -> LinearMap:
        return self._blocks([term._drho(a) for _, term in self.terms])

    def _blocks(self, blocks: list[LinearMap]) -> LinearMap:
        return BlockDiagonal(tuple(blocks), tuple(count for count, _ in self.terms))

    def _bind(self, group: Group) -> Rep:
        return Sum.of([(count, term._bind(group)) for count, term in self.terms])

    def _rebind(self, subgroups: Mapping[Group, Group]) -> Rep:
        return Sum.of([(count, term._rebind(subgroups)) for count, term in self.terms])

    @property
    def T(self) -> Rep:
        return Sum.of([(count, term.T) for count, term in self.terms])

    def _leaf_groups(self) -> tuple[Group | None, ...]:
        return tuple(g for _, term in self.terms for g in term._leaf_groups())

    @property
    def is_complex(self) -> bool:
        return any(term.is_complex for _, term in self.terms)

    def _key(self) -> Key:
        return ("sum", *((count, term._key()) for count, term in self.terms))

    def _text(self, silent: Group | None) -> str:
        parts = []
        for count, term in self.terms:
            text = term._text(silent)
            if count > 1:
                text = f"{count}*{atom(text)}"
            parts.append(text)
        return "+".join(parts)
