"""Soft actor-critic for several seeds at once: one batched network instead of many small ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import log, pi
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

_LOG_STD = (-20.0, 2.0)


@dataclass(frozen=True)
class SacOptions:
    """The constants of soft actor-critic; but for the policy's start those of stable-baselines3.

    Args:
        learning_rate: Of actor, critics and temperature.
        betas: Of Adam; the thesis has (.5, .999) for networks with a residual pathway prior.
        discount: γ.
        speed: τ, how fast target critics follow.
        batch: Transitions in an update.
        target_entropy: For each action entry; the thesis' code has −.5.
        policy_start: What the starting weights of the policy's last layer are multiplied by.
    """

    learning_rate: float = 3e-4
    betas: tuple[float, float] = (0.9, 0.999)
    discount: float = 0.99
    speed: float = 0.005
    batch: int = 256
    target_entropy: float = -1.0
    policy_start: float = 0.01


class StackedNetwork:
    """Several networks of one shape, applied together.

    Args:
        networks: The networks; their parameters are copied.

    Example:
        >>> both = StackedNetwork([nn.Linear(3, 2), nn.Linear(3, 2)])
        >>> both(torch.randn(2, 5, 3)).shape
        torch.Size([2, 5, 2])
    """

    def __init__(self, networks: Iterable[nn.Module]) -> None:
        members = list(networks)
        parameters = stack_module_state(members)[0]
        self.parameters = {
            name: value.detach().clone().requires_grad_() for name, value in parameters.items()
        }
        # buffers are the same for all: bases, not states
        self._shared = dict(members[0].named_buffers())
        self._one = members[0]

    def __call__(self, x: Tensor, *, frozen: bool = False) -> Tensor:
        """From inputs (members, batch, in) to outputs (members, batch, out)."""
        chosen = self.parameters
        if frozen:
            chosen = {name: value.detach() for name, value in chosen.items()}
        found: Tensor = vmap(self._apply)(chosen, x)
        return found

    def _apply(self, parameters: dict[str, Tensor], x: Tensor) -> Tensor:
        found: Tensor = functional_call(self._one, (parameters, self._shared), (x,))
        return found

    @torch.no_grad()
    def follow(self, other: StackedNetwork, speed: float) -> None:
        """Move towards another's parameters."""
        mine, others = list(self.parameters.values()), list(other.parameters.values())
        torch._foreach_lerp_(mine, others, speed)


