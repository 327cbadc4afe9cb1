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
# a checkout with nothing installed, on a machine that lacks some of what the library can use
BARE = """
import runpy, sys
from importlib.machinery import PathFinder

missing = ("optuna", "plotly", "pynauty", "constriction", "gymnasium", "matplotlib", "pandas")

class Without(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name.split(".")[0] in missing:
            return None
        return PathFinder.find_spec(name, path, target)

sys.path = [folder for folder in sys.path if not folder.endswith(("/src", "/papers"))]
sys.meta_path = [Without if one is PathFinder else one for one in sys.meta_path]
sys.argv = ["isotropy_papers", "reproduce", *sys.argv[2:]]
"""
STARTS = {
    "papers": "sys.path.insert(0, '.'); runpy.run_module('isotropy_papers', None, '__main__')",
    "root": "runpy.run_path('papers', None, '__main__')",
}


def bare(start: str, *arguments: str) -> str:
    """What a bare checkout prints, started in ``papers`` or at its root."""
    folder = PAPERS if start == "papers" else PAPERS.parent
    command = [sys.executable, "-c", BARE + STARTS[start], "--", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout


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


@pytest.mark.parametrize("start", STARTS)
def test_all_ways_of_starting_list_the_same(start: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["reproduce", "--json"]) == 0
    installed = json.loads(capsys.readouterr().out)
    assert json.loads(bare(start, "--json")) == installed
    assert installed["ids"] == ids()


def test_a_bare_checkout_runs_an_experiment_from_its_root() -> None:
    found = json.loads(bare("root", "basu2021/table3", "--json"))
    assert found["id"] == "basu2021/table3"
    assert found["cells"]


def test_old_names_work_and_warn() -> None:
    expected = r"goes in version 0\.2: use isotropy_papers\.Settings"
    with pytest.warns(DeprecationWarning, match=expected):
        assert isotropy.papers.Settings is Settings
    with pytest.raises(AttributeError, match="Nothing"):
        _ = isotropy.papers.Nothing
