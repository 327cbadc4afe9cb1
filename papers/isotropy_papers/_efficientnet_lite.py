"""EfficientNet-Lite, with room for the weights that were trained on ImageNet.

The architecture is EfficientNet (Tan and Le 2019) without squeeze and excitation, with ReLU6 for
Swish, and with a stem and a head that do not grow. Convolutions are padded as TensorFlow pads.
"""

from __future__ import annotations

import math
import os
from pathlib import Path

import torch.nn.functional as F
from torch import Tensor, nn

from isotropy_papers._vision_models import seeded

# kernel, stride, expansion, channels, blocks: of Lite0, before scaling
_STAGES = (
    (3, 1, 1, 16, 1),
    (3, 2, 6, 24, 2),
    (5, 2, 6, 40, 2),
    (3, 2, 6, 80, 3),
    (5, 1, 6, 112, 3),
    (5, 2, 6, 192, 4),
    (3, 1, 6, 320, 1),
)
# width, depth, image size, dropout
_SCALES = ((1.0, 1.0, 224, 0.2), (1.0, 1.1, 240, 0.2), (1.1, 1.2, 260, 0.3))
_STEM, _HEAD = 32, 1280


def preprocess(x: Tensor) -> Tensor:
    """Bring pixels in [0, 1] to what the trained weights expect: (255 x − 127) / 128.

    Example:
        >>> import torch
        >>> preprocess(torch.tensor([0.0, 127 / 255, 1.0]))
        tensor([-0.9922,  0.0000,  1.0000])
    """
    return (255 * x - 127) / 128


class Preprocess(nn.Module):
    """`preprocess` as a module, to put before a network.

    Example:
        >>> import torch
        >>> model = nn.Sequential(Preprocess(), efficientnet_lite(0, seed=0))
        >>> model(torch.rand(1, 3, 64, 64)).shape
        torch.Size([1, 1000])
    """

    def forward(self, x: Tensor) -> Tensor:
        """Map pixels in [0, 1] to the network's inputs, of any shape."""
        return preprocess(x)


class SameConv2d(nn.Conv2d):
    """A convolution of output size ⌈n / stride⌉, padded with zeros as TensorFlow's SAME does.

    Where the padding is odd, the greater half is at the bottom and on the right. It follows the
    stride that the layer was made with: set ``stride`` to (1, 1) afterwards and every old output is
    among the new ones, at multiples of the old stride.

    Args:
        channels_in: Channels of the input.
        channels_out: Channels of the output.
        kernel_size: Height and width of the filter.
        stride: The stride of both axes.
        groups: The number of groups of channels.

    Example:
        >>> import torch
        >>> SameConv2d(3, 8, 5, stride=2)(torch.zeros(1, 3, 9, 8)).shape
        torch.Size([1, 8, 5, 4])
    """

    def __init__(
        self,
        channels_in: int,
        channels_out: int,
        kernel_size: int,
        stride: int = 1,
        groups: int = 1,
    ) -> None:
        super().__init__(channels_in, channels_out, kernel_size, stride, groups=groups, bias=False)
        self.padding_stride = stride

    def forward(self, x: Tensor) -> Tensor:
        """Map (n, channels_in, h, w) to (n, channels_out, ⌈h/stride⌉, ⌈w/stride⌉)."""
        top, bottom = self._padding(x.shape[-2])
        left, right = self._padding(x.shape[-1])
        if top or bottom or left or right:
            x = F.pad(x, (left, right, top, bottom))
        return super().forward(x)

    def _padding(self, size: int) -> tuple[int, int]:
        last = (size - 1) // self.padding_stride * self.padding_stride  # where the last window is
        total = max(last + self.kernel_size[0] - size, 0)
        return total // 2, total - total // 2


class MBConv(nn.Module):
    """An inverted residual block: widen, filter each channel, narrow, with a way around it."""

    def __init__(
        self, channels_in: int, channels: int, kernel_size: int, stride: int, expansion: int
    ) -> None:
        super().__init__()
        hidden = expansion * channels_in
        self.residual = stride == 1 and channels_in == channels
        self.expands = expansion != 1
        if self.expands:
            self._expand_conv = SameConv2d(channels_in, hidden, 1)
            self._bn0 = _norm(hidden)
            self._relu0 = nn.ReLU6()
        self._depthwise_conv = SameConv2d(hidden, hidden, kernel_size, stride, groups=hidden)
        self._bn1 = _norm(hidden)
        self._relu1 = nn.ReLU6()
        self._project_conv = SameConv2d(hidden, channels, 1)
        self._bn2 = _norm(channels)

    def forward(self, x: Tensor) -> Tensor:
        """Map (n, channels_in, h, w) to (n, channels, ⌈h/stride⌉, ⌈w/stride⌉)."""
        y = self._relu0(self._bn0(self._expand_conv(x))) if self.expands else x
        y = self._relu1(self._bn1(self._depthwise_conv(y)))
        y = self._bn2(self._project_conv(y))
        out: Tensor = y + x if self.residual else y
        return out


