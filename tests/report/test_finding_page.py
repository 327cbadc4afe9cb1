"""The page of findings: well formed, complete, safe and alone."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import math
import re
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from plotly.offline import get_plotlyjs
from torch import nn

from discovery.pieces import SoftComparison, SoftOffer, build_model
from isotropy.discovery import Finding, Findings
from isotropy.groups import S
from isotropy.report import finding_page, write_finding_page
from isotropy.report._words import percent, short_number, three_digits
from isotropy.reps import Scalar, Symmetry, V

NOTE = (
    "mean loss on the 60 rows held out: model with the symmetry 0.5, free predictor 1, none 2e+01"
)
SHIFT = Finding.of(
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
    notes=(NOTE, "a note: of 3 words, more or less"),
)
SWAP = Finding.of(
    "S(2), a swap", "S(2)", "swap", "swaps", order=2, p_value=0.42, effect=0.3, samples=9
)
UNUSED = Finding.of(
    "S(3), of unused columns", "S(3)", "columns", "swaps", p_value=1e-9, trivial="ignored columns"
)
CLASS = ("action", "unknowns", "dimension", "title", "gap", "exact", "chosen", "note")
LORENTZ = Finding.of(
    "SO⁺(1,1), metric (+,−)",
    "SO11p",
    "boosts of E and p",
    "generators",
    dimension=1,
    confirmed=True,
    p_value=1e-4,
    generators=[[[0, 1], [1, 0]]],
    metric=[[1, 0], [0, -1]],
    coordinates=("E", "p"),
    classes=(
        dict(
            zip(
                CLASS, ("one A on 4 columns", 16, 2, "", math.inf, False, False, "a<b"), strict=True
            )
        ),
        dict(
            zip(
                CLASS,
                ("the same A on 2 blocks", 4, 1, "SO⁺(1,1)", 14130.4, True, True, ""),
                strict=True,
            )
        ),
    ),
    discrete=(
        {"name": "parity", "holds": True, "testable": True, "p_value": 1e-5, "effect": 0.001},
        {"name": "swap", "holds": False, "testable": True, "p_value": 0.5, "effect": 0.4},
        {"name": "flip", "holds": False, "testable": False, "p_value": 1.0, "effect": math.nan},
        {"name": "turn", "holds": None, "testable": True, "p_value": None, "effect": None},
    ),
)
TRIED = {"name": "Z(4)", "chance": 2.5e-7, "effect": -0.0123, "p_value": 0.25, "confirmed": False}
FOUND = Findings([SHIFT, SWAP, UNUSED], ["all swaps", TRIED, {"own": 3, "effect": None}], 1.25)
PLACES = r"\b(?:x|y|width|height|cx|cy)='([-\d.]+)'"


class Reader(HTMLParser):
    """Follows tags, and gathers the text that a reader sees."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.text = ""
        self.addresses: list[str] = []
        self.pictures: list[str] = []
        self.scripts: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag == "svg" or dict(attrs).get("class") == "plot":
            self.pictures.append(dict(attrs).get("aria-label") or "")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] == ["script"]:
            self.scripts.append(data)
        elif self.open[-1:] != ["style"]:
            self.text += data


def pixels(page: str) -> np.ndarray:
    found = re.search(r"base64,([^']+)'", page)
    assert found is not None
    with Image.open(io.BytesIO(base64.b64decode(found[1]))) as image:
        return np.asarray(image)


def code(page: str) -> str:
    found = re.search(r"<code>(.*?)</code>", page, re.DOTALL)
    assert found is not None
    return unescape(found[1])


@pytest.mark.parametrize("found", [FOUND, Findings(), Findings([SWAP]), [SHIFT], [LORENTZ]])
def test_well_formed_and_alone(found: Findings) -> None:
    page = finding_page(found, data="data.npz, 300 samples")
    reader = Reader(page)
    assert reader.open == []
    assert page.startswith("<!DOCTYPE html>\n<html lang='en'>\n")
    ours = page.replace(get_plotlyjs(), "")
    assert "://" not in ours
    assert "url(" not in ours
    assert not {"link", "iframe"} & set(reader.seen)
    inside = [one for one in reader.addresses if one != "#answer"]
    assert all(address.startswith("data:image/png;base64,") for address in inside)
    assert all(reader.pictures)
    assert "data.npz, 300 samples" in reader.text


