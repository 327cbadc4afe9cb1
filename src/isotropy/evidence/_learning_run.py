"""One run of learning priors: what it is made of, its epochs, and how it stops and goes on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isfinite
from typing import Any

import torch
from torch import Tensor, nn

from isotropy._run import ProgressCallback, Step
from isotropy._run import generator as make_generator
from isotropy.evidence._approximate import laplace, prepared
from isotropy.evidence._batches import Batches
from isotropy.evidence._best_precisions import residual_sums
from isotropy.evidence._evidence_gradient import evidence_gradient
from isotropy.evidence._laplace import Laplace
from isotropy.evidence._learning_checkpoint import LearningCheckpoint, LearningState, model_identity
from isotropy.evidence._learning_options import LearningPlan, PriorOptions
from isotropy.evidence._map_training import (
    MapTraining,
    counts_of,
    generators_of,
    shuffled,
    training_batches,
    whole_arrays,
)
from isotropy.evidence._precision_groups import (
    PathPriors,
    Precisions,
    groups_of,
    path_groups,
    precision_of,
    prior_lengths,
)
from isotropy.evidence._prior_history import LearnedPriors, PriorEstimate, unsettled
from isotropy.evidence._prior_updates import HyperparameterUpdates, PriorUpdates
from isotropy.evidence._training_state import (
    Randomness,
    digest_of,
    made_optimiser,
    model_tensors,
    modes_kept,
    optimiser_text,
    require_one_process,
    warnings_once,
)

_FEW = 4  # samples for a trial of the curvature before training begins


class LearningRun:
    """Everything that takes part in one call of ``learn_priors``; arguments as there.

    Raises:
        TypeError: If the optimiser is none.
        ValueError: If options, parameters, groups or data do not go together.
    """

    def __init__(
        self,
        model: nn.Module,
        loss: Any,
        data: Any,
        options: LearningPlan,
        priors: PriorOptions,
    ) -> None:
        require_one_process(model)
        evidence_data = data if priors.evidence_data is None else priors.evidence_data
        self.model, self.options, self.evidence_data = model, options, evidence_data
        names = _each_once(priors.hyperparameters)
        self.work = prepared(model, loss, None, names, options.curvature_after(0))
        bare, parameters = self.work.model, self.work.parameters
        self.likelihood = self.work.likelihood
        gaussian = self.likelihood.has_noise
        given = 1.0 if options.noise in (None, "learn") else float(options.noise)
        if not gaussian and options.noise not in (None, "learn"):
            raise ValueError(f"expected no noise for {self.likelihood.name}, got {given:g}")
        own = dict(bare.named_parameters())
        for name in names:
            if not own[name].requires_grad:
                raise ValueError(
                    f"expected hyperparameters that require gradients, got {name}, which is frozen"
                )
        groups, precisions = priors.groups, priors.precisions
        if groups is None:
            groups = {n: group for n, group in path_groups(bare).items() if n in parameters}
        self.groups = groups_of(parameters, groups)
        self.paths = PathPriors(bare, self.groups)
        lengths = prior_lengths(bare, parameters)
        start = dict.fromkeys(self.groups.values(), 1.0) | self.paths.precisions()
        if precisions is not None:
            start = {n: float(p) for n, p in precision_of(start, precisions).items()}
        self.priors = PriorUpdates(
            start,
            options,
            noise=given if gaussian else None,
            learns_noise=gaussian and options.noise == "learn",
        )
        self.hyperparameters = HyperparameterUpdates({name: own[name] for name in names}, options)
        like = next(iter(parameters.values()))
        self.source = shuffled(data, options.batch_size, make_generator(options.seed))
        optimiser = torch.optim.Adam if options.optimiser is None else options.optimiser
        self.training = MapTraining(
            model,
            self.likelihood,
            parameters,
            self.groups,
            training_batches(self.source, options.batch_size, like.dtype),
            made_optimiser(optimiser, list(parameters.values()), options.learning_rate),
            options,
            hyperparameters=[own[name] for name in names],
            lengths=lengths,
        )
        self.randomness = Randomness(generators_of(self.source, evidence_data), like.device)
        self.state = LearningState(
            model_tensors(bare),
            {"optimiser": self.training.optimiser, "priors": self.priors.adam}
            | ({"hyperparameters": h} if (h := self.hyperparameters.adam) is not None else {}),
            {"precisions": self.priors.log_precisions, "noise": self.priors.log_noise},
            self.randomness,
        )
        self.checkpoint: LearningCheckpoint | None = None
        if options.checkpoint is not None:
            about = {
                "model": model_identity(bare) | _lengths_identity(lengths),
                "loss": self.likelihood.name,
                "groups": self.groups,
                "precisions": _identity(precisions),
                "hyperparameters": names,
                "optimiser": optimiser_text(self.training.optimiser),
                **options.to_json(),
            }
            held = {"data": data, "evidence_data": evidence_data}
            self.checkpoint = LearningCheckpoint(
                options.checkpoint, about, held, may_differ=options.resume_changed
            )
        self._warned: set[str] = set()

    def learned(self, progress: ProgressCallback | None) -> LearnedPriors:
        """Run to the end, from the beginning or from where it stopped."""
        epochs, state = self.options.epochs, self.state
        with modes_kept(self.model), self.randomness.seeded(self.options.seed):
            self._try_curvature()
            if self.checkpoint is not None:
                self.checkpoint.load_into(state)
                if self.options.resume_changed and state.epoch >= epochs:
                    raise ValueError(
                        f"expected a run to go on with, got one that has done all {epochs} epochs "
                        "in the checkpoint: ask for more epochs, or take another file"
                    )
            self._count()
            kept = state.copy(whole=self.checkpoint is not None)
            try:
                for epoch in range(state.epoch + 1, epochs + 1):
                    self._epoch(epoch)
                    kept = state.copy(whole=self.checkpoint is not None)
                    if self.checkpoint is not None:
                        self.checkpoint.save_now_and_then(kept)
                    if progress is not None:
                        progress(Step(epoch, epochs, f"loss {state.losses[-1]:.4g}"))
                return self._result()
            except BaseException:
                state.put_back_model(kept)
                raise
            finally:
                if self.checkpoint is not None:
                    self.checkpoint.save(kept)

    def _try_curvature(self) -> None:
        """Find out before training whether the evidence can be computed at all."""
        for x, y in self.work.batches(self.evidence_data):
            self.work.run(Batches([(x[:_FEW], y[:_FEW])]))
            arrays = whole_arrays(self.evidence_data)
            self.priors.begin_noise(y if arrays is None else arrays[1])
            break

    def _count(self) -> None:
        """Find out how much a pass over the data yields; a run that goes on has it written.

        To count again would draw once more from the generators of the data.
        """
        training, options = self.training, self.options
        if self.state.counts is None:
            self.state.counts = counts_of(training.batches)
        dtype = next(iter(training.parameters.values())).dtype
        training.batches = training_batches(
            self.source, options.batch_size, dtype, self.state.counts
        )

    def _epoch(self, epoch: int) -> None:
        priors, state = self.priors, self.state
        try:
            loss = self.training.epoch(epoch - 1, priors.precisions, priors.noise)
            if epoch in self.options.estimates:
                self._update(epoch, loss)
        except ValueError as error:
            raise ValueError(
                f"{error}, in epoch {epoch}; the model is as it was after epoch {epoch - 1}"
            ) from error
        state.losses.append(loss)
        state.epoch = epoch

    def _update(self, epoch: int, loss: float) -> None:
        """Take steps on the priors, and on hyperparameters if there are any."""
        before = self.options.estimates.index(epoch)
        found = self._approximation(epoch)
        self.priors.update(found, before)
        estimate = self._estimate(epoch, loss, found)
        self.paths.write(estimate.precisions)
        self.state.history.append(estimate)
        if not self.hyperparameters.parameters:
            return
        with warnings_once(self._warned):
            _, gradient = evidence_gradient(
                self.model,
                self.likelihood,
                self.evidence_data,
                list(self.hyperparameters.parameters),
                estimate.precisions,
                noise=estimate.noise,
                temperature=self.options.temperature,
                groups=self.groups,
                curvature=self.options.curvature_after(epoch),
            )
        for name, slope in gradient.items():
            if not bool(slope.isfinite().all()):
                raise ValueError(f"expected a finite gradient of the evidence in {name}, got none")
        self.hyperparameters.update(gradient, before)

    def _approximation(self, epoch: int) -> Laplace:
        with warnings_once(self._warned):
            return laplace(
                self.model,
                self.likelihood,
                self.evidence_data,
                hyperparameters=list(self.hyperparameters.parameters),
                groups=self.groups,
                curvature=self.options.curvature_after(epoch),
            )

    def _estimate(self, epoch: int, loss: float, found: Laplace) -> PriorEstimate:
        priors, temperature = self.priors, self.options.temperature
        value = float(priors.evidence(found).detach())
        if not isfinite(value):
            raise ValueError(f"expected a finite log evidence, got {value}")
        precisions, noise = priors.precisions, priors.noise
        effective = found.effective_parameters(precisions, noise=noise, temperature=temperature)
        others = {n: p.detach().tolist() for n, p in self.hyperparameters.parameters.items()}
        return PriorEstimate(epoch, loss, value, precisions, noise, effective.counts, others)

    def _result(self) -> LearnedPriors:
        state, temperature = self.state, self.options.temperature
        found = self._approximation(state.epoch)
        last = self._estimate(state.epoch, state.losses[-1], found)
        effective = found.effective_parameters(
            last.precisions, noise=last.noise, temperature=temperature
        )
        slopes, noise_slope = self.priors.slopes(found)
        terms = residual_sums(found)[1] if self.likelihood.has_noise else 0.0
        return LearnedPriors(
            last.precisions,
            last.noise,
            last.log_marginal_likelihood,
            effective,
            slopes,
            noise_slope,
            unsettled(slopes, noise_slope, effective, terms / temperature),
            (*state.history, last),
            tuple(state.losses),
            found,
        )


def _each_once(names: Iterable[str]) -> list[str]:
    return [names] if isinstance(names, str) else list(dict.fromkeys(names))


def _lengths_identity(lengths: Mapping[str, Tensor]) -> dict[str, str]:
    """Which priors entries have beside their precision: no part of the state of a network."""
    return {f"squared lengths of {name}": digest_of(c) for name, c in lengths.items()}


def _identity(precisions: Precisions | None) -> Any:
    """What precisions to begin with were asked for, of what JSON knows.

    Some are a function of the weights that a network begins with, which training changes: these
    say themselves what they are.
    """
    if precisions is None:
        return None
    own = getattr(precisions, "identity", None)
    if own is not None:
        return own
    if isinstance(precisions, Mapping):
        return {name: float(precision) for name, precision in precisions.items()}
    return float(precisions)
