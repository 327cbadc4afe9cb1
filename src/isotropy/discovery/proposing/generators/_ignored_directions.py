"""Directions of the input that a function does not depend on."""

from __future__ import annotations

import numpy as np
import torch

from isotropy.discovery.predictors._smooth_fit import SmoothFit
from isotropy.discovery.proposing._proposing_thresholds import ProposingThresholds
from isotropy.discovery.proposing.generators._algebras import Samples
from isotropy.discovery.proposing.generators._charts import Array, Chart, simple_subspace
from isotropy.discovery.proposing.generators._resampled_null_space import null_spaces


def ignored_directions(
    samples: Samples, chart: Chart, names: tuple[str, ...], margin: float, seed: int
) -> tuple[tuple[int, ...], Array, Array]:
    """Directions along which the function does not change: columns, others, and what is left.

    That it ignores a direction is believed only where nothing but noise is seen along it.
    """
    limits, n = ProposingThresholds.now(), len(names)
    nothing = np.zeros((0, n))
    if samples.normals.shape[1]:
        return (), nothing, nothing  # off the surface nothing is known
    weights = samples.weights(chart)[:, None, None]
    slopes = [jacobian @ chart.lift * weights for jacobian in samples.jacobians]
    least, ratio = samples.floor, limits.only_noise
    found = null_spaces(*slopes, margin=margin, floor=least, largest_ratio=ratio, seed=seed)
    space = next((s for s in found if s.exact and s.error <= limits.sharp_direction), None)
    if space is None:
        return (), nothing, nothing
    scale = np.diag(chart.lift)
    error = max(space.error, limits.finest_estimate)
    still = simple_subspace(space.basis, error, scale)
    frame = np.linalg.qr((still / scale).T)[0].T
    inside = np.linalg.norm(frame, axis=0)
    ignored = tuple(int(i) for i in np.flatnonzero(inside > 1 - max(error, 1e-6)))
    rest = np.array([row for row in still if not _is_among(row, ignored)]).reshape(-1, n)
    live = [i for i in range(n) if i not in ignored]
    rest[:, list(ignored)] = 0.0
    if not len(rest):
        return ignored, nothing, nothing
    # what is left: combinations c with c·b = 0 for all directions b, of simple numbers
    unit = np.linalg.svd(rest[:, live] / scale[live])[2]
    dual = unit[len(rest) :] / scale[live]
    frame = np.linalg.qr((dual * scale[live]).T)[0].T
    wide = simple_subspace(frame, error, 1.0 / scale[live])
    combinations = np.zeros((len(wide), n))
    combinations[:, live] = wide
    return ignored, rest, combinations


def is_ignorable(fit: SmoothFit, x: Array, ignored: tuple[int, ...], along: Array) -> bool:
    """Whether the function is the same where these directions are held at their mean."""
    still = np.vstack([np.eye(x.shape[1])[list(ignored)], along])
    if not len(still):
        return True
    scale = x.std(0)
    frame = np.linalg.qr((still / scale).T)[0]
    centred = (x - x.mean(0)) / scale
    held = x.mean(0) + (centred - centred @ frame @ frame.T) * scale
    with torch.no_grad():
        before, after = (fit(torch.as_tensor(rows)) for rows in (x, held))
    change = float((after - before).square().sum())
    most = ProposingThresholds.now().ignorable_change
    return change <= most * float((before - before.mean(0)).square().sum())


def _is_among(row: Array, columns: tuple[int, ...]) -> bool:
    others = np.delete(row, list(columns))
    return bool(np.abs(others).max(initial=0.0) <= 1e-9 * np.abs(row).max())
