"""What a search ranges over: sets of groups, and the networks that share weights by them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import torch

from isotropy._run._json import shown
from isotropy.bases import pair_orbits
from isotropy.groups import GRID_TRANSFORMATIONS, GridTransformation, grid_transformations
from isotropy.search._space_description import space_description
from isotropy.search._study_notes import HIDDEN


@dataclass(frozen=True, order=True)
class State:
    """A set of groups, and how wide the layers are: what one child network is made of.

    Args:
        groups: Names of transformations, in the order of the catalogue.
        hidden: Which choice of hidden grids, counted from 0.

    Example:
        >>> State(("rotation", "vertical flip")).key
        'rotation+vertical flip/0'
    """

    groups: tuple[str, ...] = ()
    hidden: int = 0

    @property
    def key(self) -> str:
        """What tells it from other states, in one line."""
        return f"{'+'.join(self.groups)}/{self.hidden}"

    def __str__(self) -> str:
        return ", ".join(self.groups) or "no group"


@dataclass(frozen=True)
class SearchSpace:
    """All sets of some groups that act on an image and on the hidden grids of a network.

    Different sets may generate the same group, or groups with equal orbits on weights: they are
    one network. Of the 2¹² sets of all twelve transformations only 148 networks are different, on
    an image of 28 × 28 with hidden grids of 20 × 20 and ``step=None``; 216 with the paper's step 4.
    `network` gives for every set the largest one with the same weights equal.

    Args:
        image: Channels, height and width.
        groups: Names of transformations; by default all that act on image and hidden grids.
        hidden: Choices of hidden grids, each with the side of every hidden layer.
        step: Of translations, in cells; ``None`` for one group that acts on all grids.

    Raises:
        ValueError: If a name is unknown or the transformation does not act on one of the grids.

    Example:
        >>> space = SearchSpace(
        ...     (1, 8, 8), ("rotation", "horizontal flip", "vertical flip"), ((4,),)
        ... )
        >>> len(list(space.states()))
        8
        >>> space.network(State(("rotation", "vertical flip")))  # turns make the other flip of one
        State(groups=('rotation', 'horizontal flip', 'vertical flip'), hidden=0)
    """

    image: tuple[int, int, int]
    groups: tuple[str, ...] = ()
    hidden: tuple[tuple[int, ...], ...] = ((20, 20),)
    step: int | None = None
    _networks: dict[State, State] = field(
        default_factory=dict, init=False, repr=False, compare=False, hash=False
    )

    @classmethod
    def of(cls, description: str) -> SearchSpace:
        """The space of a description.

        Args:
            description: As `description` makes it, perhaps in somebody else's file.

        Raises:
            ValueError: If it is of another form, or of a space too large to look at.

        Example:
            >>> space = SearchSpace((1, 8, 8), ("rotation",), ((4,), (2, 2)))
            >>> SearchSpace.of(space.description()) == space
            True
        """
        found = space_description(description)
        try:
            space = cls(*found)
        except ValueError as error:
            raise ValueError(
                f"expected a space whose groups act on its grids, got: {error}"
            ) from None
        if found.groups != space.groups:
            raise ValueError(
                f"expected groups in the order {', '.join(space.groups)}, got {shown(found.groups)}"
            )
        return space

    def __post_init__(self) -> None:
        if not isinstance(self.image, tuple) or len(self.image) != 3:
            raise ValueError(f"expected an image as (channels, height, width), got {self.image!r}")
        if not self.hidden or not all(isinstance(one, tuple) and one for one in self.hidden):
            raise ValueError(
                "expected choices of hidden grids, each with the side of every hidden layer, such "
                f"as ((20, 20),), got {self.hidden!r}"
            )
        named = self.groups or tuple(GRID_TRANSFORMATIONS)
        found = grid_transformations(named, step=self.step)
        if not self.groups:
            found = tuple(one for one in found if all(one.acts_on(*g) for g in self._all_grids()))
        for one in found:
            for grids in self._all_grids():
                one.permutations(*grids)
        object.__setattr__(self, "groups", tuple(one.name for one in found))

    def _all_grids(self) -> list[tuple[Any, ...]]:
        return [self.grids(State((), number)) for number in range(len(self.hidden))]

    def grids(self, state: State) -> tuple[Any, ...]:
        """The grids of image and hidden layers of a state, as (height, width) and sides."""
        return (self.image[1:], *self.hidden[state.hidden])

    def state(self, *groups: str, hidden: int = 0) -> State:
        """The state with groups of these names, in the order of this space.

        Args:
            groups: Names of transformations.
            hidden: Which choice of hidden grids.

        Raises:
            ValueError: If a name or choice is not in this space.
        """
        for name in groups:
            if name not in self.groups:
                raise ValueError(f"expected groups among {', '.join(self.groups)}, got {name!r}")
        if not 0 <= hidden < len(self.hidden):
            raise ValueError(f"expected a choice below {len(self.hidden)}, got {hidden}")
        return State(tuple(name for name in self.groups if name in groups), hidden)

    def states(self) -> Iterator[State]:
        """All states: every subset of the groups with every choice of hidden grids."""
        for hidden in range(len(self.hidden)):
            for chosen in product((False, True), repeat=len(self.groups)):
                names = (n for n, has in zip(self.groups, chosen, strict=True) if has)
                yield State(tuple(names), hidden)

    def neighbours(self, state: State) -> list[State]:
        """States one action apart: a group more or less, in the order of the groups.

        Where there are several choices of hidden grids, the one before and the one after follow.

        Args:
            state: Any state of this space.
        """
        toggled = [
            self.state(*set(state.groups) ^ {name}, hidden=state.hidden) for name in self.groups
        ]
        if len(self.hidden) == 1:
            return toggled
        count = len(self.hidden)
        return [*toggled, *(State(state.groups, (state.hidden + k) % count) for k in (-1, 1))]

    def transformations(self, state: State) -> tuple[GridTransformation, ...]:
        """The transformations of a state."""
        return grid_transformations(state.groups, step=self.step)

    def network(self, state: State) -> State:
        """The largest state whose network is that of the given one: all groups that it respects.

        Args:
            state: Any state of this space.
        """
        if state not in self._networks:
            self._networks[state] = self._closure(state)
        return self._networks[state]

    def _closure(self, state: State) -> State:
        if not state.groups:
            return state
        grids = self.grids(state)
        moves = {
            one.name: one.permutations(*grids)
            for one in grid_transformations(self.groups, step=self.step)
        }
        others = [name for name in self.groups if name not in state.groups]
        # the smallest layer first: where it leaves no other group, the rest need not be looked at
        for k in sorted(range(1, len(grids)), key=lambda k: len(moves[state.groups[0]][k - 1])):
            if others:
                given = [moves[name] for name in state.groups]
                labels = pair_orbits([move[k] for move in given], [move[k - 1] for move in given])
                others = [
                    name
                    for name in others
                    if torch.equal(labels[moves[name][k]][:, moves[name][k - 1]], labels)
                ]
        return self.state(*state.groups, *others, hidden=state.hidden)

    def networks(self) -> tuple[State, ...]:
        """All different networks, each as the largest set of groups that it respects, sorted."""
        found = {State((), hidden) for hidden in range(len(self.hidden))}
        coming = list(found)
        while coming:
            state = coming.pop()
            for name in self.groups:
                if name not in state.groups:
                    joined = self.network(self.state(*state.groups, name, hidden=state.hidden))
                    if joined not in found:
                        found.add(joined)
                        coming.append(joined)
        return tuple(sorted(found))

    def params(self, state: State) -> dict[str, bool | str]:
        """A state as Optuna has it: a switch for each group, and a choice of hidden grids."""
        found: dict[str, bool | str] = {name: name in state.groups for name in self.groups}
        if len(self.hidden) > 1:
            found[HIDDEN] = _listed(self.hidden[state.hidden])
        return found

    def from_params(self, params: Mapping[str, Any]) -> State:
        """The state of Optuna's parameters.

        Args:
            params: As `params` makes them.
        """
        choices = [_listed(grids) for grids in self.hidden]
        hidden = choices.index(params[HIDDEN]) if len(self.hidden) > 1 else 0
        return State(tuple(name for name in self.groups if params[name]), hidden)

    def choices(self) -> dict[str, tuple[bool | str, ...]]:
        """The values that each of Optuna's parameters may take."""
        found: dict[str, tuple[bool | str, ...]] = dict.fromkeys(self.groups, (False, True))
        if len(self.hidden) > 1:
            found[HIDDEN] = tuple(_listed(grids) for grids in self.hidden)
        return found

    def description(self) -> str:
        """The space in one line of JSON, equal for equal spaces."""
        return json.dumps(
            {
                "image": self.image,
                "groups": self.groups,
                "hidden": self.hidden,
                "step": self.step,
            }
        )

    def digest(self) -> str:
        """The first digits of the SHA-256 of the description."""
        return hashlib.sha256(self.description().encode()).hexdigest()[:16]


def _listed(grids: tuple[int, ...]) -> str:
    return ", ".join(map(str, grids))
