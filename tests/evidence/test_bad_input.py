"""What cannot be handled is refused in one sentence, and the network is as it was."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from evidence_parts import curvature_options
from isotropy.evidence import CurvatureOptions, evidence_gradient, laplace, log_marginal_likelihood
from isotropy.groups import S, U
from isotropy.nn import HNN, MLP, Linear, RecordedModule
from isotropy.reps import V

N = 6


def state_of(model: nn.Module) -> list[Any]:
    """Everything that a failure might leave behind."""
    found: list[Any] = []
    for name, module in model.named_modules():
        hooks = (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks)
        found.append((name, module.training, [len(h) for h in hooks]))
        if isinstance(module, RecordedModule):
            found.append((module._record, module._prefix))
    for name, parameter in model.named_parameters():
        found.append((name, parameter.requires_grad, parameter.grad, parameter.tolist()))
    return found


@contextmanager
def refused(model: Any, match: str, kind: type[Exception] = ValueError) -> Iterator[None]:
    """An error with this sentence, and a model that nothing has happened to."""
    if not isinstance(model, nn.Module):
        with pytest.raises(kind, match=match):
            yield
        return
    model.train()
    for module in list(model.modules())[1::2]:  # not all in one mode
        module.eval()
    before, grad = str(state_of(model)), torch.is_grad_enabled()
    with pytest.raises(kind, match=match):
        yield
    assert str(state_of(model)) == before
    assert torch.is_grad_enabled() == grad


def x_of(*shape: int) -> Tensor:
    return torch.randn(N, *shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def mlp(out: int = 2) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, out)).double()


def regression(model: nn.Module, x: Tensor | None = None, **options: Any) -> Any:
    x = x_of(3) if x is None else x
    with torch.no_grad():
        y = torch.zeros_like(model(x).detach())
    return laplace(model, "regression", (x, y), **curvature_options(**options))


# --- layers -----------------------------------------------------------------------------------


class Own(nn.Module):
    """A layer that nobody listens to."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(3, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        return self.scale * x


class Pairs(nn.Module):
    """A layer of torch that is linear in its weights, and not one that is heard."""

    def __init__(self) -> None:
        super().__init__()
        self.bilinear = nn.Bilinear(3, 3, 2).double()

    def forward(self, x: Tensor) -> Tensor:
        return self.bilinear(x, x.tanh())


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True).double()

    def forward(self, x: Tensor) -> Tensor:
        return self.attention(x, x, x)[0].mean(1)


def parametrised() -> nn.Module:
    model = mlp()
    parametrize.register_parametrization(model[0], "weight", nn.Tanh())
    return model


UNHEARD: dict[str, tuple[Any, str, tuple[int, ...]]] = {
    "own": (lambda: nn.Sequential(Own(), nn.Linear(3, 2).double()), r"0\.scale", (3,)),
    "bilinear": (Pairs, r"bilinear\.weight", (3,)),
    "attention": (Attention, r"attention\.in_proj_weight", (2, 4)),
    "parametrised": (parametrised, r"0\.parametrizations\.weight\.original", (3,)),
    "recurrent": (
        lambda: nn.Sequential(nn.Linear(3, 3), nn.GRUCell(3, 2)).double(),
        r"1\.weight_ih",
        (3,),
    ),
}


@pytest.mark.parametrize("structure", ["kronecker", "full"])
@pytest.mark.parametrize("name", UNHEARD)
def test_a_layer_that_is_not_heard(name: str, structure: str) -> None:
    build, parameter, shape = UNHEARD[name]
    model = build()
    match = rf"expected layers whose operations are recorded, got {parameter}[ ,]"
    with refused(model, match):
        regression(model, x_of(*shape), structure=structure)


def test_left_out_or_frozen_it_is_no_hindrance() -> None:
    model = UNHEARD["own"][0]()
    aside = regression(model, hyperparameters=["0.scale"]).log_marginal_likelihood()
    model[0].scale.requires_grad_(False)
    assert torch.equal(regression(model).log_marginal_likelihood(), aside)


