"""Permutation symmetries read off a predictor: swaps, gradients, coefficients of a polynomial."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import exp, inf, log

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import squareform
from torch import Tensor

from isotropy._run import ProgressCallback
from isotropy.discovery.predictors._free_predictor import quadratic_terms
from isotropy.discovery.proposing._proposing_thresholds import ProposingThresholds
from isotropy.discovery.proposing.permutations._natural_groups import log_conjugates, log_natural
from isotropy.discovery.proposing.permutations._screening import chance_of_cost
from isotropy.discovery.reading._task_data import Arrangement
from isotropy.naming._automorphisms import automorphisms
from isotropy.naming._pair_group import Pair, PairGroup, symmetric
from isotropy.sharing._partition_evidence import LeastSquares, PartitionEvidence
from isotropy.sharing._partition_search import cluster_values


def swap_symmetries(
    costs: Callable[..., NDArray[np.float64]], arrangement: Arrangement
) -> Iterator[PairGroup]:
    """Groups of all permutations within classes of positions that may be swapped.

    Args:
        costs: What swapping two positions costs, as a share of what both do; called with
            ``outputs``, whether outputs are swapped along.
        arrangement: Positions of inputs and outputs.
    """
    limits = ProposingThresholds.now()
    n, m = arrangement.inputs, arrangement.outputs
    if not 2 < n <= limits.swapped_positions:
        return
    for both in [False, True] if m == n and not arrangement.fixed_outputs else [False]:
        apart = squareform(np.maximum(costs(outputs=both), 0.0), checks=False)
        tree = linkage(apart, "complete")
        seen: list[set[frozenset[int]]] = []
        for cost in limits.equal_swaps:
            labels = fcluster(tree, cost, "distance")
            blocks = [np.flatnonzero(labels == label).tolist() for label in np.unique(labels)]
            kinds = {frozenset(block) for block in blocks if len(block) > 1}
            if kinds and kinds not in seen:
                seen.append(kinds)
                moves = symmetric(blocks, n)
                yield PairGroup(tuple((p, p if both else np.arange(m)) for p in moves), n, m)


def gradient_symmetries(
    predict: Callable[[Tensor], Tensor], x: Tensor, arrangement: Arrangement
) -> Iterator[PairGroup]:
    """Automorphisms of the moments of the Jacobian, clustered more and more coarsely.

    Where inputs are distributed equally at all positions of an orbit, E[∂_i f · ∂_j f] is equal
    along orbits of pairs (i, j), and E[J_ij], E[J_ij²] along those of (output, input).
    """
    limits = ProposingThresholds.now()
    n, m = arrangement.inputs, arrangement.outputs
    if n > limits.gradient_positions:
        return
    rows = x[: limits.gradient_rows].double()

    def one(row: Tensor) -> Tensor:
        return predict(row[None])[0].double()

    jacobian = torch.func.vmap(torch.func.jacrev(one))(rows)
    blocks = jacobian.unflatten(2, (arrangement.channels, n)).unflatten(
        1, (arrangement.output_channels, m)
    )
    alone = arrangement.fixed_outputs or m == 1
    flat = blocks.flatten(1, 2)
    inner = torch.einsum("rkai,rkaj->rij", flat, flat)
    first = blocks.sum((1, 3))
    second = blocks.square().sum((1, 3))
    seen: list[PairGroup] = []
    for times in limits.coarser_gradients:
        if alone:
            found = automorphisms(
                _classes(inner, times),
                tied=True,
                input_colours=_classes(flat.square().sum((1, 2)), times),
            )
            pairs = [(moved, np.arange(m)) for moved, _ in found.generators]
        else:
            one_, two = _classes(first, times), _classes(second, times)
            found = automorphisms(one_ * (two.max() + 1) + two)
            pairs = list(found.generators)
        group = PairGroup(tuple((np.asarray(a), np.asarray(b)) for a, b in pairs), n, m)
        if group.order > 1 and not any(group.equals(g) for g in seen):
            seen.append(group)
            yield group


def _classes(samples: Tensor, times: float) -> NDArray[np.int64]:
    """Which means over the first axis are equal, their errors taken ``times`` larger, squared."""
    mean = samples.mean(0)
    variance = samples.var(0) / len(samples) * times
    floor = 1e-10 * float(mean.square().mean()) + 1e-300
    scale = float(mean.square().mean().sqrt()) + 1e-300
    labels = cluster_values(mean.numpy().ravel(), variance.numpy().ravel().clip(floor), scale)
    return labels.reshape(tuple(mean.shape))


Labels = NDArray[np.int64]


class PolynomialColours:
    """Equal coefficients of a fitted polynomial, and the permutations that keep them.

    The coefficients are partitioned by ``PartitionEvidence``. Positions, monomials and outputs
    become the vertices of a graph whose edges carry the classes of coefficients. Its
    automorphisms are the candidates: f(πx) = π'f(x) for the fitted f, equal coefficients made
    equal.

    Args:
        x: Inputs, shape ``(N, channels·n)``.
        y: Targets, shape ``(N, output_channels·m)``.
        arrangement: What those columns are.
        degree: 1 or 2.
        progress: Called with each step.

    Raises:
        CannotFit: If there are not enough rows for the number of terms.

    Attributes:
        ignored: Positions of the input on which no term depends.
        labels: Which linear coefficients are equal, shape ``(outputs, inputs)``; ``None`` where
            there are several channels.
    """

    def __init__(
        self,
        x: Tensor,
        y: Tensor,
        arrangement: Arrangement,
        degree: int,
        *,
        progress: ProgressCallback | None = None,
    ) -> None:
        limits = ProposingThresholds.now()
        self.arrangement = arrangement
        terms = self._terms = _Terms(x, arrangement, degree)
        outputs = arrangement.outputs * arrangement.output_channels
        if (
            terms.count > limits.coloured_terms
            or terms.count * outputs > limits.coloured_coefficients
        ):
            raise CannotFit(
                f"{terms.count} terms of degree {degree} in {outputs} outputs, too many"
            )
        if len(x) < terms.count + limits.spare_rows:
            raise CannotFit(f"{len(x)} rows for {terms.count} terms of degree {degree}")
        targets = _scaled(y, arrangement.output_channels)
        middle, means = terms.values.mean(0), targets.mean(0)
        whole = LeastSquares.of(terms.values - middle, targets - means)
        self._problem = LeastSquares(whole.gram, whole.cross, whole.square, len(x) - 1)
        self._noise = float(self._problem.noise_variance())
        self._evidence = PartitionEvidence(self._problem, noise=self._noise)
        self._labels = self._evidence.best(progress)
        # constants of the polynomial, whose errors come with those of the coefficients
        shared = torch.as_tensor(self._evidence.estimate(self._labels)).reshape(self._problem.shape)
        self._offsets = means - shared @ middle
        leverage = float(middle @ torch.linalg.pinv(whole.gram, hermitian=True) @ middle)
        self._offset_variance = self._noise * (1 / len(x) + leverage)
        self._labels, self._zero = _with_zero(self._evidence, self._labels)
        self.ignored = terms.unused(self._labels, self._zero)
        self.labels: Labels | None = None
        if arrangement.channels == arrangement.output_channels == 1:
            matrix = self._labels.reshape(arrangement.outputs, terms.count)
            self.labels = matrix[:, : arrangement.inputs]

    def groups(self) -> Iterator[PairGroup]:
        """Automorphism groups, of coefficients distinguished finely and then more coarsely."""
        seen: list[PairGroup] = []
        for times in ProposingThresholds.now().coarser_coefficients:
            labels, zero = self._labels, self._zero
            if times > 1:
                coarse = PartitionEvidence(self._problem, noise=self._noise * times)
                labels, zero = _with_zero(coarse, coarse.best())
            group = _automorphism_group(
                labels,
                zero,
                self._terms.unused(labels, zero),
                self._terms,
                self._offsets,
                self._offset_variance * times,
            )
            pairs = tuple(pair for part in self._credible(group) for pair in part.generators)
            if pairs:
                candidate = PairGroup(pairs, self.arrangement.inputs, self.arrangement.outputs)
                if not any(candidate.equals(g) for g in seen):
                    seen.append(candidate)
                    yield candidate

    def _credible(self, group: PairGroup) -> list[PairGroup]:
        """The direct factors that are more than coincidences, one after the other.

        Positions that belong to one, or that do not matter, are no longer among those that
        another could have been found on.
        """
        parts = [(self.factor(self._orbit_blocks(p)), p) for p in group.components()]
        taken = np.zeros(group.inputs, dtype=bool)
        taken[list(self.ignored)] = True
        taken_out = np.zeros(group.outputs, dtype=bool)
        kept = []
        for factor, part in sorted(parts, key=lambda entry: -entry[0]):
            ways = log_conjugates(part, int((~taken).sum()), int((~taken_out).sum()))
            if ways - factor <= log(ProposingThresholds.now().coincidence):
                kept.append(part)
                moved_in, moved_out = part.moved()
                taken[moved_in] = taken_out[moved_out] = True
        return kept

    def chance(
        self, group: PairGroup, margin: float = 0.05, *, among: float | None = None
    ) -> float:
        """How probable such a symmetry is by coincidence, where coefficients have none.

        It is the Bayes factor of coefficients all different against coefficients equal along
        orbits (those that are zero stay so in both), times the number of groups like this one.
        Were the coefficients independent draws, the Bayes factor of one group would exceed 1/p
        with probability at most p (Markov), and that of any at most so many times it. The
        draws are Gaussian, of the mean and width that speak most against the symmetry, but no
        narrower than what the usual margin calls equal.

        For a group that is one of few that are tried whatever the data, as those that take
        positions in their natural order are, there is a second bound, where equal coefficients
        are not the worse explanation: how often coefficients at random lie so near the
        invariant ones that the margin cannot tell. Means and widths come from the data and
        kinds of groups are not counted, so this is a guide; ``benchmarks/false_claims.py``
        measures what it lets through.
        """
        shared = self._orbit_blocks(group)
        factor = self.factor(shared)
        if among is None and (ways := log_natural(group)) < inf:
            among = exp(ways)
        ways = log_conjugates(group) if among is None else log(among)
        chance = exp(min(0.0, ways - factor))
        if factor > 0 and among is not None:
            maps = shared.reshape(self._problem.shape)
            chance = min(chance, among * chance_of_cost(maps, self._evidence.gram, margin))
        return chance

    @property
    def evidence(self) -> PartitionEvidence:
        """The evidence of partitions of the coefficients, in units of standardised data."""
        return self._evidence

    def factor(self, labels: Labels) -> float:
        """The log Bayes factor of a partition against coefficients all different.

        It is taken at the mean and width of coefficients where it is least; those that are zero
        stay so in both.

        Args:
            labels: Blocks of coefficients, shape (coefficients,); −1 for those that are zero.
        """
        live = self._labels != self._zero
        if not live.any():
            return 0.0
        apart = np.where(live, np.arange(len(live)), -1)
        values = self._evidence.fitted[live]
        middle, size = float(values.mean()), float(np.sqrt(np.mean(values**2)))
        return min(
            self._evidence.drawn(labels, mean, size * width)
            - self._evidence.drawn(apart, mean, size * width)
            for mean in (0.0, middle)
            for width in ProposingThresholds.now().coefficient_widths
        )

    def _orbit_blocks(self, group: PairGroup) -> Labels:
        """Coefficients in blocks by orbit; −1 where all of an orbit is zero."""
        a, terms = self.arrangement, self._terms
        count = len(self._labels)
        cells = np.arange(count).reshape(a.output_channels, a.outputs, terms.count)
        here, there = [], []
        for to_in, to_out in group.generators:
            here.append(cells.ravel())
            there.append(cells[:, to_out][:, :, terms.permuted(to_in)].ravel())
        links = coo_matrix(
            (np.ones(count * len(here)), (np.concatenate(here), np.concatenate(there))),
            (count, count),
        )
        return self.alive(connected_components(links, directed=False)[1])

    def alive(self, blocks: Labels) -> Labels:
        """The same blocks of coefficients, those that are zero altogether as −1."""
        live = self._labels != self._zero
        return np.where(np.bincount(blocks, live)[blocks] > 0, blocks, -1)


class CannotFit(ValueError):
    """There are too few rows for a polynomial, or too many coefficients."""


class _Terms:
    """The monomials of a polynomial, and how permutations of positions move them."""

    def __init__(self, x: Tensor, arrangement: Arrangement, degree: int) -> None:
        self.arrangement = arrangement
        n, c = arrangement.inputs, arrangement.channels
        x = _scaled(x, c)
        # a column that does not vary has no part in any term
        x = torch.where(x.var(0) > 1e-20, x, torch.zeros_like(x))
        variables = n * c
        self.values = x if degree == 1 else torch.cat([x, quadratic_terms(x)], 1)
        self.count = self.values.shape[1]
        pairs = np.stack(np.triu_indices(variables)) if degree == 2 else np.zeros((2, 0), int)
        # a linear term is a pair with a variable that is always one
        self.first = np.concatenate([np.arange(variables), pairs[0]])
        self.second = np.concatenate([np.full(variables, -1), pairs[1]])
        self.variables = variables
        self._index = {
            (int(a), int(b)): k
            for k, (a, b) in enumerate(zip(self.first, self.second, strict=True))
        }

    def permuted(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where each term goes when position j goes to positions[j]."""
        n = self.arrangement.inputs
        variable = np.arange(self.variables)
        to = (variable // n) * n + positions[variable % n]
        first = to[self.first]
        second = np.where(self.second < 0, -1, to[self.second])
        low = np.where(second < 0, first, np.minimum(first, second))
        high = np.where(second < 0, -1, np.maximum(first, second))
        return np.array([self._index[int(a), int(b)] for a, b in zip(low, high, strict=True)])

    def unused(self, labels: Labels, zero: int) -> tuple[int, ...]:
        """Positions that appear in no term with a coefficient other than zero."""
        n = self.arrangement.inputs
        live = (labels.reshape(-1, self.count) != zero).any(0)
        used = set(self.first[live] % n) | set(self.second[live & (self.second >= 0)] % n)
        return tuple(p for p in range(n) if p not in used)


def _scaled(x: Tensor, channels: int) -> Tensor:
    """Each channel shifted and scaled equally at all positions, which no permutation can tell."""
    x = x.double().unflatten(1, (channels, -1))
    x = x - x.mean((0, 2), keepdim=True)
    scale = x.square().mean((0, 2), keepdim=True).sqrt()
    return (x / scale.clamp_min(1e-300)).flatten(1)


def _with_zero(evidence: PartitionEvidence, labels: Labels) -> tuple[Labels, int]:
    """Labels, and the largest block whose value the noise does not tell from zero; −1 for none.

    Coefficients of terms that do not vary are in it, whatever they were joined to.
    """
    inner, _ = evidence.moments(labels)
    values = evidence.estimate(labels)[np.unique(labels, return_index=True)[1]]
    small = (
        np.abs(values) * np.sqrt(np.diagonal(inner)) < ProposingThresholds.now().clear_coefficient
    )
    sizes = np.where(small, np.bincount(labels), 0)
    zero = int(sizes.argmax()) if small.any() else -1
    dead = ~np.isfinite(evidence.variance)
    if dead.any():
        zero = int(labels.max()) + 1 if zero < 0 else zero
        labels = np.where(dead, zero, labels)
    return labels, zero


def _automorphism_group(
    labels: Labels,
    zero: int,
    unused: tuple[int, ...],
    terms: _Terms,
    offsets: Tensor,
    variance: float,
) -> PairGroup:
    """Vertices: positions of inputs, positions of outputs, variables, live quadratic terms."""
    a = terms.arrangement
    n, m = a.inputs, a.outputs
    classes = labels.reshape(a.output_channels, m, terms.count)
    linear = np.arange(terms.variables)
    live = terms.variables + np.flatnonzero((classes[:, :, terms.variables :] != zero).any((0, 1)))
    size = n + m + terms.variables + len(live)
    start = {"output": n, "variable": n + m, "term": n + m + terms.variables}
    graph = np.zeros((size, size), dtype=np.int64)
    _, edges = np.unique(
        np.moveaxis(classes[:, :, np.concatenate([linear, live])], 0, -1).reshape(
            -1, a.output_channels
        ),
        axis=0,
        return_inverse=True,
    )
    edges = edges.reshape(m, -1) + 3
    graph[start["output"] : start["variable"], start["variable"] :] = edges
    variables = start["variable"] + linear
    graph[variables, linear % n] = 1
    for row, term in enumerate(live):
        for factor in (terms.first[term], terms.second[term]):
            graph[start["term"] + row, start["variable"] + factor] += 1
    graph = np.maximum(graph, graph.T)
    colours = np.zeros(size, dtype=np.int64)
    colours[start["output"] : start["variable"]] = 1
    colours[variables] = 2 + linear // n
    colours[start["term"] :] = 2 + a.channels
    squares = terms.first[live] == terms.second[live]
    colours[start["term"] :][squares] += 1
    next_colour = colours.max() + 1
    for k, p in enumerate(unused):
        colours[p] = next_colour + k
    next_colour += len(unused)
    if a.fixed_outputs:
        colours[start["output"] : start["variable"]] = next_colour + np.arange(m)
    else:
        scale = float(offsets.square().mean().sqrt()) + np.sqrt(variance) + 1e-300
        for channel in offsets.reshape(a.output_channels, m).numpy():
            here = colours[start["output"] : start["variable"]]
            level = cluster_values(channel, np.full(m, variance + 1e-300), scale)
            _, both = np.unique(np.stack([here, level]), axis=1, return_inverse=True)
            colours[start["output"] : start["variable"]] = next_colour + both.ravel()
            next_colour += m
    found = automorphisms(graph, tied=True, input_colours=colours)
    pairs: list[Pair] = []
    for moved, _ in found.generators:
        pair = moved[:n], moved[n : n + m] - n
        if (pair[0] != np.arange(n)).any() or (pair[1] != np.arange(m)).any():
            pairs.append(pair)
    return PairGroup(tuple(pairs), n, m)
