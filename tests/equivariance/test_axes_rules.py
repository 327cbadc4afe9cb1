"""Where operations place their samples, against how a smooth picture really moves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from isotropy.equivariance import Action, image_action
from isotropy.equivariance._axes_rules import axes_of_views, flat_tensors, share_memory
from isotropy.equivariance._follow import Follower

HEIGHT, WIDTH = 32, 40


def bell() -> Tensor:
    """Two overlapping bells away from the edge, not symmetric about the centre: (1, 2, H, W)."""
    y = torch.arange(HEIGHT, dtype=torch.float64).view(-1, 1)
    x = torch.arange(WIDTH, dtype=torch.float64)

    def at(row: float, column: float, width: float) -> Tensor:
        return torch.exp(-((y - row) ** 2 + (x - column) ** 2) / (2 * width**2))

    return torch.stack([at(16, 21, 3.5) + 0.5 * at(13, 17, 3), at(15, 19, 3)]).unsqueeze(0)


def by_forward_mode(function: Callable[[Tensor], Tensor], x: Tensor, tangent: Tensor) -> Tensor:
    moved: Tensor = torch.func.jvp(function, (x,), (tangent.contiguous(),))[1]
    return moved


def place_after(function: Callable[[Tensor], Tensor], x: Tensor) -> tuple[Any, Tensor]:
    """Where space is in the result, as axes with their sides; None where that is not known."""
    follower = Follower(function, x, image_action("rotation"), {}, split=False)
    with torch.no_grad(), follower.watching():
        y = function(x)
    place = follower.place_of(y)
    assert not isinstance(place, str)
    return place, y


def blur(size: int) -> Tensor:
    row = torch.ones(1, dtype=torch.float64)
    for _ in range(size - 1):
        row = F.conv1d(
            row.view(1, 1, -1), torch.full((1, 1, 2), 0.5, dtype=torch.float64), padding=1
        )
        row = row.flatten()
    return torch.outer(row, row).expand(2, 1, size, size)


def conv(size: int, **options: object) -> Callable[[Tensor], Tensor]:
    return lambda x: F.conv2d(x, blur(size), groups=2, **options)  # type: ignore[arg-type]


def up(size: int, **options: object) -> Callable[[Tensor], Tensor]:
    return lambda x: F.conv_transpose2d(x, blur(size), groups=2, **options)  # type: ignore[arg-type]


SAMPLED: dict[str, Callable[[Tensor], Tensor]] = {
    "conv 3 stride 2 padding 1": conv(3, stride=2, padding=1),
    "conv 3 valid": conv(3),
    "conv 5 stride 2 valid": conv(5, stride=2),
    "conv 4 stride 2 padding 1": conv(4, stride=2, padding=1),
    "conv 2 stride 2": conv(2, stride=2),
    "conv 3 'valid'": conv(3, padding="valid"),
    "conv 3 dilated": conv(3, dilation=2, padding=1),
    "conv 3 dilated same": conv(3, dilation=3, padding="same"),
    "conv with other sides": conv(3, stride=(1, 2), padding=(0, 1)),
    "avg_pool 2": lambda x: F.avg_pool2d(x, 2),
    "avg_pool 3 stride 2 padding 1": lambda x: F.avg_pool2d(x, 3, 2, 1),
    "avg_pool 4 stride 2 named": lambda x: F.avg_pool2d(x, kernel_size=4, stride=2),
    "avg_pool of other sides": lambda x: F.avg_pool2d(x, (1, 2)),
    "adaptive pooling": lambda x: F.adaptive_avg_pool2d(x, (16, 20)),
    "area": lambda x: F.interpolate(x, size=(16, 20), mode="area"),
    "bilinear up": lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
    "bicubic up": lambda x: F.interpolate(x, scale_factor=1.5, mode="bicubic"),
    "bicubic up by an odd factor": lambda x: F.interpolate(x, scale_factor=1.37, mode="bicubic"),
    "bicubic down": lambda x: F.interpolate(x, scale_factor=0.5, mode="bicubic"),
    "corners": lambda x: F.interpolate(x, size=(41, 51), mode="bicubic", align_corners=True),
    "corners by place": lambda x: F.interpolate(x, (20, 26), None, "bicubic", True),
    "nearest up": lambda x: conv(3, padding=1)(F.interpolate(x, scale_factor=2)),
    "nearest down": lambda x: F.interpolate(x, scale_factor=0.5),
    "nearest down to a size": lambda x: F.interpolate(x, (16, 20), mode="nearest"),
    "nearest, exactly, by three": lambda x: F.interpolate(
        x[..., :30, :39], (10, 13), mode="nearest-exact"
    ),
    "transposed 4 stride 2 padding 1": up(4, stride=2, padding=1),
    "transposed 5 stride 2 padding 2": up(5, stride=2, padding=2, output_padding=1),
    "transposed 3": up(3),
    "transposed and dilated": up(3, dilation=2, padding=2),
    "padded": lambda x: F.pad(x, (3, 1, 2, 0)),
    "padded on one axis": lambda x: F.pad(x, (0, 0, 4, 1), mode="reflect"),
    "cropped": lambda x: F.pad(x, (-2, -1, -3, 0)),
    "every other": lambda x: x[..., ::2, ::2],
    "every other, from the second": lambda x: x[:, :, 1::2, 1::2],
    "a middle part": lambda x: x[..., 2:-3, 4:-2],
    "narrowed": lambda x: x.narrow(2, 3, 27),
    "one after another": lambda x: conv(3, stride=2, padding=1)(F.pad(x[:, :, 1:], (1, 0))),
    "channels last": lambda x: conv(3, stride=2)(x).permute(0, 2, 3, 1),
    "tokens": lambda x: conv(2, stride=2)(x).flatten(2).mT,
    "patches of tokens": lambda x: x.reshape(1, 2, 16, 2, 20, 2).mean((3, 5)),
}  # fmt: skip


@pytest.mark.parametrize("name", SAMPLED)
def test_samples_lie_where_the_picture_moves(name: str) -> None:
    """Moved a little, the places that were found get worse in every direction.

    The squared error is a parabola in the place of the first sample (turning) and in the inverse
    of the distance of samples (shifting); its lowest point must be where the samples are.
    """
    function, x = SAMPLED[name], bell()
    place, y = place_after(function, x)
    assert place is not None
    turn = image_action("rotation")
    turned = by_forward_mode(function, x, turn.tangent(x))
    for number, side in enumerate(place.sides):
        shift = image_action(("translation_y", "translation_x")[number])
        shifted = by_forward_mode(function, x, shift.tangent(x))

        def turning(step: float, number: int = number, side: Any = side) -> float:
            moved = _with_side(place, number, replace(side, origin=side.origin + step))
            return float((turned - turn.act(y, moved)).square().sum())

        def shifting(
            step: float,
            number: int = number,
            side: Any = side,
            shift: Action = shift,
            shifted: Tensor = shifted,
        ) -> float:
            moved = _with_side(place, number, replace(side, pitch=side.pitch / (1 + step)))
            return float((shifted - shift.act(y, moved)).square().sum())

        assert abs(_lowest(turning, 0.5)) < 0.1  # pixels
        assert abs(_lowest(shifting, 0.1)) < 0.02


def _with_side(place: Any, number: int, side: Any) -> Any:
    return replace(place, sides=(*place.sides[:number], side, *place.sides[number + 1 :]))


def _lowest(error: Callable[[float], float], step: float) -> float:
    below, here, above = error(-step), error(0), error(step)
    assert here < min(below, above)
    return step * (below - above) / (2 * (below - 2 * here + above))


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")
def test_even_kernels_that_keep_the_size() -> None:
    """PyTorch puts the odd row and column of padding at the end."""
    same, _ = place_after(conv(4, padding="same"), bell())
    by_hand, _ = place_after(lambda x: conv(4)(F.pad(x, (1, 2, 1, 2))), bell())
    assert same is not None
    assert same == by_hand


@pytest.mark.parametrize("kernel", [2, 3])
def test_largest_of_a_window_lies_at_its_middle(kernel: int) -> None:
    place, y = place_after(lambda x: F.max_pool2d(x, kernel, 2, kernel // 3), bell())
    blurred, _ = place_after(lambda x: F.avg_pool2d(x, kernel, 2, kernel // 3), bell())
    assert place == blurred
    assert place is not None
    assert place.shape == tuple(y.shape)
    dilated, _ = place_after(lambda x: F.max_pool2d(x, 3, 1, 1, 2), bell())
    assert dilated is not None
    assert [side.origin for side in dilated.sides] == [1.0, 1.0]


KNOWN: dict[str, tuple[Callable[[Tensor], Tensor], bool]] = {
    "global pooling": (lambda x: F.adaptive_avg_pool2d(x, 1), True),
    "mean": (lambda x: x.mean((2, 3)), True),
    "mean named": (lambda x: x.mean(axis=(2, 3), keepdim=True), True),
    "mean over channels": (lambda x: x.mean(1), False),
    "largest over channels": (lambda x: x.amax(dim=1, keepdim=True), False),
    "joined channels": (lambda x: torch.cat([x, x.sin()], 1), False),
    "joined, by another word": (lambda x: torch.cat([x, x.sin()], axis=1), False),  # type: ignore[call-arg]
    "stacked": (lambda x: torch.stack([x, x], axis=1), False),  # type: ignore[call-arg]
    "stacked at the end": (lambda x: torch.stack([x, x], -1), False),
    "class token": (
        lambda x: torch.cat([torch.zeros(1, 1, 2, dtype=x.dtype), x.flatten(2).mT], 1),
        False,
    ),
    "class token alone": (
        lambda x: torch.cat([torch.zeros(1, 1, 2, dtype=x.dtype), x.flatten(2).mT], 1)[:, 0],
        True,
    ),
    "added": (lambda x: x + x.mean((2, 3), keepdim=True) * torch.ones(2, 1, 1), False),
    "linear over channels": (
        lambda x: F.linear(x.permute(0, 2, 3, 1), torch.ones(3, 2).to(x)),
        False,
    ),
    "pointwise on tokens": (
        lambda x: F.conv1d(x.flatten(2), torch.ones(4, 2, 1, dtype=x.dtype)),
        False,
    ),
    "einsum": (lambda x: torch.einsum("bchw,cd->bdhw", x, torch.ones(2, 5).to(x)), False),
    "attention": (
        lambda x: F.scaled_dot_product_attention(*[x[..., ::4, ::4].flatten(2).mT] * 3),
        False,
    ),
    "set": (lambda x: _set_channel(x), False),
    "there and back": (lambda x: torch.fft.irfft2(torch.fft.rfft2(x) * 2), False),
}  # fmt: skip


def _set_channel(x: Tensor) -> Tensor:
    y = x * 1
    y[:, 0] = y[:, 1] * 2
    return y


@pytest.mark.parametrize("name", KNOWN)
def test_places_that_are_known(name: str) -> None:
    function, is_invariant = KNOWN[name]
    place, y = place_after(function, bell())
    assert place is not None
    assert place.shape == tuple(y.shape)
    assert place.is_invariant == is_invariant
    action = image_action("rotation")
    moved = by_forward_mode(function, bell(), action.tangent(bell()))
    if name not in ("global pooling", "mean", "mean named"):
        # all of these are equivariant, some but for the size of a pixel
        torch.testing.assert_close(moved, action.act(y, place), rtol=0, atol=5e-2 * float(y.max()))


UNKNOWN: dict[str, Callable[[Tensor], Tensor]] = {
    "frequencies": lambda x: torch.fft.rfft2(x).abs(),
    "mixed tokens": lambda x: x.flatten(2) @ torch.ones(HEIGHT * WIDTH, 7).to(x),
    "one column": lambda x: x[..., 3],
    "two pictures as one": lambda x: torch.cat([x, x], 2),
    "cut tokens": lambda x: x.flatten(2)[..., 3:],
    "one axis pooled": lambda x: x.mean(3),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_places_that_are_not_known_are_not_made_up(name: str) -> None:
    place, _ = place_after(UNKNOWN[name], bell())
    assert place is None


def test_views_are_read_off_an_empty_tensor() -> None:
    x = bell()
    source = image_action("rotation").input_place(x)
    assert not isinstance(source, str)
    found = axes_of_views(Tensor.chunk, (x, 2, 1), {}, source)
    assert found is not None
    assert [axes and axes.shape for axes in found] == [(1, 1, HEIGHT, WIDTH)] * 2
    assert axes_of_views(Tensor.repeat, (x, 1, 1, 2, 2), {}, source) is None
    assert axes_of_views(Tensor.view, (x, 7), {}, source) is None


def test_tensors_in_nested_values() -> None:
    a, b = torch.ones(1), torch.ones(2)
    found = flat_tensors((a, [{"x": b, "y": 3}], None))
    assert len(found) == 2
    assert found[0] is a
    assert share_memory(a, a.view(1, 1))
    assert not share_memory(a, b)
