"""The papers are a distribution beside the library's: its wheel, its verb, its old names."""

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import isotropy
import isotropy.papers
from isotropy.cli import run
from isotropy_papers import Settings, ids

PAPERS = Path(__file__).parents[1]
# what a checkout has where nothing was installed
BARE = """
import runpy, sys
sys.path = [folder for folder in sys.path if not folder.endswith(("/src", "/papers"))]
sys.path.insert(0, ".")
sys.argv = ["isotropy_papers", "reproduce", "--json"]
runpy.run_module("isotropy_papers", run_name="__main__", alter_sys=True)
"""


def test_the_wheel_holds_scripts_and_tables(tmp_path: Path) -> None:
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
    build = ("wheel", "--quiet", "--no-deps", "--wheel-dir", tmp_path, PAPERS)
    subprocess.run([*pip, *build], check=True)
    (wheel,) = tmp_path.iterdir()
    assert wheel.name.startswith(f"isotropy_papers-{isotropy.__version__}-")
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if name.startswith("isotropy_papers/")}
    package = {
        path.relative_to(PAPERS).as_posix()
        for path in (PAPERS / "isotropy_papers").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert held == package
    assert sum(name.endswith(".safetensors") for name in held) == 84


def test_both_ways_of_starting_list_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["reproduce", "--json"]) == 0
    installed = json.loads(capsys.readouterr().out)
    bare = subprocess.run(
        [sys.executable, "-c", BARE], cwd=PAPERS, capture_output=True, text=True, check=True
    )
    assert json.loads(bare.stdout) == installed
    assert installed["ids"] == ids()


def test_old_names_work_and_warn() -> None:
    with pytest.warns(DeprecationWarning, match="now isotropy_papers: import Settings from there"):
        assert isotropy.papers.Settings is Settings
    with pytest.raises(AttributeError, match="Nothing"):
        _ = isotropy.papers.Nothing
