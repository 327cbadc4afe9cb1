import inspect
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from isotropy import cli, discovery
from isotropy.discovery import Finding, Findings, find_generators
from isotropy.discovery.generators import (
    ClassResult,
    GeneratorFindings,
    GeneratorOptions,
    SnappedAlgebra,
    snap,
    snap_affine,
)
from isotropy.discovery.proposing.generators._charts import chart_of_columns
from isotropy.run import Step
from isotropy_papers import Settings, experiment
from isotropy_papers import planted as bench_module
from isotropy_papers._planted_scores import (
    PlantedOutcome,
    equivariant_rank,
    least_cosine,
    rate_interval,
    same_title,
    scores,
)
from isotropy_papers.planted import bench
from isotropy_papers.planted_problems import PlantedProblem, planted_nulls, planted_problems

PROBLEMS, NULLS = planted_problems(), planted_nulls()
AT = "noise 0.01, N=4000"


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ISOTROPY_CACHE", str(tmp_path / "cache"))


def ignore(step: Step) -> None:
    pass


def perfect(problem: PlantedProblem, x: Tensor, y: Tensor, seed: int) -> PlantedOutcome:
    if not problem.holds:
        return PlantedOutcome(seconds=1.0)
    a = problem.algebra
    return PlantedOutcome(len(a), problem.title, a, a, claimed=True, seconds=2.0)


def nothing(problem: PlantedProblem, x: Tensor, y: Tensor, seed: int) -> PlantedOutcome:
    return PlantedOutcome(seconds=1.0)


def credulous(problem: PlantedProblem, x: Tensor, y: Tensor, seed: int) -> PlantedOutcome:
    return PlantedOutcome(1, "SO(2)", problem.algebra[:1], problem.algebra[:1], claimed=True)


def table(search: Any, **settings: Any) -> dict[tuple[str, str], float]:
    result = bench(Settings(**settings), ignore, search)
    assert len({(cell.row, cell.column) for cell in result.cells}) == len(result.cells)
    for cell in result.cells:
        low, high = cell.interval or (cell.ours, cell.ours)
        assert low <= cell.ours <= high
    return {(cell.row, cell.column): cell.ours for cell in result.cells}


@pytest.mark.parametrize("name", ["so2-axis", "so13-hidden", "su2-two", "se2-two", "so3-inertia"])
def test_a_perfect_search_scores_one_in_everything(name: str) -> None:
    problem = PROBLEMS[name]
    found = scores(problem, perfect(problem, torch.empty(0), torch.empty(0), 0))
    assert found.pop("seconds") == 2.0
    assert found.pop("refused") == 0.0
    assert all(value == pytest.approx(1.0) for value in found.values())
    assert set(found) == {"found", "dimension", "name", "cosine", "exact", "rank"}


def test_another_basis_of_the_algebra_scores_the_same() -> None:
    problem = PROBLEMS["so13"]
    mixed = torch.tensordot(torch.randn(6, 6, dtype=torch.float64), problem.algebra, 1)
    found = scores(
        problem, PlantedOutcome(6, "SO⁺(1,3), metric (+,−,−,−)", mixed, mixed, claimed=True)
    )
    assert all(found[name] == pytest.approx(1.0) for name in ("found", "cosine", "exact", "rank"))


def test_generators_with_translations_of_zero_are_the_same_as_without() -> None:
    problem = PROBLEMS["so3"]
    for padding in ((0, 1), (0, 1, 0, 1)):
        wide = torch.nn.functional.pad(problem.algebra, padding)
        found = scores(problem, PlantedOutcome(3, "SO(3)", wide, wide, claimed=True))
        assert all(found[name] == pytest.approx(1.0) for name in ("found", "cosine", "exact"))


