"""The Lie derivative layer by layer: what each part of a network contributes, exactly."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from math import nan, sqrt
from typing import Any, Literal, TypeAlias, get_args

import torch
from torch import Tensor, nn

from isotropy._run import generator as make_generator
from isotropy.equivariance._action import Action, Place, place_of_output
from isotropy.equivariance._evaluation import Model, evaluating, inputs_for, output_of
from isotropy.equivariance._follow import Follower
from isotropy.equivariance._image_actions import as_action
from isotropy.equivariance._lee import require_finite
from isotropy.equivariance._lie_derivative import forward_mode
from isotropy.equivariance._reverse import contributions_in_reverse

Method: TypeAlias = Literal["forward", "reverse", "probes"]

_DIGITS_LOST = 1e4  # units of rounding that a long computation may lose
_CLOSE = 1e-3  # what is further from adding up is found again in double precision


@dataclass(frozen=True)
class LayerContribution:
    """What one unit of a network adds to its Lie derivative.

    With C the unit's contribution to L, a vector of K outputs for each input, and means over
    inputs (and over the directions of an action that has several):

    Args:
        name: The module's name, or its parent's and the function that was called.
        kind: What sort of layer it is.
        contribution: E ‖C‖ / √K. The thesis plots E ‖C‖; the sum over units bounds E ‖L‖ / √K.
        squared: E ‖C‖² / K, in the unit of `lee`.
        share: E ⟨C, L⟩ / E ‖L‖². These add up to 1; a unit that makes up for others is negative.
        stderr: The standard error of ``contribution`` over inputs; that of the probes for a single
            one, and nan where it is exact.
    """

    name: str
    kind: str
    contribution: float
    squared: float
    share: float
    stderr: float


@dataclass(frozen=True)
class Layerwise:
    """The Lie derivative of a network, unit by unit, in the order in which they act.

    Args:
        action: The action's name.
        layers: The units that contribute; all others contribute nothing.
        lee: E ‖L‖² / K (thesis, Eq. 4.4).
        closure: The largest ‖Σ C − L‖ / ‖L‖ of any batch, with L found independently.
        inputs: How many inputs were averaged over.
        method: How the contributions were found.
    """

    action: str
    layers: tuple[LayerContribution, ...]
    lee: float
    closure: float
    inputs: int
    method: str

    def data(self) -> dict[str, Any]:
        """The result as JSON knows it."""
        return asdict(self)

    def by_kind(self) -> dict[str, float]:
        """The sum of the contributions of each kind of layer, the largest first.

        Example:
            >>> units = (
            ...     LayerContribution("a", "activation", 2.0, 4.0, 0.5, 0.1),
            ...     LayerContribution("b", "pooling", 3.0, 9.0, 0.5, 0.1),
            ... )
            >>> Layerwise("rotation", units, 1.0, 0.0, 1, "forward").by_kind()
            {'pooling': 3.0, 'activation': 2.0}
        """
        total: dict[str, float] = {}
        for layer in self.layers:
            total[layer.kind] = total.get(layer.kind, 0.0) + layer.contribution
        return dict(sorted(total.items(), key=lambda item: -item[1]))


def layerwise(
    model: Model,
    x: Tensor,
    action: Action | str,
    *,
    layouts: Mapping[str, str] | None = None,
    output: str | None = None,
    method: Method = "forward",
    probes: int = 100,
    batch_size: int = 4,
    generator: torch.Generator | int | None = 0,
) -> Layerwise:
    r"""Split the Lie derivative of a network into the contributions of its layers.

    By the chain rule L_X f = Σ_i C_i, with C_i = df_{N:i+1} · L_X f_i what unit i does wrong as
    it arrives at the output (thesis, Eq. 4.6). A unit is a module without submodules, or an
    operation that a larger module calls as a function: a residual sum, attention, the sum with a
    positional embedding. The model stays as it is; nothing of it is rewritten or left changed.

    How the action acts on values inside the network is followed through its operations: which
    axes carry rows and columns (NCHW, NHWC, tokens with class and register tokens, windows), and
    where the samples of a feature map lie in the image. Where that is unknown, tangents are
    passed on and the next unit whose result is known is charged; nothing is lost. The sum of the
    contributions is compared with the Lie derivative, found independently, on every call.

    - ``"forward"``: exact; all contributions move together with the forward pass. Its cost grows
      with the number of units.
    - ``"reverse"``: exact; one backward pass for each output. For networks with few outputs.
    - ``"probes"``: estimates (z·C)² with ``probes`` random vectors z, one backward pass for each
      (thesis, A.3.1.3). For very deep networks with many outputs; ``stderr`` says how good.

    Args:
        model: A module or function.
        x: Inputs, the batch first.
        action: An action or its name.
        layouts: How the action acts on the output of modules, by name or pattern ("blocks.*"),
            where what is inferred is not what is meant: "NCHW", "NHWC", "NLC", "NLC+5" (tokens
            after five extra ones), "invariant"; for vectors a representation.
        output: The same for the output of the whole model.
        method: How to find the contributions.
        probes: How many random vectors "probes" takes.
        batch_size: How many inputs to take at a time.
        generator: Seed or generator of the probes.

    Returns:
        The contributions, in the order in which units act.

    Raises:
        ValueError: If the action cannot act on inputs or outputs of this shape, a layout is for no
            module, or the model draws random numbers.
        RuntimeError: If the contributions do not add up, because a part of the model runs outside
            PyTorch's functions.

    Example:
        >>> from torch import nn
        >>> from isotropy.equivariance import image_action
        >>> net = nn.Sequential(
        ...     nn.Conv2d(1, 4, 3, padding=1, padding_mode="circular"), nn.ReLU(), nn.MaxPool2d(2)
        ... )
        >>> x = torch.rand(2, 1, 8, 8, generator=torch.Generator().manual_seed(0))
        >>> found = layerwise(net, x, image_action("translation_x", boundary="periodic"))
        >>> [layer.kind for layer in found.layers], found.closure < 1e-5
        (['activation', 'pooling'], True)
    """
    if method not in get_args(Method):
        raise ValueError(f"expected a method among {', '.join(get_args(Method))}, got {method!r}")
    if batch_size < 1 or probes < 2:
        raise ValueError(
            f"expected a batch size of at least 1 and at least 2 probes, got {batch_size} and "
            f"{probes}"
        )
    _require_modules(model, layouts or {})
    x = inputs_for(model, x).detach()
    action = as_action(action, x)
    action.input_place(x)  # refuses inputs of another shape
    options = _Options(layouts or {}, output, method, probes, make_generator(generator))
    tally = _Tally()
    with evaluating(model):
        # in reverse one ε for each unit has to tell inputs apart
        for part in x.split(batch_size if method == "forward" else 1):
            found = [_closing(model, part, direction, options) for direction in action.directions]
            tally.add(found)
    return tally.result(action.name, len(x), method)


@dataclass(frozen=True)
class _Options:
    """How contributions are to be found; see `layerwise`."""

    layouts: Mapping[str, str]
    output: str | None
    method: Method
    probes: int
    rng: torch.Generator


def _closing(model: Model, x: Tensor, action: Action, options: _Options) -> _BatchContributions:
    """Contributions that add up, found in double precision where rounding stands in the way.

    A value at the kink of a ReLU may fall on either side of it in two evaluations, and large
    contributions may cancel; both happen in networks with random weights.

    Raises:
        RuntimeError: If they do not add up in double precision either.
    """
    state = options.rng.get_state()
    found, allowed = _one_direction(model, x, action, options)
    if found.closure <= min(_CLOSE, _DIGITS_LOST * torch.finfo(x.dtype).eps):
        return found
    if isinstance(model, nn.Module) and x.dtype not in (torch.float64, torch.complex128):
        options.rng.set_state(state)
        exact = deepcopy(model).to(torch.float64)
        x = x.to(torch.float64)
        found, allowed = _one_direction(exact, x, action, options)
    if not found.closure <= allowed:
        raise RuntimeError(
            "expected contributions that add up to the Lie derivative, got a relative difference "
            f"of {found.closure:.1e}: a part of the model runs outside PyTorch's functions (numpy, "
            "a custom autograd.Function) or draws random numbers"
        )
    return found


def _require_modules(model: Model, layouts: Mapping[str, str]) -> None:
    known = [name for name, _ in model.named_modules()] if isinstance(model, nn.Module) else []
    for pattern in layouts:
        if not any(fnmatchcase(name, pattern) for name in known):
            shown = ", ".join(name for name in known if name)[:200] or "no modules"
            raise ValueError(f"expected layouts for modules among {shown}, got {pattern!r}")


@dataclass(frozen=True)
class _BatchContributions:
    """What one batch showed along one direction.

    Args:
        names: The units.
        kinds: Their kinds.
        squares: ‖C‖² / K of each unit and input; (units, inputs).
        noise: The standard error of each of these from probes; zero where they are exact.
        products: ⟨C, L⟩ / K.
        total: ‖L‖² / K of each input.
        closure: ‖Σ C − L‖ / ‖L‖.
    """

    names: list[str]
    kinds: list[str]
    squares: Tensor
    noise: Tensor
    products: Tensor
    total: Tensor
    closure: float


def _one_direction(
    model: Model, x: Tensor, action: Action, options: _Options
) -> tuple[_BatchContributions, float]:
    """What was found, and how far it may be from adding up."""
    if options.method == "forward":
        point = x.clone()  # a model may change its input
        follower = Follower(model, point, action, options.layouts)
        with torch.no_grad(), follower.watching():
            y = output_of(model(point))
        place = place_of_output(follower.place_of(y), tuple(y.shape), action, x, options.output)
        parts = follower.outcome(y, place)
        derivative = _derivative(model, x, action, place)
        dim = y[0].numel()
        rows = parts.flatten(2) if parts.ndim > 2 else parts.unsqueeze(-1)
        whole = derivative.reshape(len(x), -1)
        squares = rows.abs().square().sum(-1).double() / dim
        noise = torch.zeros_like(squares)
        products = (rows.conj() * whole).real.sum(-1).double() / dim
        closure = _closure(rows.sum(0) + follower.left_over(y, place).reshape(len(x), -1), whole)
    else:
        probes = None if options.method == "reverse" else options.probes
        reverse = contributions_in_reverse(
            model, x, action, options.layouts, options.output, probes, options.rng
        )
        follower, whole = reverse.follower, reverse.derivative.reshape(len(x), -1)
        dim = whole.shape[1]
        squares, noise, products = reverse.squares, reverse.noise, reverse.products
        closure = reverse.closure
    require_finite([whole], action.name)
    total = whole.abs().square().sum(-1).double() / dim
    names = list(follower.units)
    found = _BatchContributions(names, follower.kinds, squares, noise, products, total, closure)
    return found, _allowed(whole, squares.sqrt(), follower.coarsest)


def _derivative(model: Model, x: Tensor, action: Action, place: Place) -> Tensor:
    """The whole, found independently, by PyTorch's forward mode."""
    with torch.no_grad():
        moved, y = forward_mode(model, x, action.tangent(x))
        return (moved - action.act(y, place)).detach()