class OtherUse(nn.Module):
    """Weights that also stand in the output by hand."""

    def __init__(self, share: float = 1.0) -> None:
        super().__init__()
        self.linear, self.share = nn.Linear(3, 3).double(), share

    def forward(self, x: Tensor) -> Tensor:
        y = self.linear(x).tanh()
        return y + self.share * y @ self.linear.weight


class Wrong(RecordedModule):
    """A layer that tells something else than what it does."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(x_of(3)[:2].clone())

    def forward(self, x: Tensor) -> Tensor:
        y = 2 * x @ self.weight.mT
        self.note("weight", x, y)
        return y


@pytest.mark.filterwarnings("ignore:Converting a tensor with requires_grad:UserWarning")
@pytest.mark.parametrize(
    ("model", "parameter", "width"),
    [
        (OtherUse(), r"linear\.weight", 3),
        (OtherUse(1e-4), r"linear\.weight", 3),
        (Wrong(), r"weight", 3),
        (HNN(MLP(4, 1, channels=5, layers=1)).double(), r"hamiltonian\.", 4),
    ],
    ids=["by hand", "by hand, a little", "told wrongly", "second derivative"],
)
def test_a_parameter_with_other_uses(model: nn.Module, parameter: str, width: int) -> None:
    match = rf"expected {parameter}.*through its recorded operations alone, got other uses of it"
    with refused(model, match):
        regression(model, x_of(width))


def test_a_bias_that_a_normalisation_takes_away(twin: Any) -> None:
    """Its gradient is zero but for rounding, by autograd and from the operations alike."""
    for size in (4, 5, 6, 7, 8):

        def build(size: int = size) -> nn.Module:
            layers = nn.Conv2d(2, 3, 3), nn.InstanceNorm2d(3), nn.Tanh(), nn.Flatten()
            return nn.Sequential(*layers, nn.Linear(3 * (size - 2) ** 2, 3))

        task = twin.filled(build, (2, size, size))
        found = laplace(
            task.model, task.loss, task.data, curvature=CurvatureOptions(sharing="reduce")
        )
        assert found.effective_parameters().counts["0.bias"] < 1e-10


class Idle(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.used, self.idle = nn.Linear(3, 2).double(), nn.Linear(3, 2).double()

    def forward(self, x: Tensor) -> Tensor:
        self.idle(x)
        return self.used(x)


def test_a_parameter_that_reaches_no_output() -> None:
    model = Idle()
    with refused(model, r"expected every parameter to reach the output, got idle\.weight, which"):
        regression(model)
    assert regression(model, hyperparameters=["idle.weight", "idle.bias"]).group_sizes["used.bias"]


def test_complex_parameters() -> None:
    model = Linear(V, V, U(2))
    with refused(model, r"expected real parameters, got coefficients of torch\.complex64"):
        laplace(model, "regression", (torch.randn(N, 2), torch.randn(N, 2)))


def test_outputs_without_a_graph() -> None:
    class Cut(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(3, 2).double()

        def forward(self, x: Tensor) -> Tensor:
            return self.linear(x).detach()

    with refused(model := Cut(), r"expected outputs that depend on the parameters by autograd"):
        regression(model)


class Shaped(nn.Module):
    """Outputs of some other form."""

    def __init__(self, form: str) -> None:
        super().__init__()
        self.linear, self.form = nn.Linear(3, 2).double(), form

    def forward(self, x: Tensor) -> Any:
        y = self.linear(x)
        return {"pair": (y, y), "sum": y.sum(0), "number": y.sum()}[self.form]


@pytest.mark.parametrize(
    ("form", "kind", "match"),
    [
        ("pair", TypeError, r"expected a model that returns a tensor, got tuple"),
        ("sum", ValueError, r"expected an output for each of 6 samples, got shape \(2,\)"),
        ("number", ValueError, r"expected an output for each of 6 samples, got shape \(\)"),
    ],
)
def test_outputs_of_another_form(form: str, kind: type[Exception], match: str) -> None:
    with refused(model := Shaped(form), match, kind):
        laplace(model, "regression", (x_of(3), x_of(2)))


class Flattened(nn.Module):
    """A sequence whose positions stand beside the samples."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 2).double()

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x.flatten(0, 1)).tanh().unflatten(0, x.shape[:2]).sum(1)


