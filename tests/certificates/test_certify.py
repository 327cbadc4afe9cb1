"""From data to certificates, through the public names."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import binom
from torch import Tensor, nn

import isotropy
from code_lengths import codebook_bits, sequence_bits
from isotropy.certificates import (
    Certificate,
    CertificationOptions,
    Goal,
    Hypothesis,
    Recipe,
    architecture,
    certify,
    smallest_bound,
    verify,
)


def half_plane(n: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    x = torch.randn(n, 2, generator=torch.Generator().manual_seed(seed))
    return x, (x[:, 0] > x[:, 1]).long()


@pytest.fixture(scope="module")
def certificate() -> Certificate:
    return certify("mlp-16", half_plane(1000), d=10, levels=4, epochs=20, quantised_epochs=10)


def test_a_certificate_verifies_and_is_worth_something(certificate: Certificate) -> None:
    verdict = verify(certificate.to_bytes(), half_plane(1000))
    assert verdict
    assert verdict.bound == certificate.bound < 0.3
    x, y = half_plane(20_000, seed=1)
    hypothesis = certificate.hypothesis()
    network = hypothesis.network(architecture("mlp-16").build((2,), 2))
    risk = float(hypothesis.goal.wrong(network(x.double()), y).double().mean())
    assert risk < certificate.bound


def test_the_bound_is_that_of_its_own_numbers(certificate: Certificate) -> None:
    alone = smallest_bound(
        certificate.errors, 1000, 8 * len(certificate.message), 0.05, kinds=("binomial_tail",)
    )
    assert certificate.bound == alone.value
    # an independent tail: at the bound, so few errors are as unlikely as δ over the message's prior
    tail = binom.logcdf(certificate.errors, 1000, certificate.bound)
    wanted = math.log(0.05) - 8 * len(certificate.message) * math.log(2)
    assert tail == pytest.approx(wanted, abs=1e-6)


def test_the_message_costs_its_entropy_and_what_goes_beside() -> None:
    rng = np.random.default_rng(0)
    levels = np.linspace(-1, 1, 7).astype(np.float16)
    shares = np.array([1, 3, 8, 12, 8, 3, 1]) / 36
    symbols = rng.choice(7, 1000, p=shares)
    net = Hypothesis(architecture("lenet5"), Goal("classification", 10), symbols, levels)
    counts = np.bincount(symbols, minlength=7)
    entropy = -float((counts / 1000 * np.log2(counts / 1000)).sum())
    bits = 8 * len(net.to_message())
    fields = 3 + 1 + 1 + 7 + 1 + 2 + 1 + 16 + 1 + 7  # architecture … levels, at most
    side = codebook_bits(levels) + fields + 7  # and the padding
    assert bits <= sequence_bits(symbols, 7) + side
    counted = math.comb(1006, 6).bit_length() + 1
    assert bits <= math.ceil(1000 * entropy) + counted + side
    again = Hypothesis.from_message(net.to_message())
    assert again.symbols.tolist() == symbols.tolist()
    assert again.codebook.tolist() == levels.tolist()


def test_the_same_seed_gives_the_same_bytes() -> None:
    made = [
        certify("mlp-8", half_plane(300), d=4, levels=3, epochs=3, quantised_epochs=3, seed=seed)
        for seed in (5, 5, 6)
    ]
    assert made[0].to_bytes() == made[1].to_bytes()
    assert made[0].message != made[2].message


def test_an_interrupted_run_goes_on_to_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("isotropy.certificates._descent._SECONDS_BETWEEN_SAVES", 0.0)
    settings: dict[str, Any] = {"d": 6, "levels": 3, "epochs": 4, "quantised_epochs": 4}
    data, kept = half_plane(400), CertificationOptions(checkpoints=tmp_path)
    whole = certify("mlp-8", data, **settings)
    for stop in (2, 6):
        seen = 0

        def interrupt(step: object, stop: int = stop) -> None:
            nonlocal seen
            seen += 1
            if seen == stop:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            certify("mlp-8", data, options=kept, progress=interrupt, **settings)
        assert any(tmp_path.iterdir())
    assert certify("mlp-8", data, options=kept, **settings).message == whole.message


def test_a_share_of_the_rows_trains_the_start(certificate: Certificate) -> None:
    data = half_plane(1000)
    given = certify("mlp-16", data, d=0, prior_percent=50, prior_epochs=20)
    assert given.n == 500
    assert given.message_bits < 64 < certificate.message_bits
    verdict = verify(given, data)
    assert verdict.verdict == "verified given"
    assert any("50 %" in assumed for assumed in verdict.assumes)
    assert given.bound < certificate.bound


def test_transfer_stores_its_start(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.BatchNorm1d(8), nn.Linear(8, 2))
    model[2].running_mean.normal_()
    data = half_plane(400)
    few: dict[str, Any] = {"d": 5, "levels": 3, "epochs": 1, "quantised_epochs": 1}
    paid = CertificationOptions(start="given", symmetry="Z(2)")
    made = certify(model, data, options=paid, **few)
    made.save(tmp_path / "cert.iso")
    verdict = verify(tmp_path / "cert.iso", data, arch=model)
    assert verdict.verdict == "verified given", verdict.reason
    assert len(verdict.assumes) == 4
    plain = certify(model, data, options=CertificationOptions(start="given"), **few)
    assert plain.message_bits <= made.message_bits
    hypothesis = made.hypothesis()
    assert [str(group) for group in hypothesis.groups] == ["Z(2)"]


def test_a_symmetry_of_the_catalogue_is_paid_for() -> None:
    plain, turned = architecture("lenet5"), architecture("lenet5 equivariant p4")
    named = isotropy.groups.code_length(isotropy.groups.p4(3))
    assert turned.code_length == plain.code_length + 1 + named


def test_regressions_are_certified_by_a_tolerance() -> None:
    x, _ = half_plane(1500)
    y = 30 * (x[:, :1] - x[:, 1:])
    options = CertificationOptions(tolerance=20.0, input_scale=1.0)
    made = certify("mlp-16", (x, y), options=options, d=12, epochs=20, quantised_epochs=10)
    assert made.bound < 0.5
    assert verify(made, (x, y)).valid


def test_shuffled_labels_are_never_below_chance() -> None:
    x, _ = half_plane(600)
    labels = torch.randint(0, 2, (600,), generator=torch.Generator().manual_seed(3))
    for d in (5, 60):
        assert certify("mlp-32", (x, labels), d=d, epochs=15, quantised_epochs=5).bound > 0.5


def test_a_thousandth_of_a_minute_shortens_the_schedule() -> None:
    made = certify("mlp-8", half_plane(400), d=5, levels=3, minutes=0.001)
    assert made.bound <= 1


def _noise(seed: int, n: int) -> tuple[Tensor, Tensor]:
    """Labels by the toss of a coin: the risk of any network is exactly a half."""
    draw = torch.Generator().manual_seed(seed)
    return torch.randn(n, 20, generator=draw), torch.randint(0, 2, (n,), generator=draw)


def test_real_certificates_cover_the_known_risk() -> None:
    """A few, here; `benchmarks/coverage.py` makes a thousand, test_coverage.py a thousand codes."""
    count = 15
    failed, uncharged = 0, 0
    for seed in range(count):
        made = certify(
            "mlp-16", _noise(seed, 60), d=60, levels=5, epochs=40, quantised_epochs=20, batch=20
        )
        free = smallest_bound(made.errors, 60, 0, 0.05, kinds=("binomial_tail",))
        failed += made.bound < 0.5
        uncharged += free.value < 0.5
    assert failed <= binom.ppf(0.9999, count, 0.05)
    # the networks do learn their rows by heart: what charges nothing for the message fails
    assert uncharged > binom.ppf(0.9999, count, 0.05)


def test_a_start_must_fit_and_its_rest_is_drawn() -> None:
    model = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 2))
    data = half_plane(200)
    few: dict[str, Any] = {"d": 2, "levels": 2, "epochs": 1, "quantised_epochs": 1}
    for start in ({"0.weigth": torch.zeros(8, 2)}, {"0.weight": torch.zeros(2, 8)}):
        with pytest.raises(ValueError, match=r"expected a start with the names and shapes"):
            certify(model, data, options=CertificationOptions(start=start), **few)
    torch.manual_seed(1)
    ones = CertificationOptions(start={"0.weight": torch.ones(8, 2)})
    one = certify(model, data, options=ones, **few)
    for parameter in model.parameters():
        nn.init.normal_(parameter)
    assert certify(model, data, options=ones, **few).start == one.start


def test_trained_statistics_are_not_taken_along() -> None:
    model = nn.Sequential(nn.Linear(2, 8), nn.BatchNorm1d(8), nn.Linear(8, 2))
    model(torch.randn(50, 2))
    with pytest.raises(ValueError, match=r"running statistics as constructed, got 1.num_batches"):
        certify(model, half_plane(200), d=2, epochs=1)


def test_constants_of_a_module_are_part_of_its_hash() -> None:
    def net(slope: float) -> nn.Module:
        return nn.Sequential(nn.Linear(2, 8), nn.PReLU(init=slope), nn.Linear(8, 2))

    data = half_plane(200)
    made = certify(net(0.1), data, d=2, levels=2, epochs=1, quantised_epochs=1)
    assert verify(made, data, arch=net(0.1)).verdict == "verified given"
    assert "not the one of the certificate" in verify(made, data, arch=net(0.2)).reason


def test_other_names_for_the_classes_are_rejected(tmp_path: Path) -> None:
    x, y = half_plane(300)
    files = {}
    for name, words in (("pets", ("cat", "dog")), ("birds", ("crow", "duck"))):
        rows = [f"{a},{b},{words[k]}" for (a, b), k in zip(x.tolist(), y.tolist(), strict=True)]
        files[name] = tmp_path / f"{name}.csv"
        files[name].write_text("\n".join(["a,b,kind", *rows]))
    pets, birds = (isotropy.data.load(path, target="kind") for path in files.values())
    made = certify("mlp-8", pets, d=3, levels=2, epochs=1, quantised_epochs=1)
    assert verify(made, pets).valid
    assert verify(made, birds).reason == "the classes of the data are not those of the certificate"


def test_more_groups_than_can_be_read_are_refused_before_training() -> None:
    many = CertificationOptions(symmetry=["Z(2)"] * 17)
    with pytest.raises(ValueError, match=r"expected at most 16 groups, got 17"):
        certify(nn.Linear(2, 2), half_plane(100), options=many, d=2)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"delta": 0.0}, r"expected delta between 0 and 1, got 0.0"),
        ({"delta": 1.0}, r"expected delta between 0 and 1, got 1.0"),
        ({"model": nn.ReLU()}, r"expected a model with parameters, got ReLU with none"),
        ({"classes": 1}, r"expected labels from 0 to 0, got labels from 0 to 1"),
        ({"d": 100_000}, r"expected at most \d+ dimensions, all the parameters, got 100000"),
        ({"levels": 0}, r"expected 1 to 256 levels, got 0"),
        ({"prior_percent": 100}, r"expected a share of 1 to 99 percent, got 100"),
        ({"prior_percent": 50, "start": "zero"}, r"expected a start or a share of rows"),
        ({"start": "fresh"}, r"expected start 'given', 'zero' or tensors, got 'fresh'"),
        ({"tolerance": 1.0}, r"expected a tolerance for a regression, got one with labels"),
        ({"symmetry": "Z(2)"}, r"expected no symmetry for mlp-8, which pays for its own"),
        ({"epoch": 3}, r"expected a setting of the recipe \(d, levels, .*\), got 'epoch'"),
        ({"epochs": -1}, r"expected epochs of at least 0, got -1"),
        ({"rate": 0.0}, r"expected a positive rate, got 0.0"),
        ({"batch": 0}, r"expected batches of at least 1 row, got 0"),
        (
            {"model": "lenet6"},
            r"expected a network among mlp, .*, got 'lenet6'",
        ),
        ({"model": "lenet5"}, r"expected inputs \(channels, h, w\) for lenet5, got shape \(2,\)"),
        ({"optimiser": "lion"}, r"expected the optimiser adam or sgd, got 'lion'"),
        ({"codebook": "random"}, r"expected the start uniform or kmeans, got 'random'"),
        ({"projector": "magic", "prior_percent": 50}, r"expected a projector among kronecker"),
        ({"prior_percent": 33.5}, r"expected a share of 1 to 99 percent, got 33.5"),
        ({"model": nn.Linear(2, 5)}, r"outputs of shape \(5, 2\) for 5 rows, got \(5, 5\)"),
        ({"input_scale": -1.0}, r"expected a positive number below 65504, got -1.0"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_bad_input(change: dict[str, Any], sentence: str) -> None:
    arguments = {"model": "mlp-8", "d": 3, "epochs": 1, "quantised_epochs": 1, **change}
    model = arguments.pop("model")
    fields = CertificationOptions.__dataclass_fields__
    given: dict[str, Any] = {name: arguments.pop(name) for name in fields if name in arguments}
    with pytest.raises(ValueError, match=sentence):
        certify(model, half_plane(100), options=CertificationOptions(**given), **arguments)


def test_keywords_that_became_options_work_and_warn() -> None:
    data, few = half_plane(100), {"d": 3, "epochs": 1, "quantised_epochs": 1}
    with pytest.warns(DeprecationWarning, match=r"certify\(classes=…\) is now certify\(options="):
        old = certify("mlp-8", data, classes=4, **few)
    new = certify("mlp-8", data, options=CertificationOptions(classes=4), **few)
    assert old.to_bytes() == new.to_bytes()


def test_numbers_need_a_tolerance() -> None:
    x, _ = half_plane(100)
    with pytest.raises(ValueError, match=r"expected labels, or for a regression a tolerance"):
        certify("mlp-8", (x, x[:, :1]))


def test_recipes_fill_themselves_in() -> None:
    assert Recipe().on(60_000).epochs == 30
    assert Recipe().on(60_000).batch == 500
    assert Recipe().on(1000).batch == 50
    assert Recipe(batch=None).on(1000).epochs == 3000