def _closure(found: Tensor, whole: Tensor) -> float:
    scale = float(whole.norm())
    gap = float((found - whole).norm())
    return gap / scale if scale else gap


def _allowed(whole: Tensor, lengths: Tensor, eps: float) -> float:
    """How much rounding, of the coarsest type in use, may leave where terms cancel."""
    scale = float(whole.norm()) / sqrt(whole.shape[1])
    terms = float(lengths.sum(0).norm())
    return min(_CLOSE, _DIGITS_LOST * eps) * (1 + (terms / scale if scale else terms))


class _Tally:
    """What all inputs showed, by unit, as means over directions."""

    def __init__(self) -> None:
        self.kinds: dict[str, str] = {}
        self.order: list[str] = []
        self.columns: dict[str, list[Tensor]] = {}  # of each unit: (4, inputs) for each batch
        self.total: list[Tensor] = []
        self.closure = 0.0

    def add(self, directions: list[_BatchContributions]) -> None:
        """Take in a batch: what was found along each direction."""
        count, inputs = len(directions), len(directions[0].total)
        sums: dict[str, Tensor] = {}
        for found in directions:
            self._learn(found)
            lengths = found.squares.sqrt()
            spread = torch.where(lengths > 0, found.noise / (2 * lengths), 0.0)
            parts = torch.stack([lengths, found.squares, found.products, spread.square() / count])
            for i, name in enumerate(found.names):
                zero = torch.zeros(4, inputs, dtype=torch.float64)
                sums[name] = sums.get(name, zero) + parts[:, i].cpu() / count
        for name in self.order:  # a unit that is not there added nothing
            missing = torch.zeros(4, inputs, dtype=torch.float64)
            self.columns[name].append(sums.get(name, missing))
        self.total.append(sum(found.total for found in directions).cpu() / count)  # type: ignore[union-attr]
        self.closure = max(self.closure, *(found.closure for found in directions))

    def _learn(self, found: _BatchContributions) -> None:
        """Put units that are new after those that act before them."""
        before = [torch.zeros(4, len(total), dtype=torch.float64) for total in self.total]
        for i, name in enumerate(found.names):
            if name not in self.kinds:
                at = self.order.index(found.names[i - 1]) + 1 if i else 0
                self.order.insert(at, name)
                self.kinds[name] = found.kinds[i]
                self.columns[name] = list(before)

    def result(self, action: str, inputs: int, method: str) -> Layerwise:
        total = torch.cat(self.total)
        whole = float(total.mean())
        layers = []
        for name in self.order:
            lengths, squares, products, variances = torch.cat(self.columns[name], 1)
            if inputs > 1:
                error = float(lengths.std()) / sqrt(inputs)
            else:
                error = float(variances[0].sqrt()) or nan
            share = float(products.mean()) / whole if whole else 0.0
            mean, square = float(lengths.mean()), float(squares.mean())
            layers.append(LayerContribution(name, self.kinds[name], mean, square, share, error))
        return Layerwise(action, tuple(layers), whole, self.closure, inputs, method)
