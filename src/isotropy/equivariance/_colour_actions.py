"""Actions on the values of pixels: brightness and saturation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from isotropy.equivariance._action import INVARIANT, Action, Place

_LUMA = (0.299, 0.587, 0.114)  # of red, green and blue, ITU-R BT.601
COLOUR_NAMES = ("brightness", "saturation")


@dataclass(frozen=True)
class ColourAction(Action):
    """Multiply the light, or the colour, of pixels by e^t; what follows from them is invariant.

    With pixels v = std · x + mean of inputs x that were normalised by a mean and a standard
    deviation for each channel, brightness is v ↦ e^t v, so X x = x + mean/std; saturation is
    v ↦ grey(v) + e^t (v − grey(v)), with grey the weighted mean of red, green and blue.

    Args:
        name: "brightness" or "saturation".
        mean: The mean that inputs were normalised with; empty for none.
        std: The standard deviation that they were normalised with; empty for none.
        channels_last: Whether inputs have their channels last.
    """

    name: str
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    channels_last: bool = False
    unit: str = "factor e"
    boundary: str = "none"

    def input_place(self, x: Tensor) -> Place:
        """Images, shape (N, C, H, W); saturation needs three channels."""
        channel = -1 if self.channels_last else -3
        if x.ndim != 4 or x.numel() == 0:
            raise ValueError(f"expected images of four axes for {self.name}, got {tuple(x.shape)}")
        channels = x.shape[channel]
        if self.name == "saturation" and channels != 3:
            raise ValueError(f"expected three channels for saturation, got {channels}")
        for what, given in (("mean", self.mean), ("std", self.std)):
            if len(given) not in (0, 1, channels):
                raise ValueError(f"expected a {what} for each of {channels} channels, got {given}")
        return "points"  # anything but invariant: only inputs change

    def named_place(self, text: str, _shape: tuple[int, ...], _at_input: Place) -> Place:
        """Only "invariant": colour has no action on features."""
        if text != INVARIANT:
            raise ValueError(f"expected the layout invariant under {self.name}, got {text!r}")
        return INVARIANT

    def guessed_place(self, _shape: tuple[int, ...], _at_input: Place) -> Place | None:
        """Everything that follows from pixels is invariant."""
        return INVARIANT

    def act(self, z: Tensor, place: Place) -> Tensor:
        """Pixels times e^t at t = 0: what is multiplied."""
        return torch.zeros_like(z) if place == INVARIANT else self._multiplied(z)

    def _multiplied(self, x: Tensor) -> Tensor:
        mean, std = self._per_channel(self.mean, 0.0, x), self._per_channel(self.std, 1.0, x)
        light = x + mean / std
        if self.name == "brightness":
            return light
        channel = -1 if self.channels_last else -3
        weights = self._per_channel(_LUMA, 0.0, x)
        grey = (weights * std * light).sum(channel, keepdim=True)
        return light - grey / std

    def move(self, z: Tensor, t: float | Tensor, place: Place) -> Tensor:
        """Pixels with the light or the colour times e^t."""
        if place == INVARIANT:
            return z
        factor = torch.expm1(torch.as_tensor(t, dtype=z.dtype, device=z.device))
        return z + factor * self._multiplied(z)

    def _per_channel(self, values: tuple[float, ...], default: float, like: Tensor) -> Tensor:
        found = torch.tensor(values or (default,), dtype=like.dtype, device=like.device)
        return found if self.channels_last else found[:, None, None]

    def describe(self) -> dict[str, Any]:
        """Name, unit, boundary rule and normalisation, for JSON."""
        return {**super().describe(), "mean": list(self.mean), "std": list(self.std)}
