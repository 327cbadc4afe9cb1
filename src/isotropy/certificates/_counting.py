"""Counting errors, in float64 on the CPU, so that every machine finds the same number."""

from __future__ import annotations

import torch
from torch import Tensor

from isotropy._run import ProgressCallback, Step
from isotropy.certificates._examples import Examples
from isotropy.certificates._goal import Goal
from isotropy.certificates._rejected import Rejected
from isotropy.certificates._subspace import Subspace

_BATCH = 500
# how far the outputs of a row alone may be from those among others, as a share of their size
_SAME = 1e-9


@torch.no_grad()
def count_errors(
    network: Subspace,
    goal: Goal,
    sample: Examples,
    input_scale: float | None = None,
    progress: ProgressCallback | None = None,
) -> int:
    """How many rows a network gets wrong.

    All rows are run in float64, in which a tie of two outputs is as good as impossible. A network
    in float32 would be faster, and would let a message name one whose rounding errors happen to
    be right.

    One row of each batch is run alone as well: a network that looks at the other rows is no
    function of an input, and has no risk to bound.

    Args:
        network: In float64, on the CPU.
        goal: What counts as an error.
        sample: The rows.
        input_scale: Inputs are divided by this.
        progress: Told as rows are counted.

    Raises:
        Rejected: If the outputs are not of the shape that the goal asks for, or those of a row
            depend on other rows.
    """
    tensors = network.tensors_at(network.weights)
    wrong = 0
    for at in range(0, len(sample), _BATCH):
        rows = sample.rows(torch.arange(at, min(at + _BATCH, len(sample))))
        x = rows.x.double() if input_scale is None else rows.x.double() / input_scale
        outputs = _outputs(network, tensors, x, goal)
        # another place in every batch, so that no place is safe
        place = at // _BATCH * 37 % len(x)
        alone = _outputs(network, tensors, x[place : place + 1], goal)
        require_same(alone[0], outputs[place])
        wrong += int(goal.wrong(outputs, rows.y).sum())
        if progress is not None:
            progress(Step(at + len(x), len(sample), "counting errors"))
    return wrong


def require_same(alone: Tensor, among_others: Tensor) -> None:
    """Refuse outputs of one row that differ by what else was in the batch.

    Raises:
        Rejected: If they do.
    """
    if not bool(torch.isfinite(among_others).all() and torch.isfinite(alone).all()):
        return  # counted as an error whatever else
    gap = (alone - among_others).abs().amax()
    if gap > _SAME * (1 + among_others.abs().amax()):
        raise Rejected(
            "a row's outputs depend on the other rows of its batch, or on chance: "
            "the network is not a function of one input"
        )


def _outputs(network: Subspace, tensors: dict[str, Tensor], x: Tensor, goal: Goal) -> Tensor:
    outputs: Tensor = network.run(tensors, x)
    if outputs.shape != (len(x), goal.outputs):
        raise Rejected(
            f"the network gives outputs of shape {tuple(outputs.shape)}, "
            f"expected ({len(x)}, {goal.outputs})"
        )
    return outputs
