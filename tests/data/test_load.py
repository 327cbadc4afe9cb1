import gzip
import io
import pickle
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
import torch
from PIL import Image
from torch.utils.data import IterableDataset, TensorDataset

from isotropy.data import Dataset, load


def written(folder: Path, name: str, content: str) -> Path:
    path = folder / name
    path.write_text(content, "utf-8")
    return path


PETS = "legs,weight,kind\n4,3.5,cat\n4,20,dog\n2,0.1,bird\n4,4.25,cat\n"


# -- tables ----------------------------------------------------------------------------------------


def test_a_text_column_names_the_classes(tmp_path: Path) -> None:
    data = load(written(tmp_path, "pets.csv", PETS), target="kind")
    assert data.x.tolist() == [[4, 3.5], [4, 20], [2, pytest.approx(0.1)], [4, 4.25]]
    assert data.x.dtype == torch.float32
    assert data.x_names == ("legs", "weight")
    assert data.y_names == ("kind",)
    assert data.classes == ("bird", "cat", "dog")
    assert data.y is not None
    assert data.y.tolist() == [1, 2, 0, 1]
    assert data.y.dtype == torch.int64
    assert data.task == "classification"
    assert data.source == str(tmp_path / "pets.csv")


@pytest.mark.parametrize("target", [["a", "c"], "a,c", "a, c"])
def test_several_targets_are_a_regression(tmp_path: Path, target: Any) -> None:
    data = load(written(tmp_path, "t.csv", "a,b,c\n1,2,3\n4,5,6\n"), target=target)
    assert data.y is not None
    assert data.y.tolist() == [[1, 3], [4, 6]]
    assert data.y.dtype == torch.float32
    assert (data.x_names, data.y_names, data.task) == (("b",), ("a", "c"), "regression")


def test_a_column_may_have_a_comma_in_its_name(tmp_path: Path) -> None:
    data = load(written(tmp_path, "t.csv", '"a,b",a,b\n1,2,3\n4,5,6\n'), target="a,b")
    assert (data.x_names, data.y_names) == (("a", "b"), ("a,b",))


def test_without_a_target_all_columns_are_inputs(tmp_path: Path) -> None:
    data = load(written(tmp_path, "t.csv", "a,b\n1,2\n"))
    assert (data.y, data.task, data.x.tolist()) == (None, None, [[1, 2]])


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t.tsv", "a\tb\n1\t2\n"),
        ("t.csv", "a;b\n1;2\n"),
        ("t.csv", "\ufeffa,b\r\n1,2\r\n"),
        ("t.csv", "a,b\n\n1,2\n\n"),
        ("t.csv", '"a"," b "\n" 1","2"'),
        ("T.CSV", "a,b\n1e0,+2.0\n"),
    ],
)
def test_spellings_of_one_table(tmp_path: Path, name: str, content: str) -> None:
    path = tmp_path / name
    path.write_bytes(content.encode())
    data = load(path)
    assert (data.x_names, data.x.tolist()) == (("a", "b"), [[1, 2]])


@pytest.mark.parametrize("suffix", [".csv.gz", ".tsv.gz"])
def test_compressed_tables(tmp_path: Path, suffix: str) -> None:
    text = "a,b\n1,2\n" if "csv" in suffix else "a\tb\n1\t2\n"
    path = tmp_path / f"t{suffix}"
    path.write_bytes(gzip.compress(text.encode()))
    assert load(str(path)).x.tolist() == [[1, 2]]


def test_csv_agrees_with_pandas(tmp_path: Path) -> None:
    numbers = np.random.default_rng(0).normal(size=(50, 4)) * 10.0 ** np.arange(-8, 8, 4)
    frame = pandas.DataFrame(numbers, columns=list("abcd"))
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    expected = pandas.read_csv(tmp_path / "t.csv")
    for source in (tmp_path / "t.csv", tmp_path / "t.parquet", frame):
        data = load(source, target="d")
        assert np.array_equal(data.x, expected[["a", "b", "c"]].to_numpy(np.float32))
        assert data.y is not None
        assert np.array_equal(data.y[:, 0], expected["d"].to_numpy(np.float32))


def test_groups_are_a_column(tmp_path: Path) -> None:
    path = written(tmp_path, "t.csv", "who,a,y\nbo,1,0.5\nal,2,1.5\nbo,3,2.5\n")
    data = load(path, target="y", groups="who")
    assert data.groups is not None
    assert data.groups.tolist() == [1, 0, 1]
    assert data.x_names == ("a",)
    frame = pandas.read_csv(path)
    same = load(frame, target="y", groups="who")
    assert same.groups is not None
    assert same.groups.tolist() == [1, 0, 1]


def test_groups_may_be_given_apart(tmp_path: Path) -> None:
    path = written(tmp_path, "t.csv", "a\n1\n2\n3\n")
    for source in (path, pandas.DataFrame({"a": [1, 2, 3]}), load(path)):
        data = load(source, groups=[7, 7, 3])
        assert data.groups is not None
        assert data.groups.tolist() == [1, 1, 0]


