"""Actions that are tried whatever the data: rotations and boosts of blocks, with their shifts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from isotropy.discovery.proposing._proposing_thresholds import ProposingThresholds
from isotropy.discovery.proposing.generators._action_class import Output, action_class
from isotropy.discovery.proposing.generators._algebras import ClassResult, Samples
from isotropy.discovery.proposing.generators._charts import Array, Chart
from isotropy.discovery.proposing.generators._resampled_null_space import NullSpace
from isotropy.discovery.proposing.generators._snap import snap, snap_affine

_EXACT = 1e-6  # floating point: the error of matrices that are exact


@dataclass(frozen=True)
class UsualAction:
    """All linear motions of a block that keep a metric, and the shifts of all blocks at once.

    Example:
        >>> len(UsualAction((1, 1, 1)).generators()), len(UsualAction((1, 1, 1), True).generators())
        (3, 6)
    """

    signs: tuple[int, ...]
    shifts: bool = False

    def generators(self) -> Array:
        """A basis, ``(D, d, d + 1)``: [A | b]."""
        d = len(self.signs)
        found = []
        for i in range(d):
            for j in range(i):
                a = np.zeros((d, d + 1))
                a[i, j], a[j, i] = 1.0, -float(self.signs[i] * self.signs[j])
                found.append(a)
        if self.shifts:
            for i in range(d):
                b = np.zeros((d, d + 1))
                b[i, d] = 1.0
                found.append(b)
        return np.array(found)


def usual_actions(d: int, *, shifts: bool) -> Iterator[UsualAction]:
    """Rotations of d columns, and boosts of four."""
    metrics = [(1,) * d]
    if d == 4:
        metrics.append((1, -1, -1, -1))
    for signs in metrics:
        for also in (True, False) if shifts else (False,):
            yield UsualAction(signs, also)


def seems_to_hold(samples: Samples, chart: Chart, output: Output, action: UsualAction) -> bool:
    """Whether two estimates of a function agree on no change along any of the generators.

    With residuals r_A, r_B of the two, E[r_A · r_B] has none of their independent errors.
    """
    r, m, d = len(chart.reading), samples.values[0].shape[1], len(chart.scale)
    kind = action_class(chart.blocks, r, outputs=m, output=output, affine=True)
    kind = kind.restricted(action.generators().reshape(-1, d * (d + 1)))
    points = chart.points(samples.x, centred=False)
    first, second = (
        kind.equations(points, values, jacobian @ chart.lift)
        for values, jacobian in zip(samples.values, samples.jacobians, strict=True)
    )
    weights = samples.weights(chart)
    slopes = [jacobian @ chart.lift for jacobian in samples.jacobians]
    sizes = (slopes[0] * slopes[1]).sum((1, 2)) * weights**2
    usual = np.einsum("N,Np->p", sizes, (kind.motions(points) ** 2).sum(2)) / r
    both = np.einsum("Nmp,Nmp,N->p", first, second, weights**2)
    if not bool((usual > 0).all()):
        return False
    shares, limits = both / usual, ProposingThresholds.now()
    return bool(shares.max() <= limits.usual_change and shares.mean() <= limits.usual_mean_change)


def usual_result(chart: Chart, output: Output, action: UsualAction) -> ClassResult | None:
    """The action as a result of a search, or None where columns have different scales."""
    d = len(chart.scale)
    if d > ProposingThresholds.now().widest_rotated or not np.allclose(chart.scale, chart.scale[0]):
        return None
    basis = action.generators()
    if action.shifts:
        found = snap_affine(basis, error=_EXACT, scale=chart.scale, centre=np.zeros(d))
    else:
        found = snap(basis[:, :, :d], error=_EXACT, scale=chart.scale)
    if found is None:
        return None
    count, unknowns = len(basis), d * (d + action.shifts)
    space = NullSpace(
        np.eye(count, unknowns), np.ones(unknowns), np.ones(unknowns), 1.0, _EXACT, True
    )
    estimate = basis if action.shifts else basis[:, :, :d]
    return ClassResult(
        chart, output, action.shifts, unknowns, space, estimate, found, "tried whatever the data"
    )
