from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from idx_files import write_idx
from isotropy.certificates import (
    PROJECTORS,
    Certificate,
    Recipe,
    Verdict,
    architecture,
    initial_parameters,
    verify,
)
from isotropy.run import Step
from isotropy_papers import (
    Cell,
    Result,
    Settings,
    experiment,
    finzi2023_table5_2,
    finzi2023_table_a18,
    finzi2023_table_a19,
    finzi2023_table_a22,
    finzi2023_table_a23,
    ids,
)
from isotropy_papers import _certificate_rows as rows_module
from isotropy_papers import _certificate_trials as trials_module
from isotropy_papers._certificate_rows import BOUND, SIZE, TEST, TRAIN, CertificateRow, _sample

TABLES: dict[str, Any] = {
    "finzi2023/table5.2": finzi2023_table5_2,
    "finzi2023/tableA.18": finzi2023_table_a18,
    "finzi2023/tableA.19": finzi2023_table_a19,
    "finzi2023/tableA.22": finzi2023_table_a22,
    "finzi2023/tableA.23": finzi2023_table_a23,
}
SHAPES = {"mnist": (1, 28, 28), "fashion-mnist": (1, 28, 28), "cifar10": (3, 32, 32)}
every_table = pytest.mark.parametrize("id", TABLES)


