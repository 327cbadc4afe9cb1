"""What the page says beyond cards: evidence, curves, layers, examples, several searches."""

from __future__ import annotations

import base64
import io
import json
import math
import re
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from discovery.pieces import ModelComparison
from isotropy.discovery import Finding, Findings
from isotropy.groups import Z
from isotropy.report import finding_page, write_demo_page
from isotropy.report._plots import Plots, plot_text
from isotropy.reps import Symmetry, V

CURVE = ((75, 0.2, 0.9), (150, 0.15, 0.6), (600, 0.1, 0.2))
TOLD = ModelComparison("cross-entropy", 0.1, 0.2, 1.0, 0.01, 300, 600, 0.962, 0.941, CURVE)
SHIFT = Finding.of(
    "Z(3), cyclic shift",
    "Z(3)",
    "cyclic shift of a, b and c",
    "linear colours",
    order=3,
    confirmed=True,
    p_value=3.1e-5,
    effect=0.004,
    interval=(-0.01, 0.021),
    samples=300,
    labels=(np.arange(3) - np.arange(3)[:, None]) % 3,
    comparison=TOLD,
    equivariance_error=2.5e-7,
    certificates={
        "with": {"bound": 0.214, "train_error": 0.1, "message_bits": 312},
        "without": {"bound": 0.441, "train_error": 0.09, "message_bits": 1312},
    },
    input_names=("a", "b", "c"),
)
SWAP = Finding.of("S(2)", "S(2)", "swap", "swaps", p_value=0.4, effect=0.3, samples=9)
LAYERS = tuple(
    {
        "layer": f"layer {k}",
        "type": "conv",
        "conv": 0.75,
        "history": [{"fc": 0.5, "conv": 0.5}, {"fc": 0.25 * k, "conv": 1 - 0.25 * k}],
        "lee": {"translation": 0.125 * k},
    }
    for k in range(3)
)
DEEP = Finding.of(
    "layers", "Z(8)*Z(8)", "shifts", "evidence", order=64, confirmed=True, layers=LAYERS
)


def figures(page: str) -> dict[str, Any]:
    found = re.search(r"<script type='application/json' id='figures'>(.*?)</script>", page)
    assert found is not None
    return dict(json.loads(found[1]))


def section(page: str, heading: str) -> str:
    return page[page.index(f">{heading}") :].partition("</section>")[0]


def cells(table: str) -> list[list[str]]:
    rows = re.findall(r"<tr.*?>(.*?)</tr>", table)
    words = [re.findall(r"<t[hd].*?>(.*?)</t[hd]>", row) for row in rows]
    return [[unescape(re.sub("<.*?>", "", cell)) for cell in row] for row in words]


def test_the_evidence_is_a_table_of_all_findings() -> None:
    page = finding_page(Findings([SWAP, SHIFT], nearly=[SWAP.with_values(name="S(9)")]))
    heads, first, second, third = cells(section(page, "The evidence"))
    assert dict(zip(heads, first, strict=True)) == {
        "symmetry": "Z(3), cyclic shift cyclic shift of a, b and c",
        "verdict": "confirmed p = 3.1 × 10⁻⁵",
        "cost": "0.4 % −1 % to 2.1 %, each limit at 95 %; margin 5 %",
        "loss with / without": "0.1 / 0.2 cross-entropy",
        "classes right with / without": "96.2% / 94.1%",
        "equivariance error": "2.5 × 10⁻⁷",
        "certified risk with / without": "21.4 % / 44.1 %",
    }
    assert second == ["S(2) swap", "not confirmed p = 0.4", "30 % margin 5 %", "", "", "", ""]
    assert third[0] == "S(9) swap"
    assert "312 bits that errs on 10.0 % of rows with the symmetry" in page
    assert "1,312 bits that errs on 9.0 % of rows without" in page
    said = {**(SHIFT.certificates or {}), "verdict": "the symmetry paid for itself"}
    page = finding_page([SHIFT.with_values(certificates=said)])
    assert "Z(3), cyclic shift: the symmetry paid for itself." in page


