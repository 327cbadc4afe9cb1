"""The Lie derivative of a function along an action, by forward-mode differentiation."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.overrides import TorchFunctionMode

from isotropy.equivariance._action import Action, output_place
from isotropy.equivariance._evaluation import Model, evaluating, inputs_for, output_of
from isotropy.equivariance._image_actions import as_action
from isotropy.equivariance._wrapped_models import is_of_operators


def lie_derivative(
    f: Model, x: Tensor, action: Action | str, *, output: str | None = None
) -> Tensor:
    """The Lie derivative of a function along an action (thesis, Eq. 4.3).

        (L_X f)(x) = d/dt ρ_out(exp(−tX)) f(ρ_in(exp(tX)) x) at t = 0
                   = df(x)·(X x) − X f(x).

    It is zero, for all x, exactly where f is equivariant to the action. The Jacobian-vector
    product is taken in forward mode; where an operation has no forward rule, by differentiating
    twice in reverse mode, and attention runs on its plain kernel. A module is put in evaluation
    mode meanwhile. Gradients flow through the result, to inputs and parameters.

    Args:
        f: A module, or any function of a tensor.
        x: Inputs, the batch first.
        action: The action, or the name of one on images (four axes) or sequences (three).
        output: How the action acts on outputs: "invariant"; for images "NCHW", "NHWC", "NLC",
            "NLC+1" (tokens after one class token); see `image_action` and its neighbours. None
            infers it: outputs of two axes are invariant, others are followed through the model.

    Returns:
        A tensor of the outputs' shape.

    Raises:
        ValueError: If the action cannot act on inputs or outputs of this shape.
        RuntimeError: If the function cannot be differentiated either way.

    Example:
        >>> from isotropy.equivariance import image_action
        >>> blur = torch.nn.Conv2d(1, 1, 3, padding=1, padding_mode="circular").double()
        >>> x = torch.rand(1, 1, 8, 8, generator=torch.Generator().manual_seed(0)).double()
        >>> shift = image_action("translation_x", boundary="periodic")
        >>> bool(lie_derivative(blur, x, shift).abs().max() < 1e-12)
        True
        >>> lie_derivative(lambda x: x[..., ::2, ::2], x, shift).abs().max() > 1
        tensor(True)
    """
    x = inputs_for(f, x)
    action = as_action(action, x)
    with evaluating(f):
        moved, y = jvp(f, x, action.tangent(x))
        place = output_place(f, x, tuple(y.shape), action, output)
        return moved - action.act(y, place)


def jvp(f: Model, x: Tensor, tangent: Tensor) -> tuple[Tensor, Tensor]:
    """The derivative of a function along a tangent, and its value.

    The tangent is carried along beside the model as it runs. Where a part of the model cannot be
    seen from Python, PyTorch's forward mode does it.

    Returns:
        df(x)·tangent, and f(x).
    """
    found = _carried(f, x, tangent)
    if found is not None and not found[2]:
        return found[:2]
    if found is not None:
        # constants that no one has named, or values that were made unseen?
        with torch.no_grad():
            moved, _ = forward_mode(f, x, tangent)
            gap, size = float((moved - found[0]).norm()), float(moved.norm())
        if gap <= torch.finfo(x.dtype).eps ** 0.5 * size:
            return found[:2]
    moved, y = forward_mode(f, x, tangent)
    # steps have no slope, and differences see them
    if bool(moved.any()) and not is_of_operators(f):
        _require_seen(f, x, tangent, moved, "a part that runs unseen")
    return moved, y


def _carried(f: Model, x: Tensor, tangent: Tensor) -> tuple[Tensor, Tensor, bool] | None:
    """Derivative and value, and whether values took part whose origin was not seen."""
    from isotropy.equivariance._carry import Carrier

    point = x.clone()  # a model may change its input
    carrier = Carrier(f, point, tangent.unsqueeze(0), keep_graph=True)
    try:
        with not_compiled(), carrier:
            y = output_of(f(point))
    except (ValueError, RuntimeError):
        return None  # an operation that cannot be followed, or an error that will come again
    if carrier.escaped or y not in carrier.values:
        return None
    return carrier.values[y].rows[0], y, carrier.strangers


def forward_mode(f: Model, x: Tensor, tangent: Tensor) -> tuple[Tensor, Tensor]:
    """The same by PyTorch's forward mode, or by reverse mode twice where a rule is missing."""
    x, tangent = x.contiguous(), tangent.contiguous()  # expanded tensors cannot be dual
    whole = _WholeDerivative()

    def function(z: Tensor) -> Tensor:
        with whole:
            return output_of(f(z.clone()))

    with plain_attention(), not_compiled():
        try:
            value, moved, *_ = torch.func.jvp(function, (x,), (tangent,))
        except (NotImplementedError, RuntimeError) as error:
            if not whole.left and not lacks_forward_rule(error):
                raise
            if whole.left and not lacks_forward_rule(error):
                raise RuntimeError(f"{_UNSEEN}, got {whole.left}: {error}") from error
            moved, value = twice_in_reverse(f, x, tangent, error)
            _require_backward(f, x, tangent, moved)
        if whole.left:
            _require_seen(f, x, tangent, moved, f"{whole.left}()")
    return moved, value


