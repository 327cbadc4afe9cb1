"""The mean equivariance error over sampled elements of a group."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

import torch
from torch import Tensor

from isotropy._run import generator as make_generator
from isotropy.equivariance._action import Action, Place, output_place
from isotropy.equivariance._axes import Axes
from isotropy.equivariance._elements_to_try import all_elements
from isotropy.equivariance._evaluation import Model
from isotropy.equivariance._image_actions import as_action, image_action
from isotropy.equivariance._residuals import (
    Element,
    ElementsOf,
    Map,
    SampledError,
    check_counts,
    squared_residuals,
)
from isotropy.equivariance._tester import resolve_symmetry
from isotropy.groups import Group, LinearMap
from isotropy.reps import Symmetry

Pair: TypeAlias = tuple[Map, Map]

# a picture flipped left to right or not, then turned by so many quarters
IMAGE_GROUPS: dict[str, tuple[tuple[bool, int], ...]] = {
    "horizontal_flip": ((False, 0), (True, 0)),
    "flips": ((False, 0), (True, 0), (False, 2), (True, 2)),
    "quarter_turns": tuple((False, turns) for turns in range(4)),
    "dihedral": tuple((flip, turns) for flip in (False, True) for turns in range(4)),
}


def sampled_equivariance(
    f: Model,
    x: Tensor,
    symmetry: Action | Symmetry | Group | str | Sequence[Pair],
    *,
    scale: float | None = None,
    samples: int = 20,
    squared: bool = False,
    output: str | None = None,
    batch_size: int | None = None,
    generator: torch.Generator | int | None = 0,
) -> SampledError:
    """The mean equivariance error over sampled elements of a group (thesis, A.3.3.3).

        E_x E_g ‖ρ_out(g)⁻¹ f(ρ_in(g) x) − f(x)‖

    with the norm over all outputs of one input. Where moving a sampled picture there and back
    loses some of it, f(x) stands for ρ_out(g)⁻¹ ρ_out(g) f(x), so that the loss does not count.
    The elements g are:

    - for an action, ρ(t) with t ~ Uniform(−scale, scale) in the action's unit; where it stands
      for several directions (``translation`` on images), the product of one draw for each;
    - for a symmetry, or a group of which the model has ``rep_in`` and ``rep_out``, all elements
      where there are at most ``samples``, else random ones (``group.sample``: of Haar measure
      where the group is compact);
    - for images and a name among ``horizontal_flip``, ``flips`` (of rows, of columns, of both),
      ``quarter_turns`` and ``dihedral`` (both), all elements of that group, pixel by pixel;
    - else the elements given, as pairs of maps (ρ_in(g), ρ_out(g)⁻¹).

    All inputs share the same elements, so the answer does not depend on the batch size. Maps act
    in float64; the model is called without gradients, in evaluation mode, in its own precision.
    For the largest *relative* error over a group, see `equivariance_error`.

    Args:
        f: A module, or any function of a tensor.
        x: Inputs, the batch first.
        symmetry: What f should respect.
        scale: For an action: how far. The thesis moves images by up to 5 pixels: 5/width.
        samples: How many elements are drawn; of a finite group, the most that are all taken.
        squared: Average squared norms, as the published code does.
        output: For an action or images: how it acts on outputs, as in `lie_derivative`.
        batch_size: How many inputs the model is given at once; None for all.
        generator: Seed or generator of the draws.

    Raises:
        ValueError: If a scale is missing or out of place, or inputs or outputs do not fit.

    Example:
        >>> from isotropy.groups import S
        >>> from isotropy.reps import V
        >>> x = torch.arange(6.0).reshape(2, 3)
        >>> sampled_equivariance(torch.relu, x, Symmetry(S(3), V, V)).value
        0.0
        >>> images = torch.rand(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))
        >>> pool = torch.nn.AdaptiveAvgPool2d(1)
        >>> sampled_equivariance(pool, images, "dihedral").value < 1e-6
        True
        >>> sampled_equivariance(pool, images, "translation", scale=5 / 8).value < 0.1
        True
    """
    check_counts(x, samples, batch_size)
    rng = make_generator(generator)
    elements, drawn = _elements(f, x, symmetry, scale, samples, output, rng)
    squares, _ = squared_residuals(f, x, elements, batch_size)
    if squared:
        return SampledError.of(squares, "squared norm", drawn=drawn)
    return SampledError.of(squares.sqrt(), "norm", drawn=drawn)


# --- which elements ---------------------------------------------------------------------------


def _elements(
    f: Model,
    x: Tensor,
    symmetry: Action | Symmetry | Group | str | Sequence[Pair],
    scale: float | None,
    samples: int,
    output: str | None,
    rng: torch.Generator,
) -> tuple[ElementsOf, bool]:
    """The elements to average over, and whether they are drawn at random."""
    finite = isinstance(symmetry, str) and symmetry in IMAGE_GROUPS
    if isinstance(symmetry, Action | str) and not finite:
        action = as_action(symmetry, x)
        if scale is None or not 0 < scale < math.inf:
            raise ValueError(
                f"expected a positive scale, in units of {action.unit}, for {action.name}, got "
                f"{scale}"
            )
        amounts = 2 * torch.rand(samples, len(action.directions), generator=rng).double() - 1
        return _flows(f, action, amounts * scale, output), True
    if scale is not None:
        raise ValueError(f"expected a scale only for an action, got {scale}")
    if isinstance(symmetry, str):
        return _image_group(f, symmetry, output), False
    if output is not None:
        raise ValueError(f"expected output= only for an action or images, got {output!r}")
    if isinstance(symmetry, Symmetry | Group):
        return _group(resolve_symmetry(f, symmetry, None, None), samples, rng)
    if not isinstance(symmetry, Sequence) or not all(
        isinstance(pair, tuple) and len(pair) == 2 and all(map(callable, pair)) for pair in symmetry
    ):
        raise TypeError(
            "expected an action, a symmetry, a name or pairs of maps, got "
            f"{type(symmetry).__name__}"
        )
    if not symmetry:
        raise ValueError("expected at least one pair of maps, got none")
    given = [Element(*pair) for pair in symmetry]
    return lambda _x, _y: (given, None), False


def _flows(f: Model, action: Action, amounts: Tensor, output: str | None) -> ElementsOf:
    directions = action.directions

    def elements(x: Tensor, y: Tensor) -> tuple[list[Element], Tensor | None]:
        at_input = [part.input_place(x) for part in directions]
        at_output = [output_place(f, x, tuple(y.shape), part, output) for part in directions]

        def element(ts: list[float]) -> Element:
            inputs = list(zip(directions, ts, at_input, strict=True))
            outputs = list(zip(directions, ts, at_output, strict=True))
            # the inverse of a product: inverses in the other order
            back = [(part, -t, place) for part, t, place in reversed(outputs)]
            return Element(
                lambda z: _moved(z, inputs), lambda z: _moved(z, back), lambda z: _moved(z, outputs)
            )

        return [element(ts) for ts in amounts.tolist()], None

    return elements


def _moved(z: Tensor, steps: list[tuple[Action, float, Place]]) -> Tensor:
    for action, t, place in steps:
        z = action.move(z, t, place)
    return z


def _group(symmetry: Symmetry, samples: int, rng: torch.Generator) -> tuple[ElementsOf, bool]:
    listed = all_elements(symmetry.group, samples)
    drawn = symmetry.group.sample(samples, generator=rng) if listed is None else listed

    def element(g: LinearMap) -> Element:
        inverse = g.inverse()
        return Element(lambda z: symmetry.apply(g, z), lambda z: symmetry.apply_out(inverse, z))

    found = [element(drawn.select(i)) for i in range(len(drawn))]
    return lambda _x, _y: (found, None), listed is None


def _image_group(f: Model, name: str, output: str | None) -> ElementsOf:
    placing = image_action("rotation")  # where pictures are does not depend on the action

    def elements(x: Tensor, y: Tensor) -> tuple[list[Element], Tensor | None]:
        places = placing.input_place(x), output_place(f, x, tuple(y.shape), placing, output)
        turning = any(turns % 2 for _, turns in IMAGE_GROUPS[name])
        for place in places:
            if turning and isinstance(place, Axes) and place.sides[0].size != place.sides[1].size:
                sizes = tuple(side.size for side in place.sides)
                raise ValueError(f"expected square images for {name}, got {sizes}")

        def element(flip: bool, turns: int) -> Element:
            return Element(
                lambda z: _on_picture(z, places[0], lambda p: _turned(p, flip, turns)),
                lambda z: _on_picture(z, places[1], lambda p: _turned_back(p, flip, turns)),
            )

        return [element(flip, turns) for flip, turns in IMAGE_GROUPS[name]], None

    return elements


def _turned(picture: Tensor, flip: bool, turns: int) -> Tensor:
    return torch.rot90(picture.flip(-1) if flip else picture, turns, (-2, -1))


def _turned_back(picture: Tensor, flip: bool, turns: int) -> Tensor:
    found = torch.rot90(picture, -turns, (-2, -1))
    return found.flip(-1) if flip else found


def _on_picture(z: Tensor, place: Place, function: Map) -> Tensor:
    """Apply a linear map to the picture in a value; what is not part of it stays."""
    if not isinstance(place, Axes) or place.is_invariant:
        return z
    rest = z - place.on_picture(z, lambda picture: picture)
    return place.on_picture(z, function) + rest
