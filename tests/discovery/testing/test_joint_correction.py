"""P-values of several claims: valid, never beyond Holm's, and little more than one for one."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

from discovery.pieces import holm, joint_p_values
from isotropy.discovery import ClaimTest, claim_test


def claims_with(costs: np.ndarray) -> list[ClaimTest]:
    """Tests with a margin of 0.5."""
    zero = np.zeros(costs.shape[1])
    return [claim_test(cost, zero, zero + 10.0) for cost in costs]


def correlated(rho: float, shape: tuple[int, int], seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    common, own = rng.normal(size=(1, shape[1])), rng.normal(size=shape)
    values: np.ndarray = np.sqrt(rho) * common + np.sqrt(1 - rho) * own
    return values


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("rho", [0.0, 0.7])
def test_between_the_p_values_alone_and_those_of_holm(seed: int, rho: float) -> None:
    tests = claims_with(correlated(rho, (5, 200), seed) + 0.4)
    alone = np.array([test.p_value for test in tests])
    joint = joint_p_values(tests)
    assert (joint >= alone - 1e-12).all()
    assert (joint <= holm(alone) + 1e-12).all()
    assert (np.diff(joint[np.argsort(alone)]) >= 0).all()


def test_the_same_test_several_times_is_one() -> None:
    (test,) = claims_with(correlated(0.0, (1, 300), 0) + 0.4)
    assert 0.01 < test.p_value < 0.1
    joint = joint_p_values([test] * 4)
    np.testing.assert_allclose(joint, test.p_value, rtol=0.1)


def test_against_an_integral_of_the_normal_density() -> None:
    tests = claims_with(correlated(0.6, (3, 400), 1) + 0.47)
    values = np.stack([test.values for test in tests if test.values is not None])
    p = np.array([test.p_value for test in tests])
    z = norm.isf(p.min())
    below = multivariate_normal(np.zeros(3), np.corrcoef(values)).cdf(np.full(3, z))
    assert p.min() > 0.002
    assert joint_p_values(tests).min() == pytest.approx(1 - below, rel=0.1)


def test_claims_with_other_rows_are_added_up() -> None:
    tests = [replace(test, values=None) for test in claims_with(correlated(0.0, (3, 200), 2) + 0.4)]
    np.testing.assert_allclose(joint_p_values(tests), holm([test.p_value for test in tests]))
    assert joint_p_values([]).shape == (0,)


@pytest.mark.parametrize("rho", [0.0, 0.95])
def test_false_claims_are_as_rare_as_they_say(rho: float) -> None:
    """Four claims that cost the margin: any is confirmed in at most one case in twenty."""
    found = [
        joint_p_values(claims_with(correlated(rho, (4, 150), seed) + 0.5)).min() <= 0.05
        for seed in range(150)
    ]
    assert np.mean(found) <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / 150)
