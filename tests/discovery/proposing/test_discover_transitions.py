"""Symmetries of logged transitions: planted ones, broken ones, noise, and a simulator's."""

import html
import json

import numpy as np
import pytest
import torch

import isotropy.discovery
from isotropy.cli import run
from isotropy.data import Transitions
from isotropy.discovery import DiscoverOptions, Findings, discover
from isotropy.groups import parse_group
from isotropy.nn import symmetric_network
from isotropy.report import write_finding_page


def limbs(rows=1500, seed=0, uneven=0.0):
    """A body with a roll and two limbs that push it over, each with a motor of its own.

    Its mirror exchanges limbs and motors and turns the roll around; ``uneven`` breaks it.
    """
    rng = torch.Generator().manual_seed(seed)
    s, a = torch.randn(rows, 5, generator=rng), torch.rand(rows, 2, generator=rng) * 2 - 1
    roll, left, right, left_rate, right_rate = s.T
    push = left - right
    rates = [
        a[:, 0] - left + 0.3 * roll * left_rate,
        (1 - uneven) * a[:, 1] - right - 0.3 * roll * right_rate,
    ]
    change = torch.stack([0.5 * push - 0.2 * roll, left_rate, right_rate, *rates], 1)
    ahead = s + 0.1 * change + 0.0005 * torch.randn(rows, 5, generator=rng)
    return Transitions(s, a, ahead)


NAMES = (["roll", "left", "right", "left rate", "right rate"], ["left motor", "right motor"])
MIRROR = "−roll, left ↔ right, left rate ↔ right rate, left motor ↔ right motor"


@pytest.fixture(scope="module")
def found():
    return discover(limbs(rows=900), options=DiscoverOptions(entry_names=NAMES))


def test_the_mirror_is_found_and_named(found):
    assert len(found) == 1
    finding = found[0]
    assert finding.name == "Z(2), signed permutations of observations and actions"
    assert finding.action == MIRROR
    assert finding.confirmed
    assert finding.p_value < 1e-3
    assert finding.effect < 0.01
    assert finding.order == 2
    assert finding.method == "transitions"
    assert str(finding.symmetry) == "Z(2): Pseudoscalar+3*V >> Pseudoscalar+2*V"
    (h,) = finding.symmetry.group.discrete
    x = torch.arange(1.0, 8.0).double()
    assert finding.symmetry.apply(h, x).tolist() == [-1, 3, 2, 5, 4, 7, 6]
    assert finding.symmetry.apply_out(h, x[:5]).tolist() == [-1, 3, 2, 5, 4]


def test_its_model_has_the_symmetry_and_predicts(found, tmp_path):
    finding = found[0]
    fresh = limbs(seed=5)
    x = torch.cat([fresh.observations, fresh.actions], 1)
    (h,) = finding.symmetry.group.discrete
    predicted = finding.predict(x)
    moved = finding.predict(finding.symmetry.apply(h, x))
    expected = finding.symmetry.apply_out(h, torch.from_numpy(predicted)).numpy()
    assert np.abs(moved - expected).max() < 1e-5
    assert finding.equivariance_error < 1e-5
    change = (fresh.next_observations - fresh.observations).numpy()
    assert ((predicted - change) ** 2).sum() < 0.1 * (change**2).sum()
    again = Findings.load(found.save(tmp_path))[0]
    assert np.allclose(again.predict(x), predicted, atol=1e-6)
    assert again.action == finding.action


def test_its_model_is_held_against_a_free_one_on_rows_of_the_test(found):
    comparison = found[0].comparison
    assert comparison.loss == "squared error of an entry in deviations, nine at most"
    assert (comparison.samples, comparison.fitted) == (270, 630)  # of 900 rows
    assert comparison.strict < 0.01 * comparison.constant
    assert comparison.free < 0.01 * comparison.constant


def test_entries_of_other_means_and_sizes_have_a_model_with_the_symmetry():
    # means and units of the network inside must be those of what the mirror exchanges
    log, far = limbs(rows=600), torch.tensor([0.0, 20.0, 20.0, 0.0, 0.0])
    units = torch.tensor([3.0, 5.0, 5.0, 1.0, 1.0])
    s, ahead = (far + units * part for part in (log.observations, log.next_observations))
    (finding,) = discover(Transitions(s, log.actions, ahead))
    assert finding.action == "−o0, o1 ↔ o2, o3 ↔ o4, a0 ↔ a1"
    assert finding.equivariance_error < 1e-5
    assert finding.comparison.strict < 0.05 * finding.comparison.constant


def test_the_old_name_does_the_same(found):
    with pytest.warns(DeprecationWarning, match="discover"):
        discover_transitions = isotropy.discovery.discover_transitions  # type: ignore[attr-defined]
    names = {"observation_names": NAMES[0], "action_names": NAMES[1]}
    steps = []
    same = discover_transitions(
        limbs(rows=900), **names, fit_models=False, progress=lambda step: steps.append(step.message)
    )
    assert [(one.action, one.p_value) for one in same] == [(MIRROR, found[0].p_value)]
    assert same.tried == found.tried
    assert same.notes == found.notes
    assert "testing claims" in steps


def test_its_network_is_the_symmetric_one(found):
    network = found[0].model.model
    like = symmetric_network(found[0].symmetry, "equivariant", widths=(254, 254))
    shapes = [{k: v.shape for k, v in one.state_dict().items()} for one in (network, like)]
    assert shapes[0] == shapes[1]


