"""Networks for a symmetry: equivariance, softness, and what is refused."""

import pytest
import torch

from isotropy.groups import SO, D, Z
from isotropy.nn import tensor_priors
from isotropy.reps import Pseudoscalar, Scalar, Symmetry, V
from isotropy.rl import symmetric_network

MIRRORED = Symmetry(Z(2), Scalar + 2 * V, Pseudoscalar + V)


@pytest.mark.parametrize(
    "symmetry", [MIRRORED, Symmetry(D(4), V + Scalar, V), Symmetry(SO(3), 2 * V, V)]
)
def test_an_equivariant_network_commutes_with_the_group_and_is_not_zero(symmetry):
    torch.manual_seed(0)
    network = symmetric_network(symmetry, "equivariant", widths=(24, 16), dtype=torch.float64)
    x = torch.randn(9, symmetry.rep_in.size(), dtype=torch.float64)
    y = network(x)
    g = symmetry.group.sample(4, generator=0)
    before, after = (rep.rho(g).dense() for rep in (symmetry.rep_in, symmetry.rep_out))
    for rho_in, rho_out in zip(before, after, strict=True):
        assert torch.allclose(network(x @ rho_in.mT), y @ rho_out.mT, atol=1e-9)
    assert y.std() > 1e-4


def test_a_free_network_does_not_and_a_soft_one_nearly_does():
    x = torch.randn(50, 5, generator=torch.Generator().manual_seed(1))
    swap = torch.tensor([0, 2, 1, 4, 3])
    errors = {}
    for kind in ("mlp", "rpp", "equivariant"):
        torch.manual_seed(0)
        network = symmetric_network(MIRRORED, kind, widths=(32, 32))
        with torch.no_grad():
            y, moved = network(x), network(x[:, swap])
        expected = torch.stack([-y[:, 0], y[:, 2], y[:, 1]], 1)
        errors[kind] = float((moved - expected).norm() / y.norm())
    assert errors["equivariant"] < 1e-5 < errors["rpp"] < 0.1 < errors["mlp"]
    assert {p.name for p in tensor_priors(symmetric_network(MIRRORED, widths=(8,)))}


def test_what_is_refused():
    with pytest.raises(ValueError, match="expected a network 'rpp', 'equivariant' or 'mlp'"):
        symmetric_network(MIRRORED, "free")
    with pytest.raises(ValueError, match="at least as wide as the group has elements, 2, got 1"):
        symmetric_network(MIRRORED, widths=(1,))
