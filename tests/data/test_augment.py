"""Augmentation: every row moved by an element of its own, inputs and outputs."""

from __future__ import annotations

import copy
import pickle
from multiprocessing.reduction import ForkingPickler
from types import SimpleNamespace

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from isotropy.data import (
    Augment,
    Task,
    _augment,
    inertia,
    lorentz_scattering,
    o5_invariant,
)
from isotropy.groups import SO, O2eR3, S, U
from isotropy.reps import Scalar, Symmetry, V

TASKS = [inertia(), o5_invariant(), lorentz_scattering()]


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_moved_rows_still_belong_to_the_task(task: Task) -> None:
    x, y = task.draw(200, generator=0)
    moved, outputs = Augment(task.symmetry, generator=0)(x, y)
    torch.testing.assert_close(task.target(moved), outputs, rtol=1e-9, atol=1e-9)
    assert (moved - x).norm(dim=-1).min() > 1e-6


def test_each_row_is_moved_by_its_own_element() -> None:
    task = inertia()
    x, y = (part.expand(50, -1) for part in task.draw(1, generator=0))
    augment = Augment(task.symmetry, generator=3)
    moved, outputs = augment(x, y)
    assert torch.pdist(moved).min() > 1e-3
    # the slow way: one element, one row, dense matrices
    g = task.symmetry.group.sample(50, generator=3).dense()
    for i in range(50):
        rotated = torch.einsum("ab,ib->ia", g[i], x[i, 5:].reshape(5, 3)).flatten()
        torch.testing.assert_close(moved[i, 5:], rotated, rtol=0, atol=1e-13)
        torch.testing.assert_close(moved[i, :5], x[i, :5], rtol=0, atol=0)
        matrix = g[i] @ y[i].reshape(3, 3) @ g[i].T
        torch.testing.assert_close(outputs[i], matrix.flatten(), rtol=0, atol=1e-12)


def test_permutations() -> None:
    x = torch.arange(12.0).reshape(4, 3)
    moved, y = Augment(Symmetry(S(3), V, V), generator=0)(x, -x)
    assert torch.equal(moved.sort(-1).values, x)
    assert torch.equal(y, -moved)
    assert not torch.equal(moved, x)


def test_seeds_repeat_the_sequence_of_batches() -> None:
    symmetry = Symmetry(SO(3), V, Scalar)
    x, y = torch.ones(5, 3), torch.ones(5, 1)
    first, second = Augment(symmetry, generator=0), Augment(symmetry, generator=0)
    batches = [first(x, y)[0] for _ in range(3)]
    again = [second.inputs(x), second(x, y)[0], second.inputs(x)]
    assert all(torch.equal(a, b) for a, b in zip(batches, again, strict=True))
    assert not torch.equal(batches[0], batches[1])
    assert not torch.equal(batches[0], Augment(symmetry, generator=1).inputs(x))
    shared = torch.Generator().manual_seed(0)
    assert torch.equal(Augment(symmetry, generator=shared).inputs(x), batches[0])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_precision_is_kept_and_lost_only_in_storing(dtype: torch.dtype) -> None:
    symmetry = lorentz_scattering().symmetry
    x = torch.randn(20, 16, generator=torch.Generator().manual_seed(0)).to(dtype)
    y = torch.ones(20, 1, dtype=torch.float32)
    moved, outputs = Augment(symmetry, generator=0)(x, y)
    exact = Augment(symmetry, generator=0).inputs(x.double())
    assert moved.dtype == dtype
    assert outputs.dtype == torch.float32
    assert torch.equal(moved, exact.to(dtype))


def test_all_of_a_row_is_moved_by_one_element() -> None:
    symmetry = Symmetry(O2eR3(), 4 * V, 4 * V)
    rng = torch.Generator().manual_seed(0)
    z = torch.randn(2, 3, 12, dtype=torch.float64, generator=rng)
    moved = Augment(symmetry, generator=1).inputs(z)
    g = symmetry.group.sample(2, generator=1)
    for row in range(2):
        expected = symmetry.apply(g[row], z[row])
        torch.testing.assert_close(moved[row], expected, rtol=0, atol=1e-13)
    lone, both = Augment(symmetry, generator=1)(z[:, 0], z)
    torch.testing.assert_close(lone, both[:, 0], rtol=0, atol=0)