@pytest.mark.parametrize("structure", ["block", "diagonal", "full"])
def test_rows_that_are_not_by_sample(structure: str, twin: Any) -> None:
    model, x = Flattened(), x_of(4, 3)
    with refused(model, r"expected samples along the first axis of what linear.weight sees, got"):
        regression(model, x, structure=structure)
    task = twin.Task(model, "regression", x, x_of(2))
    rows = [(a, g, h) for a, g, h in twin.at_layer(twin.Task(Kept(model), *task_of(task)), "inner")]
    block = regression(model, x).blocks["linear.weight"][0]
    twin.assert_close(block.dense(), twin.stacked(rows).matrix())


class Kept(nn.Module):
    """The same, position by position."""

    def __init__(self, model: Flattened) -> None:
        super().__init__()
        self.inner = model.linear

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x).tanh().sum(1)


def task_of(task: Any) -> tuple[str, Tensor, Tensor]:
    return task.loss, task.x, task.y


# --- options ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "kind", "match"),
    [
        ({"structure": "kfac"}, ValueError, r"expected structure 'kronecker', .*, got 'kfac'"),
        (
            {"passes": "all"},
            ValueError,
            r"expected passes 'exact', 'sampled', 'signs', 'summed', got 'all'",
        ),
        ({"probes": 0}, ValueError, r"expected a positive number of probes, got 0"),
        ({"probes": True}, ValueError, r"expected a positive number of probes, got True"),
        ({"sharing": "sum"}, ValueError, r"expected sharing 'expand', .*, got 'sum'"),
        (
            {"sharing": {"space": "sum"}},
            ValueError,
            r"expected sharing .* along 'space', got 'sum'",
        ),
        (
            {"sharing": {"time": "reduce"}},
            ValueError,
            r"expected sharing along one of channel, component, group, position, space, got 'time'",
        ),
        (
            {"groups": {"5.weight": "a"}},
            ValueError,
            r"expected groups of .*, got one for '5.weight'",
        ),
        ({"groups": 3}, TypeError, r"expected groups as a map of names, .*, got int"),
        ({"params": {"nothing": x_of(1)}}, ValueError, r"expected names of parameters .*'nothing'"),
        ({"hyperparameters": ["no"]}, ValueError, r"expected names of parameters .*, got 'no'"),
        (
            {"params": {"0.weight": x_of(3)}},
            ValueError,
            r"expected 0\.weight of shape \(4, 3\), got \(6, 3\)",
        ),
        ({"params": {}}, ValueError, r"expected parameters to integrate out, got none"),
        ({"subset": N + 1}, ValueError, rf"expected a subset of 1 to {N} samples, got {N + 1}"),
        ({"batch_size": 0}, ValueError, r"expected a batch size of at least one, got 0"),
    ],
    ids=[
        "structure",
        "passes",
        "no probes",
        "probes",
        "sharing",
        "sharing of an axis",
        "sharing of another axis",
        "groups",
        "kind of groups",
        "names",
        "hyperparameters",
        "shapes",
        "no parameters",
        "subset",
        "batch size",
    ],
)
def test_options(options: dict[str, Any], kind: type[Exception], match: str) -> None:
    model = mlp()
    with refused(model, match, kind):
        regression(model, **options)


def test_a_model_that_is_none() -> None:
    with refused(None, r"expected a torch module, got function", TypeError):
        laplace(lambda x: x, "regression", (x_of(3), x_of(2)))  # type: ignore[arg-type]


def test_nothing_to_integrate_out() -> None:
    model = mlp().requires_grad_(False)
    with refused(model, r"expected parameters to integrate out, got none that require gradients"):
        regression(model)


