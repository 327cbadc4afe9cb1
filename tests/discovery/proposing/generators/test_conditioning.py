import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discovery.pieces import (
    ColumnBlocks,
    blocks_of_width,
    condition,
    invisible_combinations,
    rounding_errors,
    unit_problem,
)


def significant(x: np.ndarray, digits: int) -> np.ndarray:
    """Rounded as text is, the slow way."""
    written = [float(f"{value:.{digits - 1}e}") for value in x.ravel()]
    return np.array(written).reshape(x.shape)


@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("kind", ["2 decimals", "4 decimals", "4 digits", "5 digits", "format"])
def test_rounding_is_as_large_as_it_is(kind: str, single: bool) -> None:
    rng = np.random.default_rng(0)
    exact = np.exp(rng.normal(size=(2000, 2)) * 1.5) * [1.0, 30.0]
    if kind == "format":
        seen = exact
    else:
        number = int(kind[0])
        seen = np.round(exact, number) if "decimals" in kind else significant(exact, number)
    if single:
        seen = seen.astype(np.float32).astype(np.float64)
    told = rounding_errors(seen)
    if kind == "format" and not single:
        assert (told <= 2.0**-53 * seen).all()
        return
    for part in (exact < np.median(exact), exact >= np.median(exact)):
        true = np.sqrt(((seen - exact)[part] ** 2).mean())
        assert 0.8 * true < np.sqrt((told[part] ** 2).mean()) < 1.5 * true


def test_whole_numbers_and_zeros() -> None:
    x = np.array([[0.0, 3.0], [0.0, 121.0], [0.0, 7.0]])
    assert rounding_errors(x)[:, 1] == pytest.approx(1 / np.sqrt(12))
    assert (rounding_errors(x)[:, 0] == 0.0).all()


def test_matching_columns_share_shift_and_scale() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(400, 7)) * [1, 1, 100, 3, 1, 1, 90] + [0, 5, 9, 2, 4, 5, 30]
    blocks = ColumnBlocks(((0, 1, 2), (4, 5, 6)), ("a", "b", "c"), (3,), "given")
    z = condition(x, blocks)
    for first, second in zip(*blocks.columns, strict=True):
        assert z.shift[first] == z.shift[second]
        assert z.scale[first] == z.scale[second]
    np.testing.assert_allclose(z.x * z.scale + z.shift, x, atol=1e-12)
    # a and b are alike, c is far from them, the column in no block is like a and b
    assert len({z.scale[i] for i in (0, 1, 3, 4, 5)}) == 1
    assert z.scale[2] == pytest.approx(95, rel=0.1)


def test_an_affine_action_on_blocks_stays_one_action() -> None:
    rng = np.random.default_rng(2)
    x = rng.normal(size=(50, 6)) * np.tile([1, 40, 1000], 2) + np.arange(6)
    z = condition(x, blocks_of_width(6, 2))
    matrix, offset = rng.normal(size=(3, 3)), rng.normal(size=3)
    moved = (x.reshape(50, 2, 3) @ matrix.T + offset).reshape(50, 6)
    moved_z = ((moved - z.shift) / z.scale).reshape(100, 3)
    design = np.hstack([z.x.reshape(100, 3), np.ones((100, 1))])
    fitted, *_ = np.linalg.lstsq(design, moved_z, rcond=None)
    np.testing.assert_allclose(design @ fitted, moved_z, atol=1e-9)


@pytest.mark.parametrize(
    ("sizes", "count"), [((1, 2, 9), 1), ((1, 2, 900), 2), ((1, 8, 60), 3), ((0, 2, 3), 1)]
)
def test_units_are_shared_within_a_factor_of_ten(sizes: tuple[float, ...], count: int) -> None:
    x = np.random.default_rng(3).normal(size=(1000, 3)) * sizes
    z = condition(x, None)
    assert len(set(z.scale.tolist())) == count
    varying = np.array(sizes) > 0
    assert (z.x.std(0)[varying] > 0.09).all()
    assert (z.x.std(0)[varying] < 2.0).all()
    assert np.isfinite(z.x).all()


def test_rounding_comes_in_the_new_units() -> None:
    x = np.round(np.random.default_rng(4).normal(size=(100, 2)) * 50.0, 2)
    z = condition(x, None)
    np.testing.assert_allclose(z.rounding * z.scale, rounding_errors(x))


_RELATION = st.lists(st.integers(-3, 3), min_size=3, max_size=3).filter(any)


