import dataclasses
import json
import shlex
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import isotropy_papers._campaign_verb  # noqa: F401  # adds the verb, as __main__ does
from isotropy import cli
from isotropy.data import fetch
from isotropy.run import Checkpoint, OutOfTime, ProgressCallback, Step
from isotropy_papers import Cell, Experiment, Result, Settings, experiment, ids
from isotropy_papers._campaign import Campaign, RunOutcome, commit_of
from isotropy_papers._campaign_plan import Planned, absent_data, planned
from isotropy_papers._campaign_runs import (
    DATA_SIZES,
    OUT_OF_REACH,
    RUNS,
    CampaignRun,
    is_unsettled,
)
from isotropy_papers._campaign_store import JOURNAL, Limits, Store
from isotropy_papers._finished import Finished
from isotropy_papers._reproduce import papers_app
from isotropy_papers._standings import STANDINGS

NAMES = ("a", "b", "c", "d")
LONG = 1000.0


def ignore(step: Step) -> None:
    pass


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ISOTROPY_CACHE", str(tmp_path / "cache"))


def made(id: str, compute: Callable[[str, Settings], float], names: Sequence[str] = NAMES) -> Any:
    """An experiment of a few cells."""

    def run(settings: Settings, progress: ProgressCallback) -> Result:
        parts = Finished(id, {"seed": settings.seed}, settings, progress)
        found = parts.get(names, lambda group: [compute(name, settings) for name in group])
        cells = [Cell(name, "value", value, 1.0) for name, value in found.items()]
        return Result(id, cells, parts.close(), ("a note",))

    return Experiment(id, id, run)


def a_run(id: str, minutes: float = 0.01, **more: Any) -> CampaignRun:
    given = {"claims": 1, "basis": "a test", "cells": len(NAMES), **more}
    return CampaignRun(id, f"What {id} settles.", minutes=minutes, **given)


def spent(
    folder: Path,
    experiments: dict[str, Any],
    runs: Sequence[CampaignRun],
    minutes: float = 1.0,
    names: Sequence[str] = (),
    **store: Any,
) -> list[RunOutcome]:
    campaign = Campaign(runs, Store(folder, **store), Settings(), "abc", lambda id: experiments[id])
    return campaign.spend(minutes, names)


def plans(
    runs: Sequence[CampaignRun], store: Store | Path, data: Path | None = None
) -> list[Planned]:
    store = Store(store) if isinstance(store, Path) else store
    return planned(runs, store, "cpu", absent_data(runs, Settings(data=data)))


def in_order(runs: Sequence[CampaignRun], folder: Path) -> list[str]:
    return [one.run.name for one in plans(runs, folder)]


# the table


def test_the_table_has_every_missing_run_and_no_other() -> None:
    missing = {id for id, standing in STANDINGS.items() if is_unsettled(standing.state)}
    assert {run.id for run in RUNS} | set(OUT_OF_REACH) == missing
    assert not {run.id for run in RUNS} & set(OUT_OF_REACH)
    assert missing <= set(ids())
    assert len({run.name for run in RUNS}) == len(RUNS)


def test_the_table_names_data_that_can_be_obtained() -> None:
    known = {name for run in RUNS for name in run.data}
    assert known <= set(DATA_SIZES)
    with pytest.raises(ValueError, match=r"expected a data set among (.*), got") as error:
        fetch("no such set")
    public = str(error.value).split("among ")[1].split(", got")[0].split(", ")
    assert set(DATA_SIZES) <= set(public)