@pytest.mark.parametrize(
    ("content", "options", "sentence"),
    [
        ("", {}, r"expected data, got an empty file"),
        ("\n1,2\n", {}, r"expected a header row, got an empty file"),
        ("1,2\n3,4\n", {}, r"expected a header row of names, got numbers"),
        ("a,b\n", {}, r"expected rows after the header, got none"),
        ("a,\n1,2\n", {}, r"expected a name for every column, got none for column 2"),
        ("a,b,a\n1,2,3\n", {}, r"expected distinct column names, got 'a' twice"),
        ("a,b\n1,2\n3\n", {}, r"expected 2 fields in every row, got 1 in row 2"),
        ("a,b\n1,2,3\n", {}, r"expected 2 fields in every row, got 3 in row 1"),
        ("a,b\n1,2\n3,red\n", {}, r"expected a number in column 'b', row 2, got 'red'"),
        ("a,b\n1,2_0\n", {}, r"expected a number in column 'b', row 1, got '2_0'"),
        ("a,b\n1,2\n,4\n", {}, r"column 'a', row 2, got a missing value \(''\)"),
        ("a,b\n1,2\n3,NaN\n", {}, r"column 'b', row 2, got a missing value \('NaN'\)"),
        ("a,b\n1,-inf\n", {}, r"a finite number in column 'b', row 1, got '-inf'"),
        ("a,b\n1,1e60\n", {}, r"expected finite inputs, got a non-finite value in row 1"),
        ("a,b\n1,x\n2,\n", {"target": "b"}, r"column 'b', row 2, got a missing one"),
        ("a,b\n1,2\n", {"target": "z"}, r"expected target among the columns a, b, got 'z'"),
        ("a,b\n1,2\n", {"groups": "z"}, r"expected groups among the columns a, b, got 'z'"),
        ("a,b\n1,2\n", {"target": ["a", "a"]}, r"expected each column in one role"),
        ("a,b\n1,2\n", {"target": "a", "groups": "a"}, r"target a and groups 'a'"),
        ("a,b\n1,2\n", {"target": "a,b"}, r"expected at least one input column, got none"),
        ("a,b\n1,2\n", {"task": "regression"}, r"expected targets for a regression, got none"),
        ("a,b\n1,2\n", {"size": (2, 2)}, r"expected no size for this kind of data, got \(2, 2\)"),
        ("a,b\n1,2\n", {"split": "train"}, r"expected no split for this kind of data"),
        ("a,b\n1,2\n", {"groups": [1, 2]}, r"expected as many groups as inputs, got 2 and 1"),
        ('a,b\n1,"2\n', {}, r"expected a table, got broken quoting"),
        (
            "a,b\n1,x\n2,y\n",
            {"target": "b", "task": "regression"},
            r"expected numbers as targets of a regression, got 'x'",
        ),
        (
            "a,b\n1,0.5\n2,1\n",
            {"target": "b", "task": "classification"},
            r"expected whole numbers or text as classes, got 0.5",
        ),
        (
            "a,b,c\n1,x,2\n2,y,3\n",
            {"target": "b,c"},
            r"expected one target column for a classification, got b, c",
        ),
    ],
)
def test_a_bad_table(tmp_path: Path, content: str, options: Any, sentence: str) -> None:
    path = written(tmp_path, "bad.csv", content)
    with pytest.raises(ValueError, match=sentence) as caught:
        load(path, **options)
    assert str(path) in str(caught.value)


def test_bad_bytes_in_a_table(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"a,b\n1,\xff\n")
    with pytest.raises(ValueError, match=r"t\.csv: expected text in UTF-8"):
        load(path)
    packed = tmp_path / "t.csv.gz"
    for content in (b"a,b\n1,2\n", gzip.compress(b"a,b\n1,2\n")[:-6]):
        packed.write_bytes(content)
        with pytest.raises(ValueError, match=r"expected a gzip file, got a damaged one"):
            load(packed)


def test_rows_are_counted_across_blocks(tmp_path: Path) -> None:
    rows = ["1,2"] * 45_000
    rows[41_234] = "1,oops"
    with pytest.raises(ValueError, match=r"row 41235, got 'oops'"):
        load(written(tmp_path, "t.csv", "a,b\n" + "\n".join(rows)))
    rows[41_234] = "1,7"
    data = load(written(tmp_path, "t.csv", "a,b\n" + "\n".join(rows)))
    assert len(data) == 45_000
    assert int(data.x[:, 1].argmax()) == 41_234


def test_kinds_of_frame_columns() -> None:
    frame = pandas.DataFrame(
        {
            "whole": pandas.array([1, 2, 3], dtype="Int64"),
            "truth": [True, False, True],
            "kind": pandas.Categorical(["b", "a", "b"]),
        }
    )
    data = load(frame, target="kind")
    assert data.x.tolist() == [[1, 1], [2, 0], [3, 1]]
    assert data.classes == ("a", "b")


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({"a": [1.0, None]}, r"a value in column 'a', row 2, got a missing one"),
        ({"a": [1.0, np.inf]}, r"a finite number in column 'a', row 2, got inf"),
        ({"a": [1, "red"]}, r"a number in column 'a', row 2, got 'red'"),
        ({"a": pandas.to_datetime(["2020-01-01"])}, r"a number in column 'a', row 1"),
        ({"a": []}, r"expected rows, got none"),
    ],
)
def test_a_bad_frame(columns: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        load(pandas.DataFrame(columns))


def test_frame_columns_need_distinct_names() -> None:
    with pytest.raises(ValueError, match=r"expected distinct column names, got 'a' twice"):
        load(pandas.DataFrame([[1, 2]], columns=["a", "a"]))


def test_parquet_without_pandas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, "t.parquet", "not parquet")
    with pytest.raises(ValueError, match=r"t\.parquet: expected a parquet file, got"):
        load(path)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ValueError, match="pip install pandas pyarrow"):
        load(path)
    assert load(written(tmp_path, "t.csv", PETS), target="kind").classes is not None


