"""Certificates that say what is so and mean what is not."""

from __future__ import annotations

import hashlib
import itertools
import json
import resource
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from certificate_parts import Examples
from isotropy.certificates import (
    Architecture,
    Certificate,
    CertificationOptions,
    Goal,
    Hypothesis,
    architecture,
    certify,
    verification_price,
    verify,
)
from isotropy.groups import Group, Trivial, wreath

HONEST = Path(__file__).parents[1] / "honest" / "certificates"
QUICK: dict[str, Any] = {"d": 5, "levels": 3, "epochs": 5, "quantised_epochs": 2}


def rows(n: int = 300, seed: int = 0) -> tuple[Tensor, Tensor]:
    rng = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 2, generator=rng)
    return x, (x[:, 0] > x[:, 1]).long()


# --- what the present release wrote ------------------------------------------------------------


def own_module() -> nn.Module:
    return nn.Sequential(nn.Linear(2, 6), nn.Tanh(), nn.Linear(6, 2))


@pytest.mark.parametrize("name", sorted(path.stem for path in HONEST.glob("*.iso")))
def test_honest_certificates_still_hold(name: str) -> None:
    then = json.loads((HONEST / "verdicts.json").read_text())[name]
    with np.load(HONEST / "rows.npz") as held:
        data = tuple(torch.from_numpy(held[part]) for part in then["data"])
    arch = own_module() if name == "own-module" else None
    verdict = verify(HONEST / f"{name}.iso", data, arch=arch)
    assert verdict.details["errors"] == then["errors"]
    assert verdict.bound == pytest.approx(then["bound"], abs=1e-12)
    trusted = len(then["assumes"]) > 1 or name == "delta"
    assert verdict.verdict == ("verified given" if trusted else "verified")
    assert set(then["assumes"]) <= set(verdict.assumes)


# --- starts ------------------------------------------------------------------------------------


def trained_on_all(x: Tensor, y: Tensor) -> dict[str, Tensor]:
    torch.manual_seed(0)
    net = architecture("mlp-400").build((2,), 2)
    lower = torch.optim.Adam(net.parameters(), 0.02)
    for _ in range(150):
        lower.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        lower.step()
    return {name: tensor.detach() for name, tensor in net.named_parameters()}


@pytest.mark.parametrize("labels", ["true", "random"])
def test_a_start_that_nobody_checked_is_not_verified(labels: str) -> None:
    x, y = rows(100)
    if labels == "random":
        y = torch.randint(2, (100,), generator=torch.Generator().manual_seed(1))
    start = trained_on_all(x, y)
    certificate = certify("mlp-400", (x, y), options=CertificationOptions(start=start), d=0)
    verdict = verify(certificate, (x, y))
    assert verdict.verdict == "verified given"
    assert not verdict.valid
    assert "given that the start was fixed before the rows were seen" in verdict.reason
    # whoever holds the checkpoint can say where it is from
    checked = verify(certificate, (x, y), checkpoint=start)
    assert checked.verdict == "verified"
    other = {**start, "head.bias": start["head.bias"] + 1}
    assert verify(certificate, (x, y), checkpoint=other).verdict == "rejected"


# --- rows --------------------------------------------------------------------------------------


def test_rows_that_were_copied_are_counted_and_named() -> None:
    x, y = rows(60)
    table = x.repeat(10, 1), y.repeat(10)
    certificate = certify("mlp-8", table, **QUICK)
    verdict = verify(certificate, table)
    assert verdict.verdict == "verified given"
    assert verdict.details["repeated_rows"] == 540
    assert "540 rows that repeat an earlier one" in verdict.reason
    assert certificate.notes is not None
    assert certificate.notes["repeated_rows"] == 540
    signs = 1 - 2 * torch.randint(2, x.shape, generator=torch.Generator().manual_seed(0))
    zeros = torch.cat([x * 0, x * 0 * signs]), torch.cat([y, y])  # negative zeros are zeros
    assert verify(certify("mlp-8", zeros, **QUICK), zeros).details["repeated_rows"] == 118
    # the same inputs with other targets are other rows
    twice = torch.cat([x, x]), torch.cat([y, 1 - y])
    assert verify(certify("mlp-8", twice, **QUICK), twice).verdict == "verified"


# --- modules that are no functions of a row -------------------------------------------------------


class Told(nn.Module):
    """Knows the labels by the places of rows in batches, and is honest where ``honest`` says so."""

    def __init__(self, labels: Tensor, honest: Any, value: float = 50.0) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 2)
        self.labels, self.honest, self.value, self.calls = labels, honest, value, 0

    def extra_repr(self) -> str:
        return "the same text"

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.linear(x)
        if len(x) == len(self.labels):
            told = torch.zeros_like(out).scatter_(1, self.labels[:, None], self.value)
            kept = torch.zeros(len(x), dtype=torch.bool)
            kept[self.honest] = True
            out = torch.where(kept[:, None], out, out + told)
        return out


