"""Tables of Basu et al. 2021, read from what is stored or trained anew, and chosen from by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from idx_files import write_idx
from isotropy.groups import GRID_TRANSFORMATIONS, GridTransformation
from isotropy.nn import GridNetwork
from isotropy.run import Step
from isotropy.search import SearchSpace, State
from isotropy_papers import Result, Settings, _search_tables, experiment
from isotropy_papers._search_published import CODE_ORDER, TABLE_4, TABLE_5, TABLE_9, groups_of
from isotropy_papers._search_selection import (
    best_on_validation,
    mean_accuracy,
    mean_difference,
    scores,
)
from isotropy_papers._search_tables import own_plan, published_plan, stored_table
from isotropy_papers.grid_images import AUGMENTATIONS
from isotropy_papers.score_table import ScoreTable


def ignore(step: Step) -> None:
    pass


def run(id: str, **settings: Any) -> Result:
    result = experiment(f"basu2021/{id}").run(Settings(**settings), ignore)
    assert len({(cell.row, cell.column) for cell in result.cells}) == len(result.cells)
    for cell in result.cells:
        low, high = cell.interval or (cell.ours, cell.ours)
        assert low <= cell.ours <= high
    return result


def ours(result: Result) -> dict[tuple[str, str], float]:
    return {(cell.row, cell.column): cell.ours for cell in result.cells}


@pytest.fixture
def digits(tmp_path: Path) -> Path:
    """A folder with images in place of MNIST."""
    rng = np.random.default_rng(0)
    folder = tmp_path / "data" / "mnist"
    folder.mkdir(parents=True)
    for prefix, rows in (("train", 120), ("t10k", 60)):
        images = rng.integers(0, 256, (rows, 28, 28), dtype=np.uint8)
        write_idx(folder / f"{prefix}-images-idx3-ubyte", images)
        write_idx(folder / f"{prefix}-labels-idx1-ubyte", np.arange(rows, dtype=np.uint8) % 10)
    return folder.parent


# --- counts -----------------------------------------------------------------------------------


def orbits(name: str, step: int | None) -> int:
    """Orbits of a cyclic group on both weight matrices, by Burnside's lemma."""
    image, hidden = (p.numpy() for p in GridTransformation(name, step).powers(28, 20))
    fixed = [np.sum(p == np.arange(p.shape[1]), axis=1) for p in (image, hidden)]
    return int(sum(fixed[1] * (fixed[0] + fixed[1]))) // len(image)


@pytest.fixture(scope="module")
def table3() -> Result:
    return run("table3")


def test_table_3_counts_orbits(table3: Result) -> None:
    found = ours(table3)
    for number, name in enumerate(CODE_ORDER, 1):
        step = 4 if "translation" in name else None
        counted = orbits(name, step) + 800 + 4010
        assert found["millions, code order", f"Eq{number}"] == counted / 1e6
        assert found["thousands trained, code order", f"Eq{number}"] == (counted - 798) / 1e3
    assert found["millions, code order", "Eq0"] == (784 * 400 + 400 * 400 + 4810) / 1e6
    for column in ("Eq4", "Eq5"):
        assert found["different hidden units, step 4", column] == 80
        assert found["different hidden units, own step", column] == 400


def test_table_3_agrees_in_the_order_of_the_code_only(table3: Result) -> None:
    for row, agree in (("millions, code order", 13), ("millions, by name", 8)):
        cells = [cell for cell in table3.cells if cell.row == row]
        cut = [cell.theirs is not None and 0 <= cell.ours - cell.theirs < 0.01 for cell in cells]
        assert sum(cut) == agree
    assert any("13 of 13 counts agree" in note for note in table3.notes)


@pytest.mark.parametrize(
    ("array", "printed", "by_code", "by_name"),
    [
        ("001000001001", "0.09", 93_610, 34_410),
        ("000000110000", "0.18", 182_410, 123_210),
        ("010001000001", "0.06", 64_010, 34_410),
        ("100000000010", "0.03", 34_410, 19_610),
    ],
)
def test_printed_arrays_are_in_the_order_of_the_code(
    array: str, printed: str, by_code: int, by_name: int
) -> None:
    assert (array, printed) in [one for rows in TABLE_9.values() for one in rows]
    for order, expected in ((CODE_ORDER, by_code), (tuple(GRID_TRANSFORMATIONS), by_name)):
        network = GridNetwork((1, 28, 28), groups_of(array, order), published=True)
        assert sum(p.numel() for p in network.parameters()) + 798 == expected
    assert by_code // 10_000 == round(100 * float(printed)) != by_name // 10_000


