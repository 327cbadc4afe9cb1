"""Sums of numbers: tiny runs of the experiments, and what their baselines are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from isotropy.run import Step
from isotropy.sharing import BilevelOptions, ModuleSharingOptions, learn_module_sharing
from isotropy_papers import Settings, _sums_of_numbers, experiment
from isotropy_papers._sums_of_numbers import SumRuns


def ignore(step: Step) -> None:
    pass


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ISOTROPY_CACHE", str(tmp_path / "cache"))


def test_a_tiny_figure_7(tmp_path: Path) -> None:
    settings = Settings(
        sizes=(2, 3), epochs=5, test_rows=50, models=("No sharing", "Oracle", "Augerino"), seeds=2
    )
    result = experiment("yeh2022/figure7").run(settings, ignore)
    ours = {(cell.row, cell.column): cell.ours for cell in result.cells}
    assert len(ours) == len(result.cells) == 2 * 2 * (2 + 2 + 1)
    for length, signed_blocks in ((2, 2), (3, 2)):
        assert ours["sum Oracle", f"PD, length {length}"] == 0
        assert ours["signed sum Oracle", f"PD, length {length}"] == 0
        assert ours["sum No sharing", f"PD, length {length}"] == length - 1
        assert ours["signed sum No sharing", f"PD, length {length}"] == length - signed_blocks
    assert all(cell.interval is not None and cell.theirs is None for cell in result.cells)
    plot = experiment("yeh2022/figure7").plot
    assert plot is not None
    assert plot(result, tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_sharing_is_found_and_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    search = BilevelOptions(inner_steps=5, outer_steps=20, outer_rate=0.2, terms=3)

    def quick(*given: Any, options: ModuleSharingOptions, **more: Any) -> Any:
        options = replace(options, restarts=1, search=search, folds=3)
        return learn_module_sharing(*given, options=options, **more)

    monkeypatch.setattr(_sums_of_numbers, "learn_module_sharing", quick)
    runs = SumRuns(2, False, [0], steps=200, test_rows=2000)
    ours, oracle, free = (runs.measured(name) for name in ("Ours", "Oracle", "No sharing"))
    assert ours["PD"] == oracle["PD"] == [0.0]
    assert ours["l2"][0] < 0.5 * free["l2"][0]
    assert ours["l2"] == oracle["l2"]  # the same partition, trained from the same weights
    # sums of two numbers vary by 2 · (9² − 1) / 12
    assert free["l2"][0] < 0.05 * 2 * 80 / 12


def test_errors_are_in_the_units_of_the_sums() -> None:
    runs = SumRuns(3, True, [0, 1], steps=1, test_rows=500)
    for error, seed in zip(runs.measured("Oracle")["l2"], (0, 1), strict=True):
        task = runs._task(seed)
        sums = task.test[1].numpy()
        # an untrained network is near the mean
        assert error == pytest.approx(np.mean((sums - task.offset) ** 2), rel=0.3)


def test_a_tiny_table_a1() -> None:
    settings = Settings(epochs=2, test_rows=20, models=("Augerino 3", "Augerino 15"))
    result = experiment("yeh2022/tableA1").run(settings, ignore)
    assert [(cell.row, cell.theirs) for cell in result.cells] == [
        ("Augerino 3", 0.03498),
        ("Augerino 15", 0.02567),
    ]
    shorter = Settings(epochs=2, test_rows=20, models=("Augerino 3",), sizes=(4,))
    assert experiment("yeh2022/tableA1").run(shorter, ignore).cells[0].theirs is None
    with pytest.raises(ValueError, match=r"expected one length, got 2"):
        experiment("yeh2022/tableA1").run(Settings(sizes=(2, 4)), ignore)
