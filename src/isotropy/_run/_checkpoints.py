"""Checkpoints: one file from which an interrupted run goes on, and which no other run can read."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from isotropy._run._files import atomic_write

_FORMAT = 1
_DIGITS = 9  # of the number of a format
_SHOWN = 400  # letters of a fingerprint in an error
# what safetensors, and torch below it, raise of files that are not what they should be
_DAMAGED = (
    SafetensorError,
    AttributeError,
    KeyError,
    OSError,
    OverflowError,
    RuntimeError,
    TypeError,
)


class OtherRun(ValueError):
    """A checkpoint whose fingerprint is another's."""


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
        if not os.path.lexists(self.path):
            return None
        with self._opened() as (file, metadata):
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        complex_ones = self._json(metadata, "complex", list)
        for name in complex_ones:
            if not isinstance(name, str) or not _holds_pairs(tensors.get(name)):
                raise ValueError(
                    "expected names of complex tensors in the checkpoint "
                    f"{os.fspath(self.path)!r}, got {name!r:.80}"
                )
            tensors[name] = torch.view_as_complex(tensors[name])
        return tensors, self._json(metadata, "state", dict)

    def shapes(self) -> dict[str, tuple[tuple[int, ...], str]]:
        """What tensors are in the file, without reading them.

        Returns:
            Their shapes and dtypes, the latter as safetensors names them, such as "F32".

        Raises:
            ValueError: as `load`, or if nothing is saved.

        Example:
            >>> import tempfile
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     checkpoint = Checkpoint(Path(folder) / "run.safetensors", "a run")
            ...     checkpoint.save({"beta": torch.ones(2, 3)}, {})
            ...     checkpoint.shapes()
            {'beta': ((2, 3), 'F32')}
        """
        with self._opened() as (file, _):
            parts = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
            return {
                name: (tuple(part.get_shape()), str(part.get_dtype()))
                for name, part in parts.items()
            }

    @contextmanager
    def _opened(self) -> Iterator[tuple[Any, dict[str, str]]]:
        """The file, once it is known to be of this run, and its metadata."""
        path = os.fspath(self.path)
        if not Path(path).is_file():
            raise ValueError(f"expected a checkpoint file, got {path!r}")
        try:
            with safe_open(path, framework="pt") as file:
                metadata = file.metadata() or {}
                self._check(metadata)
                yield file, metadata
        except _DAMAGED as error:
            raise ValueError(
                f"expected a checkpoint, got a damaged file in {path!r} ({error!s:.200})"
            ) from error

    def _check(self, metadata: dict[str, str]) -> None:
        path = os.fspath(self.path)
        version = metadata.get("isotropy_checkpoint", "")
        if not version.isdecimal():
            raise ValueError(f"expected a checkpoint of isotropy, got another file in {path!r}")
        if len(version) > _DIGITS or int(version) > _FORMAT:
            raise ValueError(
                f"expected a checkpoint of format {_FORMAT} or older, "
                f"got format {version[:_DIGITS]} in {path!r}"
            )
        found = metadata.get("fingerprint")
        if found != self.fingerprint:
            raise OtherRun(
                f"expected a checkpoint of the run {_brief(self.fingerprint)}, "
                f"got one of the run {_brief(found)} in {path!r}"
            )

    def _json(self, metadata: dict[str, str], name: str, kind: type) -> Any:
        try:
            found = json.loads(metadata[name])
        except (KeyError, ValueError, RecursionError) as error:
            raise ValueError(
                f"expected {name!r} as JSON in the checkpoint {os.fspath(self.path)!r}, got "
                f"{type(error).__name__}"
            ) from error
        if not isinstance(found, kind):
            raise ValueError(
                f"expected a {kind.__name__} as {name!r} in the checkpoint "
                f"{os.fspath(self.path)!r}, got {type(found).__name__}"
            )
        return found


def _holds_pairs(tensor: torch.Tensor | None) -> bool:
    """Whether real and imaginary parts are along the last axis."""
    if tensor is None or tensor.dtype not in (torch.float32, torch.float64):
        return False
    return tensor.ndim > 0 and tensor.shape[-1] == 2


def _brief(fingerprint: str | None) -> str:
    if fingerprint is None or len(fingerprint) <= _SHOWN:
        return repr(fingerprint)
    return f"{fingerprint[:_SHOWN]!r}…"


def _own(name: str, tensor: torch.Tensor) -> torch.Tensor:
    if tensor.layout is not torch.strided:
        raise ValueError(f"expected a dense tensor for {name!r}, got one of {tensor.layout}")
    tensor = tensor.detach().cpu().resolve_conj().resolve_neg()
    if tensor.is_complex():  # safetensors has no complex128: keep real and imaginary parts
        tensor = torch.view_as_real(tensor)
    return tensor.clone(memory_format=torch.contiguous_format)
