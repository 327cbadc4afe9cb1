"""Models of the double spring pendulum, trained and rolled out: Table 2.2 and Figure 2.6."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from isotropy.data import Splits
from isotropy.nn import EMLP, MLP
from isotropy.reps import Scalar
from isotropy.run import ProgressCallback
from isotropy_papers._ensemble import Ensemble, captured, stream_for
from isotropy_papers._experiment import Settings
from isotropy_papers._finished import Finished
from isotropy_papers._flow import Flow
from isotropy_papers._training import NetworkRecipe, NetworkTraining, fit
from isotropy_papers.hamiltonian_systems import Chunks, double_spring_pendulum
from isotropy_papers.rollout_errors import geometric_mean, relative_error

KINDS = ("N-ODE", "HNN")
GROUPS = {"O(2)": "O2eR3", "SO(2)": "SO2eR3", "D6": "DkeR3(6)", "D2": "DkeR3(2)", "MLP": ""}
INTERVAL = 0.2
FINE_STEP = 0.05
_FLOOR = 1e-12


@dataclass(frozen=True)
class Pendulum:
    """Data of the pendulum, and how to train on them.

    Args:
        seeds: One model, and one set of data, for each.
        recipe: How to train.
        channels: The width of hidden layers.
        layers: Their number.
        chunks: Chunks to train on, and as many to validate on.
        trajectories: Rollouts to report on.
        horizon: Their duration.
        step: The step of the Runge–Kutta method in training.
        device: Where to train.
    """

    seeds: tuple[int, ...]
    recipe: NetworkRecipe
    channels: int
    layers: int
    chunks: int
    trajectories: int
    horizon: float
    step: float
    device: str

    @cached_property
    def data(self) -> list[Splits[Chunks]]:
        """Chunks for each seed."""
        system = double_spring_pendulum("reference")
        return [
            system.splits(
                self.chunks,
                validation=self.chunks,
                test=self.trajectories,
                horizon=self.horizon,
                generator=seed,
            )
            for seed in self.seeds
        ]

    @cached_property
    def truth(self) -> Tensor:
        """True rollouts from the test chunks' starts, (seeds, trajectories, times, 12)."""
        system = double_spring_pendulum("reference")
        count = round(self.horizon / INTERVAL)
        times = torch.arange(count, dtype=torch.float64) * INTERVAL
        return torch.stack([system.flow(splits.test.z0, times) for splits in self.data])

    def rows(self, part: str) -> tuple[Tensor, Tensor]:
        """Starts and the chunks that they lead to, of one part of the data."""
        chunks = [getattr(splits, part) for splits in self.data]
        z0 = torch.stack([each.z0 for each in chunks])
        z = torch.stack([each.z for each in chunks])
        return z0.to(self.device, torch.float32), z.to(self.device, torch.float32)

    def network(self, kind: str, group: str) -> Flow:
        """The untrained model of a kind, "N-ODE" or "HNN", with the symmetry of a group."""
        symmetry = double_spring_pendulum("reference").symmetry
        states = symmetry.rep_in
        if group != "MLP":
            named = {str(g): g for g in (symmetry.group, *double_spring_pendulum().also)}
            found = named[GROUPS[group]]
            if found != symmetry.group:
                states = symmetry.restrict(found).rep_in
        outputs = Scalar if kind == "HNN" else states
        build = MLP if group == "MLP" else EMLP
        network = build(states, outputs, channels=self.channels, layers=self.layers)
        return Flow(network, hamiltonian=kind == "HNN", interval=INTERVAL, step=self.step)

    def training(self, kind: str, group: str) -> NetworkTraining:
        """The training of one model for each seed."""
        ensemble = Ensemble(self.network(kind, group), self.seeds, self.device)
        rows = self.rows("train"), self.rows("validation")
        return NetworkTraining(ensemble, *rows, self.recipe, self.seeds)

    def measured(self, ensemble: Ensemble) -> dict[str, Any]:
        """Roll out trained models, and compare with the truth.

        Args:
            ensemble: One model for each seed; becomes double precision.

        Returns:
            For each seed: "state", the geometric mean of relative errors of the states;
            "momentum", that of the angular momentum; "drift", by step of the integrator, the
            median over trajectories of the largest change of the angular momentum; "logarithms"
            and "spread", mean and deviation over trajectories of the log error at each time.
        """
        ensemble.to(torch.float64)
        momentum = double_spring_pendulum("reference").conserved["angular momentum"]
        start = self.truth[:, :, 0].to(self.device)
        drift = {}
        for step in (2 * FINE_STEP, FINE_STEP):
            z = rollout(ensemble, start, self.truth.shape[2], step).cpu()
            change = (momentum(z) - momentum(z[:, :, :1])).abs().amax(-1)
            drift[str(step)] = change.nan_to_num(torch.inf).median(-1).values.tolist()
        errors = _bounded(relative_error(z, self.truth))
        of_momentum = _bounded(
            relative_error(momentum(z).unsqueeze(-1), momentum(self.truth).unsqueeze(-1))
        )[..., 1:]
        logarithms = errors.clamp_min(1e-5).log()
        return {
            "state": [float(geometric_mean(each)) for each in errors],
            "momentum": [float(geometric_mean(each, floor=_FLOOR)) for each in of_momentum],
            "drift": drift,
            "logarithms": logarithms.mean(1).tolist(),
            "spread": logarithms.std(1, correction=0).tolist(),
        }


