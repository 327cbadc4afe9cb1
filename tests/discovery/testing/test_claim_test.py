"""The test of a claim: its level and power, and the parts it is made of."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from torch import Tensor, nn

from discovery.pieces import _p_negative_mean, group_average, holm, three_way_split
from isotropy.discovery import ConfirmOptions, claim_test, confirm
from isotropy.equivariance import assert_equivariant
from isotropy.groups import SO, S, SO13p, Z
from isotropy.reps import Scalar, Symmetry, V

MARGIN = 0.05


def losses(
    kind: str, n: int, rng: np.random.Generator, share: float = 1.0, noise: float = 0.5
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Squared losses where a symmetry costs exactly this share of the margin."""
    signal, error, shift = rng.normal(size=(3, n))
    if kind == "heavy":
        error = rng.standard_t(3, size=n) / 3**0.5
    if kind == "squared":
        shift = (shift**2 - 1) / 2**0.5
    if kind == "sparse":
        shift = shift * (rng.random(n) < 0.2) / 0.2**0.5
    shift *= (MARGIN * share) ** 0.5
    error *= noise
    return (error - shift) ** 2, error**2, (error + signal) ** 2


def rejections(kind: str, n: int, noise: float, p_value: object, repeats: int = 1500) -> float:
    rng = np.random.default_rng(1)
    count = 0
    for _ in range(repeats):
        sym, free, const = losses(kind, n, rng, noise=noise)
        count += p_value((sym - free) - MARGIN * (const - free)) <= 0.05  # type: ignore[operator]
    return count / repeats


@pytest.mark.parametrize(
    ("kind", "n", "noise"),
    [
        ("spread", 20, 0.5),
        ("spread", 200, 0.1),
        ("heavy", 50, 0.5),
        ("squared", 200, 0.1),
        ("sparse", 200, 0.1),
    ],
)
def test_level_at_the_boundary(kind: str, n: int, noise: float) -> None:
    # 1500 draws at 5 % stay below 6.5 % with a chance of 99.5 %
    assert rejections(kind, n, noise, _p_negative_mean) <= 0.065


def test_student_alone_does_not_hold_the_level() -> None:
    def student(d: np.ndarray) -> float:
        return float(stats.ttest_1samp(d, 0.0, alternative="less").pvalue)

    assert rejections("squared", 200, 0.1, student) > 0.1


def test_a_symmetry_that_holds_is_confirmed() -> None:
    rng = np.random.default_rng(0)
    tests = [claim_test(*losses("spread", 100, rng, share=0.02)) for _ in range(40)]
    assert np.mean([test.confirmed for test in tests]) >= 0.95
    # at the limits of 95 % each, the interval misses the truth on either side at most so often
    low = np.mean([test.interval[0] > 0.02 * MARGIN for test in tests])
    high = np.mean([test.interval[1] < 0.02 * MARGIN for test in tests])
    assert low <= 0.15
    assert high <= 0.15


def test_effect_is_the_share_of_what_can_be_learned() -> None:
    rng = np.random.default_rng(0)
    base = rng.random(50)
    cost, gap = rng.random(50), 4 * rng.random(50) + 1
    test = claim_test(base + cost, base, base + gap)
    assert test.effect == pytest.approx(cost.mean() / gap.mean())
    low, high = test.interval
    assert low < test.effect < high
    assert test.samples == 50
    helped = claim_test(base - 0.1, base, base + gap)
    assert helped.effect < 0
    assert helped.confirmed


def test_the_interval_ends_where_the_test_turns() -> None:
    rng = np.random.default_rng(3)
    sym, free, const = losses("spread", 200, rng, share=0.02)
    low, high = claim_test(sym, free, const).interval
    assert claim_test(sym, free, const, margin=high).p_value == pytest.approx(0.05, abs=1e-6)
    # a symmetry that helps as much as this one costs
    mirrored = claim_test(2 * free - sym, free, const, margin=-low)
    assert mirrored.p_value == pytest.approx(0.05, abs=1e-6)


