"""Counting errors: the same number on every machine, without the price of float64 everywhere."""

from __future__ import annotations

import torch
from torch import Tensor

from isotropy._run import ProgressCallback, Step
from isotropy.certificates._examples import Examples
from isotropy.certificates._goal import Goal
from isotropy.certificates._rejected import Rejected
from isotropy.certificates._subspace import Subspace

_BATCH = 500
# rows of each batch that are run in float64 whatever float32 says
_WATCHED = 8
# float32 decides where outputs are clear by this share of their size …
_CLEAR = 1e-3
# … and is believed while the watched rows differ by less than that share
_AGREES = 1e-5


@torch.no_grad()
def count_errors(
    network: Subspace,
    goal: Goal,
    sample: Examples,
    input_scale: float | None = None,
    progress: ProgressCallback | None = None,
) -> int:
    """How many rows a network gets wrong, on the CPU.

    The answer is that of float64, in which a tie of two outputs is as good as impossible, so that
    every machine finds the same. A row whose outputs in float32 are clearly right or wrong, by a
    thousandth of their size, is left at that; the others are run again. Some rows of every batch
    are run in both: should float32 be off there by more than a hundredth of that margin, as in a
    network of huge weights that cancel, all rows are run in float64.

    Args:
        network: In float64, on the CPU.
        goal: What counts as an error.
        sample: The rows.
        input_scale: Inputs are divided by this.
        progress: Told as rows are counted.

    Raises:
        Rejected: If the outputs are not of the shape that the goal asks for.
    """
    exact = network.tensors_at(network.weights)
    rough = {
        name: tensor.float() if tensor.is_floating_point() else tensor
        for name, tensor in exact.items()
    }
    wrong, believed = 0, True
    for at in range(0, len(sample), _BATCH):
        rows = sample.rows(torch.arange(at, min(at + _BATCH, len(sample))))
        x = rows.x.double() if input_scale is None else rows.x.double() / input_scale
        unclear = torch.arange(len(x))
        if believed:
            outputs = _outputs(network, rough, x.float(), goal).double()
            size = outputs.abs().amax()
            watched = _outputs(network, exact, x[:_WATCHED], goal)
            gap = (outputs[:_WATCHED] - watched).abs().amax()
            # not "more than": what is not a number is no agreement
            believed = bool(gap <= _AGREES * size)
        if believed:
            clear = _clearly(goal, outputs, rows.y, _CLEAR * float(size))
            wrong += int(goal.wrong(outputs[clear], rows.y[clear]).sum())
            unclear = (~clear).nonzero()[:, 0]
        if len(unclear):
            outputs = _outputs(network, exact, x[unclear], goal)
            wrong += int(goal.wrong(outputs, rows.y[unclear]).sum())
        if progress is not None:
            progress(Step(at + len(x), len(sample), "counting errors"))
    return wrong


def _outputs(network: Subspace, tensors: dict[str, Tensor], x: Tensor, goal: Goal) -> Tensor:
    outputs: Tensor = network.run(tensors, x)
    if outputs.shape != (len(x), goal.outputs):
        raise Rejected(
            f"the network gives outputs of shape {tuple(outputs.shape)}, "
            f"expected ({len(x)}, {goal.outputs})"
        )
    return outputs


def _clearly(goal: Goal, outputs: Tensor, targets: Tensor, margin: float) -> Tensor:
    """Which rows stay right, or wrong, whatever happens to their outputs within the margin."""
    if goal.kind == "regression":
        assert goal.tolerance is not None
        miss = (goal.scale * outputs - targets).abs()
        inside = (miss < goal.tolerance - goal.scale * margin).all(1)
        return inside | (miss > goal.tolerance + goal.scale * margin).any(1)
    if goal.outputs == 1:
        return torch.isfinite(outputs[:, 0])
    best = outputs.topk(2, 1).values
    return best[:, 0] - best[:, 1] > 2 * margin