def test_runs_that_share_cells_have_one_file_for_them() -> None:
    by_id = {run.id: run.store for run in RUNS}
    assert by_id["finzi2023/table2.2"] == by_id["finzi2023/figure2.6"] == "finzi2023-pendulum"
    assert by_id["finzi2023/table5.2"] == by_id["finzi2023/tableA.19"]
    assert by_id["yeh2022/tableA1"] == "yeh2022-tableA1"


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_the_command_of_a_run_has_its_settings(
    run: CampaignRun, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[Settings] = []

    def look(settings: Settings, progress: ProgressCallback) -> Result:
        asked.append(settings)
        return Result(run.id, [], 0.0)

    monkeypatch.setattr("isotropy_papers._registry.experiment", lambda id: Experiment(id, "", look))
    run = run.seeded(3)
    words = shlex.split(run.command("cpu"))
    assert words[0] == "isotropy"
    assert cli.run(words[1:]) == 0
    assert asked == [run.settings]


# the order


def test_what_settles_more_in_a_minute_comes_first(tmp_path: Path) -> None:
    runs = [a_run("slow", 40), a_run("fast", 4), a_run("broad", 20, claims=8)]
    assert in_order(runs, tmp_path) == ["broad", "fast", "slow"]
    runs[0] = dataclasses.replace(runs[0], minutes=1)
    assert in_order(runs, tmp_path) == ["slow", "broad", "fast"]


def test_what_was_never_run_is_worth_twice_as_much() -> None:
    new = next(run for run in RUNS if "not run" in STANDINGS[run.id].state)
    known = next(run for run in RUNS if "in part" in STANDINGS[run.id].state)
    assert (new.worth, known.worth) == (2 * new.claims, known.claims)


def test_missing_packages_and_data_are_named(tmp_path: Path) -> None:
    runs = [
        a_run("packages", packages=("torch", "no_such_module")),
        a_run("data", data=("mnist", "cifar10")),
        a_run("ready"),
    ]
    (tmp_path / "data" / "mnist").mkdir(parents=True)
    there = plans(runs, tmp_path / "out", tmp_path / "data")
    found = {one.run.id: (one.state, one.reason) for one in there}
    assert found == {
        "packages": ("missing package", "no_such_module"),
        "data": ("missing data", "cifar10"),
        "ready": ("to do", ""),
    }
    experiments = {"ready": made("ready", lambda name, settings: 1.0)}
    outcomes = spent(tmp_path / "out", experiments, runs)
    assert [(one.run, one.state) for one in outcomes] == [("ready", "done")]
    assert in_order(runs, tmp_path / "out")[-1] == "ready"  # done is last


# fitting the minutes


def test_a_run_is_finished_and_its_result_written(tmp_path: Path) -> None:
    run = a_run("one", settings=Settings(full=True, epochs=7, models=("x", "y z")))
    outcomes = spent(tmp_path, {"one": made("one", lambda name, settings: 2.0)}, [run])
    assert [(one.run, one.state, one.cells) for one in outcomes] == [("one", "done", 4)]
    found = json.loads((tmp_path / "one.json").read_text())
    assert found["cells"][0] == {
        "row": "a", "column": "value", "ours": 2.0, "theirs": 1.0, "interval": None,
    }  # fmt: skip
    assert found["command"] == (
        'isotropy reproduce one --full --epochs 7 --models "x,y z" --device cpu'
    )
    assert found["settings"] == {"epochs": 7, "models": ["x", "y z"]}
    assert (found["id"], found["commit"], found["seed"], found["device"], found["notes"]) == (
        "one", "abc", 0, "cpu", ["a note"],
    )  # fmt: skip
    assert "cores" in found["machine"]
    assert found["seconds"] >= 0
    assert spent(tmp_path, {}, [run]) == []  # nothing is left
    other = dataclasses.replace(run, settings=Settings(full=True, epochs=8))
    assert plans([other], tmp_path)[0].state != "done"


def test_cells_that_do_not_fit_are_left_to_a_longer_portion(tmp_path: Path) -> None:
    runs = [a_run("long", LONG, claims=9999), a_run("short")]
    experiments = {id: made(id, lambda name, settings: 1.0) for id in ("long", "short")}
    outcomes = spent(tmp_path, experiments, runs)
    assert [one.run for one in outcomes] == ["short"]
    # who asks for it by name gets it
    assert [one.state for one in spent(tmp_path, experiments, runs, names=["long"])] == ["done"]


def test_seconds_of_finished_cells_correct_the_estimate(tmp_path: Path) -> None:
    runs = [a_run("one", 400.0)]
    (before,) = plans(runs, tmp_path)
    assert (before.minutes, before.cell_minutes) == (400.0, 100.0)

    def compute(name: str, settings: Settings) -> float:
        if name == "d":
            raise RuntimeError("no more")
        return 1.0

    (outcome,) = spent(tmp_path, {"one": made("one", compute)}, runs, names=["one"])
    assert (outcome.state, outcome.reason) == ("failed", "RuntimeError: no more")
    (after,) = plans(runs, tmp_path)
    # the estimate counts as one cell beside three that took no time
    assert after.finished == 3
    assert after.cell_minutes == pytest.approx(25.0, rel=0.01)
    assert after.minutes == pytest.approx(25.0, rel=0.01)


def test_cells_of_another_kind_of_device_do_not_correct_it(tmp_path: Path) -> None:
    runs = [a_run("one", 4.0)]
    experiments = {"one": made("one", lambda name, settings: 1.0)}
    spent(tmp_path, experiments, runs, names=["one"])
    store = Store(tmp_path)
    store.seconds = {"one": dict.fromkeys(store.seconds["one"], (1.0, "cuda"))}
    (tmp_path / "one.json").unlink()
    assert plans(runs, store)[0].cell_minutes == 1.0


def test_a_failed_run_leaves_the_minutes_to_others(tmp_path: Path) -> None:
    def broken(name: str, settings: Settings) -> float:
        raise ValueError("not today")

    runs = [a_run("bad", claims=9), a_run("good")]
    experiments = {"bad": made("bad", broken), "good": made("good", lambda name, s: 1.0)}
    found = {one.run: one.state for one in spent(tmp_path, experiments, runs)}
    assert found == {"bad": "failed", "good": "done"}
    assert spent(tmp_path, experiments, runs) == []
    experiments["bad"] = made("bad", lambda name, settings: 1.0)
    (again,) = spent(tmp_path, experiments, runs, names=["bad"])
    assert again.state == "done"
    assert {one.state for one in plans(runs, tmp_path)} == {"done"}


def test_unknown_names_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"expected a run among one, got 'two'"):
        spent(tmp_path, {}, [a_run("one")], names=["two"])


