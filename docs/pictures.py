"""Draws the pictures of the documentation into docs/images/; run it after changing them.

.venv/bin/python docs/pictures.py
"""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from isotropy import Regular, Rep, T, V, equivariant_basis, parse_group
from isotropy.bases._dense import constraint_gram
from isotropy.bases._null_space import largest_eigenvalue, project_on_null_space
from isotropy.bases._toral import eigenbasis_of
from isotropy.bases._zero_weight import zero_weights
from isotropy.groups import SU, S, Z, p4
from isotropy.report import plot_basis

IMAGES = Path(__file__).parent / "images"


def layers() -> None:
    """Thesis Figure 2.2."""
    reps = [
        ("deep sets: S(8)", (V >> V)(S(8))),
        ("convolution: Z(8)", (V >> V)(Z(8))),
        ("2-D convolution: Z(5)*Z(5)", (V >> V)(Z(5) * Z(5))),
        ("group convolution: p4(4)", (Regular >> Regular)(p4(4))),
    ]
    plot_basis([(title, equivariant_basis(rep)) for title, rep in reps], IMAGES / "layers.png")


def commute() -> None:
    """A signal, a layer that commutes with shifts, and what comes out, before and after a shift."""
    basis = equivariant_basis((V >> V)(Z(8)))
    kernel = np.array([0.5, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, -0.7])
    weight = np.stack([np.roll(kernel, i) for i in range(8)])
    x = np.array([0.2, 1.0, 0.7, -0.3, -0.8, 0.1, 0.4, 0.0])
    figure = Figure(figsize=(8.2, 2.4), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    for axis, values in ((left, lambda x: x), (right, lambda x: weight @ x)):
        axis.bar(np.arange(8) - 0.2, values(x), 0.4, color="#8fb3c9", label="as it is")
        axis.bar(
            np.arange(8) + 0.2, values(np.roll(x, 2)), 0.4, color="#c0392b", label="shifted by 2"
        )
        axis.axhline(0, color="#555555", linewidth=0.6)
        axis.set_xticks(range(8))
        axis.set_yticks([])
    left.legend(fontsize=7)
    labels = np.abs(basis.dense().numpy()).argmax(axis=1).reshape(8, 8)
    middle.imshow(labels, cmap="tab10")
    middle.set_axis_off()
    left.set_title("input", fontsize=10)
    middle.set_title("layer: 8 different weights of 64", fontsize=10)
    right.set_title("output: shifted, too", fontsize=10)
    save(figure, "commute.png")


def weights() -> None:
    """The sums of weights of SU(3) on T(3,3), and those that vanish."""
    group, rep = SU(3), T(3, 3)(SU(3))
    factors = [eigenbasis_of(factor, group).weights for factor in rep.factors]
    sums = np.zeros(1)
    for w in factors:
        sums = (sums[:, None] + w.imag).ravel()
    values, counts = np.unique(sums.round(9), return_counts=True)
    zero = len(zero_weights(factors))
    figure = Figure(figsize=(6.4, 2.6), layout="constrained")
    axis = figure.subplots()
    colours = ["#c0392b" if abs(v) < 1e-8 else "#8fb3c9" for v in values]
    axis.bar(values, counts, width=0.03, color=colours)
    axis.set_xlabel("eigenvalue of dρ(A) / i")
    axis.set_ylabel("how often")
    axis.set_title(f"SU(3), T(3,3): {zero} of {rep.size()} weights are zero", fontsize=10)
    save(figure, "weights.png")


def convergence() -> None:
    """Thesis Figure A.1: Algorithm 1 as printed, and with conjugate gradients."""
    rows = [("SO(3)", T(4)), ("S(4)", T(4)), ("SO13p", T(4)), ("Sp(2)", T(4)), ("SU(3)", T(2, 2))]
    figure = Figure(figsize=(8.2, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    for name, rep in rows:
        plain, fast = histories(rep(parse_group(name)))
        left.semilogy(plain, label=f"{name} {rep}")
        right.semilogy(fast, label=f"{name} {rep}")
    left.set_title("Algorithm 1: gradient steps", fontsize=10)
    right.set_title("conjugate gradients", fontsize=10)
    for axis in (left, right):
        axis.set_xlabel("steps")
    left.set_ylabel("‖C†C X‖ / ‖X‖")
    right.legend(fontsize=7)
    save(figure, "convergence.png")


def histories(rep: Rep, width: int = 20) -> tuple[list[float], list[float]]:
    """The residuals of both methods from one random start of ``width`` vectors."""
    gram, size = constraint_gram(rep), rep.size()
    dtype = np.complex128 if rep.is_complex else np.float64
    x = np.random.default_rng(0).normal(size=(size, width)).astype(dtype)
    rate = 1 / largest_eigenvalue(gram, size) if not rep.is_complex else 0.05
    fast: list[float] = []
    project_on_null_space(gram, x, history=fast)
    slow, moved = [], x
    for _ in range(300):  # Algorithm 1 as printed: X ← X − rate · C†C X
        gradient = gram(moved)
        slow.append(float(np.linalg.norm(gradient) / np.linalg.norm(x)))
        moved = moved - rate * gradient
    return slow, fast


def save(figure: Figure, name: str) -> None:
    """Write a figure among the images."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    (IMAGES / name).write_bytes(buffer.getvalue())


if __name__ == "__main__":
    IMAGES.mkdir(exist_ok=True)
    layers()
    commute()
    weights()
    convergence()
