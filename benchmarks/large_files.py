"""Seconds and peak memory to draw 20,000 rows out of large files, each in a fresh process."""

from __future__ import annotations

import argparse
import gzip
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from isotropy.data import Intake, load
from isotropy.data._idx import write_idx


def table(folder: Path, rows: int, columns: int, name: str = "table.csv") -> Path:
    """Numbers with six digits, one text column, an index and some gaps."""
    random = np.random.default_rng(0)
    header = ["id", *(f"x{place}" for place in range(columns)), "city", "target"]
    with (folder / name).open("w") as file:
        file.write(",".join(header) + "\n")
        for start in range(0, rows, 10_000):
            count = min(10_000, rows - start)
            numbers = random.normal(size=(count, columns + 1))
            for place, row in enumerate(numbers):
                cells = [f"{value:.6f}" for value in row]
                if place % 1000 == 0:
                    cells[3] = ""
                file.write(",".join([str(start + place), *cells[:-1], "Paris", cells[-1]]) + "\n")
    return folder / name


def packed_table(folder: Path, rows: int, columns: int) -> Path:
    plain = table(folder, rows, columns, "packed.csv")
    packed = folder / "packed.csv.gz"
    with plain.open("rb") as source, gzip.open(packed, "wb", compresslevel=1) as file:
        while content := source.read(1 << 24):
            file.write(content)
    plain.unlink()
    return packed


def parquet(folder: Path, rows: int, columns: int) -> Path:
    import pandas

    numbers = np.random.default_rng(0).normal(size=(rows, columns + 1))
    names = [*(f"x{place}" for place in range(columns)), "target"]
    pandas.DataFrame(numbers, columns=names).to_parquet(folder / "table.parquet")
    return folder / "table.parquet"


def archive(folder: Path, rows: int, columns: int) -> Path:
    x = np.random.default_rng(0).normal(size=(rows, columns))
    np.savez(folder / "table.npz", x=x, y=x[:, 0])
    return folder / "table.npz"


def idx(folder: Path, images: int) -> Path:
    random = np.random.default_rng(0)
    inside = folder / "idx"
    inside.mkdir()
    for part, count in (("train", images), ("t10k", images // 6)):
        pixels = random.integers(0, 256, (count, 28, 28), np.uint8)
        write_idx(inside / f"{part}-images-idx3-ubyte", pixels)
        labels = random.integers(0, 10, count).astype(np.uint8)
        write_idx(inside / f"{part}-labels-idx1-ubyte", labels)
    return inside


def pictures(folder: Path, count: int) -> Path:
    random = np.random.default_rng(0)
    inside = folder / "pictures"
    for number in range(count):
        kind = inside / str(number % 10)
        kind.mkdir(parents=True, exist_ok=True)
        pixels = random.integers(0, 256, (28, 28), np.uint8)
        Image.fromarray(pixels).save(kind / f"{number}.png")
    return inside


def measured(path: Path, most: int) -> dict[str, Any]:
    """Load in a process of its own, so that its peak is this file's."""
    command = [sys.executable, __file__, "--load", str(path), "--most", str(most)]
    answer = subprocess.run(command, check=True, capture_output=True, text=True)
    return dict(json.loads(answer.stdout))


def load_one(path: Path, most: int) -> None:
    before = _peak()
    start = time.perf_counter()
    data = load(path, intake=Intake("drop", "drop", most_rows=most, guess=True))
    facts = {"seconds": time.perf_counter() - start, "before": before, "peak": _peak()}
    print(json.dumps(facts | {"data": repr(data), "notes": data.notes}))


def _peak() -> float:
    """The most resident memory in MB; unlike getrusage's, it starts anew with each program."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--images", type=int, default=60_000)
    parser.add_argument("--pictures", type=int, default=5_000)
    parser.add_argument("--most", type=int, default=20_000)
    parser.add_argument("--only", nargs="*", help="names of rows")
    parser.add_argument("--load", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.load is not None:
        load_one(given.load, given.most)
        return
    rows, columns = given.rows, given.columns
    makers: dict[str, Callable[[Path], Path]] = {
        "csv": lambda folder: table(folder, rows, columns),
        "csv.gz": lambda folder: packed_table(folder, rows, columns),
        "parquet": lambda folder: parquet(folder, rows, columns),
        "npz": lambda folder: archive(folder, rows, columns),
        "idx": lambda folder: idx(folder, given.images),
        "png": lambda folder: pictures(folder, given.pictures),
    }
    print(f"{'file':8} {'MB':>6} {'seconds':>8} {'peak MB':>8} {'above start':>11}  notes")
    for name in given.only or makers:
        with tempfile.TemporaryDirectory() as folder:
            path = makers[name](Path(folder))
            files = [path] if path.is_file() else [p for p in path.rglob("*") if p.is_file()]
            size = sum(file.stat().st_size for file in files) / 2**20
            most = min(given.most, given.pictures // 2) if name == "png" else given.most
            facts = measured(path, most)
            above = facts["peak"] - facts["before"]
            print(
                f"{name:8} {size:6.0f} {facts['seconds']:8.2f} {facts['peak']:8.0f} {above:11.0f}"
                f"  {'; '.join(facts['notes'])}",
                flush=True,
            )


if __name__ == "__main__":
    main()
