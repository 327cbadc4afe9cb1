"""What an action is: a one-parameter group of transformations, known by its derivative at 0."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Final, Literal, TypeAlias

from torch import Tensor

from isotropy.equivariance._axes import Axes
from isotropy.reps import Rep

INVARIANT: Final = "invariant"

# How an action acts on a value inside or at the end of a network; None where that is not known.
Place: TypeAlias = Axes | Rep | Literal["invariant", "points", "vectors"]


class Action(ABC):
    """A one-parameter group ρ(t) = exp(tX) acting on inputs, and on what follows from them.

    It has a ``name``; a ``unit``, which says what t = 1 means; and a ``boundary``, what is taken
    to lie outside the data ("none" where there is no outside).
    """

    name: str
    unit: str
    boundary: str

    @property
    def directions(self) -> tuple[Action, ...]:
        """The elements of the Lie algebra that are averaged over; most actions have only one."""
        return (self,)

    @abstractmethod
    def input_place(self, x: Tensor) -> Place:
        """How it acts on inputs.

        Raises:
            ValueError: If it cannot act on inputs of this shape.
        """

    @abstractmethod
    def named_place(self, text: str, shape: tuple[int, ...], at_input: Place) -> Place:
        """How it acts on a value, in the words of a user."""

    @abstractmethod
    def guessed_place(self, shape: tuple[int, ...], at_input: Place) -> Place | None:
        """How it probably acts on a value of some shape; None where the shape does not tell."""

    @abstractmethod
    def act(self, z: Tensor, place: Place) -> Tensor:
        """The derivative X z of exp(tX) z at t = 0."""

    @abstractmethod
    def move(self, z: Tensor, t: float | Tensor, place: Place) -> Tensor:
        """The transformed value exp(tX) z."""

    def tangent(self, x: Tensor) -> Tensor:
        """The derivative X x of the transformed inputs at t = 0.

        Args:
            x: Inputs, the batch first.
        """
        return self.act(x, self.input_place(x))

    def transform(self, x: Tensor, t: float | Tensor) -> Tensor:
        """The transformed inputs exp(tX) x.

        Args:
            x: Inputs, the batch first.
            t: How far, in the action's unit.
        """
        return self.move(x, t, self.input_place(x))

    def describe(self) -> dict[str, Any]:
        """Name, unit and boundary rule, as JSON knows them."""
        return {"name": self.name, "unit": self.unit, "boundary": self.boundary}
