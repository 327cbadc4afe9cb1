"""Catalogue groups in their standard numbering, small enough to test membership at sight."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from isotropy.groups._block_systems import connected_components
from isotropy.groups._stabilizer_chain import IntArray


@dataclass(frozen=True)
class NamedAction:
    """A group of the catalogue in its standard action; `parts` for "+", "*" and "wreath"."""

    kind: str
    degree: int
    order: int
    parts: tuple[NamedAction, ...] = ()

    def __str__(self) -> str:
        if self.kind == "wreath":
            return f"wreath({self.parts[0]},{self.parts[1]})"
        return self.kind.join(map(str, self.parts)) if self.parts else f"{self.kind}({self.degree})"

    def contains(self, s: IntArray) -> bool:
        """Whether the permutation s of the standard points belongs to the group."""
        every = np.arange(self.degree)
        match self.kind:
            case "Trivial":
                return np.array_equal(s, every)
            case "S":
                return True
            case "A":
                cycles = np.unique(connected_components(self.degree, every, s)).size
                return (self.degree - cycles) % 2 == 0
            case "Z" | "D":
                turns = (s - s[0] - every) % self.degree == 0
                flips = (s - s[0] + every) % self.degree == 0
                return bool(turns.all() or (self.kind == "D" and flips.all()))
            case "+":
                ends = np.cumsum([part.degree for part in self.parts])
                pieces = zip(self.parts, np.split(s, ends[:-1]), ends, strict=True)
                return all(_maps(part, piece - (end - part.degree)) for part, piece, end in pieces)
            case "*":
                grid = [part.degree for part in self.parts]
                images = np.stack(np.unravel_index(s, grid)).reshape(len(grid), *grid)
                return all(_acts(part, images[a], a) for a, part in enumerate(self.parts))
        inner, outer = self.parts
        blocks, places = np.divmod(s.reshape(outer.degree, inner.degree), inner.degree)
        return _acts(outer, blocks, 0) and all(_maps(inner, place) for place in places)


def _maps(group: NamedAction, s: IntArray) -> bool:
    """Whether s is a permutation at all, and one of the group."""
    return np.array_equal(np.sort(s), np.arange(group.degree)) and group.contains(s)


def _acts(group: NamedAction, images: IntArray, axis: int) -> bool:
    """Whether a coordinate's images depend on that coordinate alone, through the group."""
    images = np.moveaxis(images, axis, 0).reshape(group.degree, -1)
    return bool((images == images[:, :1]).all()) and _maps(group, images[:, 0])


def product_action(parts: Iterable[NamedAction]) -> NamedAction:
    """The product action of several groups, nested products opened up."""
    flat = tuple(f for part in parts for f in (part.parts if part.kind == "*" else (part,)))
    return NamedAction(
        "*", math.prod(f.degree for f in flat), math.prod(f.order for f in flat), flat
    )