def test_where_nothing_is_learnable_nothing_is_claimed() -> None:
    rng = np.random.default_rng(0)
    confirmed = 0
    for _ in range(100):
        target, guess, other = rng.normal(size=(3, 60))
        # a predictor of pure noise, and a symmetrised one that happens to be nearer to zero
        free, const = (target - 0.3 * guess) ** 2, target**2
        test = claim_test((target - 0.1 * other) ** 2, free, const)
        confirmed += test.confirmed
        assert test.p_value >= test.learnable_p_value
    assert confirmed <= 5
    worse = claim_test(free, const + 1.0, const)
    assert math.isnan(worse.effect)
    assert worse.interval == (-math.inf, math.inf)
    assert not worse.confirmed


def test_losses_without_spread() -> None:
    ones, zeros = np.ones(20), np.zeros(20)
    assert claim_test(zeros, zeros, ones).p_value == pytest.approx(0.5**20)
    assert claim_test(ones, zeros, ones).p_value == 1.0
    assert claim_test(zeros, zeros, zeros).p_value == 1.0


def test_an_effect_that_all_rows_agree_on_is_its_own_interval() -> None:
    for seed in range(20):
        free = np.random.default_rng(seed).random(120)
        found = claim_test(free + 777.7, free, free + 1.0, margin=0.05, level=0.05)
        assert found.effect == pytest.approx(777.7)
        assert found.interval == pytest.approx((777.7, 777.7), rel=1e-6)


def test_groups_count_once() -> None:
    rng = np.random.default_rng(0)
    sym, free, const = losses("spread", 40, rng)
    owners = np.repeat([f"patient {i}" for i in range(40)], 3)
    one = claim_test(sym, free, const)
    many = claim_test(*(np.repeat(v, 3) for v in (sym, free, const)), groups=owners)
    assert many.samples == 40
    assert many.p_value == pytest.approx(one.p_value)
    assert many.effect == pytest.approx(one.effect)


def test_bad_losses() -> None:
    good = np.linspace(0, 1, 30)
    with pytest.raises(ValueError, match=r"as many losses of each .* 30 of symmetrised, 29 of fre"):
        claim_test(good, good[1:], good)
    with pytest.raises(ValueError, match=r"expected at least 20 samples to test on, got 19"):
        claim_test(*[good[:19]] * 3)
    with pytest.raises(ValueError, match=r"at least 20 groups of samples to test on, got 2"):
        claim_test(good, good, good, groups=[0, 1] * 15)
    with pytest.raises(ValueError, match=r"a group for each of 30 samples, got \(2,\)"):
        claim_test(good, good, good, groups=[0, 1])
    with pytest.raises(ValueError, match=r"finite losses of free, got 1 of 30 that are not"):
        claim_test(good, np.where(good > 0.99, np.nan, good), good)
    with pytest.raises(ValueError, match=r"losses of constant of shape \(n,\).* got \(30, 1\)"):
        claim_test(good, good, good[:, None])
    for name, value in (("margin", 0.0), ("level", 1.0)):
        with pytest.raises(ValueError, match=rf"expected a {name} between 0 and 1, got {value}"):
            claim_test(good, good, good, **{name: value})


def test_holm_by_hand() -> None:
    # sorted .005 .01 .03 .04 times 4 3 2 1, never falling
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([]).shape == (0,)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=6))
def test_holm_is_the_closed_test(p_values: list[float]) -> None:
    """Holm rejects what Bonferroni rejects in every intersection that a hypothesis is in."""
    k = len(p_values)
    brute = [0.0] * k
    for size in range(1, k + 1):
        for subset in itertools.combinations(range(k), size):
            bonferroni = min(1.0, size * min(p_values[i] for i in subset))
            for i in subset:
                brute[i] = max(brute[i], bonferroni)
    assert holm(p_values) == pytest.approx(brute)


@pytest.mark.parametrize("bad", [[0.5, 1.5], [math.nan], [[0.1]]])
def test_holm_refuses_what_is_no_p_value(bad: list[float]) -> None:
    with pytest.raises(ValueError, match=r"expected a list of p-values between 0 and 1, got"):
        holm(bad)


def net(width_in: int, width_out: int) -> nn.Module:
    return nn.Sequential(
        nn.Linear(width_in, 16), nn.Tanh(), nn.Dropout(), nn.Linear(16, width_out)
    ).double()


