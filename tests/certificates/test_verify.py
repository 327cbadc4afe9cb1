"""Forgeries with a seal that is right: every claim is computed anew, and little is spent on it."""

from __future__ import annotations

import resource
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import binom
from torch import Tensor, nn

from certificate_parts import BitWriter
from isotropy.certificates import (
    Certificate,
    CertificationOptions,
    Goal,
    Hypothesis,
    Verdict,
    architecture,
    certify,
    verify,
)

ROWS = 150
X = torch.randn(ROWS, 2, generator=torch.Generator().manual_seed(2))
SAMPLE = X, (X[:, 0] > X[:, 1]).long()
QUICK: dict[str, Any] = {"d": 6, "levels": 3, "epochs": 8, "quantised_epochs": 8}


@pytest.fixture(scope="module")
def certificate() -> Certificate:
    return certify("mlp-4", SAMPLE, **QUICK)


class Own(nn.Module):
    """A user's module that keeps running statistics."""

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.first = nn.Linear(2, width)
        self.norm = nn.BatchNorm1d(width)
        self.head = nn.Linear(width, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.norm(self.first(x)).relu())


@pytest.fixture(scope="module")
def transferred() -> Certificate:
    torch.manual_seed(0)
    return certify(Own(), SAMPLE, options=CertificationOptions(start="given"), **QUICK)


@pytest.fixture(scope="module")
def with_prior() -> Certificate:
    return certify("mlp-4", SAMPLE, prior_percent=40, prior_epochs=3, **QUICK)


def sent(certificate: Certificate, **options: Any) -> Verdict:
    """What whoever is sent the file finds."""
    return verify(certificate.to_bytes(), SAMPLE, **options)


def claiming(certificate: Certificate, **claims: Any) -> Certificate:
    return replace(certificate, claims={**certificate.claims, **claims})


def saying(certificate: Certificate, **changed: Any) -> Certificate:
    """Another message under the same claims, but for its length."""
    message = replace(certificate.hypothesis(), **changed).to_message()
    return claiming(replace(certificate, message=message), message_bits=8 * len(message))


# --- claims -----------------------------------------------------------------------------------


def test_an_honest_certificate_is_valid(certificate: Certificate) -> None:
    verdict = sent(certificate)
    assert verdict.valid
    assert verdict.bound == certificate.bound
    assert verdict.reason.endswith("with probability 0.95")
    assert verdict.details["errors"] == certificate.errors
    assert verdict.details["goal"] == "classification"
    assert len(verdict.assumes) == 1
    # at the bound, so few errors have the probability δ · 2^(-bits)
    tail = binom.logcdf(certificate.errors, ROWS, verdict.bound)
    bits = 8 * len(certificate.message)
    assert tail == pytest.approx(np.log(0.05) - bits * np.log(2), rel=1e-9)


@pytest.mark.parametrize(
    ("claims", "sentence"),
    [
        ({"bound": 0.01}, r"claims a bound of 1\.0000 %, the bytes and the data give a bound of"),
        ({"errors": 0}, r"claims 0 errors, the bytes and the data give \d+ errors"),
        ({"message_bits": 8}, r"claims 8 message bits, the bytes and the data give"),
        ({"n": 10 * ROWS}, r"claims 1500 rows, the bytes and the data give 150 rows"),
        ({"n": ROWS - 1}, r"claims 149 rows"),
        ({"delta": 0.01}, r"claims a bound of"),
        ({"kind": "kl_inverse"}, r"another kind of bound than the binomial_tail"),
    ],
    ids=["bound", "errors", "bits", "more rows", "fewer rows", "delta", "kind"],
)
def test_claims_are_computed_anew(
    certificate: Certificate, claims: Mapping[str, Any], sentence: str
) -> None:
    verdict = sent(claiming(certificate, **claims))
    assert not verdict
    with pytest.raises(ValueError, match=sentence):
        raise ValueError(verdict.reason)


def test_a_claim_that_is_no_number_is_not_met(certificate: Certificate) -> None:
    assert not verify(claiming(certificate, bound=float("nan")), SAMPLE)


def test_weaker_claims_hold(certificate: Certificate) -> None:
    for weaker in ({"bound": 0.99}, {"delta": 0.01, "bound": 0.99}, {"errors": ROWS}):
        verdict = sent(claiming(certificate, **weaker))
        assert verdict.verdict == "verified"
        assert verdict.bound is not None
        assert verdict.bound <= certificate.bound + (0.01 if "delta" in weaker else 0)