def test_only_our_scripts_may_run() -> None:
    page = finding_page([SHIFT])
    figures, *scripts = Reader(page).scripts
    assert scripts[0] == get_plotlyjs()
    assert len(scripts) == 2
    prints = [base64.b64encode(hashlib.sha256(one.encode()).digest()).decode() for one in scripts]
    allowed = " ".join(f"'sha256-{one}'" for one in prints)
    assert f"default-src 'none'; script-src {allowed}; style-src" in page
    assert list(json.loads(figures)) == ["plot-1"]
    nothing = finding_page(Findings([SWAP]))
    assert "<script" not in nothing
    assert "script-src 'none'" in nothing
    assert len(nothing) < 20_000


def test_everything_is_said() -> None:
    reader = Reader(finding_page(FOUND))
    text = reader.text.replace("\N{NO-BREAK SPACE}", " ")
    for finding in FOUND:
        assert finding.name in text
    for said in (
        "Confirmed: cyclic shift of a < b & c.",
        "The group Z(4) of 4 elements. Found by linear colours.",
        "On 300 samples set aside, the symmetry costs 0.4 % of what can be learned, and with 95 % "
        "confidence it costs no more than 2.1 %. A symmetry may cost up to 5 %",
        "p = 3.1 × 10⁻⁵",
        "Not confirmed: swap.",
        "p = 0.42",
        "(p < 10⁻⁶): ignored columns",
        "a note: of 3 words, more or less",
        "all swaps",
        "1.25 seconds",
        "Findings.load('findings')",
    ):
        assert said in text
    weights = "4 × 4 weights of a linear map with Z(4), cyclic shift, in 4 colours"
    assert reader.pictures == [
        *(weights, weights),  # the plot, and the still picture where no script runs
        "cost 0.4 %, margin 5 %",
        "what each symmetry costs: Z(4), cyclic shift 0.4 %, confirmed; S(2), a swap 30 %, not "
        "confirmed; Z(4) −1.2 %, not confirmed",
        "cost 30 %, margin 5 %",
    ]


def test_what_is_not_there_is_not_shown() -> None:
    text = Reader(finding_page(Findings([SWAP], ["all swaps"]))).text
    assert "No symmetry was found" in text
    assert "None that the data confirm" in text
    assert "How to use the model" not in text
    assert "trivially" not in text
    nothing = Reader(finding_page(Findings())).text
    assert "No symmetry was found" in nothing
    assert "What was tried" not in nothing
    assert "How sure is it?" not in nothing
    assert "None but what holds trivially" in Reader(finding_page(Findings(trivial=[UNUSED]))).text
    assert "No symmetry was found" not in Reader(finding_page([SHIFT])).text


def test_the_surest_come_first() -> None:
    text = Reader(finding_page([SWAP, SHIFT])).text
    assert text.index(SHIFT.name) < text.index(SWAP.name)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"interval": (-0.2, -0.1), "effect": -0.15}, "it saves no less than 10 %"),
        ({"approximate": True}, "Confirmed, approximately: cyclic shift"),
        ({"order": None, "dimension": 3}, "The group Z(4) of dimension 3."),
        ({"order": 1}, "Weights are shared although no group moves"),
        ({"order": 3_628_800}, "of 3,628,800 elements"),
        # Stirling's formula: log10 2000! = 5735.52
        ({"order": math.factorial(2000)}, "of 3.3 × 10⁵⁷³⁵ elements"),
        ({"p_value": 0.04}, "p = 0.04"),
        ({"p_value": 9.97e-5}, "p = 1.0 × 10⁻⁴"),
        ({"p_value": 9.4e-5}, "p = 9.4 × 10⁻⁵"),
        ({"p_value": 0.0}, "p < 10⁻⁶"),
    ],
)
def test_words_of_a_finding(changes: dict[str, Any], words: str) -> None:
    text = Reader(finding_page([SHIFT.with_values(**changes)])).text
    assert words in text.replace("\N{NO-BREAK SPACE}", " ")


