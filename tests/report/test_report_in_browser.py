"""The page in a real browser: drawn, silent, alone, on phones and in the dark, by keyboard."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from discovery.pieces import ModelComparison
from isotropy.discovery import Finding, Findings
from isotropy.report import write_demo_page, write_finding_page

NASTY = "</script><script>alert(1)</script>"
LINK = "<a href='https://example.org'>x</a>"
NAMES = (NASTY, LINK, "$x^2$ %{x} & <b>y</b>", "a long name of a column, level 4")
TOLD = ModelComparison(
    "mean squared error",
    *(0.1, 0.2, 1.0, 0.01, 300, 600),
    curve=((75, 0.2, 0.9), (150, 0.15, 0.6), (600, 0.1, 0.2)),
)
SHIFT = Finding.of(
    "Z(4), cyclic shift",
    "Z(4)",
    f"cyclic shift of {NASTY}",
    "linear colours",
    order=4,
    confirmed=True,
    p_value=3.1e-5,
    effect=0.004,
    interval=(-0.01, 0.021),
    samples=300,
    labels=(np.arange(4) - np.arange(4)[:, None]) % 4,
    examples=np.arange(24.0).reshape(2, 3, 4),
    comparison=TOLD,
    equivariance_error=1e-7,
    certificates={"with": {"bound": 0.2}, "without": {"bound": 0.4}},
    input_names=NAMES,
    output_names=NAMES,
)
SWAP = Finding.of(
    f"S(2), {NASTY}", "S(2)", "swap", "swaps", p_value=0.42, effect=0.3, samples=9, labels=[[0, 0]]
)
LORENTZ = Finding.of(
    "SO⁺(1,1)",
    "SO11p",
    "boosts",
    "generators",
    dimension=1,
    confirmed=True,
    generators=[[[0, 1], [1, 0]]],
    metric=[[1, 0], [0, -1]],
    coordinates=(NASTY, LINK),
    classes=tuple(
        {
            "action": words,
            "unknowns": 64,
            "dimension": 13,
            "title": title,
            "gap": 2.5e8,
            "exact": exact,
            "chosen": exact,
            "note": "needs 64 rows",
        }
        for words, title, exact in (
            ("the same action on 2 blocks of 4 columns, moved and shifted", "SO⁺(1,3)", True),
            ("one action on E1, px1, py1, pz1, E2, px2, py2, pz2", "SO⁺(1,3), (+,−,−,−)", False),
        )
    ),
    discrete=({"name": "parity", "holds": True, "p_value": 1e-5, "effect": 0.001},),
)
IMAGES = Finding.of(
    "D(4), turns and mirrors",
    "D(4)",
    "turns of images",
    "images",
    order=8,
    confirmed=True,
    effect=0.01,
    samples=90,
    layout=replace(SHIFT.layout, image=(4, 4)),
    examples=np.arange(96.0).reshape(2, 3, 4, 4),
    layers=tuple(
        {
            "layer": f"layer {k}",
            "type": "conv",
            "history": [{"fc": 1 / e, "conv": 1 - 1 / e} for e in (1, 2, 3)],
            "lee": {"translation": 0.1 * k, NASTY: 0.3},
        }
        for k in range(2)
    ),
)
FOUND = Findings(
    [SHIFT, SWAP],
    ["all swaps", {"name": NASTY, "effect": 0.5, "p_value": 0.9, "confirmed": False}],
    1.25,
    notes=[NASTY],
    reading="300 vectors",
)
PAGES = {
    "permutations": (FOUND, 4),  # weights twice, effects and the curve
    "continuous": (Findings([LORENTZ], FOUND.tried), 2),
    "images": (Findings([IMAGES], stopped="no time left"), 3),
    "nothing": (Findings(tried=["all swaps"]), 0),
}


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("pages")
    for name, (found, _) in PAGES.items():
        write_finding_page(found, folder / f"{name}.html", title=NASTY, data=NASTY)
    cases = [(name, found, NASTY) for name, (found, _) in PAGES.items()]
    write_demo_page(cases, folder / "demo.html", title="A demo", words=NASTY)
    return folder


def fits(browser: Any) -> bool:
    seen, needed = browser.ask("[innerWidth, document.documentElement.scrollWidth]")
    return bool(needed <= seen)


def is_whole(browser: Any, plots: int) -> None:
    """Every plot is drawn, nothing complains, nothing is fetched, nothing of the user runs."""
    drawn = (
        "[...document.querySelectorAll('.plot')].map(p => p.querySelectorAll('.main-svg').length)"
    )
    counts = browser.ask(drawn)
    assert len(counts) == plots
    assert all(counts)
    sizes = browser.ask(
        "[...document.querySelectorAll('.plot')].filter(p => !p.closest('details:not([open])'))"
        ".map(p => p.querySelector('.cartesianlayer').getBoundingClientRect().width)"
    )
    assert all(size > 40 for size in sizes)
    assert browser.complaints == []
    fetched = [url for url in browser.requests if not url.startswith(("data:", "blob:"))]
    assert len(fetched) == 1
    assert fetched[0].startswith("file:")
    assert browser.ask("document.querySelectorAll('script').length") == (3 if plots else 0)
    assert browser.ask("document.querySelectorAll('svg a').length") == 0


@pytest.mark.parametrize("name", PAGES)
def test_all_is_drawn_in_silence(browser: Any, pages: Path, name: str) -> None:
    browser.look(pages / f"{name}.html")
    is_whole(browser, PAGES[name][1])
    assert fits(browser)


def test_several_searches_on_one_page(browser: Any, pages: Path) -> None:
    browser.look(pages / "demo.html", 360, 700)
    is_whole(browser, sum(plots for _, plots in PAGES.values()))
    assert fits(browser)
    links = browser.ask("[...document.querySelectorAll('nav a')].map(a => a.getAttribute('href'))")
    titles = "links.map(link => document.querySelector(link + ' > h2').textContent)"
    assert browser.ask(f"(links => {titles})({links})") == list(PAGES)


def test_names_are_shown_letter_by_letter(browser: Any, pages: Path) -> None:
    browser.look(pages / "permutations.html")
    seen = browser.ask(
        "[...document.querySelectorAll('#plot-1 .ytick text')].map(t => t.textContent)"
    )
    assert seen[0].startswith("</script")
    assert seen[1].startswith("<a href=")
    assert seen[2].startswith("$x^2$")
    assert browser.ask("document.title") == NASTY
    hovered = browser.ask(
        "document.getElementById('plot-1').data[0].text.flat().filter(t => t.includes('<b>'))"
    )
    assert hovered == []


@pytest.mark.parametrize("name", PAGES)
def test_a_phone_in_the_dark(browser: Any, pages: Path, name: str, tmp_path: Path) -> None:
    brightness = []
    for scheme in ("light", "dark"):
        browser.look(pages / f"{name}.html", 360, 640, scheme)
        assert fits(browser)
        with Image.open(browser.picture(tmp_path / f"{scheme}.png")) as image:
            corner = np.asarray(image.convert("L"))[:4, :4]
        brightness.append(float(corner.mean()))
        assert browser.complaints == []
    assert brightness[0] > 230
    assert brightness[1] < 50


def test_plots_follow_when_it_gets_dark(browser: Any, pages: Path) -> None:
    browser.look(pages / "permutations.html")
    colour = (
        "getComputedStyle(document.querySelector('#plot-2 .xtick text, #plot-3 .xtick text')).fill"
    )
    light = browser.ask(colour)
    browser.prefer("dark")
    dark = browser.ask(f"new Promise(d => setTimeout(() => d({colour}), 400))")
    assert sum(map(int, light[4:-1].split(","))) < 200 < 500
    assert sum(map(int, dark[4:-1].split(","))) > 600


def test_tables_fit_screens(browser: Any, tmp_path: Path) -> None:
    found = Findings([LORENTZ.with_values(group="[0.7071," * 90)], FOUND.tried)
    path = write_finding_page(found, tmp_path / "page.html")
    for width in (1000, 790, 700, 400):
        browser.look(path, width)
        assert fits(browser)
        sizes = browser.ask(
            "[...document.querySelectorAll('.scroll')].map(e => [e.clientWidth, e.scrollWidth])"
        )
        assert len(sizes) == 4
        assert all(needed <= room for room, needed in sizes), (width, sizes)


def test_headings_and_landmarks(browser: Any, pages: Path) -> None:
    for name in (*PAGES, "demo"):
        browser.look(pages / f"{name}.html")
        levels = browser.ask(
            "[...document.querySelectorAll('h1,h2,h3,h4,h5,h6')].map(h => +h.tagName[1])"
        )
        assert levels.count(1) == 1
        assert levels[0] == 1
        assert max(np.diff(levels), default=0) <= 1
        for once in ("main", "header", "html[lang]", "title"):
            assert browser.ask(f"document.querySelectorAll('{once}').length") == 1
        nameless = "[role=img]:not([aria-label]), img:not([alt]), th:not([scope])"
        assert browser.ask(f"document.querySelectorAll('{nameless}').length") == 0
        ids = browser.ask("[...document.querySelectorAll('main [id]')].map(e => e.id)")
        assert len(ids) == len(set(ids))


def test_what_a_screen_reader_is_told(browser: Any, pages: Path) -> None:
    browser.look(pages / "permutations.html")
    nodes = browser.call("Accessibility.getFullAXTree")["nodes"]
    told = [
        (node["role"]["value"], node.get("name", {}).get("value", ""))
        for node in nodes
        if not node["ignored"]
    ]
    roles = [role for role, _ in told]
    assert roles.count("main") == 1
    pictures = [words for role, words in told if role in ("image", "img")]
    assert any(words.startswith("4 × 4 weights of a linear map") for words in pictures)
    assert any("600 rows: 0.1 with, 0.2 without" in words for words in pictures)
    assert all(pictures)


def test_the_keyboard(browser: Any, pages: Path) -> None:
    browser.look(pages / "permutations.html")
    browser.press("Tab", 9)
    assert browser.ask("document.activeElement.className") == "skip"
    left, outline = browser.ask(
        "[document.activeElement.getBoundingClientRect().left, "
        "getComputedStyle(document.activeElement).outlineStyle]"
    )
    assert left >= 0
    assert outline == "solid"
    browser.press("Enter", 13)
    assert browser.ask("document.activeElement.tagName") == "MAIN"
    reached = []
    for _ in range(12):
        browser.press("Tab", 9)
        reached.append(browser.ask("document.activeElement.tagName"))
    assert "SUMMARY" in reached
    folded = "document.querySelector('details.rejected > summary')"
    assert not browser.ask(f"{folded}.parentElement.open")
    browser.ask(f"{folded}.focus()")
    browser.press("Enter", 13)
    assert browser.ask(f"{folded}.parentElement.open")
    width = (
        "document.querySelector('details.rejected .plot .main-svg').getBoundingClientRect().width"
    )
    assert 0 < browser.ask(f"new Promise(d => setTimeout(() => d({width}), 300))") < 400


def test_without_scripts_pictures_stay(browser: Any, pages: Path) -> None:
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.open(pages / "permutations.html")
        images = "document.querySelectorAll('.plot svg image').length"
        assert browser.ask(images) == 2
        assert browser.ask("document.querySelectorAll('.main-svg').length") == 0
    finally:
        browser.call("Emulation.setScriptExecutionDisabled", value=False)


def test_the_curve_shows_the_numbers(browser: Any, pages: Path) -> None:
    browser.look(pages / "permutations.html")
    lines = browser.ask(
        "document.getElementById('plot-3').data.map(d => [d.name, [...d.x], [...d.y]])"
    )
    assert {name: list(zip(x, y, strict=True)) for name, x, y in lines} == {
        "with the symmetry": [(75, 0.2), (150, 0.15), (600, 0.1)],
        "without": [(75, 0.9), (150, 0.6), (600, 0.2)],
    }
    heights = browser.ask(
        "document.querySelectorAll('#plot-3 .scatterlayer .trace:last-child .point').length"
    )
    assert heights == 3
    assert not math.isnan(TOLD.saved)
