"""Returns of soft actor-critic agents along training, with and without symmetry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from isotropy.data import Transitions
from isotropy.nn import symmetric_network
from isotropy.reps import Symmetry
from isotropy.rl import EnvironmentSymmetry, make_environment
from isotropy.run import ProgressCallback, Step
from isotropy_papers._batched_sac import BatchedSac, SacOptions

NetworkKind: TypeAlias = Literal["rpp", "equivariant", "mlp"]

_CAPACITY = 1_000_000


@dataclass(frozen=True)
class SacMethod:
    """What an agent's networks are.

    Args:
        actor: "rpp", "equivariant" or "mlp".
        critic: The same.
        images: Whether updates see random images of transitions under the group.
    """

    actor: NetworkKind = "mlp"
    critic: NetworkKind = "mlp"
    images: bool = False


METHODS = {
    "SAC": SacMethod(),
    "RPP": SacMethod("rpp", "rpp"),
    "RPP policy only": SacMethod("rpp", "mlp"),
    "RPP critic only": SacMethod("mlp", "rpp"),
    "equivariant": SacMethod("equivariant", "equivariant"),
    "group images": SacMethod(images=True),
}


@dataclass(frozen=True)
class SacTask:
    """An environment to learn.

    Args:
        id: Its id, as ``make_environment`` knows it.
        symmetry: Its symmetry.
        speeds: τ of target critics for free networks and for others (thesis Table A.9).
    """

    id: str
    symmetry: EnvironmentSymmetry
    speeds: tuple[float, float] = (0.005, 0.005)


@dataclass
class Curves:
    """What was found along training.

    Args:
        steps: When agents were judged.
        returns: By method, the mean return of each seed's agent, shape (judgements, seeds).
        transitions: By method, what the first agent met, where it was asked for.
    """

    steps: list[int]
    returns: dict[str, NDArray[np.float64]]
    transitions: dict[str, Transitions]


@dataclass(frozen=True)
class AgentPlan:
    """How agents are trained and judged.

    Args:
        seeds: One agent of each method for each.
        steps: Steps of every agent; an update after each, once random actions are over.
        judge_every: Steps between judgements.
        episodes: Episodes of a judgement, with the mean action.
        widths: Of hidden layers.
        random_steps: Steps with random actions at the beginning.
        learning_rate: Of all optimisers.
        processes: Whether environments run in processes of their own.
        device: Where the networks live.
    """

    seeds: Sequence[int]
    steps: int
    judge_every: int
    episodes: int
    widths: Sequence[int] = (256, 256)
    random_steps: int = 10_000
    learning_rate: float = 3e-4
    processes: bool = False
    device: str = "cpu"


def learning_curves(
    task: SacTask,
    methods: Sequence[str],
    plan: AgentPlan,
    *,
    keep: Sequence[str] = (),
    progress: ProgressCallback | None = None,
) -> Curves:
    """Train agents of all methods and seeds side by side.

    Args:
        task: The environment.
        methods: Names in ``METHODS``.
        plan: How to train and judge them.
        keep: Methods whose first agent's transitions are returned.
        progress: Called at each judgement.

    Raises:
        ValueError: If all transitions of too many steps are to be kept, or limits of actions are
            not symmetric.
    """
    report = progress or (lambda _: None)
    seeds, steps, random_steps = plan.seeds, plan.steps, plan.random_steps
    if keep and steps > _CAPACITY:
        raise ValueError(f"expected at most {_CAPACITY} steps to keep all of them, got {steps}")
    agents = {name: _agents(task, METHODS[name], plan) for name in methods}
    torch.manual_seed(seeds[0])
    count = len(methods) * len(seeds)
    worlds, judged = (_environments(task, count, plan.processes) for _ in range(2))
    rng = np.random.default_rng(seeds[0])
    scale = worlds.single_action_space.high
    if not np.array_equal(scale, -worlds.single_action_space.low):
        raise ValueError(f"expected actions from −a to a, got {worlds.single_action_space}")
    found = Curves([], {name: np.empty((0, len(seeds))) for name in methods}, {})
    ends: list[NDArray[np.bool_]] = []
    try:
        s = worlds.reset(seed=[1000 * seeds[k % len(seeds)] + 17 for k in range(count)])[0]
        for step in range(1, steps + 1):
            if step <= random_steps:
                a = rng.uniform(-1, 1, (count, len(scale)))
            else:
                a = _actions(agents, s, len(seeds))
            after, rewards, ended, cut, info = worlds.step((a * scale).astype(np.float32))
            arrived = _before_reset(after, info)
            _store(agents, s, a, arrived, rewards, ended, len(seeds))
            ends.append(ended | cut)
            s = after
            if step > random_steps:
                for batch in agents.values():
                    batch.update()
            if step % plan.judge_every == 0 or step == steps:
                returns = _judge(agents, judged, scale, plan.episodes, len(seeds), seeds[0])
                found.steps.append(step)
                for k, name in enumerate(methods):
                    own = returns[None, k * len(seeds) : (k + 1) * len(seeds)]
                    found.returns[name] = np.concatenate([found.returns[name], own])
                report(Step(step, steps, f"{task.id}: {_shown(found)}"))
    finally:
        worlds.close()
        judged.close()
    done = np.stack(ends)
    for name in keep:
        first = list(methods).index(name) * len(seeds)
        found.transitions[name] = _met(agents[name], done[:, first], scale)
    return found


def _agents(task: SacTask, method: SacMethod, plan: AgentPlan) -> BatchedSac:
    symmetry = task.symmetry
    free = (method.actor, method.critic) == ("mlp", "mlp")
    options = SacOptions(
        learning_rate=plan.learning_rate,
        speed=task.speeds[0 if free else 1],
        betas=(0.9, 0.999) if free else (0.5, 0.999),
    )
    images = None
    if method.images:
        images = symmetry.matrices(symmetry.elements())
    spread = symmetry.action_magnitudes
    policy = Symmetry(symmetry.group, symmetry.observation, symmetry.action + spread)
    return BatchedSac(
        lambda: symmetric_network(policy, method.actor, widths=plan.widths),
        lambda: symmetric_network(symmetry.critic, method.critic, widths=plan.widths),
        plan.seeds,
        observation_size=symmetry.observation_size,
        action_size=symmetry.action_size,
        capacity=min(plan.steps, _CAPACITY),
        options=options,
        images=images,
        device=plan.device,
    )


def _environments(task: SacTask, count: int, processes: bool) -> Any:
    makers = [lambda: make_environment(task.id) for _ in range(count)]
    makers[0]().close()  # where the extra is missing, says so
    from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

    kind = AsyncVectorEnv if processes else SyncVectorEnv
    return kind(makers, autoreset_mode=AutoresetMode.SAME_STEP)


def _actions(
    agents: Mapping[str, BatchedSac], s: NDArray[Any], seeds: int, *, deterministic: bool = False
) -> NDArray[Any]:
    given = torch.from_numpy(np.asarray(s)).float().unflatten(0, (-1, seeds))
    found = [
        batch.act(own, deterministic=deterministic)
        for batch, own in zip(agents.values(), given, strict=True)
    ]
    return torch.cat(found).numpy()


def _before_reset(after: NDArray[Any], info: Mapping[str, Any]) -> NDArray[Any]:
    """The observations that steps led to, where an environment has begun anew."""
    if "final_obs" not in info:
        return after
    after = after.copy()
    for k in np.flatnonzero(info["_final_obs"]):
        after[k] = info["final_obs"][k]
    return after


def _store(
    agents: Mapping[str, BatchedSac],
    s: NDArray[Any],
    a: NDArray[Any],
    after: NDArray[Any],
    rewards: NDArray[Any],
    ended: NDArray[np.bool_],
    seeds: int,
) -> None:
    columns = [torch.from_numpy(np.asarray(v)).float() for v in (s, a, after, rewards, ended)]
    for k, batch in enumerate(agents.values()):
        batch.store(*(column[k * seeds : (k + 1) * seeds] for column in columns))


def _judge(
    agents: Mapping[str, BatchedSac],
    worlds: Any,
    scale: NDArray[Any],
    episodes: int,
    seeds: int,
    seed: int,
) -> NDArray[np.float64]:
    """The mean return of some episodes of every agent, shape (agents,)."""
    count = worlds.num_envs
    totals, current, left = np.zeros(count), np.zeros(count), np.full(count, episodes)
    s = worlds.reset(seed=[seed + 10_000 + k % seeds for k in range(count)])[0]
    while left.any():
        a = _actions(agents, s, seeds, deterministic=True)
        s, rewards, ended, cut, _ = worlds.step((a * scale).astype(np.float32))
        current += rewards
        over = ended | cut
        totals += np.where(over & (left > 0), current, 0.0)
        left -= over & (left > 0)
        current[over] = 0.0
    return totals / episodes


def _met(batch: BatchedSac, done: NDArray[np.bool_], scale: NDArray[Any]) -> Transitions:
    """The transitions of the first agent, in order."""
    rows = slice(0, batch.stored)
    s, a, after, reward = (batch.buffer[k][0, rows].cpu() for k in ("s", "a", "after", "reward"))
    episodes = np.concatenate([[0], np.cumsum(done)[:-1]])[: batch.stored]
    return Transitions(
        s, a * torch.from_numpy(scale), after, reward[:, 0], torch.from_numpy(episodes)
    )


def _shown(found: Curves) -> str:
    return ", ".join(f"{name} {values[-1].mean():.0f}" for name, values in found.returns.items())
