from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from idx_files import write_idx
from isotropy.nn import log_prior
from isotropy.run import Step
from isotropy_papers import Cell, Result, Settings, experiment, ids
from isotropy_papers import _table_trials as trials_module
from isotropy_papers._image_sets import image_set
from isotropy_papers._image_trials import ImageRecipe, percent_wrong
from isotropy_papers._residual_conv import ConvNet, Kind, prior_pulls
from isotropy_papers._table_trials import NOISES, RATES, TableTrials
from isotropy_papers._training import NetworkRecipe
from isotropy_papers.finzi2023_table3_1 import _excesses
from isotropy_papers.uci_tables import uci, uci_names, uci_split

ID = "finzi2023/table3.1"
KINDS: tuple[Kind, ...] = get_args(Kind)
TINY: dict[str, Any] = {"seeds": 2, "epochs": 1, "channels": 2}


def ignore(step: Step) -> None:
    pass


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ISOTROPY_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder with "cifar10": small images of two classes, dark and bright."""
    folder = tmp_path / "data" / "cifar10"
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for prefix, rows in (("train", 512), ("t10k", 40)):
        labels = (np.arange(rows) % 2).astype(np.uint8)
        tops = (80 + 170 * labels).reshape(-1, 1, 1, 1)
        images = (rng.random((rows, 3, 8, 8)) * tops).astype(np.uint8)
        write_idx(folder / f"{prefix}-images-idx4-ubyte", images)
        write_idx(folder / f"{prefix}-labels-idx1-ubyte", labels)
    return folder.parent


def run(**settings: Any) -> Result:
    result = experiment(ID).run(Settings(**{**TINY, **settings}), ignore)
    assert len({(cell.row, cell.column) for cell in result.cells}) == len(result.cells)
    return result


def of_row(result: Result, row: str) -> list[Cell]:
    return [cell for cell in result.cells if cell.row == row]


# --- networks ---------------------------------------------------------------------------------

X = torch.randn(6, 2, 4, 3, generator=torch.Generator().manual_seed(0))


def weights_of(network: nn.Module) -> dict[str, torch.Tensor]:
    return {name: weight.detach() for name, weight in network.named_parameters()}


def test_a_conv_is_a_plain_convolutional_network() -> None:
    network = ConvNet((4, 5), outputs=1).network("Conv", X)
    w = weights_of(network)
    y = X
    for layer in ("0", "2"):
        strict = f"{layer}.paths.strict"
        y = functional.conv2d(y, w[f"{strict}.weight"], w[f"{strict}.bias"], padding=1).relu()
    y = y.flatten(1) @ w["5.weight"].T + w["5.bias"]
    torch.testing.assert_close(network(X), y)


def test_an_mlp_is_a_plain_one_and_starts_as_large_as_torchs() -> None:
    network = ConvNet((4, 5), outputs=1).network("MLP", X)
    w = weights_of(network)
    y = X.flatten(1)
    for layer in ("0", "2"):
        free = f"{layer}.paths.free"
        y = (y @ w[f"{free}.weight"].T + w[f"{free}.bias"]).relu()
    torch.testing.assert_close(network(X), y @ w["5.weight"].T + w["5.bias"])
    # uniform on ±1/√n
    assert float(w["2.paths.free.weight"].std() * 48**0.5) == pytest.approx(3**-0.5, rel=0.05)


@pytest.mark.parametrize(("kind", "path"), [("Conv", "strict"), ("MLP", "free")])
def test_an_rpp_is_either_where_the_other_path_is_zero(kind: Kind, path: str) -> None:
    net = ConvNet((4, 5), outputs=1)
    soft, one = net.network("RPP", X), net.network(kind, X)
    with torch.no_grad():
        for name, weight in soft.named_parameters():
            known = dict(one.named_parameters()).get(name)
            weight.zero_() if known is None else weight.copy_(known)
    assert f"0.paths.{path}.weight" in dict(one.named_parameters())
    torch.testing.assert_close(soft(X), one(X))


@pytest.mark.parametrize("kind", KINDS)
def test_pulls_are_the_slopes_of_the_log_prior(kind: Kind) -> None:
    network = ConvNet((4, 5), outputs=1).network(kind, X, (100.0, 0.5))
    slopes = torch.autograd.grad(
        -log_prior(network), list(network.parameters()), allow_unused=True, materialize_grads=True
    )
    pulls = prior_pulls(network)
    assert not any(name.startswith("5.") for name in pulls)  # a free head
    for (name, weight), slope in zip(network.named_parameters(), slopes, strict=True):
        torch.testing.assert_close(slope, pulls.get(name, torch.zeros(())) * weight.detach())


def test_a_path_has_the_same_prior_alone_and_in_the_sum() -> None:
    net = ConvNet((4, 5), outputs=1)
    both = prior_pulls(net.network("RPP", X, (100.0, 0.5)))
    alone = [prior_pulls(net.network(kind, X, (100.0, 0.5))) for kind in ("Conv", "MLP")]
    assert set(both) == set(alone[0]) | set(alone[1])
    for name, pull in {**alone[0], **alone[1]}.items():
        torch.testing.assert_close(pull, both[name])
    assert float(both["0.paths.free.weight"]) == pytest.approx(2.0)
    # a centre tap is used at all twelve places, a corner at 3 x 2
    centre, corner = (
        both["0.paths.strict.weight"][0, 0, 1, 1],
        both["0.paths.strict.weight"][0, 0, 0, 0],
    )
    assert float(centre) == pytest.approx(0.12)
    assert float(corner) == pytest.approx(0.06)


def test_the_network_for_images_has_the_channels_and_pools_of_the_text() -> None:
    recipe = ImageRecipe(1, channels=2)
    network = recipe.network.network("Conv", torch.zeros(2, 3, 8, 8))
    kernels = [w.shape for n, w in network.named_parameters() if n.endswith("strict.weight")]
    into, out = (3, 2, 2, 2, 4, 4, 4, 4, 4), (2, 2, 2, 4, 4, 4, 4, 4, 4)
    assert kernels == [(o, i, 3, 3) for i, o in zip(into, out, strict=True)]
    assert sum(isinstance(module, nn.BatchNorm2d) for module in network.modules()) == 9
    kinds = [type(module).__name__ for module in network.children()]
    before = [kinds[:place].count("PathSum") for place, k in enumerate(kinds) if k == "MaxPool2d"]
    assert before == [3, 6]
    assert network(torch.zeros(1, 3, 8, 8)).shape == (1, 10)
    free = recipe.network.network("MLP", torch.zeros(2, 3, 8, 8))
    assert [w.shape[0] for n, w in free.named_parameters() if n.endswith("free.weight")] == [
        *[2 * 64] * 3,
        *[4 * 16] * 3,
        *[4 * 4] * 3,
    ]


# --- trials on tables -------------------------------------------------------------------------


@pytest.mark.parametrize("table", uci_names())
def test_parts_of_a_split_are_all_rows_of_the_table_once(table: str) -> None:
    trials = TableTrials(table, (0, 1), NetworkRecipe(1))
    whole = uci(table)
    for trial, split in enumerate(trials.splits):
        train, test = uci_split(table, trial)
        assert len(split["validation"][0]) == len(train) // 5
        assert len(split["train"][0]) == len(train) - len(train) // 5
        x = torch.cat([split[part][0] for part in ("train", "validation", "test")]).flatten(1)
        x = x[:, : whole.x.shape[1]] * train.x.std(0) + train.x.mean(0)
        y = torch.cat([split[part][1] for part in ("train", "validation", "test")])
        assert train.y is not None
        assert whole.y is not None
        rows = torch.cat([x, y * train.y.std() + train.y.mean()], 1).double()
        # sums of random features of rows tell sets of rows apart
        probe = torch.randn(rows.shape[1], 50, generator=torch.Generator().manual_seed(0)).double()
        scale = torch.cat([whole.x, whole.y], 1).double().std(0)
        expected = (torch.cat([whole.x, whole.y], 1) / scale @ probe).cos().sum(0)
        torch.testing.assert_close((rows / scale @ probe).cos().sum(0), expected, rtol=0, atol=1e-3)
        assert len(test) == len(split["test"][0])
        fitted = torch.cat([split["train"][1], split["validation"][1]])
        assert abs(float(fitted.mean())) < 1e-5
        assert float(fitted.std()) == pytest.approx(1.0, abs=1e-5)


def test_constant_errors_are_those_of_the_training_mean() -> None:
    found = TableTrials("wine", (5, 6), NetworkRecipe(1)).constant_errors()
    for split, error in enumerate(found):
        train, test = uci_split("wine", split)
        assert train.y is not None
        assert test.y is not None
        expected = float((test.y - train.y.mean()).square().mean())
        assert error == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_trials_learn_and_do_not_depend_on_one_another(kind: Kind) -> None:
    recipe = NetworkRecipe(12, batch=100, checks=4)
    alone = TableTrials("pendulum", (3,), recipe, channels=4).errors(kind)
    both = TableTrials("pendulum", (3, 4), recipe, channels=4)
    found = both.errors(kind)
    assert {name: values[:1] for name, values in found.items()} == {
        name: pytest.approx(values, rel=1e-3) for name, values in alone.items()
    }
    assert set(found["rate"]) <= set(RATES)
    assert set(found["noise"]) <= set(NOISES)
    assert all(
        ours < constant
        for ours, constant in zip(found["error"], both.constant_errors(), strict=True)
    )


def test_a_noise_that_forbids_to_learn_is_not_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials_module, "NOISES", (1e7, 0.1))
    found = TableTrials(
        "energy", (0, 1), NetworkRecipe(12, batch=100, checks=4), channels=4
    ).errors("Conv")
    assert found["noise"] == [0.1, 0.1]


def test_test_rows_choose_nothing() -> None:
    recipe = NetworkRecipe(3, batch=36)
    honest, spoilt = (TableTrials("fertility", (0, 1), recipe, channels=2) for _ in range(2))
    for split in spoilt.splits:
        x, y = split["test"]
        split["test"] = x, y + 100
    found, other = honest.errors("RPP"), spoilt.errors("RPP")
    assert (found["rate"], found["noise"]) == (other["rate"], other["noise"])
    assert min(other["error"]) > 100 * max(found["error"])


def test_learned_priors_keep_the_error_below_that_of_a_constant() -> None:
    trials = TableTrials("energy", (0,), NetworkRecipe(12, batch=100), channels=3)
    found = trials.learned_errors(updates=3)
    assert found["error"][0] < trials.constant_errors()[0] / 2
    assert found["ratio"][0] > 0
    assert found["ratio"][0] != pytest.approx(100.0)  # where it began


# --- the table --------------------------------------------------------------------------------


def test_the_table_has_ours_beside_theirs() -> None:
    result = run(models=KINDS)
    assert ID in ids()
    assert [cell.column for cell in of_row(result, "RPP")] == list(uci_names())
    assert [cell.theirs for cell in of_row(result, "MLP")] == [0.39, 0.049, 4.65, 0.66]
    assert [cell.theirs for cell in of_row(result, "RPP")] == [0.73, 0.060, 4.25, 0.69]
    assert [cell.theirs for cell in of_row(result, "Conv")] == [1.34, 0.076, 4.63, 0.79]
    excess = of_row(result, "RPP - better, in sd")
    assert [round(cell.theirs or 0.0, 2) for cell in excess] == [0.71, 2.5, -1.06, 0.52]
    assert not any(cell.column == "CIFAR-10" for cell in result.cells)
    assert len(result.cells) == 3 * 4 + 4 + 4
    assert any("published errors of fertility are larger" in note for note in result.notes)


def test_excess_is_measured_in_deviations_of_the_better_one() -> None:
    cells = [
        Cell("MLP", "energy", 1.0, None, (0.5, 1.5)),
        Cell("RPP", "energy", 1.25, None, (1.0, 1.5)),
        Cell("Conv", "energy", 2.0, None, (0.0, 4.0)),
        Cell("Conv", "wine", 2.0, None, (0.0, 4.0)),
        *[Cell(kind, "pendulum", 2.0, None, (2.0, 2.0)) for kind in KINDS],
    ]
    (found,) = _excesses(cells)
    assert (found.column, found.ours) == ("energy", 0.5)


def test_finished_parts_are_kept(tmp_path: Path) -> None:
    steps: list[Step] = []
    settings = Settings(**TINY, models=("Conv",), out=tmp_path)
    first = experiment(ID).run(settings, steps.append)
    assert len(steps) == 4
    assert experiment(ID).run(settings, steps.append).cells == first.cells
    assert len(steps) == 4


def test_images_are_classified_by_all_three(data: Path) -> None:
    models = tuple(f"CIFAR-10 {kind}" for kind in KINDS)
    result = run(models=models, data=data, sizes=(32,), test_rows=10)
    ours = {cell.row: cell for cell in result.cells}
    assert [ours[kind].theirs for kind in KINDS] == [37.61, 12.62, 12.03]
    assert all(cell.column == "CIFAR-10" for cell in result.cells)
    assert all((2 * ours[kind].ours) % 10 == pytest.approx(0.0, abs=1e-6) for kind in KINDS)
    assert any("32 training and 10 test images" in note for note in result.notes)


@pytest.mark.parametrize("kind", KINDS)
def test_a_classifier_learns_what_is_easy(kind: Kind, data: Path) -> None:
    images = image_set("cifar10", Settings(data=data))
    steps: list[Step] = []
    recipe = ImageRecipe(12, channels=2)
    assert percent_wrong(kind, images, recipe, seed=0, progress=steps.append) <= 15
    assert [step.done for step in steps] == list(range(1, 13))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"seeds": 11}, r"expected at most 10 seeds, one for each split, got 11"),
        ({"sizes": (10, 20)}, r"expected one number of training images, got \[10, 20\]"),
        ({"models": ("CNN",)}, r"expected models among MLP, RPP, Conv, RPP learned, .*got 'CNN'"),
        ({"models": ("CIFAR-10 RPP",)}, r"expected the data 'cifar10', got none in the cache"),
    ],
    ids=["splits", "sizes", "model", "no images"],
)
def test_bad_settings(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        run(**settings)
