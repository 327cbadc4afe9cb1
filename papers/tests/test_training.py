import copy

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from isotropy.data import Augment, inertia
from isotropy.groups import O
from isotropy.nn import EMLP, MLP
from isotropy.reps import Scalar, Symmetry, V
from isotropy.run import generator, spawn
from isotropy_papers._ensemble import Ensemble
from isotropy_papers._statistics import mean_interval, median_interval
from isotropy_papers._training import Moves, NetworkRecipe, NetworkTraining, fit, squared_error

Rows = tuple[Tensor, Tensor]
SEEDS = [3, 7, 8]


def network() -> EMLP:
    return EMLP(Scalar + 2 * V, V, O(3), channels=12, layers=2)


def rows(n: int, seed: int, copies: int = len(SEEDS)) -> Rows:
    x = torch.randn(copies, n, 7, generator=generator(seed))
    return x, x[..., :1] * x[..., 1:4] + x[..., 4:]


def trained(
    seeds: list[int], recipe: NetworkRecipe, train: Rows, validation: Rows
) -> NetworkTraining:
    training = NetworkTraining(Ensemble(network(), seeds), train, validation, recipe, seeds)
    fit([training])
    return training


def train_alone(
    seed: int, recipe: NetworkRecipe, train: Rows, validation: Rows
) -> tuple[nn.Module, float]:
    """An ordinary loop over one model: the slow twin of `NetworkTraining`."""
    model = network()
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        for layer in model.modules():
            if hasattr(layer, "reset_parameters"):
                layer.reset_parameters()
    parent = generator(seed)
    spawn(parent, 1)
    order = spawn(parent, 2)[0]
    batch, total = recipe.batch, recipe.steps(len(train[0]))
    optimiser = torch.optim.Adam(model.parameters(), lr=recipe.learning_rate)
    best, kept, step = float("inf"), copy.deepcopy(model), 0
    for _ in range(recipe.epochs):
        shuffled = torch.randperm(len(train[0]), generator=order)
        for k in range(len(shuffled) // batch):
            if recipe.schedule == "cosine":
                angle = np.pi * step / total
                optimiser.param_groups[0]["lr"] = recipe.learning_rate * np.cos(angle / 2) ** 2
            chosen = shuffled[k * batch : (k + 1) * batch]
            optimiser.zero_grad()
            nn.functional.mse_loss(model(train[0][chosen]), train[1][chosen]).backward()
            optimiser.step()
            step += 1
            with torch.no_grad():
                error = float(nn.functional.mse_loss(model(validation[0]), validation[1]))
            if error < best:
                best, kept = error, copy.deepcopy(model)
    return kept, best


@pytest.mark.parametrize("schedule", ["constant", "cosine"])
def test_seeds_at_once_are_seeds_one_by_one(schedule: str) -> None:
    recipe = NetworkRecipe(5, batch=10, learning_rate=1e-2, schedule=schedule)  # type: ignore[arg-type]
    train, validation = rows(35, 0), rows(20, 1)
    together = trained(SEEDS, recipe, train, validation)
    predictions = together.ensemble.predict(validation[0], rows=7)
    for i, seed in enumerate(SEEDS):
        alone, best = train_alone(
            seed, recipe, (train[0][i], train[1][i]), (validation[0][i], validation[1][i])
        )
        assert float(together.best_error[i]) == pytest.approx(best, rel=1e-4)
        torch.testing.assert_close(predictions[i], alone(validation[0][i]), rtol=1e-3, atol=1e-4)


def test_a_copy_does_not_depend_on_the_others() -> None:
    recipe = NetworkRecipe(3, batch=10)
    train, validation = rows(30, 0), rows(20, 1)
    together = trained(SEEDS, recipe, train, validation)
    last = trained(
        SEEDS[2:], recipe, (train[0][2:], train[1][2:]), (validation[0][2:], validation[1][2:])
    )
    torch.testing.assert_close(last.best_error, together.best_error[2:], rtol=1e-4, atol=0)


def test_the_same_seeds_give_the_same_weights_and_leave_the_global_seed_alone() -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state()
    recipe, train = NetworkRecipe(2, batch=10), rows(30, 0)
    first, second = (trained(SEEDS, recipe, train, train).ensemble for _ in range(2))
    for name, weight in first.parameters.items():
        assert torch.equal(weight, second.parameters[name])
    assert not torch.equal(*(first.parameters["head.coefficients"][i] for i in (0, 1)))
    # building a network draws its first weights as any torch module does; the copies' do not
    torch.set_rng_state(before)
    Ensemble(network(), SEEDS)
    once = torch.get_rng_state()
    torch.set_rng_state(before)
    network()
    assert torch.equal(once, torch.get_rng_state())


def test_the_best_weights_are_kept_not_the_last() -> None:
    train, validation = rows(20, 0), rows(200, 1)
    # a learning rate at which the weights run away
    training = trained(SEEDS, NetworkRecipe(30, batch=20, learning_rate=3.0), train, validation)
    with torch.no_grad():
        error = squared_error(training.ensemble(validation[0]), validation[1])
    torch.testing.assert_close(error, training.best_error)


def test_trainings_in_turn_are_trainings_one_after_the_other() -> None:
    train, validation = rows(30, 0), rows(20, 1)
    short, long = NetworkRecipe(1, batch=10), NetworkRecipe(4, batch=10)
    ensembles = [Ensemble(network(), SEEDS) for _ in range(2)]
    pair = [
        NetworkTraining(ensemble, train, validation, recipe, SEEDS)
        for ensemble, recipe in zip(ensembles, (short, long), strict=True)
    ]
    fit(pair)
    for training, recipe in zip(pair, (short, long), strict=True):
        assert training.done == training.steps
        alone = trained(SEEDS, recipe, train, validation)
        assert torch.equal(training.best_error, alone.best_error)


def test_rows_that_do_not_fill_a_batch_wait() -> None:
    assert NetworkRecipe(7, batch=500).steps(30) == 7
    assert NetworkRecipe(7, batch=500).steps(1499) == 14


def test_learning_rates() -> None:
    assert NetworkRecipe(1).rate(70, 100) == 3e-3
    cosine = NetworkRecipe(1, schedule="cosine")
    assert [cosine.rate(i, 100) for i in (0, 50)] == pytest.approx([3e-3, 1.5e-3])
    assert cosine.rate(99, 100) < 1e-6


def test_moves_act_as_the_symmetry_does() -> None:
    symmetry = inertia().symmetry
    moves = Moves(symmetry, pool=6, seed=0)
    g = symmetry.group.sample(6, generator=generator(0))
    x, y = inertia().draw(6, generator=1)
    moved = moves(x.float(), y.float(), torch.arange(6))
    torch.testing.assert_close(moved[0], symmetry.apply(g, x).float(), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(moved[1], symmetry.apply_out(g, y).float(), rtol=1e-4, atol=1e-4)


def test_augmented_training_sees_moved_rows() -> None:
    # one row, moved by every rotation, is enough to learn a length on its sphere
    symmetry = Symmetry(O(3), V, V)
    x = torch.tensor([[[1.0, 0.0, 0.0]]]).expand(1, 64, 3).contiguous()
    ensemble = Ensemble(MLP(3, 3, channels=32, layers=2), [0])
    probe = Augment(symmetry, generator=0).inputs(x[0]).unsqueeze(0)
    moves = Moves(symmetry, pool=512, seed=0)
    training = NetworkTraining(
        ensemble, (x, 2 * x), (probe, 2 * probe), NetworkRecipe(150), [0], moves=moves
    )
    fit([training])
    assert float(training.best_error) < 0.02


def test_median_interval() -> None:
    assert median_interval([4.0]) == (4.0, None)
    rng = np.random.default_rng(0)
    values = rng.normal(size=200).tolist()
    median, interval = median_interval(values)
    assert interval is not None
    low, high = interval
    assert low < median < high
    # for a normal distribution the median has a standard error of 1.2533 / sqrt(n)
    assert high - low == pytest.approx(2 * 1.96 * 1.2533 / 200**0.5, rel=0.4)


def test_mean_interval() -> None:
    mean, interval = mean_interval([1.0, 2.0, 6.0])
    assert mean == 3.0
    assert interval == pytest.approx((3 - 7**0.5, 3 + 7**0.5))
    assert mean_interval([4.0]) == (4.0, None)


def test_one_batch_out_of_range_does_not_end_a_training() -> None:
    train, validation = rows(20, 0), rows(20, 1)
    broken = train[0].clone()
    broken[1, 0] = 1e30  # overflows in the second copy, whenever its batch holds this row
    ensemble = Ensemble(network(), SEEDS)
    training = NetworkTraining(
        ensemble, (broken, train[1]), validation, NetworkRecipe(4, batch=5), SEEDS
    )
    fit([training])
    assert all(bool(weight.isfinite().all()) for weight in ensemble.parameters.values())
    whole = trained(SEEDS, NetworkRecipe(4, batch=5), train, validation)
    torch.testing.assert_close(training.best_error[[0, 2]], whole.best_error[[0, 2]])
