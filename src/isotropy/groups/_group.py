"""What a group is here: generators of its components and a basis of its Lie algebra."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from isotropy._run import generator as make_generator
from isotropy._run import require_memory
from isotropy.groups._given import MapLike, as_algebra_element, as_linear_map
from isotropy.groups._maps import Dense, LinearMap, digest
from isotropy.groups._operators import Operator

if TYPE_CHECKING:
    from isotropy.groups._finite import Elements


class Group:
    """A matrix group, given by discrete generators h_k and a basis A_i of its Lie algebra.

    Every element is a product of exponentials exp(Σ αᵢ Aᵢ) and of the h_k and their inverses
    (thesis A.1.8). Groups are immutable, compared and hashed by the value of their generators.
    Named groups (``SO(3)``, ``S(5)`` …) are subclasses; your own group is one line:

        >>> Group([[1, 2, 0]])  # a permutation: i goes to the i-th entry
        Group(discrete=[[1,2,0]])
        >>> quarter = Group([[[0, -1], [1, 0]]])  # a matrix
        >>> quarter.order()
        4
        >>> boost = Group(algebra=[[[0, 1], [1, 0]]])
        >>> boost.order()
        inf

    Matrix-free generators are given as :class:`~isotropy.groups.Operator`.

    Args:
        discrete: Generators of the group's components: permutations (lists of the integers
            0..n-1), square matrices, or linear maps.
        algebra: Basis of the Lie algebra: square matrices or linear maps.
        d: Dimension of the space acted on; needed only where there are no generators.
        name: What to call it in prose; a group's identity does not depend on it. The name of
            a catalogue group on the same space is a claim, and is checked.

    Raises:
        ValueError: If a generator is not square, singular, not finite, or of another size, or
            lies outside the catalogue group that the name claims.
    """

    def __init__(
        self,
        discrete: Iterable[MapLike] = (),
        algebra: Iterable[MapLike] = (),
        *,
        d: int | None = None,
        name: str | None = None,
    ) -> None:
        for given, what in ((discrete, "discrete generators"), (algebra, "a Lie algebra basis")):
            if not isinstance(given, Iterable):
                raise ValueError(f"expected a list of {what}, got {given!r:.80}")
        h = tuple(_as_generator(g, f"discrete generator {i}") for i, g in enumerate(discrete))
        a = tuple(as_algebra_element(g, f"Lie algebra element {i}") for i, g in enumerate(algebra))
        sizes = sorted({g.size for g in (*h, *a)} | (set() if d is None else {d}))
        if len(sizes) != 1:
            raise ValueError(
                f"expected generators of one size, got sizes {sizes}"
                if sizes
                else "expected at least one generator, or the dimension d; got neither"
            )
        for i, g in enumerate(h):
            require_invertible(g, f"discrete generator {i}")
        # zero spans nothing
        a = tuple(g for g in a if not (isinstance(g, Dense) and not bool(g.matrix.any())))
        self._freeze(sizes[0], given_discrete=h, given_algebra=a, given_name=name)
        if name is not None:
            _require_fit(self, name)

    def _freeze(self, d: int, **attributes: Any) -> None:
        """Set the attributes once; a group is immutable afterwards."""
        if isinstance(d, bool) or not isinstance(d, int) or not 1 <= d <= 2**48:
            raise ValueError(f"expected a dimension of at least 1 and at most 2^48, got {d!r:.40}")
        self.__dict__.update(attributes, d=d, _frozen=True)

    if TYPE_CHECKING:
        d: int

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"groups are immutable; cannot set {name!r}")

    # --- what it is made of -------------------------------------------------------------

    @cached_property
    def discrete(self) -> tuple[LinearMap, ...]:
        """Generators h of the components; none for a connected group."""
        require_memory(64 * self.d, f"a generator on {self.d} dimensions", "take a smaller group")
        return tuple(self._discrete())

    @cached_property
    def algebra(self) -> tuple[LinearMap, ...]:
        """A basis A of the Lie algebra; none for a discrete group."""
        return tuple(self._algebra())

    def _discrete(self) -> Iterable[LinearMap]:
        given: tuple[LinearMap, ...] = self.__dict__.get("given_discrete", ())
        return given

    def _algebra(self) -> Iterable[LinearMap]:
        given: tuple[LinearMap, ...] = self.__dict__.get("given_algebra", ())
        return given

    @property
    def is_discrete(self) -> bool:
        """Whether the Lie algebra is zero."""
        return not self.algebra

    @cached_property
    def is_permutation(self) -> bool:
        """Whether every generator is a plain permutation of the coordinates."""
        return self.is_monomial and all(
            m is not None and m.sign is None for m in (h.monomial() for h in self.discrete)
        )

    @cached_property
    def is_monomial(self) -> bool:
        """Whether every generator is a permutation of the coordinates, up to signs."""
        return self.is_discrete and all(h.is_monomial for h in self.discrete)

    @cached_property
    def is_orthogonal(self) -> bool:
        """Whether every element is a real orthogonal matrix, so that V and its dual agree."""
        return not self.is_complex and self.is_unitary

    @cached_property
    def is_unitary(self) -> bool:
        """Whether every element is unitary (real: orthogonal)."""
        from isotropy.groups._sampling import is_skew_hermitian, is_unitary

        return all(map(is_unitary, self.discrete)) and all(map(is_skew_hermitian, self.algebra))

    @cached_property
    def is_complex(self) -> bool:
        """Whether it acts on C^d rather than R^d."""
        return any(g.is_complex for g in (*self.discrete, *self.algebra))

    @property
    def is_compact(self) -> bool:
        """Whether the group is compact as far as is known, so that ``sample`` draws from Haar."""
        from isotropy.groups._finite import listed

        return self.is_unitary or (self.is_discrete and listed(self) is not None)

    # --- elements -----------------------------------------------------------------------

    def sample(
        self, n: int | None = None, *, generator: torch.Generator | int | None = None
    ) -> LinearMap:
        """Draw ``n`` random elements, as one batched linear map; a single one without ``n``.

        Compact groups are sampled from Haar measure (finite ones uniformly). Where no closed
        form is at hand, the draw is a product of 32 rounds of uniformly random elements of
        the closures of one-parameter and cyclic subgroups, which converges to Haar
        geometrically. Groups that are not compact have no such measure: the draw is
        exp(Σ αᵢ Aᵢ/‖Aᵢ‖), α ~ N(0, 1/D), after a random word of at most ten discrete generators.

        Raises:
            ValueError: If ``n`` is no number of samples.

        Example:
            >>> from isotropy.groups import SO
            >>> R = SO(3).sample(generator=0).dense()
            >>> torch.allclose(R @ R.T, torch.eye(3, dtype=R.dtype))
            True
        """
        if n is not None and (isinstance(n, bool) or not isinstance(n, int) or n < 0):
            raise ValueError(f"expected a number of samples n >= 0 or None, got {n!r}")
        rng = make_generator(generator)
        drawn = self._sample(1 if n is None else n, rng)
        return drawn.select(0) if n is None else drawn

    def _sample(self, n: int, rng: torch.Generator) -> LinearMap:
        from isotropy.groups._sampling import sample_any

        return sample_any(self, n, rng)

    def order(self) -> int | float:
        """The number of elements: an exact integer, or ``math.inf``.

        Named groups have a closed form; others go through Schreier–Sims (permutations, up to
        signs) or are enumerated.

        Example:
            >>> from isotropy.groups import S
            >>> S(5).order(), (S(5) + S(3)).order()
            (120, 720)
        """
        if self.algebra:
            return math.inf
        return self._order()

    def _order(self) -> int | float:
        from isotropy.groups._finite import order_of_discrete

        return order_of_discrete(self)

    def elements(self) -> LinearMap:
        """All elements of a finite group as one batch, the identity first.

        Raises:
            ValueError: If the group is infinite or too large to list.
        """
        return self.element_table.maps

    @cached_property
    def element_table(self) -> Elements:
        """The elements with a look-up from element to its place in the list."""
        from isotropy.groups._finite import Elements

        return Elements(self._ordered_elements())

    @cached_property
    def schreier_sims(self) -> Any:
        """Sympy's permutation group with its stabiliser chain, kept because it is costly."""
        from isotropy.groups._finite import sympy_group

        return sympy_group(self)

    element_layout = "breadth first"  # names the order of elements(): equal groups may differ in it

    def _ordered_elements(self) -> LinearMap:
        from isotropy.groups._finite import enumerate_elements

        return enumerate_elements(self)

    def contains(self, element: MapLike) -> bool | None:
        """Whether ``element`` belongs to the group; None where there is no way to tell.

        Example:
            >>> from isotropy.groups import SO
            >>> SO(2).contains([[0.0, -1.0], [1.0, 0.0]]), SO(2).contains([[0.0, 1.0], [1.0, 0.0]])
            (True, False)
        """
        g = as_linear_map(element, "an element")
        if g.size != self.d:
            return False
        return self._contains(g)

    def _contains(self, g: LinearMap) -> bool | None:
        from isotropy.groups._finite import discrete_contains

        return discrete_contains(self, g) if self.is_discrete else None

    # --- new groups from this one -------------------------------------------------------

    def conjugate(self, change: MapLike) -> Group:
        """The same group in another basis: elements P g P⁻¹, its name kept.

        Args:
            change: The matrix P, or a permutation of the coordinates.
        """
        from isotropy.groups._placements import (
            Conjugate,
        )

        return Conjugate(self, change)

    def __mul__(self, other: object) -> Group:
        """The direct product, acting on V_G ⊗ V_H."""
        from isotropy.groups._products import (
            DirectProduct,
        )

        return DirectProduct(self, other) if isinstance(other, Group) else NotImplemented

    def __add__(self, other: object) -> Group:
        """The direct product, acting side by side on V_G ⊕ V_H."""
        from isotropy.groups._products import (
            SideBySide,
        )

        return SideBySide(self, other) if isinstance(other, Group) else NotImplemented

    # --- identity -----------------------------------------------------------------------

    @cached_property
    def value(self) -> bytes:
        """A digest of the generators: equal for equal groups, different for different ones."""
        return digest(
            str(self.d).encode(),
            b"discrete",
            *(h.value() for h in self.discrete),
            b"algebra",
            *(a.value() for a in self.algebra),
        )

    @cached_property
    def by_value(self) -> bool:
        """Whether ``value`` describes the group fully (false with opaque operators)."""
        return all(g.by_value for g in (*self.discrete, *self.algebra))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Group):
            return NotImplemented
        return self is other or self.value == other.value

    def __hash__(self) -> int:
        return hash(self.value)

    def __str__(self) -> str:
        parts = []
        if self.discrete:
            parts.append(f"discrete=[{','.join(map(_literal, self.discrete))}]")
        if self.algebra:
            parts.append(f"algebra=[{','.join(map(_literal, self.algebra))}]")
        return f"Group({','.join(parts) or f'd={self.d}'})"

    def __repr__(self) -> str:
        return str(self)

    @property
    def name(self) -> str:
        """What to call it in prose."""
        given = self.__dict__.get("given_name")
        return str(given) if given else str(self)

    def __copy__(self) -> Group:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Group:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        if type(self) is not Group:
            raise TypeError(f"{type(self).__name__} does not say how it is pickled")
        given = self.__dict__
        return _rebuild_group, (
            given["given_discrete"],
            given["given_algebra"],
            self.d,
            given["given_name"],
        )


