from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from isotropy.certificates import (
    Certificate,
    CertificationOptions,
    Goal,
    Hypothesis,
    architecture,
    certify,
    initial_parameters,
    projector,
    verify,
)
from isotropy.data import small_digits
from isotropy.run import Step
from isotropy_papers.pruned import certify_pruned, largest

QUICK: dict[str, Any] = {"keep": 0.15, "levels": 5, "epochs": 24, "quantised_epochs": 8}


def blobs(n: int = 600, width: int = 20) -> tuple[Tensor, Tensor]:
    """Three classes about three points."""
    rng = torch.Generator().manual_seed(1)
    centres = 2 * torch.randn(3, width, generator=rng)
    y = torch.arange(n) % 3
    return centres[y] + torch.randn(n, width, generator=rng), y


def parameters_of(certificate: Certificate) -> np.ndarray:
    """All parameters that the message says, as one vector."""
    hypothesis = certificate.hypothesis()
    return np.asarray(hypothesis.codebook.astype(np.float64)[hypothesis.symbols])


def entropy_bits(symbols: np.ndarray) -> float:
    shares = np.unique(symbols, return_counts=True)[1] / len(symbols)
    return float(-len(symbols) * (shares * np.log2(shares)).sum())


@pytest.fixture(scope="module")
def trained() -> Certificate:
    return certify_pruned("mlp-32", blobs(), test=blobs(300), **QUICK)


# --- the certificate --------------------------------------------------------------------------


def test_the_coded_network_makes_the_errors_that_are_claimed(trained: Certificate) -> None:
    x, y = blobs()
    network = architecture("mlp-32").build((20,), 3).double()
    flat = torch.from_numpy(parameters_of(trained))
    nn.utils.vector_to_parameters(flat, network.parameters())
    outputs = network(x.double()).tolist()
    # a tie is an error, and outputs that lost all their weights do tie
    errors = sum(
        any(row[other] >= row[label] for other in range(3) if other != label)
        for row, label in zip(outputs, y.tolist(), strict=True)
    )
    assert errors == trained.errors
    assert trained.train_error < 0.1
    assert trained.test_error is not None
    assert trained.test_error < 0.1


def test_it_is_verified_from_its_bytes(trained: Certificate) -> None:
    verdict = verify(trained.to_bytes(), blobs())
    assert verdict.valid
    assert verdict.bound == pytest.approx(trained.bound, abs=1e-9)
    better = replace(trained, claims={**trained.claims, "errors": 0, "bound": 0.01})
    assert not verify(better.to_bytes(), blobs()).valid


def test_as_many_weights_are_left_as_asked(trained: Certificate) -> None:
    total = architecture("mlp-32").parameter_count((20,), 3)
    values = parameters_of(trained)
    assert len(values) == total
    assert np.count_nonzero(values) == round(0.15 * total)
    assert len(np.unique(values)) <= 5


def test_bits_are_near_the_entropy(trained: Certificate) -> None:
    hypothesis = trained.hypothesis()
    entropy = entropy_bits(hypothesis.symbols)
    levels = len(hypothesis.codebook)
    side = 16 * levels + levels * np.log2(hypothesis.d) + 64
    assert entropy - side < trained.message_bits < entropy + side


def test_a_network_of_431080_weights_is_coded_near_the_entropy() -> None:
    rng = np.random.default_rng(0)
    total, left = 431_080, 5173
    symbols = np.full(total, 3)
    symbols[rng.choice(total, left, replace=False)] = rng.choice([0, 1, 2, 4, 5, 6], left)
    net = Hypothesis(
        architecture("lenet5"),
        Goal("classification", 10),
        symbols,
        np.linspace(-1, 1, 7).astype(np.float16),
        projector="identity",
        start="zero",
    )
    message = net.to_message()
    assert 8 * len(message) < 1.02 * entropy_bits(symbols)
    assert np.array_equal(Hypothesis.from_message(message).symbols, symbols)


