"""Brute force for everything the evidence claims, from definitions alone.

Nothing here goes through ``record`` or our likelihoods: curvature comes from Jacobians and
Hessians of torch.func for one sample at a time, inputs of layers from hooks, and gradients at
the output of a layer from a zero that is added there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import log, pi
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, hessian, jacrev
from torch.nn import functional

from isotropy.groups import SO, D, O, S, SO13p, Z
from isotropy.nn import EMLP, BiLinear, Linear, PathSum, RecordedModule, SharedLinear
from isotropy.reps import Scalar, T, V


@dataclass(frozen=True)
class Task:
    """A network in float64 and data for it."""

    model: nn.Module
    loss: str
    x: Tensor
    y: Tensor

    @property
    def data(self) -> tuple[Tensor, Tensor]:
        return self.x, self.y

    @property
    def parameters(self) -> dict[str, Tensor]:
        return {name: p.detach() for name, p in self.model.named_parameters()}


# --- layers of our own ------------------------------------------------------------------------


class FactoredLayer(RecordedModule):
    """F-FC of the paper (Eq. 5), places flattened: θ₂ (C', C, XY), then θ₁ (X'Y', C', C)."""

    def __init__(self, channels: tuple[int, int], places: tuple[int, int]) -> None:
        super().__init__()
        (into, out), (before, after) = channels, places
        self.inner = nn.Parameter(torch.randn(out, into, before))
        self.outer = nn.Parameter(torch.randn(after, out, into))

    def forward(self, x: Tensor) -> Tensor:
        after, out, into = self.outer.shape
        middle = torch.einsum("ncx,dcx->ncd", x, self.inner)
        entries = torch.arange(self.inner.numel()).reshape(self.inner.shape).transpose(0, 1)
        self.note("inner", x, middle, entries=entries, blocks=True)
        y = torch.einsum("ncd,zdc->ndz", middle, self.outer)
        entries = torch.arange(self.outer.numel()).reshape(after, out, into).transpose(0, 1)
        self.note("outer", middle, y, spread=lambda m: m.mT, entries=entries, blocks=True)
        return y


class BasisConvolution(RecordedModule):
    """A circular convolution of kernel 3 × 3 with weights u Φ, Φ from a lengthscale (C.2)."""

    def __init__(self, into: int, out: int, anchors: int) -> None:
        super().__init__()
        self.u = nn.Parameter(torch.randn(out, into, anchors))
        self.omega = nn.Parameter(torch.tensor(0.8))
        self.register_buffer("anchors", 2 * torch.rand(anchors, 2) - 1)

    def basis(self) -> Tensor:
        side = torch.tensor([-1.0, 0.0, 1.0]).to(self.anchors)
        places = torch.cartesian_prod(side, side)
        squares = (self.anchors[:, None] - places).square().sum(-1)
        return (-0.5 * self.omega.square() * squares).exp()

    def forward(self, x: Tensor) -> Tensor:
        kernel = (self.u @ self.basis()).unflatten(-1, (3, 3))
        y = functional.conv2d(functional.pad(x, (1, 1, 1, 1), mode="circular"), kernel)

        def spread(x: Tensor) -> Tensor:
            wide = functional.pad(x, (1, 1, 1, 1), mode="circular")
            patches = functional.unfold(wide, 3).mT.unflatten(-1, (x.shape[1], 9))
            return (patches @ self.basis().mT).flatten(-2)

        self.note("u", x, y, axes=("space",), spread=spread, gather=lambda g: g.flatten(2).mT)
        return y


class Swish(nn.Module):
    """x · sigmoid(βx) with a slope β to be chosen: a hyperparameter without any operation."""

    def __init__(self) -> None:
        super().__init__()
        self.slope = nn.Parameter(torch.tensor(1.3))

    def forward(self, x: Tensor) -> Tensor:
        return x * (self.slope * x).sigmoid()


class Twice(nn.Module):
    """One layer, used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(self.layer(x).tanh())


def tied() -> nn.Module:
    """Two layers with the same weights and biases of their own."""
    model = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 3))
    model[2].weight = model[0].weight
    return model


def after(layer: nn.Module, width: int) -> nn.Module:
    return nn.Sequential(layer, nn.Tanh(), nn.Flatten(), nn.Linear(width, 3))


