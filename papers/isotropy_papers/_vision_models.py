"""Image classifiers as people write them: a residual network, a small one, ViT and MLP-Mixer.

They are here to be measured, so they keep the habits of ordinary code: activations in place,
residual sums and pooling as functions, fused attention, a class token. Parameters are named as in
torchvision (ResNet) and timm (ViT, Mixer), whose weights of the same shapes can be loaded.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from isotropy.run import generator

Stem: TypeAlias = Literal["imagenet", "small"]
Pooling: TypeAlias = Literal["token", "mean"]


@contextmanager
def seeded(seed: int | None) -> Iterator[None]:
    """Draw from PyTorch's own generator as if it had this seed, and leave it as it was.

    Args:
        seed: The seed; ``None`` draws from the generator as it stands.

    Example:
        >>> with seeded(3):
        ...     first = torch.rand(2)
        >>> with seeded(3):
        ...     bool((torch.rand(2) == first).all())
        True
    """
    if seed is None:
        yield
        return
    with torch.random.fork_rng(devices=[]):
        torch.set_rng_state(generator(seed).get_state())
        yield


class BasicBlock(nn.Module):
    """Two 3×3 convolutions and a way around them (He et al. 2016, figure 5 left)."""

    def __init__(self, channels_in: int, channels: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.downsample: nn.Sequential | None = None
        if stride != 1 or channels_in != channels:
            self.downsample = nn.Sequential(
                nn.Conv2d(channels_in, channels, 1, stride, bias=False), nn.BatchNorm2d(channels)
            )

    def forward(self, x: Tensor) -> Tensor:
        """Map (n, channels_in, h, w) to (n, channels, ⌈h/stride⌉, ⌈w/stride⌉)."""
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        y += x if self.downsample is None else self.downsample(x)
        out: Tensor = self.relu(y)
        return out


class ResNet18(nn.Module):
    """The residual network with 18 layers; `resnet18` builds it."""

    def __init__(self, classes: int, width: int, stem: Stem, channels: int) -> None:
        super().__init__()
        _require_positive(classes=classes, width=width, channels=channels)
        if stem not in ("imagenet", "small"):
            raise ValueError(f"expected the stem 'imagenet' or 'small', got {stem!r}")
        large = stem == "imagenet"
        self.conv1 = (
            nn.Conv2d(channels, width, 7, stride=2, padding=3, bias=False)
            if large
            else nn.Conv2d(channels, width, 3, padding=1, bias=False)
        )
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1) if large else nn.Identity()
        self.layer1 = _stage(width, width, 1)
        self.layer2 = _stage(width, 2 * width, 2)
        self.layer3 = _stage(2 * width, 4 * width, 2)
        self.layer4 = _stage(4 * width, 8 * width, 2)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(8 * width, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        """Map images (n, channels, h, w) to logits (n, classes)."""
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        x = torch.flatten(self.avgpool(x), 1)
        logits: Tensor = self.fc(x)
        return logits


def _stage(channels_in: int, channels: int, stride: int) -> nn.Sequential:
    return nn.Sequential(BasicBlock(channels_in, channels, stride), BasicBlock(channels, channels))


def resnet18(
    classes: int = 1000,
    width: int = 64,
    stem: Stem = "imagenet",
    *,
    channels: int = 3,
    seed: int | None = None,
) -> ResNet18:
    """The residual network with 18 layers (He et al. 2016), at random.

    Args:
        classes: The number of logits.
        width: Channels after the stem; they double three times. 64 is the published network.
        stem: ``"imagenet"``: a 7×7 convolution and a maximum over 3×3, both of stride 2, for images
            of about 224 pixels; ``"small"``: one 3×3 convolution of stride 1, for 28 or 32 pixels.
        channels: Channels of the images.
        seed: For the same weights every time; ``None`` draws from PyTorch's generator.

    Raises:
        ValueError: If a number is not positive or there is no such stem.

    Example:
        >>> model = resnet18(classes=10, width=8, stem="small", seed=0)
        >>> model(torch.zeros(2, 3, 32, 32)).shape
        torch.Size([2, 10])
        >>> sum(p.numel() for p in resnet18().parameters())
        11689512
    """
    with seeded(seed):
        return ResNet18(classes, width, stem, channels)


class SmallCNN(nn.Module):
    """Three convolutions with pooling between them, then a mean over the image.

    Args:
        classes: The number of logits.
        channels: Channels of the images.
        width: Channels after the first convolution; they double twice.
        seed: For the same weights every time; ``None`` draws from PyTorch's generator.

    Raises:
        ValueError: If a number is not positive.

    Example:
        >>> SmallCNN(classes=10, channels=1)(torch.zeros(2, 1, 28, 28)).shape
        torch.Size([2, 10])
    """

    def __init__(
        self, classes: int = 10, channels: int = 3, width: int = 16, *, seed: int | None = None
    ) -> None:
        super().__init__()
        _require_positive(classes=classes, channels=channels, width=width)
        with seeded(seed):
            self.conv1 = nn.Conv2d(channels, width, 3, padding=1)
            self.conv2 = nn.Conv2d(width, 2 * width, 3, padding=1)
            self.conv3 = nn.Conv2d(2 * width, 4 * width, 3, padding=1)
            self.fc = nn.Linear(4 * width, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Map images (n, channels, h, w) of at least 4×4 pixels to logits (n, classes)."""
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = F.relu(self.conv3(x)).mean((2, 3))
        logits: Tensor = self.fc(x)
        return logits


