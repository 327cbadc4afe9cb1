"""Kronecker factors, layer by layer, beside factors made from Jacobians of single samples."""

from __future__ import annotations

from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from evidence_parts import DenseBlock, KroneckerBlock, curvature_options
from isotropy.evidence import CurvatureOptions, laplace
from isotropy.groups import SO, D, O, S, SO13p, Z
from isotropy.nn import EMLP, Linear, RecordedModule
from isotropy.reps import Scalar, T, V

LOSSES = ("classification", "binary", "regression")
MODES = ("expand", "reduce", "exact")


def blocks_of(task: Any, name: str, **options: Any) -> list[Any]:
    found = laplace(task.model, task.loss, task.data, **curvature_options(batch_size=2, **options))
    return found.blocks[name]


def require_factors(twin: Any, block: Any, rows: Any, mode: str) -> None:
    """The block of a weight (out, in): its factors, and what they make together."""
    if mode == "exact" and rows.a.shape[1] > 1:
        assert isinstance(block, DenseBlock)
        twin.assert_close(block.dense(), rows.exact())
        return
    assert isinstance(block, KroneckerBlock)
    inner, outer = rows.factors("expand" if mode == "exact" else mode)
    twin.assert_close(block.input[0], inner)
    twin.assert_close(block.output[0], outer)
    twin.assert_close(block.dense(), torch.kron(outer, inner))


def ones(twin: Any, rows: Any) -> Any:
    """Rows of a bias: those of the weight, each with the input one."""
    return twin.Rows(torch.ones_like(rows.a[..., :1]), rows.g, rows.hessian)


# --- layers of torch --------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("shape", [(3,), (4, 3), (2, 2, 3)], ids=["rows", "sequence", "grid"])
def test_linear(twin: Any, shape: tuple[int, ...], loss: str, mode: str) -> None:
    positions = shape[:-1]
    width = 2 * torch.Size(positions).numel()
    task = twin.filled(lambda: twin.after(nn.Linear(3, 2), width), shape, loss)
    pieces = [
        (a.reshape(-1, 3), g.reshape(len(g), -1, 2), h) for a, g, h in twin.at_layer(task, "0")
    ]
    rows = twin.stacked(pieces)
    require_factors(twin, blocks_of(task, "0.weight", sharing=mode)[0], rows, mode)
    require_factors(twin, blocks_of(task, "0.bias", sharing=mode)[0], ones(twin, rows), mode)


