"""The relaxation: its lower level, its penalties, its path, and the paper's Table 1."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from isotropy.equivariance import partition_distance
from isotropy.run import Step
from isotropy.sharing import LeastSquares, RelaxationOptions, relax_sharing, rounded
from isotropy.sharing._relaxation import Optimiser, averaged
from isotropy_papers.sharing_tasks import shared_means
from sharing.pieces import hard_assignment, rank_penalty, row_entropy, row_softmax


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=generator(seed), dtype=torch.float64)


def means(rows: int, size: int, seed: int = 0) -> tuple[LeastSquares, LeastSquares]:
    y = normal(rows, size, seed=seed)
    return LeastSquares.of(None, y[: rows // 3]), LeastSquares.of(None, y[rows // 3 :])


def test_the_lower_level_of_a_partition_is_the_mean_of_each_block() -> None:
    theta = torch.tensor([1.0, 2.0, 10.0, 6.0]).double()
    found = averaged(hard_assignment([0, 1, 0, 1]), theta)
    assert found.tolist() == [5.5, 4.0, 5.5, 4.0]


def test_the_lower_level_of_a_relaxed_assignment() -> None:
    assignment, theta = row_softmax(normal(2, 4, 4)), normal(2, 4, seed=1)
    for a, t, found in zip(assignment, theta, averaged(assignment, theta), strict=True):
        expected = a @ torch.diag(1 / a.sum(0)) @ a.T @ t
        torch.testing.assert_close(found, expected)


def test_the_pseudo_inverse_would_leave_the_upper_level_without_a_gradient() -> None:
    theta, target = normal(4, seed=1), normal(4, seed=2)

    def gradient(paper: bool) -> Tensor:
        logits = normal(4, 4).requires_grad_()
        a = row_softmax(logits)
        shared = a @ torch.linalg.pinv(a) @ theta if paper else averaged(a, theta)
        return torch.autograd.grad((shared - target).square().sum(), logits)[0]

    assert float(gradient(paper=True).abs().max()) < 1e-9
    assert float(gradient(paper=False).abs().max()) > 1e-3


@pytest.mark.parametrize("norm", ["columns", "nuclear"])
def test_the_loss_is_the_validation_loss_with_its_penalties(norm: str) -> None:
    x, y = normal(30, 2), normal(30, 3, seed=1)
    train, held = LeastSquares.of(x[:10], y[:10]), LeastSquares.of(x[10:], y[10:])
    found = relax_sharing(
        train,
        held,
        entropy=0.3,
        rank=0.2,
        options=RelaxationOptions(rank_norm=norm),  # type: ignore[arg-type]
        steps=7,
        generator=generator(0),
    )
    assert found.assignment.shape == (3, 6, 6)
    theta = torch.linalg.lstsq(x[:10], y[:10]).solution.mT.flatten()
    for a, loss in zip(found.assignment, found.loss, strict=True):
        g = (a @ torch.diag(1 / a.sum(0)) @ a.T @ theta).unflatten(0, (3, 2))
        expected = (y[10:] - x[10:] @ g.mT).square().mean()
        expected = expected + 0.3 * row_entropy(a) + 0.2 * rank_penalty(a, norm)  # type: ignore[arg-type]
        torch.testing.assert_close(loss, expected)


def test_the_best_restart_is_that_of_the_least_loss() -> None:
    y = normal(5, 12, 4)
    found = relax_sharing(
        LeastSquares.of(None, y[:, :4]),
        LeastSquares.of(None, y[:, 4:]),
        restarts=6,
        steps=20,
        generator=generator(0),
    )
    for i in range(5):
        chosen = int(found.loss[i].argmin())
        assert torch.equal(found.best()[i], found.assignment[i, chosen])
    assert len(set(found.loss.argmin(-1).tolist())) > 1


@pytest.mark.parametrize("optimiser", ["adam", "rmsprop"])
def test_a_problem_takes_the_same_path_alone_and_in_a_batch(optimiser: Optimiser) -> None:
    x, y = normal(3, 20, 2), normal(3, 20, 2, seed=1)
    options = RelaxationOptions(optimiser=optimiser)

    def relaxed(rows: slice | int, start: torch.Generator) -> Tensor:
        train = LeastSquares.of(x[rows][..., :8, :], y[rows][..., :8, :])
        held = LeastSquares.of(x[rows][..., 8:, :], y[rows][..., 8:, :])
        found = relax_sharing(train, held, restarts=2, steps=60, options=options, generator=start)
        return found.assignment

    batch = relaxed(slice(None), generator(0))
    assert batch.shape == (3, 2, 4, 4)
    for i in range(3):
        start = generator(0)
        torch.randn(i, 32, generator=start, dtype=torch.float64)  # what those before it drew
        torch.testing.assert_close(relaxed(i, start), batch[i], rtol=0, atol=1e-12)


def test_one_step_of_rmsprop_by_hand() -> None:
    train, held = means(30, 2)
    start = 0.1 * torch.randn(1, 2, 2, generator=generator(3), dtype=torch.float64)
    logits = start[0].clone().requires_grad_()
    a = row_softmax(logits)
    loss = held.loss(averaged(a, train.solution().flatten()).unflatten(0, (2, 1)))
    loss = loss + 0.01 * row_entropy(a) + 0.01 * rank_penalty(a)
    slope = torch.autograd.grad(loss, logits)[0] + 1e-4 * logits.detach()
    # alpha is 0.99, so a first step has the length lr / sqrt(1 − alpha)
    moved = logits.detach() - 2e-2 * slope / ((0.01 * slope**2).sqrt() + 1e-8)
    rmsprop = RelaxationOptions(optimiser="rmsprop")
    found = relax_sharing(train, held, restarts=1, steps=1, options=rmsprop, generator=generator(3))
    torch.testing.assert_close(found.assignment[0], row_softmax(moved))


def test_seeds_repeat_and_differ() -> None:
    train, held = means(30, 3)
    first, again, other = (
        relax_sharing(train, held, steps=5, generator=generator(seed)).assignment
        for seed in (0, 0, 1)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_the_global_generator_is_left_alone() -> None:
    before = torch.get_rng_state()
    relax_sharing(*means(30, 2), steps=1)
    assert torch.equal(torch.get_rng_state(), before)


def test_mini_batches_are_taken_in_turn_and_measured_as_one() -> None:
    y = normal(30, 3)
    train = LeastSquares.of(None, y[:10])
    parts = [LeastSquares.of(None, y[10:17]), LeastSquares.of(None, y[17:])]
    options = {"entropy": 0.0, "rank": 0.0, "restarts": 1}
    one = relax_sharing(train, parts, steps=1, generator=generator(0), **options)  # type: ignore[arg-type]
    first = relax_sharing(train, parts[0], steps=1, generator=generator(0), **options)  # type: ignore[arg-type]
    torch.testing.assert_close(one.assignment, first.assignment)
    two = relax_sharing(train, parts, steps=2, generator=generator(0), **options)  # type: ignore[arg-type]
    same = relax_sharing(train, parts[:1] * 2, steps=2, generator=generator(0), **options)  # type: ignore[arg-type]
    assert not torch.allclose(two.assignment, same.assignment, atol=1e-9, rtol=0)
    shared = averaged(two.assignment[0], y[:10].mean(0))
    torch.testing.assert_close(two.loss[0], (y[10:] - shared).square().mean())


def test_mini_batches_end_where_all_rows_do() -> None:
    y = normal(90, 4) + torch.tensor([0.0, 0.0, 3.0, 3.0])
    train = LeastSquares.of(None, y[:30])
    parts = [LeastSquares.of(None, rows) for rows in y[30:].split(20)]
    for patience in (None, 200):
        patient = RelaxationOptions(patience=patience)
        found = relax_sharing(
            train, parts, rank=0.05, steps=300, options=patient, generator=generator(0)
        )
        assert rounded(found.best()).tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize("batches", [1, 2])
def test_patience_stops_early_and_keeps_the_best(batches: int) -> None:
    y = normal(30, 3)
    train = LeastSquares.of(None, y[:10])
    held = [LeastSquares.of(None, rows) for rows in y[10:].split(20 // batches)]
    # at this rate the path wanders, so the last is not the best
    options = RelaxationOptions(learning_rate=3.0, weight_decay=1.0)
    patient = relax_sharing(
        train, held, steps=400, options=replace(options, patience=30), generator=generator(0)
    )
    assert 30 < patient.steps < 400
    last = relax_sharing(train, held, steps=patient.steps, options=options, generator=generator(0))
    assert last.steps == patient.steps
    assert bool((patient.loss <= last.loss).all())
    assert bool((patient.loss < last.loss - 1e-6).any())
    for a, loss in zip(patient.assignment, patient.loss, strict=True):
        expected = (y[10:] - averaged(a, y[:10].mean(0))).square().mean()
        torch.testing.assert_close(loss, expected + 0.01 * (row_entropy(a) + rank_penalty(a)))


def test_an_interruption_keeps_what_there_is() -> None:
    train, held = means(30, 3)

    def interrupt(step: Step) -> None:
        assert step.total == 1000
        if step.done == 100:
            raise KeyboardInterrupt

    for patience in (None, 50_000):
        options = RelaxationOptions(patience=patience)
        stopped = relax_sharing(
            train, held, options=options, generator=generator(0), progress=interrupt
        )
        assert stopped.interrupted
        assert stopped.steps == 100
        short = relax_sharing(train, held, steps=100, options=options, generator=generator(0))
        assert not short.interrupted
        assert torch.equal(stopped.assignment, short.assignment)


def test_table_1_of_the_paper() -> None:
    """K = 2, rank 1: PD .145 and MSE .014 with both penalties, .915 and .019 with none."""
    tasks = [shared_means(2, seed=seed) for seed in range(60)]
    y = torch.stack([task.y for task in tasks])
    train, held = LeastSquares.of(None, y[:, :30]), LeastSquares.of(None, y[:, 30:])
    rmsprop = RelaxationOptions(optimiser="rmsprop")
    bounds = {0.01: ((0.03, 0.28), (0.008, 0.021)), 0.0: ((0.75, 1.0), (0.012, 0.027))}
    for weight, (distance, error) in bounds.items():
        found = relax_sharing(
            train, held, entropy=weight, rank=weight, options=rmsprop, generator=generator(0)
        )
        partitions = rounded(found.best())
        distances = [partition_distance([0, 0], labels) for labels in partitions]
        errors = [
            float(averaged(hard_assignment(labels), rows.mean(0)).square().sum())
            for labels, rows in zip(partitions, y, strict=True)
        ]
        assert distance[0] <= np.mean(distances) <= distance[1]
        assert error[0] <= np.mean(errors) <= error[1]


def test_bad_input() -> None:
    train, held = means(30, 2)
    with pytest.raises(ValueError, match=r"expected the optimiser 'adam' or 'rmsprop', got 'sgd'"):
        RelaxationOptions(optimiser="sgd")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"expected the rank norm"):
        relax_sharing(train, held, options=RelaxationOptions(rank_norm="max"))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"expected at least one restart, got 0"):
        relax_sharing(train, held, restarts=0)
    with pytest.raises(ValueError, match=r"expected at least one validation set, got none"):
        relax_sharing(train, [])
    with pytest.raises(ValueError, match=r"expected validation of a map of shape \(2, 1\), got"):
        relax_sharing(train, means(30, 3)[1])


def test_keywords_that_became_options_work_and_warn() -> None:
    train, held = means(30, 2)
    with pytest.warns(DeprecationWarning, match=r"relax_sharing\(patience=…\) is now .*options="):
        old = relax_sharing(train, held, steps=9, patience=5, generator=generator(0))  # type: ignore[call-arg]
    new = relax_sharing(
        train, held, steps=9, options=RelaxationOptions(patience=5), generator=generator(0)
    )
    assert torch.equal(old.assignment, new.assignment)
