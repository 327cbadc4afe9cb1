"""Group averages against brute force, integrals in closed form, and the tester."""

from __future__ import annotations

import copy
import io
import pickle

import pytest
import torch
from torch import Tensor, nn

from isotropy.equivariance import assert_equivariant, equivariance_error
from isotropy.groups import SO, SU, D, Group, O, S, Scaling, SO13p, U, Z
from isotropy.nn import Symmetrised, _symmetrised
from isotropy.reps import Pseudoscalar, Regular, Scalar, Symmetry, T, V

TURNS = Group([[[0.5, -(3**0.5) / 2], [3**0.5 / 2, 0.5]]], name="sixth turns")


def network(symmetry: Symmetry, dtype: torch.dtype = torch.float64) -> nn.Sequential:
    torch.manual_seed(0)
    width = symmetry.rep_in.size()
    return nn.Sequential(
        nn.Linear(width, 16), nn.Tanh(), nn.Linear(16, symmetry.rep_out.size())
    ).to(dtype)


def rows(symmetry: Symmetry, *batch: int) -> Tensor:
    rng = torch.Generator().manual_seed(1)
    return torch.randn(*batch, symmetry.rep_in.size(), dtype=torch.float64, generator=rng)


FINITE = [
    Symmetry(S(3), V, V),
    Symmetry(S(4), 2 * V + Scalar, Scalar),
    Symmetry(D(4), V, T(2)),
    Symmetry(O(1), 3 * V, Pseudoscalar),
    Symmetry(Z(5), Regular, V + Scalar),
    Symmetry(TURNS, V + T(2), 2 * V),
    Symmetry(TURNS, V.change_basis([[2.0, 1.0], [0.0, 1.0]]), V),
    Symmetry(S(3) * Z(2), V, V(S(3)) + V(Z(2))),
    Symmetry(S(3) + Z(2), V, V),
]


@pytest.mark.parametrize("symmetry", FINITE, ids=str)
def test_an_average_over_a_finite_group_is_equivariant_and_what_brute_force_gives(
    symmetry: Symmetry,
) -> None:
    model = network(symmetry)
    averaged = Symmetrised(model, symmetry)
    x = rows(symmetry, 7)
    assert averaged.exact
    assert equivariance_error(model, x, symmetry) > 1e-3
    assert_equivariant(averaged, x)
    group = symmetry.group
    total = torch.zeros(7, symmetry.rep_out.size(), dtype=torch.float64)
    words = {_word(group, i) for i in range(300)}
    assert len(words) == averaged.samples  # all elements, found another way
    for word in words:
        y = x
        for letter in reversed(word):
            y = symmetry.apply(group.discrete[letter], y)
        y = model(y)
        for letter in word:
            y = symmetry.rep_out._rho(_parts(symmetry, letter)).inverse().apply(y)
        total += y
    torch.testing.assert_close(averaged(x), total / len(words), atol=1e-12, rtol=1e-12)


def _parts(symmetry: Symmetry, letter: int) -> dict[Group, object]:
    from isotropy.reps._elements import parts_of_element

    return parts_of_element(symmetry.group, symmetry.group.discrete[letter])


_SHORTEST: dict[tuple[str, bytes], tuple[int, ...]] = {}


def _word(group: Group, seed: int) -> tuple[int, ...]:
    """A random word in the generators, the same one for words with the same product."""
    rng = torch.Generator().manual_seed(seed)
    length = int(torch.randint(40, (), generator=rng))
    word = torch.randint(len(group.discrete), (length,), generator=rng).tolist()
    product = torch.eye(group.d, dtype=torch.float64)
    for letter in word:
        product = product @ group.discrete[letter].dense()
    key = (str(group), ((product * 1e6).round() + 0.0).numpy().tobytes())
    return _SHORTEST.setdefault(key, tuple(word))


def test_an_equivariant_model_stays_as_it_is() -> None:
    symmetry = Symmetry(S(5), V, V)

    def deep_set(x: Tensor) -> Tensor:
        return torch.tanh(2 * x - x.mean(-1, keepdim=True))

    x = rows(symmetry, 4)
    torch.testing.assert_close(
        Symmetrised(deep_set, symmetry)(x), deep_set(x), atol=1e-14, rtol=1e-13
    )
    rotations = Symmetry(SO(3), V, V)

    def central(x: Tensor) -> Tensor:
        return x * x.norm(dim=-1, keepdim=True)

    x = rows(rotations, 4)
    sampled = Symmetrised(central, rotations)  # any few elements will do
    torch.testing.assert_close(sampled(x), central(x), atol=1e-13, rtol=1e-13)


