"""What the documentation shows is what happens: its code runs, its commands print what it says."""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from runpy import run_path
from typing import NamedTuple

import pytest

from isotropy.cli import run

ROOT = Path(__file__).parents[1]
PAGES = [*ROOT.glob("README.md"), *sorted(ROOT.glob("docs/**/*.md"))]


class Block(NamedTuple):
    language: str
    line: int  # of the first line of code, counted from 1
    text: str


class Shown(NamedTuple):
    command: str
    output: str


def blocks(page: Path) -> Iterator[Block]:
    text = page.read_text(encoding="utf-8")
    for fence in re.finditer(r"^```(\w+)[^\n]*\n(.*?)^```\s*?$", text, re.MULTILINE | re.DOTALL):
        line = text.count("\n", 0, fence.start(2)) + 1
        yield Block(fence[1], line, fence[2])


def shown(block: Block) -> Iterator[Shown]:
    """The isotropy commands of a console block, each with the output printed below it."""
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        if command.startswith("isotropy "):
            yield Shown(command, output.strip())


def pages_with(language: str) -> list[object]:
    return [
        pytest.param(page, id=str(page.relative_to(ROOT)))
        for page in PAGES
        if any(block.language == language for block in blocks(page))
    ]


def matches(output: str, expected: str) -> bool:
    pattern = re.escape(expected).replace(re.escape("..."), ".*?")
    return re.fullmatch(pattern, output, re.DOTALL) is not None


def comments_on_prints(block: Block) -> list[str]:
    """What the comment behind each print says that it prints."""
    return re.findall(r"^print\(.*\)\s+# (.*)$", block.text, re.MULTILINE)


def says(comment: str, line: str) -> bool:
    """Whether a comment gives a printed line, perhaps with an explanation behind a colon."""
    return comment == line or comment.startswith(f"{line}: ")


@pytest.mark.parametrize("page", pages_with("python"))
def test_python_blocks_print_what_their_comments_say(
    page: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "__main__"}
    for block in blocks(page):
        if block.language == "python":
            # Blank lines in front make a traceback point at the line of the page.
            padded = "\n" * (block.line - 1) + block.text
            exec(compile(padded, str(page), "exec"), namespace)
            lines = iter(capsys.readouterr().out.splitlines())
            for comment in comments_on_prints(block):
                assert any(says(comment, line) for line in lines), f"not printed: {comment}"


@pytest.mark.parametrize("page", pages_with("console"))
def test_console_blocks_print_what_they_show(
    page: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    for block in blocks(page):
        if block.language != "console":
            continue
        for command, expected in shown(block):
            code = run(shlex.split(command)[1:])
            out, err = capsys.readouterr()
            assert code == 0, f"{command}\n{err}"
            if expected:
                assert matches(out.strip(), expected), f"{command}\n{out}"


def test_the_checker_itself(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "text\n```console\n$ make test\nmany lines\n$ isotropy --version\nisotropy ...\n```\n"
        "```python title=x\na = 1\n```\n"
    )
    console, python = blocks(page)
    assert list(shown(console)) == [Shown("isotropy --version", "isotropy ...")]
    assert python == Block("python", 9, "a = 1\n")
    assert matches("isotropy 0.1", "isotropy ...")
    assert matches("a\nb\nc", "a\n...\nc")
    assert not matches("isotropy 0.1", "emlp ...")
    assert not matches("rank 4\nmore", "rank 4")
    assert not matches("rank 4", "rank .")
    assert comments_on_prints(Block("python", 1, "print(1)  # 1\nx = 2  # two\n")) == ["1"]
    assert says("3: as expected", "3")
    assert not says("3: as expected", "4")
    assert not says("30", "3")


TABLES = run_path(str(ROOT / "docs" / "result_tables.py"))


@pytest.mark.parametrize("name", TABLES["TABLES"])
def test_tables_are_those_of_the_results(name: str) -> None:
    page, made = TABLES["TABLES"][name]
    text = (ROOT / page).read_text(encoding="utf-8")
    assert TABLES["with_table"](text, name, made()) == text, "run docs/result_tables.py"


@pytest.mark.parametrize("path", sorted(ROOT.glob("results/*.json")), ids=lambda path: path.stem)
def test_results_name_their_origin(path: Path) -> None:
    found = json.loads(path.read_text(encoding="utf-8"))
    assert found["command"]
    assert re.fullmatch(r"[0-9a-f]{40}", found["commit"])
    assert isinstance(found["seed"], int)
    assert found["machine"]


def test_every_dagger_is_explained() -> None:
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        explained = text.count("† Not yet traced: ")
        assert explained == (1 if "†" in text else 0), page
        assert text.count("†") != 1, f"{page}: an explanation of nothing"
