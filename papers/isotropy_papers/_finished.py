"""Finished parts of a long experiment, kept so that an interrupted run loses none of them."""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from isotropy.run import Checkpoint, ProgressCallback, Step, cache_folder
from isotropy_papers._experiment import Settings

_logger = logging.getLogger(__name__)


class Finished:
    """Parts of an experiment by name, written to a file as each one ends.

    The file is in ``settings.out``, where it stays, or else in the cache until the run is over.
    Its name holds a digest of what the parts depend on, so that runs that differ never mix.

    Args:
        name: What the parts belong to.
        depends: What their values depend on beside their own names, of what JSON knows.
        settings: Where to keep them, and a pace that may end the run between them.
        progress: Called before parts are computed.

    Example:
        >>> import tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> settings = Settings(out=Path(folder.name))
        >>> for _ in range(2):
        ...     parts = Finished("lengths", {"seed": 0}, settings, lambda step: None)
        ...     parts.get(["one", "three"], lambda names: [print(*names) or len(*names)])
        one
        three
        {'one': 3, 'three': 5}
        {'one': 3, 'three': 5}
        >>> folder.cleanup()
    """

    def __init__(
        self,
        name: str,
        depends: dict[str, Any],
        settings: Settings,
        progress: ProgressCallback,
    ) -> None:
        fingerprint = f"{name} {json.dumps(depends, sort_keys=True)}"
        self._name = name
        self._progress = progress
        self._pace = settings.pace
        self._kept = settings.out is not None
        folder = settings.out if settings.out is not None else cache_folder()
        self._checkpoint: Checkpoint | None = None
        self._parts: dict[str, Any] = {}
        if folder is not None:
            folder = folder if self._kept else folder / "reproduce"
            folder.mkdir(parents=True, exist_ok=True)
            digest = hashlib.sha256(fingerprint.encode()).hexdigest()[:12]
            path = folder / f"{name.replace('/', '-')}-{digest}.safetensors"
            self._checkpoint = Checkpoint(path, fingerprint)
            found = self._checkpoint.load()
            self._parts = found[1] if found is not None else {}
        self._used: list[str] = []

    def get(
        self, names: Sequence[str], compute: Callable[[list[str]], list[Any]], together: int = 1
    ) -> dict[str, Any]:
        """Parts as they were kept, or else as they are computed now, and kept.

        Args:
            names: The parts.
            compute: Gives the values of some parts, of what JSON knows.
            together: How many to compute at once; what is computed at once is kept at once.
        """
        missing = [name for name in names if name not in self._parts]
        self._report([name for name in names if name in self._parts])
        while missing:
            group = missing[:together]
            if self._pace is not None:
                group = group[: self._pace.admit([self._label(name) for name in group])]
            self._progress(Step(len(names) - len(missing), len(names), ", ".join(group)))
            start = time.perf_counter()
            values = compute(group)
            seconds = time.perf_counter() - start
            _logger.info("%s: %.1f s", ", ".join(group), seconds)
            for name, value in zip(group, values, strict=True):
                self._parts[name] = {"value": value, "seconds": seconds / len(group)}
            if self._checkpoint is not None:
                self._checkpoint.save({}, self._parts)
            self._report(group)
            missing = missing[len(group) :]
        self._used = list(names)
        return {name: self._parts[name]["value"] for name in names}

    def close(self) -> float:
        """End a run that has all its parts.

        Returns:
            The seconds that they took.
        """
        if self._checkpoint is not None and not self._kept:
            Path(self._checkpoint.path).unlink(missing_ok=True)
        return float(sum(self._parts[name]["seconds"] for name in self._used))

    def _label(self, part: str) -> str:
        return f"{self._name}: {part}"

    def _report(self, parts: Sequence[str]) -> None:
        if self._pace is not None:
            for part in parts:
                self._pace.kept(self._label(part), float(self._parts[part]["seconds"]))