class PatchEmbedding(nn.Module):
    """Cut an image into squares and map each to a token."""

    def __init__(self, image_size: int, patch: int, channels: int, dim: int) -> None:
        super().__init__()
        _require_positive(image_size=image_size, patch=patch, channels=channels, dim=dim)
        if image_size % patch:
            raise ValueError(
                f"expected an image size that {patch}, the patch, divides, got {image_size}"
            )
        self.image_size, self.channels = image_size, channels
        self.tokens = (image_size // patch) ** 2
        self.proj = nn.Conv2d(channels, dim, patch, stride=patch)

    def forward(self, x: Tensor) -> Tensor:
        """Map images (n, channels, h, w) to tokens (n, tokens, dim), row by row."""
        expected = (self.channels, self.image_size, self.image_size)
        if x.ndim != 4 or x.shape[1:] != expected:
            shape = ", ".join(map(str, expected))
            raise ValueError(f"expected images of shape (n, {shape}), got {tuple(x.shape)}")
        tokens: Tensor = self.proj(x).flatten(2).transpose(1, 2)
        return tokens


class MLPBlock(nn.Module):
    """Two linear maps with a GELU between them, along the last axis."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(width, hidden)
        self.act = nn.GELU()
        self.fc2 = nn.Linear(hidden, width)

    def forward(self, x: Tensor) -> Tensor:
        """Map (*, width) to (*, width)."""
        y: Tensor = self.fc2(self.act(self.fc1(x)))
        return y


class Attention(nn.Module):
    """Softmax attention of several heads between the tokens of an image."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        """Map tokens (n, tokens, dim) to tokens of the same shape."""
        n, tokens, dim = x.shape
        qkv = self.qkv(x).reshape(n, tokens, 3, self.heads, dim // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        x = F.scaled_dot_product_attention(q, k, v)
        y: Tensor = self.proj(x.transpose(1, 2).reshape(n, tokens, dim))
        return y


class TransformerBlock(nn.Module):
    """Attention and an MLP, each after a layer norm and with a way around it."""

    def __init__(self, dim: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(dim, eps=1e-6)
        self.attn = Attention(dim, heads)
        self.norm2 = nn.LayerNorm(dim, eps=1e-6)
        self.mlp = MLPBlock(dim, hidden)

    def forward(self, x: Tensor) -> Tensor:
        """Map tokens (n, tokens, dim) to tokens of the same shape."""
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))  # type: ignore[no-any-return]


@dataclass(frozen=True)
class ViTTokens:
    """The tokens of a vision transformer beside its patches, and what its head reads.

    Args:
        class_token: Whether a token that belongs to no patch is put before the patches.
        registers: How many more such tokens there are.
        pooling: The head reads the class token (``"token"``) or the mean of the patches
            (``"mean"``).

    Raises:
        ValueError: If the registers are fewer than none, or the head reads a class token that is
            not there.

    Example:
        >>> ViTTokens(registers=4).extra
        5
    """

    class_token: bool = True
    registers: int = 0
    pooling: Pooling = "token"

    def __post_init__(self) -> None:
        if self.registers < 0:
            raise ValueError(f"expected a number of registers, got {self.registers}")
        if self.pooling not in ("token", "mean"):
            raise ValueError(f"expected the pooling 'token' or 'mean', got {self.pooling!r}")
        if self.pooling == "token" and not self.class_token:
            raise ValueError(
                "expected the pooling 'mean' where there is no class token, got 'token'"
            )

    @property
    def extra(self) -> int:
        """How many tokens belong to no patch."""
        return int(self.class_token) + self.registers


class ViT(nn.Module):
    """The vision transformer (Dosovitskiy et al. 2021), at random.

    Tokens are in the order class token, registers, patches row by row. Registers (Darcet et al.
    2024) get no positional embedding, the class token does.

    Args:
        image_size: Height and width of the images.
        patch: Height and width of a patch.
        dim: The width of a token.
        depth: The number of blocks.
        heads: The number of attention heads.
        mlp_ratio: The hidden width of the MLPs, in widths of a token.
        classes: The number of logits.
        channels: Channels of the images.
        tokens: The tokens beside the patches; by default a class token, which the head reads.
        seed: For the same weights every time; ``None`` draws from PyTorch's generator.

    Raises:
        ValueError: If a number is not positive, the patch does not divide the image or the heads
            the width.

    Example:
        >>> tokens = ViTTokens(registers=4)
        >>> model = ViT(32, 8, dim=24, depth=2, heads=3, classes=10, tokens=tokens, seed=0)
        >>> model(torch.zeros(2, 3, 32, 32)).shape, model.tokens(torch.zeros(2, 3, 32, 32)).shape
        (torch.Size([2, 10]), torch.Size([2, 21, 24]))
    """

    def __init__(
        self,
        image_size: int = 224,
        patch: int = 16,
        dim: int = 192,
        depth: int = 12,
        heads: int = 3,
        *,
        mlp_ratio: float = 4.0,
        classes: int = 1000,
        channels: int = 3,
        tokens: ViTTokens | None = None,
        seed: int | None = None,
    ) -> None:
        super().__init__()
        _require_positive(depth=depth, heads=heads, classes=classes)
        if dim % heads:
            raise ValueError(f"expected a width that {heads}, the heads, divides, got {dim}")
        tokens = tokens or ViTTokens()
        class_token, registers = tokens.class_token, tokens.registers
        self.pooling, self.extra_tokens = tokens.pooling, tokens.extra
        with seeded(seed):
            self.patch_embed = PatchEmbedding(image_size, patch, channels, dim)
            self.cls_token = nn.Parameter(0.02 * torch.randn(1, 1, dim)) if class_token else None
            self.reg_token = (
                nn.Parameter(0.02 * torch.randn(1, registers, dim)) if registers else None
            )
            positions = self.patch_embed.tokens + int(class_token)
            self.pos_embed = nn.Parameter(0.02 * torch.randn(1, positions, dim))
            blocks = [TransformerBlock(dim, heads, int(mlp_ratio * dim)) for _ in range(depth)]
            self.blocks = nn.Sequential(*blocks)
            self.norm = nn.LayerNorm(dim, eps=1e-6)
            self.head = nn.Linear(dim, classes)

    def tokens(self, x: Tensor) -> Tensor:
        """Map images (n, channels, h, w) to the tokens that the head reads, (n, tokens, dim)."""
        x = self.patch_embed(x)
        if self.cls_token is not None:
            x = torch.cat([self.cls_token.expand(len(x), -1, -1), x], dim=1)
        x = x + self.pos_embed
        if self.reg_token is not None:
            first = 0 if self.cls_token is None else 1
            registers = self.reg_token.expand(len(x), -1, -1)
            x = torch.cat([x[:, :first], registers, x[:, first:]], dim=1)
        tokens: Tensor = self.norm(self.blocks(x))
        return tokens

    def forward(self, x: Tensor) -> Tensor:
        """Map images (n, channels, h, w) to logits (n, classes)."""
        x = self.tokens(x)
        x = x[:, 0] if self.pooling == "token" else x[:, self.extra_tokens :].mean(1)
        logits: Tensor = self.head(x)
        return logits


def vit_tiny(classes: int = 1000, *, seed: int | None = None) -> ViT:
    """The tiny vision transformer: images of 224 pixels, patches of 16, width 192, 12 blocks.

    Args:
        classes: The number of logits.
        seed: For the same weights every time; ``None`` draws from PyTorch's generator.

    Example:
        >>> sum(p.numel() for p in vit_tiny().parameters())
        5717416
    """
    return ViT(224, 16, dim=192, depth=12, heads=3, classes=classes, seed=seed)


class MixerBlock(nn.Module):
    """An MLP along the tokens and one along the channels, each with a way around it."""

    def __init__(self, tokens: int, dim: int, token_hidden: int, channel_hidden: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(dim, eps=1e-6)
        self.mlp_tokens = MLPBlock(tokens, token_hidden)
        self.norm2 = nn.LayerNorm(dim, eps=1e-6)
        self.mlp_channels = MLPBlock(dim, channel_hidden)

    def forward(self, x: Tensor) -> Tensor:
        """Map tokens (n, tokens, dim) to tokens of the same shape."""
        x = x + self.mlp_tokens(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.mlp_channels(self.norm2(x))  # type: ignore[no-any-return]


class Mixer(nn.Module):
    """MLP-Mixer (Tolstikhin et al. 2021), at random.

    Args:
        image_size: Height and width of the images.
        patch: Height and width of a patch.
        dim: The width of a token.
        depth: The number of blocks.
        token_hidden: The hidden width of the MLPs along the tokens.
        channel_hidden: The hidden width of the MLPs along the channels.
        classes: The number of logits.
        channels: Channels of the images.
        seed: For the same weights every time; ``None`` draws from PyTorch's generator.

    Raises:
        ValueError: If a number is not positive, or the patch does not divide the image.

    Example:
        >>> model = Mixer(32, 8, dim=24, depth=2, token_hidden=12, channel_hidden=48, classes=10)
        >>> model(torch.zeros(2, 3, 32, 32)).shape
        torch.Size([2, 10])
    """

    def __init__(
        self,
        image_size: int = 224,
        patch: int = 16,
        dim: int = 512,
        depth: int = 8,
        token_hidden: int = 256,
        channel_hidden: int = 2048,
        classes: int = 1000,
        channels: int = 3,
        *,
        seed: int | None = None,
    ) -> None:
        super().__init__()
        _require_positive(
            depth=depth, token_hidden=token_hidden, channel_hidden=channel_hidden, classes=classes
        )
        with seeded(seed):
            self.stem = PatchEmbedding(image_size, patch, channels, dim)
            blocks = [
                MixerBlock(self.stem.tokens, dim, token_hidden, channel_hidden)
                for _ in range(depth)
            ]
            self.blocks = nn.Sequential(*blocks)
            self.norm = nn.LayerNorm(dim, eps=1e-6)
            self.head = nn.Linear(dim, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Map images (n, channels, h, w) to logits (n, classes)."""
        x = self.norm(self.blocks(self.stem(x)))
        logits: Tensor = self.head(x.mean(1))
        return logits


def mixer_s16(classes: int = 1000, *, seed: int | None = None) -> Mixer:
    """MLP-Mixer S/16: images of 224 pixels, patches of 16, width 512, 8 blocks.

    Args:
        classes: The number of logits.
        seed: For the same weights every time; ``None`` draws from PyTorch's generator.

    Example:
        >>> sum(p.numel() for p in mixer_s16().parameters())
        18528264
    """
    return Mixer(
        224, 16, dim=512, depth=8, token_hidden=256, channel_hidden=2048, classes=classes, seed=seed
    )


def _require_positive(**numbers: int) -> None:
    for name, number in numbers.items():
        if number < 1:
            raise ValueError(f"expected {name} of at least 1, got {number}")
