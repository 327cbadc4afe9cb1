"""What certify and verify share: the rows, and a module of the user's own."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from isotropy.cli._options import SplitOption, TaskOption, task_kind

if TYPE_CHECKING:
    from torch import Tensor, nn

    from isotropy._run import ProgressCallback
    from isotropy.data import Dataset

_PUBLIC = ("mnist", "fashion-mnist", "cifar10")
_LONGEST = 600


def sample_of(
    data: Path,
    target: str | None,
    task: TaskOption | None,
    split: SplitOption | None,
    progress: "ProgressCallback | None" = None,
) -> "tuple[Dataset, Dataset | None]":
    """The rows to certify; and those of the test split, where they are others and are there."""
    from isotropy.data import fetch, load

    source = data
    if str(data) in _PUBLIC and not data.exists():
        source = fetch(str(data), progress=progress)

    def part(name: str | None) -> "Dataset":
        return load(source, target=target, task=task_kind(task), split=name)

    if split is not None:
        return part(split.value), None
    try:
        return part(None), None
    except ValueError as error:
        if target is None and "expected a number in column" in str(error):
            raise ValueError(f"{error}; --target names the column to predict") from None
        if "split='train'" not in str(error):
            raise
    return part("train"), part("test")


def is_own(arch: str) -> bool:
    """Whether an architecture is the user's own, and not of the catalogue."""
    return ":" in arch or arch.endswith((".pt2", ".py"))


def own_model(spec: str, x: "Tensor") -> "tuple[nn.Module, int]":
    """The user's own module, tried on two rows, and how many numbers it gives for each."""
    import torch

    from isotropy.data import load_model

    module = load_model(spec)
    with torch.no_grad(), one_sentence():
        found: Any = module(x[:2].float())
        if not isinstance(found, torch.Tensor) or found.ndim != 2 or len(found) != len(x[:2]):
            got = tuple(found.shape) if isinstance(found, torch.Tensor) else type(found).__name__
            raise ValueError(
                f"{spec}: expected outputs of shape (rows, numbers) for inputs of shape "
                f"{tuple(x[:2].shape)}, got {got}"
            )
    return module, found.shape[1]


def tensors_in(path: Path) -> "dict[str, Tensor]":
    """The tensors of a safetensors file, by name."""
    from isotropy.data._models import _existing, _read_weights

    if path.suffix.lower() != ".safetensors":
        raise ValueError(f"{path}: expected weights in a .safetensors file")
    return _read_weights(_existing(str(path)))


@contextmanager
def one_sentence() -> Iterator[None]:
    """Say in one sentence how the user's own module failed; it may do so in ways of its own."""
    try:
        yield
    except (RuntimeError, TypeError, AttributeError, LookupError, AssertionError) as error:
        message = " ".join(str(error).split())[:_LONGEST]
        raise ValueError(
            f"expected a model that runs on these inputs, got {type(error).__name__}: {message}"
        ) from error
