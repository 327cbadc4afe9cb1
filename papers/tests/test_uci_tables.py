"""The tables that come with the package, their splits, and rows as images."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
import torch

import isotropy_papers
from isotropy_papers.uci_tables import as_images, image_shape, uci, uci_names, uci_split

# rows, inputs, target variance, and values of the target that its source states: smallest and
# largest heating load 6.01 and 43.10, hours sitting 0.06 and 1, alcohol 8.4 and 14.9
TABLES = {
    "energy": (768, 8, 101.7, 43.10 - 6.01),
    "fertility": (100, 9, 0.0344, 0.94),
    "pendulum": (630, 9, 9.64, None),
    "wine": (1599, 11, 1.135, 6.5),
}
SHAPES = {"energy": (3, 3), "fertility": (3, 3), "pendulum": (3, 3), "wine": (4, 3)}
FOLDER = Path(isotropy_papers.__file__).parent / "uci"


def lines(name: str, file: str) -> list[list[float]]:
    text = gzip.decompress((FOLDER / name / file).read_bytes()).decode()
    return [[float(cell) for cell in line.split(",")] for line in text.splitlines()]


def test_names() -> None:
    assert uci_names() == tuple(TABLES) == tuple(sorted(p.parent.name for p in FOLDER.glob("*/d*")))


@pytest.mark.parametrize("name", TABLES)
def test_tables_are_the_files(name: str) -> None:
    rows, inputs, variance, span = TABLES[name]
    data, table = uci(name), torch.tensor(lines(name, "data.csv.gz"))
    assert data.y is not None
    assert data.x.shape == (rows, inputs)
    assert data.y.shape == (rows, 1)
    assert data.x.dtype == data.y.dtype == torch.float32
    assert torch.equal(torch.cat([data.x, data.y], 1), table)
    assert data.task == "regression"
    assert data.source == f"uci/{name}"
    assert float(data.y.var(correction=0)) == pytest.approx(variance, rel=2e-3)
    # centred, and not scaled
    assert float((table.mean(0) / table.std(0)).abs().max()) < 1e-4
    assert float((table.std(0) - 1).abs().max()) > 0.1
    if span is not None:
        assert float(data.y.max() - data.y.min()) == pytest.approx(span, rel=1e-3)


def test_targets_are_named_where_they_are_known() -> None:
    named = {name: uci(name).y_names for name in uci_names()}
    assert named == {
        "energy": ("heating load",),
        "fertility": ("hours spent sitting",),
        "pendulum": None,
        "wine": ("alcohol",),
    }
    # what their authors predict is the last input: a diagnosis with 12 of 100, qualities 3 to 8
    assert int((uci("fertility").x[:, -1] > 0).sum()) == 12
    quality = uci("wine").x[:, -1].unique()
    assert quality.diff().tolist() == pytest.approx([1.0] * 5, abs=1e-4)


@pytest.mark.parametrize("name", TABLES)
def test_ten_splits_judge_every_row_once(name: str) -> None:
    data = uci(name)
    assert data.y is not None
    mask = torch.tensor(lines(name, "test_mask.csv.gz")).bool()
    assert mask.shape == (len(data), 10)
    assert (mask.sum(1) == 1).all()
    for split in range(10):
        train, test = uci_split(name, split)
        assert train.y is not None
        assert test.y is not None
        assert abs(len(test) - len(data) / 10) <= 1
        assert torch.equal(test.x, data.x[mask[:, split]])
        assert torch.equal(test.y, data.y[mask[:, split]])
        assert torch.equal(train.x, data.x[~mask[:, split]])
        assert torch.equal(train.y, data.y[~mask[:, split]])
    assert train.y_names == data.y_names


@pytest.mark.parametrize(
    ("name", "judged"), [("energy", 154), ("fertility", 20), ("pendulum", 126), ("wine", 320)]
)
def test_the_reference_split_is_the_last_fifth(name: str, judged: int) -> None:
    data, (train, test) = uci(name), uci_split(name)
    assert len(test) == judged
    assert torch.equal(torch.cat([train.x, test.x]), data.x)


@pytest.mark.parametrize("name", TABLES)
def test_tables_as_images(name: str) -> None:
    x = uci(name).x
    images = as_images(x)
    height, width = SHAPES[name]
    assert images.shape == (len(x), 1, height, width)
    assert image_shape(x.shape[1]) == SHAPES[name]
    for row, column in ((0, 0), (1, 2), (height - 1, width - 1)):
        place = row * width + column
        pixel = images[:, 0, row, column]
        assert torch.equal(pixel, x[:, place] if place < x.shape[1] else torch.zeros_like(x[:, 0]))


def test_shapes_are_the_smallest_that_are_nearly_square() -> None:
    for columns in range(1, 200):
        allowed = [(h, w) for w in range(1, 20) for h in (w, w + 1) if h * w >= columns]
        assert image_shape(columns) == min(allowed, key=lambda shape: shape[0] * shape[1])


def test_images_of_a_chosen_shape_keep_precision_and_gradients() -> None:
    x = torch.arange(10.0, dtype=torch.float64).reshape(2, 5).requires_grad_()
    images = as_images(x, 2, 4)
    assert images.dtype == torch.float64
    assert images[1].tolist() == [[[5, 6, 7, 8], [9, 0, 0, 0]]]
    images.sum().backward()
    assert x.grad is not None
    assert torch.equal(x.grad, torch.ones_like(x))


# --- bad input -------------------------------------------------------------------------------


@pytest.mark.parametrize("call", [uci, uci_split], ids=["uci", "uci_split"])
def test_unknown_tables(call) -> None:
    for name in ("boston", "../uci/energy", ""):
        with pytest.raises(
            ValueError, match=r"expected a table among energy, fertility, pendulum, wine, got '"
        ):
            call(name)


@pytest.mark.parametrize("split", [-1, 10, True, 1.0, "0"], ids=repr)
def test_unknown_splits(split: object) -> None:
    with pytest.raises(ValueError, match=r"expected a split from 0 to 9, or None, got"):
        uci_split("fertility", split)  # type: ignore[arg-type]


def test_bad_images() -> None:
    x = torch.ones(2, 5)
    for shape in ((5,), (2, 0), (2, 1, 5)):
        with pytest.raises(ValueError, match=r"expected rows of shape \(n, d\) with d >= 1, got"):
            as_images(torch.ones(shape))
    with pytest.raises(ValueError, match=r"or neither, got height 3 and width None"):
        as_images(x, 3)
    with pytest.raises(ValueError, match=r"or neither, got height None and width 3"):
        as_images(x, width=3)
    with pytest.raises(ValueError, match=r"expected an image of at least 5 pixels, got 2x2"):
        as_images(x, 2, 2)
    with pytest.raises(ValueError, match=r"number of pixels of height of at least 1, got 0"):
        as_images(x, 0, 9)
    with pytest.raises(ValueError, match=r"number of pixels of width of at least 1, got 2.5"):
        as_images(x, 3, 2.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"expected a number of columns of at least 1, got 0"):
        image_shape(0)
