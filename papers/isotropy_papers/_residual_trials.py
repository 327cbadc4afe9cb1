"""Trials of residual pathway priors: exact, approximate and absent symmetries (thesis 3.5)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any

import torch
from torch import Tensor, nn

from isotropy.data import Standardisation, Task, inertia
from isotropy.groups import SL, SO, Group, O, O2eR3
from isotropy.nn import EMLP, MLP, soften, tensor_priors
from isotropy.reps import Rep, Scalar, V
from isotropy.run import generator, spawn
from isotropy_papers._ensemble import Ensemble
from isotropy_papers._flow import Flow
from isotropy_papers._learned_penalties import LearnedPenalties
from isotropy_papers._training import NetworkRecipe, NetworkTraining, Rows, fit, squared_error
from isotropy_papers.broken_symmetries import modified_inertia, windy_pendulum
from isotropy_papers.hamiltonian_systems import HamiltonianSystem, double_spring_pendulum

LEVELS = ("exact", "approximate", "mis-specified")
STARTS = {"held back": 1e-8, "open": 0.1}
# of the strict paths, in all fixed priors: as good as flat
STRICT_PENALTY = 1e-6
_PARTS = ("train", "validation", "test")
_INTERVAL, _LENGTH, _HORIZON = 0.2, 5, 30.0


@dataclass(frozen=True)
class ResidualPlan:
    """How trials are run.

    Args:
        seeds: One trial for each, with data of its own.
        recipe: How to train.
        channels: The width of hidden layers.
        layers: Their number.
        rows: To train on; as many to validate and to test on.
        device: Where to train.
    """

    seeds: tuple[int, ...]
    recipe: NetworkRecipe
    channels: int
    layers: int
    rows: int
    device: str

    @property
    def identity(self) -> str:
        """All that results depend on."""
        return str({name: value for name, value in vars(self).items() if name != "device"})


@dataclass(frozen=True)
class ResidualTrials:
    """One task at one level of symmetry, for all seeds.

    Args:
        task: "inertia" or "pendulum".
        level: "exact", "approximate" or "mis-specified".
        plan: How trials are run.
        one_data_set: Whether all seeds see the data of the first: members of one ensemble.

    Example:
        >>> plan = ResidualPlan(
        ...     (0, 1), NetworkRecipe(epochs=2), channels=24, layers=1, rows=20, device="cpu"
        ... )
        >>> trials = ResidualTrials("inertia", "exact", plan)
        >>> found = trials.trained(["MLP", "RPP 0.01"])
        >>> len(found["MLP"]["test"]), sorted(found["MLP"])
        (2, ['test', 'validation'])
    """

    task: str
    level: str
    plan: ResidualPlan
    one_data_set: bool = False

    @property
    def group(self) -> Group:
        """The group of EMLP and RPP."""
        if self.task == "inertia":
            return SL(3) if self.level == "mis-specified" else O(3)
        return SO(3) if self.level == "mis-specified" else O2eR3()

    @property
    def spaces(self) -> tuple[Rep, Rep]:
        """Inputs and outputs of the network."""
        return (5 * Scalar + 5 * V, V * V) if self.task == "inertia" else (4 * V, Scalar)

    @cached_property
    def rows(self) -> dict[str, Rows]:
        """Inputs and targets of all seeds by part, as the networks see them."""
        draw = _inertia_rows if self.task == "inertia" else _pendulum_rows
        if not self.one_data_set:
            return draw(self.level, self.plan)
        copies, first = len(self.plan.seeds), replace(self.plan, seeds=self.plan.seeds[:1])
        return {
            part: (x.repeat(copies, *[1] * (x.ndim - 1)), y.repeat(copies, *[1] * (y.ndim - 1)))
            for part, (x, y) in draw(self.level, first).items()
        }

    @cached_property
    def scalings(self) -> list[Standardisation]:
        """How the inertia data of each seed are scaled."""
        found = _inertia_scalings(_inertia_parts(self.level, self.plan))
        return found[:1] * len(found) if self.one_data_set else found

    @cached_property
    def units(self) -> Tensor:
        """What one unit of the networks' outputs is in the data, for each seed."""
        if self.task == "pendulum":
            return torch.ones(len(self.plan.seeds), 1, 1)
        return torch.stack([scaling.output_scale for scaling in self.scalings]).unsqueeze(1)

    @property
    def terms(self) -> int:
        """How many numbers there are to predict in the training rows of a seed."""
        _, y = self.rows["train"]
        rows, *shape = y.shape[1:]
        if self.task == "pendulum":
            shape[0] -= 1  # the first state is given
        return int(rows * prod(shape))

    def network(self, model: str) -> nn.Module:
        """An untrained network: "MLP", "EMLP" or any kind of "RPP"."""
        into, out = self.spaces
        kind: dict[str, Any] = {"channels": self.plan.channels, "layers": self.plan.layers}
        if model == "MLP":
            network: nn.Module = MLP(into(self.group).size(), out(self.group).size(), **kind)
        else:
            network = EMLP(into, out, group=self.group, **kind)
            if model != "EMLP":
                start = STARTS.get(model.removeprefix("RPP "), 1.0)
                network = soften(network, variances=(1e5, start))
        if self.task == "inertia":
            return network
        return Flow(network, hamiltonian=True, interval=_INTERVAL, step=_INTERVAL)

    def training(self, model: str) -> NetworkTraining:
        """The training of one network for each seed.

        Args:
            model: "MLP"; "EMLP"; "RPP" and the weight λ of ‖θ‖² of the flexible paths, as in
                "RPP 0.01"; "RPP held back" or "RPP open" for priors that are learned from these
                beginnings.
        """
        plan = self.plan
        network = self.network(model)
        penalties: Mapping[str, Tensor | float] | LearnedPenalties | None = None
        if model.startswith("RPP"):
            prior = model.removeprefix("RPP ")
            if prior in STARTS:
                penalties = LearnedPenalties(
                    network, len(plan.seeds), self.terms, noise=0.3, device=plan.device
                )
            else:
                penalties = fixed_penalties(network, float(prior))
        return NetworkTraining(
            Ensemble(network, plan.seeds, plan.device),
            self.rows["train"],
            self.rows["validation"],
            plan.recipe,
            plan.seeds,
            penalties=penalties,
        )

    def errors(self, ensemble: Callable[[Tensor], Tensor], part: str) -> list[float]:
        """Mean squared errors of all seeds on a part, in the units of the data."""
        x, y = self.rows[part]
        units = self.units.to(y)
        if y.ndim == 4:
            units = units.unsqueeze(-1)
        with torch.no_grad():
            found: list[float] = squared_error(ensemble(x) * units, y * units).tolist()
        return found

    def trained(self, models: Sequence[str]) -> dict[str, dict[str, list[float]]]:
        """Train models, all together, and say how they do.

        Args:
            models: Their names.

        Returns:
            For each model its errors on "validation" and "test" rows, one for each seed.
        """
        trainings = {model: self.training(model) for model in models}
        fit(list(trainings.values()))
        return {
            model: {
                part: self.errors(training.ensemble.predict, part)
                for part in ("validation", "test")
            }
            for model, training in trainings.items()
        }