# -- what targets are ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("targets", "task"),
    [
        (np.arange(40) % 20, "classification"),
        (np.arange(42) % 21, "regression"),
        (np.arange(6) % 3, "classification"),
        (np.array([0, 1, 2]), "regression"),
        (np.array([0, 1, 1]), "classification"),
        (np.array([0.0, 1.0, 1.0]), "regression"),
        (np.array([True, False, True]), "classification"),
        (np.array(["b", "a", "b"]), "classification"),
        (np.array([b"b", b"a", b"b"]), "classification"),
        (np.array(["b", "a", "b"], dtype=object), "classification"),
        (np.zeros((3, 2), int), "regression"),
        (np.array([[0], [1], [1]]), "classification"),
    ],
)
def test_the_task_is_told_from_the_targets(targets: Any, task: str) -> None:
    data = load((np.zeros((len(targets), 1)), targets))
    assert data.task == task
    assert data.y is not None
    assert data.y.dtype == (torch.int64 if task == "classification" else data.y.dtype)
    assert data.y.is_floating_point() == (task == "regression")
    assert data.y.ndim == (1 if task == "classification" else 2)


@pytest.mark.parametrize(
    ("labels", "numbers", "classes"),
    [
        ([0, 2, 2, 0], [0, 2, 2, 0], ("0", "1", "2")),
        ([1, 2, 2, 1], [0, 1, 1, 0], ("1", "2")),
        ([-1, 1, 1, -1], [0, 1, 1, 0], ("-1", "1")),
        ([0, 1000, 0, 0], [0, 1, 0, 0], ("0", "1000")),
        ([10, 9, 10, 9], [1, 0, 1, 0], ("9", "10")),
        ([0.0, 1.0, 1.0, 0.0], [0, 1, 1, 0], ("0", "1")),
        ([True, False, True, True], [1, 0, 1, 1], ("False", "True")),
        (["b", "a", "b", "b"], [1, 0, 1, 1], ("a", "b")),
    ],
)
def test_how_classes_are_numbered(labels: Any, numbers: list[int], classes: Any) -> None:
    data = load((np.zeros((4, 1)), np.array(labels)), task="classification")
    assert data.y is not None
    assert data.y.tolist() == numbers
    assert data.classes == classes


def test_whole_numbers_may_be_a_regression() -> None:
    data = load((np.zeros((4, 1)), [0, 1, 1, 0]), task="regression")
    assert data.y is not None
    assert (data.y.tolist(), data.y.dtype) == ([[0], [1], [1], [0]], torch.float32)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (np.float64, torch.float64),
        (np.float32, torch.float32),
        (np.float16, torch.float32),
        (np.uint8, torch.float32),
        (np.uint16, torch.float32),
        (np.int64, torch.float32),
        (np.bool_, torch.float32),
        (">f8", torch.float64),
    ],
)
def test_kinds_of_numbers(given: Any, kept: torch.dtype) -> None:
    array = np.array([[0, 1], [1, 0]]).astype(given)
    array.flags.writeable = False
    data = load(array)
    assert data.x.dtype == kept
    assert data.x.tolist() == [[0, 1], [1, 0]]


def test_tensors_of_any_kind() -> None:
    x = torch.ones(3, 2, dtype=torch.bfloat16, requires_grad=True)
    data = load((x, torch.ones(3, 1, dtype=torch.bfloat16)))
    assert data.x.dtype == torch.float32
    assert not data.x.requires_grad
    assert data.y is not None
    assert data.y.tolist() == [[1], [1], [1]]
    assert load(torch.ones(5)).x.shape == (5, 1)


# -- arrays ----------------------------------------------------------------------------------------

X = np.arange(6.0).reshape(3, 2)
Y = np.array([0.5, 1.5, 2.5])


@pytest.mark.parametrize(
    ("names", "options"),
    [
        (("x", "y"), {}),
        (("X", "Y"), {}),
        (("X", "y"), {}),
        (("data", "target"), {}),
        (("images", "labels"), {}),
        (("X_train", "y_train"), {}),
        (("x_test", "y_test"), {"split": "test"}),
        (("x", "height"), {"target": "height"}),
        (("points", "height"), {"target": "height"}),
    ],
)
def test_names_of_arrays(tmp_path: Path, names: tuple[str, str], options: Any) -> None:
    arrays = dict(zip(names, (X, Y), strict=True))
    np.savez(tmp_path / "a.npz", **arrays)
    for source in (tmp_path / "a.npz", arrays):
        data = load(source, **options)
        assert np.array_equal(data.x, X)
        assert data.y is not None
        assert np.array_equal(data.y[:, 0], Y)