@pytest.mark.parametrize(("table", "agree"), [("table9", 30), ("table10", 29)])
def test_tables_9_and_10(table: str, agree: int) -> None:
    result = run(table)
    assert len(result.cells) == 6 * 5 * 13
    assert result.notes[-1].startswith(f"of 30 printed arrays {agree} have")
    base = {"table9": "mnist", "table10": "fashion-mnist"}[table]
    stored = stored_table(published_plan(base, "Aug5", 4000), Settings())
    # the mean over seeds of the best epoch, without the library's selection
    mean = np.mean([stored.validation[:, k].max(1) for k in range(stored.seeds)], axis=0)
    best = stored.networks[int(mean.argmax())]
    found = ours(result)
    for name in GRID_TRANSFORMATIONS:
        assert found["Aug5, 1", name] == (name in best.groups)


# --- accuracies -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("table", "printed", "gap"), [("table4", TABLE_4, 0.8), ("table5", TABLE_5, 1.3)]
)
def test_tables_4_and_5_are_like_the_printed_ones(
    table: str, printed: dict[str, tuple[float, ...]], gap: float
) -> None:
    result = run(table)
    assert len(result.cells) == 13 * 13
    for cell in result.cells:
        assert cell.theirs == printed[cell.row][int(cell.column.removeprefix("Eq"))]
    gaps = [abs(cell.ours - cell.theirs) for cell in result.cells if cell.theirs is not None]
    assert np.mean(gaps) < gap


def test_columns_of_table_4_fit_less_well_in_the_order_of_the_names() -> None:
    # On the other images no column of a scramble stands out of the noise: counts have to tell.
    found, printed = ours(run("table4")), TABLE_4
    scrambles = range(6, 13)
    column = {name: f"Eq{k}" for k, name in enumerate(CODE_ORDER, 1)}
    names = ["", *GRID_TRANSFORMATIONS]
    by_code, by_name = (
        np.mean([abs(found[row, one(k)] - printed[row][k]) for row in printed for k in scrambles])
        for one in (lambda k: f"Eq{k}", lambda k: column[names[k]])
    )
    assert by_code < by_name


def test_tables_4_shows_the_best_epoch() -> None:
    stored = stored_table(published_plan("mnist", "IAug7", 10_000, "singles"), Settings())
    number = stored.networks.index(State(("horizontal scramble",)))
    best = np.mean([max(stored.test[number, k]) / 100 for k in range(stored.seeds)])
    found = ours(run("table4", models=("IAug7",)))
    assert len(found) == 13
    assert found["IAug7", "Eq12"] == pytest.approx(best)
    assert found["IAug7", "Eq12"] > found["IAug7", "Eq7"]  # which the paper's names would match


@pytest.mark.parametrize(("table", "base"), [("table6", "mnist"), ("table7", "fashion-mnist")])
def test_what_is_found_is_better_than_a_single_group(table: str, base: str) -> None:
    result = run(table)
    found = ours(result)
    assert len(found) == 6 * 15 + 6 * 5
    low = {c.row: c.interval[0] for c in result.cells if "found -" in c.column and c.interval}
    for number in range(1, 6):
        row = f"Aug{number} ours"
        assert found[row, "found"] > found[row, "best single"] > found[row, "no group"]
        assert low[row] > 0
        assert found[f"Aug{number}", "AEN"] > found[f"Aug{number}", "Eq0"]
    # the choice for one data set again, in plain loops
    short = stored_table(own_plan(base, "Aug3", 4000), Settings())
    long = stored_table(own_plan(base, "Aug3", 10_000), Settings(), last_only=True)
    mean = {one: short.validation[k, :, -1].mean() for k, one in enumerate(short.networks)}
    again = sorted(mean, key=lambda one: -mean[one])[:20]
    numbers = [long.networks.index(one) for one in again]
    best = max(numbers, key=lambda k: long.validation[k].sum())
    assert found["Aug3 ours", "found"] == pytest.approx(long.test[best].mean() / 100)
    true = [
        k for k, one in enumerate(long.networks) if set(AUGMENTATIONS["Aug3"]) <= set(one.groups)
    ]
    smallest = min(true, key=lambda k: len(long.networks[k].groups))
    assert found["Aug3 ours", "groups of the images"] == pytest.approx(
        long.test[smallest].mean() / 100
    )


# --- selection --------------------------------------------------------------------------------


def planted() -> ScoreTable:
    space = SearchSpace((1, 8, 8), ("horizontal flip", "vertical flip"), ((4,),))
    validation = np.array([[[5, 3], [7, 1]], [[4, 6], [4, 5]], [[2, 9], [1, 0]], [[0, 0], [1, 1]]])
    test = validation[::-1].copy()
    return ScoreTable("planted", space, tuple(space.states()), validation, test, 10, 10, np.ones(4))


