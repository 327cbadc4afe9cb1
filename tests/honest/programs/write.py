"""How the programs in this folder were written, with isotropy 0.1.0.dev0 and PyTorch 2.13.

Each is kept with inputs of several sizes and what it gave for them, in ``expected.safetensors``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.export import Dim


class Buffers(nn.Module):
    """Parameters, buffers that are saved or not, a constant, and a buffer that changes."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor([1.0, 2.0, 3.0]))
        self.register_buffer("mean", torch.arange(3.0))
        self.register_buffer("shift", torch.ones(3), persistent=False)
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.weights = torch.tensor([0.5, 0.25, 0.125])

    def forward(self, x: Tensor) -> Tensor:
        self.calls.add_(1)
        return (x - self.mean) * self.scale * self.weights + self.shift + self.calls


class Outputs(nn.Module):
    """A dictionary of tensors, tuples and lists."""

    def forward(self, x: Tensor) -> Any:
        return {"double": 2 * x, "rest": (x.sum(), [x.mean(0), x.amax(1)])}


class Inputs(nn.Module):
    """Nested and named inputs, and ones that are not tensors."""

    def forward(self, x: Tensor, pair: Any, *, bias: Tensor, mode: str = "sum") -> Tensor:
        both = pair["left"] + pair["right"][0]
        return x @ both + bias if mode == "sum" else x


class Shapes(nn.Module):
    """Sizes as numbers."""

    def forward(self, x: Tensor) -> Tensor:
        n = x.shape[0]
        pairs = x.view(n // 2, 2, -1).mean(0)
        return pairs * min(n, 10) + torch.arange(n).float().mean() + n**2 / 3 + x[: n - 1].mean()


class Attention(nn.Module):
    """Attention and a norm, for sequences of any length."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)
        self.norm = nn.LayerNorm(4)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x + self.attention(x, x, x, need_weights=False)[0])


class Branch(nn.Module):
    """A branch on the data."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cond(x.sum() > 0, lambda x: self.linear(x), lambda x: x.cos(), (x,))


class Frozen(nn.Module):
    """A part without gradients."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            frozen = self.linear(x)
        return frozen + self.linear(x)


def programs() -> dict[str, tuple[Any, list[tuple[tuple[Any, ...], dict[str, Any]]]]]:
    """Each program, and inputs for it: positional and named."""
    from isotropy.groups import O
    from isotropy.nn import EMLP
    from isotropy.reps import Scalar, V

    torch.manual_seed(0)
    rows = Dim("rows", min=2, max=64)
    height, width = Dim("height", min=4, max=32), Dim("width", min=4, max=32)
    batch, length = Dim("batch", min=1, max=16), Dim("length", min=2, max=40)
    any_rows = ({0: Dim("rows")},)

    def plain(*shapes: tuple[int, ...]) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
        return [((torch.randn(shape),), {}) for shape in shapes]

    def written(net: nn.Module, inputs: Any, sizes: Any = None) -> tuple[Any, Any]:
        (args, kwargs), *_ = inputs
        program = torch.export.export(net.eval(), args, kwargs, dynamic_shapes=sizes)
        return program, inputs

    linear = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.BatchNorm1d(4), nn.Linear(4, 2))
    convolution = nn.Sequential(
        nn.Conv2d(1, 2, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(1)
    )
    nested = [
        (
            (torch.randn(n, 3), {"left": torch.randn(3, 2), "right": [torch.randn(3, 2)]}),
            {"bias": torch.randn(2), "mode": "sum"},
        )
        for n in (4, 7)
    ]
    nested_sizes = {
        "x": {0: Dim("rows")},
        "pair": {"left": None, "right": [None]},
        "bias": None,
        "mode": None,
    }
    rows_of_3 = plain((5, 3), (2, 3), (64, 3))
    emlp = EMLP(2 * V, Scalar + V, O(2), channels=6, layers=1)
    found = {
        "linear": written(linear, rows_of_3, ({0: rows},)),
        "convolution": written(
            convolution, plain((2, 1, 8, 12), (2, 1, 64, 8)), ({2: 2 * height, 3: 2 * width},)
        ),
        "buffers": written(Buffers(), plain((4, 3), (2, 3)), any_rows),
        "outputs": written(Outputs(), plain((4, 3), (6, 3)), any_rows),
        "inputs": written(Inputs(), nested, nested_sizes),
        "shapes": written(Shapes(), plain((6, 4), (4, 4), (14, 4)), ({0: Dim.AUTO},)),
        "attention": written(
            Attention(), plain((2, 5, 4), (1, 3, 4), (3, 40, 4)), ({0: batch, 1: length},)
        ),
        "branch": written(
            Branch(), [((x,), {}) for x in (torch.ones(4, 3), -torch.ones(2, 3))], any_rows
        ),
        "frozen": written(Frozen(), plain((4, 3), (9, 3)), any_rows),
        "emlp": (emlp.export(), plain((3, 4), (10, 4))),
    }
    found["decomposed"] = (found["linear"][0].run_decompositions(), rows_of_3)
    return found


def write(folder: Path) -> None:
    """Write every program, and what it gives."""
    from torch.utils._pytree import tree_leaves

    expected: dict[str, Tensor] = {}
    for name, (program, inputs) in programs().items():
        torch.export.save(program, folder / f"{name}.pt2")
        module = program.module()
        for i, (args, kwargs) in enumerate(inputs):
            given = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
            for j, tensor in enumerate(given):
                expected[f"{name}.{i}.in.{j}"] = tensor.clone()
            for j, tensor in enumerate(tree_leaves(module(*args, **kwargs))):
                expected[f"{name}.{i}.out.{j}"] = tensor.detach().clone().contiguous()
    save_file(expected, folder / "expected.safetensors")


if __name__ == "__main__":
    write(Path(__file__).parent)
