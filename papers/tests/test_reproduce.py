import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from isotropy import cli
from isotropy.run import ProgressCallback, Step
from isotropy_papers import Cell, Result, Settings, experiment, ids
from isotropy_papers._finished import Finished


def ignore(step: Step) -> None:
    pass


TINY: dict[str, dict[str, Any]] = {
    "finzi2023/figure2.5": {"sizes": (20, 30), "channels": 16, "seeds": 2},
    "finzi2023/figure2.6": {"channels": 12, "seeds": 1},
    "finzi2023/table2.2": {"channels": 12, "seeds": 1},
    "finzi2023/theorem-a.2": {},
}


def tiny(id: str, **more: Any) -> Settings:
    return Settings(epochs=2, test_rows=5, **{**TINY[id], **more})


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ISOTROPY_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_every_experiment_knows_its_id() -> None:
    assert set(TINY) <= set(ids())
    assert [experiment(id).id for id in ids()] == ids()


def test_unknown_id() -> None:
    with pytest.raises(ValueError, match=r"expected the id of an experiment, got 'x'"):
        experiment("x")


def require_cells(result: Result, number: int) -> None:
    assert len(result.cells) == number
    assert len({(cell.row, cell.column) for cell in result.cells}) == number
    for cell in result.cells:
        low, high = cell.interval or (cell.ours, cell.ours)
        assert low <= cell.ours <= high


def require_picture(result: Result, path: Path) -> None:
    plot = experiment(result.id).plot
    assert plot is not None
    assert plot(result, path).read_bytes().startswith(b"\x89PNG")


def test_a_tiny_figure_2_5(tmp_path: Path) -> None:
    id = "finzi2023/figure2.5"
    result = experiment(id).run(tiny(id), ignore)
    require_cells(result, 18)  # three tasks, three models each, two sizes
    require_picture(result, tmp_path / "figure.png")


def test_a_tiny_table_2_2_and_the_figure_of_the_same_models(tmp_path: Path) -> None:
    settings = tiny("finzi2023/table2.2", out=tmp_path)
    steps: list[Step] = []
    table = experiment("finzi2023/table2.2").run(settings, steps.append)
    require_cells(table, 4)
    assert [(cell.row, cell.column, cell.theirs) for cell in table.cells] == [
        ("N-ODE", "O(2)", 0.019),
        ("N-ODE", "MLP", 0.048),
        ("HNN", "O(2)", 0.012),
        ("HNN", "MLP", 0.028),
    ]
    assert len(steps) == 4
    figure = experiment("finzi2023/figure2.6").run(settings, steps.append)
    assert len(steps) == 4  # nothing was trained again
    require_cells(figure, 28)  # momentum, two drifts, states at 0.2, 1, 2 and 5 of 6 s
    require_picture(figure, tmp_path / "figure.png")
    ours = {(cell.row, cell.column): cell.ours for cell in figure.cells}
    # Noether, for Hamiltonians alone; the integrator leaves a little
    assert ours["HNN-O(2)", "momentum error"] < 1e-6
    for other in ("HNN-MLP", "N-ODE-O(2)", "N-ODE-MLP"):
        for step in ("0.1", "0.05"):
            kept = ours["HNN-O(2)", f"drift, step {step}"]
            assert ours[other, f"drift, step {step}"] > 1000 * kept


def test_published_numbers_stand_beside_ours() -> None:
    id = "finzi2023/figure2.5"
    result = experiment(id).run(tiny(id, models=("MLP",), sizes=(30, 31)), ignore)
    theirs = {(cell.row, cell.column): cell.theirs for cell in result.cells}
    assert theirs["Lorentz MLP", "N=30"] == 0.733
    assert theirs["Lorentz MLP", "N=31"] is None


def test_theorem_a2_holds() -> None:
    result = experiment("finzi2023/theorem-a.2").run(Settings(), ignore)
    ours = {(cell.row, cell.column): cell.ours for cell in result.cells}
    for model in ("gated", "norm"):
        assert abs(ours[model, "R²"]) < 0.02
        assert ours[model, "range"] < 1e-5
    assert ours["gated+bilinear", "R²"] > 0.9
    assert ours["gated+bilinear", "range"] > 0.3


def stopping_at(part: str) -> ProgressCallback:
    def progress(step: Step) -> None:
        if step.message == part:
            raise KeyboardInterrupt

    return progress


@pytest.mark.parametrize("kept", [True, False])
def test_an_interrupted_run_goes_on_where_it_was(
    kept: bool, tmp_path: Path, own_cache: Path
) -> None:
    id = "finzi2023/figure2.5"
    settings = tiny(id, models=("MLP", "MLP+Aug"), out=tmp_path / "out" if kept else None)
    whole = experiment(id).run(dataclasses.replace(settings, out=None), ignore)
    with pytest.raises(KeyboardInterrupt):
        experiment(id).run(settings, stopping_at("inertia MLP+Aug N=20"))
    steps: list[Step] = []
    resumed = experiment(id).run(settings, steps.append)
    assert resumed.cells == whole.cells
    assert steps[0].message == "inertia MLP+Aug N=20"
    assert (steps[0].done, steps[0].total) == (6, 12)
    assert len(steps) == 6
    # what is in the cache goes when the run is over, what the user asked for stays
    left = list((tmp_path / "out" if kept else own_cache / "reproduce").iterdir())
    assert len(left) == int(kept)


