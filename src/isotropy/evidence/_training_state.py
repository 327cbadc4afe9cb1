"""The state of training in tensors and plain numbers: networks, optimisers, random numbers."""

from __future__ import annotations

import hashlib
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from isotropy._run import generator as make_generator


def require_one_process(model: Any) -> None:
    """Refuse a network that several processes or devices train together."""
    for module in model.modules() if isinstance(model, nn.Module) else ():
        if isinstance(module, nn.parallel.DistributedDataParallel | nn.DataParallel):
            raise TypeError(
                f"expected a model that one process trains, got {type(module).__name__}: train it "
                "in a loop of your own, and call laplace with process_group"
            )


def model_tensors(model: nn.Module) -> dict[str, Tensor]:
    """The tensors that are the state of a network, themselves and not copies.

    Example:
        >>> sorted(model_tensors(nn.Linear(2, 3)))
        ['bias', 'weight']
    """
    kept = model.state_dict().keys()
    named = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    return {name: tensor for name, tensor in named.items() if name in kept}


@torch.no_grad()
def put_back(live: Mapping[str, Tensor], values: Mapping[str, Tensor]) -> None:
    """Copy values into tensors of the same names."""
    for name, tensor in live.items():
        tensor.copy_(values[name])


def made_optimiser(
    make: Callable[..., torch.optim.Optimizer], parameters: list[Tensor], rate: float
) -> torch.optim.Optimizer:
    """An optimiser of these parameters, if it is one that goes with priors.

    Raises:
        TypeError: If it is none.
        ValueError: If it asks for the loss again and again, or lets weights decay by itself.

    Example:
        >>> type(made_optimiser(torch.optim.Adam, [nn.Parameter(torch.ones(2))], 0.1)).__name__
        'Adam'
    """
    if not callable(make):
        raise TypeError(
            f"expected as the optimiser a function of parameters and lr, got {type(make).__name__}"
        )
    made = make(parameters, lr=rate)
    if not isinstance(made, torch.optim.Optimizer):
        raise TypeError(f"expected an optimiser of torch, got {type(made).__name__}")
    if isinstance(made, torch.optim.LBFGS):
        raise ValueError("expected an optimiser that steps on one gradient, got LBFGS")
    for group in made.param_groups:
        for name in ("weight_decay", "lambd"):  # the latter is that of ASGD
            if (decay := float(group.get(name) or 0.0)) != 0:
                raise ValueError(
                    f"expected no weight decay: the prior is that, got {name}={decay:g} "
                    f"in {type(made).__name__}"
                )
    return made


def optimiser_text(optimiser: torch.optim.Optimizer) -> str:
    """The kind and the settings of an optimiser.

    Example:
        >>> optimiser_text(torch.optim.SGD([torch.ones(2)], lr=0.1))[:15]
        "SGD [{'lr': 0.1"
    """
    groups = [
        {name: value for name, value in group.items() if name != "params"}
        for group in optimiser.param_groups
    ]
    return f"{type(optimiser).__name__} {groups}"


def optimiser_state(optimiser: torch.optim.Optimizer) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """What an optimiser remembers: tensors, and whatever else, by "number.name".

    Raises:
        TypeError: If that is something that JSON does not know.

    Example:
        >>> weight = nn.Parameter(torch.ones(2))
        >>> adam = torch.optim.Adam([weight])
        >>> weight.grad = torch.ones(2)
        >>> adam.step()
        >>> sorted(optimiser_state(adam)[0])
        ['0.exp_avg', '0.exp_avg_sq', '0.step']
    """
    tensors: dict[str, Tensor] = {}
    rest: dict[str, Any] = {}
    for number, entries in optimiser.state_dict()["state"].items():
        for name, value in entries.items():
            key = f"{number}.{name}"
            if isinstance(value, Tensor):
                tensors[key] = value
            elif value is None or isinstance(value, bool | int | float | str):
                rest[key] = value
            else:
                raise TypeError(
                    "expected an optimiser that remembers tensors and numbers, to be kept in a "
                    f"checkpoint, got {name} of type {type(value).__name__}"
                )
    return tensors, rest


def set_optimiser_state(
    optimiser: torch.optim.Optimizer, tensors: Mapping[str, Tensor], rest: Mapping[str, Any]
) -> None:
    """Let an optimiser remember what ``optimiser_state`` gave."""
    state: dict[int, dict[str, Any]] = {}
    for key, value in {**tensors, **rest}.items():
        number, name = key.split(".", 1)
        state.setdefault(int(number), {})[name] = value
    optimiser.load_state_dict({**optimiser.state_dict(), "state": state})


class Randomness:
    """All random numbers that training draws: torch's own generators and those of loaders.

    Example:
        >>> own = torch.Generator()
        >>> randomness = Randomness([own], torch.device("cpu"))
        >>> kept = randomness.states()
        >>> first = torch.rand(2, generator=own)
        >>> randomness.set_states(kept)
        >>> bool((first == torch.rand(2, generator=own)).all())
        True
    """

    def __init__(self, generators: Iterable[torch.Generator], device: torch.device) -> None:
        self._generators, self._device = list(generators), device

    @contextmanager
    def seeded(self, seed: int) -> Iterator[None]:
        """Torch's own generators from a seed (dropout draws from them); as before afterwards."""
        cuda = [self._device] if self._device.type == "cuda" else []
        with torch.random.fork_rng(cuda):
            torch.set_rng_state(make_generator(seed).get_state())
            for device in cuda:
                torch.cuda.set_rng_state(make_generator(seed, device).get_state(), device)
            yield

    def states(self) -> dict[str, Tensor]:
        """The state of every generator, by name."""
        found = {f"loader{k}": g.get_state() for k, g in enumerate(self._generators)}
        found["torch"] = torch.get_rng_state()
        if self._device.type == "cuda":
            found["cuda"] = torch.cuda.get_rng_state(self._device)
        return found

    def set_states(self, states: Mapping[str, Tensor]) -> None:
        """Go back to states that were kept."""
        for k, generator in enumerate(self._generators):
            generator.set_state(states[f"loader{k}"])
        torch.set_rng_state(states["torch"])
        if self._device.type == "cuda" and "cuda" in states:
            torch.cuda.set_rng_state(states["cuda"], self._device)


def digest_of(*tensors: Tensor) -> str:
    """The first digits of the SHA-256 of shapes and content.

    Example:
        >>> digest_of(torch.zeros(2)) == digest_of(torch.zeros(2, 1))
        False
    """
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(f"{tuple(tensor.shape)} {tensor.dtype}".encode())
        content = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        digest.update(content.numpy().data)
    return digest.hexdigest()[:16]


@contextmanager
def warnings_once(seen: set[str]) -> Iterator[None]:
    """Every warning once; that of a missing class at the line that called the library."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for one in caught:
        text, place = str(one.message), f"{one.filename}:{one.lineno}"
        if f"{place} {text}" in seen:
            continue
        seen.add(f"{place} {text}")
        if text.startswith("expected samples of all"):
            warnings.warn(text, one.category, stacklevel=_levels_to_the_user())
        else:
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)


def _levels_to_the_user() -> int:
    """How far up the stack, from who asks, the first frame outside the library is."""
    frame, levels = sys._getframe(1), 1
    inside = ("isotropy.", "contextlib")
    while frame.f_back and str(frame.f_globals.get("__name__")).startswith(inside):
        frame, levels = frame.f_back, levels + 1
    return levels


@contextmanager
def modes_kept(model: nn.Module) -> Iterator[None]:
    """Every module in training or evaluation mode as before afterwards."""
    modes = [(module, module.training) for module in model.modules()]
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training
