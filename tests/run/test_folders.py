"""Contents that are replaced as a whole, or not at all."""

import errno
from pathlib import Path

import pytest

from isotropy._run import replaced_contents


def ours(name: str) -> bool:
    return name.startswith(("part-", "whole"))


def contents(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_text()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def write(folder: Path, parts: int, text: str) -> None:
    with replaced_contents(folder, ours) as new:
        for k in range(parts):
            (new / f"part-{k}").mkdir()
            (new / f"part-{k}" / "file").write_text(text)
        (new / "whole").write_text(text)


def test_new_contents_replace_old_ones_and_leave_others(tmp_path):
    folder = tmp_path / "deep" / "folder"
    write(folder, 3, "old")
    (folder / "mine.txt").write_text("mine")
    write(folder, 1, "new")
    assert contents(folder) == {"mine.txt": "mine", "part-0/file": "new", "whole": "new"}


def write_to_a_full_disk(folder: Path) -> None:
    with replaced_contents(folder, ours) as new:
        (new / "whole").write_text("new")
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_failure_leaves_what_was_there(tmp_path):
    write(tmp_path / "folder", 2, "old")
    before = contents(tmp_path)
    with pytest.raises(OSError, match="No space"):
        write_to_a_full_disk(tmp_path / "folder")
    assert contents(tmp_path) == before


def test_a_failure_leaves_no_folder_where_there_was_none(tmp_path):
    with pytest.raises(KeyboardInterrupt), replaced_contents(tmp_path / "folder", ours):
        raise KeyboardInterrupt
    assert not list(tmp_path.iterdir())


def test_a_file_in_its_place_is_refused(tmp_path):
    (tmp_path / "folder").write_text("")
    with (
        pytest.raises(ValueError, match="expected a folder to save to, got the file"),
        replaced_contents(tmp_path / "folder", ours),
    ):
        pass