def fixed_penalties(network: nn.Module, free: float) -> dict[str, Tensor | float]:
    """Penalties λc of a softened network, for strict and flexible paths.

    Args:
        network: The network.
        free: λ of the flexible paths.
    """
    found: dict[str, Tensor | float] = {}
    for prior in tensor_priors(network):
        weight = free if ".free." in prior.name else STRICT_PENALTY
        lengths = prior.squared_lengths
        found[prior.name] = weight if lengths is None else weight * lengths
    return found


def inertia_task(level: str) -> Task:
    """The inertia tensor, or an approximation of it.

    Args:
        level: "approximate" for the latter.
    """
    return modified_inertia("reference") if level == "approximate" else inertia()


def _inertia_parts(level: str, plan: ResidualPlan) -> list[Any]:
    task = inertia_task(level)
    return [
        task.splits(plan.rows, validation=plan.rows, test=plan.rows, generator=seed)
        for seed in plan.seeds
    ]


def _inertia_scalings(parts: Sequence[Any]) -> list[Standardisation]:
    # one number for each type under O(3), whichever symmetry is left
    return [inertia().standardisation(*splits.train) for splits in parts]


def _inertia_rows(level: str, plan: ResidualPlan) -> dict[str, Rows]:
    parts = _inertia_parts(level, plan)
    scalings = _inertia_scalings(parts)
    found: dict[str, Rows] = {}
    for part in _PARTS:
        rows = [getattr(splits, part) for splits in parts]
        x = torch.stack([s.inputs(x) for s, (x, _) in zip(scalings, rows, strict=True)])
        y = torch.stack([s.outputs(y) for s, (_, y) in zip(scalings, rows, strict=True)])
        found[part] = (x.to(plan.device, torch.float32), y.to(plan.device, torch.float32))
    return found


def _pendulum_rows(level: str, plan: ResidualPlan) -> dict[str, Rows]:
    system = windy_pendulum() if level == "approximate" else double_spring_pendulum()
    z = chunks_together(system, plan.seeds, plan.rows)
    return {
        part: (
            z[:, k, :, 0].to(plan.device, torch.float32),
            z[:, k].to(plan.device, torch.float32),
        )
        for k, part in enumerate(_PARTS)
    }


def chunks_together(system: HamiltonianSystem, seeds: Sequence[int], rows: int) -> Tensor:
    """The chunks that ``system.splits`` gives for each seed, integrated all at once.

    Args:
        system: The system.
        seeds: The seeds.
        rows: Chunks in each of the three parts.

    Returns:
        The states, shape (seeds, 3, rows, 5, d).
    """
    streams = [rng for seed in seeds for rng in spawn(generator(seed), len(_PARTS))]
    start = torch.cat([system.initial(rows, generator=rng) for rng in streams])
    number = round(_HORIZON / _INTERVAL) // _LENGTH
    times = torch.arange(number * _LENGTH, dtype=torch.float64) * _INTERVAL
    z = system.flow(start, times).unflatten(1, (number, _LENGTH))
    chosen = torch.cat([torch.randint(number, (rows,), generator=rng) for rng in streams])
    found: Tensor = z[torch.arange(len(z)), chosen].reshape(
        len(seeds), len(_PARTS), rows, _LENGTH, -1
    )
    return found
