"""Images whose targets are numbers or images, channels that come last, and searches cut short."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from discovery.pieces import (
    ImageBench,
    ImageData,
    LayerProposer,
    ModellingThresholds,
    OutOfTime,
    PredictorThresholds,
    distinguishability,
    moved_together,
    one_thread,
    replaced,
    usual_motions,
)
from isotropy.data import load
from isotropy.discovery import DiscoverOptions, discover


@pytest.fixture(autouse=True)
def _short() -> Iterator[None]:
    with replaced(PredictorThresholds(image_steps=60, image_channels=3)), one_thread():
        yield


def data_of(x: Any, y: Any) -> ImageData:
    return ImageData.of(load((x, y)))


def noise(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


@pytest.mark.parametrize(
    ("given", "sizes", "last"),
    [
        ((8, 6), (1, 8, 6), False),
        ((3, 8, 6), (3, 8, 6), False),
        ((8, 6, 3), (3, 8, 6), True),
        ((8, 8, 1), (1, 8, 8), True),
        ((5, 5, 4), (4, 5, 5), True),
        ((4, 4, 4), (4, 4, 4), False),
        ((3, 9, 4), (3, 9, 4), False),
        ((8, 8, 5), (8, 8, 5), False),
    ],
)
def test_channels_are_told_by_their_number(given, sizes, last):
    x = torch.arange(2 * int(np.prod(given))).reshape(2, *given).float()
    data = data_of(x, np.arange(2))
    assert (data.image, data.shape.channels_last) == (sizes, last)
    first = np.moveaxis(x.numpy(), -1, 1) if last else x.numpy()
    np.testing.assert_array_equal(data.x.numpy(), first.reshape(2, -1))
    assert torch.equal(data.shape.back(data.x), x)


def test_targets_of_the_same_height_and_width_are_images():
    x = noise(90, 8, 6, 3)
    for given, sizes in (((8, 6), (1, 8, 6)), ((2, 8, 6), (2, 8, 6)), ((8, 6, 2), (2, 8, 6))):
        target = data_of(x, noise(90, *given, seed=1)).target
        assert target is not None
        assert target.sizes == sizes
    with pytest.raises(ValueError, match="images of 8 by 6 as the targets"):
        data_of(x, noise(90, 6, 8, seed=1))


def test_a_linear_filter_commutes_with_translations_and_not_with_mirrors():
    x = noise(500, 5, 6)
    y = x + 0.8 * np.roll(x, 1, 1) - 0.5 * np.roll(x, 1, 2) + 0.1 * noise(500, 5, 6, seed=1)
    with replaced(ModellingThresholds(curve_pixels=0)):
        found = discover(x, y, methods="layers")
    best = found.best
    assert best is not None
    assert best.name == "Z(5) × Z(6), translations of the image"
    assert best.action.endswith("the target is moved along")
    assert str(best.symmetry) == "Z(5)*Z(6): V >> V"
    assert not any("mirror" in one.name or "upside" in one.name for one in found)
    assert best.comparison is not None
    assert best.comparison.loss == "mean squared error"
    assert best.comparison.strict_accuracy is None
    assert best.comparison.curve == ()
    assert best.equivariance_error is not None
    assert best.equivariance_error < 1e-5
    assert best.examples is not None
    assert best.examples.shape == (3, 4, 5, 6)
    said = torch.as_tensor(best.predict(x[:4])).reshape(4, 5, 6)
    moved = torch.as_tensor(best.predict(np.roll(x[:4], (2, 1), (1, 2)))).reshape(4, 5, 6)
    torch.testing.assert_close(moved, said.roll((2, 1), (1, 2)), atol=1e-4, rtol=1e-4)


def test_a_weighted_sum_with_a_mirror_has_that_mirror_alone():
    weights = np.array([[1.0, -2.0, 1.0], [0.5, 3.0, 0.5], [-1.5, 1.0, -1.5], [2.0, -0.5, 2.0]])
    weights = np.concatenate([weights, weights[:, ::-1]], 1)
    x = noise(600, 4, 6)
    y = (weights * x).sum((1, 2)) + 0.2 * noise(600, seed=1)
    found = discover(x, y, methods="layers", fit_models=False)
    assert [one.name for one in found] == ["Z(2), mirror images"]
    assert found[0].action.endswith("the number stays")
    assert found.notes[0].startswith("regression on images; best predictor: linear map")


def test_noise_as_target_confirms_nothing():
    x, y = noise(150, 4, 4), noise(150, 2, seed=1)
    found = discover(x, y, methods="layers", fit_models=False)
    assert len(found) == 0
    assert "nothing can be claimed" in found.notes[1]


def test_targets_that_are_images_move_along_and_others_stay():
    data = data_of(noise(90, 2, 5, 5), noise(90, 5, 5, seed=1))
    turns = next(one for one in usual_motions(data) if one.name.startswith("C(4)"))
    rng = torch.Generator().manual_seed(0)
    x, y = moved_together(turns.symmetry(data), rng, data.x, data.y)
    for k in range(90):
        images, target = data.maps[k], data.y[k].unflatten(0, (5, 5))
        pairs = [(images.rot90(n, (1, 2)), target.rot90(n)) for n in range(4)]
        moved = x[k].unflatten(0, (2, 5, 5)), y[k].unflatten(0, (5, 5))
        assert any(torch.equal(moved[0], a) and torch.equal(moved[1], b) for a, b in pairs)
    flat = data_of(noise(90, 2, 5, 5), noise(90, 25, seed=1))
    _, same = moved_together(turns.symmetry(flat), rng, flat.x, flat.y)
    assert same is flat.y


def test_moved_images_are_told_from_those_of_the_data_or_not():
    x = noise(600, 6, 6)
    upright = x + 2 * np.eye(6) * (np.arange(600) % 2)[:, None, None]
    either = np.where((np.arange(600) % 4 < 2)[:, None, None], upright, upright[:, :, ::-1])
    for images, low, high in ((x, 0.4, 0.6), (upright, 0.65, 1.0), (either, 0.35, 0.62)):
        data = data_of(images, np.arange(600) % 2)
        mirror = next(one for one in usual_motions(data) if one.name == "Z(2), mirror images")
        assert low < distinguishability(data, mirror, 0) < high


def letters_anywhere(rows: int, side: int) -> tuple[np.ndarray, np.ndarray]:
    """The letters L and F, anywhere in the image and upright."""
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=rows)
    letters = np.zeros((2, side, side))
    letters[0, :3, 0] = letters[0, 2, :3] = 1
    letters[1, 0, :3] = letters[1, :3, 0] = letters[1, 1, 1] = 1
    x = np.stack([np.roll(letters[k], rng.integers(side, size=2), (0, 1)) for k in y])
    return x + 0.1 * rng.normal(size=x.shape), y


def test_things_that_lie_anywhere_are_told_from_their_mirror_images():
    data = data_of(*letters_anywhere(900, 16))
    mirror = next(one for one in usual_motions(data) if one.name == "Z(2), mirror images")
    assert distinguishability(data, mirror, 0) < 0.6
    assert distinguishability(data, mirror, 0, wherever=True) > 0.65


def test_mirror_images_that_the_data_do_not_have_are_not_claimed(monkeypatch):
    monkeypatch.setattr(LayerProposer, "propose", lambda *given: iter(()))  # which takes long
    found = discover(*letters_anywhere(900, 8), methods="layers", fit_models=False)
    assert [one.group for one in found] == ["Z(8)*Z(8)"]
    unlike = [one for one in found.tried if "unlike the images of the data" in str(one)]
    assert any(str(one).startswith("Z(2), mirror images") for one in unlike)


IMAGES = noise(400, 4, 5)
ALL_SHIFTS = "Z(4) × Z(5), translations of the image"


@pytest.mark.parametrize(
    ("stage", "words"),
    [
        ("proposing._motion_proposer.ImageBench.free", "fitting predictors of images"),
        ("claims._motion_claim.MotionClaim.test", "testing what was found"),
        ("claims._motion_claim.MotionClaim.fit", "fitting models"),
    ],
    ids=["fit", "confirm", "fit_models"],
)
def test_what_is_sure_stays_when_a_stage_is_cut_short(monkeypatch, stage, words):
    def cut(*given: Any, **options: Any) -> None:
        raise OutOfTime

    monkeypatch.setattr(f"isotropy.discovery.{stage}", cut)
    monkeypatch.setattr(ImageBench, "is_similar", lambda *given: False)
    y = IMAGES.sum((1, 2)) + 0.1 * noise(400, seed=1)
    found = discover(IMAGES, y, methods="layers", budget=3600.0)
    assert found.stopped.startswith(f"{words} took more than its share of the budget")
    names = [one.name for one in found]
    if words == "fitting models":
        assert ALL_SHIFTS in names
        assert all(one.confirmed and one.model is None for one in found)
        return
    assert names == []
    (said,) = (str(one) for one in found.tried if str(one).startswith(ALL_SHIFTS))
    assert said.endswith("not tested")


def test_a_long_budget_searches_sets_of_groups_only_where_images_have_classes(caplog):
    class Begun(Exception):
        """The plan has been logged."""

    def stop(step: Any) -> None:
        raise Begun

    caplog.set_level("INFO")
    images = noise(200, 1, 6, 6)
    for y in (images.sum((1, 2, 3)), (images[:, 0, 0, 0] > 0).astype(int)):
        with pytest.raises(Begun):
            discover(images, y, budget="20m", options=DiscoverOptions(progress=stop))
    assert ["sets of groups" in line for line in caplog.messages] == [False, True]


def test_predictors_that_were_fitted_are_tested_when_time_is_up(monkeypatch):
    whole = ImageBench.cost
    asked = []

    def cost(self, compared):
        asked.append(compared)
        if len(asked) > 3:
            raise KeyboardInterrupt
        return whole(self, compared)

    monkeypatch.setattr(ImageBench, "cost", cost)
    y = IMAGES.sum((1, 2)) + 0.1 * noise(400, seed=1)
    options = DiscoverOptions(keep_on_interrupt=True)
    found = discover(IMAGES, y, methods="layers", options=options)
    assert found.stopped == "interrupted while fitting predictors of images"
    assert [one.name for one in found] == [ALL_SHIFTS]
    assert "Z(2), half turns: not tested" in found.tried
