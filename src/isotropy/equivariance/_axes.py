"""Where space is in a tensor: which of its axes carry the rows and columns of a picture.

A value inside a network may hold its picture as NCHW, as NHWC, as tokens, or cut into windows and
folded into the batch. Here each axis of a tensor is a product of *pieces*; a piece is either plain
(batch, channels, heads) or a digit of the position along one side of the picture in a mixed radix.
Views only move, split and join pieces, so the picture can be put together again wherever all
digits of every side are there once. An axis of tokens may begin and end with tokens that are not
part of the picture (class, register).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod

import torch
from torch import Tensor


@dataclass(frozen=True)
class Side:
    """The samples along one side of a picture, placed in pixels of the input.

    Args:
        size: The number of samples.
        pitch: Their distance.
        origin: The place of the first; the first pixel of the input is at 0.
        whole: The length of the input's side.
    """

    size: int
    pitch: float
    origin: float
    whole: int

    @property
    def length(self) -> float:
        """How much of the input's side the samples span, as a share of it."""
        return self.size * self.pitch / self.whole

    def places(self, like: Tensor) -> Tensor:
        """Where the samples are: from −½ to ½ over the input's side; shape (size,)."""
        index = torch.arange(self.size, dtype=torch.float64)
        places = (self.origin + self.pitch * index + 0.5) / self.whole - 0.5
        return places.to(like.device, like.dtype)


@dataclass(frozen=True)
class Piece:
    """A factor of an axis.

    Args:
        size: Its length.
        side: The side of the picture it is a digit of; −1 for a plain one.
        stride: What the digit counts for in the position along the side.
    """

    size: int
    side: int = -1
    stride: int = 1


@dataclass(frozen=True)
class Axis:
    """One axis of a tensor.

    Args:
        pieces: Its factors, the slowest first.
        before: How many entries come before the product of the pieces (class tokens).
        after: How many come after it.
        mixed: Where the entries are mixtures over the pieces, which are then only a memory: how
            many entries there are.
    """

    pieces: tuple[Piece, ...]
    before: int = 0
    after: int = 0
    mixed: int = 0

    @property
    def is_plain(self) -> bool:
        """Whether no part of the picture is in it."""
        return all(piece.side < 0 for piece in self.pieces)

    @property
    def size(self) -> int:
        """The number of entries."""
        return self.mixed or self.unmixed

    @property
    def unmixed(self) -> int:
        """The number of entries that the pieces and the extra tokens make."""
        return prod(piece.size for piece in self.pieces) + self.before + self.after


def plain(size: int) -> Axis:
    """An axis without space."""
    return Axis((Piece(size),))


