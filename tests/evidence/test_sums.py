"""What a pass adds up, against sums written out row by row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from evidence_parts import KroneckerBlock
from isotropy.evidence import CurvatureOptions, laplace
from isotropy.evidence._sharing import Mode, SharingModes
from isotropy.evidence._sums import DenseSums, DiagonalSums, GramSum, KroneckerSums, PartSums
from isotropy.nn import FactoredLinear, record


def written_out(rows: Tensor, blocks: bool) -> Tensor:
    wide = rows.detach().double().reshape(-1, rows.shape[-2] if blocks else 1, rows.shape[-1])
    return torch.einsum("rki,rkj->kij", wide, wide)


def random_rows(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0)).to(dtype)


ROWS: dict[str, tuple[Callable[[], Tensor], bool]] = {
    "narrow": (lambda: random_rows(7, 5), False),
    "one number": (lambda: random_rows(7, 3, 1), False),
    "the same row": (lambda: random_rows(1, 4).expand(6, 4), False),
    "wide": (lambda: random_rows(40, 6, 259), False),
    "wide, few": (lambda: random_rows(3, 259), False),
    "in double": (lambda: random_rows(40, 6, 259, dtype=torch.float64), False),
    "maps": (lambda: random_rows(5, 67, 110).mT, False),
    "samples last": (lambda: random_rows(9, 70, 60).permute(2, 0, 1), False),
    "blocks": (lambda: random_rows(4, 3, 5), True),
    "wide blocks": (lambda: random_rows(130, 3, 257), True),
    "wide blocks of maps": (lambda: random_rows(130, 257, 3).mT, True),
    "blocks slowest": (lambda: random_rows(3, 2, 70, 300).permute(1, 3, 0, 2), True),
}


@pytest.mark.parametrize("name", ROWS)
def test_gram_of_rows_in_any_layout(name: str) -> None:
    make, blocks = ROWS[name]
    rows = make()
    expected = written_out(rows, blocks)
    squares = GramSum(blocks=blocks)
    assert not squares.begun
    squares.add(rows)
    assert squares.begun
    found = squares.total()
    assert found.dtype == torch.float64
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-11)
    torch.testing.assert_close(found, found.mT, rtol=1e-15, atol=1e-11)


@pytest.mark.parametrize("name", ["narrow", "wide", "blocks", "wide blocks"])
def test_gram_goes_on_after_its_total(name: str) -> None:
    make, blocks = ROWS[name]
    rows = make()
    squares = GramSum(blocks=blocks)
    for factor in (1, 2, 4):  # exact in float32
        squares.add(factor * rows)
        if factor == 2:
            squares.total()
    expected = 21 * written_out(rows, blocks)
    torch.testing.assert_close(squares.total(), expected, rtol=1e-12, atol=1e-10)


@pytest.mark.parametrize("first", ["constant", "graph"])
def test_gram_keeps_the_graph(first: str) -> None:
    fixed = random_rows(140, 257, dtype=torch.float64)
    x = random_rows(2, 257, dtype=torch.float64).requires_grad_()
    weights = random_rows(257, 257, dtype=torch.float64)
    squares = GramSum()
    for rows in (fixed, x) if first == "constant" else (x, fixed):
        squares.add(rows)
    total = squares.total()[0]
    torch.testing.assert_close(total.detach(), written_out(torch.cat([fixed, x]), False)[0])
    (found,) = torch.autograd.grad((weights * total).sum(), x)
    torch.testing.assert_close(found, x.detach() @ (weights + weights.mT))


# --- the same rows for several operations -----------------------------------------------------

SHARING: dict[str, Mapping[str, Mode]] = {
    "apart": {},
    "shared": {"channel": "expand"},
    "one dense": {"channel": "reduce"},
    "apart, positions together": {"position": "reduce"},
    "shared, positions together": {"channel": "expand", "position": "reduce"},
}


def squares_by_hand(operation: Any, columns: list[Tensor], sharing: SharingModes) -> Tensor:
    """The output factor of one operation alone, from gradients at its output."""
    total: Tensor | float = 0.0
    for gradient in columns:
        rows = sharing.gradient_rows(operation, operation.gradient_rows(gradient))
        total = total + written_out(rows, True)
    assert isinstance(total, Tensor)
    shared = operation.blocks and sharing.along("channel") == "expand"
    return total.mean(0, keepdim=True) if shared else total


@pytest.mark.parametrize("name", SHARING)
def test_output_factors_of_operations_with_common_rows(name: str) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(FactoredLinear(3, 4, 2, (5,)), nn.Flatten(), nn.Linear(20, 2)).double()
    for parameter in model.parameters():
        nn.init.normal_(parameter)
    x = torch.randn(6, 3, 2, 2, dtype=torch.float64)
    found = laplace(
        model,
        nn.MSELoss(),
        (x, model(x).detach()),
        curvature=CurvatureOptions(sharing=SHARING[name], batch_size=4),
    )
    sharing = SharingModes.of(SHARING[name])
    with record(model) as operations:
        outputs = model(x)
    assert len(operations) == 6
    for operation in operations:
        units = [torch.eye(2, dtype=torch.float64)[k].expand(6, 2) for k in range(2)]
        columns = [
            torch.autograd.grad(outputs, operation.output, unit, retain_graph=True)[0]
            for unit in units
        ]
        (block,) = found.blocks[operation.parameter]
        assert isinstance(block, KroneckerBlock)
        expected = squares_by_hand(operation, columns, sharing)
        torch.testing.assert_close(block.output, expected, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("name", ["apart", "shared"])
def test_rows_are_squared_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    widths: list[int] = []
    add = GramSum.add

    def counted(self: GramSum, rows: Tensor) -> None:
        widths.append(rows.shape[-1])
        add(self, rows)

    monkeypatch.setattr(GramSum, "add", counted)
    model = nn.Sequential(FactoredLinear(3, 4, (7,), (5,)), nn.Flatten())
    x = torch.randn(6, 3, 7)
    laplace(
        model,
        nn.MSELoss(),
        (x, model(x).detach()),
        curvature=CurvatureOptions(sharing=SHARING[name]),
    )
    # x₁ has 4 channels, the output 5 positions, and there are 20 outputs, so 20 columns
    assert widths.count(4) == widths.count(5) == 20


# --- what is finite ---------------------------------------------------------------------------


def gram_of(rows: Tensor) -> Tensor:
    squares = GramSum()
    squares.add(rows)
    return squares.total()


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), 1e200, None], ids=str)
@pytest.mark.parametrize("kind", ["input", "output", "dense", "diagonal"])
def test_what_is_finite(kind: str, bad: float | None) -> None:
    rows = random_rows(6, 4, dtype=torch.float64)
    fine = gram_of(rows)
    if bad is not None:
        rows[2, 1] = bad
    gram = gram_of(rows)
    sums: PartSums
    if kind == "dense":
        sums = DenseSums(gram[0], None)
    elif kind == "diagonal":
        sums = DiagonalSums(gram[0].diagonal())
    else:
        factors = (gram, fine) if kind == "input" else (fine, gram)
        sums = KroneckerSums(*factors, torch.tensor(6.0), None)
    everything = all(bool(tensor.isfinite().all()) for tensor in sums.tensors())
    assert sums.is_finite() == everything == (bad is None)