@pytest.mark.parametrize(
    ("loss", "kind"),
    [("hinge", ValueError), (nn.L1Loss(), TypeError), (nn.NLLLoss(), ValueError), (3, TypeError)],
    ids=["name", "module", "log probabilities", "number"],
)
def test_losses(loss: Any, kind: type[Exception]) -> None:
    with refused(model := mlp(), r"expected (as the loss|a loss of logits)", kind):
        laplace(model, loss, (x_of(3), x_of(2)))


def test_a_loss_with_weights_of_classes() -> None:
    with refused(model := mlp(), r"expected a CrossEntropyLoss whose weight is None, got weights"):
        laplace(model, nn.CrossEntropyLoss(weight=torch.ones(2)), (x_of(3), x_of(2)))


@pytest.mark.parametrize(
    ("precisions", "match"),
    [
        (0.0, r"expected a positive precision, got 0\.0"),
        (-1.0, r"expected a positive precision, got -1\.0"),
        (float("nan"), r"expected a positive precision, got nan"),
        (float("inf"), r"expected a positive precision, got inf"),
        (torch.ones(2), r"expected one precision, got shape \(2,\)"),
        ({"0.weight": 1.0}, r"expected a precision for every group, got none for '0\.bias'"),
        ({"weight": 1.0}, r"expected precisions of 0\.weight, .*, got one for 'weight'"),
        (
            {"0.weight": 1.0, "0.bias": 0.0, "2.weight": 1.0, "2.bias": 1.0},
            r"expected a positive precision for 0\.bias, got 0\.0",
        ),
    ],
    ids=["zero", "negative", "nan", "inf", "two", "missing", "unknown", "zero by name"],
)
def test_precisions(precisions: Any, match: str) -> None:
    found = regression(mlp())
    for asked in (found.log_marginal_likelihood, found.effective_parameters, found.log_prior):
        with pytest.raises(ValueError, match=match):
            asked(precisions)


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf")])
def test_noise_and_temperature(value: float) -> None:
    found = regression(mlp())
    for asked in (found.log_marginal_likelihood, found.log_likelihood):
        with pytest.raises(ValueError, match=r"expected a positive temperature, got"):
            asked(temperature=value)
        with pytest.raises(ValueError, match=r"expected a positive number as the noise, got"):
            asked(noise=value)
    with pytest.raises(ValueError, match=r"expected a positive temperature, got"):
        found.effective_parameters(temperature=value)


def test_noise_of_classes() -> None:
    model, y = mlp(), torch.arange(N) % 2
    with refused(model, r"expected no noise for classification, got 0\.5"):
        log_marginal_likelihood(model, "classification", (x_of(3), y), noise=0.5)


def test_relative_numbers_of_groups_that_are_not_there() -> None:
    found = regression(mlp()).effective_parameters()
    with pytest.raises(ValueError, match=r"expected groups of 0\.weight, .*, got 'conv'"):
        found.relative(["0.weight", "conv"])


def test_hyperparameters_to_differentiate_in() -> None:
    model, data = mlp(), (x_of(3), x_of(2))
    with refused(model, r"expected at least one hyperparameter, got none"):
        evidence_gradient(model, "regression", data, [])
    with refused(model, r"expected names of parameters of the model, got 'omega'"):
        evidence_gradient(model, "regression", data, ["omega"])
    idle = Idle()
    aside = {n: p for n, p in idle.named_parameters() if n.startswith("used")}
    with refused(idle, r"expected hyperparameters that the outputs depend on, got idle\.weight"):
        graph = {n: p.detach().clone().requires_grad_() for n, p in aside.items()}
        evidence_gradient(idle, "regression", data, ["idle.weight"], params=graph)