@settings(max_examples=25, deadline=None)
@given(_RELATION, st.sampled_from(["double", "single", "3 decimals", "5 digits"]))
def test_a_planted_relation_is_read_back(relation: list[int], kind: str) -> None:
    rng = np.random.default_rng(5)
    free = rng.normal(size=(300, 3)) * 3.0 + 1.0
    x = np.hstack([free, free @ np.array(relation)[:, None] + 7.0])
    if kind == "single":
        x = x.astype(np.float32)
    elif kind != "double":
        x = np.round(x, 3) if "decimals" in kind else significant(x, 5)
    (sentence,) = invisible_combinations(x, ["a", "b", "c", "d"])
    read = dict.fromkeys("abcd", 0.0)
    for part in sentence.removesuffix(" is constant").replace(" − ", " + −").split(" + "):
        number, _, name = part.replace("−", "-").rpartition(" ")
        sign = -1.0 if name.startswith("-") else 1.0
        read[name.lstrip("-")] = sign * float(number or 1.0)
    combined = np.array([read[name] for name in "abcd"])
    planted = np.array([*relation, -1.0])
    assert np.linalg.matrix_rank(np.stack([combined, planted]), tol=1e-9) == 1


def test_sentences() -> None:
    a, b, c = np.random.default_rng(6).normal(size=(3, 200))
    x = np.stack([a, b, a + b, np.full(200, 0.1), c, a / 2 + c / 3, a + np.pi * c], 1)
    assert invisible_combinations(x, ["x0", "x1", "x2", "E", "c", "h", "irr"]) == (
        "E is constant",
        "x2 − x0 − x1 is constant",
        "6 h − 3 x0 − 2 c is constant",
        "irr − x0 − 3.142 c is constant",
    )


def test_shares_in_percent_add_up() -> None:
    shares = np.round(np.random.default_rng(7).dirichlet(np.ones(4), 300) * 100.0, 1)
    (sentence,) = invisible_combinations(shares, list("abcd"))
    assert sentence == "d + a + b + c is constant"


@pytest.mark.parametrize("noise", [0.01, 0.1, 1.0])
def test_noise_is_visible(noise: float) -> None:
    rng = np.random.default_rng(8)
    x = rng.normal(size=(200, 5))
    x[:, 4] = x[:, 0] - x[:, 1] + noise * x[:, 4]
    assert invisible_combinations(x, list("abcde")) == ()
    assert invisible_combinations(x + 1e4, list("abcde")) == ()


def test_few_samples_name_constant_columns_only() -> None:
    x = np.random.default_rng(9).normal(size=(6, 8))
    x[:, 2] = 4.0
    assert invisible_combinations(x, list("abcdefgh")) == ("c is constant",)


def test_a_constant_up_to_rounding_in_single_precision() -> None:
    rng = np.random.default_rng(10)
    angle = rng.uniform(0, 6, 500).astype(np.float32)
    ones = np.cos(angle) ** 2 + np.sin(angle) ** 2
    x = np.stack([ones, angle], 1)
    assert x.dtype == np.float32
    assert invisible_combinations(x, ["one", "angle"]) == ("one is constant",)
    # a small change on a large offset is no rounding in double precision
    assert invisible_combinations(np.stack([1e9 + angle.astype(float), ones], 1), ["t", "one"]) == (
        "one is constant",
    )


def test_units_of_wildly_different_size() -> None:
    x = np.random.default_rng(11).normal(size=(500, 4)) * [1.0, 3e-7, 0.0, 200.0] + 5.0
    sentence = unit_problem(x, ["m", "q", "k", "E"])
    assert sentence is not None
    assert "E has standard deviation" in sentence
    assert "q has 2.9e-07" in sentence
    assert unit_problem(x[:, [0, 2, 3]], ["m", "k", "E"]) is None
    assert unit_problem(x[:, 2:3], ["k"]) is None


@pytest.mark.parametrize("call", [invisible_combinations, unit_problem])
def test_names_must_match(call: object) -> None:
    with pytest.raises(ValueError, match=r"expected 2 names of columns, got 3"):
        call(np.zeros((5, 2)), ["a", "b", "c"])  # type: ignore[operator]


def test_bad_inputs() -> None:
    with pytest.raises(ValueError, match=r"expected inputs of shape \(N, n\), got \(5,\)"):
        condition(np.zeros(5), None)
    with pytest.raises(ValueError, match=r"expected inputs of shape \(N, n\), got \(0, 3\)"):
        condition(np.zeros((0, 3)), None)
    with pytest.raises(ValueError, match=r"expected finite inputs, got nan or .* in column 1"):
        condition([[0.0, np.nan]], None)
    with pytest.raises(ValueError, match=r"nan or infinity in column b"):
        invisible_combinations([[0.0, np.inf]], ["a", "b"])
    with pytest.raises(ValueError, match=r"expected inputs of 6 columns for these blocks, got 5"):
        condition(np.zeros((3, 5)), blocks_of_width(6, 2))