def test_what_is_not_known_has_no_column() -> None:
    heads = cells(section(finding_page([SWAP]), "The evidence"))[0]
    assert heads == ["symmetry", "verdict", "cost"]
    why = SWAP.with_values(certificates={"reason": "no network has this symmetry"})
    assert "S(2): no certificates, no network has this symmetry." in finding_page([why])
    untested = cells(section(finding_page([SWAP.with_values(samples=0)]), "The evidence"))[1]
    assert untested == ["S(2) swap", "not confirmed", "not tested"]


def test_costs_are_compared_in_a_plot() -> None:
    tried = [
        {"name": "D(3)", "effect": 7.0, "confirmed": False},
        {"name": SHIFT.name, "effect": 0.9},  # is a finding already
        {"name": "unknown", "effect": None},
        "words",
    ]
    plots = figures(finding_page(Findings([SHIFT, SWAP], tried)))
    (plot,) = (one for one in plots.values() if one["data"][-1].get("mode") == "markers")
    dots = plot["data"][-1]
    assert dots["x"] == [0.004, 0.3, 1.5]  # far costs stay in sight, and their words are true
    assert [words.partition("<br>")[2] for words in dots["text"]] == [
        "0.4 %, confirmed",
        "30 %, not confirmed",
        "700 %, not confirmed",
    ]
    assert dots["marker"]["symbol"] == ["circle", "x", "x"]
    assert [line["x"] for line in plot["data"][:-1]] == [[-0.01, 0.021]]
    assert plot["layout"]["shapes"][0]["x1"] == 0.05


def test_the_curve_and_its_numbers() -> None:
    page = finding_page([SHIFT])
    part = section(page, "With fewer rows")
    assert cells(part)[1:] == [["75", "0.2", "0.9"], ["150", "0.15", "0.6"], ["600", "0.1", "0.2"]]
    assert "600 rows: 0.1 with, 0.2 without" in part

    def curve(*points: tuple[int, float, float]) -> Any:
        """The layout of the plot whose lines go over so many rows."""
        told = finding_page([SHIFT.with_values(comparison=replace(TOLD, curve=points))])
        rows = [rows for rows, _, _ in points]
        (plot,) = (one for one in figures(told).values() if one["data"][0].get("x") == rows)
        return plot["layout"]

    flat = curve((10, 0.5, 0.9), (20, 0.4, 0.6))
    assert flat["yaxis"]["range"][0] == 0
    assert flat["shapes"][0]["y0"] == TOLD.constant
    steep = curve((10, 0.05, 0.9), (20, 0.004, 0.6))
    assert steep["yaxis"]["type"] == "log"
    assert steep["yaxis"]["tickvals"] == pytest.approx([0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1])
    assert "With fewer rows" not in finding_page([SHIFT.with_values(comparison=None)])


def test_layers_and_how_they_were_learned() -> None:
    page = finding_page([DEEP])
    assert cells(page[page.index("Layers of the network") :].partition("</table>")[0]) == [
        ["layer", "type", "conv"],
        *(["layer " + str(k), "conv", "0.75"] for k in range(3)),
    ]
    plots = list(figures(page).values())
    assert len(plots) == 4
    for k, plot in enumerate(plots[:3]):
        shares = {line["name"]: line["y"] for line in plot["data"]}
        assert shares == {"fc": [0.5, 0.25 * k], "conv": [0.5, 1 - 0.25 * k]}
        dashes = [line["line"]["dash"] for line in plot["data"]]
        assert len(set(dashes)) == 2  # not by colour alone
    assert plots[3]["data"][0]["y"] == [0, 0.125, 0.25]
    bare = DEEP.with_values(layers=tuple({"layer": "one", "type": "none"} for _ in range(2)))
    assert "<script" not in finding_page([bare])


def examples_of(finding: Finding) -> str:
    """The figure of examples on a finding's page."""
    parts = re.findall(r"<figure class='block'>(.*?)</figure>", finding_page([finding]))
    return "".join(part for part in parts if "Examples from the data" in part)


def pixels(picture: str) -> list[np.ndarray]:
    found = re.findall(r"base64,([^']+)'", picture)
    return [np.asarray(Image.open(io.BytesIO(base64.b64decode(one)))) for one in found]


