from pathlib import Path

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

from isotropy.run import Step
from isotropy_papers import Result, Settings, experiment
from isotropy_papers._statistics import mean_95
from isotropy_papers.yeh2022_figure_a2 import diagonal_share

EVIDENCE, BRUTE_FORCE = "Ours (evidence)", "Ours* (brute force)"


def ignore(step: Step) -> None:
    pass


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ISOTROPY_CACHE", str(tmp_path / "cache"))


def run(id: str, **settings: object) -> tuple[Result, dict[tuple[str, str], float]]:
    result = experiment(f"yeh2022/{id}").run(Settings(**settings), ignore)  # type: ignore[arg-type]
    assert len({(cell.row, cell.column) for cell in result.cells}) == len(result.cells)
    for cell in result.cells:
        if cell.interval is not None:
            assert cell.interval[0] <= cell.ours <= cell.interval[1]
    return result, {(cell.row, cell.column): cell.ours for cell in result.cells}


def curves(result: Result, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, list[float]]]:
    """What a figure draws: in each panel, the places of each method."""
    figures: list[Figure] = []

    def keep(figure: Figure, path: Path) -> Path:
        figures.append(figure)
        return path

    monkeypatch.setattr("isotropy.report.save_figure", keep)
    plot = experiment(result.id).plot
    assert plot is not None
    plot(result, Path("unwritten.png"))
    return [
        {str(line.get_label()): list(map(float, line.get_xdata())) for line in axis.get_lines()}  # type: ignore[arg-type]
        for axis in figures[0].axes
    ]


def test_the_interval_is_that_of_a_normal_mean() -> None:
    values = np.random.default_rng(0).normal(3.0, 2.0, 400)
    mean, interval = mean_95(list(values))
    assert interval is not None
    assert mean == pytest.approx(values.mean())
    assert interval[1] - interval[0] == pytest.approx(2 * 1.96 * 2 / 20, rel=0.1)
    assert mean_95([1.0]) == (1.0, None)


def test_table_1_each_penalty_helps_and_evidence_helps_most() -> None:
    result, ours = run("table1", sizes=(4,), seeds=60)
    for column in ("PD, K=4", "MSE, K=4"):
        none, entropy, both, exact, evidence = (
            ours[method, column]
            for method in ("no penalty", "entropy", "entropy and rank", BRUTE_FORCE, EVIDENCE)
        )
        assert none > entropy > both > exact > evidence
    # the nuclear norm as it is written is another table
    assert (
        ours["entropy and true nuclear norm", "PD, K=4"] > 2 * ours["entropy and rank", "PD, K=4"]
    )
    published = [cell for cell in result.cells if cell.theirs is not None]
    assert len(published) == 6
    for cell in published:
        assert cell.interval is not None
        assert cell.theirs is not None
        # three standard errors of 60 runs
        assert abs(cell.ours - cell.theirs) < 1.5 * (cell.interval[1] - cell.ours)


