"""Subsampling that blurs first, so that what the coarser grid cannot hold does not alias."""

from __future__ import annotations

import copy
import math
from typing import Literal, TypeAlias, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

PaddingMode: TypeAlias = Literal["reflect", "circular", "zeros", "replicate"]


class BlurPool2d(nn.Module):
    r"""A binomial filter over each channel, then every ``stride``-th pixel (Zhang 2019).

    With taps b_i = C(m − 1, i) / 2^(m−1) along each axis, y[j] = Σ_i b_i x[s j + i − ⌊(m − 1)/2⌋].
    The result has the size ⌈n / stride⌉ and the place of ``x[..., ::stride, ::stride]``: outputs
    are centred on those pixels for an odd number of taps, half a pixel further for an even one.

    Args:
        channels: The channels of the input; ``None`` for any number.
        taps: How many taps the filter has, for both axes or (vertical, horizontal). Zhang uses 3,
            4 and 5; 2 is a box, 1 none at all.
        stride: The stride, for both axes or (vertical, horizontal).
        padding_mode: What is beyond the border. With ``"circular"``, and a stride that divides the
            image, the layer commutes with circular shifts by multiples of the stride.
        device: Where the filter lives.
        dtype: Its precision; it takes on that of the input.

    Raises:
        ValueError: If a number is not positive or there is no such padding.

    Example:
        >>> x = torch.zeros(1, 1, 5, 5)
        >>> x[0, 0, 2, 2] = 16
        >>> BlurPool2d(taps=3)(x)
        tensor([[[[0., 0., 0.],
                  [0., 4., 0.],
                  [0., 0., 0.]]]])
    """

    filter: Tensor

    def __init__(
        self,
        channels: int | None = None,
        *,
        taps: int | tuple[int, int] = 4,
        stride: int | tuple[int, int] = 2,
        padding_mode: PaddingMode = "reflect",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        if padding_mode not in get_args(PaddingMode):
            choices = ", ".join(map(repr, get_args(PaddingMode)))
            raise ValueError(f"expected a padding among {choices}, got {padding_mode!r}")
        if channels is not None and channels < 1:
            raise ValueError(f"expected at least one channel, got {channels}")
        self.channels = channels
        self.taps = _pair(taps, "taps")
        self.stride = _pair(stride, "stride")
        self.padding_mode = padding_mode
        vertical, horizontal = (_binomial(taps, device, dtype) for taps in self.taps)
        # not among the saved weights: a network gains or loses the layer and its weights still fit
        self.register_buffer("filter", torch.outer(vertical, horizontal), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Map (n, channels, h, w) or (channels, h, w) to maps of ⌈h/stride⌉ by ⌈w/stride⌉."""
        if x.ndim not in (3, 4) or (self.channels is not None and x.shape[-3] != self.channels):
            channels = "channels" if self.channels is None else self.channels
            raise ValueError(f"expected maps of shape (n, {channels}, h, w), got {tuple(x.shape)}")
        channels = x.shape[-3]
        weight = self.filter.to(x.dtype).expand(channels, 1, *self.taps)
        return F.conv2d(self._padded(x), weight, stride=self.stride, groups=channels)

    def _padded(self, x: Tensor) -> Tensor:
        (top, bottom), (left, right) = sides = [((n - 1) // 2, n // 2) for n in self.taps]
        height, width = x.shape[-2:]
        mode = self.padding_mode
        if mode in ("reflect", "circular") and (bottom >= height or right >= width):
            # PyTorch pads by less than the image
            rows, columns = (
                _places(size, before, after, mode, x.device)
                for size, (before, after) in zip((height, width), sides, strict=True)
            )
            return x[..., rows, :][..., columns]
        return F.pad(x, (left, right, top, bottom), mode="constant" if mode == "zeros" else mode)

    def extra_repr(self) -> str:
        """The arguments, for ``print``."""
        channels = "" if self.channels is None else f"{self.channels}, "
        taps, stride = (a if a == b else (a, b) for a, b in (self.taps, self.stride))
        return f"{channels}taps={taps}, stride={stride}, padding_mode={self.padding_mode!r}"


def anti_aliased(model: nn.Module, *, taps: int = 4) -> nn.Module:
    """Copy a model with a `BlurPool2d` wherever it subsamples (Zhang 2019).

    - A ``Conv2d`` of stride s becomes the same convolution of stride 1, then a blur of stride s.
    - A ``MaxPool2d`` of stride s becomes the same maximum at stride 1, then a blur of stride s.
    - An ``AvgPool2d`` of stride s becomes a blur of stride s in its place.

    All sizes stay as they are. Weights are copied, not shared; they fit the function that is
    computed now less well than the old one until they are trained again. Zhang puts the blur after
    the nonlinearity that follows a convolution; which one that is cannot be seen from a model, so
    here the blur follows the convolution itself.

    Windows that do not overlap and are larger than 3 pixels (``kernel_size == stride > 3``) are
    left alone: they are patch embeddings, or the mean over a whole map. So is what a model does by
    functions, such as ``F.max_pool2d``, which cannot be seen from outside.

    Args:
        model: Any model; it is not changed.
        taps: How many taps the filters have.

    Returns:
        The copy. A convolution ``name`` is now at ``name.0``, its blur at ``name.1``.

    Raises:
        ValueError: If the number of taps is not positive, or a pooling layer returns indices,
            overrides its divisor or rounds sizes up in a way that a blur cannot follow.

    Example:
        >>> anti_aliased(nn.Sequential(nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.ReLU()))
        Sequential(
          (0): Sequential(
            (0): Conv2d(3, 8, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1))
            (1): BlurPool2d(taps=4, stride=2, padding_mode='reflect')
          )
          (1): ReLU()
        )
    """
    taps, _ = _pair(taps, "taps")
    model = copy.deepcopy(model)
    replaced: dict[nn.Module, nn.Module] = {}  # a layer that is used twice is replaced once
    for name, module in list(model.named_modules()):
        if isinstance(module, nn.Conv2d | nn.MaxPool2d | nn.AvgPool2d) and _subsamples(module):
            replaced[module] = _blurred(module, taps, name or type(module).__name__)
    for parent in list(model.modules()):
        for name, child in parent._modules.items():
            if child in replaced:
                parent._modules[name] = replaced[child]
    return replaced.get(model, model)


class _BlurInPlaceOfAverage(nn.Module):
    """A blur with the sizes and the place of an average over windows."""

    def __init__(self, pool: nn.AvgPool2d, taps: int) -> None:
        super().__init__()
        self.kernel_size = _pair(pool.kernel_size, "kernel_size")
        self.padding = _pair(pool.padding, "padding", least=0)
        self.ceil_mode = pool.ceil_mode
        self.blur = _blur(pool, taps)

    def forward(self, x: Tensor) -> Tensor:
        slices: list[slice] = []
        sides: list[int] = []
        for size, kernel, stride, padding in zip(
            x.shape[-2:], self.kernel_size, self.blur.stride, self.padding, strict=True
        ):
            free = size + 2 * padding - kernel
            slices.append(slice((free + stride - 1 if self.ceil_mode else free) // stride + 1))
            # from the first pixel to the middle of the first window
            sides = [padding - (kernel - 1) // 2, 0, *sides]
        y: Tensor = self.blur(F.pad(x, sides))
        return y[..., slices[0], slices[1]]


def _subsamples(module: nn.Conv2d | nn.MaxPool2d | nn.AvgPool2d) -> bool:
    kernel_size, stride = _pair(module.kernel_size, "kernel_size"), _pair(module.stride, "stride")
    return max(stride) > 1 and not (kernel_size == stride and max(stride) > 3)


def _blurred(module: nn.Conv2d | nn.MaxPool2d | nn.AvgPool2d, taps: int, name: str) -> nn.Module:
    if isinstance(module, nn.AvgPool2d):
        _require_average(module, name)
        return _BlurInPlaceOfAverage(module, taps)
    blur = _blur(module, taps)
    before: list[nn.Module] = []
    if isinstance(module, nn.MaxPool2d):
        if module.return_indices:
            raise ValueError(f"{name}: expected a maximum without return_indices, got one with it")
        if module.ceil_mode:
            before.append(_room_to_round_up(module, name))
            module.ceil_mode = False
    module.stride = (1, 1)
    return nn.Sequential(*before, module, blur)


def _require_average(pool: nn.AvgPool2d, name: str) -> None:
    if pool.divisor_override is not None:
        raise ValueError(f"{name}: expected an average without divisor_override, got one with it")
    kernel_size, padding = _pair(pool.kernel_size, "kernel_size"), _pair(pool.padding, "padding", 0)
    for kernel, stride, pad in zip(kernel_size, _pair(pool.stride, "stride"), padding, strict=True):
        if pool.ceil_mode and stride + pad > kernel // 2 + 1:
            raise ValueError(_cannot_round_up(name, kernel, stride, pad))


def _room_to_round_up(pool: nn.MaxPool2d, name: str) -> nn.Module:
    """Pad so that windows which stick out at the end count, as ``ceil_mode`` has it."""
    geometry = zip(
        _pair(pool.kernel_size, "kernel_size"),
        strides := _pair(pool.stride, "stride"),
        _pair(pool.padding, "padding", least=0),
        _pair(pool.dilation, "dilation"),
        strict=True,
    )
    for kernel, stride, padding, dilation in geometry:
        if padding + stride - 1 > dilation * (kernel - 1):
            raise ValueError(_cannot_round_up(name, kernel, stride, padding))
    return nn.ConstantPad2d((0, strides[1] - 1, 0, strides[0] - 1), -math.inf)


def _cannot_round_up(name: str, kernel: int, stride: int, padding: int) -> str:
    return (
        f"{name}: expected windows that reach the image where ceil_mode rounds up, got "
        f"kernel_size {kernel}, stride {stride}, padding {padding}"
    )


def _blur(module: nn.Conv2d | nn.MaxPool2d | nn.AvgPool2d, taps: int) -> BlurPool2d:
    stride = _pair(module.stride, "stride")
    weight = module.weight if isinstance(module, nn.Conv2d) else None
    return BlurPool2d(
        taps=(taps if stride[0] > 1 else 1, taps if stride[1] > 1 else 1),
        stride=stride,
        device=None if weight is None else weight.device,
        dtype=None if weight is None else weight.dtype,
    )


def _binomial(taps: int, device: torch.device | str | None, dtype: torch.dtype | None) -> Tensor:
    weights = [math.comb(taps - 1, i) / 2 ** (taps - 1) for i in range(taps)]
    return torch.tensor(weights, device=device, dtype=dtype)


def _places(size: int, before: int, after: int, mode: str, device: torch.device) -> Tensor:
    """Which pixel stands at each place from ``before`` the border to ``after`` it."""
    places = torch.arange(-before, size + after, device=device)
    if mode == "circular":
        return places % size
    period = max(2 * (size - 1), 1)
    places = places % period
    return torch.where(places < size, places, period - places)


def _pair(given: int | tuple[int, ...], name: str, least: int = 1) -> tuple[int, int]:
    sides = given if isinstance(given, tuple | list) else (given, given)
    if len(sides) != 2 or any(isinstance(n, bool) or not isinstance(n, int) for n in sides):
        raise ValueError(f"expected one or two whole numbers as {name}, got {given!r}")
    if min(sides) < least:
        raise ValueError(f"expected {name} of at least {least}, got {given!r}")
    return sides[0], sides[1]
