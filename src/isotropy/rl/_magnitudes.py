"""How a group acts on magnitudes of actions: permuted as actions are, without their signs."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from isotropy.groups import Group, LinearMap, Monomial
from isotropy.groups._maps import Zero
from isotropy.reps import Rep, Scalar
from isotropy.reps._layout import layout_of
from isotropy.reps._leaves import Leaf

_ZERO = 1e-9


class Magnitudes(Leaf):
    """The entries of signed permutations without their signs: ρ(g) = |ρ'(g)|.

    Args:
        inner: ρ', by which the group permutes entries and changes signs.
        group: The group, where it is known.
    """

    def __init__(self, inner: Rep, group: Group | None = None) -> None:
        super().__init__(group, dual=False)
        self.inner = inner

    def _name(self) -> str:
        return f"|{self.inner._text(self.leaf_group)}|"

    def _with(self, group: Group | None, *, dual: bool) -> Magnitudes:
        del dual  # a permutation representation is its own dual
        return Magnitudes(self.inner if group is None else self.inner(group), group)

    @property
    def T(self) -> Rep:
        return self

    def size(self) -> int:
        return self.inner.size()

    def _rho(self, g: Mapping[Group, LinearMap]) -> LinearMap:
        return Monomial(self.inner._rho(g).dense().abs().argmax(-2))

    def _drho(self, _a: Mapping[Group, LinearMap]) -> LinearMap:
        return Zero(self.size())


def magnitudes(rep: Rep) -> Rep:
    """How magnitudes of entries transform, such as standard deviations of actions.

    They follow the entries to their new places and lose the signs.

    Args:
        rep: How a group acts on the entries: by signed permutations.

    Raises:
        ValueError: If it acts otherwise: a rotation mixes entries, and magnitudes of mixtures
            do not follow from those of the entries.

    Example:
        >>> from isotropy.groups import Z
        >>> from isotropy.reps import Pseudoscalar, V
        >>> print(magnitudes((Pseudoscalar + V)(Z(2))))
        (Scalar+V)(Z(2))
    """
    if not acts_by_signed_permutations(rep):
        raise ValueError(
            "expected actions whose entries a group exchanges and changes in sign, got a group "
            "that mixes them, with which squashing and limits of single entries do not commute: "
            "take a subgroup, or actor='mlp'"
        )
    layout = layout_of(rep)
    terms = [term.count * _without_signs(term.rep) for term in layout.terms]
    found = sum(terms[1:], terms[0])
    return found if layout.order is None else found.on(layout.order.tolist(), layout.size)


def acts_by_signed_permutations(rep: Rep) -> bool:
    """Whether every element of a group exchanges entries and changes signs, no more.

    Example:
        >>> from isotropy.groups import SO, Z
        >>> from isotropy.reps import Pseudoscalar, V
        >>> [acts_by_signed_permutations(r) for r in ((Pseudoscalar * V)(Z(2)), V(SO(2)))]
        [True, False]
    """
    algebra, discrete = rep.generators()
    still = not any(bool((a.dense().abs() > _ZERO).any()) for a in algebra)
    return still and all(_is_signed_permutation(h.dense()) for h in discrete)


def acts_by_permutations(rep: Rep) -> bool:
    """Whether every element of a group exchanges entries, no more.

    Example:
        >>> from isotropy.groups import Z
        >>> from isotropy.reps import Pseudoscalar, V
        >>> [acts_by_permutations(r(Z(2))) for r in (V, Pseudoscalar)]
        [True, False]
    """
    _, discrete = rep.generators()
    signs = any(bool((h.dense() < -_ZERO).any()) for h in discrete)
    return acts_by_signed_permutations(rep) and not signs


def _is_signed_permutation(matrix: Tensor) -> bool:
    ones = (matrix.abs() - 1).abs() < _ZERO
    zeros = matrix.abs() < _ZERO
    return bool((ones | zeros).all() and (ones.sum(-1) == 1).all() and (ones.sum(-2) == 1).all())


def _without_signs(rep: Rep) -> Rep:
    if acts_by_permutations(rep):
        return rep
    return Scalar if rep.size() == 1 else Magnitudes(rep, rep.group)
