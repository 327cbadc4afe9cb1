"""The page of findings: well formed, complete, safe and alone."""

from __future__ import annotations

import base64
import io
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from torch import nn

from isotropy.discovery._finding import Finding, Findings
from isotropy.report import finding_page, write_finding_page

VOID = {"meta", "img", "line", "circle", "br"}
SHIFT = Finding(
    "Z(4), cyclic shift",
    "Z(4)",
    "cyclic shift of a < b & c",
    "linear colours",
    order=4,
    confirmed=True,
    p_value=3.1e-5,
    effect=0.004,
    interval=(-0.01, 0.021),
    samples=300,
    labels=(np.arange(4) - np.arange(4)[:, None]) % 4,
    model=nn.Linear(4, 4),
)
SWAP = Finding(
    "S(2), a swap", "S(2)", "swap", "swaps", order=2, p_value=0.42, effect=0.3, samples=9
)
UNUSED = Finding(
    "S(3), of unused columns", "S(3)", "columns", "swaps", p_value=1e-9, trivial="ignored columns"
)
FOUND = Findings([SHIFT, SWAP, UNUSED], ["all swaps", {"method": "colours", "p": 0.25}], 1.25)


class Reader(HTMLParser):
    """Follows tags, and gathers the text that a reader sees."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.text = ""
        self.addresses: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] != ["style"]:
            self.text += data


@pytest.mark.parametrize("found", [FOUND, Findings(), Findings([SWAP]), [SHIFT]])
def test_well_formed_and_alone(found: Findings) -> None:
    page = finding_page(found, data="data.npz, 300 samples")
    reader = Reader(page)
    assert reader.open == []
    assert page.startswith("<!DOCTYPE html>")
    assert "http" not in page
    assert "url(" not in page
    assert not {"script", "link", "iframe"} & set(reader.seen)
    assert all(address.startswith("data:image/png;base64,") for address in reader.addresses)
    assert "data.npz, 300 samples" in reader.text


def test_everything_is_said() -> None:
    text = Reader(finding_page(FOUND)).text
    for finding in FOUND:
        assert finding.name in text
        assert f"p = {finding.p_value:.2g}" in text
    assert "confirm 1 of 3 claims: Z(4), cyclic shift" in text
    assert "cyclic shift of a < b & c" in text
    assert "costs 0.4 % of what can be learned, and with 95 % confidence no more than 2.1 %" in text
    assert "ignored columns" in text
    assert "all swaps" in text
    assert "colours" in text
    assert "0.25" in text
    assert "1.25 seconds" in text
    assert "Findings.load('findings')" in text


def test_what_is_not_there_is_not_shown() -> None:
    text = Reader(finding_page(Findings([SWAP], ["all swaps"]))).text
    assert "No symmetry was found" in text
    assert "How to use the model" not in text
    assert "trivially" not in text
    nothing = Reader(finding_page(Findings())).text
    assert "No symmetry was found" in nothing
    assert "What was tried" not in nothing


def test_words_of_the_user_are_escaped() -> None:
    attack = "'\"><script>alert(1)</script>"
    page = finding_page(
        Findings(
            [
                Finding(
                    attack,
                    attack,
                    attack,
                    attack,
                    notes=(attack,),
                    labels=np.array([[0]]),
                    confirmed=True,
                    model=nn.Linear(1, 1),
                ),
                Finding("trivial", "S(2)", "", "", trivial=attack),
            ],
            [attack, {attack: attack}],
            notes=[attack],
        ),
        title=attack,
        data=attack,
        folder=attack,
    )
    reader = Reader(page)
    assert "<script" not in page
    assert reader.open == []
    assert reader.text.count("<script>alert(1)</script>") >= 10


def test_pictures_show_the_partition_and_the_effect() -> None:
    page = finding_page([SHIFT])
    found = re.search(r"base64,([^']+)'", page)
    assert found is not None
    with Image.open(io.BytesIO(base64.b64decode(found[1]))) as image:
        pixels = np.asarray(image)
    same = (pixels[:, :, None, None] == pixels[None, None]).all(-1)
    labels = SHIFT.labels
    assert labels is not None
    assert np.array_equal(same, labels[:, :, None, None] == labels[None, None])
    dot = float(re.findall(r"cx='([\d.]+)'", page)[0])
    zero, margin = (float(x) for x in re.findall(r"x1='([\d.]+)' x2='\1'", page)[:2])
    assert (dot - zero) / (margin - zero) == pytest.approx(0.004 / 0.05, abs=0.01)


def test_an_unbounded_interval_stays_in_the_picture() -> None:
    unbounded = Finding(
        "S(2)", "S(2)", "swap", "swaps", effect=2.0, samples=20, interval=(-np.inf, np.inf)
    )
    page = finding_page([unbounded])
    places = [float(x) for x in re.findall(r"(?:x1|x2|cx)='([-\d.]+)'", page)]
    assert min(places) >= 0
    assert max(places) <= 420
    assert "no more than" not in page
    silent = finding_page([Finding("S(2)", "S(2)", "swap", "swaps", samples=20)])
    assert "On 20 samples set aside, nothing can be learned." in silent
    assert "<svg" not in silent


def test_missing_weights_are_white() -> None:
    banded = Finding("band", "Z(2)", "", "", labels=np.array([[0, -1], [-1, 0]]))
    found = re.search(r"base64,([^']+)'", finding_page([banded]))
    assert found is not None
    with Image.open(io.BytesIO(base64.b64decode(found[1]))) as image:
        pixels = np.asarray(image)
    assert (pixels[0, 1] == 255).all()
    assert not (pixels[0, 0] == 255).all()


def test_the_file(tmp_path: Path) -> None:
    path = write_finding_page(FOUND, tmp_path / "page.html", title="A title")
    assert path.read_text(encoding="utf-8") == finding_page(FOUND, title="A title")
    assert [p.name for p in tmp_path.iterdir()] == ["page.html"]
    with pytest.raises(ValueError, match=r"expected a page file that ends in \.html, got"):
        write_finding_page(FOUND, tmp_path / "page.pdf")
    with pytest.raises(ValueError, match=r"expected an existing folder"):
        write_finding_page(FOUND, tmp_path / "missing" / "page.html")
