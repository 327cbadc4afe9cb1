"""Motions in words: the words are true of the flow."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import unescape
from typing import Any

import numpy as np
import pytest
from scipy.linalg import expm

from isotropy.discovery import Finding
from isotropy.report import finding_page

XYZ = ["x", "y", "z"]


def in_words(matrix: Any, names: Sequence[str]) -> str:
    """The words below the picture of a generator; with a name too few, its last column is 1."""
    fields: dict[str, Any] = {"generators": [matrix], "coordinates": names, "confirmed": True}
    moving = Finding.of("G", "G", "moves", "by hand", **fields)
    (caption,) = re.findall(r"<figcaption>(.*?)</figcaption>", finding_page([moving]))
    return unescape(caption.removeprefix("<b>A</b> "))


@pytest.mark.parametrize(("start", "end"), [(0, 1), (1, 0), (2, 0), (1, 2)])
def test_a_rotation_moves_the_first_to_the_second(start: int, end: int) -> None:
    a = np.zeros((3, 3))
    a[end, start], a[start, end] = 0.3, -0.3
    moved = expm(a)[:, start]
    assert moved[end] > 0
    assert in_words(a, XYZ) == f"rotates {XYZ[start]} into {XYZ[end]}"


def test_a_rotation_about_an_axis_keeps_it() -> None:
    axis = np.array([2.0, -1.0, 1.0])
    a = np.cross(np.eye(3), axis).T @ -np.eye(3)
    words = in_words(a, XYZ)
    given = re.fullmatch(r"rotates x, y and z about \((.*)\)", words)
    assert given is not None
    stated = np.array([float(value.replace("−", "-")) for value in given[1].split(", ")])
    np.testing.assert_allclose(expm(a) @ stated, stated, atol=1e-12)
    # by the right-hand rule
    aside = np.array([0.0, 1.0, 1.0])
    assert stated @ np.cross(aside, a @ aside) > 0


@pytest.mark.parametrize(
    ("matrix", "words"),
    [
        (np.eye(3), "scales all"),
        (-0.7 * np.eye(3), "scales all"),
        (np.diag([2, 2, 0]), "scales x and y"),
        (np.diag([0, 3, 0]), "scales y"),
        (np.diag([1, -2, 0]), "scales x and y, at rates 1 : −2"),
        (np.diag([-2, 3, 1]), "scales x, y and z, at rates 2 : −3 : −1"),
        ([[0, 0, 5], [0, 0, 0], [0, 0, 0]], "adds z to x"),
        ([[0, 0, 0], [0, 0, 0], [-1, 0, 0]], "adds x to z"),
        ([[0, -4, 0], [1, 0, 0], [0, 0, 0]], "rotates x into y on ellipses"),
        ([[0, 4, 0], [1, 0, 0], [0, 0, 0]], "boost mixing x and y"),
        ([[1, -1, 0], [1, 1, 0], [0, 0, 1]], "rotates x into y, and scales all"),
        ([[0, -1, 0], [1, 0, 0], [0, 0, 2]], "rotates x into y, and scales z"),
        ([[1, -1, 0], [1, 2, 0], [0, 0, 0]], "mixes x and y"),
        ([[1, 1, 0], [0, 2, 1], [0, 0, 3]], "mixes all"),
        (np.zeros((3, 3)), "moves nothing"),
    ],
)
def test_words(matrix: Any, words: str) -> None:
    assert in_words(matrix, XYZ) == words


def test_words_of_several_pairs() -> None:
    def turns(*speeds: float) -> np.ndarray:
        return np.kron(np.diag(speeds), [[0.0, -1.0], [1.0, 0.0]])

    names = list("abcdefghij")
    assert in_words(turns(1, 1), names[:4]) == "rotates a into b, and c into d"
    assert in_words(turns(1, -3), names[:4]) == "rotates a into b, and d into c, at rates 1 : 3"
    assert in_words(turns(1, 1, 1, 1, 1), names) == (
        "rotates a into b, c into d, e into f, and 2 more"
    )
    assert in_words(turns(1, 2, 3, 4, 5), names).endswith("and 2 more, at different rates")
    assert in_words(np.diag([1.0] * 9 + [0]), names) == "scales a, b, c and 6 more"


@pytest.mark.parametrize(
    ("matrix", "words"),
    [
        ([[0, 0, 1], [0, 0, 0], [0, 0, 0]], "adds to x"),
        ([[0, 0, 2], [0, 0, 2], [0, 0, 0]], "adds to x and y"),
        ([[0, 0, 1], [0, 0, -2], [0, 0, 0]], "adds to x and y, at rates 1 : −2"),
        ([[0, -1, 0], [1, 0, 0], [0, 0, 0]], "rotates x into y"),
        ([[1, 0, 0], [0, 0, 1], [0, 0, 0]], "scales x, and adds to y"),
        ([[2, 0, 6], [0, 0, 0], [0, 0, 0]], "scales x about x = −3"),
        ([[1, 0, 0], [0, 1, 0], [0, 0, 0]], "scales all"),
    ],
)
def test_words_of_affine_motions(matrix: Any, words: str) -> None:
    assert in_words(matrix, ["x", "y"]) == words


def test_the_centre_of_a_rotation_stays() -> None:
    a = np.array([[0.0, -1.0, 2.0], [1.0, 0.0, -1.0], [0.0, 0.0, 0.0]])
    words = in_words(a, ["x", "y"])
    given = re.fullmatch(r"rotates x into y about x = (.*) and y = (.*)", words)
    assert given is not None
    centre = np.array([float(given[1]), float(given[2]), 1.0])
    np.testing.assert_allclose(expm(a) @ centre, centre, atol=1e-12)
