"""A model from the user's own code, with weights from safetensors, or from an exported program."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import torch
from torch import Tensor, nn

from isotropy.data._exported_programs import load_exported_program
from isotropy.data._user_code import call_factory

_PICKLES = (".bin", ".ckpt", ".joblib", ".pickle", ".pkl", ".pt", ".pth")
_SHAPE_OF_SPEC = "path/to/module.py:factory, package.module:factory or a .pt2 file"


def load_model(
    spec: str | os.PathLike[str],
    *,
    weights: str | os.PathLike[str] | None = None,
    device: str | torch.device = "cpu",
) -> nn.Module:
    r"""Load a model without unpickling anything.

    - ``path/to/module.py:factory`` imports the file and calls ``factory()``; the file may import
      its neighbours, since its folder leads ``sys.path`` meanwhile. The name may also be that of a
      class without arguments, or of a module that is already built.
    - ``package.module:factory`` does the same with an installed module, or one in the working
      folder.
    - ``program.pt2`` is what ``torch.export.save`` wrote. It is parsed before PyTorch sees it: only
      tensors and a graph of operators that compute pass, and nothing in it is evaluated, imported
      or unpickled. It remains a computation, which may take as much time and memory as it likes
      and may write to the inputs that it is given.

    The model comes in evaluation mode, because in training mode a mere forward pass may change it.
    An exported program keeps the mode in which it was exported.

    Args:
        spec: Where the model is.
        weights: A safetensors file with every parameter and buffer of the model, and no others.
        device: Where to put it.

    Returns:
        The model.

    Raises:
        ValueError: If there is no such file, name or factory, the user's code fails (its own error
            is the cause), a weight is missing, left over or of another shape, or it is a pickle.

    Example:
        >>> import tempfile
        >>> from safetensors.torch import save_file
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     code = Path(folder) / "nets.py"
        ...     _ = code.write_text("import torch\ndef net(): return torch.nn.Linear(2, 1)\n")
        ...     file = Path(folder) / "net.safetensors"
        ...     save_file({"weight": torch.tensor([[1.0, 2.0]]), "bias": torch.zeros(1)}, file)
        ...     model = load_model(f"{code}:net", weights=file)
        >>> model(torch.tensor([3.0, 4.0])).item()
        11.0
    """
    text = os.fspath(spec)
    _refuse_pickle(text.rpartition(":")[0] or text)
    _refuse_pickle(text)
    if text.lower().endswith(".pt2"):
        if weights is not None:
            raise ValueError(f"{text}: expected no weights for a .pt2, got {os.fspath(weights)!r}")
        return load_exported_program(_existing(text), device)
    if text.lower().endswith(".safetensors"):
        raise ValueError(
            f"expected {_SHAPE_OF_SPEC}, got {text!r}; give it as weights of such a model"
        )
    place, _, name = text.rpartition(":")
    if not place or not name.isidentifier():
        raise ValueError(f"expected {_SHAPE_OF_SPEC}, got {text!r}")
    # A path differs from a module's name by its suffix, or by a separator no name can hold.
    is_file = place.endswith(".py") or os.sep in place or "/" in place
    model = call_factory(_existing(place) if is_file else place, name)
    if weights is not None:
        _load_weights(model, os.fspath(weights))
    return model.to(device).eval()


def _refuse_pickle(path: str) -> None:
    if path.lower().endswith(_PICKLES):
        raise ValueError(
            f"expected {_SHAPE_OF_SPEC}, got the pickle {path!r}, which could run any code; save "
            "its state_dict() with safetensors.torch.save_file and give that as weights"
        )


def _existing(path: str) -> Path:
    found = Path(path).expanduser()
    if not found.is_file():
        raise ValueError(f"{path}: expected a file, got a path where none is")
    return found


def _load_weights(model: nn.Module, path: str) -> None:
    _refuse_pickle(path)
    if not path.lower().endswith(".safetensors"):
        raise ValueError(f"expected weights in a .safetensors file, got {path!r}")
    given = _read_weights(_existing(path))
    own = model.state_dict()
    missing = [name for name in own if name not in given]
    # Tied weights are saved once.
    tied = Counter(_memory(own[name]) for name in own if name in given)
    missing = [name for name in missing if tied[_memory(own[name])] == 0]
    unexpected = [name for name in given if name not in own]
    shaped = [
        f"{name} {tuple(given[name].shape)} for {tuple(own[name].shape)}"
        for name in own
        if name in given and given[name].shape != own[name].shape
    ]
    wrong = [
        f"{what} {_some(names)}"
        for what, names in (
            ("missing", missing),
            ("unexpected", unexpected),
            ("of another shape", shaped),
        )
        if names
    ]
    if wrong:
        raise ValueError(
            f"{path}: expected the weights of {type(model).__name__}, got {'; '.join(wrong)}"
        )
    model.load_state_dict(given, strict=False)


def _memory(tensor: Tensor) -> object:
    """What two names of one weight share; an empty tensor shares nothing."""
    if tensor.numel() == 0:
        return object()
    return tensor.device, tensor.data_ptr(), tuple(tensor.shape), tensor.stride()


def _read_weights(path: Path) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return dict(load_file(path))
    except SafetensorError as error:
        raise ValueError(
            f"{path}: expected a safetensors file, got a damaged one ({error})"
        ) from error


def _some(names: list[str], most: int = 3) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
