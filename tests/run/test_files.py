import json
import os
import stat
from pathlib import Path

import pytest

from isotropy.run import atomic_write, cache_folder, write_json


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_content_appears_only_when_complete(tmp_path: Path) -> None:
    target = tmp_path / "a.bin"
    with atomic_write(target) as file:
        file.write(b"half")
        file.flush()
        assert not target.exists()
    assert target.read_bytes() == b"half"
    assert names(tmp_path) == ["a.bin"]


def test_text_is_utf8(tmp_path: Path) -> None:
    with atomic_write(tmp_path / "a.txt", "w") as file:
        file.write("SO⁺(1,3)")
    assert (tmp_path / "a.txt").read_bytes() == "SO⁺(1,3)".encode()


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("before", [None, b"old"])
def test_an_exception_leaves_things_as_they_were(
    tmp_path: Path, error: type[BaseException], before: bytes | None
) -> None:
    target = tmp_path / "a.bin"
    if before is not None:
        target.write_bytes(before)
    earlier = names(tmp_path)

    def interrupted() -> None:
        with atomic_write(target) as file:
            file.write(b"new")
            raise error

    with pytest.raises(error):
        interrupted()
    assert names(tmp_path) == earlier
    if before is not None:
        assert target.read_bytes() == before


def test_a_failed_rename_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError("no")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(OSError, match="no"), atomic_write(tmp_path / "a.bin") as file:
        file.write(b"new")
    assert names(tmp_path) == []


@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_permissions_are_those_of_an_ordinary_file(tmp_path: Path, umask: int) -> None:
    previous = os.umask(umask)
    try:
        with atomic_write(tmp_path / "a.bin") as file:
            file.write(b"x")
        (tmp_path / "b.bin").write_bytes(b"x")
    finally:
        os.umask(previous)
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("a.bin", "b.bin")]
    assert modes[0] == modes[1]


def test_a_symbolic_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with atomic_write(tmp_path / "link", "w") as file:
        file.write("new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


def test_a_relative_path_is_in_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with atomic_write("a.txt", "w") as file:
        file.write("x")
    assert names(tmp_path) == ["a.txt"]


def test_a_missing_folder_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"cannot write '.*a\.bin': expected an existing folder"):
        atomic_write(tmp_path / "absent" / "a.bin")
    assert names(tmp_path) == []


@pytest.mark.parametrize("path", [".", os.devnull])
def test_only_a_file_is_replaced(path: str) -> None:
    with pytest.raises(ValueError, match="expected the path of a file"):
        atomic_write(path)
    assert Path(path).exists()


def test_an_unknown_mode_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="expected the mode 'wb' or 'w', got 'a'"):
        atomic_write(tmp_path / "a", "a")  # type: ignore[call-overload]


def test_an_unwritable_folder_names_the_file_that_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, *_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("builtins.open", refuse)
    with pytest.raises(PermissionError) as caught, atomic_write(tmp_path / "a.bin"):
        pass
    assert caught.value.filename == str(tmp_path / "a.bin")


def test_json_file_reads_back(tmp_path: Path) -> None:
    value = {"name": "SO⁺(1,3)", "cells": [1, 2.5, None, True, {"deep": "yes"}]}
    write_json(tmp_path / "a.json", value)
    assert json.loads((tmp_path / "a.json").read_text(encoding="utf-8")) == value


def test_what_json_does_not_know_leaves_the_file_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_json(path, {"rank": 1})
    with pytest.raises(TypeError):
        write_json(path, {"rank": object()})
    assert json.loads(path.read_text()) == {"rank": 1}


def test_numbers_without_a_json_form_become_null(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", [float("nan"), {"x": (float("inf"), 1.0)}])
    assert "".join((tmp_path / "a.json").read_text().split()) == '[null,{"x":[null,1.0]}]'


def test_keys_must_be_strings(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="expected string keys in a JSON object, got 1"):
        write_json(tmp_path / "a.json", {"a": {1: 2}})


class TestCacheFolder:
    @pytest.fixture(autouse=True)
    def bare_environment(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        for name in ("ISOTROPY_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("HOME", str(tmp_path))

    @pytest.mark.parametrize("value", ["off", "OFF", " off "])
    def test_off(self, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
        monkeypatch.setenv("ISOTROPY_CACHE", value)
        assert cache_folder() is None

    def test_our_own_variable_comes_first(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setenv("XDG_CACHE_HOME", "/elsewhere")
        monkeypatch.setenv("ISOTROPY_CACHE", "~/mine")
        assert cache_folder() == tmp_path / "mine"

    def test_xdg(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
        assert cache_folder() == tmp_path / "xdg" / "isotropy"

    def test_a_relative_xdg_path_is_ignored(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setattr("sys.platform", "linux")
        monkeypatch.setenv("XDG_CACHE_HOME", "relative")
        assert cache_folder() == tmp_path / ".cache" / "isotropy"

    @pytest.mark.parametrize(
        ("platform", "where"),
        [("linux", ".cache"), ("darwin", "Library/Caches"), ("win32", "AppData/Local")],
    )
    def test_each_system_has_its_place(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, platform: str, where: str
    ) -> None:
        monkeypatch.setattr("sys.platform", platform)
        if platform == "win32":
            monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / where))
        assert cache_folder() == tmp_path / where / "isotropy"

    def test_without_a_home_there_is_no_cache(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def homeless() -> Path:
            raise RuntimeError("Could not determine home directory.")

        monkeypatch.setattr(Path, "home", homeless)
        assert cache_folder() is None
