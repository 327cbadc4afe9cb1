"""Figures of Basu et al. 2021: a worked example, moved images, and searches that are replayed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from idx_files import write_idx
from isotropy.run import Step
from isotropy_papers import Result, Settings, _search_epsilons, _search_replays, experiment
from isotropy_papers._search_replays import PUBLISHED_DQN, Replays, Search
from isotropy_papers._search_tables import published_plan, stored_table


def ignore(step: Step) -> None:
    pass


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ISOTROPY_CACHE", str(tmp_path / "cache"))


def run(id: str, **settings: Any) -> Result:
    return experiment(f"basu2021/{id}").run(Settings(**settings), ignore)


def require_picture(result: Result, path: Path) -> None:
    plot = experiment(result.id).plot
    assert plot is not None
    assert plot(result, path).read_bytes().startswith(b"\x89PNG")


def test_layers_of_s3_and_its_parts(tmp_path: Path) -> None:
    result = run("figure1")
    assert [(cell.row[:2], cell.ours) for cell in result.cells] == [
        ("Z3", 3),
        ("Z2", 5),
        ("S3", 2),
        ("S3", 2),
    ]
    assert all(cell.ours == cell.theirs for cell in result.cells)
    assert result.notes[0].endswith("True")
    require_picture(result, tmp_path / "a.png")


@pytest.fixture
def images(tmp_path: Path) -> tuple[Path, np.ndarray[Any, np.dtype[np.uint8]]]:
    """A folder with images in place of both public sets, all pixels of an image different."""
    rng = np.random.default_rng(0)
    rows = np.stack([rng.permutation(784) // 4 for _ in range(20)]).astype(np.uint8)
    for name in ("mnist", "fashion-mnist"):
        folder = tmp_path / "data" / name
        folder.mkdir(parents=True)
        for prefix in ("train", "t10k"):
            write_idx(folder / f"{prefix}-images-idx3-ubyte", rows.reshape(-1, 28, 28))
            labels = np.arange(20, dtype=np.uint8) % 10
            write_idx(folder / f"{prefix}-labels-idx1-ubyte", labels)
    return tmp_path / "data", rows.reshape(-1, 28, 28)


@pytest.mark.parametrize(
    ("figure", "classes"), [("figure5", (5, 7, 2, 1)), ("figure6", (7, 5, 2, 9))]
)
def test_images_under_one_transformation(
    figure: str,
    classes: tuple[int, ...],
    images: tuple[Path, np.ndarray[Any, np.dtype[np.uint8]]],
    tmp_path: Path,
) -> None:
    folder, rows = images
    result = run(figure, data=folder)
    assert len(result.cells) == 13 * 4
    found = {(cell.row, cell.column): cell.ours for cell in result.cells}
    columns = list(dict.fromkeys(cell.column for cell in result.cells))
    moves = {
        "IAug2": lambda x: x[:, ::-1],
        "IAug3": lambda x: x[::-1],
        "IAug4": lambda x: np.roll(x, -1, 1),
        "IAug8": lambda x: np.roll(x, 14, 0),
    }
    for column, label in zip(columns, classes, strict=True):
        assert found["IAug0", column] == 0
        assert found["IAug1", column] > 0.5
        for row, move in moves.items():
            still = rows[label]
            changed = float(np.mean(move(still) != still))
            assert found[row, column] == pytest.approx(0) or found[row, column] == pytest.approx(
                changed
            )
    require_picture(result, tmp_path / "a.png")


@pytest.mark.parametrize("figure", ["figure7", "figure8"])
def test_images_under_combinations(
    figure: str, images: tuple[Path, np.ndarray[Any, np.dtype[np.uint8]]], tmp_path: Path
) -> None:
    result = run(figure, data=images[0], models=("by the groups",))
    assert len(result.cells) == 6 * 4
    assert {cell.row for cell in result.cells} == {f"Aug{k}, by the groups" for k in range(6)}
    assert all((cell.ours == 0) == ("Aug0" in cell.row) for cell in result.cells)
    require_picture(result, tmp_path / "a.png")
    with pytest.raises(ValueError, match=r"expected a result with its images, got Result"):
        require_picture(Result(result.id, result.cells, 0), tmp_path / "b.png")


def test_images_that_are_not_there() -> None:
    with pytest.raises(ValueError, match=r"^expected the data 'mnist', got none in the cache"):
        run("figure5")


def test_accuracy_as_exploration_falls(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for module in (_search_epsilons, _search_replays):
        monkeypatch.setattr(module, "CHILDREN", 210)
    result = run("figure9", models=("Aug5",), seeds=1, out=tmp_path)
    assert [cell.column for cell in result.cells] == ["ε=1", "ε=0.9"]
    kept = Replays(Settings(out=tmp_path), ignore, published=True).search(
        "mnist", "Aug5", PUBLISHED_DQN, 0
    )
    means = [100 * sum(kept.accuracies[:200]) / 200, 100 * sum(kept.accuracies[200:]) / 10]
    np.testing.assert_allclose([cell.ours for cell in result.cells], means)
    require_picture(result, tmp_path / "a.png")
    # all are accuracies of the table, the first one that of the network without groups
    table = stored_table(published_plan("mnist", "Aug5", 4000), Settings())
    right = set((table.validation[:, 0].max(1) / table.validation_rows).tolist())
    assert set(kept.accuracies) <= right
    assert kept.accuracies[0] == table.validation[0, 0].max() / table.validation_rows


def test_strategies_are_counted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(_search_replays, "CHILDREN", 30)
    settings: dict[str, Any] = {"models": ("lattice", "random", "mnist Aug1"), "seeds": 2}
    result = run("strategies", out=tmp_path, **settings)
    found = {(cell.row, cell.column): cell.ours for cell in result.cells}
    assert len(found) == 2 * 5
    steps: list[Step] = []
    replays = Replays(Settings(out=tmp_path), steps.append)
    for name in ("lattice", "random"):
        needed = []
        for seed in (0, 1):
            goal = replays.search("mnist", "Aug1", PUBLISHED_DQN, seed)
            search = replays.search("mnist", "Aug1", name, seed)
            # it ends with the first child that is as good
            assert max(search.accuracies[:-1]) < goal.best <= search.accuracies[-1]
            needed.append(len(search.accuracies))
        assert found[f"mnist Aug1, {name}", "children"] == np.median(needed)
    assert steps == []  # what was searched is kept


def test_needed_children() -> None:
    search = Search((0.1, 0.3, 0.2, 0.4), 0.5)
    assert [search.needed(goal) for goal in (0.05, 0.3, 0.31, 0.5)] == [1, 2, 4, float("inf")]
    assert search.best == 0.4


def test_unknown_strategies_are_refused() -> None:
    with pytest.raises(ValueError, match=r"expected models among published dqn, .*, got 'x'"):
        run("strategies", models=("x",))
