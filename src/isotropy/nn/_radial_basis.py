"""Smooth functions on a set of points, from values at a few anchor points and a lengthscale."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal, Self, TypeAlias, get_args

import torch
from torch import Tensor, nn

from isotropy.nn._constants import ExactConstants

Anchors: TypeAlias = int | float | Tensor | None
BasisKind: TypeAlias = Literal["normalised", "interpolating", "plain"]
# the variance of the noise that the values at the anchors are thought to have
_JITTER = 1e-4
# measured on grids up to 32 × 32: at ω = 1 no direction of an interpolating basis is below this,
# and to fit those below it at small ω takes values a hundred to 1e11 times as large as the function
_FAINT = 1e-2


def grid_points(sizes: Sequence[int]) -> Tensor:
    """The places of a grid, one unit apart, around zero: shape (places, axes), last axis fastest.

    Example:
        >>> grid_points((2, 3)).tolist()
        [[-0.5, -1.0], [-0.5, 0.0], [-0.5, 1.0], [0.5, -1.0], [0.5, 0.0], [0.5, 1.0]]
    """
    sides = [torch.arange(n, dtype=torch.float64, device="cpu") - (n - 1) / 2 for n in sizes]
    return torch.stack(torch.meshgrid(*sides, indexing="ij"), -1).flatten(0, -2)


def exact_points(points: Tensor, what: str) -> Tensor:
    """Points in float64, shape (n, d)."""
    points = points.detach().to("cpu", torch.float64)
    if points.ndim != 2 or not points.numel():
        raise ValueError(f"expected {what} of shape (n, d), got {tuple(points.shape)}")
    if not bool(points.isfinite().all()):
        raise ValueError(f"expected finite {what}, got some that are not")
    return points


def anchors_for(targets: Tensor, anchors: Anchors, *, among: bool = False) -> Tensor:
    """Anchor points for a basis at ``targets``.

    Raises:
        ValueError: If no number of points comes of it.

    Example:
        >>> anchors_for(grid_points((3, 3)), None).shape
        torch.Size([5, 2])
    """
    if isinstance(anchors, Tensor):
        return exact_points(anchors, "anchors")
    places = targets.shape[0]
    most = float(places) if among else math.inf
    number = anchors
    if anchors is None or isinstance(anchors, float):
        share = 0.5 if anchors is None else anchors
        number = math.ceil(share * places) if math.isfinite(share) else 0
    if isinstance(number, bool) or not isinstance(number, int) or not 0 < number <= most:
        limit = f" and at most {places}" if among else ""
        raise ValueError(
            f"expected anchor points, or a number or share of them above zero{limit}, got "
            f"{anchors!r}"
        )
    if among:
        return targets[torch.randperm(places, device="cpu")[:number]]
    low, high = targets.amin(0), targets.amax(0)
    drawn = torch.rand(number, targets.shape[1], dtype=torch.float64, device="cpu")
    return low + (high - low) * drawn


class RadialBasis(ExactConstants):
    r"""Basis functions Φ (m, n) of m anchor points at n targets, with one lengthscale 1/ω for all.

    A function with values u at the anchors z is u Φ at the targets t, where Φ is

        exp(−ω² |z − t|²) / Σ_z exp(−ω² |z − t|²)            normalised,
        (K_zz + 10⁻⁴)⁻¹ K_zt,  K_ab = exp(−½ ω² |a − b|²)    interpolating,
        exp(−ω² |z − t|²)                                    plain.

    Normalised, u Φ is a mean of u, mostly of the anchors nearby. Interpolating, it is the mean of a
    Gaussian process that is known to be u at the anchors, up to a little noise, as in the code of
    Ouderaa et al. (2023); plain are the functions of their section 3.1.

    As ω → 0 the columns of Φ become equal and every function constant. ω matters by its square
    alone, so the slope in it is zero there. As ω → ∞ normalised functions become steps around each
    anchor, but the others vanish at every target that is no anchor: an evidence that asks for
    simpler functions may then let ω grow instead of fall.

    Φ is computed in float64 and then has the precision of ω: anchors that are close to one another
    make K_zz almost singular. On a CPU it is computed once for the same ω and anchors where no
    gradient is asked for in them.

    Args:
        targets: Where the functions are wanted, shape (n, d).
        anchors: Where their values are given, shape (m, d); or how many such points to draw in the
            smallest box around the targets, or how many for each target, rounded upwards; None for
            half as many as targets.
        among: Whether anchors are drawn among the targets instead.
        omega: What ω starts at; a parameter.
        kind: Which of the three.
        learn_anchors: Whether the anchors are a parameter, too, or part of the state only.
        device: Where the parameters live.
        dtype: Their precision.

    Raises:
        ValueError: If targets and anchors are not finite points of one space, ω is not finite, or
            the kind is unknown.

    Example:
        >>> points = torch.linspace(-1, 1, 5).unsqueeze(1)
        >>> basis = RadialBasis(points, points[::2], omega=2.0)
        >>> values = torch.tensor([1.0, -1.0, 2.0])
        >>> torch.allclose((values @ basis())[::2], values, atol=1e-3)
        True
    """

    targets: Tensor
    anchors: Tensor
    # ω and anchors as objects, their values then, and Φ
    _kept: tuple[Tensor, Tensor, Tensor, Tensor, Tensor, str] | None = None

    def __init__(
        self,
        targets: Tensor,
        anchors: Anchors,
        *,
        among: bool = False,
        omega: float = 1.0,
        kind: BasisKind = "interpolating",
        learn_anchors: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        targets = exact_points(targets, "targets")
        anchors = anchors_for(targets, anchors, among=among)
        if targets.shape[1] != anchors.shape[1]:
            raise ValueError(
                f"expected anchors of shape (m, {targets.shape[1]}) as the targets have, got "
                f"{tuple(anchors.shape)}"
            )
        if not math.isfinite(omega):
            raise ValueError(f"expected a finite omega, got {omega}")
        if kind not in get_args(BasisKind):
            known = ", ".join(map(repr, get_args(BasisKind)))
            raise ValueError(f"expected a basis of the kind {known}, got {kind!r}")
        self.kind: BasisKind = kind
        self.omega = nn.Parameter(torch.tensor(float(omega), dtype=torch.float64, device="cpu"))
        if learn_anchors:
            self.anchors = nn.Parameter(anchors.clone())
        else:
            self.register_buffer("anchors", anchors.clone())
        self._keep("targets", targets)
        self.to(
            torch.get_default_device() if device is None else device,
            torch.get_default_dtype() if dtype is None else dtype,
        )

    def forward(self) -> Tensor:
        """Φ at the present ω and anchors, shape (m, n)."""
        if torch.compiler.is_compiling() or not self._may_keep():
            return _values(*self._given())
        omega, anchors, kept = self.omega, self.anchors, self._kept
        # by value, for there are changes that no version counts; by identity, for a tensor that
        # stands in for anchors may carry derivatives
        if (
            kept is None
            or kept[5] != self.kind
            or kept[0] is not omega
            or kept[1] is not anchors
            or not torch.equal(kept[2], omega)
            or not torch.equal(kept[3], anchors)
        ):
            values = _values(*self._given())
            values_of = omega.detach().clone(), anchors.detach().clone()
            kept = (omega, anchors, *values_of, values, self.kind)
            self._kept = kept
        return kept[4].clone()  # whoever gets it may change it

    def _may_keep(self) -> bool:
        omega, anchors = self.omega, self.anchors
        return (
            type(omega) is nn.Parameter  # nothing that stands in for it
            and type(anchors) in (Tensor, nn.Parameter)
            and omega.device.type == anchors.device.type == "cpu"  # elsewhere to compare is to wait
            and not (torch.is_grad_enabled() and (omega.requires_grad or anchors.requires_grad))
            and not torch.is_inference_mode_enabled()
        )

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        self._kept = None
        return super()._apply(fn, recurse)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_kept": None}

    def slope(self) -> Tensor:
        """dΦ/dω, shape (m, n).

        Example:
            >>> basis = RadialBasis(torch.zeros(1, 1), torch.ones(1, 1), kind="plain")
            >>> basis.slope() / basis()
            tensor([[-2.]], grad_fn=<DivBackward0>)
        """
        return _slopes(*self._given())

    def slope_later(self) -> Callable[[], Tensor]:
        """What gives the slope at the present ω and anchors, even when others are in their place.

        Example:
            >>> basis = RadialBasis(torch.zeros(1, 1), torch.ones(1, 1))
            >>> later = basis.slope_later()
            >>> torch.equal(later(), basis.slope())
            True
        """
        return partial(_slopes, *self._given())

    @torch.no_grad()
    def fit(self, functions: Tensor) -> Tensor:
        """Values at the anchors that come closest to functions, by least squares.

        One pseudo-inverse of Φ serves all of them. What Φ can hardly express is left out, or the
        values would be many times as large as the functions.

        Args:
            functions: Values at the targets, shape (*, n).

        Returns:
            Values at the anchors, shape (*, m).

        Example:
            >>> points = torch.linspace(-1, 1, 5).unsqueeze(1)
            >>> basis = RadialBasis(points, points[::2])
            >>> values = torch.tensor([1.0, -1.0, 2.0])
            >>> torch.allclose(basis.fit(values @ basis()), values, atol=1e-4)
            True
        """
        basis = self().to(_working_dtype(functions))
        inverse: Tensor = torch.linalg.pinv(basis, rtol=_FAINT)
        return (functions.to(basis) @ inverse).to(functions)

    @torch.no_grad()
    def draw(self, *shape: int, bound: float) -> Tensor:
        """Random values at the anchors, to begin with.

        Interpolating, they are fitted to functions that are uniform in ±``bound`` and independent
        at every target, as published. Other kinds could follow such functions by means of very
        large values alone; theirs are independent, and their functions of the same mean square.

        Args:
            shape: How many functions.
            bound: Their size.

        Returns:
            Values of shape (*shape, m).

        Example:
            >>> points = torch.linspace(-1, 1, 5).unsqueeze(1)
            >>> basis = RadialBasis(points, points[::2], kind="normalised")
            >>> functions = basis.draw(1000, bound=1.0) @ basis()
            >>> print(f"{functions.square().mean().sqrt():.1f} {3**-0.5:.1f}")
            0.6 0.6
        """
        basis: Tensor = self()
        if self.kind == "interpolating":
            functions = basis.new_empty(*shape, basis.shape[1]).uniform_(-bound, bound)
            return self.fit(functions)
        values: Tensor = basis.new_empty(*shape, basis.shape[0]).uniform_(-bound, bound)
        return values / basis.square().sum(0).mean().sqrt()

    def _given(self) -> tuple[Tensor, Tensor, Tensor, BasisKind]:
        return self.targets, self.anchors, self.omega, self.kind

    def extra_repr(self) -> str:
        """Numbers of points and the kind, as ``print(basis)`` shows them."""
        (m, d), n = self.anchors.shape, self.targets.shape[0]
        learned = ", learned" if isinstance(self.anchors, nn.Parameter) else ""
        return f"{m} anchors{learned} for {n} targets in {d} dimensions, {self.kind}"


def lengthscales(model: nn.Module, of: type[nn.Module] = nn.Module) -> list[str]:
    """The names of the ω of all bases in a network: ``hyperparameters=`` for the evidence.

    Args:
        model: The network.
        of: Only of bases in layers of this class.

    Example:
        >>> points = torch.zeros(1, 2)
        >>> model = nn.Sequential(nn.Linear(2, 2), RadialBasis(points, points))
        >>> lengthscales(model)
        ['1.omega']
    """
    inside = {
        id(module)
        for layer in model.modules()
        if isinstance(layer, of)
        for module in layer.modules()
        if isinstance(module, RadialBasis)
    }
    return [
        f"{name}.omega" if name else "omega"
        for name, module in model.named_modules()
        if id(module) in inside
    ]


def _values(targets: Tensor, anchors: Tensor, omega: Tensor, kind: BasisKind) -> Tensor:
    z, t, w = _exact(anchors, targets, omega)
    across = _squares(z, t)
    if kind == "interpolating":
        values = torch.cholesky_solve(_kernel(across, w), _factor(_squares(z, z), w))
    elif kind == "normalised":
        values = torch.softmax(-w.square() * across, 0)
    else:
        values = torch.exp(-w.square() * across)
    return values.to(omega)


def _slopes(targets: Tensor, anchors: Tensor, omega: Tensor, kind: BasisKind) -> Tensor:
    z, t, w = _exact(anchors, targets, omega)
    across = _squares(z, t)
    if kind == "normalised":
        values = torch.softmax(-w.square() * across, 0)
        return (-2 * w * values * (across - (values * across).sum(0))).to(omega)
    if kind == "plain":
        return (-2 * w * across * torch.exp(-w.square() * across)).to(omega)
    # from (K_zz + 10⁻⁴) Φ = K_zt, and dK/dω = −ω |a − b|² K
    within = _squares(z, z)
    factor, right = _factor(within, w), _kernel(across, w)
    values = torch.cholesky_solve(right, factor)
    change = within * _kernel(within, w) @ values - across * right
    return (w * torch.cholesky_solve(change, factor)).to(omega)


def _exact(*tensors: Tensor) -> tuple[Tensor, ...]:
    return tuple(tensor.to(_working_dtype(tensor)) for tensor in tensors)


def _working_dtype(tensor: Tensor) -> torch.dtype:
    return torch.float32 if tensor.device.type == "mps" else torch.float64


def _squares(a: Tensor, b: Tensor) -> Tensor:
    return (a.unsqueeze(1) - b).square().sum(-1)


def _kernel(squares: Tensor, omega: Tensor) -> Tensor:
    return torch.exp(-0.5 * omega.square() * squares)


def _factor(squares: Tensor, omega: Tensor) -> Tensor:
    jitter = _JITTER * torch.eye(len(squares), dtype=squares.dtype, device=squares.device)
    factor: Tensor = torch.linalg.cholesky_ex(_kernel(squares, omega) + jitter).L
    return factor