def test_a_larger_delta_is_named_or_refused(certificate: Certificate) -> None:
    """Chosen after the fact, it lowers the bound of the same network."""
    raised = claiming(certificate, delta=0.45)
    verdict = sent(raised)
    assert verdict.verdict == "verified given"
    assert not verdict
    assert not verdict.valid
    assert "delta = 0.45" in verdict.reason
    assert "delta = 0.45" in verdict.assumes[1]
    assert sent(raised, delta=0.05).verdict == "rejected"
    assert sent(raised, delta=0.05).reason == "its delta is 0.45, more than 0.05"
    assert sent(raised, delta=0.45).verdict == "verified"
    assert sent(certificate, delta=0.05).verdict == "verified"
    assert sent(certificate, delta=0.01).verdict == "rejected"
    with pytest.raises(ValueError, match="delta"):
        sent(certificate, delta=1.5)


def test_other_data_are_rejected(certificate: Certificate) -> None:
    x, y = SAMPLE
    moved = x.clone()
    moved[0, 0] = torch.nextafter(moved[0, 0], torch.tensor(9.0))
    order = torch.arange(ROWS).roll(1)
    for other in ((x, 1 - y), (moved, y), (x[:-1], y[:-1]), (x.double(), y), (x[order], y[order])):
        verdict = verify(certificate, other)
        assert not verdict
        assert verdict.bound is None
        assert verdict.reason.startswith("the data are not those of the certificate")


# --- messages ---------------------------------------------------------------------------------


def test_any_changed_weight_is_counted_anew(certificate: Certificate) -> None:
    hypothesis = certificate.hypothesis()
    errors = set()
    for place in range(hypothesis.d):
        symbols = hypothesis.symbols.copy()
        symbols[place] = (symbols[place] + 1) % len(hypothesis.codebook)
        forged = claiming(saying(certificate, symbols=symbols), bound=1.0, errors=ROWS)
        verdict = sent(forged)
        assert verdict
        network = forged.hypothesis().network(architecture("mlp-4").build((2,), 2))
        with torch.no_grad():
            wrong = int((network(X.double()).argmax(1) != SAMPLE[1]).sum())
        assert verdict.details["errors"] == wrong
        errors.add(wrong)
    assert len(errors) > 1


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"architecture": architecture("mlp-5")}, "its message is of 'mlp-5'"),
        ({"goal": Goal("classification", 1)}, "the network and the data do not fit: expected lab"),
        ({"goal": Goal("regression", 2, 1.0)}, "the network and the data do not fit: expected"),
        ({"start": "rows", "percent": 30}, "holds 0 bytes of start, its network needs 88"),
        ({"start": "given"}, "holds 0 bytes of start"),
        ({"symbols": np.zeros(23, int)}, "the message has 23 weights for 22 parameters"),
        ({"symbols": np.zeros(12, int), "projector": "film"}, "expected at most 10 dimensions"),
        ({"symbols": np.zeros(12, int), "projector": "kronecker-sum"}, "at most 9 dimensions"),
    ],
    ids=["model", "classes", "goal", "rows", "given", "too many", "film", "sum"],
)
def test_messages_that_do_not_fit(
    certificate: Certificate, changed: dict[str, Any], sentence: str
) -> None:
    verdict = sent(saying(certificate, **changed))
    assert not verdict
    assert sentence in verdict.reason


def test_a_message_with_more_behind_it_is_rejected(certificate: Certificate) -> None:
    longer = replace(certificate, message=certificate.message + b"\0")
    assert sent(longer).reason == "expected the end of the message, got more bits"


def test_a_start_without_use_is_rejected(certificate: Certificate) -> None:
    assert "has no use for" in sent(replace(certificate, start=bytes(88))).reason
    assert "has no use for" in sent(replace(certificate, model_digest="0" * 64)).reason


# --- cost -------------------------------------------------------------------------------------


def enormous(
    widths: tuple[int, ...] = (4,),
    outputs: int = 2,
    d: int = 0,
    projector: int = 3,
    levels: int = 1,
) -> bytes:
    """A message of a few bytes, written field by field past what the library writes."""
    writer = BitWriter()
    writer.bits("0001")
    writer.natural(len(widths) - 1)
    for width in widths:
        writer.natural(width - 1)
    writer.bits("00")
    writer.natural(outputs)
    writer.bits("000")
    writer.natural(0)
    writer.natural(d)
    if d:
        writer.natural(projector)
        writer.natural(levels)
        writer.bits("1")  # a symmetric codebook: of one level, zero
    return writer.to_bytes()


