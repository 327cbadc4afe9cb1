from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from evidence_parts import LearningPlan
from idx_files import write_idx
from isotropy.data import small_digits
from isotropy.nn import LayerwiseNetwork
from isotropy.run import Step
from isotropy_papers import Result, Settings, experiment, ids
from isotropy_papers._layerwise_runs import (
    CIFAR,
    MNIST,
    QUADRANTS,
    Job,
    LayerwisePlan,
    LayerwiseRow,
    Net,
    _augmented,
    _tested,
    quick_plan,
    studied,
    trained,
)
from isotropy_papers._layerwise_tasks import task_of

IDS = [f"ouderaa2023/table{n}" for n in (1, 2, 3, 4, 7)]
TINY: dict[str, Any] = {"sizes": (24,), "test_rows": 20, "epochs": 2, "channels": 1}
few_classes = pytest.mark.filterwarnings("ignore:expected samples of all")
CONV = Net(("conv",), 1)


def ignore(step: Step) -> None:
    pass


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ISOTROPY_CACHE", str(tmp_path / "cache"))


def run(table: int, **settings: Any) -> Result:
    result = experiment(f"ouderaa2023/table{table}").run(Settings(**{**TINY, **settings}), ignore)
    assert len({(cell.row, cell.column) for cell in result.cells}) == len(result.cells)
    for cell in result.cells:
        low, high = cell.interval or (cell.ours, cell.ours)
        assert low <= cell.ours <= high
    return result


def ours(result: Result) -> dict[tuple[str, str], float]:
    return {(cell.row, cell.column): cell.ours for cell in result.cells}


def theirs(result: Result) -> dict[tuple[str, str], float | None]:
    return {(cell.row, cell.column): cell.theirs for cell in result.cells}


# --- the tables -------------------------------------------------------------------------------


def test_all_tables_are_registered() -> None:
    assert set(IDS) <= set(ids())
    assert [experiment(id).id for id in IDS] == IDS


@few_classes
def test_table_1_has_both_tasks_and_the_published_numbers() -> None:
    result = run(1, models=("MAP CONV", "evidence F-FC+CONV"), epochs=1)
    assert theirs(result) == {
        ("digit", "MAP CONV"): 99.38,
        ("digit", "evidence F-FC+CONV"): 98.86,
        ("digit, quadrant", "MAP CONV"): 24.68,
        ("digit, quadrant", "evidence F-FC+CONV"): 99.00,
        ("million parameters", "MAP CONV"): 0.4,
        ("million parameters", "evidence F-FC+CONV"): 1.8,
    }
    found = ours(result)
    assert found["million parameters", "MAP CONV"] == 0.357820
    assert found["million parameters", "evidence F-FC+CONV"] == 1.750035
    # 20 test images
    assert all(found[task, "MAP CONV"] % 5 == 0 for task in ("digit", "digit, quadrant"))
    assert "α = 1" in result.notes[0]
    assert any("small digits" in note for note in result.notes)


def test_table_2_rows_with_a_prior_on_lengthscales() -> None:
    result = run(2, models=("S-CONV (ω)",))
    assert [cell.theirs for cell in result.cells] == [0.2, 0.913, 81.84, 0.549, 81.20, 1.055]
    assert [cell.column for cell in result.cells][-1] == "-log evidence"
    found = ours(result)
    assert found["S-CONV (ω)", "million parameters"] == 0.237050
    # nothing is learned in four steps, so every class has about the same probability
    assert found["S-CONV (ω)", "MAP NLL"] == pytest.approx(np.log(10), abs=1.0)


@few_classes
def test_table_3_shares_of_a_layer_add_up() -> None:
    result = run(3, models=("Rotated MNIST",), epochs=1, sizes=(4,))
    published = [0.819, 91.02, 0.136, 95.55, 0.896, 8, 8, 83, None, None, None]
    assert [cell.theirs for cell in result.cells] == published
    columns = ["FC %", "CONV %", "GCONV %"]
    for shares, word in ((result.cells[-6:-3], ""), (result.cells[-3:], " before")):
        assert [cell.column for cell in shares] == [column + word for column in columns]
        assert sum(cell.ours for cell in shares) == pytest.approx(100)
        assert all(cell.interval is not None for cell in shares)
    assert any("Rotated MNIST 0–20, 0–47, 47–100" in note for note in result.notes)


