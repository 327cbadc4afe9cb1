"""What a search has found: every child it trained, and the best of them."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from isotropy._run._json import shown
from isotropy.search._space import SearchSpace, State
from isotropy.search._strategy import ChildProposal

_SHOWN = 10


@dataclass(frozen=True)
class ScoredChild:
    """A child network and how well it did.

    Args:
        proposal: What was trained.
        accuracy: The share of validation rows that it classified rightly.
        parameters: How many numbers it learned.
        epochs: How many passes through the training rows it took.
        seconds: How long that took.
    """

    proposal: ChildProposal
    accuracy: float
    parameters: int
    epochs: int
    seconds: float

    @property
    def state(self) -> State:
        """Its groups and widths."""
        return self.proposal.state


@dataclass(frozen=True)
class Origin:
    """Where scores come from that this process did not measure itself.

    Whoever can write to a database can write any score into it: no check can tell a wrong one from
    a right one. To be sure, train the best children again.

    Args:
        address: Of the database, without a password.
        children: How many children's scores were read from it.
    """

    address: str
    children: int

    def __str__(self) -> str:
        return f"{self.children} read from {self.address}"


@dataclass(frozen=True)
class SearchResult:
    """What a search has found so far.

    Args:
        space: What it ranges over.
        children: All children that are trained, in the order in which they were finished.
        by_network: Whether every state stands for its network, so that no network occurs twice.
        failed: How many trainings ended without an accuracy; one child may fail several times.
        running: How many trainings were under way when the study was read.
        origin: Where scores were read from; ``None`` where all were measured by this call.

    Example:
        >>> space = SearchSpace((1, 8, 8), ("rotation", "vertical flip"), ((4,),))
        >>> found = SearchResult(
        ...     space,
        ...     (
        ...         ScoredChild(ChildProposal(State()), 0.875, 1034, 4, 1.0),
        ...         ScoredChild(ChildProposal(State(("rotation",))), 0.9375, 266, 4, 1.0),
        ...     ),
        ... )
        >>> found.best.state, found.baseline
        (State(groups=('rotation',), hidden=0), 0.875)
        >>> print(found)
        2 children
        accuracy  parameters  epochs  groups
          93.75%         266       4  rotation
          87.50%        1034       4  no group
    """

    space: SearchSpace
    children: tuple[ScoredChild, ...]
    by_network: bool = True
    failed: int = 0
    running: int = 0
    origin: Origin | None = field(default=None, compare=False)

    @classmethod
    def of(
        cls, storage: str | os.PathLike[str], name: str = "search", space: SearchSpace | None = None
    ) -> SearchResult:
        """Read a study without working on it.

        Args:
            storage: The path of an SQLite file, or a database's URL.
            name: Of the study.
            space: What it must range over; ``None`` for whatever it does.

        Raises:
            ValueError: If there is no such study, it ranges over something else, or the database
                holds what no search would write.
            ConnectionError: If the database cannot be reached.
        """
        from isotropy.search._database import opened
        from isotropy.search._study import existing_study, result_of, settings_of

        with opened(storage, create=False) as database:
            study = existing_study(database, name)
            description = settings_of(study)["space"]
            if space is not None and description != space.description():
                raise ValueError(
                    f"expected a study of the space {space.description()}, "
                    f"got {shown(description)} in study {name!r} at {database.address}"
                )
            return result_of(database, study, space or SearchSpace.of(description))

    @property
    def best(self) -> ScoredChild | None:
        """The child that did best, as `top` ranks them."""
        return next(iter(self.top(1)), None)

    @property
    def baseline(self) -> float | None:
        """The accuracy of the child of no group, ``None`` while that is not trained."""
        child = self.trained(State())
        return None if child is None else child.accuracy

    def top(self, count: int) -> tuple[ScoredChild, ...]:
        """The best children of different networks, each at its longest training.

        Where some were trained in full, those with fewer epochs are left out: they were trained to
        find out what is worth more, and accuracies after different trainings do not compare.

        Args:
            count: How many at most.
        """
        longest: dict[State, ScoredChild] = {}
        for child in [one for one in self.children if _in_full(one)] or self.children:
            known = longest.get(child.state)
            if known is None or child.epochs >= known.epochs:
                longest[child.state] = child
        found: dict[State, ScoredChild] = {}
        # Equal accuracies stay in the order of training, so that the answer is the same each time.
        for child in sorted(longest.values(), key=lambda one: -one.accuracy):
            if len(found) >= count:
                break
            found.setdefault(self._network(child.state), child)
        return tuple(found.values())

    def trained(self, state: State) -> ScoredChild | None:
        """The child of a state at its longest training, ``None`` where there is none.

        Args:
            state: Any state of the space; it stands for its network where the search went by those.
        """
        wanted = self.space.network(state) if self.by_network else state
        found = [child for child in self.children if child.state == wanted]
        return max(reversed(found), key=lambda one: (_in_full(one), one.epochs), default=None)

    def _network(self, state: State) -> State:
        return state if self.by_network else self.space.network(state)

    def __str__(self) -> str:
        counts = [_counted(len(self.children), "child", "children")]
        counts += [f"{self.failed} failed"] if self.failed else []
        counts += [f"{self.running} running"] if self.running else []
        counts += [str(self.origin)] if self.origin is not None else []
        shown = list(self.top(_SHOWN))
        baseline = self.trained(State())
        if baseline is not None and baseline not in shown:
            shown.append(baseline)
        if not shown:
            return ", ".join(counts)
        rows = [("accuracy", "parameters", "epochs", "groups")]
        rows += [
            (f"{one.accuracy:.2%}", str(one.parameters), str(one.epochs), self._label(one.state))
            for one in shown
        ]
        lines = [f"{a:>8}  {p:>10}  {e:>6}  {groups}" for a, p, e, groups in rows]
        return "\n".join([", ".join(counts), *lines])

    def _label(self, state: State) -> str:
        if len(self.space.hidden) == 1:
            return str(state)
        grids = ", ".join(map(str, self.space.hidden[state.hidden]))
        return f"{state}; hidden grids {grids}"


def _in_full(child: ScoredChild) -> bool:
    return child.proposal.epochs is None


def _counted(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"
