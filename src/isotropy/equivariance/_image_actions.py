"""Actions on images, by name; of brightness and saturation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from isotropy.equivariance._action import INVARIANT, Action, Place
from isotropy.equivariance._grid_actions import GRID_IMAGE_NAMES, grid_image_action
from isotropy.equivariance._interpolation import Boundary, Interpolation, Side

_LUMA = (0.299, 0.587, 0.114)  # of red, green and blue, ITU-R BT.601
COLOUR_NAMES = ("brightness", "saturation")
_FEW = 4


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


def image_action(
    name: str,
    *,
    boundary: Boundary = "reflect",
    interpolation: Interpolation = "fourier",
    side: Side = "central",
    channels_last: bool = False,
    mean: Sequence[float] = (),
    std: Sequence[float] = (),
) -> Action:
    r"""An action on images of shape (N, C, H, W), or (N, H, W, C) with ``channels_last``.

    With centred coordinates p, x to the right and y down, an element A of the Lie algebra of
    affine maps acts by (ρ(t)h)(p) = h(exp(−tA) p), with the derivative −(A p)·∇h at t = 0.

    | name                             | A p            | t = 1 is                       |
    |----------------------------------|----------------|--------------------------------|
    | ``translation_x``, ``_y``        | (1, 0), (0, 1) | the width, the height          |
    | ``rotation``                     | (−y, x)        | a radian, clockwise            |
    | ``shear_x``, ``_y``              | (y, 0), (0, x) | 45° of the other axis          |
    | ``stretch_x``, ``_y``            | (x, 0), (0, y) | a factor e                     |
    | ``scale``                        | (x, y)         | a factor e                     |
    | ``hyperbolic_rotation``          | (y, x)         | a hyperbolic radian            |
    | ``translation``, ``shear``, ``stretch`` | both    | the mean over the two          |
    | ``brightness``                   |                | light times e                  |
    | ``saturation``                   |                | difference from grey times e   |

    Between pixels the image is its Fourier series, so the derivative exists everywhere: on the
    torus for the periodic boundary, where translation is exact, and on the torus of the mirrored
    image for the reflecting one. ``interpolation="bilinear"`` has a kink at every pixel; ``side``
    then says which derivative is meant. (The published code leaves that to rounding, and moves by
    half a width for t = 1.)

    Inside a network a feature map is moved in the same way, by its own pixels, placed where its
    convolutions and poolings put them. Brightness and saturation act on pixels alone.

    Args:
        name: One of the names above.
        boundary: What lies outside the image: "reflect" mirrors it, "periodic" repeats it.
        interpolation: "fourier" or "bilinear".
        side: For bilinear: the derivative from above ("plus"), from below or their mean.
        channels_last: Whether inputs have their channels last.
        mean: For brightness and saturation, the mean that inputs were normalised with.
        std: Likewise the standard deviation.

    Raises:
        ValueError: If there is no such action or rule.

    Example:
        >>> import torch
        >>> x = torch.rand(2, 3, 8, 8, generator=torch.Generator().manual_seed(0)).double()
        >>> shift = image_action("translation_x", boundary="periodic")
        >>> torch.allclose(shift.transform(x, 1 / 8), x.roll(1, -1))
        True
        >>> difference = (shift.transform(x, 1e-6) - shift.transform(x, -1e-6)) / 2e-6
        >>> torch.allclose(shift.tangent(x), difference, atol=1e-6)
        True
    """
    rules: dict[str, Any] = {
        "boundary": boundary,
        "interpolation": interpolation,
        "side": side,
        "channels_last": channels_last,
    }
    if name in GRID_IMAGE_NAMES:
        return grid_image_action(name, rules)
    if name in COLOUR_NAMES:
        return ColourAction(name, tuple(mean), tuple(std), channels_last)
    known = (*GRID_IMAGE_NAMES, *COLOUR_NAMES)
    raise ValueError(f"expected an action on images among {', '.join(known)}, got {name!r}")


def _refuse_channels_last(x: Tensor) -> None:
    """Ask what is meant where the last axis has the size of colours and the second has not."""
    if x.shape[-1] in (1, 3, _FEW) and x.shape[1] > _FEW and x.shape[2] > _FEW:
        raise ValueError(
            f"expected images (N, C, H, W), got inputs of shape {tuple(x.shape)}, which look like "
            "(N, H, W, C); give the action itself: image_action(..., channels_last=True)"
        )


def as_action(action: Action | str, x: Tensor) -> Action:
    """An action, or the one that its name stands for on inputs of this shape."""
    from isotropy.equivariance._grid_actions import sequence_action

    if isinstance(action, Action):
        return action
    if not isinstance(action, str):
        raise TypeError(f"expected an action or its name, got {type(action).__name__}")
    if x.ndim == 4:
        _refuse_channels_last(x)
        return image_action(action)
    if x.ndim == 3:
        if x.shape[-1] <= _FEW:
            raise ValueError(
                f"expected sequences (N, C, L) for the action {action!r}, got inputs of shape "
                f"{tuple(x.shape)}; for points, or channels last, give the action itself: "
                "point_cloud_action(...), sequence_action(..., channels_last=True)"
            )
        return sequence_action(action)
    raise ValueError(
        f"expected images or sequences for the action {action!r}, got inputs of shape "
        f"{tuple(x.shape)}; give an action, such as group_action(symmetry)"
    )
