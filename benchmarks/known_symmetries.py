"""Data of known symmetry through ``isotropy discover FILE``, with no options: how many are right?

    python benchmarks/known_symmetries.py --seed 1 [--only vectors,sets] [--jobs 2] [--json]

Every task is written to a file as a user would have it, of the kinds that discovery looks at:
vectors, blocks of vectors, sequences, sets, images, and of each some without symmetry. A line for
each says what was found and whether it is right: all that is claimed must be true, and the
symmetry that the task was made with must be among it. The last line counts.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

Arrays = dict[str, np.ndarray]
Rng = np.random.Generator


@dataclass(frozen=True)
class Known:
    """A task: how it is made, a pattern that one finding must match, and one for all that may."""

    kind: str
    make: Callable[[Rng], Arrays]
    expected: str  # a pattern of "group | name"; empty where there is no symmetry
    also: str = ""  # what else is true
    suffix: str = ".npz"


TASKS: dict[str, Known] = {}


def task(kind: str, expected: str = "", also: str = "", suffix: str = ".npz"):
    def keep(make: Callable[[Rng], Arrays]) -> Callable[[Rng], Arrays]:
        TASKS[make.__name__.replace("_", " ")] = Known(kind, make, expected, also, suffix)
        return make

    return keep


def random_network(rng: Rng, inputs: int, outputs: int = 1, width: int = 24):
    """A smooth function with no symmetry: two hidden layers, random weights and biases."""
    a, b, c = (
        rng.normal(size=shape) * gain / np.sqrt(shape[0])
        for shape, gain in (
            ((inputs, width), 1.5),
            ((width, width), 1.5),
            ((width, outputs), 1.0),
        )
    )
    shift = rng.normal(size=width)
    return lambda x: np.tanh(np.tanh(x @ a + shift) @ b) @ c


def noisy(rng: Rng, y: np.ndarray, share: float = 0.05) -> np.ndarray:
    return y + share * y.std() * rng.normal(size=y.shape)


# --- vectors


@task("vectors", r"^S\(8\) ", r"^(S\(8\)|O\(8\)|SO\(8\))")
def squares_of_eight(rng: Rng) -> Arrays:
    x = rng.normal(size=(1500, 8))
    return {"x": x, "y": noisy(rng, np.log1p(np.abs(x)).sum(1))}


@task("vectors", r"^S\(4\)\+S\(6\)|^S\(6\)\+S\(4\)")
def two_kinds_of_columns(rng: Rng) -> Arrays:
    x = rng.normal(size=(2000, 10))
    y = np.sin(x[:, :4]).sum(1) * np.cos(x[:, 4:]).sum(1)
    return {"x": x, "y": noisy(rng, y)}


@task("vectors", r"^S?O\(5\)", r"^S\(5\)|O\(5\)")
def length_of_a_vector(rng: Rng) -> Arrays:
    x = rng.normal(size=(1200, 5))
    return {"x": x, "y": noisy(rng, np.sin(np.sqrt((x**2).sum(1))), 0.02)}


@task("vectors", r"O\(2\)")
def turns_about_an_axis(rng: Rng) -> Arrays:
    x = rng.normal(size=(2000, 3))
    y = np.exp(-(x[:, 0] ** 2 + x[:, 1] ** 2) / 2) * (1 + x[:, 2] + 0.5 * x[:, 2] ** 2)
    return {"x": x, "y": noisy(rng, y, 0.02)}


@task("vectors", r"SO13p|O\(1,3\)|SO⁺\(1,3\)|SO\+\(1,3\)", r"O\(3\)|S\(3\)", suffix=".csv")
def interval_of_events(rng: Rng) -> Arrays:
    x = rng.normal(size=(2000, 4))
    y = x[:, 0] ** 2 - (x[:, 1:] ** 2).sum(1)
    columns = dict(zip(("t", "x", "y", "z"), x.T, strict=True))
    return {**columns, "target": noisy(rng, y, 0.01)}


@task("vectors", r"^S\(6\) ")
def largest_of_six(rng: Rng) -> Arrays:
    x = rng.uniform(size=(3000, 6))
    return {"x": x, "y": x.max(1)}


@task("vectors", r"^Z\(2\) |revers|reflection")
def read_backwards(rng: Rng) -> Arrays:
    f = random_network(rng, 6)
    x = rng.normal(size=(4000, 6))
    return {"x": x, "y": noisy(rng, (f(x) + f(x[:, ::-1]))[:, 0], 0.02)}


@task("vectors", r"^S?O\(3\)", r"O\(3\)|S\(3\)")
def inside_a_ball(rng: Rng) -> Arrays:
    x = rng.normal(size=(3000, 3))
    return {"x": x, "y": ((x**2).sum(1) < 2.4).astype(int)}


@task("vectors", r"^Z\(10\) ", r"^D\(10\)")
def steps_around_a_ring(rng: Rng) -> Arrays:
    x = rng.normal(size=(3000, 10))
    y = (x**2 * np.roll(x, -1, 1)).sum(1)
    return {"x": x, "y": noisy(rng, y)}


@task("vectors", r"transl|differences|R\^|T\(1\)|1-parameter|shift")
def differences_of_columns(rng: Rng) -> Arrays:
    x = rng.normal(size=(2000, 4))
    d = x[:, 1:] - x[:, :-1]
    return {"x": x, "y": noisy(rng, np.sin(d[:, 0]) * d[:, 1] + d[:, 2] ** 2, 0.01)}


@task("vectors")
def random_function(rng: Rng) -> Arrays:
    x = rng.normal(size=(3000, 8))
    return {"x": x, "y": noisy(rng, random_network(rng, 8)(x)[:, 0])}


@task("vectors")
def random_classes(rng: Rng) -> Arrays:
    x = rng.normal(size=(3000, 6))
    return {"x": x, "y": random_network(rng, 6, 3)(x).argmax(1)}


@task("vectors")
def pure_noise(rng: Rng) -> Arrays:
    return {"x": rng.normal(size=(1000, 9)), "y": rng.normal(size=1000)}


@task("vectors", suffix=".csv")
def a_real_table(_: Rng) -> Arrays:
    from sklearn.datasets import load_diabetes

    data = load_diabetes()
    return {**dict(zip(data.feature_names, data.data.T, strict=True)), "target": data.target}


@task("vectors", suffix=".csv")
def a_real_table_of_classes(_: Rng) -> Arrays:
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer()
    names = [name.replace(" ", "_") for name in data.feature_names]
    return {**dict(zip(names, data.data.T, strict=True)), "target": data.target}


@task("vectors")
def different_weights(rng: Rng) -> Arrays:
    x = rng.normal(size=(1000, 7))
    return {"x": x, "y": noisy(rng, x @ np.array([1.0, -2.0, 0.5, 3.1, 1.6, -0.8, 2.3]), 0.1)}


# --- blocks of vectors


@task("blocks", r"O\(3\)", r"S\(|Z\(")
def moment_of_inertia(rng: Rng) -> Arrays:
    m, r = rng.uniform(0.5, 1.5, (2000, 5)), rng.normal(size=(2000, 5, 3))
    y = np.einsum("nk,nk,ij->nij", m, (r**2).sum(2), np.eye(3))
    y -= np.einsum("nk,nki,nkj->nij", m, r, r)
    return {"x": np.concatenate([m, r.reshape(2000, 15)], 1), "y": y.reshape(2000, 9)}


@task("blocks", r"O\(3\)|SE\(3\)|E\(3\)", r"^S\(4\)|transl|wreath")
def energy_of_four_points(rng: Rng) -> Arrays:
    x = rng.normal(size=(3000, 4, 3))
    d = np.sqrt(((x[:, :, None] - x[:, None]) ** 2).sum(3) + 0.3)
    return {"x": x, "y": noisy(rng, (1 / d).sum((1, 2)), 0.02)}


@task("blocks", r"O\(3\)", r"SL\(|Sp|GL|order 6")
def torque(rng: Rng) -> Arrays:
    r, f = rng.normal(size=(2, 1500, 3))
    return {"x": np.concatenate([r, f], 1), "y": noisy(rng, np.cross(r, f), 0.02)}


@task("blocks", r"SO13p|O\(1,3\)|O13", r"^S\(2\)|^Z\(2\)|translations R", suffix=".csv")
def invariant_mass(rng: Rng) -> Arrays:
    p = rng.normal(size=(2000, 2, 3))
    energy = np.sqrt(rng.uniform(0.3, 2.0, (2000, 2)) + (p**2).sum(2))
    total = np.concatenate([energy[..., None], p], 2).sum(1)
    mass = np.sqrt(total[:, 0] ** 2 - (total[:, 1:] ** 2).sum(1))
    columns = {}
    for k in range(2):
        columns[f"E{k + 1}"] = energy[:, k]
        columns |= {f"p{axis}{k + 1}": p[:, k, i] for i, axis in enumerate("xyz")}
    return {**columns, "mass": mass}


@task("blocks", r"SO13p|O\(1,3\)|O13", r"S\(2\)|Z\(2\)")
def scattering_of_four_momenta(rng: Rng) -> Arrays:
    x = rng.normal(size=(3000, 4, 4))
    g = np.diag([1.0, -1, -1, -1])
    dots = np.einsum("nai,ij,nbj->nab", x, g, x)
    y = dots[:, 0, 1] * dots[:, 2, 3] + dots[:, 0, 2] * dots[:, 1, 3]
    return {"x": x.reshape(3000, 16), "y": noisy(rng, y, 0.01)}


@task("blocks", r"O\(2\)", r"S\(|Z\(")
def planar_angles(rng: Rng) -> Arrays:
    x = rng.normal(size=(3000, 3, 2))
    a, b, c = x.transpose(1, 0, 2)
    y = (a * b).sum(1) + np.tanh((b * c).sum(1)) * (a**2).sum(1)
    return {"x": x.reshape(3000, 6), "y": noisy(rng, y, 0.02)}


@task("blocks", r"O\(3\)", r"transl|SE\(3\)|E\(3\)|S\(2\)|Z\(2\)", suffix=".csv")
def attraction(rng: Rng) -> Arrays:
    a, b = rng.normal(size=(2, 3000, 3))
    d = b - a
    force = d / ((d**2).sum(1, keepdims=True) + 0.5) ** 1.5
    columns = {f"a{axis}": a[:, i] for i, axis in enumerate("xyz")}
    columns |= {f"b{axis}": b[:, i] for i, axis in enumerate("xyz")}
    return {**columns, "target": np.sqrt((force**2).sum(1))}


@task("blocks")
def blocks_without_symmetry(rng: Rng) -> Arrays:
    x = rng.normal(size=(3000, 3, 3))
    f = random_network(rng, 9)
    return {"x": x, "y": noisy(rng, f(x.reshape(3000, 9))[:, 0])}


# --- sequences


@task("sequences", r"^Z\(24\) ")
def circular_filter(rng: Rng) -> Arrays:
    x = rng.normal(size=(1500, 24, 1))
    h = np.tanh(0.8 * x + 1.5 * np.roll(x, 1, 1) - 0.7 * np.roll(x, 3, 1))
    return {"x": x, "y": noisy(rng, h)}


@task("sequences", r"^Z\(16\) |^D\(16\) ")
def slow_or_fast(rng: Rng) -> Arrays:
    n, y = 2400, rng.integers(3, size=2400)
    t, phase = np.arange(16), rng.uniform(0, 2 * np.pi, n)
    x = np.sin(2 * np.pi * (y + 1)[:, None] * t / 16 + phase[:, None])
    return {"x": x + 0.4 * rng.normal(size=x.shape), "y": y}


@task("sequences", r"^Z\(12\) |^D\(12\) ", r"SO11p|SO⁺\(1,1\)")
def a_motif_somewhere(rng: Rng) -> Arrays:
    x = rng.normal(size=(4000, 12, 2))
    h = x[..., 0] * np.roll(x[..., 1], 1, 1)
    return {"x": x, "y": noisy(rng, np.tanh(h).sum(1))}


@task("sequences", r"^Z\(32\) ")
def channels_come_first(rng: Rng) -> Arrays:
    x = rng.normal(size=(1500, 1, 32))
    h = 1.2 * x - np.roll(x, 1, 2) + 0.5 * np.roll(x, 4, 2)
    return {"x": x, "y": noisy(rng, h)}


@task("sequences", r"^D\(9\) ")
def either_way_around(rng: Rng) -> Arrays:
    x = rng.normal(size=(1500, 9))
    h = x + 0.7 * (np.roll(x, 1, 1) + np.roll(x, -1, 1))
    return {"x": x, "y": noisy(rng, h, 0.1)}


@task("sequences", r"partial shift")
def filter_with_ends(rng: Rng) -> Arrays:
    x = rng.normal(size=(1500, 20))
    y = sum(w * x[:, k : k + 16] for k, w in enumerate((0.5, 2.0, -1.0, 1.3, 0.4)))
    return {"x": x, "y": noisy(rng, y, 0.1)}


@task("sequences")
def weights_that_fade(rng: Rng) -> Arrays:
    x = rng.normal(size=(3000, 14, 1))
    w = np.exp(-np.arange(14) / 5)
    return {"x": x, "y": noisy(rng, np.tanh((x[..., 0] * w).cumsum(1)).sum(1))}


# what is added is the same at three places each
@task("sequences", "", r"^S\(3\)\+S\(3\)\+S\(3\)\+S\(3\)")
def sequence_classes_by_place(rng: Rng) -> Arrays:
    y = rng.integers(4, size=3000)
    x = rng.normal(size=(3000, 16, 2))
    for k in range(4):
        x[y == k, 4 * k : 4 * k + 3, k % 2] += 1.5
    return {"x": x, "y": y}


# --- sets


@task("sets", r"^S\(10\) ")
def sum_over_points(rng: Rng) -> Arrays:
    x = rng.normal(size=(3000, 10, 3))
    y = np.tanh(x[..., 0] * x[..., 1] + x[..., 2]).sum(1)
    return {"x": x, "y": noisy(rng, y)}


@task("sets", r"^S\(7\) ")
def farthest_point(rng: Rng) -> Arrays:
    x = rng.uniform(-1, 1, size=(4000, 7, 2))
    return {"x": x, "y": (x[..., 0] + 0.5 * x[..., 1]).max(1)}


@task("sets", r"^S\(6\) ", r"transl|O\(2\)|GL|SL|aff")
def distance_from_the_mean(rng: Rng) -> Arrays:
    x = rng.normal(size=(2000, 6, 2))
    return {"x": x, "y": noisy(rng, np.tanh(x - x.mean(1, keepdims=True)), 0.02)}


@task("sets", r"^S\(8\) ")
def set_classes(rng: Rng) -> Arrays:
    x = rng.normal(size=(4000, 8, 2))
    score = (x[..., 0] ** 2 * (1 + x[..., 1])).mean(1)
    return {"x": x, "y": np.digitize(score, np.quantile(score, [1 / 3, 2 / 3]))}


@task("sets", r"^S\(5\)\+S\(5\)")
def two_teams(rng: Rng) -> Arrays:
    x = rng.normal(size=(3000, 10))
    y = np.abs(x[:, :5]).sum(1) - np.exp(x[:, 5:] / 2).sum(1)
    return {"x": x, "y": noisy(rng, y)}


@task("sets")
def every_element_its_own_weight(rng: Rng) -> Arrays:
    x = rng.normal(size=(3000, 7, 2))
    w = rng.uniform(0.2, 2.0, size=7)
    # without the cosine there would be x₀ ↦ tx₀, 1 + x₁ ↦ (1 + x₁)/t
    f = np.tanh(x[..., 0] * x[..., 1] + x[..., 0]) + 0.4 * np.cos(x[..., 1])
    return {"x": x, "y": noisy(rng, (f * w).sum(1))}


# --- harder ones: small, wide, noisy, flattened, almost symmetric, without symmetry


@task("vectors", r"^S\(5\) ")
def sum_of_digits(rng: Rng) -> Arrays:
    x = rng.integers(10, size=(1200, 5)).astype(float)
    return {"x": x, "y": np.sqrt(x.sum(1)) + (x == 7).sum(1)}


@task("vectors", r"^S\(9\) ")
def median_of_nine(rng: Rng) -> Arrays:
    x = rng.normal(size=(6000, 9))
    return {"x": x, "y": np.median(x, 1)}


@task("vectors", r"^S\(3\) ", r"S\(3\)")
def three_particles_in_a_row(rng: Rng) -> Arrays:
    x = rng.normal(size=(2500, 3, 2))
    y = np.tanh(x[..., 0] * x[..., 1] + x[..., 0]).sum(1) + 0.3 * x[..., 1].prod(1)
    return {"x": x.reshape(2500, 6), "y": noisy(rng, y)}


@task("vectors", r"^S\(4\) ", r"S\(4\)|D\(4\)")
def charges_by_coordinate(rng: Rng) -> Arrays:
    q, r = rng.normal(size=(2, 3000, 4))
    i, j = np.triu_indices(4, 1)
    y = (q[:, i] * q[:, j] * np.exp(-((r[:, i] - r[:, j]) ** 2))).sum(1)
    return {"x": np.concatenate([q, r], 1), "y": noisy(rng, y, 0.02)}


@task("vectors", r"^S\(3\)\+S\(3\)\+S\(3\)|^S\(3\)\+S\(3\) |wreath", r"S\(3\)")
def three_kinds_of_three(rng: Rng) -> Arrays:
    x = rng.normal(size=(3000, 9))
    y = np.exp(x[:, :3] / 2).sum(1) + np.sin(x[:, 3:6]).prod(1) * 3 - np.abs(x[:, 6:]).sum(1)
    return {"x": x, "y": noisy(rng, y)}


@task("vectors", r"^S\(20\) ")
def twenty_columns(rng: Rng) -> Arrays:
    x = rng.uniform(size=(20_000, 20))
    return {"x": x, "y": noisy(rng, np.sqrt(x).sum(1) + x.prod(1), 0.2)}


@task("vectors", r"^S\(64\) |^S?O\(64\)")
def sixty_four_columns(rng: Rng) -> Arrays:
    x = rng.normal(size=(4000, 64))
    return {"x": x, "y": noisy(rng, np.abs(x).sum(1), 0.1)}


@task("vectors", r"^S\(4\) ", r"S\(4\)")
def a_small_sample(rng: Rng) -> Arrays:
    x = rng.normal(size=(300, 4))
    return {"x": x, "y": noisy(rng, (x**2).sum(1) + 0.5 * x.sum(1) ** 2 * x.sum(1), 0.1)}


@task("vectors", r"scal|homogeneous|R\+", r"S\(|Z\(|SO|shear|1-param|GL|SL|Group")
def ratio_of_two(rng: Rng) -> Arrays:
    x = rng.uniform(0.5, 2.0, size=(2000, 3))
    return {"x": x, "y": noisy(rng, np.tanh(x[:, 0] / x[:, 1]) * (1 + (x[:, 2] / x[:, 1])), 0.01)}


@task("vectors", r"SL\(2|Sp\(", r"SL\(2|Sp\(|O\(2\)|S\(|Z\(|Group")
def area_of_a_parallelogram(rng: Rng) -> Arrays:
    x = rng.normal(size=(2000, 4))
    return {"x": x, "y": noisy(rng, np.abs(x[:, 0] * x[:, 3] - x[:, 1] * x[:, 2]), 0.02)}


@task("vectors")
def almost_a_sum(rng: Rng) -> Arrays:
    x = rng.normal(size=(3000, 8))
    w = rng.permutation(np.linspace(0.5, 1.7, 8))
    return {"x": x, "y": noisy(rng, np.tanh(x) @ w)}


@task("vectors")
def almost_a_length(rng: Rng) -> Arrays:
    x = rng.normal(size=(3000, 3))
    y = (
        np.sqrt((x**2).sum(1) + 1)
        + 0.3 * np.tanh(x[:, 0] * x[:, 1])
        + 0.2 * x[:, 2]
        - 0.1 * x[:, 0]
    )
    return {"x": x, "y": noisy(rng, y)}


@task("vectors", suffix=".csv")
def iris(_: Rng) -> Arrays:
    from sklearn.datasets import load_iris

    data = load_iris()
    names = [name.removesuffix(" (cm)").replace(" ", "_") for name in data.feature_names]
    return {**dict(zip(names, data.data.T, strict=True)), "species": data.target}


@task("vectors", suffix=".csv")
def wine(_: Rng) -> Arrays:
    from sklearn.datasets import load_wine

    data = load_wine()
    names = [name.replace("/", "_") for name in data.feature_names]
    return {**dict(zip(names, data.data.T, strict=True)), "cultivar": data.target}


@task("vectors")
def a_tree_of_heavy_tails(rng: Rng) -> Arrays:
    x = rng.standard_t(2.5, size=(3000, 6))
    y = np.where(
        x[:, 0] > 0.3, 1 + (x[:, 1] > 0), np.where(x[:, 2] < -0.5, -2, 0.5 * (x[:, 3] > 1))
    )
    return {"x": x, "y": noisy(rng, y + 0.2 * np.tanh(x[:, 4]) - 0.4 * np.tanh(x[:, 5]))}


@task("vectors")
def correlated_columns(rng: Rng) -> Arrays:
    z = rng.normal(size=(2000, 1))
    x = z + 0.5 * rng.normal(size=(2000, 6))
    return {"x": x, "y": noisy(rng, np.tanh(x @ np.array([1.0, -0.4, 0.7, 2.0, -1.2, 0.1])))}


@task("vectors", "", r"ignores")
def one_hot_and_constant(rng: Rng) -> Arrays:
    kind = rng.integers(5, size=2000)
    x = np.concatenate([np.eye(5)[kind], rng.normal(size=(2000, 3)), np.ones((2000, 1))], 1)
    y = np.array([0.3, -1.0, 2.0, 0.9, -0.2])[kind] * (1 + x[:, 5]) + np.sin(x[:, 6]) - x[:, 7]
    return {"x": x, "y": noisy(rng, y)}


@task("vectors")
def the_same_column_twice(rng: Rng) -> Arrays:
    x = rng.normal(size=(1500, 5))
    x[:, 4] = x[:, 0]
    return {"x": x, "y": noisy(rng, x[:, 0] * x[:, 1] + np.exp(x[:, 2] / 2) - 0.6 * x[:, 3])}


@task("blocks", r"O\(2\)|SE\(2\)|E\(2\)", r"S\(|Z\(|transl|D\(")
def spread_of_six_points(rng: Rng) -> Arrays:
    x = rng.normal(size=(5000, 6, 2))
    d = x - x.mean(1, keepdims=True)
    return {"x": x, "y": noisy(rng, np.sqrt((d**2).sum((1, 2))) + 0.1 * (d**4).sum((1, 2)))}


@task("blocks", r"^S?O\(3\)|Sp\(", r"S\(|Z\(|order")
def angular_momentum(rng: Rng) -> Arrays:
    r, v = rng.normal(size=(2, 2000, 2, 3))
    y = np.cross(r, v).sum(1)
    return {"x": np.concatenate([r, v], 2).reshape(2000, 12), "y": noisy(rng, y, 0.02)}


@task("blocks", r"O\(3\)|SL\(3", r"O\(3\)|S\(|Z\(|SL")
def volume_of_a_tetrahedron(rng: Rng) -> Arrays:
    x = rng.normal(size=(2500, 3, 3))
    return {"x": x, "y": noisy(rng, np.linalg.det(x), 0.02)}


# a circulant form is the same under turns of each pair of Fourier components, too
@task("sequences", r"^Z\(20\) |^D\(20\) ", r"Z\(|D\(|SO\(2\)")
def correlation_of_a_ring(rng: Rng) -> Arrays:
    x = rng.normal(size=(5000, 20))
    y = np.stack([(x * np.roll(x, k, 1)).mean(1) for k in (1, 2, 3)], 1)
    return {"x": x, "y": noisy(rng, y, 0.1)}


@task("sequences", r"^Z\(14\) |^D\(14\) ", r"Z\(|D\(")
def bumps_on_a_ring(rng: Rng) -> Arrays:
    x = rng.normal(size=(6000, 14, 1))
    h = np.maximum(x + 0.8 * np.roll(x, 1, 1) - 0.4 * np.roll(x, 2, 1), 0)
    return {"x": x, "y": noisy(rng, (h**1.5).sum((1, 2)))}


@task("sets", r"^S\(12\) ", r"O\(2\)|transl|aff")
def every_point_and_the_others(rng: Rng) -> Arrays:
    x = rng.normal(size=(2000, 12, 2))
    y = x[..., 0] * x[..., 1] + np.tanh(x[..., 0]).mean(1, keepdims=True)
    return {"x": x, "y": noisy(rng, y)}


@task("sets", r"^S\(5\)\+S\(3\)|^S\(3\)\+S\(5\)", r"S\(")
def electrons_and_ions(rng: Rng) -> Arrays:
    x = rng.normal(size=(4000, 8, 2))
    f = np.tanh(x[..., 0] + x[..., 1] ** 2)
    y = f[:, :5].sum(1) - 2 * np.cos(x[:, 5:, 0]).sum(1) + x[:, 5:, 1].sum(1)
    return {"x": x, "y": noisy(rng, y)}


@task("sets")
def points_in_an_order(rng: Rng) -> Arrays:
    x = rng.normal(size=(3000, 6, 2))
    y = (np.sin(x[:, :-1, 0]) * x[:, 1:, 1] * np.arange(1, 6)).sum(1)
    return {"x": x, "y": noisy(rng, y)}


# --- images


def _scenes(rng: Rng, n: int, side: int, draw: Callable[[np.ndarray, int], None]) -> Arrays:
    y = rng.integers(2, size=n)
    x = np.zeros((n, side, side))
    for image, label in zip(x, y, strict=True):
        draw(image, label)
        image[:] = np.roll(image, rng.integers(side, size=2), (0, 1))
    return {"x": x + 0.1 * rng.normal(size=x.shape), "y": y}


@task("images", r"Z\(12\) ?[×*] ?Z\(12\)|p[1-4]", r"layers|Z\(2\)|mirror")
def bars_anywhere(rng: Rng) -> Arrays:
    def bar(image: np.ndarray, label: int) -> None:
        image[(2, slice(4)) if label else (slice(4), 2)] = 1

    return _scenes(rng, 2000, 12, bar)


@task("images", r"p4|Z\(4\)|quarter|turns", r"layers|Z\(|D\(4|p4|pm|cm|transl|mirror|turn")
def crosses_and_rings(rng: Rng) -> Arrays:
    def cross(image: np.ndarray, label: int) -> None:
        if label:
            image[2, :5] = image[:5, 2] = 1
        else:
            image[:5, :5] = 1
            image[1:4, 1:4] = 0

    data = _scenes(rng, 2000, 16, cross)
    return {"x": data["x"][:, None], "y": data["y"]}


@task("images", r"Z\(4\)|D\(4|quarter|turns", r"turn|mirror|D\(|Z\(|half")
def bright_middle(rng: Rng) -> Arrays:
    x = rng.normal(size=(2500, 10, 10))
    r = np.hypot(*np.meshgrid(np.arange(10) - 4.5, np.arange(10) - 4.5))
    score = (np.maximum(x, 0) * np.exp(-(r**2) / 8)).sum((1, 2))
    return {"x": x, "y": (score > np.median(score)).astype(int)}


@task("images", r"mirror|flip|left", r"Z\(2\)|layers|mirror|transl")
def faces_in_the_mirror(rng: Rng) -> Arrays:
    y = rng.integers(3, size=2500)
    half = rng.normal(size=(3, 10, 10))
    x = half[y] + half[y][:, :, ::-1] + 2.5 * rng.normal(size=(2500, 10, 10))
    return {"x": x, "y": y}


@task("images", "", r"layers")
def handwritten_digits(_: Rng) -> Arrays:
    from sklearn.datasets import load_digits

    data = load_digits()
    return {"x": data.images, "y": data.target}


@task("images", r"Z\(8\) ?[×*] ?Z\(8\)|p[1-4]", r"layers|mirror|turn|Z\(2\)")
def blurred_images(rng: Rng) -> Arrays:
    x = rng.normal(size=(2000, 8, 8))
    y = x + 0.6 * np.roll(x, 1, 1) + 0.3 * np.roll(x, 1, 2) - 0.4 * np.roll(x, (1, 1), (1, 2))
    return {"x": x, "y": noisy(rng, y)}


@task("images", r"Z\(10\) ?[×*] ?Z\(10\)|p[1-4]", r"layers|mirror|turn|Z\(2\)")
def edges_counted(rng: Rng) -> Arrays:
    x = (rng.uniform(size=(4000, 1, 10, 10)) < rng.uniform(0.2, 0.8, (4000, 1, 1, 1))) * 1.0
    y = (x * np.roll(x, 1, 2)).sum((1, 2, 3)) - 0.5 * (x * np.roll(x, 1, 3)).sum((1, 2, 3))
    return {"x": x, "y": noisy(rng, y)}


@task("images", r"Z\(12\) ?[×*] ?Z\(12\)|p[1-4]", r"layers|mirror|turn|Z\(2\)")
def coloured_bars(rng: Rng) -> Arrays:
    def bar(image: np.ndarray, label: int) -> None:
        image[(2, slice(4)) if label else (slice(4), 2)] = 1

    data = _scenes(rng, 2000, 12, bar)
    tint = rng.uniform(0.5, 1, size=(2000, 1, 1, 3))
    return {"x": data["x"][..., None] * tint, "y": data["y"]}


@task("images", "", r"layers")
def quadrant_of_a_bar(rng: Rng) -> Arrays:
    y = rng.integers(4, size=2500)
    x = 0.3 * rng.normal(size=(2500, 14, 14))
    for image, label in zip(x, y, strict=True):
        i, j = rng.integers(4, size=2) + 7 * np.array([label // 2, label % 2])
        image[i : i + 3, j] += 1
    return {"x": x, "y": y}


@task("images", "", r"layers")
def images_without_meaning(rng: Rng) -> Arrays:
    return {"x": rng.normal(size=(1500, 12, 12)), "y": rng.integers(3, size=1500)}


# --- what a larger group, a coincidence or a weak predictor could be taken for


# a reflection costs some two per cent, less than the margin
@task("vectors", r"^Z\(4\) ")
def shifts_and_hardly_a_reflection(rng: Rng) -> Arrays:
    f = random_network(rng, 4)
    x = rng.normal(size=(4000, 4))
    return {"x": x, "y": noisy(rng, sum(f(np.roll(x, k, 1)) for k in range(4))[:, 0], 0.02)}


# x5 ↦ t·x5, x6 ↦ x6/t
@task("vectors", r"^S\(5\)", r"SO⁺\(1,1\)|S\(2\)")
def five_alike_among_eight(rng: Rng) -> Arrays:
    x = rng.normal(size=(3000, 8))
    y = np.sin(x[:, :5]).sum(1) + x[:, 5] * x[:, 6] + np.exp(x[:, 7] / 2)
    return {"x": x, "y": noisy(rng, y)}


@task("vectors", r"^S\(6\) ")
def any_of_six_is_large(rng: Rng) -> Arrays:
    x = rng.normal(size=(3000, 6))
    return {"x": x, "y": (np.abs(x).max(1) > 1.6).astype(int)}


@task("vectors")
def classes_along_a_line(rng: Rng) -> Arrays:
    x = rng.normal(size=(2000, 10))
    chance = 1 / (1 + np.exp(-x @ rng.normal(size=10)))
    return {"x": x, "y": (rng.uniform(size=2000) < chance).astype(int)}


@task("vectors")
def a_quadratic_form(rng: Rng) -> Arrays:
    x = rng.normal(size=(1500, 6))
    form = rng.normal(size=(6, 6))
    return {"x": x, "y": noisy(rng, np.einsum("ri,ij,rj->r", x, form, x) + x @ form[0])}


@task("blocks", r"^S\(4\) ")
def four_blocks_alike(rng: Rng) -> Arrays:
    x = rng.normal(size=(4000, 4, 3))
    y = (np.tanh(x[..., 0]) * x[..., 1] + np.cos(x[..., 2] * 1.3)).sum(1)
    return {"x": x.reshape(4000, 12), "y": noisy(rng, y + 0.4 * x[..., 0].prod(1), 0.03)}


@task("sequences")
def what_came_last(rng: Rng) -> Arrays:
    x, state = rng.normal(size=(3000, 12)), np.zeros(3000)
    for step in range(12):
        state = np.tanh(0.7 * state + x[:, step] * (1 + 0.1 * step))
    return {"x": x, "y": noisy(rng, state)}


@task("sequences", r"^[ZD]\(48\) ")
def four_frequencies(rng: Rng) -> Arrays:
    y, phase = rng.integers(4, size=3000), rng.uniform(0, 2 * np.pi, 3000)
    x = np.sin(2 * np.pi * (2 * y + 1)[:, None] * np.arange(48) / 48 + phase[:, None])
    return {"x": (x + 0.5 * rng.normal(size=x.shape))[..., None], "y": y}


# --- columns in units of their own, few rows with wrong labels, one number for each of a set


@task("vectors", r"^S\(5\) ", suffix=".csv")
def five_sensors_and_the_hour(rng: Rng) -> Arrays:
    warm = rng.normal(20, 5, size=(6000, 5))
    hour, load = rng.uniform(0, 24, 6000), rng.uniform(size=6000)
    hot = (1 / (1 + np.exp(-(warm - 20) / 2.5))).sum(1)
    day = hour / 24
    y = hot**2 * (0.5 + load) + 80 * day * (1 - day) ** 3 + 4 * np.sin(4 * load)
    columns = {f"sensor_{k + 1}": warm[:, k] for k in range(5)}
    return {**columns, "hour": hour, "load": load, "alarm": noisy(rng, y, 0.03)}


@task("sets", r"^S\(6\) ")
def six_numbers_and_wrong_labels(rng: Rng) -> Arrays:
    x = rng.uniform(size=(1000, 6))
    score = np.sin(4 * x).sum(1) + 1.5 * np.cos(3 * x.mean(1))
    y = np.digitize(score, [2.0, 3.35])
    wrong = rng.uniform(size=1000) < 0.05
    return {"x": x, "y": np.where(wrong, rng.integers(3, size=1000), y)}


@task("sets", r"^S\(8\) ")
def a_number_for_each_of_eight(rng: Rng) -> Arrays:
    x = rng.normal(size=(5000, 8, 2))
    mean = x.mean(1, keepdims=True)
    y = np.tanh(x[..., 0] * x[..., 1]) + np.sin(2 * mean[..., 0]) * x[..., 1] + mean[..., 1] ** 2
    return {"x": x, "y": noisy(rng, y, 0.03)}


def _letters(rng: Rng, side: int, letters: np.ndarray, *, turned: bool, noise: float) -> Arrays:
    """Pictures at random, upright or turned by quarters, in the middle or anywhere."""
    y = rng.integers(len(letters), size=3000)
    x = np.zeros((3000, side, side))
    for image, label in zip(x, y, strict=True):
        letter = np.rot90(letters[label], rng.integers(4)) if turned else letters[label]
        image[: len(letter), : len(letter)] = letter
        if not turned:
            image[:] = np.roll(image, rng.integers(side, size=2), (0, 1))
    return {"x": x + noise * rng.normal(size=x.shape), "y": y}


@task("images", r"^Z\(16\)\*Z\(16\) ")
def letters_anywhere(rng: Rng) -> Arrays:
    rows = ("100 100 111", "111 010 010", "011 110 010")
    letters = np.array([[list(map(float, line)) for line in row.split()] for row in rows])
    return _letters(rng, 16, letters, turned=False, noise=0.15)


@task("images", r"C\(4\)")
def pictures_turned_and_not_mirrored(rng: Rng) -> Arrays:
    return _letters(rng, 8, rng.normal(size=(3, 8, 8)), turned=True, noise=0.8)


def write(name: str, known: Known, seed: int, folder: Path) -> Path:
    arrays = known.make(np.random.default_rng([seed, *name.encode()]))
    path = folder / (name.replace(" ", "_") + known.suffix)
    if known.suffix == ".csv":
        np.savetxt(
            path,
            np.stack(list(arrays.values()), 1),
            delimiter=",",
            header=",".join(arrays),
            comments="",
        )
    else:
        np.savez(path, **arrays)
    return path


def discovered(path: Path, limit: float) -> tuple[dict, float, str]:
    """What is said of a file, in how many seconds; and the last line of what went wrong."""
    start = time.perf_counter()
    command = [sys.executable, "-m", "isotropy", "discover", str(path), "--json", "--quiet"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=limit)
    except subprocess.TimeoutExpired:
        return {"findings": []}, limit, f"not done after {limit:g} s"
    seconds = time.perf_counter() - start
    said = json.loads(done.stdout) if done.returncode == 0 else {"findings": []}
    return said, seconds, done.stderr.strip().splitlines()[-1] if done.returncode else ""


def verdict(known: Known, found: list[dict]) -> str:
    texts = [f"{one['group']} | {one['name']}" for one in found]
    false = [
        t for t in texts if not re.search(f"{known.expected or '(?!)'}|{known.also or '(?!)'}", t)
    ]
    if false:
        return "FALSE"
    if known.expected and not any(re.search(known.expected, text) for text in texts):
        return "missed"
    return "right"


def run(
    chosen: dict[str, Known], seed: int, folder: Path, jobs: int, limit: float
) -> Iterator[dict[str, Any]]:
    """A row for each task, in their order."""

    def one(name: str) -> dict[str, Any]:
        said, seconds, error = discovered(write(name, chosen[name], seed, folder), limit)
        return {
            "task": name,
            "kind": chosen[name].kind,
            "result": "error" if error else verdict(chosen[name], said["findings"]),
            "found": [f"{f['group']:.40} | {f['name']:.70}" for f in said["findings"]],
            "error": error,
            "seconds": round(seconds, 1),
        }

    with ThreadPoolExecutor(jobs) as pool:
        yield from pool.map(one, chosen)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="kinds or names, with commas")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--limit", type=float, default=300.0, help="seconds for each")
    parser.add_argument("--json", action="store_true", help="print JSON; lines go to stderr")
    given = parser.parse_args()
    out = sys.stderr if given.json else sys.stdout
    wanted = {word.strip() for word in given.only.split(",") if word.strip()}
    chosen = {n: t for n, t in TASKS.items() if not wanted or wanted & {n, t.kind}}
    rows = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for row in run(chosen, given.seed, folder, given.jobs, given.limit):
            rows.append(row)
            found = row["error"] or "; ".join(row["found"]) or "nothing"
            place = f"{row['seconds']:6.1f} s  {row['kind']:9} {row['task']:30}"
            print(f"{row['result']:7} {place} {found}", file=out, flush=True)
    counts = Counter(row["result"] for row in rows)
    total = ", ".join(f"{n} {what}" for what, n in sorted(counts.items()))
    print(f"{total}, of {len(rows)}", file=out)
    if given.json:
        print(json.dumps({"cells": rows, "counts": dict(sorted(counts.items()))}))


if __name__ == "__main__":
    main()
