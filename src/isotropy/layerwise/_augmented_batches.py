"""Shuffled batches of images that are changed at random each time."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor


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