def test_an_archive_with_both_splits(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, x_train=X, y_train=Y, x_test=-X, y_test=-Y)
    assert np.array_equal(load(path, split="train").x, X)
    assert np.array_equal(load(path, split="test").x, -X)
    with pytest.raises(ValueError, match=r"expected split='train' or split='test', got None"):
        load(path)


def test_groups_in_an_archive(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=X, y=Y, groups=[5, 5, 2], runs=["b", "a", "b"])
    expected: list[tuple[Any, list[int]]] = [
        (None, [1, 1, 0]),
        ("runs", [1, 0, 1]),
        ([3, 2, 1], [2, 1, 0]),
    ]
    for groups, numbers in expected:
        data = load(tmp_path / "a.npz", groups=groups)
        assert data.groups is not None
        assert data.groups.tolist() == numbers


def test_inputs_alone(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", X)
    np.savez(tmp_path / "one.npz", points=X)
    np.savez(tmp_path / "x.npz", x=X, weights=Y)
    for source in (tmp_path / "a.npy", tmp_path / "one.npz", tmp_path / "x.npz", X, (X, None)):
        data = load(source)
        assert np.array_equal(data.x, X)
        assert data.y is None


@pytest.mark.parametrize(
    ("arrays", "options", "sentence"),
    [
        ({"a": X, "b": Y}, {}, r"one pair of arrays such as x and y, got the arrays a, b"),
        ({}, {}, r"got the arrays \(none\)"),
        ({"x": X, "y": Y, "data": X, "target": Y}, {}, r"one pair of arrays"),
        ({"x": X, "y": Y}, {"split": "test"}, r"of the split 'test', got the arrays x, y"),
        ({"x": X, "y": Y}, {"target": "z"}, r"expected target among the arrays x, y, got 'z'"),
        ({"x": X, "y": Y}, {"groups": "z"}, r"expected groups among the arrays x, y, got 'z'"),
        ({"a": X, "b": X, "c": Y}, {"target": "c"}, r"expected inputs x beside the target 'c'"),
        ({"x": X, "y": Y[:2]}, {}, r"expected as many targets as inputs, got 2 and 3"),
        ({"x": X, "y": Y}, {"groups": [1, 2]}, r"as many groups as inputs, got 2 and 3"),
        ({"x": X, "y": Y}, {"groups": np.ones((3, 2))}, r"one number or text for each row"),
        ({"x": X, "y": Y}, {"target": ["y"]}, r"the name of one array as target, got \['y'\]"),
        ({"x": X * np.nan, "y": Y}, {}, r"expected finite inputs, got .* in row 1"),
        ({"x": X, "y": [0, np.inf, 0]}, {}, r"expected finite targets, got .* in row 2"),
        ({"x": X * 1j, "y": Y}, {}, r"expected real inputs, got \(3, 2\) complex128"),
        ({"x": np.array([["a"]]), "y": Y}, {}, r"expected numbers as inputs, got an array of text"),
        ({"x": X, "y": Y * 1j}, {}, r"expected numbers or text as targets, got .* complex128"),
        ({"x": X[:0], "y": Y}, {}, r"expected inputs of shape \(rows, …\), got \(0, 2\)"),
        ({"x": X, "y": np.float64(1)}, {}, r"expected one target for each row, got shape \(\)"),
        (
            {"x": X, "y": np.zeros((3, 2), int)},
            {"task": "classification"},
            r"one target for each row of a classification, got shape \(3, 2\)",
        ),
    ],
)
def test_bad_arrays(tmp_path: Path, arrays: Any, options: Any, sentence: str) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, **arrays)
    with pytest.raises(ValueError, match=sentence) as caught:
        load(path, **options)
    assert str(path) in str(caught.value)
    with pytest.raises(ValueError, match=sentence):
        load(arrays, **options)


class Trap:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


def test_nothing_is_unpickled(tmp_path: Path) -> None:
    trap = np.array([Trap(tmp_path / "sprung")], dtype=object)
    np.savez(tmp_path / "a.npz", x=trap, y=Y)
    np.save(tmp_path / "a.npy", trap)
    (tmp_path / "raw.npy").write_bytes(pickle.dumps(Trap(tmp_path / "sprung")))
    for name in ("a.npz", "a.npy", "raw.npy"):
        with pytest.raises(ValueError, match=r"got Python objects, which are never unpickled"):
            load(tmp_path / name)
    assert not (tmp_path / "sprung").exists()


def test_damaged_array_files(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=X, y=Y)
    whole = (tmp_path / "a.npz").read_bytes()
    (tmp_path / "cut.npz").write_bytes(whole[:-40])
    position = whole.index(X.tobytes())
    (tmp_path / "flipped.npz").write_bytes(whole[:position] + b"?" + whole[position + 1 :])
    np.save(tmp_path / "a.npy", X)
    (tmp_path / "cut.npy").write_bytes((tmp_path / "a.npy").read_bytes()[:-8])
    for name in ("cut.npz", "flipped.npz", "cut.npy"):
        with pytest.raises(ValueError, match=rf"{name}: expected an array .*, got a damaged one"):
            load(tmp_path / name)


