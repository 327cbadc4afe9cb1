"""The search itself: workers that share a study, each training one child after another."""

from __future__ import annotations

import hashlib
import logging
import math
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from isotropy._run import ProgressCallback, Step
from isotropy.search._by_network import ByNetwork
from isotropy.search._child import Child, Trained
from isotropy.search._search_result import SearchResult
from isotropy.search._space import SearchSpace, State
from isotropy.search._strategy import ChildProposal, Strategy
from isotropy.search._study_notes import check_note
from isotropy.search._study_rows import LONGEST_CLAIM
from isotropy.search._trials import child_of

if TYPE_CHECKING:
    from isotropy.search._shared_study import Record, SharedStudy, Start

_LOG = logging.getLogger(__name__)
_BASELINE = ChildProposal(State())
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.1, 1.0


def search_groups(
    child: Child,
    space: SearchSpace,
    *,
    strategy: Strategy | str = "lattice",
    children: int | None = None,
    storage: str | os.PathLike[str] | None = None,
    name: str = "search",
    seed: int = 0,
    by_network: bool = True,
    grace: float = 60.0,
    progress: ProgressCallback | None = None,
) -> SearchResult:
    """Search for the groups whose network does best on validation rows.

    Each call is one worker. Any number of processes may call it with the same storage and name, on
    any number of machines where the storage is a PostgreSQL database: they train the children of
    one study, none of them twice, and a worker that dies loses nothing but the child it was at. A
    call for a study that exists goes on with it.

    The network without groups is trained first, whatever the strategy, for others to be compared
    with.

    The study is one of Optuna, with a trial for every child, and may be watched with its dashboard.

    Args:
        child: Trains the network of a state.
        space: What to range over.
        strategy: What says which child comes next: ``"lattice"``, ``"dqn"``, ``"random"``,
            ``"tpe"``, or an object with a method ``propose``.
        children: How many trained children the study is to hold in all; ``None`` for as many as the
            strategy wants.
        storage: The path of an SQLite file, for the processes of one machine; a URL such as
            ``postgresql://user@host/database``; ``None`` for nothing that outlives the call.
        name: Of the study.
        seed: Of the strategy and of all children. A child's own seed follows from it and the
            child's state, so that its accuracy does not depend on who trains it or when.
        by_network: Whether states with the same network are one child.
        grace: Seconds after which this worker counts as dead where it gave no sign of life.
        progress: Called after every child.

    Returns:
        All that the study holds.

    Raises:
        ValueError: If an argument is out of range, the study is of another space, child or seed, or
            the strategy goes on with a child that does not say its ``usual_epochs``.
        ConnectionError: If the database cannot be reached.

    Example:
        >>> class Counting:  # stands for a network: the more groups, the better
        ...     def __call__(self, state, *, seed, epochs=None, start=None):
        ...         return Trained(len(state.groups) / 4, parameters=10, epochs=1)
        ...
        ...     def fingerprint(self):
        ...         return "counting"
        >>> space = SearchSpace((1, 8, 8), ("rotation", "vertical flip"), ((4,),))
        >>> found = search_groups(Counting(), space, strategy="random")
        >>> found.best.state.groups, found.baseline
        (('rotation', 'vertical flip'), 0.0)
    """
    _check(children, name, seed, grace)
    _check_child(child, space)
    chosen = _chosen(strategy, space, seed)
    if by_network:
        chosen = ByNetwork(chosen, space.network)
    # what is compared first is what an error names first
    settings = {
        "space": space.description(),
        "seed": seed,
        "child": child.fingerprint(),
        "by_network": by_network,
    }
    # Optuna and SQLAlchemy are needed from here on only.
    from isotropy.search._database import opened
    from isotropy.search._shared_study import SharedStudy
    from isotropy.search._study import shared_study

    with opened(storage) as database:
        study = database.patiently(lambda: shared_study(database, name, settings))
        shared = SharedStudy(database, study, space, grace)
        trained = _Worker(child, space, chosen, shared, seed, children, progress).work()
        return shared.result(trained)


