from math import cos, exp, log, sin, sqrt
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from isotropy import cli
from isotropy.data import Task
from isotropy.discovery import generators
from isotropy.groups import SO, O
from isotropy.nn import EMLP
from isotropy.reps import Scalar, Symmetry, V
from isotropy.run import Step
from isotropy_papers import Settings, discovered, experiment
from isotropy_papers._searched_tasks import (
    Found,
    SearchedProblem,
    find_with_library,
    problems,
    searched,
)
from isotropy_papers.discovered import compare
from isotropy_papers.finzi2023_figure2_5 import _NetworkFit

PROBLEMS = problems()
TINY: dict[str, Any] = {"epochs": 1, "channels": 16, "test_rows": 10, "sizes": (100,)}


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ISOTROPY_CACHE", str(tmp_path / "cache"))


def ignore(step: Step) -> None:
    pass


def finds(symmetry: str, **known: Any) -> Any:
    def find(x: Tensor, y: Tensor, hints: Any, seed: int) -> Found:
        return Found(name=f"found {symmetry}", symmetry=symmetry, confirmed=True, **known)

    return find


def table(find: Any, **settings: Any) -> dict[tuple[str, str], float]:
    result = compare(Settings(**{**TINY, **settings}), ignore, find)
    assert len({(cell.row, cell.column) for cell in result.cells}) == len(result.cells)
    return {(cell.row, cell.column): cell.ours for cell in result.cells}


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_algebra_to_be_found_is_one_of_the_task(name: str) -> None:
    problem = PROBLEMS[name]
    x, y = problem.task.draw(5, generator=0)
    for a in problem.algebra:
        g = torch.linalg.matrix_exp(0.3 * a)
        blocks = problem.hints["blocks"]
        columns = (
            torch.arange(x.shape[1]).reshape(blocks, -1) if isinstance(blocks, int) else blocks
        )
        moved = x.clone()
        for block in columns:
            moved[:, list(block)] = x[:, list(block)] @ g.T
        if problem.hints.get("output") == "matrix":
            y_moved = (g @ y.unflatten(1, (3, 3)) @ g.T).flatten(1)
        else:
            y_moved = y
        torch.testing.assert_close(problem.task.target(moved), y_moved, rtol=1e-9, atol=1e-9)
    dimensions = {"O(5)": 10, "inertia": 3 + 1, "pendulum": 1, "scattering": 6}
    assert len(problem.algebra) == dimensions[name]


def test_a_search_is_scored_against_the_truth() -> None:
    problem = PROBLEMS["inertia"]
    truth = problem.algebra
    mixed = torch.tensordot(torch.randn(4, 4, dtype=torch.float64), truth, 1)
    tilt = 0.2
    turned = truth.clone()
    turned[3] = cos(tilt) * truth[3] + sin(tilt) * torch.diag(
        torch.tensor([1.0, -2.0, 1.0])
    ) / sqrt(2)
    scored = searched(problem, {}, 0, finds("", estimate=turned, generators=mixed))
    assert scored["cosine"] == pytest.approx(cos(tilt))
    assert scored["exact"] == scored["confirmed"] == 1.0
    near = truth + 1e-6 * torch.randn(truth.shape, dtype=torch.float64)
    scored = searched(problem, {}, 0, finds("", estimate=near, generators=near))
    assert scored["exact"] == 0.0
    assert 1 - 1e-6 < scored["cosine"]
    fewer = searched(problem, {}, 0, finds("", generators=truth[:3]))
    assert fewer["exact"] == fewer["cosine"] == 0.0


def test_a_search_sees_rows_that_no_network_is_trained_on() -> None:
    seen: dict[int, Tensor] = {}

    def look(x: Tensor, y: Tensor, hints: Any, seed: int) -> Found:
        seen[seed] = x
        torch.testing.assert_close(y, PROBLEMS["O(5)"].task.target(x))
        return Found()

    for seed in (0, 1):
        searched(PROBLEMS["O(5)"], {}, seed, look)
    assert len(seen[0]) == PROBLEMS["O(5)"].rows
    assert not torch.equal(seen[0], seen[1])
    splits = PROBLEMS["O(5)"].task.splits(500, validation=500, test=500, generator=0)
    used = {float(v) for x, _ in (splits.train, splits.validation, splits.test) for v in x[:, 0]}
    assert used.isdisjoint(seen[0][:, 0].tolist())


def test_a_group_written_as_the_given_one_gives_the_same_network() -> None:
    ours = table(finds(str(PROBLEMS["O(5)"].given)), models=("O(5)",), seeds=2)
    at = "test MSE, N=100"
    assert ours["O(5) EMLP, discovered", at] == ours["O(5) EMLP, given", at]
    assert ours["O(5) EMLP, discovered", "ratio to given, N=100"] == 1.0
    assert not any("scalings" in row for row, _ in ours)
    assert ("O(5) EMLP, given", "ratio to given, N=100") not in ours


