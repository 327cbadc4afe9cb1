"""Learned sharing of modules: mixing, training under partitions, neighbours, the whole search."""

from __future__ import annotations

import copy
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from isotropy.equivariance import partition_distance
from isotropy.sharing import (
    BilevelOptions,
    FitOptions,
    ModuleSharingOptions,
    SharedModule,
    fit_partitions,
    learn_module_sharing,
)
from isotropy.sharing._bilevel import search_assignments
from isotropy.sharing._partition_choice import PartitionScores, refined_partition
from isotropy.sharing._partition_search import (
    merged_partitions,
    moved_partitions,
    split_partitions,
)
from isotropy_papers.sum_of_numbers import PositionwiseSum, sum_of_numbers
from partitions import canonical_labels

QUICK_SEARCH = BilevelOptions(
    inner_steps=4, first_steps=30, outer_steps=15, outer_rate=0.2, inner_rate=0.05, terms=3
)
QUICK_FIT = FitOptions(steps=60, rate=0.15)


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=generator(seed))


def network() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2))


# --- mixing ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sites",
    [
        {"0.weight": 1},
        {"0.weight": 0, "0.bias": 0},
        {"0.weight": -2, "0.bias": 0, "2.weight": 1},
        {"2.weight": None},
    ],
)
def test_losses_are_those_of_modules_with_mixed_weights(sites: dict[str, int | None]) -> None:
    module = network()
    model = SharedModule(module, sites, "squared")
    x, y = draw(6, 4), draw(6, 2, seed=1)
    weights = model.initial(seeds=[0, 1])
    assignment = draw(2, model.size, model.size, seed=2).softmax(-1)
    rows = torch.tensor([[0, 1, 2], [3, 4, 5]])
    found = model.losses(weights, assignment, x, y, rows)
    for i in range(2):
        by_hand = copy.deepcopy(module)
        for name, weight in by_hand.named_parameters():
            given = weights[name][i]
            if name in sites:
                axis = sites[name]
                shape = weight.shape
                if axis is None:
                    given = (assignment[i] @ given).reshape(shape)
                else:
                    slices = assignment[i] @ given.reshape(len(given), -1)
                    moved = torch.empty(shape).movedim(axis, 0).shape
                    given = slices.reshape(moved).movedim(0, axis)
            weight.data = given
        with torch.no_grad():
            wanted = (by_hand(x[rows[i]]) - y[rows[i]]).square().mean(1)
        torch.testing.assert_close(found[i], wanted)


def test_rows_may_be_common_to_all_problems() -> None:
    model = SharedModule(network(), {"0.weight": 1}, "absolute")
    x, y = draw(6, 4), draw(6, 2, seed=1)
    weights, assignment = model.initial([0, 1]), draw(2, 4, 4, seed=2).softmax(-1)
    common = torch.tensor([4, 1])
    found = model.losses(weights, assignment, x, y, common)
    torch.testing.assert_close(found, model.losses(weights, assignment, x, y, common.repeat(2, 1)))
    torch.testing.assert_close(found, model.losses(weights, assignment, x, y)[:, [4, 1]])


def test_a_module_that_takes_assignments_agrees_with_one_whose_weights_are_mixed() -> None:
    module = PositionwiseSum(3, embedding=8, hidden=5)
    sites = {"weight": 0, "bias": 0}
    x, y = sum_of_numbers(3, sizes=(20, 1, 1, 1)).train
    taking = SharedModule(module, sites, "absolute", "assignment")
    mixing = SharedModule(module, sites, "absolute")
    for blocks in (3, 2):
        weights = taking.initial([0, 1], blocks)
        assignment = draw(2, 3, blocks).softmax(-1)
        torch.testing.assert_close(
            taking.losses(weights, assignment, x, y), mixing.losses(weights, assignment, x, y)
        )
        torch.testing.assert_close(
            taking.outputs(weights, assignment, x), mixing.outputs(weights, assignment, x)
        )
        assert taking.numbers(blocks) == sum(value[0].numel() for value in weights.values())


def test_initial_weights_are_those_of_the_layers_and_leave_the_random_state() -> None:
    module = network()
    before = torch.get_rng_state()
    weights = SharedModule(module, {"0.weight": 1}, "squared").initial([5, 5, 6])
    assert torch.equal(torch.get_rng_state(), before)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        fresh = network()
    for i, same in ((0, True), (1, True), (2, False)):
        assert torch.equal(weights["0.weight"][i], fresh[0].weight.mT) == same
        assert torch.equal(weights["2.bias"][i], fresh[2].bias) == same


