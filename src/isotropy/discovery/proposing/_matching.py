"""Signed permutations that keep the coefficients of a quadratic fit of a controlled system."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from isotropy.discovery.claims._signed_permutation import SignedPermutation
from isotropy.discovery.predictors._free_predictor import quadratic_terms
from isotropy.discovery.proposing._proposing_thresholds import ProposingThresholds

Floats = NDArray[np.float64]

_CONSTANT = 1e-9
_SMALL = 1e-12


@dataclass(frozen=True)
class Coefficients:
    """Δs = c + L x + Q (x, x) of inputs x = (s, a), all in deviations of their columns.

    An element P of the symmetry group has c = P c, P L = L P, P Q = Q (P, P), and moves the mean
    of the inputs to itself where they are distributed symmetrically.

    Args:
        mean: Of the inputs, shape (d,); zero where it is almost so.
        constant: c, shape (n,).
        linear: L, shape (n, d).
        quadratic: Q, shape (n, d, d), symmetric.
        compatible: Which entries may go to which places, shape (d, d): observations to
            observations, actions to actions, each of much the same size; what is constant stays.
    """

    mean: Floats
    constant: Floats
    linear: Floats
    quadratic: Floats
    compatible: NDArray[np.bool_]

    @staticmethod
    def of(x: Tensor, increments: Tensor) -> Coefficients:
        """Fit them by least squares, with a small ridge.

        Example:
            >>> x = torch.randn(400, 2, generator=torch.Generator().manual_seed(0)).double()
            >>> fitted = Coefficients.of(x, x[:, :1] * x[:, 1:])
            >>> bool(fitted.quadratic[0, 0, 1] > 0.4), bool(abs(fitted.linear).max() < 0.1)
            (True, True)
        """
        limits = ProposingThresholds.now()
        mean, deviation = x.mean(0), x.std(0)
        live = deviation > _CONSTANT * (1 + x.abs().amax(0))
        deviation = torch.where(live, deviation, 1.0)
        mean = mean / deviation
        centre = torch.where(mean.abs() < limits.centred, 0.0, mean)
        z = torch.where(live, x / deviation - centre, 0.0)
        spread = increments.std(0)
        y = increments / torch.where(spread > _CONSTANT, spread, 1.0)
        n, d = y.shape[1], x.shape[1]
        products = d <= limits.product_columns and 2 * len(x) > d * (d + 3)
        parts = [torch.ones(len(z), 1, dtype=z.dtype), z]
        if products:
            parts.append(quadratic_terms(z))
        features = torch.cat(parts, 1)
        gram = features.mT @ features
        ridge = limits.coefficient_ridge * len(z)
        gram.diagonal().add_(ridge)
        inverse = torch.linalg.inv(gram)
        weights = (inverse @ (features.mT @ y)).mT
        left = (y - features @ weights.mT).square().sum(0) / max(1, len(z) - features.shape[1])
        # of an estimate with a ridge, which columns that sum to one need
        variance = inverse.diagonal() - ridge * inverse.square().sum(0)
        errors = (left[:, None] * variance.clamp_min(0)).sqrt()
        alive = weights.abs() > limits.clear_coefficient * errors
        weights = torch.where(alive, weights, 0.0)
        quadratic = torch.zeros(n, d, d, dtype=z.dtype)
        if products:
            i, j = torch.triu_indices(d, d)
            half = weights[:, 1 + d :] / 2
            quadratic[:, i, j] += half
            quadratic[:, j, i] += half
        centre = torch.where(live, centre, 0.0)
        return Coefficients(
            centre.numpy(),
            weights[:, 0].numpy(),
            weights[:, 1 : 1 + d].numpy(),
            quadratic.numpy(),
            _compatible(deviation, spread, live).numpy(),
        )


def _compatible(deviation: Tensor, spread: Tensor, live: Tensor) -> Tensor:
    """Pairs of entries that may take each other's place."""
    n, d = len(spread), len(deviation)
    sizes, most = deviation.log(), ProposingThresholds.now().similar_sizes
    similar = (sizes[:, None] - sizes).abs() < most
    steps = spread.clamp_min(_CONSTANT).log()
    similar[:n, :n] &= (steps[:, None] - steps).abs() < most
    similar[:n, n:] = similar[n:, :n] = False
    similar &= live[:, None] & live
    return similar | torch.eye(d, dtype=torch.bool)