def test_array_files_with_each_others_names(tmp_path: Path) -> None:
    for name, save in (("a.npy", np.savez), ("b.npz", np.save)):
        with (tmp_path / name).open("wb") as file:
            save(file, X)  # type: ignore[operator]
    with pytest.raises(ValueError, match=r"expected one array, got an archive of several"):
        load(tmp_path / "a.npy")
    with pytest.raises(ValueError, match=r"expected an archive of arrays, got one array"):
        load(tmp_path / "b.npz")


# -- PyTorch data sets -----------------------------------------------------------------------------


class Items:
    def __init__(self, *items: Any) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, number: int) -> Any:
        return self.items[number]


def test_a_map_style_data_set() -> None:
    x, y = torch.arange(12.0).reshape(4, 3), torch.tensor([0, 1, 1, 0])
    data = load(TensorDataset(x, y))
    assert torch.equal(data.x, x)
    assert data.y is not None
    assert torch.equal(data.y, y)
    assert data.source == "TensorDataset"
    assert load(TensorDataset(x)).y is None
    assert load(Items(*x)).x.tolist() == x.tolist()
    assert load(Items(*((row.numpy(), kind) for row, kind in zip(x, "abba", strict=True)))).classes


@pytest.mark.parametrize(
    ("items", "sentence"),
    [
        ([], r"Items: expected items, got none"),
        ([(torch.ones(2), 1), (torch.ones(3), 1)], r"one shape, got \(3,\) in item 1 after \(2,\)"),
        ([(torch.ones(2), 1), torch.ones(2)], r"in every item or in none, got 1 without"),
        ([(torch.ones(2), 1, 2)], r"items \(x, y\) or x, got 3 parts in item 0"),
        ([("a", 1)], r"tensors, arrays or numbers as inputs, got str in item 0"),
        (
            [(torch.ones(2), torch.ones(1)), (torch.ones(2), torch.ones(2))],
            r"numbers, tensors of one shape or text as targets",
        ),
    ],
)
def test_bad_items(items: list[Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        load(Items(*items))


class Stream(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        return iter(())


@pytest.mark.parametrize(("source", "name"), [(Stream(), "Stream"), (3, "int"), (None, "NoneType")])
def test_what_is_no_data(source: Any, name: str) -> None:
    with pytest.raises(TypeError, match=rf"expected a path, arrays or a data set .*, got {name}"):
        load(source)


@pytest.mark.parametrize(
    ("source", "options", "sentence"),
    [
        ((X, Y, Y), {}, r"expected a pair \(x, y\) of arrays, got 3 things"),
        (([[1, 2], [3]], [1, 2]), {}, r"expected inputs of one shape, got"),
        ((X, Y), {"target": "y"}, r"expected no target for this kind of data, got 'y'"),
        ((X, Y), {"split": "train"}, r"expected no split for this kind of data"),
        ((X, Y), {"size": (1, 1)}, r"expected no size for this kind of data"),
        ((X, Y), {"task": "clustering"}, r"task 'regression', 'classification' or None, got 'clus"),
        ((X, Y), {"split": "dev"}, r"expected split 'train', 'test' or None, got 'dev'"),
        ((X, Y), {"size": 3}, r"expected size \(height, width\), got 3"),
        ((X, Y), {"size": (0, 3)}, r"expected size \(height, width\), got \(0, 3\)"),
    ],
)
def test_bad_options(source: Any, options: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        load(source, **options)


def test_a_data_set_is_loaded_already() -> None:
    data = load((X, Y))
    assert load(data) is data
    assert repr(data) == "Dataset(x (3, 2) float64, y (3, 1) float64, from 'arrays')"


def test_a_data_set_checks_itself() -> None:
    with pytest.raises(ValueError, match=r"inputs of shape \(rows, …\), got \(3,\)"):
        Dataset(torch.ones(3))


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("none.csv", r"none\.csv: expected a file or folder, got a path where nothing is"),
        ("a.xlsx", r"a\.xlsx: expected \.csv, .*\.parquet, idx files or a folder, got .* '\.xlsx'"),
        ("plain", r"got a file ending in ''"),
        ("empty.npz", r"empty\.npz: expected data, got an empty file"),
        ("folder", r"folder: expected idx files or images, got a folder without them"),
    ],
)
def test_bad_paths(tmp_path: Path, name: str, sentence: str) -> None:
    (tmp_path / "a.xlsx").write_bytes(b"x")
    (tmp_path / "plain").write_bytes(b"x")
    (tmp_path / "empty.npz").touch()
    (tmp_path / "folder").mkdir()
    with pytest.raises(ValueError, match=sentence):
        load(tmp_path / name)


# -- idx -------------------------------------------------------------------------------------------


def idx(array: Any, code: int = 0x08, kind: str = "B") -> bytes:
    """The format as its description has it, apart from the library's own writer."""
    array = np.asarray(array)
    head = struct.pack(f">HBB{array.ndim}I", 0, code, array.ndim, *array.shape)
    return head + struct.pack(f">{array.size}{kind}", *array.reshape(-1).tolist())


IMAGES = np.random.default_rng(0).integers(0, 256, (5, 3, 4), np.uint8)
LABELS = np.array([3, 0, 1, 1, 0])


def mnist_folder(folder: Path, packed: bool = False) -> Path:
    suffix, pack = (".gz", gzip.compress) if packed else ("", bytes)
    for prefix, flip in (("train", 1), ("t10k", -1)):
        (folder / f"{prefix}-images-idx3-ubyte{suffix}").write_bytes(pack(idx(IMAGES[::flip])))
        (folder / f"{prefix}-labels-idx1-ubyte{suffix}").write_bytes(pack(idx(LABELS[::flip])))
    return folder


@pytest.mark.parametrize("packed", [False, True])
def test_a_folder_of_idx_files(tmp_path: Path, packed: bool) -> None:
    mnist_folder(tmp_path, packed)
    for split, flip in (("train", 1), ("test", -1)):
        data = load(tmp_path, split=split)
        assert data.x.shape == (5, 1, 3, 4)
        assert data.x.dtype == torch.float32
        assert np.allclose(data.x[:, 0] * 255, IMAGES[::flip], atol=1e-4)
        assert data.y is not None
        assert data.y.tolist() == LABELS[::flip].tolist()
        assert data.classes == ("0", "1", "2", "3")
    with pytest.raises(ValueError, match=r"expected split='train' or split='test', got None"):
        load(tmp_path)
    with pytest.raises(ValueError, match=r"expected no size for this kind of data"):
        load(tmp_path, split="train", size=(2, 2))
    with pytest.raises(ValueError, match=r"expected no target for this kind of data"):
        load(tmp_path, split="train", target="y")


def test_one_idx_file_finds_the_other(tmp_path: Path) -> None:
    mnist_folder(tmp_path)
    for name in ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"):
        data = load(tmp_path / name, groups=[1, 1, 1, 2, 2])
        assert data.y is not None
        assert data.y.tolist() == LABELS.tolist()
        assert data.groups is not None
        assert data.groups.tolist() == [0, 0, 0, 1, 1]
    (tmp_path / "train-labels-idx1-ubyte").unlink()
    assert load(tmp_path / "train-images-idx3-ubyte").y is None
    assert load(tmp_path, split="train", task=None).y is None
    for name in ("images-idx3-ubyte", "labels-idx1-ubyte"):
        (tmp_path / f"t10k-{name}").rename(tmp_path / f"t10k-{name.replace('-idx', '.idx')}")
    assert load(tmp_path / "t10k-images.idx3-ubyte").y is not None
    (tmp_path / "t10k-images.idx3-ubyte").unlink()
    with pytest.raises(ValueError, match=r"expected a file of images, got one of labels"):
        load(tmp_path / "t10k-labels.idx1-ubyte")


def test_a_folder_with_one_split(tmp_path: Path) -> None:
    mnist_folder(tmp_path)
    (tmp_path / "t10k-images-idx3-ubyte").unlink()
    assert np.allclose(load(tmp_path).x[:, 0] * 255, IMAGES, atol=1e-4)
    with pytest.raises(ValueError, match=r"expected split='train', got 'test'"):
        load(tmp_path, split="test")


@pytest.mark.parametrize(
    ("code", "kind", "values"),
    [
        (0x09, "b", [-128, 127]),
        (0x0B, "h", [-300, 300]),
        (0x0C, "i", [-70000, 70000]),
        (0x0D, "f", [-0.5, 0.25]),
        (0x0E, "d", [-0.5, 0.25]),
    ],
)
def test_idx_of_other_numbers_is_not_scaled(
    tmp_path: Path, code: int, kind: str, values: list[float]
) -> None:
    path = tmp_path / "maps.idx"
    path.write_bytes(idx(np.reshape(values, (1, 1, 1, 2)), code, kind))
    assert load(path).x.tolist() == [[[values]]]


def test_names_of_classes_beside_idx_files(tmp_path: Path) -> None:
    mnist_folder(tmp_path)
    written(tmp_path, "classes.txt", "zero\none\ntwo\nthree\nfour\n")
    data = load(tmp_path, split="train")
    assert data.classes == ("zero", "one", "two", "three", "four")
    written(tmp_path, "classes.txt", "zero\none\n")
    with pytest.raises(ValueError, match=r"a line for each of 4 classes, got 2"):
        load(tmp_path, split="train")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"\0\0\x08", r"expected an idx file, got one that starts"),
        (b"GIF89a", r"expected an idx file, got one that starts b'GIF8'"),
        (b"\0\0\x07\x01\0\0\0\1?", r"expected an idx file"),
        (idx(IMAGES)[:-1], r"expected 76 bytes for shape \(5, 3, 4\), got 75"),
        (idx(IMAGES) + b"?", r"expected 76 bytes for shape \(5, 3, 4\), got 77"),
        (idx(IMAGES)[:10], r"expected at least 16 bytes, got 10"),
        (idx(LABELS), r"expected images, got an array of shape \(5,\)"),
        (gzip.compress(idx(IMAGES), mtime=0)[:-9], r"expected a gzip file, got a damaged one"),
    ],
)
def test_a_damaged_idx_file(tmp_path: Path, content: bytes, sentence: str) -> None:
    path = tmp_path / "train-images-idx3-ubyte"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=sentence) as caught:
        load(path)
    assert str(path) in str(caught.value)


