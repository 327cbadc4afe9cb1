"""A regression task that knows its symmetry: how to draw it, split it and scale it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import torch
from torch import Tensor

from isotropy._run import generator as make_generator
from isotropy._run import spawn
from isotropy.groups import Group
from isotropy.reps import Rep, Scalar, Sum, Symmetry

Part = TypeVar("Part")

# a column that varies by less than this share of its size is constant up to rounding
_CONSTANT = 1e-12


@dataclass(frozen=True)
class Splits(Generic[Part]):
    """Data for fitting, for choosing and for judging, drawn independently of one another.

    Args:
        train: What a model is fitted to.
        validation: What decides between models, or when to stop.
        test: What the result is reported on.

    Example:
        >>> from isotropy.data import inertia
        >>> splits = inertia().splits(30, validation=10, test=20, generator=0)
        >>> print(*(len(x) for x, _ in (splits.train, splits.validation, splits.test)))
        30 10 20
    """

    train: Part
    validation: Part
    test: Part


@dataclass(frozen=True, eq=False)
class Standardisation:
    """Offsets and scales that bring data to unit size without breaking their symmetry.

    A map x ↦ (x − offset) / scale commutes with the group when the offset is invariant and the
    scale is the same number on every column of a representation that the group mixes. So
    ``Standardisation.of`` gives

    - each scalar column its own mean and standard deviation,
    - all columns of the other types no offset, and one scale for each type: the root mean square
      over the rows and over all copies of that type.

    This holds for O(1,3) as well, whose invariant p·p has no sign and could not serve as a scale.
    The reference code of the thesis gives each copy a scale of its own, computes them on all rows
    drawn (test rows included), and does not scale the inertia task at all.

    Args:
        input_offset: Subtracted from inputs, shape (d_in,).
        input_scale: Divides inputs, shape (d_in,).
        output_offset: Subtracted from outputs, shape (d_out,).
        output_scale: Divides outputs, shape (d_out,).

    Example:
        >>> from isotropy.groups import O
        >>> from isotropy.reps import V
        >>> x = torch.tensor([[1.0, 3.0, 4.0], [3.0, -4.0, 3.0]])
        >>> scaling = Standardisation.of(
        ...     Symmetry(O(2), Scalar + V, Scalar), x, torch.tensor([[0.0], [2.0]])
        ... )
        >>> scaling.input_offset.tolist(), scaling.output_scale.tolist()
        ([2.0, 0.0, 0.0], [1.0])
        >>> scaling.input_scale[1:].square().float()
        tensor([12.5000, 12.5000])
    """

    input_offset: Tensor
    input_scale: Tensor
    output_offset: Tensor
    output_scale: Tensor

    @staticmethod
    def of(symmetry: Symmetry, x: Tensor, y: Tensor) -> Standardisation:
        """The scaling of these data under this symmetry.

        Args:
            symmetry: How the columns transform.
            x: Inputs, shape (n, rep_in.size()).
            y: Outputs, shape (n, rep_out.size()).

        Raises:
            ValueError: If the shapes do not fit, there are no rows, or a number is not finite.

        Example:
            >>> from isotropy.groups import SO
            >>> from isotropy.reps import V
            >>> x = torch.tensor([[3.0, 4.0]])
            >>> Standardisation.of(Symmetry(SO(2), V, V), x, 2 * x).output_scale
            tensor([7.0711, 7.0711], dtype=torch.float64)
        """
        x = _rows(x, symmetry.rep_in, "inputs")
        y = _rows(y, symmetry.rep_out, "outputs")
        if len(x) != len(y):
            raise ValueError(f"expected as many outputs as inputs, got {len(y)} and {len(x)}")
        return Standardisation(
            *_offset_and_scale(symmetry.rep_in, x), *_offset_and_scale(symmetry.rep_out, y)
        )

    def inputs(self, x: Tensor) -> Tensor:
        """Inputs brought to unit size, in the precision of ``x``."""
        return (x - self.input_offset.to(x)) / self.input_scale.to(x)

    def outputs(self, y: Tensor) -> Tensor:
        """Outputs brought to unit size, in the precision of ``y``."""
        return (y - self.output_offset.to(y)) / self.output_scale.to(y)

    def original_outputs(self, y: Tensor) -> Tensor:
        """The inverse of ``outputs``: predictions back in the units of the data."""
        return y * self.output_scale.to(y) + self.output_offset.to(y)


@dataclass(frozen=True)
class Task:
    """A regression task with a known target and a known symmetry.

    Args:
        name: The call that makes it.
        symmetry: The largest group under which the target is equivariant, and its actions.
        also: Subgroups that are tried beside it.
        draw_inputs: (n, generator) ↦ inputs, float64 of shape (n, d_in).
        function: The target on inputs of shape (*, d_in), giving (*, d_out).
        approximately: Larger groups that the target would have without a term that breaks them;
            the task says by how much.
        misspecified: Groups that a paper tries although they are not even approximate symmetries.

    Example:
        >>> from isotropy.data import o5_invariant
        >>> task = o5_invariant()
        >>> print(task.symmetry, task.also)
        O(5): 2*V >> Scalar (SO(5),)
        >>> x, y = task.draw(3, generator=0)
        >>> bool((task.target(x) == y).all())
        True
    """

    name: str
    symmetry: Symmetry
    also: tuple[Group, ...]
    draw_inputs: Callable[[int, torch.Generator], Tensor] = field(repr=False, compare=False)
    function: Callable[[Tensor], Tensor] = field(repr=False, compare=False)
    approximately: tuple[Group, ...] = ()
    misspecified: tuple[Group, ...] = ()

    def target(self, x: Tensor) -> Tensor:
        """The exact outputs, shape (*, d_out), in the precision of ``x``.

        Args:
            x: Inputs, shape (*, d_in).

        Raises:
            ValueError: If the width is another.

        Example:
            >>> from isotropy.data import inertia
            >>> inertia(points=1).target(torch.tensor([2.0, 0.0, 0.0, 3.0])).reshape(3, 3)
            tensor([[18.,  0.,  0.],
                    [ 0., 18.,  0.],
                    [ 0.,  0.,  0.]])
        """
        width = self.symmetry.rep_in.size()
        if x.ndim == 0 or x.shape[-1] != width:
            raise ValueError(
                f"expected inputs of width {width} for {self.name}, got shape {tuple(x.shape)}"
            )
        return self.function(x)

    def draw(
        self, n: int, *, generator: torch.Generator | int | None = None
    ) -> tuple[Tensor, Tensor]:
        """Draw ``n`` rows: float64 inputs (n, d_in) and their exact outputs (n, d_out).

        Raises:
            ValueError: If ``n`` is not a positive integer.

        Example:
            >>> from isotropy.data import inertia
            >>> x, y = inertia().draw(4, generator=0)
            >>> x.dtype, tuple(x.shape), tuple(y.shape)
            (torch.float64, (4, 20), (4, 9))
        """
        require_count(n, "rows")
        x = self.draw_inputs(n, make_generator(generator))
        return x, self.target(x)

    def splits(
        self,
        train: int,
        *,
        validation: int = 1000,
        test: int = 5000,
        generator: torch.Generator | int | None = None,
    ) -> Splits[tuple[Tensor, Tensor]]:
        """Draw data for fitting, choosing and judging; the sizes are those of thesis A.1.10.

        Each part has a random stream of its own: for one seed, the test rows are the same
        whatever the number of training rows.

        Raises:
            ValueError: If a size is not a positive integer.

        Example:
            >>> from isotropy.data import o5_invariant
            >>> few, many = (o5_invariant().splits(n, generator=0) for n in (30, 300))
            >>> bool((few.test[0] == many.test[0]).all())
            True
        """
        streams = spawn(make_generator(generator), 3)
        sizes = (train, validation, test)
        return Splits(*(self.draw(n, generator=rng) for n, rng in zip(sizes, streams, strict=True)))

    def standardisation(self, x: Tensor, y: Tensor) -> Standardisation:
        """The scaling of these rows that keeps the symmetry; see :class:`Standardisation`.

        Example:
            >>> from isotropy.data import inertia
            >>> scaling = inertia().standardisation(*inertia().draw(1000, generator=0))
            >>> scaling.input_scale[5:].unique().numel(), scaling.input_offset[5:].any().item()
            (1, False)
        """
        return Standardisation.of(self.symmetry, x, y)


def require_count(n: int, what: str) -> None:
    """Refuse a number of things that is not a positive integer.

    Raises:
        ValueError: If it is not.
    """
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise ValueError(f"expected a number of {what} of at least 1, got {n!r}")


def _rows(values: Tensor, rep: Rep, what: str) -> Tensor:
    if values.ndim != 2 or values.shape[-1] != rep.size() or len(values) == 0:
        raise ValueError(
            f"expected {what} of shape (n, {rep.size()}) with n >= 1, got {tuple(values.shape)}"
        )
    values = values.to(torch.complex128 if values.is_complex() else torch.float64)
    if not bool(values.isfinite().all()):
        raise ValueError(f"expected finite {what}, got NaN or infinity")
    return values


def _offset_and_scale(rep: Rep, values: Tensor) -> tuple[Tensor, Tensor]:
    columns: dict[Rep, list[int]] = {}
    at = 0
    for part in _parts(rep):
        columns.setdefault(part, []).extend(range(at, at + part.size()))
        at += part.size()
    offset = torch.zeros_like(values[0])
    scale = torch.zeros_like(values[0].real)
    size = values.abs().square().mean(0).sqrt()
    for part, where in columns.items():
        if part == Scalar:
            offset[where] = values[:, where].mean(0)
            scale[where] = (values[:, where] - offset[where]).abs().square().mean(0).sqrt()
        else:
            scale[where] = size[where].square().mean().sqrt()
    return offset, torch.where(scale > _CONSTANT * size, scale, 1.0)


def _parts(rep: Rep) -> Iterator[Rep]:
    """The summands that have no summands of their own, copies one by one."""
    if not isinstance(rep, Sum):
        yield rep
        return
    for count, term in rep.terms:
        for _ in range(count):
            yield from _parts(term)
