"""From a network and data to its Laplace approximation."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import Any

from torch import Tensor, nn

from isotropy._run import ProgressCallback
from isotropy._run._moved_keywords import moved_keywords
from isotropy.evidence._captured import require_usable
from isotropy.evidence._curvature_options import CurvatureOptions
from isotropy.evidence._curvature_pass import CurvaturePass
from isotropy.evidence._laplace import Laplace
from isotropy.evidence._likelihoods import classes_without_samples, likelihood_of
from isotropy.evidence._precision_groups import Groups, Precisions, groups_of, prior_lengths
from isotropy.evidence._sums import Sums


@moved_keywords(curvature=CurvatureOptions)
def laplace(
    model: nn.Module,
    loss: Any,
    data: Any,
    *,
    params: Mapping[str, Tensor] | None = None,
    hyperparameters: Iterable[str] = (),
    groups: Groups = None,
    curvature: CurvatureOptions | None = None,
    create_graph: bool = False,
    progress: ProgressCallback | None = None,
) -> Laplace:
    """The Laplace approximation around the parameters of a network.

    One pass over the data in evaluation mode: the generalised Gauss–Newton matrix
    H = Σ_n J_nᵀ Λ_n J_n of the log likelihood, in one of four structures:

    - "kronecker" (KFAC): for every weight the product of the second moments of its inputs and
      of the gradients at its outputs; block-diagonal inputs have a factor for each block;
    - "block": the exact block of every tensor, for small ones;
    - "diagonal": the exact diagonal;
    - "full": all of it, for small networks.

    With ``CurvatureOptions("diagonal", passes="summed")`` any network will do, also one whose
    outputs are derivatives or solutions of a differential equation: the diagonal is the mean
    square of gradients of Σ_n ⟨v_n, f(x_n)⟩ for random v. It needs no notes of operations,
    and outputs must depend on their own sample alone, which is not checked. The estimate ĥ of an
    entry is unbiased; log(1 + ĥ/δ) and ĥ/(ĥ + δ) are concave, and thus in the mean too small, by at
    most about 1/k for k squares, ``probes`` times the number of batches: smaller batches help, too.
    Over the many entries of a group most of the noise averages out, not all, for they share v. A
    parameter that does not reach the outputs, such as the last bias of a Hamiltonian, has no
    curvature.

    Entries with squared lengths c in a ``PathSum`` have the prior N(0, 1/(δc)).

    Args:
        model: A network whose layers are those of torch (linear, convolutions, normalisations),
            ours, or your own that note their operations (``isotropy.nn.RecordedModule``); any
            with summed passes.
        loss: "classification", "binary" or "regression", or a loss of torch that means it.
        data: A pair (inputs, targets), a data set, or a loader of such pairs.
        params: The parameters to integrate out and their values; by default all that require
            gradients, as they are.
        hyperparameters: Names of parameters to leave out of these.
        groups: Which parameters share a prior precision: a map or a function from their names
            to names of groups; None for one for each tensor.
        curvature: How the curvature is computed: its structure, passes, samples and batches.
        create_graph: Whether the result depends by autograd on whatever the outputs of the
            network depend on. For many data use ``evidence_gradient``, which needs no more
            memory than a batch.
        progress: Called after every batch.

    Raises:
        ValueError: If a parameter is not captured by the operations of the network, data and
            loss do not go together, the curvature is not finite, or an option is unknown.

    Example:
        >>> import torch
        >>> model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3))
        >>> x, y = torch.randn(100, 4), torch.arange(100) % 3
        >>> found = laplace(model, "classification", (x, y))
        >>> found.log_marginal_likelihood(precisions=2.0).shape
        torch.Size([])
        >>> list(found.blocks)
        ['0.weight', '0.bias', '2.weight', '2.bias']
    """
    options = CurvatureOptions.given(curvature)
    if create_graph and options.process_group is not None:
        raise ValueError(
            "expected create_graph=False with a process group, got True: sums of several "
            "processes have no graph; use evidence_gradient"
        )
    work = prepared(model, loss, params, hyperparameters, options, create_graph=create_graph)
    sums = work.run(work.batches(data), progress)
    if options.process_group is not None:
        sums.add_up(options.process_group)
    return from_sums(work, sums, groups)


def prepared(
    model: nn.Module,
    loss: Any,
    params: Mapping[str, Tensor] | None,
    hyperparameters: Iterable[str],
    options: CurvatureOptions,
    *,
    create_graph: bool = False,
) -> CurvaturePass:
    """A pass over data, with its parameters found and checked."""
    model = _bare(model)
    own = dict(model.named_parameters())
    left_out = [hyperparameters] if isinstance(hyperparameters, str) else list(hyperparameters)
    for name in [*left_out, *(params or ())]:
        if name not in own:
            raise ValueError(f"expected names of parameters of the model, got {name!r}")
    if params is None:
        chosen: dict[str, Tensor] = {n: p for n, p in own.items() if p.requires_grad}
    else:
        chosen = {name: params[name] for name in own if name in params}
        for name, value in chosen.items():
            if value.shape != own[name].shape:
                raise ValueError(
                    f"expected {name} of shape {tuple(own[name].shape)}, got {tuple(value.shape)}"
                )
    chosen = {n: p for n, p in chosen.items() if n not in left_out and p.numel()}
    if not chosen:
        raise ValueError("expected parameters to integrate out, got none that require gradients")
    require_usable(chosen)
    return CurvaturePass(
        model,
        likelihood_of(loss),
        chosen,
        own=params is None,
        options=options,
        create_graph=create_graph,
    )


def _bare(model: nn.Module) -> nn.Module:
    """The network inside wrappers that only run it differently."""
    if not isinstance(model, nn.Module):
        raise TypeError(f"expected a torch module, got {type(model).__name__}")
    if isinstance(model, nn.parallel.DistributedDataParallel | nn.DataParallel):
        return _bare(model.module)
    compiled = getattr(model, "_orig_mod", None)
    return _bare(compiled) if isinstance(compiled, nn.Module) else model


def from_sums(work: CurvaturePass, sums: Sums, groups: Groups) -> Laplace:
    """The approximation that sums over data give."""
    missing = classes_without_samples(sums.class_counts)
    if missing and sums.scale == 1:  # a subset need not have them all
        few = ", ".join(map(str, missing[:5])) + (", …" if len(missing) > 5 else "")
        warnings.warn(
            f"expected samples of all {len(sums.class_counts)} classes, got none of {few}: the "
            "evidence says nothing of them",
            stacklevel=3,
        )
    for (name, _), part in sums.parts.items():
        if not part.is_finite():
            raise ValueError(
                f"expected finite curvature, got values that are not in that of "
                f"{name or 'the parameters'}: gradients or inputs there overflow"
            )
    keep = work.create_graph
    # values of their own: the network may go on learning
    parameters = {n: p if keep else p.detach().clone() for n, p in work.parameters.items()}
    return Laplace(
        parameters,
        groups_of(parameters, groups),
        sums.blocks(),
        work.likelihood,
        sums.statistics * sums.scale,
        float(sums.total),
        prior_lengths(work.model, parameters),
    )


def log_marginal_likelihood(
    model: nn.Module,
    loss: Any,
    data: Any,
    precisions: Precisions = 1.0,
    *,
    noise: float | Tensor | None = None,
    temperature: float | Tensor = 1.0,
    **options: Any,
) -> Tensor:
    """The log evidence of a network, in one call.

    Args:
        model: As for ``laplace``.
        loss: As for ``laplace``.
        data: As for ``laplace``.
        precisions: Prior precisions, one for all groups or one for each by name.
        noise: The standard deviation of observations, for regression; 1 where None.
        temperature: That of the likelihood.
        **options: Further ones of ``laplace``; with ``create_graph=True`` gradients reach the
            parameters that the network's outputs depend on, hyperparameters too.

    Example:
        >>> import torch
        >>> model = nn.Linear(3, 2)
        >>> x, y = torch.randn(20, 3), torch.arange(20) % 2
        >>> log_marginal_likelihood(model, nn.CrossEntropyLoss(), (x, y), 0.1).shape
        torch.Size([])
    """
    found = laplace(model, loss, data, **options)
    return found.log_marginal_likelihood(precisions, noise=noise, temperature=temperature)
