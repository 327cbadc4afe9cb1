"""A whole HTML document: its head, its style, and what a screen reader and a keyboard need."""

from __future__ import annotations

from html import escape
from pathlib import Path

from isotropy._run import atomic_write
from isotropy.report._plots import Plots

PAGE_STYLE = """
:root { color-scheme: light dark; --paper: #fdfdfb; --card: #fff; --ink: #1c2128;
  --quiet: #59626e; --line: #e2e5e9; --accent: #1d5fa8; --other: #7a828c; --sure: #187a48;
  --not: #a0540c; --plus: #f0a35e; --minus: #86b6f0; --third: #8a5fb0; --fourth: #187a48;
  --inside: #187a4821; --code: #f3f4f5; }
@media (prefers-color-scheme: dark) { :root { --paper: #14171b; --card: #1a1e23; --ink: #e4e7eb;
  --quiet: #a0a9b4; --line: #30363d; --accent: #7ab4f5; --other: #98a1ab; --sure: #5cc795;
  --not: #e8a862; --plus: #a1520f; --minus: #2a5fa8; --third: #c39be6; --fourth: #5cc795;
  --inside: #5cc79526; --code: #1f242a; } }
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { font: 16px/1.6 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; margin: 0;
  color: var(--ink); background: var(--paper); overflow-wrap: break-word; }
header, main { max-width: 60rem; margin: 0 auto; padding: 0 1.5rem; }
header { padding-top: 3.2rem; padding-bottom: 1rem; } main { padding-bottom: 5rem; }
p, ul { max-width: 44rem; } p { margin: .5rem 0; } ul { margin: .5rem 0; padding-left: 1.2rem; }
a { color: var(--accent); }
:focus-visible { outline: 3px solid var(--accent); outline-offset: 3px; border-radius: .2rem; }
.skip { position: absolute; left: -99rem; } .skip:focus { left: 1rem; top: .6rem;
  padding: .3rem .8rem; background: var(--card); border-radius: .3rem; }
h1 { font-size: .95rem; font-weight: 600; color: var(--quiet); margin: 0 0 .6rem; }
.answer { font-size: clamp(1.4rem, 1rem + 1.9vw, 1.95rem); font-weight: 600; line-height: 1.25;
  letter-spacing: -.012em; margin: 0 0 1rem; max-width: 42rem; text-wrap: balance; }
.stopped { border-left: 4px solid var(--not); padding-left: .8rem; }
h2, .case h3 { font-size: 1.3rem; line-height: 1.3; margin: 3.2rem 0 .6rem; }
h3, .case h4 { font-size: 1rem; margin: 1.8rem 0 .3rem; }
h2.name, .case h3.name { font-size: 1.5rem; letter-spacing: -.01em; margin: 0; }
.name::first-letter { text-transform: uppercase; }
.case > h2 { font-size: .95rem; color: var(--quiet); margin: 0 0 .5rem; }
.case { border-top: 2px solid var(--line); padding-top: 2.6rem; margin-top: 4.5rem; }
.case .answer { font-size: clamp(1.3rem, 1rem + 1.4vw, 1.7rem); }
nav ol { padding-left: 1.3rem; } nav li { margin: .7rem 0; } nav p { margin: 0; }
.claim { font-size: 1.1rem; } figcaption, .aside { font-size: .875rem; color: var(--quiet); }
article { background: var(--card); border: 1px solid var(--line); border-radius: .8rem;
  padding: 1.8rem; margin: 1.6rem 0; }
.pictures { display: flex; flex-wrap: wrap; gap: 1.6rem 2.6rem; align-items: flex-start;
  margin: 1.2rem 0; }
figure { margin: 0; max-width: 100%; } figcaption { max-width: 22rem; margin-top: .3rem; }
svg { max-width: 100%; height: auto; overflow: visible; } image { image-rendering: pixelated; }
.matrices { gap: 1.2rem; margin: .9rem 0; } .matrices figure { width: var(--wide); }
.matrices svg { display: block; margin-bottom: .3rem; }
.plot { max-width: 100%; } .plot .main-svg { max-width: none; } .plot noscript p { margin: 0; }
.block { margin: 1.2rem 0; } .block figcaption { max-width: 44rem; }
.lines { fill: none; stroke: #8888; stroke-width: 1px; vector-effect: non-scaling-stroke; }
.plus, .minus { padding: 0 .3em; border-radius: .2em; background: var(--plus); color: var(--ink); }
.minus { background: var(--minus); } .chosen { font-weight: 600; } .long { min-width: 7rem; }
svg text { font-size: 11px; fill: currentColor; } .scroll, .matrix { overflow-x: auto; }
.matrix th, .matrix td { padding: .1rem .7rem .1rem 0; }
.key { display: inline-block; width: 1.7rem; margin: 0 .35rem .25rem .9rem;
  border-top: 3px var(--dash, solid) var(--shade); } .key:first-child { margin-left: 0; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
tr + tr > * { border-top: 1px solid var(--line); }
th, td { text-align: left; vertical-align: top; padding: .4rem 1.1rem .4rem 0; }
th { font-weight: 600; } th:last-child, td:last-child { padding-right: 0; }
.scroll th { font-size: .8rem; color: var(--quiet); vertical-align: bottom; }
td small { display: block; font-size: .8rem; font-weight: 400; color: var(--quiet); }
.number { white-space: nowrap; } .sure { color: var(--sure); } .not { color: var(--not); }
b.sure, td.sure, td.not { font-weight: 600; }
.bars { width: min(100%, 38rem); } .bars th { font-weight: 400; } .wide { width: 50%; }
.bar { display: block; height: .7rem; min-width: 2px; background: var(--accent);
  margin-top: .45rem; border-radius: .15rem; } tr + tr .bar { background: var(--other); }
.examples { display: grid; gap: .5rem; max-width: 34rem; align-items: center; margin: .8rem 0;
  grid-template-columns: repeat(var(--across), minmax(0, 1fr)); }
.examples img { display: block; width: 100%; image-rendering: pixelated; border-radius: .25rem; }
.examples svg { display: block; width: 100%; color: var(--other); }
.examples .given { color: var(--accent); } .examples p { margin: 0; }
details { margin: .7rem 0; } summary { cursor: pointer; width: fit-content; }
details.aside summary { color: var(--quiet); } .rejected { border-top: 1px solid var(--line);
  padding: .5rem 0; margin: 0; } .rejected summary { font-weight: 600; }
.rejected article { border: 0; background: none; padding: .3rem 0 .8rem; margin: 0; }
.lines-of-code { background: var(--code); border-radius: .6rem; overflow: auto; margin: 1rem 0; }
pre { margin: 0; padding: 1.1rem 1.2rem; width: max-content; font-size: .85rem; line-height: 1.5; }
@media (max-width: 48rem) { .scroll tr:first-child { display: none; }
  .scroll tr { display: flex; flex-wrap: wrap; gap: 0 1.1rem; padding: .5rem 0; }
  .scroll tr > * { border: 0; padding: 0; min-width: 0; } .scroll tr + tr + tr {
  border-top: 1px solid var(--line); } .scroll td:first-child { width: 100%; }
  .scroll td:empty { display: none; } .scroll td + td::before {
  content: attr(data-head) " "; color: var(--quiet); font-weight: 400; }
  td small { display: inline; } }
@media (max-width: 30rem) { header, main { padding-left: 1rem; padding-right: 1rem; }
  header { padding-top: 1.8rem; } article { padding: 1.1rem 1rem; }
  .matrices .small { width: calc(50% - .6rem); } }
@media (prefers-reduced-motion: reduce) { * { transition: none !important;
  animation: none !important; scroll-behavior: auto !important; } }
@media print { .skip, .modebar-container { display: none; } article { break-inside: avoid; } }
"""


