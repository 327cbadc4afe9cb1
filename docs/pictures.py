"""Draws the pictures of the documentation into docs/images/; run it after changing them.

.venv/bin/python docs/pictures.py
"""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from isotropy import Regular, Rep, T, V, equivariant_basis, parse_group
from isotropy.bases._krylov import constraint_gram
from isotropy.bases._null_space import (
    descend_to_null_space,
    largest_eigenvalue,
    project_on_null_space,
)
from isotropy.bases._toral import eigenbasis_of
from isotropy.bases._zero_weight import zero_weights
from isotropy.groups import SU, S, Z, p4
from isotropy.report import plot_bases

IMAGES = Path(__file__).parent / "images"


def layers() -> None:
    """Thesis Figure 2.2."""
    reps = [
        ("deep sets: S(8)", (V >> V)(S(8))),
        ("convolution: Z(8)", (V >> V)(Z(8))),
        ("2-D convolution: Z(5)*Z(5)", (V >> V)(Z(5) * Z(5))),
        ("group convolution: p4(4)", (Regular >> Regular)(p4(4))),
    ]
    plot_bases([(title, equivariant_basis(rep)) for title, rep in reps], IMAGES / "layers.png")


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
    return descend_to_null_space(gram, x, rate, 300), fast


def save(figure: Figure, name: str) -> None:
    """Write a figure among the images."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    (IMAGES / name).write_bytes(buffer.getvalue())


if __name__ == "__main__":
    IMAGES.mkdir(exist_ok=True)
    layers()
    weights()
    convergence()