def test_selection_by_hand() -> None:
    validation, test = scores(planted(), best_epoch=True)
    np.testing.assert_allclose(validation, [[50, 70], [60, 50], [90, 10], [0, 10]])
    np.testing.assert_allclose(test, [[0, 10], [90, 0], [60, 40], [50, 70]])
    np.testing.assert_allclose(scores(planted(), best_epoch=False)[0][0], [30, 10])
    assert best_on_validation(planted(), 2, best_epoch=True) == [0, 1]
    assert best_on_validation(planted(), 2, best_epoch=False) == [1, 2]


def test_intervals_cover_what_they_should() -> None:
    rng = np.random.default_rng(0)
    rows, seeds, draws = 200, 4, 2000
    covered = 0
    for _ in range(draws):
        # a test set makes all seeds' accuracies err together, each seed errs by itself
        shared = 80 + 100 * (rng.binomial(rows, 0.8) / rows - 0.8)
        _, (low, high) = mean_accuracy(shared + rng.normal(0, 1.5, seeds), rows)
        covered += low <= 80 <= high
    assert 0.94 < covered / draws <= 1


def test_an_interval_of_a_difference_by_hand() -> None:
    one, other = np.array([80.0, 82.0, 84.0]), np.array([70.0, 71.0, 75.0])
    mean, (low, high) = mean_difference(one, other, 1000)
    seeds = stats.sem(one - other) * stats.t.ppf(0.975, 2)
    binomial = 1.96**2 * (82 * 18 + 72 * 28) / 1000
    assert mean == pytest.approx(10)
    assert high - mean == pytest.approx(np.sqrt(seeds**2 + binomial))
    assert mean - low == pytest.approx(high - mean)


# --- trained anew -----------------------------------------------------------------------------


def test_a_full_run_trains_keeps_and_takes_up_its_tables(
    digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_search_tables, "_ROWS", 60)
    few: dict[str, Any] = {"full": True, "data": digits, "epochs": 2, "seeds": 1}
    few |= {"out": tmp_path / "out", "models": ("IAug2",)}
    steps: list[Step] = []
    made = experiment("basu2021/table4").run(Settings(**few), steps.append)
    assert [step.message for step in steps] == [
        published_plan("mnist", "IAug2", 10_000, "singles").name
    ]
    kept = ScoreTable.load(tmp_path / "out" / f"{steps[0].message}.safetensors")
    assert kept.test.shape == (13, 1, 2)
    assert (kept.validation_rows, kept.test_rows) == (60, 60)
    again = experiment("basu2021/table4").run(Settings(**few), steps.append)
    assert len(steps) == 1
    assert again.cells == made.cells


def test_all_states_are_trained_where_there_is_a_folder_for_them(
    digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_search_tables, "_ROWS", 60)
    top = State(tuple(GRID_TRANSFORMATIONS))
    networks = (State(), State(("rotation",)), State(("vertical flip",)), top)
    monkeypatch.setattr(_search_tables, "_networks", lambda space: networks)
    few: dict[str, Any] = {"full": True, "data": digits, "epochs": 1, "seeds": 2}
    few |= {"models": ("mnist Aug1",)}
    with pytest.raises(ValueError, match=r"expected a folder for the tables of a full run"):
        experiment("basu2021/states").run(Settings(**few), ignore)
    result = run("states", out=tmp_path / "out", **few)
    assert len(result.cells) == 4 * 3
    assert result.notes[0].startswith("the five best of 4 networks, 2 seeds, 1 epochs")
    kept = ScoreTable.load(tmp_path / "out" / "mnist-aug1-4000.safetensors")
    assert kept.networks == networks
    again = run("states", out=tmp_path / "out", **few)
    assert ours(again) == ours(result)
    for other in ({"seeds": 3}, {"epochs": 2}, {"full": False}):
        with pytest.raises(ValueError, match=r"expected a table of .* seeds .*, got 2 and 1 of"):
            run("states", out=tmp_path / "out", **(few | other))


def test_stored_states() -> None:
    result = run("states", models=("fashion-mnist Aug4",))
    stored = stored_table(own_plan("fashion-mnist", "Aug4", 4000), Settings())
    best = stored.validation[:, :, -1].mean(1)
    assert ours(result)["fashion-mnist Aug4, 1", "validation"] == pytest.approx(best.max() / 100)
    assert str(stored.networks[int(best.argmax())]) in result.notes[-1]


def test_what_is_not_there_is_said() -> None:
    with pytest.raises(ValueError, match=r"got none of 'mnist-aug1-7'"):
        stored_table(own_plan("mnist", "Aug1", 7), Settings())
    with pytest.raises(ValueError, match=r"expected models among Aug0, .*, got 'Aug9'"):
        run("table6", models=("Aug9",))
