"""The tester: does a function turn with its inputs, as its symmetry says?"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from isotropy._run import generator as make_generator
from isotropy.equivariance._elements_to_try import elements_to_try
from isotropy.equivariance._evaluation import evaluating
from isotropy.groups import Group
from isotropy.reps import Rep, Symmetry

Model = Callable[[Tensor], Tensor]

_TOLERANCE = {
    torch.float64: 1e-12,
    torch.complex128: 1e-12,
    torch.float32: 1e-5,
    torch.complex64: 1e-5,
    torch.float16: 1e-2,
    torch.bfloat16: 6e-2,
}
_ROWS = 16


@dataclass(frozen=True)
class _Outcome:
    """What one test found: the largest error, where, and why it may say nothing."""

    error: float
    element: str
    vacuous: str | None
    dtype: torch.dtype


def equivariance_error(
    model: Model,
    x: Tensor,
    symmetry: Symmetry | Group | None = None,
    *,
    rep_in: Rep | None = None,
    rep_out: Rep | None = None,
    samples: int = 8,
    generator: torch.Generator | int | None = 0,
    max_condition: float = 10.0,
) -> float:
    """The largest relative equivariance error of a function over elements of a group.

    For each element g, with norms over the whole batch (thesis A.1.9),

        ‖f(ρ_in(g) x) − ρ_out(g) f(x)‖ / (‖f(ρ_in(g) x)‖ + ‖ρ_out(g) f(x)‖),

    a number between 0 and 1. The elements are all of a group with at most ``samples``; of a
    larger one, its discrete generators and ``samples`` random elements. Inputs and outputs are
    transformed in float64, and cast only to call the model, which is put in evaluation mode for
    the test and back after it.

    Args:
        model: A module or any function of a tensor (*, d_in) that gives a tensor (*, d_out).
        x: Inputs, shape (*, d_in). The model is called in their precision; integers are cast
            to that of its parameters.
        symmetry: The symmetry; or a group, whose actions are read off the model's ``rep_in``
            and ``rep_out``; or None, with the group read off as well.
        rep_in: How the group acts on inputs, where the model does not say.
        rep_out: How the group acts on outputs, where the model does not say.
        samples: The number of random elements.
        generator: Seed or generator of the random elements.
        max_condition: Elements whose matrices have a larger condition number, which would
            measure rounding error, are drawn again; smaller ones follow if that does not help.

    Returns:
        The error; nan where the test can say nothing: an output that is not finite, is zero
        throughout, or does not depend on the input at all.

    Raises:
        ValueError: If widths do not fit the representations, no symmetry is given or read off,
            or no element has a small enough condition number.

    Example:
        >>> from isotropy.groups import O, SO
        >>> from isotropy.reps import T, V
        >>> def outer(x):
        ...     return (x.unsqueeze(-1) * x.unsqueeze(-2)).flatten(-2)
        >>> x = torch.randn(10, 3, generator=torch.Generator().manual_seed(0)).double()
        >>> equivariance_error(outer, x, Symmetry(O(3), V, T(2))) < 1e-15
        True
        >>> equivariance_error(torch.relu, x, Symmetry(SO(3), V, V)) > 0.1
        True
    """
    found = resolve_symmetry(model, symmetry, rep_in, rep_out)
    return _examine(model, x, found, samples, make_generator(generator), max_condition).error


def assert_equivariant(
    model: Model,
    x: Tensor | None = None,
    symmetry: Symmetry | Group | None = None,
    *,
    tolerance: float | None = None,
    rep_in: Rep | None = None,
    rep_out: Rep | None = None,
    samples: int = 8,
    generator: torch.Generator | int | None = 0,
    max_condition: float = 10.0,
) -> None:
    """Refuse a function that is not equivariant; see ``equivariance_error`` for what is measured.

    Args:
        model: A module or any function of a tensor (*, d_in) that gives a tensor (*, d_out).
        x: Inputs, shape (*, d_in); standard normal rows where none are given.
        symmetry: A symmetry, a group, or None to read it off the model.
        tolerance: The largest error to accept: by default 1e-12 in float64, 1e-5 in float32,
            1e-2 in float16, 6e-2 in bfloat16.
        rep_in: How the group acts on inputs, where the model does not say.
        rep_out: How the group acts on outputs, where the model does not say.
        samples: The number of random elements.
        generator: Seed or generator of the random elements and inputs.
        max_condition: The largest condition number of an element's matrices.

    Raises:
        AssertionError: If the error is larger, or the output is not finite, zero, or constant,
            so that nothing is shown.
        ValueError: As ``equivariance_error``.

    Example:
        >>> from isotropy.groups import S
        >>> from isotropy.reps import V
        >>> assert_equivariant(torch.relu, symmetry=Symmetry(S(5), V, V))
        >>> assert_equivariant(lambda x: x.cumsum(-1), symmetry=Symmetry(S(5), V, V))
        Traceback (most recent call last):
        ...
        AssertionError: expected <lambda> to be equivariant to S(5): V >> V with a relative error \
