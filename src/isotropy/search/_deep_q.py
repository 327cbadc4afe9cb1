"""Deep Q-learning over sets of groups, after Basu et al. 2021 (section 4.3)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from math import exp, tanh
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from isotropy._run import generator, spawn
from isotropy._run._moved_keywords import moved_keywords
from isotropy.search._by_network import full_scores, models_in, seen_states
from isotropy.search._random_search import RandomSearch
from isotropy.search._space import SearchSpace, State
from isotropy.search._strategy import ChildProposal

_LARGEST = 1e30  # far from float32's end, so that a sum over a batch is finite
_SCALE = 5.0
_LARGEST_REWARD = 700.0  # exp of more than about 709 is no float
# From how many models on which share of actions is random.
CODE_EPSILON: tuple[tuple[int, float], ...] = (
    *((0, 1.0), (200, 0.9), (300, 0.8), (400, 0.7), (500, 0.6), (600, 0.5), (700, 0.4)),
    *((800, 0.3), (900, 0.2), (950, 0.1), (1000, 0.05), (1200, 0.01)),
)
PAPER_EPSILON: tuple[tuple[int, float], ...] = (
    *((0, 1.0), (200, 0.9), (300, 0.8), (400, 0.7), (500, 0.6), (600, 0.5), (700, 0.4)),
    *((800, 0.3), (850, 0.2), (900, 0.1), (950, 0.05), (1000, 0.01)),
)


class QNetwork:
    """Values of actions, learned towards r + γ max Q' of a copy that follows from time to time.

    Args:
        inputs: How many numbers describe a state.
        actions: How many actions there are.
        hidden: Widths of hidden layers.
        gamma: The discount γ.
        rate: The learning rate of Adam.
        random: Where initial weights come from.

    Example:
        >>> net = QNetwork(2, 3, (8,), 0.5, 1e-3, torch.Generator().manual_seed(0))
        >>> net.values(torch.zeros(5, 2)).shape
        torch.Size([5, 3])
    """

    def __init__(
        self,
        inputs: int,
        actions: int,
        hidden: Sequence[int],
        gamma: float,
        rate: float,
        random: torch.Generator,
    ) -> None:
        self._gamma = gamma
        self._net = _layers(inputs, actions, hidden)
        self._target = _layers(inputs, actions, hidden)
        with torch.no_grad():
            for layer in self._net:
                if isinstance(layer, nn.Linear):
                    bound = layer.in_features**-0.5
                    layer.weight.uniform_(-bound, bound, generator=random)
                    layer.bias.uniform_(-bound, bound, generator=random)
        self._adam = torch.optim.Adam(self._net.parameters(), lr=rate, fused=True)
        self.follow()

    @torch.no_grad()
    def values(self, states: Tensor) -> Tensor:
        """Values of all actions, of shape (states, actions).

        Args:
            states: Of shape (states, inputs).
        """
        found: Tensor = self._net(states)
        return found

    def learn(self, states: Tensor, actions: Tensor, rewards: Tensor, following: Tensor) -> None:
        """One step on a batch of transitions, with the smooth L1 loss and no end of an episode.

        Args:
            states: Where actions were taken, shape (batch, inputs).
            actions: Which, shape (batch,).
            rewards: What they gave, shape (batch,).
            following: Where they led, shape (batch, inputs).
        """
        with torch.no_grad():
            ahead = self._target(following).amax(1)
            goal = (rewards + self._gamma * ahead).clamp(-_LARGEST, _LARGEST)
        value = self._net(states).gather(1, actions[:, None])[:, 0]
        self._adam.zero_grad()
        functional.smooth_l1_loss(value, goal).backward()
        self._adam.step()

    def follow(self) -> None:
        """Make the copy equal to the network."""
        self._target.load_state_dict(self._net.state_dict())


def _layers(inputs: int, actions: int, hidden: Sequence[int]) -> nn.Sequential:
    widths = [inputs, *hidden]
    layers: list[nn.Module] = []
    for before, after in pairwise(widths):
        layers += [nn.utils.skip_init(nn.Linear, before, after), nn.ReLU()]
    return nn.Sequential(*layers, nn.utils.skip_init(nn.Linear, widths[-1], actions))


def bounded_reward(points: float) -> float:
    """The reward tanh(x / 5), which no single child can dominate.

    Args:
        points: Accuracy less that of the network without groups, in percentage points.

    Returns:
        A number in [-1, 1], of the sign of ``points`` and growing with it.

    Example:
        >>> round(bounded_reward(5.0), 4), round(bounded_reward(-45.0), 4)
        (0.7616, -1.0)
    """
    return tanh(points / _SCALE)


def published_reward(points: float) -> float:
    """The reward x exp|x| of Basu et al. 2021 (Eq. 18), with x in percentage points.

    It spans many orders of magnitude: a network that is 45 points worse than the one without
    groups is rewarded with -1.6e21, one that is a point better with 2.7. Within the 100 points
    that accuracies can differ by it is far from overflow in double precision; beyond 700 points x
    is taken to be 700.

    Args:
        points: Accuracy less that of the network without groups, in percentage points.

    Returns:
        A finite number, of the sign of ``points`` and growing with it.

    Example:
        >>> round(published_reward(1.0), 4)
        2.7183
        >>> f"{published_reward(-45.0):.1e}"
        '-1.6e+21'
    """
    held = min(max(points, -_LARGEST_REWARD), _LARGEST_REWARD)
    return held * exp(abs(held))


# The code's schedule ten times as fast: of networks there are some hundred in place of thousands of
# states, and with all of them trained it would still act at random.
NETWORK_EPSILON: tuple[tuple[int, float], ...] = tuple((n // 10, e) for n, e in CODE_EPSILON)


@dataclass(frozen=True)
class DeepQOptions:
    """How a deep Q agent walks and learns; the defaults are as published but where noted.

    Args:
        hidden: Widths of the value network.
        batch: Transitions in a step; as in the code, the paper says 512. Nothing is learned before
            there are as many.
        gamma: Discount.
        rate: Of Adam.
        target: The copy of the value network follows after each step at which the number of models
            is a multiple of this.
        episode: Steps of an episode.
        scale: What bits of a state are multiplied by.
        updates: The most steps of learning in one walk over known states; ``None`` for one at
            each step, as published.
        patience: Steps of a walk before it gives up; as long as an episode.
        catch_up: The most steps of learning after a restart.

    Raises:
        ValueError: If a number is out of range.

    Example:
        >>> DeepQOptions(hidden=(32, 32)).batch
        128
    """

    hidden: tuple[int, ...] = (400, 400, 400)
    batch: int = 128
    gamma: float = 0.5
    rate: float = 1e-3
    target: int = 2
    episode: int = 101
    scale: float = 0.1
    updates: int | None = 2
    patience: int = 101
    catch_up: int = 1000

    def __post_init__(self) -> None:
        for name in ("batch", "target", "episode", "patience"):
            if getattr(self, name) < 1:
                raise ValueError(f"expected {name} of at least 1, got {getattr(self, name)}")


class DeepQ:
    """An agent that walks from state to state, a group more or less at a time, by learned values.

    Every episode starts at the network without groups. An action is random with probability ε,
    which falls with the number of models trained, and otherwise the one of the largest value. A
    step to a state whose score is known trains no child; the walk goes on, with one step of
    learning, until it comes to a state that is neither scored nor taken: the proposal. Where a
    walk of ``options.patience`` steps finds none, a random unseen state is proposed, from which the
    walk goes on.

    Unlike the published agent, which replays the transitions that it walked, this one replays all
    pairs of scored states that are one action apart, in both directions. Where children are
    networks, a state is scored when its network is, and models are networks. So the memory and ε
    follow from scores alone, after a restart as before. Values are then learned anew from that
    memory, in one step for each model but at most ``options.catch_up``, and the walk starts afresh.

    Args:
        space: What to search.
        seed: Of initial values, actions and batches.
        reward: Of the difference to the network without groups in percentage points; as published
            it is `published_reward`.
        epsilon: Pairs (models, ε): from so many models on, ε; as in the published code. The paper's
            table is ``PAPER_EPSILON``; where children are networks, ``NETWORK_EPSILON`` falls
            before there are none left.
        options: How it walks and learns.

    Raises:
        ValueError: If a number is out of range.

    Example:
        >>> space = SearchSpace((1, 8, 8), ("horizontal flip", "vertical flip"), ((4,),))
        >>> agent, scores = DeepQ(space, seed=0), {}
        >>> while (proposal := agent.propose(scores, ())) is not None:
        ...     scores[proposal] = 0.9 + 0.01 * len(proposal.state.groups)
        >>> len(scores), str(next(iter(scores)).state)
        (4, 'no group')
    """

    keeps_weights = False

    @moved_keywords(options=DeepQOptions)
    def __init__(
        self,
        space: SearchSpace,
        seed: int,
        *,
        reward: Callable[[float], float] = bounded_reward,
        epsilon: tuple[tuple[int, float], ...] = CODE_EPSILON,
        options: DeepQOptions | None = None,
    ) -> None:
        if not epsilon or epsilon[0][0] != 0 or list(epsilon) != sorted(epsilon):
            raise ValueError(f"expected growing numbers of models from 0 on, got {epsilon}")
        if not all(0 <= share <= 1 for _, share in epsilon):
            raise ValueError(f"expected shares of random actions from 0 to 1, got {epsilon}")
        self._space, self._reward, self._epsilon = space, reward, epsilon
        self._options = options = options or DeepQOptions()
        self._random, weights = spawn(generator(seed), 2)
        self._unseen = RandomSearch(space, seed)
        self._neighbours = cache(space.neighbours)
        self._actions = len(self._neighbours(State()))
        inputs = len(self._bits(State()))
        self._net = QNetwork(
            inputs, self._actions, options.hidden, options.gamma, options.rate, weights
        )
        self._memory = _Memory(self._bits, self._neighbours)
        self._place, self._steps, self._models = State(), 0, 0
        self._pending = False

    @classmethod
    def published(cls, space: SearchSpace, *, seed: int) -> DeepQ:
        """The agent with the published reward and one step of learning at each step of the walk.

        Args:
            space: What to search.
            seed: Of initial values, actions and batches.
        """
        return cls(space, seed, reward=published_reward, options=DeepQOptions(updates=None))

    def propose(
        self, scores: Mapping[ChildProposal, float], taken: Collection[ChildProposal]
    ) -> ChildProposal | None:
        """The first new state of a walk; ``None`` where all are scored or taken.

        Args:
            scores: Accuracy of every child trained so far.
            taken: Children that others are training now.
        """
        full = full_scores(scores)
        seen = seen_states(scores, taken)
        fallback = self._unseen.unseen(seen)
        if fallback is None:
            return None
        if State() not in seen:
            return ChildProposal(State())
        self._models = models_in(scores)
        self._remember(full)
        if self._pending and self._place in full:
            self._learn()
        self._pending = True
        for step in range(self._options.patience):
            self._walk()
            if self._place not in seen:
                return ChildProposal(self._place)
            if self._place in full and (
                self._options.updates is None or step < self._options.updates
            ):
                self._learn()
        self._place = fallback
        return ChildProposal(fallback)

    def transitions(self) -> frozenset[tuple[State, int, State]]:
        """What it replays: pairs of scored states one action apart, with the action."""
        return self._memory.transitions()

    def share_of_random_actions(self, models: int) -> float:
        """The ε of the schedule after so many models.

        Args:
            models: How many children were trained.
        """
        return next(share for start, share in reversed(self._epsilon) if models >= start)

    def _remember(self, full: Mapping[State, float]) -> None:
        restarted = not len(self._memory) and len(full) > 1 and not self._pending
        if State() in full:
            for state, accuracy in full.items():
                if state not in self._memory:
                    reward = self._reward(100 * (accuracy - full[State()]))
                    self._memory.add(state, min(max(reward, -_LARGEST), _LARGEST))
        if restarted:
            for _ in range(min(self._models, self._options.catch_up)):
                self._learn()

    def _walk(self) -> None:
        if self._steps == self._options.episode:
            self._place, self._steps = State(), 0
        share = self.share_of_random_actions(self._models)
        if float(torch.rand((), generator=self._random)) < share:
            action = int(torch.randint(self._actions, (), generator=self._random))
        else:
            action = int(self._net.values(torch.tensor([self._bits(self._place)])).argmax())
        self._place = self._neighbours(self._place)[action]
        self._steps += 1

    def _learn(self) -> None:
        if len(self._memory) >= self._options.batch:
            self._net.learn(*self._memory.draw(self._options.batch, self._random))
        if self._models % self._options.target == 0:
            self._net.follow()

    def _bits(self, state: State) -> list[float]:
        bits = [name in state.groups for name in self._space.groups]
        if len(self._space.hidden) > 1:
            bits += [state.hidden == k for k in range(len(self._space.hidden))]
        return [self._options.scale * bit for bit in bits]


class _Memory:
    """Transitions between scored states, drawn as tensors."""

    def __init__(
        self,
        bits: Callable[[State], list[float]],
        neighbours: Callable[[State], list[State]],
    ) -> None:
        self._bits, self._neighbours = bits, neighbours
        self._number: dict[State, int] = {}
        self._rows: list[list[float]] = []
        self._rewards: list[float] = []
        self._moves: list[tuple[int, int, int]] = []

    def __len__(self) -> int:
        return len(self._moves)

    def __contains__(self, state: State) -> bool:
        return state in self._number

    def add(self, state: State, reward: float) -> None:
        number = self._number[state] = len(self._number)
        self._rows.append(self._bits(state))
        self._rewards.append(reward)
        for action, other in enumerate(self._neighbours(state)):
            if other in self._number and other != state:
                self._moves.append((number, action, self._number[other]))
                back = self._back(other, state)
                self._moves.extend((self._number[other], k, number) for k in back)

    def _back(self, other: State, state: State) -> list[int]:
        return [k for k, one in enumerate(self._neighbours(other)) if one == state]

    def transitions(self) -> frozenset[tuple[State, int, State]]:
        states = list(self._number)
        return frozenset((states[a], k, states[b]) for a, k, b in self._moves)

    def draw(self, count: int, random: torch.Generator) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        picked: list[Any] = torch.randint(len(self._moves), (count,), generator=random).tolist()
        moves = [self._moves[k] for k in picked]
        return (
            torch.tensor([self._rows[a] for a, _, _ in moves]),
            torch.tensor([k for _, k, _ in moves]),
            torch.tensor([self._rewards[b] for _, _, b in moves]),
            torch.tensor([self._rows[b] for _, _, b in moves]),
        )
