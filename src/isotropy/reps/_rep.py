"""Representations: how a group acts, and the algebra of such actions (thesis Table 2.1)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from torch import Tensor

from isotropy.groups import DirectProduct, Group, LinearMap
from isotropy.groups._finite import require_subgroup
from isotropy.groups._given import as_linear_map
from isotropy.reps._elements import parts_of_algebra, parts_of_element

Key: TypeAlias = tuple[Any, ...]


class Rep(ABC):
    """A representation ρ of a group, or the plan of one before it is given its group.

    Built from ``V``, ``Scalar``, ``Pseudoscalar``, ``Regular`` and ``T(p, q)`` with ``+``
    (direct sum), ``*`` (tensor product; ``n * rep`` for n copies), ``**``, ``.T`` (dual) and
    ``>>`` (linear maps from left to right). Calling it with a group binds it:

        >>> from isotropy.groups import SO
        >>> from isotropy.reps import Scalar, V
        >>> rep = (2 * V + Scalar)(SO(3))
        >>> rep.size()
        7
        >>> print(rep, "|", V >> V, "|", V**3)
        (2*V+Scalar)(SO(3)) | T(1,1) | T(3)

    Immutable, hashable, compared by value. ``str`` parses back through ``parse_rep``.
    """

    def __setattr__(self, name: str, value: object) -> None:
        if name in self.__dict__:
            raise AttributeError(f"representations are immutable; cannot set {name!r}")
        super().__setattr__(name, value)

    # --- to be given by each kind ---------------------------------------------------------

    @abstractmethod
    def size(self) -> int:
        """The dimension of the space acted on."""

    @abstractmethod
    def _rho(self, g: Mapping[Group, LinearMap]) -> LinearMap:
        """ρ of the element with these parts in each group."""

    @abstractmethod
    def _drho(self, a: Mapping[Group, LinearMap]) -> LinearMap:
        """dρ of the Lie algebra element with these parts in each group."""

    @abstractmethod
    def _bind(self, group: Group) -> Rep:
        """The same with ``group`` given to whatever has none."""

    @abstractmethod
    def _rebind(self, subgroups: Mapping[Group, Group]) -> Rep:
        """The same with each group replaced by its subgroup."""

    @property
    @abstractmethod
    def T(self) -> Rep:
        """The dual representation ρ(g⁻¹)ᵀ."""

    @abstractmethod
    def _leaf_groups(self) -> tuple[Group | None, ...]:
        """The group of each leaf, None where it has none yet."""

    @abstractmethod
    def _key(self) -> Key:
        """What makes two representations equal."""

    @abstractmethod
    def _text(self, silent: Group | None) -> str:
        """The text, with ``silent`` understood where no group is written."""

    # --- its group ------------------------------------------------------------------------

    def __call__(self, group: Group) -> Rep:
        """Bind to a group whatever is not bound yet.

        Raises:
            TypeError: If it is no group.
            ValueError: If part of it is bound to a group that is neither ``group`` nor one of
                its factors.
        """
        if isinstance(group, type) and issubclass(group, Group):
            raise TypeError(f"expected a group, got the class {group.__name__}; add its brackets")
        if not isinstance(group, Group):
            raise TypeError(f"expected a group to bind {self} to, got {type(group).__name__}")
        parts = (group, *(group.factors if isinstance(group, DirectProduct) else ()))
        for bound in self.groups:
            if bound not in parts:
                raise ValueError(f"expected a representation of {group}, got {self} of {bound}")
        return self._bind(group)

    @property
    def groups(self) -> tuple[Group, ...]:
        """The distinct groups it is bound to, in order of appearance; no factors of others."""
        found = tuple(dict.fromkeys(g for g in self._leaf_groups() if g is not None))
        products = [g for g in found if isinstance(g, DirectProduct)]
        # Z(1)*S(3) equals S(3), and is no factor of itself
        return tuple(
            g for g in found if not any(p != g and p.factors.count(g) == 1 for p in products)
        )

    @property
    def is_bound(self) -> bool:
        """Whether every part has its group."""
        return all(g is not None for g in self._leaf_groups())

    @property
    def group(self) -> Group | None:
        """Its group; the direct product where parts belong to several; None for scalars."""
        groups = self.groups
        if not groups:
            return None
        return groups[0] if len(groups) == 1 else DirectProduct(*groups)

    @property
    def is_complex(self) -> bool:
        """Whether it acts on a complex space."""
        return any(g.is_complex for g in self._leaf_groups() if g is not None)

    # --- its action -----------------------------------------------------------------------

    def rho(self, g: LinearMap | Tensor | Sequence[Any]) -> LinearMap:
        """ρ(g) for an element of its group, as a linear map that is never multiplied out.

        Args:
            g: An element, or a batch of elements, as ``group.sample`` gives them; a matrix or
                a permutation will do. For a product of groups: a Kronecker product.

        Example:
            >>> import torch
            >>> from isotropy.groups import Z
            >>> from isotropy.reps import V
            >>> (V + V)(Z(3)).rho([1, 2, 0]).apply(torch.arange(6.0))
            tensor([2., 0., 1., 5., 3., 4.])
        """
        return self._rho(parts_of_element(self._only_group(), g))

    def drho(self, a: LinearMap | Tensor | Sequence[Any]) -> LinearMap:
        """dρ(A) for an element of the Lie algebra of its group."""
        return self._drho(parts_of_algebra(self._only_group(), a))

    def _only_group(self) -> Group | None:
        if not self.is_bound:
            raise ValueError(f"expected a representation with its group, got {self}; write rep(G)")
        return self.group

    def generators(self) -> tuple[list[LinearMap], list[LinearMap]]:
        """dρ of the Lie algebra's basis, and ρ of the discrete generators."""
        group = self._only_group()
        if group is None:
            return [], []
        return [self.drho(a) for a in group.algebra], [self.rho(h) for h in group.discrete]

    # --- its algebra ----------------------------------------------------------------------

    def __add__(self, other: object) -> Rep:
        """The direct sum."""
        if isinstance(other, int) and other == 0:
            return self  # lets sum() start from zero
        from isotropy.reps._algebra import Sum

        return Sum.of([(1, self), (1, other)]) if isinstance(other, Rep) else NotImplemented

    def __radd__(self, other: object) -> Rep:
        return self if isinstance(other, int) and other == 0 else NotImplemented

    def __mul__(self, other: object) -> Rep:
        """The tensor product; with an integer, as many copies."""
        from isotropy.reps._algebra import Product

        if isinstance(other, Rep):
            return Product.of([self, other])
        return self.__rmul__(other)

    def __rmul__(self, other: object) -> Rep:
        if isinstance(other, bool) or not isinstance(other, int):
            return NotImplemented
        if other < 1:
            raise ValueError(f"expected at least one copy of {self}, got {other}")
        from isotropy.reps._algebra import Sum

        return Sum.of([(other, self)])

    def __pow__(self, power: int) -> Rep:
        """The tensor power."""
        if isinstance(power, bool) or not isinstance(power, int) or not 0 <= power <= 1000:
            raise ValueError(f"expected a tensor power between 0 and 1000, got {power!r}")
        from isotropy.reps._algebra import Product

        return Product.of([self] * power)

    def __rshift__(self, other: object) -> Rep:
        """Linear maps from this space to ``other``: other ⊗ self*."""
        return other * self.T if isinstance(other, Rep) else NotImplemented

    def __lshift__(self, other: object) -> Rep:
        """Linear maps from ``other`` to this space."""
        return self * other.T if isinstance(other, Rep) else NotImplemented

    def on(self, columns: Sequence[int], of: int) -> Rep:
        """This action on the given columns of a table of ``of`` columns, the rest left alone.

        Example:
            >>> import torch
            >>> from isotropy.groups import Z
            >>> from isotropy.reps import V
            >>> V(Z(2)).on([0, 3], of=4).rho([1, 0]).apply(torch.tensor([1.0, 2.0, 3.0, 4.0]))
            tensor([4., 2., 3., 1.])
        """
        from isotropy.reps._placed import Selected

        return Selected(self, tuple(columns), of)

    def change_basis(self, change: LinearMap | Tensor | Sequence[Any]) -> Rep:
        """The same action in another basis: P ρ(g) P⁻¹."""
        from isotropy.reps._placed import Rebased

        return Rebased(self, as_linear_map(change, "a change of basis"))

    def restrict(self, subgroup: Group, of: Group | None = None) -> Rep:
        """The same action, of a subgroup only.

        Args:
            subgroup: A group on the same space whose elements belong to the present one.
            of: Which group to restrict, where there are several.

        Raises:
            ValueError: If it is seen not to be a subgroup.
        """
        self._only_group()
        if of is None:
            if len(self.groups) > 1:
                raise ValueError(f"expected which group of {self} to restrict (of=...), got none")
            of = self.groups[0] if self.groups else subgroup
        require_subgroup(subgroup, of)
        return self._rebind({of: subgroup})

    # --- identity -------------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, Rep) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())

    def __str__(self) -> str:
        groups = self.groups
        if len(groups) == 1 and self.is_bound:
            return f"{atom(self._text(groups[0]))}({groups[0]})"
        return self._text(None)

    def __repr__(self) -> str:
        return str(self)


def is_atom(text: str) -> bool:
    """Whether a text needs no brackets before a call, a dot or after a count."""
    depth = 0
    for character in text:
        depth += (character in "([") - (character in ")]")
        if depth == 0 and character in "+*":
            return False
    return True


def atom(text: str) -> str:
    """A text in brackets where it needs them."""
    return text if is_atom(text) else f"({text})"