def test_a_translation_where_there_is_none_is_wrong() -> None:
    problem = PROBLEMS["so3"]
    wide = torch.nn.functional.pad(problem.algebra, (0, 1, 0, 1))
    wide[0, 0, 3] = 1e-3
    found = scores(problem, PlantedOutcome(3, "SO(3)", wide, wide, claimed=True))
    assert found["exact"] == 0.0
    assert 0.999 < found["cosine"] < 1 - 1e-8


def test_a_wrong_dimension_is_neither_named_nor_exact() -> None:
    problem = PROBLEMS["so3"]
    found = scores(problem, credulous(problem, torch.empty(0), torch.empty(0), 0))
    assert found["cosine"] == pytest.approx(1.0)  # what was found is inside the truth
    assert not any(found[name] for name in ("found", "dimension", "name", "exact", "rank"))
    larger = PlantedOutcome(4, "SO(3) × scalings", claimed=True)
    assert not any(scores(problem, larger).values())


def test_nothing_scores_nothing() -> None:
    found = scores(PROBLEMS["so3"], PlantedOutcome())
    assert not any(found.values())
    assert scores(NULLS["so3-broken-0.8"], PlantedOutcome())["false discovery"] == 0.0


def test_the_right_algebra_without_a_claim_is_not_found() -> None:
    a = PROBLEMS["so3"].algebra
    found = scores(PROBLEMS["so3"], PlantedOutcome(3, "SO(3)", a, a, claimed=False))
    assert found["name"] == found["dimension"] == 1.0
    assert found["found"] == 0.0


def test_unsnapped_generators_are_not_exact_and_lose_maps() -> None:
    problem = PROBLEMS["so5-two"]
    rng = torch.Generator().manual_seed(0)
    noise = 1e-5 * torch.randn(10, 5, 5, dtype=torch.float64, generator=rng)
    rough = problem.algebra + noise
    found = scores(problem, PlantedOutcome(10, "SO(5)", rough, rough, claimed=True))
    assert found["exact"] == found["rank"] == 0.0
    assert found["cosine"] > 0.9999


def test_an_exact_algebra_of_the_right_name_in_the_wrong_basis_is_not_exact() -> None:
    turned = PROBLEMS["so3-hidden"].algebra
    found = scores(PROBLEMS["so3"], PlantedOutcome(3, "SO(3)", turned, turned, claimed=True))
    assert found["exact"] == 0.0
    assert found["rank"] == 1.0
    # where the planted basis is hidden, a neighbouring exact algebra is all that can be had
    shear = torch.eye(3, dtype=torch.float64)
    shear[0, 1] = 1e-3
    near = torch.linalg.inv(shear) @ turned @ shear
    assert scores(PROBLEMS["so3-hidden"], PlantedOutcome(3, "SO(3)", near, near))["exact"] == 1.0


def test_the_least_cosine_is_that_of_the_tilt() -> None:
    plane = torch.eye(9, dtype=torch.float64)[:2].reshape(2, 3, 3)
    tilted = plane.clone()
    tilted[1, 2, 2] = math.tan(0.3)
    assert least_cosine(plane, tilted) == pytest.approx(math.cos(0.3))
    assert least_cosine(plane, plane) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("name", "rank"),
    # SO(2): 4 choose 2; SO(4) and SO(1,3) have the alternating tensor beside three pairings;
    # SU(2) on C² twice: 2 trivial parts in the fourth power of a spinor, times 2⁴
    [("so2", 6), ("so3", 3), ("so4", 4), ("so5-two", 3), ("so13", 4), ("sl3-three", 2),
     ("sp4-three", 3), ("su2-two", 32)],
)  # fmt: skip
def test_ranks_are_those_of_invariant_theory(name: str, rank: int) -> None:
    assert equivariant_rank(PROBLEMS[name].algebra) == rank


def test_titles_may_be_spelt_in_several_ways() -> None:
    assert same_title("SO(3)*Scaling(1)", "SO(3) × scaling")
    assert same_title("so(3) and scalings", "SO(3) × scalings")
    assert same_title("SO⁺(2,1), metric (+,+,−)", "SO⁺(1,2)")
    assert not same_title("SO(2)", "SO(3)")
    assert not same_title("", "SO(3)")
    assert not same_title("anything", "")


