"""Layers and networks do all that torch expects of a module."""

from __future__ import annotations

import copy
import io
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from isotropy.equivariance import assert_equivariant, equivariance_error
from isotropy.groups import SL, SU, O, S, SO13p, Sp
from isotropy.nn import (
    EMLP,
    BiLinear,
    GatedNonlinearity,
    Linear,
    NormNonlinearity,
    SharedLinear,
    fixed_weights,
    record,
)
from isotropy.reps import Scalar, Symmetry, T, V

LABELS = torch.tensor([[0, 1, 2, -1], [2, 0, 1, 1], [1, 2, 0, 3]])
SIGNS = torch.tensor([[1, 1, -1, 1], [-1, 1, 1, -1], [1, 1, 1, 1]])

LINEAR: dict[str, Callable[..., nn.Module]] = {
    "orthogonal": lambda **kind: Linear(V + 2 * Scalar + T(2), Scalar + V + Scalar, O(3), **kind),
    "Lorentz": lambda **kind: Linear(V + Scalar + V, V + V.T + 2 * Scalar, SO13p(), **kind),
    "permutations": lambda **kind: Linear(V + Scalar + V, V + Scalar, S(4), **kind),
    "shared": lambda **kind: SharedLinear(LABELS, SIGNS, **kind),
}
NETWORKS: dict[str, Callable[..., nn.Module]] = {
    "orthogonal network": lambda layers=2, **kind: EMLP(
        Scalar + 2 * V, V + Scalar, O(3), channels=2 * V + Scalar + T(2) + V, layers=layers, **kind
    ),
    "Lorentz network": lambda layers=2, **kind: EMLP(
        Scalar + 2 * V, V + Scalar, SO13p(), channels=16, layers=layers, **kind
    ),
    "permutation network": lambda layers=2, **kind: EMLP(
        Scalar + 2 * V, V + Scalar, S(4), channels=24, layers=layers, **kind
    ),
    "norm network": lambda layers=2, **kind: EMLP(
        Scalar + 2 * V, V + Scalar, O(3), channels=15, layers=layers, nonlinearity="norm", **kind
    ),
}
MODELS = {**LINEAR, **NETWORKS}


def rows(model: nn.Module, *batch: int, dtype: torch.dtype = torch.float32) -> Tensor:
    rng = torch.Generator().manual_seed(1)
    return torch.randn(*batch, model.in_features, dtype=torch.float64, generator=rng).to(dtype)


def perturbed(model: nn.Module) -> nn.Module:
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def built(name: str, **kind: object) -> nn.Module:
    return perturbed(MODELS[name](**kind))


def symmetry_of(model: nn.Module) -> Symmetry | None:
    return getattr(model, "symmetry", None)


# --- copies -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
def test_a_state_goes_to_another_copy_through_a_file(name: str) -> None:
    model, other = built(name), built(name)
    x = rows(model, 5)
    assert not torch.allclose(model(x), other(x))
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    other.load_state_dict(torch.load(file, weights_only=True), strict=True)
    assert torch.equal(model(x), other(x))
    assert sum(v.numel() for v in model.state_dict().values()) == sum(
        p.numel() for p in model.parameters()
    )  # constants follow from the representations and are not stored


@pytest.mark.parametrize("name", MODELS)
def test_copies_and_pickles_are_the_same_function_with_weights_of_their_own(name: str) -> None:
    model = built(name)
    x = rows(model, 5)
    expected = model(x)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(other(x), expected)
        perturbed(other)
        assert not torch.allclose(other(x), expected)
        assert torch.equal(model(x), expected)


@pytest.mark.parametrize("name", MODELS)
def test_copies_taken_within_a_context_know_nothing_of_it(name: str) -> None:
    model = built(name)
    x = rows(model, 5)
    with fixed_weights(model), record(model) as operations:
        expected = model(x)
        copies = [copy.deepcopy(model), pickle.loads(pickle.dumps(model))]
        kept = len(operations)
    for other in copies:
        torch.testing.assert_close(other(x), expected)
        perturbed(other)
        assert not torch.allclose(other(x), expected)
        with record(other) as own:
            other(x)
        assert len(own) == kept
    assert len(operations) == kept