# -- images ----------------------------------------------------------------------------------------


def save_image(path: Path, pixels: Any, mode: str | None = None) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    image = Image.fromarray(np.asarray(pixels))
    (image if mode is None else image.convert(mode)).save(path)


RGB = np.random.default_rng(1).integers(0, 256, (4, 2, 3, 3), np.uint8)


def test_images_by_class(tmp_path: Path) -> None:
    for name, pixels in zip(("dog/1.png", "cat/2.png", "cat/1.PNG", "dog/0.bmp"), RGB, strict=True):
        save_image(tmp_path / name, pixels)
    written(tmp_path, "readme.txt", "hello")
    written(tmp_path / "cat", ".hidden.png", "no image")
    (tmp_path / ".git").mkdir()
    data = load(tmp_path)
    expected = RGB[[2, 1, 3, 0]].transpose(0, 3, 1, 2)
    assert data.x.dtype == torch.float32
    assert np.array_equal((data.x * 255).round(), expected)
    assert data.y is not None
    assert data.y.tolist() == [0, 0, 1, 1]
    assert data.classes == ("cat", "dog")
    with pytest.raises(ValueError, match=r"expected task 'classification' for images by class"):
        load(tmp_path, task="regression")


def test_images_without_classes(tmp_path: Path) -> None:
    save_image(tmp_path / "b.png", RGB[0])
    save_image(tmp_path / "a.png", RGB[1])
    data = load(tmp_path)
    assert data.y is None
    assert np.array_equal((data.x * 255).round(), RGB[[1, 0]].transpose(0, 3, 1, 2))
    save_image(tmp_path / "cat/a.png", RGB[1])
    with pytest.raises(ValueError, match=r"either in it or in folders by class, got both"):
        load(tmp_path)


