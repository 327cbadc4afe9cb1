"""The tree-structured Parzen estimator of Optuna as a search strategy."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from isotropy.discovery.search._by_network import full_scores, seen_states
from isotropy.discovery.search._random_search import RandomSearch
from isotropy.discovery.search._space import SearchSpace, State
from isotropy.discovery.search._strategy import ChildProposal

if TYPE_CHECKING:
    import optuna

_WORD = 2**32


class TPE:
    """Asks Optuna's sampler of that name, told all scores, until it gives a state not seen yet.

    Its draws follow from scores, the seed and the number of states seen, so that it goes on after a
    restart as it would have. Where children are networks, it is told of each once, by its largest
    state, and all other states of it count as seen.

    Args:
        space: What to search.
        seed: Of the sampler.
        tries: How often the sampler is asked; after that the unseen state nearest to its last
            answer is proposed, for it tends to repeat what did well.

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
    aliases = "taken"

    def __init__(self, space: SearchSpace, seed: int, *, tries: int = 3) -> None:
        if tries < 1:
            raise ValueError(f"expected at least one try, got {tries}")
        self._space, self._seed, self._tries = space, seed, tries
        self._order = RandomSearch(space, seed).order
        self._told: dict[State, float] = {}
        self._study: optuna.Study | None = None

    def propose(
        self, scores: Mapping[ChildProposal, float], taken: Collection[ChildProposal]
    ) -> ChildProposal | None:
        """The next unseen state that the sampler gives; ``None`` where all are scored or taken.

        Args:
            scores: Accuracy of every child trained so far.
            taken: Children that others are training now.
        """
        seen = seen_states(scores, taken)
        unseen = [state for state in self._order if state not in seen]
        if not unseen:
            return None
        study = self._tell(full_scores(scores))
        for drawn in self._drawn(study, len(seen)):
            if drawn not in seen:
                return ChildProposal(drawn)
        return ChildProposal(min(unseen, key=lambda one: _apart(one, drawn)))

    def _tell(self, full: Mapping[State, float]) -> optuna.Study:
        """The study with a trial for every score; made anew where a score is gone or another."""
        import optuna

        known = all(full.get(state) == accuracy for state, accuracy in self._told.items())
        if self._study is None or not known:
            self._study = _quiet_study()
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

    def _drawn(self, study: optuna.Study, seen: int) -> Iterator[State]:
        """States from the sampler, as many as there are tries."""
        import optuna

        sampler = optuna.samplers.TPESampler(
            seed=(self._seed * 0x9E3779B9 + seen) % _WORD,
            constant_liar=False,  # for trials that run at the same time, and here none does
        )
        # A trial that is begun makes the study read its scores anew. One is enough for all tries,
        # and as a failed one it says nothing to the sampler.
        trial = study.tell(study.ask(), state=optuna.trial.TrialState.FAIL)
        choices = self._distributions()
        for _ in range(self._tries):
            params = sampler.sample_relative(study, trial, choices)
            for name in [one for one in choices if one not in params]:  # all, of the first scores
                params[name] = sampler.sample_independent(study, trial, name, choices[name])
            yield self._space.from_params(params)

    def _distributions(self) -> dict[str, Any]:
        import optuna

        return {
            name: optuna.distributions.CategoricalDistribution(values)
            for name, values in self._space.choices().items()
        }


def _quiet_study() -> optuna.Study:
    """A study in memory, of which Optuna would tell on standard error."""
    import optuna

    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(max(before, optuna.logging.WARNING))
    try:
        return optuna.create_study(direction="maximize")
    finally:
        optuna.logging.set_verbosity(before)


def _apart(a: State, b: State) -> int:
    """How many groups and choices differ."""
    return len(set(a.groups) ^ set(b.groups)) + (a.hidden != b.hidden)
