"""Grid transformations against their table, cell by cell, and against orders in closed form."""

from __future__ import annotations

from collections.abc import Callable
from math import gcd, lcm

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from isotropy.groups import (
    GRID_TRANSFORMATIONS,
    GridTransformation,
    Group,
    grid_transformations,
)

Cell = tuple[int, int]
Rule = Callable[[int, int, int, int, int], Cell]

NAMES = list(GRID_TRANSFORMATIONS)
TRANSLATIONS = ("horizontal translation", "vertical translation")
ALL = pytest.mark.parametrize("name", NAMES)


def quadrant_step(i: int, j: int, m: int, n: int) -> Cell:
    """One quadrant after the other: top left, top right, bottom right, bottom left."""
    corners = [(0, 0), (0, n // 2), (m // 2, n // 2), (m // 2, 0)]
    for now, after in zip(corners, corners[1:] + corners[:1], strict=True):
        row, column = i - now[0], j - now[1]
        if 0 <= row < m // 2 and 0 <= column < n // 2:
            return after[0] + row, after[1] + column
    raise AssertionError


# row, column, height, width, step
TABLE: dict[str, Rule] = {
    "rotation": lambda i, j, m, n, s: (j, m - 1 - i),
    "horizontal flip": lambda i, j, m, n, s: (i, n - 1 - j),
    "vertical flip": lambda i, j, m, n, s: (m - 1 - i, j),
    "horizontal translation": lambda i, j, m, n, s: (i, (j + s) % n),
    "vertical translation": lambda i, j, m, n, s: ((i + s) % m, j),
    "rotation scramble": lambda i, j, m, n, s: quadrant_step(i, j, m, n),
    "horizontal scramble": lambda i, j, m, n, s: (i, (j + n // 2) % n),
    "vertical scramble": lambda i, j, m, n, s: ((i + m // 2) % m, j),
    "left vertical scramble": lambda i, j, m, n, s: ((i + m // 2) % m if j < n // 2 else i, j),
    "right vertical scramble": lambda i, j, m, n, s: ((i + m // 2) % m if j >= n // 2 else i, j),
    "top horizontal scramble": lambda i, j, m, n, s: (i, (j + n // 2) % n if i < m // 2 else j),
    "bottom horizontal scramble": lambda i, j, m, n, s: (i, (j + n // 2) % n if i >= m // 2 else j),
}


def by_table(name: str, height: int, width: int, step: int) -> list[int]:
    places = []
    for i in range(height):
        for j in range(width):
            row, column = TABLE[name](i, j, height, width, step)
            places.append(row * width + column)
    return places


def order_of(*permutations: list[int]) -> int:
    """How often all of them must be applied until all cells are back, by their cycles."""
    lengths = set()
    for permutation in permutations:
        for start in range(len(permutation)):
            place, length = permutation[start], 1
            while place != start:
                place, length = permutation[place], length + 1
            lengths.add(length)
    return lcm(*lengths)


def test_the_catalogue_has_the_published_order() -> None:
    assert list(TABLE) == NAMES
    assert all(GRID_TRANSFORMATIONS[name] == GridTransformation(name) for name in NAMES)
    chosen = grid_transformations(["vertical scramble", "rotation", "vertical scramble"])
    assert [one.name for one in chosen] == ["rotation", "vertical scramble"]


@ALL
@pytest.mark.parametrize("side", [2, 4, 20, 28])
def test_generators_on_one_square(name: str, side: int) -> None:
    (found,) = GridTransformation(name).permutations(side)
    assert found.tolist() == by_table(name, side, side, step=1)


@ALL
def test_generators_on_image_and_hidden_units(name: str) -> None:
    on_image, on_hidden = GridTransformation(name).permutations(28, 20)
    assert on_image.tolist() == by_table(name, 28, 28, step=7)
    assert on_hidden.tolist() == by_table(name, 20, 20, step=5)
    published = GridTransformation(name, 4 if name in TRANSLATIONS else None)
    on_image, on_hidden = published.permutations(28, 20)
    assert on_image.tolist() == by_table(name, 28, 28, step=4)
    assert on_hidden.tolist() == by_table(name, 20, 20, step=4)


@pytest.mark.parametrize("name", [n for n in NAMES if not n.startswith("rotation")])
def test_generators_on_a_grid_that_is_not_square(name: str) -> None:
    (found,) = GridTransformation(name).permutations((4, 6))
    assert found.tolist() == by_table(name, 4, 6, step=1)


def test_rotation_is_clockwise_and_flips_are_numpy_s() -> None:
    picture = np.arange(36).reshape(6, 6)

    def shown(name: str) -> np.ndarray:
        (places,) = GridTransformation(name).permutations(6)
        moved = np.empty(36, dtype=int)
        moved[places.numpy()] = picture.ravel()
        return moved.reshape(6, 6)

    assert (shown("rotation") == np.rot90(picture, -1)).all()
    assert (shown("horizontal flip") == np.fliplr(picture)).all()
    assert (shown("vertical flip") == np.flipud(picture)).all()
    assert (shown("horizontal translation") == np.roll(picture, 1, axis=1)).all()
    assert (shown("vertical translation") == np.roll(picture, 1, axis=0)).all()
    assert (shown("horizontal scramble") == np.roll(picture, 3, axis=1)).all()


@pytest.mark.parametrize("grids", [(4,), (6, 4), (28, 20)], ids=str)
@pytest.mark.parametrize(
    ("name", "step"), [*((name, None) for name in NAMES), *((name, 3) for name in TRANSLATIONS)]
)
def test_orders(name: str, step: int | None, grids: tuple[int, ...]) -> None:
    one = GridTransformation(name, step)
    parts = [p.tolist() for p in one.permutations(*grids)]
    assert one.order(*grids) == order_of(*parts)
    assert one.group(*grids).order() == order_of(*parts)


def test_published_orders() -> None:
    orders = {name: GridTransformation(name).order(28, 20) for name in NAMES}
    fours = {"rotation", "rotation scramble", *TRANSLATIONS}
    assert orders == {name: 4 if name in fours else 2 for name in NAMES}
    for name in TRANSLATIONS:
        shift = GridTransformation(name, 4)
        assert (shift.order(28), shift.order(20), shift.order(28, 20)) == (7, 5, 35)


@given(
    sides=st.lists(st.integers(2, 40), min_size=1, max_size=4), name=st.sampled_from(TRANSLATIONS)
)
def test_translations_by_default_have_one_order_on_all_grids(sides: list[int], name: str) -> None:
    shift, common = GridTransformation(name), gcd(*sides)
    assert shift.acts_on(*sides) == (common > 1)
    if common > 1:
        assert shift.order(*sides) == common
        parts = [p.tolist() for p in shift.permutations(*sides)]
        assert {order_of(part) for part in parts} == {common}


@ALL
def test_powers_are_the_generator_applied_again_and_again(name: str) -> None:
    one = GridTransformation(name)
    for generator, powers in zip(one.permutations(8, 4), one.powers(8, 4), strict=True):
        assert powers.shape == (one.order(8, 4), len(generator))
        places = list(range(len(generator)))
        for power in powers:
            assert power.tolist() == places
            places = [int(generator[place]) for place in places]
        assert places == list(range(len(generator)))


def test_all_powers_differ_on_the_grids_together() -> None:
    on_image, on_hidden = GridTransformation("vertical translation", 4).powers(28, 20)
    both = torch.cat([on_image, on_hidden], dim=1)
    assert len(torch.unique(both, dim=0)) == 35
    assert len(torch.unique(on_image, dim=0)) == 7


def test_the_group_acts_on_the_cells_of_all_grids_one_after_the_other() -> None:
    one = GridTransformation("rotation")
    group = Group([torch.tensor(by_table("rotation", 4, 4, 0) + [16 + p for p in (1, 3, 0, 2)])])
    assert one.group(4, 2) == group


@ALL
def test_grids_that_are_too_small_are_refused(name: str) -> None:
    one = GridTransformation(name)
    assert not one.acts_on(28, 1)
    with pytest.raises(ValueError, match=r"expected grids of at least 2 by 2, got 1 by 1$"):
        one.permutations(28, 1)
    with pytest.raises(ValueError, match=r"^expected at least one grid, got none$"):
        one.order()


@pytest.mark.parametrize("name", ["rotation", "rotation scramble"])
def test_turns_need_squares(name: str) -> None:
    with pytest.raises(ValueError, match=rf"^{name}: expected square grids, got 4 by 6$"):
        GridTransformation(name).permutations((4, 6))


@ALL
def test_odd_grids(name: str) -> None:
    one = GridTransformation(name)
    if name.endswith("scramble"):
        with pytest.raises(ValueError, match=r"expected grids of even (height|width), got 5 by 5$"):
            one.group(5)
    else:
        assert one.permutations(5)[0].tolist() == by_table(name, 5, 5, step=1)


def test_scrambles_of_whole_halves_need_only_one_even_side() -> None:
    assert GridTransformation("horizontal scramble").acts_on((5, 4))
    assert not GridTransformation("horizontal scramble").acts_on((4, 5))
    assert GridTransformation("vertical scramble").acts_on((4, 5))
    assert not GridTransformation("left vertical scramble").acts_on((4, 5))


@pytest.mark.parametrize("name", TRANSLATIONS)
def test_translations_that_cannot_be(name: str) -> None:
    with pytest.raises(
        ValueError, match=r"common divisor above 1, so that one group .* got 28, 15"
    ):
        GridTransformation(name).powers(28, 15)
    with pytest.raises(ValueError, match="expected a step that moves a side of 4, got 8"):
        GridTransformation(name, 8).permutations(28, 4)
    with pytest.raises(ValueError, match="expected a step of at least 1"):
        GridTransformation(name, 0)


def test_wrong_names_and_steps_of_what_has_none() -> None:
    with pytest.raises(
        ValueError, match=r"expected a transformation among rotation, .* got 'turn'"
    ):
        GridTransformation("turn")
    with pytest.raises(ValueError, match="for a translation, got 2 for rotation"):
        GridTransformation("rotation", 2)
    with pytest.raises(ValueError, match="got 'turn'"):
        grid_transformations(["turn"])
    assert [one.step for one in grid_transformations(NAMES[:5], step=4)] == [None] * 3 + [4, 4]