# stopping and going on


def sleeping_at(stop: str, log: list[str]) -> Callable[[str, Settings], float]:
    def compute(name: str, settings: Settings) -> float:
        log.append(name)
        if name == stop:
            time.sleep(60)
        return float(ord(name))

    return compute


def test_the_minutes_end_a_cell_and_a_later_portion_goes_on(tmp_path: Path) -> None:
    runs, log = [a_run("one")], list[str]()
    began = time.monotonic()
    (outcome,) = spent(tmp_path, {"one": made("one", sleeping_at("c", log))}, runs, 0.02)
    assert time.monotonic() - began < 5
    assert (outcome.state, outcome.cells, log) == ("started", 2, ["a", "b", "c"])
    (left,) = plans(runs, tmp_path)
    assert (left.state, left.finished) == ("started", 2)
    # the cell that was stopped is expected to take longer than it had
    assert left.cell_minutes > 0.02
    log.clear()
    experiments = {"one": made("one", sleeping_at("", log))}
    assert spent(tmp_path, experiments, runs, 0.02) == []
    (outcome,) = spent(tmp_path, experiments, runs)
    assert (outcome.state, log) == ("done", ["c", "d"])
    ours = [cell["ours"] for cell in json.loads((tmp_path / "one.json").read_text())["cells"]]
    assert ours == [float(ord(name)) for name in NAMES]


def test_half_a_training_is_no_finished_cell(tmp_path: Path) -> None:
    def obliging(name: str, settings: Settings) -> float:
        with suppress(KeyboardInterrupt):  # some trainings give what they have
            time.sleep(60)
        return 0.0

    (outcome,) = spent(tmp_path, {"one": made("one", obliging)}, [a_run("one")], 0.02)
    assert (outcome.state, outcome.cells) == ("started", 0)
    assert Store(tmp_path).record(a_run("one")).cells == []


