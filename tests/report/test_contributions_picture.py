from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from isotropy.equivariance import LayerContribution, Layerwise, Measurement
from isotropy.report import plot_contributions

BLUE, SKY, ORANGE, GREY = (0, 114, 178), (86, 180, 233), (230, 159, 0), (187, 187, 187)


def results(layers: Sequence[tuple[str, float]], action: str = "rotation") -> Layerwise:
    units = tuple(
        LayerContribution(f"layer{i}", kind, size, size**2, 0.0, 0.0)
        for i, (kind, size) in enumerate(layers)
    )
    return Layerwise(action, units, 1.0, 0.0, 5, "forward")


def pixels(path: Path) -> np.ndarray:
    with Image.open(path) as image:
        assert image.format == "PNG"
        return np.asarray(image.convert("RGB")).astype(int)


def near(image: np.ndarray, colour: tuple[int, int, int]) -> np.ndarray:
    return (np.abs(image - np.array(colour)).max(-1) <= 3) & outside_legend(image)


def outside_legend(image: np.ndarray) -> np.ndarray:
    """The bars: all that is left of the legend, which begins right of the last wide run."""
    coloured = (image.max(-1) - image.min(-1) > 40).sum(0) > 0.3 * image.shape[0]
    last = int(np.flatnonzero(coloured).max())
    return np.broadcast_to(np.arange(image.shape[1]) <= last, image.shape[:2])


def test_heights_are_contributions_from_the_bottom_up(tmp_path: Path) -> None:
    found = results([("strided convolution", 3.0), ("activation", 1.0)])
    image = pixels(plot_contributions(found, tmp_path / "bars.png"))
    blue, orange = near(image, BLUE), near(image, ORANGE)
    assert 2.8 < blue.sum() / orange.sum() < 3.2
    assert np.flatnonzero(blue.any(1)).min() > np.flatnonzero(orange.any(1)).max()
    assert [path.name for path in tmp_path.iterdir()] == ["bars.png"]


def test_a_kind_without_a_colour_is_drawn_as_other(tmp_path: Path) -> None:
    found = results([("wavelet", 1.0), ("activation", 1.0)])
    image = pixels(plot_contributions(found, tmp_path / "bars.png"))
    assert near(image, GREY).sum() == pytest.approx(near(image, ORANGE).sum(), rel=0.1)


def test_models_share_an_axis_unless_in_percent(tmp_path: Path) -> None:
    pair = {
        "small": results([("convolution", 1.0)]),
        "large": results([("strided convolution", 4.0)]),
    }
    image = pixels(plot_contributions(pair, tmp_path / "sizes.png"))
    assert 3.6 < near(image, BLUE).sum() / near(image, SKY).sum() < 4.4
    image = pixels(plot_contributions(pair, tmp_path / "percent.png", percent=True))
    assert near(image, BLUE).sum() == pytest.approx(near(image, SKY).sum(), rel=0.02)


def test_actions_have_axes_of_their_own(tmp_path: Path) -> None:
    layers = {
        "rotation": results([("convolution", 0.01)]),
        "scale": results([("strided convolution", 50.0)], "scale"),
    }
    found = Measurement("net", 5, {}, layers, {}, {}, {})
    image = pixels(plot_contributions(found, tmp_path / "panels.png"))
    assert near(image, BLUE).sum() == pytest.approx(near(image, SKY).sum(), rel=0.05)


def test_each_of_a_hundred_layers_can_be_seen(tmp_path: Path) -> None:
    layers = [("convolution" if i % 2 else "activation", 1.0) for i in range(100)]
    image = pixels(plot_contributions(results(layers), tmp_path / "deep.png"))
    bars = near(image, ORANGE) | near(image, SKY)
    column = image[:, int(np.median(np.flatnonzero(bars.any(0))))]
    kinds = np.where(near(column[:, None], ORANGE)[:, 0], 1, 0)
    assert sum(kind for kind, _ in groupby(kinds)) == 50


def test_many_models_without_names_in_their_bars(tmp_path: Path) -> None:
    many = {f"a model of number {i}": results([("convolution", 1.0 + i)]) for i in range(9)}
    image = pixels(plot_contributions(many, tmp_path / "many.png"))
    bars = near(image, SKY)
    near_the_ground = bars[np.flatnonzero(bars.any(1)).max() - 5]
    assert sum(int(inside) for inside, _ in groupby(near_the_ground)) == 9


def test_bad_input(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"expected a picture file that ends in \.png, got"):
        plot_contributions(results([("pooling", 1.0)]), tmp_path / "bars.svg")
    for empty in (results([]), {}, Measurement("net", 5, {}, {}, {}, {}, {})):
        with pytest.raises(ValueError, match=r"expected contributions of layers to draw, got none"):
            plot_contributions(empty, tmp_path / "bars.png")
    assert list(tmp_path.iterdir()) == []