def child_seed(seed: int, space: SearchSpace, state: State) -> int:
    """The seed of a child: a number below 2⁶³ that depends on nothing else.

    Example:
        >>> space = SearchSpace((1, 8, 8), ("rotation",), ((4,),))
        >>> child_seed(0, space, State()) == child_seed(0, space, State(("rotation",)))
        False
    """
    text = "\n".join((str(seed), space.digest(), state.key))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


@dataclass(frozen=True)
class _Worker:
    """Trains one child after another until there is nothing left to do."""

    child: Child
    space: SearchSpace
    strategy: Strategy
    study: SharedStudy
    seed: int
    children: int | None
    progress: ProgressCallback | None

    def work(self) -> frozenset[ChildProposal]:
        """Train, and say what was trained."""
        self.study.fail_abandoned()
        trained = frozenset(self._work())
        self.study.fail_abandoned()
        return trained

    def _work(self) -> Iterator[ChildProposal]:
        pause = _SHORTEST_PAUSE
        while True:
            record = self.study.read()
            if self.children is not None and len(record.scores) >= self.children:
                return
            proposal = self._proposal(record)
            if proposal is None and not record.taken:
                return
            if proposal is None:
                # Others may end with a score that changes what comes next, or die.
                self._report(len(record.scores), _waiting(record.taken))
                time.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
                continue
            pause = _SHORTEST_PAUSE
            if self.study.claim(proposal, self.children):
                self._report(len(record.scores), str(proposal.state))
                if self._train(proposal):
                    yield proposal
                self._report(len(self.study.read().scores), str(proposal.state))

    def _proposal(self, record: Record) -> ChildProposal | None:
        known = len(record.scores) + len(record.taken)
        if self.children is not None and known >= self.children:
            return None
        accuracies = {child_of(one): value for one, value in record.scores.items()}
        taken = [*record.taken, *record.given_up]
        busy = {child_of(one) for one in taken}
        if _BASELINE not in accuracies and _BASELINE not in busy:
            return _BASELINE
        scores = dict(record.scores)
        while (proposal := self.strategy.propose(scores, taken)) is not None:
            if proposal in scores or proposal in taken:
                raise ValueError(
                    "expected a strategy that proposes what is not trained, "
                    f"got {proposal.key!r} again"
                )
            child = child_of(proposal)
            # A child is trained once, whatever it starts from.
            if child in accuracies:
                scores[proposal] = accuracies[child]
            elif child in busy:
                taken.append(proposal)
            else:
                self._check_can_go_on(proposal)
                return proposal
        return None

    def _check_can_go_on(self, proposal: ChildProposal) -> None:
        """A child that goes on with its own training must know how long that is to be."""
        usual = getattr(self.child, "usual_epochs", None)
        if proposal.start == proposal.state and proposal.epochs is None and usual is None:
            raise ValueError(
                "expected a child with usual_epochs for a strategy with rungs, "
                f"got {type(self.child).__name__} without"
            )
        if usual is not None and proposal.epochs is not None and proposal.epochs > usual:
            raise ValueError(
                f"expected no training longer than the child's {usual} epochs, "
                f"got {proposal.epochs} for {proposal.key!r}"
            )

    def _train(self, proposal: ChildProposal) -> bool:
        """Train a child that is claimed, and say how it went; give whether it counts."""
        trial = None
        try:
            with self.study.claims.renewing(proposal.key):
                seed = child_seed(self.seed, self.space, proposal.state)
                start = self.study.start_of(proposal)
                trial = self.study.begin(proposal, _first_notes(proposal, seed, start))
                if trial is None:
                    _LOG.info("%s is not trained here: another worker took it over", proposal.key)
                    return False
                begun = time.perf_counter()
                trained = self._trained(proposal, seed, start)
                seconds = time.perf_counter() - begun
                _check_trained(trained, proposal)
                if getattr(self.strategy, "keeps_weights", False) and trained.weights:
                    self.study.keep(proposal, trained.weights)
                notes = _last_notes(trained, seconds)
                return self.study.finish(trial, proposal, trained.accuracy, notes)
        except BaseException as error:
            # What went wrong matters more than a database that cannot note it.
            with suppress(Exception):
                self.study.fail(trial, proposal, error)
            raise

    def _trained(self, proposal: ChildProposal, seed: int, start: Start | None) -> Trained:
        if start is None:
            return self.child(proposal.state, seed=seed, epochs=proposal.epochs)
        if proposal.start != proposal.state:
            return self.child(
                proposal.state, seed=seed, epochs=proposal.epochs, start=start.weights
            )
        # a child that goes on with its own training has some of its passes behind it
        total: int = proposal.epochs or self.child.usual_epochs  # type: ignore[attr-defined]
        left = max(1, total - start.epochs)
        trained = self.child(proposal.state, seed=seed, epochs=left, start=start.weights)
        return replace(trained, epochs=trained.epochs + start.epochs)

    def _report(self, done: int, message: str) -> None:
        if self.progress is not None:
            self.progress(Step(done, self.children, message))


