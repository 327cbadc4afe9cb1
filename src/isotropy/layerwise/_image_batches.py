"""Images as a network was trained on them: their size and scale, their labels, random changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from isotropy.data import resized, standardised


def require_labels(y: Any, samples: int) -> Tensor:
    """Labels as whole numbers, one for each sample.

    Raises:
        TypeError: If they are not whole numbers.
        ValueError: If there are more or fewer.

    Example:
        >>> require_labels([3, 5], 2)
        tensor([3, 5])
    """
    try:
        labels = torch.as_tensor(y)
    except (TypeError, ValueError) as error:
        raise TypeError(f"expected labels as whole numbers, got {type(y).__name__}") from error
    if labels.dtype == torch.bool or labels.is_floating_point() or labels.is_complex():
        raise TypeError(f"expected labels as whole numbers, got {labels.dtype}")
    if tuple(labels.shape) != (samples,):
        raise ValueError(f"expected {samples} labels in one axis, got {tuple(labels.shape)}")
    return labels.to(torch.int64)


def class_places(labels: Tensor, outputs: int | None = None) -> tuple[tuple[int, ...], Tensor]:
    """Which classes there are, and the place of every label among them.

    Args:
        labels: Whole numbers, shape (n,).
        outputs: How many outputs a network has; where there are more than labels that occur,
            labels have to be their places.

    Returns:
        The classes, and the places, shape (n,).

    Raises:
        ValueError: If there is but one class, or they do not fit the outputs.

    Example:
        >>> class_places(torch.tensor([7, 3, 7]))
        ((3, 7), tensor([1, 0, 1]))
        >>> class_places(torch.tensor([2, 0]), outputs=3)
        ((0, 1, 2), tensor([2, 0]))
    """
    values, places = labels.unique(return_inverse=True)
    if len(values) < 2:
        raise ValueError(f"expected labels of at least two classes, got {len(values)}")
    if outputs is None or outputs == len(values):
        return tuple(values.tolist()), places
    if outputs < len(values) or int(values[0]) < 0 or int(values[-1]) >= outputs:
        raise ValueError(
            f"expected labels from 0 to {outputs - 1}, as the model has {outputs} outputs, got "
            f"{len(values)} from {int(values[0])} to {int(values[-1])}"
        )
    return tuple(range(outputs)), labels


@dataclass(frozen=True, eq=False)
class ImageUnits:
    """Brings images to one size, and channels to zero mean and unit variance.

    Args:
        channels: How many channels images have.
        size: Height and width to which images are resized; None for those that they have.
        factor: What pixels are multiplied with, float64, shape (channels, 1, 1).
        offset: What is added then, likewise.

    Example:
        >>> units = ImageUnits.of(torch.tensor([[[[0.0, 4.0]]]]))
        >>> units(torch.tensor([[[[2.0, 6.0]]]]))
        tensor([[[[0., 2.]]]])
    """

    channels: int
    size: int | None
    factor: Tensor
    offset: Tensor

    @classmethod
    def of(cls, images: Any, size: int | None = None) -> ImageUnits:
        """The units in which these images are standardised.

        Args:
            images: Pixels, shape (n, c, h, w): uint8, or any floats.
            size: Height and width; None to keep those of the images.

        Raises:
            TypeError: If the pixels are of another kind.
            ValueError: If the shape is wrong, or a pixel is not finite.
        """
        pixels = _pixels(images, size)
        ends = torch.tensor([0.0, 1.0], dtype=torch.float64, device=pixels.device)
        # what becomes of black and white tells what becomes of all between
        low, high = ends.reshape(2, 1, 1, 1).expand(2, pixels.shape[1], 1, 1).split(1)
        _, black, white = standardised(pixels, low, high)
        return cls(pixels.shape[1], size, (white - black)[0].cpu(), black[0].cpu())

    def __call__(self, images: Any) -> Tensor:
        """Images in these units, in their own precision.

        Raises:
            TypeError: As ``of``.
            ValueError: As ``of``, or if there are more channels or fewer.
        """
        pixels = _pixels(images, self.size)
        if pixels.shape[1] != self.channels:
            raise ValueError(f"expected images of {self.channels} channels, got {pixels.shape[1]}")
        return pixels * self.factor.to(pixels) + self.offset.to(pixels)


def _pixels(images: Any, size: int | None) -> Tensor:
    given = torch.as_tensor(images) if isinstance(images, np.ndarray) else images
    if not isinstance(given, Tensor):
        raise TypeError(f"expected images as a tensor or an array, got {type(images).__name__}")
    if given.ndim != 4 or given.numel() == 0:
        raise ValueError(
            f"expected images of shape (n, channels, height, width), got {tuple(given.shape)}"
        )
    if given.dtype not in (torch.uint8, torch.float32, torch.float64):
        raise TypeError(f"expected pixels as uint8, float32 or float64, got {given.dtype}")
    pixels = given.to(torch.float32) / 255 if given.dtype == torch.uint8 else given
    if not bool(pixels.isfinite().all()):
        raise ValueError("expected finite pixels, got NaN or infinity")
    if size is None or tuple(pixels.shape[2:]) == (size, size):
        return pixels
    return resized(pixels, size)


class AugmentedBatches:
    """Batches (augment(x), y) in a new order every time; an image alone joins the batch before.

    Args:
        x: Images, shape (n, *).
        y: Labels, shape (n,).
        batch_size: Images in a batch.
        augment: From a batch of images to one of the same shape.
        generator: Where the order comes from.

    Raises:
        TypeError: If ``augment`` cannot be called.

    Example:
        >>> x = torch.arange(5.0)
        >>> batches = AugmentedBatches(x, x, 2, lambda x: -x, torch.Generator().manual_seed(0))
        >>> for x, y in batches:
        ...     print(len(x), bool((x == -y).all()))
        2 True
        3 True
    """

    def __init__(
        self,
        x: Tensor,
        y: Tensor,
        batch_size: int,
        augment: Callable[[Tensor], Tensor],
        generator: torch.Generator,
    ) -> None:
        if not callable(augment):
            raise TypeError(
                f"expected a function of a batch of images as augment, got {type(augment).__name__}"
            )
        self._x, self._y, self._batch_size, self._augment = x, y, batch_size, augment
        self.generator = generator  # by this name a checkpoint finds it

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        order = torch.randperm(len(self._x), generator=self.generator)
        batches = list(order.split(self._batch_size))
        if len(batches) > 1 and len(batches[-1]) == 1:
            # on a single image a batch normalisation cannot be trained
            batches[-2:] = [torch.cat(batches[-2:])]
        for rows in batches:
            x = self._x[rows.to(self._x.device)]
            changed = self._augment(x)
            if not isinstance(changed, Tensor) or changed.shape != x.shape:
                got = getattr(changed, "shape", type(changed).__name__)
                raise ValueError(
                    f"expected augmented images of shape {tuple(x.shape)}, got "
                    f"{tuple(got) if isinstance(got, torch.Size) else got}"
                )
            yield changed, self._y[rows.to(self._y.device)]