@pytest.mark.parametrize(
    ("message", "sentence"),
    [
        (enormous(widths=(4096,) * 16), "expected at most 50000000 parameters"),
        (enormous(widths=(4096,), outputs=65536), "expected at most 50000000 parameters"),
        (enormous(widths=(2**60,)), "expected a number of at most 4095, got a larger one"),
        (enormous(widths=(4,) * 999), "expected a number of at most 15, got a larger one"),
        (enormous(outputs=2**62), "expected a number of at most 65536, got a larger one"),
        (enormous(d=2**21 + 1), "expected a number of at most 2097152, got a larger one"),
        (enormous(d=2**21), "the message has 2097152 weights for 22 parameters"),
        (enormous(d=2**200), "got a larger one"),
        (enormous(d=9, levels=257), "expected a number of at most 256, got a larger one"),
        (enormous(d=9, levels=256), "more bits, got the end of the message"),
        (enormous(d=9, levels=0), "the message has weights but no levels for them"),
        (enormous(d=9, projector=99), "got a larger one"),
        (enormous(widths=(2048, 2048), d=2**20), "checking it takes about"),
        (enormous(widths=(2048, 2048), d=2**21, projector=4), "sparse projector of at most"),
        (enormous(widths=(3000,), outputs=500, d=2**20, projector=6), "checking it takes about"),
        (b"\0" * (1 << 18), "got a longer"),
        (b"\xff" * (1 << 18), "names a network without outputs"),
        (b"", "expected 1 more bits, got the end of the message"),
    ],
    ids=[
        *("parameters", "outputs", "width", "depth", "classes", "dimension", "weights", "huge"),
        *("levels", "codebook", "no levels", "projector", "dense", "sparse", "film"),
        *("zeros", "ones", "empty"),
    ],
)
def test_a_few_bytes_cannot_ask_for_much(
    certificate: Certificate, message: bytes, sentence: str
) -> None:
    try:
        model = str(Hypothesis.from_message(message).architecture)
    except ValueError:
        model = certificate.model
    forged = replace(certificate, message=message, model=model)
    before = resource.getrusage(resource.RUSAGE_SELF)
    verdict = sent(forged)
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before.ru_maxrss
    assert used < 500_000  # kilobytes
    assert not verdict
    assert sentence in verdict.reason


# --- starts and modules -----------------------------------------------------------------------


def test_an_altered_start_is_counted_anew(transferred: Certificate) -> None:
    assert sent(transferred, arch=Own()).verdict == "verified given"
    numbers = np.frombuffer(transferred.start, "<f4").copy()
    numbers[20:28] *= -1  # the head's weights, after 12 and 8 others
    verdict = sent(replace(transferred, start=numbers.tobytes()), arch=Own())
    own = Own().double().eval()
    places = {name: torch.zeros_like(p) for name, p in own.named_parameters()}
    network = transferred.hypothesis().network(own, places)
    moves = network.parameters_at(network.weights)
    values = torch.tensor(numbers[:30]).double().split([8, 4, 4, 4, 8, 2])
    with torch.no_grad():
        for (name, parameter), value in zip(own.named_parameters(), values, strict=True):
            parameter.copy_(value.view(parameter.shape) + moves[name])
        wrong = int((own(X.double()).argmax(1) != SAMPLE[1]).sum())
    assert verdict.details["errors"] == wrong != transferred.errors
    assert (verdict.verdict != "rejected") == (wrong < transferred.errors)
    zeros = replace(transferred, start=bytes(len(transferred.start)))
    assert sent(zeros, arch=Own()).verdict == "rejected"
    shorter = replace(transferred, start=transferred.start[:-4])
    assert "bytes of start" in sent(shorter, arch=Own()).reason


