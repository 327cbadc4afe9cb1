"""Lengthscales learned by the evidence: convolution where labels do not depend on the place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from isotropy.evidence import LearningOptions, PriorOptions, learn_priors
from isotropy.nn import CircularConv2d, MapLinear, PathSum, SparseConv2d, SparseLinear, lengthscales
from isotropy.run import Step
from isotropy_papers import Result, Settings, experiment, ids
from isotropy_papers.ouderaa2023_lengthscales import (
    _WAYS,
    LengthscalePlan,
    Task,
    Way,
    images,
    learned,
    network,
    shift_errors,
)

TINY: dict[str, Any] = {"sizes": (24,), "test_rows": 20, "epochs": 13, "channels": 1}


def ignore(step: Step) -> None:
    pass


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ISOTROPY_CACHE", str(tmp_path / "cache"))


def run(**settings: Any) -> Result:
    return experiment("ouderaa2023/lengthscales").run(Settings(**{**TINY, **settings}), ignore)


def lengthscales_learned(task: Task, seed: int) -> tuple[list[float], float]:
    """One layer S-FC+S-CONV under weak priors that stay; the evidence learns ω of S-FC alone."""
    x, labels = images(160, 6, seed)
    torch.manual_seed(seed)
    layer = PathSum({"S-FC": SparseLinear(1, 3, 6), "S-CONV": SparseConv2d(1, 3)})
    layer.paths["S-CONV"].basis.requires_grad_(False)
    classes = 2 if task == "pattern" else 4
    pooled = nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, classes)
    model = nn.Sequential(layer, *pooled)
    names = lengthscales(model, SparseLinear)
    learn_priors(
        model,
        "classification",
        (x, labels[task]),
        epochs=50,
        batch_size=40,
        learning_rate=0.03,
        seed=seed,
        learning=LearningOptions(every=2, steps=0, hyper_learning_rate=0.3),
        priors=PriorOptions(precisions=0.1, hyperparameters=names),
    )
    own = dict(model.named_parameters())
    return [abs(float(own[name].detach())) for name in names], shift_errors(model, x)[0]


def test_lengthscales_alone_find_convolution_where_the_place_does_not_matter() -> None:
    free, free_error = lengthscales_learned("pattern", seed=2)
    placed, placed_error = lengthscales_learned("quadrant", seed=2)
    assert max(free) < 0.4  # from 1
    assert free_error < 0.05
    assert max(placed) > 0.4
    assert placed_error > 0.5


# --- parts ------------------------------------------------------------------------------------


def test_images_are_those_of_the_labels_wherever_they_are() -> None:
    x, labels = images(300, 8, seed=3)
    assert x.mean().item() == pytest.approx(0, abs=1e-6)
    assert x.std().item() == pytest.approx(1)
    assert labels["pattern"].unique().tolist() == [0, 1]
    assert labels["quadrant"].unique().tolist() == [0, 1, 2, 3]
    # where the two bright pixels of a pattern are, it is seen best
    lying, standing = (x + x.roll(-1, axis) for axis in (3, 2))
    best = torch.stack([each.flatten(1).amax(1) for each in (lying, standing)])
    assert best.argmax(0).equal(labels["pattern"])
    chosen = torch.where(labels["pattern"].view(-1, 1, 1, 1) == 0, lying, standing)
    at = chosen.flatten(1).argmax(1)
    quadrant = 2 * (at // 8 >= 4).long() + (at % 8 >= 4).long()
    assert quadrant.equal(labels["quadrant"])
    again, _ = images(300, 8, seed=3)
    assert again.equal(x)


def by_hand(layer: nn.Module, x: Tensor) -> float:
    """The error of one shift, in loops over the places."""
    with torch.no_grad():
        y, z = layer(x), layer(x.roll((1, 0), (2, 3)))
        total = torch.zeros(())
        for i in range(8):
            for j in range(8):
                total += (z[:, :, i, j] - y[:, :, (i - 1) % 8, j]).square().sum()
        return float((total / (y - y.mean((0, 2, 3), keepdim=True)).square().sum()).sqrt())


def test_errors_of_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    x = torch.randn(5, 1, 8, 8)
    strict, free = PathSum({"conv": CircularConv2d(1, 2)}), PathSum({"fc": MapLinear(2, 2, 8)})
    model = nn.Sequential(strict, nn.ReLU(), free)
    first, second = shift_errors(model, x)
    assert first < 1e-5
    assert second == pytest.approx(2**0.5, rel=0.15)  # of outputs that have nothing in common
    monkeypatch.setattr("isotropy_papers.ouderaa2023_lengthscales._SHIFTS", ((1, 0),))
    hidden = strict(x).relu().detach()
    assert shift_errors(model, x)[1] == pytest.approx(by_hand(free, hidden), rel=1e-5)


def test_a_constant_makes_no_error_small() -> None:
    torch.manual_seed(0)
    x, free = torch.randn(5, 1, 8, 8), MapLinear(1, 2, 8)
    plain = shift_errors(nn.Sequential(PathSum({"fc": free})), x)[0]
    constant = CircularConv2d(1, 2)
    nn.init.zeros_(constant.weight)
    nn.init.constant_(constant.bias, 1e3)
    both = PathSum({"fc": free, "constant": constant})
    assert shift_errors(nn.Sequential(both), x)[0] == pytest.approx(plain, rel=1e-2)


def test_networks_depend_on_the_seed_alone() -> None:
    first, again, other = (network(LengthscalePlan(), 2, "normalised", seed) for seed in (0, 0, 1))
    pairs = list(zip(first.parameters(), again.parameters(), strict=True))
    assert all(torch.equal(a, b) for a, b in pairs)
    assert not torch.equal(first[0].paths["S-FC"].inner, other[0].paths["S-FC"].inner)
    bases = [
        network(LengthscalePlan(), 2, kind, 0)[2].paths["S-FC"].inner_basis for kind in ("plain",)
    ]
    assert [basis.kind for basis in bases] == ["plain"]


@pytest.mark.filterwarnings("ignore:expected samples of all")
@pytest.mark.parametrize("way", ["fixed", "priors", "ω", "σ+priors"])
def test_ways_move_lengthscales_or_leave_them(way: str) -> None:
    plan = LengthscalePlan(rows=24, channels=1, epochs=13, test_rows=20)
    found = learned("pattern", _WAYS[way], plan, 0)
    moved = [found[f"layer {k} {side} |ω|"] != 1 for k in (0, 1) for side in ("inner", "outer")]
    assert moved == [_WAYS[way] != Way() and way != "priors"] * 4
    assert found["accuracy %"] % 5 == 0


# --- the experiment ---------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:expected samples of all")
def test_the_table_has_both_tasks_and_goes_on_from_what_is_kept(tmp_path: Path) -> None:
    assert "ouderaa2023/lengthscales" in ids()
    options: dict[str, Any] = {"models": ("fixed", "ω"), "out": tmp_path / "out", "epochs": 11}
    result = run(**options)
    rows = dict.fromkeys(cell.row for cell in result.cells)
    assert list(rows) == ["pattern, fixed", "pattern, ω", "quadrant, fixed", "quadrant, ω"]
    assert len({(cell.row, cell.column) for cell in result.cells}) == len(result.cells) == 4 * 13
    found = {(cell.row, cell.column): cell.ours for cell in result.cells}
    assert found["pattern, fixed", "layer 0 inner |ω|"] == 1
    before = {found[row, "layer 0 error before"] for row in rows}
    assert len(before) == 1  # the same network and images
    assert run(**options).cells == result.cells
    assert run(**options).seconds == result.seconds
    assert result.notes[0].startswith("24 training and 20 test images of 8×8")


def test_unknown_ways_are_refused() -> None:
    with pytest.raises(ValueError, match=r"expected models among fixed, priors, ω, .*, got 'u'"):
        run(models=("u",))
    with pytest.raises(ValueError, match=r"expected one size, got \[10, 20\]"):
        run(sizes=(10, 20))