def test_averages_over_the_circle_are_the_integrals() -> None:
    x = rows(Symmetry(SO(2), V, Scalar), 5)
    radius = x.norm(dim=-1, keepdim=True)

    def exponential(x: Tensor) -> Tensor:
        return x[..., :1].exp()

    many = 20_000
    symmetry = Symmetry(SO(2), V, Scalar)
    averaged = Symmetrised(exponential, symmetry, samples=many, generator=0)
    mean = torch.special.i0(radius)  # 1/2π ∫ exp(r cos θ) dθ
    spread = (torch.special.i0(2 * radius) - mean**2).sqrt() / many**0.5
    assert bool(((averaged(x) - mean).abs() < 5 * spread).all())
    assert bool(((averaged(x) - mean).abs() > 1e-9).any())

    def cube(x: Tensor) -> Tensor:
        return torch.stack([x[..., 0] ** 3, 0 * x[..., 0]], -1)

    vectors = Symmetrised(cube, Symmetry(SO(2), V, V), samples=many, generator=0)
    # 1/2π ∫ R⁻¹ ((R x)₀³, 0) dθ = 3/8 r² x
    error = (vectors(x) - 3 / 8 * radius**2 * x).norm(dim=-1)
    assert float((error / radius[:, 0] ** 3).max()) < 5 / many**0.5


def test_more_samples_come_closer() -> None:
    symmetry = Symmetry(SO(3), V, V)
    model, x = network(symmetry), rows(symmetry, 6)
    errors = [
        equivariance_error(
            Symmetrised(lambda x: model(x) + x, symmetry, samples=n, generator=0).eval(), x
        )
        for n in (16, 1024)
    ]
    assert errors[0] > 4 * errors[1] > 0  # 1/√n: eight times


def test_evaluation_repeats_and_training_draws_anew() -> None:
    symmetry = Symmetry(O(3), V, Scalar)
    model = Symmetrised(network(symmetry), symmetry, generator=3)
    x = rows(symmetry, 4)
    assert not torch.equal(model(x), model(x))
    model.eval()
    assert torch.equal(model(x), model(x))
    again = Symmetrised(network(symmetry), symmetry, generator=3)
    assert torch.equal(again.eval()(x), model(x))
    assert model.samples == 8
    assert not model.exact


def test_how_many_elements() -> None:
    def identity(x: Tensor) -> Tensor:
        return x

    assert Symmetrised(identity, Symmetry(S(5), V, V)).samples == 120
    few = Symmetrised(identity, Symmetry(S(5), V, V), samples=12)
    assert (few.samples, few.exact) == (12, False)
    assert Symmetrised(identity, Symmetry(Z(5), V, V), samples=12).samples == 5
    large = Symmetrised(identity, Symmetry(S(30), V, V))
    assert (large.samples, large.exact) == (8, False)
    assert "S(5): V >> V, all 120 elements" in repr(
        Symmetrised(nn.Identity(), Symmetry(S(5), V, V))
    )


def test_inner_dimensions_belong_to_the_model() -> None:
    symmetry = Symmetry(Z(4), V, V)

    def mixing(x: Tensor) -> Tensor:
        return x.cumsum(-1) + x.flip(1) ** 2  # looks along the second axis

    averaged = Symmetrised(mixing, symmetry)
    x = rows(symmetry, 3, 5)
    shifted = [averaged(x)] + [averaged(x.roll(k, -1)).roll(-k, -1) for k in (1, 2, 3)]
    for y in shifted[1:]:
        torch.testing.assert_close(y, shifted[0])
    expected = sum(mixing(x.roll(k, -1)).roll(-k, -1) for k in range(4)) / 4
    torch.testing.assert_close(shifted[0], expected)
    alone = Symmetrised(lambda x: x.cumsum(-1), symmetry)
    torch.testing.assert_close(alone(x[0, 0]), alone(x)[0, 0])


def test_few_elements_at_a_time_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    for symmetry in (Symmetry(S(4), V, V), Symmetry(TURNS, V, T(2))):
        model = network(symmetry)
        averaged, x = Symmetrised(model, symmetry), rows(symmetry, 9)
        whole = averaged(x)
        calls: list[int] = []
        model.register_forward_hook(lambda m, i, y, calls=calls: calls.append(len(y)))
        averaged(x)
        assert calls == [9 * averaged.samples]
        monkeypatch.setattr(_symmetrised, "_LARGEST_CALL", 5 * 9 * 4)
        torch.testing.assert_close(averaged(x), whole, atol=1e-14, rtol=1e-13)
        assert len(calls) > 2
        monkeypatch.setattr(_symmetrised, "_LARGEST_DENSE", 1)
        torch.testing.assert_close(Symmetrised(model, symmetry)(x), whole, atol=1e-14, rtol=1e-13)
        monkeypatch.undo()


@pytest.mark.parametrize("group", [U(1), SU(2)], ids=str)
def test_complex_groups(group: Group) -> None:
    symmetry = Symmetry(group, V, Scalar)
    x = torch.randn(5, group.d, dtype=torch.complex128, generator=torch.Generator().manual_seed(0))

    def bent(x: Tensor) -> Tensor:
        return x.real[..., :1] ** 2 * 2

    many = 4000
    averaged = Symmetrised(bent, symmetry, samples=many, generator=0)
    # ⟨(Re z₁)²⟩ over a sphere of radius r in R^2d
    mean = 2 * x.abs().square().sum(-1, keepdim=True) / (2 * group.d)
    assert averaged(x).dtype == torch.float64
    assert float(((averaged(x) - mean) / mean).abs().max()) < 6 / many**0.5
    averaged.eval()
    single = copy.deepcopy(averaged).float()(x.to(torch.complex64))
    assert single.dtype == torch.float32
    torch.testing.assert_close(single.double(), averaged(x), atol=1e-5, rtol=1e-5)