@pytest.mark.parametrize(
    ("shape", "seen"),
    [((4, 5), (4, 5)), ((1, 4, 5), (4, 5)), ((3, 4, 5), (4, 5, 3)), ((4, 5, 3), (4, 5, 3))],
)
def test_images_are_shown_as_they_are(shape: tuple[int, ...], seen: tuple[int, ...]) -> None:
    examples = np.random.default_rng(0).random((2, 3, *shape))
    finding = SWAP.with_values(examples=examples, layout=replace(SWAP.layout, image=shape))
    picture = examples_of(finding)
    shown = pixels(picture)
    assert [image.shape for image in shown] == [seen] * 6
    given = examples.reshape(6, *shape)
    if shape == (3, 4, 5):
        given = np.moveaxis(given, 1, -1)
    scaled = (given - examples.min()) / np.ptp(examples) * 255
    for image, values in zip(shown, scaled, strict=True):
        assert np.abs(image - values.reshape(seen)).max() <= 0.5 + 1e-9
    assert re.findall("alt='(.*?)'", picture)[:2] == ["example 1 as given", "example 1 moved 1"]


def test_rows_are_bars_or_lines() -> None:
    few = np.array([[[1.0, -2.0, 3.0], [3.0, 1.0, -2.0]]])
    picture = examples_of(SWAP.with_values(examples=few))
    assert len(re.findall("<svg", picture)) == 2
    tops = [
        [float(y) for y in re.findall(r"V([\d.]+)h", svg)]
        for svg in re.findall(r"<svg.*?</svg>", picture)
    ]
    np.testing.assert_allclose(tops[0], (3 - few[0, 0]) / 5 * 44, atol=0.06)
    np.testing.assert_allclose(tops[1], (3 - few[0, 1]) / 5 * 44, atol=0.06)
    channels = np.zeros((1, 2, 6, 2))  # positions, then channels
    lines = examples_of(
        SWAP.with_values(examples=channels, layout=replace(SWAP.layout, channels=2))
    )
    assert len(re.findall("stroke='currentColor'", lines)) == 2 * 2
    assert examples_of(SWAP) == ""


def test_orbits_under_the_pointer() -> None:
    labels = np.array([[5, 7, -1], [7, 5, 5]])
    shared = SHIFT.with_values(
        labels=labels,
        comparison=None,
        model_spec={"kind": "shared linear"},
        input_names=("a", "b", "<c>"),
        output_names=("u", "v"),
    )
    (plot,) = (one for one in figures(finding_page([shared])).values() if "z" in one["data"][0])
    (trace,) = plot["data"]
    assert trace["z"] == [[1, 2, None], [2, 1, 1]]
    assert trace["text"] == [
        [
            "u ← a<br>orbit 1 of 2: 3 equal weights",
            "u ← b<br>orbit 2 of 2: 2 equal weights",
            "u ← &lt;c&gt;<br>no weight",
        ],
        [
            "v ← a<br>orbit 2 of 2: 2 equal weights",
            "v ← b<br>orbit 1 of 2: 3 equal weights",
            "v ← &lt;c&gt;<br>orbit 1 of 2: 3 equal weights",
        ],
    ]
    first, second = trace["colorscale"][0][1], trace["colorscale"][-1][1]
    assert first != second
    assert trace["colorscale"] == [[0, first], [0.5, first], [0.5, second], [1, second]]


def test_a_matrix_is_coloured_by_the_orbits_of_the_group() -> None:
    # labels as a noisy fit gives them: one diagonal is split, two others are joined
    diagonals = (np.arange(5) - np.arange(5)[:, None]) % 5
    noisy = np.where(diagonals == 3, 2, diagonals)
    noisy[1, 0] = 9
    noisy = noisy.astype(np.int64)
    fitted = SHIFT.with_values(labels=noisy, symmetry=Symmetry(Z(5), V, V))
    page = finding_page([fitted])
    shown = np.array(figures(page)["plot-1"]["data"][0]["z"])
    same = shown.ravel()[:, None] == shown.ravel()
    assert np.array_equal(same, diagonals.ravel()[:, None] == diagonals.ravel())
    assert "orbit 1 of 5: 5 equal weights" in page
    # a model that shares by its labels has these
    shared = finding_page([fitted.with_values(model_spec={"kind": "shared linear"})])
    assert len(np.unique(figures(shared)["plot-1"]["data"][0]["z"])) == 5
    assert "orbit 1 of 5: 5 equal weights" in shared
    # where the action on these entries is not known, nothing is said to be equal
    hint = finding_page([fitted.with_values(labels=noisy[:2])])
    assert "colour 1 of 5: 2 alike coefficients" in hint
    assert "could not be told apart" in hint
    assert "equal" not in hint.partition("</figcaption>")[0].rpartition("<figure>")[2]


