"""Actions on vectors: an element of the Lie algebra of any group that has a representation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from isotropy.equivariance._action import INVARIANT, Action, Place
from isotropy.groups import Dense, LinearMap
from isotropy.reps import Rep, Symmetry
from isotropy.reps._elements import parts_of_algebra


@dataclass(frozen=True, eq=False)
class GroupAction(Action):
    """An element A of a Lie algebra on vectors: X x = dρ_in(A) x, and dρ_out(A) y on outputs.

    Args:
        name: What it is called.
        symmetry: The group, and how it acts on inputs and outputs.
        element: A.
        parts: Where it stands for a whole basis of the Lie algebra: its elements.
    """

    name: str
    symmetry: Symmetry
    element: LinearMap
    parts: tuple[GroupAction, ...] = ()
    unit: str = "the element of the Lie algebra"
    boundary: str = "none"

    @property
    def directions(self) -> tuple[Action, ...]:
        """Itself, or the basis it stands for."""
        return self.parts or (self,)

    def input_place(self, x: Tensor) -> Place:
        """Vectors, shape (N, …, d_in)."""
        rep = self.symmetry.rep_in
        if x.ndim < 2 or x.shape[-1] != rep.size() or x.numel() == 0:
            raise ValueError(
                f"expected inputs of shape (N, {rep.size()}) for {rep!s:.80}, got {tuple(x.shape)}"
            )
        return rep(self.symmetry.group)

    def named_place(self, text: str, shape: tuple[int, ...], _at_input: Place) -> Place:
        """Read "invariant", or a representation such as "2*V+Scalar"."""
        from isotropy.reps import parse_rep

        if text == INVARIANT:
            return INVARIANT
        rep = (text if isinstance(text, Rep) else parse_rep(text))(self.symmetry.group)
        if shape[-1] != rep.size():
            raise ValueError(f"expected {rep.size()} columns for {text}, got shape {shape}")
        return rep

    def guessed_place(self, shape: tuple[int, ...], _at_input: Place) -> Place | None:
        """What the symmetry says of outputs, where their width is right."""
        rep = self.symmetry.rep_out
        return rep(self.symmetry.group) if shape[-1] == rep.size() else None

    def act(self, z: Tensor, place: Place) -> Tensor:
        """dρ(A) z."""
        if not isinstance(place, Rep):
            return torch.zeros_like(z)
        return z @ self._matrix(place, z).mT

    def move(self, z: Tensor, t: float | Tensor, place: Place) -> Tensor:
        """ρ(exp(tA)) z = exp(t dρ(A)) z."""
        if not isinstance(place, Rep):
            return z
        exact = self._matrix(place, z.to(torch.complex128 if z.is_complex() else torch.float64))
        element = torch.linalg.matrix_exp(torch.as_tensor(t).to(exact) * exact)
        moved: Tensor = z @ element.to(z.dtype).mT
        return moved

    def _matrix(self, rep: Rep, like: Tensor) -> Tensor:
        if self.parts:
            raise ValueError(
                f"expected one element of the Lie algebra, got all {len(self.parts)} of {self.name}"
            )
        bound = rep(self.symmetry.group)
        dense = bound._drho(parts_of_algebra(self.symmetry.group, self.element)).dense()
        if dense.is_complex() and not like.is_complex():
            raise ValueError(f"expected complex vectors for {rep!s:.80}, got {like.dtype}")
        return dense.to(like.device, like.dtype)

    def describe(self) -> dict[str, Any]:
        """Name, unit, boundary rule and symmetry, for JSON."""
        return {**super().describe(), "symmetry": str(self.symmetry)}


def group_action(symmetry: Symmetry, element: int | Tensor | None = None) -> Action:
    """The action of a Lie algebra on vectors, through representations on inputs and outputs.

    Args:
        symmetry: The group, and how it acts on inputs and outputs.
        element: A matrix of the Lie algebra; the number of an element of ``group.algebra``; or
            None for all of these: `lee` and `measure` take the mean over them.

    Raises:
        TypeError: If it is no symmetry.
        ValueError: If the group is discrete (`sampled_equivariance` and `equivariance_error`
            measure finite groups), or there is no such element.

    Example:
        >>> from isotropy.groups import SO
        >>> from isotropy.reps import Scalar, V
        >>> turn = group_action(Symmetry(SO(2), V, Scalar), element=0)
        >>> turn.tangent(torch.eye(2)).abs()
        tensor([[0., 1.],
                [1., 0.]])
    """
    if not isinstance(symmetry, Symmetry):
        raise TypeError(f"expected a symmetry, got {type(symmetry).__name__}")
    algebra = symmetry.group.algebra
    if not algebra:
        raise ValueError(
            f"expected a group with a Lie algebra, got {symmetry.group!s:.80}, which is discrete: "
            "use sampled_equivariance or equivariance_error"
        )
    name = str(symmetry.group)
    if isinstance(element, Tensor):
        return GroupAction(f"{name}, given element", symmetry, Dense(element.to(torch.float64)))
    parts = tuple(GroupAction(f"{name}[{i}]", symmetry, a) for i, a in enumerate(algebra))
    if element is None:
        return replace(parts[0], name=name, parts=parts) if len(parts) > 1 else parts[0]
    if isinstance(element, bool) or not 0 <= element < len(parts):
        raise ValueError(
            f"expected an element from 0 to {len(parts) - 1} of the Lie algebra, got {element!r}"
        )
    return parts[element]
