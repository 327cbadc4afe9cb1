"""Children as Optuna's trials, and back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from isotropy._run._json import shown
from isotropy.search._search_result import ScoredChild
from isotropy.search._space import SearchSpace, State
from isotropy.search._strategy import ChildProposal
from isotropy.search._study_keys import key_parts
from isotropy.search._study_notes import check_accuracy, check_note

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial

KEY = "key"
WORKER = "worker"
ERROR = "error"
FINISHED = "finished"
# A child that fails once may have met a full disk; one that fails again will go on to.
_FAILURES = 2


def proposal_of_key(key: str, space: SearchSpace | None = None) -> ChildProposal:
    """The proposal of a key, as `ChildProposal.key` makes it.

    Args:
        key: In one line.
        space: What it must be of; ``None`` for any.

    Raises:
        ValueError: If it is of another form, or not of the space.

    Example:
        >>> proposal_of_key("rotation/0@1</0")
        ChildProposal(state=State(groups=('rotation',), hidden=0), epochs=1,
                 start=State(groups=(), hidden=0))
    """
    parts = key_parts(key)
    state, start = State(parts.groups, parts.hidden), None
    if parts.start is not None:
        start = State(*parts.start)
    for one in (state, start):
        if space is not None and one is not None and not _is_of(one, space):
            raise ValueError(f"expected a child of the search's space, got {shown(key)}")
    return ChildProposal(state, parts.epochs, start)


def _is_of(state: State, space: SearchSpace) -> bool:
    known = tuple(name for name in space.groups if name in state.groups)
    return state.groups == known and state.hidden < len(space.hidden)


def child_key(key: str) -> str:
    """The part of a proposal's key that tells children apart: whatever it starts from.

    Example:
        >>> child_key("rotation/0@1</0")
        'rotation/0@1'
    """
    return key.partition("<")[0]


def child_of(proposal: ChildProposal) -> ChildProposal:
    """The child of a proposal: its state and epochs, whatever it starts from."""
    return proposal if proposal.start is None else replace(proposal, start=None)


def distributions(space: SearchSpace) -> dict[str, BaseDistribution]:
    """Optuna's distributions of a space: a choice for each group."""
    from optuna.distributions import CategoricalDistribution

    return {name: CategoricalDistribution(values) for name, values in space.choices().items()}


def proposal_of(trial: FrozenTrial, space: SearchSpace) -> ChildProposal | None:
    """What a trial trains, or ``None`` where that is not settled yet.

    Raises:
        ValueError: If it is not of the space.
    """
    if KEY in trial.user_attrs:
        return proposal_of_key(trial.user_attrs[KEY], space)
    if all(name in trial.params for name in space.choices()):
        return ChildProposal(space.from_params(trial.params))
    return None


def checked(trials: Sequence[FrozenTrial], space: SearchSpace) -> Sequence[FrozenTrial]:
    """The trials of a search, where they are what a search writes.

    Raises:
        ValueError: If an accuracy is not a share, a child is not of the space, its parameters are
            not those of its key, or what was noted of it cannot be.
    """
    from optuna.trial import TrialState

    choices = space.choices()
    for trial in trials:
        for key, value in trial.user_attrs.items():
            check_note(key, value)
        for name, value in trial.params.items():
            if value not in choices.get(name, ()):
                raise ValueError(f"expected parameters of the space, got {shown(name)}")
        proposal = proposal_of(trial, space)
        if proposal is not None:
            wanted = space.params(proposal.state)
            if any(wanted[name] != value for name, value in trial.params.items()):
                raise ValueError(
                    f"expected the parameters of {proposal.key!r}, got {shown(trial.params)}"
                )
        if trial.state == TrialState.COMPLETE:
            check_accuracy(trial.values[0] if trial.values else None)
    return trials


def finished(trials: Iterable[FrozenTrial]) -> list[FrozenTrial]:
    """The trials that have a value, in the order in which they were finished."""
    from optuna.trial import TrialState

    ended = [one for one in trials if one.state == TrialState.COMPLETE]
    return sorted(ended, key=lambda one: (_end(one), one.number))


def scores(trials: Iterable[FrozenTrial], space: SearchSpace) -> dict[ChildProposal, float]:
    """The accuracy of every child that is trained, in the order in which they were finished."""
    found: dict[ChildProposal, float] = {}
    for trial in finished(trials):
        proposal = proposal_of(trial, space)
        if proposal is not None and trial.value is not None:
            found[proposal] = trial.value
    return found


def given_up(trials: Sequence[FrozenTrial], space: SearchSpace) -> tuple[ChildProposal, ...]:
    """The children that failed too often to be tried again, as they were proposed last.

    A training counts as failed where it ended with an error, not where its worker was stopped.
    """
    from optuna.trial import TrialState

    failures: dict[ChildProposal, list[ChildProposal]] = {}
    for trial in trials:
        if trial.state == TrialState.FAIL and ERROR in trial.user_attrs:
            proposal = proposal_of(trial, space)
            if proposal is not None:
                failures.setdefault(child_of(proposal), []).append(proposal)
    often = {child: every[-1] for child, every in failures.items() if len(every) >= _FAILURES}
    trained = {child_of(one) for one in scores(trials, space)} if often else set()
    return tuple(last for child, last in often.items() if child not in trained)


def children(trials: Iterable[FrozenTrial], space: SearchSpace) -> tuple[ScoredChild, ...]:
    """All children that are trained, in the order in which they were finished."""
    found = []
    for trial in finished(trials):
        proposal = proposal_of(trial, space)
        if proposal is not None and trial.value is not None:
            found.append(_scored(proposal, trial.value, trial.user_attrs))
    return tuple(found)


def _scored(proposal: ChildProposal, accuracy: float, attrs: dict[str, Any]) -> ScoredChild:
    return ScoredChild(
        proposal,
        accuracy,
        int(attrs.get("parameters", 0)),
        int(attrs.get("epochs", 0)),
        float(attrs.get("seconds", 0.0)),
    )


def _end(trial: FrozenTrial) -> float:
    if FINISHED in trial.user_attrs:
        return float(trial.user_attrs[FINISHED])
    return 0.0 if trial.datetime_complete is None else trial.datetime_complete.timestamp()