LABELS = torch.tensor([[0, 1, -1], [1, 0, 2], [2, 2, 0]])
HIDDEN = 3 * Scalar + 2 * V

NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "mlp": (lambda: after(nn.Linear(4, 5), 5), (4,)),
    "sequence": (lambda: after(nn.Linear(3, 2), 8), (4, 3)),
    "conv1d": (lambda: after(nn.Conv1d(2, 2, 3, stride=2, padding=1), 6), (2, 5)),
    "conv2d": (lambda: after(nn.Conv2d(2, 2, (2, 3), dilation=(1, 2)), 6), (2, 4, 5)),
    "circular": (
        lambda: after(nn.Conv2d(1, 2, 3, padding=1, padding_mode="circular"), 18),
        (1, 3, 3),
    ),
    "grouped": (lambda: after(nn.Conv2d(4, 4, 2, groups=2), 16), (4, 3, 3)),
    "transposed": (
        lambda: after(nn.ConvTranspose2d(2, 4, 2, stride=2, padding=1, groups=2), 16),
        (2, 2, 2),
    ),
    "layer norm": (
        lambda: nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.Tanh(), nn.Linear(4, 3)),
        (3,),
    ),
    "normalised maps": (lambda: after(nn.GroupNorm(2, 4), 12), (4, 3)),
    "used twice": (Twice, (3,)),
    "tied": (tied, (3,)),
    "permutations": (lambda: after(Linear(2 * V + 2 * Scalar, 2 * V + Scalar, S(3)), 7), (8,)),
    "cyclic": (lambda: after(Linear(2 * V, V + 2 * Scalar, Z(4)), 6), (8,)),
    "dihedral": (lambda: after(Linear(V + 2 * Scalar, 2 * V, D(3)), 6), (5,)),
    "permuted tensors": (lambda: after(Linear(V, T(2), S(3)), 9), (3,)),
    "orthogonal": (lambda: after(Linear(2 * Scalar + 2 * V, Scalar + 2 * V, O(3)), 7), (8,)),
    "orthogonal tensors": (lambda: after(Linear(V + T(2), Scalar + T(2), O(3)), 10), (12,)),
    "plane": (lambda: after(Linear(2 * V + Scalar, 2 * V + Scalar, SO(2)), 5), (5,)),
    "Lorentz": (lambda: after(Linear(2 * V + Scalar, V + 2 * Scalar, SO13p()), 6), (9,)),
    "shared": (lambda: after(SharedLinear(LABELS), 3), (3,)),
    "bilinear": (lambda: after(BiLinear(2 * V, 3 * Scalar, O(3)), 3), (6,)),
    "bilinear tensors": (lambda: after(BiLinear(V + T(2), V + Scalar, O(3)), 4), (12,)),
    "emlp": (lambda: EMLP(2 * V, 3 * Scalar, O(3), channels=[HIDDEN]), (6,)),
    "emlp of tensors": (
        lambda: EMLP(2 * V, V, SO(3), channels=[2 * Scalar + V + T(2)]),
        (6,),
    ),
    "Lorentz emlp": (lambda: EMLP(2 * V, V, SO13p(), channels=[HIDDEN]), (8,)),
    "norm emlp": (
        lambda: EMLP(2 * V, V, O(3), channels=[HIDDEN], nonlinearity="norm"),
        (6,),
    ),
    "paths": (
        lambda: nn.Sequential(
            PathSum({"strict": Linear(V, V, S(3)), "free": nn.Linear(3, 3)}),
            nn.Tanh(),
            nn.Linear(3, 3),
        ),
        (3,),
    ),
    "factored": (lambda: after(FactoredLayer((2, 3), (4, 2)), 6), (2, 4)),
    "basis": (lambda: after(BasisConvolution(2, 2, 4), 18), (2, 3, 3)),
}
LOSSES = ("classification", "binary", "regression")
HYPERPARAMETERS = {"basis": ["0.omega"]}


def made(network: str, loss: str = "classification", samples: int = 5) -> Task:
    """A network with three outputs, and data for it."""
    build, shape = NETWORKS[network]
    return filled(build, shape, loss, samples)


