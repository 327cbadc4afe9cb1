"""How rows of data are laid out, as they were given and as models take them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class RowLayout:
    """How rows of data are laid out for a model, channel by channel over positions.

    Args:
        channels: Channels of inputs; more than one where they have positions and channels.
        output_channels: Those of outputs.
        channels_first: Whether they come before positions in the data.
        sequences: Whether inputs have an axis of channels, be there but one.
        output_sequences: Whether outputs have.
        image: The shape of an image as it was given; empty where data are none.
    """

    channels: int = 1
    output_channels: int = 1
    channels_first: bool = False
    sequences: bool = False
    output_sequences: bool = False
    image: tuple[int, ...] = ()

    def rows(self, x: Tensor) -> Tensor:
        """Data as they were given, as rows that a model takes.

        Raises:
            ValueError: If the shape is not that of the data.

        Example:
            >>> import torch
            >>> RowLayout(image=(1, 4, 6)).rows(torch.zeros(5, 1, 4, 6)).shape
            torch.Size([5, 24])
        """
        if self.image:
            if x.shape[1:] == (math.prod(self.image),):
                return x
            if x.shape[1:] != self.image:
                shape = ", ".join(map(str, self.image))
                raise ValueError(f"expected images of shape (n, {shape}), got {tuple(x.shape)}")
            if len(self.image) == 3 and self.image[0] != self.channels:  # channels come last
                x = x.movedim(3, 1)
            return x.flatten(1)
        axes = 3 if self.channels > 1 or self.sequences else 2
        if x.ndim != axes:
            raise ValueError(f"expected inputs with {axes} axes, got shape {tuple(x.shape)}")
        if x.ndim == 3:
            return (x if self.channels_first else x.transpose(1, 2)).flatten(1)
        return x