# --- data -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("loss", "targets", "kind", "match"),
    [
        ("classification", [0, 1, 2, 0, 1, 0], ValueError, r"class labels from 0 to 1, got 2"),
        ("classification", [0, 1, -1, 0, 1, 0], ValueError, r"class labels from 0 to 1, got -1"),
        ("classification", [0, 1, -100, 0, 1, 0], ValueError, r"got -100, which cross entropy ig"),
        ("classification", [0.0] * N, TypeError, r"expected class labels of an integer type, got"),
        ("binary", [[0.0, 2.0]] * N, ValueError, r"expected binary targets from 0 to 1, got 2"),
        ("regression", [[0.0, float("nan")]] * N, ValueError, r"finite targets, got .* sample 0"),
        ("regression", [0.0] * N, ValueError, r"targets of shape \(6, 2\) for outputs \(6, 2\)"),
    ],
    ids=["label", "negative", "ignored", "floating", "binary", "nan", "shape"],
)
def test_targets(loss: str, targets: Any, kind: type[Exception], match: str) -> None:
    with refused(model := mlp(), match, kind):
        laplace(model, loss, (x_of(3), torch.tensor(targets)))


def test_data_that_are_none() -> None:
    model = mlp()
    with refused(model, r"expected at least one sample, got none"):
        laplace(model, "regression", (x_of(3)[:0], x_of(2)[:0]))
    with refused(model, r"expected as many targets as inputs, got 5 and 6"):
        laplace(model, "regression", (x_of(3), x_of(2)[:5]))
    with refused(model, r"expected inputs and targets, got one Tensor without targets"):
        laplace(model, "regression", x_of(3))
    with refused(model, r"expected numbers as inputs, got an array of <U1"):
        laplace(model, "regression", (np.array(["a"] * N), x_of(2)))


def test_outputs_that_are_not_finite() -> None:
    x = x_of(3)
    x[5, 0] = float("inf")
    model = nn.Sequential(nn.Linear(3, 2).double())
    with refused(model, r"expected finite outputs, got a non-finite value in sample 5"):
        laplace(model, "regression", (x, x_of(2)))


@pytest.mark.parametrize("structure", ["kronecker", "block", "diagonal", "full"])
def test_curvature_that_overflows(structure: str) -> None:
    """Gradients that double precision holds, and products of them that it does not."""
    model = mlp()
    with torch.no_grad():
        model[2].weight.mul_(1e160)
    with refused(model, r"expected finite (curvature|gradients), got"):
        regression(model, structure=structure)
    model = mlp().float()
    with torch.no_grad():
        model[2].weight.mul_(1e18)  # what single precision could not square
    found = regression(model, x_of(3).float(), structure=structure)
    assert all(bool(values.isfinite().all()) for values in found.eigenvalues().values())


def test_classes_without_samples_are_a_warning() -> None:
    model, y = mlp(8), torch.zeros(N, dtype=torch.int64)
    with pytest.warns(UserWarning, match=r"all 8 classes, got none of 1, 2, 3, 4, 5, …: the evid"):
        laplace(model, "classification", (x_of(3), y))
    with pytest.warns(UserWarning, match=r"all 2 classes, got none of 1: the evidence says"):
        laplace(mlp(1), "binary", (x_of(3), y.double()))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        laplace(
            mlp(2),
            "classification",
            (x_of(3), torch.arange(N) % 2),
            curvature=CurvatureOptions(batch_size=1),
        )


def test_curvature_options_of_the_wrong_kind() -> None:
    given: Any = {"structure": "full"}
    data = (x_of(3), torch.arange(N) % 2)
    with pytest.raises(TypeError, match=r"expected CurvatureOptions as curvature, got dict"):
        laplace(mlp(2), "classification", data, curvature=given)


# --- what was wrong once ----------------------------------------------------------------------


def test_inputs_that_are_not_finite() -> None:
    x = x_of(3)
    x[0, 0] = float("nan")
    with refused(model := mlp(), r"expected finite (inputs|outputs), got"):
        laplace(model, "regression", (x, x_of(2)))