def test_the_page_names_entries_and_its_lines_load_the_model(found, tmp_path):
    page = write_finding_page(found, found.save(tmp_path) / "report.html").read_text()
    assert MIRROR in page
    assert "<image" not in page  # there are no weights to picture
    code = html.unescape(page.split("<pre><code>")[1].split("</code>")[0])
    names: dict[str, object] = {}
    exec(code, names)
    assert names["y"].shape == (5, 5)  # type: ignore[attr-defined]


def test_a_motor_that_pulls_half_as_much_breaks_the_mirror():
    found = discover(limbs(uneven=0.5), fit_models=False)
    assert not len(found)


def test_noise_has_no_symmetry():
    rng = torch.Generator().manual_seed(0)
    s, a = torch.randn(1500, 3, generator=rng), torch.randn(1500, 2, generator=rng)
    found = discover(Transitions(s, a, torch.randn(1500, 3, generator=rng) + s), fit_models=False)
    assert not len(found)
    assert not found.trivial
    assert any("nothing can be claimed" in note for note in found.notes)


def test_one_sided_logs_cannot_tell_and_idle_motors_are_trivial():
    rng = torch.Generator().manual_seed(0)
    s, a = torch.randn(2000, 2, generator=rng), torch.randn(2000, 2, generator=rng)
    s[:, 0] = s[:, 0].abs() + 0.5
    angle, rate = s.T
    ahead = s + 0.1 * torch.stack([rate, a[:, 0] - 2 * angle], 1)
    found = discover(Transitions(s, a, ahead), fit_models=False)
    # the law is odd in (angle, rate, motor), but no row has a negative angle
    assert not any("−o0" in finding.action for finding in found)
    assert [one.trivial for one in found.trivial] == ["no increment depends on a1"]
    assert all(parse_group(one.group).order() == 2 for one in found.trivial)


def switched_together(rows=2500, apart=0.1, seed=0):
    """Two motors of which one does a fifth of what the other does, both on or off as a rule."""
    rng = torch.Generator().manual_seed(seed)
    s = torch.randn(rows, 3, generator=rng)
    first = torch.sign(s[:, 0] + 0.3 * torch.randn(rows, generator=rng))
    differs = torch.rand(rows, generator=rng) < apart
    a = torch.stack([first, torch.where(differs, -first, first)], 1)
    a = a + 0.02 * torch.randn(rows, 2, generator=rng)
    change = torch.stack([s[:, 1], a[:, 0] + 0.2 * a[:, 1], s[:, 0] - s[:, 2] ** 2], 1)
    return Transitions(s, a, s + 0.1 * change + 0.0005 * torch.randn(rows, 3, generator=rng))


def test_motors_that_are_switched_together_are_not_exchanged():
    found = discover(switched_together(), fit_models=False)
    assert not any("a0" in finding.action for finding in found)
    (tried,) = (one for one in found.tried if one["name"].endswith(": a0 ↔ a1"))
    assert tried["effect"] < 0.01  # it costs next to nothing where the log has both
    assert tried["p_value"] > 0.5


def test_pendulum_of_a_simulator():
    gymnasium = pytest.importorskip("gymnasium")
    env = gymnasium.make("Pendulum-v1")
    env.action_space.seed(0)
    rows = []
    for episode in range(15):
        s, _ = env.reset(seed=episode)
        for _ in range(100):
            a = env.action_space.sample()
            ahead, *_ = env.step(a)
            rows.append((s, a, ahead))
            s = ahead
    logged = Transitions(*(torch.tensor(np.array(part)) for part in zip(*rows, strict=True)))
    found = discover(logged, fit_models=False)
    assert [(one.name, one.action) for one in found] == [
        ("Z(2), signs of observations and actions", "−o1, −o2, −a0")
    ]


def test_a_choice_of_actions_is_permuted():
    rng = torch.Generator().manual_seed(0)
    s = torch.randn(1500, 2, generator=rng)
    choice = torch.randint(3, (1500, 1), generator=rng).float()
    angle, rate = s.T
    ahead = s + 0.1 * torch.stack([rate, 2 * (choice[:, 0] - 1) - angle], 1)
    found = discover(Transitions(s, choice, ahead), fit_models=False)
    assert found[0].action == "−o0, −o1, a is 0 ↔ a is 2"


def test_the_command_reads_a_log(tmp_path, capsys):
    log = limbs(rows=600)
    path = tmp_path / "log.npz"
    arrays = {name: getattr(log, name).numpy() for name in ("observations", "actions")}
    np.savez(
        path,
        next_observations=log.next_observations.numpy(),
        observation_names=np.array(NAMES[0]),
        action_names=np.array(NAMES[1]),
        **arrays,
    )
    out = tmp_path / "out"
    assert run(["discover", str(path), "--json", "--out", str(out)]) == 0
    (finding,) = json.loads(capsys.readouterr().out)["findings"]
    assert finding["action"] == MIRROR
    assert (out / "report.html").is_file()
    assert Findings.load(out)[0].action == MIRROR


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"methods": "layers"}, "expected the method 'transitions' for transitions, got layers"),
        ({"blocks": 2}, "expected no blocks for transitions, got 2"),
        (
            {"options": DiscoverOptions(entry_names=(["a"], ["b"]))},
            "expected 5 names of entries of an observation, got 1",
        ),
    ],
)
def test_options_of_other_data_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        discover(limbs(rows=100), **options)


def test_the_method_is_for_transitions():
    with pytest.raises(ValueError, match="expected Transitions for the method 'transitions'"):
        discover(np.zeros((9, 2)), np.zeros(9), methods="transitions")