def test_figure_2_baselines_in_closed_form_and_the_known_brute_force(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    models = ("No sharing", "Oracle", BRUTE_FORCE)
    result, ours = run("figure2", sizes=(2, 3), models=models)
    means = np.array([np.random.RandomState(run).randn(100, 3).mean(0) for run in range(200)])
    assert ours["No sharing", "MSE, K=3"] == pytest.approx((means**2).sum(1).mean())
    assert ours["Oracle", "MSE, K=3"] == pytest.approx(3 * (means.mean(1) ** 2).mean())
    assert ours["No sharing", "PD, K=3"] == 2
    assert ours["Oracle", "PD, K=3"] == 0
    # measured with the authors' code on the same data
    assert ours[BRUTE_FORCE, "MSE, K=2"] == pytest.approx(0.0136, abs=5e-5)
    assert ours[BRUTE_FORCE, "PD, K=2"] == pytest.approx(0.110)
    assert curves(result, monkeypatch) == [{model: [2, 3] for model in models}] * 2


def test_table_1_stands_beside_the_relaxation_of_figure_2() -> None:
    result, _ = run("figure2", sizes=(3, 4), seeds=2, epochs=2)
    theirs = {(c.row, c.column): c.theirs for c in result.cells if c.theirs is not None}
    assert theirs == {
        ("Ours (relaxation)", "MSE, K=4"): 0.025,
        ("Ours (relaxation)", "PD, K=4"): 0.49,
    }


def test_figure_3_less_training_data_is_better_at_rank_1(monkeypatch: pytest.MonkeyPatch) -> None:
    models = (BRUTE_FORCE, "Ours (relaxation)")
    result, ours = run("figure3", sizes=(10, 90), seeds=60, epochs=600, models=models)
    for model in models:
        for what in ("MSE", "PD"):
            assert ours[model, f"{what}, 10 % training"] < ours[model, f"{what}, 90 % training"]
    assert curves(result, monkeypatch) == [{model: [10, 90] for model in models}] * 2


def test_methods_without_a_split_run_once_for_all_splits() -> None:
    steps: list[Step] = []
    settings = Settings(sizes=(10, 50, 90), seeds=2, models=("Oracle", BRUTE_FORCE))
    result = experiment("yeh2022/figure3").run(settings, steps.append)
    assert len(steps) == 1 + 3
    assert len(result.cells) == 2 * 2 * 3


def test_figure_4_no_sharing_is_right_only_where_all_differ(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    models = ("No sharing", "Oracle", EVIDENCE)
    result, ours = run("figure4", seeds=40, models=models)
    for rank in range(1, 6):
        assert ours["No sharing", f"PD, rank {rank}"] == 5 - rank
        assert ours[EVIDENCE, f"PD, rank {rank}"] <= 0.15
        # rank/100 in the mean, twice that is 1.4 over 40 runs at rank 1
        assert ours["Oracle", f"MSE, rank {rank}"] == pytest.approx(rank / 100, rel=0.7)
    assert curves(result, monkeypatch) == [{model: [1, 2, 3, 4, 5] for model in models}] * 2


def test_figure_5_evidence_shares_many_means(monkeypatch: pytest.MonkeyPatch) -> None:
    models = ("No sharing", EVIDENCE)
    result, ours = run("figure5", sizes=(30, 50, 100), models=models)
    for dimensions in (30, 50, 100):
        assert ours[EVIDENCE, f"PD, K={dimensions}"] <= 0.1 * dimensions
        no_sharing = ours["No sharing", f"MSE, K={dimensions}"]
        assert no_sharing == pytest.approx(dimensions / 100, rel=0.2)
        assert ours[EVIDENCE, f"MSE, K={dimensions}"] < no_sharing / 5
    assert curves(result, monkeypatch) == [{model: [30, 50, 100] for model in models}] * 2


def test_figure_5_the_relaxation_leaves_elements_misplaced() -> None:
    _, ours = run("figure5", sizes=(30,), seeds=3, models=("Ours (relaxation)", EVIDENCE))
    assert ours["Ours (relaxation)", "PD, K=30"] > 10 > ours[EVIDENCE, "PD, K=30"]


def test_figure_6_has_its_least_error_inside() -> None:
    result, ours = run("figure6", sizes=(1, 10, 90), models=(BRUTE_FORCE,), seeds=100)
    for what in ("MSE", "PD"):
        inside = ours[BRUTE_FORCE, f"{what}, 10 % training"]
        assert inside < ours[BRUTE_FORCE, f"{what}, 1 % training"]
        assert inside < ours[BRUTE_FORCE, f"{what}, 90 % training"]
    assert "Eq. 15" in result.notes[-1]


def test_figure_8_evidence_recovers_cross_correlations(monkeypatch: pytest.MonkeyPatch) -> None:
    models = ("No sharing", "Oracle", EVIDENCE)
    result, ours = run("figure8", models=models, test_rows=500)
    for size in (6, 15, 35, 80, 255):
        assert ours["No sharing", f"PD, size {size}"] == size - (3 if size == 6 else 4)
        assert ours[EVIDENCE, f"PD, size {size}"] == 0
        assert ours[EVIDENCE, f"l2, size {size}"] == pytest.approx(
            ours["Oracle", f"l2, size {size}"]
        )
        assert ours["Oracle", f"l2, size {size}"] < ours["No sharing", f"l2, size {size}"] / 2
    assert curves(result, monkeypatch) == [{model: [6, 15, 35, 80, 255] for model in models}] * 2


def test_figure_8_relaxation_at_the_sizes_of_which_the_paper_says_it_recovers() -> None:
    result, _ = run(
        "figure8", sizes=(6, 15), seeds=3, epochs=500, models=("Ours (relaxation)",), test_rows=100
    )
    distances = [cell for cell in result.cells if cell.column.startswith("PD")]
    assert [cell.theirs for cell in distances] == [0.0, 0.0]
    assert [cell.ours for cell in distances] == [0.0, 0.0]


def test_figure_8_augerino_learns_hardly_to_shift() -> None:
    result, ours = run(
        "figure8", sizes=(6,), seeds=2, models=("No sharing", "Oracle", "Augerino"), test_rows=500
    )
    assert ours["Augerino", "l2, size 6"] > ours["Oracle", "l2, size 6"]
    assert ours["Augerino", "l2, size 6"] < 0.01  # a shift by one place costs 10
    assert not any(c.row == "Augerino" and c.column.startswith("PD") for c in result.cells)


def test_figure_a1_sharing_helps_where_noise_is_small_and_not_where_it_is_large(
    tmp_path: Path,
) -> None:
    best, none, shared = models = ("Best linear map", "No sharing", "Toeplitz, given")
    result, ours = run("figureA1", sizes=(1, 20), models=models)
    assert ours[shared, "MSE, noise 1"] < ours[none, "MSE, noise 1"]
    assert ours[shared, "MSE, noise 20"] > ours[none, "MSE, noise 20"]
    for model in (none, shared):
        for level in (1, 20):
            assert ours[best, f"MSE, noise {level}"] < ours[model, f"MSE, noise {level}"]
    plot = experiment(result.id).plot
    assert plot is not None
    assert plot(result, tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_figure_a1_an_exact_refit_beats_means_over_blocks() -> None:
    exact = "Ours (relaxation, exact refit)"
    _, ours = run("figureA1", sizes=(2,), seeds=2, epochs=400, models=("Ours (relaxation)", exact))
    assert ours[exact, "MSE, noise 2"] < ours["Ours (relaxation)", "MSE, noise 2"]


def test_figure_a2_shared_maps_are_nearer_to_toeplitz(tmp_path: Path) -> None:
    models = ("Best linear map", "No sharing", EVIDENCE)
    result, ours = run("figureA2", seeds=1, models=models)
    share = "share of variance along diagonals"
    assert ours["No sharing", share] < ours[EVIDENCE, share] < ours["Best linear map", share] < 1
    assert ours["No sharing", "PD"] == 100 - 19
    entries = [cell.ours for cell in result.cells if cell.row == EVIDENCE and "G[" in cell.column]
    assert len(entries) == 100
    assert len(set(entries)) < 20
    plot = experiment(result.id).plot
    assert plot is not None
    assert plot(result, tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_the_share_along_diagonals_is_that_of_a_regression_on_them() -> None:
    g = torch.randn(4, 4, generator=torch.Generator().manual_seed(0)).double()
    design = np.array([np.eye(4, k=k).ravel() for k in range(-3, 4)]).T
    entries = g.numpy().ravel()
    fitted = design @ np.linalg.lstsq(design, entries, rcond=None)[0]
    explained = 1 - ((entries - fitted) ** 2).sum() / ((entries - entries.mean()) ** 2).sum()
    assert diagonal_share(g) == pytest.approx(explained)
    assert diagonal_share(torch.from_numpy(fitted.reshape(4, 4))) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("id", "sizes", "message"),
    [
        ("figure3", (100,), r"expected training rows between 1 and 99, got 100"),
        ("figure4", (6,), r"expected a rank between 1 and the 5 dimensions, got 6"),
        ("figure8", (20,), r"expected sizes of maps of n inputs and n − 2 outputs, .*, got 20"),
    ],
)
def test_bad_sizes(id: str, sizes: tuple[int, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        experiment(f"yeh2022/{id}").run(Settings(sizes=sizes, seeds=1), ignore)


def test_unknown_method() -> None:
    with pytest.raises(ValueError, match=r"expected models among No sharing, .*, got 'x'"):
        experiment("yeh2022/figure2").run(Settings(models=("x",), seeds=1), ignore)
