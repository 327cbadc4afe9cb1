"""What the symmetry of a finding is worth: its model beside a free one, with many rows and few."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from isotropy._run import generator as make_generator
from isotropy.discovery.modelling._model_comparison import ModelComparison
from isotropy.discovery.modelling._standardised import rows_for
from isotropy.discovery.predictors._free_predictor import FreePredictor, sample_losses
from isotropy.discovery.reading._task_data import TaskData
from isotropy.discovery.telling._finding import Finding
from isotropy.equivariance import equivariance_error

_SHARES = (8, 3)  # rows of the curve: so many times fewer than all
_FEWEST_ROWS = 40
_MOST_ROWS_OF_ERROR = 200
_EXAMPLES, _ELEMENTS, _FEWEST_POSITIONS = 3, 3, 6
# rows of several outputs err by the squared distance
_LOSSES = {"regression": "mean squared error", "classification": "cross-entropy"}

Refit = Callable[[TaskData], nn.Module | None]


def with_worth(
    finding: Finding, seen: TaskData, outside: TaskData, rival: FreePredictor, seed: int = 0
) -> Finding:
    """A finding with how its model compares, how exact it is, and examples of its action."""
    finding = replace(finding, examples=_examples(finding, outside, seed))
    if finding.model is None:
        return finding
    strict, free, constant = (
        sample_losses(predicted, outside.y, outside.task).double().numpy()
        for predicted in (
            _predicted(finding.model, outside.x),
            rival.predict(outside.x),
            rival.constant.expand(len(outside.x), -1),
        )
    )
    accuracies: list[float | None] = [None, None]
    if outside.task == "classification":
        accuracies = [
            float((predicted.argmax(1) == outside.y).double().mean())
            for predicted in (_predicted(finding.model, outside.x), rival.predict(outside.x))
        ]
    comparison = ModelComparison(
        _LOSSES[outside.task],
        float(strict.mean()),
        float(free.mean()),
        float(constant.mean()),
        float((strict - free).std(ddof=1) / np.sqrt(len(strict))),
        len(strict),
        len(seen.x),
        accuracies[0],
        accuracies[1],
    )
    error = finding.equivariance_error
    error = _error(finding, outside, seed) if error is None else error
    return replace(finding, comparison=comparison, equivariance_error=error)


def with_curve(
    finding: Finding,
    refit: Refit,
    free_of: Callable[[TaskData], FreePredictor],
    seen: TaskData,
    outside: TaskData,
    seed: int = 0,
) -> Finding:
    """A finding whose comparison has a curve: models fitted to fewer rows."""
    comparison = finding.comparison
    assert comparison is not None
    order = torch.randperm(len(seen.x), generator=make_generator(seed)).numpy()
    curve = []
    for share in _SHARES:
        count = len(seen.x) // share
        if count < _FEWEST_ROWS:
            continue
        few = seen.rows(np.sort(order[:count]))
        if len(few.y.unique(dim=0)) < 2:
            continue
        strict = refit(few)
        if strict is None:
            return finding
        free = free_of(few)
        points = [
            _loss(p, outside) for p in (_predicted(strict, outside.x), free.predict(outside.x))
        ]
        if np.isfinite(points).all():
            curve.append((count, points[0], points[1]))
    curve.append((comparison.fitted, comparison.strict, comparison.free))
    return replace(finding, comparison=replace(comparison, curve=tuple(curve)))


def _loss(predicted: Tensor, rows: TaskData) -> float:
    return float(sample_losses(predicted, rows.y, rows.task).mean())


def _predicted(model: nn.Module, x: Tensor) -> Tensor:
    with torch.no_grad():
        predicted: Tensor = model(rows_for(model, x))
    return predicted.double()


def _error(finding: Finding, outside: TaskData, seed: int) -> float | None:
    """The largest relative error over elements of the group; None where it cannot be measured."""
    if finding.model is None or finding.symmetry is None:
        return None
    x = outside.x[:_MOST_ROWS_OF_ERROR]
    centre = torch.tensor(finding.centre, dtype=torch.float64) if finding.centre else 0.0
    model = finding.model

    def about_centre(moved: Tensor) -> Tensor:
        return _predicted(model, moved + centre)

    try:
        error = equivariance_error(about_centre, x - centre, finding.symmetry, generator=seed)
    except ValueError:  # the model takes coordinates that the symmetry does not act on
        return None
    return error if np.isfinite(error) else None


def _examples(finding: Finding, outside: TaskData, seed: int) -> NDArray[np.float64] | None:
    """Rows of sequences, and what a few permutations make of them; None for others."""
    a = outside.arrangement
    if finding.symmetry is None or finding.generators is not None or a.inputs < _FEWEST_POSITIONS:
        return None
    if finding.symmetry.rep_in.size() != outside.x.shape[1]:
        return None
    rows = outside.x[:_EXAMPLES]
    drawn = finding.symmetry.group.sample(_ELEMENTS, generator=seed)
    moved = [finding.symmetry.apply(drawn.select(k), rows) for k in range(_ELEMENTS)]
    whole = torch.stack([rows, *moved], 1)
    if finding.layout.channels > 1 or finding.layout.sequences:
        whole = whole.unflatten(2, (a.channels, a.inputs))
        whole = whole if finding.layout.channels_first else whole.transpose(2, 3)
    shown: NDArray[np.float64] = whole.numpy()
    return shown
