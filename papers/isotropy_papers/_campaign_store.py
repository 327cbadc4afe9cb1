"""The few files of a campaign: finished cells in archives, seconds in one JSON, one JSON a result.

An archive is a zip file of everything that a run keeps in its folder, cut into pieces where files
may not be larger. Its name holds a digest of its content. ``campaign.json`` says which pieces are
valid, and is replaced after they are written: an interruption leaves the archive before.
"""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
import tempfile
import zipfile
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from isotropy.run import atomic_write, write_json
from isotropy_papers._campaign_runs import CampaignRun, plain

JOURNAL = "campaign.json"
_FORMAT = 1
_BLOCK = 1 << 20
_MEGABYTE = 10**6
_EPOCH = (1980, 1, 1, 0, 0, 0)  # equal contents have equal archives
_logger = logging.getLogger("isotropy.campaign")  # one that the command shows


@dataclass(frozen=True)
class Limits:
    """What may be written to the folder, where it has to travel.

    Args:
        files: The most files in all; ``None`` for any number.
        megabytes: The most of one file; ``None`` for any size.

    Raises:
        ValueError: If there is no room for an archive, a result and the journal.
    """

    files: int | None = None
    megabytes: float | None = None

    def __post_init__(self) -> None:
        if self.files is not None and self.files < 3:
            raise ValueError(f"expected at least 3 files, got {self.files}")
        if self.megabytes is not None and not self.megabytes > 0:
            raise ValueError(f"expected a positive number of megabytes, got {self.megabytes}")


@dataclass
class CellRecord:
    """What is known of one run.

    Args:
        cells: The names of its finished cells.
        attempts: Seconds that a cell took without being finished, and the kind of device.
        failed: What went wrong the last time; empty if nothing did.
    """

    cells: list[str] = field(default_factory=list)
    attempts: dict[str, tuple[float, str]] = field(default_factory=dict)
    failed: str = ""


