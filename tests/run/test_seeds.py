import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from isotropy.run import generator, spawn


def draw(source: torch.Generator) -> list[float]:
    return torch.rand(8, generator=source, device=source.device).tolist()  # type: ignore[no-any-return]


@given(st.integers(0, 2**64 - 1))
def test_a_seed_repeats_itself(seed: int) -> None:
    assert draw(generator(seed)) == draw(generator(seed))
    assert draw(generator(seed)) == draw(torch.Generator().manual_seed(seed))


def test_without_a_seed_each_is_new() -> None:
    assert len({tuple(draw(generator(None))) for _ in range(20)}) == 20


def test_a_generator_passes_through() -> None:
    source = torch.Generator()
    assert generator(source) is source


def test_numpy_integers_are_integers() -> None:
    assert draw(generator(np.int64(3))) == draw(generator(3))  # type: ignore[arg-type]


def test_the_global_generator_is_left_alone() -> None:
    before = torch.random.get_rng_state()
    spawn(generator(0), 3)
    generator(None)
    assert torch.equal(before, torch.random.get_rng_state())


@pytest.mark.parametrize("seed", [-1, 2**64])
def test_a_seed_out_of_range_is_a_clear_error(seed: int) -> None:
    with pytest.raises(ValueError, match=rf"expected a seed in \[0, 2\*\*64\), got {seed}"):
        generator(seed)


@pytest.mark.parametrize(("seed", "name"), [("0", "str"), (1.0, "float"), (True, "bool")])
def test_a_seed_of_another_type_is_a_clear_error(seed: object, name: str) -> None:
    with pytest.raises(TypeError, match=f"expected an int, .* got {name}"):
        generator(seed)  # type: ignore[arg-type]


@given(st.integers(0, 2**32 - 1), st.integers(0, 5))
def test_children_depend_on_the_parents_state_alone(seed: int, n: int) -> None:
    first = [draw(child) for child in spawn(generator(seed), n)]
    second = [draw(child) for child in spawn(generator(seed), n)]
    assert first == second
    assert len(first) == n


def test_fewer_children_are_the_first_of_more() -> None:
    few, many = spawn(generator(0), 2), spawn(generator(0), 5)
    assert [draw(child) for child in few] == [draw(child) for child in many[:2]]


def test_spawning_again_gives_others() -> None:
    parent = generator(0)
    families = [tuple(draw(child)) for _ in range(10) for child in spawn(parent, 10)]
    assert len({*families, tuple(draw(parent))}) == 101


def test_no_two_of_many_children_share_a_stream() -> None:
    # Drawn at random, this many 32-bit seeds would collide with probability 0.999.
    children = spawn(generator(1), 2**18)
    assert len({child.initial_seed() % 2**32 for child in children}) == 2**18


def test_children_are_uncorrelated() -> None:
    # Under independence each correlation has standard deviation 1/√n; 6 of them is never reached.
    n = 4096
    numbers = torch.stack([torch.rand(n, generator=child) for child in spawn(generator(2), 24)])
    off_diagonal = torch.corrcoef(numbers) - torch.eye(24)
    assert off_diagonal.abs().max() < 6 / n**0.5


@pytest.mark.parametrize("n", [-1, 2**32])
def test_an_impossible_number_of_children_is_a_clear_error(n: int) -> None:
    with pytest.raises(ValueError, match=f"expected a number of generators in .* got {n}"):
        spawn(generator(0), n)