def test_a_refusal_comes_without_a_warning() -> None:
    class Late(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Linear(3, 3).double(), OtherUse()

        def forward(self, x: Tensor) -> Tensor:
            return self.last(self.first(x))

    before = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    try:
        with refused(model := Late(), r"got other uses of it"):
            regression(model)
    finally:
        torch.set_warn_always(before)


class Tied(nn.Module):
    """A decoder with the kernel of its encoder."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.encoder = nn.Conv2d(2, hidden, 2, bias=False)
        self.decoder = nn.ConvTranspose2d(hidden, 2, 2, bias=False)
        self.decoder.weight = self.encoder.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.decoder(self.encoder(x).tanh()).flatten(1)


@pytest.mark.parametrize("hidden", [2, 3])
def test_weights_tied_between_a_convolution_and_its_transpose(twin: Any, hidden: int) -> None:
    """Whatever is made of it, the exact mode has to be the block of the GGN or be refused."""
    task = twin.filled(lambda: Tied(hidden), (2, 2, 2), "regression")
    try:
        found = laplace(
            task.model, task.loss, task.data, curvature=CurvatureOptions(sharing="exact")
        )
    except ValueError:
        return
    size = task.parameters["encoder.weight"].numel()
    ours = twin.assembled(found.blocks["encoder.weight"], size)
    twin.assert_close(ours, twin.ggn(task, ["encoder.weight"]))


class TwoRanks(nn.Module):
    """One layer on a sequence, and on what comes of it."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(self.layer(x).tanh().mean(1))


def test_exact_sharing_of_a_layer_used_with_and_without_positions(twin: Any) -> None:
    task = twin.filled(TwoRanks, (4, 3), "regression")
    found = laplace(task.model, task.loss, task.data, curvature=CurvatureOptions(sharing="exact"))
    twin.assert_close(
        twin.assembled(found.blocks["layer.weight"], 9), twin.ggn(task, ["layer.weight"])
    )


class PositionsFirst(nn.Module):
    """A sequence with its positions before the samples, as recurrent networks have it."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x.transpose(0, 1)).tanh().sum(0)


@pytest.mark.parametrize(
    "options", [{"structure": "block"}, {"sharing": "exact"}], ids=["block", "exact"]
)
def test_as_many_positions_as_samples(twin: Any, options: dict[str, str]) -> None:
    task = twin.filled(PositionsFirst, (4, 3), "regression", samples=4)
    try:
        found = laplace(task.model, task.loss, task.data, curvature=CurvatureOptions(**options))
    except ValueError:
        return
    ours = twin.assembled(found.blocks["linear.weight"], 6)
    twin.assert_close(ours, twin.ggn(task, ["linear.weight"]))


def test_statistics_of_the_batch(twin: Any) -> None:
    def build() -> nn.Module:
        return nn.Sequential(
            nn.Linear(3, 4), nn.BatchNorm1d(4, track_running_stats=False), nn.Linear(4, 2)
        )

    task = twin.filled(build, (3,), "regression", samples=6)
    try:
        values = [
            float(
                log_marginal_likelihood(
                    task.model, task.loss, task.data, curvature=CurvatureOptions(batch_size=size)
                )
            )
            for size in (3, 6)
        ]
    except ValueError:
        return
    assert values[0] == pytest.approx(values[1])


def test_a_change_in_place_after_a_layer_of_ours(twin: Any) -> None:
    def build(inplace: bool) -> nn.Module:
        return nn.Sequential(Linear(V, V, S(4)), nn.ReLU(inplace=inplace), nn.Linear(4, 2))

    values = []
    for inplace in (False, True):
        task = twin.filled(lambda inplace=inplace: build(inplace), (4,), "regression")
        values.append(float(log_marginal_likelihood(task.model, task.loss, task.data)))
    assert values[0] == pytest.approx(values[1])


def test_noise_of_effective_parameters() -> None:
    found = regression(mlp())
    for value in (0.0, -1.0, float("nan")):
        with pytest.raises(ValueError, match=r"expected a positive number as the noise, got"):
            found.effective_parameters(noise=value)


def test_options_of_another_kind() -> None:
    model = mlp()
    with refused(model, r"expected sharing", (ValueError, TypeError)):  # type: ignore[arg-type]
        regression(model, sharing=3)
    with pytest.raises(ValueError, match=r"expected .*'group'.*'tensor', got 'layer'"):
        regression(model).effective_parameters(by="layer")