def test_placed_weights_are_equal_within_blocks_and_the_given_module_stays() -> None:
    module = network().train()
    module[2].bias.requires_grad_(False)
    kept = copy.deepcopy(module.state_dict())
    model = SharedModule(module, {"0.weight": 1}, "squared")
    weights = {name: value[0] for name, value in model.initial([3], 2).items()}
    placed = model.placed(weights, np.array([0, 1, 1, 0]))
    assert placed.training
    weight = placed.get_parameter("0.weight")
    assert torch.equal(weight[:, 0], weight[:, 3])
    assert torch.equal(weight[:, 1], weight[:, 2])
    assert torch.equal(weight[:, :2], weights["0.weight"].mT)
    assert torch.equal(placed.get_parameter("2.bias"), module[2].bias)
    assert all(torch.equal(value, kept[name]) for name, value in module.state_dict().items())


def test_cross_entropy_and_functions_as_losses() -> None:
    x, classes = draw(6, 4), torch.tensor([0, 1, 1, 0, 1, 0])
    both = [
        SharedModule(network(), {"0.weight": 1}, loss)  # type: ignore[arg-type]
        for loss in ("cross-entropy", nn.CrossEntropyLoss(reduction="none"))
    ]
    weights, assignment = both[0].initial([0]), torch.eye(4)[None]
    one, other = (model.losses(weights, assignment, x, classes) for model in both)
    torch.testing.assert_close(one, other)
    wanted = -both[0].outputs(weights, assignment, x)[0].log_softmax(-1)[range(6), classes]
    torch.testing.assert_close(one[0], wanted)


# --- neighbours ------------------------------------------------------------------------------


def all_partitions(size: int) -> list[tuple[int, ...]]:
    labels = product(range(size), repeat=size)
    return sorted({tuple(canonical_labels(np.array(one)).tolist()) for one in labels})


@pytest.mark.parametrize(
    "labels", [[0, 0, 0, 0, 0], [0, 1, 0, 1, 2], [0, 1, 2, 3, 4], [0, 0, 1, 1, 1]]
)
def test_neighbours_are_those_among_all_partitions(labels: list[int]) -> None:
    def coarser(other: tuple[int, ...]) -> bool:
        return all(
            other[i] == other[j] for i in range(5) for j in range(5) if labels[i] == labels[j]
        )

    blocks = max(labels) + 1
    every = all_partitions(5)
    wanted = {
        merged_partitions: [p for p in every if max(p) + 1 == blocks - 1 and coarser(p)],
        moved_partitions: [
            p for p in every if max(p) + 1 == blocks and partition_distance(p, labels) == 1
        ],
        split_partitions: [
            p for p in every if max(p) + 1 == blocks + 1 and partition_distance(p, labels) == 1
        ],
    }
    for neighbours, expected in wanted.items():
        found = [tuple(p.tolist()) for p in neighbours(np.array(labels))]
        assert sorted(set(found)) == expected
        if neighbours is not moved_partitions:  # two of a block may go either way
            assert len(found) == len(expected)


# --- training under partitions ---------------------------------------------------------------


def test_fits_reach_the_least_squares_of_summed_columns() -> None:
    x = draw(80, 4)
    y = x @ torch.tensor([[1.0], [2.0], [1.0], [-1.0]]) + 0.1 * draw(80, 1, seed=1)
    model = SharedModule(nn.Linear(4, 1), {"weight": 1}, "squared")
    partitions = [np.array(p) for p in ([0, 0, 0, 0], [0, 1, 2, 3], [0, 1, 0, 2])]
    train, held_out = torch.arange(60), torch.arange(60, 80)
    fits = fit_partitions(
        model,
        partitions,
        x,
        y,
        (train, held_out),
        FitOptions(steps=200, rate=0.1),
        seeds=[0, 0, 0],
        generator=generator(0),
        stop_early=False,
    )
    for i, labels in enumerate(partitions):
        summed = x @ torch.eye(int(labels.max()) + 1)[labels]
        design = torch.cat([summed, torch.ones(80, 1)], 1)
        exact = torch.linalg.lstsq(design[:60], y[:60]).solution
        assert fits.weights[i]["weight"].shape[0] == labels.max() + 1
        torch.testing.assert_close(fits.weights[i]["weight"], exact[:-1], rtol=1e-3, atol=1e-3)
        wanted = (design[60:] @ exact - y[60:]).square().squeeze(1)
        torch.testing.assert_close(fits.losses[i], wanted, rtol=1e-2, atol=1e-3)


