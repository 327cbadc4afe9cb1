import dataclasses
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from idx_files import write_idx
from isotropy.run import Step
from isotropy_papers import Cell, Result, Settings, experiment
from isotropy_papers import _pretrained as pretrained_module
from isotropy_papers import _trained_classifiers as trained_module
from isotropy_papers._classifiers import (
    ClassifierTraining,
    NamedClassifier,
    _rate,
    accuracy,
    shifted_and_flipped,
    train,
)
from isotropy_papers._efficientnet_lite import Preprocess, SameConv2d, efficientnet_lite
from isotropy_papers._image_sets import (
    digest_of,
    found_folder,
    image_set,
    like,
    required_folder,
    unlabelled,
)
from isotropy_papers._photographs import photographs, pink_noise
from isotropy_papers._trained_classifiers import (
    FULL,
    QUICK,
    cells_of,
    rank_correlation,
    trained,
    training_rows,
)
from isotropy_papers._vision_models import seeded
from isotropy_papers.finzi2023_figure4_2 import ACTIVATIONS, harmonics
from isotropy_papers.finzi2023_figure4_4 import layers_of, shares
from isotropy_papers.finzi2023_figure_a3 import probe_convergence


def ignore(step: Step) -> None:
    pass


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ISOTROPY_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def write_set(folder: Path, name: str, shape: tuple[int, ...], train: int, test: int) -> None:
    """Images of two classes, dark and bright, as idx files."""
    (folder / name).mkdir(parents=True)
    rng = np.random.default_rng(0)
    for prefix, rows in (("train", train), ("t10k", test)):
        labels = (np.arange(rows) % 2).astype(np.uint8)
        tops = (80 + 170 * labels).reshape(-1, *[1] * len(shape))
        images = (rng.random((rows, *shape)) * tops).astype(np.uint8)
        write_idx(folder / name / f"{prefix}-images-idx{1 + len(shape)}-ubyte", images)
        write_idx(folder / name / f"{prefix}-labels-idx1-ubyte", labels)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    write_set(tmp_path / "data", "cifar10", (3, 16, 16), 64, 20)
    return tmp_path / "data"


def tiny(data: Path | None, **more: Any) -> Settings:
    return Settings(data=data, **{"epochs": 1, "test_rows": 3, **more})


def ours(result: Result) -> dict[tuple[str, str], float]:
    return {(cell.row, cell.column): cell.ours for cell in result.cells}


def require_picture(result: Result, path: Path) -> None:
    plot = experiment(result.id).plot
    assert plot is not None
    assert plot(result, path).read_bytes().startswith(b"\x89PNG")


# --- closed forms -----------------------------------------------------------------------------


def test_harmonics_of_kinks_and_jumps() -> None:
    found = harmonics(ACTIVATIONS["ReLU"], 8)
    # max(sin, 0) = 1/π + sin/2 − (2/π) Σ cos(2kx) / (4k² − 1)
    expected = [1 / math.pi, 0.5] + [
        2 / math.pi / (k**2 - 1) if k % 2 == 0 else 0.0 for k in range(2, 9)
    ]
    assert found == pytest.approx(expected, abs=1e-6)
    found = harmonics(ACTIVATIONS["sign"], 8)
    expected = [4 / math.pi / k if k % 2 else 0.0 for k in range(9)]
    assert found == pytest.approx(expected, abs=1e-5)


def test_aliasing_accounts_for_the_error_of_non_linearities() -> None:
    result = experiment("finzi2023/figure4.2").run(Settings(), ignore)
    found = ours(result)
    for name in ("tanh", "GELU", "SiLU", "ReLU"):
        by_aliasing = found[name, "LEE on a wave, by aliasing"]
        # the amplitudes of a kink fall as 1/k² only, and the fine grid ends somewhere
        tolerance = 1e-2 if name == "ReLU" else 1e-6
        assert found[name, "LEE on a wave"] == pytest.approx(by_aliasing, rel=tolerance)
    # 2 × 5 waves still fit into 32 pixels
    assert found["square", "LEE on a wave"] < 1e-20
    assert found["identity", "LEE on images"] == 0