def filled(
    build: Callable[[], nn.Module],
    shape: Sequence[int],
    loss: str = "classification",
    samples: int = 5,
    std: float = 0.5,
) -> Task:
    """A network with random parameters, and random data."""
    with torch.random.fork_rng():
        torch.manual_seed(3)
        model = build().double()
        for name, parameter in model.named_parameters():
            if parameter.ndim:  # a single number is chosen with care
                nn.init.normal_(parameter, std=std)
                parameter.data += 1.0 * name.endswith("norm.weight")
        x = torch.randn(samples, *shape, dtype=torch.float64)
        with torch.no_grad():
            outputs = model(x)
        values = torch.randn(outputs.shape, dtype=torch.float64)
    targets = {
        "classification": torch.arange(samples) % outputs.shape[1],
        "regression": values,
        "binary": values.gt(0).double(),
    }
    return Task(model, loss, x, targets[loss])


# --- curvature, by definition -----------------------------------------------------------------


def minus_log_likelihood(loss: str, f: Tensor, y: Tensor, noise: float | Tensor = 1.0) -> Tensor:
    """−log p(y | f) of one sample."""
    if loss == "classification":
        return f.logsumexp(0) - f[y]
    if loss == "binary":
        return (torch.log1p(f.exp()) - y * f).sum()
    variance = torch.as_tensor(noise, dtype=torch.float64) ** 2
    return ((f - y).square() / variance + (2 * pi * variance).log()).sum() / 2


def output_hessian(task: Task, n: int) -> Tensor:
    """Λ of sample n at noise one, shape (outputs, outputs)."""
    with torch.no_grad():
        f = task.model(task.x[n : n + 1])[0]
    return hessian(lambda f: minus_log_likelihood(task.loss, f, task.y[n]))(f)


def jacobian(task: Task, n: int, names: Sequence[str]) -> Tensor:
    """J of sample n in some parameters, in order, shape (outputs, parameters)."""
    values = task.parameters

    def outputs(some: dict[str, Tensor]) -> Tensor:
        return functional_call(task.model, {**values, **some}, (task.x[n : n + 1],))[0].flatten()

    found = jacrev(outputs)({name: values[name] for name in names})
    return torch.cat([found[name].flatten(1) for name in names], 1)


def ggn(task: Task, names: Sequence[str] | None = None) -> Tensor:
    """Σ_n JᵀΛJ over some parameters together; all of them where None."""
    names = list(task.parameters) if names is None else names
    total = 0.0
    for n in range(len(task.x)):
        j = jacobian(task, n, names)
        total = total + j.mT @ output_hessian(task, n) @ j
    return total


def log_likelihood(task: Task, noise: float = 1.0) -> Tensor:
    with torch.no_grad():
        outputs = task.model(task.x)
    terms = [
        -minus_log_likelihood(task.loss, f, y, noise) for f, y in zip(outputs, task.y, strict=True)
    ]
    return torch.stack(terms).sum()


def log_evidence(fit: Tensor, theta: Tensor, curvature: Tensor, delta: Tensor) -> Tensor:
    """Eq. 8 of the paper as it stands: log p(D|θ) + log p(θ) + P/2 log 2π − ½ log det(H + δ)."""
    prior = (delta.log() - log(2 * pi) - delta * theta.square()).sum() / 2
    posterior = torch.linalg.slogdet(curvature + torch.diag(delta))
    assert posterior.sign > 0
    return fit + prior + len(theta) * log(2 * pi) / 2 - posterior.logabsdet / 2


def flat(parameters: Mapping[str, Tensor]) -> Tensor:
    return torch.cat([p.flatten() for p in parameters.values()])


# --- a layer inside its network ---------------------------------------------------------------


def at_layer(task: Task, layer: str) -> list[tuple[Tensor, Tensor, Tensor]]:
    """For every sample the input a of a layer, ∂f/∂(its output), shape (outputs, …), and Λ."""
    module = task.model.get_submodule(layer)
    found = []
    for n in range(len(task.x)):
        seen: list[Tensor] = []

        def outputs(shift: Tensor, n: int = n, seen: list[Tensor] = seen) -> Tensor:
            def hook(_: nn.Module, args: tuple[Tensor, ...], output: Tensor) -> Tensor:
                seen.append(args[0].detach())
                return output + shift

            handle = module.register_forward_hook(hook)
            try:
                return task.model(task.x[n : n + 1])[0].flatten()
            finally:
                handle.remove()

        with torch.no_grad():
            outputs(torch.zeros((), dtype=torch.float64))
            shape = module(seen[0]).shape
        shift = torch.zeros(shape, dtype=torch.float64)
        gradient = jacrev(outputs)(shift)[:, 0]
        found.append((seen[0][0], gradient.detach(), output_hessian(task, n)))
    return found