def rollout(ensemble: Ensemble, start: Tensor, count: int, step: float) -> Tensor:
    """Follow the learned flows, (copies, rows, d) to (copies, rows, count, d)."""
    flow = ensemble.network
    assert isinstance(flow, Flow)
    flow.set_times(2, INTERVAL, step)
    stream = stream_for(start.device)
    state = start.clone()

    @torch.no_grad()
    def advance() -> None:
        state.copy_(ensemble(state)[:, :, -1])

    go = captured(advance, stream)
    with torch.cuda.stream(stream):
        state.copy_(start)
        states = [start]
        for _ in range(count - 1):
            go()
            states.append(state.clone())
        found = torch.stack(states, 2)
    if stream is not None:
        stream.synchronize()
    return found


def _bounded(errors: Tensor) -> Tensor:
    """Relative errors, 1 where a rollout has left the numbers that floats can hold."""
    return errors.nan_to_num(nan=1.0)


def measured_models(
    settings: Settings, progress: ProgressCallback, groups: list[str]
) -> tuple[dict[tuple[str, str], dict[str, Any]], list[str], float]:
    """Train and roll out all models that are asked for.

    Args:
        settings: Full: 128 channels, 500 chunks, 2000 epochs, rollouts of 30 s, three seeds.
            Quick: 24 channels, 100 chunks, 50 epochs, rollouts of 6 s, one seed.
        progress: Called before models are trained.
        groups: Their names.

    Returns:
        What ``Pendulum.measured`` says by kind and group, notes, and the seconds it took.
    """
    full = settings.full
    chosen = settings.or_else(
        seeds=3 if full else 1,
        epochs=2000 if full else 50,
        schedule="constant" if full else "cosine",
        channels=128 if full else 24,
        test_rows=500 if full else 50,
        step=0.1 if full else 0.2,
    )
    pendulum = Pendulum(
        seeds=tuple(settings.seed + i for i in range(chosen["seeds"])),
        recipe=NetworkRecipe(
            chosen["epochs"],
            batch=500 if full else 25,
            schedule=chosen["schedule"],
            checks=200 if full else 20,
        ),
        channels=chosen["channels"],
        layers=3 if full else 2,
        chunks=500 if full else 100,
        trajectories=chosen["test_rows"],
        horizon=30.0 if full else 6.0,
        step=chosen["step"],
        device=settings.device,
    )
    models = {f"{kind}-{group}": (kind, group) for kind in KINDS for group in groups}
    wanted = settings.chosen(list(models))

    def measured(names: list[str]) -> list[dict[str, Any]]:
        trainings = [pendulum.training(*models[name]) for name in names]
        fit(trainings)
        return [pendulum.measured(training.ensemble) for training in trainings]

    depends = {**chosen, "full": full, "seed": settings.seed}
    parts = Finished("finzi2023/pendulum", depends, settings, progress)
    together = len(groups) if settings.device != "cpu" else 1
    by_name = parts.get(wanted, measured, together)
    found = {models[name]: value for name, value in by_name.items()}
    notes = [
        f"{chosen['epochs']} epochs of Adam, learning rate 3e-3, {chosen['schedule']}; "
        f"{chosen['channels']} channels; {chosen['seeds']} seeds, each with data of its own",
        f"trained through Runge–Kutta steps of {pendulum.step} (published: adaptive, 2e-6), "
        f"rolled out for {pendulum.horizon:g} s in double precision with steps of {FINE_STEP}",
    ]
    if not full:
        notes.append("quick: smaller networks, less data, shorter rollouts than published")
    return found, notes, parts.close()