def _rebuild_group(
    discrete: tuple[LinearMap, ...], algebra: tuple[LinearMap, ...], d: int, name: str | None
) -> Group:
    return Group(discrete, algebra, d=d, name=name)


def _as_generator(given: MapLike, what: str) -> LinearMap:
    """A single map; compound ones are multiplied out, so that equal ones have equal values."""
    g = as_linear_map(given, what)
    if g.batch:
        raise ValueError(f"expected {what} as a single map, got a batch of {g.batch.numel()}")
    monomial = g.monomial()
    if monomial is not None:
        return monomial
    if isinstance(g, Operator):
        g.require_linear(what)
    return g if not g.by_value or isinstance(g, Dense) else as_linear_map(g.dense(), what)


def require_invertible(g: LinearMap, what: str) -> None:
    """Refuse a singular matrix."""
    if isinstance(g, Dense):
        singular_values = torch.linalg.svdvals(g.matrix)
        if bool(singular_values[-1] <= 1e-12 * singular_values[0]):
            raise ValueError(f"expected {what} to be invertible, got a singular matrix")


def _require_fit(group: Group, name: str) -> None:
    """Refuse the name of a catalogue group that the generators do not belong to."""
    from isotropy.groups._parse_group import parse_group
    from isotropy.groups._products import (
        in_span,
    )

    try:
        named = parse_group(name)
    except ValueError:
        return  # prose
    if named.d != group.d:
        return  # the same group acting on another space
    for i, h in enumerate(group.discrete):
        if named.contains(h) is False:
            raise ValueError(
                f"expected generators of {name}, got discrete generator {i} outside it"
            )
    for i, a in enumerate(group.algebra):
        if a.by_value and not in_span(a, named.algebra):
            raise ValueError(
                f"expected generators of {name}, got Lie algebra element {i} outside its algebra"
            )


def _literal(g: LinearMap) -> str:
    """A generator as text that parses back: a permutation, a matrix, or an opaque operator."""
    monomial = g.monomial()
    if monomial is not None and monomial.sign is None:
        return _list(monomial.index)
    if not g.by_value:
        return f"<operator on {g.size} dimensions>"
    return _list(g.dense())


def _list(values: Tensor) -> str:
    return str(values.tolist()).replace(" ", "").replace(".0,", ",").replace(".0]", "]")
