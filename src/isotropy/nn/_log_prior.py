"""The prior that all sums of paths in a network make together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import log, pi
from numbers import Real
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from isotropy.nn._path_sum import PathSum

_LOG_2_PI = log(2 * pi)


class TensorPrior(NamedTuple):
    """The prior of one parameter: N(0, σ²/c) entry by entry."""

    name: str
    parameter: nn.Parameter
    log_variance: Tensor
    squared_lengths: Tensor | None


def tensor_priors(model: nn.Module) -> Iterator[TensorPrior]:
    """The prior of every parameter in a path of a ``PathSum``; the innermost sum decides.

    Of a parameter that several layers share, the first of these does.

    Args:
        model: A network.

    Example:
        >>> soft = PathSum({"a": nn.Linear(2, 2, bias=False)}, prior_variances={"a": 4.0})
        >>> for prior in tensor_priors(soft):
        ...     print(prior.name, round(float(prior.log_variance.exp()), 3))
        paths.a.weight 4.0
    """
    found: dict[int, TensorPrior] = {}
    owners: dict[int, str] = {}
    for prefix, layer in model.named_modules():
        if not isinstance(layer, PathSum):
            continue
        variances = layer.log_variances.unbind()
        parameters = {path: dict(module.named_parameters()) for path, module in layer.paths.items()}
        for place, (path, name) in enumerate(layer.tensors):
            if name:
                parameter = parameters[path][name]
                owner = owners.setdefault(id(parameter), prefix)
                if not f"{prefix}.".startswith(f"{owner}." if owner else ""):
                    continue
                owners[id(parameter)] = prefix
                within = f"paths.{path}.{name}"
                buffer = layer._lengths.get(place)
                found[id(parameter)] = TensorPrior(
                    f"{prefix}.{within}" if prefix else within,
                    parameter,
                    variances[place],
                    None if buffer is None else getattr(layer, buffer),
                )
    yield from found.values()


def log_prior(
    model: nn.Module,
    *,
    samples: int | None = None,
    form: Literal["gaussian", "unscaled"] = "gaussian",
) -> Tensor:
    """Log p(θ) of all parameters in paths of ``PathSum`` layers, to add to a log likelihood.

        log p(θ) = −½ Σ (c θ²/σ² + log 2πσ²/c)

    over their entries; c is 1, or the squared length of what an entry stands for. A complex entry
    counts as two, its real and its imaginary part. Where the loss is a mean over samples, so must
    this be: with ``samples=N``, the number of data (not that of a batch), it is divided by N.

    The code behind the thesis adds weights times ‖θ‖² to a mean loss, without the ½ and the 1/N
    that Bayes' rule asks for: ``form="unscaled"`` is of that form, −Σ c θ²/σ² whatever N.

    Parameters outside of any ``PathSum`` (bilinear weights, a free head) have a flat prior.

    Args:
        model: A network, as ``soften`` makes it.
        samples: N, for a mean loss; not divided where None.
        form: "gaussian", or "unscaled" for the thesis' own.

    Raises:
        ValueError: If there is no prior in the network, the form is unknown, or ``samples`` is
            not positive.

    Example:
        >>> from isotropy.groups import SO
        >>> from isotropy.nn import Linear, soften
        >>> from isotropy.reps import V
        >>> soft = soften(Linear(V, V, SO(3)))
        >>> x = torch.randn(100, 3)
        >>> loss = (soft(x) - 2 * x).square().mean() - log_prior(soft, samples=100)
        >>> loss.backward()
    """
    if form not in ("gaussian", "unscaled"):
        raise ValueError(f"expected the form 'gaussian' or 'unscaled', got {form!r}")
    if samples is not None and (
        isinstance(samples, bool) or not isinstance(samples, Real) or not samples > 0
    ):
        raise ValueError(f"expected a positive number of samples, got {samples!r}")
    found = [
        prior
        for prior in tensor_priors(model)
        if prior.parameter.requires_grad or bool(prior.log_variance.isfinite())  # else it is zero
    ]
    if not found:
        raise ValueError(
            f"expected a network with PathSum layers, got {type(model).__name__} without any: "
            "soften(model) makes them"
        )
    log_variances = torch.stack([prior.log_variance for prior in found])
    total = _pull(found, log_variances)
    if form == "unscaled":
        return -total
    # a complex entry has two parts
    parameters = [prior.parameter for prior in found]
    entries = [theta.numel() * (1 + theta.is_complex()) for theta in parameters]
    total = total + (log_variances.new_tensor(entries) * (log_variances + _LOG_2_PI)).sum()
    for prior, count in zip(found, entries, strict=True):
        if prior.squared_lengths is not None:
            total = total - count * prior.squared_lengths.log().mean()
    return -total / 2 if samples is None else -total / (2 * float(samples))


def _pull(priors: Sequence[TensorPrior], log_variances: Tensor) -> Tensor:
    """Σ c |θ|²/σ²."""
    squares = []
    for prior in priors:
        theta, c = prior.parameter, prior.squared_lengths
        weighted = theta if c is None else c * theta
        # one pass over the numbers, without squares to keep
        squares.append(torch.vdot(weighted.flatten(), theta.flatten()).real)
    return (torch.stack(squares) / log_variances.exp()).sum()


@torch.no_grad()
def sample_prior(model: nn.Module, *, generator: torch.Generator | int | None = None) -> nn.Module:
    """Draw the parameters of all paths from their priors, in place.

    What the network computes then is a draw from the prior over functions. Parameters outside of
    any ``PathSum`` stay as they are.

    Args:
        model: A network, as ``soften`` makes it.
        generator: Where randomness comes from; a number is a seed.

    Returns:
        The same network.

    Raises:
        ValueError: If there is no prior in the network.

    Example:
        >>> from isotropy.groups import SO
        >>> from isotropy.nn import Linear, soften
        >>> from isotropy.reps import V
        >>> soft = soften(Linear(V, V, SO(3), bias=False), variances=(1e4, 1e-6))
        >>> matrix = sample_prior(soft, generator=0)(torch.eye(3))  # near a multiple of one
        >>> bool((matrix - matrix[0, 0] * torch.eye(3)).abs().max() < 1e-2)
        True
    """
    if isinstance(generator, int):
        generator = torch.Generator().manual_seed(generator)
    priors = list(tensor_priors(model))
    if not priors:
        raise ValueError(
            f"expected a network with PathSum layers, got {type(model).__name__} without any: "
            "soften(model) makes them"
        )
    for prior in priors:
        deviation = (prior.log_variance / 2).exp()
        if prior.squared_lengths is not None:
            deviation = deviation * prior.squared_lengths.rsqrt()
        theta = prior.parameter
        drawn = torch.randn(theta.shape, dtype=theta.dtype, generator=generator)
        if theta.is_complex():
            drawn = drawn * 2**0.5  # of which torch shares out a variance of one to both parts
        theta.copy_(drawn.to(theta.device) * deviation)
    return model