# --- compilers --------------------------------------------------------------------------------


def compiled(model: nn.Module, backend: str) -> Callable[[Tensor], Tensor]:
    torch._dynamo.reset()
    return torch.compile(model, fullgraph=True, backend=backend)


def small(name: str) -> nn.Module:
    """With one hidden layer, which is quicker to compile."""
    return perturbed(NETWORKS[name](layers=1) if name in NETWORKS else LINEAR[name]())


@pytest.mark.parametrize("name", ["permutations", "Lorentz", "permutation network", "norm network"])
def test_the_whole_model_is_one_graph(name: str) -> None:
    model = small(name)
    x = rows(model, 5)
    torch.testing.assert_close(compiled(model, "eager")(x), model(x))


@pytest.mark.parametrize("name", ["shared", "orthogonal", "orthogonal network", "Lorentz network"])
def test_the_graph_has_its_gradient(name: str) -> None:
    model = small(name)
    x = rows(model, 5)
    expected = model(x)
    gradients = torch.autograd.grad(expected.square().sum(), tuple(model.parameters()))
    y = compiled(model, "aot_eager")(x)
    torch.testing.assert_close(y, expected)
    y.square().sum().backward()
    for parameter, gradient in zip(model.parameters(), gradients, strict=True):
        torch.testing.assert_close(parameter.grad, gradient)


def test_a_graph_follows_its_weights() -> None:
    """Weights are not frozen into the graph at its first call."""
    model = small("shared")
    graph = compiled(model, "eager")
    x = rows(model, 5)
    graph(x)
    perturbed(model)
    torch.testing.assert_close(graph(x), model(x))


# --- precision --------------------------------------------------------------------------------


# spaces whose constants are not whole numbers: rounding them once would show
ROUNDED: dict[str, Callable[[], nn.Module]] = {
    "orthogonal": lambda: Linear(V + 2 * Scalar + T(2), T(2) + V, O(3)),
    "Lorentz": lambda: Linear(V + T(1, 1), T(1, 1) + V, SO13p()),
    "linear group": lambda: Linear(V + T(1, 1), T(1, 1) + V, SL(3)),
    "orthogonal network": lambda: EMLP(2 * V + T(2), T(2), O(3), channels=2 * V + 2 * T(2)),
    "Lorentz network": lambda: EMLP(V + T(1, 1), T(1, 1), SO13p(), channels=2 * V + 2 * T(1, 1)),
    "norm network": lambda: EMLP(
        2 * V + T(2), T(2), O(3), channels=2 * V + 2 * T(2), nonlinearity="norm"
    ),
}


@pytest.mark.parametrize("name", ROUNDED)
def test_constants_are_exact_after_any_change_of_precision(name: str) -> None:
    model = perturbed(ROUNDED[name]())
    model.half().double()
    assert all(p.dtype == torch.float64 for p in model.parameters())
    x = rows(model, 5, dtype=torch.float64)
    assert model(x).dtype == torch.float64
    assert_equivariant(model, x, tolerance=1e-12)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_models_run_in_half_precision(name: str, dtype: torch.dtype) -> None:
    model = built(name)
    expected = model(rows(model, 5))
    model.to(dtype)
    y = model(rows(model, 5, dtype=dtype))
    assert y.dtype == dtype
    scale = float(expected.detach().abs().max())
    torch.testing.assert_close(y.float(), expected, rtol=0.1, atol=0.1 * scale)
    if symmetry_of(model) is not None:
        assert_equivariant(model, rows(model, 5, dtype=dtype))


