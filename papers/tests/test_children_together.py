"""Children trained in one batch against the same children trained one by one."""

from __future__ import annotations

import pytest
import torch

from isotropy.nn import GridNetwork
from isotropy.search import SearchSpace, State, Training
from isotropy_papers.children_together import ChildrenTogether, Weights

SPACE = SearchSpace((2, 8, 8), ("rotation", "horizontal flip", "left vertical scramble"), ((4, 4),))
ROWS = torch.rand(90, 2, 8, 8, generator=torch.Generator().manual_seed(0))
CLASSES = torch.arange(90) % 3


def alone(children: ChildrenTogether, weights: Weights, number: int) -> GridNetwork:
    """The network of one child with the weights that it has in the batch."""
    state = children.networks[number]
    network = GridNetwork(
        SPACE.image,
        SPACE.transformations(state),
        hidden=SPACE.hidden[0],
        classes=3,
        published=children.training.published,
    )
    dense = {}
    for layer in range(2):
        labels = children._labels[layer].reshape(len(children.networks), -1)[number]
        places = children._bias_labels[layer].reshape(len(children.networks), -1)[number]
        shape = network.layers[layer].weight.shape
        dense[f"layers.{layer}.weight"] = weights.layers[layer][labels].reshape(shape).detach()
        bias = weights.biases[layer][places].detach()
        dense[f"layers.{layer}.bias"] = bias[0] if children.training.published else bias
    dense["head.weight"] = weights.head[number].T.detach()
    dense["head.bias"] = weights.head_bias[number, 0].detach()
    return network.start_from(dense)


@pytest.mark.parametrize("published", [False, True])
def test_a_batch_learns_what_each_child_learns_alone(published: bool) -> None:
    states = tuple(SPACE.states())
    children = ChildrenTogether(SPACE, states, 3, Training(2, 32, published=published))
    weights = children.drawn(7)
    x = ROWS.flatten(1)
    networks = [alone(children, weights, number) for number in range(len(states))]
    said = children.logits(weights, x)
    for network, logits in zip(networks, said, strict=True):
        torch.testing.assert_close(network(x), logits)
    list(children.epochs(weights, (x, CLASSES), seed=5))
    for number, network in enumerate(networks):
        rng = torch.Generator().manual_seed(5)
        order = torch.randperm(len(x), generator=rng)
        solver = torch.optim.Adam(network.parameters(), 1e-3)
        for epoch in range(2):
            if epoch and not published:
                order = torch.randperm(len(x), generator=rng)
            for rows in order.split(32):
                solver.zero_grad()
                torch.nn.functional.cross_entropy(network(x[rows]), CLASSES[rows]).backward()
                solver.step()
        torch.testing.assert_close(
            network(x), children.logits(weights, x)[number], rtol=1e-3, atol=1e-4
        )


def test_parameters_are_those_of_the_networks() -> None:
    states = tuple(SPACE.states())
    children = ChildrenTogether(SPACE, states, 3)
    alone_counts = [
        sum(p.numel() for p in alone(children, children.drawn(0), k).parameters())
        for k in range(len(states))
    ]
    assert children.parameters().tolist() == alone_counts
    assert len(set(alone_counts)) > 3


def test_children_start_from_averages_of_their_parents() -> None:
    states = tuple(SPACE.states())
    parents = ChildrenTogether(SPACE, states, 3)
    weights = parents.drawn(1)
    joined = SPACE.state("rotation", "left vertical scramble")
    children = ChildrenTogether(SPACE, (joined, states[0]), 3)
    which = torch.tensor([states.index(State(("rotation",))), 0])
    started = children.started_from(weights, parents, which)
    for number in range(2):
        expected = GridNetwork(
            SPACE.image, SPACE.transformations(children.networks[number]), hidden=(4, 4), classes=3
        )
        expected.start_from(alone(parents, weights, int(which[number])).dense_weights())
        found = alone(children, started, number)
        for mine, theirs in zip(found.parameters(), expected.parameters(), strict=True):
            torch.testing.assert_close(mine, theirs)


def test_states_of_different_widths_are_refused() -> None:
    space = SearchSpace((1, 8, 8), ("rotation",), ((4,), (2,)))
    with pytest.raises(ValueError, match="same hidden grids"):
        ChildrenTogether(space, (State((), 0), State((), 1)), 2)
