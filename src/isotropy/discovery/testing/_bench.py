"""What claims are tested with: predictors free of symmetry, and rows that found nothing."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from isotropy._run import generator as make_generator
from isotropy.discovery.predictors._free_predictor import FreePredictor
from isotropy.discovery.predictors._predictor_thresholds import PredictorThresholds
from isotropy.discovery.predictors._smooth_predictor import smooth_predictor
from isotropy.discovery.reading._read_problem import Problem
from isotropy.discovery.reading._task_data import TaskData
from isotropy.discovery.testing._data_support import DataSupport
from isotropy.discovery.testing._testing_thresholds import TestingThresholds

if TYPE_CHECKING:
    from isotropy.discovery.claims._claim import Claim

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Bench:
    """What claims about a problem are tested with; predictors are fitted when first asked for.

    Args:
        problem: The rows, in parts.
        margin: The largest cost that still counts as a symmetry.
        level: The chance of confirming anything false.
        seed: Of predictors and of random group elements.
        smooth: Whether claims want a predictor whose gradients mean something.
        plain: Whether claims want one of any family.
        with_networks: Whether networks with a symmetry may be trained to tell groups apart.
        is_wide: Whether the margin is that of symmetries that are worth a soft model.
        found: What is worked out once for several claims.

    Example:
        >>> import numpy as np
        >>> from isotropy.data import load
        >>> x = np.random.default_rng(0).normal(size=(200, 2))
        >>> bench = Bench(Problem.of(TaskData.of(load((x, x.sum(1)))), "vectors"), 0.05, 0.05)
        >>> bench.free.kind
        'linear'
    """

    problem: Problem
    margin: float
    level: float
    seed: int = 0
    smooth: bool = False
    plain: bool = True
    with_networks: bool = True
    is_wide: bool = False
    found: dict[Hashable, Any] = field(default_factory=dict, repr=False)

    def once(self, name: Hashable, work: Callable[[], T]) -> T:
        """What a piece of work gives; it is done once."""
        if name not in self.found:
            self.found[name] = work()
        known: T = self.found[name]
        return known

    def for_claims(self, claims: Sequence[Claim]) -> Bench:
        """The same, with a smooth predictor where some claims want one."""
        smooth = any(claim.wants_smooth and not claim.is_trivial for claim in claims)
        plain = not smooth or not all(claim.wants_smooth for claim in claims)
        return replace(self, smooth=smooth, plain=plain)

    @property
    def of_images(self) -> bool:
        """Whether rows are images, whose predictors are networks that proposers have trained."""
        return self.problem.kind == "images"

    def with_margin(self, margin: float) -> Bench:
        """The same with a wide margin, and the same predictors."""
        return replace(self, margin=margin, is_wide=True)

    @property
    def free(self) -> FreePredictor:
        """The best predictor free of symmetry, fitted to the second part."""
        return self.free_of(self.problem.fitted)

    @property
    def smooth_one(self) -> FreePredictor:
        """The best one that is smooth, or free where claims do not ask for any."""
        return self.smooth_of(self.problem.fitted)

    @torch.enable_grad()
    def free_of(self, rows: Any, tell: Callable[[str], None] | None = None) -> FreePredictor:
        """A predictor of some rows that is chosen among the families of ``free``.

        Args:
            rows: The rows.
            tell: Whom to tell how it goes on, where fitting takes long.
        """
        callbacks = () if tell is None else (tell,)
        if not self.smooth:
            return self._plain(rows, *callbacks)
        if not self.plain:
            return self.smooth_of(rows)
        if rows is not self.problem.fitted:  # of the family that was better there
            is_smooth = self.free is self.smooth_one
            return self.smooth_of(rows) if is_smooth else self._plain(rows, *callbacks)
        plain, smooth = self._plain(rows, *callbacks), self.smooth_of(rows)
        better = PredictorThresholds.now().much_better
        return smooth if smooth.unexplained * better < plain.unexplained else plain

    def _plain(self, rows: Any, *callbacks: Callable[[str], None]) -> FreePredictor:
        found: FreePredictor = self.once(
            ("plain", rows), lambda: rows.free_predictor(self.seed + 1, *callbacks)
        )
        return found

    @torch.enable_grad()
    def smooth_of(self, rows: Any) -> FreePredictor:
        """A predictor of some rows that is chosen among those of ``smooth_one``."""
        if not self.smooth:
            return self.free_of(rows)
        return self.once(("smooth", rows), lambda: smooth_predictor(rows, self.seed + 1))

    @cached_property
    def some_rows(self) -> TaskData:
        """The rows that permutations are tested on: some of many."""
        rows = self.problem.outside
        assert isinstance(rows, TaskData)
        most = TestingThresholds.now().most_rows_of_permutations
        if len(rows.x) <= most:
            return rows
        kept = torch.randperm(len(rows.x), generator=make_generator(self.seed))[:most]
        return rows.rows(kept.sort().values.numpy())

    def support(self, coverage: float | None = None) -> DataSupport:
        """Where the rows are that predictors were fitted to."""
        given: dict[str, Any] = {} if coverage is None else {"coverage": coverage}
        if coverage is not None:
            given["seed"] = self.seed
        return self.once(("support", coverage), lambda: DataSupport(self.problem.fitted.x, **given))