@pytest.mark.parametrize("name", MODELS)
def test_autocast_lowers_the_precision_and_keeps_the_symmetry(name: str) -> None:
    model = built(name)

    def under_autocast(x: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return model(x)

    x = rows(model, 16)
    y = under_autocast(x)
    assert y.dtype == torch.bfloat16
    scale = float(y.detach().abs().max())
    torch.testing.assert_close(y.float(), model(x), rtol=0.1, atol=0.1 * scale)
    assert all(p.dtype == torch.float32 for p in model.parameters())
    symmetry = symmetry_of(model)
    if symmetry is not None:
        assert equivariance_error(under_autocast, x, symmetry) < 6e-2
    y.square().sum().backward()
    assert all(bool(torch.isfinite(p.grad).all()) for p in model.parameters())


def test_models_follow_the_default_dtype() -> None:
    torch.set_default_dtype(torch.float64)
    try:
        model = NETWORKS["orthogonal network"]()
    finally:
        torch.set_default_dtype(torch.float32)
    assert {p.dtype for p in model.parameters()} == {torch.float64}
    assert_equivariant(model, tolerance=1e-12)


# --- devices ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
def test_models_are_planned_without_memory_and_filled_later(name: str) -> None:
    model, planned = built(name), MODELS[name](device="meta")
    assert all(p.is_meta for p in planned.parameters())
    planned = planned.to_empty(device="cpu")
    planned.load_state_dict(model.state_dict(), strict=True)
    x = rows(model, 5)
    torch.testing.assert_close(planned(x), model(x))


@pytest.mark.parametrize("name", LINEAR)
def test_planned_layers_draw_their_weights_on_request(name: str) -> None:
    layer = MODELS[name](device="meta").to_empty(device="cpu")
    layer.reset_parameters()
    y = layer(rows(layer, 400))
    assert 0.05 < float(y.detach().std()) < 5
    if symmetry_of(layer) is not None:
        assert_equivariant(layer)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@pytest.mark.parametrize("name", MODELS)
def test_models_run_on_a_gpu(name: str) -> None:
    model = built(name, dtype=torch.float64)
    x = rows(model, 5, dtype=torch.float64)
    expected = model(x)
    moved = copy.deepcopy(model).to("cuda")
    y = moved(x.cuda())
    assert y.is_cuda
    torch.testing.assert_close(y.cpu(), expected)
    y.square().sum().backward()
    expected.square().sum().backward()
    for ours, theirs in zip(moved.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(ours.grad.cpu(), theirs.grad)
    there = MODELS[name](device="cuda", dtype=torch.float64)
    there.load_state_dict(model.state_dict())
    torch.testing.assert_close(there(x.cuda()).cpu(), expected)
    torch.testing.assert_close(moved.cpu()(x), expected)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@pytest.mark.parametrize("name", MODELS)
def test_models_run_under_autocast_on_a_gpu(name: str) -> None:
    model = built(name, device="cuda")
    x = rows(model, 16).cuda()
    with torch.autocast("cuda", torch.bfloat16):
        y = model(x)
    assert y.dtype == torch.bfloat16
    scale = float(y.detach().abs().max())
    torch.testing.assert_close(y.float(), model(x), rtol=0.1, atol=0.1 * scale)


WORKERS = """
import os
import sys
import torch
import torch._dynamo  # once, before there are two processes
from torch import distributed
from torch.nn.parallel import DistributedDataParallel
from isotropy.groups import O
from isotropy.nn import EMLP
from isotropy.reps import Scalar, V

folder = sys.argv[1]
model = EMLP(2 * V, V + Scalar, O(3), channels=15, layers=2, dtype=torch.float64)
saved = torch.load(f"{folder}/start.pt", weights_only=True)
other = os.fork()
rank = 0 if other else 1
distributed.init_process_group(
    "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2
)
if rank == 0:  # the other process gets them from this one
    model.load_state_dict(saved["state"])
else:
    for parameter in model.parameters():
        torch.nn.init.zeros_(parameter)
together = DistributedDataParallel(model)
optimizer = torch.optim.SGD(together.parameters(), lr=0.1)
for _ in range(2):
    optimizer.zero_grad()
    (together(saved["x"][rank::2]) - saved["y"][rank::2]).square().mean().backward()
    optimizer.step()
torch.save(model.state_dict(), f"{folder}/end{rank}.pt")
distributed.destroy_process_group()
if rank == 0:
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(other, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_two_processes_train_as_one_on_the_whole_batch(tmp_path: Path) -> None:
    model = EMLP(2 * V, V + Scalar, O(3), channels=15, layers=2, dtype=torch.float64)
    x, y = rows(model, 6, dtype=torch.float64), torch.randn(6, 4, dtype=torch.float64)
    torch.save({"state": model.state_dict(), "x": x, "y": y}, tmp_path / "start.pt")
    (tmp_path / "workers.py").write_text(WORKERS)
    subprocess.run(
        [sys.executable, str(tmp_path / "workers.py"), str(tmp_path)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        check=True,
        timeout=120,
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        (model(x) - y).square().mean().backward()
        optimizer.step()
    for rank in range(2):
        ended = torch.load(tmp_path / f"end{rank}.pt", weights_only=True)
        for name, parameter in model.state_dict().items():
            torch.testing.assert_close(ended[name], parameter)


# --- leaving the library ----------------------------------------------------------------------


@pytest.mark.parametrize("name", LINEAR)
def test_linear_layers_leave_as_plain_ones(name: str) -> None:
    layer = built(name)
    plain = layer.export()
    assert type(plain) is nn.Linear
    x = rows(layer, 2, 5)
    torch.testing.assert_close(plain(x), layer(x))
    torch.testing.assert_close(plain.weight, layer.weight)
    before = plain(x)
    perturbed(layer)
    assert torch.equal(plain(x), before)


def test_exported_layers_have_a_bias_only_where_there_is_one() -> None:
    assert Linear(V, V, O(3)).export().bias is None
    assert Linear(V, V, S(3), bias=False).export().bias is None
    complex_layer = Linear(V + Scalar, 2 * Scalar + V, SU(2))
    x = torch.randn(4, 3, dtype=torch.complex64)
    torch.testing.assert_close(complex_layer.export()(x), complex_layer(x))


@pytest.mark.parametrize("name", ["orthogonal network", "Lorentz network"])
def test_networks_leave_as_programs_for_batches_of_any_length(name: str) -> None:
    model = built(name)
    file = io.BytesIO()
    torch.export.save(model.export(), file)
    file.seek(0)
    program = torch.export.load(file).module()
    for n in (2, 3, 11):
        torch.testing.assert_close(program(rows(model, n)), model(rows(model, n)))


def test_the_example_batch_may_be_given() -> None:
    model = built("permutation network").double()
    program = model.export(rows(model, 4, dtype=torch.float64)).module()
    x = rows(model, 9, dtype=torch.float64)
    torch.testing.assert_close(program(x), model(x))


# --- derivatives and transforms ---------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
def test_an_ensemble_runs_under_vmap(name: str) -> None:
    models = [built(name) for _ in range(3)]
    x = rows(models[0], 5)
    stacked, _ = torch.func.stack_module_state(models)
    parameters = dict(models[0].named_parameters())
    stacked = {k: v for k, v in stacked.items() if k in parameters}

    def call(given: dict[str, Tensor], x: Tensor) -> Tensor:
        return torch.func.functional_call(models[0], given, (x,))

    together = torch.vmap(call, in_dims=(0, None))(stacked, x)
    expected = torch.stack([model(x) for model in models])
    torch.testing.assert_close(together, expected)
    by_row = torch.vmap(models[0])(x)
    torch.testing.assert_close(by_row, expected[0])


@pytest.mark.parametrize("name", MODELS)
def test_both_modes_of_differentiation_agree_with_finite_differences(name: str) -> None:
    model = built(name, dtype=torch.float64)
    x, direction = rows(model, 4, dtype=torch.float64), rows(model, 5, dtype=torch.float64)[1:]
    y, forward = torch.func.jvp(model, (x,), (direction,))
    step = 1e-6
    difference = (model(x + step * direction) - model(x - step * direction)) / (2 * step)
    torch.testing.assert_close(forward, difference, rtol=1e-5, atol=1e-7)
    cotangent = torch.randn_like(y)
    _, pull = torch.func.vjp(model, x)
    (backward,) = pull(cotangent)
    torch.testing.assert_close((backward * direction).sum(), (cotangent * forward).sum())


TINY: dict[str, Callable[[], EMLP]] = {
    "O(2)": lambda: EMLP(V, V + Scalar, O(2), channels=4, layers=1, dtype=torch.float64),
    "O(2) with matrices": lambda: EMLP(
        V + Scalar, V, O(2), channels=V + Scalar + T(2), layers=1, dtype=torch.float64
    ),
    "Sp(1)": lambda: EMLP(V + V.T, Scalar, Sp(1), channels=8, layers=1, dtype=torch.float64),
    "S(2)": lambda: EMLP(V, V, S(2), channels=4, layers=1, dtype=torch.float64),
}


@pytest.mark.parametrize("name", TINY)
def test_gradients_of_weights_and_inputs_are_right_twice(name: str) -> None:
    model = perturbed(TINY[name]())
    names = [key for key, _ in model.named_parameters()]

    def call(x: Tensor, *given: Tensor) -> Tensor:
        return torch.func.functional_call(model, dict(zip(names, given, strict=True)), (x,))

    x = rows(model, 2, dtype=torch.float64).requires_grad_()
    inputs = (x, *(p.detach().clone().requires_grad_() for p in model.parameters()))
    assert torch.autograd.gradcheck(call, inputs)
    assert torch.autograd.gradgradcheck(call, inputs)


@pytest.mark.parametrize("name", MODELS)
def test_every_parameter_has_a_gradient(name: str) -> None:
    model = built(name)
    model(rows(model, 8)).square().sum().backward()
    for parameter in model.parameters():
        assert parameter.grad is not None
        assert bool(parameter.grad.any())


# --- shapes -----------------------------------------------------------------------------------

SHAPED: dict[str, Callable[..., nn.Module]] = {
    **MODELS,
    "bilinear": lambda: BiLinear(V + Scalar + V, Scalar + V + Scalar, O(3)),
    "gated": lambda: GatedNonlinearity(V + Scalar + V, O(3)),
    "norm": lambda: NormNonlinearity(V + Scalar + V, O(3)),
}


@pytest.mark.parametrize("name", SHAPED)
def test_leading_axes_are_kept(name: str) -> None:
    model = SHAPED[name]()
    x = rows(model, 2, 3)
    y = model(x)
    assert y.shape == (2, 3, model.out_features)
    for i in range(2):
        torch.testing.assert_close(model(x[i]), y[i])
    torch.testing.assert_close(model(x[1, 2]), y[1, 2])
    torch.testing.assert_close(model(x.transpose(0, 1)), y.transpose(0, 1))
    assert model(x[:, :0]).shape == (2, 0, model.out_features)
    empty = x[0, :0].requires_grad_()
    y = model(empty)
    assert y.shape == (0, model.out_features)
    y.sum().backward()
    assert empty.grad.shape == (0, model.in_features)


@pytest.mark.parametrize("name", MODELS)
def test_inference_mode_gives_the_same(name: str) -> None:
    model = built(name)
    x = rows(model, 5)
    with torch.inference_mode():
        inferred = model(x)
    torch.testing.assert_close(inferred.clone(), model(x).detach())
    model.train(False)
    assert torch.equal(model(x), model.train()(x))


@pytest.mark.parametrize("name", MODELS)
def test_models_print_their_spaces(name: str) -> None:
    text = repr(MODELS[name]())
    assert ("in_features=4" if name == "shared" else " >> ") in text
