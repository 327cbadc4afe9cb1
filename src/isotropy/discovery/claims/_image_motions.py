"""Motions of an image that may leave its target, or move it along: shifts, turns and mirrors."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from isotropy.discovery.reading._image_data import ImageData
from isotropy.groups import GridFlips, GridTurns, Group, Trivial, Z, p4, p4m, parse_group
from isotropy.reps import Scalar, Symmetry, V

TURN, HALF_TURN, LEFT_RIGHT, TOP_BOTTOM = "turn", "half turn", "left-right", "top-bottom"
# a motion: left and right change places, or not, and then so many quarter turns
Element = tuple[bool, int]
_GENERATORS: dict[str, Element] = {
    TURN: (False, 1),
    HALF_TURN: (False, 2),
    LEFT_RIGHT: (True, 0),
    TOP_BOTTOM: (True, 2),
}


def point_group(names: Collection[str]) -> tuple[Element, ...]:
    """All elements that some motions generate, the identity first.

    Raises:
        ValueError: If a name is unknown.

    Example:
        >>> point_group(["left-right"])
        ((False, 0), (True, 0))
        >>> len(point_group(["turn", "left-right"]))
        8
    """
    unknown = set(names) - set(_GENERATORS)
    if unknown:
        raise ValueError(
            f"expected motions among {', '.join(_GENERATORS)}, got {sorted(unknown)!r:.80}"
        )
    found = {(False, 0)}
    while True:
        more = {_product(_GENERATORS[name], element) for name in names for element in found}
        if more <= found:
            return tuple(sorted(found))
        found |= more


def moved(maps: Tensor, element: Element) -> Tensor:
    """Maps of shape (…, height, width), moved."""
    flipped, turns = element
    if flipped:
        maps = maps.flip(-1)
    if turns == 2:
        return maps.flip((-2, -1))
    return maps.rot90(turns, (-2, -1)) if turns else maps


def moved_back(maps: Tensor, element: Element) -> Tensor:
    """What ``moved`` is undone by.

    Example:
        >>> import torch
        >>> x = torch.rand(1, 4, 4)
        >>> torch.equal(moved_back(moved(x, (True, 1)), (True, 1)), x)
        True
    """
    flipped, turns = element
    if turns == 2:
        maps = maps.flip((-2, -1))
    elif turns:
        maps = maps.rot90(-turns, (-2, -1))
    return maps.flip(-1) if flipped else maps


def _product(first: Element, second: Element) -> Element:
    """First the second, then the first: a mirror turns what it comes after around."""
    flipped = first[0] != second[0]
    turns = (first[1] + (-second[1] if first[0] else second[1])) % 4
    return flipped, turns


# what a motion is made of, beside what it is made of about the centre
UP, ACROSS = "up", "across"
SHIFTS = frozenset({UP, ACROSS})
TURNS = frozenset({TURN, HALF_TURN})
_MIRRORS = frozenset({LEFT_RIGHT, TOP_BOTTOM, HALF_TURN})
_WRAPPED = "wrapped around its edges"


_USUAL = "usual motions of images"


@dataclass(frozen=True, eq=False)
class Motions:
    """A group of motions of an image that might leave its target, or move it along.

    Args:
        name: What it is, in prose.
        action: How it acts, in a phrase.
        group: The group, on the h·w pixels of a channel.
        parts: What it is made of; a motion is within another if its parts are.
        method: Why it was tried.

    Example:
        >>> from isotropy.data import load
        >>> import numpy as np
        >>> data = ImageData.of(load((np.random.rand(90, 1, 5, 6), np.arange(90) % 3)))
        >>> [str(motions.group) for motions in usual_motions(data)][:3]
        ['Z(5)*Z(6)', 'Z(5)*Trivial(6)', 'Trivial(5)*Z(6)']
    """

    name: str
    action: str
    group: Group
    parts: frozenset[str]
    method: str = _USUAL

    @property
    def is_usual(self) -> bool:
        """Whether its parts are those that networks are built with, or not."""
        return self.method == _USUAL

    def symmetry(self, data: ImageData) -> Symmetry:
        """How it acts on rows of pixels, and on outputs, which stay if they are no images."""
        outputs = data.outputs * Scalar if data.target is None else data.target.sizes[0] * V
        return Symmetry(self.group, data.image[0] * V, outputs)

    @property
    def about_centre(self) -> frozenset[str]:
        """Its parts that are no shifts."""
        return self.parts - SHIFTS

    def is_within(self, other: Motions) -> bool:
        """Whether another group of usual motions has all of these and more."""
        return self.parts < other.parts

    def order(self) -> int:
        """The number of elements."""
        return int(self.group.order())


def usual_motions(data: ImageData) -> list[Motions]:
    """Shifts along both axes or one, quarter turns and mirrors, and all together."""
    _, h, w = data.image
    stays = outcome(data)
    flipped_rows, flipped_columns = _reversed(h), _reversed(w)
    found = [
        Motions(
            f"Z({h}) × Z({w}), translations of the image",
            f"the image is shifted, {_WRAPPED}; {stays}",
            Z(h) * Z(w),
            SHIFTS,
        ),
        Motions(
            f"Z({h}), vertical translations",
            f"the image is shifted up or down, {_WRAPPED}; {stays}",
            Z(h) * Trivial(w),
            frozenset({UP}),
        ),
        Motions(
            f"Z({w}), horizontal translations",
            f"the image is shifted to the left or right, {_WRAPPED}; {stays}",
            Trivial(h) * Z(w),
            frozenset({ACROSS}),
        ),
        Motions(
            "Z(2), mirror images",
            f"left and right change places; {stays}",
            Trivial(h) * flipped_columns,
            frozenset({LEFT_RIGHT}),
        ),
        Motions(
            "Z(2), upside down",
            f"top and bottom change places; {stays}",
            flipped_rows * Trivial(w),
            frozenset({TOP_BOTTOM}),
        ),
    ]
    found += [
        Motions(
            "Z(2), half turns",
            f"the image is turned by halves; {stays}",
            _reversed(h * w),
            frozenset({HALF_TURN}),
        ),
        Motions(
            "Z(2) × Z(2), mirror images and upside down",
            f"left and right, top and bottom change places; {stays}",
            flipped_rows * flipped_columns,
            _MIRRORS,
        ),
    ]
    if h != w:
        return found
    corners = "the image is turned by quarters"
    return [
        *found,
        Motions("C(4), quarter turns", f"{corners}; {stays}", GridTurns(h), TURNS),
        Motions(
            "D(4), quarter turns and mirror images",
            f"{corners} and mirrored; {stays}",
            Group([*GridTurns(h).discrete, *GridFlips(h).discrete]),
            TURNS | _MIRRORS,
        ),
        Motions(
            "p4, translations and quarter turns",
            f"{corners} and shifted, {_WRAPPED}; {stays}",
            p4(h),
            SHIFTS | TURNS,
        ),
        Motions(
            "p4m, translations, quarter turns and mirror images",
            f"{corners}, mirrored and shifted, {_WRAPPED}; {stays}",
            p4m(h),
            SHIFTS | TURNS | _MIRRORS,
        ),
    ]


def about_centre(motions: Motions, data: ImageData) -> Motions:
    """The part of usual motions that leaves the centre where it is."""
    (same,) = [one for one in usual_motions(data) if one.parts == motions.about_centre]
    return same


def asked_motions(texts: Sequence[str], data: ImageData) -> list[Motions]:
    """Groups that a user wants tried, on the pixels of every channel.

    Raises:
        ValueError: If one cannot be read, or does not permute so many pixels.
    """
    pixels = data.image[1] * data.image[2]
    found = []
    for text in texts:
        group = parse_group(text)
        if group.d != pixels or not group.is_permutation or not group.discrete:
            raise ValueError(
                f"expected candidate groups that permute {pixels} pixels, got {text!r} on {group.d}"
            )
        found.append(
            Motions(
                text,
                f"{text} moves the pixels; {outcome(data)}",
                group,
                frozenset({text}),
                f"candidate {text}",
            )
        )
    return found


def outcome(data: ImageData) -> str:
    """What becomes of the target of an image that is moved, in words."""
    if data.target is not None:
        return "the target is moved along"
    if data.task == "classification":
        return "the class stays"
    return "the number stays" if data.outputs == 1 else "the numbers stay"


def moved_at_random(symmetry: Symmetry, rng: torch.Generator, x: Tensor) -> Tensor:
    """Each row moved by an element of its own."""
    return _moved(x, _drawn(symmetry, rng, len(x)))


def moved_together(
    symmetry: Symmetry, rng: torch.Generator, x: Tensor, y: Tensor
) -> tuple[Tensor, Tensor]:
    """Rows moved as ``moved_at_random`` does, and targets moved along where they are images."""
    index = _drawn(symmetry, rng, len(x))
    follows = y.ndim == 2 and symmetry.rep_out.size() % index.shape[-1] == 0
    follows = follows and symmetry.rep_out != symmetry.rep_out.size() * Scalar
    return _moved(x, index), _moved(y, index) if follows else y


def _drawn(symmetry: Symmetry, rng: torch.Generator, count: int) -> Tensor:
    """Where each pixel goes, shape (count, pixels)."""
    monomial = symmetry.group.sample(count, generator=rng).monomial()
    assert monomial is not None
    return monomial.index.reshape(count, -1)


def _moved(rows: Tensor, index: Tensor) -> Tensor:
    maps = rows.unflatten(1, (-1, index.shape[-1]))
    moved = torch.empty_like(maps).scatter_(2, index.unsqueeze(1).expand_as(maps), maps)
    return moved.flatten(1)


def _reversed(n: int) -> Group:
    return Group([list(range(n - 1, -1, -1))])
