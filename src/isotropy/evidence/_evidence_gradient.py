"""The gradient of the log evidence in hyperparameters of layers, a batch at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from isotropy._run._moved_keywords import moved_keywords
from isotropy.evidence._approximate import from_sums, prepared
from isotropy.evidence._curvature_options import CurvatureOptions
from isotropy.evidence._precision_groups import Groups, Precisions


@moved_keywords(curvature=CurvatureOptions)
def evidence_gradient(
    model: nn.Module,
    loss: Any,
    data: Any,
    hyperparameters: Sequence[str],
    precisions: Precisions = 1.0,
    *,
    noise: float | Tensor | None = None,
    temperature: float | Tensor = 1.0,
    params: Mapping[str, Tensor] | None = None,
    groups: Groups = None,
    curvature: CurvatureOptions | None = None,
) -> tuple[Tensor, dict[str, Tensor]]:
    """The log evidence, and its gradient in parameters of layers that are hyperparameters.

    Lengthscales, anchor points and the like shape the likelihood, the inputs of layers and the
    gradients at their outputs. The evidence is a function F of sums over data, F(Σ_b S_b(η)): a
    first pass finds the sums and ∂F/∂S, a second one ⟨∂F/∂S, ∂S_b/∂η⟩ batch by batch. That is
    the gradient that ``create_graph=True`` gives, in the memory of one batch and its backward
    passes. The other parameters are held where they are.

    Args:
        model: As for ``laplace``.
        loss: As for ``laplace``.
        data: As for ``laplace``; a loader has to give the same batches twice.
        hyperparameters: Names of the parameters of the model to differentiate in.
        precisions: Prior precisions, one for all groups or one for each by name.
        noise: The standard deviation of observations, for regression; 1 where None.
        temperature: That of the likelihood.
        params: As for ``laplace``.
        groups: As for ``laplace``.
        curvature: As for ``laplace``.

    Returns:
        The log evidence, and its gradient by name.

    Raises:
        ValueError: As ``laplace``; or if there is no hyperparameter, or one that the evidence
            does not depend on.

    Example:
        >>> import torch
        >>> from isotropy.nn import RecordedModule
        >>> class Stretched(RecordedModule):
        ...     def __init__(self) -> None:
        ...         super().__init__()
        ...         self.weight = nn.Parameter(torch.ones(1, 3))
        ...         self.log_scale = nn.Parameter(torch.zeros(()))
        ...
        ...     def forward(self, x: Tensor) -> Tensor:
        ...         def stretch(x: Tensor) -> Tensor:
        ...             return x * self.log_scale.exp()
        ...
        ...         y = stretch(x) @ self.weight.mT
        ...         self.note("weight", x, y, spread=stretch)
        ...         return y
        >>> x = torch.randn(20, 3)
        >>> value, gradient = evidence_gradient(
        ...     Stretched(), "regression", (x, 2 * x.sum(1)), ["log_scale"]
        ... )
        >>> bool(gradient["log_scale"] > 0)  # the data ask for more
        True
    """
    names = [hyperparameters] if isinstance(hyperparameters, str) else list(hyperparameters)
    names = list(dict.fromkeys(names))
    if not names:
        raise ValueError("expected at least one hyperparameter, got none")
    options = CurvatureOptions.given(curvature)
    process_group = options.process_group
    work = prepared(model, loss, params, names, options)
    batches = work.batches(data)
    sums = work.run(batches)
    if process_group is not None:
        sums.add_up(process_group)
    sums.set_tensors([t.detach() for t in sums.tensors()])
    leaves = {key: t.requires_grad_() for key, t in sums.by_name().items()}
    found = from_sums(work, sums, groups)
    value = found.log_marginal_likelihood(precisions, noise=noise, temperature=temperature)
    slopes = torch.autograd.grad(value, list(leaves.values()), allow_unused=True)
    slope_of = dict(zip(leaves, slopes, strict=True))
    second = prepared(model, loss, params, names, options, create_graph=True)
    own = dict(second.model.named_parameters())
    total = {name: torch.zeros_like(own[name]) for name in names}
    reached = set()
    with _differentiable([own[name] for name in names]):
        for batch in second.each(batches):
            terms = [
                (slope * tensor).sum()
                for key, tensor in batch.by_name().items()
                if (slope := slope_of.get(key)) is not None and tensor.requires_grad
            ]
            parts = torch.autograd.grad(
                torch.stack(terms).sum(), [own[name] for name in names], allow_unused=True
            )
            for name, part in zip(names, parts, strict=True):
                if part is not None:
                    reached.add(name)
                    total[name] += part
    for name in names:
        if name not in reached:
            raise ValueError(f"expected hyperparameters that the outputs depend on, got {name}")
        if process_group is not None:
            torch.distributed.all_reduce(total[name], group=process_group)
    return value.detach(), total


@contextmanager
def _differentiable(parameters: Sequence[Tensor]) -> Iterator[None]:
    """Frozen parameters require gradients meanwhile."""
    frozen = [parameter for parameter in parameters if not parameter.requires_grad]
    for parameter in frozen:
        parameter.requires_grad_(True)
    try:
        yield
    finally:
        for parameter in frozen:
            parameter.requires_grad_(False)
