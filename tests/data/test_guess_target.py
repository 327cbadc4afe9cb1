"""Which columns and arrays are taken where none were named."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from isotropy.data import Intake, guess_target, load


@pytest.mark.parametrize(
    ("columns", "target"),
    [
        ("a b c", "c"),
        ("a target c", "target"),
        ("Label a b", "Label"),
        ("x1 x2 y", "y"),
        ("y x1 x2", "y"),
        ("x y", "y"),
        ("x y z", "z"),
        ("x y z energy", "energy"),
        ("x y class", "class"),
        ("x1 y1 z1 x2 y2 z2 E", "E"),
        ("x1 y1 x2 y2 E", "E"),
        ("x1 x2 y1 y2", "y1 y2"),
        ("x_0 x_1 y_0 y_1 y_2", "y_0 y_1 y_2"),
        ("x1 y1 x2 y2", "y2"),
        ("a b target_1 target_2", "target_1 target_2"),
        ("out_x out_y a b c", "out_x out_y"),
        ("a b id", "b"),
        ("price rooms area", "price"),
        ("Unnamed:0 a", "a"),
        ("id", "id"),
        ("y1 y2", "y2"),
    ],
)
def test_names_of_columns(columns: str, target: str) -> None:
    assert guess_target(columns.split()) == tuple(target.split())


def test_the_column_of_groups_is_no_target() -> None:
    assert guess_target(["a", "b", "class"], "class") == ("b",)
    with pytest.raises(ValueError, match=r"expected a column that may be a target, got \['a'\]"):
        guess_target(["a"], "a")


def test_a_guess_is_told(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b,mass\n1,2,0.5\n3,4,0.7\n")
    data = load(path, intake=Intake(guess=True))
    assert data.y_names == ("mass",)
    assert data.notes == ("no target was named: 'mass', the last column, was taken",)
    assert load(path, intake=Intake(guess=True), target="a").notes == ()
    path.write_text("y,b,c\n1,2,0.5\n3,4,0.7\n")
    assert load(path, intake=Intake(guess=True)).notes == ("no target was named: 'y' was taken",)
    path.write_text("a,y1,y2\n1,2,0.5\n3,4,0.7\n")
    data = load(path, intake=Intake(guess=True))
    assert data.notes == ("no target was named: 'y1', 'y2' were taken",)
    assert data.y is not None
    assert data.y.shape == (2, 2)


def test_a_table_without_a_header(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("1,2,0.5\n3,4,0.7\n5,6,0.9\n")
    for most in (None, 2):
        data = load(path, intake=Intake(guess=True, most_rows=most))
        assert data.x_names == ("column 1", "column 2")
        assert data.y_names == ("column 3",)
        assert "the first row has numbers" in data.notes[1]
    assert load(path, intake=Intake(guess=True)).x.tolist() == [[1, 2], [3, 4], [5, 6]]


X = np.random.default_rng(0).normal(size=(6, 4))
Y = np.arange(6) / 7


@pytest.mark.parametrize(
    ("x_name", "y_name"),
    [("features", "target"), ("Data", "Targets"), ("input", "output"), ("X", "label")],
)
def test_other_spellings_need_no_guess(tmp_path: Path, x_name: str, y_name: str) -> None:
    np.savez(tmp_path / "a.npz", **{y_name: Y, x_name: X})
    data = load(tmp_path / "a.npz")
    assert np.array_equal(data.x, X)
    assert data.y is not None
    assert np.array_equal(data.y[:, 0], Y)
    assert data.notes == ()


@pytest.mark.parametrize(
    ("arrays", "inputs"),
    [
        ({"arr_0": X, "arr_1": Y}, "arr_0"),
        ({"arr_0": Y, "arr_1": X}, "arr_1"),
        ({"first": X, "second": X}, "first"),
        ({"heights": X, "x": Y}, "x"),
        ({"y": X, "heights": Y}, "heights"),
        ({"a": X, "b": Y, "groups": np.arange(6)}, "a"),
    ],
)
def test_arrays_whose_names_say_nothing(tmp_path: Path, arrays: Any, inputs: str) -> None:
    np.savez(tmp_path / "a.npz", **arrays)
    targets = next(name for name in arrays if name not in (inputs, "groups"))
    for source in (tmp_path / "a.npz", arrays):
        data = load(source, intake=Intake(guess=True))
        assert data.notes == (f"{inputs!r} was taken as inputs and {targets!r} as targets",)
        assert np.array_equal(data.x, arrays[inputs].reshape(6, -1))
        assert data.y is not None
        assert np.array_equal(data.y, arrays[targets].reshape(6, -1))
        assert (data.groups is not None) == ("groups" in arrays)


def test_the_training_split_is_taken(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", train_x=X, train_y=Y, test_x=X[:2], test_y=Y[:2])
    data = load(tmp_path / "a.npz", intake=Intake(guess=True))
    assert len(data) == 6
    assert data.notes == ("of the splits train and test, 'train' was taken",)
    assert len(load(tmp_path / "a.npz", split="test", intake=Intake(guess=True))) == 2


def test_no_guess_where_lengths_differ(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=r"one pair of arrays such as x and y, got the arrays a, b"
    ):
        load({"a": X, "b": Y[:3]}, intake=Intake(guess=True))
