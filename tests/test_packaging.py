"""The wheel holds what it should, and works in an environment that has nothing else."""

import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import isotropy

ROOT = Path(__file__).parents[1]
CONSTRAINTS = ROOT / "constraints.txt"


def call(*command: str | Path, cwd: Path) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
    call(*pip, "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, ROOT, cwd=folder)
    (built,) = folder.iterdir()
    return built


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    about = f"isotropy-{isotropy.__version__}.dist-info/"
    source = ROOT / "src"
    package = {
        path.relative_to(source).as_posix()
        for path in (source / "isotropy").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert "isotropy/py.typed" in names
    assert about + "licenses/LICENSE" in names
    assert {name for name in names if not name.startswith(about)} == package
    assert all(re.search(r"(\.pyi?|/py\.typed)$", name) for name in package)


def test_the_wheel_works_in_an_empty_environment(wheel: Path, tmp_path: Path) -> None:
    (torch,) = re.findall(r"^torch==.*$", CONSTRAINTS.read_text(), re.MULTILINE)
    call(sys.executable, "-m", "venv", "empty", cwd=tmp_path)
    programs = tmp_path / "empty" / "bin"
    install = (
        *(programs / "python", "-m", "pip", "--disable-pip-version-check"),
        *("install", "--quiet", "--constraint", CONSTRAINTS),
    )
    # torch first: a looser requirement, met with no torch installed, fetches gigabytes of CUDA.
    call(*install, torch, cwd=tmp_path)
    call(*install, wheel, cwd=tmp_path)

    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    version = call(programs / "isotropy", "--version", cwd=elsewhere)
    assert version == f"isotropy {isotropy.__version__}\n"
    answer = json.loads(
        call(programs / "isotropy", "basis", "Z(4)", "V>>V", "--json", cwd=elsewhere)
    )
    assert (answer["dim"], answer["rank"]) == (16, 4)
    alone = subprocess.run(
        [programs / "isotropy", "reproduce", "finzi2023/table2.2", "--quick"],
        cwd=elsewhere,
        capture_output=True,
        text=True,
    )
    assert alone.returncode == 2
    assert alone.stderr.count("\n") == 1
    assert "pip install ./papers" in alone.stderr
    assert list(elsewhere.iterdir()) == []
