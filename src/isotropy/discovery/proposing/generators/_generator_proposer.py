"""Continuous symmetries: the Lie algebra of a smooth fit, made exact and named."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from isotropy.discovery.claims._trivial_claim import TrivialClaim
from isotropy.discovery.predictors._smooth_predictor import smooth_predictor
from isotropy.discovery.proposing._proposer import Note, Proposal, Proposer, Tell, Tried
from isotropy.discovery.proposing._proposing_thresholds import ProposingThresholds
from isotropy.discovery.proposing.generators._charts import combination_text
from isotropy.discovery.proposing.generators._generator_claims import claims_of
from isotropy.discovery.proposing.generators._generator_search import (
    Blocks,
    CannotTell,
    GeneratorOptions,
    GeneratorSearch,
    column_names,
    search_generators,
)
from isotropy.discovery.reading._task_data import TaskData
from isotropy.discovery.testing._bench import Bench
from isotropy.discovery.testing._claim_test import ClaimTest


@dataclass(frozen=True, eq=False)
class GeneratorProposer(Proposer):
    """Looks for matrices A and vectors b with Df(x)(A x + b) = B f(x).

    Args:
        blocks: Columns that move in the same way, where the user says so.
        search: What a search of these rows gave, where there was one already.
    """

    words = "looking for continuous symmetries"

    blocks: Blocks | None = None
    search: GeneratorSearch | None = None

    def propose(self, bench: Bench, tell: Tell) -> Iterator[Proposal]:
        """The algebras of all classes of actions that have a name, the likeliest first."""
        del tell
        find = bench.problem.find
        assert isinstance(find, TaskData)
        try:
            search = self.search or search_generators(
                find, GeneratorOptions(margin=bench.margin), blocks=self.blocks, seed=bench.seed
            )
        except CannotTell as error:
            yield Note(f"continuous symmetries: {error}")
            return
        yield from claims_of(search, find)
        for action in dict.fromkeys(result.action for result in search.results):
            yield Tried(f"generators of {action}")
        yield from map(Note, search.notes)
        # by itself a search has no need of other families
        alone = self.search is not None
        trivial = _trivial(search, column_names(find), wants_smooth=alone)
        if trivial is not None:
            yield trivial


def _trivial(
    search: GeneratorSearch, names: tuple[str, ...], *, wants_smooth: bool
) -> TrivialClaim | None:
    """That a target is linear, or looks at one combination of columns alone.

    Whether it is: a predictor of that kind must cost less than the margin, as for any claim.
    """
    if search.fit.is_given or search.fit.unexplained > ProposingThresholds.now().much_unexplained:
        return None
    n = len(names)
    if n - len(search.ignored) - len(search.along) == 1:
        row = np.eye(n)[next(i for i in range(n) if i not in search.ignored)]
        row = search.combinations[0] if len(search.combinations) else row
        name = "motions along which the target does not change"
        why = f"depends on {combination_text(row, names)} alone"
        along = torch.as_tensor(row)[:, None]
    elif search.fit.is_linear:
        name, why, along = "linear motions of a linear target", "is linear in the inputs", None
    else:
        return None

    def cost(bench: Bench) -> ClaimTest:
        fitted, outside = bench.problem.fitted, bench.problem.outside
        assert isinstance(fitted, TaskData)
        assert isinstance(outside, TaskData)
        if along is None:
            predicted = _linear_prediction(fitted, outside.x)
        else:
            predicted = _narrow_prediction(fitted, outside.x, along, bench.seed)
        return outside.cost_test(predicted, bench.free, margin=bench.margin, level=bench.level)

    return TrivialClaim(
        name,
        f"Trivial({n})",
        "any motion that the target does not see",
        f"the target {why}",
        cost,
        found_by="gradients",
        wants_smooth=wants_smooth,
    )


def _narrow_prediction(fitted: TaskData, x: Tensor, along: Tensor, seed: int) -> Tensor:
    """What a predictor says that sees one combination of columns alone."""
    one_column = replace(fitted.arrangement, inputs=1, channels=1)
    narrow = replace(fitted, x=fitted.x @ along, arrangement=one_column, input_names=None)
    return smooth_predictor(narrow, seed).predict(x @ along)


def _linear_prediction(fitted: TaskData, x: Tensor) -> Tensor:
    """Least squares on some rows, evaluated at others."""
    padded = [torch.cat([rows, torch.ones_like(rows[:, :1])], 1) for rows in (fitted.x, x)]
    weights = torch.linalg.lstsq(padded[0], fitted.y, driver="gelsd").solution
    predicted: Tensor = padded[1] @ weights
    return predicted
