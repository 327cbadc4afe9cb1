"""The structure of a Lie algebra: centre, derived series, radical, simple ideals; in words.

Subspaces are orthonormal rows of coefficients in the basis that was given.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from isotropy.groups._intertwiners import Array, brackets, flattened

# real simple Lie algebras by dimension and number of positive squares of the Killing form
_SIMPLE = {
    (3, 0): "so(3)",
    (3, 2): "sl(2,R)",
    (6, 3): "so(1,3)",
    (8, 0): "su(3)",
    (8, 4): "su(1,2)",
    (8, 5): "sl(3,R)",
    (10, 0): "so(5)",
    (10, 4): "so(1,4)",
    (10, 6): "sp(4,R)",
    (14, 0): "g2",
    (14, 8): "split g2",
    (15, 0): "so(6)",
    (15, 5): "so(1,5)",
    (15, 6): "su(1,3)",
    (15, 8): "so(2,4)",
    (15, 9): "sl(4,R)",
    (16, 8): "sl(3,C)",
    (20, 10): "so(5,C)",
}


class LieStructure:
    """A Lie algebra by its structure constants, [e_i, e_j] = Σ_k constants[i, j, k] e_k."""

    def __init__(self, constants: Array, tolerance: float) -> None:
        self.constants = constants
        self.tolerance = tolerance

    @classmethod
    def of_matrices(cls, algebra: Array, tolerance: float) -> LieStructure:
        """The structure of the algebra with this orthonormal basis of matrices."""
        count, d, _ = algebra.shape
        commutators = brackets(algebra, algebra).reshape(count * count, d, d)
        constants = flattened(commutators) @ flattened(algebra).T
        return cls(constants.reshape(count, count, count), tolerance)

    @property
    def dimension(self) -> int:
        """The number of basis elements."""
        return len(self.constants)

    @property
    def whole(self) -> Array:
        """The algebra itself, as a subspace."""
        return np.eye(self.dimension)

    def bracket(self, left: Array, right: Array) -> Array:
        """[left, right]: the span of all brackets of two subspaces."""
        products = np.einsum("ai,bj,ijk->abk", left, right, self.constants, optimize=True)
        return self._span(products.reshape(-1, self.dimension))

    def centraliser(self, subspace: Array) -> Array:
        """What commutes with all of a subspace."""
        action = np.einsum("bj,ijk->ibk", subspace, self.constants).reshape(self.dimension, -1)
        values, vectors = np.linalg.eigh(action @ action.T)
        null: Array = vectors.T[values <= self.tolerance * max(1.0, values[-1:].sum())]
        return null

    def _span(self, rows: Array) -> Array:
        """Orthonormal rows; constants are of order one, so the cut-off is absolute."""
        if not rows.size:
            return np.zeros((0, self.dimension))
        _, values, basis = np.linalg.svd(rows, full_matrices=False)
        kept: Array = basis[values > 1e-6]
        return kept

    @cached_property
    def killing(self) -> Array:
        """The Killing form tr(ad x ad y)."""
        form: Array = np.einsum("ikl,jlk->ij", self.constants, self.constants, optimize=True)
        return form

    @cached_property
    def derived(self) -> Array:
        """The derived algebra [g, g]."""
        return self.bracket(self.whole, self.whole)

    @cached_property
    def centre(self) -> Array:
        """What commutes with everything."""
        return self.centraliser(self.whole)

    @cached_property
    def radical(self) -> Array:
        """The largest solvable ideal: what is Killing-orthogonal to the derived algebra."""
        products = self.killing @ self.derived.T
        values, vectors = np.linalg.eigh(products @ products.T)
        null: Array = vectors.T[values <= 1e-8]
        return null

    @property
    def is_abelian(self) -> bool:
        """Whether all brackets vanish."""
        return len(self.centre) == self.dimension

    @property
    def is_nilpotent(self) -> bool:
        """Whether repeated brackets with the algebra vanish in the end."""
        rest = self.whole
        while len(smaller := self.bracket(self.whole, rest)) < len(rest):
            rest = smaller
        return not len(rest)

    @property
    def is_solvable(self) -> bool:
        """Whether the algebra is its own radical."""
        return len(self.radical) == self.dimension

    @property
    def is_compact(self) -> bool:
        """Whether the Killing form is negative definite: the algebra of a compact group."""
        return bool((np.linalg.eigvalsh(self.killing) < -1e-6).all())

    def quotient(self, ideal: Array) -> LieStructure:
        """The algebra modulo an ideal."""
        values, vectors = np.linalg.eigh(ideal.T @ ideal)  # a projection
        return self.restricted(vectors.T[values < 0.5])

    def restricted(self, subspace: Array) -> LieStructure:
        """The brackets within a subspace, what leaves it orthogonally cut off."""
        constants = np.einsum(
            "ai,bj,ck,ijk->abc", subspace, subspace, subspace, self.constants, optimize=True
        )
        return LieStructure(constants, self.tolerance)

    def simple_ideals(self) -> tuple[list[Array], Array]:
        """The simple ideals, and the ideal of all that commutes with them.

        An eigenvector of ad x for generic x that is not in the kernel is a root vector where the
        algebra is semisimple, so it lies in the complexification of one simple ideal and
        generates it. Ideals on which the Killing form degenerates are passed over.
        """
        rng = np.random.default_rng(0)
        ideals: list[Array] = []
        rest = self.whole
        while len(rest) > 2:
            x = rest.T @ rng.standard_normal(len(rest))
            ideal = self._simple_ideal(x)
            if ideal is None:
                break
            ideals.append(ideal)
            rest = self.centraliser(np.vstack(ideals))
        return ideals, rest

    def _simple_ideal(self, x: Array) -> Array | None:
        values, vectors = np.linalg.eig(np.einsum("i,ijk->kj", x, self.constants))
        tried: Array = np.zeros((0, self.dimension))
        for at in np.argsort(-np.abs(values)):
            root = vectors[:, at]
            new = np.linalg.norm(root - tried.T @ (tried @ root)) > 1e-6
            if abs(values[at]) <= 1e-6 * np.linalg.norm(x) or not new:
                continue
            ideal = self._span(np.array([root.real, root.imag]))
            while len(larger := self._grown(ideal)) > len(ideal):
                ideal = larger
            form = np.linalg.eigvalsh(ideal @ self.killing @ ideal.T)
            if np.abs(form).min() > 1e-6:
                return ideal
            tried = self._span(np.vstack([tried, ideal]))
        return None

    def _grown(self, subspace: Array) -> Array:
        return self._span(np.vstack([subspace, self.bracket(self.whole, subspace)]))

    # --- in words -------------------------------------------------------------------------------

    def parts(self) -> str:
        """What the algebra is made of: "so(3) plus a 1-dimensional centre"."""
        if self.is_abelian:
            return "abelian"
        if self.is_solvable:
            kind = "nilpotent" if self.is_nilpotent else "solvable"
            return f"{kind}, {self._dimensions()}"
        levi = self.quotient(self.radical)
        names = levi._simple_parts()
        if not len(self.radical):
            return names
        if len(self.radical) == len(self.centre):
            return f"{names} plus a {len(self.centre)}-dimensional centre"
        kind = "abelian" if self.restricted(self.radical).is_abelian else "solvable"
        radical = f"a {len(self.radical)}-dimensional {kind} radical"
        return f"{names} acting on {radical}, {self._dimensions()}"

    def flags(self) -> str:
        """Simple or semisimple, compact or not, where the radical is zero; else empty."""
        if len(self.radical) or not self.dimension:
            return ""
        simple = "simple" if len(self.simple_ideals()[0]) == 1 else "semisimple"
        return f"{simple}, {'compact' if self.is_compact else 'not compact'}"

    def _dimensions(self) -> str:
        return f"derived algebra of dimension {len(self.derived)}, centre {len(self.centre)}"

    def _simple_parts(self) -> str:
        ideals, rest = self.simple_ideals()
        names = sorted(_simple_name(self.restricted(ideal)) for ideal in ideals)
        names += [f"a semisimple algebra of dimension {len(rest)}"] if len(rest) else []
        return " plus ".join(names)


def _simple_name(simple: LieStructure) -> str:
    positive = int((np.linalg.eigvalsh(simple.killing) > 0).sum())
    unknown = f"a simple algebra of dimension {simple.dimension}"
    return _SIMPLE.get((simple.dimension, positive), unknown)