class Matching:
    """How well signed permutations keep the coefficients of a system.

    ⟨P·T, T⟩ is summed over the constant, linear and quadratic coefficients T and the mean of the
    inputs. It is greatest, ‖T‖², for elements of the symmetry group. Its gradient G has an entry
    for each pair (i, j): what is gained, up to sign, where entry i goes to j while the others go
    where they are thought to go. So the image of one entry suggests that of others (``grown``), and
    all are improved together by assignment problems (``improved``).
    """

    def __init__(self, coefficients: Coefficients) -> None:
        self.n, self.d = coefficients.linear.shape
        self.compatible = coefficients.compatible
        self._vector = ProposingThresholds.now().mean_weight * coefficients.mean
        self._vector_out = coefficients.constant
        self._linear = coefficients.linear
        self._quadratic = coefficients.quadratic
        sizes = np.abs(self._linear).sum(0) + np.abs(self._quadratic).sum((0, 2))
        sizes[: self.n] += np.abs(self._linear).sum(1) + np.abs(self._quadratic).sum((1, 2))
        self.moves = sizes > 0

    def gradient(
        self, index: NDArray[np.int64], sign: NDArray[np.int64], known: NDArray[np.bool_]
    ) -> tuple[Floats, Floats, Floats]:
        """G, shape (d, d), and the sizes of what the entries i and the images j have in it."""
        n, d = self.n, self.d
        weight = sign * known
        gain = np.zeros((d, d))
        mine, other = np.zeros(d), np.zeros(d)

        def add(left: Floats, right: Floats, rows: int) -> None:
            """Both of shape (entries, contexts): contexts of i, and of j as they are moved back."""
            gain[:rows, :rows] += left @ right.T
            mine[:rows] += (left**2).sum(1)
            other[:rows] += (right**2).sum(1)

        counted, out = known.astype(float), known[:n].astype(float)
        add(self._vector[:, None], self._vector[:, None], d)
        add(self._vector_out[:, None], self._vector_out[:, None], n)
        # as outputs, of known inputs
        add(self._linear * counted, self._linear[:, index] * weight, n)
        # as inputs, of known outputs
        add((self._linear * out[:, None]).T, (self._linear[index[:n]] * weight[:n, None]).T, d)
        q = self._quadratic
        if q.any():
            pair, pair_weight = np.outer(counted, counted), np.outer(weight, weight)
            add(
                (q * pair).reshape(n, -1),
                (q[:, index][:, :, index] * pair_weight).reshape(n, -1),
                n,
            )
            pair, pair_weight = np.outer(out, counted), np.outer(weight[:n], weight)
            left = (q * pair[:, :, None]).transpose(2, 0, 1).reshape(d, -1)
            right = q[index[:n]][:, index] * pair_weight[:, :, None]
            add(2**0.5 * left, 2**0.5 * right.transpose(2, 0, 1).reshape(d, -1), d)
        gain[~self.compatible] = 0.0
        return gain, mine, other

    def agreement(self, element: SignedPermutation) -> tuple[float, float]:
        """⟨P·T, T⟩, and ½ ‖P·T − T‖² as a share of the coefficients of entries that P moves."""
        index, sign = np.array(element.index), np.array(element.sign)
        kept = lost = size = 0.0
        for part, sides in self._parts():
            moved, signs, stays = part, np.ones(part.shape), np.ones(part.shape, dtype=bool)
            for axis, side in enumerate(sides):
                shape = [1] * part.ndim
                shape[axis] = side
                moved = moved.take(index[:side], axis)
                signs = signs * sign[:side].reshape(shape)
                fixed = (index[:side] == np.arange(side)) & (sign[:side] > 0)
                stays &= fixed.reshape(shape)
            moved = moved * signs
            kept += float((moved * part).sum())
            lost += float(((moved - part)[~stays] ** 2).sum())
            size += float((part[~stays] ** 2).sum())
        return kept, lost / max(2 * size, _SMALL)

    def _parts(self) -> list[tuple[Floats, tuple[int, ...]]]:
        n, d = self.n, self.d
        parts: list[tuple[Floats, tuple[int, ...]]] = [
            (self._vector, (d,)),
            (self._vector_out, (n,)),
            (self._linear, (n, d)),
        ]
        return [*parts, (self._quadratic, (n, d, d))] if self._quadratic.any() else parts

    def seeds(self) -> list[tuple[int, int, int]]:
        """Entries, where each may go and with which sign: those that alone look the same."""
        looks = self._looks()
        found = []
        for i in range(self.d):
            if not self.moves[i]:
                continue
            distance = np.abs(looks - looks[i]).sum(1) / (looks.sum(1) + looks[i].sum() + _SMALL)
            distance[~self.compatible[i]] = np.inf
            near = np.argsort(distance, kind="stable")[: ProposingThresholds.now().images]
            near = near[np.isfinite(distance[near])]
            found += [(i, int(j), s) for j in near for s in (1, -1) if (i, 1) != (j, s)]
        return found

    def _looks(self) -> Floats:
        """For each entry numbers that no signed permutation changes: sorted sizes."""
        n, d = self.n, self.d
        looks = np.zeros((d, 3 * d + n + 1))
        looks[:, 0] = np.abs(self._vector)
        looks[:, 1 : n + 1] = np.sort(np.abs(self._linear.T), 1)
        looks[:n, n + 1 : n + d + 1] = np.sort(np.abs(self._linear), 1)
        sizes = np.sqrt((self._quadratic**2).sum(2))  # (n, d)
        looks[:, n + d + 1 : 2 * n + d + 1] = np.sort(sizes.T, 1)
        looks[:n, n + 2 * d + 1 : n + 3 * d + 1] = np.sort(sizes, 1)
        return looks

    def grown(self, seed: tuple[int, int, int]) -> SignedPermutation:
        """The signed permutation that one image suggests, entry by entry, the surest first."""
        d = self.d
        index, sign = np.arange(d), np.ones(d, dtype=np.int64)
        known, taken = np.zeros(d, dtype=bool), np.zeros(d, dtype=bool)
        at, to, s = seed
        while True:
            index[at], sign[at] = to, s
            known[at] = taken[to] = True
            if known.all():
                break
            gain, mine, other = self.gradient(index, sign, known)
            similar = 2 * np.abs(gain) / (mine[:, None] + other[None, :] + _SMALL)
            sure = np.abs(gain) * similar**4
            sure[known] = sure[:, taken] = -1.0
            sure[~self.compatible] = -1.0
            # where nothing is known of an entry it stays, if it can
            sure[~known & ~taken, ~known & ~taken] += _SMALL
            if sure.max() < 0:  # what is left cannot all be placed
                return SignedPermutation.identity(d)
            at, to = (int(p) for p in np.unravel_index(int(sure.argmax()), sure.shape))
            s = -1 if gain[at, to] < 0 else 1
        return SignedPermutation(tuple(index.tolist()), tuple(sign.tolist()))

    def improved(self, element: SignedPermutation) -> SignedPermutation:
        """The last of several assignment problems, each for the images of the one before."""
        from scipy.optimize import linear_sum_assignment

        n, d = self.n, self.d
        best, reached = element, self.agreement(element)[0]
        while True:
            index, sign = np.array(best.index), np.array(best.sign)
            gain = self.gradient(index, sign, np.ones(d, dtype=bool))[0]
            new, signs = np.arange(d), np.ones(d, dtype=np.int64)
            for low, high in ((0, n), (n, d)):
                part = gain[low:high, low:high]
                allowed = self.compatible[low:high, low:high]
                # what stays costs nothing; what may not go there never does
                price = np.where(allowed, -np.abs(part), 1 + np.abs(part).sum())
                rows, columns = linear_sum_assignment(price)
                new[low + rows] = low + columns
                signs[low + rows] = np.where(part[rows, columns] < 0, -1, 1)
            tried = SignedPermutation(tuple(new.tolist()), tuple(signs.tolist()))
            now = self.agreement(tried)[0]
            if tried.is_identity or now <= reached + _SMALL:
                return best
            best, reached = tried, now


