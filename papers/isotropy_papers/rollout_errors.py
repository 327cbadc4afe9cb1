"""How far rollouts are from the truth (thesis A.1.9)."""

from __future__ import annotations

import torch
from torch import Tensor


def relative_error(a: Tensor, b: Tensor) -> Tensor:
    """‖a − b‖ / (‖a‖ + ‖b‖) along the last axis, between 0 and 1 (thesis A.1.9).

    Zero where both are zero.

    Example:
        >>> relative_error(torch.tensor([3.0, 0.0]), torch.tensor([0.0, 4.0]))
        tensor(0.7143)
    """
    difference, left, right = (torch.linalg.vector_norm(v, dim=-1) for v in (a - b, a, b))
    return torch.where(difference == 0, difference, difference / (left + right))


def geometric_mean(errors: Tensor, times: Tensor | None = None, *, floor: float = 1e-5) -> Tensor:
    """The geometric mean of errors over all trajectories and over time (thesis Table 2.2).

    exp of the mean of log max(error, floor). The published numbers are this without ``times``:
    every trajectory and every one of the 150 times 0, 0.2, …, 29.8 counts the same, t = 0 among
    them, where the error is the floor; then the arithmetic mean over trained models.

    Args:
        errors: Shape (*, m), the last axis being time.
        times: Where given, shape (m,), the mean over time is an integral by the trapezoid rule
            over the duration, for times that are not evenly spaced.
        floor: Errors below count as this.

    Returns:
        One number.

    Raises:
        ValueError: If there are no errors, one is negative or NaN, the times do not fit, or the
            floor is not positive.

    Example:
        >>> geometric_mean(torch.tensor([[1.0, 0.01], [0.1, 0.1]]))
        tensor(0.1000)
        >>> geometric_mean(torch.tensor([1.0, 1.0, 0.01]), torch.tensor([0.0, 3.0, 4.0]))
        tensor(0.5623)
    """
    if errors.numel() == 0 or errors.ndim == 0 or not bool((errors >= 0).all()):
        raise ValueError(
            "expected errors of shape (*, m), none of them negative or NaN, "
            f"got shape {tuple(errors.shape)} with {int((~(errors >= 0)).sum())} such"
        )
    if not floor > 0:
        raise ValueError(f"expected a positive floor, got {floor}")
    logarithms = errors.clamp_min(floor).log()
    if times is None:
        return logarithms.mean().exp()
    instants = torch.as_tensor(times).detach().cpu().double()
    if instants.ndim != 1 or not bool(instants.isfinite().all() and (instants.diff() > 0).all()):
        raise ValueError(f"expected increasing finite times of shape (m,), got {times!r:.80}")
    if len(instants) != errors.shape[-1] or len(instants) < 2:
        raise ValueError(
            f"expected at least 2 times, one for each error, got {len(instants)} times "
            f"for errors of shape {tuple(errors.shape)}"
        )
    over_time = torch.trapezoid(logarithms, instants.to(errors), dim=-1)
    return (over_time.mean() / float(instants[-1] - instants[0])).exp()
