"""The representations that others are built from: V, Pseudoscalar, Regular, and your own."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Self

import torch
from torch import Tensor

from isotropy.groups import Dense, Group, LinearMap, Monomial, Operator
from isotropy.groups._given import as_linear_map
from isotropy.groups._maps import Zero
from isotropy.reps._algebra import Product, Sum
from isotropy.reps._rep import Key, Rep


class Leaf(Rep):
    """A representation that is not built from others, of one group or of none yet."""

    def __init__(self, group: Group | None = None, *, dual: bool = False) -> None:
        self.leaf_group = group
        self.dual = dual

    @abstractmethod
    def _name(self) -> str:
        """How it is written."""

    def _with(self, group: Group | None, *, dual: bool) -> Self:
        return type(self)(group, dual=dual)

    def _bind(self, group: Group) -> Rep:
        return self._with(group, dual=self.dual) if self.leaf_group is None else self

    def _rebind(self, subgroups: Mapping[Group, Group]) -> Rep:
        group = self._bound_group()
        return self._with(subgroups[group], dual=self.dual) if group in subgroups else self

    @property
    def T(self) -> Rep:
        return self._with(self.leaf_group, dual=not self.dual)

    def _leaf_groups(self) -> tuple[Group | None, ...]:
        return (self.leaf_group,)

    def _part(self, parts: Mapping[Group, LinearMap]) -> LinearMap:
        """The part of an element that belongs to this leaf's group."""
        group = self._bound_group()
        if group not in parts:
            raise ValueError(
                f"expected an element of a product with the factor {group}, kept as a Kronecker "
                f"product (as sample() gives it), got an element of {next(iter(parts))}"
            )
        return parts[group]

    def _bound_group(self) -> Group:
        if self.leaf_group is None:
            raise ValueError(f"expected a representation with its group, got {self}; write rep(G)")
        return self.leaf_group

    def _key(self) -> Key:
        return (*self._kind(), self.dual, self.leaf_group)

    def _kind(self) -> Key:
        """What tells this kind of leaf from others that may be written the same."""
        return (type(self).__module__, type(self).__qualname__, self._name())

    def _text(self, silent: Group | None) -> str:
        text = self._name() + (".T" if self.dual else "")
        return text if self.leaf_group in (None, silent) else f"{text}({self.leaf_group})"


class Vector(Leaf):
    """The group's own matrices: ρ(g) = g, and dρ(A) = A."""

    def _name(self) -> str:
        return "V"

    def size(self) -> int:
        return self._bound_group().d

    def _rho(self, g: Mapping[Group, LinearMap]) -> LinearMap:
        part = self._part(g)
        if not self.dual or self._bound_group().is_orthogonal:
            return part
        return part.inverse().transpose()

    def _drho(self, a: Mapping[Group, LinearMap]) -> LinearMap:
        part = self._part(a)
        return part.transpose().scaled(-1.0) if self.dual else part


class Determinant(Leaf):
    """The pseudoscalar: ρ(g) = det g, and dρ(A) = tr A."""

    def _name(self) -> str:
        return "Pseudoscalar"

    def size(self) -> int:
        return 1

    def _rho(self, g: Mapping[Group, LinearMap]) -> LinearMap:
        part = self._part(g)
        det = part.det()
        if part.monomial() is not None:
            return Monomial(torch.zeros(*det.shape, 1, dtype=torch.int64), det.unsqueeze(-1))
        return Dense((1 / det if self.dual else det)[..., None, None])

    def _drho(self, a: Mapping[Group, LinearMap]) -> LinearMap:
        trace = self._part(a).trace()
        return Dense((-trace if self.dual else trace)[..., None, None])


class RegularRep(Leaf):
    """A finite group permuting the list of its own elements: e ↦ g e.

    The order of the list is that of ``group.elements()``; for p4 and p4m it is laid out as
    the feature maps of a group convolution.
    """

    def __init__(
        self, group: Group | None = None, *, dual: bool = False, of: Group | None = None
    ) -> None:
        del dual  # a permutation representation is its own
        super().__init__(group, dual=False)
        self.of = of or group

    def _name(self) -> str:
        return "Regular"

    def _table_group(self) -> Group:
        self._bound_group()
        assert self.of is not None
        return self.of

    def size(self) -> int:
        return len(self._table_group().element_table)

    def _rho(self, g: Mapping[Group, LinearMap]) -> LinearMap:
        return self._table_group().element_table.left_multiplication(self._part(g))

    def _drho(self, _a: Mapping[Group, LinearMap]) -> LinearMap:
        return Zero(self.size())  # a finite group has no Lie algebra; its part of one is zero

    def _rebind(self, subgroups: Mapping[Group, Group]) -> Rep:
        group = self._bound_group()
        return RegularRep(subgroups[group], of=self.of) if group in subgroups else self

    @property
    def T(self) -> Rep:
        return self

    def _key(self) -> Key:
        layout = None if self.of is None else self.of.element_layout
        return (*self._kind(), self.leaf_group, self.of, layout)

    def _text(self, silent: Group | None) -> str:
        if self.of == self.leaf_group:
            return super()._text(silent)
        return f"Regular({self.of}).restrict({self.leaf_group})"


