"""Spaces of sets of groups."""

import pytest

from isotropy.groups import GRID_TRANSFORMATIONS
from isotropy.nn import GridNetwork
from isotropy.search import SearchSpace, State


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (((28, 28),), r"an image as \(channels, height, width\), got \(28, 28\)"),
        (((1, 8, 8), (), (4, 4)), r"choices of hidden grids, .*, got \(4, 4\)"),
        (((1, 8, 8), (), ()), r"choices of hidden grids, .*, got \(\)"),
        (((1, 8, 8), ("spin",)), "a transformation among rotation, .*, got 'spin'"),
        (((1, 8, 6), ("rotation",)), "rotation: expected square grids, got 8 by 6"),
        (((1, 7, 7), ("vertical scramble",)), "grids of even height, got 7 by 7"),
        (((1, 8, 8), ("vertical translation",), ((3,),)), "a common divisor above 1"),
    ],
)
def test_what_does_not_act_is_refused(arguments, said):
    with pytest.raises(ValueError, match=f"expected {said}|{said}"):
        SearchSpace(*arguments)


def test_groups_that_do_not_act_are_left_out_unless_named():
    assert SearchSpace((1, 7, 7), hidden=((4,),)).groups == tuple(GRID_TRANSFORMATIONS)[:3]


def test_a_network_is_the_largest_set_with_the_same_weights_equal():
    names = ("rotation", "horizontal flip", "vertical flip", "left vertical scramble")
    space = SearchSpace((1, 8, 8), names, ((4, 4),))
    by_labels = {}
    for state in space.states():
        labels = GridNetwork.sharing(space.transformations(state), space.grids(state))
        by_labels.setdefault(tuple(tuple(one.flatten().tolist()) for one in labels), set()).add(
            state
        )
    for states in by_labels.values():
        (network,) = {space.network(state) for state in states}
        assert network == max(states, key=lambda one: len(one.groups))
    assert set(space.networks()) == {space.network(one) for one in space.states()}
    assert len(by_labels) == len(space.networks()) < len(list(space.states()))


def test_neighbours_differ_by_one_group_or_one_choice_of_widths():
    space = SearchSpace((1, 8, 8), ("rotation", "vertical flip"), ((4,), (8,), (6,)))
    near = space.neighbours(State(("rotation",), 0))
    assert near == [
        State((), 0),
        State(("rotation", "vertical flip"), 0),
        State(("rotation",), 2),
        State(("rotation",), 1),
    ]
    for state in space.states():
        assert space.from_params(space.params(state)) == state
    assert SearchSpace.of(space.description()) == space
