"""The Laplace approximation of a network's posterior, and the evidence that comes of it."""

from __future__ import annotations

from collections.abc import Mapping
from math import log, pi
from numbers import Real
from typing import Literal

import torch
from torch import Tensor

from isotropy.evidence._curvature_blocks import Block, DenseBlock, above_rounding, spectrum
from isotropy.evidence._effective_parameters import EffectiveParameters
from isotropy.evidence._likelihoods import Likelihood
from isotropy.evidence._precision_groups import Precisions, precision_of


class Laplace:
    """A Gaussian around the parameters θ of a network, from the curvature H of its likelihood.

    With prior N(0, δ⁻¹) in groups and posterior precision H + δ, the log evidence is

        log p(D) ≈ log p(D|θ) − ½ Σ δ‖θ‖² − ½ log det(1 + δ⁻¹ H)             (paper Eq. 9)

    Where a ``PathSum`` has squared lengths c of entries, their prior is N(0, (δc)⁻¹): ‖θ‖² is
    Σ cθ² throughout, and H is taken relative to them, as C^-½ H C^-½.

    A temperature T stands for the likelihood p(D|θ)^{1/T}: log p(D|θ) and H are divided by it.
    For regression with noise σ the likelihood is N(f(x), σ²).

    Made by ``laplace``; not meant to be made by hand.

    Attributes:
        parameters: θ by name.
        groups: The precision group of each.
        blocks: H by parameter, a list of blocks for each; for the full structure one block
            under "" for all parameters in order.
        lengths: The squared lengths of parameters that have some, by name.
        samples: The number of data that the curvature stands for.
    """

    def __init__(
        self,
        parameters: Mapping[str, Tensor],
        groups: Mapping[str, str],
        blocks: Mapping[str, list[Block]],
        likelihood: Likelihood,
        statistics: Tensor,
        samples: float,
        lengths: Mapping[str, Tensor] | None = None,
    ) -> None:
        self.parameters, self.groups = dict(parameters), dict(groups)
        order = [name for name in ("", *parameters) if name in blocks]
        self.blocks = {name: list(blocks[name]) for name in order}
        self.likelihood, self.samples = likelihood, samples
        self._statistics = statistics
        self.lengths = dict(lengths or {})
        self._squares = {name: p.double().square().sum() for name, p in parameters.items()}
        for name, c in self.lengths.items():
            self._squares[name] = (c * self.parameters[name].double().square()).sum()
        self._relative_blocks = self._relative_to_lengths()

    def __repr__(self) -> str:
        size = sum(self.group_sizes.values())
        return (
            f"Laplace({self.likelihood.name}, {size} parameters in {len(self.group_sizes)} "
            f"precision groups, {self.samples:.0f} samples)"
        )

    @property
    def is_full(self) -> bool:
        """Whether one matrix couples all parameters."""
        return "" in self.blocks

    @property
    def group_sizes(self) -> dict[str, int]:
        """The number of parameters of each group."""
        sizes: dict[str, int] = {}
        for name, parameter in self.parameters.items():
            group = self.groups[name]
            sizes[group] = sizes.get(group, 0) + parameter.numel()
        return sizes

    def _relative_to_lengths(self) -> dict[str, list[Block]]:
        if not self.lengths:
            return self.blocks
        flat = {
            name: c.double().expand(self.parameters[name].shape).flatten()
            for name, c in self.lengths.items()
        }
        if self.is_full:
            whole = [
                flat[name] if name in flat else p.new_ones(p.numel(), dtype=torch.float64)
                for name, p in self.parameters.items()
            ]
            flat = {"": torch.cat(whole)}
        return {
            name: [block.relative_to(flat[name]) for block in blocks] if name in flat else blocks
            for name, blocks in self.blocks.items()
        }

    def eigenvalues(self) -> dict[str, Tensor]:
        """The eigenvalues of H by parameter; those that are zero for want of use are left out."""
        return {
            name: torch.cat([block.eigenvalues() for block in blocks])
            for name, blocks in self._relative_blocks.items()
        }

    def log_likelihood(
        self, *, noise: float | Tensor | None = None, temperature: float | Tensor = 1.0
    ) -> Tensor:
        """Log p(D|θ), divided by the temperature.

        Args:
            noise: The standard deviation σ of observations, for regression; 1 where None.
            temperature: T.

        Raises:
            TypeError: If the noise is not a number.
        """
        if not isinstance(noise, Real | Tensor | None):
            raise TypeError(f"expected a number as the noise, got {noise!r}")
        whole = self.likelihood.log_likelihood(self._statistics, noise)
        return whole / _temperature(temperature)

    def log_prior(self, precisions: Precisions = 1.0) -> Tensor:
        """Log p(θ) = ½ Σ (P log δ/2π − δ‖θ‖²) over groups, and ½ Σ log c where there are lengths.

        Args:
            precisions: δ, one for all groups or one for each by name.
        """
        delta = precision_of(self.groups.values(), precisions)
        terms = [
            p.numel() * (delta[self.groups[name]].log() - log(2 * pi))
            - delta[self.groups[name]] * self._squares[name]
            for name, p in self.parameters.items()
        ]
        terms += [
            c.double().log().expand(self.parameters[name].shape).sum()
            for name, c in self.lengths.items()
        ]
        return torch.stack([term.to(self._statistics.device) for term in terms]).sum() / 2

    def log_marginal_likelihood(
        self,
        precisions: Precisions = 1.0,
        *,
        noise: float | Tensor | None = None,
        temperature: float | Tensor = 1.0,
    ) -> Tensor:
        """The log evidence log p(D), float64; its gradients reach all that is given as tensors.

        Args:
            precisions: δ, one for all groups or one for each by name.
            noise: The standard deviation σ of observations, for regression; 1 where None.
            temperature: T.

        Raises:
            ValueError: If a precision, the noise or the temperature is not positive, or a
                precision is missing or of no group.

        Example:
            >>> import torch
            >>> from torch import nn
            >>> from isotropy.evidence import laplace
            >>> x = torch.randn(50, 3, dtype=torch.float64)
            >>> found = laplace(nn.Linear(3, 1, dtype=torch.float64), "regression", (x, x.sum(1)))
            >>> log_delta = torch.zeros((), requires_grad=True)
            >>> found.log_marginal_likelihood(log_delta.exp(), noise=0.1).backward()
            >>> log_delta.grad.shape
            torch.Size([])
        """
        delta = precision_of(self.groups.values(), precisions)
        scale = self._curvature_scale(noise, temperature)
        fit = self.log_likelihood(noise=noise, temperature=temperature)
        device = self._statistics.device
        pull = [
            delta[self.groups[name]].to(device) * square.to(device)
            for name, square in self._squares.items()
        ]
        return fit - torch.stack(pull).sum() / 2 - self._log_determinant(delta, scale) / 2

    def _curvature_scale(self, noise: float | Tensor | None, temperature: float | Tensor) -> Tensor:
        """What the curvature for unit noise and temperature is multiplied by."""
        device = self._statistics.device
        scale = 1 / _temperature(temperature).to(device)
        if self.likelihood.has_noise and noise is not None:
            scale = scale / torch.as_tensor(noise, dtype=torch.float64, device=device).square()
        return scale

    def _log_determinant(self, delta: Mapping[str, Tensor], scale: Tensor) -> Tensor:
        """Log det(1 + δ⁻¹ H)."""
        return torch.log1p(scale * self._relative_eigenvalues(delta)).sum()

    def _relative_eigenvalues(self, delta: Mapping[str, Tensor]) -> Tensor:
        """All eigenvalues of δ^-½ H δ^-½, at unit noise and temperature."""
        if self.is_full:
            return spectrum(self._relative_curvature(delta))
        parts = [
            values / delta[self.groups[name]].to(values.device)
            for name, values in self.eigenvalues().items()
        ]
        return torch.cat(parts) if parts else self._statistics[:0]

    def _relative_curvature(self, delta: Mapping[str, Tensor]) -> Tensor:
        """δ^-½ H δ^-½ of all parameters together."""
        (block,) = self._relative_blocks[""]
        assert isinstance(block, DenseBlock)
        root = torch.cat(
            [
                delta[self.groups[name]].to(block.matrix.device).rsqrt().expand(p.numel())
                for name, p in self.parameters.items()
            ]
        )
        relative = root.unsqueeze(1) * block.matrix * root
        return (relative + relative.mT) / 2

    @torch.no_grad()
    def relative_eigenvalues(self, precisions: Precisions = 1.0) -> Tensor:
        """All eigenvalues λ of δ^-½ H δ^-½ together, at unit noise and temperature.

        With noise σ and temperature T the effective number of parameters is the sum of
        cλ/(1 + cλ), c = 1/(σ²T).

        Args:
            precisions: δ, one for all groups or one for each by name.
        """
        return self._relative_eigenvalues(precision_of(self.groups.values(), precisions))

    def squared_norms(self) -> dict[str, float]:
        """‖θ‖² by group; Σ cθ² where there are lengths."""
        found: dict[str, float] = {}
        for name, square in self._squares.items():
            group = self.groups[name]
            found[group] = found.get(group, 0.0) + float(square.detach())
        return found

    @torch.no_grad()
    def effective_parameters(
        self,
        precisions: Precisions = 1.0,
        *,
        noise: float | Tensor | None = None,
        temperature: float | Tensor = 1.0,
        by: Literal["group", "tensor"] = "group",
    ) -> EffectiveParameters:
        """How many parameters the data determine: γ = P − δ tr Σ (paper D.2).

        Args:
            precisions: δ, one for all groups or one for each by name.
            noise: The standard deviation σ of observations, for regression; 1 where None.
            temperature: T.
            by: Whether to count by precision group or by tensor.

        Raises:
            ValueError: If ``by`` is neither.

        Example:
            >>> import torch
            >>> from torch import nn
            >>> from isotropy.evidence import laplace
            >>> x = torch.randn(500, 2, dtype=torch.float64)
            >>> found = laplace(nn.Linear(2, 1, dtype=torch.float64), "regression", (x, x.sum(1)))
            >>> print(found.effective_parameters(1e-3))  # the data determine all
                    effective  of   share
            weight        2.0   2  100.0%
            bias          1.0   1  100.0%
        """
        if by not in ("group", "tensor"):
            raise ValueError(f"expected by 'group' or 'tensor', got {by!r}")
        self.log_likelihood(noise=noise, temperature=temperature)  # refuses what is out of range
        delta = precision_of(self.groups.values(), precisions)
        scale = self._curvature_scale(noise, temperature)
        sizes = {name: p.numel() for name, p in self.parameters.items()}
        counts: dict[str, float] = {}
        if self.is_full:
            values, vectors = torch.linalg.eigh(self._relative_curvature(delta))
            scaled = scale * above_rounding(values)
            each = vectors.square() @ (scaled / (1 + scaled))
            shares = each.split(list(sizes.values()))
            counts = {n: float(share.sum()) for n, share in zip(sizes, shares, strict=True)}
        else:
            counts = dict.fromkeys(sizes, 0.0)
            for name, values in self.eigenvalues().items():
                scaled = scale * values
                counts[name] = float((scaled / (scaled + delta[self.groups[name]])).sum())
        found = EffectiveParameters(counts, sizes)
        return found if by == "tensor" else found.by(self.groups)


def _temperature(value: float | Tensor) -> Tensor:
    if not isinstance(value, Real | Tensor):
        raise TypeError(f"expected a number as the temperature, got {value!r}")
    found = torch.as_tensor(value, dtype=torch.float64)
    if found.numel() != 1 or not 0 < float(found.detach()) < float("inf"):
        raise ValueError(f"expected a positive temperature, got {value}")
    return found.reshape(())