class BlockRep(Leaf):
    """Some of the group's own coordinates, which it maps among themselves: a block of V."""

    def __init__(
        self, columns: Sequence[int], group: Group | None = None, *, dual: bool = False
    ) -> None:
        super().__init__(group, dual=dual)
        self.block = tuple(columns)
        bad = [c for c in self.block if isinstance(c, bool) or not isinstance(c, int) or c < 0]
        if bad or not self.block or len(set(self.block)) != len(self.block):
            raise ValueError(f"expected distinct coordinates of V, got {list(self.block)}")
        if group is not None:
            self._require_invariant(group)

    def _name(self) -> str:
        return f"Block({','.join(map(str, self.block))})"

    def _with(self, group: Group | None, *, dual: bool) -> BlockRep:
        return BlockRep(self.block, group, dual=dual)

    def size(self) -> int:
        self._bound_group()
        return len(self.block)

    def _rho(self, g: Mapping[Group, LinearMap]) -> LinearMap:
        block = self._cut(self._part(g))
        if not self.dual or self._bound_group().is_orthogonal:
            return block
        return block.inverse().transpose()

    def _drho(self, a: Mapping[Group, LinearMap]) -> LinearMap:
        block = self._cut(self._part(a))
        return block.transpose().scaled(-1.0) if self.dual else block

    def _cut(self, whole: LinearMap) -> LinearMap:
        columns = torch.tensor(self.block)
        monomial = whole.monomial()
        if monomial is None:
            return Dense(whole.dense()[..., columns[:, None], columns])
        place = torch.empty(whole.size, dtype=torch.int64).index_fill_(0, columns, 0)
        place[columns] = torch.arange(len(columns))
        sign = None if monomial.sign is None else monomial.sign[..., columns]
        return Monomial(place[monomial.index[..., columns]], sign)

    def _require_invariant(self, group: Group) -> None:
        if max(self.block) >= group.d:
            raise ValueError(
                f"expected coordinates between 0 and {group.d - 1} of V, got {list(self.block)}"
            )
        others = [c for c in range(group.d) if c not in self.block]
        for g in (*group.discrete, *group.algebra):
            matrix = g.dense()
            if bool((matrix[others][:, list(self.block)].abs() > 1e-10).any()):
                raise ValueError(
                    f"expected coordinates that {group.name:.80} maps among themselves, got "
                    f"{list(self.block)}"
                )


_TAKEN = ("V", "Scalar", "Pseudoscalar", "Regular", "T", "Block")