def test_wilson_intervals_solve_their_equation() -> None:
    rate, (low, high) = rate_interval([1.0] * 7 + [0.0] * 3)
    assert rate == 0.7
    for end in (low, high):
        assert abs(rate - end) == pytest.approx(1.96 * math.sqrt(end * (1 - end) / 10))
    assert rate_interval([1.0] * 4)[1][1] == 1.0


def test_rates_over_all_problems() -> None:
    names = ("so2", "so3", "cubic-3", "noise-3", "so3-broken-0.8")
    ours = table(perfect, models=names, seeds=2)
    for score in ("found", "dimension", "name", "exact", "rank", "cosine ≥ 0.999"):
        assert ours["all positives", f"{score}, {AT}"] == 1.0
    assert ours["all nulls", f"false discovery, {AT}"] == 0.0
    assert ours["so2", f"cosine, {AT}"] == pytest.approx(1.0)
    assert ours["cubic-3", f"seconds, {AT}"] == 1.0
    assert {row for row, _ in ours} == {"all positives", "all nulls", *names}

    ours = table(credulous, models=names, seeds=2)
    assert ours["all positives", f"found, {AT}"] == 0.5  # SO(2) is right once
    assert ours["all nulls", f"false discovery, {AT}"] == 1.0
    assert ours["noise-3", f"false discovery, {AT}"] == 1.0

    def tilted(problem: PlantedProblem, x: Tensor, y: Tensor, seed: int) -> PlantedOutcome:
        tilt = problem.broken * torch.eye(3, dtype=torch.float64)
        return PlantedOutcome(3, "SO(3)", problem.algebra + tilt, claimed=True)

    ours = table(tilted, models=("so3", "so3-broken-0.1"), seeds=1)
    assert ours["so3-broken-0.1", f"cosine, {AT}"] < 0.999
    assert ours["all positives", f"cosine ≥ 0.999, {AT}"] == 1.0  # of the unbroken one alone
    assert ours["all positives", f"found, {AT}"] == 1.0

    ours = table(nothing, models=names, seeds=1)
    assert ours["all positives", f"found, {AT}"] == ours["so3", f"cosine, {AT}"] == 0.0
    assert ours["all nulls", f"false discovery, {AT}"] == 0.0


def test_a_refused_search_counts_as_refused_and_not_found() -> None:
    ours = table(lambda *_: PlantedOutcome(refused="too few rows"), models=("so3", "so2"), seeds=1)
    assert ours["all positives", f"refused, {AT}"] == ours["so3", f"refused, {AT}"] == 1.0
    assert ours["all positives", f"found, {AT}"] == 0.0


def test_the_search_sees_fresh_noisy_data_of_the_stated_size() -> None:
    seen: list[tuple[Tensor, Tensor, int]] = []

    def look(problem: PlantedProblem, x: Tensor, y: Tensor, seed: int) -> PlantedOutcome:
        seen.append((x, y, seed))
        return PlantedOutcome()

    table(look, models=("so3",), seeds=2, sizes=(300, 4000), full=True)
    assert [len(x) for x, _, _ in seen] == [300, 300, 4000, 4000] * 4
    noises = [
        float((y - PROBLEMS["so3"].target(x)).std() / PROBLEMS["so3"].target(x).std())
        for x, y, _ in seen
        if len(x) == 4000
    ]
    assert noises == pytest.approx([0.0, 0.0, 0.01, 0.01, 0.05, 0.05, 0.1, 0.1], rel=0.1)
    assert not torch.equal(seen[0][0], seen[1][0])
    assert seen[0][2] != seen[1][2]
    again = list(seen)
    seen.clear()
    table(look, models=("so3",), seeds=1, sizes=(300,))
    assert torch.equal(seen[0][0], again[0][0])  # more seeds only add runs


