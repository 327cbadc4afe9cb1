"""A cache that someone else could write changes no answer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from attacks import caches
from isotropy import Rep, T, V, equivariant_basis
from isotropy.bases import BasisCache, _cache, solve_dense
from isotropy.certificates import certify, verify
from isotropy.groups import SO, Group, O
from isotropy.nn import EMLP

TURNED = T(4)(
    Group([[[0.6, -0.8], [0.8, 0.6]], [[1.0, 0.0], [0.0, -1.0]]]).conjugate([[1, 2], [0, 1]])
)
ROTATED = T(4)(SO(3))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ISOTROPY_CACHE", str(tmp_path))
    monkeypatch.setattr(_cache, "WORTH_A_FILE", 0.0)
    return tmp_path / "bases"


def kept(rep: Rep, folder: Path) -> Path:
    equivariant_basis(rep, cache=BasisCache())
    (path,) = folder.glob("*.safetensors")
    return path


@pytest.mark.parametrize(
    ("rep", "poison"),
    [
        *(pytest.param(TURNED, poison, id=name) for name, poison in caches.DENSE.items()),
        *(pytest.param(ROTATED, poison, id=name) for name, poison in caches.FACTORED.items()),
    ],
)
def test_what_was_planted_is_solved_anew(
    rep: Rep, poison: Callable[[Path], None], folder: Path
) -> None:
    path = kept(rep, folder)
    poison(path)
    truth, found = solve_dense(rep).dense(), equivariant_basis(rep, cache=BasisCache()).dense()
    torch.testing.assert_close(found @ found.mT, truth @ truth.mT)


@pytest.mark.parametrize("rep", [TURNED, ROTATED], ids=["dense", "factored"])
@pytest.mark.parametrize("after", ["overwritten", "cut short"])
def test_what_happens_to_a_file_after_it_was_read(rep: Rep, after: str, folder: Path) -> None:
    """No number is left in the file, where others could change it, or take it away."""
    path = kept(rep, folder)
    basis = equivariant_basis(rep, cache=BasisCache())
    truth = basis.dense().clone()
    with path.open("r+b") as file:
        if after == "cut short":
            file.truncate(0)
        else:
            file.write(b"\x40" * path.stat().st_size)
    torch.testing.assert_close(basis.dense(), truth)


def test_honest_files_are_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for rep in (TURNED, ROTATED):
        equivariant_basis(rep, cache=BasisCache())
    files = {path: load_file(path) for path in folder.iterdir()}
    assert len(files) == 2
    for path, tensors in files.items():
        caches.plant(path, tensors)  # the attacker's digest is the library's
    from isotropy.bases import _solve

    monkeypatch.setattr(_solve, "_SOLVERS", {})
    assert equivariant_basis(TURNED, cache=BasisCache()).rank == solve_dense(TURNED).rank
    assert equivariant_basis(ROTATED, cache=BasisCache()).rank == 3


def test_verify_never_opens_the_cache(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even what passes every check on reading has no say in what a certificate decodes to."""
    x = torch.randn(200, 8, generator=torch.Generator().manual_seed(0))
    y = (x[:, 0] * x[:, 2] + x[:, 1] * x[:, 3] > 0).long()
    few = {"d": 4, "levels": 3, "epochs": 1, "quantised_epochs": 1}
    certificate = certify("mlp-6 equivariant O(2) 4*V", (x, y), **few)
    assert not folder.exists()
    EMLP(4 * V, V, O(2), layers=1, channels=12)  # other networks still use it
    assert folder.exists()

    def opened(*_: object) -> None:
        raise AssertionError("the cache was opened")

    monkeypatch.setattr(_cache, "read_basis", opened)
    verdict = verify(certificate.to_bytes(), (x, y))
    assert verdict.details["errors"] == certificate.errors