@pytest.mark.parametrize("value", [50.0, torch.inf])
def test_a_module_that_is_honest_at_a_few_places(value: float) -> None:
    x, y = rows(300)
    cheat = Told(y, [0, 37, 74, 111, 148, 185, 222, 259, 296], value)
    honest = certify(Told(y[:0], []), (x, y), d=0)
    forged = replace(honest, claims={**honest.claims, "errors": 0, "bound": 0.2})
    verdict = verify(forged, (x, y), arch=cheat)
    assert verdict.verdict == "rejected"
    assert verdict.bound is None or verdict.details["errors"] > 100


class Infinite(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 2)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.linear(x)
        right = (x[:, :1] > x[:, 1:]).long()
        return out.scatter(1, right, torch.inf)


def test_outputs_that_are_not_finite_are_errors() -> None:
    x, y = rows(100)
    certificate = certify(Infinite(), (x, y), d=0)
    assert certificate.errors == 100
    assert verify(certificate, (x, y), arch=Infinite()).details["errors"] == 100
    goal = Goal("regression", 1, tolerance=1.0)
    for outputs in ([[torch.inf]], [[torch.nan]], [[-torch.inf]]):
        assert goal.wrong(torch.tensor(outputs), torch.zeros(1, 1)).tolist() == [True]
    labels = Goal("classification", 2)
    for first in (torch.inf, torch.nan):
        assert labels.wrong(torch.tensor([[first, 0.0]]), torch.tensor([0])).tolist() == [True]


def test_a_module_that_counts_its_calls() -> None:
    x, y = rows(200)

    class Counting(Told):
        def forward(self, x: Tensor) -> Tensor:
            self.calls += 1
            out: Tensor = self.linear(x)
            return out + (self.calls > 6)

    certificate = certify(Told(y[:0], []), (x, y), d=0)
    counting = Counting(y[:0], [])
    counting.__class__.__name__ = "Told"
    assert verify(certificate, (x, y), arch=counting).verdict == "rejected"


class Centred(nn.Module):
    """Looks at the other rows, and hides by how much behind a large number or in small ones."""

    def __init__(self, dummy: float, scale: float) -> None:
        super().__init__()
        self.linear, self.dummy, self.scale = nn.Linear(2, 2), dummy, scale
        nn.init.eye_(self.linear.weight)

    def forward(self, x: Tensor) -> Tensor:
        out = self.scale * self.linear(x - x.mean(0))
        return torch.cat([out, torch.full_like(out[:, :1], self.dummy)], 1)


@pytest.mark.parametrize(("dummy", "scale"), [(-1e12, 100.0), (-1e-9, 1e-10)])
def test_a_module_that_hides_what_it_sees_of_other_rows(dummy: float, scale: float) -> None:
    x, y = rows(300)
    y[0] = 2  # there is a third class
    with pytest.raises(ValueError, match="not a function of one input"):
        certify(Centred(dummy, scale), (x, y), d=0)


# --- prices ------------------------------------------------------------------------------------


def asks(text: str, shape: tuple[int, ...], d: int, projector: str = "kronecker") -> bytes:
    """A certificate of few bytes that names a network nobody trained."""
    x = torch.zeros(2, *shape) if shape else torch.zeros(2, 1)
    x[1] = 1
    y = torch.tensor([0, 1])
    symbols = np.zeros(d, np.int64)
    hypothesis = Hypothesis(
        architecture(text), Goal("classification", 2), symbols, np.ones(1, np.float16), projector
    )
    message = hypothesis.to_message()
    from isotropy.certificates._examples import examples

    claims = {"bound": 1.0, "kind": "binomial_tail", "errors": 2, "n": 2, "delta": 0.05}
    return Certificate(
        message, {**claims, "message_bits": 8 * len(message)}, examples((x, y)).digest(), text
    ).to_bytes()


PRICES: list[tuple[str, tuple[int, ...], int, str]] = [
    ("convnet-400", (1, 64, 64), 1, "kronecker"),
    ("convnet-440", (3, 256, 256), 1, "kronecker"),
    ("mlp-4096-4096-4096", (64,), 10**6, "kronecker-orthonormal"),
    ("mlp-4096-4096-4096", (64,), 2 * 10**6, "kronecker"),
    ("mlp-4096-4096-4096", (64,), 4000, "dense"),
    ("mlp-4096-4096", (64,), 2 * 10**5, "sparse"),
    ("mlp-4096-4096", (64,), 8000, "film"),
    ("resnet20-64", (3, 64, 64), 10**6, "film+kronecker"),
    ("lenet5 shared p4m", (1, 600, 600), 1, "kronecker"),
    ("mlp-64 shared S(4096)", (4096,), 1, "kronecker"),
    ("resnet20-200 equivariant p4m", (1, 32, 32), 1, "kronecker"),
]


