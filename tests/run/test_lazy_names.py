"""Rooms load their names when first used, and offer all that their stubs list."""

import ast
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import isotropy

ROOT = Path(__file__).parents[2]
SOURCE = Path(isotropy.__file__).parents[1]
STUBS = sorted(SOURCE.rglob("__init__.pyi"))
NOTHING_HEAVY = """
import sys
import isotropy, isotropy.groups, isotropy.discovery, isotropy.rl
print(*(name for name in ("torch", "numpy", "scipy") if name in sys.modules))
"""


def room_of(stub: Path) -> str:
    return ".".join(stub.parent.relative_to(SOURCE).parts)


@pytest.mark.parametrize("stub", STUBS, ids=room_of)
def test_every_name_of_a_stub_can_be_had(stub: Path) -> None:
    room = import_module(room_of(stub))
    pattern = r"^__all__(?:: list\[str\])? = (\[.*?\])"
    (listed,) = re.findall(pattern, stub.read_text(), re.DOTALL | re.MULTILINE)
    assert set(ast.literal_eval(listed)) == set(room.__all__) | {"__version__"} & set(vars(room))
    assert dir(room) == room.__all__
    for name in room.__all__:
        assert getattr(room, name) is vars(room)[name]


def test_importing_rooms_loads_nothing_heavy() -> None:
    found = subprocess.run([sys.executable, "-c", NOTHING_HEAVY], capture_output=True, check=True)
    assert found.stdout.split() == []


def test_names_that_do_not_exist() -> None:
    with pytest.raises(AttributeError, match=r"module 'isotropy\.groups' has no attribute 'Zz'"):
        _ = isotropy.groups.Zz  # type: ignore[attr-defined]


def moved_names() -> list[tuple[str, str]]:
    """Rooms and old names of the table in the changelog."""
    table = (ROOT / "CHANGELOG.md").read_text().split("### Names that moved")[1].split("\n### ")[0]
    rows = re.findall(r"^\| `(isotropy[\w.]*)` \| (.*?) \|", table, re.MULTILINE)
    return [(room, name) for room, names in rows for name in re.findall(r"`(\w+)`", names)]


def test_the_table_of_moved_names_is_whole() -> None:
    """Whatever a room still offers under an old name stands in the changelog."""
    listed = moved_names()
    assert len(listed) == len(set(listed)) > 200
    for room in map(room_of, STUBS):
        kept = " ".join(vars(import_module(room)).get("_MOVED", {}).values())
        names = {name for at, name in listed if at == room}
        assert names == {re.split("[=>]", old)[0] for old in kept.split()}, room
