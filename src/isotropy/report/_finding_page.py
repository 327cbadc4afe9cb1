"""What discovery found, as one page that needs nothing else to be read."""

from __future__ import annotations

import base64
import io
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from isotropy._run import atomic_write
from isotropy.report._basis_picture import LARGEST_PICTURE, _palette
from isotropy.report._generator_pictures import generator_pictures, metric_picture, short_name

if TYPE_CHECKING:
    from isotropy.discovery import Finding, Findings

_LEFT, _ACROSS, _WIDTH = 30.0, 230.0, 330.0  # of the picture of an effect
_SIDE, _CELL, _LETTER, _LINE = 300.0, 28.0, 6.2, 13.0  # of the picture of weights
_LONG = 24  # words of a table that need a column of some width
_QUIET = (0.86, 0.87, 0.89)
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_LOSS = re.compile(r"(\S.*) (-?\d+(?:\.\d+)?(?:e[-+]?\d+)?)")
_HEADS = {"chance": "by coincidence", "effect": "cost", "p_value": "p", "confirmed": "verdict"}
_CLASS_HEADS = {"action": "motions", "title": "group", "chosen": "verdict"}
_DISCRETE_HEADS = {**_HEADS, "name": "transformation", "holds": "verdict"}
_CLASS = ("action", "chosen", "title", "dimension", "unknowns", "gap", "exact")
_DISCRETE = ("name", "holds", "p_value", "effect")
_VERDICTS = {  # of what is true, and of what is not
    "confirmed": ("confirmed", "not confirmed"),
    "chosen": ("chosen", ""),
    "exact": ("yes", "no"),
    "holds": ("holds", "does not hold"),
}
_MARK = " class='chosen'"
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
.minus { background: var(--minus); } .chosen { font-weight: 600; } .long { min-width: 11rem; }
svg text { font-size: 11px; fill: currentColor; } .scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; }
tr + tr > * { border-top: 1px solid var(--line); }
th, td { text-align: left; vertical-align: top; padding: .25rem 1rem .25rem 0; }
.number { white-space: nowrap; } .sure { color: var(--sure); } .not { color: var(--not); }
.bars { width: min(100%, 38rem); } .bars th { font-weight: 400; } .wide { width: 50%; }
.bar { display: block; height: .7rem; min-width: 2px; background: var(--sure); margin-top: .4rem; }
tr + tr .bar { background: #888; }
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
        _found(found), _trivially(found), _use(found, folder), _how(found), _tried(found)
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
    nearly = ", approximately" if finding.approximate else ""
    size = f" of {_number(finding.order)} elements" if finding.order else ""
    size += f" of dimension {finding.dimension}" if finding.dimension else ""
    group = f"The group {finding.group}{size}."
    if finding.order == 1:
        group = "Weights are shared although no group moves the positions."
    return (
        f"<article><h2 class='name'>{escape(finding.name)}</h2><p class='claim'><b class='{kind}'>"
        f"{finding.verdict.capitalize()}{nearly}:</b> {escape(finding.action)}.</p>"
        f"<p class='aside'>{escape(group)} Found by {escape(finding.method)}.</p>"
        f"{_test(finding)}<div class='pictures'>{_effect_picture(finding)}"
        f"{_partition_picture(finding)}</div>{generator_pictures(finding)}"
        f"{metric_picture(finding)}{''.join(_tables(finding))}"
        f"{''.join(map(_note, finding.notes))}</article>"
    )


def _test(finding: Finding) -> str:
    """What the test says, as HTML; nothing where there was none."""
    if not finding.samples:
        return ""
    words, high = f"<p>On {finding.samples} samples set aside, ", finding.interval[1]
    if math.isnan(finding.effect):
        return f"{words}{finding.cost}.</p>"
    words += f"the symmetry {finding.cost}"
    if high < math.inf:
        verb = "costs no more than" if high >= 0 else "saves no less than"
        words += f", and with 95 % confidence it {verb} {_percent(abs(high))}"
    words += f". A symmetry may cost up to {_percent(finding.margin)}; the test that it costs less "
    words += f"gives <b class='number'>{_p_value(finding)}</b>.</p>"
    return words.replace(" %", "\N{NO-BREAK SPACE}%")


def _percent(share: float) -> str:
    return f"{float(f'{share * 100:.2g}'):g} %".replace("-", "\N{MINUS SIGN}")


def _p_value(finding: Finding) -> str:
    return f"p = {_number(finding.p_value)}" if finding.p_value else "p < 10⁻³⁰⁰"


def _number(number: float) -> str:
    """Two digits or a whole number, and a power of ten where it is far from one."""
    if number == math.inf:
        return "∞"
    if 99.5 <= number < 1e7 and not isinstance(number, int):
        number = int(float(f"{number:.2g}"))
    if not 0 < number < math.inf or 1e-3 <= number < 1e7:
        return f"{number:,}" if isinstance(number, int) else f"{number:.2g}"
    size = math.log10(number)  # of whole numbers beyond any float as well
    power = math.floor(size + 1 - math.log10(9.95))  # 9.96 is 1.0 × 10¹
    return f"{10 ** (size - power):.1f} × 10{str(power).translate(_RAISED)}"


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
        f"{100 * max(value, 0) / largest:.1f}%'></span></td><td class='number'>{value:g}</td></tr>"
        for name, value in pairs
    )
    words = escape(head[:1].upper() + head[1:])
    return f"<h3>{words}</h3><table class='bars'>{''.join(rows)}</table>"