def test_groups_of_problems_may_be_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    quiet = table(nothing, models=("nulls",), seeds=1, sizes=(20,))
    assert {row for row, _ in quiet} == {"all nulls", *NULLS}
    mixed = table(nothing, models=("positives", "cubic-3"), seeds=1, sizes=(20,))
    assert {row for row, _ in mixed} == {"all positives", "all nulls", "cubic-3", *PROBLEMS}
    with pytest.raises(ValueError, match=r"expected models among all, .*so3.*, got 'so33'"):
        table(nothing, models=("so33",))
    quick = table(nothing)
    assert any(column.endswith("N=1000") for _, column in quick)
    assert 4 <= len({row for row, _ in quick} - {"all positives", "all nulls"}) <= 8
    full = table(nothing, full=True, seeds=1, models=("so2",))
    cases = {column.partition("noise ")[2].replace(" N=", "") for _, column in full}
    noises, sizes = ("0", "0.01", "0.05", "0.1"), (1000, 4000, 16000)
    assert cases == {f"{noise},{size}" for noise in noises for size in sizes}
    monkeypatch.setattr(bench_module, "_NOISES", (0.1,))
    full = table(nothing, full=True, seeds=1, sizes=(20,))
    assert {row for row, _ in full} >= {*NULLS, *PROBLEMS}


def test_an_interrupted_bench_goes_on_where_it_was(tmp_path: Path) -> None:
    done: list[str] = []

    def failing(problem: PlantedProblem, x: Tensor, y: Tensor, seed: int) -> PlantedOutcome:
        if problem.name == "cubic-3" and "so3" in done and "stopped" not in done:
            done.append("stopped")
            raise KeyboardInterrupt
        done.append(problem.name)
        return PlantedOutcome()

    settings = {"models": ("so3", "cubic-3"), "seeds": 1, "sizes": (20,), "out": tmp_path}
    with pytest.raises(KeyboardInterrupt):
        table(failing, **settings)
    table(failing, **settings)
    assert done == ["so3", "stopped", "cubic-3"]


def answering(answer: Any, asked: dict[str, Any]) -> Callable[..., Any]:
    """A search with the signature of the library's that notes what it is asked."""
    signature = inspect.signature(find_generators)

    def answered(*given: Any, **options: Any) -> Any:
        asked.update(signature.bind(*given, **options).arguments)
        if isinstance(answer, Exception):
            raise answer
        return answer

    return answered


def one_class(estimate: np.ndarray, snapped: SnappedAlgebra | None, affine: bool) -> ClassResult:
    d = estimate.shape[1]
    columns = (tuple(range(d)), tuple(range(d, 2 * d)))
    names = tuple(f"x{i}" for i in range(d))
    chart = chart_of_columns(np.eye(2 * d), columns, names, "two blocks")
    return ClassResult(chart, "invariant", affine, 9, estimate=estimate, snapped=snapped)


def found_in(problem: PlantedProblem, *, claimed: bool) -> GeneratorFindings:
    """What the library says of two blocks: the planted algebra, seen through a little noise."""
    algebra, rows = problem.algebra.numpy(), problem.algebra.shape[-1] - problem.affine
    make_exact = snap_affine if problem.affine else snap
    snapped = make_exact(algebra[:, :rows], error=1e-6)
    assert snapped is not None
    chosen = one_class(algebra[:, :rows] + 1e-4, snapped, problem.affine)
    other = one_class(np.eye(2)[None], snap(np.eye(2)[None], error=1e-6), False)
    finding = Finding.of(f"{snapped.title}, acting on 2 blocks", "", "", "", confirmed=True)
    return GeneratorFindings(Findings([finding] * claimed), (other, chosen), chosen, "polynomial")


