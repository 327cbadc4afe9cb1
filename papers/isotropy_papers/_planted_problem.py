"""A function, its inputs, and the Lie algebra of all its symmetries in one class of actions.

The algebra of a problem is complete within its class of actions: every A of the class with
⟨∇f(x), A x⟩ = 0, or Df(x) A x = B f(x) for outputs that transform, is in it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

from isotropy.run import generator as make_generator
from isotropy_papers._counts import require_count

Output = Literal["invariant", "vector", "matrix"]
Draw = Callable[[int, torch.Generator], Tensor]
Function = Callable[[Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class PlantedProblem:
    """A function, its inputs, and all of its symmetries in one class of actions.

    Args:
        name: A short name.
        d_in: The width of inputs.
        d_out: The width of outputs.
        blocks: ``None`` for one A on all of R^n; k for the same A on k consecutive blocks.
        affine: Whether the class has translations; matrices are then homogeneous.
        output: How outputs move: not at all, as ``"vector"`` by B = A, as ``"matrix"`` by
            B = A⊗1 + 1⊗A.
        algebra: A basis of the symmetries, shape (D, d, d), with d the width of a block, and one
            more where the class is affine.
        title: How the name of the group begins; empty where there is none.
        holds: Whether the symmetry is there to be claimed: exactly, or at less cost than 5 % of
            the variance.
        broken: The size of the term that breaks it, relative to the function.
        standard: Whether the basis is the textbook's, so that exact generators can be compared.
        draw_inputs: (n, generator) ↦ inputs.
        function: The target on inputs of shape (*, d_in), giving (*, d_out).

    Example:
        >>> from isotropy_papers.planted_problems import planted_problems
        >>> problem = planted_problems()["so13-two"]
        >>> problem.title, tuple(problem.algebra.shape), problem.blocks
        ('SO⁺(1,3)', (6, 4, 4), 2)
        >>> x = problem.sample(5, generator=0)
        >>> tuple(x.shape), tuple(problem.target(x).shape)
        ((5, 8), (5, 1))
    """

    name: str
    d_in: int
    d_out: int
    blocks: int | None
    affine: bool
    output: Output
    algebra: Tensor = field(repr=False)
    title: str
    holds: bool
    broken: float
    standard: bool
    draw_inputs: Draw = field(repr=False)
    function: Function = field(repr=False)

    @property
    def width(self) -> int:
        """The width of a block."""
        return self.d_in // (self.blocks or 1)

    def sample(self, n: int, generator: torch.Generator | int | None = None) -> Tensor:
        """Inputs, float64 of shape (n, d_in).

        Raises:
            ValueError: If ``n`` is not a positive integer.
        """
        require_count(n, "rows")
        return self.draw_inputs(n, make_generator(generator))

    def target(self, x: Tensor) -> Tensor:
        """The exact outputs, shape (*, d_out).

        Raises:
            ValueError: If the width of the inputs is another.
        """
        if x.ndim == 0 or x.shape[-1] != self.d_in:
            raise ValueError(
                f"expected inputs of width {self.d_in} for {self.name}, got {tuple(x.shape)}"
            )
        return self.function(x)

    def moved_inputs(self, g: Tensor, x: Tensor) -> Tensor:
        """Inputs moved by group elements of shape (*, d, d), one for each row or one for all."""
        d = self.width
        at: Tensor = x.unflatten(-1, (-1, d)) @ g[..., :d, :d].mT
        if self.affine:
            at = at + g[..., None, :d, d]
        return at.flatten(-2)

    def moved_outputs(self, g: Tensor, y: Tensor) -> Tensor:
        """Outputs moved by the same elements."""
        if self.output == "vector":
            return (g @ y.unsqueeze(-1)).squeeze(-1)
        if self.output == "matrix":
            y = g @ y.unflatten(-1, (self.width, self.width)) @ g.mT
            return y.flatten(-2)
        return y
