"""Programs that the release wrote still load, and give what they gave."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.utils._pytree import tree_leaves

from isotropy.data import load_model

HERE = Path(__file__).parent
NAMES = sorted(path.stem for path in HERE.glob("*.pt2"))


def called(name: str, module: Any, tensors: list[Tensor]) -> Any:
    if name == "inputs":
        x, left, right, bias = tensors
        return module(x, {"left": left, "right": [right]}, bias=bias, mode="sum")
    return module(*tensors)


def test_there_are_programs() -> None:
    assert len(NAMES) == 11


@pytest.mark.parametrize("name", NAMES)
def test_a_program_gives_what_it_gave(name: str) -> None:
    expected = load_file(HERE / "expected.safetensors")
    module = load_model(HERE / f"{name}.pt2")
    sizes = {key.split(".")[1] for key in expected if key.startswith(f"{name}.")}
    assert len(sizes) >= 2
    for size in sorted(sizes):
        given = [value for key, value in expected.items() if key.startswith(f"{name}.{size}.in.")]
        outputs = tree_leaves(called(name, module, given))
        for i, output in enumerate(outputs):
            torch.testing.assert_close(output, expected[f"{name}.{size}.out.{i}"])
        assert f"{name}.{size}.out.{len(outputs)}" not in expected


def test_what_they_return_is_nested_as_it_was() -> None:
    found = load_model(HERE / "outputs.pt2")(torch.ones(4, 3))
    assert list(found) == ["double", "rest"]
    total, (mean, largest) = found["rest"]
    assert total == 12
    assert (tuple(mean.shape), tuple(largest.shape)) == ((3,), (4,))


def test_weights_keep_their_names() -> None:
    buffers = load_model(HERE / "buffers.pt2")
    assert set(buffers.state_dict()) == {"scale", "mean", "calls"}
    assert dict(buffers.named_buffers()).keys() == {"mean", "shift", "calls"}
    buffers(torch.ones(2, 3))
    assert buffers.calls == 1


@pytest.mark.parametrize(
    ("name", "shape", "guard"),
    [
        ("linear", (65, 3), r"Guard failed: input\.size\(\)\[0\] <= 64"),
        ("linear", (5, 4), r"Guard failed: input\.size\(\)\[1\] == 3"),
        ("convolution", (2, 1, 6, 12), r"Guard failed: input\.size\(\)\[2\] >= 8"),
        ("shapes", (5, 4), r"Guard failed: x\.size\(\)\[0\] %"),
        ("attention", (2, 41, 4), r"Guard failed: x\.size\(\)\[1\] <= 40"),
    ],
)
def test_sizes_that_were_not_declared_fail_as_in_pytorch(
    name: str, shape: tuple[int, ...], guard: str
) -> None:
    path = HERE / f"{name}.pt2"
    for module in (load_model(path), torch.export.load(path).module()):
        with pytest.raises(AssertionError, match=guard):
            module(torch.zeros(shape))
