"""What an action is, known by its derivative at 0, and how it acts on the outputs of a model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Final, Literal, TypeAlias

from torch import Tensor

from isotropy.equivariance._axes import Axes
from isotropy.equivariance._evaluation import Model
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


def output_place(
    model: Model, x: Tensor, y_shape: tuple[int, ...], action: Action, output: str | None
) -> Place:
    """How an action acts on outputs: as the caller says, or as the model's operations show.

    Outputs of one or two axes are invariant (for images and sequences) unless the caller says
    otherwise; larger ones are followed through the operations of the model.

    Args:
        model: The model.
        x: Inputs.
        y_shape: The shape of the outputs.
        action: The action.
        output: "invariant", a layout such as "NCHW", or None.

    Raises:
        ValueError: If the action is not known on outputs of this shape.
    """
    followed = None
    if output is None and len(y_shape) > 2 and isinstance(action.input_place(x), Axes):
        followed = _followed(model, x, action)
        if isinstance(followed, Axes):
            followed = _for_batch(followed, y_shape)
    return place_of_output(followed, y_shape, action, x, output)


def place_of_output(
    followed: Place | None, y_shape: tuple[int, ...], action: Action, x: Tensor, output: str | None
) -> Place:
    """The same, where the operations of the model were already followed."""
    at_input = action.input_place(x)
    if output is not None:
        return action.named_place(output, y_shape, at_input)
    if isinstance(at_input, Axes):
        if all(size == 1 for size in y_shape[2:]):
            return INVARIANT
        found = followed
        if isinstance(found, Axes) and found.is_invariant:
            found = None  # rows and columns, perhaps, but not those of the input
    else:
        found = followed if followed is not None else action.guessed_place(y_shape, at_input)
    if found is None:
        raise ValueError(
            f"expected outputs on which {action.name} is known to act, got shape {y_shape}; say "
            f'how with output=, for example output="{INVARIANT}"'
        )
    return found


def _followed(model: Model, x: Tensor, action: Action) -> Place | None:
    import torch

    from isotropy.equivariance._follow import Follower

    one = x[:1].detach().clone()
    follower = Follower(model, one, action.directions[0], {}, split=False)
    try:
        with torch.no_grad(), follower.watching():
            y = model(one)
    except (ValueError, RuntimeError):
        with torch.no_grad():
            model(x[:1].detach().clone())  # its own errors come again
        return None  # a part that cannot be followed
    return follower.place_of(y)


def _for_batch(axes: Axes, shape: tuple[int, ...]) -> Axes | None:
    """Axes found with a batch of one, for a batch of any size."""
    from isotropy.equivariance._axes import plain

    if not axes.axes or not axes.axes[0].is_plain or axes.axes[0].size != 1:
        return None
    found = Axes(axes.sides, (plain(shape[0]), *axes.axes[1:]))
    return found if found.shape == shape else None
