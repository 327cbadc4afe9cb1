"""What shifts of images do: EQ-T, EQ-T_frac (Karras et al. 2021), consistency (Zhang 2019)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from isotropy._run import generator as make_generator
from isotropy._run._moved_keywords import moved_keywords
from isotropy.equivariance._action import Place, output_place
from isotropy.equivariance._axes import Axes
from isotropy.equivariance._evaluation import Model, evaluating, inputs_for, output_of
from isotropy.equivariance._grid_actions import GridAction
from isotropy.equivariance._image_actions import image_action
from isotropy.equivariance._interpolation import Boundary, check_rules
from isotropy.equivariance._residuals import (
    MEAN_SQUARED_ERROR,
    Element,
    SampledError,
    check_counts,
    squared_residuals,
)


@dataclass(frozen=True)
class ShiftOptions:
    """How far `eq_t` and `layerwise_eq_t` shift images, and where they compare outputs.

    Args:
        fraction: The largest shift, as a share of the width and of the height; an eighth by
            default.
        boundary: What is shifted in: the other side ("periodic", the default) or the mirror image
            ("reflect").
        margin: Compare only outputs at least this share of the size away from every edge; all by
            default. For models that are not meant for a torus: ``fraction`` keeps out what was
            shifted in, and the radius of the receptive field besides, what padding does at the
            edge.

    Raises:
        ValueError: If the boundary is unknown, the fraction is not between 0 and 1/2, or the
            margin is not from 0 to below 1/2.

    Example:
        >>> x = torch.rand(2, 1, 16, 16, generator=torch.Generator().manual_seed(0))
        >>> pad = torch.nn.Conv2d(1, 1, 3, padding=1, bias=False)
        >>> inside = ShiftOptions(margin=0.125 + 1.5 / 16)  # the shift, and a pixel of padding
        >>> eq_t(pad, x).value > 1e-6, eq_t(pad, x, shifts=inside).value < 1e-12
        (True, True)
    """

    fraction: float = 0.125
    boundary: Boundary = "periodic"
    margin: float = 0.0

    def __post_init__(self) -> None:
        check_rules(self.boundary, "fourier", "central")
        if not 0 < self.fraction < 0.5:
            raise ValueError(
                f"expected a fraction of the size between 0 and 1/2, got {self.fraction}"
            )
        if not 0 <= self.margin < 0.5:
            raise ValueError(
                f"expected a margin from 0 to below 1/2 of the size, got {self.margin}"
            )


@moved_keywords(shifts=ShiftOptions)
def eq_t(
    f: Model,
    x: Tensor,
    *,
    fractional: bool = False,
    samples: int = 20,
    shifts: ShiftOptions | None = None,
    output: str | None = None,
    channels_last: bool = False,
    batch_size: int | None = None,
    generator: torch.Generator | int | None = 0,
) -> SampledError:
    """EQ-T, or EQ-T_frac, of a model: the mean squared error under shifts of its input.

        E_x E_t mean |ρ_out(t)⁻¹ f(ρ_in(t) x) − f(x)|²

    with the mean over the outputs, and a shift by t_x ~ Uniform(−fraction, fraction) of the width
    and t_y likewise of the height; f(x) stands for ρ_out(t)⁻¹ ρ_out(t) f(x), so that what a shift
    of outputs there and back loses (at the edge, or of the highest frequency) does not count.

    EQ-T rounds shifts to whole pixels, and so sees nothing of the aliasing in pointwise functions;
    EQ-T_frac does not. Karras et al. (2021) report the error as a peak signal-to-noise ratio:
    ``eq_t(...).psnr(peak)``.

    Pixels between the given ones are those of the Fourier series, as in `image_action`. All inputs
    share the same shifts, so the answer does not depend on the batch size.

    Args:
        f: A module, or any function of images.
        x: Images, shape (N, C, H, W).
        fractional: Whether shifts are of any length (EQ-T_frac) or whole pixels (EQ-T).
        samples: The number of shifts.
        shifts: How far they go, and where outputs are compared.
        output: How shifts act on outputs, as in `lie_derivative`; class scores are invariant.
        channels_last: Whether the images have their channels last.
        batch_size: How many images the model is given at once; None for all.
        generator: Seed or generator of the shifts.

    Raises:
        ValueError: If the shifts, the images or the outputs do not fit.

    Example:
        >>> x = torch.rand(2, 1, 16, 16, generator=torch.Generator().manual_seed(0))
        >>> eq_t(torch.relu, x - 0.5).value < 1e-12
        True
        >>> eq_t(torch.relu, x - 0.5, fractional=True).value > 1e-4
        True
    """
    shifts = shifts or ShiftOptions()
    drawn = drawn_shifts(x, samples, batch_size, shifts.fraction, generator)

    def elements(x: Tensor, y: Tensor) -> tuple[list[Element], Tensor | None]:
        placing = shift_action((1.0, 1.0), shifts.boundary, channels_last)
        at_input = placing.input_place(x)
        assert isinstance(at_input, Axes)
        at_output = output_place(f, x, tuple(y.shape), placing, output)
        found = shift_elements(drawn, fractional, shifts.boundary, at_input, at_output)
        return found, interior_of(y, at_output, shifts.margin)

    squares, size = squared_residuals(f, x, elements, batch_size)
    return SampledError.of(squares / size, MEAN_SQUARED_ERROR, drawn=True)


# --- shifts -----------------------------------------------------------------------------------


def drawn_shifts(
    x: Tensor,
    samples: int,
    batch_size: int | None,
    fraction: float,
    generator: torch.Generator | int | None,
) -> Tensor:
    """Shifts as shares of the width and of the height, shape (samples, 2)."""
    check_counts(x, samples, batch_size)
    drawn = torch.rand(samples, 2, generator=make_generator(generator), dtype=torch.float64)
    return (2 * drawn - 1) * fraction


def shift_action(
    by: tuple[float, float], boundary: Boundary, channels_last: bool = False
) -> GridAction:
    """The action that shifts images for t = 1: to the right in widths, down in heights."""
    matrix = ((0.0, 0.0, by[0]), (0.0, 0.0, by[1]))
    return GridAction("shift", "itself", matrix, boundary=boundary, channels_last=channels_last)


def shift_elements(
    shifts: Tensor, fractional: bool, boundary: Boundary, at_input: Axes, at_output: Place
) -> list[Element]:
    """Shifts there and back; in whole pixels of the inputs unless they are fractional."""
    height, width = at_input.sides
    if not fractional:
        # a pixel of this input, which may be a part of the images' side only
        pixels = torch.tensor([s.whole / s.pitch for s in (width, height)], dtype=torch.float64)
        shifts = torch.round(shifts * pixels) / pixels

    def element(x: float, y: float) -> Element:
        action = shift_action((x, y), boundary)
        return Element(
            lambda z: action.move(z, 1.0, at_input),
            lambda z: action.move(z, -1.0, at_output),
            lambda z: action.move(z, 1.0, at_output),
        )

    return [element(x, y) for x, y in shifts.tolist()]


def interior_of(y: Tensor, place: Place, margin: float) -> Tensor | None:
    """Ones where an output is at least a margin away from every edge, else zeros; None for all."""
    if not margin or not isinstance(place, Axes) or place.is_invariant:
        return None
    weights = torch.ones((), dtype=torch.float64, device=y.device)
    for number, side in enumerate(place.sides):
        inside = (side.places(weights).abs() <= 0.5 - margin).to(weights)
        weights = weights * inside.reshape([-1] + [1] * (1 - number))
    if not bool(weights.any()):
        sizes = tuple(side.size for side in place.sides)
        raise ValueError(
            f"expected outputs within a margin of {margin}, got none of a map of {sizes}"
        )
    ones = torch.ones(y.shape, dtype=torch.float64, device=y.device)
    return place.on_picture(ones, lambda picture: picture * weights)


def consistency(
    f: Model,
    x: Tensor,
    *,
    pixels: int = 10,
    samples: int = 20,
    boundary: Boundary = "periodic",
    channels_last: bool = False,
    batch_size: int | None = None,
    generator: torch.Generator | int | None = 0,
) -> SampledError:
    """How often a shift by whole pixels changes the predicted class (Zhang, 2019).

    The share of images and shifts (d_x, d_y) for which the largest of f's outputs is another one
    than without the shift: one minus the consistency, so that it is an equivariance error (thesis,
    A.3.3.3). The shifts are drawn uniformly from all those by at most so many pixels along either
    axis, but for no shift at all; images are rolled around.

    Args:
        f: A classifier: a module, or any function that gives tensors of shape (N, classes).
        x: Images, shape (N, C, H, W).
        pixels: The largest shift.
        samples: The number of shifts, which all images share.
        boundary: What is shifted in: the other side ("periodic") or the mirror image ("reflect").
        channels_last: Whether the images have their channels last.
        batch_size: How many images the model is given at once; None for all.
        generator: Seed or generator of the shifts.

    Raises:
        ValueError: If the shifts, the images or the outputs do not fit.

    Example:
        >>> x = torch.rand(4, 3, 16, 16, generator=torch.Generator().manual_seed(0))
        >>> consistency(lambda x: x.amax((2, 3)), x).value  # the brightest colour
        0.0
        >>> consistency(lambda x: x[:, :, 0, 0], x).value > 0.3  # that of the first pixel
        True
    """
    check_counts(x, samples, batch_size)
    placing = image_action("translation_x", boundary=boundary, channels_last=channels_last)
    placing.input_place(x)  # refuses what are not images
    if isinstance(pixels, bool) or not isinstance(pixels, int) or pixels < 1:
        raise ValueError(f"expected shifts by at least one pixel, got {pixels!r}")
    side = 2 * pixels + 1
    drawn = torch.randint(side**2 - 1, (samples,), generator=make_generator(generator))
    drawn = drawn + (drawn >= side**2 // 2)  # the one in the middle is no shift
    tables = []
    with evaluating(f), torch.no_grad():
        for batch in x.split(batch_size or len(x)):
            images = inputs_for(f, batch)
            predicted = _top(f, images)
            rows = []
            for down, across in zip((drawn // side).tolist(), (drawn % side).tolist(), strict=True):
                rolled = _rolled(images, down - pixels, 1 if channels_last else 2, boundary)
                rolled = _rolled(rolled, across - pixels, 2 if channels_last else 3, boundary)
                rows.append((_top(f, rolled) != predicted).double().cpu())
            tables.append(torch.stack(rows))
    return SampledError.of(torch.cat(tables, 1), "share of changed predictions", drawn=True)


def _top(f: Model, x: Tensor) -> Tensor:
    y = output_of(f(x.clone()))  # it may work in place
    if y.ndim != 2 or len(y) != len(x):
        raise ValueError(f"expected outputs of shape (N, classes), got {tuple(y.shape)}")
    return y.argmax(1)


def _rolled(x: Tensor, by: int, axis: int, boundary: Boundary) -> Tensor:
    """Shift by whole pixels, without any rounding."""
    n = x.shape[axis]
    index = torch.arange(n, device=x.device) - by
    if boundary == "reflect":
        index = index % (2 * n)
        index = torch.where(index < n, index, 2 * n - 1 - index)
    return x.index_select(axis, index % n)
