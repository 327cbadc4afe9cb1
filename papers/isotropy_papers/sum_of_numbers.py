"""Sums of numbers in a sequence, and a network that may treat each position in its own way."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from isotropy_papers._counts import require_count

Rows = tuple[Tensor, Tensor]

_LARGEST = 9
_TOKENS = 11  # row 0 is padding and 10 is never drawn, as in the published model
_SIZES = (100, 150, 250, 100_000)
_SEED_STRIDE = 5


@dataclass(frozen=True, eq=False)
class SumOfNumbers:
    """Sequences of numbers with their sums: four independent sets of rows.

    Args:
        train: What weights are fitted to: integers of shape (n, length), sums of shape (n, 1).
        validation: What a sharing scheme is chosen on.
        early: What says when to stop the last fit.
        test: What results are reported on; its sums are without noise.
        labels: The true sharing of positions, shape (length,).
        offset: The mean of the sums of ``train`` and ``validation``.
        scale: Their standard deviation.

    Example:
        >>> task = sum_of_numbers(4, signed=True, seed=0, sizes=(20, 10, 10, 30))
        >>> task.labels, [len(x) for x, _ in (task.train, task.validation, task.early, task.test)]
        (array([0, 1, 0, 1]), [20, 10, 10, 30])
        >>> x, y = task.test
        >>> bool((y == (x * torch.tensor([-1, 1, -1, 1])).sum(1, keepdim=True)).all())
        True
    """

    train: Rows
    validation: Rows
    early: Rows
    test: Rows
    labels: NDArray[np.int64]
    offset: float
    scale: float

    def standardised(self, y: Tensor) -> Tensor:
        """Sums brought to zero mean and unit variance.

        Example:
            >>> task = sum_of_numbers(2, seed=0, sizes=(60, 40, 1, 1))
            >>> seen = torch.cat([task.train[1], task.validation[1]])
            >>> abs(float(task.standardised(seen).mean())) < 1e-6
            True
        """
        return (y - self.offset) / self.scale

    def original(self, y: Tensor) -> Tensor:
        """The inverse of ``standardised``.

        Example:
            >>> task = sum_of_numbers(2, seed=0, sizes=(60, 40, 1, 1))
            >>> y = task.test[1]
            >>> torch.allclose(task.original(task.standardised(y)), y)
            True
        """
        return y * self.scale + self.offset


def sum_of_numbers(
    length: int,
    *,
    signed: bool = False,
    seed: int = 0,
    sizes: tuple[int, int, int, int] = _SIZES,
) -> SumOfNumbers:
    """Draw the task of Yeh et al. (2022), 5.2 and F.2.

    y = Σ_i x_i, or with alternating signs Σ_i (−1)^i x_i (the first position is negated), with
    x_i uniform on 1, …, 9. Noise, uniform on (−½, ½), is added to the sums of all rows but those
    of the test. Each set has a seed of its own: ``seed``, and 5, 10 and 15 more than it.

    Args:
        length: How many numbers in a sequence.
        signed: Whether signs alternate; then only positions of one parity share.
        seed: The run; 0 to 4 in the paper.
        sizes: Rows for training, validation, early stopping and test.

    Raises:
        ValueError: If a size is not a positive integer or the seed is negative.

    Example:
        >>> sum_of_numbers(3, sizes=(5, 5, 5, 5)).labels
        array([0, 0, 0])
    """
    require_count(length, "positions")
    if len(sizes) != 4:
        raise ValueError(f"expected four sizes, got {len(sizes)}")
    for size in sizes:
        require_count(size, "rows")
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise ValueError(f"expected a seed of at least 0, got {seed!r}")
    positions = np.arange(length)
    signs = np.where(positions % 2 == 0, -1, 1) if signed else np.ones(length, dtype=int)
    train, validation, early, test = (
        _draw(size, signs, seed + _SEED_STRIDE * i, noisy=i < 3) for i, size in enumerate(sizes)
    )
    seen = torch.cat([train[1], validation[1]])
    scale = float(seen.std(correction=0))
    labels = positions % 2 if signed else 0 * positions
    offset = float(seen.mean())
    return SumOfNumbers(train, validation, early, test, labels, offset, scale if scale > 0 else 1.0)


def _draw(size: int, signs: NDArray[np.int64], seed: int, *, noisy: bool) -> Rows:
    rng = np.random.default_rng(seed)
    x = rng.integers(1, _LARGEST + 1, (size, len(signs)))
    y = (x @ signs).astype(np.float64)
    if noisy:
        y += rng.uniform(-0.5, 0.5, size)
    return torch.from_numpy(x), torch.from_numpy(y[:, None]).float()


class PositionwiseSum(nn.Module):
    """A network for sequences of tokens with weights of its own at every position.

    f(x) = b + Σ_p vᵀ relu(W_p e(x_p) + b_p), the model of Yeh et al. (2022), F.2: tokens embedded
    in 500 dimensions, a layer of 50 units for each position, a sum, a linear layer.

    Few tokens exist, so the hidden units of all of them at all positions are computed once and
    looked up: the cost does not grow with rows × width, as it does in ``by_rows``.

    Args:
        length: Positions.
        tokens: How many tokens there are.
        embedding: Dimensions of the embedding.
        hidden: Units at each position.

    Raises:
        ValueError: If a size is not a positive integer.

    Example:
        >>> model = PositionwiseSum(4)
        >>> sum(weight.numel() for weight in model.parameters())
        105751
        >>> model(torch.randint(1, 10, (7, 4))).shape
        torch.Size([7, 1])
    """

    def __init__(
        self, length: int, *, tokens: int = _TOKENS, embedding: int = 500, hidden: int = 50
    ) -> None:
        super().__init__()
        sizes = {"positions": length, "tokens": tokens, "dimensions": embedding, "units": hidden}
        for what, size in sizes.items():
            require_count(size, what)
        self.length = length
        self.embedding = nn.Embedding(tokens, embedding)
        self.weight = nn.Parameter(torch.empty(length, hidden, embedding))
        self.bias = nn.Parameter(torch.empty(length, hidden))
        self.output = nn.Linear(hidden, 1)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the weights of the positions anew; the other layers have methods of their own."""
        # over the whole tensor, as published: its axes count as (out, in, kernel)
        nn.init.xavier_uniform_(self.weight)
        nn.init.uniform_(self.bias, -0.1, 0.1)

    def forward(self, x: Tensor, assignment: Tensor | None = None) -> Tensor:
        """Predict sums.

        Args:
            x: Tokens, integers of shape (n, length).
            assignment: Where given, shape (length, K): the weights and biases hold K blocks,
                along their first axis, and position p has Σ_k A_pk W_k and Σ_k A_pk b_k. The
                products with the embedding are mixed in place of the weights, which are many
                more.

        Returns:
            Shape (n, 1).
        """
        before = self.embedding.weight @ self.weight.mT + self.bias.unsqueeze(-2)
        if assignment is not None:
            before = torch.einsum("pk,kvh->pvh", assignment, before)
        table = before.relu()
        hidden = self.one_hot(x).to(table.dtype).flatten(-2) @ table.flatten(-3, -2)
        summed: Tensor = self.output(hidden)
        return summed

    def one_hot(self, x: Tensor) -> Tensor:
        """Tokens of shape (n, length) as indicators of shape (n, length, tokens)."""
        tokens = torch.arange(self.embedding.num_embeddings, device=x.device)
        return x.unsqueeze(-1) == tokens

    def of_mixtures(self, mixtures: Tensor) -> Tensor:
        """Predictions where each position holds a mixture of the embeddings of tokens.

        Args:
            mixtures: Shape (n, length, tokens), such as permuted ``one_hot`` ones.
        """
        products = self.embedding.weight @ self.weight.mT
        at_positions = torch.einsum("npv,pvh->nph", mixtures, products) + self.bias
        summed: Tensor = self.output(at_positions.relu().sum(-2))
        return summed

    def by_rows(self, x: Tensor) -> Tensor:
        """The same predictions, computed row by row as the formula reads."""
        embedded = self.embedding(x)
        at_positions = torch.einsum("phd,npd->nph", self.weight, embedded) + self.bias
        summed: Tensor = self.output(at_positions.relu().sum(-2))
        return summed
