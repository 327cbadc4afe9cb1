"""A symmetry of an environment: a group with its action on observations and on actions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal, TypeAlias

import torch
from torch import Tensor

from isotropy.groups import Group, LinearMap, MapLike, abstract_name
from isotropy.reps import Rep, Scalar, Symmetry, joint_action
from isotropy.rl._entry_layout import EntryLayout, finding_blocks
from isotropy.rl._magnitudes import magnitudes
from isotropy.rl._parts import Part
from isotropy.rl._symmetry_table import entry_table, turns_quaternions_round
from isotropy.rl._transformations import Transformation

if TYPE_CHECKING:
    from isotropy.discovery import Finding

Holds: TypeAlias = Literal["exactly", "in dynamics only", "approximately", "poorly"]
_LONGEST = 60  # texts of representations beyond this say nothing to a reader


@dataclass(frozen=True, repr=False)
class EnvironmentSymmetry:
    """A group that acts on observations and actions, so that transitions commute with it.

        s' = f(s, a)   ⟹   ρ_s(g) s' = f(ρ_s(g) s, ρ_a(g) a)

    Made from a description (``described``), from matrices (``of``), from what was found in a log
    (``found``), or taken from the list of known environments (``environment_symmetry``).

    Args:
        group: The group. Where an observation has quaternions, q and −q mean the same; turns of the
            body then bring in the element that exchanges them, and twice as many elements.
        observation: How it acts on observations.
        action: How it acts on actions; for discrete ones, on a number for each.
        name: What the symmetry is called, such as "Z(2)".
        generators: What its generators do, in words.
        observation_names: A name for each entry of an observation.
        action_names: A name for each entry of an action.
        holds: How far it does: "exactly", with rewards; "in dynamics only", where rewards know a
            direction; "approximately"; "poorly", where errors are about as large as steps. None
            where that is not known: ``dynamics_error`` measures it.

    Example:
        >>> flip = EnvironmentSymmetry.of([[[-1.0, 0.0], [0.0, 1.0]]], [[[-1.0]]])
        >>> print(flip)
        Z(2): Pseudoscalar+Scalar (observation), Pseudoscalar (action)
    """

    group: Group
    observation: Rep
    action: Rep
    name: str
    generators: tuple[str, ...] = ()
    observation_names: tuple[str, ...] | None = None
    action_names: tuple[str, ...] | None = None
    holds: Holds | None = None

    @staticmethod
    def of(
        observation: Sequence[MapLike],
        action: Sequence[MapLike],
        *,
        observation_algebra: Sequence[MapLike] = (),
        action_algebra: Sequence[MapLike] = (),
        name: str | None = None,
        generators: Sequence[str] = (),
        observation_names: Sequence[str] | None = None,
        action_names: Sequence[str] | None = None,
        holds: Holds | None = None,
    ) -> EnvironmentSymmetry:
        """From the matrices of generators, on observations and on actions.

        Args:
            observation: For each discrete generator a permutation or a matrix.
            action: The same on actions.
            observation_algebra: For each continuous generator its matrix.
            action_algebra: The same on actions.
            name: What to call it; by default that of the group.
            generators: What each generator does, in words.
            observation_names: A name for each entry of an observation.
            action_names: A name for each entry of an action.
            holds: How far it is known to hold.

        Raises:
            ValueError: If there is no generator, or not as many on actions as on observations.
        """
        pairs = [(observation, action), (observation_algebra, action_algebra)]
        if any(len(left) != len(right) for left, right in pairs):
            raise ValueError(
                "expected for each generator one matrix on observations and one on actions, got "
                f"{[(len(left), len(right)) for left, right in pairs]}"
            )
        group, reps = joint_action(*(list(zip(*pair, strict=True)) for pair in pairs))
        return EnvironmentSymmetry(
            group,
            reps[0],
            reps[1],
            name or abstract_name(group),
            tuple(generators),
            None if observation_names is None else tuple(observation_names),
            None if action_names is None else tuple(action_names),
            holds,
        )

    @staticmethod
    def described(
        observation: Iterable[Part | Sequence[Part]],
        action: Iterable[Part | Sequence[Part]],
        transformations: Sequence[Transformation] | Transformation,
        *,
        name: str | None = None,
        holds: Holds | None = None,
    ) -> EnvironmentSymmetry:
        """From what observations and actions are made of.

        Args:
            observation: The parts of an observation, in order.
            action: The parts of an action, in order.
            transformations: The generators: ``mirror``, ``body_turn``, ``world_rotation``.
            name: What to call it; by default that of the group.
            holds: How far it is known to hold.

        Raises:
            ValueError: If a transformation takes a part to what is not described, or exchanges
                words that no part has.

        Example:
            >>> from isotropy.rl import hinge, mirror, scalar, vector
            >>> observation = [
            ...     scalar("height"),
            ...     vector("velocity"),
            ...     hinge("left knee", "y"),
            ...     hinge("right knee", "y"),
            ... ]
            >>> torques = [hinge("left knee", "y"), hinge("right knee", "y")]
            >>> print(EnvironmentSymmetry.described(observation, torques, mirror("y")))
            Z(2): 3*Scalar+Pseudoscalar+V (observation), V (action)
        """
        chosen = (
            [transformations]
            if isinstance(transformations, Transformation)
            else list(transformations)
        )
        if not chosen:
            raise ValueError("expected at least one transformation, such as mirror('y'), got none")
        sides = EntryLayout(observation), EntryLayout(action)
        names = dict.fromkeys(part.name for side in sides for part in side.parts)
        chosen = [transformation.among(names) for transformation in chosen]
        discrete = [t for t in chosen if not t.continuous]
        continuous = [t for t in chosen if t.continuous]
        return EnvironmentSymmetry.of(
            [sides[0].matrix(t) for t in discrete],
            [sides[1].matrix(t) for t in discrete],
            observation_algebra=[sides[0].matrix(t) for t in continuous],
            action_algebra=[sides[1].matrix(t) for t in continuous],
            name=name or _physical_name(discrete, continuous, sides),
            generators=[t.name for t in (*discrete, *continuous)],
            observation_names=sides[0].entry_names,
            action_names=sides[1].entry_names,
            holds=holds,
        )

    @staticmethod
    def found(finding: Finding) -> EnvironmentSymmetry:
        """From what ``isotropy.discover`` found in logged transitions.

        Args:
            finding: A finding on (s, a) and s′ − s. It tells of dynamics, not of rewards.

        Raises:
            ValueError: If it is not about transitions, mixes observations with actions, or acts
                about another point than the origin.

        Example:
            >>> from isotropy.discovery import Finding
            >>> from isotropy.groups import Z
            >>> from isotropy.reps import Pseudoscalar as P
            >>> mirror = Symmetry(Z(2), 3 * P, 2 * P)
            >>> finding = Finding.of("signs", "Z(2)", "−s, −a", "transitions", symmetry=mirror)
            >>> print(EnvironmentSymmetry.found(finding))
            Z(2): 2*Pseudoscalar (observation), Pseudoscalar (action)
        """
        n, discrete, algebra = finding_blocks(finding)
        names = tuple(finding.input_names or ())
        return EnvironmentSymmetry.of(
            [m[:n, :n] for m in discrete],
            [m[n:, n:] for m in discrete],
            observation_algebra=[m[:n, :n] for m in algebra],
            action_algebra=[m[n:, n:] for m in algebra],
            generators=finding.action.split("; and "),
            observation_names=names[:n] or None,
            action_names=names[n:] or None,
            holds="approximately" if finding.approximate else None,
        )

    @cached_property
    def policy(self) -> Symmetry:
        """Of a policy: observations to actions."""
        return Symmetry(self.group, self.observation, self.action)

    @cached_property
    def critic(self) -> Symmetry:
        """Of a value of observation and action: it does not change."""
        return Symmetry(self.group, self.observation + self.action, Scalar)

    @cached_property
    def transition(self) -> Symmetry:
        """Of a transition: observation and action to the next observation."""
        return Symmetry(self.group, self.observation + self.action, self.observation)

    @cached_property
    def action_magnitudes(self) -> Rep:
        """How magnitudes of actions transform, such as standard deviations: without signs.

        Raises:
            ValueError: If the group mixes entries of actions, not just exchanging them.
        """
        return magnitudes(self.action)

    @property
    def observation_size(self) -> int:
        """The number of entries of an observation."""
        return self.observation.size()

    @property
    def action_size(self) -> int:
        """The number of entries of an action."""
        return self.action.size()

    def matrices(self, elements: LinearMap) -> tuple[Tensor, Tensor]:
        """The matrices of some elements on observations and actions, (k, n, n) and (k, m, m)."""
        count = elements.dense().shape[:-2]
        found = (rep.rho(elements).dense() for rep in (self.observation, self.action))
        # scalars have one matrix for all elements
        observation, action = (m.expand(*count, *m.shape[-2:]) for m in found)
        return observation, action

    def elements(self, n: int = 32, *, generator: torch.Generator | int | None = 0) -> LinearMap:
        """All elements of a finite group, the identity first; ``n`` random ones of another."""
        if self.group.is_discrete:
            return self.group.elements()
        return self.group.sample(n, generator=generator)

    def table(self) -> str:
        """A line for every entry: its name, and what each generator makes of it.

        Example:
            >>> swap = EnvironmentSymmetry.of([[1, 0]], [[[-1.0]]], observation_names=["x", "y"])
            >>> print(swap.table().splitlines()[3])
            x            y
        """
        spaces = []
        for what, rep, names in (
            ("observation", self.observation, self.observation_names),
            ("action", self.action, self.action_names),
        ):
            discrete = [rep.rho(h).dense() for h in self.group.discrete]
            algebra = [rep.drho(a).dense() for a in self.group.algebra]
            called = names or [f"{what} {k}" for k in range(rep.size())]
            spaces.append((what, called, discrete, algebra))
        return entry_table(spaces, self.generators)

    def __str__(self) -> str:
        texts = []
        for what, rep in (("observation", self.observation), ("action", self.action)):
            text = rep._text(self.group).removeprefix("(").split(").on(")[0].split(".on(")[0]
            # blocks of a group's own matrices mean nothing to a reader
            plain = len(text) <= _LONGEST and "Block" not in text
            texts.append(f"{text if plain else f'{rep.size()} entries'} ({what})")
        parts = [f"{self.name}: {', '.join(texts)}"]
        if self.holds is not None:
            parts.append(f"holds {self.holds}")
        if self.group.is_discrete and self.observation_names is not None:
            elements = self.matrices(self.elements())
            if turns_quaternions_round(self.observation_names, *elements):
                parts.append(f"{len(elements[0])} elements, as q and −q are one orientation")
        return "; ".join(parts)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.name!r}, observation_size={self.observation_size}, "
            f"action_size={self.action_size})"
        )


def _physical_name(
    discrete: list[Transformation], continuous: list[Transformation], sides: Sequence[EntryLayout]
) -> str:
    """The name of what is done to body and world, where q and −q are one orientation."""
    names = list(dict.fromkeys(part.name for side in sides for part in side.parts))
    places = {name.casefold(): place for place, name in enumerate(names)}
    places |= {name: place for place, name in enumerate(names)}
    h = []
    for t in discrete:
        renamed = (t.renamed(name) for name in names)
        moved = torch.tensor([places.get(new, places[new.casefold()]) for new in renamed])
        relabelled = torch.eye(len(names), dtype=torch.float64)[moved].mT
        h.append(torch.block_diag(*t.matrices, relabelled))
    a = [torch.block_diag(*t.matrices, torch.zeros(len(names), len(names))) for t in continuous]
    return abstract_name(Group(h, a))