def test_grey_stays_grey_unless_there_is_colour(tmp_path: Path) -> None:
    grey = RGB[0, :, :, 0]
    save_image(tmp_path / "a/0.png", grey)
    save_image(tmp_path / "a/1.png", grey.astype(np.uint16) * 257)
    data = load(tmp_path)
    assert data.x.shape == (2, 1, 2, 3)
    assert np.allclose(data.x[:, 0] * 255, np.stack([grey, grey]), atol=1e-4)
    save_image(tmp_path / "a/2.png", RGB[0], "RGBA")
    data = load(tmp_path)
    assert data.x.shape == (3, 3, 2, 3)
    for channel in range(3):
        assert np.array_equal((data.x[0, channel] * 255).round(), grey)
        assert np.array_equal((data.x[1, channel] * 255).round(), grey)
    assert np.array_equal((data.x[2] * 255).round(), RGB[0].transpose(2, 0, 1))


def test_images_of_several_sizes(tmp_path: Path) -> None:
    save_image(tmp_path / "a/0.png", np.full((2, 3), 10, np.uint8))
    save_image(tmp_path / "a/1.png", np.full((4, 3), 20, np.uint8))
    with pytest.raises(ValueError, match=r"1\.png: expected 2×3 pixels as in 0\.png, got 4×3"):
        load(tmp_path)
    data = load(tmp_path, size=(5, 6))
    assert data.x.shape == (2, 1, 5, 6)
    assert np.allclose(data.x[0] * 255, 10, atol=1e-4)
    assert np.allclose(data.x[1] * 255, 20, atol=1e-4)


def test_splits_of_image_folders(tmp_path: Path) -> None:
    for place, (split, kind) in enumerate([("train", "a"), ("train", "b"), ("test", "a")]):
        save_image(tmp_path / split / kind / "0.png", RGB[place])
    assert len(load(tmp_path, split="train")) == 2
    assert load(tmp_path, split="test").classes == ("a",)
    with pytest.raises(ValueError, match=r"expected split='train' or split='test', got None"):
        load(tmp_path)
    with pytest.raises(ValueError, match=r"expected no split for this kind of data, got 'train'"):
        load(tmp_path / "train", split="train")


