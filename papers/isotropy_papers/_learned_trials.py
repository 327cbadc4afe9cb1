"""Trials whose priors are learned from the evidence, one seed at a time."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context

import torch

from isotropy.evidence import LearningOptions, learn_priors
from isotropy.nn import EMLP, soften
from isotropy_papers._residual_trials import STARTS, ResidualPlan, ResidualTrials

LEARNED = "learned"
_UPDATES = 18
# processes that share a GPU, which one alone would leave idle for most of the time
_TOGETHER = 5


def learned_errors(trials: ResidualTrials, start: str) -> dict[str, list[float]]:
    """Train softened networks by ``learn_priors``, one for each seed.

    All priors are learned, those of the strict paths too, and the noise; validation rows are not
    used.

    Args:
        trials: The task and how it is run.
        start: How the flexible paths begin: "held back" or "open".

    Returns:
        Errors on "validation" and "test" rows, and the log "evidence", one for each seed.
    """
    plan = trials.plan
    jobs = [(trials.task, trials.level, replace(plan, seeds=(seed,)), start) for seed in plan.seeds]
    if plan.device == "cpu":
        found = [_of_one_seed(*job) for job in jobs]
    else:
        with ProcessPoolExecutor(_TOGETHER, mp_context=get_context("spawn")) as pool:
            found = list(pool.map(_of_one_seed, *zip(*jobs, strict=True)))
    return {name: [one[name] for one in found] for name in found[0]}


def _of_one_seed(task: str, level: str, plan: ResidualPlan, start: str) -> dict[str, float]:
    trials = ResidualTrials(task, level, plan)
    (seed,), recipe = plan.seeds, plan.recipe
    x, y = (values[0] for values in trials.rows["train"])
    into, out = trials.spaces
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        strict = EMLP(into, out, group=trials.group, channels=plan.channels, layers=plan.layers)
        network = soften(strict, variances=(1.0, STARTS[start])).to(plan.device)
    every = max(1, recipe.epochs // (_UPDATES + 2))
    learned = learn_priors(
        network,
        "regression",
        (x, y),
        epochs=recipe.epochs,
        batch_size=min(recipe.batch, len(x)),
        learning_rate=recipe.learning_rate,
        seed=seed,
        learning=LearningOptions(
            schedule=recipe.schedule,
            burn_in=2 * every,
            every=every,
            hyper_learning_rate=0.1,
            hyper_schedule="constant",
            cuda_graph=plan.device != "cpu",
        ),
    )

    def predict(x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = network(x[0]).unsqueeze(0)
        return y

    found = {part: trials.errors(predict, part)[0] for part in ("validation", "test")}
    return {**found, "evidence": float(learned.log_marginal_likelihood)}
