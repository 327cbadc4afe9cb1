"""The tree-structured Parzen estimator of Optuna as a search strategy."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING

from isotropy.search._by_network import full_scores, seen_states
from isotropy.search._random_search import RandomSearch
from isotropy.search._space import SearchSpace, State
from isotropy.search._strategy import ChildProposal
from isotropy.search._trials import distributions

if TYPE_CHECKING:
    import optuna

_WORD = 2**32


class TPE:
    """Asks Optuna's sampler of that name, given all scores, until it gives a state not seen yet.

    Its draws follow from scores, the seed and the number of states seen, so that it goes on after a
    restart as it would have. Where children are networks, it gets each once, by its largest
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
        self._added: dict[State, float] = {}
        self._study: optuna.Study | None = None

    def propose(
        self, scores: Mapping[ChildProposal, float], taken: Collection[ChildProposal]
    ) -> ChildProposal | None:
        """The next unseen state that the sampler gives; ``None`` where all are scored or taken."""
        seen = seen_states(scores, taken)
        unseen = [state for state in self._order if state not in seen]
        if not unseen:
            return None
        study = self._with_scores(full_scores(scores))
        for drawn in self._drawn(study, len(seen)):
            if drawn not in seen:
                return ChildProposal(drawn)
        return ChildProposal(min(unseen, key=lambda one: _apart(one, drawn)))

    def _with_scores(self, full: Mapping[State, float]) -> optuna.Study:
        """The study with a trial for every score; made anew where a score is gone or another."""
        import optuna

        from isotropy.search._database import quiet_optuna

        known = all(full.get(state) == accuracy for state, accuracy in self._added.items())
        if self._study is None or not known:
            with quiet_optuna():
                self._study = optuna.create_study(direction="maximize")
            self._added = {}
        for state, accuracy in full.items():
            if state not in self._added:
                self._study.add_trial(
                    optuna.trial.create_trial(
                        params=self._space.params(state),
                        distributions=distributions(self._space),
                        value=accuracy,
                    )
                )
                self._added[state] = accuracy
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
        choices = distributions(self._space)
        for _ in range(self._tries):
            params = sampler.sample_relative(study, trial, choices)
            for name in [one for one in choices if one not in params]:  # all, of the first scores
                params[name] = sampler.sample_independent(study, trial, name, choices[name])
            yield self._space.from_params(params)


def _apart(a: State, b: State) -> int:
    """How many groups and choices differ."""
    return len(set(a.groups) ^ set(b.groups)) + (a.hidden != b.hidden)