def test_large_matrices_stay_still_pictures() -> None:
    large = SHIFT.with_values(labels=np.zeros((101, 100), int), comparison=None)
    page = finding_page([large])
    assert "<script" not in page
    assert "101 × 100 weights" in page


def test_plots_are_what_plotly_knows() -> None:
    from plotly.graph_objects import Figure

    lorentz = DEEP.with_values(generators=[[[0, 1], [1, 0]]], metric=[[1, 0], [0, -1]])
    shared = SWAP.with_values(labels=[[0, 1]])
    found = Findings([SHIFT, SWAP, DEEP, lorentz, shared])
    page = json.dumps(figures(finding_page(found)))
    plots = json.loads(re.sub(r"var\(--[a-z]+\)", "#123456", page))
    assert len(plots) == 10
    for plot in plots.values():
        Figure(data=plot["data"], layout=plot["layout"])  # raises where a name or value is unknown
    style = finding_page([])
    for name in set(re.findall(r"var\((--[a-z]+)\)", page)):
        assert f"{name}:" in style


def test_text_of_plots() -> None:
    assert plot_text("&lt;") == "&amp;lt;"
    plots = Plots()
    place = plots.add({"data": [], "layout": {}}, "'><b>", 10)
    assert "aria-label='&#x27;&gt;&lt;b&gt;'" in place
    plots.add({"data": [{"name": "</script><!--"}], "layout": {}}, "", 10)
    scripts, _ = plots.scripts()
    assert scripts.count("</script") == 3
    assert scripts.count("<!--") == 0
    with pytest.raises(ValueError, match="JSON"):
        Plots({"plot-1": {"y": [math.nan]}}).scripts()


def test_how_data_were_read_and_why_it_ended() -> None:
    notes = [f"note {k} < 9" for k in range(4)]
    found = Findings([SHIFT], reading="300 rows", stopped="out of time", notes=notes)
    header = finding_page(found, data="a.csv").partition("</header>")[0]
    assert "<p class='aside'>a.csv · Read as 300 rows.</p>" in header
    assert header.count("out of time") == 1
    assert "4 notes on the search" in header
    assert "note 3 &lt; 9" in header
    answer = re.search(r"<p class='answer'>(.*?)</p>", header)
    assert answer is not None
    assert SHIFT.name in answer[1]
    assert "Ended early" not in finding_page([SHIFT])


def test_rejected_claims_are_folded_away() -> None:
    page = finding_page(Findings([SWAP, SHIFT]))
    part = section(page, "What was tried")
    assert "<details class='rejected'><summary>S(2)</summary>" in part
    assert SHIFT.name not in part
    assert page.index("Confirmed:") < page.index("The evidence") < page.index("Not confirmed:")


def test_several_searches_on_one_page(tmp_path: Path) -> None:
    cases = [("first <b>", Findings([SHIFT])), ("second", Findings([DEEP]), "b.npz")]
    path = write_demo_page(cases, tmp_path / "demo.html", title="A demo", words="two & two")
    page = path.read_text("utf-8")
    assert page.count("<script") == 3
    whole = [(*cases[0], "", "findings"), (*cases[1], "findings")]
    write_demo_page(whole, path, title="A demo", words="two & two")
    assert page == path.read_text("utf-8")
    assert re.findall(r"<a href='(#.*?)'>(.*?)</a>", page) == [
        ("#case-1", "first &lt;b&gt;"),
        ("#case-2", "second"),
    ]
    assert "two &amp; two" in page
    places = re.findall(r"id='(plot-\d+)'", page)
    assert places == [f"plot-{k}" for k in range(1, len(figures(page)) + 1)]
    levels = [int(level) for level in re.findall(r"<h(\d)", page)]
    assert levels.count(1) == 1
    assert max(np.diff(levels)) == 1
    with pytest.raises(ValueError, match=r"expected a page file that ends in \.html, got"):
        write_demo_page(cases, tmp_path / "demo.pdf")