def test_table_4_has_four_numbers_for_both_paths_of_eight_layers() -> None:
    result = run(4)
    assert len(result.cells) == 8 * 4 * 2
    found, published = ours(result), theirs(result)
    for layer in range(8):
        pair = [found[f"layer {layer}", f"{path} relative"] for path in ("FC", "CONV")]
        assert sum(pair) == pytest.approx(1)
        whole = [found[f"layer {layer}", f"{path} normalised"] for path in ("FC", "CONV")]
        assert pair[0] == pytest.approx(whole[0] / sum(whole))
        both = [published[f"layer {layer}", f"{path} relative"] for path in ("FC", "CONV")]
        assert sum(each or 0.0 for each in both) == pytest.approx(1, abs=1e-7)
    assert published["layer 6", "FC precision"] == 635.57513428
    assert published["layer 0", "CONV mean square"] == 10.7425736
    (types,) = (note for note in result.notes if note.startswith("types"))
    assert types.endswith("theirs: CONV CONV CONV CONV CONV CONV FC CONV")
    ours_by_layer = types.split(": ")[1].split(";")[0].split()
    for layer, kind in enumerate(ours_by_layer):
        assert found[f"layer {layer}", f"{kind} relative"] >= 0.5


def test_table_4_takes_one_model() -> None:
    with pytest.raises(ValueError, match=r"expected one model of FC\+CONV, F-FC\+CONV, got FC\+CO"):
        run(4, models=("FC+CONV", "F-FC+CONV"))


def test_table_7_counts_parameters_exactly() -> None:
    result = run(7, models=("CNN α=10",), epochs=1)
    counts = {cell.row: cell.ours for cell in result.cells if cell.column == "parameters"}
    assert counts == {
        "full α=10": 1025380,
        "separable α=10": 214550,
        "depthwise α=10": 139725,
        "full α=6": 371200,
        "separable α=13": 358463,
        "depthwise α=16": 346215,
        "pointwise α=10": 338770,
        "CNN α=10": 338770,
    }
    differs = {cell.row for cell in result.cells[:-1] if cell.ours != cell.theirs}
    assert differs == {"depthwise α=10"}
    assert theirs(result)["CNN α=10", "accuracy"] == 57.89
    assert not any("prior" in note for note in result.notes)


@pytest.mark.parametrize(
    ("paths", "kind", "number"),
    [
        pytest.param(("fc",), CIFAR, 133635690, id="fc-cifar"),
        pytest.param(("fc",), QUADRANTS, 112683400, id="fc-quadrant"),
        pytest.param(("factored",), CIFAR, 1542625, id="factored-cifar"),
        pytest.param(("sparse_fc",), CIFAR, 831820, id="sparse-fc-cifar"),
        pytest.param(("fc", "conv"), CIFAR, 133865010, id="both-cifar"),
        pytest.param(("conv",), MNIST, 338590, id="conv-mnist"),
    ],
)
def test_parameters_of_tables_1_and_2(
    paths: tuple[Any, ...], kind: tuple[int, int], number: int
) -> None:
    assert Net(paths).parameters(*kind) == number


# --- tasks ------------------------------------------------------------------------------------


def test_small_digits_stand_in_for_quick_runs_alone() -> None:
    task = task_of("digit, quadrant", Settings(), None, None)
    assert task.stands_in
    assert task.train[0].shape == (1397, 1, 32, 32)
    assert task.test[0].shape == (400, 1, 32, 32)
    assert task.train[1].unique().tolist() == list(range(40))
    assert task.train[0].mean().item() == pytest.approx(0, abs=1e-5)
    assert task.train[0].std().item() == pytest.approx(1, abs=1e-3)
    digits = task_of("digit", Settings(), None, None)
    assert digits.classes == 10
    assert digits.train[0].equal(task.train[0])
    assert digits.train[1].equal(task.train[1] % 10)
    assert digits.train[1].equal(small_digits()[1][:1397])
    # all that is bright is in the quadrant of the label
    quadrant = task.train[1] // 10
    x = task.train[0] - task.train[0].amin()
    light = x.unflatten(2, (2, 16)).unflatten(4, (2, 16)).sum((1, 3, 5)).flatten(1)
    assert light.argmax(1).equal(quadrant)
    with pytest.raises(ValueError, match=r"expected the data 'mnist', got none in the cache"):
        task_of("digit", Settings(full=True), None, None)