def test_the_seed_of_training_is_not_in_the_message() -> None:
    few = {**QUICK, "epochs": 6, "quantised_epochs": 2}
    one, other = (certify_pruned("mlp-8", blobs(), seed=seed, **few) for seed in (0, 2**40))
    assert other.hypothesis().seed == 0
    assert abs(other.message_bits - one.message_bits) < 30
    assert one.message != other.message


def test_a_module_of_your_own() -> None:
    x, y = blobs()
    model = nn.Sequential(nn.Linear(20, 16), nn.ReLU(), nn.Linear(16, 3))
    before = [parameter.clone() for parameter in model.parameters()]
    certificate = certify_pruned(
        model, (x, y), options=CertificationOptions(symmetry="S(20)"), **QUICK
    )
    assert all(map(torch.equal, before, model.parameters()))
    assert certificate.train_error < 0.1
    assert verify(certificate.to_bytes(), (x, y), arch=model).verdict == "verified given"
    assert [str(group) for group in certificate.hypothesis().groups] == ["S(20)"]


def test_a_regression() -> None:
    x, _ = blobs()
    y = x[:, :1] - x[:, 1:2]
    options = CertificationOptions(tolerance=2.0, input_scale=3.0)
    certificate = certify_pruned("mlp-16", (x, y), options=options, **QUICK)
    assert certificate.train_error < 0.3
    assert verify(certificate.to_bytes(), (x, y)).valid


def test_a_subspace_needs_fewer_bits() -> None:
    # the finding of Table A.18, on digits
    images, labels = small_digits()
    x, y = images[:1000, 0, ::4, ::4].flatten(1), labels[:1000]
    pruned = certify_pruned("mlp-32", (x, y), keep=0.1, levels=5, epochs=30, quantised_epochs=10)
    subspace = certify("mlp-32", (x, y), d=60, levels=5, epochs=30, quantised_epochs=10, rate=0.008)
    assert subspace.message_bits < pruned.message_bits / 2
    assert subspace.bound < pruned.bound


# --- pruning itself ---------------------------------------------------------------------------


def test_without_training_the_largest_initial_weights_are_left() -> None:
    certificate = certify_pruned(
        "mlp-32", blobs(), keep=0.1, levels=9, rounds=3, seed=4, epochs=0, quantised_epochs=0
    )
    module = architecture("mlp-32").build((20,), 3)
    drawn = initial_parameters(module, 4).values()
    first = np.concatenate([tensor.numpy().ravel() for tensor in drawn]).astype(np.float32)
    kept = np.argsort(-np.abs(first), kind="stable")[: round(0.1 * len(first))]
    values = parameters_of(certificate)
    assert set(np.flatnonzero(values)) == set(kept.tolist())
    # each takes the nearest of the levels but 0
    levels = np.unique(values[kept])
    assert len(levels) == 8
    nearest = levels[np.abs(first[kept, None] - levels).argmin(1)]
    assert np.array_equal(nearest, values[kept])


def test_all_weights_can_be_left() -> None:
    certificate = certify_pruned("mlp-4", blobs(), keep=1, levels=9, epochs=2, quantised_epochs=1)
    assert np.count_nonzero(parameters_of(certificate)) == certificate.hypothesis().d


@pytest.mark.parametrize("count", [0, 1, 17, 40])
def test_the_largest(count: int) -> None:
    values = torch.randn(40, generator=torch.Generator().manual_seed(0)).round(decimals=1)
    found = largest(values, count)
    expected = sorted(range(40), key=lambda place: (-abs(float(values[place])), place))[:count]
    assert found.tolist() == sorted(expected)


def test_rounds_leave_equal_shares_and_are_reported() -> None:
    reported: list[str] = []

    def progress(step: Step) -> None:
        reported.append(step.message.split(", epoch")[0])

    certify_pruned(
        "mlp-8", blobs(), rounds=2, keep=0.1, epochs=3, quantised_epochs=1, progress=progress
    )
    rounds = [f"pruning, round {k}" for k in range(3)]
    assert list(dict.fromkeys(reported)) == [*rounds, "quantising", "counting errors"]