of at most 1.0e-12, got ...
    """
    found = resolve_symmetry(model, symmetry, rep_in, rep_out)
    rng = make_generator(generator)
    if x is None:
        dtype = _parameter_dtype(model) or torch.float64
        width = torch.complex128 if found.rep_in.is_complex else torch.float64
        drawn = torch.randn(_ROWS, found.rep_in.size(), dtype=width, generator=rng)
        x = drawn.to(_call_dtype(dtype, found.rep_in))
    outcome = _examine(model, x, found, samples, rng, max_condition)
    if tolerance is None:
        tolerance = _TOLERANCE.get(outcome.dtype, 6e-2)
    name = getattr(model, "__name__", type(model).__name__)
    expected = f"expected {name} to be equivariant to {found!s:.200}"
    if outcome.vacuous:
        raise AssertionError(f"{expected}, got {outcome.vacuous}, which shows nothing")
    if not outcome.error <= tolerance:
        raise AssertionError(
            f"{expected} with a relative error of at most {tolerance:.1e}, "
            f"got {outcome.error:.1e} at {outcome.element}"
        )


# --- which symmetry ---------------------------------------------------------------------------


def resolve_symmetry(
    model: Model, symmetry: Symmetry | Group | None, rep_in: Rep | None, rep_out: Rep | None
) -> Symmetry:
    if isinstance(symmetry, Symmetry):
        if rep_in is not None or rep_out is not None:
            raise ValueError("expected a symmetry or representations, got both")
        return symmetry
    if symmetry is not None and not isinstance(symmetry, Group):
        raise TypeError(f"expected a symmetry, a group or None, got {type(symmetry).__name__}")
    actions = []
    for name, given in (("rep_in", rep_in), ("rep_out", rep_out)):
        rep = getattr(model, name, None) if given is None else given
        if not isinstance(rep, Rep):
            raise ValueError(
                f"expected {name}, or a model that has one, got {type(rep).__name__} "
                f"from {type(model).__name__}"
            )
        actions.append(rep)
    own = (actions[0] + actions[1]).group
    if own is None and symmetry is None:
        raise ValueError("expected a group, or representations bound to one, got neither")
    if own is None or symmetry is None or own == symmetry:
        return Symmetry(symmetry or own, *actions)  # type: ignore[arg-type]  # one is a group
    return Symmetry(own, *actions).restrict(symmetry)


# --- calling the model ------------------------------------------------------------------------


def _examine(
    model: Model,
    x: Tensor,
    symmetry: Symmetry,
    samples: int,
    rng: torch.Generator,
    max_condition: float,
) -> _Outcome:
    if not isinstance(x, Tensor):
        raise TypeError(f"expected a tensor of inputs, got {type(x).__name__}")
    if x.ndim == 0 or x.shape[-1] != symmetry.rep_in.size() or x.numel() == 0:
        raise ValueError(
            f"expected inputs of width {symmetry.rep_in.size()} for {symmetry.rep_in!s:.80}, "
            f"got shape {tuple(x.shape)}"
        )
    if isinstance(samples, bool) or not isinstance(samples, int) or samples < 1:
        raise ValueError(f"expected at least one sample, got {samples!r}")
    if not max_condition >= 1:
        raise ValueError(f"expected a condition number of at least 1, got {max_condition!r}")
    exact = torch.complex128 if x.is_complex() or symmetry.rep_in.is_complex else torch.float64
    master = x.detach().cpu().to(exact)
    call = _Caller(model, x, symmetry)
    worst, where = -math.inf, ""
    with evaluating(model), torch.no_grad():
        base = call(master)
        for element, maps in elements_to_try(symmetry, samples, rng, max_condition):
            moved = call(maps[0].apply(master))
            expected = maps[1].apply(base)
            scale = float(moved.norm() + expected.norm())
            error = float((moved - expected).norm()) / scale if scale else 0.0
            if error > worst or math.isnan(error):
                worst, where = error, element
            if math.isnan(worst):
                break
        vacuous = _vacuous(call, master, base, worst, rng)
    return _Outcome(math.nan if vacuous else worst, where, vacuous, call.dtype)


def _vacuous(
    call: _Caller, master: Tensor, base: Tensor, worst: float, rng: torch.Generator
) -> str | None:
    """Why a small error would show nothing, or None."""
    if not math.isfinite(worst) or not bool(torch.isfinite(base).all()):
        return "an output that is not finite"
    if worst > _TOLERANCE.get(call.dtype, 6e-2):
        return None  # the error speaks for itself
    if not bool(base.any()):
        return "an output that is zero"
    other = torch.randn(master.shape, dtype=master.dtype, generator=rng)
    other = other * (master.abs().square().mean().sqrt() + 1e-3)
    if all(bool((call(probe) == base).all()) for probe in (other, -2 * other)):
        return "an output that does not depend on the input"
    return None


class _Caller:
    """The model as a function of float64 tensors on the CPU."""

    def __init__(self, model: Model, x: Tensor, symmetry: Symmetry) -> None:
        floating = x.is_floating_point() or x.is_complex()
        own = x.dtype if floating else _parameter_dtype(model) or torch.get_default_dtype()
        self.model = model
        self.symmetry = symmetry
        self.input_dtype = _call_dtype(own, symmetry.rep_in)
        parameter = next(_tensors(model), None)
        self.device = x.device if parameter is None else parameter.device
        self.dtype = self.input_dtype  # of the output, where that is less precise

    def __call__(self, x: Tensor) -> Tensor:
        y = self.model(x.to(self.device, self.input_dtype, copy=True))  # it may work in place
        if not isinstance(y, Tensor):
            raise TypeError(f"expected a tensor from the model, got {type(y).__name__}")
        if y.shape != (*x.shape[:-1], self.symmetry.rep_out.size()):
            raise ValueError(
                f"expected outputs of shape {(*x.shape[:-1], self.symmetry.rep_out.size())} for "
                f"{self.symmetry.rep_out!s:.80}, got shape {tuple(y.shape)}"
            )
        if _TOLERANCE.get(y.dtype, 0.0) > _TOLERANCE.get(self.dtype, 0.0):
            self.dtype = y.dtype
        is_complex = y.is_complex() or self.symmetry.rep_out.is_complex
        return y.detach().cpu().to(torch.complex128 if is_complex else torch.float64)


def _tensors(model: Model) -> Iterator[Tensor]:
    if isinstance(model, nn.Module):
        yield from model.parameters()
        yield from model.buffers()


def _parameter_dtype(model: Model) -> torch.dtype | None:
    found = (t.dtype for t in _tensors(model) if t.is_floating_point() or t.is_complex())
    return next(found, None)


def _call_dtype(dtype: torch.dtype, rep_in: Rep) -> torch.dtype:
    return torch.promote_types(dtype, torch.complex32) if rep_in.is_complex else dtype
