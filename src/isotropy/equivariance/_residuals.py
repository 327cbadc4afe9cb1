"""What group elements do to a function: squared residuals, and their mean with its error."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor

from isotropy.equivariance._evaluation import Model, evaluating, inputs_for, output_of

Map: TypeAlias = Callable[[Tensor], Tensor]

MEAN_SQUARED_ERROR = "mean squared error"


@dataclass(frozen=True)
class Element:
    """A group element, as maps of inputs and outputs.

    Args:
        on_inputs: ρ_in(g).
        back: ρ_out(g)⁻¹.
        on_outputs: ρ_out(g), where ``back`` does not quite undo it: shifting a sampled picture
            loses some of its highest frequency, and some of its edge where it is not periodic. What
            is compared with is then also moved there and back, so that such a loss is not taken
            for the model's error. None where nothing is lost.
    """

    on_inputs: Map
    back: Map
    on_outputs: Map | None = None


@dataclass(frozen=True)
class SampledError:
    """A mean over inputs and sampled group elements.

    Args:
        value: The mean.
        standard_error: Of the mean, from its variance over the inputs and, where the elements were
            drawn at random, over these; nan where there is only one of what varies.
        kind: What was averaged.
        inputs: The number of inputs.
        elements: The number of group elements, which all inputs share.

    Example:
        >>> error = SampledError(0.04, 0.004, "mean squared error", inputs=8, elements=20)
        >>> error.psnr().value
        20.0
    """

    value: float
    standard_error: float
    kind: str
    inputs: int
    elements: int

    @staticmethod
    def of(errors: Tensor, kind: str, *, drawn: bool) -> SampledError:
        """The mean of a table of errors, a row for each element and a column for each input.

        Rows and columns vary by themselves and together: Var = σ_r²/K + σ_c²/N + σ_rc²/(KN). The
        variance of the row means divided by K has the first and the last term in expectation,
        that of the column means divided by N the second and the last.

        Args:
            errors: Shape (elements, inputs).
            kind: What they are.
            drawn: Whether the elements were drawn at random; else they are all there are.
        """
        errors = errors.double()
        elements, inputs = errors.shape
        value = errors.mean()
        by_input, by_element = errors.mean(0), errors.mean(1)
        parts = []
        if inputs > 1:
            parts.append(float(by_input.var()) / inputs)
        if drawn and elements > 1:
            parts.append(float(by_element.var()) / elements)
        variance = sum(parts) if parts else math.nan
        if len(parts) == 2:
            together = errors - by_input - by_element[:, None] + value
            counted_twice = together.square().sum() / ((elements - 1) * (inputs - 1))
            variance = max(0.0, variance - float(counted_twice) / errors.numel())
        return SampledError(float(value), math.sqrt(variance), kind, inputs, elements)

    def psnr(self, peak: float = 2.0) -> SampledError:
        """The peak signal-to-noise ratio in decibels, 10 log₁₀(peak²/error); large is good.

        Args:
            peak: The range of the outputs: 2 for images from −1 to 1, as Karras et al. (2021)
                take them; 1 for probabilities.

        Raises:
            ValueError: If this is not a mean squared error, or the peak is not positive.
        """
        if self.kind != MEAN_SQUARED_ERROR:
            raise ValueError(f"expected a {MEAN_SQUARED_ERROR} for the PSNR, got a {self.kind}")
        if not peak > 0:
            raise ValueError(f"expected a positive peak, got {peak}")
        if not self.value:
            decibels, spread = math.inf, math.nan
        else:
            decibels = 10 * math.log10(peak**2 / self.value)
            spread = 10 / math.log(10) * self.standard_error / self.value
        return SampledError(decibels, spread, "PSNR (dB)", self.inputs, self.elements)


# From a batch of inputs and outputs: maps for each element, and which outputs count (None: all).
ElementsOf: TypeAlias = Callable[[Tensor, Tensor], tuple[list[Element], Tensor | None]]


def squared_residuals(
    f: Model, x: Tensor, elements: ElementsOf, batch_size: int | None
) -> tuple[Tensor, int]:
    """‖ρ_out(g)⁻¹ f(ρ_in(g) x) − f(x)‖² for each element g and input x.

    Returns:
        Shape (elements, inputs), float64 on the CPU, and how many outputs of an input count.
    """
    tables = []
    count = 0
    with evaluating(f), torch.no_grad():
        for batch in x.split(batch_size or len(x)):
            inputs = inputs_for(f, batch)
            y = output_of(f(inputs.clone()))  # it may work in place
            found, counted = elements(inputs, y)
            table, count = batch_residuals(f, inputs, y, found, counted)
            tables.append(table)
    return torch.cat(tables, 1), count


def batch_residuals(
    f: Model, x: Tensor, y: Tensor, elements: list[Element], counted: Tensor | None
) -> tuple[Tensor, int]:
    """The squared residuals of one batch, whose outputs are known, and how many outputs count."""
    if y.ndim == 0 or len(y) != len(x):
        raise ValueError(
            f"expected an output for each of {len(x)} inputs, got shape {tuple(y.shape)}"
        )
    values = exact(y)
    rows = []
    for element in elements:
        moved = element.on_inputs(exact(x))
        moved = moved.to(
            torch.promote_types(x.dtype, torch.complex32) if moved.is_complex() else x.dtype
        )
        found = element.back(exact(output_of(f(moved.clone()))))
        expected = values
        if element.on_outputs is not None:
            expected = element.back(element.on_outputs(values))
        if found.shape != expected.shape:
            raise ValueError(
                f"expected outputs of shape {tuple(expected.shape)} from moved inputs, got "
                f"{tuple(found.shape)}"
            )
        residual = (found - expected).abs()
        if counted is not None:
            residual = residual * counted
        rows.append(residual.square().reshape(len(residual), -1).sum(1).cpu())
    size = y[0].numel() if counted is None else int(counted[0].sum())
    return torch.stack(rows), size


def exact(x: Tensor) -> Tensor:
    """In double precision, so that rounding in the maps is not taken for the model's error."""
    return x.to(torch.complex128 if x.is_complex() else torch.float64)


def check_counts(x: Tensor, samples: int, batch_size: int | None) -> None:
    """Refuse inputs that are none, and numbers that do not count."""
    if not isinstance(x, Tensor):
        raise TypeError(f"expected a tensor of inputs, got {type(x).__name__}")
    if x.ndim == 0 or x.numel() == 0:
        raise ValueError(f"expected a batch of inputs, got shape {tuple(x.shape)}")
    for what, number in (("samples", samples), ("batch_size", batch_size)):
        if number is not None and (
            isinstance(number, bool) or not isinstance(number, int) or number < 1
        ):
            raise ValueError(f"expected {what} of at least one, got {number!r}")
