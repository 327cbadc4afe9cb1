"""The tree-structured Parzen estimator of Optuna as a search strategy."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from isotropy.discovery.search._by_network import full_scores, seen_states
from isotropy.discovery.search._random_search import RandomSearch
from isotropy.discovery.search._space import SearchSpace, State
from isotropy.discovery.search._strategy import Proposal

if TYPE_CHECKING:
    import optuna

_WORD = 2**32


class TPE:
    """Asks Optuna's sampler of that name, told all scores, until it gives a state not seen yet.

    Its draws follow from the seed and the number of states seen, so that it goes on after a restart
    as it would have.

    Args:
        space: What to search.
        seed: Of the sampler.
        tries: How often the sampler is asked before a random unseen state is proposed.

    Raises:
        ValueError: If there is no try.

    Example:
        >>> space = SearchSpace((1, 8, 8), ("horizontal flip", "vertical flip"), ((4,),))
        >>> search, scores = TPE(space, seed=0), {}
        >>> while (proposal := search.propose(scores, ())) is not None:
        ...     scores[proposal] = 0.5
        >>> len(scores)
        4
    """

    keeps_weights = False

    def __init__(self, space: SearchSpace, seed: int, *, tries: int = 20) -> None:
        if tries < 1:
            raise ValueError(f"expected at least one try, got {tries}")
        self._space, self._seed, self._tries = space, seed, tries
        self._unseen = RandomSearch(space, seed)
        self._told: dict[State, float] = {}
        self._study: optuna.Study | None = None

    def propose(
        self, scores: Mapping[Proposal, float], taken: Collection[Proposal]
    ) -> Proposal | None:
        """The next unseen state that the sampler gives; ``None`` where all are scored or taken.

        Args:
            scores: Accuracy of every child trained so far.
            taken: Children that others are training now.
        """
        seen = seen_states(scores, taken)
        fallback = self._unseen.unseen(seen)
        if fallback is None:
            return None
        study = self._tell(full_scores(scores))
        study.sampler = self._sampler(len(seen))
        for _ in range(self._tries):
            state = self._ask(study)
            if state not in seen:
                return Proposal(state)
        return Proposal(fallback)

    def _tell(self, full: Mapping[State, float]) -> optuna.Study:
        """The study with a trial for every score; made anew where a score is gone or another."""
        import optuna

        known = all(full.get(state) == accuracy for state, accuracy in self._told.items())
        if self._study is None or not known:
            storage = optuna.storages.InMemoryStorage()
            name = "isotropy"  # a name that is given is not announced in the log
            self._study = optuna.create_study(
                storage=storage, study_name=name, direction="maximize"
            )
            self._told = {}
        for state, accuracy in full.items():
            if state not in self._told:
                self._study.add_trial(
                    optuna.trial.create_trial(
                        params=self._space.params(state),
                        distributions=self._distributions(),
                        value=accuracy,
                    )
                )
                self._told[state] = accuracy
        return self._study

    def _ask(self, study: optuna.Study) -> State:
        """A state from the sampler; its trial counts as failed, which the sampler passes over."""
        import optuna

        trial = study.ask(self._distributions())
        study.tell(trial, state=optuna.trial.TrialState.FAIL)
        return self._space.from_params(trial.params)

    def _sampler(self, seen: int) -> optuna.samplers.TPESampler:
        import optuna

        return optuna.samplers.TPESampler(seed=(self._seed * 0x9E3779B9 + seen) % _WORD)

    def _distributions(self) -> dict[str, Any]:
        import optuna

        return {
            name: optuna.distributions.CategoricalDistribution(values)
            for name, values in self._space.choices().items()
        }
