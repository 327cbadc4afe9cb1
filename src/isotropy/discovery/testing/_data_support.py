"""Where there are data: a predictor is not asked about inputs that it never saw."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from isotropy._run import generator as make_generator
from isotropy.discovery.testing._claim_test import SMALLEST_SAMPLE
from isotropy.discovery.testing._testing_thresholds import TestingThresholds

_DEAD = 1e-10  # relative variance of a combination of columns that is constant
_NUMBERS_AT_ONCE = 2**22


class DataSupport:
    """Where there are data: near to some of them, and no farther out than any of them.

    Distances are Mahalanobis', so that units and other linear changes of coordinates do not
    matter. A place is within the data if it is in the ball around some data point whose radius is
    proportional to the distance of that point's fifth neighbour, and in the ellipsoid around the
    mean that holds them all; the proportion is such that the balls hold the given share of the
    data, none counted for itself. Combinations of columns that are constant must stay so.

    Args:
        x: Data, shape (N, n), at least 20 rows.
        coverage: The share of the data that lie in the ball around another.
        most: The most rows to keep.
        seed: Seed or generator of the choice of rows, where there are more.

    Attributes:
        n: The width of rows.
        centre: The mean, shape (n,).
        frame: F, shape (n, n): the coordinates u of x = centre + F u are uncorrelated, and of
            variance one but for those that are constant.

    Raises:
        ValueError: If there are too few rows, a number is not finite, all rows are the same, or
            the share is not between 0 and 1.

    Example:
        >>> angle = torch.linspace(0, 6.28, 200, dtype=torch.float64)
        >>> ring = DataSupport(torch.stack([angle.cos(), angle.sin()], 1))
        >>> ring.contains(torch.tensor([[0.6, 0.8], [0.0, 0.0], [1.2, 1.6]]))
        tensor([ True, False, False])
    """

    def __init__(
        self,
        x: Tensor,
        *,
        coverage: float = 0.98,
        most: int = 2000,
        seed: int | torch.Generator | None = 0,
    ) -> None:
        rows = finite_rows(x, "data")
        if len(rows) < SMALLEST_SAMPLE:
            raise ValueError(f"expected at least {SMALLEST_SAMPLE} rows of data, got {len(rows)}")
        if not 0 < coverage < 1:
            raise ValueError(f"expected a coverage between 0 and 1, got {coverage!r}")
        self.n = rows.shape[1]
        self.centre = rows.mean(0)
        scale = rows.std(0)
        scale = torch.where(scale > 0, scale, 1.0)
        values, axes = torch.linalg.eigh((rows / scale).T.cov().reshape(self.n, self.n))
        live = values > _DEAD * values.max()
        if float(values.max()) <= 0:
            raise ValueError("expected data that vary, got the same row throughout")
        spread = torch.where(live, values, 1.0).sqrt()
        self.frame = scale.unsqueeze(1) * axes * spread
        self._to_live = (axes[:, live] / spread[live]).T / scale
        self._to_dead = axes[:, ~live].T / scale
        if len(rows) > most:
            rows = rows[torch.randperm(len(rows), generator=make_generator(seed))[:most]]
        z = self.coordinates(rows)
        distances = torch.cdist(z, z).fill_diagonal_(math.inf)
        radii = distances.kthvalue(TestingThresholds.now().neighbours, 1).values
        radii = radii.clamp(1e-6, float(radii.quantile(coverage)) + 1e-6)  # of far outliers too
        radii = radii * (distances / radii).amin(1).quantile(coverage)
        self._points = torch.cat(
            [torch.ones(len(z), 1), -2 * z, z.square().sum(1, keepdim=True)], 1
        ) / radii.square().unsqueeze(1)
        # the farthest of all: a symmetry may break in the tails
        self._farthest = z.norm(dim=1).amax()

    @property
    def directions(self) -> int:
        """How many independent directions the data vary in."""
        return len(self._to_live)

    def coordinates(self, x: Tensor) -> Tensor:
        """Coordinates in which the data have mean zero and covariance one, shape (*, directions).

        Args:
            x: Rows, shape (*, n).
        """
        return self.directions_of(x - self.centre)

    def directions_of(self, moves: Tensor) -> Tensor:
        """The same of differences between rows."""
        directions: Tensor = moves @ self._to_live.T
        return directions

    def contains(self, x: Tensor) -> Tensor:
        """Whether rows lie where there are data; those that are not finite do not.

        Args:
            x: Rows, shape (N, n).

        Raises:
            ValueError: If the width is another.
        """
        if x.ndim != 2 or x.shape[1] != self.n:
            raise ValueError(f"expected rows of width {self.n}, got shape {tuple(x.shape)}")
        x = x.detach().cpu().double()
        z = self.coordinates(x)
        strayed = ((x - self.centre) @ self._to_dead.T).abs().sum(1)
        inside: Tensor = (z.norm(dim=1) <= self._farthest) & (strayed <= math.sqrt(_DEAD))
        at = inside.nonzero().squeeze(1)
        z = z[at]
        rows = torch.cat([z.square().sum(1, keepdim=True), z, torch.ones(len(z), 1)], 1)
        step = max(1, _NUMBERS_AT_ONCE // len(self._points))
        near = [(part @ self._points.T).amin(1) <= 1 for part in rows.split(step)]
        inside[at] = torch.cat(near) if near else inside[at]
        return inside


def finite_rows(x: Tensor, what: str) -> Tensor:
    """Rows in float64 on the CPU.

    Raises:
        ValueError: If they are not a real matrix, or a number is not finite.
    """
    rows = torch.as_tensor(x).detach().cpu()
    if rows.ndim != 2 or rows.is_complex():
        raise ValueError(
            f"expected real {what} of shape (N, n), got {rows.dtype} of {tuple(rows.shape)}"
        )
    rows = rows.double()
    if not bool(rows.isfinite().all()):
        raise ValueError(f"expected finite {what}, got NaN or infinity")
    return rows