CONVOLUTIONS: dict[str, tuple[Any, tuple[int, ...]]] = {
    "1d": (lambda: nn.Conv1d(2, 3, 3, stride=2), (2, 6)),
    "1d circular": (lambda: nn.Conv1d(1, 2, 4, padding=2, padding_mode="circular"), (1, 4)),
    "1d reflect": (lambda: nn.Conv1d(1, 2, 3, padding=2, padding_mode="reflect"), (1, 4)),
    "zeros": (lambda: nn.Conv2d(2, 2, (2, 3), stride=(2, 1), padding=(1, 2)), (2, 3, 4)),
    "circular": (lambda: nn.Conv2d(2, 2, 3, padding=1, padding_mode="circular"), (2, 3, 4)),
    "circular and stride": (
        lambda: nn.Conv2d(1, 2, 3, stride=2, padding=(1, 2), padding_mode="circular"),
        (1, 4, 3),
    ),
    "reflect": (
        lambda: nn.Conv2d(1, 2, (3, 2), stride=(1, 2), padding=(2, 1), padding_mode="reflect"),
        (1, 3, 4),
    ),
    "replicate": (lambda: nn.Conv2d(2, 2, 3, padding=2, padding_mode="replicate"), (2, 3, 2)),
    "dilation": (lambda: nn.Conv2d(2, 2, 2, dilation=(2, 1), padding=1), (2, 3, 3)),
    "circular dilation": (
        lambda: nn.Conv1d(2, 2, 3, dilation=2, padding=2, padding_mode="circular"),
        (2, 5),
    ),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions(twin: Any, name: str, mode: str) -> None:
    build, shape = CONVOLUTIONS[name]
    width = build()(torch.zeros(1, *shape)).numel()
    loss = LOSSES[len(name) % 3]
    task = twin.filled(lambda: twin.after(build(), width), shape, loss)
    rows = twin.convolution_rows(task, "0")
    require_factors(twin, blocks_of(task, "0.weight", sharing={"space": mode})[0], rows, mode)
    bias = blocks_of(task, "0.bias", sharing={"space": mode})[0]
    require_factors(twin, bias, ones(twin, rows), mode)


def test_a_circular_convolution_has_not_the_factors_of_one_that_pads_with_zeros(twin: Any) -> None:
    build, shape = CONVOLUTIONS["circular"]
    task = twin.filled(lambda: twin.after(build(), 24), shape)
    rows = twin.convolution_rows(task, "0")
    task.model[0].padding_mode = "zeros"
    other = twin.convolution_rows(task, "0")
    assert (rows.factors()[0] - other.factors()[0]).norm() > 0.05 * rows.factors()[0].norm()


def grouped_blocks(twin: Any, task: Any, groups: int) -> list[Any]:
    return [twin.convolution_rows(task, "0", group) for group in range(groups)]


def test_groups_of_channels_are_blocks(twin: Any) -> None:
    task = twin.made("grouped", "binary")
    own = grouped_blocks(twin, task, 2)
    (block,) = blocks_of(task, "0.weight")
    for k, rows in enumerate(own):
        inner, outer = rows.factors()
        twin.assert_close(block.input[k], inner)
        twin.assert_close(block.output[k], outer)
    twin.assert_close(block.dense(), torch.block_diag(*(rows.matrix() for rows in own)))
    (shared,) = blocks_of(task, "0.weight", sharing={"channel": "expand"})
    outer = sum(rows.factors()[1] for rows in own) / 2
    twin.assert_close(
        shared.dense(), torch.block_diag(*(torch.kron(outer, r.factors()[0]) for r in own))
    )
    (exact,) = blocks_of(task, "0.weight", sharing="exact")
    twin.assert_close(exact.dense(), twin.ggn(task, ["0.weight"]))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("groups", [1, 2])
def test_transposed_convolutions(twin: Any, groups: int, mode: str) -> None:
    def build() -> nn.Module:
        layer = nn.ConvTranspose2d(
            2, 4, (2, 3), stride=(2, 1), padding=(1, 0), dilation=(1, 2), groups=groups
        )
        return twin.after(layer, 4 * 2 * 6)

    task = twin.filled(build, (2, 2, 2))
    (block,) = blocks_of(task, "0.weight", sharing=mode)
    if mode == "exact":
        twin.assert_close(block.dense(), twin.ggn(task, ["0.weight"]))
        return
    own = [rows.factors(mode) for rows in grouped_blocks(twin, task, groups)]
    places = 6
    # the parameter has shape (in, out / groups, places); rows of its input are (in, places)
    truth = [
        torch.einsum(
            "ikjl,op->iokjpl", inner.reshape(2 // groups, places, 2 // groups, places), outer
        ).reshape(inner.shape[0] * outer.shape[0], -1)
        for inner, outer in own
    ]
    twin.assert_close(block.dense(), torch.block_diag(*truth))


def test_the_scales_of_a_normalisation_are_one_exact_block(twin: Any) -> None:
    task = twin.made("layer norm", "regression")
    rows = [
        ((a - a.mean()) / (a.var(correction=0) + 1e-5).sqrt(), g, h)
        for a, g, h in twin.at_layer(task, "1")
    ]
    j = torch.stack([g * a for a, g, _ in rows])
    hessians = torch.stack([h for *_, h in rows])
    (block,) = blocks_of(task, "1.weight")
    assert isinstance(block, DenseBlock)
    twin.assert_close(block.dense(), torch.einsum("nkp,nkl,nlq->pq", j, hessians, j))
    twin.assert_close(block.dense(), twin.ggn(task, ["1.weight"]))
    (bias,) = blocks_of(task, "1.bias")
    twin.assert_close(bias.dense(), twin.ggn(task, ["1.bias"]))


# --- the same weights more than once ----------------------------------------------------------


class Marked(nn.Module):
    """What a layer twice or two tied layers do, with a mark after each use."""

    def __init__(self, layers: tuple[nn.Linear, nn.Linear]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.marks = nn.ModuleList([nn.Identity(), nn.Identity()])

    def forward(self, x: Tensor) -> Tensor:
        x = self.marks[0](self.layers[0](x)).tanh()
        return self.marks[1](self.layers[1](x))


@pytest.mark.parametrize("network", ["used twice", "tied"])
def test_uses_of_one_weight_count_as_rows(twin: Any, network: str) -> None:
    task = twin.made(network)
    pair = (task.model.layer,) * 2 if network == "used twice" else (task.model[0], task.model[2])
    marked = twin.Task(Marked(pair), task.loss, task.x, task.y)
    first, second = (twin.at_layer(marked, f"marks.{i}") for i in range(2))
    pieces = []
    for x, (a, g, h), (_, late, _) in zip(task.x, first, second, strict=True):
        pieces.append((torch.stack([x, a.tanh()]), torch.stack([g, late], 1), h))
    rows = twin.stacked(pieces)
    name = "layer.weight" if network == "used twice" else "0.weight"
    found = laplace(task.model, task.loss, task.data)
    require_factors(twin, found.blocks[name][0], rows, "expand")
    if network == "tied":
        assert list(found.parameters) == ["0.weight", "0.bias", "2.bias"]
        twin.assert_close(
            found.blocks["2.bias"][0].output[0], twin.stacked(second_of(second)).factors()[1]
        )
    else:
        require_factors(twin, found.blocks["layer.bias"][0], ones(twin, rows), "expand")


def second_of(pieces: Any) -> Any:
    return [(a[None], g[:, None], h) for a, g, h in pieces]


# --- equivariant layers -----------------------------------------------------------------------

EQUIVARIANT: dict[str, tuple[Any, list[tuple[int, int]]]] = {
    "S(3)": (lambda: Linear(2 * V + 2 * Scalar, 2 * V + 3 * Scalar, S(3)), [(2, 3), (3, 1)]),
    "S(3) tensors": (lambda: Linear(2 * V + T(2), V + 2 * T(2), S(3)), [(1, 3), (2, 9)]),
    "Z(4)": (lambda: Linear(2 * V + Scalar, 2 * V + Scalar, Z(4)), [(2, 4), (1, 1)]),
    "D(4)": (lambda: Linear(2 * V, Scalar + 2 * V, D(4)), [(1, 1), (2, 4)]),
    "O(3)": (lambda: Linear(2 * Scalar + 2 * V, 3 * Scalar + 2 * V, O(3)), [(3, 1), (2, 3)]),
    "SO(2)": (lambda: Linear(2 * Scalar + 2 * V, Scalar + 2 * V, SO(2)), [(1, 1), (2, 2)]),
    "SO13p": (lambda: Linear(Scalar + 2 * V, 2 * Scalar + 2 * V, SO13p()), [(2, 1), (2, 4)]),
}


def mode_along(group: Any, mode: str) -> str:
    """Components of vectors have no mean that does not depend on the basis."""
    permutes = not group.algebra
    return "expand" if mode == "reduce" and not permutes else mode


def require_products(
    twin: Any, task: Any, layer: str, parameter: str, terms: Any, mode: str, name: str = ""
) -> None:
    """All coefficients of a layer, from the slopes of its output alone."""
    name = name or f"{layer}.{parameter}"
    along = mode_along(task.model.get_submodule(layer).symmetry.group, mode)
    size = task.model.get_submodule(layer).get_parameter(parameter).numel()
    found = twin.products(task, layer, parameter, terms)
    assert sum(product.places.numel() for product in found) == size
    truth = sum(product.matrix(size, along) for product in found)
    blocks = blocks_of(task, name, sharing=mode)
    assert len(blocks) == len(found)
    twin.assert_close(twin.assembled(blocks, size), truth)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", EQUIVARIANT)
def test_equivariant_layers(twin: Any, name: str, mode: str) -> None:
    build, terms = EQUIVARIANT[name]
    layer = build()
    loss = LOSSES[len(name) % 3]
    task = twin.filled(lambda: twin.after(build(), layer.out_features), (layer.in_features,), loss)
    require_products(twin, task, "0", "coefficients", terms, mode)
    require_products(twin, task, "0", "bias_coefficients", terms, mode)


@pytest.mark.parametrize("name", ["S(3)", "Z(4)", "O(3)", "SO13p"])
def test_axes_of_one_layer_have_modes_of_their_own(twin: Any, name: str) -> None:
    """Positions of a sequence beside components: each is summed up or not by itself."""
    build, terms = EQUIVARIANT[name]
    layer = build()
    shape = (2, layer.in_features)
    task = twin.filled(lambda: twin.after(build(), 2 * layer.out_features), shape)
    size = layer.coefficients.numel()
    found = twin.products(task, "0", "coefficients", terms)
    permutes = name in ("S(3)", "Z(4)")
    axis = "group" if permutes else "component"
    for position, group in product(("expand", "reduce"), ("expand", "reduce")[: 1 + permutes]):
        truth = torch.zeros(size, size, dtype=torch.float64)
        for one in found:
            a, g = one.rows.a.unflatten(1, (2, -1)), one.rows.g.unflatten(2, (2, -1))
            if position == "reduce":
                a, g = a.mean(1, keepdim=True), g.sum(2, keepdim=True)
            if group == "reduce":
                a, g = a.mean(2, keepdim=True), g.sum(3, keepdim=True)
            rows = twin.Rows(a.flatten(1, 2), g.flatten(2, 3), one.rows.hessian)
            order = one.places.flatten()
            truth[order[:, None], order] = rows.matrix()
        sharing = {"position": position, axis: group}
        ours = twin.assembled(blocks_of(task, "0.coefficients", sharing=sharing), size)
        twin.assert_close(ours, truth)
    exact = sum(one.matrix(size, "exact") for one in found)
    for sharing in ({"position": "exact"}, {axis: "exact", "position": "reduce"}):
        ours = twin.assembled(blocks_of(task, "0.coefficients", sharing=sharing), size)
        twin.assert_close(ours, exact)


def test_tensors_of_a_rotation_group_have_a_factor_for_each_kind_of_piece(twin: Any) -> None:
    """T(2) of O(3) is a trace, a turn and a traceless symmetric part, whatever basis they have.

    With isometries E_k of each kind into each term, A_k and B_k are traces over the components.
    """
    task = twin.filled(lambda: twin.after(Linear(T(2) + V, T(2), O(3)), 9), (12,))
    layer = task.model[0]
    (a, g, hessian) = (torch.stack(part) for part in zip(*twin.at_layer(task, "0"), strict=True))
    matrix, gradient = a[:, :9].unflatten(-1, (3, 3)), g.unflatten(-1, (3, 3))

    def pieces(m: Tensor) -> list[Tensor]:
        trace = torch.diag_embed(
            m.diagonal(dim1=-2, dim2=-1).mean(-1, keepdim=True).expand(*m.shape[:-2], 3)
        )
        turn = (m - m.mT) / 2
        return [trace.flatten(-2), turn.flatten(-2), ((m + m.mT) / 2 - trace).flatten(-2)]

    truth = []
    for dimension, inner, outer in zip((1, 3, 5), pieces(matrix), pieces(gradient), strict=True):
        mean = inner.square().sum() / (len(inner) * dimension)
        truth.append(float(mean * torch.einsum("nkp,nkl,nlp->", outer, hessian, outer)))
    ours = [float(v) for b in blocks_of(task, "0.coefficients") for v in b.eigenvalues()]
    assert len(layer.coefficients) == 3
    assert sorted(ours) == pytest.approx(sorted(truth), rel=1e-10)


def test_modes_do_not_depend_on_the_frame_of_a_layer(twin: Any) -> None:
    """Maps between vectors are the same for O(3) and SO(3), so their curvature is."""
    found = []
    for group in (O(3), SO(3)):

        def build(group: Any = group) -> nn.Module:
            return twin.after(Linear(2 * V, 2 * V, group), 6)

        task = twin.filled(build, (6,))
        with torch.no_grad():
            task.model[0].coefficients.copy_(torch.tensor([1.0, 2.0, 3.0, 4.0]))
        found.append(blocks_of(task, "0.coefficients", sharing="reduce")[0].dense())
    twin.assert_close(*found)


def test_shared_weights_without_structure_are_one_exact_block(twin: Any) -> None:
    task = twin.made("shared", "binary")
    for name in ("0.coefficients", "0.bias_coefficients"):
        (block,) = blocks_of(task, name)
        twin.assert_close(block.dense(), twin.ggn(task, [name]))


@pytest.mark.parametrize("mode", MODES)
def test_bilinear_layers(twin: Any, mode: str) -> None:
    task = twin.made("bilinear")
    require_products(twin, task, "0", "mixing_last.0", [(3, 1)], mode)


# --- whole networks ---------------------------------------------------------------------------

NETWORKS: dict[str, tuple[Any, int, int]] = {
    "rotations": (lambda **k: EMLP(2 * V, 2 * V, O(3), **k), 6, 3),
    "Lorentz": (lambda **k: EMLP(2 * V, 2 * V, SO13p(), **k), 8, 4),
    "norm": (lambda **k: EMLP(2 * V, 2 * V, O(3), nonlinearity="norm", **k), 6, 3),
}


@pytest.mark.parametrize("mode", ["expand", "reduce"])
@pytest.mark.parametrize("name", NETWORKS)
def test_every_parameter_of_an_emlp(twin: Any, name: str, mode: str) -> None:
    """The network is also its blocks one after the other, where hooks can see its layers."""
    build, width, d = NETWORKS[name]
    task = twin.filled(lambda: build(channels=[2 * Scalar + 2 * V] * 2), (width,), "regression")
    model = task.model
    steps = twin.Task(nn.Sequential(*model.blocks, model.head), task.loss, task.x, task.y)
    twin.assert_close(steps.model(task.x), model(task.x), 1e-12)
    gates = 0 if name == "norm" else 2
    checked = set()
    along = mode_along(model.symmetry.group, mode)
    for k, _ in enumerate(model.blocks):
        layers = {
            "linear.coefficients": [(2 + gates, 1), (2, d)],
            "linear.bias_coefficients": [(2 + gates, 1), (2, d)],
        }
        if name == "norm":
            layers["nonlinearity.offsets"] = []
        for inner, terms in layers.items():
            layer, parameter = inner.split(".")
            full = f"blocks.{k}.{inner}"
            checked.add(full)
            if layer == "nonlinearity":  # one for each vector: their gradients need no layer
                (block,) = blocks_of(task, full, sharing=mode)
                twin.assert_close(block.dense(), twin.ggn(task, [full]))
                continue
            size = model.get_parameter(full).numel()
            found = twin.products(steps, f"{k}.{layer}", parameter, terms)
            truth = sum(one.matrix(size, along) for one in found)
            twin.assert_close(twin.assembled(blocks_of(task, full, sharing=mode), size), truth)
    found = twin.products(steps, "2", "coefficients", [(2, d)])
    size = model.head.coefficients.numel()
    truth = sum(one.matrix(size, along) for one in found)
    ours = blocks_of(task, "head.coefficients", sharing=mode)
    twin.assert_close(twin.assembled(ours, size), truth)
    rest = set(task.parameters) - checked - {"head.coefficients"}
    assert all("bilinear" in other for other in rest)


@pytest.mark.parametrize("network", ["emlp", "emlp of tensors", "Lorentz emlp", "norm emlp"])
def test_exact_sharing_in_an_emlp_is_the_block_of_each_product(twin: Any, network: str) -> None:
    task = twin.made(network, "regression")
    found = laplace(task.model, task.loss, task.data, curvature=CurvatureOptions(sharing="exact"))
    for name, blocks in found.blocks.items():
        whole = twin.ggn(task, [name])
        covered = torch.zeros(len(whole))
        for block in blocks:
            order = torch.arange(len(whole)) if block.entries is None else block.entries.flatten()
            order = order.sort()[0]
            covered[order] += 1
            if isinstance(block, DenseBlock):  # others have one row for each sample
                scale = whole.abs().max().clamp_min(1e-300)  # products may lead nowhere
                twin.assert_close(block.dense() / scale, whole[order][:, order] / scale)
        assert bool((covered == 1).all())


def test_paths_of_a_sum_have_factors_of_their_own(twin: Any) -> None:
    task = twin.made("paths")
    for path in ("strict", "free"):
        layer = f"0.paths.{path}"
        if path == "strict":
            require_products(twin, task, layer, "coefficients", [(1, 3)], "expand")
            continue
        rows = twin.stacked(second_of(twin.at_layer(task, layer)))
        require_factors(twin, blocks_of(task, f"{layer}.weight")[0], rows, "expand")


# --- the layers of the paper ------------------------------------------------------------------


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("channel", ["exact", "expand", "reduce"])
def test_factored_layers(twin: Any, channel: str, loss: str) -> None:
    """Appendix C.1, with inputs written out on a diagonal as there.

    Row c of θ₂ ∈ (C', C·XY) is zero but for the columns of channel c; row c' of θ₁ ∈
    (X'Y', C'·C) is zero but for those of c'. "expand" is the paper's 1/(NC) ΣΣ; by default each
    c has the product of its own factors; "reduce" takes the mean row and the sum of gradients.
    """
    into, out, before, after = 2, 3, 4, 2
    task = twin.made("factored", loss)
    layer = task.model[0]
    inner, outer = [], []
    for x, g, hessian in twin.at_layer(task, "0"):  # g: (outputs, C', X'Y')
        middle = torch.einsum("cx,dcx->dc", x, layer.inner.detach())
        at_middle = torch.einsum("kdz,zdc->kcd", g, layer.outer.detach())
        inner.append((torch.block_diag(*x.split(1)), at_middle, hessian))
        outer.append((torch.block_diag(*middle.split(1)), g, hessian))
    inner_places = torch.arange(out * into * before).reshape(out, into * before)
    outer_places = torch.arange(after * out * into).reshape(after, out * into)
    for name, pieces, places, blocks in (
        ("0.inner", inner, inner_places, into),
        ("0.outer", outer, outer_places, out),
    ):
        rows = twin.stacked(pieces)
        if channel == "exact":
            width = rows.a.shape[-1] // blocks
            truth = torch.zeros(places.numel(), places.numel(), dtype=torch.float64)
            for c in range(blocks):
                columns = slice(c * width, (c + 1) * width)
                one = twin.Rows(
                    rows.a[:, c : c + 1, columns], rows.g[:, :, c : c + 1], rows.hessian
                )
                order = places[:, columns].flatten()
                truth[order[:, None], order] = one.matrix()
        else:
            truth = rows.matrix(channel)
        ours = twin.assembled(blocks_of(task, name, sharing={"channel": channel}), places.numel())
        twin.assert_close(ours, truth)


@pytest.mark.parametrize("mode", MODES)
def test_sparsified_convolutions_project_the_input_factor(twin: Any, mode: str) -> None:
    """Appendix C.2: with weights u Φ the factor of the patches goes to Φ A Φᵀ."""
    task = twin.made("basis", "regression")
    layer = task.model[0]
    layer.kernel_size, layer.groups, layer.transposed = (3, 3), 1, False
    layer.stride = layer.dilation = layer.padding = (1, 1)
    layer.padding_mode, layer.in_channels, layer.out_channels = "circular", 2, 2
    rows = twin.convolution_rows(task, "0")
    basis = torch.block_diag(*[layer.basis().detach()] * 2)
    projected = twin.Rows(rows.a @ basis.mT, rows.g, rows.hessian)
    (block,) = blocks_of(task, "0.u", sharing=mode, hyperparameters=["0.omega"])
    require_factors(twin, block, projected, mode)
    if mode == "expand":
        twin.assert_close(block.input[0], basis @ rows.factors()[0] @ basis.mT)


class Quick(RecordedModule):
    """A sequence layer with a way of its own to the sum of squares of its inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(2, 3))

    def forward(self, x: Tensor) -> Tensor:
        y = functional.linear(x, self.weight)
        self.note("weight", x, y, axes=("position",), gram=self.gram)
        return y

    def gram(self, x: Tensor) -> Tensor:
        return torch.einsum("nri,nrj->ij", x, x)


@pytest.mark.parametrize("mode", MODES)
def test_a_gram_of_the_layer_stands_for_its_rows(twin: SimpleNamespace, mode: str) -> None:
    task = twin.filled(lambda: twin.after(Quick(), 8), (4, 3))
    rows = twin.stacked(twin.at_layer(task, "0"))
    require_factors(twin, blocks_of(task, "0.weight", sharing=mode)[0], rows, mode)
