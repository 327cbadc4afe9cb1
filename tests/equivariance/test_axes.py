"""Where space is in views of tensors, against tensors that hold where each entry came from."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from isotropy.equivariance._axes import Axes, Axis, Piece, Side, plain


@dataclass
class Traced:
    """A tensor as three others, of its shape: which picture, row and column an entry is from."""

    picture: Tensor
    row: Tensor
    column: Tensor
    axes: Axes | None

    def viewed(self, view: object) -> Traced:
        """The same after a view of the contiguous tensors."""
        parts = [view(part) for part in (self.picture, self.row, self.column)]  # type: ignore[operator]
        one = parts[0]
        axes = None
        if self.axes is not None:
            axes = self.axes.viewed(one.shape, one.stride(), one.storage_offset())
        return Traced(*(part.contiguous() for part in parts), axes)  # type: ignore[call-arg]

    def check(self) -> None:
        """Where the axes claim to know the whole picture, it must be the one that was traced."""
        axes = self.axes
        if axes is None:
            return
        assert axes.shape == tuple(self.picture.shape)
        extra = self.picture < 0
        if axes.is_invariant:
            assert bool(extra.all())
            return
        if not axes.is_whole:
            return
        moved = {}
        for name in ("picture", "row", "column"):
            seen: list[Tensor] = []

            def keep(picture: Tensor, seen: list[Tensor] = seen) -> Tensor:
                seen.append(picture)
                return picture

            values = getattr(self, name)
            back = axes.on_picture(values, keep)
            assert torch.equal(back, torch.where(extra, 0, values))
            moved[name] = seen[0]
        down, across = axes.sides
        assert bool((moved["picture"] == moved["picture"][..., :1, :1]).all())
        places = [s.origin + s.pitch * torch.arange(s.size) for s in (down, across)]
        assert bool((moved["row"] == places[0][:, None]).all())
        assert bool((moved["column"] == places[1]).all())


def sides(height: int, width: int) -> tuple[Side, Side]:
    return Side(height, 1.0, 0.0, height), Side(width, 1.0, 0.0, width)


def image(n: int, c: int, height: int, width: int, channels_last: bool = False) -> Traced:
    shape = (n, c, height, width)
    picture = torch.arange(n * c).reshape(n, c, 1, 1).expand(shape)
    row = torch.arange(height).reshape(height, 1).expand(shape)
    column = torch.arange(width).expand(shape)
    axes = Axes.image(sides(height, width), (n, c), channels_last=channels_last)
    if channels_last:
        picture, row, column = (part.movedim(1, -1) for part in (picture, row, column))
    return Traced(picture.contiguous(), row.contiguous(), column.contiguous(), axes)


def tokens(n: int, height: int, width: int, c: int, before: int, after: int) -> Traced:
    """Tokens of a picture with extra ones around it, which are −1 in all three."""
    start = image(n, c, height, width)
    parts = []
    for part in (start.picture, start.row, start.column):
        inner = part.flatten(2).mT
        ends = [torch.full((n, size, c), -1) for size in (before, after)]
        parts.append(torch.cat([ends[0], inner, ends[1]], 1))
    axis = Axis((Piece(height, 0), Piece(width, 1)), before, after)
    return Traced(*parts, Axes(sides(height, width), (plain(n), axis, plain(c))))  # type: ignore[call-arg]


@st.composite
def views(draw: st.DrawFn, shape: tuple[int, ...]) -> object:
    """A view of a contiguous tensor of some shape."""
    kinds = ["permute", "split", "merge", "slice", "unsqueeze", "chunk", "expand", "select"]
    kind = draw(st.sampled_from(kinds))
    axis = draw(st.integers(0, len(shape) - 1))
    size = shape[axis]
    if kind == "permute":
        order = draw(st.permutations(range(len(shape))))
        return lambda x: x.permute(order)
    if kind == "split":
        factor = draw(st.sampled_from([d for d in range(1, size + 1) if size % d == 0]))
        return lambda x: x.unflatten(axis, (factor, size // factor))
    if kind == "merge" and axis + 1 < len(shape):
        return lambda x: x.flatten(axis, axis + 1)
    if kind == "slice" and size > 1:
        start = draw(st.integers(0, size - 1))
        stop = draw(st.integers(start + 1, size))
        step = draw(st.integers(1, 3))
        index = (slice(None),) * axis + (slice(start, stop, step),)
        return lambda x: x[index]
    if kind == "chunk" and size % 2 == 0:
        half = draw(st.integers(0, 1))
        return lambda x: x.chunk(2, axis)[half]
    if kind == "select" and len(shape) > 2:
        at = draw(st.integers(0, size - 1))
        return lambda x: x.select(axis, at)
    if kind == "expand":
        return lambda x: x.unsqueeze(axis).expand(*shape[:axis], 2, *shape[axis:])
    return lambda x: x.unsqueeze(axis)


def follow(data: st.DataObject, start: Traced) -> None:
    start.check()
    for _ in range(data.draw(st.integers(1, 6))):
        if start.picture.ndim > 7 or start.picture.numel() > 2000 or start.picture.ndim < 1:
            break
        start = start.viewed(data.draw(views(tuple(start.picture.shape))))
        start.check()


@settings(max_examples=180, deadline=None, derandomize=True)
@given(st.data(), st.booleans(), st.sampled_from([(4, 6), (3, 3), (1, 4), (8, 2)]))
def test_chains_of_views_of_images(
    data: st.DataObject, channels_last: bool, size: tuple[int, int]
) -> None:
    follow(data, image(2, 2, *size, channels_last=channels_last))


@settings(max_examples=120, deadline=None, derandomize=True)
@given(st.data(), st.integers(0, 2), st.integers(0, 1))
def test_chains_of_views_of_tokens(data: st.DataObject, before: int, after: int) -> None:
    follow(data, tokens(2, 4, 2, 3, before, after))


def whole(start: Traced) -> bool:
    start.check()
    assert start.axes is not None
    return start.axes.is_whole


def test_what_networks_do_is_followed() -> None:
    start = image(2, 3, 8, 12)
    as_tokens = start.viewed(lambda x: x.flatten(2)).viewed(lambda x: x.mT)
    assert whole(as_tokens)
    assert whole(as_tokens.viewed(lambda x: x.mT).viewed(lambda x: x.unflatten(2, (8, 12))))
    # windows of 4×4, folded into the batch, and back
    windows = (
        start.viewed(lambda x: x.permute(0, 2, 3, 1))
        .viewed(lambda x: x.view(2, 2, 4, 3, 4, 3))
        .viewed(lambda x: x.permute(0, 1, 3, 2, 4, 5))
        .viewed(lambda x: x.reshape(12, 16, 3))
    )
    assert whole(windows)
    back = (
        windows.viewed(lambda x: x.view(2, 2, 3, 4, 4, 3))
        .viewed(lambda x: x.permute(0, 1, 3, 2, 4, 5))
        .viewed(lambda x: x.reshape(2, 8, 12, 3))
    )
    assert whole(back)
    assert back.axes == Axes.image(sides(8, 12), (2, 3), channels_last=True)
    # every other row and column of windows put together again
    halved = back.viewed(lambda x: x[:, 1::2, ::2])
    assert whole(halved)
    assert halved.axes is not None
    assert [side.size for side in halved.axes.sides] == [4, 6]
    # pixels moved into channels: all digits are still there
    unshuffled = (
        start.viewed(lambda x: x.view(2, 3, 4, 2, 6, 2))
        .viewed(lambda x: x.permute(0, 1, 3, 5, 2, 4))
        .viewed(lambda x: x.reshape(2, 12, 4, 6))
    )
    assert whole(unshuffled)
    # heads of attention
    heads = (
        tokens(2, 4, 2, 6, 1, 0)
        .viewed(lambda x: x.unflatten(2, (2, 3)))
        .viewed(lambda x: x.permute(0, 2, 1, 3))
    )
    assert whole(heads)


def test_class_tokens_are_taken_off() -> None:
    start = tokens(2, 4, 2, 3, 1, 1)
    assert whole(start)
    picture = start.viewed(lambda x: x[:, 1:-1])
    assert whole(picture)
    assert picture.axes is not None
    assert picture.axes.axes[1].before == picture.axes.axes[1].after == 0
    only = start.viewed(lambda x: x[:, 0])
    assert only.axes is not None
    assert only.axes.is_invariant
    assert start.viewed(lambda x: x[:, 1:3]).axes is None
    assert start.viewed(lambda x: x[:, 2]).axes is None


@pytest.mark.parametrize("step", [2, 3])
def test_subsampling_makes_shorter_sides(step: int) -> None:
    found = image(2, 3, 8, 12).viewed(lambda x: x[:, :, 1::step, ::step])
    assert whole(found)
    assert found.axes is not None
    down, across = found.axes.sides
    assert (down.size, down.pitch, down.origin, down.whole) == (len(range(1, 8, step)), step, 1, 8)
    assert (across.size, across.pitch, across.origin) == (12 // step, step, 0)
    twice = found.viewed(lambda x: x[:, :, :, 1::2])
    assert whole(twice)
    assert twice.axes is not None
    assert twice.axes.sides[1].pitch == 2 * step
    assert twice.axes.sides[1].origin == step


def test_linear_maps_act_on_the_picture_alone() -> None:
    rng = torch.Generator().manual_seed(0)
    x = torch.randn(2, 3, 4, 6, dtype=torch.float64, generator=rng)
    left = torch.randn(4, 4, dtype=torch.float64, generator=rng)
    right = torch.randn(6, 6, dtype=torch.float64, generator=rng)

    def windows(x: Tensor) -> Tensor:
        return x.view(2, 3, 2, 2, 3, 2).permute(0, 2, 4, 3, 5, 1).reshape(12, 4, 3)

    axes = Axes.image(sides(4, 6), (2, 3), channels_last=False)
    for view in (
        lambda x: x.view(2, 3, 2, 2, 3, 2),
        lambda x: x.permute(0, 2, 4, 3, 5, 1),
        lambda x: x.reshape(12, 4, 3),
    ):
        one = view(torch.empty(axes.shape))
        found = axes.viewed(one.shape, one.stride(), one.storage_offset())
        assert found is not None
        axes = found
    moved = axes.on_picture(windows(x), lambda p: left @ p @ right)
    torch.testing.assert_close(moved, windows(left @ x @ right))


def test_sides() -> None:
    side = Side(4, 2.0, 0.5, 8)
    assert side.length == 1
    expected = torch.tensor([-0.375, -0.125, 0.125, 0.375])
    torch.testing.assert_close(side.places(torch.zeros(())), expected)
    assert not Axes(sides(4, 6), (plain(2), Axis((Piece(4, 0),)))).is_whole
    assert Axes(sides(4, 6), (plain(2), plain(3))).is_invariant
    mixed = Axis((Piece(4, 0), Piece(6, 1)), mixed=5)
    assert Axes(sides(4, 6), (plain(2), mixed)).shape == (2, 5)
    assert not Axes(sides(4, 6), (plain(2), mixed)).is_whole