def _trivially(found: Findings) -> Iterator[str]:
    items = "".join(
        f"<li><b>{escape(one.name)}</b> ({_p_value(one)}): {escape(one.trivial)}</li>"
        for one in (*found.trivial, *(finding for finding in found if finding.trivial))
    )
    if items:
        yield f"<h2>What holds trivially</h2><p>True, but for a simpler reason:</p><ul>{items}</ul>"


def _how(found: Findings) -> Iterator[str]:
    margins = {_percent(finding.margin) for finding in (*found, *found.trivial)}
    if margins:
        margin = margins.pop() if len(margins) == 1 else "its margin"
        yield (
            "<h2>How sure is it?</h2><p>Each claim was tested on samples used neither to find the "
            "symmetry nor to fit a model. There, a predictor that was given the symmetry is held "
            "against one that is free of it. The cost is a share of what can be learned, the gap "
            "between the free predictor and one that always gives the same answer: at 0 % the "
            "symmetry is perfect, at 100 % it leaves nothing.</p><p>The p-value is the chance of "
            f"data that speak so clearly for a symmetry that really costs {margin} or more. It is "
            "corrected for the number of claims (Holm): where those up to 0.05 are confirmed, the "
            "chance that anything false is confirmed is at most 5 %.</p>"
        )
    yield from (f"<p class='aside'>{escape(note)}</p>" for note in found.notes)


def _tried(found: Findings) -> Iterator[str]:
    looked = "".join(f"<li>{escape(one)}</li>" for one in found.tried if isinstance(one, str))
    rows = [one for one in found.tried if isinstance(one, Mapping)]
    if found.tried:
        seconds = f" ({found.seconds:.3g} seconds)" if found.seconds else ""
        yield f"<h2>What was tried{seconds}</h2>" + (f"<ul>{looked}</ul>" if looked else "")
    if rows:
        yield _table(rows)


def _tables(finding: Finding) -> Iterator[str]:
    """The classes of actions that were looked at, and what holds beyond the continuous group."""
    if finding.classes:
        rows = [
            {**one, "action": f"{one.get('action', '')} ({one['note']})"}
            if one.get("note")
            else one
            for one in finding.classes
        ]
        yield (
            "<h3>Kinds of motion looked for</h3><p class='aside'>Each is a space of so many "
            "unknowns, in which a group of some dimension was found. The gap says how clearly the "
            "motions outside the group stand apart. A group is exact where noise alone explains "
            f"what error it has.</p>{_table(rows, _CLASS, _CLASS_HEADS)}"
        )
    if finding.discrete:
        told = [{**one, "holds": _told(one)} for one in finding.discrete]
        yield (
            "<h3>Beyond the continuous group</h3><p class='aside'>Single transformations that no "
            f"path within the group leads to.</p>{_table(told, _DISCRETE, _DISCRETE_HEADS)}"
        )


