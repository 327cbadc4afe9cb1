"""What discovery found, as one page that needs nothing else to be read."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from isotropy._run import atomic_write
from isotropy.report._finding_pictures import effect_picture, partition_picture
from isotropy.report._finding_tables import finding_tables, html_table, soft_table
from isotropy.report._generator_pictures import generator_pictures, metric_picture
from isotropy.report._number_words import NEGLIGIBLE, percent, short_number, true_minus

if TYPE_CHECKING:
    from isotropy.discovery import Finding, Findings

_LOSS = re.compile(r"(\S.*) (-?\d+(?:\.\d+)?(?:e[-+]?\d+)?)")
_SMALLEST_P_VALUE = 1e-6  # the normal approximation of the test says nothing of smaller chances
_SHOWN, _KEPT = 100, 2000  # letters of the text of a group, on the page and in its tooltip
_STYLE = """
:root { color-scheme: light dark; --line: #8884; --sure: #187a48; --not: #a85b12;
  --plus: #f0a35e; --minus: #86b6f0; }
@media (prefers-color-scheme: dark) { :root { --sure: #5cc795; --not: #e8a862;
  --plus: #a1520f; --minus: #2a5fa8; } }
body { font: 16px/1.55 system-ui, sans-serif; max-width: 50rem; margin: 2rem auto;
  padding: 0 1.2rem 2rem; overflow-wrap: break-word; }
h1 { font-size: 1rem; margin: 0; } h2 { font-size: 1.15rem; margin: 2.4rem 0 .4rem; }
h2.name { font-size: 2.1rem; line-height: 1.2; margin: 0; }
h2.name::first-letter { text-transform: uppercase; }
h3 { font-size: .95rem; margin: 1.4rem 0 .2rem; } p { margin: .4rem 0; }
.claim { font-size: 1.15rem; } figcaption, .aside { font-size: .85rem; opacity: .8; }
article { border: 1px solid var(--line); border-radius: .7rem; padding: 1.4rem; margin: 1.2rem 0; }
.pictures { display: flex; flex-wrap: wrap; gap: .5rem 2rem; align-items: flex-start; }
figure { margin: 0; max-width: 100%; } figcaption { max-width: 20.5rem; }
svg { max-width: 100%; height: auto; overflow: visible; } image { image-rendering: pixelated; }
.matrices { gap: 1rem; margin: .7rem 0; } .matrices figure { width: var(--wide); }
.matrices svg { display: block; margin-bottom: .3rem; }
@media (max-width: 30rem) { .matrices .small { width: calc(50% - .5rem); } }
.lines { fill: none; stroke: #8888; stroke-width: 1px; vector-effect: non-scaling-stroke; }
.plus, .minus { padding: 0 .3em; border-radius: .2em; background: var(--plus); }
.minus { background: var(--minus); } .chosen { font-weight: 600; } .long { min-width: 7rem; }
svg text { font-size: 11px; fill: currentColor; } .scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; }
tr + tr > * { border-top: 1px solid var(--line); }
th, td { text-align: left; vertical-align: top; padding: .25rem .8rem .25rem 0; }
th:last-child, td:last-child { padding-right: 0; }
.number { white-space: nowrap; } .sure { color: var(--sure); } .not { color: var(--not); }
.bars { width: min(100%, 38rem); } .bars th { font-weight: 400; } .wide { width: 50%; }
.bar { display: block; height: .7rem; min-width: 2px; background: var(--sure); margin-top: .4rem; }
tr + tr .bar { background: #888; }
@media (max-width: 48rem) { .scroll tr:first-child { display: none; }
  .scroll tr { display: flex; flex-wrap: wrap; gap: 0 1rem; padding: .4rem 0; }
  .scroll tr > * { border: 0; padding: 0; min-width: 0; } .scroll tr + tr + tr {
  border-top: 1px solid var(--line); } .scroll td:first-child { width: 100%; }
  .scroll td:empty { display: none; } .scroll td + td::before {
  content: attr(data-head) " "; color: GrayText; font-weight: 400; } }
@media (max-width: 30rem) { body { padding: 0 .6rem 1rem; } article { padding: 1rem .8rem; } }
pre { background: #8881; padding: 1rem; border-radius: .5rem; overflow: auto; font-size: .85rem; }
"""


def finding_page(
    findings: Findings | Sequence[Finding],
    *,
    title: str = "Symmetries found",
    data: str = "",
    folder: str = "findings",
) -> str:
    """One HTML page about findings, with its pictures inside and no link to anything.

    Args:
        findings: What was found and tried.
        title: The heading.
        data: What was searched, in a phrase: a file, its columns, the number of samples.
        folder: Where the findings are saved, for the lines that load them.

    Returns:
        The text of the page.

    Example:
        >>> from isotropy.discovery import Findings
        >>> page = finding_page(Findings(tried=["all swaps"]), data="data.npz")
        >>> "No symmetry was found" in page
        True
    """
    from isotropy.discovery import Findings

    found = findings if isinstance(findings, Findings) else Findings(findings)
    sections = chain(
        *(_found(found), _nearly(found), _trivially(found)),
        *(_use(found, folder), _how(found), _tried(found)),
    )
    searched = f"<p class='aside'>{escape(data)}</p>" if data else ""
    return (
        "<!DOCTYPE html>\n<html lang='en'>\n<head>\n<meta charset='utf-8'>\n"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>\n"
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f"<h1>{escape(title)}</h1>\n{searched}\n" + "\n".join(sections) + "\n</body>\n</html>\n"
    )


def write_finding_page(
    findings: Findings | Sequence[Finding],
    path: str | Path,
    **words: str,
) -> Path:
    """Write the page of ``finding_page`` to a file that ends in .html.

    Args:
        findings: What was found and tried.
        path: Where to write it.
        words: ``title``, ``data`` and ``folder`` of ``finding_page``; ``folder`` is that of the
            page where findings are saved beside it.

    Returns:
        The path written.

    Raises:
        ValueError: If the path does not end in .html, or its folder is not there.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_finding_page([], Path(folder) / "page.html").name
        'page.html'
    """
    path = Path(path)
    if path.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"expected a page file that ends in .html, got {str(path)!r}")
    if (path.parent / "findings.json").is_file():
        words = {"folder": str(path.parent), **words}
    page = finding_page(findings, **words)
    with atomic_write(path, "w") as file:
        file.write(page)
    return path


def _found(found: Findings) -> Iterator[str]:
    shown = [finding for finding in found if not finding.trivial]
    if not any(finding.confirmed for finding in shown):
        besides = "but what holds trivially" if any(_trivially(found)) else "that the data confirm"
        yield (
            f"<article><h2 class='name'>No symmetry was found</h2><p class='claim'>None {besides}. "
            "There may be none; it may be of a kind that was not tried; or the samples may be too "
            "few or too noisy to tell.</p></article>"
        )
    yield from map(_card, sorted(shown, key=lambda finding: not finding.confirmed))


def _card(finding: Finding) -> str:
    kind = "sure" if finding.confirmed else "not"
    nearly = ", approximately" if finding.approximate and finding.confirmed else ""
    size = f" of {short_number(finding.order)} elements" if finding.order else ""
    size += f" of dimension {finding.dimension}" if finding.dimension else ""
    group = f"The group {_group(finding.group)}{size}."
    if finding.order == 1:
        group = "Weights are shared although no group moves the positions."
    return (
        f"<article><h2 class='name'>{escape(finding.name)}</h2><p class='claim'><b class='{kind}'>"
        f"{finding.verdict.capitalize()}{nearly}:</b> {escape(finding.action)}.</p>"
        f"<p class='aside'>{group} Found by {escape(finding.method)}.</p>"
        f"{_test(finding)}<div class='pictures'>{effect_picture(finding)}"
        f"{partition_picture(finding)}</div>{generator_pictures(finding)}"
        f"{metric_picture(finding)}{''.join(finding_tables(finding))}"
        f"{''.join(map(_note, finding.notes))}{soft_table(finding)}</article>"
    )


def _group(text: str) -> str:
    """The text of a group, cut where matrices make it long; what was cut is in its tooltip."""
    if len(text) <= _SHOWN:
        return escape(text)
    whole = text if len(text) <= _KEPT else f"{text[: _KEPT - 1]}…"
    return f"<span title='{escape(whole)}'>{escape(text[: _SHOWN - 1])}…</span>"


def _test(finding: Finding) -> str:
    """What the test says, as HTML; nothing where there was none."""
    if not finding.samples:
        return ""
    words, high = f"<p>On {finding.samples} samples set aside, ", finding.interval[1]
    if math.isnan(finding.effect):
        return f"{words}{finding.cost}.</p>"
    words += f"the symmetry {finding.cost}"
    if abs(high) < NEGLIGIBLE:
        words += f", and with 95 % confidence it costs less than {percent(NEGLIGIBLE)}"
    elif high < math.inf:
        verb = "costs no more than" if high >= 0 else "saves no less than"
        words += f", and with 95 % confidence it {verb} {percent(abs(high))}"
    words += f". A symmetry may cost up to {escape(percent(finding.margin))}; the test that it "
    words += f"costs less gives <b class='number'>{_p_value(finding)}</b>.</p>"
    return words.replace(" %", "\N{NO-BREAK SPACE}%")


def _p_value(finding: Finding) -> str:
    small = finding.p_value < _SMALLEST_P_VALUE
    return "p &lt; 10⁻⁶" if small else f"p = {short_number(finding.p_value)}"


def _note(note: str) -> str:
    """Bars where a note lists numbers, "mean loss: ours 0.1, theirs 0.2"; else its words."""
    head, _, rest = note.rpartition(": ")
    matches = [_LOSS.fullmatch(part) for part in rest.split(", ")]
    pairs = [(match[1], float(match[2])) for match in matches if match]
    largest = max((value for _, value in pairs), default=0.0)
    if not head or len(pairs) < max(2, len(matches)) or not 0 < largest < math.inf:
        return f"<p class='aside'>{escape(note)}</p>"
    rows = (
        f"<tr><th scope='row'>{escape(name)}</th><td class='wide'><span class='bar' style='width:"
        f"{100 * max(value, 0) / largest:.1f}%'></span></td><td class='number'>"
        f"{true_minus(f'{value:g}')}</td></tr>"
        for name, value in pairs
    )
    words = escape(head[:1].upper() + head[1:])
    return f"<h3>{words}</h3><table class='bars'>{''.join(rows)}</table>"


def _nearly(found: Findings) -> Iterator[str]:
    if found.nearly:
        yield (
            "<h2>What holds nearly</h2><p>Broken too much to be called a symmetry, yet a soft "
            "model that prefers it predicts better than one that does not know of it:</p>"
        )
    yield from map(_card, found.nearly)


def _trivially(found: Findings) -> Iterator[str]:
    items = "".join(
        f"<li><b>{escape(one.name)}</b> ({_p_value(one)}): {escape(one.trivial)}</li>"
        for one in (*found.trivial, *(finding for finding in found if finding.trivial))
    )
    if items:
        yield f"<h2>What holds trivially</h2><p>True, but for a simpler reason:</p><ul>{items}</ul>"


def _how(found: Findings) -> Iterator[str]:
    margins = {escape(percent(finding.margin)) for finding in (*found, *found.trivial)}
    if margins:
        margin = margins.pop() if len(margins) == 1 else "its margin"
        yield (
            "<h2>How sure is it?</h2><p>Each claim was tested on samples used neither to find the "
            "symmetry nor to fit a model. There, a predictor that was given the symmetry is held "
            "against one that is free of it. The cost is a share of what can be learned, the gap "
            "between the free predictor and one that always gives the same answer: at 0 % the "
            "symmetry is perfect, at 100 % it leaves nothing.</p><p>The p-value is the chance of "
            f"data that speak so clearly for a symmetry that really costs {margin} or more. "
            f"{_correction(found)} where those up to 0.05 are confirmed, the "
            "chance that anything false is confirmed is at most 5 %.</p>"
        )
    yield from (f"<p class='aside'>{escape(note)}</p>" for note in found.notes)


def _correction(found: Findings) -> str:
    if any(finding.method == "transitions" for finding in found):
        return "Groups are tested one after the other, each only where those before it stand:"
    return "It is corrected for the number of claims (Holm):"


def _tried(found: Findings) -> Iterator[str]:
    looked = "".join(f"<li>{escape(one)}</li>" for one in found.tried if isinstance(one, str))
    rows = [one for one in found.tried if isinstance(one, Mapping)]
    if found.tried:
        seconds = f" ({found.seconds:.3g} seconds)" if found.seconds else ""
        yield f"<h2>What was tried{seconds}</h2>" + (f"<ul>{looked}</ul>" if looked else "")
    if rows:
        yield html_table(rows)


def _use(found: Findings, folder: str) -> Iterator[str]:
    best, where = found.best, "best.model"
    model = None if best is None else best.model
    if model is None and found.nearly and found.nearly[0].soft is not None:
        best, where = found.nearly[0], "nearly[0].soft.model"
        model = found.nearly[0].soft.model
    elif best is not None and best.soft is not None and best.soft.is_better:
        where, model = "best.soft.model", best.soft.model
    if best is None or model is None:
        return
    image = best.layout.image
    wide = getattr(model, "in_features", "inputs")
    shape = ", ".join(map(str, image)) if image else wide
    lines = (
        "import torch\nfrom isotropy.discovery import Findings\n\n"
        f"found = Findings.load({folder!r})\n"
        f"model = found.{where}  # {' '.join(best.name.split())}\n"
        f"x = torch.randn(5, {shape})  # samples, in the order and units of the data\n"
        "with torch.no_grad():\n    y = model(x)"
        + ("" if best.method == "transitions" else "  # values, or logits of classes")
    )
    if best.method == "transitions":
        lines += "\n# x: observations, then actions; y: what observations change by"
    elif not image and best.labels is None and best.generators is None:
        lines += "\n# sequences x of shape (samples, positions, channels): model(x.mT.flatten(1))"
    if where == "best.soft.model":
        lines += "\n# found.best.model has the symmetry exactly, and predicts less well"
    elif where == "best.model" and found.nearly:
        lines += "\n# found.nearly[0].soft.model leans towards what holds nearly"
    yield f"<h2>How to use the model</h2><pre><code>{escape(lines)}</code></pre>"
