"""A smooth function of a task, in the user's units; the predictor that claims are held against."""

from __future__ import annotations

import torch
from torch import Tensor

from isotropy._run import generator as make_generator
from isotropy.discovery.predictors._free_predictor import (
    FreePredictor,
    Predict,
    held_out_rows,
    sample_losses,
    with_trees,
)
from isotropy.discovery.predictors._invariant_predictor import invariant_predictor
from isotropy.discovery.predictors._smooth_fit import SmoothFit, fit_smooth
from isotropy.discovery.reading._task_data import TaskData

# trees are grown on what a fit leaves if that is more than this share, and kept if they help
_WELL_FITTED, _MUCH_BETTER = 1e-4, 1.05
_MOST_TREES = 8
# a fit in logarithms that leaves more is not worth comparing; one that leaves less needs no rival
_GOOD = 0.01
# columns whose deviations lie within this factor share one scale: a polynomial of few terms stays
# one; means of fewer deviations are left alone for the same reason
_SIMILAR, _FAR = 10.0, 3.0


def fit_task(data: TaskData, *, thorough: bool = True, seed: int = 0) -> SmoothFit:
    """A smooth function fitted to rows of a task, of inputs in the user's units."""
    mean, scale = data.x.mean(0), data.x.std(0)
    comparable = float(scale.max()) < _SIMILAR * float(scale.min())
    unit = scale.square().mean().sqrt().expand_as(scale) if comparable else scale
    unit = torch.where(unit > 0, unit, torch.ones_like(unit))
    centre = torch.where(mean.abs() < _FAR * unit, torch.zeros_like(mean), mean)
    logarithmic = _of_logarithms(data, seed)
    if logarithmic is not None and logarithmic.is_exact:
        return logarithmic
    fit = fit_smooth(
        (data.x - centre) / unit,
        data.y,
        data.task,
        classes=data.arrangement.outputs,
        groups=data.groups,
        channels=data.arrangement.channels,
        thorough=thorough,
        seed=seed,
    )
    first, second = fit.halves
    halves = (lambda x: first((x - centre) / unit), lambda x: second((x - centre) / unit))
    if logarithmic is not None and logarithmic.unexplained * _MUCH_BETTER < fit.unexplained:
        return logarithmic
    return SmoothFit(fit.kind, halves, fit.unexplained)


def _of_logarithms(data: TaskData, seed: int) -> SmoothFit | None:
    """A polynomial in the logarithms of inputs that are all positive, where it fits well."""
    if data.task != "regression" or float(data.x.min()) <= 0:
        return None
    middle = data.x.median(0).values
    fit = fit_smooth((data.x / middle).log(), data.y, groups=data.groups, networks=False, seed=seed)
    if fit.unexplained > _GOOD:
        return None
    first, second = fit.halves
    # beyond the data inputs may be negative: the smallest will do
    low = data.x.amin(0) / 2

    def of(function: Predict) -> Predict:
        return lambda x: function((torch.maximum(x, low) / middle).log())

    kind = f"{fit.kind}, in the logarithms of the inputs"
    return SmoothFit(kind, (of(first), of(second)), fit.unexplained)


def smooth_predictor(data: TaskData, seed: int) -> FreePredictor:
    """The best predictor free of symmetry: of the families of the search, of all, of invariants."""
    best = _of_search(data, seed)
    if best.unexplained > _GOOD:
        for rival in (data.free_predictor(seed), invariant_predictor(data, seed)):
            if rival is not None and rival.unexplained * _MUCH_BETTER < best.unexplained:
                best = rival
    return best


def _of_search(data: TaskData, seed: int) -> FreePredictor:
    """A fit from the same families as the search, with trees behind it."""
    fit = fit_task(data, seed=seed)

    def smooth(x: Tensor) -> Tensor:
        with torch.no_grad():
            return fit(x.double())

    predict: Predict = smooth
    kind, left = fit.kind, fit.unexplained
    if left > _WELL_FITTED and data.arrangement.outputs <= _MOST_TREES:
        rng = make_generator(seed)
        rest, hold = map(torch.as_tensor, held_out_rows(len(data.x), 0.25, data.groups, rng))
        grown = with_trees(data.x[rest], data.y[rest], predict, data.task, seed)
        held = data.y[hold]
        losses = [
            float(sample_losses(f(data.x[hold]), held, data.task).mean()) for f in (predict, grown)
        ]
        if losses[1] * _MUCH_BETTER < losses[0]:
            kind, left, predict = f"{kind} and trees", left * losses[1] / losses[0], grown
    return FreePredictor(kind, predict, _constant(data), left)


def _constant(data: TaskData) -> Tensor:
    if data.task == "regression":
        return data.y.mean(0)
    counts = torch.bincount(data.y, minlength=data.arrangement.outputs).double() + 0.5
    return (counts / counts.sum()).log()