class CustomRep(Leaf):
    """Your own representation, given as a function of the group's matrix.

    The action of the Lie algebra follows by a Jacobian-vector product,
    dρ(A) = d/dt ρ(1 + tA) at t = 0 (thesis A.1.6).

    Args:
        name: How it is written; ``parse_rep`` reads it back when given it.
        function: g ↦ ρ(g), from a matrix (d, d) to a matrix (m, m), written in torch.

    Example:
        >>> from isotropy.groups import SO
        >>> double = CustomRep("Double", lambda g: torch.kron(g, g))
        >>> double(SO(3)).size()
        9
    """

    def __init__(
        self,
        name: str,
        function: Callable[[Tensor], Tensor],
        group: Group | None = None,
        *,
        dual: bool = False,
    ) -> None:
        if not (name.isascii() and name.isidentifier()) or name in _TAKEN:
            raise ValueError(
                f"expected a new name made of letters and digits, other than "
                f"{', '.join(_TAKEN)}, got {name!r}"
            )
        super().__init__(group, dual=dual)
        self.name = name
        self.function = function
        if group is not None:
            self._require_homomorphism(group)

    def _name(self) -> str:
        return self.name

    def _with(self, group: Group | None, *, dual: bool) -> CustomRep:
        return CustomRep(self.name, self.function, group, dual=dual)

    def _identity(self) -> Tensor:
        group = self._bound_group()
        dtype = torch.complex128 if group.is_complex else torch.float64
        return torch.eye(group.d, dtype=dtype)

    def size(self) -> int:
        return int(self.function(self._identity()).shape[-1])

    def _rho(self, g: Mapping[Group, LinearMap]) -> LinearMap:
        matrices = self._part(g).dense()
        if matrices.ndim == 2:
            value = as_linear_map(self.function(matrices), "a value of the representation")
        else:
            flat = matrices.reshape(-1, *matrices.shape[-2:])
            images = torch.stack([self.function(m) for m in flat])
            value = Dense(images.reshape(*matrices.shape[:-2], *images.shape[-2:]))
        return value.inverse().transpose() if self.dual else value

    def _drho(self, a: Mapping[Group, LinearMap]) -> LinearMap:
        identity = self._identity()
        direction = self._part(a).dense().to(identity.dtype)
        tangent: Tensor = torch.func.jvp(self.function, (identity,), (direction,))[1]
        return Dense(-tangent.mT if self.dual else tangent)

    def _key(self) -> Key:
        return ("opaque", self.name, id(self.function), self.dual, self.leaf_group)

    @property
    def is_complex(self) -> bool:
        """Whether its values are complex, be the group real or not."""
        if self.leaf_group is None:
            return False
        return bool(self.function(self._identity()).is_complex())

    def _require_homomorphism(self, group: Group) -> None:
        if any(isinstance(g, Operator) for g in (*group.discrete, *group.algebra)):
            return
        drawn = group.sample(2, generator=0).dense()
        first, second, both = (self.function(m) for m in (drawn[0], drawn[1], drawn[0] @ drawn[1]))
        if first.ndim != 2 or first.shape[0] != first.shape[1]:
            raise ValueError(
                f"expected {self.name} to give square matrices, got shape {tuple(first.shape)}"
            )
        error = (first @ second - both).abs().max()
        if not bool(error <= 1e-8 * (1 + both.abs().max())):
            raise ValueError(
                f"expected {self.name} to be a representation of {group}, ρ(gh) = ρ(g)ρ(h), "
                f"got an error of {float(error):.1e}"
            )


def tensor_text(factors: Sequence[Rep], silent: Group | None) -> str:
    """The text of a product, with runs of V and V.T written as T(p,q)."""
    parts, at = [], 0
    while at < len(factors):
        p = _run_of_vectors(factors, at, dual=False)
        q = _run_of_vectors(factors, at + p, dual=True)
        if p and q and _group_of(factors[at]) != _group_of(factors[at + p]):
            q = 0
        if p + q < 2:
            text = factors[at]._text(silent)
            parts.append(f"({text})" if isinstance(factors[at], Sum) else text)
            at += 1
            continue
        group = _group_of(factors[at])
        suffix = "" if group in (None, silent) else f"({group})"
        parts.append((f"T({p},{q})" if q else f"T({p})") + suffix)
        at += p + q
    return "*".join(parts)


def _run_of_vectors(factors: Sequence[Rep], at: int, *, dual: bool) -> int:
    run = 0
    for factor in factors[at:]:
        if not isinstance(factor, Vector) or factor.dual != dual:
            break
        if _group_of(factor) != _group_of(factors[at]):
            break
        run += 1
    return run


def _group_of(factor: Rep) -> Group | None:
    return factor._leaf_groups()[0]


V: Rep = Vector()
Scalar: Rep = Product(())
Pseudoscalar: Rep = Determinant()
Regular: Rep = RegularRep()


def Block(*columns: int) -> Rep:
    """Some coordinates of V that the group maps among themselves.

    Example:
        >>> from isotropy.groups import S, Z
        >>> (Scalar + Block(0, 1))(Z(2) + S(3)).size()
        3
        >>> Block(0, 2)(Z(2) + S(3))
        Traceback (most recent call last):
        ...
        ValueError: expected coordinates that Z(2)+S(3) maps among themselves, got [0, 2]
    """
    return BlockRep(columns)


def T(p: int, q: int = 0) -> Rep:
    """Tensors with p upper and q lower indices: V ⊗ … ⊗ V ⊗ V* ⊗ … ⊗ V*.

    Example:
        >>> T(2, 1) == V * V * V.T
        True
    """
    return V**p * V.T**q