def document(title: str, header: str, main: str, plots: Plots) -> str:
    """One page that needs nothing else.

    Example:
        >>> page = document("a page", "<h1>a page</h1>", "<p>words</p>", Plots())
        >>> "<script" in page, "script-src 'none'" in page
        (False, True)
    """
    scripts, policy = plots.scripts()
    return (
        "<!DOCTYPE html>\n<html lang='en'>\n<head>\n<meta charset='utf-8'>\n"
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        "<meta name='viewport' content='width=device-width, initial-scale=1'>\n"
        f"<title>{escape(title)}</title>\n<style>{PAGE_STYLE}</style>\n</head>\n<body>\n"
        "<a class='skip' href='#answer'>Skip to the content</a>\n"
        f"<header>\n{header}\n</header>\n<main id='answer' tabindex='-1'>\n{main}\n</main>\n"
        f"{scripts}</body>\n</html>\n"
    )


def write_document(page: str, path: str | Path) -> Path:
    """Write a page to a file that ends in .html, whole or not at all."""
    path = html_path(path)
    with atomic_write(path, "w") as file:
        file.write(page)
    return path


def html_path(path: str | Path) -> Path:
    """A path that ends in .html.

    Raises:
        ValueError: If it does not.

    Example:
        >>> html_path("page.html").name
        'page.html'
    """
    path = Path(path)
    if path.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"expected a page file that ends in .html, got {str(path)!r}")
    return path