@pytest.mark.parametrize("claimed", [True, False])
@pytest.mark.parametrize(
    ("name", "shapes", "affine", "output"),
    [("so3-vector", ((50, 6), (50, 3)), False, "vector"),
     ("se2-two", ((50, 4), (50, 1)), True, "invariant")],
)  # fmt: skip
def test_the_library_is_told_the_class_and_its_answer_is_read(
    name: str,
    shapes: Any,
    affine: bool,
    output: Any,
    claimed: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: dict[str, Any] = {}
    found = found_in(PROBLEMS[name], claimed=claimed)
    monkeypatch.setattr(discovery, "find_generators", answering(found, asked))
    result = experiment("planted").run(Settings(models=(name,), seeds=1, sizes=(50,)), ignore)
    ours = {cell.column.split(",")[0]: cell.ours for cell in result.cells if cell.row == name}
    assert ours["found"] == claimed
    assert ours["dimension"] == ours["name"] == ours["exact"] == ours["rank"] == 1.0
    assert 0.999 < ours["cosine"] < 1 - 1e-9
    assert "refused" not in ours
    assert (asked.pop("X").shape, asked.pop("y").shape) == shapes
    assert isinstance(asked.pop("seed"), int)
    # the class and nothing else: not the task, the margin or the level
    options = GeneratorOptions(affine=affine, output=output)
    assert asked == {"blocks": 2, "options": options, "fit_models": False}


UNCLOSED = one_class(np.eye(3)[None], None, False)
TRIVIAL = Finding.of("SO(3)", "SO(3)", "", "", confirmed=True, trivial="the target is linear")


@pytest.mark.parametrize(
    ("answer", "refused"),
    [(ValueError("expected more rows"), 1.0),
     (GeneratorFindings(Findings(), (), None, "polynomial"), 0.0),
     (GeneratorFindings(Findings(trivial=[TRIVIAL]), (), None, "a linear map"), 0.0),
     (GeneratorFindings(Findings(), (UNCLOSED,), UNCLOSED, "polynomial"), 0.0)],
)  # fmt: skip
def test_the_librarys_refusals_and_empty_answers_are_no_claims(
    answer: Any, refused: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(discovery, "find_generators", answering(answer, {}))
    result = experiment("planted").run(
        Settings(models=("so3", "cubic-3"), seeds=1, sizes=(50,)), ignore
    )
    ours = {(c.row, c.column.split(",")[0]): c.ours for c in result.cells}
    assert ours["all positives", "refused"] == ours["all nulls", "refused"] == refused
    assert ours["all positives", "found"] == ours["all nulls", "false discovery"] == 0.0
    assert ours["so3", "dimension"] == ours["so3", "exact"] == ours["so3", "cosine"] == 0.0


def test_a_claim_without_generators_is_a_false_discovery(monkeypatch: pytest.MonkeyPatch) -> None:
    finding = Finding.of("a translation", "", "", "", confirmed=True)
    claim = GeneratorFindings(Findings([finding]), (), None, "polynomial")
    monkeypatch.setattr(discovery, "find_generators", answering(claim, {}))
    result = experiment("planted").run(Settings(models=("cubic-3",), seeds=1, sizes=(50,)), ignore)
    assert result.cells[0].column.startswith("false discovery")
    assert result.cells[0].ours == 1.0


def test_the_librarys_own_search_finds_what_is_plain() -> None:
    result = experiment("planted").run(Settings(models=("so2",), seeds=1, sizes=(500,)), ignore)
    ours = {cell.column.split(",")[0]: cell.ours for cell in result.cells if cell.row == "so2"}
    assert all(ours[name] == 1.0 for name in ("found", "dimension", "name", "exact", "rank"))
    assert 0.999 < ours["cosine"] < 1.0


def test_the_command_line_runs_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bench_module, "_search", perfect)
    arguments = ["reproduce", "planted", "--models", "so2,cubic-3", "--seeds", "1"]
    assert cli.run(arguments) == 0
    printed = capsys.readouterr().out
    assert "all positives" in printed
    assert f"false discovery, {AT}" in printed