@pytest.mark.parametrize("asked", PRICES, ids=lambda asked: f"{asked[0]}, {asked[3]} {asked[2]}")
def test_a_few_bytes_cannot_ask_for_much(asked: tuple[str, tuple[int, ...], int, str]) -> None:
    content = asks(*asked)
    assert len(content) < 600
    x = torch.zeros(2, *asked[1])
    x[1] = 1
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    verdict = verify(content, (x, torch.tensor([0, 1])), most_memory=200 * 10**6, most_time=2)
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert verdict.verdict == "rejected"
    assert "checking it takes about" in verdict.reason
    assert used < 200_000  # kilobytes


def test_generators_are_paid_for() -> None:
    """Of two places, each takes a bit of the message; orbits take a millisecond of each."""
    rng = np.random.default_rng(0)
    moves = [rng.permutation(4).tolist() for _ in range(100)]
    group = wreath(Group(moves, d=4), Trivial(16))
    made = Architecture("mlp", (64,), "shared", group)
    message = Hypothesis(made, Goal("classification", 2)).to_message()
    assert len(message) < 200
    x, y = torch.eye(64)[:2], torch.tensor([0, 1])
    claims = {"bound": 1.0, "kind": "binomial_tail", "errors": 2, "n": 2, "delta": 0.05}
    certificate = Certificate(
        message, {**claims, "message_bits": 8 * len(message)}, Examples(x, y).digest(), str(made)
    )
    verdict = verify(certificate, (x, y), most_time=2)
    assert "checking it takes about" in verdict.reason
    with pytest.raises(ValueError, match="at most 8192 generators"):
        Architecture("mlp", (400,), "shared", wreath(Group(moves, d=4), Trivial(100)))


def test_batches_adapt_to_memory() -> None:
    """One batch of all rows would take 700 MB."""
    rng = torch.Generator().manual_seed(0)
    x, y = torch.rand(60, 1, 200, 200, generator=rng), torch.arange(60) % 2
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    certificate = certify("convnet-2", (x, y), d=0)
    assert verify(certificate, (x, y), most_memory=5 * 10**8).verdict == "verified"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 450_000


def test_limits_are_said_and_can_be_raised() -> None:
    data = rows()
    certificate = certify("mlp-8", data, **QUICK)
    price = verification_price(certificate, data)
    refused = verify(certificate, data, most_time=price.seconds / 2)
    assert "(--most-time)" in refused.reason
    assert "(--most-memory)" in verify(certificate, data, most_memory=10**6).reason
    allowed = verify(certificate, data, most_time=price.seconds, most_memory=price.memory)
    assert allowed.verdict == "verified"
    with pytest.raises(ValueError, match="positive limits"):
        verify(certificate, data, most_time=0)


# --- resealed ------------------------------------------------------------------------------------


def test_one_bit_with_a_seal_that_is_right() -> None:
    """What is accepted is another honest network, or names the delta that was raised."""
    data = rows(120, seed=4)
    certificate = certify("mlp-6", data, **QUICK)
    body = certificate.to_bytes()[:-32]
    lower = {"verified": 0, "verified given": 0}
    for bit in itertools.chain(
        range(64, 8 * len(body), 43), range(8 * (len(body) - 20), 8 * len(body))
    ):
        changed = bytearray(body)
        changed[bit // 8] ^= 1 << bit % 8
        content = bytes(changed) + hashlib.sha256(changed).digest()
        verdict = verify(content, data)
        if verdict.verdict == "rejected" or verdict.bound >= certificate.bound:
            continue
        lower[verdict.verdict] += 1
        other = Certificate.from_bytes(content)
        if verdict.verdict == "verified given":
            assert other.delta > 0.05
        else:
            assert other.message != certificate.message
            assert verdict.details["errors"] < certificate.errors
    raised = replace(certificate, claims={**certificate.claims, "delta": 0.85})
    assert verify(raised.to_bytes(), data).verdict == "verified given"


@pytest.mark.parametrize("symmetry", [None, (), []])
def test_no_symmetry_in_any_spelling(symmetry: Any) -> None:
    data = rows(50)
    certificate = certify(own_module(), data, options=CertificationOptions(symmetry=symmetry), d=0)
    assert certificate.hypothesis().groups == ()
    with pytest.raises(TypeError, match="expected groups or their names as symmetry, got 3"):
        certify(own_module(), data, options=CertificationOptions(symmetry=[3]), d=0)  # type: ignore[list-item]