def test_group_average_is_brute_force_and_equivariant() -> None:
    model, symmetry = net(4, 4), Symmetry(S(4), V, V)
    x = torch.randn(5, 4, dtype=torch.float64)
    averaged = group_average(model, symmetry, x)
    assert model.training
    model.eval()
    total = torch.zeros(5, 4, dtype=torch.float64)
    for order in itertools.permutations(range(4)):
        places = torch.tensor(order)
        total += model(x[:, places])[:, places.argsort()]
    assert torch.allclose(averaged, total / 24)
    assert_equivariant(lambda rows: group_average(model, symmetry, rows), symmetry=symmetry)


def test_group_average_over_random_elements_repeats() -> None:
    model, symmetry = net(3, 3), Symmetry(SO(3), V, V)
    x = torch.randn(4, 3, dtype=torch.float64)
    first = group_average(model, symmetry, x, elements=8, generator=0)
    assert torch.equal(first, group_average(model, symmetry, x, elements=8, generator=0))
    assert not torch.equal(first, group_average(model, symmetry, x, elements=8, generator=1))
    with pytest.raises(ValueError, match=r"expected a compact group"):
        group_average(net(4, 4), Symmetry(SO13p(), V, V), torch.randn(2, 4))


def linear_task(n: int) -> tuple[Tensor, Tensor, nn.Module]:
    """A cyclic cross-correlation with noise, and a least-squares fit to other samples."""
    rng = torch.Generator().manual_seed(0)
    x = torch.randn(2 * n, 6, dtype=torch.float64, generator=rng)
    kernel = torch.randn(6, dtype=torch.float64, generator=rng)
    y = torch.stack([x.roll(-i, 1) @ kernel for i in range(6)], 1)
    y = y + 0.5 * torch.randn(y.shape, dtype=torch.float64, generator=rng)
    model = nn.Linear(6, 6, bias=False).double()
    model.weight.data = torch.linalg.lstsq(x[:n], y[:n]).solution.T
    return x[n:], y[n:], model


def test_confirm_tells_true_from_false() -> None:
    x, y, model = linear_task(150)
    claims = [Symmetry(Z(6), V, V), Symmetry(S(6), V, V), Symmetry(Z(6), V, 6 * Scalar)]
    tests = confirm(claims, model, x, y, constant=torch.zeros(6))
    assert [test.confirmed for test in tests] == [True, False, False]
    assert tests[0].effect < 0  # averaging takes noise from the fit
    assert tests[0].adjusted_p_value == pytest.approx(3 * tests[0].p_value)
    again = confirm(claims, model, x, y, constant=torch.zeros(6))
    assert again == tests
    assert confirm([], model, x, y, constant=torch.zeros(6)) == []


def test_losses_of_confirm() -> None:
    x = linear_task(150)[0]
    claim = [Symmetry(Z(6), V, V)]
    with torch.no_grad():
        logits = 3 * x
        rng = torch.Generator().manual_seed(1)
        classes = torch.multinomial(logits.softmax(1), 1, generator=rng).squeeze(1)
    flat = torch.zeros(6)
    entropy = ConfirmOptions(loss="cross-entropy")
    by_name = confirm(claim, lambda r: 3 * r, x, classes, constant=flat, options=entropy)
    assert by_name[0].confirmed

    def cross_entropy(prediction: Tensor, y: Tensor) -> Tensor:
        return -prediction.log_softmax(1)[torch.arange(len(y)), y]

    entropy = ConfirmOptions(loss=cross_entropy)
    by_hand = confirm(claim, lambda r: 3 * r, x, classes, constant=flat, options=entropy)
    assert by_hand[0].p_value == pytest.approx(by_name[0].p_value)
    assert by_hand[0].effect == pytest.approx(by_name[0].effect, abs=1e-9)
    flat_targets = confirm(
        [Symmetry(S(6), V, Scalar)], lambda r: r.sum(1, True), x, x.sum(1), constant=[0.0]
    )
    assert flat_targets[0].confirmed


