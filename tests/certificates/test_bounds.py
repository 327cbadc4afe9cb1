"""Bounds against exact tails, closed forms, published figures and what a bound must not do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import FrozenInstanceError
from math import exp, inf, log, nan, sqrt

import mpmath
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.stats import beta, binom

from isotropy.certificates import smallest_bound
from isotropy.certificates._bounds import (
    KINDS,
    binomial_tail,
    catoni,
    finite_hypothesis,
    kl_inverse,
    mcallester,
)

BOUNDS: dict[str, Callable[..., float]] = {
    "binomial_tail": binomial_tail,
    "kl_inverse": kl_inverse,
    "catoni": catoni,
    "finite_hypothesis": finite_hypothesis,
    "mcallester": mcallester,
}
every_kind = pytest.mark.parametrize("kind", list(BOUNDS))


def theorem_a3(errors: int, n: int, bits: float, delta: float, alpha: float, sign: float) -> float:
    """Theorem A.3 as it stands, over continuous λ; the sign of γ in Φ⁻¹ is an argument."""

    def value(log_scale: float) -> float:
        scale = exp(log_scale)
        union = 2 * log(log(alpha**2 * scale) / log(alpha))
        x = errors / n + alpha / scale * (bits * log(2) + log(1 / delta) + union)
        return (1 - exp(sign * scale / n * x)) / (1 - exp(sign * scale / n))

    limits = (0.0, log(50 * n))
    return float(minimize_scalar(value, bounds=limits, method="bounded").fun)


def exact_log_tail(errors: int, n: int, risk: float) -> mpmath.mpf:
    """ln Pr(Bin(n, risk) ≤ errors), term by term in 60 digits."""
    with mpmath.workdps(60):
        r = mpmath.mpf(risk)
        term = total = mpmath.exp(n * mpmath.log1p(-r))
        for j in range(errors):
            term = term * (n - j) / (j + 1) * r / (1 - r)
            total += term
        return mpmath.log(total)


def exact_divergence(p: mpmath.mpf, q: mpmath.mpf) -> mpmath.mpf:
    parts = [a * mpmath.log(a / b) for a, b in ((p, q), (1 - p, 1 - q)) if a]
    return mpmath.fsum(parts)


# --- published figures


def test_theorem_a3_corrected_gives_the_published_figures() -> None:
    one = theorem_a3(2400, 60_000, 3113, 0.05, 1.0001, -1)
    other = theorem_a3(3000, 60_000, 2731, 0.05, 1.0001, -1)
    assert one == pytest.approx(0.1158, abs=6e-5)
    assert other == pytest.approx(0.1245, abs=6e-5)
    # the grid alone is what the theorem follows from, and a little better
    assert one - 1e-5 < catoni(2400, 60_000, 3113, 0.05, alpha=1.0001) <= one
    assert other - 1e-5 < catoni(3000, 60_000, 2731, 0.05, alpha=1.0001) <= other


def test_other_kinds_give_the_published_figures() -> None:
    assert kl_inverse(3000, 60_000, 2731, 0.05) == pytest.approx(0.1241, abs=6e-5)
    assert mcallester(3000, 60_000, 2731, 0.05) == pytest.approx(0.1761, abs=6e-5)
    assert kl_inverse(52_800, 60_000, 2800, 0.05) == pytest.approx(0.946, abs=6e-4)


def test_theorem_a3_as_printed_is_no_bound() -> None:
    printed = theorem_a3(2400, 60_000, 3113, 0.05, 1.0001, +1)
    assert printed < 1e-15
    assert catoni(2400, 60_000, 3113, 0.05) > 0.11


# --- exact twins


@pytest.mark.parametrize(
    ("errors", "n", "bits"),
    [
        pytest.param(1, 2, 0.0, id="tiny"),
        pytest.param(3, 10, 5.0, id="small"),
        pytest.param(9, 10, 20.0, id="nearly-all"),
        pytest.param(50, 100, 1.0, id="half"),
        pytest.param(7, 1000, 2000.0, id="few-errors"),
        pytest.param(2400, 60_000, 3113.0, id="mnist"),
        pytest.param(3000, 60_000, 0.0, id="no-bits"),
        pytest.param(3000, 60_000, 100_000.0, id="many-bits"),
        pytest.param(2000, 10_000_000, 3113.0, id="ten-million"),
        pytest.param(30_000, 10_000_000, 0.0, id="terms-left-out"),
    ],
)
def test_the_binomial_tail_against_sixty_digits(errors: int, n: int, bits: float) -> None:
    value = binomial_tail(errors, n, bits, 0.05)
    target = mpmath.log(mpmath.mpf("0.05")) - bits * mpmath.log(2)
    assert exact_log_tail(errors, n, value) < target
    assert exact_log_tail(errors, n, value * (1 - 1e-8)) > target


def test_terms_left_out_of_the_tail_are_paid(monkeypatch: pytest.MonkeyPatch) -> None:
    full = binomial_tail(400, 1000, 1, 0.05)
    monkeypatch.setattr("isotropy.certificates._binomial_tail._MOST_TERMS", 5)
    short = binomial_tail(400, 1000, 1, 0.05)
    assert full < short < full + 0.01


def test_the_tail_of_too_many_samples_falls_back_on_chernoff() -> None:
    n = 10**15
    found, less = binomial_tail(n // 20, n, 3000, 0.05), kl_inverse(n // 20, n, 2900, 0.05)
    assert less < found <= kl_inverse(n // 20, n, 3000, 0.05)


@pytest.mark.parametrize("delta", [0.5, 0.05, 1e-6, 1e-200])
@pytest.mark.parametrize("n", [1, 2, 17, 1000, 10_000_000])
def test_the_binomial_tail_against_the_beta_distribution(n: int, delta: float) -> None:
    for errors in sorted({0, min(1, n - 1), n // 10, n // 2, n - 1}):
        expected = beta.isf(delta, errors + 1, n - errors)
        found = binomial_tail(errors, n, 0, delta)
        assert found == pytest.approx(expected, rel=1e-6), errors
        assert found >= expected * (1 - 1e-9), errors


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_the_binomial_tail_is_never_rounded_down(data: st.DataObject) -> None:
    n = data.draw(st.integers(1, 400), "n")
    errors = data.draw(st.integers(0, n - 1), "errors")
    bits = data.draw(st.floats(0, 3000), "bits")
    delta = data.draw(st.floats(1e-12, 0.5), "delta")
    value = binomial_tail(errors, n, bits, delta)
    assume(value < 1)
    target = mpmath.log(mpmath.mpf(delta)) - mpmath.mpf(bits) * mpmath.log(2)
    assert exact_log_tail(errors, n, value) <= target
    less = mpmath.mpf(value) - 1e-6 * min(value, 1 - value) - 2e-14
    assert less <= 0 or exact_log_tail(errors, n, less) > target


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_the_kl_inverse_against_its_definition(data: st.DataObject) -> None:
    n = data.draw(st.integers(1, 10_000_000), "n")
    errors = data.draw(st.integers(0, n - 1), "errors")
    bits = data.draw(st.floats(0, 5000), "bits")
    delta = data.draw(st.floats(1e-12, 0.999), "delta")
    value = kl_inverse(errors, n, bits, delta)
    assume(value < 1 - 1e-9)
    with mpmath.workdps(60):
        complexity = mpmath.mpf(bits) * mpmath.log(2) + mpmath.log(2 * mpmath.sqrt(n) / delta)
        rate = mpmath.mpf(errors) / n
        assert exact_divergence(rate, mpmath.mpf(value)) >= complexity / n
        less = rate + (mpmath.mpf(value) - rate) * (1 - mpmath.mpf("1e-8"))
        assert exact_divergence(rate, less) < complexity / n


def test_maurers_constant_holds_from_one_sample_on() -> None:
    for n in range(1, 60):
        p = np.arange(n + 1) / n
        mean = float(binom.pmf(np.arange(n + 1), n, p).sum())  # Σ C(n,k) (k/n)^k (1-k/n)^(n-k)
        assert mean <= 2 * sqrt(n) + 1e-12, n


@pytest.mark.parametrize("alpha", [1.01, 1.05, 2.0, 1e9])
@pytest.mark.parametrize(
    ("errors", "n", "bits"), [(0, 50, 3.0), (9, 100, 12.0), (240, 6000, 300.0)]
)
def test_catoni_against_a_loop_in_sixty_digits(
    errors: int, n: int, bits: float, alpha: float
) -> None:
    with mpmath.workdps(60):
        best = mpmath.mpf(1)
        for k in range(int(log(1e4 * n) / log(alpha)) + 2):
            scale = mpmath.mpf(alpha) ** k
            union = mpmath.log((k + 1) * (k + 2))
            complexity = bits * mpmath.log(2) - mpmath.log(mpmath.mpf(0.05)) + union
            x = mpmath.mpf(errors) / n + complexity / scale
            best = min(best, (1 - mpmath.exp(-scale * x / n)) / (1 - mpmath.exp(-scale / n)))
        found = catoni(errors, n, bits, 0.05, alpha=alpha)
        assert best <= found <= best * (1 + mpmath.mpf("1e-13"))


def test_the_shares_of_catonis_grid_sum_to_one() -> None:
    for last in (0, 5, 1000):
        total = sum(1 / ((k + 1) * (k + 2)) for k in range(last + 1))
        assert total == pytest.approx(1 - 1 / (last + 2))


@settings(max_examples=100, deadline=None)
@given(
    st.integers(1, 10**6),
    st.floats(0, 1),
    st.floats(0, 5000),
    st.floats(1.0001, 3.0),
    st.floats(0, 20),
)
def test_theorem_a3_at_any_scale_is_not_below_the_grid(
    n: int, rate: float, bits: float, alpha: float, log_scale: float
) -> None:
    errors, scale = int(rate * n), exp(log_scale)
    union = 2 * log(log(alpha**2 * scale) / log(alpha))
    x = errors / n + alpha / scale * (bits * log(2) + log(20) + union)
    value = np.expm1(-scale / n * x) / np.expm1(-scale / n)
    # the theorem says nothing where the argument of Φ⁻¹ is above 1
    assert catoni(errors, n, bits, 0.05, alpha=alpha) <= min(1.0, value) + 1e-12


def test_square_roots() -> None:
    assert finite_hypothesis(10, 100, 8, 0.1) == pytest.approx(0.1 + sqrt(log(2560) / 200))
    assert mcallester(10, 100, 8, 0.1) == pytest.approx(0.1 + sqrt((log(256_000) + 2) / 199))
    assert finite_hypothesis(0, 2, 8, 0.1) == 1


# --- what a bound must do


@every_kind
@pytest.mark.parametrize("bits", [0, 1, 7])
@pytest.mark.parametrize("n", [1, 3, 40])
def test_the_chance_of_failing_is_what_is_paid_for(kind: str, n: int, bits: int) -> None:
    delta = 0.2
    values = np.array([BOUNDS[kind](errors, n, bits, delta) for errors in range(n + 1)])
    # failing is likeliest just above one of the values
    for risk in [*np.linspace(0, 1, 101), *np.nextafter(values, 2).clip(max=1)]:
        fails = float(binom.pmf(np.flatnonzero(values < risk), n, risk).sum())
        assert fails <= delta * 2.0**-bits + 1e-12, risk


def test_the_binomial_tail_wastes_nothing() -> None:
    for errors in range(40):
        risk = np.nextafter(binomial_tail(errors, 40, 7, 0.2), 2)
        assert binom.cdf(errors, 40, risk) == pytest.approx(0.2 * 2.0**-7, rel=1e-9)


arguments = st.integers(1, 10**6).flatmap(
    lambda n: st.tuples(st.integers(0, n), st.just(n), st.floats(0, 10_000), st.floats(1e-9, 0.999))
)


@every_kind
@settings(max_examples=60, deadline=None)
@given(given_=arguments, more=st.floats(0, 1))
def test_monotone(kind: str, given_: tuple[int, int, float, float], more: float) -> None:
    errors, n, bits, delta = given_
    bound = BOUNDS[kind]
    value = bound(errors, n, bits, delta)
    assert errors / n <= value <= 1
    rounding = 1e-9
    assert bound(errors + int(more * (n - errors)), n, bits, delta) >= value - rounding
    assert bound(errors, n, bits + 100 * more, delta) >= value - rounding
    assert bound(errors, n, bits, delta * (1 - more / 2)) >= value - rounding


@settings(max_examples=100, deadline=None)
@given(arguments)
def test_which_kind_is_smaller(given_: tuple[int, int, float, float]) -> None:
    errors, n, bits, delta = given_
    assume(delta * 2.0**-bits <= 0.5)
    values = {kind: bound(*given_) for kind, bound in BOUNDS.items()}
    chernoff = chernoff_bound(errors, n, bits * log(2) - log(delta))
    rounding = 1e-12
    assert values["binomial_tail"] <= chernoff + rounding
    assert chernoff <= values["kl_inverse"] + rounding
    assert chernoff <= values["catoni"] + rounding
    assert chernoff <= values["finite_hypothesis"] + rounding
    assert values["finite_hypothesis"] <= values["mcallester"] + rounding


def chernoff_bound(errors: int, n: int, complexity: float) -> float:
    """Bisects the risk itself."""
    rate = errors / n
    low, high = rate, 1.0
    for _ in range(100):
        risk = (low + high) / 2
        wrong = rate * log(rate / risk) if rate else 0.0
        right = (1 - rate) * log((1 - rate) / (1 - risk)) if rate < 1 and risk < 1 else 0.0
        low, high = (risk, high) if n * (wrong + right) < complexity else (low, risk)
    return high


@every_kind
def test_edges(kind: str) -> None:
    bound = BOUNDS[kind]
    assert bound(10, 10, 3, 0.05) == 1
    assert bound(1, 1, 0, 0.05) == 1
    assert 0.95 <= bound(0, 1, 0, 0.05) <= 1
    assert bound(5, 100, 1e9, 0.05) == pytest.approx(1)
    assert 0 < bound(0, 10_000_000, 0, 0.05) < 0.01
    assert bound(0, 100, 0, 1e-300) <= 1
    assert bound(np.int64(3), np.int32(10), np.float32(1), 0.05) == bound(3, 10, 1, 0.05)


def test_no_errors_in_closed_form() -> None:
    assert binomial_tail(0, 20, 3, 0.04) == pytest.approx(1 - (0.04 / 8) ** (1 / 20), rel=1e-13)
    assert kl_inverse(0, 16, 3, 0.04) == pytest.approx(1 - (0.04 / 64) ** (1 / 16), rel=1e-13)


def test_more_than_half_counts_as_half() -> None:
    half = binomial_tail(3, 10, 0, 0.5)
    assert binomial_tail(3, 10, 0, 0.9) == pytest.approx(half, rel=1e-14)


# --- the smallest


def test_the_choice_is_paid() -> None:
    for kinds in (KINDS, ("catoni", "kl_inverse")):
        bound = smallest_bound(240, 6000, 300, 0.05, kinds)
        shares = {kind: BOUNDS[kind](240, 6000, 300, 0.05 / len(kinds)) for kind in kinds}
        assert bound.values == shares
        assert (bound.value, bound.kind) == min((v, k) for k, v in shares.items())
        assert (bound.errors, bound.n, bound.bits, bound.delta) == (240, 6000, 300, 0.05)


@every_kind
def test_one_kind_has_nothing_to_pay(kind: str) -> None:
    bound = smallest_bound(240, 6000, 300, 0.05, kinds=[kind])
    assert bound.value == BOUNDS[kind](240, 6000, 300, 0.05)
    assert smallest_bound(240, 6000, 300, 0.05, kinds=kind) == bound


def test_every_kind_has_its_function() -> None:
    assert set(KINDS) == set(BOUNDS)


def test_a_bound_does_not_change() -> None:
    bound = smallest_bound(1, 10, 0, 0.05)
    with pytest.raises(FrozenInstanceError):
        bound.value = 0.0  # type: ignore[misc]
    assert hash(bound) == hash(smallest_bound(1, 10, 0, 0.05))


# --- bad input


@pytest.mark.parametrize(
    ("arguments", "error", "sentence"),
    [
        pytest.param((1, 0, 0, 0.1), ValueError, r"n to be at least 1, got 0", id="no-samples"),
        pytest.param((-1, 9, 0, 0.1), ValueError, r"errors from 0 to n = 9, got -1", id="minus"),
        pytest.param((10, 9, 0, 0.1), ValueError, r"errors from 0 to n = 9, got 10", id="many"),
        pytest.param((1, 9, -1, 0.1), ValueError, r"bits .* at least 0, got -1\.0", id="bits"),
        pytest.param((1, 9, inf, 0.1), ValueError, r"bits to be finite .* got inf", id="inf"),
        pytest.param((1, 9, nan, 0.1), ValueError, r"bits to be finite .* got nan", id="nan"),
        pytest.param((1, 9, 0, 0), ValueError, r"delta between 0 and 1, .* got 0", id="zero"),
        pytest.param((1, 9, 0, 1), ValueError, r"delta between 0 and 1, .* got 1", id="one"),
        pytest.param((1, 9, 0, nan), ValueError, r"delta between .* got nan", id="delta-nan"),
        pytest.param((0.1, 9, 0, 0.1), TypeError, r"an integer as errors, got 0\.1", id="rate"),
        pytest.param((1, 9.0, 0, 0.1), TypeError, r"an integer as n, got 9\.0", id="n-float"),
        pytest.param((1, 9, "8", 0.1), TypeError, r"a number as bits, got '8'", id="text"),
        pytest.param((1, 9, 0, None), TypeError, r"a number as delta, got None", id="none"),
    ],
)
@pytest.mark.parametrize("kind", [*BOUNDS, "smallest"])
def test_bad_arguments(
    kind: str, arguments: tuple[int, int, float, float], error: type[Exception], sentence: str
) -> None:
    bound = smallest_bound if kind == "smallest" else BOUNDS[kind]
    with pytest.raises(error, match=sentence):
        bound(*arguments)


def test_bad_kinds() -> None:
    with pytest.raises(ValueError, match=r"kinds among binomial_tail, kl_inverse, .* got 'chern'"):
        smallest_bound(1, 9, 0, 0.1, kinds=["catoni", "chern"])
    with pytest.raises(ValueError, match=r"at least one kind and none twice, got \[\]"):
        smallest_bound(1, 9, 0, 0.1, kinds=[])
    with pytest.raises(ValueError, match=r"none twice, got \['catoni', 'catoni'\]"):
        smallest_bound(1, 9, 0, 0.1, kinds=["catoni", "catoni"])


@pytest.mark.parametrize("alpha", [1.0, 0.5, 1.00001, inf, nan])
def test_bad_alpha(alpha: float) -> None:
    with pytest.raises(ValueError, match=r"alpha to be finite and at least 1\.0001, got"):
        catoni(1, 9, 0, 0.1, alpha=alpha)