_UNSEEN = (
    "expected a model that computes with PyTorch's functions, so that it can be differentiated"
)


class _WholeDerivative(TorchFunctionMode):
    """Differentiate a function where it stops gradients, and notice where values leave PyTorch.

    A detached value still depends on the input: it keeps its tangent, and only gradients with
    respect to parameters stop.

    Args:
        in_reverse: Whether derivatives are found by backward passes, which must go on then.
    """

    def __init__(self, *, in_reverse: bool = False) -> None:
        super().__init__()
        self.in_reverse = in_reverse
        self.left = ""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        from isotropy.equivariance._carry import LEAVES_PYTORCH, called

        func, name = called(func)
        if name in ("detach", "detach_"):
            return args[0].view_as(args[0]) if self.in_reverse else _detached(args[0])
        if name == "_set_grad_enabled" and self.in_reverse:
            return None
        if name in LEAVES_PYTORCH and _has_numbers(args):
            self.left = name
        return func(*args, **(kwargs or {}))


def _detached(z: Tensor) -> Tensor:
    value, tangent = forward_ad.unpack_dual(z)
    if tangent is None:
        return z.detach()
    dual: Tensor = forward_ad.make_dual(value.detach(), tangent.detach())
    return dual


def _has_numbers(args: Any) -> bool:
    from isotropy.equivariance._axes_rules import floating_tensors

    return bool(floating_tensors(args))


def _require_seen(f: Model, x: Tensor, tangent: Tensor, moved: Tensor, left: str) -> None:
    """Compare a derivative with differences, where part of the function may be unseen."""
    eps = torch.finfo(x.dtype).eps
    size = float(tangent.abs().max())
    step = eps ** (1 / 3) * max(float(x.abs().max()), 1e-3) / size if size else 0.0
    with torch.no_grad():
        if not step:
            return
        above, below = (output_of(f((x + h * tangent).clone())) for h in (step, -step))
        gap = float(((above - below) / (2 * step) - moved).norm())
        rounding = 10 * eps * float((above - above.mean()).norm() + 1e-2 * above.norm()) / step
        if gap > _UNSEEN_SHARE * float(moved.norm()) + rounding:
            raise RuntimeError(f"{_UNSEEN}, got one in which {left} hides how outputs move")


def _require_backward(f: Model, x: Tensor, tangent: Tensor, moved: Tensor) -> None:
    """Compare a derivative from backward passes with the function itself, where it can be seen."""
    with torch.no_grad():
        found = _carried(f, x.detach(), tangent.detach())
        if found is None:
            return
        gap, size = float((found[0] - moved).norm()), float(found[0].norm())
    if gap > torch.finfo(x.dtype).eps ** 0.5 * max(size, float(moved.detach().norm())):
        raise RuntimeError(
            "expected backward functions that are derivatives, got a derivative that is off by "
            f"{gap:.1e} where it should be {size:.1e}"
        )


_UNSEEN_SHARE = 0.02  # kinks of piecewise linear models stay below this


def not_compiled() -> AbstractContextManager[Any]:
    """Compiled parts of a model run as they were written; nothing to do if there can be none."""
    if "torch._dynamo" not in sys.modules:
        return nullcontext()
    stance: AbstractContextManager[Any] = torch.compiler.set_stance("force_eager")
    return stance


def plain_attention() -> AbstractContextManager[Any]:
    """Attention by its plain kernel, the only one with rules for all derivatives."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    return sdpa_kernel(SDPBackend.MATH)


def twice_differentiable() -> AbstractContextManager[Any]:
    """Recurrent layers by kernels that can be differentiated twice: not those of cuDNN."""
    flags: AbstractContextManager[Any] = torch.backends.cudnn.flags(enabled=False)
    return flags


def lacks_forward_rule(error: Exception) -> bool:
    """Whether an error says that an operation cannot be differentiated in forward mode."""
    signs = (
        "forward AD",
        "forward-mode AD",
        "setup_context",
        "jvp",
        "Jacobian-vector",
        "functorch",
    )
    return isinstance(error, NotImplementedError) or any(sign in str(error) for sign in signs)


def twice_in_reverse(
    f: Model, x: Tensor, tangent: Tensor, cause: Exception
) -> tuple[Tensor, Tensor]:
    """Differentiate vᵀJ, which is linear in v, with respect to v: its transpose is J."""
    wants_graph = torch.is_grad_enabled()
    with torch.enable_grad(), twice_differentiable():
        point = x if x.requires_grad else x.detach().clone().requires_grad_()
        # a copy, so that a model that works in place does not do so on a leaf
        with _WholeDerivative(in_reverse=True):
            value = output_of(f(point.clone()))
        try:
            if not value.requires_grad:
                return torch.zeros_like(value), value.detach()
            v = torch.zeros_like(value, requires_grad=True)
            (row,) = torch.autograd.grad(value, point, v, create_graph=True, allow_unused=True)
            if row is None or not row.requires_grad:
                return torch.zeros_like(value), value.detach()
            (moved,) = torch.autograd.grad(row, v, tangent, create_graph=wants_graph)
        except RuntimeError as error:
            raise RuntimeError(
                "expected a function that can be differentiated, forwards or twice in reverse, "
                f"got {cause} and {error}"
            ) from error
    return (moved, value) if wants_graph else (moved.detach(), value.detach())