def test_harmonics_are_drawn(tmp_path: Path) -> None:
    settings = Settings(models=("ReLU", "identity"))
    require_picture(experiment("finzi2023/figure4.2").run(settings, ignore), tmp_path / "a.png")


def test_theorem_4_1() -> None:
    result = experiment("finzi2023/theorem4.1").run(Settings(seed=3), ignore)
    assert len(result.cells) == 24
    found = ours(result)
    for cell in result.cells:
        assert cell.theirs is not None
        assert cell.ours == pytest.approx(found[cell.row, "corrected"], rel=1e-9, abs=1e-20)
        if cell.row.startswith("both axes"):
            assert abs(cell.ours / cell.theirs - 1) > 0.01
        else:
            assert cell.ours == pytest.approx(cell.theirs, rel=1e-9, abs=1e-20)


# --- data -------------------------------------------------------------------------------------


def test_a_folder_stands_in_for_public_sets(data: Path) -> None:
    images = image_set("cifar10", Settings(data=data), 10, 5)
    assert images.train[0].shape == (10, 3, 16, 16)
    assert images.test[0].shape == (5, 3, 16, 16)
    assert images.test[1].tolist() == [0, 1, 0, 1, 0]
    assert float(images.train[0].max()) <= 1
    assert images.digest() != image_set("cifar10", Settings(data=data), 10, 4).digest()
    assert unlabelled("cifar10", Settings(data=data), 4).equal(images.test[0][:4])
    assert digest_of(images.test[0]) != digest_of(images.train[0][:5])


def test_what_was_not_obtained_is_asked_for(data: Path, tmp_path: Path) -> None:
    assert found_folder("mnist", Settings(data=data)) is None
    with pytest.raises(ValueError, match=r"expected the data 'mnist', got none .*data get mnist"):
        required_folder("mnist", Settings(data=data))
    with pytest.raises(ValueError, match=r"expected a folder of data sets, got '.*nowhere'"):
        found_folder("mnist", Settings(data=tmp_path / "nowhere"))
    for id in ("figure4.5", "figure4.6", "figure4.7", "figureA.3"):
        with pytest.raises(ValueError, match=r"expected the data 'cifar10', got none in the cache"):
            experiment(f"finzi2023/{id}").run(Settings(), ignore)
    with pytest.raises(ValueError, match=r"expected the data 'efficientnet-lite0', got none"):
        experiment("finzi2023/figure4.4").run(Settings(models=("EfficientNet-Lite0",)), ignore)


def test_images_without_labels_are_refused(data: Path) -> None:
    for path in (data / "cifar10").glob("*labels*"):
        path.unlink()
    with pytest.raises(ValueError, match=r"expected images with labels, got Dataset"):
        image_set("cifar10", Settings(data=data))


def test_images_made_like_others() -> None:
    x = torch.rand(2, 1, 4, 5)
    found = like(x, torch.zeros(1, 3, 8, 8))
    assert found[:, 2, 2:6, 1:6].equal(x[:, 0])
    assert float(found.sum()) == pytest.approx(3 * float(x.sum()), rel=1e-6)
    assert like(found[:, :1], x).equal(x)


def test_photographs_of_a_folder(tmp_path: Path) -> None:
    from PIL import Image

    for number in range(3):
        pixels = np.full((20, 30, 3), 80 * number, np.uint8)
        Image.fromarray(pixels).save(tmp_path / f"{number}.png")
    (tmp_path / "3.png").write_text("no image")
    found = photographs(8, 2, Settings(images=tmp_path))
    assert found.x.shape == (2, 3, 8, 8)
    assert found.x[1].unique().tolist() == pytest.approx([80 / 255])
    assert "1 unreadable left out" in found.source


def test_made_images_where_there_are_no_photographs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("isotropy_papers._photographs.find_spec", lambda name: None)
    found = photographs(16, 3, Settings())
    assert found.x.equal(pink_noise(3, 3, 16, 0))
    assert "no photographs" in found.source


