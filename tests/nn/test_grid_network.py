"""Networks of grids: equivariance, the published variant, starting from others."""

import pytest
import torch

from isotropy.groups import GRID_TRANSFORMATIONS, GridTransformation, grid_transformations
from isotropy.nn import GridNetwork


def hidden(network: GridNetwork, x: torch.Tensor) -> torch.Tensor:
    x = (x.flatten(1) - network.standard[0]) / network.standard[1]
    for number, layer in enumerate(network.layers):
        x = layer(x).relu() + (network.shifts[number] if network.published else 0)
    return x


@pytest.mark.parametrize("published", [False, True])
@pytest.mark.parametrize("name", GRID_TRANSFORMATIONS)
def test_hidden_layers_commute_with_each_group(name, published):
    torch.manual_seed(0)
    network = GridNetwork((2, 12, 12), [name], hidden=(8, 4), published=published).double()
    for parameter in network.parameters():  # biases begin at zero
        torch.nn.init.normal_(parameter)
    x = torch.randn(3, 2, 144, dtype=torch.float64)
    image, _, last = GridTransformation(name).permutations(12, 8, 4)
    moved, expected = torch.empty_like(x), torch.empty(3, 16, dtype=torch.float64)
    moved[..., image] = x
    expected[:, last] = hidden(network, x)
    torch.testing.assert_close(hidden(network, moved), expected)
    assert not torch.allclose(hidden(network, moved), hidden(network, x))  # moved, not invariant


def test_step_four_makes_the_first_layer_invariant():
    shift = GridTransformation("horizontal translation", 4)
    network = GridNetwork((1, 28, 28), [shift], published=True)
    weight = network.layers[0].weight.detach()
    assert len(torch.unique(weight, dim=0)) == 80
    image, _ = shift.permutations(28, 20)
    assert torch.equal(weight[:, image], weight)
    ours = GridNetwork((1, 28, 28), ["horizontal translation"]).layers[0].weight.detach()
    assert len(torch.unique(ours, dim=0)) == 400


@pytest.mark.parametrize("published", [False, True])
def test_a_start_is_the_nearest_network_with_the_symmetry(published):
    torch.manual_seed(0)
    free = GridNetwork((1, 8, 8), hidden=(4,), classes=3, published=published)
    turning = GridNetwork((1, 8, 8), ["rotation"], hidden=(4,), classes=3, published=published)
    turning.start_from(free.dense_weights())
    weight, start = free.layers[0].weight.detach(), turning.layers[0].weight.detach()
    powers = GridTransformation("rotation").powers(8, 4)
    mean = torch.stack([weight[out][:, into] for into, out in zip(*powers, strict=True)]).mean(0)
    torch.testing.assert_close(start, mean)
    assert torch.equal(turning.head.weight, free.head.weight)
    again = GridNetwork((1, 8, 8), ["rotation"], hidden=(4,), classes=3, published=published)
    again.start_from(turning.dense_weights())
    x = torch.randn(5, 64)
    torch.testing.assert_close(again(x), turning(x))
    with pytest.raises(ValueError, match="expected weights of shapes"):
        GridNetwork((1, 8, 8), hidden=(4,), classes=4, published=published).start_from(
            free.dense_weights()
        )


def test_counts_and_state_dict():
    groups = grid_transformations(["rotation", "vertical flip"])
    network = GridNetwork((3, 8, 8), groups, hidden=(4, 4), classes=5, standardise=(0.3, 2.0))
    again = GridNetwork((3, 8, 8), groups, hidden=(4, 4), classes=5)
    again.load_state_dict(network.state_dict())
    x = torch.rand(4, 3, 8, 8)
    torch.testing.assert_close(again(x), network(x))
    with pytest.raises(ValueError, match="at least one hidden grid"):
        GridNetwork((1, 8, 8), hidden=())
