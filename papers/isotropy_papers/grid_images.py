"""Images moved by the grid transformations of Basu et al. 2021, by choice as they were there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

import torch
from torch import Tensor

from isotropy.groups import GRID_TRANSFORMATIONS, Grid, GridTransformation, grid_transformations
from isotropy.run import generator as make_generator
from isotropy.run import spawn
from isotropy_papers._image_warps import IMAGES_AT_ONCE, unit_pixels

_NAMES = tuple(GRID_TRANSFORMATIONS)
_TABLE_2 = {
    "Aug0": (),
    "Aug1": (2, 3, 7, 12),
    "Aug2": (1, 2, 9, 10),
    "Aug3": (1, 4, 8, 11),
    "Aug4": (1, 2, 3, 4, 5, 6),
    "Aug5": tuple(range(1, 13)),
}
_TABLE_8: dict[str, tuple[int, ...]] = {f"IAug{k}": (k,) if k else () for k in range(13)}

AUGMENTATIONS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        augmentation: tuple(_NAMES[number - 1] for number in numbers)
        for augmentation, numbers in (_TABLE_2 | _TABLE_8).items()
    }
)
"""Names of transformations in Aug0 to Aug5 of Table 2 and IAug0 to IAug12 of Table 8."""


def transform_images(
    images: Tensor,
    transformations: Iterable[str],
    *,
    generator: torch.Generator | int | None,
    published: bool = False,
    grids: Sequence[Grid] = (20,),
) -> Tensor:
    """Move every image by a random element of each of some groups, one group after the other.

    The element is gᵏ with k uniform on 0, …, order − 1, for the very g whose orbits share the
    weights of a network between the image and ``grids``: data and network have one symmetry.

    The published sets differ from the published networks in that: rotation is by any angle, pixels
    by nearest neighbour with zeros from outside; translations by one pixel to the left or up;
    the quadrants take one step counter-clockwise. All but rotation happen with probability ½.

    Args:
        images: Pixels, shape (n, c, h, w): uint8, or floats in [0, 1].
        transformations: Some of `isotropy.groups.GRID_TRANSFORMATIONS`; they are applied in the
            order of that catalogue, each once.
        generator: A seed or a generator.
        published: Whether to move images as the published sets do.
        grids: Of the hidden layers that will share weights; steps of translations depend on them.

    Returns:
        Floats in [0, 1], in the shape of ``images``.

    Raises:
        TypeError: If images are not a tensor, or pixels neither uint8 nor float32 or float64.
        ValueError: If a shape, the range of pixels or a name is wrong, or a transformation does
            not act on images of this shape.

    Example:
        >>> images = (torch.arange(16.0).reshape(4, 4) / 16).expand(10, 1, 4, 4)
        >>> moved = transform_images(images, ["horizontal scramble"], generator=0, grids=(2,))
        >>> sorted({tuple(row) for row in (16 * moved[:, 0, 0]).tolist()})
        [(0.0, 1.0, 2.0, 3.0), (2.0, 3.0, 0.0, 1.0)]
    """
    pixels = same_size_pixels(images)
    named = [transformations] if isinstance(transformations, str) else transformations
    chosen = grid_transformations(named)
    # one generator for each, whatever else is chosen, so that more images leave the first as is
    randoms = dict(zip(_NAMES, spawn(make_generator(generator), len(_NAMES)), strict=True))
    for one in chosen:
        if published:
            pixels = _moved_as_published(pixels, one, randoms[one.name])
        else:
            pixels = _moved(pixels, one.powers(_shape(pixels), *grids)[0], randoms[one.name])
    return pixels if chosen else pixels.clone()


def _moved(pixels: Tensor, powers: Tensor, random: torch.Generator) -> Tensor:
    """Each image by a power of its own; the pixel at p comes from where g⁻ᵏ takes p."""
    drawn = torch.randint(len(powers), (len(pixels),), generator=random, device=random.device)
    return _taken_from(pixels, powers, -drawn.cpu() % len(powers))


def _moved_as_published(pixels: Tensor, one: GridTransformation, random: torch.Generator) -> Tensor:
    n = len(pixels)
    if one.name == "rotation":
        shares = torch.rand(n, generator=random, dtype=torch.float64, device=random.device)
        return turned_to_nearest(pixels, 360 * shares.cpu() - 180)
    step = GridTransformation(one.name, 1) if one.is_translation else one
    # taking pixels from where the generator goes applies its inverse, as was published; which is
    # the generator itself but for translations and rotation scrambles
    (places,) = step.permutations(_shape(pixels))
    both = torch.stack([torch.arange(len(places)), places])
    drawn = torch.randint(2, (n,), generator=random, device=random.device)
    return _taken_from(pixels, both, drawn.cpu())


def turned_to_nearest(pixels: Tensor, degrees: Tensor) -> Tensor:
    """Turn each image about its centre, counter-clockwise, by nearest neighbour; zeros come in.

    Source places are found in steps of 1/65536 of a pixel, as Pillow's ``Image.rotate`` finds
    them, so that every pixel is the one it takes.

    Args:
        pixels: Shape (n, c, h, w).
        degrees: Shape (n,).
    """
    framed = torch.nn.functional.pad(pixels.flatten(2), (0, 1))  # one empty pixel, for outside
    blocks = zip(framed.split(IMAGES_AT_ONCE), degrees.split(IMAGES_AT_ONCE), strict=True)
    turned = [_gathered(b, _sources(of_b, *_shape(pixels)).to(b.device)) for b, of_b in blocks]
    return torch.cat(turned).reshape(pixels.shape)


def _sources(degrees: Tensor, height: int, width: int) -> Tensor:
    """Which pixel each pixel of a turned image is taken from; height · width for outside."""
    angles = degrees.to(torch.float64).deg2rad()
    # Pillow rounds so; without it quarter turns would miss a row
    cosine, sine = (f(angles).round(decimals=15) for f in (torch.cos, torch.sin))
    x, y = torch.arange(width), torch.arange(height)[:, None]
    columns = _places(cosine, -sine, width / 2, height / 2, x, y)
    rows = _places(cosine, sine, height / 2, width / 2, y, x)
    inside = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
    return torch.where(inside, rows * width + columns, height * width).flatten(1)


def _places(
    along: Tensor, across: Tensor, centre: float, other: float, place: Tensor, to_side: Tensor
) -> Tensor:
    """Where pixels come from along one axis: ⌊along (p + ½ − c) + across (q + ½ − c') + c⌋."""
    start = along * (0.5 - centre) + across * (0.5 - other) + centre
    a, b, c = (
        torch.floor(65536 * value + 0.5).to(torch.int64)[:, None, None]
        for value in (along, across, start)
    )
    return torch.div(a * place + b * to_side + c, 65536, rounding_mode="floor")


def _taken_from(pixels: Tensor, tables: Tensor, which: Tensor) -> Tensor:
    """Pixel p of image i of the result is pixel ``tables[which[i], p]`` of image i."""
    tables, which = tables.to(pixels.device), which.to(pixels.device)
    blocks = zip(pixels.flatten(2).split(IMAGES_AT_ONCE), which.split(IMAGES_AT_ONCE), strict=True)
    return torch.cat([_gathered(b, tables[of_b]) for b, of_b in blocks]).reshape(pixels.shape)


def _gathered(flat: Tensor, places: Tensor) -> Tensor:
    return flat.gather(2, places[:, None].expand(-1, flat.shape[1], -1))


def _shape(pixels: Tensor) -> tuple[int, int]:
    return pixels.shape[-2], pixels.shape[-1]


def same_size_pixels(images: Tensor) -> Tensor:
    """Images as floats in [0, 1]; what is no tensor is refused with the reason.

    Raises:
        TypeError: If images are not a tensor, or pixels neither uint8 nor float32 or float64.
        ValueError: If images differ in shape, or the shape or the range of pixels is wrong.
    """
    if isinstance(images, list | tuple):
        sizes = sorted({tuple(getattr(image, "shape", ())) for image in images})
        if len(sizes) > 1:
            listed = " and ".join(map(str, sizes[:2]))
            raise ValueError(f"expected images of one shape, as one tensor, got {listed}")
    return unit_pixels(images)
