"""Rewards of a search: what a gain or loss in accuracy is worth to an agent."""

from __future__ import annotations

from math import exp, tanh

_SCALE = 5.0
_LARGEST = 700.0  # exp of more than about 709 is no float


def bounded_reward(points: float) -> float:
    """The reward tanh(x / 5), which no single child can dominate.

    Args:
        points: Accuracy less that of the network without groups, in percentage points.

    Returns:
        A number in [-1, 1], of the sign of ``points`` and growing with it.

    Example:
        >>> round(bounded_reward(5.0), 4), round(bounded_reward(-45.0), 4)
        (0.7616, -1.0)
    """
    return tanh(points / _SCALE)


def published_reward(points: float) -> float:
    """The reward x exp|x| of Basu et al. 2021 (Eq. 18), with x in percentage points.

    It spans many orders of magnitude: a network that is 45 points worse than the one without
    groups is rewarded with -1.6e21, one that is a point better with 2.7. Within the 100 points
    that accuracies can differ by it is far from overflow in double precision; beyond 700 points x
    is taken to be 700.

    Args:
        points: Accuracy less that of the network without groups, in percentage points.

    Returns:
        A finite number, of the sign of ``points`` and growing with it.

    Example:
        >>> round(published_reward(1.0), 4)
        2.7183
        >>> f"{published_reward(-45.0):.1e}"
        '-1.6e+21'
    """
    held = min(max(points, -_LARGEST), _LARGEST)
    return held * exp(abs(held))
