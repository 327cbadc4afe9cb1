"""Rooms load their names when first used, and offer all that their stubs list."""

import ast
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import isotropy

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
    (listed,) = re.findall(r"^__all__ = (\[.*?\])", stub.read_text(), re.DOTALL | re.MULTILINE)
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