def test_long_texts_of_groups_are_cut() -> None:
    def shown(group: str) -> tuple[str, str]:
        page = finding_page([SHIFT.with_values(group=group)])
        found = re.search(r"The group (?:<span title='(.*?)'>)?(.*?)(?:</span>)? of 4 el", page)
        assert found is not None
        assert Reader(page).open == []
        return unescape(found[1] or ""), unescape(found[2])

    numbers = "conjugate(SO13p*SO11p,[[" + ",".join(["0.7071067811865476"] * 200)
    assert shown(numbers[:100]) == ("", numbers[:100])
    assert shown(numbers[:101]) == (numbers[:101], numbers[:99] + "…")
    assert shown(numbers[:2000]) == (numbers[:2000], numbers[:99] + "…")
    assert shown(numbers) == (numbers[:1999] + "…", numbers[:99] + "…")
    attack = "'><script>" * 20
    assert shown(attack) == (attack, attack[:99] + "…")
    assert finding_page([SHIFT.with_values(group=attack)]).count("<script") == 3


@pytest.mark.parametrize("effect", [5.5e-12, -5.5e-12, 9.9e-6, -9.9e-6])
def test_negligible_costs_have_neither_digits_nor_sign(effect: float) -> None:
    tiny = SHIFT.with_values(effect=effect, interval=(-1e-11, effect))
    reader = Reader(finding_page(Findings([tiny], [{"name": "Z(4)", "effect": effect}])))
    text = reader.text.replace("\N{NO-BREAK SPACE}", " ")
    assert "symmetry costs less than 0.001 % of what can be learned, and with 95 % conf" in text
    assert "confidence it costs less than 0.001 %. A symmetry may cost" in text
    assert reader.pictures[2] == "cost < 0.001 %, margin 5 %"
    assert text.count("< 0.001 %") == 3  # in the picture and in both tables
    assert not re.search(r"e[-−]\d", text)


def test_numbers_have_one_minus_sign() -> None:
    assert percent(-1.1e-5) == "−0.0011 %"
    assert percent(1e-5) == "0.001 %"
    assert percent(-0.0) == percent(0.0) == "0 %"
    assert short_number(-0.25) == "−0.25"
    assert short_number(-1234) == "−1,234"
    assert three_digits(-1.5e-7) == "−1.5e−07"
    page = finding_page([SHIFT.with_values(notes=("loss: ours 1.5e-07, theirs 1",))])
    assert "<td class='number'>1.5e−07</td>" in page


def test_losses_are_bars() -> None:
    page = finding_page([SHIFT])
    widths = [float(width) for width in re.findall(r"style='width:([\d.]+)%'", page)]
    assert widths == [2.5, 5.0, 100.0]
    assert "<h3>Mean loss on the 60 rows held out</h3>" in page
    assert ">model with the symmetry</th>" in page


@pytest.mark.parametrize(
    "note", ["a: b e, c E", "a: b 1.2.3, c 4", "a: b 1e999, c 4", "a: b 0, c 0"]
)
def test_other_notes_stay_words(note: str) -> None:
    assert f"<p class='aside'>{note}</p>" in finding_page([SWAP.with_values(notes=(note,))])


def test_what_was_tried_is_a_table() -> None:
    page = finding_page(FOUND)
    table = page[page.index("What was tried") :]
    heads = re.findall(r"<th scope='col'>(.*?)</th>", table[table.rindex("<table>") :])
    assert heads == ["name", "by coincidence", "cost", "p", "verdict", "own"]
    rows = re.findall(r"<tr>(<td.*?)</tr>", table[table.rindex("<table>") :])
    cells = [re.findall(r"<td.*?>(.*?)</td>", row) for row in rows]
    assert cells[0] == ["Z(4)", "2.5 × 10⁻⁷", "−1.2 %", "0.25", "not confirmed", ""]
    assert cells[1] == ["", "", "–", "", "", "3"]


def cells(page: str, heading: str) -> list[list[str]]:
    """The words of the first table after a heading, row by row."""
    table = page[page.index(f"<h3>{heading}</h3>") :].partition("</table>")[0]
    rows = re.findall(r"<tr.*?>(.*?)</tr>", table)
    return [[unescape(c) for c in re.findall(r"<t[hd].*?>(.*?)</t[hd]>", row)] for row in rows]


def test_a_continuous_symmetry_is_drawn() -> None:
    reader = Reader(finding_page([LORENTZ]))
    turn = "generator 1 of 1, 2 × 2: boost mixing E and p"
    metric = "invariant metric. Signs (+, −). E² − p² stays the same."
    assert reader.pictures == [turn, turn, metric, metric]
    assert "<h3>Generators</h3>" in finding_page([LORENTZ])
    assert "<h3>Generators</h3>" not in finding_page([SHIFT])
    assert "The group SO11p of dimension 1." in reader.text


