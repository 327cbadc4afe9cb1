"""The linear layer of any pattern of equal weights."""

from __future__ import annotations

import torch
from torch import Tensor

from isotropy.nn._linear import StructuredLinear
from isotropy.nn._weight_spaces import OrbitWeights, WeightSpace


class SharedLinear(StructuredLinear):
    """A linear layer that shares weights by label: W_ij = θ[label_ij].

    The layer of any permutation group, of a learned sharing pattern, of a group search: whoever
    has labels has a layer.

    Args:
        labels: An integer for every weight, shape (out, in): 0, 1, … without gaps; −1 for
            weights that stay zero.
        signs: ±1 for every weight; None where all are +1.
        bias: True for one free bias per output, False for none, or labels of shape (out,).
        device: Where the parameters live.
        dtype: Their precision.

    Raises:
        ValueError: If the labels are not such integers, or every weight is to stay zero.

    Example:
        >>> import torch
        >>> layer = SharedLinear(torch.tensor([[0, 1, 2], [2, 0, 1], [1, 2, 0]]), bias=False)
        >>> layer.coefficients.shape  # a circulant matrix
        torch.Size([3])
        >>> layer(torch.ones(5, 3)).shape
        torch.Size([5, 3])
    """

    def __init__(
        self,
        labels: Tensor,
        signs: Tensor | None = None,
        *,
        bias: bool | Tensor = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        labels = torch.as_tensor(labels)
        if labels.ndim != 2:
            raise ValueError(f"expected labels of shape (out, in), got {tuple(labels.shape)}")
        weights = OrbitWeights(labels, signs)
        if weights.rank == 0:
            raise ValueError("expected a label for at least one weight, got -1 for all of them")
        self.out_features, self.in_features = labels.shape
        biases: WeightSpace | None = None
        if bias is not False:
            places = torch.arange(self.out_features) if bias is True else torch.as_tensor(bias)
            if places.shape != (self.out_features,):
                raise ValueError(
                    f"expected bias labels of shape ({self.out_features},), "
                    f"got {tuple(places.shape)}"
                )
            biases = OrbitWeights(places)
        kind = torch.get_default_dtype() if dtype is None else dtype
        self._set_spaces(weights, biases, device, kind)

    def extra_repr(self) -> str:
        """Widths and the number of free weights, as ``print(layer)`` shows them."""
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"free_weights={self.weight_space.rank}, bias={self.bias_space is not None}"
        )