def test_the_spectrum_of_pink_noise_falls_as_one_over_frequency() -> None:
    x = pink_noise(64, 1, 64, 1) - 0.5
    amplitude = torch.fft.rfft2(x).abs().square().mean((0, 1)).sqrt()
    low, high = float(amplitude[0, 3]), float(amplitude[0, 24])
    assert low / high == pytest.approx(8, rel=0.25)


# --- classifiers ------------------------------------------------------------------------------


def test_shifts_and_flips_against_all_there_are() -> None:
    x = torch.rand(12, 2, 10, 10, generator=torch.Generator().manual_seed(0))
    found = shifted_and_flipped(x, 1)
    wide = torch.cat([x[..., :4, :].flip(-2), x, x[..., -4:, :].flip(-2)], -2)
    wide = torch.cat([wide[..., :4].flip(-1), wide, wide[..., -4:].flip(-1)], -1)
    kinds = set()
    for image, moved in zip(wide, found, strict=True):
        candidates = {
            (down, across, flip): window.flip(-1) if flip else window
            for down in range(9)
            for across in range(9)
            for flip in (False, True)
            for window in [image[:, down : down + 10, across : across + 10]]
        }
        fitting = [key for key, window in candidates.items() if window.equal(moved)]
        assert len(fitting) == 1
        kinds.add(fitting[0])
    assert len(kinds) > 8
    assert {flip for *_, flip in kinds} == {False, True}


def test_the_learning_rate_rises_and_falls() -> None:
    rates = [_rate(step, 100) for step in range(100)]
    assert rates[9] == max(rates) == 1
    assert rates[0] == pytest.approx(0.1)
    assert rates[55] == pytest.approx(0.5, abs=0.02)
    assert rates[99] < 1e-3