def test_the_classes_of_actions_are_a_table() -> None:
    page = finding_page([LORENTZ])
    assert cells(page, "Kinds of motion looked for") == [
        ["motions", "verdict", "group", "dimension", "unknowns", "gap", "exact"],
        ["one A on 4 columns (a<b)", "", "", "2", "16", "∞", "no"],
        ["the same A on 2 blocks", "chosen", "SO⁺(1,1)", "1", "4", "14,000", "yes"],
    ]
    marked = re.findall(r"<tr class='chosen'>.*?</tr>", page)
    assert len(marked) == 1
    assert "the same A on 2 blocks" in marked[0]
    assert "Kinds of motion" not in finding_page([SHIFT])


def test_the_discrete_parts_are_a_table() -> None:
    page = finding_page([LORENTZ])
    assert cells(page, "Beyond the continuous group") == [
        ["transformation", "verdict", "p", "cost"],
        ["parity", "holds", "1.0 × 10⁻⁵", "0.1 %"],
        ["swap", "does not hold", "0.5", "40 %"],
        ["flip", "cannot be told", "1", "–"],
        ["turn", "cannot be told", "–", "–"],
    ]
    assert "<td class='number sure' data-head='verdict'>holds</td>" in page
    assert "<td class='number not' data-head='verdict'>does not hold</td>" in page
    assert "Beyond the continuous" not in finding_page([SHIFT])


def test_cells_know_the_heads_of_their_columns() -> None:
    page = finding_page(Findings([LORENTZ], FOUND.tried))
    tables = re.findall(r"<div class='scroll'><table>(.*?)</table></div>", page)
    assert len(tables) == 4
    for table in tables:
        heads = re.findall(r"<th scope='col'>(.*?)</th>", table)
        for row in re.findall(r"<tr[^>]*>(<td.*?)</tr>", table):
            assert re.findall(r"<td[^>]* data-head='(.*?)'>", row) == heads


@pytest.mark.parametrize(
    ("gap", "words"), [(3.14159, "3.1"), (99.6, "100"), (412.2, "410"), (2.5e8, "2.5 × 10⁸")]
)
def test_gaps_are_short(gap: float, words: str) -> None:
    finding = LORENTZ.with_values(classes=({"action": "one A", "gap": gap},))
    assert cells(finding_page([finding]), "Kinds of motion looked for")[1] == ["one A", words]


def test_a_finding_as_it_is_loaded_looks_the_same(tmp_path: Path) -> None:
    finding = LORENTZ.with_values(classes=LORENTZ.classes[1:])
    page = finding_page([Finding.load(finding.save(tmp_path))])
    assert page == finding_page([finding])


def test_words_of_the_user_are_escaped() -> None:
    attack = "'\"><script>alert(1)</script>"
    named = Finding.of(
        attack,
        attack,
        attack,
        attack,
        notes=(attack, f"{attack}: {attack} 1, b 2"),
        labels=np.array([[0]]),
        confirmed=True,
        model=nn.Linear(1, 1),
        input_names=("<a>&",),
        output_names=("<b>&",),
    )
    moving = Finding.of(
        attack,
        attack,
        generators=[[[1]]],
        metric=[[1]],
        coordinates=(attack,),
        classes=({"action": attack, "note": attack, "title": attack, "chosen": attack},),
        discrete=({"name": attack, "p_value": attack, "holds": attack, "testable": False},),
    )
    page = finding_page(
        Findings(
            [named, moving, Finding.of("trivial", "S(2)", "", "", trivial=attack)],
            [attack, {attack: attack}],
            notes=[attack],
        ),
        title=attack,
        data=attack,
        folder=attack,
    )
    reader = Reader(page)
    assert page.count("<script") == len(reader.scripts) == 3
    assert page.count("</script") == 3
    assert reader.open == []
    assert reader.text.count("<script>alert(1)</script>") >= 18
    assert "<a>&" in reader.text
    assert "<b>&" in reader.text


