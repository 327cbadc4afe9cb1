"""How an action acts on the outputs of a model."""

from __future__ import annotations

from torch import Tensor

from isotropy.equivariance._action import INVARIANT, Action, Place
from isotropy.equivariance._axes import Axes
from isotropy.equivariance._evaluation import Model


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