def _waiting(taken: tuple[ChildProposal, ...]) -> str:
    children = "a child" if len(taken) == 1 else f"{len(taken)} children"
    return f"waiting for {children} of other workers, or for their claims to expire"


def _first_notes(proposal: ChildProposal, seed: int, start: Start | None) -> dict[str, Any]:
    notes: dict[str, Any] = {"seed": seed}
    if proposal.start is not None:
        notes["start"] = proposal.start.key
        notes["start weights"] = "found" if start is not None else "missing"
    return notes


def _last_notes(trained: Trained, seconds: float) -> dict[str, Any]:
    return {
        "parameters": trained.parameters,
        "epochs": trained.epochs,
        "seconds": round(seconds, 3),
    }


def _chosen(strategy: Strategy | str, space: SearchSpace, seed: int) -> Strategy:
    if not isinstance(strategy, str):
        return strategy
    from isotropy.search._strategies import strategy_of

    return strategy_of(strategy, space, seed=seed)


def _check(children: int | None, name: str, seed: int, grace: float) -> None:
    if children is not None and (isinstance(children, bool) or children < 1):
        raise ValueError(f"expected at least one child or None, got {children!r}")
    if not isinstance(name, str) or not 0 < len(name) <= 512:
        raise ValueError(f"expected a name of 1 to 512 characters for the study, got {name!r}")
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise TypeError(f"expected an int as the seed, got {type(seed).__name__}")
    if not (math.isfinite(grace) and 0 < grace <= LONGEST_CLAIM):
        raise ValueError(
            f"expected a positive number of seconds up to {LONGEST_CLAIM:.0f} as grace, got "
            f"{grace!r}"
        )


def _check_child(child: Child, space: SearchSpace) -> None:
    if not callable(child) or not hasattr(child, "fingerprint"):
        raise TypeError(
            "expected a child that can be called and has a fingerprint(), "
            f"got {type(child).__name__}"
        )
    own = getattr(child, "space", space)
    if own != space:
        raise ValueError(f"expected a child of the space {space}, got one of {own}")


def _check_trained(trained: Trained, proposal: ChildProposal) -> None:
    if not isinstance(trained, Trained):
        raise TypeError(
            f"expected a child that returns Trained, got {type(trained).__name__} for "
            f"{proposal.key!r}"
        )
    if not 0 <= trained.accuracy <= 1:
        raise ValueError(
            f"expected an accuracy between 0 and 1, got {trained.accuracy} for {proposal.key!r}"
        )
    for name, value in _last_notes(trained, 0.0).items():
        check_note(name, value)