def test_pictures_show_the_partition_and_the_effect() -> None:
    page = finding_page([SHIFT])
    seen = pixels(page)
    labels = SHIFT.labels
    assert labels is not None
    same = (seen[:, :, None, None] == seen[None, None]).all(-1)
    assert np.array_equal(same, labels[:, :, None, None] == labels[None, None])
    dot = float(re.findall(r"cx='([\d.]+)'", page)[0])
    zero, margin = map(float, re.findall(r"M([\d.]+) 20v", page)[:2])
    start, end = map(float, re.findall(r"M([\d.]+) 38H([\d.]+)", page)[0])
    shares = (np.array([dot, start, end]) - zero) / (margin - zero)
    np.testing.assert_allclose(shares, np.array([0.004, -0.01, 0.021]) / 0.05, atol=0.002)


def test_the_block_of_most_weights_is_grey() -> None:
    band = np.eye(6, dtype=int) + 2 * np.eye(6, k=1, dtype=int)
    seen = pixels(finding_page([SHIFT.with_values(labels=band)])).astype(int)
    spread = seen.max(-1) - seen.min(-1)
    assert (spread[band == 0] < 10).all()
    assert (spread[band > 0] > 50).all()
    assert np.ptp(pixels(finding_page([SHIFT.with_values(labels=np.zeros(4, int))]))) > 50


def test_missing_weights_are_white() -> None:
    banded = Finding.of("band", "Z(2)", "", "", labels=np.array([[0, -1], [-1, 0]]))
    seen = pixels(finding_page([banded]))
    assert (seen[0, 1] == 255).all()
    assert not (seen[0, 0] == 255).all()


def axis(page: str, turned: bool) -> dict[str, float]:
    """Names along an axis, and where they stand."""
    pattern = (
        r"translate\(([\d.]+) [\d.]+\) rotate\(-90\)'>(.*?)</text>"
        if turned
        else r"y='([\d.]+)' text-anchor='end'>((?!0 %).*?)</text>"
    )
    return {name: float(place) for place, name in re.findall(pattern, page)}


def test_axes_have_names() -> None:
    labels = np.arange(6).reshape(2, 3)
    page = finding_page([Finding.of("", "", "", "", labels=labels)])
    assert list(axis(page, True)) == ["x0", "x1", "x2"]
    assert list(axis(page, False)) == ["y0", "y1"]
    corner = "temperature at the corner, level"
    long = tuple(f"{corner} {place}" for place in range(3))
    named = Finding.of("", "", "", "", labels=labels, input_names=long, output_names=("up", "down"))
    across, down = axis(finding_page([named]), True), axis(finding_page([named]), False)
    assert list(down) == ["up", "down"]
    assert [name[-1] for name in across] == ["0", "1", "2"]
    assert all(len(name) <= 18 and name.startswith("temp") for name in across)
    places = list(across.values())
    assert np.diff(places) == pytest.approx(28, abs=0.2)
    assert max(down.values()) > min(down.values())


def test_many_names_do_not_overlap() -> None:
    for count in (40, 400):
        page = finding_page([Finding.of("", "", "", "", labels=np.arange(count))])
        places = list(axis(page, True).values())
        assert min(np.diff(places)) >= 12.9
        assert len(places) >= 40
        assert max(map(float, re.findall(PLACES, page))) < 700


def test_combinations_of_classes_have_no_names() -> None:
    symmetry = Symmetry(S(4), V, 3 * Scalar)
    labels = np.repeat([[0], [1]], 4, axis=1)
    page = finding_page([Finding.of("", "", "", "", symmetry=symmetry, labels=labels)])
    assert list(axis(page, True)) == ["x0", "x1", "x2", "x3"]
    assert list(axis(page, False)) == [""]


def test_an_unbounded_interval_stays_in_the_picture() -> None:
    unbounded = Finding.of(
        "S(2)", "S(2)", "swap", "swaps", effect=2.0, samples=20, interval=(-np.inf, np.inf)
    )
    page = finding_page([unbounded])
    places = [float(x) for x in re.findall(PLACES, page)]
    places += [float(x) for pair in re.findall(r"M([-\d.]+) 38H([-\d.]+)", page) for x in pair]
    assert min(places) >= 0
    assert max(places) <= 330
    assert "no more than" not in page
    silent = finding_page([Finding.of("S(2)", "S(2)", "swap", "swaps", samples=20)])
    assert "On 20 samples set aside, nothing can be learned." in silent
    assert "<svg" not in silent


