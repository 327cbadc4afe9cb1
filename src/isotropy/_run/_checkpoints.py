"""Checkpoints: one file from which an interrupted run goes on, and which no other run can read."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from isotropy._run._files import atomic_write

_FORMAT = 1


@dataclass(frozen=True)
class Checkpoint:
    """Where a run keeps its state.

    The file is a single safetensors file: the tensors, and in its metadata the rest of the state
    as JSON, the version of this format and the fingerprint. Nothing is ever unpickled, and the
    file is replaced atomically, so that an interruption leaves the previous one.

    Args:
        path: the file; its folder must exist when saving.
        fingerprint: a text that names the run: what it computes, on what, with which settings.

    Example:
        >>> import tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> checkpoint = Checkpoint(Path(folder.name) / "run.safetensors", "S(5) T(7) seed 0")
        >>> checkpoint.load() is None
        True
        >>> checkpoint.save({"beta": torch.ones(2)}, {"step": 10})
        >>> tensors, state = checkpoint.load()
        >>> tensors["beta"], state
        (tensor([1., 1.]), {'step': 10})
        >>> folder.cleanup()
    """

    path: str | os.PathLike[str]
    fingerprint: str

    def save(self, tensors: dict[str, torch.Tensor], state: dict[str, Any]) -> None:
        """Write the state of the run, replacing what was saved before.

        Args:
            tensors: named tensors; they may share memory, be strided or live on any device.
            state: everything else, of what JSON knows (a tuple comes back as a list).

        Raises:
            TypeError: if ``state`` has no JSON form.
            ValueError: if a tensor is sparse.
        """
        metadata = {
            "isotropy_checkpoint": str(_FORMAT),
            "fingerprint": self.fingerprint,
            "state": json.dumps(state),
            "complex": json.dumps([name for name in tensors if tensors[name].is_complex()]),
        }
        # safetensors refuses views and tensors that share memory, so each gets memory of its own.
        copies = {name: _own(name, tensor) for name, tensor in tensors.items()}
        content = save(copies, metadata)
        with atomic_write(self.path) as file:
            file.write(content)

    def load(self) -> tuple[dict[str, torch.Tensor], dict[str, Any]] | None:
        """Read the state of the run.

        Returns:
            The tensors, on the CPU, and the rest of the state; ``None`` if nothing is saved.

        Raises:
            ValueError: if the file is damaged, is no checkpoint, was written by a newer version,
                or belongs to a run of another fingerprint.
        """
        path = os.fspath(self.path)
        if not os.path.lexists(path):
            return None
        if not Path(path).is_file():
            raise ValueError(f"expected a checkpoint file, got {path!r}")
        try:
            with safe_open(path, framework="pt") as file:
                metadata = file.metadata() or {}
                self._check(metadata)
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except SafetensorError as error:
            raise ValueError(
                f"expected a checkpoint, got a damaged file in {path!r} ({error})"
            ) from error
        for name in json.loads(metadata["complex"]):
            tensors[name] = torch.view_as_complex(tensors[name])
        return tensors, json.loads(metadata["state"])

    def _check(self, metadata: dict[str, str]) -> None:
        path = os.fspath(self.path)
        version = metadata.get("isotropy_checkpoint", "")
        if not version.isdecimal():
            raise ValueError(f"expected a checkpoint of isotropy, got another file in {path!r}")
        if int(version) > _FORMAT:
            raise ValueError(
                f"expected a checkpoint of format {_FORMAT} or older, "
                f"got format {version} in {path!r}"
            )
        found = metadata.get("fingerprint")
        if found != self.fingerprint:
            raise ValueError(
                f"expected a checkpoint of the run {self.fingerprint!r}, "
                f"got one of the run {found!r} in {path!r}"
            )


def _own(name: str, tensor: torch.Tensor) -> torch.Tensor:
    if tensor.layout is not torch.strided:
        raise ValueError(f"expected a dense tensor for {name!r}, got one of {tensor.layout}")
    tensor = tensor.detach().cpu().resolve_conj().resolve_neg()
    if tensor.is_complex():  # safetensors has no complex128: keep real and imaginary parts
        tensor = torch.view_as_real(tensor)
    return tensor.clone(memory_format=torch.contiguous_format)
