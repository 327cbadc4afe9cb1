"""How much memory is free, asked before a large array is made rather than after."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

_FALLBACK = 4 * 10**9
_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,9})?)([kmgt]?i?b?)")
_UNITS = {
    f"{letter}{binary}{b}": (1024.0 if binary else 1000.0) ** power
    for power, letter in enumerate(("", "k", "m", "g", "t"))
    for binary in ("", "i")
    for b in ("", "b")
}


# asking the system takes milliseconds; so little memory is not worth asking for
ALWAYS_THERE = 32 * 2**20


def available_bytes() -> int:
    """Estimate how many bytes this process can still allocate.

    On Linux this is ``MemAvailable``, or what the control group (of version 1 or 2) of a container
    leaves if that is less. Elsewhere it is what ``sysconf`` reports as free, or as installed; where
    nothing is known, 4 GB.

    Returns:
        The number of bytes.

    Example:
        >>> available_bytes() > 0
        True
    """
    bounds = [*_meminfo(Path("/proc")), *_control_groups(Path("/proc"), Path("/sys/fs/cgroup"))]
    return min(bounds) if bounds else _sysconf()


def require_memory(wanted: int, what: str, instead: str) -> None:
    """Refuse work that would not fit in memory.

    Args:
        wanted: bytes the work needs.
        what: the work, as the subject of the sentence.
        instead: what to do about it, as the end of the sentence.

    Raises:
        ValueError: if fewer than ``wanted`` bytes are free.

    Example:
        >>> require_memory(8 * 10**18, "the dense form", "use project(v)")
        Traceback (most recent call last):
        ...
        ValueError: the dense form needs 8000000000.0 GB of memory but ... GB are free; use ...
    """
    if wanted < ALWAYS_THERE:
        return
    available = available_bytes()
    if wanted > available:
        raise ValueError(
            f"{what} needs {_gigabytes(wanted)} GB of memory "
            f"but {available / 1e9:.1f} GB are free; {instead}"
        )


def bytes_of(text: str) -> int:
    """A size in bytes, from text such as "500MB", "4GB" or "4GiB".

    Raises:
        ValueError: If it is none, or not positive.

    Example:
        >>> bytes_of("500MB"), bytes_of("4 GiB")
        (500000000, 4294967296)
    """
    match = _SIZE.fullmatch(text.strip().lower().replace(" ", ""))
    count = float(match[1]) * _UNITS[match[2]] if match else 0.0
    if not 1 <= count < 1 << 62:
        raise ValueError(f"expected a size such as 500MB, 4GB or 4GiB, got {text!r}")
    return int(count)


def amount(count: int) -> str:
    """A count in words that fit a sentence, however large.

    Example:
        >>> amount(6561), amount(9**99)
        ('6561', 'about 10^94')
    """
    return str(count) if count < 10**12 else f"about 10^{len(str(count)) - 1}"


def _gigabytes(count: int) -> str:
    # a float would overflow beyond 10^308
    return f"{count / 1e9:.1f}" if count < 10**21 else f"10^{len(str(count)) - 10}"


def _meminfo(proc: Path) -> Iterator[int]:
    for line in _read(proc / "meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            yield int(line.split()[1]) * 1024


def _control_groups(proc: Path, mount: Path) -> Iterator[int]:
    """What each control group above this process leaves, in either version of the interface."""
    for line in _read(proc / "self" / "cgroup").splitlines():
        _, controllers, group = line.split(":", 2)
        if controllers == "":
            root, names = mount, ("memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            root = mount / "memory"
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        else:
            continue
        inner = Path(group.lstrip("/"))
        # A limit on any ancestor holds too. Inside a container the path may be the host's, and
        # then only the root is there to read.
        for folder in (inner, *inner.parents):
            yield from _left(root / folder, *names)


def _left(folder: Path, limit_name: str, usage_name: str, cache_name: str) -> Iterator[int]:
    limit, usage = _read(folder / limit_name).strip(), _read(folder / usage_name).strip()
    if limit.isdecimal() and usage.isdecimal():
        # The kernel drops cached file pages before it runs out.
        cached = 0
        for line in _read(folder / "memory.stat").splitlines():
            name, _, value = line.partition(" ")
            if name == cache_name:
                cached = int(value)
        yield max(0, int(limit) - int(usage) + cached)


def _sysconf() -> int:
    try:
        page = os.sysconf("SC_PAGE_SIZE")
        for name in ("SC_AVPHYS_PAGES", "SC_PHYS_PAGES"):
            if name in os.sysconf_names and (pages := os.sysconf(name)) > 0:
                return page * pages
    except (AttributeError, ValueError, OSError):
        return _FALLBACK  # Windows has no sysconf
    return _FALLBACK


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
