"""Groups planted in quadratic systems, against every signed permutation of their entries."""

from itertools import permutations, product

import numpy as np
import pytest
import torch

from isotropy.data import Transitions
from isotropy.discovery import DiscoverOptions, discover


def signed(index, sign):
    """The matrix that takes entry i to place index[i], times sign[i]."""
    matrix = np.zeros((len(index),) * 2)
    matrix[list(index), np.arange(len(index))] = sign
    return matrix


def closure(generators):
    """All products of some matrices, by key."""
    found = {(one := np.eye(len(generators[0]))).tobytes(): one}
    frontier = [one]
    while frontier:
        products = {(p := h @ g + 0.0).tobytes(): p for g in frontier for h in generators}
        frontier = [p for key, p in products.items() if key not in found]
        found |= products
    return found


def images(linear, quadratic, g):
    """The coefficients of P⁻¹ f(P x), where P is g on inputs."""
    n = len(linear)
    out = g[:n, :n].T
    moved = np.einsum("kij,ia,jb->kab", quadratic, g, g)
    return out @ linear @ g, np.einsum("lk,kab->lab", out, moved)


class Planted:
    """Increments of a random quadratic system that some signed permutations commute with."""

    def __init__(self, generators, n, seed=0):
        rng = np.random.default_rng(seed)
        self.n, self.d = n, len(generators[0])
        linear, quadratic = rng.normal(size=(n, self.d)), rng.normal(size=(n, self.d, self.d))
        group = closure(generators).values()
        moved = [images(linear, 0.3 * (quadratic + quadratic.swapaxes(1, 2)), g) for g in group]
        self.linear, self.quadratic = (sum(part) / len(group) for part in zip(*moved, strict=True))

    def __call__(self, x):
        return 0.1 * (x @ self.linear.T + np.einsum("kij,ni,nj->nk", self.quadratic, x, x))

    def log(self, rows=600, seed=0):
        x = np.random.default_rng(seed).normal(size=(rows, self.d))
        s, a = x[:, : self.n], x[:, self.n :]
        return Transitions(*map(torch.from_numpy, (s, a, s + self(x))))

    def symmetries(self):
        """Every signed permutation that keeps the coefficients, observations and actions apart."""
        found, n = {}, self.n
        for first, last in product(permutations(range(n)), permutations(range(n, self.d))):
            for sign in product((1, -1), repeat=self.d):
                g = signed((*first, *last), sign)
                linear, quadratic = images(self.linear, self.quadratic, g)
                if np.allclose(linear, self.linear) and np.allclose(quadratic, self.quadratic):
                    found[(g + 0.0).tobytes()] = g
        return found


MIRROR = signed((1, 0, 2, 3, 5, 4), (1, 1, -1, 1, 1, 1))
SIGNS = signed((0, 1, 2, 3, 4, 5), (-1, -1, 1, 1, -1, -1))
QUARTER = signed((1, 0, 3, 2), (1, -1, 1, -1))
FLIP = signed((0, 1, 2, 3), (1, -1, 1, -1))


@pytest.mark.parametrize("generators", [[MIRROR], [SIGNS], [MIRROR, SIGNS]])
@pytest.mark.parametrize("seed", [0, 1])
def test_all_planted_elements_are_found_and_are_all_there_are(generators, seed):
    planted = Planted(generators, 4, seed)
    every = planted.symmetries()
    assert every.keys() == closure(generators).keys()
    (finding,) = discover(planted.log(seed=seed), fit_models=False)
    elements = finding.symmetry.group.elements()
    moves = finding.symmetry.rep_in.rho(elements).dense().double().numpy()
    assert {(g + 0.0).tobytes() for g in moves} == every.keys()
    assert finding.order == len(every)


@pytest.mark.parametrize(("generators", "n"), [([MIRROR, SIGNS], 4), ([QUARTER, FLIP], 2)])
def test_rows_move_as_the_system_commutes(generators, n):
    planted = Planted(generators, n)
    every = planted.symmetries()
    (finding,) = discover(planted.log(), fit_models=False)
    action = finding.matrices()
    x = np.random.default_rng(5).normal(size=(7, planted.d))
    assert len(action.generators) == 0
    for element, out in zip(action.elements, action.output_elements, strict=True):
        assert np.allclose(element(x), x @ element.matrix[:, :-1].T)
        assert (element.matrix[:, :-1] + 0.0).tobytes() in every
        assert np.allclose(planted(element(x)), out(planted(x)))
    drawn = set()
    for seed in range(60):
        moved, ahead = finding.move(x, planted(x), seed=seed)
        assert np.allclose(planted(moved), ahead)
        (g,) = [g for g in every.values() if np.allclose(moved, x @ g.T)]
        drawn.add(g.tobytes())
    assert len(drawn) == len(every)


