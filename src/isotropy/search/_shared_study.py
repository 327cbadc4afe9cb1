"""A study as its workers share it: who trains what, what is trained, and how well it does."""

from __future__ import annotations

import logging
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import optuna
from optuna.exceptions import UpdateFinishedTrialError
from optuna.trial import TrialState, create_trial

from isotropy.search import _trials
from isotropy.search._database import OUTAGE_PAUSES, REPORT_PAUSES, Database
from isotropy.search._search_result import SearchResult
from isotropy.search._space import SearchSpace
from isotropy.search._start_weights import keep_weights, kept_weights
from isotropy.search._strategy import ChildProposal
from isotropy.search._study import number_of, result_of, settings_of
from isotropy.search._worker_claims import Claims

if TYPE_CHECKING:
    from torch import Tensor

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Record:
    """What a study holds at one moment.

    Args:
        scores: Accuracy of every child that is trained, in the order of their finish.
        taken: Children that are being trained, the earliest claim first.
        given_up: Children that failed too often to be tried again.
    """

    scores: dict[ChildProposal, float]
    taken: tuple[ChildProposal, ...]
    given_up: tuple[ChildProposal, ...] = ()


@dataclass(frozen=True)
class Start:
    """What a child starts from.

    Args:
        weights: By name.
        epochs: How many passes they have behind them.
    """

    weights: dict[str, Tensor]
    epochs: int