def test_a_start_is_compared_with_a_checkpoint(
    transferred: Certificate, certificate: Certificate
) -> None:
    model = Own()
    numbers = np.frombuffer(transferred.start, "<f4")
    own = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    real = {name: tensor for name, tensor in own.items() if tensor.is_floating_point()}
    sizes = np.cumsum([tensor.numel() for tensor in real.values()])[:-1]
    start = {
        name: torch.tensor(part).reshape(tensor.shape)
        for (name, tensor), part in zip(real.items(), np.split(numbers, sizes), strict=True)
    }
    checked = sent(transferred, arch=model, checkpoint=start)
    assert checked.verdict == "verified given"  # the module, but not its start
    assert len(checked.assumes) == len(sent(transferred, arch=model).assumes) - 1
    other = {**start, "head.bias": start["head.bias"] + 1}
    verdict = sent(transferred, arch=model, checkpoint=other)
    assert verdict.reason == "the start in the certificate is not the checkpoint given"
    with pytest.raises(ValueError, match=r"expected 'head.bias' in the checkpoint, got none"):
        sent(
            transferred,
            arch=model,
            checkpoint={name: start[name] for name in start if name != "head.bias"},
        )
    with pytest.raises(ValueError, match=r"got one with 'tail' of shape \(2,\)"):
        sent(transferred, arch=model, checkpoint={**start, "tail": torch.zeros(2)})
    with pytest.raises(ValueError, match=r"expected no checkpoint for a certificate whose start"):
        sent(certificate, checkpoint=start)


def test_running_statistics_never_leave_the_start(transferred: Certificate) -> None:
    hypothesis = transferred.hypothesis()
    model = Own()
    network = hypothesis.network(model, None).train()
    network(X.double())
    tensors = network.tensors_at(network.weights)
    assert torch.equal(tensors["norm.running_mean"], torch.zeros(4, dtype=torch.float64))
    assert torch.equal(tensors["norm.running_var"], torch.ones(4, dtype=torch.float64))
    # means and variances are among the numbers of the start: 12 + 8 + 10 weights, then 8
    kept = np.frombuffer(transferred.start, "<f4")[30:]
    np.testing.assert_array_equal(kept, [0] * 4 + [1] * 4)


def test_the_module_must_be_that_of_the_certificate(
    transferred: Certificate, certificate: Certificate
) -> None:
    sentence = r"^expected the architecture of 'Own', which is not in the catalogue; give it with "
    with pytest.raises(ValueError, match=sentence):
        sent(transferred)
    with pytest.raises(ValueError, match=r"expected no architecture for a certificate of mlp-4"):
        sent(certificate, arch=Own())
    assert sent(transferred, arch=Own(5)).reason == (
        "the architecture given is not the one of the certificate"
    )
    trained = Own()
    trained.norm.running_mean.add_(1)  # type: ignore[operator]
    assert not sent(transferred, arch=trained)
    renamed = replace(transferred, model="resnet20")
    assert not sent(renamed, arch=Own())
    assert not sent(replace(transferred, model_digest=None), arch=Own())
    assert any(
        "without looking at the rows" in one for one in sent(transferred, arch=Own()).assumes
    )


def test_a_share_of_the_rows_is_part_of_the_message(with_prior: Certificate) -> None:
    verdict = sent(with_prior)
    assert verdict.verdict == "verified given"
    assert verdict.details["n"] == with_prior.n == 90
    assert verdict.details["start"] == "rows"
    assert any("40 %" in one for one in verdict.assumes)
    altered = saying(with_prior, percent=1)
    assert sent(altered).reason.startswith("the certificate claims 90 rows, ")
    assert "rows on both sides of 0 %" in sent(saying(with_prior, percent=0)).reason
    # without the share, all rows would be certified with a start that has seen some of them
    whole = saying(with_prior, start="given", percent=None)
    assert sent(whole).verdict == "rejected"
    assert "fixed before" in sent(claiming(whole, n=ROWS, bound=1.0, errors=ROWS)).assumes[1]


def test_a_regression_says_what_an_error_is() -> None:
    data = X, (X[:, :1] - X[:, 1:]).sin()
    certificate = certify("mlp-4", data, options=CertificationOptions(tolerance=0.5), **QUICK)
    verdict = verify(certificate.to_bytes(), data)
    assert verdict.reason.startswith("risk of missing by more than 0.5 at most ")
    assert verdict.details["tolerance"] == 0.5
    generous = replace(certificate.hypothesis(), goal=Goal("regression", 1, 1000.0))
    message = generous.to_message()
    verdict = verify(
        claiming(replace(certificate, message=message), message_bits=8 * len(message)), data
    )
    # not a lie, and not to be mistaken for the other
    assert verdict
    assert "by more than 1000 " in verdict.reason