def test_an_interrupted_run_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("isotropy.certificates._descent._SECONDS_BETWEEN_SAVES", 0.0)
    few = {**QUICK, "epochs": 12, "rounds": 2, "quantised_epochs": 2}
    kept = CertificationOptions(checkpoints=tmp_path)
    whole = certify_pruned("mlp-8", blobs(), **few)
    steps: list[str] = []

    def stop(step: Step) -> None:
        steps.append(step.message)
        if step.message.startswith("pruning, round 1, epoch 3"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        certify_pruned("mlp-8", blobs(), progress=stop, options=kept, **few)
    first = len(steps)

    def note(step: Step) -> None:
        steps.append(step.message)

    again = certify_pruned("mlp-8", blobs(), progress=note, options=kept, **few)
    assert again.message == whole.message
    assert steps[first].startswith("pruning, round 1, epoch 3 of 4")


# --- the identity as a projector --------------------------------------------------------------


@pytest.mark.parametrize("d", [0, 3, 14])
def test_the_identity_projector(d: int) -> None:
    shapes = {"a": (3, 4), "b": (2,)}
    P = projector("identity", shapes, d, seed=3, dtype=torch.float64)
    assert (P.D, P.d) == (14, d)
    rng = torch.Generator().manual_seed(0)
    w = torch.randn(2, d, generator=rng, dtype=torch.float64)
    theta = torch.randn(2, 14, generator=rng, dtype=torch.float64)
    eye = torch.eye(14, d, dtype=torch.float64)
    assert torch.equal(P(w), w @ eye.T)
    assert torch.equal(P.transpose(theta), theta @ eye)
    assert not list(P.parameters())
    if d:
        assert torch.autograd.gradcheck(P, w.requires_grad_(), check_forward_ad=True)


# --- bad input --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"delta": 0.0}, r"^expected delta between 0 and 1, got 0\.0$"),
        ({"keep": 0.0}, r"^expected a share above 0 and up to 1 to keep, got 0\.0$"),
        ({"keep": 1.5}, r"^expected a share above 0 and up to 1 to keep, got 1\.5$"),
        ({"rounds": 0}, r"^expected at least 1 round of pruning, got 0$"),
        ({"d": 10}, r"^expected no dimension for a pruned network, got d = 10$"),
        ({"levels": 1}, r"^expected 2 to 256 levels, got 1$"),
        ({"levels": 257}, r"^expected 2 to 256 levels, got 257$"),
        ({"speed": 1}, r"^expected a setting of the recipe \(d, .*\), got 'speed'$"),
        (
            {"options": CertificationOptions(classes=2)},
            r"^expected labels from 0 to 1, got labels from 0 to 2$",
        ),
        ({"test": (torch.zeros(2, 20), torch.rand(2, 1))}, r"^expected integer labels of shape"),
        (
            {"options": CertificationOptions(symmetry="S(3)")},
            r"^expected no symmetry for mlp-8, which pays for its own",
        ),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_bad_settings(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        certify_pruned("mlp-8", blobs(60), **settings)


def test_too_many_parameters() -> None:
    with pytest.raises(ValueError, match=r"^expected at most 2097152 dimensions to code, got \d+$"):
        certify_pruned("mlp-2000-1100", blobs(60))


def test_what_certify_refuses_is_refused_here() -> None:
    x = torch.randn(100, 2, generator=torch.Generator().manual_seed(0))
    y = (x[:, 0] > 0).long()
    seen = nn.Sequential(nn.Linear(2, 8), nn.BatchNorm1d(8), nn.Linear(8, 2))
    seen(x)
    with pytest.raises(ValueError, match=r"running statistics as constructed"):
        certify_pruned(seen, (x, y))
    with pytest.raises(ValueError, match=r"outputs of shape \(5, 2\) for 5 rows, got \(5, 3\)"):
        certify_pruned(nn.Linear(2, 3), (x, y))