def test_a_training_goes_on_from_its_checkpoint_in_another_folder(tmp_path: Path) -> None:
    epochs: list[int] = []

    def training(stop: bool) -> Callable[[str, Settings], float]:
        def compute(name: str, settings: Settings) -> float:
            assert settings.out is not None
            checkpoint = Checkpoint(settings.out / "training.safetensors", name)
            kept = checkpoint.load()
            first = 0 if kept is None else kept[1]["epoch"]
            for epoch in range(first + 1, 7):
                epochs.append(epoch)
                checkpoint.save({}, {"epoch": epoch})
                if stop and epoch == 4:
                    time.sleep(60)
            return 1.0

        return compute

    runs = [a_run("one", LONG, cells=1, resumable=True)]
    first = {"one": made("one", training(stop=True), ["a"])}
    (outcome,) = spent(tmp_path / "first", first, runs, 0.02)
    assert outcome.state == "started"
    before = {path.name: path.read_bytes() for path in (tmp_path / "first").iterdir()}
    later = {"one": made("one", training(stop=False), ["a"])}
    (outcome,) = spent(tmp_path / "second", later, runs, earlier=tmp_path / "first")
    assert (outcome.state, epochs) == ("done", [1, 2, 3, 4, 5, 6])
    assert {path.name: path.read_bytes() for path in (tmp_path / "first").iterdir()} == before


def test_a_real_training_is_the_same_after_a_stop(tmp_path: Path) -> None:
    id = "ouderaa2023/table1"
    tiny = Settings(sizes=(40,), epochs=6, channels=1, test_rows=20, models=("MAP CONV",))

    def stopping(settings: Settings, progress: ProgressCallback) -> Result:
        def watched(step: Step) -> None:
            progress(step)
            if step.message.startswith("MAP CONV, digit, quadrant: loss") and step.done == 9:
                raise OutOfTime("here")

        return experiment(id).run(settings, watched)

    runs = [a_run(id, LONG, settings=tiny, cells=2, resumable=True)]
    (outcome,) = spent(tmp_path, {id: Experiment(id, "", stopping)}, runs)
    assert (outcome.state, outcome.reason, outcome.cells) == ("started", "here", 1)
    steps: list[Step] = []
    store = Store(tmp_path)
    (outcome,) = Campaign(runs, store, Settings(), "abc").spend(5.0, progress=steps.append)
    assert outcome.state == "done"
    trained = [step.done for step in steps if "loss" in step.message]
    assert trained == [10, 11, 12]  # of two trainings of six epochs
    found = store.result(runs[0])
    assert found is not None
    whole = experiment(id).run(tiny, ignore).data()
    assert found["cells"] == json.loads(json.dumps(whole["cells"]))


def test_cells_together_are_as_many_as_fit(tmp_path: Path) -> None:
    groups: list[list[str]] = []

    def run(settings: Settings, progress: ProgressCallback) -> Result:
        def compute(group: list[str]) -> list[int]:
            groups.append(group)
            return [1 for _ in group]

        parts = Finished("one", {}, settings, progress)
        parts.get(NAMES, compute, together=4)
        return Result("one", [], parts.close())

    # 20 seconds for each at first, of 54 that are left
    spent(tmp_path, {"one": Experiment("one", "", run)}, [a_run("one", 80 / 60)], 1.0)
    assert [len(group) for group in groups] == [2, 2]