@dataclass(frozen=True)
class Rows:
    """Rows of a layer: inputs (samples, rows, in), gradients (samples, outputs, rows, out), Λ."""

    a: Tensor
    g: Tensor
    hessian: Tensor

    def factors(self, mode: str = "expand") -> tuple[Tensor, Tensor]:
        """The mean of aaᵀ and the sum of gΛgᵀ."""
        a, g = self.a, self.g
        if mode == "reduce":
            a, g = a.mean(1, keepdim=True), g.sum(2, keepdim=True)
        inner = torch.einsum("nri,nrj->ij", a, a) / (a.shape[0] * a.shape[1])
        outer = torch.einsum("nkro,nkl,nlrp->op", g, self.hessian, g)
        return inner.contiguous(), outer.contiguous()

    def exact(self) -> Tensor:
        """Σ_n JᵀΛJ with J = Σ_r g_r a_rᵀ, the output slowest."""
        j = torch.einsum("nkro,nri->nkoi", self.g, self.a).flatten(2)
        return torch.einsum("nkp,nkl,nlq->pq", j, self.hessian, j)

    def matrix(self, mode: str = "expand") -> Tensor:
        """The curvature of a weight of shape (out, in)."""
        if mode == "exact":
            return self.exact()
        inner, outer = self.factors(mode)
        return torch.kron(outer, inner)


def stacked(pieces: Sequence[tuple[Tensor, Tensor, Tensor]]) -> Rows:
    return Rows(*(torch.stack(part) for part in zip(*pieces, strict=True)))


def convolution_rows(task: Task, layer: str, group: int = 0) -> Rows:
    """Rows of a convolution, by explicit indices; those of one group of channels."""
    conv: Any = task.model.get_submodule(layer)
    pieces = []
    for x, gradient, curvature in at_layer(task, layer):
        width, height = conv.in_channels // conv.groups, conv.out_channels // conv.groups
        x = x[group * width : (group + 1) * width]
        g = gradient.flatten(2)[:, group * height : (group + 1) * height].mT
        rows = [
            _patch(conv, x, position)
            for position in product(*(range(n) for n in gradient.shape[2:]))
        ]
        pieces.append((torch.stack(rows), g, curvature))
    return stacked(pieces)


def _patch(conv: Any, x: Tensor, position: tuple[int, ...]) -> Tensor:
    """What a kernel sees at one position of its output, channel slowest."""
    columns = []
    for channel in x:
        for place in product(*(range(n) for n in conv.kernel_size)):
            columns.append(_entry(conv, channel, position, place))
    return torch.stack(columns)


def _entry(conv: Any, x: Tensor, position: tuple[int, ...], place: tuple[int, ...]) -> Tensor:
    index = []
    for axis, (p, k) in enumerate(zip(position, place, strict=True)):
        stride, step, pad = conv.stride[axis], conv.dilation[axis], conv.padding[axis]
        size = x.shape[axis]
        if conv.transposed:
            # p = stride · q − pad + step · k
            at, rest = divmod(p + pad - step * k, stride)
            if rest or not 0 <= at < size:
                return x.new_zeros(())
        else:
            at = p * stride - pad + k * step
            if not 0 <= at < size:
                if conv.padding_mode == "zeros":
                    return x.new_zeros(())
                if conv.padding_mode == "circular":
                    at %= size
                elif conv.padding_mode == "replicate":
                    at = min(max(at, 0), size - 1)
                else:
                    at = -at if at < 0 else 2 * (size - 1) - at
        index.append(at)
    return x[tuple(index)]


# --- layers that are linear in a parameter in some other way ------------------------------------


@dataclass(frozen=True)
class Product:
    """Coefficients that make up a matrix (copies out, columns), and the rows it acts on."""

    places: Tensor
    rows: Rows

    def matrix(self, size: int, mode: str = "expand") -> Tensor:
        """Its curvature, at the places of the coefficients among ``size`` of them."""
        whole = torch.zeros(size, size, dtype=torch.float64)
        order = self.places.flatten()
        whole[order[:, None], order] = self.rows.matrix(mode)
        return whole


