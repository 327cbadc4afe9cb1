"""Which likelihood a loss is of."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from torch.nn import functional

from isotropy.evidence._likelihoods import IGNORED, Bernoulli, Categorical, Gaussian, Likelihood

_ACCEPTED = (
    "'classification', 'binary' or 'regression', a CrossEntropyLoss, BCEWithLogitsLoss or MSELoss "
    "of torch.nn or their functions in torch.nn.functional, or a Likelihood"
)


def likelihood_of(loss: Any) -> Likelihood:
    """The likelihood of which a loss is the negative logarithm.

    How a loss averages over samples is of no matter here. The squared error stands for a
    Gaussian of any noise σ, so that −log p = ‖f − y‖²/(2σ²) + const.

    Args:
        loss: "classification", "binary" or "regression"; a ``CrossEntropyLoss``,
            ``BCEWithLogitsLoss`` or ``MSELoss`` of ``torch.nn``, or their function in
            ``torch.nn.functional``; or a likelihood, which is returned as it is.

    Raises:
        TypeError: If it is none of these.
        ValueError: If the loss has an option of which there is no likelihood, or is of a kind
            for which there is a better one.

    Example:
        >>> likelihood_of(nn.CrossEntropyLoss())
        Categorical()
        >>> likelihood_of("regression")
        Gaussian()
    """
    if isinstance(loss, Likelihood):
        return loss
    if isinstance(loss, str):
        named = {kind.name: kind for kind in (Categorical, Bernoulli, Gaussian)}
        if loss not in named:
            raise ValueError(f"expected as the loss {_ACCEPTED}, got {loss!r}")
        return named[loss]()
    # a subclass may compute anything
    if type(loss) is nn.CrossEntropyLoss or loss is functional.cross_entropy:
        _refuse_options(loss, {"weight": None, "label_smoothing": 0.0, "ignore_index": IGNORED})
        return Categorical()
    if type(loss) is nn.BCEWithLogitsLoss or loss is functional.binary_cross_entropy_with_logits:
        _refuse_options(loss, {"weight": None, "pos_weight": None})
        return Bernoulli()
    if type(loss) is nn.MSELoss or loss is functional.mse_loss:
        return Gaussian()
    if isinstance(loss, nn.NLLLoss) or loss is functional.nll_loss:
        raise ValueError(
            "expected a loss of logits, got NLLLoss; give the network logits and use cross entropy"
        )
    if isinstance(loss, nn.BCELoss) or loss is functional.binary_cross_entropy:
        raise ValueError(
            "expected a loss of logits, got BCELoss; give the network logits and use "
            "BCEWithLogitsLoss"
        )
    got = f"the class {loss.__name__}" if isinstance(loss, type) else _name_of(loss)
    raise TypeError(f"expected as the loss {_ACCEPTED}, got {got}")


def _refuse_options(loss: Any, defaults: dict[str, float | None]) -> None:
    for option, default in defaults.items():
        value = getattr(loss, option, default)
        if value is not default and (default is None or value != default):
            got = "weights" if isinstance(value, Tensor) else value
            raise ValueError(
                f"expected a {type(loss).__name__} whose {option} is {default}, got {got}: "
                "the evidence has no likelihood for it"
            )


def _name_of(loss: Any) -> str:
    return str(getattr(loss, "__name__", type(loss).__name__))