def _told(one: Mapping[str, Any]) -> bool | str:
    holds = one.get("holds")
    return bool(holds) if holds is not None and one.get("testable", True) else "cannot be told"


def _table(
    rows: Sequence[Mapping[str, Any]],
    columns: Sequence[str] | None = None,
    heads: Mapping[str, str] = _HEADS,
) -> str:
    """Rows with the columns given, less those that are empty; or with all that they have."""
    present = list(dict.fromkeys(key for row in rows for key in row))
    if columns is not None:
        present = [key for key in columns if any(row.get(key) not in (None, "") for row in rows)]
    named = (f"<th scope='col'>{escape(str(heads.get(key, key)))}</th>" for key in present)
    lines = (
        f"<tr{_MARK if row.get('chosen') is True else ''}>"
        f"{''.join(_cell(key, row.get(key, '')) for key in present)}</tr>"
        for row in rows
    )
    return f"<div class='scroll'><table><tr>{''.join(named)}</tr>{''.join(lines)}</table></div>"


def _cell(key: str, value: Any) -> str:
    if isinstance(value, bool) and key in _VERDICTS:
        kind, words = ("sure", _VERDICTS[key][0]) if value else ("not", _VERDICTS[key][1])
        return f"<td class='number {kind}'>{words}</td>"
    if value is None or value != value:
        return "<td>–</td>"
    if isinstance(value, float):
        return f"<td class='number'>{_percent(value) if key == 'effect' else _number(value)}</td>"
    kind = " class='long'" if len(str(value)) > _LONG else ""
    return f"<td{kind}>{escape(str(value))}</td>"


def _use(found: Findings, folder: str) -> Iterator[str]:
    best = found.best
    if best is None or best.model is None:
        return
    wide = getattr(best.model, "in_features", "inputs")
    lines = (
        "import torch\nfrom isotropy.discovery import Findings\n\n"
        f"found = Findings.load({folder!r})\n"
        f"model = found.best.model  # {' '.join(best.name.split())}\n"
        f"x = torch.randn(5, {wide})  # samples, in the order and units of the data\n"
        "with torch.no_grad():\n    y = model(x)  # values, or logits of classes"
    )
    if best.labels is None and best.generators is None:
        lines += "\n# sequences x of shape (samples, positions, channels): model(x.mT.flatten(1))"
    yield f"<h2>How to use the model</h2><pre><code>{escape(lines)}</code></pre>"


def _partition_picture(finding: Finding) -> str:
    """The weights as a coloured matrix, with the names of its rows and columns."""
    if finding.labels is None or not 0 < finding.labels.size <= LARGEST_PICTURE:
        return ""
    labels = np.atleast_2d(finding.labels)
    rows, columns = labels.shape
    down, across = _axis_names(finding, "output", rows), _axis_names(finding, "input", columns)
    left, top = (_LETTER * max(map(len, names)) + 12 for names in (down, across))
    # a line for each name, while there is room
    tall, wide = (min(_CELL, max(_SIDE, min(_LINE * k, 2 * _SIDE)) / k) for k in labels.shape)
    texts = [
        f"<text x='{left - 5:.1f}' y='{top + (row + 0.5) * tall + 4:.1f}' text-anchor='end'>"
        f"{escape(down[row])}</text>"
        for row in range(0, rows, math.ceil(_LINE / tall))
    ] + [
        f"<text transform='translate({left + (column + 0.5) * wide + 4:.1f} {top - 5:.1f}) "
        f"rotate(-90)'>{escape(across[column])}</text>"
        for column in range(0, columns, math.ceil(_LINE / wide))
    ]
    width, height = columns * wide, rows * tall
    return (
        f"<figure><svg viewBox='0 0 {left + width + 6:.1f} {top + height + 1:.1f}' role='img' "
        f"width='{left + width + 6:.1f}' aria-label='{rows} × {columns} weights of a linear map "
        f"with {escape(finding.name)}, in {len(np.unique(labels[labels >= 0]))} colours'>"
        f"<image x='{left:.1f}' y='{top:.1f}' width='{width:.1f}' height='{height:.1f}' "
        f"preserveAspectRatio='none' href='{_pixels(labels)}'/>{''.join(texts)}</svg><figcaption>"
        "The weights of a linear map, outputs down and inputs across: those of one colour are "
        "equal.</figcaption></figure>"
    )