def test_scalings_are_kept_and_left_out() -> None:
    found = finds("SO(3)*Scaling(1): 5*Scalar+5*V >> T(2)")
    ours = table(found, models=("inertia",), seeds=1, channels=112)
    errors = {row: value for (row, column), value in ours.items() if column.startswith("test")}
    assert list(errors) == [
        "inertia MLP",
        "inertia EMLP, given",
        "inertia EMLP, discovered",
        "inertia EMLP, discovered, scalings left out",
    ]
    assert errors["inertia EMLP, discovered"] != errors["inertia EMLP, given"]
    rest = Symmetry.parse(discovered._without_scalings("SO(3)*Scaling(1): 5*Scalar+5*V >> T(2)"))
    a = torch.stack([each.dense() for each in rest.group.algebra])
    torch.testing.assert_close(a, -a.mT)
    assert len(a) == 3
    assert (rest.rep_in.size(), rest.rep_out.size()) == (20, 9)
    assert discovered._without_scalings("SO13p: 4*V >> Scalar") == "SO13p: 4*V >> Scalar"


def test_the_network_has_the_symmetry_found_and_its_error_is_that_of_its_predictions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fits: list[Any] = []
    make = _NetworkFit.of

    def keep(task: Task, *rest: Any) -> Any:
        fits.append((task, make(task, *rest)))
        return fits[-1][1]

    monkeypatch.setattr(discovered, "_NetworkFit", SimpleNamespace(of=keep))
    symmetry = "SO(2)+Trivial(1): 4*V >> Scalar"
    ours = table(finds(symmetry), models=("pendulum",), seeds=1)
    task, kept = fits[-1]
    assert str(task.symmetry) == symmetry
    ensemble = kept.training.ensemble
    assert isinstance(ensemble.network, EMLP)
    x, y = task.splits(100, test=10, generator=0).test
    scaling = task.standardisation(*task.splits(100, generator=0).train)
    turn = torch.tensor([[0.6, -0.8, 0.0], [0.8, 0.6, 0.0], [0.0, 0.0, 1.0]]).double()
    turned = (x.unflatten(1, (4, 3)) @ turn.T).flatten(1)
    predicted, moved = (
        scaling.original_outputs(ensemble.predict(scaling.inputs(each).float()[None])[0].double())
        for each in (x, turned)
    )
    torch.testing.assert_close(moved, predicted, rtol=1e-4, atol=1e-5)
    error = (predicted - y).square().mean()
    found = ours["pendulum EMLP, discovered", "test MSE, N=100"]
    assert found == pytest.approx(float(error), rel=1e-3)


def test_ratios_are_paired_by_seed() -> None:
    given = {0: 1.0, 1: 4.0, 2: 9.0}
    cells = discovered._error_cells("row", 30, {0: 2.0, 2: 9.0}, given)
    ratio = next(cell for cell in cells if cell.column == "ratio to given, N=30")
    assert ratio.ours == pytest.approx(sqrt(2))
    assert ratio.interval is not None
    half = 1.96 * np.std([log(2), 0.0], ddof=1) / sqrt(2)
    assert ratio.interval == pytest.approx((sqrt(2) * exp(-half), sqrt(2) * exp(half)))
    alone = discovered._error_cells("row", 30, {0: 2.0}, given)
    assert [cell.interval for cell in alone] == [None, None]


def test_where_nothing_is_found_there_is_no_network_of_it() -> None:
    def only_once(x: Tensor, y: Tensor, hints: Any, seed: int) -> Found:
        return Found(symmetry=str(PROBLEMS["O(5)"].given)) if seed == 1 else Found()

    nothing = table(only_once, models=("O(5)",), seeds=1)
    assert not any("discovered" in row for row, _ in nothing)
    assert nothing["O(5) search", "dimension found"] == 0.0
    assert nothing["O(5) search", "true dimension"] == 10.0
    once = compare(Settings(**TINY, models=("O(5)",), seeds=2, full=True), ignore, only_once)
    ratio = [c for c in once.cells if c.row == "O(5) EMLP, discovered"]
    assert [cell.interval for cell in ratio] == [None, None]  # of one seed
    assert "O(5), 4000 rows: nothing in 2 of 2" in once.notes


