"""Rows drawn at random, rows and columns left out, and the notes that say so."""

import gzip
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
import torch
from PIL import Image
from torch.utils.data import Subset, TensorDataset

from isotropy.data import Dataset, Intake, load

N = 500
NUMBERS = np.random.default_rng(0).normal(size=(N, 3)).round(8)


def table(folder: Path, name: str = "t.csv", quoted: bool = False) -> Path:
    frame = pandas.DataFrame(NUMBERS, columns=["a", "b", "c"])
    frame["kind"] = ["x, y\nz" if quoted else "u", "v"] * (N // 2)
    frame.to_csv(folder / name, index=False)
    return folder / name


def write_idx(path: Path, array: Any) -> None:
    sizes = np.array(array.shape, ">u4").tobytes()
    path.write_bytes(bytes([0, 0, 8, array.ndim]) + sizes + array.tobytes())


def rows_of(data: Dataset) -> list[int]:
    """Which rows of NUMBERS these are, found by value."""
    values = np.asarray(data.x, np.float32)[:, 0]
    return [int(np.abs(NUMBERS[:, 0].astype(np.float32) - value).argmin()) for value in values]


# -- draws -----------------------------------------------------------------------------------------


def sources(folder: Path) -> list[Any]:
    """The same table in everything that has rows."""
    frame = pandas.DataFrame(NUMBERS, columns=["a", "b", "c"])
    frame.to_csv(folder / "t.csv", index=False)
    (folder / "t.csv.gz").write_bytes(gzip.compress((folder / "t.csv").read_bytes()))
    frame.to_csv(folder / "t.tsv", index=False, sep="\t", lineterminator="\r\n")
    frame.to_parquet(folder / "t.parquet", row_group_size=77)
    np.savez(folder / "plain.npz", x=NUMBERS)
    np.savez_compressed(folder / "packed.npz", x=NUMBERS, y=NUMBERS[:, 0])
    np.savez(folder / "columns.npz", x=np.asfortranarray(NUMBERS))
    np.save(folder / "t.npy", NUMBERS)
    files = ["t.csv", "t.csv.gz", "t.tsv", "t.parquet", "plain.npz", "packed.npz", "columns.npz"]
    tensors = TensorDataset(torch.from_numpy(NUMBERS), torch.from_numpy(NUMBERS[:, 0]))
    items = [(torch.from_numpy(row), float(row[0])) for row in NUMBERS]
    return [
        *(folder / name for name in (*files, "t.npy")),
        frame,
        NUMBERS,
        (NUMBERS, NUMBERS[:, 0]),
        (NUMBERS.tolist(), NUMBERS[:, 0].tolist()),
        {"x": NUMBERS, "y": NUMBERS[:, 0]},
        Dataset(torch.from_numpy(NUMBERS)),
        tensors,
        Subset(tensors, range(N)),
        items,
    ]


def test_every_source_gives_the_same_rows_in_order(tmp_path: Path) -> None:
    expected = None
    for source in sources(tmp_path):
        data = load(source, intake=Intake(most_rows=60, seed=3))
        rows = rows_of(data)
        assert len(set(rows)) == 60
        assert rows == sorted(rows)
        assert np.allclose(data.x, NUMBERS[rows], atol=1e-6)
        if data.y is not None:
            assert np.allclose(data.y[:, 0], NUMBERS[rows, 0], atol=1e-6)
        assert rows == (expected or rows)
        expected = rows
        assert len(data.notes) == 1
        assert data.notes[0].startswith("60 of 500 ")
        assert data.notes[0].endswith(" drawn at random (seed 3)")
        everything = load(source, intake=Intake(most_rows=N))
        assert len(everything) == N
        assert everything.notes == ()
    assert rows_of(load(tmp_path / "t.csv", intake=Intake(most_rows=60, seed=4))) != expected


def test_a_draw_is_uniform() -> None:
    hits = np.zeros(20)
    for seed in range(400):
        hits[
            np.asarray(load(np.arange(20.0), intake=Intake(most_rows=5, seed=seed)).x[:, 0], int)
        ] += 1
    # each row is there in a quarter of the draws: 100 of 400, with a deviation of 8.7
    assert np.abs(hits - 100).max() < 35
    assert hits.sum() == 2000


def test_a_draw_from_quoted_rows_over_several_lines(tmp_path: Path) -> None:
    path = table(tmp_path, quoted=True)
    assert path.read_bytes().count(b"\n") > N + 1
    data = load(path, target="kind", intake=Intake(most_rows=50))
    rows = rows_of(data)
    assert len(data) == len(set(rows)) == 50
    assert data.classes == ("v", "x, y\nz")
    assert data.y is not None
    assert data.y.tolist() == [1 - row % 2 for row in rows]


def test_a_draw_from_quoted_cells_in_one_line(tmp_path: Path) -> None:
    cells = ['"a, b"', '"5"" pipe"', "plain"]
    lines = [f"{n},{cells[n % 3]},{n}" for n in range(90)]
    (tmp_path / "t.csv").write_text("a,kind,b\n" + "\n".join(lines))
    data = load(tmp_path / "t.csv", target="kind", intake=Intake(most_rows=30))
    assert torch.equal(data.x[:, 0], data.x[:, 1])
    assert data.classes == ('5" pipe', "a, b", "plain")
    assert data.y is not None
    assert data.y.tolist() == [(1, 0, 2)[int(a) % 3] for a in data.x[:, 0]]


def test_blank_lines_are_not_drawn(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b\n\n" + "\n\n".join(f"{n},{n}" for n in range(100)) + "\n\n\n")
    data = load(path, intake=Intake(most_rows=99))
    assert data.notes == ("99 of 100 rows drawn at random (seed 0)",)
    assert len(data.x[:, 0].unique()) == 99


def test_errors_name_the_row_in_the_file(tmp_path: Path) -> None:
    lines = [f"{n},1" for n in range(100)]
    lines[40] = "oops,1"
    (tmp_path / "t.csv").write_text("a,b\n" + "\n".join(lines))
    with pytest.raises(ValueError, match=r"column 'a', row 41, got 'oops'"):
        load(tmp_path / "t.csv", intake=Intake(most_rows=99))
    lines[40] = "1"
    (tmp_path / "t.csv").write_text("a,b\n" + "\n".join(lines))
    with pytest.raises(ValueError, match=r"expected 2 fields in every row, got 1 in row 41"):
        load(tmp_path / "t.csv", intake=Intake(most_rows=99))


@pytest.mark.parametrize("suffix", ["csv", "parquet", "frame", "npz", "arrays"])
def test_small_groups_stay_whole(tmp_path: Path, suffix: str) -> None:
    who = np.arange(N) // 4
    frame = pandas.DataFrame(NUMBERS, columns=["a", "b", "c"]).assign(who=who)
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    np.savez(tmp_path / "t.npz", x=NUMBERS, who=who)
    source: Any = {"frame": frame, "arrays": NUMBERS}.get(suffix, tmp_path / f"t.{suffix}")
    data = load(source, groups=who if suffix == "arrays" else "who", intake=Intake(most_rows=102))
    rows = rows_of(data)
    assert len(rows) == 100  # 25 groups of four
    assert all(rows.count(4 * (row // 4) + k) == 1 for row in rows for k in range(4))
    assert data.groups is not None
    assert torch.equal(data.groups, torch.arange(100) // 4)


def test_rows_are_drawn_from_all_groups_where_these_are_large() -> None:
    data = load(NUMBERS, groups=np.arange(N) // 250, intake=Intake(most_rows=40))
    assert data.groups is not None
    assert len(data) == 40
    assert 5 < int(data.groups.sum()) < 35


def test_groups_given_apart_follow_the_rows(tmp_path: Path) -> None:
    path = table(tmp_path)
    apart = np.arange(N)  # every row a group of its own
    for source in (path, pandas.read_csv(path)):
        data = load(source, target="kind", groups=apart, intake=Intake(most_rows=50))
        assert data.groups is not None
        assert len(data) == len(data.groups.unique()) == 50
        with pytest.raises(ValueError, match=r"expected as many groups as inputs, got 7 and 500"):
            load(source, target="kind", groups=apart[:7], intake=Intake(most_rows=50))


def test_images_are_drawn_before_they_are_decoded(tmp_path: Path) -> None:
    for number in range(40):
        kind = tmp_path / "pictures" / "ab"[number % 2]
        kind.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((2, 2), number, np.uint8)).save(kind / f"{number:02}.png")
    data = load(tmp_path / "pictures", intake=Intake(most_rows=9))
    numbers = (data.x[:, 0, 0, 0] * 255).round().int()
    assert data.y is not None
    assert data.y.tolist() == (numbers % 2).tolist()
    assert data.notes == ("9 of 40 images drawn at random (seed 0)",)
    for path in (tmp_path / "pictures").rglob("*.png"):
        if int(path.stem) not in numbers.tolist():
            path.write_bytes(b"damaged")
    assert torch.equal(load(tmp_path / "pictures", intake=Intake(most_rows=9)).x, data.x)
    skipping = load(tmp_path / "pictures", intake=Intake(most_rows=9, seed=1), unreadable="skip")
    assert len(skipping) + len(skipping.skipped) == 9
    assert skipping.notes[1].startswith(f"{len(skipping.skipped)} of 9 images could not be read")


def test_idx_files_are_drawn_with_their_labels(tmp_path: Path) -> None:
    pixels = np.arange(90, dtype=np.uint8).repeat(4).reshape(90, 2, 2)
    for part in ("train", "t10k"):
        write_idx(tmp_path / f"{part}-images-idx3-ubyte", pixels)
        write_idx(tmp_path / f"{part}-labels-idx1-ubyte", pixels[:, 0, 0] % 10)
    data = load(tmp_path, intake=Intake(most_rows=20, guess=True))
    assert data.y is not None
    assert data.y.tolist() == [round(float(x[0, 0, 0]) * 255) % 10 for x in data.x]
    assert data.classes == tuple("0123456789")
    assert data.notes == (
        "of the splits train and test, 'train' was taken",
        "20 of 90 images drawn at random (seed 0)",
    )


def test_items_that_are_not_drawn_are_not_made() -> None:
    asked: list[int] = []

    class Items:
        def __len__(self) -> int:
            return 1000

        def __getitem__(self, number: int) -> Any:
            asked.append(number)
            return torch.full((3,), float(number)), number % 2

    data = load(Items(), intake=Intake(most_rows=10))
    assert [int(row[0]) for row in data.x] == asked
    assert len(asked) == 10


# -- missing values --------------------------------------------------------------------------------


def test_rows_with_gaps_are_left_out_and_counted(tmp_path: Path) -> None:
    frame = pandas.DataFrame(NUMBERS, columns=["a", "b", "y"])
    frame.loc[[3, 7], "a"] = np.nan
    frame.loc[[7, 11], "b"] = np.inf
    frame.loc[20, "y"] = np.nan
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    values = frame.to_numpy(copy=True)
    np.savez(tmp_path / "t.npz", x=values[:, :2], y=values[:, 2])
    kept = [row for row in range(N) if row not in (3, 7, 11, 20)]
    tensors = (torch.from_numpy(values[:, :2]), torch.from_numpy(values[:, 2]))
    dropping = Intake(missing="drop")
    cases: list[tuple[Any, str | None]] = [
        (tmp_path / "t.csv", "y"),
        (tmp_path / "t.parquet", "y"),
        (tmp_path / "t.npz", None),
        (frame, "y"),
        (tensors, None),
        ((values[:, :2], values[:, 2]), None),
    ]
    for source, target in cases:
        data = load(source, target=target, groups=np.arange(N), intake=dropping)
        assert data.notes == ("4 of 500 rows had missing values and were left out",)
        assert np.allclose(data.x, NUMBERS[kept, :2], atol=1e-6)
        assert data.y is not None
        assert np.allclose(data.y[:, 0], NUMBERS[kept, 2], atol=1e-6)
        assert data.groups is not None
        assert len(data.groups) == len(kept)
        with pytest.raises(ValueError, match=r"missing|non-finite"):
            load(source, target=target)


def test_whole_classes_survive_gaps(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,y\n1,0\n2,\n3,1\n4,1\n5,0\n6,?\n")
    frame = pandas.read_csv(tmp_path / "t.csv", na_values="?")
    arrays = (np.arange(6.0), np.array([0, None, 1, 1, 0, None], object))
    floats = (np.arange(6.0), np.array([0, np.nan, 1, 1, 0, np.nan]))
    for source, options in (
        (tmp_path / "t.csv", {"target": "y"}),
        (frame, {"target": "y"}),
        (arrays, {}),
        (floats, {"task": "classification"}),
    ):
        data = load(source, intake=Intake(missing="drop"), **options)  # type: ignore[arg-type]
        assert data.classes == ("0", "1")
        assert data.y is not None
        assert data.y.tolist() == [0, 1, 1, 0]
        assert data.notes == ("2 of 6 rows had missing values and were left out",)


def test_a_number_too_large_for_float32_is_missing(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b\n1,1\n2,1e60\n3,3\n")
    assert load(tmp_path / "t.csv", intake=Intake(missing="drop")).x.tolist() == [[1, 1], [3, 3]]


@pytest.mark.parametrize("kind", ["csv", "frame", "arrays", "images"])
def test_too_many_gaps_are_refused_with_the_column_to_blame(tmp_path: Path, kind: str) -> None:
    values = NUMBERS.copy()
    values[:240, 1] = np.nan
    values[230:260, 2] = np.nan
    frame = pandas.DataFrame(values, columns=["a", "b", "c"])
    frame.to_csv(tmp_path / "t.csv", index=False)
    images = values.reshape(N, 1, 1, 3)
    source: Any = {"csv": tmp_path / "t.csv", "frame": frame, "arrays": values, "images": images}
    blamed = {"arrays": r"column 2 of the inputs lacks 240", "images": r"the inputs lacks 260"}
    with pytest.raises(ValueError, match=blamed.get(kind, r"column 'b' lacks 240")) as caught:
        load(source[kind], intake=Intake(missing="drop"))
    assert "got missing ones in 260 of 500" in str(caught.value)
    values[250:, 2] = 1.0  # half of the rows may go
    assert len(load(values, intake=Intake(missing="drop"))) == 250


def test_a_column_with_nothing_in_it(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b,y\n1,,2\n2,,3\n3,,4\n")
    with pytest.raises(ValueError, match=r"missing ones in 3 of 3; column 'b' lacks 3"):
        load(tmp_path / "t.csv", target="y", intake=Intake(missing="drop"))
    with pytest.raises(ValueError, match=r"column 'b' lacks 3"):
        load(tmp_path / "t.csv", target="b", intake=Intake(missing="drop"))


# -- text ------------------------------------------------------------------------------------------

HOUSES = "id,rooms,city,area,price\n" + "".join(
    f"{n + 1},{n % 5},{'Rome' if n % 2 else 'Oslo'},{n / 3:.3f},{n * 1.5}\n" for n in range(60)
)


def test_text_and_counters_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(HOUSES)
    frame = pandas.read_csv(tmp_path / "t.csv")
    frame.to_parquet(tmp_path / "t.parquet")
    for source in (tmp_path / "t.csv", tmp_path / "t.parquet", frame):
        wrong = r"'city', row 1, got 'Oslo'; Intake\(text='drop'\) leav"
        with pytest.raises(ValueError, match=wrong):
            load(source, target="price")
        for most in (None, 40):
            data = load(source, target="price", intake=Intake(text="drop", most_rows=most))
            assert data.x_names == ("rooms", "area")
            assert data.notes[-2:] == (
                "column 'id' only counts the rows and was left out",
                data.notes[-1],
            )
            assert data.notes[-1].startswith("column 'city' holds text (")
        kept = load(source, target="city", intake=Intake(text="drop"), groups="id")
        assert kept.x_names == ("rooms", "area", "price")
        assert kept.classes == ("Oslo", "Rome")


def test_an_id_that_does_not_count_is_an_input(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("id,a\n3,1\n1,2\n2,3\n")
    assert load(tmp_path / "t.csv", intake=Intake(text="drop")).x_names == ("id", "a")


def test_the_index_that_pandas_writes(tmp_path: Path) -> None:
    pandas.DataFrame({"a": [5, 6], "b": [7, 8]}).to_csv(tmp_path / "t.csv")
    data = load(tmp_path / "t.csv", intake=Intake(text="drop"))
    assert data.x_names == ("a", "b")
    assert data.notes == ("column 'Unnamed: 0' only counts the rows and was left out",)


def test_a_few_odd_cells_are_missing_values(tmp_path: Path) -> None:
    cells = [str(n) for n in range(100)]
    cells[17] = "broken"
    (tmp_path / "t.csv").write_text("a,b\n" + "".join(f"{cell},1\n" for cell in cells))
    data = load(tmp_path / "t.csv", intake=Intake(missing="drop", text="drop"))
    assert data.x_names == ("a", "b")
    assert data.x[:, 0].tolist() == [n for n in range(100) if n != 17]
    assert data.notes == (
        "1 cell holds no number in column 'a' ('broken' in row 18), taken as missing",
        "1 of 100 rows had missing values and was left out",
    )
    assert load(tmp_path / "t.csv", intake=Intake(text="drop")).x_names == ("b",)


def test_a_table_of_text_alone(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,y\nred,1\nblue,2\n")
    with pytest.raises(ValueError, match=r"at least one input column, got none of numbers: column"):
        load(tmp_path / "t.csv", target="y", intake=Intake(text="drop"))


# -- notes and options -----------------------------------------------------------------------------


def test_notes_stay_with_the_rows() -> None:
    data = load(NUMBERS, intake=Intake(most_rows=10))
    first, second = data.split(0.5, generator=0)
    assert first.notes == second.notes == replace(data, source="there").notes == data.notes
    again = load(data, intake=Intake(most_rows=4, seed=1))
    assert again.notes == (
        "10 of 500 rows drawn at random (seed 0)",
        "4 of 10 rows drawn at random (seed 1)",
    )


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"missing": "fill"}, r"expected missing 'refuse' or 'drop', got 'fill'"),
        ({"text": "keep"}, r"expected text 'refuse' or 'drop', got 'keep'"),
        ({"most_rows": 0}, r"expected most_rows as a positive number or None, got 0"),
        ({"most_rows": 2.5}, r"expected most_rows as a positive number or None, got 2.5"),
        ({"seed": -1}, r"expected a seed of 0 or more, got -1"),
    ],
)
def test_bad_options(options: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        load(NUMBERS, intake=Intake(**options))


def test_keywords_that_became_options_still_work() -> None:
    with pytest.warns(DeprecationWarning, match=r"load\(intake=Intake\(most_rows=…\)\)"):
        data = load(NUMBERS, most_rows=7)  # type: ignore[call-arg]
    assert torch.equal(data.x, load(NUMBERS, intake=Intake(most_rows=7)).x)