@pytest.mark.parametrize("recipe", ["plain", "augmented", "mixup"])
def test_every_recipe_learns_dark_from_bright(recipe: Any) -> None:
    x = torch.rand(64, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    y = torch.arange(64) % 2
    x = torch.where(y[:, None, None, None] == 1, x, 0.3 * x)
    model = NamedClassifier("CNN", 8).network(x, 2, seed=0)
    train(model, (x, y), recipe, 100, batch=32, rate=3e-3, seed=0)
    assert not model.training
    with torch.no_grad():
        expected = float((model(x).argmax(1) == y).double().mean())
    assert accuracy(model, x, y, batch_size=7) == pytest.approx(expected)
    assert expected > 0.95


def test_networks_have_the_shapes_and_names_they_say() -> None:
    for listed in (QUICK, FULL):
        assert len({each.name for each in listed}) == len(listed)
    x = torch.rand(2, 1, 16, 16)
    for architecture in ("CNN", "ResNet", "ViT", "Mixer"):
        model = NamedClassifier(architecture, 24).network(x, 7, seed=0)  # type: ignore[arg-type]
        assert model(x).shape == (2, 7)
    plain, blurred = (
        NamedClassifier("ResNet", 4, blur=blur).network(x, 3, 0) for blur in (False, True)
    )
    sizes = [sum(p.numel() for p in model.parameters()) for model in (plain, blurred)]
    assert sizes[0] == sizes[1]
    assert not torch.allclose(plain.eval()(x), blurred.eval()(x))


def test_a_classifier_is_trained_once(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = tiny(data, out=tmp_path / "out")
    images = image_set("cifar10", settings)
    classifier = NamedClassifier("CNN", 4)

    def made(seed: int, where: Settings) -> nn.Module:
        return trained(
            classifier, images, images.digest(), ClassifierTraining(1, 32, 1e-3), seed, where
        )

    first = made(0, settings)
    monkeypatch.setattr(trained_module, "train", lambda *args, **kwargs: pytest.fail("again"))
    again = made(0, settings)
    assert all(a.equal(b) for a, b in zip(first.parameters(), again.parameters(), strict=True))
    with pytest.raises(pytest.fail.Exception):
        made(1, settings)
    with pytest.raises(pytest.fail.Exception):
        made(0, dataclasses.replace(settings, out=None))


def test_fewer_images_take_as_many_steps(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, int]] = []

    def count(model: nn.Module, own: tuple[Tensor, Tensor], *rest: Any, **options: Any) -> None:
        seen.append((len(own[0]), rest[1]))

    monkeypatch.setattr(trained_module, "train", count)
    images = image_set("cifar10", tiny(data))
    for rows in (None, 10):
        trained(
            NamedClassifier("CNN", 4, rows=rows),
            images,
            "",
            ClassifierTraining(3, 16, 1e-3),
            0,
            tiny(data),
        )
    assert seen == [(64, 12), (10, 12)]


def test_several_sizes_are_refused(data: Path) -> None:
    assert training_rows(Settings(), 7) == 7
    assert training_rows(Settings(sizes=(5,)), 7) == 5
    with pytest.raises(ValueError, match=r"expected one size, got \[10, 20\]"):
        experiment("finzi2023/figure4.6").run(tiny(data, sizes=(10, 20)), ignore)


def test_cells_hold_means_over_seeds_or_errors_over_images() -> None:
    seeds = [{"LEE": (1.0, 9.0)}, {"LEE": (3.0, 9.0)}]
    (cell,) = cells_of({"CNN": seeds})
    assert cell.ours == 2
    assert cell.interval == pytest.approx((2 - math.sqrt(2), 2 + math.sqrt(2)))
    (cell,) = cells_of({"CNN": [{"LEE": (1.0, math.nan)}]})
    assert cell.interval is None


def test_rank_correlation_against_its_definition() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.random((2, 9))
    rows = [str(i) for i in range(9)]
    cells = [Cell(row, "a", a[i]) for i, row in enumerate(rows)]
    cells += [Cell(row, "b", b[i]) for i, row in enumerate(rows)]
    gaps = a.argsort().argsort() - b.argsort().argsort()
    expected = 1 - 6 * float((gaps**2).sum()) / (9 * (81 - 1))
    assert rank_correlation(cells, rows, "a", "b") == pytest.approx(expected)
    assert math.isnan(rank_correlation(cells, rows[:2], "a", "b"))
    assert math.isnan(rank_correlation(cells, rows, "a", "c"))
    same = [dataclasses.replace(cell, ours=1.0) for cell in cells]
    assert math.isnan(rank_correlation(same, rows, "a", "b"))


# --- figures ----------------------------------------------------------------------------------


def test_a_tiny_figure_4_5(data: Path, tmp_path: Path) -> None:
    write_set(data, "mnist", (16, 16), 32, 8)
    names = ("CNN w16", "ViT w48", "Mixer w48", "CNN w8 mnist")
    result = experiment("finzi2023/figure4.5").run(tiny(data, models=names), ignore)
    assert len(result.cells) == 4 * 8
    assert list(dict.fromkeys(cell.row for cell in result.cells)) == list(names)
    found = ours(result)
    for name in names:
        assert 0 <= found[name, "inconsistency"] <= 1
        # by Jensen's inequality, mean |L| is at most the root of the mean of L²
        assert found[name, "mean |L| translation"] ** 2 <= found[name, "LEE translation"]
    assert any("Spearman's ρ with accuracy" in note for note in result.notes)
    few = experiment("finzi2023/figure4.5").run(tiny(data, models=names[:1]), ignore)
    assert any("are too few to tell" in note for note in few.notes)
    require_picture(result, tmp_path / "a.png")


def test_figures_share_what_was_trained(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_set(data, "mnist", (12, 12), 2, 5)
    names: list[str] = []

    def counted(*args: Any, **options: Any) -> None:
        names.append("trained")
        train(*args, **options)

    monkeypatch.setattr(trained_module, "train", counted)
    settings = tiny(data, out=tmp_path / "out", seeds=2)
    cases = experiment("finzi2023/figure4.6").run(
        dataclasses.replace(settings, models=("ViT w24", "ViT w48")), ignore
    )
    assert len(names) == 4
    assert {cell.row for cell in cases.cells} == {"scale of ViT: ViT w24", "scale of ViT: ViT w48"}
    found = ours(cases)
    factor = [found[f"scale of ViT: ViT {width}", "LEE translation"] for width in ("w48", "w24")]
    assert f"scale of ViT ×{factor[0] / factor[1]:.2f}" in cases.notes[-1]
    require_picture(cases, tmp_path / "a.png")
    gap = experiment("finzi2023/figure4.7").run(
        dataclasses.replace(settings, models=("ViT w48",)), ignore
    )
    assert len(names) == 4  # nothing was trained again
    columns = [cell.column.removeprefix("LEE translation, ") for cell in gap.cells]
    assert columns == ["accuracy", "train", "test", "1/f noise", "MNIST"]
    # the same network on the same images
    same = found["scale of ViT: ViT w48", "LEE translation"]
    assert ours(gap)["ViT w48", "LEE translation, test"] == pytest.approx(same, rel=1e-5)
    require_picture(gap, tmp_path / "b.png")


def test_case_studies_say_what_did_most(data: Path) -> None:
    settings = tiny(data, models=("ResNet w8", "ResNet w8 BlurPool", "ResNet w8 augmented"))
    result = experiment("finzi2023/figure4.6").run(settings, ignore)
    found = ours(result)
    plain = found["BlurPool: ResNet w8", "LEE translation"]
    blur = found["BlurPool: ResNet w8 BlurPool", "LEE translation"] / plain
    recipe = found["recipe: ResNet w8 augmented", "LEE translation"] / plain
    assert f"BlurPool ×{blur:.2f}, recipe ×{recipe:.2f}" in result.notes[-1]
    more = "recipe" if recipe < min(1, blur) else "none of the others"
    assert result.notes[-1].endswith(f"more is done by {more}")


def test_probes_converge_as_theory_says() -> None:
    model = nn.Sequential(NamedClassifier("CNN", 4).network(torch.zeros(1, 3, 16, 16), 10, 0))
    model.append(nn.Softmax(-1))
    found = probe_convergence(model, pink_noise(1, 3, 16, 0), seed=0)
    assert len(found["ratios"]) == 3
    for ratios in found["ratios"].values():
        assert ratios[-1] == pytest.approx(1, abs=4 * math.sqrt(2 / 100))
    # (z·C)² of normal z has the relative variance 2
    assert found["scatter"] == pytest.approx(math.sqrt(2 / 20), rel=0.4)


def test_a_tiny_figure_a_3(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = {"ratios": {"conv": [2.0, 1.5, 1.2, 1.1, 1.0, 1.0]}, "scatter": 0.3}
    monkeypatch.setattr(
        "isotropy_papers.finzi2023_figure_a3.probe_convergence", lambda *args: known
    )
    result = experiment("finzi2023/figureA.3").run(tiny(data, models=("CNN w16",)), ignore)
    assert len(result.cells) == 4 + 6 + 1
    found = ours(result)
    assert found["CNN w16", "LEE brightness"] > 0
    assert found["conv", "estimate / exact, probes: 10"] == 1.2
    assert result.cells[-1].theirs == pytest.approx(math.sqrt(0.1))
    require_picture(result, tmp_path / "a.png")


@pytest.fixture
def small_efficientnet(data: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(pretrained_module, "_SIZES", (32, 32, 32))
    folder = data / "efficientnet-lite0"
    folder.mkdir()
    save_file(efficientnet_lite(0, seed=0).state_dict(), folder / "weights.safetensors")
    return data


class Stem(nn.Module):
    """The beginning and the end of EfficientNet-Lite."""

    def __init__(self) -> None:
        super().__init__()
        self._conv_stem = SameConv2d(3, 8, 3, stride=2)
        self._relu0 = nn.ReLU6()
        self._conv_head = SameConv2d(8, 8, 3)
        self._relu1 = nn.ReLU6()
        self._avg_pooling = nn.AdaptiveAvgPool2d(1)
        self._fc = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self._relu1(self._conv_head(self._relu0(self._conv_stem(x))))
        logits: Tensor = self._fc(self._avg_pooling(x).flatten(1))
        return logits


def test_a_tiny_figure_4_4(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with seeded(0):
        stem = nn.Sequential(Preprocess(), Stem())
    monkeypatch.setattr(pretrained_module, "_SIZES", (32, 32, 32))
    monkeypatch.setattr(
        "isotropy_papers.finzi2023_figure4_4.pretrained", lambda number, settings: stem
    )
    result = experiment("finzi2023/figure4.4").run(Settings(test_rows=2), ignore)
    totals: dict[tuple[str, str], float] = {}
    for cell in result.cells:
        if cell.column.endswith(", share"):
            name = " ".join(cell.row.split(" ")[: 1 if cell.row.startswith("Eff") else 2])
            totals[name, cell.column] = totals.get((name, cell.column), 0.0) + cell.ours
    assert len(totals) == 5 + 6 + 3
    assert list(totals.values()) == pytest.approx([1.0] * len(totals))
    found = ours(result)
    layers = {column for row, column in found if column.startswith("translation: ")}
    assert "translation: _conv_stem (strided convolution)" in layers
    assert "translation: pos_embed (embedding)" in layers
    # a pointwise function commutes with whole shifts, and not with others
    for factor in ("1", "1/√N", "1/N"):
        assert found["EfficientNet-Lite0 activation", f"EQ-T × {factor}, share"] == 0
        assert found["EfficientNet-Lite0 activation", f"EQ-T_frac × {factor}, share"] > 1e-3
    require_picture(result, tmp_path / "a.png")


def test_pretrained_networks_among_the_others(small_efficientnet: Path) -> None:
    settings = Settings(data=small_efficientnet)

    def measure(model: nn.Module, x: Tensor) -> dict[str, tuple[float, float]]:
        with torch.no_grad():
            return {"sum": (float(model(x).sum()), 0.0)}

    found = pretrained_module.study_pretrained("test", (0, 1), 1, measure, settings, ignore)
    assert found.found["EfficientNet-Lite0"][0]["sum"][0] == pytest.approx(1, abs=1e-5)
    assert found.notes[0].endswith("data get': efficientnet-lite1")
    nothing = pretrained_module.study_pretrained("test", (1,), 1, measure, settings, ignore)
    assert nothing.found == {}
    assert len(nothing.notes) == 1


def test_full_figure_4_4_trains_its_small_networks(data: Path) -> None:
    settings = tiny(data, full=True, models=("Mixer w96",))
    result = experiment("finzi2023/figure4.4").run(settings, ignore)
    assert any("test images of CIFAR-10" in note for note in result.notes)
    random = experiment("finzi2023/figure4.4").run(tiny(None, models=("Mixer w96",)), ignore)
    assert any("random weights" in note for note in random.notes)


def test_layers_of_a_network_add_up() -> None:
    x = pink_noise(1, 3, 16, 0)
    found = layers_of(NamedClassifier("ResNet", 4).network(x, 10, 0), x, "rotation")
    assert all(amount >= 0 for *_, amount, _ in found)
    assert [name for name, *_ in found][:2] == ["conv1", "relu"]
    by_kind = shares([(kind, amount) for _, kind, amount, _ in found])
    total = sum(amount for *_, amount, _ in found)
    activations = sum(amount for _, kind, amount, _ in found if kind == "activation")
    assert by_kind["activation"] == pytest.approx(activations / total)
    assert sum(by_kind.values()) == pytest.approx(1)


def test_shares_of_nothing() -> None:
    assert shares([("activation", 0.0)]) == {"activation": 0.0}


@pytest.mark.parametrize("id", ["figure4.4", "figure4.5", "figure4.6", "figure4.7", "figureA.3"])
def test_unknown_models(id: str, data: Path) -> None:
    with pytest.raises(ValueError, match=r"expected models among .*, got 'VGG'"):
        experiment(f"finzi2023/{id}").run(tiny(data, models=("VGG",)), ignore)


def test_an_interrupted_study_goes_on(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = tiny(data, models=("CNN w16", "Mixer w48"))
    run: Callable[..., Result] = experiment("finzi2023/figure4.7").run
    whole = run(settings, ignore)

    def stop(step: Step) -> None:
        if step.message.startswith("Mixer"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(settings, stop)
    steps: list[Step] = []
    assert run(settings, steps.append).cells == whole.cells
    assert [step.message for step in steps] == ["Mixer w48, seed 0"]
