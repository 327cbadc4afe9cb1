import os
from pathlib import Path

import pytest

from isotropy._run import _memory, available_bytes, require_memory

GB = 10**9


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_no_more_is_available_than_installed() -> None:
    installed = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert 0 < available_bytes() <= installed


def test_what_fits_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_memory, "available_bytes", lambda: 2 * GB)
    require_memory(2 * GB, "the dense form", "use project(v)")


def test_what_does_not_fit_is_one_clear_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_memory, "available_bytes", lambda: 2 * GB)
    with pytest.raises(ValueError, match="needs") as caught:
        require_memory(35 * GB // 10, "the dense form", "use project(v)")
    assert str(caught.value) == (
        "the dense form needs 3.5 GB of memory but 2.0 GB are free; use project(v)"
    )


def test_meminfo(tmp_path: Path) -> None:
    write(tmp_path, {"meminfo": "MemTotal: 9 kB\nMemAvailable:    1000 kB\nSwapFree: 5 kB\n"})
    assert list(_memory._meminfo(tmp_path)) == [1_024_000]


def test_version_2_counts_every_ancestor_and_forgives_cached_files(tmp_path: Path) -> None:
    write(tmp_path, {"proc/self/cgroup": "0::/a/b\n"})
    write(
        tmp_path / "cgroup",
        {
            "a/b/memory.max": "max\n",
            "a/b/memory.current": "10\n",
            "a/memory.max": "1000\n",
            "a/memory.current": "700\n",
            "a/memory.stat": "anon 5\ninactive_file 100\nactive_file 7\n",
            "memory.max": "5000\n",
            "memory.current": "800\n",
        },
    )
    assert list(_memory._control_groups(tmp_path / "proc", tmp_path / "cgroup")) == [400, 4200]


def test_version_1(tmp_path: Path) -> None:
    write(tmp_path, {"proc/self/cgroup": "9:name=systemd:/x\n4:memory,hugetlb:/job\n0::/\n"})
    write(
        tmp_path / "cgroup" / "memory" / "job",
        {
            "memory.limit_in_bytes": "1000\n",
            "memory.usage_in_bytes": "900\n",
            "memory.stat": "inactive_file 1\ntotal_inactive_file 50\n",
        },
    )
    assert list(_memory._control_groups(tmp_path / "proc", tmp_path / "cgroup")) == [150]


def test_a_container_that_sees_the_hosts_path_reads_its_own_root(tmp_path: Path) -> None:
    write(tmp_path, {"proc/self/cgroup": "0::/docker/0123\n"})
    write(tmp_path / "cgroup", {"memory.max": "100", "memory.current": "30"})
    assert list(_memory._control_groups(tmp_path / "proc", tmp_path / "cgroup")) == [70]


def test_a_group_over_its_limit_has_nothing_left(tmp_path: Path) -> None:
    write(tmp_path, {"proc/self/cgroup": "0::/\n"})
    write(tmp_path / "cgroup", {"memory.max": "100", "memory.current": "130"})
    assert list(_memory._control_groups(tmp_path / "proc", tmp_path / "cgroup")) == [0]


def test_a_system_without_proc_reports_what_sysconf_says(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert list(_memory._meminfo(tmp_path)) == []
    assert list(_memory._control_groups(tmp_path, tmp_path)) == []
    pages = {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 1000}
    monkeypatch.setattr(os, "sysconf_names", pages)
    monkeypatch.setattr(os, "sysconf", pages.__getitem__)
    assert _memory._sysconf() == 4_096_000


def test_a_system_that_tells_nothing_gets_the_fallback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sysconf")
    assert _memory._sysconf() == 4 * GB
