"""Pictures of generators and metrics: the matrix can be read back, and the words are true."""

from __future__ import annotations

import re
from html import unescape
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from scipy.linalg import expm

from isotropy.discovery import Finding
from isotropy.report import finding_page

NAMES = ("E", "px", "py", "pz")


def rotations(metric: list[float]) -> np.ndarray:
    """A basis of the A with Aᵀ M + M A = 0 for a metric of signs."""
    found = []
    for i, j in combinations(range(len(metric)), 2):
        a = np.zeros((len(metric), len(metric)))
        a[i, j], a[j, i] = -metric[j], metric[i]
        found.append(a)
    return np.array(found)


def continuous(generators: Any = None, **fields: Any) -> Finding:
    return Finding.of("G", "G", "moves", "generators", generators=generators, **fields)


LORENTZ = continuous(
    rotations([1, -1, -1, -1]), metric=np.diag([1.0, -1, -1, -1]), coordinates=NAMES
)


def part(finding: Finding, heading: str) -> str:
    """What a finding's card has below a heading; nothing where it has no such heading."""
    page = finding_page([finding.with_values(confirmed=True)])
    card = page.partition("<article>")[2].partition("</article>")[0]
    _, found, rest = card.partition(f"<h3>{heading}</h3>")
    return found and rest.partition("<h3>")[0]


def generator_pictures(finding: Finding) -> str:
    return part(finding, "Generators")


def metric_picture(finding: Finding) -> str:
    return part(finding, "Invariant metric")


def shown(picture: str) -> np.ndarray:
    """The matrix that the colours of a picture show, in units of its largest entry."""
    frame = re.search(r"'M0 0h(\d+)v(\d+)h-\d+z[^']*' class='lines'", picture)
    assert frame is not None
    matrix = np.zeros((int(frame[2]), int(frame[1])))
    for cells, colour, opacity in re.findall(
        r"<path d='([^']*)' fill='var\(--(plus|minus)\)' opacity='([\d.]+)'", picture
    ):
        for column, row in re.findall(r"M(\d+) (\d+)h1v1h-1z", cells):
            matrix[int(row), int(column)] = float(opacity) * (1 if colour == "plus" else -1)
    return matrix


def pictures(html: str) -> list[str]:
    return re.findall(r"<svg.*?</svg>", html)


def captions(html: str) -> list[str]:
    found = re.findall(r"<figcaption>(.*?)</figcaption>", html)
    return [unescape(re.sub(r"<.*?>", "", caption)) for caption in found]


def texts(picture: str) -> list[str]:
    return [unescape(text) for text in re.findall(r"<text[^>]*>(.*?)</text>", picture)]


def test_cells_show_the_matrix() -> None:
    matrices = np.random.default_rng(0).normal(size=(3, 7, 7))
    matrices[:, 2:4] = 0
    for picture, matrix in zip(
        pictures(generator_pictures(continuous(matrices))), matrices, strict=True
    ):
        seen = shown(picture)
        assert np.array_equal(np.sign(seen), np.sign(matrix))
        assert np.abs(seen - matrix / np.abs(matrix).max()).max() <= 0.1


def test_rounding_errors_are_not_shown() -> None:
    turn = np.array([[1e-14, -1.0], [1.0, -1e-14]])
    html = generator_pictures(continuous([turn], coordinates=("x", "y")))
    (picture,) = pictures(html)
    assert np.array_equal(shown(picture), np.round(turn))
    assert captions(html) == ["A rotates x into y"]


def test_lorentz() -> None:
    html = generator_pictures(LORENTZ)
    assert captions(html) == [
        "A₁ boost mixing E and px",
        "A₂ boost mixing E and py",
        "A₃ boost mixing E and pz",
        "A₄ rotates py into px",
        "A₅ rotates pz into px",
        "A₆ rotates pz into py",
    ]
    assert "mix of these 6" in html
    first = pictures(html)[0]
    assert "role='img'" in first
    assert "aria-label='generator 1 of 6, 4 × 4: boost mixing E and px'" in first
    assert texts(first)[:8] == [*NAMES, *NAMES]
    assert texts(first)[8:] == ["0", "1", "0", "0", "1", *"0" * 11]


def test_affine_pictures_have_a_column_for_the_constant() -> None:
    plane = np.zeros((3, 3, 3))
    plane[0, 0, 2] = plane[1, 1, 2] = 1.0
    plane[2, :2, :2] = [[0, -1], [1, 0]]
    html = generator_pictures(continuous(plane, coordinates=("x", "y")))
    assert "a translation" in html
    assert captions(html) == ["A₁ adds to x", "A₂ adds to y", "A₃ rotates x into y"]
    for picture, matrix in zip(pictures(html), plane, strict=True):
        assert np.array_equal(shown(picture), matrix[:2])
        assert texts(picture)[:5] == ["x", "y", "x", "y", "1"]
    assert "a translation" not in generator_pictures(LORENTZ)
    rounded = continuous(plane + 1e-17, coordinates=("x", "y"))
    assert captions(generator_pictures(rounded)) == captions(html)
    # a last row that moves is no constant, whatever the names say
    projective = continuous(plane.transpose(0, 2, 1), coordinates=("x", "y"))
    assert "a translation" not in generator_pictures(projective)
    assert shown(pictures(generator_pictures(projective))[0]).shape == (3, 3)