def test_finished_parts_of_other_runs_are_not_taken(tmp_path: Path) -> None:
    settings = Settings(out=tmp_path)
    Finished("run", {"seed": 0}, settings, ignore).get(["a"], lambda names: [1])
    other = Finished("run", {"seed": 1}, settings, ignore)
    assert other.get(["a"], lambda names: [2]) == {"a": 2}
    again = Finished("run", {"seed": 0}, settings, ignore)
    assert again.get(["a", "b"], lambda names: [len(names) + 2], together=5) == {"a": 1, "b": 3}


def test_seconds_are_those_of_all_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 3.0, 10.0, 14.0])
    monkeypatch.setattr("isotropy_papers._finished.time.perf_counter", lambda: next(clock))
    settings = Settings(out=tmp_path)
    Finished("run", {}, settings, ignore).get(["a"], lambda names: [1])
    second = Finished("run", {}, settings, ignore)
    second.get(["a", "b"], lambda names: [2])
    assert second.close() == 7.0


def test_without_a_cache_nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ISOTROPY_CACHE", "off")
    parts = Finished("run", {}, Settings(), ignore)
    assert parts.get(["a"], lambda names: [1]) == {"a": 1}
    assert parts.close() >= 0


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"seeds": 0}, r"expected seeds of at least 1, got 0"),
        ({"epochs": 0}, r"expected epochs of at least 1, got 0"),
        ({"channels": -3}, r"expected channels of at least 1, got -3"),
        ({"test_rows": 0}, r"expected test_rows of at least 1, got 0"),
        ({"step": 0.0}, r"expected a positive step, got 0\.0"),
        ({"sizes": ()}, r"expected sizes of at least 1, got \[\]"),
        ({"sizes": (3, 0)}, r"expected sizes of at least 1, got \[3, 0\]"),
        ({"schedule": "step"}, r"expected the schedule 'constant' or 'cosine', got 'step'"),
    ],
)
def test_bad_settings(wrong: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        Settings(**wrong)


def test_unknown_model() -> None:
    with pytest.raises(ValueError, match=r"expected models among N-ODE-O\(2\), .*, got 'CNN'"):
        experiment("finzi2023/table2.2").run(Settings(models=("CNN",)), ignore)


def test_the_table_as_text() -> None:
    cells = [Cell("a", "error", 0.5, None, (0.25, 1.0)), Cell("longer", "error", 2.0, 1e-5)]
    assert str(Result("paper/table1", cells, 12.34, ("a note",))).splitlines() == [
        "row     column  ours  interval   theirs",
        "a       error   0.5   0.25 to 1",
        "longer  error   2                1e-05",
        "",
        "paper/table1: 12.3 s",
        "a note",
    ]


def test_command_lists_the_ids(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["reproduce"]) == 0
    lines = capsys.readouterr().out.splitlines()
    starts = [line.split()[0] for line in lines if line and not line.startswith(" ")]
    assert sorted(start for start in starts if start in ids()) == ids()
    assert cli.run(["reproduce", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ids"] == ids()


def test_command_writes_json_and_picture(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["reproduce", "finzi2023/figure2.5", "--quick", "--json", "--quiet"]
    arguments += ["--sizes", "20", "--epochs", "1", "--channels", "8", "--models", "MLP"]
    arguments += ["--out", str(tmp_path / "out"), "--plot", str(tmp_path / "a.png")]
    assert cli.run(arguments) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (tmp_path / "a.png").is_file()
    assert answer.pop("plot") == str(tmp_path / "a.png")
    assert set(answer) == {"id", "cells", "seconds", "notes"}
    assert [cell["row"] for cell in answer["cells"]] == ["O(5) MLP", "inertia MLP", "Lorentz MLP"]
    assert set(answer["cells"][0]) == {"row", "column", "ours", "theirs", "interval"}
    assert json.loads((tmp_path / "out" / "finzi2023-figure2.5.json").read_text()) == answer


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["x"], "expected the id of an experiment"),
        (["finzi2023/tabel2.2"], "finzi2023/table2.2"),
        (["finzi2023/figure2.5", "--sizes", "10,a"], "expected sizes like 100,1000, got '10,a'"),
        (["finzi2023/figure2.5", "--schedule", "step"], "expected the schedule 'constant' or"),
        (["finzi2023/table2.2", "--step", "0.15"], "expected a whole number of steps in an"),
        (["finzi2023/table2.2", "--plot", "a.png"], "expected a figure for --plot, got 'finzi2023"),
        (["finzi2023/figure2.5", "--plot", "a.txt"], "expected a file name ending in .png"),
        (["finzi2023/figure2.5", "--models", "CNN"], "expected models among EMLP-O(5), MLP,"),
    ],
)
def test_command_refuses(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["reproduce", *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert sentence in printed.err
    assert printed.err.count("\n") == 1
