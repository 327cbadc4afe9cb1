from __future__ import annotations

import math

import pytest

from isotropy.search._deep_q import bounded_reward, published_reward

POINTS = (-1e6, -700.0, -100.0, -45.0, -5.0, -0.1, 0.0, 0.1, 5.0, 45.0, 100.0, 700.0, 1e6)


@pytest.mark.parametrize("reward", [bounded_reward, published_reward])
def test_rewards_grow_are_odd_and_finite(reward):
    values = [reward(points) for points in POINTS]
    assert values == sorted(values)
    assert all(map(math.isfinite, values))
    assert values == [-value for value in reversed(values)]


def test_bounded_reward_stays_within_one():
    assert all(-1 <= bounded_reward(points) <= 1 for points in POINTS)
    assert bounded_reward(1.0) < bounded_reward(2.0) < 1


def test_published_reward_is_the_formula():
    assert published_reward(-45.0) == pytest.approx(-45 * math.exp(45))
    assert published_reward(0.5) == pytest.approx(0.5 * math.exp(0.5))