class EfficientNetLite(nn.Module):
    """EfficientNet-Lite; `efficientnet_lite` builds it and loads weights.

    Its parameters have the names of the package efficientnet-lite-pytorch. Stochastic depth, which
    changes nothing in evaluation, is left out.

    Args:
        number: 0, 1 or 2; each is wider and deeper than the one before.
        classes: The number of logits.

    Raises:
        ValueError: If there is no such network.

    Example:
        >>> sum(p.numel() for p in EfficientNetLite(0).parameters())
        4652008
    """

    def __init__(self, number: int = 0, classes: int = 1000) -> None:
        super().__init__()
        if number not in range(len(_SCALES)):
            raise ValueError(f"expected EfficientNet-Lite 0, 1 or 2, got {number!r}")
        if classes < 1:
            raise ValueError(f"expected classes of at least 1, got {classes}")
        width, depth, self.image_size, dropout = _SCALES[number]
        self._conv_stem = SameConv2d(3, _STEM, 3, stride=2)
        self._bn0 = _norm(_STEM)
        self._relu0 = nn.ReLU6()
        self._blocks = nn.ModuleList()
        channels_in = _STEM
        for stage, (kernel_size, stride, expansion, base, count) in enumerate(_STAGES):
            channels = _scaled_width(base, width)
            if 0 < stage < len(_STAGES) - 1:  # the first and the last stage do not grow in depth
                count = math.ceil(depth * count)
            for number_in_stage in range(count):
                own_stride = stride if number_in_stage == 0 else 1
                self._blocks.append(
                    MBConv(channels_in, channels, kernel_size, own_stride, expansion)
                )
                channels_in = channels
        self._conv_head = SameConv2d(channels_in, _HEAD, 1)
        self._bn1 = _norm(_HEAD)
        self._relu1 = nn.ReLU6()
        self._avg_pooling = nn.AdaptiveAvgPool2d(1)
        self._dropout = nn.Dropout(dropout)
        self._fc = nn.Linear(_HEAD, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                # a filter of its own for each channel: PyTorch's fan would count them all
                fan = module.kernel_size[0] ** 2 * module.out_channels // module.groups
                nn.init.normal_(module.weight, std=math.sqrt(2 / fan))

    def forward(self, x: Tensor) -> Tensor:
        """Map preprocessed images (n, 3, h, w) to logits (n, classes)."""
        x = self._relu0(self._bn0(self._conv_stem(x)))
        for block in self._blocks:
            x = block(x)
        x = self._relu1(self._bn1(self._conv_head(x)))
        x = self._avg_pooling(x).flatten(1)
        logits: Tensor = self._fc(self._dropout(x))
        return logits


def efficientnet_lite(
    number: int = 0,
    weights: str | os.PathLike[str] | None = None,
    *,
    classes: int = 1000,
    seed: int | None = None,
) -> EfficientNetLite:
    """EfficientNet-Lite 0, 1 or 2, in evaluation mode.

    Inputs are images of ``image_size`` (224, 240 or 260) pixels a side, others will do, after
    `preprocess`. Trained weights: ``efficientnet_lite(0, fetch("efficientnet-lite0"))``.

    Args:
        number: 0, 1 or 2; each is wider and deeper than the one before.
        weights: A safetensors file, or the folder of ``isotropy.data.fetch`` that holds
            ``weights.safetensors``; ``None`` for random weights.
        classes: The number of logits.
        seed: For the same random weights every time; ``None`` draws from PyTorch's generator.

    Raises:
        ValueError: If there is no such network or no such file, or it holds other weights.

    Example:
        >>> import torch
        >>> model = efficientnet_lite(0, classes=10, seed=0)
        >>> model(preprocess(torch.rand(2, 3, 64, 64))).shape
        torch.Size([2, 10])
    """
    with seeded(seed):
        model = EfficientNetLite(number, classes)
    if weights is not None:
        _load(model, Path(weights).expanduser())
    return model.eval()


def efficientnet_lite0() -> nn.Module:
    """EfficientNet-Lite0 trained on ImageNet, from pixels in [0, 1], 224×224, to logits.

    Its weights are those of ``isotropy data get efficientnet-lite0``, obtained if need be, so that
    ``isotropy measure isotropy_papers:efficientnet_lite0 DIR --size 224 --crop --softmax`` works.

    Example:
        >>> efficientnet_lite0()  # doctest: +SKIP
        Sequential(...)
    """
    return _trained(0)


def efficientnet_lite1() -> nn.Module:
    """The same of EfficientNet-Lite1, for 240×240.

    Example:
        >>> efficientnet_lite1()  # doctest: +SKIP
        Sequential(...)
    """
    return _trained(1)


def efficientnet_lite2() -> nn.Module:
    """The same of EfficientNet-Lite2, for 260×260.

    Example:
        >>> efficientnet_lite2()  # doctest: +SKIP
        Sequential(...)
    """
    return _trained(2)


def _trained(number: int) -> nn.Module:
    from isotropy.data import fetch

    weights = fetch(f"efficientnet-lite{number}")
    return nn.Sequential(Preprocess(), efficientnet_lite(number, weights)).eval()


def _load(model: EfficientNetLite, path: Path) -> None:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    if path.is_dir():
        path = path / "weights.safetensors"
    if not path.is_file():
        raise ValueError(f"{path}: expected a safetensors file, got a path where none is")
    try:
        given = load_file(path)
    except SafetensorError as error:
        raise ValueError(
            f"{path}: expected a safetensors file, got another or a damaged one ({error})"
        ) from error
    own = {name: tensor.shape for name, tensor in model.state_dict().items()}
    wrong = sorted(
        name
        for name in own.keys() | given.keys()
        if name not in given or name not in own or given[name].shape != own[name]
    )
    if wrong:
        raise ValueError(
            f"{path}: expected the weights of this network, got {len(wrong)} missing, left over or "
            f"of another shape, {wrong[0]!r} first"
        )
    model.load_state_dict(given)


def _norm(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, eps=1e-3, momentum=0.01)


def _scaled_width(channels: int, factor: float) -> int:
    """Round to a multiple of 8, but not down by more than a tenth."""
    wanted = channels * factor
    rounded = max(8, int(wanted + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * wanted else rounded
