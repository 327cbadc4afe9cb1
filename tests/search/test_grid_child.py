"""The usual child of a search."""

import pytest
import torch

from isotropy.search import GridChild, SearchSpace, State, Training

SPACE = SearchSpace((1, 8, 8), ("rotation", "vertical flip"), ((4,),))


def rows(n: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """One of two patterns, upside down or not, under noise."""
    draw = torch.Generator().manual_seed(seed)
    pattern = torch.randn(2, 1, 8, 8, generator=torch.Generator().manual_seed(9))
    y = torch.randint(2, (n,), generator=draw)
    x = torch.where(torch.rand(n, 1, 1, 1, generator=draw) < 0.5, pattern[y].flip(2), pattern[y])
    return x + torch.randn(x.shape, generator=draw), y


def test_the_same_state_and_seed_give_the_same_result_whatever_came_before():
    child = GridChild(SPACE, rows(200), rows(100, 1), Training(3))
    state = State(("vertical flip",))
    first = child(state, seed=5)
    torch.manual_seed(123)
    child(State(), seed=6)
    again = GridChild(SPACE, rows(200), rows(100, 1), Training(3))(state, seed=5)
    assert first.accuracy == again.accuracy > 0.5
    for name, value in first.weights.items():
        assert torch.equal(value, again.weights[name])
    other = child(state, seed=7)
    assert not torch.equal(first.weights["head.weight"], other.weights["head.weight"])


def test_one_epoch_after_another_is_counted_and_a_start_is_gone_on_from():
    child = GridChild(SPACE, rows(200), rows(100, 1), Training(6))
    short = child(State(), seed=0, epochs=1)
    assert short.epochs == 1
    assert child.usual_epochs == child(State(), seed=0).epochs == 6
    network, accuracies = child.fit(State(), seed=0, epochs=1, start=short.weights)
    assert len(accuracies) == 1
    moved = network.dense_weights()["head.weight"] - short.weights["head.weight"]
    assert 0 < moved.abs().max() < 0.2  # a few steps from the start, not drawn anew


def test_the_published_way_takes_the_best_epoch():
    x, y = rows(200)
    noisy = x + 6 * torch.randn(x.shape, generator=torch.Generator().manual_seed(4)), y
    child = GridChild(SPACE, noisy, rows(100, 1), Training(8, rate=0.05, published=True))
    trained = child(State(), seed=3)
    _, accuracies = child.fit(State(), seed=3)
    assert trained.accuracy == max(accuracies) > min(accuracies)


def test_a_fingerprint_changes_with_data_and_options():
    prints = {
        GridChild(SPACE, rows(20, data), rows(10, 2), Training(epochs)).fingerprint()
        for data in (0, 1)
        for epochs in (2, 3)
    }
    assert len(prints) == 4


@pytest.mark.parametrize(
    ("shape", "labels"), [((5, 1, 8, 7), 5), ((5, 8, 8), 5), ((5, 1, 8, 8), 4), ((0, 1, 8, 8), 0)]
)
def test_images_of_another_size_are_refused(shape, labels):
    wrong = torch.zeros(shape), torch.zeros(labels, dtype=torch.long)
    with pytest.raises(ValueError, match=r"expected training images of shape \(n, 1, 8, 8\)"):
        GridChild(SPACE, wrong, rows(5))
    with pytest.raises(ValueError, match="expected validation images"):
        GridChild(SPACE, rows(5), wrong)


@pytest.mark.parametrize("options", [{"epochs": 0}, {"batch": 0}, {"rate": -1.0}])
def test_numbers_of_a_training_are_positive(options):
    with pytest.raises(ValueError, match="above 0, got"):
        Training(**options)