def ignore(step: Step) -> None:
    pass


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ISOTROPY_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Folders with images of two classes, dark and bright, in the shapes of the public sets."""
    rng = np.random.default_rng(0)
    for name, (channels, height, width) in SHAPES.items():
        folder = tmp_path / "data" / name
        folder.mkdir(parents=True)
        for prefix, rows in (("train", 20), ("t10k", 4)):
            labels = (np.arange(rows) % 2).astype(np.uint8)
            images = rng.integers(0, 255, (rows, channels, height, width)).astype(np.uint8)
            if channels == 1:
                images = images[:, 0]
            write_idx(folder / f"{prefix}-images-idx{images.ndim}-ubyte", images)
            write_idx(folder / f"{prefix}-labels-idx1-ubyte", labels)
    return tmp_path / "data"


def run(id: str, **settings: Any) -> Result:
    result = experiment(id).run(Settings(**{"epochs": 1, **settings}), ignore)
    assert result.id == id
    assert len({(cell.row, cell.column) for cell in result.cells}) == len(result.cells)
    return result


def row_of(id: str, name: str, full: bool = False) -> CertificateRow:
    found: CertificateRow = next(row for row in TABLES[id].rows_of(full) if row.name == name)
    return found


def of_column(result: Result, column: str) -> dict[str, Cell]:
    return {cell.row: cell for cell in result.cells if cell.column == column}


def no_trial(*args: Any, **options: Any) -> dict[str, float]:
    raise AssertionError("a row that is finished was made again")


# --- what the tables are made from ------------------------------------------------------------


@every_table
def test_they_are_listed(id: str) -> None:
    assert id in ids()
    assert experiment(id) is TABLES[id].EXPERIMENT


@every_table
@pytest.mark.parametrize("full", [False, True], ids=["quick", "full"])
def test_rows_can_be_made(id: str, full: bool) -> None:
    rows = TABLES[id].rows_of(full)
    assert len({row.name for row in rows}) == len({row.file for row in rows}) == len(rows)
    for row in rows:
        recipe = {
            key: row.options[key] for key in Recipe.__dataclass_fields__ if key in row.options
        }
        made = Recipe(**recipe)
        assert set(row.options) - set(recipe) <= {"prior_percent", "keep"}
        assert made.projector in PROJECTORS
        shape = SHAPES.get(row.source or row.data, (1, 14, 14))
        total = architecture(row.model).parameter_count(shape, 10)
        assert (made.d or 0) < total
        assert round(total * row.options.get("keep", 1)) > 100


def test_every_published_number_has_a_row() -> None:
    for table in (finzi2023_table5_2, finzi2023_table_a18):
        names = {row.name for row in table.rows_of(True)}
        assert set(table._BOUNDS) <= names
        assert set(table._SIZES) <= names
    assert set(finzi2023_table_a22._PUBLISHED) <= {
        row.name for row in finzi2023_table_a22.rows_of(True)
    }
    full_batch = [row for row in finzi2023_table_a23.rows_of(True) if row.options["batch"] is None]
    published = [n for by in finzi2023_table_a23._PUBLISHED.values() for n in by if n is not None]
    assert sorted(row.options["weight_decay"] for row in full_batch) == sorted(published)


# --- quick runs -------------------------------------------------------------------------------


@pytest.mark.parametrize("id", [id for id in TABLES if id != "finzi2023/tableA.19"])
def test_every_number_is_of_a_verified_file(id: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = run(id, out=out)
    rows = TABLES[id].rows_of(False)
    assert list(of_column(result, BOUND)) == [row.name for row in rows]
    for row in rows:
        sample = _sample(row, Settings())
        verdict = verify(out / row.file, sample.target.train)
        certificate = Certificate.load(out / row.file)
        assert verdict.bound is not None
        numbers = {
            BOUND: 100 * verdict.bound,
            SIZE: len(certificate.message) / 1024,
            TRAIN: 100 * verdict.details["errors"] / verdict.details["n"],
            TEST: 100 * (certificate.test_error or 0),
        }
        for column, number in numbers.items():
            assert of_column(result, column)[row.name].ours == pytest.approx(number, abs=1e-6)
        assert verdict.verdict != "rejected"


def test_tables_share_rows_and_runs_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [row.name for row in finzi2023_table_a22.rows_of(False)]
    # one row at a time, as several processes would, the last ones first
    for name in reversed(names):
        run("finzi2023/tableA.22", models=(name,), out=tmp_path)
    monkeypatch.setattr(rows_module, "trial", no_trial)
    whole = run("finzi2023/tableA.22", out=tmp_path)
    bounds = {name: cell.ours for name, cell in of_column(whole, BOUND).items()}
    assert list(bounds) == names
    best = run("finzi2023/tableA.19", out=tmp_path)
    smallest = min(value for name, value in bounds.items() if "d =" not in name)
    assert of_column(best, BOUND)["digits"].ours == smallest
    share = int(of_column(best, "share %")["digits"].ours)
    assert bounds[f"digits prior from {share} %"] == smallest
    with pytest.raises(AssertionError, match="made again"):
        run("finzi2023/tableA.22", models=(names[0],), out=tmp_path, seed=1)


def test_priors_alone_are_the_best_priors(tmp_path: Path) -> None:
    share = "digits prior from 50 %"
    result = run("finzi2023/tableA.22", epochs=15, models=(share, f"{share} d = 10"))
    bounds = {name: cell.ours for name, cell in of_column(result, BOUND).items()}
    assert bounds[share] < bounds[f"{share} d = 10"] < 60
    assert "d = 0 gives the smaller bound in 1 of 1 cases" in result.notes


def test_subspaces_beat_pruning(tmp_path: Path) -> None:
    result = run("finzi2023/tableA.18", epochs=15)
    assert of_column(result, SIZE)["digits"].ours < of_column(result, SIZE)["digits pruned"].ours
    assert of_column(result, BOUND)["digits"].ours < of_column(result, BOUND)["digits pruned"].ours
    assert any("digits pruned: 3 %" in note for note in result.notes)


def test_a_transferred_start_is_trained_elsewhere_with_a_new_head(tmp_path: Path) -> None:
    name = "digits from digits"
    run("finzi2023/table5.2", models=(name,), out=tmp_path)
    row = row_of("finzi2023/table5.2", name)
    sample = _sample(row, Settings())
    assert sample.source is not None
    seen = {image.numpy().tobytes() for image in sample.source[0].flip(-2)}
    assert not seen & {image.numpy().tobytes() for image in sample.target.train[0]}
    module = architecture(row.model).build((1, 14, 14), 10)
    start = np.frombuffer(Certificate.load(tmp_path / row.file).start, "<f4")
    drawn = initial_parameters(module, 0)
    assert start.size == sum(tensor.numel() for tensor in module.parameters())
    for part, value in drawn.items():
        own, start = start[: value.numel()], start[value.numel() :]
        same = np.array_equal(own, value.float().flatten().numpy())
        assert same == part.startswith("head."), part


# --- full recipes, tiny sets ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("id", "name", "theirs"),
    [
        ("finzi2023/table5.2", "MNIST", 11.6),
        ("finzi2023/table5.2", "Fashion-MNIST from CIFAR-10", 28.2),
        ("finzi2023/table5.2", "MNIST prior from 50 %", 1.4),
        ("finzi2023/tableA.18", "CIFAR-10 pruned", 100.0),
        ("finzi2023/tableA.23", "CIFAR-10 full batch weight decay 0.001", 63.6),
    ],
)
def test_full_rows(id: str, name: str, theirs: float, data: Path, tmp_path: Path) -> None:
    result = run(id, full=True, models=(name,), data=data, out=tmp_path)
    assert of_column(result, BOUND)[name].theirs == theirs
    assert of_column(result, BOUND)[name].ours <= 100
    certificate = Certificate.load(tmp_path / row_of(id, name, full=True).file)
    assert certificate.model == row_of(id, name, full=True).model


def test_resnet_20_is_not_the_published_one(data: Path) -> None:
    name = "CIFAR-10 ResNet-20 full batch weight decay 0.01"
    result = run("finzi2023/tableA.23", full=True, models=(name,), data=data)
    assert of_column(result, BOUND)[name].theirs == 77.8
    assert any("ResNet-18" in note for note in result.notes)


# --- what goes wrong --------------------------------------------------------------------------


@every_table
def test_unknown_rows(id: str) -> None:
    with pytest.raises(ValueError, match=r"^expected models among digits.*, got 'MNIST'$"):
        run(id, models=("MNIST",))


def test_missing_data() -> None:
    with pytest.raises(ValueError, match=r"^expected the data 'mnist', got none in the cache"):
        run("finzi2023/tableA.18", full=True, models=("MNIST pruned",))


def test_a_certificate_that_does_not_verify_is_no_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*args: Any, **limits: Any) -> Verdict:
        return Verdict("rejected", None, "the file is damaged")

    monkeypatch.setattr(trials_module, "verify", refused)
    name = "digits prior from 20 %"
    with pytest.raises(RuntimeError, match=r"^a certificate of ours was rejected: the file is"):
        run("finzi2023/tableA.22", models=(name,), out=tmp_path)
    assert not list(tmp_path.glob("*.iso"))