class BatchedSac:
    """Soft actor-critic agents that differ in their seeds alone (Haarnoja et al. 2018).

    Each has two critics, a learned temperature and a replay buffer of its own.

    Args:
        actor: Makes a network from observations to means and logarithms of deviations, side by
            side, of actions before they are squashed by tanh.
        critic: Makes a network from observations and actions, side by side, to a value.
        seeds: The seeds of the agents' starting weights; everything else is drawn from one stream.
        observation_size: Entries of an observation.
        action_size: Entries of an action, each between −1 and 1.
        capacity: Transitions that a buffer holds.
        options: The constants.
        images: Matrices of group elements on observations (k, n, n) and on actions (k, m, m):
            every transition of an update is moved by one of them, drawn at random.
        device: Where all of it lives. On a GPU an update is recorded once and replayed.
    """

    def __init__(
        self,
        actor: Callable[[], nn.Module],
        critic: Callable[[], nn.Module],
        seeds: Iterable[int],
        *,
        observation_size: int,
        action_size: int,
        capacity: int,
        options: SacOptions | None = None,
        images: tuple[Tensor, Tensor] | None = None,
        device: str = "cpu",
    ) -> None:
        self.options = options = options or SacOptions()
        self.device = torch.device(device)
        actors, critics = [], []
        for seed in seeds:
            with torch.random.fork_rng(devices=[]):
                torch.default_generator.manual_seed(seed)
                actors.append(_with_small_end(actor(), options.policy_start).to(device))
                critics += [critic().to(device), critic().to(device)]
        self.agents, self.capacity = len(actors), capacity
        self.actor, self.critic = StackedNetwork(actors), StackedNetwork(critics)
        self.target = StackedNetwork(critics)
        self.log_temperature = torch.zeros(self.agents, device=device, requires_grad=True)
        self.entropy = options.target_entropy * action_size
        kind: dict[str, Any] = {
            "lr": options.learning_rate,
            "betas": options.betas,
            "capturable": self.device.type == "cuda",
        }
        self.optimisers = {
            "actor": torch.optim.Adam(self.actor.parameters.values(), **kind),
            "critic": torch.optim.Adam(self.critic.parameters.values(), **kind),
            "temperature": torch.optim.Adam([self.log_temperature], **kind),
        }
        sizes = {"s": observation_size, "a": action_size, "after": observation_size}
        self.buffer = {
            name: torch.zeros(self.agents, capacity, size, device=device)
            for name, size in {**sizes, "reward": 1, "ended": 1}.items()
        }
        self.stored = 0
        # on the device, so that a recorded update sees how far the buffer is filled
        self._filled = torch.zeros((), dtype=torch.int64, device=device)
        self._recorded: dict[str, Any] = {}
        self._images = images and tuple(m.to(device, torch.float32) for m in images)

    def store(self, s: Tensor, a: Tensor, after: Tensor, reward: Tensor, ended: Tensor) -> None:
        """Keep one transition of every agent; the oldest make room.

        Args:
            s: Observations, shape (agents, n).
            a: Actions, shape (agents, m).
            after: The observations that followed.
            reward: Shape (agents,).
            ended: 1 where nothing comes after, shape (agents,).
        """
        place = self.stored % self.capacity
        columns = {
            "s": s,
            "a": a,
            "after": after,
            "reward": reward[:, None],
            "ended": ended[:, None],
        }
        for name, value in columns.items():
            self.buffer[name][:, place] = value.to(self.device, torch.float32)
        self.stored += 1
        self._filled.fill_(min(self.stored, self.capacity))

    @torch.no_grad()
    def act(self, s: Tensor, *, deterministic: bool = False) -> Tensor:
        """Actions for one observation of every agent, shape (agents, n) to (agents, m).

        On the CPU, whatever the device.
        """
        name = f"act {deterministic}"
        if self.device.type != "cuda":
            return self._act(s.float().unsqueeze(1), deterministic)[:, 0]
        if name not in self._recorded:
            given = s.to(self.device, torch.float32).unsqueeze(1).clone()
            self._recorded[name] = (given, *_recorded(lambda: self._act(given, deterministic)))
        given, graph, actions = self._recorded[name]
        given.copy_(s.unsqueeze(1))
        graph.replay()
        found: Tensor = actions[:, 0].cpu()
        return found

    def _act(self, s: Tensor, deterministic: bool) -> Tensor:
        if deterministic:
            return self.actor(s).chunk(2, -1)[0].tanh()
        return self._sampled(s)[0]

    def update(self) -> None:
        """One step of all optimisers, for all agents; on a GPU three at the first call."""
        if self.device.type != "cuda":
            self._update()
            return
        if "update" not in self._recorded:
            self._recorded["update"] = _recorded(self._update)
            return
        self._recorded["update"][0].replay()

    def _update(self) -> None:
        options = self.options
        shape = (self.agents, options.batch)
        drawn = (torch.rand(shape, device=self.device) * self._filled).long()
        rows = torch.arange(self.agents, device=self.device)[:, None]
        s, a, after, reward, ended = (self.buffer[k][rows, drawn] for k in self.buffer)
        if self._images is not None:
            element = torch.randint(len(self._images[0]), shape, device=self.device)
            s, after = (
                torch.einsum("kbij,kbj->kbi", self._images[0][element], v) for v in (s, after)
            )
            a = torch.einsum("kbij,kbj->kbi", self._images[1][element], a)
        chosen, likelihood = self._sampled(s)
        temperature = self.log_temperature.detach().exp()[:, None]
        # the three losses are sums over agents, which share nothing
        self._step(
            "temperature",
            -(self.log_temperature[:, None] * (likelihood + self.entropy).detach()).mean(1).sum(),
        )
        with torch.no_grad():
            following, following_likelihood = self._sampled(after)
            ahead = self._values(self.target, after, following).amin(0)
            ahead = ahead - temperature * following_likelihood
            goal = reward[..., 0] + (1 - ended[..., 0]) * options.discount * ahead
        values = self._values(self.critic, s, a)
        self._step("critic", 0.5 * (values - goal).square().mean(-1).sum())
        best = self._values(self.critic, s, chosen, frozen=True).amin(0)
        self._step("actor", (temperature * likelihood - best).mean(1).sum())
        self.target.follow(self.critic, options.speed)

    def _step(self, name: str, loss: Tensor) -> None:
        optimiser = self.optimisers[name]
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()

    def _values(
        self, critic: StackedNetwork, s: Tensor, a: Tensor, *, frozen: bool = False
    ) -> Tensor:
        """Of both critics, shape (2, agents, batch)."""
        x = torch.cat([s, a], -1).repeat_interleave(2, 0)
        found: Tensor = critic(x, frozen=frozen)[..., 0].unflatten(0, (self.agents, 2))
        return found.transpose(0, 1)

    def _sampled(self, s: Tensor) -> tuple[Tensor, Tensor]:
        """Actions tanh(u), u ~ N(μ, σ²), and the logarithm of their density."""
        mean, log_std = self.actor(s).chunk(2, -1)
        log_std = log_std.clamp(*_LOG_STD)
        noise = torch.randn_like(mean)
        before = mean + log_std.exp() * noise
        # log(1 − tanh²u) = 2 (log 2 − u − softplus(−2u)), without loss of digits
        squashed = 2 * (log(2.0) - before - nn.functional.softplus(-2 * before))
        density = -0.5 * noise.square() - log_std - 0.5 * log(2 * pi) - squashed
        return before.tanh(), density.sum(-1)


def _with_small_end(actor: nn.Module, start: float) -> nn.Module:
    """The network with the weights of its last layer made small (Andrychowicz et al. 2020)."""
    last = [name for name, _ in actor.named_parameters()][-1].split(".")[0]
    with torch.no_grad():
        for name, parameter in actor.named_parameters():
            if name.split(".")[0] == last:
                parameter.mul_(start)
    return actor


def _recorded(work: Callable[[], Any]) -> tuple[Any, Any]:
    """Work recorded as a CUDA graph, after it ran three times, and what it gives."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            work()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        given = work()
    return graph, given