@pytest.mark.parametrize("name", ["Translated MNIST", "Rotated MNIST", "Rotated CIFAR-10"])
def test_changed_images_differ_and_keep_labels(name: str) -> None:
    plain, changed = (task_of(each, Settings(), 30, 10) for each in ("MNIST", name))
    assert changed.train[1].equal(plain.train[1])
    assert changed.test[1].equal(plain.test[1])
    assert changed.train[0].shape == plain.train[0].shape
    difference = (changed.train[0] - plain.train[0]).flatten(1).abs().amax(1)
    assert (difference > 0.1).all()
    again = task_of(name, Settings(), 30, 10)
    assert again.train[0].equal(changed.train[0])


def test_a_set_that_is_there_is_used(tmp_path: Path) -> None:
    folder = tmp_path / "sets" / "cifar10"
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for prefix, rows in (("train", 12), ("t10k", 6)):
        images = rng.integers(0, 256, (rows, 3, 32, 32), dtype=np.uint8)
        write_idx(folder / f"{prefix}-images-idx4-ubyte", images)
        write_idx(folder / f"{prefix}-labels-idx1-ubyte", np.arange(rows, dtype=np.uint8) % 10)
    settings = Settings(data=folder.parent, **{**TINY, "epochs": 1, "sizes": (10,)})
    result = experiment("ouderaa2023/table7").run(
        Settings(**{**asdict(settings), "full": True, "models": ("CNN α=10",)}), ignore
    )
    assert any(note.startswith("10 training and 6 test images, 1 epoch") for note in result.notes)
    assert any("shifts and flips" in note for note in result.notes)
    assert not any("small digits" in note for note in result.notes)


# --- training ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "plan",
    [
        pytest.param(LayerwisePlan(60), id="stated"),
        pytest.param(LayerwisePlan(1000), id="published"),
        pytest.param(quick_plan(8), id="quick"),
        pytest.param(quick_plan(1), id="least"),
    ],
)
def test_estimates_are_counted_as_they_are_made(plan: LayerwisePlan) -> None:
    learning = LearningPlan(epochs=plan.epochs, burn_in=plan.burn_in, every=plan.every)
    assert plan.estimates == len(learning.estimates)


def test_networks_follow_from_their_seed_and_hold_lengthscales() -> None:
    state = torch.get_rng_state()
    one, same, other = (CONV.built(*MNIST, seed=seed) for seed in (1, 1, 2))
    assert torch.get_rng_state().equal(state)
    first, second, third = (net.head.weight for net in (one, same, other))
    assert first.equal(second)
    assert not first.equal(third)
    for learned in (False, True):
        net = Net(("sparse_conv",), 1, omega=learned).built(*MNIST, seed=0)
        omegas = [p for name, p in net.named_parameters() if name.endswith("omega")]
        assert len(omegas) == 8
        assert all(omega.requires_grad == learned for omega in omegas)


def test_map_leaves_priors_and_evidence_learns_them() -> None:
    task = task_of("MNIST", Settings(), 40, 30)
    plan = quick_plan(3)
    rows = {}
    for evidence in (False, True):
        net = CONV.built(*MNIST, seed=0)
        rows[evidence] = trained(net, task.train, task.test, evidence=evidence, plan=plan)
        variances = [v for layer in net.layers for v in layer.prior_variances.values()]  # type: ignore[operator]
        assert all((v == 1.0) != evidence for v in variances)
        with torch.no_grad():
            logits = net(task.test[0]).double()
        right = (logits.argmax(1) == task.test[1]).double().mean()
        assert rows[evidence].accuracy == pytest.approx(100 * float(right))
        chosen = logits.log_softmax(1)[torch.arange(30), task.test[1]]
        assert rows[evidence].nll == pytest.approx(-float(chosen.mean()))
    assert rows[False].loss is None
    assert rows[False].layers == []
    assert rows[True].loss is not None
    assert len(rows[True].layers) == 8
    assert rows[True].shares("conv") == [1.0] * 8


