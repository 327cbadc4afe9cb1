"""Learned augmentation against the laws it draws from, brute force, and tasks of known symmetry."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable
from itertools import permutations
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from isotropy.run import Step
from isotropy_papers.augerino import Augerino
from isotropy_papers.augmentations import Augmentation, LearnedPermutations, LearnedShifts
from isotropy_papers.fit_augerino import AugerinoOptions, fit_augerino
from isotropy_papers.gumbel_sinkhorn import gumbel, gumbel_sinkhorn, log_sinkhorn, matched, sinkhorn


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=seeded(seed))


# Sinkhorn


def test_sinkhorn_is_doubly_stochastic_and_only_rescales_rows_and_columns() -> None:
    log_alpha = normal(2, 5, 6, 6)
    found = sinkhorn(log_alpha, 300)
    for axis in (-1, -2):
        torch.testing.assert_close(found.sum(axis), torch.ones(2, 5, 6).double())
    scaling = found.log() - log_alpha  # u_i + v_j, so all its mixed differences vanish
    mixed = scaling - scaling[..., :1, :] - scaling[..., :, :1] + scaling[..., :1, :1]
    torch.testing.assert_close(mixed, torch.zeros_like(mixed), atol=1e-10, rtol=0)


def test_sinkhorn_of_two_positions_is_what_the_closed_form_gives() -> None:
    (a, b), (c, d) = log_alpha = normal(2, 2)
    stays = torch.sigmoid((a + d - b - c) / 2)
    expected = torch.stack([stays, 1 - stays, 1 - stays, stays]).reshape(2, 2)
    torch.testing.assert_close(sinkhorn(log_alpha, 50), expected)


def test_rows_sum_to_one_after_a_single_iteration() -> None:
    found = sinkhorn(10 * normal(4, 4), 1)
    torch.testing.assert_close(found.sum(-1), torch.ones(4).double())
    assert (found.sum(-2) - 1).abs().max() > 1e-3


def test_sinkhorn_in_logarithms_neither_overflows_nor_loses_small_entries() -> None:
    log_alpha = torch.tensor([[2000.0, 0.0], [0.0, 2000.0]])
    torch.testing.assert_close(sinkhorn(log_alpha), torch.eye(2))
    assert float(log_sinkhorn(log_alpha)[0, 1]) == -2000


def test_sinkhorn_has_the_gradient_of_finite_differences() -> None:
    log_alpha = normal(3, 3).requires_grad_()
    assert torch.autograd.gradcheck(lambda z: sinkhorn(z, 5), log_alpha)


# Gumbel-Sinkhorn


def test_low_temperature_draws_are_the_permutations_that_match_the_same_noise() -> None:
    log_alpha = normal(4, 4).float()
    drawn = gumbel_sinkhorn(log_alpha, 200, temperature=0.02, iterations=3000, generator=3)
    noisy = log_alpha + gumbel((200, 4, 4), seeded(3))
    expected = nn.functional.one_hot(matched(noisy), 4).float()
    far = (drawn - expected).abs().amax((-1, -2)) > 0.05
    assert far.float().mean() < 0.15  # near ties stay soft at any temperature above zero
    warm = gumbel_sinkhorn(log_alpha, 200, temperature=1.0, iterations=3000, generator=3)
    assert (warm - expected).abs().mean() > 5 * (drawn - expected).abs().mean()


def test_two_positions_swap_as_often_as_the_sum_of_two_logistic_variables_says() -> None:
    log_alpha = torch.tensor([[0.5, 0.0], [0.3, 1.0]])
    n = 20_000
    drawn = gumbel_sinkhorn(log_alpha, n, temperature=0.1, iterations=50, generator=0)
    share = float((drawn[:, 0, 0] > 0.5).float().mean())
    gap = 1.2  # P(L1 + L2 < d) = z(z − 1 − d)/(z − 1)² with z = e^d
    z = math.exp(gap)
    expected = z * (z - 1 - gap) / (z - 1) ** 2
    assert abs(share - expected) < 4 * math.sqrt(expected * (1 - expected) / n)


def test_three_positions_follow_the_law_of_the_largest_perturbed_sum() -> None:
    log_alpha = np.array([[1.0, 0.0, -0.5], [0.0, 0.5, 0.0], [0.3, 0.0, 0.0]])
    n = 10_000
    noise = np.random.default_rng(0).gumbel(size=(n, 3, 3))
    all_of_them = np.array(list(permutations(range(3))))
    sums = (log_alpha + noise)[:, np.arange(3), all_of_them].sum(-1)
    expected = np.bincount(sums.argmax(1), minlength=6)
    drawn = gumbel_sinkhorn(
        torch.tensor(log_alpha), n, temperature=0.1, iterations=200, generator=0
    )
    indices = matched(drawn.log().clamp_min(-1e6)).numpy()
    which = (indices[:, None] == all_of_them).all(-1).argmax(1)
    found = np.bincount(which, minlength=6)
    chi_squared = float(((found - expected) ** 2 / (found + expected)).sum())
    assert chi_squared < 20.5  # 5 degrees of freedom, p = 0.001
    assert expected.max() > 2 * expected.min()  # not uniform, or the test would be blind


def test_the_gradient_of_a_draw_points_towards_what_is_rewarded() -> None:
    log_alpha = torch.zeros(4, 4, requires_grad=True)
    drawn = gumbel_sinkhorn(log_alpha, 2000, temperature=0.5, generator=0)
    drawn.mean(0).diagonal().sum().backward()
    slope = log_alpha.grad
    assert slope is not None
    assert slope.diagonal().min() > 0.02
    assert slope[~torch.eye(4, dtype=torch.bool)].max() < 0


def test_draws_repeat_with_their_seed_in_every_batch_shape() -> None:
    log_alpha = torch.zeros(2, 3, 3)
    first, again, other = (gumbel_sinkhorn(log_alpha, 5, generator=s) for s in (0, 0, 1))
    assert first.shape == (5, 2, 3, 3)
    assert torch.equal(first, again)
    assert not torch.allclose(first, other)
    assert len({tuple(m.flatten().tolist()) for m in first.flatten(0, 1)}) == 10


def test_matched_is_what_brute_force_finds() -> None:
    scores = normal(3, 2, 5, 5)
    found = matched(scores)
    best = torch.stack(
        [scores[..., range(5), list(p)].sum(-1) for p in permutations(range(5))]
    ).amax(0)
    torch.testing.assert_close(scores.gather(-1, found[..., None]).sum((-1, -2)), best)
    assert found.shape == (3, 2, 5)
    assert matched(torch.empty(0, 4, 4)).shape == (0, 4)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: sinkhorn(torch.zeros(2, 3)), r"expected square matrices.*got shape \(2, 3\)"),
        (lambda: sinkhorn(torch.zeros(3)), r"expected square matrices.*got shape \(3,\)"),
        (lambda: sinkhorn(torch.zeros(2, 2), 0), r"expected at least one iteration, got 0"),
        (lambda: gumbel_sinkhorn(torch.zeros(2, 2), 0), r"expected at least one sample, got 0"),
        (
            lambda: gumbel_sinkhorn(torch.zeros(2, 2), 1, temperature=0.0),
            r"expected a positive temperature, got 0\.0",
        ),
        (lambda: matched(torch.zeros(1, 2)), r"expected square matrices.*got shape \(1, 2\)"),
        (
            lambda: matched(torch.full((2, 2), math.nan)),
            r"expected finite entries to match, got infinite ones or NaN",
        ),
    ],
)
def test_what_sinkhorn_cannot_take_is_refused(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


# Augmentations


def hard_permutations(n: int, order: list[int], **options: Any) -> LearnedPermutations:
    """A law so narrow that it always draws one permutation."""
    permute = LearnedPermutations(n, generator=0, **options)
    with torch.no_grad():
        permute.log_alpha.copy_(100 * torch.eye(n)[order])
    return permute


@pytest.mark.parametrize(("axis", "shape"), [(1, (5, 3)), (1, (5, 3, 2, 4)), (-1, (5, 2, 3))])
@pytest.mark.parametrize("training", [True, False])
def test_a_narrow_law_permutes_positions_along_its_axis_and_back(
    axis: int, shape: tuple[int, ...], training: bool
) -> None:
    permute = hard_permutations(3, [2, 0, 1], axis=axis).train(training)
    x = normal(*shape)
    moved = permute(x)
    order = torch.tensor([2, 0, 1])
    torch.testing.assert_close(moved, x.index_select(axis, order), atol=1e-6, rtol=0)
    drawn = permute.draw(1, 5)
    torch.testing.assert_close(permute.undo(moved[None], drawn)[0], x, atol=1e-6, rtol=0)


def test_breadth_of_permutations_is_the_entropy_of_their_matrix() -> None:
    permute = LearnedPermutations(6, generator=0)
    assert permute.log_alpha.abs().max() <= 0.1
    assert len(permute.log_alpha.unique()) == 36
    with torch.no_grad():
        permute.log_alpha.zero_()
        assert float(permute.breadth()) == pytest.approx(math.log(6))
        permute.log_alpha.copy_(-1e4 * (1 - torch.eye(6)[[1, 0, 2, 4, 5, 3]]))
        assert float(permute.breadth()) == 0
        even = torch.arange(6) % 2 == 0
        permute.log_alpha.copy_(-1e4 * (even[:, None] != even).float())
        assert float(permute.breadth()) == pytest.approx(math.log(3))


@pytest.mark.parametrize(("axis", "shape"), [(-1, (4, 7)), (-1, (4, 2, 7)), (1, (4, 7, 2))])
@pytest.mark.parametrize("boundary", ["periodic", "zeros"])
def test_linear_shifts_are_what_numpy_interpolates(
    axis: int, shape: tuple[int, ...], boundary: str
) -> None:
    shifts = LearnedShifts(7, axis=axis, width=9.0, boundary=boundary, generator=0)  # type: ignore[arg-type]
    x = normal(*shape)
    drawn = shifts.draw(3, 4)
    moved = shifts.move(x[None], drawn)
    assert drawn.abs().max() > 7  # beyond both ends
    places = np.arange(7)
    for sample, row in np.ndindex(3, 4):
        signals = x[row].movedim(axis if axis < 0 else axis - 1, -1).reshape(-1, 7).numpy()
        found = moved[sample, row].movedim(axis if axis < 0 else axis - 1, -1).reshape(-1, 7)
        at = places - float(drawn[sample, row].detach())
        for signal, got in zip(signals, found.detach().numpy(), strict=True):
            if boundary == "periodic":
                expected = np.interp(at, places, signal, period=7)
            else:
                padded = np.concatenate([[0], signal, [0]])
                expected = np.interp(at, np.arange(-1, 8), padded, left=0, right=0)
            np.testing.assert_allclose(got, expected, atol=1e-5)


def test_fourier_shifts_move_waves_exactly_and_are_undone() -> None:
    shifts = LearnedShifts(9, width=3.0, interpolation="fourier", generator=0).double()
    angle = 2 * torch.pi / 9 * torch.arange(9).double()
    x = torch.stack([torch.cos(2 * angle), torch.sin(angle)])
    drawn = shifts.draw(5, 2)
    moved = shifts.move(x[None], drawn)
    turned = angle - 2 * torch.pi / 9 * drawn[..., None]
    expected = torch.stack([torch.cos(2 * turned[:, 0]), torch.sin(turned[:, 1])], 1)
    torch.testing.assert_close(moved, expected)
    torch.testing.assert_close(shifts.undo(moved, drawn), x.expand(5, 2, 9))


@pytest.mark.parametrize(
    "rules", [("periodic", "linear"), ("periodic", "fourier"), ("zeros", "linear")]
)
def test_shifts_have_the_gradient_of_finite_differences(rules: tuple[Any, Any]) -> None:
    shifts = LearnedShifts(6, boundary=rules[0], interpolation=rules[1], generator=0)
    drawn = torch.tensor([[0.3, -1.7], [4.4, 0.6]]).double().requires_grad_()
    x = normal(1, 2, 6).requires_grad_()
    assert torch.autograd.gradcheck(shifts.move, (x, drawn))


def test_shifts_are_uniform_up_to_the_width_and_the_width_is_what_was_asked_for() -> None:
    shifts = LearnedShifts(8, width=2.5, generator=0)
    assert float(shifts.width.detach()) == pytest.approx(2.5)
    assert float(LearnedShifts(8, width=1e-4).width.detach()) == pytest.approx(1e-4)
    assert float(LearnedShifts(8, width=50.0).breadth().detach()) == 4
    drawn = shifts.draw(1, 4000).detach().flatten().sort().values
    uniform = torch.linspace(-2.5, 2.5, 4000)
    assert (drawn - uniform).abs().max() / 5 < 1.95 / math.sqrt(4000)  # Kolmogorov, p = 0.001


AUGMENTATIONS: list[Callable[[], Augmentation]] = [
    lambda: LearnedPermutations(4, generator=0),
    lambda: LearnedShifts(4, generator=0),
]


@pytest.mark.parametrize("make", AUGMENTATIONS)
def test_rows_differ_in_training_and_agree_in_evaluation(make: Callable[[], Augmentation]) -> None:
    augment = make()
    x = torch.arange(4.0).expand(6, 4)
    assert len(torch.unique(augment(x), dim=0)) == 6
    assert not torch.equal(augment(x), augment(x))
    augment.eval()
    assert len(torch.unique(augment(x), dim=0)) == 1
    assert torch.equal(augment(x), augment(x))
    before = augment(x)
    augment.evaluation_seed = 1
    assert not torch.equal(augment(x), before)


@pytest.mark.parametrize("make", AUGMENTATIONS)
def test_copies_and_pickles_go_on_with_the_same_draws(make: Callable[[], Augmentation]) -> None:
    model = Augerino(nn.Linear(4, 1), make())
    model(torch.ones(2, 4))
    x = normal(3, 4).float()
    copies = [copy.deepcopy(model), pickle.loads(pickle.dumps(model))]
    expected = model(x)
    for other in copies:
        torch.testing.assert_close(other(x), expected)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: LearnedPermutations(0), r"expected at least one position, got 0"),
        (lambda: LearnedPermutations(2, axis=0), r"expected an axis other than 0"),
        (
            lambda: LearnedPermutations(2, temperature=-1.0),
            r"expected a positive temperature, got -1\.0",
        ),
        (lambda: LearnedPermutations(2, iterations=0), r"expected at least one iteration, got 0"),
        (
            lambda: LearnedPermutations(3)(torch.zeros(5, 4)),
            r"expected rows with an axis 1 of width 3, got shape \(5, 4\)",
        ),
        (
            lambda: LearnedPermutations(3)(torch.zeros(3)),
            r"expected rows with an axis 1 of width 3, got shape \(3,\)",
        ),
        (lambda: LearnedShifts(0), r"expected at least one sample in a signal, got 0"),
        (lambda: LearnedShifts(4, width=0.0), r"expected a positive width, got 0\.0"),
        (
            lambda: LearnedShifts(4, boundary="mirror"),  # type: ignore[arg-type]
            r"expected the boundary periodic or zeros, got 'mirror'",
        ),
        (
            lambda: LearnedShifts(4, interpolation="cubic"),  # type: ignore[arg-type]
            r"expected the interpolation linear or fourier, got 'cubic'",
        ),
        (
            lambda: LearnedShifts(4, boundary="zeros", interpolation="fourier"),
            r"expected a periodic boundary with fourier interpolation, got zeros",
        ),
        (
            lambda: LearnedShifts(4)(torch.zeros(2, 5)),
            r"expected rows with an axis -1 of width 4, got shape \(2, 5\)",
        ),
        (
            lambda: Augerino(lambda x: x[:, 0, 0], LearnedShifts(4), equivariant=True)(
                torch.zeros(2, 1, 4)
            ),
            r"expected rows with an axis -1, got shape \(2,\)",
        ),
        (
            lambda: Augerino(nn.Linear(4, 1), LearnedShifts(4), samples=0),
            r"expected at least one sample, got 0",
        ),
        (
            lambda: Augerino(lambda x: x.sum(0), LearnedShifts(4))(torch.zeros(2, 4)),
            r"expected one output for each of 6 rows, got shape \(4,\)",
        ),
    ],
)
def test_what_augmentation_cannot_take_is_refused(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_wrong_types_are_refused() -> None:
    with pytest.raises(TypeError, match=r"expected an augmentation, got Linear"):
        Augerino(nn.Linear(2, 2), nn.Linear(2, 2))  # type: ignore[arg-type]
    model = Augerino(nn.Linear(2, 2), LearnedPermutations(2))
    with pytest.raises(TypeError, match=r"expected floating-point features.*got torch\.int64"):
        model(torch.ones(3, 2, dtype=torch.int64))


# Predictions


def network(n: int, out: int) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(n, 8), nn.Tanh(), nn.Linear(8, out))


@pytest.mark.parametrize("compound", [False, True])
@pytest.mark.parametrize("equivariant", [False, True])
@pytest.mark.parametrize("make", AUGMENTATIONS)
def test_a_prediction_is_the_mean_over_moves_made_one_by_one(
    make: Callable[[], Augmentation], equivariant: bool, compound: bool
) -> None:
    augment = make().eval()
    f = network(4, 4)
    x = normal(5, 4).float()
    model = Augerino(f, augment, samples=3, equivariant=equivariant, compound=compound).eval()
    drawn = augment.draw(3, 5)
    total = torch.zeros(5, 4)
    for i in range(3):
        used = list(range(i + 1)) if compound else [i]
        moved = x[None]
        for j in used:
            moved = augment.move(moved, drawn[j : j + 1])
        y = f(moved[0])[None]
        for j in reversed(used if equivariant else []):
            y = augment.undo(y, drawn[j : j + 1])
        total = total + y[0]
    torch.testing.assert_close(model(x), total / 3)


def test_an_equivariant_model_is_left_as_it_is_and_an_invariant_one_too() -> None:
    def derivative(x: Tensor) -> Tensor:
        return x.roll(1, -1) - x

    x = normal(5, 9)
    fourier = LearnedShifts(9, width=4.0, interpolation="fourier", generator=0).double()
    moved_back = Augerino(derivative, fourier, equivariant=True)
    torch.testing.assert_close(moved_back(x), derivative(x))
    left_there = Augerino(derivative, fourier)
    assert (left_there(x) - derivative(x)).abs().max() > 0.1
    hard = LearnedPermutations(9, temperature=0.1, iterations=500, generator=0).double()
    total = Augerino(lambda x: x.sum(-1), hard)
    torch.testing.assert_close(total(x), x.sum(-1), atol=0.02, rtol=0)


def test_tokens_are_permuted_after_their_embedding() -> None:
    embed = nn.Embedding(10, 6)
    head = nn.Sequential(nn.Flatten(), nn.Linear(3 * 6, 1))
    model = Augerino(head, hard_permutations(3, [1, 2, 0]), encoder=embed)
    tokens = torch.tensor([[1, 2, 3], [7, 7, 9]])
    torch.testing.assert_close(model(tokens), head(embed(tokens[:, [1, 2, 0]])))


def test_a_prediction_does_not_depend_on_the_rows_beside_it() -> None:
    model = Augerino(network(4, 2), LearnedPermutations(4, generator=0)).eval()
    x = normal(7, 4).float()
    torch.testing.assert_close(model(x)[3:4], model(x[3:4]))


def test_it_works_as_a_function_of_its_parameters_and_under_vmap() -> None:
    model = Augerino(network(4, 1), LearnedPermutations(4, generator=0)).eval()
    x = normal(6, 4).float()
    parameters = {k: torch.stack([v, 2 * v]).detach() for k, v in model.named_parameters()}

    def predict(parameters: dict[str, Tensor]) -> Tensor:
        return torch.func.functional_call(model, parameters, (x,))

    together = torch.func.vmap(predict, randomness="same")(parameters)
    for i in range(2):
        alone = predict({k: v[i] for k, v in parameters.items()})
        torch.testing.assert_close(together[i], alone, atol=1e-5, rtol=1e-5)


# Training


def positions_task(signed: bool, seed: int, n: int = 4) -> tuple[Tensor, Tensor]:
    x = torch.randn(200, n, generator=seeded(seed))
    weights = torch.ones(n)
    weights[::2] = -1 if signed else 1
    return x, (x @ weights)[:, None]


def learned_law(signed: bool, epochs: int = 250) -> tuple[Augerino, Tensor]:
    permute = LearnedPermutations(4, generator=0)
    with torch.no_grad():
        permute.log_alpha.add_(3 * torch.eye(4))  # nearly no augmentation at first
    torch.manual_seed(0)
    model = Augerino(nn.Linear(4, 1), permute)
    fit_augerino(
        model,
        *positions_task(signed, 1),
        validation=positions_task(signed, 2),
        breadth_weight=0.1,
        learning_rate=0.03,
        epochs=epochs,
        seed=0,
    )
    return model, sinkhorn(permute.log_alpha.detach())


def test_permutations_end_broad_where_the_task_is_a_sum() -> None:
    model, law = learned_law(signed=False)
    torch.testing.assert_close(law, torch.full((4, 4), 0.25), atol=0.05, rtol=0)
    weights = model.get_parameter("model.weight").detach()
    torch.testing.assert_close(weights, torch.ones(1, 4), atol=0.1, rtol=0)


def test_permutations_stay_within_even_and_odd_positions_of_a_signed_sum() -> None:
    _, law = learned_law(signed=True)
    parity = torch.arange(4) % 2
    same = parity[:, None] == parity
    torch.testing.assert_close(law[same], torch.full((8,), 0.5), atol=0.15, rtol=0)
    assert law[~same].max() < 0.05


def test_the_law_has_a_gradient_at_the_first_step_and_moves() -> None:
    permute = LearnedPermutations(4, generator=0)
    torch.manual_seed(0)
    model = Augerino(nn.Linear(4, 1), permute)
    before = permute.log_alpha.detach().clone()
    x, y = positions_task(True, 1)
    nn.functional.mse_loss(model(x), y).backward()  # without any reward for breadth
    slope = permute.log_alpha.grad
    assert slope is not None
    assert slope.abs().min() > 0
    fit_augerino(model, x, y, breadth_weight=0.0, learning_rate=0.03, epochs=20, seed=0)
    assert (permute.log_alpha.detach() - before).abs().min() > 1e-3


def shift_task(kind: str, seed: int, n: int = 8) -> tuple[Tensor, Tensor]:
    x = torch.randn(200, n, generator=seeded(seed))
    targets = {
        "sum": x.sum(1, keepdim=True),
        "two places": x[:, :1] - x[:, 4:5],
        "correlation": x + 0.5 * x.roll(-1, 1) - 0.5 * x.roll(-2, 1),
        "half negated": x * (1 - 2 * (torch.arange(n) < n / 2).float()),
    }
    return x, targets[kind]


@pytest.mark.parametrize(
    ("kind", "boundary", "interpolation", "grows"),
    [
        ("sum", "periodic", "linear", True),
        ("correlation", "periodic", "fourier", True),
        ("two places", "periodic", "linear", False),
        ("half negated", "periodic", "fourier", False),
        # what is pushed over the edge is lost, so even a symmetric task learns not to shift
        ("sum", "zeros", "linear", False),
        ("correlation", "zeros", "linear", False),
    ],
)
def test_the_width_of_shifts_grows_only_where_the_task_has_them(
    kind: str, boundary: Any, interpolation: Any, grows: bool
) -> None:
    shifts = LearnedShifts(
        8, width=0.5, boundary=boundary, interpolation=interpolation, generator=0
    )
    train, held = shift_task(kind, 1), shift_task(kind, 2)
    torch.manual_seed(0)
    model = Augerino(nn.Linear(8, train[1].shape[1]), shifts, equivariant=train[1].shape[1] > 1)
    fit_augerino(
        model, *train, validation=held, breadth_weight=0.02, learning_rate=0.03, epochs=200, seed=0
    )
    width = float(shifts.width.detach())
    assert width > 1.5 if grows else width < 0.35


def small_fit(**options: Any) -> Any:
    torch.manual_seed(0)
    model = Augerino(nn.Linear(4, 1), LearnedPermutations(4, generator=0))
    settings = {"validation": positions_task(False, 2), "learning_rate": 0.05, "seed": 0}
    return fit_augerino(model, *positions_task(False, 1), **(settings | options))


def test_the_best_epoch_is_kept_and_its_score_can_be_computed_again() -> None:
    options = {"epochs": 60, "breadth_weight": 0.05, "learning_rate": 0.5}
    fit = small_fit(**options)
    assert fit.score == min(fit.scores) == fit.scores[fit.epoch]
    assert fit.scores[-1] > fit.score + 1e-4  # the last epoch is not the best
    assert len(fit.scores) == 61
    assert not fit.model.training
    x, y = positions_task(False, 2)
    with torch.no_grad():
        again = nn.functional.mse_loss(fit.model(x), y) - 0.05 * fit.model.breadth()
    assert float(again) == pytest.approx(fit.score, abs=1e-6)
    assert small_fit(**options).scores == fit.scores
    assert small_fit(**options, seed=1).scores != fit.scores


def test_it_stops_after_its_patience_and_a_fit_without_steps_changes_nothing() -> None:
    fit = small_fit(epochs=500, learning_rate=3.0, options=AugerinoOptions(patience=5))
    assert len(fit.scores) - 1 == fit.epoch + 5 < 500
    assert small_fit(epochs=0).epoch == 0


def test_stopped_from_the_keyboard_it_keeps_the_best_epoch_and_says_so() -> None:
    steps: list[Step] = []

    def stop_at_ten(step: Step) -> None:
        steps.append(step)
        if step.done == 10:
            raise KeyboardInterrupt

    fit = small_fit(epochs=100, progress=stop_at_ten)
    whole = small_fit(epochs=10)
    assert fit.interrupted
    assert not whole.interrupted
    assert [step.done for step in steps] == list(range(1, 11))
    assert steps[0].total == 100
    assert fit.scores == whole.scores
    for name, value in whole.model.state_dict().items():
        assert torch.equal(fit.model.state_dict()[name], value)


def test_weight_decay_leaves_the_law_alone() -> None:
    def law_and_weights(decay: float) -> tuple[Tensor, Tensor]:
        shifts = LearnedShifts(4, width=3.0, generator=0)
        model = Augerino(nn.Linear(4, 1), shifts)
        with torch.no_grad():
            model.get_parameter("model.weight").fill_(1.0)
        x = torch.zeros(5, 4)  # nothing to learn: only decay moves what it acts on
        y = model(x).detach()

        def loss(p: Tensor, t: Tensor) -> Tensor:
            return (p - t).square().mean() + model.get_parameter("model.weight").sum()

        fit_augerino(
            model,
            x,
            y,
            breadth_weight=0.0,
            learning_rate=1e-2,
            epochs=5,
            options=AugerinoOptions(loss, weight_decay=decay),
        )
        return shifts.raw_width.detach(), model.get_parameter("model.weight").detach()

    (law, weights), (same, decayed) = law_and_weights(0.0), law_and_weights(10.0)
    assert torch.equal(law, same)
    assert (decayed < weights - 0.1).all()


def test_classes_are_targets_too() -> None:
    x = torch.randn(60, 3, generator=seeded())
    y = (x.sum(1) > 0).long()
    torch.manual_seed(0)
    model = Augerino(nn.Linear(3, 2), LearnedPermutations(3, generator=0))
    options = AugerinoOptions(loss=nn.functional.cross_entropy)
    fit = fit_augerino(model, x, y, learning_rate=0.1, epochs=60, options=options, seed=0)
    assert float((fit.model(x).argmax(1) == y).float().mean()) > 0.9


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"y": torch.zeros(4, 1)}, r"expected as many targets as rows.*got 4 and 5"),
        ({"x": torch.zeros(0, 2), "y": torch.zeros(0, 1)}, r"at least one, got 0 and 0"),
        ({"x": torch.full((5, 2), math.nan)}, r"expected finite inputs, got infinite ones or NaN"),
        ({"y": torch.full((5, 1), math.inf)}, r"expected finite targets, got infinite ones or NaN"),
        (
            {"y": torch.zeros(5)},
            r"expected targets of the shape of predictions, \('rows', 1\), got shape \(5,\)",
        ),
        (
            {"validation": (torch.zeros(5, 2), torch.zeros(5, 2))},
            r"expected targets of the shape of predictions, \('rows', 1\), got shape \(5, 2\)",
        ),
        ({"epochs": -1}, r"expected no fewer than zero epochs, got -1"),
    ],
)
def test_what_a_fit_cannot_take_is_refused(options: dict[str, Any], message: str) -> None:
    model = Augerino(nn.Linear(2, 1), LearnedPermutations(2, generator=0))
    given = {"x": torch.zeros(5, 2), "y": torch.zeros(5, 1)} | options
    with pytest.raises(ValueError, match=message):
        fit_augerino(model, **given)


def test_a_patience_below_one_epoch_is_refused() -> None:
    with pytest.raises(ValueError, match=r"expected a patience of at least one epoch or None"):
        AugerinoOptions(patience=0)


def test_keywords_of_a_fit_that_became_options_work_and_warn() -> None:
    with pytest.warns(DeprecationWarning, match=r"fit_augerino\(patience=…\) is now .*options="):
        old = small_fit(epochs=50, learning_rate=3.0, patience=5)
    new = small_fit(epochs=50, learning_rate=3.0, options=AugerinoOptions(patience=5))
    assert old.scores == new.scores