SCRIPT = """
import sys, time
from pathlib import Path
from isotropy_papers import Cell, Experiment, Result, Settings
from isotropy_papers._campaign import Campaign
from isotropy_papers._campaign_runs import CampaignRun
from isotropy_papers._campaign_store import Store
from isotropy_papers._finished import Finished

folder, slow = Path(sys.argv[1]), sys.argv[2]

def compute(group):
    print(*group, flush=True)
    time.sleep(60 if group == [slow] else 0)
    return [1.0 for _ in group]

def run(settings, progress):
    parts = Finished("one", {}, settings, progress)
    cells = [Cell(name, "value", value) for name, value in parts.get("abcd", compute).items()]
    return Result("one", cells, parts.close())

runs = [CampaignRun("one", "All.", 1, 0.1, "a test", 4)]
work = Campaign(runs, Store(folder), Settings(), "abc", lambda id: Experiment(id, "", run))
try:
    print([one.state for one in work.spend(1.0)])
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_killed_process_loses_the_cell_at_work(number: signal.Signals, tmp_path: Path) -> None:
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "out")]
    with subprocess.Popen([*command, "c"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert [process.stdout.readline().strip() for _ in range(3)] == ["a", "b", "c"]
        process.send_signal(number)
        rest = process.communicate(timeout=30)[0].split()
    assert rest == ([] if number == signal.SIGKILL else ["interrupted"])
    again = subprocess.run([*command, "-"], capture_output=True, text=True, check=True)
    assert again.stdout.split("\n")[:-1] == ["c", "d", "['done']"]


# the files


def packed(folder: Path, limits: Limits, sizes: dict[str, int]) -> Store:
    work = folder / "work"
    work.mkdir(exist_ok=True)
    for name, size in sizes.items():
        (work / name).write_bytes(name[:1].encode() * size)
    store = Store(folder / "out", limits=limits)
    store.pack(a_run("one"), work)
    return store


def unpacked(folder: Path) -> dict[str, bytes]:
    target = folder / "target"
    target.mkdir()
    Store(folder / "out").unpack(a_run("one"), target)
    return {path.name: path.read_bytes() for path in target.iterdir()}


def test_large_archives_come_in_pieces(tmp_path: Path) -> None:
    packed(tmp_path, Limits(megabytes=0.5), {"large": 1_200_000, "small": 10})
    pieces = sorted((tmp_path / "out").glob("*.zip"))
    assert len(pieces) == 3
    assert max(path.stat().st_size for path in pieces) == 500_000
    assert unpacked(tmp_path) == {"large": b"l" * 1_200_000, "small": b"s" * 10}


def test_what_may_not_travel_is_left_out_largest_first(tmp_path: Path) -> None:
    limits = Limits(files=3, megabytes=0.5)
    packed(tmp_path, limits, {"large": 1_200_000, "small": 10, "medium": 100_000})
    assert len(list((tmp_path / "out").iterdir())) <= 2  # a result comes later
    assert set(unpacked(tmp_path)) == {"small", "medium"}


def test_no_run_is_begun_whose_files_are_too_many(tmp_path: Path) -> None:
    runs = [a_run("one"), a_run("two"), a_run("three")]
    experiments = {run.id: made(run.id, lambda name, settings: 1.0) for run in runs}
    outcomes = spent(tmp_path, experiments, runs, limits=Limits(files=5))
    assert len(outcomes) == 2
    assert len(list(tmp_path.iterdir())) == 5


def test_only_the_last_archive_is_kept(tmp_path: Path) -> None:
    packed(tmp_path, Limits(), {"first": 10})
    packed(tmp_path, Limits(), {"second": 10})
    assert len(list((tmp_path / "out").glob("*.zip"))) == 1
    assert set(unpacked(tmp_path)) == {"first", "second"}


def test_damaged_and_missing_archives_are_refused(tmp_path: Path) -> None:
    packed(tmp_path, Limits(), {"first": 10})
    (piece,) = (tmp_path / "out").glob("*.zip")
    content = piece.read_bytes()
    piece.write_bytes(content[:-1] + b"x")
    with pytest.raises(ValueError, match="got a damaged one"):
        Store(tmp_path / "out").unpack(a_run("one"), tmp_path)
    piece.unlink()
    with pytest.raises(ValueError, match=r"expected finished cells in .*\.zip', got none"):
        Store(tmp_path / "out").unpack(a_run("one"), tmp_path)


def test_an_archive_writes_nothing_outside_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def climbing(whole: Any, files: Any) -> None:
        with zipfile.ZipFile(whole, "w") as archive:
            archive.writestr("../outside", "")
        whole.seek(0, 2)

    monkeypatch.setattr("isotropy_papers._campaign_store._write_zip", climbing)
    packed(tmp_path, Limits(), {"first": 10})
    with pytest.raises(ValueError, match=r"expected a plain file name in an archive"):
        unpacked(tmp_path)
    assert not (tmp_path / "outside").exists()


@pytest.mark.parametrize("text", ["{", "[]", '{"format": 2}', '{"format": 1, "seconds": 3}'])
def test_a_journal_of_something_else_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / JOURNAL).write_text(text)
    with pytest.raises(ValueError, match=r"campaign\.json: expected the journal of a campaign"):
        Store(tmp_path)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [({"files": 2}, "at least 3 files, got 2"), ({"megabytes": 0.0}, "positive number of mega")],
)
def test_limits_that_leave_no_room(wrong: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        Limits(**wrong)


def test_what_another_machine_wrote_is_collected(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    runs, log = [a_run("one"), a_run("two")], list[str]()
    first = {"one": made("one", sleeping_at("b", log)), "two": made("two", lambda n, s: 1.0)}
    spent(here, first, runs, 0.02, names=["one"])
    second = {"one": made("one", lambda name, settings: 2.0), "two": first["two"]}
    spent(there, second, runs, earlier=here)
    assert sorted(path.name for path in here.glob("*.json")) == [JOURNAL]
    old = set(here.glob("*.zip"))
    taken = Store(here).collect(there)
    assert {"one.json", "two.json"} < set(taken)
    assert {one.state for one in plans(runs, here)} == {"done"}
    assert not old & set(here.glob("*.zip"))  # replaced by what is newer
    work = tmp_path / "work"
    work.mkdir()
    Store(here).unpack(a_run("one"), work)
    assert len(list(work.iterdir())) == 1
    with pytest.raises(ValueError, match="expected the folder of a campaign, got"):
        Store(here).collect(work)


# a real one, and the command


def test_a_real_table_is_the_same_in_portions(tmp_path: Path) -> None:
    id = "finzi2023/figure2.5"
    tiny = Settings(sizes=(20,), epochs=1, channels=16, test_rows=5, seeds=2, models=("MLP",))
    runs = [a_run(id, settings=tiny, cells=3)]
    store = Store(tmp_path)
    (outcome,) = Campaign(runs, store, Settings(), "abc").spend(1.0)
    assert (outcome.state, outcome.cells) == ("done", 3)
    found = store.result(runs[0])
    assert found is not None
    whole = experiment(id).run(tiny, ignore).data()
    assert found["cells"] == json.loads(json.dumps(whole["cells"]))
    assert set(whole) < set(found)


def test_the_command_lists_the_runs_in_order(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["campaign", "--list", "--out", str(tmp_path / "none")]
    assert cli.run([*arguments, "--json"], papers_app) == 0
    runs = json.loads(capsys.readouterr().out)["runs"]
    assert [run["name"] for run in runs] == in_order(RUNS, tmp_path / "none")
    assert [run["priority"] for run in runs] == sorted(
        (run["priority"] for run in runs), reverse=True
    )
    states = {run["name"]: run["state"] for run in runs}
    assert states["finzi2023/figure2.5"] == "to do"
    assert states["ouderaa2023/table1"] == "missing data"
    assert cli.run(arguments, papers_app) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[3::2]] == [run["name"] for run in runs]
    assert not (tmp_path / "none").exists()


def test_the_command_spends_no_minutes_on_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["campaign", "--minutes", "0", "--out", str(tmp_path), "--device", "cpu"]
    assert cli.run([*arguments, "--json"], papers_app) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer == {"minutes": 0.0, "device": "cpu", "out": str(tmp_path), "runs": []}
    assert cli.run(arguments, papers_app) == 0
    assert capsys.readouterr().out.startswith("Nothing fits these minutes")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "expected one of --list, --minutes and --collect"),
        (["--list", "--minutes", "3"], "expected one of --list, --minutes and --collect"),
        (["--list", "--from", "nowhere"], "expected a folder of an earlier campaign, got 'nowh"),
        (["--minutes", "1", "nothing"], "expected a run among finzi2023/figure2.5, "),
        (["--minutes", "1", "--files", "1"], "expected at least 3 files, got 1"),
    ],
)
def test_command_refuses(
    arguments: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["campaign", "--out", str(tmp_path / "out"), *arguments], papers_app) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert sentence in printed.err


def test_the_commit_is_known_without_git(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ISOTROPY_COMMIT", "from the environment")
    assert commit_of() == "from the environment"
    assert commit_of("given") == "given"
    monkeypatch.delenv("ISOTROPY_COMMIT")
    monkeypatch.setenv("PATH", "")
    assert commit_of() == "unknown"