def test_layers_are_looked_at_through_their_weights() -> None:
    task = task_of("MNIST", Settings(), 60, 10)
    net = Net(("factored", "conv"), 1).built(*MNIST, seed=0)
    row = trained(net, task.train, task.test, evidence=True, plan=quick_plan(1))
    conv = net.layers[3].paths["conv"].weight  # type: ignore[union-attr, index]
    square = float(conv.detach().double().square().mean())
    layer = row.layers[3]
    assert layer["mean_squares"]["conv"] == pytest.approx(square)
    whole = sum(layer["normalised"].values())
    for path in ("factored", "conv"):
        assert layer["paths"][path] == pytest.approx(layer["normalised"][path] / whole)
        assert row.shares(path)[3] == layer["paths"][path]


def test_augmented_batches_visit_all_images_in_a_new_order() -> None:
    x = torch.arange(10.0)[:, None, None, None].expand(10, 1, 8, 8)
    source = _augmented(x, torch.arange(10), 4, seed=0)
    passes = [list(source) for _ in range(2)]
    orders = [torch.cat([y for _, y in batches]).tolist() for batches in passes]
    assert [len(y) for _, y in passes[0]] == [4, 4, 2]
    assert [sorted(order) for order in orders] == [list(range(10))] * 2
    assert orders[0] != orders[1]
    # an image of one brightness keeps it, so that images and labels still go together
    assert all((images == y[:, None, None, None]).all() for images, y in passes[0])


def test_tested_in_batches_is_tested_at_once() -> None:
    net = nn.Flatten()
    x, y = torch.randn(11, 4, 1, 1), torch.randint(4, (11,))
    weightless = nn.Sequential(net, nn.Linear(4, 4))
    assert _tested(weightless, x, y, batch=3) == pytest.approx(_tested(weightless, x, y, batch=11))


class Stop(Exception):
    pass


def study(out: Path | None, progress: Any = ignore) -> tuple[LayerwiseRow, float]:
    jobs = {"CONV": Job("MNIST", CONV, True)}
    settings = Settings(out=out, sizes=(32,), test_rows=20)
    found = studied(
        "ouderaa2023/test", jobs, settings, progress, quick=quick_plan(4), full=LayerwisePlan(9)
    )
    ((row,),) = found.rows.values()
    return row, found.seconds


def test_a_stopped_training_goes_on_and_a_finished_one_is_kept(tmp_path: Path) -> None:
    seen: list[int] = []

    def stop_after_three(step: Step) -> None:
        seen.append(step.done)
        assert step.total == 4
        assert step.message.startswith("CONV: ")
        if step.done == 3:
            raise Stop

    with pytest.raises(Stop):
        study(tmp_path, stop_after_three)
    assert seen == [0, 1, 2, 3]
    assert len(list(tmp_path.glob("training-*.safetensors"))) == 1
    seen.clear()

    def see(step: Step) -> None:
        seen.append(step.done)

    first, seconds = study(tmp_path, see)
    assert seen == [0, 4]
    assert not list(tmp_path.glob("training-*.safetensors"))
    assert first == study(None)[0]
    seen.clear()
    assert study(tmp_path, see) == (first, seconds)
    assert seen == []


def test_a_network_of_the_meta_device_is_only_counted() -> None:
    net = Net(("factored", "conv", "group_conv"), 2)
    written_out = LayerwiseNetwork(3, 10, paths=net.paths, alpha=2)
    assert net.parameters(*CIFAR) == sum(p.numel() for p in written_out.parameters()) == 1237527
