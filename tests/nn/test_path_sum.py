"""Sums of paths, and the prior of each against torch's own distributions."""

from __future__ import annotations

import copy
import math
import pickle

import pytest
import torch
from torch import nn
from torch.distributions import Normal

from isotropy.equivariance import assert_equivariant, equivariance_error
from isotropy.groups import SO, O
from isotropy.nn import EMLP, FactoredLinear, Linear, PathSum, PolyphasePool2d, log_prior
from isotropy.reps import Scalar, Symmetry, V


def soft() -> PathSum:
    return PathSum(
        {"strict": Linear(V, V, SO(3)), "free": nn.Linear(3, 3)},
        prior_variances={"free": 0.25, "strict": 1e5},
    )


def test_the_outputs_of_all_paths_are_added() -> None:
    first, second, third = nn.Linear(4, 2), nn.Linear(4, 2), nn.Linear(4, 2, bias=False)
    paths = PathSum({"a": first, "b": second, "c": third})
    x = torch.randn(2, 5, 4)
    torch.testing.assert_close(paths(x), first(x) + second(x) + third(x))
    assert (paths.in_features, paths.out_features) == (4, 2)
    alone = PathSum({"a": first})
    assert torch.equal(alone(x), first(x))


def test_every_path_learns() -> None:
    paths = soft()
    paths(torch.randn(5, 3)).square().sum().backward()
    assert all(bool(p.grad.any()) for p in paths.parameters())
    assert len(list(paths.parameters())) == 3


def test_the_prior_is_a_normal_distribution_for_each_path() -> None:
    paths = soft().double()
    variances = {"strict": 1e5, "free": 0.25}
    expected = sum(
        Normal(0.0, variances[name] ** 0.5).log_prob(parameter).sum()
        for name, path in paths.paths.items()
        for parameter in path.parameters()
    )
    torch.testing.assert_close(log_prior(paths), expected, rtol=1e-6, atol=1e-6)
    log_prior(paths).backward()
    for name, path in paths.paths.items():
        for parameter in path.parameters():
            torch.testing.assert_close(
                parameter.grad, -parameter.detach() / variances[name], rtol=1e-6, atol=1e-12
            )


def test_variances_are_one_unless_given() -> None:
    paths = PathSum({"a": nn.Linear(2, 2), "b": nn.Linear(2, 2)}, prior_variances={"b": 4.0})
    assert paths.prior_variances == pytest.approx({"a": 1.0, "b": 4.0})
    a, b = paths.paths.values()
    expected = sum(Normal(0.0, 1.0).log_prob(p).sum() for p in a.parameters())
    expected = expected + sum(Normal(0.0, 2.0).log_prob(p).sum() for p in b.parameters())
    torch.testing.assert_close(log_prior(paths), expected)


def test_variances_travel_with_the_state() -> None:
    given = soft()
    other = PathSum({"strict": Linear(V, V, SO(3)), "free": nn.Linear(3, 3)})
    other.load_state_dict(given.state_dict(), strict=True)
    assert other.prior_variances == pytest.approx({"strict": 1e5, "free": 0.25})
    torch.testing.assert_close(log_prior(other), log_prior(given))
    assert copy.deepcopy(given).prior_variances == given.prior_variances


def test_a_sum_of_equivariant_paths_is_equivariant_and_one_with_a_free_path_is_not() -> None:
    strict = PathSum(
        {
            "linear": Linear(2 * V, V, O(3)),
            "network": EMLP(2 * V, V, O(3), channels=12, layers=1),
        }
    ).double()
    assert_equivariant(strict)
    assert strict.rep_in == (2 * V)(O(3))
    x = torch.randn(5, 3, dtype=torch.float64)
    paths = soft().double()
    assert paths.rep_out == V(SO(3))
    assert equivariance_error(paths, x, Symmetry(SO(3), V, V)) > 1e-2
    with torch.no_grad():
        for parameter in paths.paths["free"].parameters():
            parameter.zero_()
    assert_equivariant(paths, x)


def test_the_representations_are_those_of_the_first_equivariant_path() -> None:
    paths = PathSum({"free": nn.Linear(4, 3), "strict": Linear(V + Scalar, V, SO(3))})
    assert paths.rep_in == (V + Scalar)(SO(3))
    assert paths.rep_out == V(SO(3))
    free = PathSum({"a": nn.Linear(3, 3)})
    with pytest.raises(AttributeError, match=r"rep_in"):
        _ = free.rep_in
    assert not hasattr(free, "rep_out")


