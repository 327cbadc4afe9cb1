"""Operators of exported programs keep to their tensors, whatever sizes a file gives them."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from attacks.exported_archives import GRAPH, packed
from isotropy.data import load_model

HERE = Path(__file__).parent
aten = torch.ops.aten
Run = tuple[Callable[[Tensor], Any], tuple[int, ...]]


def _called(*options: str) -> tuple[int, str]:
    """The exit status of the calls, and the operator that was called last."""
    done = subprocess.run(
        [sys.executable, HERE / "exported_operators.py", *options],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        timeout=300,
        check=False,
    )
    return done.returncode, done.stdout.split()[-1]


def test_none_goes_beyond_its_tensors() -> None:
    assert _called("--calls", "60") == (0, "done")


@pytest.mark.parametrize("name", ["_weight_norm.default", "lstm.input"])
def test_one_that_does_is_seen(name: str) -> None:
    status, last = _called("--calls", "200", "--unchecked", name)
    assert status < 0
    assert last == name


# --- programs whose sizes a stranger changed --------------------------------------------------


class Program(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Any:
        return self.function(x)


def _lstm(x: Tensor) -> Any:
    state = torch.zeros([1, 3, 7])
    weights = [torch.zeros([28, 5]), torch.zeros([28, 7])]
    return aten.lstm.input(x, [state, state], weights, False, 1, 0.0, False, False, False)


def _batch_norm(x: Tensor) -> Any:
    size = torch.zeros([64])
    return aten._native_batch_norm_legit_no_training.default(x, None, None, size, size, 0.1, 1e-5)


def _batch_norm_of_batch(x: Tensor) -> Any:
    weight = torch.zeros([64])
    return aten._native_batch_norm_legit.no_stats(x, weight, None, True, 0.1, 1e-5)


def _attention(x: Tensor) -> Any:
    value = torch.zeros([1, 2, 6, 8])
    return aten.scaled_dot_product_attention.default(x, x, value)


def _eigenvalues(x: Tensor) -> Any:
    return torch.linalg.eigvals(x * torch.full([3, 3], 5.0))


RUNS: dict[str, tuple[Run, bytes, bytes]] = {
    "lstm": ((_lstm, (4, 3, 5)), b"[28, 5]", b"[28, 1]"),
    "batch norm": ((_batch_norm, (4, 64, 2)), b'"as_ints": [64]', b'"as_ints": [1]'),
    "batch norm of the batch": (
        (_batch_norm_of_batch, (4, 64, 2)),
        b'"as_ints": [64]',
        b'"as_ints": [1]',
    ),
    "attention": ((_attention, (1, 2, 6, 8)), b"[1, 2, 6, 8]", b"[1, 2, 600, 8]"),
    "weight norm": (
        (lambda x: aten._weight_norm.default(x, torch.ones([100, 1]), 0), (100, 3)),
        b"[100, 1]",
        b"[7, 1]",
    ),
    "a view": (
        (lambda x: x.as_strided([4, 2], [1, 3], 0), (12,)),
        b'"as_ints": [1, 3]',
        b'"as_ints": [1, 9223372036854775807]',
    ),
    "a fold": (
        (lambda x: nn.functional.fold(x, [4, 4], [3, 3], padding=[0, 0]), (1, 18, 4)),
        b'"as_ints": [0, 0]',
        b'"as_ints": [0, 2147483648]',
    ),
    "a filter": (
        (
            lambda x: aten._upsample_bilinear2d_aa.default(x, [16, 16], False, 2.0, 2.0),
            (1, 1, 8, 8),
        ),
        b'"as_float": 2.0',
        b'"as_float": 0.001',
    ),
    "eigenvalues": ((_eigenvalues, (3, 3)), b'"as_float": 5.0', b'"as_float": "NaN"'),
}


@pytest.mark.parametrize("name", RUNS)
def test_sizes_that_do_not_fit_are_an_error(tmp_path: Path, name: str) -> None:
    (function, shape), old, new = RUNS[name]
    x = torch.randn(shape)
    path = tmp_path / "program.pt2"
    program = torch.export.export(Program(function), (x,))
    torch.export.save(program, path)
    honest = load_model(path)
    for found, expected in zip(tree_leaves(honest(x)), tree_leaves(function(x)), strict=True):
        if found.numel():
            torch.testing.assert_close(found, expected)
    _change(path, old, new)
    changed = load_model(path)
    with pytest.raises((ValueError, RuntimeError)):
        changed(x)


def _change(path: Path, old: bytes, new: bytes) -> None:
    with zipfile.ZipFile(path) as archive:
        files = {n.partition("/")[2]: archive.read(n) for n in archive.namelist()}
    assert old in files[GRAPH]
    path.write_bytes(packed({**files, GRAPH: files[GRAPH].replace(old, new)}))
