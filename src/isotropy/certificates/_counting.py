"""From a decoded network and the rows to errors and a bound: the same when written and checked.

Errors are counted in float64 on the CPU, so that every machine finds the same number.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from functools import cached_property

import torch
from torch import Tensor

from isotropy._run import ProgressCallback, Step
from isotropy.certificates._bounds import Bound, smallest_bound
from isotropy.certificates._counter_random import random_normals, random_words
from isotropy.certificates._examples import Examples, dealt_rows
from isotropy.certificates._goal import Goal
from isotropy.certificates._header import Rejected
from isotropy.certificates._hypothesis import Hypothesis
from isotropy.certificates._row_work import RowWork, row_work
from isotropy.certificates._subspace import Subspace

_BATCH = 500
BATCH_MEMORY = 256 * 2**20
# how far the outputs of a row may be from those it has among other rows, as a share of their size
_SAME = 1e-9
_ALONE = 8
_PROBES = 4
_NO_FUNCTION = (
    "a row's outputs depend on the other rows of its batch, or on chance: "
    "the network is not a function of one input"
)
Run = Callable[[Tensor], Tensor]
_UNKNOWN = RowWork(0, BATCH_MEMORY // 500, 0.0)


@torch.no_grad()
def count_errors(
    run: Run,
    goal: Goal,
    sample: Examples,
    *,
    work: RowWork,
    input_scale: float | None = None,
    twice: bytes | None = None,
    progress: ProgressCallback | None = None,
) -> int:
    """How many rows a network gets wrong.

    All rows are run in float64, in which a tie of two outputs is as good as impossible. A network
    in float32 would be faster, and would let a message name one whose rounding errors happen to
    be right.

    A module of somebody else's may look at the other rows of a batch, or at how often it was
    called: then it is no function of an input, and has no risk to bound. So all its rows are run
    a second time, in an order that nobody chose, some of them alone, and must come out the same:
    as right or as wrong, and in numbers as far as these show beside the largest.

    Args:
        run: The network, in float64 on the CPU.
        goal: What counts as an error.
        sample: The rows.
        work: What a row takes, for the size of batches.
        input_scale: Inputs are divided by this.
        twice: For a module that is not ours: bytes that name the order of the second time, made
            of the data and of the message.
        progress: Called as rows are counted.

    Raises:
        Rejected: If the outputs are not of the shape that the goal asks for, or those of a row
            depend on other rows.
    """
    n, size = len(sample), work.rows_in(BATCH_MEMORY, _BATCH)
    total, done = n if twice is None else 2 * n, 0
    wrong = torch.zeros(n, dtype=torch.bool)
    seed = 0 if twice is None else int.from_bytes(hashlib.sha256(twice).digest()[:8])
    probes = random_normals(seed, 0, goal.outputs * _PROBES).view(goal.outputs, _PROBES)
    seen = torch.zeros(n if twice is not None else 0, _PROBES, dtype=torch.float64)
    sizes = seen.new_zeros(len(seen))

    def outputs_of(index: Tensor) -> Tensor:
        x = sample.x[index].double()
        outputs = run(x if input_scale is None else x / input_scale)
        if outputs.shape != (len(x), goal.outputs):
            raise Rejected(
                f"the network gives outputs of shape {tuple(outputs.shape)}, "
                f"expected ({len(x)}, {goal.outputs})"
            )
        return outputs

    for index in torch.arange(n).split(size):
        outputs = outputs_of(index)
        wrong[index] = goal.wrong(outputs, sample.y[index])
        if twice is not None:
            # all outputs of all rows may be more than fits: a few sums of them tell as much
            seen[index], sizes[index] = outputs @ probes, outputs.abs().amax(1)
        done += len(index)
        if progress is not None:
            progress(Step(done, total, "counting errors"))
    for index in _in_another_order(n, size, seed) if twice is not None else ():
        outputs = outputs_of(index)
        if not torch.equal(goal.wrong(outputs, sample.y[index]), wrong[index]):
            raise Rejected(_NO_FUNCTION)
        require_same(outputs @ probes, seen[index], goal.outputs * sizes[index])
        done += len(index)
        if progress is not None:
            progress(Step(min(done, total), total, "counting errors, in another order"))
    return int(wrong.sum())


def _in_another_order(n: int, size: int, seed: int) -> Iterator[Tensor]:
    order = random_words(seed, 1, n).argsort(stable=True)
    alone = min(_ALONE, n)
    yield from order[:alone].split(1)
    if n > alone:
        yield from order[alone:].split(size)


def require_same(again: Tensor, first: Tensor, sizes: Tensor) -> None:
    """Refuse outputs of rows that differ by what else was in the batch, or by chance.

    Args:
        again: What the rows gave among others, shape (rows, numbers).
        first: What they gave before.
        sizes: What a difference is small beside, shape (rows,).

    Raises:
        Rejected: If they differ, in numbers or in which are finite.
    """
    finite = torch.isfinite(first).all(1)
    gaps = (again - first).abs().amax(1)[finite]
    if bool((torch.isfinite(again).all(1) != finite).any()) or bool(
        (gaps > _SAME * (1 + sizes[finite])).any()
    ):
        raise Rejected(_NO_FUNCTION)


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
