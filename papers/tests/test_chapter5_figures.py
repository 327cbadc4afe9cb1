import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from idx_files import write_idx
from isotropy.certificates import (
    PROJECTORS,
    CertificationOptions,
    architecture,
    certify,
    projector,
)
from isotropy.run import Step
from isotropy_papers import Result, Settings, _certificate_plots, experiment, finzi2023_figure5_2
from isotropy_papers._certificate_plots import (
    Point,
    base_set,
    certified_points,
    search_options,
    shuffled_labels,
    shuffled_pixels,
)
from isotropy_papers._certificate_trials import trial
from isotropy_papers._image_sets import ImageSet
from isotropy_papers.finzi2023_figure5_2 import _most, _shapes, trained_elsewhere
from isotropy_papers.finzi2023_figure_a5 import symmetry_bits, turned_set
from isotropy_papers.finzi2023_figure_a6 import label_length
from isotropy_papers.finzi2023_figure_a7 import descends_twice, noisy_labels


def ignore(step: Step) -> None:
    pass


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ISOTROPY_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Few random images of ten classes under the names of public sets."""
    rng = np.random.default_rng(0)
    for name, shape in (("cifar10", (3, 32, 32)), ("mnist", (28, 28))):
        folder = tmp_path / "data" / name
        folder.mkdir(parents=True)
        for prefix, rows in (("train", 100), ("t10k", 20)):
            images = rng.integers(0, 256, (rows, *shape), dtype=np.uint8)
            write_idx(folder / f"{prefix}-images-idx{1 + len(shape)}-ubyte", images)
            labels = (np.arange(rows) % 10).astype(np.uint8)
            write_idx(folder / f"{prefix}-labels-idx1-ubyte", labels)
    return tmp_path / "data"


def run(id: str, **settings: Any) -> Result:
    return experiment(f"finzi2023/{id}").run(Settings(**{"epochs": 1, **settings}), ignore)


def ours(result: Result) -> dict[tuple[str, str], float]:
    return {(cell.row, cell.column): cell.ours for cell in result.cells}


def theirs(result: Result) -> dict[tuple[str, str], float]:
    return {(c.row, c.column): c.theirs for c in result.cells if c.theirs is not None}


def require_picture(result: Result, folder: Path) -> None:
    plot = experiment(result.id).plot
    assert plot is not None
    assert plot(result, folder / "figure.png").read_bytes().startswith(b"\x89PNG")


def require_bounds(result: Result) -> None:
    """Every bound is above the error that it rests on."""
    found = ours(result)
    rows = [row for row, column in found if column == "train error %" and (row, "bound %") in found]
    assert rows
    for row in rows:
        assert found[row, "train error %"] < found[row, "bound %"] <= 100


def numbered() -> ImageSet:
    """Images whose pixels are all different, (2 + 1, 1, 4, 5)."""
    pixels = torch.arange(60.0).reshape(3, 1, 4, 5)
    return ImageSet("numbered", (pixels[:2], torch.tensor([0, 1])), (pixels[2:], torch.tensor([1])))


# --- samples ----------------------------------------------------------------------------------


def test_one_order_of_pixels_for_all_images() -> None:
    plain, mixed = numbered(), shuffled_pixels(numbered())
    order = mixed.train[0][0].flatten().long()  # pixels of the first image are their own numbers
    assert sorted(order.tolist()) == list(range(20)) != order.tolist()
    for before, after in ((plain.train, mixed.train), (plain.test, mixed.test)):
        assert torch.equal(before[0].flatten(1)[:, order], after[0].flatten(1))
        assert torch.equal(before[1], after[1])


def test_shuffled_labels_tell_nothing_of_the_images() -> None:
    data = base_set(Settings(), "cifar10")
    mixed = shuffled_labels(data)
    kept = (mixed.train[1] == data.train[1]).double().mean()
    assert abs(kept - 0.1) < 4 * math.sqrt(0.09 / 1400)
    assert torch.equal(mixed.train[1].sort().values, data.train[1].sort().values)
    assert mixed.train[0] is data.train[0]


def test_a_fifth_of_the_labels_are_of_another_class() -> None:
    data = base_set(Settings(), "cifar10")
    noisy = noisy_labels(data)
    moved = noisy.train[1] != data.train[1]
    assert abs(moved.double().mean() - 0.2) < 4 * math.sqrt(0.16 / 1400)
    steps = (noisy.train[1] - data.train[1])[moved] % 10
    assert steps.unique().tolist() == list(range(1, 10))
    assert noisy.test is data.test


def test_turned_digits_keep_their_labels_and_their_middle() -> None:
    data = base_set(Settings(), "mnist")
    turned = turned_set(data)
    assert torch.equal(turned.train[1], data.train[1])
    rows = torch.arange(14.0) - 6.5
    disc = (rows[:, None].square() + rows.square()).sqrt() < 5
    before, after = (
        images[..., disc].sum(-1).flatten() for images in (data.train[0], turned.train[0])
    )
    # a turn about the centre keeps what is in a disc, but for interpolation at its rim
    assert torch.corrcoef(torch.stack([before, after]))[0, 1] > 0.9
    assert (turned.train[0] - data.train[0]).abs().amax((1, 2, 3)).median() > 0.3


# --- the figures, tiny ------------------------------------------------------------------------


def test_figure_a5(tmp_path: Path) -> None:
    result = run("figureA.5", sizes=(20,))
    found = ours(result)
    require_bounds(result)
    sizes = [found[name, "parameters"] for name in ("lenet5", "lenet5 equivariant p4")]
    assert max(sizes) / min(sizes) < 1.01
    assert found["lenet5 equivariant p4", "bits of the symmetry"] > 0
    for sample in ("rotated", "upright"):
        bounds = [
            found[f"{sample}: {m}, d=20", "bound %"] for m in ("lenet5", "lenet5 equivariant p4")
        ]
        gain = found[f"{sample}: lenet5", "equivariant below plain, % points"]
        assert gain == pytest.approx(bounds[0] - bounds[1])
    require_picture(result, tmp_path)


def test_the_group_is_in_the_message() -> None:
    x, y = base_set(Settings(), "mnist").test
    plain, turning = (
        certify(model, (x, y), d=0, epochs=1).message_bits
        for model in ("lenet5", "lenet5 equivariant p4")
    )
    # a message is padded to bytes
    assert abs(turning - plain - symmetry_bits("lenet5 equivariant p4")) < 8


def test_figure_5_3(tmp_path: Path) -> None:
    result = run("figure5.3", sizes=(300,), epochs=2)
    found = ours(result)
    require_bounds(result)
    assert abs(found["CNN", "parameters"] / found["MLP", "parameters"] - 1) < 0.01
    assert min(shuffled_bounds(result)) >= 90
    # where there is something to learn, even this short a run is below chance
    assert found["images: MLP, d=300", "train error %"] < 80
    assert any("never below chance" in note for note in result.notes)
    require_picture(result, tmp_path)


@pytest.mark.parametrize("d", [10, 100, 2000])
def test_shuffled_labels_are_never_certified_below_chance(d: int) -> None:
    data = shuffled_labels(base_set(Settings(), "cifar10"))
    found = trial("mlp-32", data, Settings(), d=d, **search_options(Settings(epochs=12), 60))
    assert found["bound"] >= 90
    if d == 2000:  # some of the labels are learned by heart, and that is paid for
        assert found["train_error"] < found["test_error"] - 5


def shuffled_bounds(result: Result) -> list[float]:
    return [
        cell.ours
        for cell in result.cells
        if cell.row.startswith("shuffled labels") and cell.column == "bound %"
    ]


def test_figure_5_1(tmp_path: Path) -> None:
    result = run("figure5.1", sizes=(10, 30))
    found = ours(result)
    for share in (20, 50, 80):
        row = f"a: prior alone, percent={share}"
        n = 1400 - 1400 * share // 100
        error = found[row, "error on the other rows %"] / 100
        assert (error * n) == pytest.approx(round(error * n))
        hoeffding = min(1.0, error + math.sqrt(math.log(20) / (2 * n)))
        assert found[row, "Hoeffding %"] == pytest.approx(100 * hoeffding)
        assert 100 * error < found[row, "bound %"] <= 100
        assert found[row, "bits"] < 100  # no weights
    bounds = {d: found[f"b: data-independent, d={d}", "bound %"] for d in (10, 30)}
    assert bounds[int(found["b: best", "d"])] == found["b: best", "bound %"] == min(bounds.values())
    assert found["b: data-independent, d=10", "KB"] < found["b: data-independent, d=30", "KB"]
    require_picture(result, tmp_path)


def test_figure_a4(tmp_path: Path) -> None:
    result = run("figureA.4", sizes=(20,), models=("20 % of rows", "80 % of rows"))
    found = ours(result)
    require_bounds(result)
    for share in (20, 80):
        name = f"{share} % of rows"
        bounds = {d: found[f"{name}, d={d}", "bound %"] for d in (0, 20)}
        assert bounds[int(found[name, "best d"])] == min(bounds.values())
        assert found[f"{name}, d=0", "bits"] < found[f"{name}, d=20", "bits"]
    require_picture(result, tmp_path)


def test_figure_a6(tmp_path: Path) -> None:
    result = run("figureA.6", sizes=(10, 50), models=("k=4", "k=16"))
    found = ours(result)
    raw = 1400 * math.log2(10) / 8192
    assert found["labels", "raw, KB"] == pytest.approx(raw)
    lengths = [found[f"best, k={k}", "K(h) + NLL, KB"] for k in (4, 16)]
    assert found["labels", "least K(h) + NLL, KB"] == min(lengths)
    for k in (4, 16):
        assert found[f"best, k={k}", "best d"] in (10, 50)
        assert found[f"best, k={k}", "parameters"] == (196 + 1) * k + 2 * (k + 1) * k + 10 * (k + 1)
    require_picture(result, tmp_path)


def test_labels_are_sent_by_the_decoded_network() -> None:
    data = base_set(Settings(), "cifar10")
    certificate = certify("mlp-8", data.train, d=50, epochs=3, quantised_epochs=2)
    network = certificate.hypothesis().network(architecture("mlp-8").build((1, 14, 14), 10))
    with torch.no_grad():
        nats = cross_entropy(network(data.train[0].double()), data.train[1], reduction="sum")
    length = label_length(certificate, data)
    assert length.nll_bits == pytest.approx(float(nats) / math.log(2))
    assert length.model_bits == certificate.message_bits
    assert length.raw_bits == pytest.approx(1400 * math.log2(10))


def test_figure_5_2(tmp_path: Path) -> None:
    # a Kronecker sum of 56,080 rows has no 500 columns
    kinds = ("kronecker", "kronecker-sum", "film+kronecker")
    result = run("figure5.2", sizes=(20, 500), models=kinds)
    found = ours(result)
    require_bounds(result)
    wanted = {f"{kind}, d={d}" for kind in kinds for d in (20, 500)} - {"kronecker-sum, d=500"}
    for start, column in (("scratch: ", "train error %"), ("time: ", "P w, ms")):
        assert {row for row, c in found if c == column} == {start + name for name in wanted}
    assert all(found[f"time: {name}", "P w, ms"] > 0 for name in wanted)
    require_picture(result, tmp_path)


def test_all_projectors_but_the_slow_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    used = []

    def counted(*arguments: Any, **options: Any) -> dict[str, float]:
        used.append(options["projector"])
        return dict.fromkeys(("bound", "train_error", "test_error", "bits"), 50.0)

    monkeypatch.setattr(finzi2023_figure5_2, "trial", counted)
    run("figure5.2", sizes=(20,))
    assert used == [kind for kind in PROJECTORS if kind not in ("dense", "identity")]


@pytest.mark.parametrize("kind", ["film", "kronecker-sum"])
@pytest.mark.parametrize("model", ["lenet5", "mlp-3"])
def test_projectors_have_the_dimensions_that_are_asked_of_them(kind: str, model: str) -> None:
    shapes = _shapes(model, base_set(Settings(), "cifar10"))
    most = _most(kind, shapes)
    assert projector(kind, shapes, most, seed=0)(torch.ones(most)).isfinite().all()
    with pytest.raises(ValueError, match=r"expected at most"):
        projector(kind, shapes, most + 4, seed=0)


def test_transfer_starts_from_elsewhere_with_a_new_head() -> None:
    data = base_set(Settings(), "cifar10")
    few = ImageSet("few", (data.train[0][:300], data.train[1][:300]), data.test)
    settings = Settings()
    start = trained_elsewhere("mlp-16", few, settings, prior_epochs=8)
    untrained = trained_elsewhere("mlp-16", few, settings, prior_epochs=0)
    same = {name for name in start if torch.equal(start[name], untrained[name])}
    assert same == {"head.weight", "head.bias"}
    recipe: dict[str, Any] = {"d": 40, "epochs": 3, "quantised_epochs": 2}
    moved, drawn = (
        trial("mlp-16", few, settings, options=CertificationOptions(start=one), **recipe)
        for one in (start, untrained)
    )
    assert moved["train_error"] < drawn["train_error"]


def test_figure_a7(tmp_path: Path) -> None:
    result = run("figureA.7", sizes=(30,), models=("k=2", "k=8"), epochs=2)
    found = ours(result)
    require_bounds(result)
    for k in (2, 8):
        size = found[f"d weights, k={k}", "parameters"]
        assert size == 197 * k + (k + 1) * k + 10 * (k + 1)
        assert 0 < found[f"all weights, k={k}", "test error %"] < 100
    require_picture(result, tmp_path)


@pytest.mark.parametrize(
    ("values", "twice"),
    [
        ((90, 50, 60, 40), True),
        ((90, 50, 60, 70, 69.5, 68), True),
        ((90, 50, 50.5, 40), False),
        ((90, 50, 60, 60), False),
        ((40, 60, 50), False),
        ((90, 80), False),
    ],
    ids=["peak", "slow peak", "ripple", "rise", "hill", "short"],
)
def test_a_second_descent_follows_a_rise_that_follows_a_fall(
    values: tuple[float, ...], twice: bool
) -> None:
    assert descends_twice(values) is twice


def test_double_descent_has_one_dimension() -> None:
    with pytest.raises(ValueError, match=r"expected one dimension d in sizes, got \[10, 20\]"):
        run("figureA.7", sizes=(10, 20))


def test_a_figure_has_the_models_it_has() -> None:
    with pytest.raises(ValueError, match=r"expected models among CNN, MLP, got 'RNN'"):
        run("figure5.3", models=("RNN",))


# --- in full ----------------------------------------------------------------------------------


def test_full_figures_carry_the_published_numbers(data: Path, tmp_path: Path) -> None:
    full: dict[str, Any] = {"full": True, "data": data}
    fig = run("figure5.1", **full, channels=1, sizes=(10,), models=("b",))
    assert theirs(fig) == {("b: best", "bound %"): 58.2, ("b: best", "d"): 3500}
    fig = run("figureA.4", **full, channels=1, sizes=(10,), models=("80 % of rows",))
    assert theirs(fig) == {("80 % of rows, d=0", "bound %"): 16.6, ("80 % of rows", "best d"): 0}
    fig = run("figureA.6", **full, sizes=(10,), models=("k=4",))
    assert theirs(fig) == {
        ("labels", "least K(h) + NLL, KB"): 8.6,
        ("labels", "raw, KB"): 20.3,
    }
    fig = run("figure5.3", **full, sizes=(10,), models=("MLP",))
    assert theirs(fig) == {("shuffled labels: MLP, d=10", "bound %"): 100}
    assert ours(fig)["MLP", "parameters"] == 3073 * 150 + 2 * 151 * 150 + 1510
    fig = run("figureA.5", **full, sizes=(10,), models=("lenet5",))
    assert ours(fig)["lenet5", "parameters"] == 431080
    assert theirs(fig) == {}
    require_picture(fig, tmp_path)


# --- parts ------------------------------------------------------------------------------------


def test_finished_points_are_not_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []

    def counted(model: str, data: ImageSet, settings: Settings, **options: Any) -> dict[str, float]:
        made.append((model, options["d"]))
        return {"bound": float(options["d"])}

    monkeypatch.setattr(_certificate_plots, "trial", counted)
    settings = Settings(out=tmp_path)

    def found(*points: Point) -> list[float]:
        named = {f"mlp, d={point.options['d']}": point for point in points}
        values, _ = certified_points("figure", named, lambda name: numbered(), settings, ignore)
        return [value["bound"] for value in values.values()]

    one, two = (Point("mlp", "numbered", {"d": d}) for d in (1, 2))
    assert found(one) == [1.0]
    assert found(one, two) == [1.0, 2.0]
    assert made == [("mlp", 1), ("mlp", 2)]
    # another network under the same label is another part
    assert found(Point("lenet5", "numbered", {"d": 1})) == [1.0]
    assert made[-1] == ("lenet5", 1)


def test_search_options_follow_the_settings() -> None:
    assert search_options(Settings(full=True), 60)["quantised_epochs"] == 40
    assert search_options(Settings(full=True), 60)["levels"] == 7
    assert search_options(Settings(epochs=2), 60)["epochs"] == 2
