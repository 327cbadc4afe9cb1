"""From a decoded network and the rows to errors and a bound: the same when written and checked."""

from __future__ import annotations

from functools import cached_property

from torch import Tensor

from isotropy._run import ProgressCallback
from isotropy.certificates._bounds import Bound, smallest_bound
from isotropy.certificates._counting import BATCH_MEMORY, count_errors
from isotropy.certificates._examples import Examples, dealt_rows
from isotropy.certificates._header import Rejected
from isotropy.certificates._hypothesis import Hypothesis
from isotropy.certificates._row_work import RowWork, row_work
from isotropy.certificates._subspace import Subspace

_UNKNOWN = RowWork(0, BATCH_MEMORY // 500, 0.0)


class Recount:
    """Counts errors in float64 on the CPU, and bounds the risk.

    Raises:
        Rejected: If no rows are left to count.
    """

    def __init__(
        self,
        network: Subspace,
        hypothesis: Hypothesis,
        sample: Examples,
        work: RowWork | None = None,
    ) -> None:
        self._work = work
        self._network, self.hypothesis = network, hypothesis
        self._message = hypothesis.to_message()
        self._tensors = network.tensors_at(network.weights.detach())
        self.rows, self._digest = sample, sample.digest()
        if hypothesis.percent is not None:
            try:
                self.rows = sample.rows(dealt_rows(len(sample), hypothesis.percent)[1])
            except ValueError as error:
                raise Rejected(str(error)) from None

    def _run(self, x: Tensor) -> Tensor:
        outputs: Tensor = self._network.run(self._tensors, x)
        return outputs

    @cached_property
    def work(self) -> RowWork:
        """What one row takes."""
        if self._work is not None:
            return self._work
        try:
            return row_work(self._run, self.rows.x[:1].double())
        except Exception:
            if self.hypothesis.architecture is not None:
                raise
            return _UNKNOWN  # a module of the user's own may not bear being watched

    def errors(self, rows: Examples, progress: ProgressCallback | None = None) -> int:
        """How many of some rows are wrong."""
        ours = self.hypothesis.architecture is not None
        return count_errors(
            self._run,
            self.hypothesis.goal,
            rows,
            work=self.work,
            input_scale=self.hypothesis.input_scale,
            twice=None if ours else self._digest.encode() + self._message,
            progress=progress,
        )

    def bound(self, delta: float, progress: ProgressCallback | None = None) -> Bound:
        """The bound on the risk, from the errors among the rows."""
        errors, bits = self.errors(self.rows, progress), 8 * len(self._message)
        # the tail is below every other kind at the same delta, so there is no choice to pay for
        return smallest_bound(errors, len(self.rows), bits, delta, kinds=("binomial_tail",))
