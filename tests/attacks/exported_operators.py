"""Call operators that an exported program may call on tensors that do not fit each other.

    python tests/attacks/exported_operators.py --calls 60

Every tensor ends where a page begins that nobody may read or write, so that an operator which goes
beyond it ends the process. The name of each operator is printed before it is called.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import mmap
import random
import resource
import sys
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from isotropy.data._exported_checks import check_operators
from isotropy.data._exported_operators import aten_arguments

_NUMBERS = [0, 1, -1, 2, 3, 7, 100, -100, 2**31, -(2**31), 2**62, 2**63 - 1]
_FRACTIONS = [0.0, -1.0, 1e-300, 1e300, 0.5, float("nan"), float("inf")]
_KINDS = [torch.float32, torch.float64, torch.int64, torch.uint8, torch.bool, torch.bfloat16]


def _r(*sizes: int) -> Tensor:
    return torch.randn(sizes)


def _lstm_weights() -> list[Tensor]:
    return [_r(16, 4), _r(16, 4), _r(16), _r(16)]


def fitting() -> dict[str, list[Any]]:
    """Arguments that fit, for operators where others would be refused before anything is read."""
    image, volume, places = _r(1, 2, 8, 8), _r(1, 2, 4, 4, 4), torch.tensor([1, 2])
    query = _r(1, 2, 4, 8)
    symmetric = torch.eye(3)
    return {
        "_adaptive_avg_pool2d.default": [image, [3, 3]],
        "_adaptive_avg_pool3d.default": [volume, [3, 3, 3]],
        "_cdist_forward.default": [_r(4, 3), _r(5, 3), 2.0, 0],
        "_convolution.default": [
            image,
            _r(3, 2, 3, 3),
            _r(3),
            [1, 1],
            [0, 0],
            [1, 1],
            False,
            [0, 0],
            1,
            False,
            False,
            False,
            False,
        ],
        "_euclidean_dist.default": [_r(4, 3), _r(5, 3)],
        "_fused_rms_norm.default": [_r(4, 6), [6], _r(6), 1e-5],
        "_linalg_det.default": [symmetric],
        "_linalg_eigh.default": [symmetric],
        "_linalg_eigvals.default": [_r(3, 3)],
        "_linalg_slogdet.default": [symmetric],
        "_linalg_solve_ex.default": [symmetric, _r(3, 2)],
        "_linalg_svd.default": [_r(4, 3)],
        "_log_softmax.default": [_r(3, 4), 1, False],
        "_native_batch_norm_legit.no_stats": [image, _r(2), _r(2), True, 0.1, 1e-5],
        "_native_batch_norm_legit_no_training.default": [
            image,
            *(_r(2) for _ in range(4)),
            0.1,
            1e-05,
        ],
        "_prelu_kernel.default": [_r(4, 5), _r(1, 5)],
        "_safe_softmax.default": [_r(3, 4), 1],
        "_softmax.default": [_r(3, 4), 1, False],
        "_trilinear.default": [_r(4, 1, 3), _r(1, 5, 3), _r(4, 5, 1), [1], [0], [2], [1]],
        "_unsafe_index.Tensor": [_r(4, 5), [places, places]],
        "_unsafe_view.default": [_r(4, 5), [20]],
        "_upsample_bicubic2d_aa.default": [image, [5, 13], False, None, 1.7],
        "_upsample_bicubic2d_aa.vec": [image, None, False, [0.5, 1.5]],
        "_upsample_bilinear2d_aa.default": [image, [5, 13], False, None, 1.7],
        "_upsample_bilinear2d_aa.vec": [image, None, False, [0.5, 1.5]],
        "_upsample_nearest_exact1d.vec": [image[0], None, [0.5]],
        "_upsample_nearest_exact2d.vec": [image, None, [0.5, 1.5]],
        "_upsample_nearest_exact3d.vec": [volume, None, [0.5, 1.5, 2.0]],
        "_weight_norm.default": [_r(4, 3), _r(4, 1), 0],
        "as_strided.default": [_r(12), [3, 2], [2, 1], 1],
        "batch_norm.default": [image, *(_r(2) for _ in range(4)), True, 0.1, 1e-5, False],
        "col2im.default": [_r(1, 18, 4), [4, 4], [3, 3], [1, 1], [0, 0], [1, 1]],
        "convolution.default": [
            image,
            _r(2, 3, 3, 3),
            _r(3),
            [2, 2],
            [0, 0],
            [1, 1],
            True,
            [1, 1],
            1,
        ],
        "embedding.default": [_r(4, 3), places],
        "gather.default": [_r(3, 4), 1, torch.zeros(3, 4).long()],
        "grid_sampler_2d.default": [image, _r(1, 2, 3, 2), 0, 0, False],
        "gru.input": [
            _r(5, 3, 4),
            _r(1, 3, 4),
            [_r(12, 4), _r(12, 4), _r(12), _r(12)],
            True,
            1,
            0.0,
            False,
            False,
            False,
        ],
        "index_put.default": [_r(4, 5), [places, places], _r(2)],
        "linalg_eigvals.default": [_r(3, 3)],
        "lstm.input": [
            _r(5, 3, 4),
            [_r(1, 3, 4), _r(1, 3, 4)],
            _lstm_weights(),
            True,
            1,
            0.0,
            False,
            False,
            False,
        ],
        "max_unpool2d.default": [_r(1, 2, 2), torch.arange(4).reshape(1, 2, 2), [4, 4]],
        "native_group_norm.default": [image, _r(2), _r(2), 1, 2, 64, 1, 1e-5],
        "native_layer_norm.default": [_r(4, 6), [6], _r(6), _r(6), 1e-5],
        "nll_loss_forward.default": [_r(3, 4), torch.arange(3), _r(4), 1, -100],
        "scaled_dot_product_attention.default": [query, _r(1, 2, 6, 8), _r(1, 2, 6, 8)],
        "scatter_add.default": [_r(3, 4), 1, torch.zeros(3, 4).long(), _r(3, 4)],
        "upsample_bilinear2d.vec": [image, None, False, [0.5, 1.5]],
        "upsample_nearest1d.vec": [image[0], None, [0.5]],
    }


def operators() -> list[str]:
    """Every allowed overload whose name begins with an underscore, and the others of `fitting`."""
    names = {full.removeprefix("aten::") for full in torch._C._dispatch_get_all_op_names()}
    names = {name if "." in name else f"{name}.default" for name in names if "::" not in name}
    chosen = {name for name in names if name.startswith("_")} | fitting().keys()
    return sorted(name for name in chosen if aten_arguments(f"torch.ops.aten.{name}") is not None)


# --- calls ------------------------------------------------------------------------------------


def _guarded(tensor: Tensor) -> Tensor:
    """A copy that ends at a page which may be neither read nor written."""
    tensor = tensor.detach().contiguous()
    size = tensor.numel() * tensor.element_size()
    pages = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
    area = mmap.mmap(-1, pages + mmap.PAGESIZE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(area))
    forbidden = ctypes.CDLL(None).mprotect(ctypes.c_void_p(start + pages), mmap.PAGESIZE, 0)
    assert forbidden == 0
    whole = torch.frombuffer(area, dtype=torch.uint8)
    return whole[pages - size : pages].view(tensor.dtype).view(tensor.shape).copy_(tensor)


def _placed(value: Any) -> Any:
    if isinstance(value, Tensor):
        return _guarded(value)
    return [_placed(item) for item in value] if isinstance(value, list) else value


def _resized(tensor: Tensor, chance: random.Random) -> Any:
    dimension = chance.randrange(tensor.dim()) if tensor.dim() else 0
    if chance.random() < 0.2 or not tensor.dim():
        sizes = [chance.choice([0, 1, 2, 5, 17]) for _ in range(chance.randrange(5))]
        return torch.zeros(sizes, dtype=tensor.dtype)
    if tensor.dtype == torch.int64 and chance.random() < 0.5:
        return tensor + chance.choice([-(10**6), -3, 3, 100, 10**6, 2**40])
    return chance.choice(
        [
            lambda: tensor.narrow(dimension, 0, min(1, tensor.shape[dimension])),
            lambda: torch.cat([tensor] * 9, dimension),
            lambda: tensor.unsqueeze(dimension),
            lambda: tensor.flatten(),
            lambda: tensor.to(chance.choice(_KINDS)),
            lambda: tensor * float("nan"),
            lambda: None,
        ]
    )()


def _changed(value: Any, chance: random.Random) -> Any:
    if isinstance(value, Tensor):
        return _resized(value, chance)
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return chance.choice(_NUMBERS)
    if isinstance(value, float) or value is None:
        return chance.choice(_FRACTIONS)
    if isinstance(value, list) and value:
        place = chance.randrange(len(value))
        return [*value[:place], _changed(value[place], chance), *value[place + 1 :]]
    return value


def _drawn(kind: str, chance: random.Random) -> Any:
    """An argument of a kind, for operators without an example."""
    if kind.startswith("Optional"):
        return None
    if kind.startswith("List"):
        return [_drawn(kind[5:-1], chance) for _ in range(chance.randrange(4))]
    if kind == "Tensor":
        return _resized(_r(3, 4), chance)
    drawn = {"int": 1, "float": 1.0, "bool": True, "number": 1, "str": "x"}.get(kind)
    return _changed(drawn, chance)


def _program(operator: Any, number: int) -> Callable[..., Any]:
    """A module that calls an operator, as one from a file does."""
    graph = torch.fx.Graph()
    given = tuple(graph.placeholder(f"x{i}") for i in range(number))
    graph.output(graph.call_function(operator, given))
    module = torch.fx.GraphModule(nn.Module(), graph)
    check_operators(module)
    return module


def call(name: str, chance: random.Random, *, unchecked: bool) -> None:
    """Call an operator once on arguments of which some do not fit."""
    packet, overload = name.split(".")
    operator = getattr(getattr(torch.ops.aten, packet), overload)
    known = fitting().get(name)
    if known is None:
        schema = operator._schema.arguments
        known = [_drawn(str(part.real_type), chance) for part in schema if not part.kwarg_only]
    for _ in range(chance.choice([1, 1, 2, 3]) if known else 0):
        known = _changed(known, chance)
    with contextlib.suppress(Exception):
        given = _placed(known)
        (operator if unchecked else _program(operator, len(given)))(*given)


def main() -> None:
    """Call every operator so many times."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--calls", type=int, default=60)
    options.add_argument("--unchecked", help="an operator to be called alone, without its checks")
    chosen = options.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (12 * 2**30, 12 * 2**30))
    torch.manual_seed(0)
    for name in [chosen.unchecked] if chosen.unchecked else operators():
        sys.stdout.write(f"{name}\n")
        sys.stdout.flush()
        for number in range(chosen.calls):
            chance = random.Random(f"{name} {number}")
            call(name, chance, unchecked=bool(chosen.unchecked))
    sys.stdout.write("done\n")


if __name__ == "__main__":
    main()
