"""A pass over data: the curvature of the log likelihood in the parameters of a network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn

from isotropy._run import ProgressCallback, Step, evaluation_mode
from isotropy.evidence._batch_curvature import BatchCurvature, places_of_whole
from isotropy.evidence._batches import Batches, batches_of
from isotropy.evidence._captured import require_captured, require_one_layout, require_separate
from isotropy.evidence._curvature_options import CurvatureOptions
from isotropy.evidence._likelihoods import Likelihood
from isotropy.evidence._output_curvature import root_columns, sampled_columns, sign_columns
from isotropy.evidence._sample_gradients import SummedCurvature
from isotropy.evidence._sums import Sums
from isotropy.nn import record
from isotropy.nn._recorder import LinearOperation

_FEW = 16  # samples for the check that operations account for all parameters
_LARGEST_STACK = 2**13  # rows of all columns that go backwards together on a GPU


class CurvaturePass:
    """Adds up the curvature of a network over batches of data."""

    def __init__(
        self,
        model: nn.Module,
        likelihood: Likelihood,
        parameters: Mapping[str, Tensor],
        *,
        own: bool,
        options: CurvatureOptions,
        create_graph: bool,
    ) -> None:
        self.model, self.likelihood, self.options = model, likelihood, options
        self.own, self.create_graph = own, create_graph
        self.one_by_one = False
        self.parameters = {
            name: p if own or (create_graph and p.requires_grad) else p.detach().requires_grad_()
            for name, p in parameters.items()
        }

    def batches(self, data: Any) -> Batches:
        """The data, where and in the precision in which the parameters are."""
        like = next(iter(self.parameters.values()))
        return batches_of(
            data,
            batch_size=self.options.batch_size,
            subset=self.options.subset,
            generator=self.options.seed,
            device=like.device,
            dtype=like.dtype,
        )

    def run(self, batches: Batches, progress: ProgressCallback | None = None) -> Sums:
        """The sums of all batches together."""
        sums: Sums | None = None
        generator = torch.Generator().manual_seed(self.options.seed)
        count = 0 if progress is None else len(batches)
        with _evaluating(self.model):
            for k, (x, y) in enumerate(batches):
                if not len(x):
                    continue
                if sums is None:
                    self._check(x)
                    sums = _empty(x.device)
                self._add(sums, x, y, generator)
                if progress is not None:
                    progress(Step(k + 1, count, "curvature"))
        if sums is None:
            raise ValueError("expected at least one sample, got none")
        sums.total = sums.samples * batches.scale
        return sums

    def each(self, batches: Batches) -> Iterator[Sums]:
        """The sums of each batch alone, with the same random passes as in ``run``."""
        generator = torch.Generator().manual_seed(self.options.seed)
        for x, y in batches:
            if not len(x):
                continue
            sums = _empty(x.device)
            with _evaluating(self.model):
                self._add(sums, x, y, generator)
            yield sums

    def _call(self, x: Tensor) -> tuple[Tensor, list[LinearOperation]]:
        nothing: list[LinearOperation] = []
        heard = nullcontext(nothing) if self.options.is_summed else record(self.model)
        with heard as operations:
            if self.own:
                outputs = self.model(x)
            else:
                outputs = torch.func.functional_call(self.model, dict(self.parameters), (x,))
        if not isinstance(outputs, Tensor):
            raise TypeError(f"expected a model that returns a tensor, got {type(outputs).__name__}")
        if outputs.shape[:1] != x.shape[:1]:
            raise ValueError(
                f"expected an output for each of {x.shape[0]} samples, got shape "
                f"{tuple(outputs.shape)}"
            )
        return outputs, operations

    def _check(self, x: Tensor) -> None:
        """Refuse a network, data or options that do not go together, on a few samples."""
        few = x[torch.linspace(0, len(x) - 1, min(len(x), _FEW)).long()]
        outputs, operations = self._call(few)
        if not bool(outputs.isfinite().all()):
            return  # the likelihood says so, with the place
        sharing, structure = self.options.sharing_modes, self.options.structure
        summed = self.options.is_summed
        if not summed:
            sharing.require_known(operations)
        if not outputs.requires_grad or (summed and not self._reaches(outputs)):
            raise ValueError(
                "expected outputs that depend on the parameters by autograd, got none that do"
            )
        if summed:
            return
        require_captured(self.model, self.parameters, outputs, operations)
        noted = [o for o in operations if o.parameter in self.parameters]
        noted = [o for o in noted if o.output.requires_grad]
        by_sample = places_of_whole(noted, structure, sharing, len(few))
        by_sample |= {k for k, o in enumerate(noted) if sharing.reduced_axes(o)}
        if len(few) > 1:
            half = self._call(few[: -(-len(few) // 2)])[0]
            require_separate(outputs, half, noted, by_sample)
        if structure == "kronecker":
            require_one_layout(noted)

    def _reaches(self, outputs: Tensor) -> bool:
        """Whether any of the parameters matters for the outputs."""
        ends = list(self.parameters.values())
        ones = torch.ones_like(outputs)
        found = torch.autograd.grad(outputs, ends, ones, allow_unused=True)
        return any(gradient is not None for gradient in found)

    def _add(self, sums: Sums, x: Tensor, y: Tensor, generator: torch.Generator) -> None:
        outputs, operations = self._call(x)
        statistics = self.likelihood.statistics(outputs, y)
        graph = self.create_graph
        sums.statistics = sums.statistics + (statistics if graph else statistics.detach())
        sums.samples = sums.samples + x.shape[0]
        sums.class_counts = _added(sums.class_counts, self.likelihood.class_counts(outputs, y))
        with torch.set_grad_enabled(graph):
            batch = self._batch(sums, operations, x.shape[0])
            for stack in self._stacks(outputs if graph else outputs.detach(), generator):
                for gradients, count in self._backwards(outputs, batch.outputs, stack):
                    batch.add_columns(gradients, count)
            batch.finish()

    def _batch(
        self, sums: Sums, operations: Sequence[LinearOperation], samples: int
    ) -> BatchCurvature | SummedCurvature:
        if self.options.is_summed:
            return SummedCurvature(sums, self.parameters)
        noted = [o for o in operations if o.parameter in self.parameters]
        options = self.options
        return BatchCurvature(
            sums, noted, self.parameters, samples, options.structure, options.sharing_modes
        )

    def _columns(self, outputs: Tensor, generator: torch.Generator) -> Iterator[Tensor]:
        """Columns v of a root of the output curvature, Σ vvᵀ = Λ, or random ones."""
        probes = self.options.random_passes
        if self.options.passes == "exact":
            return root_columns(self.likelihood, outputs)
        if self.options.passes == "sampled":
            return sampled_columns(self.likelihood, outputs, probes, generator)
        return sign_columns(self.likelihood, outputs, probes, generator)

    def _columns_at_once(self, outputs: Tensor) -> int:
        """How many columns go backwards together.

        A GPU is quicker with many; a processor has nothing to gain from it.
        """
        if self.one_by_one or self.create_graph or not outputs.is_cuda:
            return 1
        return max(1, _LARGEST_STACK // outputs.shape[0])

    def _stacks(self, outputs: Tensor, generator: torch.Generator) -> Iterator[Tensor]:
        """Columns that go backwards together, shape (columns, *outputs.shape)."""
        columns = self._columns(outputs, generator)
        while few := list(islice(columns, self._columns_at_once(outputs))):
            yield torch.stack(few)

    def _backwards(
        self, outputs: Tensor, ends: Sequence[Tensor], stack: Tensor
    ) -> Iterator[tuple[Sequence[Tensor | None], int]]:
        """Gradients at the ends, shape (columns, *end.shape), and the number of columns."""
        if len(stack) > 1 and not self.one_by_one:
            try:
                found = torch.autograd.grad(
                    outputs,
                    ends,
                    stack,
                    retain_graph=True,
                    allow_unused=True,
                    is_grads_batched=True,
                )
                yield found, len(stack)
                return
            except RuntimeError:  # memory, or an operation that cannot be batched
                self.one_by_one = True
        graph = self.create_graph
        for column in stack:
            found = torch.autograd.grad(
                outputs, ends, column, retain_graph=True, create_graph=graph, allow_unused=True
            )
            yield [None if g is None else g.unsqueeze(0) for g in found], 1


def _empty(device: torch.device) -> Sums:
    nothing = torch.zeros(2, dtype=torch.float64, device=device)
    return Sums(nothing, nothing[0], nothing[0], nothing[:0])


def _added(counts: Tensor, more: Tensor) -> Tensor:
    """The sum of two vectors of counts, the shorter one filled up with zeros."""
    width = max(len(counts), len(more))
    fill = torch.nn.functional.pad
    return fill(counts, (0, width - len(counts))) + fill(more, (0, width - len(more)))


@contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluation mode, gradients on, full precision; all as before afterwards."""
    device = next((p.device.type for p in model.parameters()), "cpu")
    with (
        evaluation_mode(model),
        torch.inference_mode(False),
        torch.enable_grad(),
        torch.autocast(device, enabled=False),
    ):
        yield