def test_gradients_are_those_of_the_mean() -> None:
    symmetry = Symmetry(TURNS, V, V)
    averaged = Symmetrised(network(symmetry), symmetry)
    assert torch.autograd.gradcheck(averaged, rows(symmetry, 2).requires_grad_())
    averaged(rows(symmetry, 3)).sum().backward()
    assert all(p.grad is not None and bool(p.grad.any()) for p in averaged.parameters())


def test_it_is_a_module_like_others() -> None:
    symmetry = Symmetry(TURNS, V, V)
    model = network(symmetry)
    averaged, x = Symmetrised(model, symmetry), rows(symmetry, 3)
    y = averaged(x)
    assert set(averaged.state_dict()) == {f"model.{k}" for k in model.state_dict()}
    assert torch.equal(copy.deepcopy(averaged)(x), y)
    assert torch.equal(pickle.loads(pickle.dumps(averaged))(x), y)
    file = io.BytesIO()
    torch.save(averaged.state_dict(), file)
    file.seek(0)
    other = Symmetrised(nn.Sequential(*(copy.deepcopy(m) for m in model)), symmetry)
    for p in other.parameters():
        nn.init.zeros_(p)
    other.load_state_dict(torch.load(file, weights_only=True))
    assert torch.equal(other(x), y)
    assert averaged.symmetry == symmetry
    assert (averaged.rep_in, averaged.rep_out) == (symmetry.rep_in, symmetry.rep_out)


def test_precision_comes_back_after_a_cast() -> None:
    symmetry = Symmetry(TURNS, V, V)
    averaged, x = Symmetrised(network(symmetry), symmetry), rows(symmetry, 3)
    y = averaged(x)
    single = copy.deepcopy(averaged).float()
    assert single(x.float()).dtype == torch.float32
    assert_equivariant(single, x.float())
    torch.testing.assert_close(single(x.float()).double(), y, atol=1e-5, rtol=1e-5)
    assert_equivariant(copy.deepcopy(averaged).bfloat16(), x.bfloat16())
    assert_equivariant(copy.deepcopy(averaged).bfloat16().double(), x)  # exact maps again


def test_autocast() -> None:
    symmetry = Symmetry(TURNS, V, V)
    averaged, x = Symmetrised(network(symmetry, torch.float32), symmetry), rows(symmetry, 3)
    with torch.autocast("cpu", torch.bfloat16):
        y = averaged(x.float())
    assert y.dtype == torch.float32
    torch.testing.assert_close(y, averaged(x.float()), atol=2e-2, rtol=2e-2)


@pytest.mark.parametrize("symmetry", [Symmetry(S(3), V, T(2)), Symmetry(TURNS, V, V)], ids=str)
def test_one_graph(symmetry: Symmetry) -> None:
    averaged = Symmetrised(network(symmetry), symmetry)
    graphs: list[object] = []

    def backend(graph: torch.fx.GraphModule, _: object) -> object:
        graphs.append(graph)
        return graph.forward

    compiled = torch.compile(averaged, fullgraph=True, backend=backend, dynamic=True)
    for n in (5, 7, 11):
        x = rows(symmetry, n)
        torch.testing.assert_close(compiled(x), averaged(x))
    assert len(graphs) == 1  # whatever the batch


def test_bad_input() -> None:
    symmetry = Symmetry(S(3), V, V)
    for group in (SO13p(), Scaling(3)):
        with pytest.raises(ValueError, match=r"expected a compact group, .* got S"):
            Symmetrised(nn.Identity(), Symmetry(group, V, V))
    with pytest.raises(TypeError, match=r"expected a module or a function, got int"):
        Symmetrised(3, symmetry)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"expected a symmetry, got S"):
        Symmetrised(nn.Identity(), S(3))  # type: ignore[arg-type]
    for samples in (0, True, 2.0):
        with pytest.raises(ValueError, match=r"expected a positive number of samples or None"):
            Symmetrised(nn.Identity(), symmetry, samples=samples)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"inputs of width 3 for V\(S\(3\)\), got shape \(2, 4\)"):
        Symmetrised(nn.Identity(), symmetry)(torch.ones(2, 4))
    with pytest.raises(TypeError, match=r"expected floating-point inputs, got torch.int64"):
        Symmetrised(nn.Identity(), symmetry)(torch.ones(2, 3, dtype=torch.int64))
    with pytest.raises(ValueError, match=r"outputs of width 3 .* of 12 rows, got shape \(12, 2\)"):
        Symmetrised(lambda x: x[..., :2], symmetry)(torch.ones(2, 3))
