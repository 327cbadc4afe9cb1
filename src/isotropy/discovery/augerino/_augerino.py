"""Learned augmentation: predict with the mean over random transformations, and learn their law.

Augerino (Benton et al., 2020) trains a model and the breadth of its augmentation together, by

    task loss of the mean prediction − breadth_weight · breadth,

so that the augmentation grows as broad as the task lets it. It is the baseline of Yeh et al.
(2022), who learn sharing instead: permutations by Gumbel-Sinkhorn matrices, shifts by their width.
"""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import torch
from torch import Tensor, nn

from isotropy._run import ProgressCallback, Step
from isotropy._run import generator as make_generator
from isotropy.discovery.augerino._gumbel_sinkhorn import gumbel_sinkhorn, log_sinkhorn
from isotropy.equivariance._interpolation import shift as fourier_shift

ShiftBoundary: TypeAlias = Literal["periodic", "zeros"]
ShiftInterpolation: TypeAlias = Literal["linear", "fourier"]
Loss: TypeAlias = Callable[[Tensor, Tensor], Tensor]


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
            moved = fourier_shift(signal, by, "periodic")
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


class Augerino(nn.Module):
    """The mean prediction of a model over random transformations whose law is learned.

        y(x) = 1/m Σ_i g_i⁻¹ f(g_i h(x)),

    where h is the encoder, and g⁻¹ is left out unless the task is equivariant. Train it on the
    task loss − weight · ``breadth()``; its parameters include those of the augmentation.

    Args:
        model: f, from (rows, *) to (rows, *); called once, with samples · rows rows.
        augmentation: The law of g.
        samples: m, the same in training and evaluation.
        equivariant: Whether outputs move with inputs, and so are moved back.
        compound: Whether each transformation acts on what the one before has left rather than
            on the input.
        encoder: h, which comes before the augmentation, say the embedding of tokens.

    Example:
        >>> model = Augerino(
        ...     nn.Sequential(nn.Flatten(), nn.Linear(4 * 5, 1)),
        ...     LearnedPermutations(4, generator=0),
        ...     encoder=nn.Embedding(10, 5),
        ... )
        >>> model(torch.tensor([[1, 2, 3, 4], [9, 9, 9, 9]])).shape
        torch.Size([2, 1])
        >>> "augmentation.log_alpha" in dict(model.named_parameters())
        True
    """

    def __init__(
        self,
        model: Callable[[Tensor], Tensor],
        augmentation: Augmentation,
        *,
        samples: int = 3,
        equivariant: bool = False,
        compound: bool = False,
        encoder: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(augmentation, Augmentation):
            raise TypeError(f"expected an augmentation, got {type(augmentation).__name__}")
        if samples < 1:
            raise ValueError(f"expected at least one sample, got {samples}")
        self.model, self.augmentation, self.encoder = model, augmentation, encoder
        self.samples, self.equivariant, self.compound = samples, equivariant, compound

    def forward(self, x: Tensor) -> Tensor:
        """The mean prediction, shape (rows, *)."""
        features = x if self.encoder is None else self.encoder(x)
        if not features.is_floating_point():
            raise TypeError(
                f"expected floating-point features to augment, got {features.dtype}; "
                "tokens need an encoder"
            )
        drawn = self.augmentation.draw(self.samples, len(features))
        y = self.model(self._moved(features, drawn).flatten(0, 1))
        if len(y) != self.samples * len(features):
            raise ValueError(
                f"expected one output for each of {self.samples * len(features)} rows, "
                f"got shape {tuple(y.shape)}"
            )
        y = y.unflatten(0, (self.samples, len(features)))
        return (self._returned(y, drawn) if self.equivariant else y).mean(0)

    def _moved(self, features: Tensor, drawn: Tensor) -> Tensor:
        if not self.compound:
            return self.augmentation.move(features.unsqueeze(0), drawn)
        moved = [features.unsqueeze(0)]
        for one in drawn.split(1):
            moved.append(self.augmentation.move(moved[-1], one))
        return torch.cat(moved[1:])

    def _returned(self, y: Tensor, drawn: Tensor) -> Tensor:
        if not self.compound:
            return self.augmentation.undo(y, drawn)
        returned = []
        for i in range(self.samples):
            back = y[i : i + 1]
            for one in reversed(drawn[: i + 1].split(1)):
                back = self.augmentation.undo(back, one)
            returned.append(back)
        return torch.cat(returned)

    def breadth(self) -> Tensor:
        """How much the transformations vary."""
        return self.augmentation.breadth()


@dataclass(frozen=True)
class AugerinoFit:
    """What a fit has left.

    Args:
        model: The model, with the parameters of its best epoch, in evaluation mode.
        epoch: The best epoch; 0 is before the first step.
        score: The loss − breadth_weight · breadth at that epoch, on the validation rows.
        scores: The same after each epoch, from epoch 0 on.
        interrupted: Whether the work was stopped from the keyboard.

    Example:
        >>> model = Augerino(nn.Linear(2, 1), LearnedPermutations(2, generator=0))
        >>> fit = fit_augerino(model, torch.zeros(5, 2), torch.zeros(5, 1), epochs=3)
        >>> isinstance(fit, AugerinoFit), len(fit.scores), fit.interrupted
        (True, 4, False)
    """

    model: Augerino
    epoch: int
    score: float
    scores: tuple[float, ...]
    interrupted: bool


def fit_augerino(
    model: Augerino,
    x: Tensor,
    y: Tensor,
    *,
    validation: tuple[Tensor, Tensor] | None = None,
    loss: Loss = nn.functional.mse_loss,
    breadth_weight: float = 0.01,
    learning_rate: float = 1e-3,
    weight_decay: float = 0.0,
    epochs: int = 1000,
    patience: int | None = None,
    seed: torch.Generator | int | None = None,
    progress: ProgressCallback | None = None,
) -> AugerinoFit:
    """Minimise loss − breadth_weight · breadth, full batch by AdamW, and keep the best epoch.

    Stopped from the keyboard, it keeps the best epoch so far.

    Args:
        model: What is trained, in place.
        x: Inputs, shape (rows, *).
        y: Targets, shape (rows, *).
        validation: Inputs and targets that choose the best epoch; the training rows by default.
        loss: Of predictions and targets, a number.
        breadth_weight: What breadth is worth.
        learning_rate: Of all parameters.
        weight_decay: Of the model's parameters; a law that decays would not be learned.
        epochs: The most steps.
        patience: Epochs without a better score after which to stop; ``None`` makes all.
        seed: Of the transformations; ``None`` goes on with the augmentation's own generator.
        progress: Told after each epoch.

    Raises:
        ValueError: If the rows are empty, not finite or of other numbers in x and y, or if
            targets have not the shape of predictions.

    Example:
        >>> x = torch.randn(50, 4, generator=torch.Generator().manual_seed(0))
        >>> model = Augerino(nn.Linear(4, 1), LearnedPermutations(4, generator=0))
        >>> fit = fit_augerino(model, x, x.sum(1, keepdim=True), learning_rate=0.1, epochs=100)
        >>> fit.score < fit.scores[0]
        True
    """
    if epochs < 0:
        raise ValueError(f"expected no fewer than zero epochs, got {epochs}")
    if patience is not None and patience < 1:
        raise ValueError(f"expected a patience of at least one epoch or None, got {patience}")
    held_x, held_y = (x, y) if validation is None else validation
    for rows, targets in ((x, y), (held_x, held_y)):
        _require_rows(model, rows, targets)
    if seed is not None:
        model.augmentation.reseed(seed)
    law = list(model.augmentation.parameters())
    others = [p for p in model.parameters() if not any(p is q for q in law)]
    optimiser = torch.optim.AdamW(
        [{"params": law, "weight_decay": 0.0}, {"params": others, "weight_decay": weight_decay}],
        lr=learning_rate,
    )

    def objective(rows: Tensor, targets: Tensor) -> Tensor:
        return loss(model(rows), targets) - breadth_weight * model.breadth()

    def score() -> float:
        with torch.no_grad():
            return float(objective(held_x, held_y))

    model.eval()
    scores = [score()]
    best, kept = 0, copy.deepcopy(model.state_dict())
    interrupted = False
    try:
        for epoch in range(1, epochs + 1):
            model.train()
            optimiser.zero_grad()
            objective(x, y).backward()
            optimiser.step()
            model.eval()
            scores.append(score())
            if scores[-1] < scores[best]:
                best, kept = epoch, copy.deepcopy(model.state_dict())
            if progress is not None:
                progress(Step(epoch, epochs, f"best score {scores[best]:.4g}"))
            if patience is not None and epoch - best >= patience:
                break
    except KeyboardInterrupt:
        interrupted = True
    model.load_state_dict(kept)
    model.eval()
    return AugerinoFit(model, best, scores[best], tuple(scores), interrupted)


def _require_rows(model: Augerino, x: Tensor, y: Tensor) -> None:
    if len(x) != len(y) or len(x) == 0:
        raise ValueError(
            f"expected as many targets as rows, at least one, got {len(y)} and {len(x)}"
        )
    for what, given in (("inputs", x), ("targets", y)):
        if not bool(given.isfinite().all()):
            raise ValueError(f"expected finite {what}, got infinite ones or NaN")
    model.eval()
    with torch.no_grad():
        predicted = model(x[:1]).shape[1:]
    # whole numbers are classes; others would broadcast against predictions of another shape
    if y.is_floating_point() and y.shape[1:] != predicted:
        raise ValueError(
            f"expected targets of the shape of predictions, {('rows', *predicted)}, "
            f"got shape {tuple(y.shape)}"
        )
