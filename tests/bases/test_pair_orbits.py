"""Equal weights of a layer, against Algorithm 1 in plain Python, scipy, Burnside and solvers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import coo_matrix, csr_array
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from isotropy import V, equivariant_basis
from isotropy.bases import pair_orbits
from isotropy.groups import GRID_TRANSFORMATIONS, GridTransformation, Group, grid_transformations

NAMES = list(GRID_TRANSFORMATIONS)
SETS = [
    ("rotation",),
    ("vertical translation",),
    ("top horizontal scramble",),
    ("horizontal flip", "vertical flip", "horizontal scramble", "bottom horizontal scramble"),
    ("rotation", "horizontal flip", "left vertical scramble", "right vertical scramble"),
    ("rotation", "horizontal translation", "vertical scramble", "top horizontal scramble"),
    tuple(NAMES),
]
FAMILIES = pytest.mark.parametrize("names", SETS, ids=lambda names: str(len(names)) + names[-1])
# the groups of columns Eq1 to Eq12 of Table 3: not in the order of the catalogue from 6 on
COLUMNS = [*NAMES[:5], *NAMES[7:], *NAMES[5:7]]


def labels_of(names: Sequence[str], grid_in: int, grid_out: int, step: int | None = None) -> Tensor:
    moves = [one.permutations(grid_in, grid_out) for one in grid_transformations(names, step=step)]
    return pair_orbits([out for _, out in moves], [into for into, _ in moves])


def algorithm_1(out: Sequence[Tensor], into: Sequence[Tensor]) -> list[list[int]]:
    """Breadth first from every weight not yet seen, over generators and their inverses."""
    rows, columns = len(out[0]), len(into[0])
    moves = []
    for q, p in zip(out, into, strict=True):
        moves.append((q.tolist(), p.tolist()))
        moves.append((q.argsort().tolist(), p.argsort().tolist()))
    labels = [[-1] * columns for _ in range(rows)]
    count = 0
    for row in range(rows):
        for column in range(columns):
            if labels[row][column] >= 0:
                continue
            queue, labels[row][column] = [(row, column)], count
            while queue:
                m, n = queue.pop()
                for q, p in moves:
                    if labels[q[m]][p[n]] < 0:
                        labels[q[m]][p[n]] = count
                        queue.append((q[m], p[n]))
            count += 1
    return labels


def components(out: Sequence[Tensor], into: Sequence[Tensor]) -> np.ndarray:
    shape = len(out[0]), len(into[0])
    edges = [
        (q.numpy()[:, None] * shape[1] + p.numpy()).ravel() for q, p in zip(out, into, strict=True)
    ]
    weights = np.arange(shape[0] * shape[1])
    ends = np.tile(weights, len(edges)), np.concatenate(edges)
    graph = coo_matrix((np.ones(len(ends[0])), ends), shape=(len(weights), len(weights)))
    found: np.ndarray = connected_components(graph, directed=False)[1]
    return found.reshape(shape)


def same_partition(a: Tensor, b: Tensor) -> bool:
    both = torch.unique(a.flatten() * a.numel() + b.flatten())
    return len(both) == len(torch.unique(a)) == len(torch.unique(b))


@FAMILIES
@pytest.mark.parametrize("grids", [(4, 4), (8, 4), (4, 6)], ids=str)
def test_algorithm_1_gives_the_same_labels(names: tuple[str, ...], grids: tuple[int, int]) -> None:
    moves = [one.permutations(*grids) for one in grid_transformations(names)]
    into, out = ([move[k] for move in moves] for k in (0, 1))
    assert pair_orbits(out, into).tolist() == algorithm_1(out, into)


@FAMILIES
def test_scipy_finds_the_same_components(names: tuple[str, ...]) -> None:
    moves = [one.permutations(28, 20) for one in grid_transformations(names, step=4)]
    into, out = ([move[k] for move in moves] for k in (0, 1))
    found = pair_orbits(out, into)
    assert same_partition(found, torch.from_numpy(components(out, into)))


@given(
    generators=st.integers(1, 6).flatmap(
        lambda n: st.integers(1, 6).flatmap(
            lambda m: st.lists(
                st.tuples(st.permutations(range(m)), st.permutations(range(n))),
                min_size=1,
                max_size=3,
            )
        )
    )
)
@settings(deadline=None)
def test_any_permutations(generators: list[tuple[list[int], list[int]]]) -> None:
    out, into = ([torch.tensor(pair[k]) for pair in generators] for k in (0, 1))
    assert pair_orbits(out, into).tolist() == algorithm_1(out, into)


def test_one_long_cycle() -> None:
    """As many rounds as pointer jumping needs, on the longest possible orbits."""
    n = 257
    shift = (torch.arange(n) + 1) % n
    places = torch.arange(n)
    expected = (places[None] - places[:, None]) % n
    assert torch.equal(pair_orbits([shift], [shift]), expected)


@FAMILIES
def test_the_solver_finds_as_many_maps(names: tuple[str, ...]) -> None:
    """On image and hidden units together: maps within each, and both ways between them."""
    transformations, grids = grid_transformations(names), (4, 6)
    group = Group([g for one in transformations for g in one.group(*grids).discrete])
    moves = [one.permutations(*grids) for one in transformations]
    counts = [
        int(pair_orbits([m[k] for m in moves], [m[n] for m in moves]).max()) + 1
        for k in range(2)
        for n in range(2)
    ]
    assert equivariant_basis((V >> V)(group), cache=False).rank == sum(counts)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("step", [None, 4])
def test_one_group_by_burnside(name: str, step: int | None) -> None:
    """As many orbits as pairs that an element leaves alone, on average over the elements."""
    one = grid_transformations([name], step=step)[0]
    on_image, on_hidden = one.powers(28, 20)
    fixed = [(powers == torch.arange(powers.shape[1])).sum(1) for powers in (on_image, on_hidden)]
    assert int(labels_of([name], 28, 20, step).max()) + 1 == (fixed[0] * fixed[1]).double().mean()


def test_table_3() -> None:
    identity = [torch.arange(28**2)], [torch.arange(20**2)]
    first = int(pair_orbits(identity[1], identity[0]).max()) + 1
    second = int(pair_orbits(identity[1], identity[1]).max()) + 1
    rest = 2 + 4010  # a bias for each hidden layer; ten classes from 400 units
    counts = [first + second + rest]
    for name in COLUMNS:
        layers = [labels_of([name], side, 20, step=4) for side in (28, 20)]
        counts.append(sum(int(layer.max()) + 1 for layer in layers) + rest)
    assert counts == [
        477_612,
        122_412,
        240_812,
        240_812,
        44_972,
        44_972,
        240_812,
        300_012,
        300_012,
        300_012,
        300_012,
        122_412,
        240_812,
    ]
    table = [0.47, 0.12, 0.24, 0.24, 0.04, 0.04, 0.24, 0.30, 0.30, 0.30, 0.30, 0.12, 0.24]
    assert [count // 10_000 / 100 for count in counts] == table


@pytest.mark.parametrize("name", ["horizontal translation", "vertical translation"])
def test_steps_of_four_make_the_first_layer_invariant(name: str) -> None:
    """Orders 7 and 5 are coprime: units are equal in fives, and no shift of the image is seen."""
    on_image, on_hidden = GridTransformation(name, 4).permutations(28, 20)
    published = labels_of([name], 28, 20, step=4)
    assert len(torch.unique(published, dim=0)) == 80
    assert torch.equal(published[:, on_image], published)
    assert torch.equal(published[on_hidden], published)

    on_image, on_hidden = GridTransformation(name).permutations(28, 20)
    default = labels_of([name], 28, 20)
    assert len(torch.unique(default, dim=0)) == 400
    assert not torch.equal(default[:, on_image], default)
    assert torch.equal(default[on_hidden][:, on_image], default)


@FAMILIES
def test_a_layer_with_these_weights_is_equivariant(names: tuple[str, ...]) -> None:
    labels = labels_of(names, 8, 4)
    rng = torch.Generator().manual_seed(0)
    weights = torch.randn(int(labels.max()) + 1, generator=rng, dtype=torch.float64)[labels]
    x = torch.randn(64, generator=rng, dtype=torch.float64)
    for one in grid_transformations(names):
        into, out = one.permutations(8, 4)
        moved, expected = torch.empty_like(x), torch.empty(16, dtype=x.dtype)
        moved[into], expected[out] = x, weights @ x
        assert torch.allclose(weights @ moved, expected)


def test_the_order_of_groups_does_not_matter() -> None:
    moves = [one.permutations(8, 4) for one in grid_transformations(SETS[3])]
    into, out = ([move[k] for move in moves] for k in (0, 1))
    assert torch.equal(pair_orbits(out, into), pair_orbits(out[::-1], into[::-1]))


def test_what_is_no_list_of_permutations() -> None:
    swap = torch.tensor([1, 0])
    with pytest.raises(ValueError, match="at least one, got 0 and 0"):
        pair_orbits([], [])
    with pytest.raises(ValueError, match=r"as many generators on inputs as on outputs.*2 and 1"):
        pair_orbits([swap], [swap, swap])
    with pytest.raises(
        ValueError, match=r"a permutation of 2 outputs, each place once, got \[0, 0\]$"
    ):
        pair_orbits([torch.tensor([0, 0])], [swap])
    with pytest.raises(ValueError, match="a permutation of 2 inputs"):
        pair_orbits([swap, swap], [swap, torch.tensor([2, 0, 1])])


@pytest.mark.parametrize("seed", range(40))
def test_long_cycles_and_many_generators_end_at_the_orbits(seed):
    draw = np.random.default_rng(seed)
    outputs, inputs, count = draw.integers(2, 30), draw.integers(2, 30), draw.integers(1, 6)
    out = [torch.from_numpy(draw.permutation(outputs)) for _ in range(count)]
    into = [torch.from_numpy(draw.permutation(inputs)) for _ in range(count)]
    if seed % 2:  # few points moved: slow to meet
        out = [_swapped(outputs, draw) for _ in range(count)]
        into = [_swapped(inputs, draw) for _ in range(count)]
    cells = np.arange(outputs * inputs).reshape(outputs, inputs)
    pairs = [(cells, cells[q][:, p]) for q, p in zip(out, into, strict=True)]
    source, sink = (np.concatenate([pair[k].ravel() for pair in pairs]) for k in range(2))
    graph = csr_array((np.ones(len(source)), (source, sink)), shape=(cells.size,) * 2)
    number, expected = connected_components(graph, directed=False)
    found = pair_orbits(out, into).flatten().numpy()
    assert found.max() + 1 == number
    assert len(set(zip(found.tolist(), expected.tolist(), strict=True))) == number


def _swapped(size, draw):
    places = np.arange(size)
    i, j = draw.choice(size, 2, replace=False)
    places[[i, j]] = places[[j, i]]
    return torch.from_numpy(places)