def saved(folder: Path, symmetry: Symmetry, labels: np.ndarray | None) -> Finding:
    """A finding with a random model, saved."""
    spec = {"kind": "standardised", "model": {"kind": "emlp", "channels": 8, "layers": 1}}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = build_model(spec, symmetry).eval()
    finding = Finding.of(
        "S(3),\nall positions",
        "S(3)",
        "all",
        "swaps",
        confirmed=True,
        p_value=1e-4,
        symmetry=symmetry,
        labels=labels,
        model=model,
        model_spec=spec,
    )
    Findings([finding]).save(folder)
    return finding


def test_the_code_runs(tmp_path: Path) -> None:
    finding = saved(tmp_path / "found", Symmetry(S(3), V, Scalar), np.zeros((1, 3), int))
    page = write_finding_page([finding], tmp_path / "found" / "report.html").read_text("utf-8")
    assert "sequences" not in code(page)
    moved = finding.with_values(generators=[[[1]]])
    assert "sequences" not in code(finding_page([moved]))
    names: dict[str, Any] = {}
    exec(code(page), names)
    assert finding.model is not None
    with torch.no_grad():
        torch.testing.assert_close(names["y"], finding.model(names["x"]))
    assert names["x"].shape == (5, 3)


def test_the_code_for_sequences(tmp_path: Path) -> None:
    finding = saved(tmp_path, Symmetry(S(3), 2 * V, Scalar), None)
    lines = code(finding_page([finding], folder=str(tmp_path)))
    names: dict[str, Any] = {}
    exec(lines, names)
    call = lines.rpartition(": ")[2]
    sequences = torch.arange(24.0).sin().reshape(4, 3, 2)
    first, moved = (eval(call, {**names, "x": x}) for x in (sequences, sequences[:, [2, 0, 1]]))
    assert first.std() > 1e-3
    torch.testing.assert_close(first, moved)


def test_the_file(tmp_path: Path) -> None:
    path = write_finding_page(FOUND, tmp_path / "page.html", title="A title")
    assert path.read_text(encoding="utf-8") == finding_page(FOUND, title="A title")
    assert [p.name for p in tmp_path.iterdir()] == ["page.html"]
    with pytest.raises(ValueError, match=r"expected a page file that ends in \.html, got"):
        write_finding_page(FOUND, tmp_path / "page.pdf")
    with pytest.raises(ValueError, match=r"expected an existing folder"):
        write_finding_page(FOUND, tmp_path / "missing" / "page.html")


def test_findings_beside_the_page_are_loaded_from_there(tmp_path: Path) -> None:
    Findings().save(tmp_path)
    page = write_finding_page([SHIFT], tmp_path / "page.html").read_text("utf-8")
    assert f"Findings.load({str(tmp_path)!r})" in code(page)
    page = write_finding_page([SHIFT], tmp_path / "page.html", folder="there").read_text("utf-8")
    assert "Findings.load('there')" in code(page)


def test_a_soft_model_is_compared_in_a_table() -> None:
    told = SoftComparison(0.5, 0.4, 0.3, 0.2, 0.02, 0.1, 0.03, 1e-9, 77)
    near = SWAP.with_values(approximate=True, margin=0.5, soft=SoftOffer(told, nn.Linear(6, 1)))
    page = finding_page(Findings(nearly=[near]), folder="here")
    text = Reader(page).text
    assert "No symmetry was found" in text
    assert text.index("What holds nearly") < text.index("Holds nearly: swap.")
    assert "approximately" not in text
    assert "mean losses on 77 samples set aside" in text
    assert "p < 10⁻⁶" in text
    rows = cells(page, "A soft model")[1:]
    assert rows == [
        ["soft model", "0.3", "", ""],
        ["strict model", "0.4", "0.1", "0.03"],
        ["free predictor", "0.5", "0.2", "0.02"],
    ]
    assert "model = found.nearly[0].soft.model" in code(page)
    assert "torch.randn(5, 6)" in code(page)


def test_a_confirmed_symmetry_shows_its_soft_model_in_its_card() -> None:
    told = SoftComparison(0.5, 0.4, 0.3, 0.2, 0.02, 0.1, 0.03, 0.04, 77)
    page = finding_page(Findings([SHIFT.with_values(approximate=True, soft=SoftOffer(told))]))
    card = page[page.index("<article>") : page.index("</article>")]
    assert "Confirmed, approximately:" in card
    assert "A soft model" in card
    assert "p = 0.04" in card
    assert "What holds nearly" not in page
    assert "model = found.best.model" in code(page)
