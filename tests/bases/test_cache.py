"""Answers are found again, and never those of another question."""

from __future__ import annotations

from copy import copy
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from isotropy import CustomRep, Rep, Scalar, T, V, equivariant_basis
from isotropy.bases import BasisCache, _cache, _solve, solve_dense
from isotropy.groups import SL, SO, SU, Group, O, Operator, S, Z


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder to which every answer is written."""
    monkeypatch.setenv("ISOTROPY_CACHE", str(tmp_path))
    monkeypatch.setattr(_cache, "WORTH_A_FILE", 0.0)
    return tmp_path


@pytest.fixture
def solved(monkeypatch: pytest.MonkeyPatch) -> list[Rep]:
    """The representations that were really solved."""
    seen: list[Rep] = []

    def watch(solver: object) -> object:
        def solve(rep: Rep) -> object:
            seen.append(rep)
            return solver(rep)  # type: ignore[operator]

        return solve

    watched = {name: watch(solver) for name, solver in _solve._SOLVERS.items()}
    monkeypatch.setattr(_solve, "_SOLVERS", watched)
    return seen


def test_memory(solved: list[Rep]) -> None:
    cache = BasisCache()
    first = equivariant_basis(T(2)(SO(3)), cache=cache)
    second = equivariant_basis(T(2)(SO(3)), cache=cache)
    assert len(solved) == 1
    assert second.dense().equal(first.dense())
    equivariant_basis(T(2)(SO(3)), cache=False)
    assert len(solved) == 2


@pytest.mark.parametrize(
    "rep",
    [T(4)(SO(3)), T(2, 2)(SU(2)), T(2)(Group([[[0.6, -0.8], [0.8, 0.6]]])), T(3)(SL(2))],
    ids=str,
)
def test_disk(rep: Rep, folder: Path, solved: list[Rep]) -> None:
    first = equivariant_basis(rep, cache=BasisCache())
    assert len(list((folder / "bases").glob("*.safetensors"))) == 1
    second = equivariant_basis(rep, cache=BasisCache())
    assert len(solved) == 1
    assert second.rank == first.rank
    assert second.method == first.method
    torch.testing.assert_close(second.dense(), first.dense())


def test_quick_answers_are_not_written(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_cache, "WORTH_A_FILE", 100.0)
    equivariant_basis(T(2)(SO(3)), cache=BasisCache())
    assert not (folder / "bases").exists()


def test_nothing_is_written_when_the_cache_is_off(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ISOTROPY_CACHE", "off")
    equivariant_basis(T(2)(SO(3)), cache=BasisCache())
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("damage", [b"", b"not a file of tensors", None])
def test_damaged_files_are_solved_again(
    damage: bytes | None, folder: Path, solved: list[Rep]
) -> None:
    equivariant_basis(T(2)(SO(3)), cache=BasisCache())
    (path,) = (folder / "bases").glob("*.safetensors")
    path.write_bytes(path.read_bytes()[:-20] if damage is None else damage)
    assert equivariant_basis(T(2)(SO(3)), cache=BasisCache()).rank == 1
    assert len(solved) == 2


def test_a_folder_that_cannot_be_written_loses_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "file").write_text("in the way")
    monkeypatch.setenv("ISOTROPY_CACHE", str(folder / "file"))
    assert equivariant_basis(T(2)(SO(3)), cache=BasisCache()).rank == 1


def test_the_oldest_answers_are_forgotten_first() -> None:
    cache = BasisCache(capacity=8 * 100)
    for n in range(2, 8):
        equivariant_basis(T(2)(Z(n)), cache=cache)
    assert cache.get(T(2)(Z(7)), "orbits") is not None
    assert cache.get(T(2)(Z(2)), "orbits") is None
    cache.clear()
    assert cache.get(T(2)(Z(7)), "orbits") is None


rotations = st.sampled_from([SO(3).algebra[i] for i in range(3)])


@settings(max_examples=50)
@given(
    st.lists(st.permutations(range(4)), min_size=1, max_size=2),
    st.lists(st.permutations(range(4)), min_size=1, max_size=2),
)
def test_two_groups_never_share_an_answer(first: list[list[int]], second: list[list[int]]) -> None:
    cache = BasisCache()
    for generators in (first, second):
        rep = T(2)(Group(generators))
        cached = equivariant_basis(rep, cache=cache)
        q, p = cached.dense(), solve_dense(rep).dense()
        torch.testing.assert_close(q @ q.T, p @ p.T)


def test_what_an_answer_depends_on() -> None:
    """Rotations about two axes: same class, same dimensions, different answers."""
    about_z, about_x = Group(algebra=[SO(3).algebra[0]]), Group(algebra=[SO(3).algebra[2]])
    questions = [
        *(V(about_z), V(about_x), T(2)(about_z), V.T(SO(3)), V(SO(3)), V(O(3)), V(Z(3))),
        *(V(Z(3)) + Scalar, V(S(3)), V(Z(3)).on([0, 1, 2], of=4), V(Z(3)).on([0, 2, 1], of=4)),
        *(V(Z(2)) * V(Z(3)), V(Z(3)) * V(Z(2)), V(Z(2) * Z(3)), Scalar, Scalar + Scalar),
    ]
    cache = BasisCache(disk=False)
    answers = {
        (number, method): copy(equivariant_basis(rep, cache=False))
        for number, rep in enumerate(questions)
        for method in ("dense", "orbits")
    }
    for (_, method), answer in answers.items():
        cache.put(answer, method, 0.0)
    for (number, method), answer in answers.items():
        assert cache.get(questions[number], method) is answer  # none took another's place


def test_what_has_no_value_to_compare_is_never_kept(solved: list[Rep], folder: Path) -> None:
    cache = BasisCache()
    for shift in (1, 2):
        # a new function may get the address of one that is gone
        group = Group([Operator(4, lambda x, shift=shift: x.roll(shift, -1))])
        assert equivariant_basis(V(group), cache=cache).rank == shift
        del group
    square = CustomRep("Square", lambda g: torch.kron(g, g))
    basis = equivariant_basis(square(SO(3)), cache=cache)
    assert len(solved) == 3
    cache.put(basis, "dense", 0.0)
    assert cache.get(square(SO(3)), "dense") is None
    assert not (folder / "bases").exists()