def test_early_stopping_keeps_the_best_and_company_changes_nothing() -> None:
    x, y = draw(30, 4), draw(30, 1, seed=1)
    model = SharedModule(nn.Linear(4, 1), {"weight": 1}, "squared")
    partitions = [np.array([0, 0, 0, 0]), np.array([0, 1, 2, 3])]
    rows = torch.stack([torch.arange(12), torch.arange(18, 30)])
    shared: dict[str, Any] = {"options": FitOptions(steps=60, rate=0.1), "generator": generator(0)}

    def fitted(which: list[int], stop_early: bool) -> Tensor:
        return fit_partitions(
            model,
            [partitions[i] for i in which],
            x,
            y,
            (rows[which], torch.arange(12, 18)),
            seeds=[i + 3 for i in which],
            stop_early=stop_early,
            **shared,
        ).losses

    stopped, last = fitted([0, 1], True), fitted([0, 1], False)
    assert bool((stopped.mean(1) < last.mean(1)).all())
    for i in range(2):
        torch.testing.assert_close(stopped[i : i + 1], fitted([i], True))


def test_differences_that_are_nothing_favour_fewer_blocks() -> None:
    x = draw(60, 3)
    y = x.sum(1, keepdim=True)  # no noise, so that any difference is significant
    model = SharedModule(nn.Linear(3, 1), {"weight": 1}, "squared")
    scores = PartitionScores(model, x, y, folds=2, options=QUICK_FIT, generator=generator(0))
    apart, together = np.array([0, 1, 2]), np.array([0, 0, 0])
    scores.weigh([apart, together])
    assert scores.chosen([apart, together]) is together
    assert refined_partition(scores, [apart], generator=generator(0)).tolist() == [0, 0, 0]
    assert scores.means()[0, 0, 0] == scores.mean(together)


def test_a_partition_whose_training_breaks_is_never_chosen() -> None:
    x, y = draw(40, 2), draw(40, 1, seed=1)
    x[:, 1] = -x[:, 0]  # weights that are equal give the same output everywhere

    def breaking(found: Tensor, wanted: Tensor) -> Tensor:
        spread = (found - found.mean(0)).abs().sum()
        return (found - wanted).square() + torch.where(spread > 1e-4, torch.nan, 0.0)

    model = SharedModule(nn.Linear(2, 1), {"weight": 1}, breaking)
    scores = PartitionScores(
        model, x, y, folds=2, options=FitOptions(steps=3), generator=generator(0)
    )
    apart, together = np.array([0, 1]), np.array([0, 0])
    scores.weigh([apart, together])
    assert scores.mean(apart) == float("inf")
    assert np.isfinite(scores.mean(together))
    assert scores.worse(apart, than=together)
    assert scores.chosen([apart, together]) is together


# --- the search ------------------------------------------------------------------------------


def searched(
    which: list[int], options: BilevelOptions, progress: Callable[[Any], None] | None = None
) -> Any:
    x = draw(60, 3).double()
    y = x @ torch.tensor([[1.0], [1.0], [-1.0]]).double()
    model = SharedModule(nn.Linear(3, 1).double(), {"weight": 1}, "squared")
    start = 0.1 * draw(3, 3, 3, seed=4).double()
    return search_assignments(
        lambda weights, assignment, rows: model.losses(weights, assignment, x, y, rows),
        model.initial([7, 8, 9]) if len(which) == 3 else model.initial([7 + i for i in which]),
        start[which],
        torch.arange(25),
        torch.arange(25, 60),
        options,
        generator=generator(0),
        progress=progress,
    )