def test_complex_actions() -> None:
    symmetry = Symmetry(U(2), V, Scalar)
    x = torch.randn(7, 2, dtype=torch.complex64, generator=torch.Generator().manual_seed(0))
    moved = Augment(symmetry, generator=0).inputs(x)
    assert moved.dtype == torch.complex64
    torch.testing.assert_close(moved.norm(dim=-1), x.norm(dim=-1))
    assert (moved - x).abs().max() > 0.1
    with pytest.raises(TypeError, match=r"expected complex inputs for V\(U\(2\)\), got torch"):
        Augment(symmetry).inputs(x.real)


def test_gradients_pass_through() -> None:
    x = torch.randn(4, 3, requires_grad=True)
    augment = Augment(Symmetry(SO(3), V, Scalar), generator=0)
    augment.inputs(x).square().sum().backward()
    torch.testing.assert_close(x.grad, 2 * x.detach())


def test_no_rows() -> None:
    x, y = Augment(inertia().symmetry)(torch.ones(0, 20), torch.ones(0, 9))
    assert x.shape == (0, 20)
    assert y.shape == (0, 9)


# --- loaders ---------------------------------------------------------------------------------


def test_collate_serves_a_loader() -> None:
    task = o5_invariant()
    x, y = task.draw(10, generator=0)
    augment = Augment(task.symmetry, generator=0)
    loader = DataLoader(TensorDataset(x, y), batch_size=4, collate_fn=augment.collate)
    seen = [torch.cat(parts) for parts in zip(*loader, strict=True)]
    assert torch.equal(seen[1], y)
    torch.testing.assert_close(task.target(seen[0]), y, rtol=1e-10, atol=1e-10)
    later = torch.cat([batch for batch, _ in loader])
    assert not torch.allclose(later, seen[0])
    expected = Augment(task.symmetry, generator=0).inputs(x[:4])
    torch.testing.assert_close(seen[0][:4], expected, rtol=0, atol=0)


def test_a_copy_goes_on_where_the_original_stands() -> None:
    x = torch.ones(3, 3)
    augment = Augment(Symmetry(SO(3), V, Scalar), generator=0)
    augment.inputs(x)
    for copied in (pickle.loads(pickle.dumps(augment)), copy.deepcopy(augment)):
        expected = Augment(augment.symmetry, generator=0)
        expected.inputs(x)
        assert torch.equal(copied.inputs(x), expected.inputs(x))
    # as it travels to a spawned worker: no tensor is left to shared memory
    assert b"torch" not in bytes(ForkingPickler.dumps(augment))


def test_workers_and_epochs_do_not_repeat_one_another(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.ones(3, 3)
    augment = Augment(Symmetry(SO(3), V, Scalar), generator=0)

    def batches(seed: int, copied: Augment) -> list[torch.Tensor]:
        monkeypatch.setattr(_augment, "get_worker_info", lambda: SimpleNamespace(seed=seed))
        return [copied.inputs(x), copied.inputs(x)]

    # a worker of each epoch starts from the same copy; only its seed differs
    drawn = [batches(seed, pickle.loads(pickle.dumps(augment))) for seed in (100, 101, 100)]
    assert all(torch.equal(a, b) for a, b in zip(drawn[0], drawn[2], strict=True))
    assert len({float(batch[0, 0]) for pair in drawn for batch in pair}) == 4
    other = Augment(augment.symmetry, generator=5)
    assert not torch.equal(batches(100, other)[0], drawn[0][0])
    kept = batches(100, augment) + batches(101, augment)
    assert torch.equal(kept[2], drawn[1][0])


# --- bad input -------------------------------------------------------------------------------


def test_bad_input() -> None:
    augment = Augment(inertia().symmetry)
    x, y = torch.ones(3, 20), torch.ones(3, 9)
    with pytest.raises(TypeError, match=r"expected a symmetry to augment by, got O"):
        Augment(inertia().symmetry.group)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"expected inputs of shape \(n, 20\) .* got \(3, 9\)"):
        augment(y, y)
    with pytest.raises(ValueError, match=r"expected inputs of shape \(n, 20\) .* got \(20,\)"):
        augment.inputs(x[0])
    with pytest.raises(ValueError, match=r"expected outputs of shape \(n, 9\) .* got \(3, 20\)"):
        augment(x, x)
    with pytest.raises(ValueError, match=r"expected as many outputs as inputs, got 2 and 3"):
        augment(x, y[:2])
    with pytest.raises(TypeError, match=r"expected inputs in floating point, got torch\.int64"):
        augment(x.long(), y)
