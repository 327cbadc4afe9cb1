"""A proposer looks at rows and yields claims: one file for each kind of symmetry."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

from isotropy._run import Patience, Step
from isotropy.discovery.claims._claim import Claim
from isotropy.discovery.testing._bench import Bench

Tell: TypeAlias = Callable[[str | Step], None]


@dataclass(frozen=True)
class Tried:
    """What was looked at: a text, or a dictionary of plain values with the cost that was seen."""

    line: str | Mapping[str, Any]


@dataclass(frozen=True)
class Note:
    """Anything else worth knowing.

    Args:
        text: It, in a sentence.
        unless_confirmed: Whether it is worth knowing only where no claim stands.
    """

    text: str
    unless_confirmed: bool = False


Proposal: TypeAlias = Claim | Tried | Note


class Proposer(ABC):
    """Looks for one kind of symmetry.

    What is yielded before time is up counts, so claims are yielded as soon as they are known.

    Attributes:
        words: What it does, as in "interrupted while looking for permutations".
        by: The share of a budget by whose end it is to be done.
        checks: Whether it may refuse what it was asked, and itself says when work begins.
    """

    words: ClassVar[str]
    by: ClassVar[float] = 0.6
    checks: ClassVar[bool] = False

    @abstractmethod
    def propose(self, bench: Bench, tell: Tell) -> Iterator[Proposal]:
        """Yield claims, and what else is worth saying.

        Args:
            bench: The rows and, for kinds that need them, predictors. Claims may rest on all but
                the rows held out, ``bench.problem.outside``.
            tell: Whom to tell how it goes on.
        """

    def kept(self, claims: Sequence[Claim]) -> Sequence[Claim]:
        """As many of its claims as are tested, in the order of the tests."""
        return claims


@dataclass(frozen=True, eq=False)
class Proposed:
    """All that proposers yielded.

    Args:
        claims: What is to be tested.
        tried: What was looked at.
        notes: Anything else worth knowing.
    """

    claims: tuple[Claim, ...] = ()
    tried: tuple[Tried, ...] = ()
    notes: tuple[Note, ...] = ()


def propose(
    proposers: Sequence[Proposer], bench: Bench, patience: Patience, tell: Callable[[int], Tell]
) -> Proposed:
    """Let each proposer look, one after the other, each for its share of the time.

    Args:
        proposers: Who looks.
        bench: At what.
        patience: How long they may take.
        tell: Whom to tell how it goes on, by the number of the proposer.
    """
    claims: list[Claim] = []
    rest: list[Tried | Note] = []
    for number, proposer in enumerate(proposers):
        own: list[Claim] = []

        def look(proposer: Proposer = proposer, own: list[Claim] = own, at: int = number) -> None:
            if not proposer.checks:
                tell(at)(proposer.words)
            for one in proposer.propose(bench, tell(at)):
                if isinstance(one, Claim):
                    own.append(one)
                else:
                    rest.append(one)

        patience.attempt(proposer.words, look, share=proposer.by)
        claims += proposer.kept(own)
    return Proposed(
        tuple(claims),
        tuple(one for one in rest if isinstance(one, Tried)),
        tuple(one for one in rest if isinstance(one, Note)),
    )