@pytest.mark.parametrize("inverse", ["neumann", "cg"])
def test_restarts_take_the_path_that_each_takes_alone(inverse: Any) -> None:
    options = BilevelOptions(
        inner_steps=3,
        outer_steps=15,
        outer_rate=0.3,
        inner_rate=0.05,
        terms=3,
        warm_up=1,
        patience=2,
        inverse=inverse,
        damping=0.1,
    )
    together = searched([0, 1, 2], options)
    alone = [searched([i], options) for i in range(3)]
    assert len({len(each.history) for each in alone}) > 1  # some rest while others go on
    for i, each in enumerate(alone):
        torch.testing.assert_close(together.assignment[i], each.assignment[0])
        torch.testing.assert_close(together.losses[i], each.losses[0])
        taken = len(each.history)
        torch.testing.assert_close(together.history[:taken, i], each.history[:, 0])
        assert bool((together.history[taken:, i] == together.history[taken - 1, i]).all())


def test_the_best_assignment_is_kept() -> None:
    options = BilevelOptions(inner_steps=3, outer_steps=8, outer_rate=0.3, warm_up=0, terms=3)
    found = searched([0, 1], options)
    torch.testing.assert_close(found.losses, found.history.min(0).values, rtol=2e-4, atol=0)
    torch.testing.assert_close(found.assignment.sum(-1), torch.ones(2, 3, dtype=torch.float64))


def test_mini_batches_change_the_path_but_losses_are_on_all_rows() -> None:
    options = {"inner_steps": 2, "outer_steps": 3, "terms": 2}
    whole = searched([0], BilevelOptions(**options))
    parts = searched([0], BilevelOptions(**options, train_batch=10, validation_batch=8))
    assert parts.history.shape == whole.history.shape
    assert not torch.allclose(parts.history, whole.history)
    only_validation = searched([0], BilevelOptions(**options, validation_batch=8))
    # before the first step of the assignments nothing has been drawn that matters
    torch.testing.assert_close(only_validation.history[0], whole.history[0])


def interrupting(at: int, message: str) -> Callable[[Any], None]:
    seen = []

    def progress(step: Any) -> None:
        if step.message == message:
            seen.append(step)
            if len(seen) == at:
                raise KeyboardInterrupt

    return progress


def test_an_interrupted_search_keeps_the_best_so_far() -> None:
    options = BilevelOptions(inner_steps=3, outer_steps=20, warm_up=0, terms=3)
    found = searched([0, 1], options, interrupting(4, "assignments"))
    assert found.interrupted
    assert len(found.history) == 4
    torch.testing.assert_close(found.losses, found.history.min(0).values, rtol=2e-4, atol=0)


# --- all of it -------------------------------------------------------------------------------


def learned(**more: Any) -> Any:
    x = draw(100, 4)
    y = x @ torch.tensor([[1.0], [-1.0], [1.0], [-1.0]]) + 0.3 * draw(100, 1, seed=1)
    quick = {"search": QUICK_SEARCH, "weigh": QUICK_FIT, "fit": QUICK_FIT, "folds": 3}
    fields = ModuleSharingOptions.__dataclass_fields__
    given = {name: more.pop(name) for name in fields if name in more}
    options = ModuleSharingOptions(**{**quick, **given})
    rest = {"sites": {"weight": 1}, "seed": 0, **more}
    return learn_module_sharing(nn.Linear(4, 1), x, y, options=options, **rest)


def test_two_blocks_are_found_and_the_model_has_them() -> None:
    steps: list[Any] = []
    found = learned(progress=steps.append)
    assert found.labels.tolist() == [0, 1, 0, 1]
    weight = found.model.get_parameter("weight")
    assert weight[0, 0] == weight[0, 2]
    assert weight[0, 1] == weight[0, 3]
    torch.testing.assert_close(
        weight.detach(), torch.tensor([[1.0, -1.0, 1.0, -1.0]]), atol=0.15, rtol=0
    )
    assert not found.interrupted
    assert found.assignment.shape == (3, 4, 4)
    assert found.losses[0, 1, 0, 1] < found.losses[0, 0, 0, 0]  # a merge that was weighed
    assert {step.message for step in steps} == {"assignments", "partitions"}


def test_one_seed_gives_one_result() -> None:
    early = draw(20, 4, seed=5), draw(20, 1, seed=6)
    rows = {"train": list(range(40)), "validation": torch.arange(40, 100)}
    first, again, other = (
        learned(seed=seed, restarts=1, early=early, **rows) for seed in (3, 3, 4)
    )
    assert torch.equal(first.model.get_parameter("weight"), again.model.get_parameter("weight"))
    assert torch.equal(first.history, again.history)
    assert first.losses == again.losses
    assert not torch.equal(first.history, other.history)


