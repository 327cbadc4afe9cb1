"""Readers that could be made to run or to break by what a file says it is."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from PIL import Image

from isotropy.data import load
from isotropy.reps import Symmetry

POSTSCRIPT = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n(x) (w) file\n"


def test_an_image_that_is_a_program_inside(tmp_path: Path) -> None:
    """Pillow starts an interpreter for PostScript, whatever the file is called."""
    Image.new("L", (9, 9)).save(tmp_path / "a.png")
    (tmp_path / "b.png").write_bytes(POSTSCRIPT)
    started: list[str] = []
    sys.addaudithook(lambda event, _: started.append(event) if "Popen" in event else None)
    with pytest.raises(ValueError, match=r"b\.png: expected an image, got a file that is none"):
        load(tmp_path)
    assert started == []


@pytest.mark.parametrize("text", ["[" * 100_000, None, b"\xff", "9" * 5000, "{}", "[1]", "NaN"])
def test_a_symmetry_from_anything(text: str) -> None:
    with pytest.raises(ValueError, match="expected a symmetry"):
        Symmetry.from_json(text)
