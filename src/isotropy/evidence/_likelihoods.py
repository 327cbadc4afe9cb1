"""What a loss says of the data: likelihoods, by sums that add up over batches and processes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import inf, log, pi
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

# what torch's cross entropy passes over by default
IGNORED = -100
_ACCEPTED = (
    "'classification', 'binary' or 'regression', a CrossEntropyLoss, BCEWithLogitsLoss or MSELoss "
    "of torch.nn or their functions in torch.nn.functional, or a Likelihood"
)


class Likelihood(ABC):
    """The distribution p(targets | outputs) of which a loss is the negative logarithm.

    Its statistics are two numbers that add up over batches and processes, from which the log
    likelihood follows at any noise.

    Example:
        >>> likelihood = Gaussian()
        >>> likelihood.name, likelihood.has_noise
        ('regression', True)
        >>> halves = [likelihood.statistics(torch.ones(2, 1), torch.zeros(2)) for _ in range(2)]
        >>> halves[0] + halves[1]
        tensor([4., 4.], dtype=torch.float64)
    """

    name: ClassVar[str]
    has_noise: ClassVar[bool] = False

    def check_outputs(self, outputs: Tensor) -> None:
        """Refuse outputs that cannot be those of this likelihood, by kind and shape alone."""
        if not isinstance(outputs, Tensor):
            raise TypeError(f"expected a tensor of outputs, got {type(outputs).__name__}")
        if not outputs.is_floating_point():
            raise TypeError(f"expected real outputs of a floating type, got {_kind(outputs)}")
        if outputs.ndim == 0:
            raise ValueError("expected outputs of shape (samples, …), got a single number")

    def statistics(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The sums that the log likelihood needs, as part of the graph of ``outputs``.

        Args:
            outputs: What the network returned, shape (samples, …).
            targets: What the data say.

        Returns:
            Shape (2,), float64: Σ log p and the number of terms, or, for regression, the sum of
            squared residuals and the number of target entries.

        Raises:
            TypeError: If outputs or targets are not tensors of a fitting kind.
            ValueError: If their shapes do not fit, a label is out of range, or a value is not
                finite.
        """
        fitting = self._fitting(outputs, targets)
        _require_finite(outputs, "outputs")
        terms = self._terms(outputs.double(), fitting)
        return torch.stack([terms.sum(), terms.new_tensor(fitting.numel())])

    def class_counts(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """How many targets are of each class; these add up over batches and processes.

        Returns:
            Shape (classes,), int64; of length zero for regression. For binary targets the two
            counts are of targets below one and above zero.
        """
        return self._counts(outputs, self._fitting(outputs, targets))

    def log_likelihood(self, statistics: Tensor, noise: float | Tensor | None = None) -> Tensor:
        """Σ log p(target | output) from its statistics.

        Args:
            statistics: The sum of what ``statistics`` returned.
            noise: The standard deviation σ of the observations, for regression alone; None for
                one.

        Raises:
            ValueError: If there is a noise where none belongs, or it is not a positive number.
        """
        if noise is not None and not _is_one(noise):
            raise ValueError(f"expected no noise for {self.name}, got {_number(noise)}")
        return statistics[0].double()

    @abstractmethod
    def _fitting(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The targets, checked, one for each term."""

    @abstractmethod
    def _terms(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """What the first statistic is the sum of, for checked targets."""

    def _counts(self, _outputs: Tensor, targets: Tensor) -> Tensor:
        return torch.zeros(0, dtype=torch.int64, device=targets.device)


@dataclass(frozen=True)
class Categorical(Likelihood):
    """One of K classes: p(y | f) = softmax(f)_y.

    Outputs are logits of shape (samples, K, …), targets labels of shape (samples, …); every
    position beyond the classes is a term of its own.

    Example:
        >>> Categorical().statistics(torch.zeros(2, 3, 5), torch.ones(2, 5, dtype=torch.int64))
        tensor([-10.9861,  10.0000], dtype=torch.float64)
    """

    name: ClassVar[str] = "classification"

    def check_outputs(self, outputs: Tensor) -> None:
        """Refuse what is not logits of two classes or more."""
        super().check_outputs(outputs)
        if outputs.ndim < 2:
            raise ValueError(
                f"expected logits of shape (samples, classes, …) for cross entropy, "
                f"got {tuple(outputs.shape)}"
            )
        if outputs.shape[1] < 2:
            raise ValueError(
                "expected logits of at least two classes for cross entropy, "
                f"got {outputs.shape[1]}; for one logit use 'binary'"
            )

    def _fitting(self, outputs: Tensor, targets: Tensor) -> Tensor:
        self.check_outputs(outputs)
        _require_tensor(targets)
        if targets.is_floating_point() or targets.is_complex() or targets.dtype == torch.bool:
            raise TypeError(f"expected class labels of an integer type, got {_kind(targets)}")
        samples, classes, *positions = outputs.shape
        if targets.shape == (samples, 1, *positions):
            targets = targets.reshape(samples, *positions)
        if targets.shape != (samples, *positions):
            raise _misfit((samples, *positions), outputs, targets)
        labels = targets.long()
        wrong = (labels < 0) | (labels >= classes)
        if bool(wrong.any()):
            first = int(labels[wrong][0])
            why = ", which cross entropy ignores and the evidence cannot"
            raise ValueError(
                f"expected class labels from 0 to {classes - 1}, got {first}"
                + (why if first == IGNORED else "")
            )
        return labels

    def _terms(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return -functional.cross_entropy(outputs, targets, reduction="none")

    def _counts(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return targets.flatten().bincount(minlength=outputs.shape[1])


@dataclass(frozen=True)
class Bernoulli(Likelihood):
    """Yes or no for every output: p(y = 1 | f) = 1/(1 + exp(−f)).

    Targets have the shape of the outputs and lie in [0, 1]; one between counts as that share of
    a yes.

    Example:
        >>> Bernoulli().statistics(torch.zeros(4), torch.tensor([True, False, True, True]))
        tensor([-2.7726,  4.0000], dtype=torch.float64)
    """

    name: ClassVar[str] = "binary"

    def _fitting(self, outputs: Tensor, targets: Tensor) -> Tensor:
        values = _real_targets(self, outputs, targets)
        if bool(((values < 0) | (values > 1)).any()):
            wrong = values[(values < 0) | (values > 1)]
            raise ValueError(f"expected binary targets from 0 to 1, got {float(wrong[0]):g}")
        return values

    def _terms(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return -functional.binary_cross_entropy_with_logits(outputs, targets, reduction="none")

    def _counts(self, _outputs: Tensor, targets: Tensor) -> Tensor:
        return torch.stack([(targets < 1).sum(), (targets > 0).sum()])


@dataclass(frozen=True)
class Gaussian(Likelihood):
    """Regression: p(y | f) = N(y | f, σ²), the noise σ given when the likelihood is asked for.

    Targets have the shape of the outputs.

    Example:
        >>> sums = Gaussian().statistics(torch.tensor([[1.0], [3.0]]), torch.zeros(2))
        >>> sums
        tensor([10.,  2.], dtype=torch.float64)
        >>> Gaussian().log_likelihood(sums)
        tensor(-6.8379, dtype=torch.float64)
    """

    name: ClassVar[str] = "regression"
    has_noise: ClassVar[bool] = True

    def log_likelihood(self, statistics: Tensor, noise: float | Tensor | None = None) -> Tensor:
        """−S/(2σ²) − M/2 · log(2πσ²) for the sum S of squares of M residuals."""
        given = 1.0 if noise is None else noise
        sigma = torch.as_tensor(given, dtype=torch.float64, device=statistics.device)
        if sigma.numel() != 1 or not 0 < float(sigma.detach()) < inf:
            raise ValueError(f"expected a positive number as the noise, got {_number(given)}")
        squares, count = statistics.double().unbind()
        sigma = sigma.reshape(())
        return -squares / (2 * sigma.square()) - count * (log(2 * pi) / 2 + sigma.log())

    def _fitting(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return _real_targets(self, outputs, targets)

    def _terms(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return (outputs.reshape(targets.shape) - targets).square()


def classes_without_samples(counts: Tensor) -> list[int]:
    """The classes of which no sample was seen.

    Example:
        >>> classes_without_samples(torch.tensor([3, 0, 1, 0]))
        [1, 3]
    """
    return [int(label) for label in (counts == 0).nonzero().flatten()]


# --- checks -----------------------------------------------------------------------------------


def _real_targets(likelihood: Likelihood, outputs: Tensor, targets: Tensor) -> Tensor:
    """Targets in float64 and of the shape of the outputs, with or without a last axis of one."""
    likelihood.check_outputs(outputs)
    _require_tensor(targets)
    if targets.is_complex():
        raise TypeError(f"expected real targets for {likelihood.name}, got {_kind(targets)}")
    samples = len(outputs)
    column = {(samples,), (samples, 1)}
    if targets.shape != outputs.shape and not column >= {targets.shape, outputs.shape}:
        raise _misfit(tuple(outputs.shape), outputs, targets)
    _require_finite(targets, "targets")
    return targets.double().reshape(outputs.shape)


def _misfit(expected: tuple[int, ...], outputs: Tensor, targets: Tensor) -> ValueError:
    return ValueError(
        f"expected targets of shape {expected} for outputs {tuple(outputs.shape)}, "
        f"got {tuple(targets.shape)}"
    )


def _require_tensor(targets: Any) -> None:
    if not isinstance(targets, Tensor):
        raise TypeError(f"expected a tensor of targets, got {type(targets).__name__}")


def _require_finite(values: Tensor, what: str) -> None:
    finite = values.detach().isfinite()
    if not bool(finite.all()):
        sample = int((~finite).reshape(len(values), -1).any(1).nonzero()[0])
        raise ValueError(f"expected finite {what}, got a non-finite value in sample {sample}")


def _is_one(noise: float | Tensor) -> bool:
    return bool((torch.as_tensor(noise).detach() == 1).all())


def _number(noise: float | Tensor) -> str:
    values = torch.as_tensor(noise).detach()
    return f"{float(values):g}" if values.numel() == 1 else f"shape {tuple(values.shape)}"


def _kind(values: Tensor) -> str:
    return str(values.dtype).removeprefix("torch.")


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