@dataclass(frozen=True)
class Axes:
    """Where space is in a tensor.

    Args:
        sides: The sides of the picture.
        axes: The axes of the tensor.

    Example:
        >>> sides = (Side(4, 1.0, 0.0, 4), Side(6, 1.0, 0.0, 6))
        >>> image = Axes.image(sides, (2, 3), channels_last=False)
        >>> image.is_whole, image.axes[3].size
        (True, 6)
        >>> tokens = image.viewed((2, 3, 24), (72, 24, 1), 0)
        >>> tokens.is_whole, len(tokens.axes[2].pieces)
        (True, 2)
    """

    sides: tuple[Side, ...]
    axes: tuple[Axis, ...]

    @staticmethod
    def image(sides: tuple[Side, ...], leading: Sequence[int], *, channels_last: bool) -> Axes:
        """A batch of pictures: (*leading, *sides), or the last leading axis moved to the end."""
        space = tuple(Axis((Piece(side.size, i),)) for i, side in enumerate(sides))
        first = tuple(plain(size) for size in leading)
        if channels_last:
            return Axes(sides, (*first[:-1], *space, first[-1]))
        return Axes(sides, (*first, *space))

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the tensor."""
        return tuple(axis.size for axis in self.axes)

    @property
    def is_invariant(self) -> bool:
        """Whether nothing of the picture is left."""
        return all(axis.is_plain for axis in self.axes)

    @property
    def is_whole(self) -> bool:
        """Whether each digit of every side is there exactly once."""
        if any(axis.mixed for axis in self.axes):
            return False
        extra = [axis for axis in self.axes if axis.before or axis.after]
        if extra and (len(extra) > 1 or any(not a.is_plain for a in self.axes if a not in extra)):
            return False
        for number, side in enumerate(self.sides):
            stride = 1
            for piece in sorted(self._digits(number), key=lambda piece: piece.stride):
                if piece.stride != stride:
                    return False
                stride *= piece.size
            if stride != side.size:
                return False
        return True

    def _digits(self, side: int) -> list[Piece]:
        return [
            piece
            for axis in self.axes
            for piece in axis.pieces
            if piece.side == side and piece.size > 1 and not axis.mixed
        ]

    def coarsened(self) -> Axes:
        """The coarser picture that is left where the last digits of the positions are gone.

        After a patch of s samples was mixed into channels, or averaged, what is left of a side
        are the digits that count s and more: so many samples, s times as far apart.

        Example:
            >>> side = Side(6, 1.0, 0.0, 6)
            >>> patches = Axes((side,), (plain(2), Axis((Piece(3, 0, 2),)), plain(5)))
            >>> patches.coarsened().sides
            (Side(size=3, pitch=2.0, origin=0.5, whole=6),)
        """
        sides, found = list(self.sides), self
        for number, side in enumerate(self.sides):
            digits = sorted(self._digits(number), key=lambda piece: piece.stride)
            first = stride = digits[0].stride if digits else 1
            for piece in digits:
                stride = stride * piece.size if piece.stride == stride else 0
            if first == 1 or stride != side.size:
                continue
            origin = side.origin + side.pitch * (first - 1) / 2
            sides[number] = Side(side.size // first, side.pitch * first, origin, side.whole)
            found = found._with_strides_over(number, first)
        return replace(found, sides=tuple(sides))

    def _with_strides_over(self, number: int, by: int) -> Axes:
        return replace(
            self,
            axes=tuple(
                replace(
                    axis,
                    pieces=tuple(
                        replace(piece, stride=piece.stride // by) if piece.side == number else piece
                        for piece in axis.pieces
                    ),
                )
                for axis in self.axes
            ),
        )

    def on_picture(self, x: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
        """Apply a linear map to the picture in a tensor, and zero to the extra tokens.

        Args:
            x: A tensor of this shape.
            function: A map of tensors (*, *sides) to tensors of the same shape.
        """
        for number, axis in enumerate(self.axes):
            if axis.before or axis.after:
                inner = Axis(axis.pieces)
                middle = self._with_axis(number, inner)
                found = middle.on_picture(x.narrow(number, axis.before, inner.size), function)
                padding = [0, 0] * (x.ndim - 1 - number) + [axis.before, axis.after]
                return torch.nn.functional.pad(found, padding)
        pieces = [piece for axis in self.axes for piece in axis.pieces]
        order = sorted(
            range(len(pieces)), key=lambda i: (pieces[i].side, -pieces[i].stride)
        )  # sorted is stable: plain pieces first, in their own order
        expanded = x.reshape([piece.size for piece in pieces]).permute(order)
        rest = [pieces[i].size for i in order if pieces[i].side < 0]
        picture = expanded.reshape(rest + [side.size for side in self.sides])
        found = function(picture).reshape(expanded.shape)
        back = sorted(range(len(order)), key=order.__getitem__)
        return found.permute(back).reshape(x.shape)

    def _with_axis(self, number: int, axis: Axis) -> Axes:
        return replace(self, axes=(*self.axes[:number], axis, *self.axes[number + 1 :]))

    # --- what views do ------------------------------------------------------------------------

    def viewed(self, shape: Sequence[int], strides: Sequence[int], offset: int) -> Axes | None:
        """The axes of a view of this tensor, were it contiguous.

        Args:
            shape: The shape of the view.
            strides: Its strides.
            offset: The entry it begins at.

        Returns:
            The axes; ``None`` where the view cuts through the picture in another way than by
            moving digits, leaving out extra tokens, or taking rows or columns by a stride.
        """
        return _View(self, offset).axes(shape, strides)


class _View:
    """How the axes of a view of a contiguous tensor follow from those of the tensor."""

    def __init__(self, source: Axes, offset: int) -> None:
        self.source = source
        self.inner = [1] * len(source.axes)
        for i in range(len(source.axes) - 2, -1, -1):
            self.inner[i] = self.inner[i + 1] * source.axes[i + 1].size
        self.start = [
            (offset // step) % axis.size for step, axis in zip(self.inner, source.axes, strict=True)
        ]
        self.seen: set[int] = set()

    def axes(self, shape: Sequence[int], strides: Sequence[int]) -> Axes | None:
        found = []
        for size, stride in zip(shape, strides, strict=True):
            axis = plain(size) if size == 1 or stride == 0 else self._taken(size, stride)
            if axis is None:
                return None
            found.append(axis)
        for i, axis in enumerate(self.source.axes):
            # a single entry of an axis: fine for extra tokens, and for axes without space
            extra = self.start[i] < axis.before or self.start[i] >= axis.unmixed - axis.after
            if i not in self.seen and not axis.is_plain and axis.size > 1 and not extra:
                return None
        return self._subsampled(Axes(self.source.sides, tuple(found)))

    def _subsampled(self, found: Axes) -> Axes:
        """Where single rows or columns were left out, the sides are shorter ones."""
        sides, axes = list(found.sides), found.axes
        for i, side in enumerate(found.sides):
            whole = Piece(side.size, i)
            digits = found._digits(i)
            sources = [n for n, axis in enumerate(self.source.axes) if axis.pieces == (whole,)]
            if len(digits) != 1 or len(sources) != 1 or digits[0] == whole:
                continue
            piece, first = digits[0], self.start[sources[0]]
            origin = side.origin + side.pitch * first
            sides[i] = Side(piece.size, side.pitch * piece.stride, origin, side.whole)
            kept = Piece(piece.size, i)
            axes = tuple(
                replace(a, pieces=tuple(kept if p == piece else p for p in a.pieces)) for a in axes
            )
        return Axes(tuple(sides), axes)

    def _taken(self, size: int, stride: int) -> Axis | None:
        """The axis of the view with this size and stride: digits of one or more of our axes."""
        axes, inner = self.source.axes, self.inner
        number = min(i for i, step in enumerate(inner) if step <= stride and axes[i].size > 1)
        if stride % inner[number]:
            return None
        axis, step = axes[number], stride // inner[number]
        if axis.mixed:
            self.seen.add(number)
            return axis if size == axis.size and step == 1 else None
        if axis.before or axis.after:
            return self._taken_tokens(number, size, step)
        return self._taken_digits(number, size, stride)

    def _taken_tokens(self, number: int, size: int, step: int) -> Axis | None:
        axis, first = self.source.axes[number], self.start[number]
        if step != 1 or first + size > axis.size:
            return None
        self.seen.add(number)
        end = axis.size - axis.after
        if first + size <= axis.before or first >= end:
            return plain(size)
        if first <= axis.before and first + size >= end:
            return replace(axis, before=axis.before - first, after=first + size - end)
        return None

    def _taken_digits(self, number: int, size: int, stride: int) -> Axis | None:
        pieces: list[Piece] = []  # the fastest first
        left, step = size, stride
        while left > 1:
            axis, below, start = self.source.axes[number], self.inner[number], self.start[number]
            if axis.before or axis.after or axis.mixed:
                return None
            self.seen.add(number)
            local = step // below
            if len(axis.pieces) == 1 and start + local * (left - 1) < axis.size:
                only = axis.pieces[0]
                digit = Piece(left, only.side, only.stride * local) if only.side >= 0 else None
                pieces.append(digit or Piece(left))
                break
            taken = None if start else _digits_of(axis, below, left, step)
            if taken is None:
                return None
            found, left, step = taken
            pieces += found
            if left > 1:
                outer = [i for i in range(number) if self.source.axes[i].size > 1]
                if not outer:
                    return None
                number = outer[-1]
        return Axis(_joined(pieces[::-1]))


def _digits_of(axis: Axis, below: int, left: int, step: int) -> tuple[list[Piece], int, int] | None:
    """The digits of an axis that a view takes: the pieces, and the size and stride still left."""
    pieces = []
    for piece in reversed(axis.pieces):
        above = below * piece.size
        if left > 1 and below <= step < above:
            taken = min(left, above // step)
            if step % below or above % step or left % taken:
                return None
            if taken < left and taken * step != above:
                return None
            counts = piece.stride * (step // below) if piece.side >= 0 else 1
            pieces.append(Piece(taken, piece.side, counts))
            left, step = left // taken, step * taken
        below = above
    return pieces, left, step


def _joined(pieces: list[Piece]) -> tuple[Piece, ...]:
    """Neighbouring pieces that count on from one another are one: windows put together again."""
    joined: list[Piece] = []
    for piece in pieces:
        last = joined[-1] if joined else Piece(1)
        if last.side == piece.side >= 0 and last.stride == piece.stride * piece.size:
            joined[-1] = Piece(last.size * piece.size, piece.side, piece.stride)
        else:
            joined.append(piece)
    return tuple(joined)