def _axis_names(finding: Finding, side: str, count: int) -> list[str]:
    """The names of columns where a finding has them, cut in the middle: their ends differ."""
    rep = getattr(finding.symmetry, "rep_out" if side == "output" else "rep_in", None)
    if rep is not None and rep.size() != count:
        return [""] * count  # combinations of classes have no names
    given = getattr(finding, f"{side}_names", None) or ()
    letter = "y" if side == "output" else "x"
    names = given if len(given) == count else [f"{letter}{place}" for place in range(count)]
    return [short_name(name) for name in names]


def _pixels(labels: NDArray[np.int64]) -> str:
    """A pixel for each weight, as the text of a PNG; negative labels are white: no weight."""
    from PIL import Image

    blocks, counts = np.unique(labels[labels >= 0], return_counts=True)
    colours = np.concatenate([_palette(len(blocks)), [[1.0, 1.0, 1.0]]])
    if len(blocks) > 1 and 2 * counts.max() > labels.size:
        colours[counts.argmax()] = _QUIET  # as a rule, the zeros around a filter
    which = np.where(labels >= 0, np.searchsorted(blocks, labels), len(blocks))
    buffer = io.BytesIO()
    Image.fromarray(np.round(colours[which] * 255).astype(np.uint8)).save(buffer, format="PNG")
    return f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"


def _effect_picture(finding: Finding) -> str:
    """The effect with its interval, on a line with zero and the margin."""
    if not finding.samples or math.isnan(finding.effect):
        return ""
    points = [finding.effect, *finding.interval, 0.0, 1.5 * finding.margin]
    known = [point for point in points if math.isfinite(point)]
    low, high = min(known), max(known)

    def at(share: float) -> float:
        return min(max(_LEFT + (share - low) / (high - low) * _ACROSS, 0.0), _WIDTH)

    zero, edge, middle = at(0.0), at(finding.margin), at(finding.effect)
    start, end = map(at, finding.interval)
    colour = "var(--sure)" if finding.confirmed else "var(--not)"
    cost, margin = _percent(finding.effect), _percent(finding.margin)
    return (
        f"<figure><svg viewBox='0 0 {_WIDTH:g} 80' width='{_WIDTH:g}' role='img' "
        f"aria-label='cost {cost}, margin {margin}'>"
        f"<rect x='0' y='20' width='{edge:.1f}' height='36' fill='var(--sure)' opacity='.13'/>"
        f"<path d='M{zero:.1f} 20v42M{edge:.1f} 20v42' stroke='#888' stroke-width='1'/>"
        f"<text x='{zero + 6:.1f}' y='74' text-anchor='end'>0 %</text>"
        f"<text x='{edge - 6:.1f}' y='74'>margin {margin}</text>"
        f"<path d='M{start:.1f} 38H{end:.1f}' stroke='{colour}' stroke-width='4'/>"
        f"<circle cx='{middle:.1f}' cy='38' r='6' fill='{colour}'/>"
        f"<text x='{middle:.1f}' y='14' text-anchor='middle'>{cost}</text></svg>"
        "<figcaption>What the symmetry costs, as a share of what can be learned: estimate and "
        "95 % limits. Shaded: what counts as a symmetry.</figcaption></figure>"
    )
