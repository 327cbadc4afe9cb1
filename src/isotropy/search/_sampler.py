"""A search strategy as a sampler of Optuna."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import optuna
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, RandomSampler
from optuna.trial import FrozenTrial, Trial, TrialState

from isotropy.search import _trials
from isotropy.search._space import SearchSpace
from isotropy.search._strategy import ChildProposal, Strategy


class StrategySampler(BaseSampler):
    """Samples the parameters of a trial by asking a search strategy.

    It is for a study that a user of Optuna runs; `search_groups` needs no sampler. Scores are read
    from the study's trials. There are no claims: processes that share a study in this way may train
    the same state at the same time, which those of `search_groups` do not. Where the
    strategy has nothing to propose, the trial is pruned and `optimize` stops. Parameters that are
    not of the space are drawn at random.

    Args:
        strategy: What to ask.
        space: What it ranges over.

    Example:
        >>> from isotropy.search._random_search import RandomSearch
        >>> space = SearchSpace((1, 8, 8), ("rotation", "vertical flip"), ((4,),))
        >>> sampler = StrategySampler(RandomSearch(space, 0), space)
        >>> study = optuna.create_study(direction="maximize", sampler=sampler)
        >>> study.optimize(lambda trial: len(sampler.proposal(trial).state.groups), n_trials=9)
        >>> [one.state.name for one in study.trials].count("COMPLETE")
        4
    """

    def __init__(self, strategy: Strategy, space: SearchSpace) -> None:
        self._strategy = strategy
        self._space = space
        self._others = RandomSampler()

    def proposal(self, trial: Trial) -> ChildProposal:
        """What a trial is to train, with all parameters of the space suggested.

        Args:
            trial: Within an objective.

        Raises:
            optuna.TrialPruned: If the strategy has nothing to propose.
        """
        params = {
            name: trial.suggest_categorical(name, values)
            for name, values in self._space.choices().items()
        }
        key = trial.user_attrs.get(_trials.KEY)
        # A trial that a user has enqueued was not proposed by the strategy.
        proposal = None if key is None else _trials.proposal_of_key(key)
        state = self._space.from_params(params)
        return (
            proposal if proposal is not None and proposal.state == state else ChildProposal(state)
        )

    def infer_relative_search_space(
        self, study: optuna.Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """All parameters of the space.

        Args:
            study: Any.
            trial: Any.
        """
        del study, trial
        return _trials.distributions(self._space)

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Ask the strategy, and note its proposal with the trial.

        Args:
            study: Whose trials are the strategy's scores.
            trial: To be sampled.
            search_space: As `infer_relative_search_space` gave it.
        """
        del search_space
        if "fixed_params" in trial.system_attrs:
            return {}
        others = [one for one in study.get_trials(deepcopy=False) if one.number != trial.number]
        running = (one for one in others if one.state == TrialState.RUNNING)
        taken = {_trials.proposal_of(one, self._space) for one in running} - {None}
        scores = _trials.scores(others, self._space)
        proposal = self._strategy.propose(scores, {one for one in taken if one is not None})
        if proposal is None:
            with suppress(RuntimeError):  # outside of optimize there is nothing to stop
                study.stop()
            return {}
        # Both: the storage for other processes, the trial for the objective that runs now.
        study._storage.set_trial_user_attr(trial._trial_id, _trials.KEY, proposal.key)
        trial.set_user_attr(_trials.KEY, proposal.key)
        return self._space.params(proposal.state)

    def sample_independent(
        self,
        study: optuna.Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        """Draw a parameter that is not of the space.

        Args:
            study: Any.
            trial: To be sampled.
            param_name: Of the parameter.
            param_distribution: Its values.

        Raises:
            optuna.TrialPruned: If the parameter is of the space: the strategy proposed nothing.
        """
        if param_name in self._space.choices() and "fixed_params" not in trial.system_attrs:
            raise optuna.TrialPruned("the search has nothing left to propose")
        return self._others.sample_independent(study, trial, param_name, param_distribution)