def test_full_has_a_search_for_each_seed_and_the_other_classes() -> None:
    calls: list[Any] = []

    def find(x: Tensor, y: Tensor, about: Any, seed: int) -> Found:
        calls.append((dict(about), seed, len(x)))
        return Found(classes=(("all; y stays", "SO(2), acting on R^2", 1, True),))

    ours = table(find, models=("pendulum",), seeds=2, full=True)
    assert calls == [
        ({"blocks": 4}, 0, PROBLEMS["pendulum"].rows),
        ({"blocks": 4}, 1, PROBLEMS["pendulum"].rows),
        ({}, 0, PROBLEMS["pendulum"].rows),
        ({"blocks": 1, "symplectic": True}, 0, PROBLEMS["pendulum"].rows),
    ]
    assert ours["pendulum, nothing told: all; y stays", "dimension, SO(2), chosen"] == 1.0
    assert ours["pendulum, canonical: all; y stays", "dimension, SO(2), chosen"] == 1.0


def test_tasks_may_be_asked_for() -> None:
    quick = table(finds(""), seeds=1)
    assert {row.split()[0] for row, _ in quick} == {"O(5)", "inertia"}
    with pytest.raises(ValueError, match=r"expected models among O\(5\), .*, got 'o5'"):
        table(finds(""), models=("o5",))


def a_class(**changes: Any) -> SimpleNamespace:
    usual = {"action": "all; y stays", "title": "SO(2)", "dimension": 1, "exact": True}
    estimate = np.array([[[0.0, -1.0], [1.1, 0.0]]])
    return SimpleNamespace(**{**usual, "affine": False, "estimate": estimate, **changes})


def library(monkeypatch: pytest.MonkeyPatch, found: Any) -> dict[str, Any]:
    asked: dict[str, Any] = {}

    def find_generators(x: Any, y: Any, **options: Any) -> Any:
        asked.update(options)
        return found

    monkeypatch.setattr(generators, "find_generators", find_generators)
    return asked


def test_the_librarys_answer_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = a_class()
    others = [a_class(title="", dimension=0), a_class(title="", dimension=2)]
    others.append(a_class(exact=False, action="blocks; y stays"))
    exact = np.array([[[0.0, -1.0], [1.0, 0.0]]])
    claims = [
        SimpleNamespace(
            approximate=kind,
            confirmed=True,
            name=name,
            symmetry=name,
            generators=exact,
            action="all; y stays",
            dimension=1,
        )
        for kind, name in ((True, "SO(3): V >> Scalar"), (False, "SO(2): V >> Scalar"))
    ]
    # what was tested first need not be what stands
    found = SimpleNamespace(findings=claims, chosen=others[1], classes=[*others, chosen])
    asked = library(monkeypatch, found)
    x = torch.zeros(3, 2)
    read = find_with_library(x, x, {"blocks": 1}, 7)
    options = generators.GeneratorOptions()
    assert asked == {"blocks": 1, "options": options, "seed": 7, "fit_models": False}
    assert read.symmetry == "SO(2): V >> Scalar"  # the approximate one is passed over
    assert read.generators is not None
    assert torch.equal(read.generators, torch.tensor(exact))
    titles = [(title, dimension, one) for _, title, dimension, one in read.classes]
    assert titles == [
        ("nothing", 0, False),
        ("no exact algebra", 2, False),
        ("nearly SO(2)", 1, False),
        ("SO(2)", 1, True),
    ]
    found.classes = [a_class(affine=True)]
    assert find_with_library(x, x, {}, 0).symmetry == ""
    found.findings = claims[:1]
    assert find_with_library(x, x, {}, 0).name == ""


def test_the_library_finds_a_rotation_in_data() -> None:
    def target(x: Tensor) -> Tensor:
        product: Tensor = (x[:, :2] * x[:, 2:]).sum(1, keepdim=True)
        return product

    def draw(n: int, rng: torch.Generator) -> Tensor:
        return torch.randn(n, 4, dtype=torch.float64, generator=rng)

    task = Task("pairs", Symmetry(O(2), 2 * V, Scalar), (SO(2),), draw, target)
    problem = SearchedProblem(task, {"blocks": 2, "output": "invariant", "affine": False}, 300)
    found = searched(problem, problem.hints, 0, find_with_library)
    assert found["symmetry"] == str(problem.given)
    assert found["exact"] == found["confirmed"] == 1.0
    assert found["cosine"] > 0.999


def test_the_command_line_runs_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(discovered, "find_with_library", finds("SO(5): 2*V >> Scalar"))
    arguments = ["reproduce", "discovered", "--models", "O(5)", "--seeds", "1"]
    assert cli.run([*arguments, "--epochs", "1", "--channels", "16"]) == 0
    printed = capsys.readouterr().out
    assert "O(5) EMLP, discovered" in printed
    assert "found SO(5): 2*V >> Scalar in 1 of 1" in printed
    assert experiment("discovered").id == "discovered"
