"""How often shifts of images change the predicted class: the consistency of Zhang (2019)."""

from __future__ import annotations

import torch
from torch import Tensor

from isotropy._run import generator as make_generator
from isotropy.equivariance._evaluation import Model, evaluating, inputs_for, output_of
from isotropy.equivariance._image_actions import image_action
from isotropy.equivariance._interpolation import Boundary
from isotropy.equivariance._residuals import SampledError, check_counts


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