@dataclass(frozen=True)
class Match:
    """A signed permutation, and the share of the coefficients at stake that it changes."""

    element: SignedPermutation
    change: float


def matches(coefficients: Coefficients, unsigned: int = 0) -> list[Match]:
    """Signed permutations other than the identity, those that keep the coefficients best first.

    Example:
        >>> linear = np.array([[0.0, 1.0, 0.5, 0.1], [1.0, 0.0, 0.1, 0.5]])
        >>> zeros = np.zeros(2), np.zeros((2, 4, 4))
        >>> anywhere = np.kron(np.eye(2), np.ones((2, 2))) > 0
        >>> given = Coefficients(np.zeros(4), zeros[0], linear, zeros[1], anywhere)
        >>> sorted(match.element.index for match in matches(given) if match.change < 1e-9)[-1]
        (1, 0, 3, 2)
    """
    found: dict[SignedPermutation, float] = {}
    signs_alone = replace(coefficients, compatible=np.eye(len(coefficients.mean), dtype=bool))
    for given in (signs_alone, coefficients):
        matching = Matching(given)
        for seed in matching.seeds():
            element = matching.improved(matching.grown(seed))
            if unsigned:
                element = replace(element, sign=(*element.sign[:-unsigned], *[1] * unsigned))
            if not element.is_identity and element not in found:
                found[element] = matching.agreement(element)[1]
    return sorted((Match(*pair) for pair in found.items()), key=lambda match: match.change)