def test_keywords_that_became_options_work_and_warn() -> None:
    match = r"learn_module_sharing\(folds=…\) is now .*options=ModuleSharingOptions\(folds=…"
    with pytest.warns(DeprecationWarning, match=match), pytest.raises(ValueError, match=r"got 9"):
        learn_module_sharing(nn.Linear(4, 1), draw(9, 4), draw(9, 1), sites={"weight": 1}, folds=3)  # type: ignore[call-arg]


@pytest.mark.parametrize("at", [1, 2])
@pytest.mark.parametrize("stage", ["assignments", "partitions"])
def test_interrupted_work_gives_a_model(stage: str, at: int) -> None:
    found = learned(progress=interrupting(at, stage))
    assert found.interrupted
    weight = found.model.get_parameter("weight")
    for i, j in product(range(4), repeat=2):
        assert (weight[0, i] == weight[0, j]) == (found.labels[i] == found.labels[j])


# --- bad input -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"sites": {}}, r"expected at least one weight to share, got none"),
        ({"sites": {"w": 0}}, r"expected trainable weights among weight, bias, got 'w'"),
        ({"sites": {"weight": 2}}, r"expected an axis of weight of shape \(1, 4\), got 2"),
        (
            {"sites": {"weight": 1, "bias": 0}},
            r"expected as many elements .* got 4 in weight, 1 in bias",
        ),
        ({"loss": "l7"}, r"expected a function or a loss among absolute, .*, got 'l7'"),
        (
            {"loss": nn.MSELoss()},
            r"expected one loss for each of \d+ rows, got shape \(\)",
        ),
        ({"restarts": 0}, r"expected restarts .* at least 1, .*, got 0"),
        ({"folds": 1}, r"folds of at least 2 .*, got 3, 100, 1, 2.0"),
        ({"train": [0, 1, 100]}, r"expected train rows in \[0, 100\), got 100"),
        ({"validation": [-1, 1]}, r"expected validation rows in \[0, 100\), got -1"),
        ({"train": [0.5]}, r"expected a list of row numbers as train, got"),
        ({"train": [0, 1], "validation": [1, 2]}, r"that do not overlap, got some that do"),
        ({"early": (draw(3, 4), draw(2, 1))}, r"as many targets as inputs, got shapes \(3, 4\)"),
        ({"train": list(range(100))}, r"expected rows left for both .*, got none"),
    ],
)
def test_bad_options(more: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        learned(**more)


def test_bad_data() -> None:
    module, sites = nn.Linear(4, 1), {"weight": 1}
    x, y = draw(30, 4), draw(30, 1)
    for bad_x, bad_y, sentence in (
        (x[:9], y[:9], r"expected at least 10 rows to split, got 9"),
        (x, y[:5], r"expected as many targets as inputs, got shapes \(30, 4\) and \(5, 1\)"),
        (x, y * torch.nan, r"expected finite targets, got NaN or infinity"),
        (x / 0, y, r"expected finite inputs, got NaN or infinity"),
        (x, torch.ones(30, 1), r"expected targets that vary, got the same one in every row"),
    ):
        with pytest.raises(ValueError, match=sentence):
            learn_module_sharing(module, bad_x, bad_y, sites=sites)
    with pytest.raises(TypeError, match=r"expected inputs as a tensor, got list"):
        learn_module_sharing(module, x.tolist(), y, sites=sites)
    with pytest.raises(TypeError, match=r"expected a torch module, got function"):
        learn_module_sharing(lambda x: x, x, y, sites=sites)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"outer_steps": 0}, r"expected outer_steps of at least 1, got 0"),
        ({"inner_rate": 0.0}, r"expected a positive inner_rate, got 0.0"),
        ({"entropy": -1.0}, r"expected entropy of at least 0, got -1.0"),
        ({"train_batch": 0}, r"expected train_batch of at least 1, got 0"),
        ({"inverse": "exact"}, r"expected the inverse 'neumann' or 'cg', got 'exact'"),
    ],
)
def test_bad_search_options(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        BilevelOptions(**options)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"steps": 0}, r"expected steps of at least 1, got 0"),
        ({"batch": 0}, r"expected a batch of at least 1 row, got 0"),
        ({"rate": -1.0}, r"expected a positive rate, got -1.0"),
        ({"weight_decay": -1.0}, r"expected weight_decay of at least 0, got -1.0"),
    ],
)
def test_bad_fit_options(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        FitOptions(**options)
