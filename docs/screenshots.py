"""Photographs pages of real searches into docs/images/; run it after changing the page.

It needs Chromium: .venv/bin/python docs/screenshots.py
"""

from __future__ import annotations

import io
import sys
import tempfile
from pathlib import Path

from PIL import Image

from isotropy.discovery import discover, example_tasks
from isotropy.report import write_finding_page

ROOT = Path(__file__).parent.parent
IMAGES = ROOT / "docs" / "images"
# name, task, width and height of the screen, light or dark, and from where on
SHOTS = (
    ("report-light.png", "a filtered signal", 1100, 1500, "light", ""),
    ("report-continuous.png", "mass of two particles", 1100, 1150, "light", ""),
    ("report-dark-phone.png", "mass of two particles", 390, 844, "dark", ""),
    ("report-dark-evidence.png", "a filtered signal", 390, 844, "dark", ".evidence"),
)


def main() -> None:
    """Search, write the pages, and photograph them."""
    sys.path.insert(0, str(ROOT / "tests" / "report"))
    from conftest import Browser, found_browser

    program = found_browser()
    if program is None:
        raise SystemExit("expected Chromium to take screenshots with, got none")
    tasks = example_tasks()
    with tempfile.TemporaryDirectory() as folder:
        pages = {}
        for number, name in enumerate(dict.fromkeys(task for _, task, *_ in SHOTS)):
            found, data = discover(tasks[name], seed=0), tasks[name]
            words = f"{len(data.x)} rows of {data.x.shape[1]} columns"
            path = Path(folder) / f"{number}.html"
            pages[name] = write_finding_page(found, path, title=name, data=words)
        browser = Browser(program, Path(folder) / "profile")
        for file, name, width, height, scheme, place in SHOTS:
            browser.look(pages[name], width, height, scheme)
            if place:  # what is seen first
                browser.ask(f"document.querySelector('{place}').scrollIntoView()")
            save(browser.picture(Path(folder) / "shot.png"), IMAGES / file)
        browser.close()


def save(shot: Path, path: Path) -> None:
    """A picture of few colours: small, and as good for text."""
    with Image.open(shot) as image:
        few = image.convert("RGB").quantize(96, dither=Image.Dither.NONE)
    buffer = io.BytesIO()
    few.save(buffer, format="PNG", optimize=True)
    path.write_bytes(buffer.getvalue())


if __name__ == "__main__":
    main()
