"""Photograph pages of the demo into docs/images/; run it after changing the page or the demo.

make demo && .venv/bin/python docs/screenshots.py

It needs Chromium.
"""

from __future__ import annotations

import io
import sys
import tempfile
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
# name, the demo's folder, width and height of the screen, light or dark
SHOTS = (
    ("report-light.png", "a-filtered-signal", 1100, 1550, "light"),
    ("report-dark-phone.png", "mass-of-two-particles", 390, 844, "dark"),
)


def main(demo: Path) -> None:
    """Photograph the pages of the demo in this folder."""
    sys.path.insert(0, str(ROOT / "tests" / "report"))
    from conftest import Browser, found_browser

    program = found_browser()
    if program is None:
        raise SystemExit("expected Chromium to take screenshots with, got none")
    with tempfile.TemporaryDirectory() as folder:
        browser = Browser(program, Path(folder) / "profile")
        for file, task, width, height, scheme in SHOTS:
            browser.look((demo / task / "report.html").resolve(), width, height, scheme)
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
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "demo")