def test_bad_images(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=r"expected images of the class 'empty', got none"):
        load(tmp_path)
    written(tmp_path, "empty/0.png", "no image")
    with pytest.raises(ValueError, match=r"0\.png: expected an image, got a file that is none"):
        load(tmp_path)
    noise = np.random.default_rng(0).integers(0, 256, (64, 64), np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(noise).save(buffer, "png")
    (tmp_path / "empty/0.png").write_bytes(buffer.getvalue()[:2000])
    with pytest.raises(ValueError, match=r"0\.png: expected an image, got a damaged one"):
        load(tmp_path)


def damaged_png(side: int = 64) -> bytes:
    """An image that opens, and whose pixels end too soon."""
    noise = np.random.default_rng(0).integers(0, 256, (side, side, 3), np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(noise).save(buffer, "png")
    return buffer.getvalue()[: side * side]


def test_unreadable_images_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for name, pixels in zip(("cat/1.png", "cat/3.png", "dog/1.png"), RGB, strict=False):
        save_image(tmp_path / name, pixels)
    (tmp_path / "cat/0.png").write_bytes(damaged_png())  # of another size, were it readable
    written(tmp_path / "cat", "2.jpg", "no image")
    written(tmp_path / "dog", "0.png", "")
    with pytest.raises(ValueError, match=r"2\.jpg: expected an image, got a file that is none"):
        load(tmp_path)
    data = load(tmp_path, unreadable="skip")
    assert data.skipped == ("cat/0.png", "cat/2.jpg", "dog/0.png")
    assert np.array_equal((data.x * 255).round(), RGB[:3].transpose(0, 3, 1, 2))
    assert data.y is not None
    assert data.y.tolist() == [0, 0, 1]
    assert data.classes == ("cat", "dog")
    assert repr(data).startswith("Dataset(x (3, 3, 2, 3) float32, y (3,) int64, 2 classes, 3 skip")
    warned = [(record.name, record.levelname, record.message) for record in caplog.records]
    assert [level for _, level, _ in warned] == ["WARNING"] * 3
    assert all(name.startswith("isotropy.") for name, _, _ in warned)
    for file, (_, _, message) in zip(data.skipped, warned, strict=True):
        assert str(tmp_path / file) in message
    first, second = load(tmp_path, unreadable="skip", groups=[0, 1, 2]).split(0.5, generator=0)
    assert first.skipped == second.skipped == data.skipped


def test_a_damaged_picture_in_colour_leaves_the_others_grey(tmp_path: Path) -> None:
    save_image(tmp_path / "b.png", RGB[0, :, :, 0])
    (tmp_path / "a.png").write_bytes(damaged_png())
    data = load(tmp_path, unreadable="skip")
    assert data.x.shape == (1, 1, 2, 3)
    assert data.skipped == ("a.png",)
    (tmp_path / "a.png").unlink()
    assert load(tmp_path, unreadable="skip").skipped == ()


def test_nothing_readable(tmp_path: Path) -> None:
    (tmp_path / "loose").mkdir()
    (tmp_path / "loose/0.png").write_text("no image")
    (tmp_path / "loose/1.png").write_bytes(damaged_png())
    with pytest.raises(ValueError, match=r"loose: expected a readable image, got 2 unreadable"):
        load(tmp_path / "loose", unreadable="skip")
    save_image(tmp_path / "classes/cat/0.png", RGB[0])
    (tmp_path / "classes/dog").mkdir()
    (tmp_path / "classes/dog/0.png").write_text("no image")
    with pytest.raises(ValueError, match=r"dog: expected a readable image of the class 'dog', got"):
        load(tmp_path / "classes", unreadable="skip")


def test_images_are_cropped_to_their_centre(tmp_path: Path) -> None:
    columns = np.tile(np.arange(0, 80, 10, dtype=np.uint8), (4, 1))
    save_image(tmp_path / "0.png", columns)  # 4×8
    save_image(tmp_path / "1.png", columns.T)  # 8×4
    save_image(tmp_path / "2.png", columns[:, 2:6])  # 4×4
    data = load(tmp_path, size=(4, 4), crop=True)
    expected = np.stack([columns[:, 2:6], columns.T[2:6], columns[:, 2:6]])
    assert np.array_equal((data.x[:, 0] * 255).round(), expected)
    squeezed = load(tmp_path, size=(4, 4)).x[0, 0] * 255
    assert squeezed[0, 0] < 10 < 60 < squeezed[0, 3]


@pytest.mark.parametrize("size", [(30, 30), (20, 20), (10, 28), (20, 6), (120, 120)])
def test_cropping_resizes_first(tmp_path: Path, size: tuple[int, int]) -> None:
    noise = np.random.default_rng(2).integers(0, 256, (60, 84), np.uint8)
    image = Image.fromarray(noise)
    image.save(tmp_path / "0.png")
    data = load(tmp_path, size=size, crop=True)
    # by the book: until both sides cover the size, then the middle
    scale = max(size[0] / 60, size[1] / 84)
    whole = image.resize((round(84 * scale), round(60 * scale)), Image.Resampling.BILINEAR)
    left, top = (whole.width - size[1]) // 2, (whole.height - size[0]) // 2
    middle = np.asarray(whole, float)[top : top + size[0], left : left + size[1]]
    assert np.abs(middle - np.asarray(data.x[0, 0]) * 255).max() < 1.01


def test_options_of_images_elsewhere(tmp_path: Path) -> None:
    save_image(tmp_path / "pictures/0.png", RGB[0])
    mnist_folder(tmp_path)
    with pytest.raises(ValueError, match=r"expected unreadable 'refuse' or 'skip', got 'ignore'"):
        load(tmp_path / "pictures", unreadable="ignore")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"expected size \(height, width\) to crop to, got None"):
        load(tmp_path / "pictures", crop=True)
    np.save(tmp_path / "a.npy", np.ones((3, 2)))
    for source in (tmp_path, tmp_path / "a.npy", np.ones((3, 2))):
        with pytest.raises(
            ValueError, match=r"expected no unreadable for this kind .*, got 'skip'"
        ):
            load(source, unreadable="skip")
        with pytest.raises(ValueError, match=r"expected no size for this kind of data, got \(4, 4"):
            load(source, size=(4, 4), crop=True)


def test_images_larger_than_memory(tmp_path: Path) -> None:
    save_image(tmp_path / "a/0.png", RGB[0])
    with pytest.raises(ValueError, match=r"give a smaller size"):
        load(tmp_path, size=(10**8, 10**8))