@pytest.mark.parametrize(
    ("widths", "sentence"),
    [
        (((3, 3), (4, 3)), r"expected paths with the same in_features, got .*'a': 3, 'b': 4"),
        (((3, 3), (3, 2)), r"expected paths with the same out_features, got .*'a': 3, 'b': 2"),
    ],
    ids=["inputs", "outputs"],
)
def test_paths_of_other_widths_are_refused(
    widths: tuple[tuple[int, int], tuple[int, int]], sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        PathSum({"a": nn.Linear(*widths[0]), "b": nn.Linear(*widths[1])})


def test_paths_without_a_width_are_trusted() -> None:
    paths = PathSum({"identity": nn.Identity(), "linear": nn.Linear(3, 3)})
    x = torch.randn(2, 3)
    torch.testing.assert_close(paths(x), x + paths.paths["linear"](x))


def test_a_mean_divides_by_the_number_of_paths() -> None:
    paths = {"a": nn.Linear(4, 2), "b": nn.Linear(4, 2), "c": nn.Linear(4, 2)}
    x = torch.randn(5, 4)
    torch.testing.assert_close(PathSum(paths, average=True)(x), PathSum(paths)(x) / 3)
    assert torch.equal(PathSum({"a": paths["a"]}, average=True)(x), paths["a"](x))


def around(channels: int) -> nn.Conv2d:
    return nn.Conv2d(channels, 3, 3, padding=1, padding_mode="circular", dtype=torch.float64)


@pytest.mark.parametrize("average", [False, True], ids=["sum", "mean"])
def test_a_pool_takes_some_of_the_paths_together(average: bool) -> None:
    first, second = around(2), around(2)
    rest = nn.Conv2d(2, 3, 2, stride=2, dtype=torch.float64)
    pool = PolyphasePool2d()
    paths = PathSum(
        {"first": first, "rest": rest, "second": second},
        average=average,
        pool=pool,
        pooled=["second", "first"],
    )
    x = torch.randn(40, 2, 6, 6, dtype=torch.float64)
    together = pool(first(x) + second(x)) + rest(x)
    torch.testing.assert_close(paths(x), together / 3 if average else together)
    apart = pool(first(x)) + pool(second(x)) + rest(x)
    assert not torch.allclose(paths(x), apart / 3 if average else apart)
    assert not any("pool" in name for name in paths.state_dict())
    paths(x).square().sum().backward()
    assert all(bool(p.grad.any()) for p in paths.parameters())


def test_paths_that_choose_a_phase_together_stay_equivariant() -> None:
    x = torch.randn(20, 2, 6, 6, dtype=torch.float64)

    def totals(layer: nn.Module) -> torch.Tensor:
        """Squares summed over places: they do not change as maps are shifted."""
        return layer(x).square().sum((2, 3)) - layer(x.roll((1, 3), (2, 3))).square().sum((2, 3))

    made = {"a": around(2), "b": around(2)}
    together = PathSum(made, pool=PolyphasePool2d(), pooled=["a", "b"])
    assert totals(together).abs().max() < 1e-12
    each = PathSum({name: nn.Sequential(path, PolyphasePool2d()) for name, path in made.items()})
    assert totals(each).abs().max() > 1e-2


def test_copies_pool_as_the_sum_does() -> None:
    paths = PathSum({"a": around(2), "b": around(2)}, pool=PolyphasePool2d(), pooled=["a", "b"])
    x = torch.randn(3, 2, 4, 4, dtype=torch.float64)
    for twin in (copy.deepcopy(paths), pickle.loads(pickle.dumps(paths))):
        assert torch.equal(twin(x), paths(x))
    compiled = torch.compile(paths, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(x), paths(x))


@pytest.mark.parametrize(
    ("pool", "pooled", "sentence"),
    [
        (None, ["a"], r"got no pool and \['a'\]"),
        (nn.Identity(), [], r"got a pool and \[\]"),
        (nn.Identity(), ["a", "c"], r"got a pool and \['a', 'c'\]"),
    ],
    ids=["no pool", "no paths", "unknown path"],
)
def test_pools_without_paths_and_paths_without_a_pool_are_refused(
    pool: nn.Module | None, pooled: list[str], sentence: str
) -> None:
    whole = rf"expected a pool, and which of a, b go through it, or neither, {sentence}"
    with pytest.raises(ValueError, match=whole):
        PathSum({"a": nn.Linear(2, 2), "b": nn.Linear(2, 2)}, pool=pool, pooled=pooled)


@pytest.mark.parametrize(
    ("variances", "sentence"),
    [
        ({"b": 1.0}, r"expected prior variances for a, got one for 'b'"),
        ({"a": -1.0}, r"expected a prior variance of zero or more for a, got -1\.0"),
        ({"a": float("inf")}, r"expected a prior variance of zero or more for a, got inf"),
        ({"a": float("nan")}, r"expected a prior variance of zero or more for a, got nan"),
    ],
    ids=["unknown", "negative", "infinite", "nan"],
)
def test_bad_variances_are_refused(variances: dict[str, float], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        PathSum({"a": nn.Linear(2, 2)}, prior_variances=variances)


def test_a_sum_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match=r"expected at least one path, got none"):
        PathSum({})


@pytest.mark.parametrize("name", ["a.b", ""], ids=["dot", "empty"])
def test_names_of_paths(name: str) -> None:
    with pytest.raises(ValueError, match=r"expected names of paths without dots, got"):
        PathSum({name: nn.Linear(2, 2)})


def test_paths_are_given_by_name() -> None:
    with pytest.raises(TypeError, match=r"expected modules by name, got list"):
        PathSum([nn.Linear(2, 2)])  # type: ignore[arg-type]


def test_paths_do_not_broadcast() -> None:
    layer = PathSum({"a": nn.Conv2d(1, 2, 3, padding=1), "b": nn.Conv2d(1, 2, (4, 3))})
    with pytest.raises(ValueError, match=r"outputs of one shape, got \(3, 2, 4, 4\) and \(3, 2, 1"):
        layer(torch.randn(3, 1, 4, 4))


def test_a_variance_of_zero_is_the_strict_limit() -> None:
    strict, free = nn.Linear(3, 3), nn.Linear(3, 3)
    layer = PathSum({"strict": strict, "free": free}, prior_variances={"free": 0.0})
    x = torch.randn(4, 3)
    assert torch.equal(layer(x), strict(x))
    assert layer.prior_variances == {"strict": 1.0, "free": 0.0}
    squares = sum(float(p.detach().square().sum()) for p in strict.parameters())
    assert float(log_prior(layer).detach()) == pytest.approx(
        -0.5 * (squares + 12 * math.log(2 * math.pi)), rel=1e-5
    )
    layer(x).square().sum().backward()
    assert free.weight.grad is None
    twin = PathSum({"strict": nn.Linear(3, 3), "free": nn.Linear(3, 3)})
    twin.load_state_dict(layer.state_dict())
    assert [p.requires_grad for p in twin.parameters()] == [True, True, False, False]


def test_tensors_have_variances_of_their_own() -> None:
    paths = {"factored": FactoredLinear(1, 1, 2), "conv": nn.Conv2d(1, 1, 1, bias=False)}
    layer = PathSum(paths)
    with torch.no_grad():
        for k, (path, name) in enumerate(layer.tensors):
            if (path, name) == ("factored", "outer"):
                layer.log_variances[k] = math.log(1e-8)
    assert layer.prior_variances == pytest.approx({"factored": 1e-8, "conv": 1.0})
    assert layer.tensor_variances["paths.factored.inner"] == 1
    expected = sum(
        float(Normal(0, variance**0.5).log_prob(p.detach()).sum())
        for p, variance in zip(
            [layer.get_parameter(name) for name in layer.tensor_variances],
            layer.tensor_variances.values(),
            strict=True,
        )
    )
    assert float(log_prior(layer).detach()) == pytest.approx(expected, rel=1e-4)


def test_states_with_one_variance_for_each_path_are_read() -> None:
    layer = PathSum({"a": nn.Linear(2, 2), "b": nn.Linear(2, 2)})
    state = layer.state_dict() | {"log_variances": torch.tensor([0.0, math.log(0.25)])}
    layer.load_state_dict(state)
    expected = {
        "paths.a.weight": 1,
        "paths.a.bias": 1,
        "paths.b.weight": 0.25,
        "paths.b.bias": 0.25,
    }
    assert layer.tensor_variances == pytest.approx(expected)
    assert layer.prior_variances == pytest.approx({"a": 1.0, "b": 0.25})


def test_print_tells_how_paths_are_put_together() -> None:
    paths = {"a": nn.Conv2d(1, 1, 1), "b": nn.Conv2d(1, 1, 2, stride=2)}
    layer = PathSum(paths, average=True, pool=PolyphasePool2d(), pooled=["a"])
    assert "average=True, pooled=['a']" in str(layer)


def test_a_state_with_a_free_path_sets_a_strict_one_free() -> None:
    def made(variance: float) -> PathSum:
        paths = {"a": nn.Linear(2, 2), "b": nn.Linear(2, 2)}
        return PathSum(paths, prior_variances={"b": variance})

    strict, free = made(0.0), made(1.0)
    frozen = made(1.0)
    frozen.paths["b"].bias.requires_grad_(False)  # by the user, and left to the user
    for model in (strict, frozen):
        model.load_state_dict(free.state_dict())
    assert all(p.requires_grad for p in strict.parameters())
    assert not frozen.paths["b"].bias.requires_grad
    free.load_state_dict(made(0.0).state_dict())
    assert not any(p.requires_grad for p in free.paths["b"].parameters())
