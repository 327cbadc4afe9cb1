"""Laws of random transformations that can be trained: permutations and shifts."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Literal, TypeAlias, get_args

import torch
from torch import Tensor, nn

from isotropy.run import generator as make_generator
from isotropy_papers.gumbel_sinkhorn import gumbel_sinkhorn, log_sinkhorn

ShiftBoundary: TypeAlias = Literal["periodic", "zeros"]
ShiftInterpolation: TypeAlias = Literal["linear", "fourier"]


class Augmentation(nn.Module, ABC):
    """A random transformation of rows whose law has parameters to learn.

    In training every row is moved by transformations of its own, new at each call. In evaluation
    all rows are moved by the same ones, drawn from ``evaluation_seed``, so that a prediction
    repeats and does not depend on the rows beside it. A law of one's own defines ``sample``,
    ``move``, ``undo`` and ``breadth``.

    Args:
        axis: The axis that is moved, where axis 0 counts the rows.
        generator: Seed or generator of what is drawn.

    Attributes:
        evaluation_seed: The seed of what is drawn in evaluation.

    Example:
        >>> class Scalings(Augmentation):
        ...     def __init__(self):
        ...         super().__init__(-1, generator=0)
        ...         self.spread = nn.Parameter(torch.tensor(0.1))
        ...
        ...     def sample(self, samples, rows, rng):
        ...         return (self.spread * torch.randn(samples, rows, 1, generator=rng)).exp()
        ...
        ...     def move(self, x, drawn):
        ...         return x * drawn
        ...
        ...     def undo(self, y, drawn):
        ...         return y / drawn
        ...
        ...     def breadth(self):
        ...         return self.spread.abs()
        >>> Scalings()(torch.zeros(5, 3)).shape
        torch.Size([5, 3])
    """

    def __init__(self, axis: int, generator: torch.Generator | int | None) -> None:
        super().__init__()
        if axis == 0:
            raise ValueError("expected an axis other than 0, which counts the rows, got 0")
        self.axis = axis
        self.evaluation_seed = 0
        self._rng = make_generator(generator)

    def reseed(self, seed: torch.Generator | int) -> None:
        """Start the draws of training anew."""
        self._rng = make_generator(seed)

    def draw(self, samples: int, rows: int) -> Tensor:
        """Transformations, shape (samples, rows, *) in training, (samples, 1, *) in evaluation."""
        if self.training:
            return self.sample(samples, rows, self._rng)
        return self.sample(samples, 1, make_generator(self.evaluation_seed))

    @abstractmethod
    def sample(self, samples: int, rows: int, rng: torch.Generator) -> Tensor:
        """Transformations, shape (samples, rows, *), differentiable in the parameters."""

    @abstractmethod
    def move(self, x: Tensor, drawn: Tensor) -> Tensor:
        """Transform x, shape (samples or 1, rows, *), by what was drawn."""

    @abstractmethod
    def undo(self, y: Tensor, drawn: Tensor) -> Tensor:
        """Transform y, shape (samples, rows, *), by the inverses of what was drawn."""

    @abstractmethod
    def breadth(self) -> Tensor:
        """How much the transformations vary, a number with a gradient."""

    def forward(self, x: Tensor) -> Tensor:
        """One transformation of each row."""
        return self.move(x.unsqueeze(0), self.draw(1, len(x))).squeeze(0)

    def _place(self, x: Tensor, width: int | None = None) -> int:
        """The axis in a tensor that has an axis of samples in front."""
        axis = self.axis + 1 if self.axis > 0 else self.axis + x.ndim
        if not 2 <= axis < x.ndim or width not in (None, x.shape[axis]):
            of_width = "" if width is None else f" of width {width}"
            raise ValueError(
                f"expected rows with an axis {self.axis}{of_width}, got shape {tuple(x.shape[1:])}"
            )
        return axis


class LearnedPermutations(Augmentation):
    """Random permutations of n positions, by a Gumbel-Sinkhorn matrix that is learned.

    Rows of positions x go to P x with P = S((log_alpha + ε)/τ), doubly stochastic and near a
    permutation; Pᵀ undoes it.

    Args:
        n: How many positions.
        axis: The axis of positions, where axis 0 counts the rows.
        temperature: τ; as it falls, P tends to a permutation and its gradient becomes noisier.
        iterations: Of Sinkhorn's normalisation; where they are few for the temperature, columns
            do not sum to one, and a position may be taken twice and another left out.
        generator: Seed or generator of the first matrix, uniform in [−0.1, 0.1], and of the draws.

    Attributes:
        log_alpha: The parameters, shape (n, n).

    Example:
        >>> permute = LearnedPermutations(3, temperature=0.01, iterations=500, generator=0)
        >>> permute(torch.tensor([[1.0, 2.0, 4.0]])).detach().round().sort().values
        tensor([[1., 2., 4.]])
    """

    def __init__(
        self,
        n: int,
        *,
        axis: int = 1,
        temperature: float = 0.1,
        iterations: int = 20,
        generator: torch.Generator | int | None = None,
    ) -> None:
        super().__init__(axis, generator)
        if n < 1:
            raise ValueError(f"expected at least one position, got {n}")
        if not (0 < temperature < math.inf):
            raise ValueError(f"expected a positive temperature, got {temperature}")
        if iterations < 1:
            raise ValueError(f"expected at least one iteration, got {iterations}")
        self.n, self.temperature, self.iterations = n, temperature, iterations
        first = torch.rand(n, n, generator=self._rng, device=self._rng.device)
        self.log_alpha = nn.Parameter(0.2 * first - 0.1)

    def sample(self, samples: int, rows: int, rng: torch.Generator) -> Tensor:
        """Relaxed permutations, shape (samples, rows, n, n)."""
        drawn = gumbel_sinkhorn(
            self.log_alpha,
            samples * rows,
            temperature=self.temperature,
            iterations=self.iterations,
            generator=rng,
        )
        return drawn.reshape(samples, rows, self.n, self.n)

    def move(self, x: Tensor, drawn: Tensor) -> Tensor:
        """P x along the axis of positions."""
        axis = self._place(x, self.n)
        positions = x.movedim(axis, 2)
        moved = drawn.to(x.dtype) @ positions.unsqueeze(-1).flatten(3)
        return moved.reshape(*moved.shape[:3], *positions.shape[3:]).movedim(2, axis)

    def undo(self, y: Tensor, drawn: Tensor) -> Tensor:
        """Pᵀ y along the axis of positions."""
        return self.move(y, drawn.mT)

    def breadth(self) -> Tensor:
        """The mean over rows of the entropy of S(log_alpha), between 0 and log n."""
        logs = log_sinkhorn(self.log_alpha, self.iterations)
        return -(logs.exp() * logs).sum(-1).mean()

    def extra_repr(self) -> str:
        """The positions and the temperature, as ``print(module)`` shows them."""
        return f"{self.n}, axis={self.axis}, temperature={self.temperature}"


class LearnedShifts(Augmentation):
    """Random shifts of signals, uniform in [−w, w] with a width w that is learned.

    A row z goes to z(j − s) at sample j. Between samples it is interpolated, linearly or, on
    the circle, by its Fourier series. Linear interpolation blurs: a shift by half a sample and
    back is not quite what it was.

    Args:
        length: How many samples a signal has.
        axis: The axis of samples, where axis 0 counts the rows.
        width: w at the start, in samples.
        boundary: What lies outside: the signal again, or zeros.
        interpolation: What lies between the samples.
        generator: Seed or generator of the draws.

    Attributes:
        raw_width: The parameter; w is its softplus.

    Example:
        >>> shifts = LearnedShifts(8, width=2.0, generator=0)
        >>> shifts.width.detach()
        tensor(2.)
        >>> shifts(torch.ones(3, 8)).allclose(torch.ones(3, 8))
        True
    """

    def __init__(
        self,
        length: int,
        *,
        axis: int = -1,
        width: float = 1.0,
        boundary: ShiftBoundary = "periodic",
        interpolation: ShiftInterpolation = "linear",
        generator: torch.Generator | int | None = None,
    ) -> None:
        super().__init__(axis, generator)
        if length < 1:
            raise ValueError(f"expected at least one sample in a signal, got {length}")
        if not (0 < width < math.inf):
            raise ValueError(f"expected a positive width, got {width}")
        for what, given, known in (
            ("boundary", boundary, get_args(ShiftBoundary)),
            ("interpolation", interpolation, get_args(ShiftInterpolation)),
        ):
            if given not in known:
                raise ValueError(f"expected the {what} {' or '.join(known)}, got {given!r}")
        if (boundary, interpolation) == ("zeros", "fourier"):
            raise ValueError("expected a periodic boundary with fourier interpolation, got zeros")
        self.length, self.boundary, self.interpolation = length, boundary, interpolation
        self.raw_width = nn.Parameter(torch.tensor(width + math.log(-math.expm1(-width))))

    @property
    def width(self) -> Tensor:
        """Half the interval of shifts, in samples."""
        return nn.functional.softplus(self.raw_width)

    def sample(self, samples: int, rows: int, rng: torch.Generator) -> Tensor:
        """Shifts in samples, shape (samples, rows)."""
        uniform = 2 * torch.rand(samples, rows, generator=rng, device=rng.device) - 1
        return self.width * uniform.to(self.raw_width)

    def move(self, x: Tensor, drawn: Tensor) -> Tensor:
        """Shift along the axis of samples."""
        return self._shifted(x, drawn, self._place(x, self.length))

    def undo(self, y: Tensor, drawn: Tensor) -> Tensor:
        """Shift back; outputs may be longer or shorter than the signal."""
        return self._shifted(y, -drawn, self._place(y))

    def _shifted(self, x: Tensor, by: Tensor, axis: int) -> Tensor:
        signal = x.movedim(axis, -1)
        by = by.to(x.dtype).reshape(*by.shape, *(1,) * (x.ndim - 3))
        if self.interpolation == "fourier":
            moved = _fourier_shift(signal, by)
        else:
            moved = _linear_shift(signal, by, self.boundary)
        return moved.movedim(-1, axis)

    def breadth(self) -> Tensor:
        """The width, up to half the length, at which shifts already go all around the circle."""
        return self.width.clamp_max(self.length / 2)

    def extra_repr(self) -> str:
        """The length and the rules, as ``print(module)`` shows them."""
        return f"{self.length}, axis={self.axis}, {self.boundary}, {self.interpolation}"


def _linear_shift(x: Tensor, by: Tensor, boundary: ShiftBoundary) -> Tensor:
    """Sample j of the last axis takes the value at j − by."""
    n = x.shape[-1]
    places = torch.arange(n, device=x.device, dtype=x.dtype) - by.unsqueeze(-1)
    before = places.detach().floor()
    weight = places - before
    shape = torch.broadcast_shapes(x.shape, places.shape)

    def samples_at(place: Tensor) -> Tensor:
        index = place.long()
        taken = x.expand(shape).gather(-1, (index % n).expand(shape))
        outside = (index < 0) | (index >= n)
        return taken.masked_fill(outside, 0) if boundary == "zeros" else taken

    return (1 - weight) * samples_at(before) + weight * samples_at(before + 1)


def _fourier_shift(x: Tensor, by: Tensor) -> Tensor:
    """Shift periodic signals (*, n) by Fourier phases: sample j takes the value at j − by."""
    n = x.shape[-1]
    frequency = torch.fft.rfftfreq(n, device=x.device, dtype=x.dtype)
    angle = -2 * torch.pi * frequency * by.unsqueeze(-1)
    phase = torch.complex(torch.cos(angle), torch.sin(angle))
    if n % 2 == 0:
        phase = torch.cat([phase[..., :-1], phase[..., -1:].real.to(phase.dtype)], -1)
    shifted: Tensor = torch.fft.irfft(torch.fft.rfft(x) * phase, n)
    return shifted