@dataclass(frozen=True)
class SharedStudy:
    """A study as one of its workers sees it.

    Its trial alone, which ends only once, shows whether a child is trained; claims merely keep two
    workers from training the same.

    Args:
        database: Where it lives.
        study: Optuna's.
        space: What it ranges over.
        grace: Seconds after which a claim of this worker that was not renewed is anybody's.
    """

    database: Database
    study: optuna.Study
    space: SearchSpace
    grace: float
    number: int = field(init=False)
    mark: str = field(init=False)
    claims: Claims = field(init=False)

    def __post_init__(self) -> None:
        mark = settings_of(self.study)["mark"]
        object.__setattr__(self, "number", number_of(self.database, self.study))
        object.__setattr__(self, "mark", mark)
        object.__setattr__(self, "claims", Claims(self.database.engine, mark, self.grace))

    def read(self) -> Record:
        """Read scores, claims and failures."""
        return self.database.patiently(self._read)

    def _read(self) -> Record:
        # Claims first: what is finished in between is then seen twice rather than never.
        running = [_trials.proposal_of_key(key, self.space) for key in self.claims.running()]
        trials = _trials.checked(self.study.get_trials(deepcopy=False), self.space)
        scores = _trials.scores(trials, self.space)
        trained = {_trials.child_of(one) for one in scores}
        taken = tuple(one for one in running if _trials.child_of(one) not in trained)
        return Record(scores, taken, _trials.given_up(trials, self.space))

    def claim(self, proposal: ChildProposal, children: int | None) -> bool:
        """Claim a child that is not trained.

        Args:
            proposal: What to train.
            children: How many children the study is to hold in all; ``None`` for any number.

        Returns:
            Whether this worker is to train it.

        Raises:
            ValueError: If it is not of the space.
        """
        _trials.proposal_of_key(proposal.key, self.space)
        return self.database.patiently(lambda: self._claim(proposal, children))

    def _claim(self, proposal: ChildProposal, children: int | None) -> bool:
        if not self.claims.claim(proposal.key):
            return False
        # Only now: whoever claimed before this worker is seen, and no more than are wanted go on.
        record = self._read()
        wanted = None if children is None else max(0, children - len(record.scores))
        hopeless = {_trials.child_of(one) for one in record.given_up}
        if proposal in record.taken[:wanted] and _trials.child_of(proposal) not in hopeless:
            return True
        self.claims.release(proposal.key)
        return False

    def fail_abandoned(self) -> None:
        """End the trials that nobody trains any more; this worker must not be training."""
        self.database.patiently(self._fail_abandoned)

    def _fail_abandoned(self, of: str | None = None) -> None:
        """End abandoned trials, those of one child where its key is given."""
        # Trials first: one whose worker holds no claim afterwards has lost it for good.
        running = self.study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
        holders = self.claims.holders()
        workers = {_trials.child_key(key): worker for key, worker in holders.items()}
        for trial in running:
            key, worker = (trial.user_attrs.get(name) for name in (_trials.KEY, _trials.WORKER))
            if key is None or worker is None:
                continue
            child = _trials.child_key(key)
            if of is not None and child != _trials.child_key(of):
                continue
            # One of its own is what a lost answer of the database left behind.
            if worker == self.claims.worker or worker != workers.get(child):
                _LOG.info("the training of %s by %s was abandoned", key, worker)
                self._end(self._id(trial.number), TrialState.FAIL)

    def _id(self, number: int) -> int:
        return self.database.storage.get_trial_id_from_study_id_trial_number(self.number, number)

    def begin(self, proposal: ChildProposal, notes: Mapping[str, Any]) -> int | None:
        """Make the trial of a child that this worker claimed.

        Returns:
            Optuna's number of the trial within the database; ``None`` where the claim expired and
            is another worker's by now.
        """
        trial = create_trial(
            state=TrialState.RUNNING,
            params=self.space.params(proposal.state),
            distributions=_trials.distributions(self.space),
            user_attrs={_trials.KEY: proposal.key, _trials.WORKER: self.claims.worker, **notes},
        )

        def begin() -> int | None:
            if not self.claims.renew(proposal.key):
                return None
            self._fail_abandoned(proposal.key)
            return self.database.storage.create_new_trial(self.number, trial)

        return self.database.patiently(begin)

    def finish(
        self, trial: int, proposal: ChildProposal, accuracy: float, notes: dict[str, Any]
    ) -> bool:
        """Say how well a child does, and give up the claim on it.

        Args:
            trial: As `begin` gave it.
            proposal: What was trained.
            accuracy: A share.
            notes: What to say of it.

        Returns:
            Whether this counts: not where another worker has taken the child over meanwhile.
        """
        counts = self.database.patiently(
            lambda: self._finish(trial, proposal, accuracy, notes), REPORT_PAUSES
        )
        if not counts:
            _LOG.warning(
                "the accuracy of %s does not count: another worker took it over", proposal.key
            )
        return counts

    def _finish(
        self, trial: int, proposal: ChildProposal, accuracy: float, notes: dict[str, Any]
    ) -> bool:
        if not self.claims.renew(proposal.key):
            self._end(trial, TrialState.FAIL)
            return self._is_complete(trial)
        self._note(trial, {**notes, _trials.FINISHED: self.claims.now()})
        self._end(trial, TrialState.COMPLETE, accuracy)
        self.claims.release(proposal.key)
        return self._is_complete(trial)

    def fail(self, trial: int | None, proposal: ChildProposal, error: BaseException) -> None:
        """Say that a child came to nothing, and give up the claim on it.

        Args:
            trial: As `begin` gave it; ``None`` where it has not begun.
            proposal: What was to be trained.
            error: Why. An interrupt, or a database that is away, is not held against the child.
        """
        of_child = isinstance(error, Exception) and not isinstance(error, ConnectionError)

        def fail() -> None:
            if trial is not None:
                if of_child:
                    self._note(trial, {_trials.ERROR: f"{type(error).__name__}: {error}"[:500]})
                self._end(trial, TrialState.FAIL)
            self.claims.release(proposal.key)

        self.database.patiently(fail, REPORT_PAUSES if of_child else OUTAGE_PAUSES)

    def _note(self, trial: int, notes: Mapping[str, Any]) -> None:
        """Note something with a trial, unless it was ended before."""
        try:
            for key, value in notes.items():
                self.database.storage.set_trial_user_attr(trial, key, value)
        except UpdateFinishedTrialError:
            return

    def _end(self, trial: int, state: TrialState, accuracy: float | None = None) -> None:
        """End a trial, unless it was ended before."""
        values = None if accuracy is None else [accuracy]
        try:
            self.database.storage.set_trial_state_values(trial, state, values)
        except UpdateFinishedTrialError:
            return

    def _is_complete(self, trial: int) -> bool:
        return self.database.storage.get_trial(trial).state == TrialState.COMPLETE

    def keep(self, proposal: ChildProposal, weights: Mapping[str, Tensor]) -> None:
        """Keep the weights of a child for others to start from."""
        engine = self.database.engine
        self.database.patiently(
            lambda: keep_weights(engine, self.mark, proposal.key, weights), REPORT_PAUSES
        )

    def start_of(self, proposal: ChildProposal) -> Start | None:
        """What a child starts from: its start's child at its longest training.

        Returns:
            ``None`` where it starts afresh, or no weights were kept.
        """
        if proposal.start is None:
            return None
        return self.database.patiently(lambda: self._start_of(proposal))

    def _start_of(self, proposal: ChildProposal) -> Start | None:
        trials = _trials.checked(self.study.get_trials(deepcopy=False), self.space)
        trained = _trials.children(trials, self.space)
        of_start = [one for one in trained if one.state == proposal.start]
        for child in sorted(of_start, key=lambda one: -one.epochs):
            key = child.proposal.key
            weights = kept_weights(self.database.engine, self.mark, key)
            if weights is not None:
                return Start(weights, child.epochs)
        return None

    def result(self, trained: Container[ChildProposal] = ()) -> SearchResult:
        """What the study holds."""
        return self.database.patiently(
            lambda: result_of(self.database, self.study, self.space, trained)
        )
