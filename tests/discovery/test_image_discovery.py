"""From images to symmetries, through the public verb, with short schedules."""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import Tensor

from discovery.pieces import PredictorThresholds, ProposingThresholds, json_text, replaced
from isotropy.discovery import DiscoverOptions, Finding, Findings, discover
from isotropy.report import finding_page

SIDE = 4
SHORT = (
    PredictorThresholds(image_steps=150, image_channels=6),
    ProposingThresholds(
        layer_rows=100, layer_epochs=4, layer_burn_in=2, layer_every=2, layer_curvature_rows=40
    ),
)


@pytest.fixture(autouse=True)
def _short() -> Iterator[None]:
    with replaced(*SHORT):
        yield


def bars(n: int, *, by_place: bool) -> tuple[Tensor, Tensor]:
    """A bar that lies or stands: which it is, anywhere on a torus, or in which quadrant it is."""
    draw = torch.Generator().manual_seed(0)
    which = torch.randint(2, (n,), generator=draw)
    shapes = torch.zeros(2, SIDE, SIDE)
    shapes[0, 0, :2] = shapes[1, :2, 0] = 1
    y, shifts = which, torch.randint(SIDE, (n, 2), generator=draw)
    if by_place:
        y = torch.randint(4, (n,), generator=draw)
        shifts = 2 * torch.stack([y // 2, y % 2], 1)
    pairs = zip(shapes[which], shifts.tolist(), strict=True)
    x = torch.stack([image.roll(shift, (0, 1)) for image, shift in pairs])
    return (x + 0.1 * torch.randn(x.shape, generator=draw)).unsqueeze(1), y


def turned_hooks(n: int) -> tuple[Tensor, Tensor]:
    """A hook or its mirror image, in the middle, turned by quarters."""
    draw = torch.Generator().manual_seed(0)
    hooks = torch.zeros(2, SIDE, SIDE)
    hooks[:, :, 1] = hooks[0, 3, 2] = hooks[1, 0, 2] = 1
    y = torch.randint(2, (n,), generator=draw)
    turns = torch.randint(4, (n,), generator=draw).tolist()
    x = torch.stack([hooks[k].rot90(t) for k, t in zip(y.tolist(), turns, strict=True)])
    return x + 0.1 * torch.randn(x.shape, generator=draw), y


def verdicts(found: Findings) -> dict[str, bool]:
    return {one["name"]: one["confirmed"] for one in found.tried if not isinstance(one, str)}


def test_a_pattern_anywhere_is_invariant_to_translations_and_not_to_turns():
    x, y = bars(300, by_place=False)
    steps = []
    options = DiscoverOptions(progress=steps.append)
    found = discover(x, y, methods="layers", fit_models=False, options=options)
    (best,) = [f for f in found if f.name == "Z(4) × Z(4), translations of the image"]
    assert (best.group, best.order) == ("Z(4)*Z(4)", 16)
    assert str(best.symmetry) == "Z(4)*Z(4): V >> 2*Scalar"
    said = verdicts(found)
    assert said["translation in all layers"]
    assert not said["C(4), quarter turns"]
    assert not said["p4, translations and quarter turns"]
    assert not said.get("translation and quarter turns in all layers", False)
    assert [s.done for s in steps] == sorted(s.done for s in steps)
    assert {s.total for s in steps} == {500}
    (layers,) = [f for f in found if f.name == "translation in all layers"]
    assert [row["strict"] for row in layers.layers] == [True] * 4
    assert {row["type"] for row in layers.layers} <= {"translation", "none"}
    for row in layers.layers:
        assert [set(shares) for shares in row["history"]] == [{"factored", "conv"}] * 2
        assert row["history"][-1]["conv"] == pytest.approx(row["conv"])
    json_text(layers.to_json())


def test_the_quadrant_is_known_to_late_layers_only():
    x, y = bars(240, by_place=True)
    found = discover(x, y, fit_models=False)
    said = verdicts(found)
    assert not any(said[name] for name in said if "layers 0" not in name)
    assert not said["translation in all layers"]
    assert said["translation in layers 0–2"]  # the evidence proposes so many, and they do
    assert len(found) == 0  # it is no symmetry of the task
    assert len(found.partly) == 1
    assert [row["strict"] for row in found.partly[0].layers] == [True] * 3 + [False]


def test_turns_are_found_with_a_model_that_comes_back_from_disk(tmp_path):
    x, y = turned_hooks(240)
    found = discover(x, y, methods="layers")
    best = found.best
    assert best is not None
    assert (best.name, best.group, best.order) == ("C(4), quarter turns", "GridTurns(4)", 4)
    said = verdicts(found)
    assert not said["Z(2), mirror images"]
    assert not said["Z(4) × Z(4), translations of the image"]
    predicted = best.predict(x)
    np.testing.assert_allclose(best.predict(x.rot90(1, (1, 2))), predicted, atol=1e-4)
    assert (predicted.argmax(1) == y.numpy()).mean() > 0.9
    told = best.comparison
    assert told is not None
    assert (told.samples, told.fitted, told.loss) == (72, 168, "cross-entropy")
    assert told.strict < told.constant
    assert told.strict_accuracy is not None
    assert told.strict_accuracy > 0.9
    assert [rows for rows, _, _ in told.curve] == [56, 168]  # an eighth would be too few
    assert told.curve[-1] == (168, told.strict, told.free)
    assert best.equivariance_error is not None
    assert best.equivariance_error < 1e-4
    assert best.examples is not None
    assert best.examples.shape == (3, 4, 4, 4)
    for row in best.examples:
        turns = [np.rot90(row[0], k) for k in range(4)]
        assert all(any(np.array_equal(one, turn) for turn in turns) for one in row[1:])
    again = Findings.load(found.save(tmp_path))
    for one, other in zip(found, again, strict=True):
        np.testing.assert_allclose(other.predict(x), one.predict(x), atol=1e-6)
        assert json.loads(json_text(other.to_json())) == json.loads(json_text(one.to_json()))
    with pytest.raises(ValueError, match=r"images of shape \(n, 4, 4\), got \(5, 1, 4, 4\)"):
        best.predict(x[:5, None])
    assert "C(4), quarter turns" in finding_page(found)


def test_noise_confirms_nothing_and_oblong_images_are_not_turned():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(100, 4, 5))
    found = discover(x, rng.integers(3, size=100), methods="layers", groups=np.arange(100) // 1)
    assert len(found) == 0
    assert found.best is None
    assert "nothing can be claimed" in found.notes[1]
    assert found.notes[-1] == "quarter turns were not tried: images of 4 by 5 are not square"
    assert not any("quarter" in name for name in verdicts(found))


def test_squares_may_be_sets_where_layers_alone_hold(monkeypatch):
    kinds, candidates = [], []

    def searched(problem, proposers, *given):
        kinds.append(problem.kind)
        candidates.append(proposers[0].candidates)
        name = "translation in layer 0" if problem.kind == "images" else "S(6), all positions"
        layers = [{"strict": True}] if problem.kind == "images" else []
        return Findings([Finding.of(name, "S(6)", layers=layers)])

    monkeypatch.setattr("isotropy.discovery._discover_data.searched", searched)
    x, y = np.random.default_rng(0).normal(size=(100, 6, 6)), np.arange(100) % 2
    found = discover(x, y, candidates=["Z(36)"])
    assert kinds == ["images", "sequences"]
    assert candidates == [["Z(36)"], ()]  # which act on pixels, and on no elements of a set
    assert [f.name for f in found] == ["S(6), all positions"]
    assert [f.name for f in found.partly] == ["translation in layer 0"]
    found = discover(x, y, methods=("layers", "permutations"))  # layers are what was asked for
    assert kinds[2:] == ["images"]
    assert [f.name for f in found] == ["translation in layer 0"]


IMAGES, CLASSES = np.random.default_rng(0).normal(size=(100, 1, 5, 5)), np.arange(100) % 2


FIRST = {"options": DiscoverOptions(channels_first=True)}


@pytest.mark.parametrize(
    ("x", "y", "options", "sentence"),
    [
        (IMAGES[..., :3], CLASSES, {}, r"at least 4 by 4, got \(100, 1, 5, 3\)"),
        (np.ones((100, 5, 5, 4)), CLASSES, {}, r"images that vary, got the same in every row"),
        (np.ones_like(IMAGES), CLASSES, {}, r"images that vary, got the same in every row"),
        (IMAGES, CLASSES * 0, {}, r"expected targets that vary, got the same in every row"),
        (IMAGES, IMAGES[..., :4], {}, r"or images of 5 by 5 as the targets .* got shape"),
        (IMAGES[:50], CLASSES[:50], {}, r"at least 66 samples .* got 50"),
        (IMAGES, None, {}, r"expected targets y beside the inputs, got none"),
        (IMAGES[:, :, None], CLASSES, {}, r"or images of shape .* got \(100, 1, 1, 5, 5\)"),
        (IMAGES, CLASSES, {"methods": "generators"}, r"'layers' for images, got generators"),
        (IMAGES, CLASSES, {"blocks": 2}, r"expected no blocks for images, got 2"),
        (IMAGES, CLASSES, FIRST, r"expected no channels_first for images"),
        (IMAGES, CLASSES, {"candidates": ["Z(7)"]}, r"permute 25 pixels, got 'Z\(7\)' on 7"),
        (IMAGES[:, 0, 0], CLASSES, {"methods": "layers"}, r"for vectors, got layers"),
    ],
    ids=[
        *("small", "constant, channels last", "constant", "one class", "other targets"),
        *("few", "no targets"),
        *("axes", "method", "blocks", "channels first", "candidates", "vectors"),
    ],
)  # fmt: skip
def test_bad_images_are_refused_in_one_sentence(x, y, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        discover(x, y, **options)