@pytest.mark.parametrize(("size", "count"), [(9, 36), (10, 45)])
def test_many_generators(size: int, count: int) -> None:
    html = generator_pictures(continuous(rotations([1] * size)))
    assert len(pictures(html)) == 36
    assert f"these {count}" in html
    assert ("Shown are the first 36 of 45" in html) == (count == 45)
    first = pictures(html)[0]
    assert texts(first) == [*(f"x{i}" for i in range(size))] * 2


def test_too_large_to_draw() -> None:
    large = continuous(np.ones((2, 65, 65)), metric=np.eye(65))
    assert "Matrices of 65 × 65 are too large to draw" in generator_pictures(large)
    assert "<svg" not in generator_pictures(large)
    assert metric_picture(large) == ""
    wide = pictures(generator_pictures(continuous(np.ones((1, 64, 64)))))[0]
    places = [float(y) for y in re.findall(r" y='([\d.]+)' text-anchor='end'", wide)]
    assert min(np.diff(places)) >= 12.9
    width = re.search(r"width='([\d.]+)'", wide)
    assert width is not None
    assert float(width[1]) < 200


def test_nothing_where_there_is_nothing() -> None:
    for generators in (None, np.zeros((0, 3, 3))):
        assert generator_pictures(continuous(generators)) == ""
        assert metric_picture(continuous(generators)) == ""


def test_numbers_are_printed_where_they_are_short() -> None:
    def numbers(*entries: float, size: int = 2) -> list[str]:
        matrix = np.zeros((size, size))
        matrix[0, : len(entries)] = entries
        return texts(pictures(generator_pictures(continuous([matrix])))[0])[2 * size :][:2]

    assert numbers(0.5, -1.25) == ["0.5", "−1.25"]
    assert numbers(1, -0.0123456) == ["1", "−0.01"]
    assert numbers(1, 0.0012345) == []
    assert numbers(1, -1, size=6) == ["1", "−1"]
    assert numbers(1, -1, size=7) == []


def test_the_form_of_the_metric_is_invariant() -> None:
    html = metric_picture(LORENTZ)
    (words,) = captions(html)
    assert words == "Signs (+, −, −, −). E² − px² − py² − pz² stays the same."
    code = words.partition(". ")[2].removesuffix(" stays the same.")
    code = code.replace("²", "**2").replace("−", "-")
    rng = np.random.default_rng(0)
    assert LORENTZ.generators is not None
    moved = expm(np.tensordot(0.3 * rng.normal(size=6), LORENTZ.generators, 1))
    x = rng.normal(size=4)
    values = [eval(code, dict(zip(NAMES, v, strict=True))) for v in (x, moved @ x)]
    assert values[0] == pytest.approx(values[1])
    assert np.array_equal(shown(html), LORENTZ.metric)
    assert f"aria-label='invariant metric. {words}'" in html


@pytest.mark.parametrize(
    ("metric", "words"),
    [
        (np.diag([-1.0, 1, 0]), "Signs (−, +, 0). −x0² + x1² stays the same."),
        (np.diag([-0.5, 0, 2.5]), "Signs (−, 0, +). −0.5·x0² + 2.5·x2² stays the same."),
        (np.diag([0.0, -2]), "Signs (0, −). −2·x1² stays the same."),
        (np.zeros((2, 2)), "Signs (0, 0). This form stays the same."),
        (np.eye(7), "Signs (+, +, +, +, +, +, +). This form stays the same."),
        # a hyperbolic plane 2xy, and the square of x + y
        (
            [[0.0, 1, 0], [1, 0, 0], [0, 0, 1]],
            "Signs along its own axes, which mix coordinates: 2 positive, 1 negative. "
            "This form stays the same.",
        ),
        (
            [[1.0, 1], [1, 1]],
            "Signs along its own axes, which mix coordinates: 1 positive, 1 zero. "
            "This form stays the same.",
        ),
    ],
)
def test_signs_of_metrics(metric: Any, words: str) -> None:
    assert captions(metric_picture(continuous(metric=metric))) == [words]


def test_a_metric_beside_translations_is_of_differences() -> None:
    plane = continuous(np.zeros((1, 3, 3)), metric=np.eye(2), coordinates=("x", "my y"))
    assert captions(metric_picture(plane)) == [
        "Signs (+, +). x² + (my y)² of differences between points stays the same."
    ]


def test_names_are_cut_and_escaped() -> None:
    long = "the temperature at the corner, level 1"
    attack = "<i>'\"&"
    html = generator_pictures(
        continuous([[[0, -1], [1, 0]]], coordinates=(long, attack), metric=np.eye(2))
    )
    html += metric_picture(continuous(metric=np.eye(2), coordinates=(long, attack)))
    cut = "the temp…, level 1"
    assert len(cut) == 18
    assert not any(long in words for words in (*pictures(html), *captions(html)))
    assert "<i>" not in html
    for picture in pictures(html):
        assert texts(picture)[:4] == [cut, attack, cut, attack]
        assert "rotate(-90)" in picture
        label = re.search(r"aria-label='([^']*)'", picture)
        assert label is not None
        assert attack in unescape(label[1])
    assert captions(html)[0] == f"A rotates {cut} into {attack}"


def test_coordinates_without_names() -> None:
    assert captions(generator_pictures(continuous([[[0.0]]]))) == ["A moves nothing"]
    assert captions(generator_pictures(continuous([[[2.0]]]))) == ["A scales x0"]
    unnamed = LORENTZ.with_values(coordinates=("a", "b"))
    assert captions(generator_pictures(unnamed))[0] == "A₁ boost mixing x0 and x1"
