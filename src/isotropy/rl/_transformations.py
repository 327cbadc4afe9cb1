"""What may be done to a body and its world: mirrors, turns of the world, limbs relabelled."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import cos, isfinite, pi, sin
from typing import Literal, TypeAlias

import torch
from torch import Tensor

Letter: TypeAlias = Literal["x", "y", "z"]
Cycles: TypeAlias = tuple[tuple[str, ...], ...]
_LETTERS = "xyz"
LEFT_AND_RIGHT: Cycles = (("left", "right"), ("l", "r"))
_MOST_TURNS = 360


@dataclass(frozen=True)
class Transformation:
    """One generator of a symmetry: what is done to a body and its world.

    Made by ``mirror``, ``body_turn`` and ``world_rotation``. An orientation Q, from
    the frame of the body to that of the world, becomes W Q Bᵀ; a vector v of the world W v, one of
    the body B v, axial ones det(·) times that.

    Args:
        name: What it is, in words.
        world: W, or its generator A with W = exp(tA), row by row.
        body: B, or its generator, row by row.
        cycles: Words in the names of parts, each of which becomes the next one of its cycle.
        continuous: Whether generators are given.
        usual: Whether the words are the usual ones, which need not occur in names.
    """

    name: str
    world: tuple[tuple[float, ...], ...]
    body: tuple[tuple[float, ...], ...]
    cycles: Cycles = ()
    continuous: bool = False
    usual: bool = False

    @property
    def matrices(self) -> tuple[Tensor, Tensor]:
        """W and B, shape (3, 3) each."""
        return (
            torch.tensor(self.world, dtype=torch.float64),
            torch.tensor(self.body, dtype=torch.float64),
        )

    def renamed(self, name: str) -> str:
        """What a part of this name becomes; upper and lower case count as the same.

        Example:
            >>> mirror("y").renamed("left knee"), mirror("y").renamed("L_knee")
            ('right knee', 'R_knee')
        """
        after = {
            word: following
            for cycle in self.cycles
            for word, following in zip(cycle, (*cycle[1:], cycle[0]), strict=True)
        }
        folded = {word.casefold(): following for word, following in after.items()}

        def replaced(found: re.Match[str]) -> str:
            word = found[0]
            return after[word] if word in after else _cased(folded[word.casefold()], word)

        return _any_of(after).sub(replaced, name) if after else name

    def among(self, names: Iterable[str]) -> Transformation:
        """The same with those words only that names of parts have.

        Raises:
            ValueError: If a word that was asked for is in no name.

        Example:
            >>> mirror("y").among(["height", "velocity"]).name
            'mirror across y'
        """
        given = list(names)
        if not self.usual:
            missing = [
                word
                for cycle in self.cycles
                for word in cycle
                if not any(_any_of([word]).search(name) for name in given)
            ]
            if missing:
                raise ValueError(
                    f"expected words that names of parts have, got {missing[0]!r} in none of "
                    f"{', '.join(map(repr, given))}"
                )
            return self
        known = {name.casefold() for name in given}
        kept = []
        for cycle in self.cycles:
            alone = replace(self, cycles=(cycle,))
            moved = [name for name in given if alone.renamed(name) != name]
            # a letter is a side only beside its other side: r may be a radius
            letters = all(len(word) == 1 for word in cycle)
            if moved and not (
                letters and all(alone.renamed(name).casefold() not in known for name in moved)
            ):
                kept.append(cycle)
        plain = self.name.split(", ")[0]
        return replace(self, name=_in_words(plain, kept), cycles=tuple(kept), usual=False)


def mirror(axis: Letter, cycles: Sequence[Sequence[str]] | None = None) -> Transformation:
    """Everything seen in a mirror across an axis; limbs change sides.

    Args:
        axis: The axis that is turned round: "y" exchanges left and right of what faces x.
        cycles: Words in names that are exchanged, by default "left" and "right", "L" and "R",
            where parts have them. Whether they are in capitals does not matter.

    Example:
        >>> print(mirror("y").name)
        mirror across y, left <-> right
    """
    signs = [-1.0 if letter == _checked(axis) else 1.0 for letter in _LETTERS]
    reflection = torch.diag(torch.tensor(signs, dtype=torch.float64))
    name = f"mirror across {axis}"
    if cycles is not None:
        return _made(name, reflection, reflection, cycles)
    usual = _made(name, reflection, reflection, LEFT_AND_RIGHT)
    return replace(usual, name=_in_words(name, LEFT_AND_RIGHT[:1]), usual=True)


def body_turn(
    degrees: float, about: Letter = "z", cycles: Sequence[Sequence[str]] = ()
) -> Transformation:
    """The frame of the body turned within it, its limbs relabelled: the same body as before.

    The state of the world does not change, only what it is called; rewards do not either.

    Args:
        degrees: The angle. Turns by it come back to the start after at most 360.
        about: The axis of the body.
        cycles: Words in names, each of which becomes the next one.

    Raises:
        ValueError: If they do not.

    Example:
        >>> print(body_turn(90, "z", [("leg 1", "leg 2", "leg 3", "leg 4")]).name)
        body relabelled by 90 degrees about z, leg 1 -> leg 2 -> leg 3 -> leg 4
    """
    turn = _rotation(about, degrees)
    return _made(f"body relabelled by {degrees:g} degrees about {about}", _eye(), turn, cycles)


def world_rotation(about: Letter = "z", degrees: float | None = None) -> Transformation:
    """The world and all that is in it turned: by every angle, SO(2), or by one.

    Rewards for a direction may not agree.

    Args:
        about: The axis of the world.
        degrees: The angle, where only turns by it count: at most 360 of them come back to the
            start.

    Raises:
        ValueError: If they do not.

    Example:
        >>> world_rotation("z").continuous, world_rotation("z", 90).continuous
        (True, False)
    """
    if degrees is not None:
        turn = _rotation(about, degrees)
        return _made(f"world turned by {degrees:g} degrees about {about}", turn, _eye(), ())
    i, j = ((1, 2), (2, 0), (0, 1))[_LETTERS.index(_checked(about))]
    generator = torch.zeros(3, 3, dtype=torch.float64)
    generator[i, j], generator[j, i] = -1.0, 1.0
    still = torch.zeros(3, 3, dtype=torch.float64)
    return _made(f"world turned about {about}", generator, still, (), continuous=True)


def world_turn(degrees: float, about: Letter = "z") -> Transformation:
    """``world_rotation`` by one angle, as it was called."""
    return world_rotation(about, degrees)


def _made(
    name: str,
    world: Tensor,
    body: Tensor,
    cycles: Sequence[Sequence[str]],
    *,
    continuous: bool = False,
) -> Transformation:
    given = tuple(tuple(cycle) for cycle in cycles)
    words = [word.casefold() for cycle in given for word in cycle]
    if any(len(cycle) < 2 for cycle in given) or len(set(words)) != len(words):
        raise ValueError(f"expected cycles of two or more different words, got {list(given)}")
    rows = [tuple(tuple(row) for row in matrix.tolist()) for matrix in (world, body)]
    return Transformation(_in_words(name, given), rows[0], rows[1], given, continuous)


def _in_words(name: str, cycles: Iterable[Sequence[str]]) -> str:
    shown = [
        f"{cycle[0]} <-> {cycle[1]}" if len(cycle) == 2 else " -> ".join(cycle) for cycle in cycles
    ]
    return ", ".join([name, *shown])


def _any_of(words: Iterable[str]) -> re.Pattern[str]:
    """Any of some words, whole, the longest first."""
    some = "|".join(map(re.escape, sorted(words, key=len, reverse=True)))
    return re.compile(f"(?<![A-Za-z0-9])({some})(?![A-Za-z0-9])", re.IGNORECASE)


def _cased(word: str, like: str) -> str:
    """A word in capitals, or with one, as another is."""
    if like.isupper():
        return word.upper()
    return word[:1].upper() + word[1:] if like[:1].isupper() else word.lower()


def _rotation(about: Letter, degrees: float) -> Tensor:
    parts = (abs(turns * degrees / 360 % 1 - 0.5) for turns in range(1, _MOST_TURNS + 1))
    if not isfinite(degrees) or all(part < 0.5 - 1e-9 for part in parts):
        raise ValueError(
            f"expected an angle of which at most {_MOST_TURNS} make whole turns, got {degrees:g} "
            "degrees: world_rotation() turns by every angle"
        )
    i, j = ((1, 2), (2, 0), (0, 1))[_LETTERS.index(_checked(about))]
    c, s = (_tidy(f(degrees * pi / 180)) for f in (cos, sin))
    turn = _eye()
    turn[i, i], turn[i, j], turn[j, i], turn[j, j] = c, -s, s, c
    return turn


def _tidy(value: float) -> float:
    """Sines and cosines of quarter turns without rounding."""
    return round(value) + 0.0 if abs(value - round(value)) < 1e-15 else value


def _eye() -> Tensor:
    return torch.eye(3, dtype=torch.float64)


def _checked(axis: Letter) -> Letter:
    if axis not in ("x", "y", "z"):
        raise ValueError(f"expected an axis 'x', 'y' or 'z', got {axis!r}")
    return axis