class Store:
    """The files of a campaign in one folder, and those of an earlier one behind it.

    Args:
        folder: Where files are written; made when the first is.
        earlier: A folder to go on from, which stays as it is.
        limits: What may be written.

    Raises:
        ValueError: If a journal cannot be read.
    """

    def __init__(
        self, folder: Path, earlier: Path | None = None, limits: Limits | None = None
    ) -> None:
        if earlier is not None and not earlier.is_dir():
            raise ValueError(f"expected a folder of an earlier campaign, got {str(earlier)!r}")
        self.folder = folder
        self.limits = Limits() if limits is None else limits
        self._folders = [folder] if earlier is None else [folder, earlier]
        # by the file of cells, by cell: seconds and kind of device
        self.seconds: dict[str, dict[str, tuple[float, str]]] = {}
        self._records: dict[str, CellRecord] = {}
        self._archives: dict[str, tuple[Path, list[str]]] = {}
        for place in reversed(self._folders):
            self._read(place)

    def _read(self, folder: Path) -> None:
        path = folder / JOURNAL
        if not path.is_file():
            return
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            if found["format"] != _FORMAT:
                raise ValueError(f"format {found['format']!r}")
            for name, cells in found["seconds"].items():
                known = self.seconds.setdefault(name, {})
                known.update({cell: (float(s), str(on)) for cell, (s, on) in cells.items()})
            for name, one in found["runs"].items():
                new, old = CellRecord(**one), self._records.get(name, CellRecord())
                new.cells = list(dict.fromkeys([*old.cells, *new.cells]))
                new.attempts = {cell: (float(s), str(on)) for cell, (s, on) in new.attempts.items()}
                self._records[name] = new
            for name, pieces in found["archives"].items():
                self._archives[name] = folder, [_plain(piece) for piece in pieces]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{path}: expected the journal of a campaign, got {error}") from error

    def record(self, run: CampaignRun) -> CellRecord:
        """What is known of a run; changes are written by the next `save`."""
        return self._records.setdefault(run.name, CellRecord())

    def save(self) -> None:
        """Write the journal."""
        self.folder.mkdir(parents=True, exist_ok=True)
        archives = {
            name: pieces
            for name, (folder, pieces) in self._archives.items()
            if folder == self.folder
        }
        write_json(
            self.folder / JOURNAL,
            {
                "format": _FORMAT,
                "runs": {
                    name: asdict(one) for name, one in self._records.items() if one != CellRecord()
                },
                "seconds": self.seconds,
                "archives": archives,
            },
        )

    def result(self, run: CampaignRun) -> dict[str, Any] | None:
        """The result of a run as it was written; ``None`` where there is none of these settings."""
        for folder in self._folders:
            path = folder / f"{plain(run.name)}.json"
            if path.is_file():
                found = json.loads(path.read_text(encoding="utf-8"))
                if isinstance(found, dict) and found.get("settings") == run.options():
                    return found
        return None

    def write_result(self, run: CampaignRun, result: dict[str, Any]) -> Path:
        """Write the result of a run.

        Args:
            run: Which.
            result: Of what JSON knows.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"{plain(run.name)}.json"
        write_json(path, result)
        return path

    def has_room(self, run: CampaignRun) -> bool:
        """Whether the files of another run may be written, too."""
        return self._pieces_allowed(run.store) != 0

    def unpack(self, run: CampaignRun, folder: Path) -> None:
        """Put the finished cells of a run into a folder.

        Args:
            run: Which.
            folder: An empty folder.

        Raises:
            ValueError: If a piece is missing or damaged.
        """
        if run.store not in self._archives:
            return
        place, pieces = self._archives[run.store]
        with tempfile.TemporaryFile() as whole:
            digest = hashlib.sha256()
            for piece in pieces:
                if not (place / piece).is_file():
                    raise ValueError(f"expected finished cells in {str(place / piece)!r}, got none")
                with (place / piece).open("rb") as file:
                    while block := file.read(_BLOCK):
                        digest.update(block)
                        whole.write(block)
            if _name(run.store, digest.hexdigest(), 0) != pieces[0]:
                raise ValueError(f"expected the archive {pieces[0]!r}, got a damaged one")
            with zipfile.ZipFile(whole) as archive:
                for member in archive.infolist():
                    with archive.open(member) as file, atomic_write(folder / _plain(member)) as out:
                        shutil.copyfileobj(file, out)

    def pack(self, run: CampaignRun, folder: Path) -> None:
        """Replace the finished cells of a run by what is in a folder, and write the journal.

        Args:
            run: Which.
            folder: Where it keeps them. Where not all may be written, the largest files are left
                out: checkpoints of trainings, which then start anew.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        most = None if self.limits.megabytes is None else int(self.limits.megabytes * _MEGABYTE)
        allowed = self._pieces_allowed(run.store)
        room = None if most is None or allowed is None else most * max(1, allowed)
        with tempfile.TemporaryFile() as whole:
            _write_zip(whole, _fitting(folder, room))
            size = whole.tell()
            whole.seek(0)
            digest = hashlib.file_digest(whole, "sha256").hexdigest()
            whole.seek(0)
            step = size if most is None else most
            pieces = [_name(run.store, digest, i) for i in range(-(-size // step))]
            for piece in pieces:
                with atomic_write(self.folder / piece) as file:
                    left = step
                    while left and (block := whole.read(min(_BLOCK, left))):
                        file.write(block)
                        left -= len(block)
        self._archives[run.store] = self.folder, pieces
        self.save()
        for old in self._own_pieces(run.store):
            if old.name not in pieces:
                old.unlink()

    def collect(self, fetched: Path) -> list[str]:
        """Take over the files that a campaign wrote in another folder.

        Args:
            fetched: That folder.

        Returns:
            The names of the files that were taken.

        Raises:
            ValueError: If it holds no journal.
        """
        if not (fetched / JOURNAL).is_file():
            raise ValueError(f"expected the folder of a campaign, got {str(fetched)!r}")
        self.folder.mkdir(parents=True, exist_ok=True)
        own = dict(self._archives)
        self._read(fetched)
        taken = []
        for name, (place, pieces) in self._archives.items():
            if place == fetched and place != self.folder:
                _copy([fetched / piece for piece in pieces], self.folder)
                self._archives[name] = self.folder, pieces
                taken += pieces
        results = [path for path in sorted(fetched.glob("*.json")) if path.name != JOURNAL]
        _copy(results, self.folder)
        self.save()
        for name in own:
            for old in self._own_pieces(name):
                if old.name not in self._archives[name][1]:
                    old.unlink()
        return [*taken, *(path.name for path in results)]

    def _own_pieces(self, store: str) -> list[Path]:
        pattern = f"{store}-{'[0-9a-f]' * _DIGITS}-*.zip"
        return sorted(self.folder.glob(pattern)) if self.folder.is_dir() else []

    def _pieces_allowed(self, store: str) -> int | None:
        """How many pieces there is room for, beside a result and the journal."""
        if self.limits.files is None:
            return None
        own = {path.name for path in self._own_pieces(store)} | {JOURNAL}
        there = self.folder.rglob("*") if self.folder.is_dir() else ()
        others = sum(path.is_file() and path.name not in own for path in there)
        return max(0, self.limits.files - others - 2)


_DIGITS = 12


def _name(store: str, digest: str, piece: int) -> str:
    return f"{store}-{digest[:_DIGITS]}-{piece}.zip"


def _plain(entry: str | zipfile.ZipInfo) -> str:
    """A file's name, once it is known to stay inside its folder."""
    name = entry.filename if isinstance(entry, zipfile.ZipInfo) else entry
    if Path(name).name != name or "\\" in name or name in ("", ".", ".."):
        raise ValueError(f"expected a plain file name in an archive, got {name!r}")
    return name


def _fitting(folder: Path, room: int | None) -> list[Path]:
    """The files that fit, small ones first."""
    files = [path for path in folder.iterdir() if path.is_file() and path.name[0] != "."]
    found, total = [], 0
    for path in sorted(files, key=lambda path: (path.stat().st_size, path.name)):
        total += path.stat().st_size + 2 * len(path.name) + 200  # what a zip file adds
        if room is not None and total > room:
            _logger.info("%s: too large to be kept (%d MB)", path.name, total // _MEGABYTE)
            break
        found.append(path)
    return sorted(found)


def _write_zip(whole: Any, files: Iterable[Path]) -> None:
    with zipfile.ZipFile(whole, "w") as archive:
        for path in files:
            entry = zipfile.ZipInfo(path.name, _EPOCH)
            # weights do not shrink, and checkpoints of trainings are little else
            small = path.stat().st_size < _MEGABYTE
            entry.compress_type = zipfile.ZIP_DEFLATED if small else zipfile.ZIP_STORED
            with path.open("rb") as file, archive.open(entry, "w", force_zip64=True) as out:
                shutil.copyfileobj(file, out, _BLOCK)
    whole.seek(0, 2)


def _copy(files: Iterable[Path], folder: Path) -> None:
    for path in files:
        with path.open("rb") as file, atomic_write(folder / path.name) as out:
            shutil.copyfileobj(file, out, _BLOCK)