def test_keywords_that_became_options_still_work() -> None:
    x, y, model = linear_task(150)
    claim, flat = [Symmetry(Z(6), V, V)], torch.zeros(6)
    with pytest.warns(DeprecationWarning, match=r"options=ConfirmOptions\(margin=…\)"):
        found = confirm(claim, model, x, y, constant=flat, margin=0.1)  # type: ignore[call-arg]
    assert found == confirm(claim, model, x, y, constant=flat, options=ConfirmOptions(margin=0.1))


def test_confirm_refuses() -> None:
    x, y, model = linear_task(30)
    claim, flat = [Symmetry(Z(6), V, V)], torch.zeros(6)
    with pytest.raises(ValueError, match=r"as many targets as inputs, got 29 and 30"):
        confirm(claim, model, x, y[1:], constant=flat)
    with pytest.raises(ValueError, match=r"constant prediction of shape \(6,\), got \(5,\)"):
        confirm(claim, model, x, y, constant=torch.zeros(5))
    with pytest.raises(ValueError, match=r"expected targets of shape \(30, 6\), got \(30, 5\)"):
        confirm(claim, model, x, y[:, 1:], constant=flat)
    hinge = ConfirmOptions(loss="hinge")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"'squared', 'cross-entropy' or a function, got 'hinge'"):
        confirm(claim, model, x, y, constant=flat, options=hinge)
    with pytest.raises(ValueError, match=r"logits of shape \(n, classes\) and class numbers"):
        confirm(claim, model, x, y, constant=flat, options=ConfirmOptions(loss="cross-entropy"))
    wrong = torch.full((30,), 6)
    with pytest.raises(ValueError, match=r"class numbers from 0 to 5, got 6 to 6"):
        confirm(claim, model, x, wrong, constant=flat, options=ConfirmOptions(loss="cross-entropy"))
    mean = ConfirmOptions(loss=lambda p, t: (p - t).abs().mean())
    with pytest.raises(ValueError, match=r"a loss for each of 30 samples, got shape \(\)"):
        confirm(claim, model, x, y, constant=flat, options=mean)
    y[0, 0] = math.nan
    with pytest.raises(ValueError, match=r"expected finite losses"):
        confirm(claim, model, x, y, constant=flat)


@given(
    st.integers(0, 400),
    st.sampled_from([(0.4, 0.3, 0.3), (0.2, 0.3, 0.5), (0.1, 0.8, 0.1)]),
    st.integers(1, 9),
)
def test_a_split_is_a_partition_or_a_sentence(
    n: int, fractions: tuple[float, float, float], smallest: int
) -> None:
    try:
        parts = three_way_split(n, fractions=fractions, smallest=smallest)
    except ValueError as error:
        needed = int(str(error).split()[3])
        assert n < needed
        least = three_way_split(needed, fractions=fractions, smallest=smallest)
        assert min(map(len, least)) >= smallest
        return
    assert sorted(np.concatenate(parts)) == list(range(n))
    for part, fraction in zip(parts, fractions, strict=True):
        assert len(part) >= smallest
        assert abs(len(part) - fraction * n) <= 1


def test_a_split_repeats_and_depends_on_the_seed() -> None:
    first, same, other = (three_way_split(100, seed=seed)[0] for seed in (0, 0, 1))
    assert np.array_equal(first, same)
    assert not np.array_equal(first, other)


def test_groups_stay_together() -> None:
    owners = np.random.default_rng(0).integers(0, 40, size=500).astype(str)
    parts = three_way_split(500, groups=owners, smallest=5)
    seen = [set(owners[part]) for part in parts]
    assert sum(map(len, seen)) == 40
    assert len(set.union(*seen)) == 40


def test_splits_refuse() -> None:
    with pytest.raises(
        ValueError, match=r"at least 66 samples to find, fit and confirm on, got 65"
    ):
        three_way_split(65)
    with pytest.raises(ValueError, match=r"at least 66 groups of samples .* got 3"):
        three_way_split(300, groups=np.arange(300) % 3)
    with pytest.raises(ValueError, match=r"a group for each of 100 samples, got shape \(99,\)"):
        three_way_split(100, groups=np.arange(99))
    with pytest.raises(ValueError, match=r"three positive fractions that sum to 1, got"):
        three_way_split(100, fractions=(0.5, 0.5))
    with pytest.raises(ValueError, match=r"expected a number of samples, got -1"):
        three_way_split(-1)
