from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from isotropy.layerwise import LayerType
from isotropy.report import plot_layers

BLUE, ORANGE, PURPLE = (0, 114, 178), (230, 159, 0), (204, 121, 167)


def result(shares: dict[str, dict[str, float]], estimates: int = 1) -> Any:
    """All of a ``LayerwiseResult`` that is drawn."""
    types = {name: LayerType.of(paths, dict.fromkeys(paths, 1)) for name, paths in shares.items()}
    layers = {name: layer.paths for name, layer in types.items()}
    history = tuple(SimpleNamespace(epoch=5 * k, layers=layers) for k in range(1, estimates + 1))
    return SimpleNamespace(types=types, history=history)


def pixels(path: Path) -> np.ndarray:
    with Image.open(path) as image:
        assert image.format == "PNG"
        return np.asarray(image.convert("RGB")).astype(int)


def near(image: np.ndarray, colour: tuple[int, int, int]) -> np.ndarray:
    return np.abs(image - np.array(colour)).max(-1) <= 3


def columns(mask: np.ndarray) -> list[tuple[int, int]]:
    """Where bars begin and end: runs of columns in which a colour is high."""
    high = np.concatenate([[0], (mask.sum(0) > 40).astype(int), [0]])
    steps = np.flatnonzero(np.diff(high))
    return list(zip(steps[::2].tolist(), steps[1::2].tolist(), strict=True))


def test_a_bar_for_each_layer_divided_by_shares(tmp_path: Path) -> None:
    found = result({"0": {"fc": 1.0, "conv": 3.0}, "1": {"fc": 3.0, "conv": 1.0}})
    image = pixels(plot_layers(found, tmp_path / "layers.png"))
    first, second = columns(near(image, BLUE) | near(image, ORANGE))
    assert second[0] > first[1]
    for (start, end), share in ((first, 0.75), (second, 0.25)):
        column = image[:, start + (end - start) // 8]  # beside the name that is written on it
        blue, orange = near(column[:, None], BLUE).sum(), near(column[:, None], ORANGE).sum()
        assert blue / (blue + orange) == pytest.approx(share, abs=0.02)
    assert [path.name for path in tmp_path.iterdir()] == ["layers.png"]


def test_the_type_is_written_on_its_own_part(tmp_path: Path) -> None:
    def letters(shares: dict[str, float]) -> int:
        image = pixels(plot_layers(result({"0": shares}), tmp_path / "type.png"))
        ((start, end),) = columns(near(image, BLUE) | near(image, ORANGE))
        rows = np.flatnonzero(near(image[:, start + 3 : start + 4], BLUE)[:, 0])
        inside = image[rows.min() + 3 : rows.max() - 3, start + 3 : end - 3]
        return int((~near(inside, BLUE)).sum())

    assert letters({"fc": 1.0, "conv": 3.0}) > 50
    assert letters({"fc": 3.0, "conv": 1.0}) == 0


def test_the_history_is_below(tmp_path: Path) -> None:
    shares = {str(k): {"fc": 1.0, "conv": 3.0} for k in range(3)}
    short = pixels(plot_layers(result(shares, 1), tmp_path / "short.png"))
    long = pixels(plot_layers(result(shares, 6), tmp_path / "long.png"))
    points, lines = (near(image[int(0.6 * len(image)) :], BLUE).sum() for image in (short, long))
    assert lines > 5 * points > 0


def test_many_layers_of_long_names_and_of_unknown_paths(tmp_path: Path) -> None:
    names = [f"encoder.blocks.{k}.attention" for k in range(9)]
    found = result({name: {"mine": 3.0, "conv": 1.0} for name in names}, 3)
    image = pixels(plot_layers(found, tmp_path / "many.png"))
    assert len(columns(near(image, PURPLE))) == 9


def test_a_layer_of_which_nothing_is_determined(tmp_path: Path) -> None:
    found = result({"": {"fc": 0.0, "conv": 0.0}})
    assert found.types[""].kind == "none"
    image = pixels(plot_layers(found, tmp_path / "none.png"))
    assert near(image, BLUE).sum() == pytest.approx(near(image, ORANGE).sum(), rel=0.1)


def test_bad_input(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"expected a picture file that ends in \.png, got"):
        plot_layers(result({"0": {"conv": 1.0}}), tmp_path / "layers.svg")
    with pytest.raises(ValueError, match=r"expected layers to draw, got none"):
        plot_layers(result({}), tmp_path / "layers.png")
    assert list(tmp_path.iterdir()) == []
