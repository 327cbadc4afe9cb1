"""How an action acts on the outputs of a model."""

from __future__ import annotations

from torch import Tensor

from isotropy.equivariance._action import INVARIANT, Action, Place
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
    at_input = action.input_place(x)
    if output is not None:
        return action.named_place(output, y_shape, at_input)
    found = action.guessed_place(y_shape, at_input)
    if found is None:
        raise ValueError(
            f"expected outputs on which {action.name} is known to act, got shape {y_shape}; say "
            f'how with output=, for example output="{INVARIANT}"'
        )
    return found
