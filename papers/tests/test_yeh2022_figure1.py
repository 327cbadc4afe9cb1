"""The bound's figure: terms that add up, a measured gap below them, and where the claims fail."""

from __future__ import annotations

from itertools import product
from math import log, sqrt
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

from isotropy.run import Step
from isotropy_papers import Result, Settings, experiment
from isotropy_papers.yeh2022_figure1 import _schemes, gaps


@pytest.fixture(scope="module")
def result() -> Result:
    return experiment("yeh2022/figure1").run(Settings(test_rows=400), lambda step: None)


def numbers(result: Result) -> dict[tuple[str, str], float]:
    assert all(cell.theirs is None for cell in result.cells)
    found = {(cell.row, cell.column): cell.ours for cell in result.cells}
    assert len(found) == len(result.cells)
    return found


def test_terms_and_bounds(result: Result) -> None:
    found = numbers(result)
    for rank, percent in product((1, 2, 4), (5, 30, 60, 95)):
        row, r = f"rank {rank}, {percent} %", percent / 100
        sharing, confidence = (1 - r) / r * (rank - 1) / 100, -0.4 * log(0.05) / (1 - r)
        assert found[row, "sharing"] == pytest.approx(sharing)
        assert found[row, "confidence"] == pytest.approx(confidence)
        assert found[row, "bound"] == pytest.approx(sharing + confidence)
        assert found[row, "measured"] <= found[row, "corrected"]
    assert found["rank 1, 30 %", "measured"] == 0
    assert found["rank 4, 30 %", "measured"] > 0.05
    assert [found[f"rank {rank}", "best % for the bound"] for rank in (1, 2, 4)] == [1, 8, 14]


def test_where_the_claims_fail(result: Result) -> None:
    found = numbers(result)
    for validation in (1000, 3000, 10000):
        excess = -40 * log(0.05) / validation  # of ‖a‖² above c = 1, |T| = 1
        exact = norm.sf(excess * sqrt(validation) / (2 * sqrt(1 + excess)))
        above = found[f"|T| = 1, |V| = {validation}", "above Eq. 15"]
        assert abs(above - exact) < 4 * sqrt(exact * (1 - exact) / 400)
    assert found["|T| = 1, |V| = 10000", "above Eq. 15"] > 0.15
    assert found["rank 1, 30 %", "Eq. 19"] == 173
    for k in (2, 4, 6):
        assert found[f"rank 2, K = {k}, 80 %", "learned / none"] > 1.5


def test_all_schemes_once() -> None:
    for k, bell in ((1, 1), (2, 2), (4, 15), (6, 203)):
        pairs = {
            frozenset((i, j) for i in range(k) for j in range(i) if labels[i] == labels[j])
            for labels in _schemes(k)
        }
        assert len(pairs) == len(list(_schemes(k))) == bell


def test_gaps_of_two_means_by_hand() -> None:
    theta, train, validation = np.array([0.0, 0.4]), 10, 30
    found = gaps(theta, train, validation, 20000, np.random.default_rng(0))
    assert {round(gap, 12) for gap in found.tolist()} == {0.0, round(0.08 - 1 / 40, 12)}
    # apart costs 1/|T| more; merged where the normal number Z₁ − Z₂ makes up for the rest
    merged = norm.sf((0.08 - 1 / train) / (2 * sqrt(0.08 / validation)))
    assert abs((found > 0).mean() - merged) < 4 * sqrt(merged * (1 - merged) / len(found))


def test_picture_progress_and_seed(result: Result, tmp_path: Path) -> None:
    figure = experiment("yeh2022/figure1")
    assert figure.plot is not None
    assert figure.plot(result, tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    steps: list[Step] = []
    again = figure.run(Settings(test_rows=400), steps.append)
    assert again.cells == result.cells
    assert [step.done for step in steps] == [0, 1, 2, 3]
    assert all(step.total == 4 for step in steps)
    assert figure.run(Settings(test_rows=400, seed=1), steps.append).cells != result.cells
