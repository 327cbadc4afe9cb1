"""Models around a model: exported programs, and classifiers that give probabilities."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from isotropy.equivariance._evaluation import Model, output_of

# whose functions are made of operators: Python's own, and checks of what operators are given
_SEEN = ("_operator", "isotropy.data._exported_checks")
# the argument of operators that says whether a model trains
_TRAINING = {
    "aten.batch_norm.default": 5,
    "aten.dropout.default": 2,
    "aten.feature_dropout.default": 2,
    "aten.alpha_dropout.default": 2,
}


class Program(nn.Module):
    """An exported program, its operations hidden so that PyTorch differentiates them.

    They have the names of functions that are followed, but other arguments.
    """

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Any:
        with torch._C.DisableTorchFunction():
            return self.model(x)


class Probabilities(nn.Module):
    """A classifier that gives the softmax of its outputs."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        return torch.softmax(output_of(self.model(x)), -1)


def is_of_operators(f: Model) -> bool:
    """Whether a function is a graph of PyTorch's operators alone, as an exported program is.

    All of them have derivatives, or say that they have none: no part of it can run unseen.

    Example:
        >>> program = torch.export.export(nn.ReLU(), (torch.zeros(2),))
        >>> is_of_operators(program.module()), is_of_operators(nn.ReLU())
        (True, False)
    """
    if isinstance(f, Program | Probabilities):
        return is_of_operators(f.model)
    return isinstance(f, torch.fx.GraphModule) and all(map(_is_operator, f.graph.nodes))


def _is_operator(node: torch.fx.Node) -> bool:
    if node.op in ("placeholder", "get_attr", "output"):
        return True
    if node.op == "call_module":
        return node.target == "_guards_fn"  # it looks at the shapes of inputs
    own = isinstance(node.target, torch._ops.OpOverload) and node.target.namespace == "aten"
    return own or getattr(node.target, "__module__", "") in _SEEN


def require_evaluation(model: torch.fx.GraphModule) -> None:
    """Refuse a program that was exported in training mode: it cannot be put in another one.

    Raises:
        ValueError: If its outputs depend on the batch, or on chance.
    """
    for node in model.graph.nodes:
        place = _TRAINING.get(str(node.target))
        if place is not None and node.args[place : place + 1] == (True,):
            raise ValueError(
                f"expected a program exported in evaluation mode, got one in which {node.target} "
                "trains; call model.eval() before torch.export.export"
            )