def test_a_group_is_tested_step_by_step_from_the_smallest_on():
    # the square's symmetries: a mirror, then four elements, then all eight
    found = discover(Planted([QUARTER, FLIP], 2).log(1200), fit_models=False)
    assert [one.order for one in found] == [8]
    tested = [one for one in found.tried if one["p_value"] is not None]
    assert tested[0]["name"].startswith("Z(2), ")
    assert len(tested) == 3
    assert tested[-1]["name"] == f"{found[0].name}: {found[0].action}"
    p_values = [one["p_value"] for one in tested]
    assert p_values == sorted(p_values)  # each counts only if those before it stand
    assert found[0].p_value == p_values[-1]


@pytest.mark.parametrize(
    ("element", "actions"),
    [
        (signed((1, 0, 2, 3, 4), (-1, -1, -1, 1, 1)), ["hip ↔ −knee, −roll"]),
        (
            signed((1, 2, 0, 3, 4), (1, 1, 1, 1, 1)),
            ["hip → knee → roll → hip", "hip → roll → knee → hip"],
        ),
    ],
)
def test_words_say_where_entries_go(element, actions):
    names = (["hip", "knee", "roll", "height"], ["motor"])
    options = DiscoverOptions(entry_names=names)
    (finding,) = discover(Planted([element], 4).log(), fit_models=False, options=options)
    assert finding.action in actions


def test_the_cost_is_the_share_of_what_breaks_the_symmetry():
    # of Δ = odd + even parts, averaging over the sign of everything takes the even one away
    rng = torch.Generator().manual_seed(0)
    x = 2 * torch.rand(6000, 3, generator=rng).double() - 1
    s, a = x[:, :2], x[:, 2:]
    share = 0.01
    even = x.square() - 1 / 3
    even = even / even.std(0) * (share / (1 - share)) ** 0.5
    odd = x / x.std(0)
    change = odd[:, [1, 2]] + even[:, [1, 0]]
    (finding,) = discover(Transitions(s, a, s + 0.1 * change), fit_models=False)
    assert finding.action == "−o0, −o1, −a0"
    assert finding.effect == pytest.approx(share, rel=0.1)


def test_constants_stay_and_sizes_must_be_alike():
    # in deviations all of them obey the same law
    rng = torch.Generator().manual_seed(0)
    u = torch.randn(1200, 3, generator=rng).double()
    sizes = torch.tensor([1.0, 1.0, 50.0, 1.0]).double()
    still = torch.zeros(1200, 1).double()
    s = torch.cat([u, still], 1) * sizes
    ahead = s + 0.1 * torch.cat([u + u**2, still], 1) * sizes
    (finding,) = discover(Transitions(s, torch.ones(1200, 1).double(), ahead), fit_models=False)
    assert finding.action == "o0 ↔ o1"


def walks(episodes, steps):
    """A law that is odd, from where each episode begins."""
    rng = torch.Generator().manual_seed(0)
    s, rows = torch.randn(episodes, 2, generator=rng).double(), []
    for _ in range(steps):
        a = torch.randn(episodes, 1, generator=rng).double()
        ahead = 0.8 * s.flip(1) + torch.cat([a, 0.5 * a], 1)
        rows.append((s, a, ahead))
        s = ahead
    parts = (torch.stack(part, 1).flatten(0, 1) for part in zip(*rows, strict=True))
    return Transitions(*parts)


def test_episodes_are_told_from_rows_that_follow_each_other():
    many, few = (discover(walks(*shape), fit_models=False) for shape in ((100, 10), (20, 50)))
    assert 20 <= many[0].samples <= 30  # of a hundred episodes three in ten are held out
    assert 20 <= few[0].samples <= 30  # of twenty, as many stretches
    cut = "stretches of them stand for whole ones"
    assert [any(cut in note for note in found.notes) for found in (many, few)] == [False, True]
    log = walks(100, 10)
    order = torch.randperm(1000, generator=torch.Generator().manual_seed(1))
    apart = discover(log.rows(order), fit_models=False)
    assert apart[0].samples > 100
