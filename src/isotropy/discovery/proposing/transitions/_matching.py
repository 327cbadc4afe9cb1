"""Signed permutations that keep the coefficients of a system: from one entry to all others."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from isotropy.discovery.claims._signed_permutation import SignedPermutation
from isotropy.discovery.proposing.transitions._coefficients import Coefficients, Floats

_IMAGES = 6  # of each entry, where it may go
_SWEEPS = 12
_MEAN_WEIGHT = 0.3
_SMALL = 1e-12


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
        self._vector = _MEAN_WEIGHT * coefficients.mean
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
            near = np.argsort(distance, kind="stable")[:_IMAGES]
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
        """The last of a few assignment problems, each for the images of the one before."""
        from scipy.optimize import linear_sum_assignment

        n, d = self.n, self.d
        best, reached = element, self.agreement(element)[0]
        for _ in range(_SWEEPS):
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
                break
            best, reached = tried, now
        return best


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
