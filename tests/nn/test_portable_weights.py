"""Coefficients mean the same on every machine: bases may come out turned, networks may not."""

import pytest
import torch
from torch import Tensor

from isotropy.bases import DenseBasis
from isotropy.groups import O13, SL, SO, DkeR3, Group, O, Sp
from isotropy.nn import EMLP, Linear, _equivariant_weights, _schur_frames
from isotropy.reps import Rep, Scalar, T, V


def turned_bases(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every basis in another rotation of itself, as another linear algebra library may give it."""
    solve = _equivariant_weights.equivariant_basis
    rng = torch.Generator().manual_seed(7)

    def solve_turned(rep: Rep) -> DenseBasis:
        q = solve(rep).dense()
        rotation = torch.linalg.qr(torch.randn(q.shape[1], q.shape[1], generator=rng).double())[0]
        return DenseBasis(rep, q @ rotation.to(q.dtype))

    for module in (_schur_frames, _equivariant_weights):
        monkeypatch.setattr(module, "equivariant_basis", solve_turned)


def weight(rep_in: Rep, rep_out: Rep, group: Group) -> Tensor:
    layer = Linear(rep_in, rep_out, group, bias=False, dtype=torch.float64)
    with torch.no_grad():
        layer.coefficients.copy_(torch.linspace(-1, 1, len(layer.coefficients)))
    return layer.weight.detach()


@pytest.mark.parametrize(
    ("rep_in", "rep_out", "group"),
    [
        (T(3), T(3), O(3)),
        (2 * V + T(2), T(3) + Scalar, SO(3)),
        (V + T(2), T(2), SO(2)),
        (T(2), T(2), DkeR3(6)),
        (T(1, 1), T(2, 1), O13()),
        (T(2), T(1, 1), SL(2)),
        (T(2), T(2), Sp(1)),
    ],
    ids=str,
)
def test_coefficients_do_not_depend_on_the_basis_that_was_found(
    rep_in: Rep, rep_out: Rep, group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = weight(rep_in + Scalar, rep_out + Scalar, group)
    turned_bases(monkeypatch)
    torch.testing.assert_close(weight(rep_in + Scalar, rep_out + Scalar, group), here)


def test_a_network_loads_where_bases_are_turned(monkeypatch: pytest.MonkeyPatch) -> None:
    def build() -> EMLP:
        return EMLP(2 * V, T(2), SO(3), channels=40, layers=2, dtype=torch.float64)

    saved, x = build(), torch.randn(5, 6, dtype=torch.float64)
    turned_bases(monkeypatch)
    loaded = build()
    loaded.load_state_dict(saved.state_dict())
    torch.testing.assert_close(loaded(x), saved(x))