def products(
    task: Task, layer: str, parameter: str, terms: Sequence[tuple[int, int]]
) -> list[Product]:
    """The matrices that the coefficients of a layer make up, from ∂(its output)/∂(them) alone.

    A copy o of an output term of a certain size is y_or = Σ_c M_oc a_rc, with rows r along the
    components of the term; so ∂y_or/∂M_o'c is a_rc where o = o' and zero elsewhere. Coefficients
    of different copies with the same a are one column.

    Args:
        task: The network and data.
        layer: The name of the layer.
        parameter: The name of the coefficients in it.
        terms: (copies, size) of every term of its output, side by side.
    """
    module = task.model.get_submodule(layer)
    theta = module.get_parameter(parameter).detach()
    slopes, gradients, hessians = [], [], []
    for x, gradient, curvature in at_layer(task, layer):

        def output(value: Tensor, x: Tensor = x) -> Tensor:
            return functional_call(module, {parameter: value}, (x[None],))[0]

        slopes.append(jacrev(output)(theta).flatten(-theta.ndim))
        gradients.append(gradient)
        hessians.append(curvature)
    slope, gradient, curvature = map(torch.stack, (slopes, gradients, hessians))
    found, start = [], 0
    for copies, size in terms:
        end = start + copies * size
        d = slope[..., start:end, :].reshape(len(slope), -1, copies, size, slope.shape[-1])
        g = gradient[..., start:end].reshape(*gradient.shape[:2], -1, copies, size)
        found += _own_product(d, g.mT.flatten(2, 3), curvature)
        start = end
    return found


def _own_product(d: Tensor, g: Tensor, curvature: Tensor) -> list[Product]:
    """From slopes (samples, positions, copies, size, coefficients); rows are positions · size."""
    by_copy: list[list[tuple[Tensor, int]]] = [[] for _ in range(d.shape[2])]
    for j in range(d.shape[-1]):
        touched = d[..., j].abs().amax((0, 1, 3)) > 1e-12
        if bool(touched.any()):
            assert int(touched.sum()) == 1, "a coefficient of several copies"
            copy = int(touched.nonzero())
            by_copy[copy].append((d[:, :, copy, :, j].flatten(1), j))
    if not by_copy[0]:
        return []
    columns = [a for a, _ in by_copy[0]]
    places = torch.zeros(len(by_copy), len(columns), dtype=torch.int64)
    for copy, own in enumerate(by_copy):
        assert len(own) == len(columns)
        free = list(range(len(columns)))
        for a, j in own:
            # equal columns, as those of x·y and y·x, are as good as one another
            column = next(c for c in free if torch.allclose(a, columns[c], atol=1e-12))
            free.remove(column)
            places[copy, column] = j
    return [Product(places, Rows(torch.stack(columns, -1), g, curvature))]


# --- comparing --------------------------------------------------------------------------------


def assembled(blocks: Sequence[Any], size: int) -> Tensor:
    """Blocks of one parameter at the places of their entries."""
    whole = torch.zeros(size, size, dtype=torch.float64)
    for block in blocks:
        order = torch.arange(size) if block.entries is None else block.entries.flatten().sort()[0]
        whole[order[:, None], order] += block.dense().detach()
    return whole


def assert_close(ours: Tensor, truth: Tensor, tolerance: float = 1e-10) -> None:
    assert ours.shape == truth.shape
    scale = truth.detach().abs().max().clamp_min(1e-300)
    assert torch.isfinite(scale)
    error = (ours.detach() - truth.detach()).abs().max() / scale
    assert error <= tolerance, f"off by {float(error):.2e}"


@pytest.fixture(params=list(NETWORKS))
def any_network(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def twin() -> SimpleNamespace:
    """All of the above: tests cannot import one another."""
    return SimpleNamespace(
        Task=Task,
        FactoredLayer=FactoredLayer,
        BasisConvolution=BasisConvolution,
        Swish=Swish,
        HYPERPARAMETERS=HYPERPARAMETERS,
        made=made,
        filled=filled,
        after=after,
        minus_log_likelihood=minus_log_likelihood,
        output_hessian=output_hessian,
        jacobian=jacobian,
        ggn=ggn,
        log_likelihood=log_likelihood,
        log_evidence=log_evidence,
        flat=flat,
        at_layer=at_layer,
        Rows=Rows,
        stacked=stacked,
        convolution_rows=convolution_rows,
        products=products,
        assembled=assembled,
        assert_close=assert_close,
    )
