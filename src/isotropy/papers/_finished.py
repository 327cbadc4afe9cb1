"""Finished parts of a long experiment, kept so that an interrupted run loses none of them."""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from isotropy._run import Checkpoint, ProgressCallback, Step, cache_folder
from isotropy.papers._experiment import Settings

_logger = logging.getLogger(__name__)


class Finished:
    """Parts of an experiment by name, written to a file as each one ends.

    The file is in ``settings.out``, where it stays, or else in the cache until the run is over.
    Its name holds a digest of what the parts depend on, so that runs that differ never mix.

    Args:
        name: What the parts belong to.
        depends: What their values depend on beside their own names, of what JSON knows.
        settings: Where to keep them.
        progress: Told before each part.
        total: How many parts the run has.

    Example:
        >>> import tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> settings = Settings(out=Path(folder.name))
        >>> for _ in range(2):
        ...     parts = Finished("sums", {"seed": 0}, settings, lambda step: None, 1)
        ...     parts.get("2 + 2", lambda: [str(print("adding")), 4])
        adding
        ['None', 4]
        ['None', 4]
        >>> folder.cleanup()
    """

    def __init__(
        self,
        name: str,
        depends: dict[str, Any],
        settings: Settings,
        progress: ProgressCallback,
        total: int,
    ) -> None:
        fingerprint = f"{name} {json.dumps(depends, sort_keys=True)}"
        self._progress, self._done, self._total = progress, 0, total
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

    def get(self, name: str, compute: Callable[[], Any]) -> Any:
        """A part as it was kept, or else as it is computed now, and kept.

        Args:
            name: The part.
            compute: Gives its value, of what JSON knows.
        """
        self._progress(Step(self._done, self._total, name))
        if name not in self._parts:
            start = time.perf_counter()
            value = compute()
            seconds = time.perf_counter() - start
            _logger.info("%d of %d, %s: %.1f s", self._done + 1, self._total, name, seconds)
            self._parts[name] = {"value": value, "seconds": seconds}
            if self._checkpoint is not None:
                self._checkpoint.save({}, self._parts)
        self._done += 1
        self._used.append(name)
        return self._parts[name]["value"]

    def close(self) -> float:
        """End a run that has all its parts.

        Returns:
            The seconds that they took.
        """
        if self._checkpoint is not None and not self._kept:
            Path(self._checkpoint.path).unlink(missing_ok=True)
        return float(sum(self._parts[name]["seconds"] for name in self._used))
