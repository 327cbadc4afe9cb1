"""How rows of data are laid out, as they were given and as models take them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
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
        output_image: That of targets that are images.
    """

    channels: int = 1
    output_channels: int = 1
    channels_first: bool = False
    sequences: bool = False
    output_sequences: bool = False
    image: tuple[int, ...] = ()
    output_image: tuple[int, ...] = ()

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

    def given_outputs(self, y: Tensor) -> Tensor:
        """What a model says of rows, in the shape that targets were given in."""
        if self.output_channels == 1 and not self.output_sequences:
            return y
        y = y.unflatten(1, (self.output_channels, -1))
        return y if self.channels_first else y.transpose(1, 2)

    def input_order(self, size: int) -> Tensor:
        """Where the numbers of a row that a model takes stand in rows as they were given.

        Example:
            >>> RowLayout(channels=2).input_order(6).tolist()  # three positions of two channels
            [0, 2, 4, 1, 3, 5]
        """
        given: tuple[int, ...] = self.image
        if not given and (self.channels > 1 or self.sequences):
            given = (size // self.channels, self.channels)
            given = given[::-1] if self.channels_first else given
        places = torch.arange(size)
        return self.rows(places.reshape(1, *(given or (size,))))[0]

    def output_order(self, size: int) -> Tensor:
        """The same of outputs."""
        places = torch.arange(size)
        if self.image:
            first = len(self.image) == 2 or self.image[0] == self.channels
            sides = self.image[-2:] if first else self.image[:2]
            last = self.output_image[:2] == sides != self.output_image[-2:]
            return places.reshape(-1, self.output_image[-1]).T.flatten() if last else places
        if self.channels_first:
            return places
        return places.reshape(-1, self.output_channels).T.flatten()
