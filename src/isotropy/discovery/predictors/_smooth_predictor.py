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
from isotropy.discovery.predictors._predictor_thresholds import PredictorThresholds
from isotropy.discovery.predictors._smooth_fit import SmoothFit, fit_smooth
from isotropy.discovery.reading._task_data import TaskData


def fit_task(data: TaskData, *, thorough: bool = True, seed: int = 0) -> SmoothFit:
    """A smooth function fitted to rows of a task, of inputs in the user's units."""
    limits = PredictorThresholds.now()
    mean, scale = data.x.mean(0), data.x.std(0)
    # a polynomial of few terms stays one where scales are one and centres are left alone
    comparable = float(scale.max()) < limits.shared_scale * float(scale.min())
    unit = scale.square().mean().sqrt().expand_as(scale) if comparable else scale
    unit = torch.where(unit > 0, unit, torch.ones_like(unit))
    centre = torch.where(mean.abs() < limits.far_centre * unit, torch.zeros_like(mean), mean)
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
    if logarithmic is not None and logarithmic.unexplained * limits.much_better < fit.unexplained:
        return logarithmic
    return SmoothFit(fit.kind, halves, fit.unexplained)


def _of_logarithms(data: TaskData, seed: int) -> SmoothFit | None:
    """A polynomial in the logarithms of inputs that are all positive, where it fits well."""
    if data.task != "regression" or float(data.x.min()) <= 0:
        return None
    middle = data.x.median(0).values
    fit = fit_smooth((data.x / middle).log(), data.y, groups=data.groups, networks=False, seed=seed)
    if fit.unexplained > PredictorThresholds.now().good_fit:
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
    limits, best = PredictorThresholds.now(), _of_search(data, seed)
    if best.unexplained > limits.good_fit:
        for rival in (data.free_predictor(seed), invariant_predictor(data, seed)):
            if rival is not None and rival.unexplained * limits.much_better < best.unexplained:
                best = rival
    return best


def _of_search(data: TaskData, seed: int) -> FreePredictor:
    """A fit from the same families as the search, with trees behind it."""
    limits, fit = PredictorThresholds.now(), fit_task(data, seed=seed)

    def smooth(x: Tensor) -> Tensor:
        with torch.no_grad():
            return fit(x.double())

    predict: Predict = smooth
    kind, left = fit.kind, fit.unexplained
    if left > limits.nearly_exact and data.arrangement.outputs <= limits.tree_outputs:
        rows = held_out_rows(len(data.x), limits.held_out, data.groups, make_generator(seed))
        rest, hold = map(torch.as_tensor, rows)
        grown = with_trees(data.x[rest], data.y[rest], predict, data.task, seed)
        held = data.y[hold]
        losses = [
            float(sample_losses(f(data.x[hold]), held, data.task).mean()) for f in (predict, grown)
        ]
        if losses[1] * limits.much_better < losses[0]:
            kind, left, predict = f"{kind} and trees", left * losses[1] / losses[0], grown
    return FreePredictor(kind, predict, _constant(data), left)


def _constant(data: TaskData) -> Tensor:
    if data.task == "regression":
        return data.y.mean(0)
    counts = torch.bincount(data.y, minlength=data.arrangement.outputs).double() + 0.5
    return (counts / counts.sum()).log()
