"""Filters that end where rows end: found, tested beside shifts, modelled, saved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from isotropy.discovery import Findings, discover

TAPS = np.array([0.5, 2.0, -1.0])


def filtered(
    rows: int = 500, n: int = 10, stride: int = 1, seed: int = 0, **bent: float
) -> tuple[Any, Any]:
    """Every output is the same filter of the inputs from its own place on; ends stay free."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, n))
    starts = range(0, n - len(TAPS) + 1, stride)
    y = np.stack([x[:, k : k + len(TAPS)] @ TAPS for k in starts], 1)
    y[:, 0] += bent.get("first", 0.0) * x[:, 0]
    return x, y + 0.05 * rng.normal(size=y.shape)


def convolutions(found: Findings) -> list[str]:
    return [one.name for one in found if one.method == "diagonals of a linear map"]


@pytest.mark.parametrize(("stride", "outputs"), [(1, 8), (2, 4)])
def test_a_filter_with_ends_is_found_with_the_weights_that_it_shares(
    stride: int, outputs: int
) -> None:
    found = discover(*filtered(stride=stride), methods="permutations")
    (finding,) = found
    assert finding.name.startswith("partial shift (valid cross-correlation with 3 taps")
    assert finding.labels.shape == (outputs, 10)
    taps = [finding.labels[k, stride * k : stride * k + 3] for k in range(outputs)]
    assert all(np.array_equal(one, taps[0]) for one in taps)
    assert len(np.unique(finding.labels)) == 4  # and what is zero
    shared = finding.model.weight.detach().numpy()
    np.testing.assert_allclose(shared[1, stride : stride + 3], TAPS, atol=0.03)


def test_it_predicts_better_than_a_free_map_and_comes_back(tmp_path: Path) -> None:
    x, y = filtered(rows=150)
    found = discover(x, y, methods="permutations")
    (finding,) = found
    assert finding.comparison.strict < finding.comparison.free
    again = Findings.load(found.save(tmp_path))[0]
    np.testing.assert_array_equal(again.predict(x), finding.predict(x))
    np.testing.assert_allclose(again.predict(x), y, atol=0.5)
    np.testing.assert_array_equal(again.labels, finding.labels)


def test_a_filter_that_goes_all_around_is_a_shift_and_not_this() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(500, 8))
    y = sum(tap * np.roll(x, -k, 1) for k, tap in enumerate(TAPS)) + 0.05 * rng.normal(
        size=(500, 8)
    )
    found = discover(x, y, methods="permutations", fit_models=False)
    assert found.best is not None
    assert found.best.group == "Z(8)"
    assert convolutions(found) == []


def test_weights_of_their_own_at_each_place_are_no_filter() -> None:
    rng = np.random.default_rng(0)
    x, _ = filtered()
    y = np.stack([x[:, k : k + 3] @ rng.normal(size=3) for k in range(8)], 1)
    found = discover(x, y + 0.05 * rng.normal(size=y.shape), methods="permutations")
    assert len(found) == 0


def test_one_place_that_is_another_breaks_it() -> None:
    """The first output counts its first input twice as much: more than the margin may cost."""
    found = discover(*filtered(first=3.0), methods="permutations", fit_models=False)
    assert convolutions(found) == []


def test_one_number_for_each_row_is_no_filter() -> None:
    x, y = filtered()
    found = discover(x, y[:, :1], methods="permutations", fit_models=False)
    assert "sharing along diagonals" not in found.tried
