"""Names that moved: each still works and warns of what to use, as the changelog says."""

import re
from importlib import import_module
from pathlib import Path

import pytest

CHANGELOG = (Path(__file__).parents[1] / "CHANGELOG.md").read_text()
ROWS = re.findall(r"^\| `(isotropy[\w.]*)` \| (.+?) \| (.+?) \|$", CHANGELOG, re.M)
OLD = [(room, name, use) for room, names, use in ROWS for name in re.findall(r"`(\w+)`", names)]


def test_the_table_is_read() -> None:
    assert len(OLD) > 200
    assert ("isotropy.reps", "Vector", "`V`") in OLD


@pytest.mark.parametrize(("room", "name", "use"), OLD, ids=lambda part: part[:40])
def test_an_old_name_says_what_to_use(room: str, name: str, use: str) -> None:
    with pytest.warns(DeprecationWarning, match=rf"^{room}\.{name} goes in version 0\.2: ") as seen:
        assert getattr(import_module(room), name) is not None
    said = str(seen[0].message).partition(": ")[2]
    if use == "inside":
        assert said == "it is part of how isotropy works inside"
    elif not use.startswith(("what ", "`isotropy data get ")):  # those are not names
        new = re.findall(r"\w+", said.removeprefix("use "))
        assert any(word in use for word in new if word != "isotropy"), (said, use)


def test_without_the_papers_a_name_says_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    from isotropy._run import _lazy_names

    def missing(module: str) -> None:
        raise ModuleNotFoundError(f"No module named {module!r}", name=module.partition(".")[0])

    monkeypatch.setattr(_lazy_names, "import_module", missing)
    with pytest.raises(ModuleNotFoundError, match=r"windy_pendulum is in isotropy_papers, .* pip"):
        from isotropy.data import windy_pendulum  # type: ignore[attr-defined]  # noqa: F401
