"""Findings: what they say, and that they come back from a folder as they were."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from isotropy._run import json_text
from isotropy.discovery._finding import Finding, Findings
from isotropy.discovery._standardised import (
    HomogeneousModel,
    StandardisedModel,
    build_model,
    orbit_mean,
)
from isotropy.equivariance import assert_equivariant
from isotropy.groups import SE, S, SO13p, Z, parse_group
from isotropy.reps import Scalar, Symmetry, V

SHIFT = Symmetry(Z(4), V, V)
MLP_SPEC = {"kind": "mlp", "inputs": 4, "outputs": 4, "channels": 5, "layers": 2}


def a_finding(**changes: Any) -> Finding:
    given: dict[str, Any] = {
        "name": "Z(4), cyclic shift",
        "group": "Z(4)",
        "action": "cyclic shift of all positions",
        "method": "linear colours",
        "order": 4,
        "confirmed": True,
        "p_value": 3e-5,
        "effect": 0.004,
        "interval": (-0.01, 0.02),
        "samples": 300,
        "notes": ("a note",),
        "symmetry": SHIFT,
        "labels": (np.arange(4) - np.arange(4)[:, None]) % 4,
    }
    return Finding(**{**given, **changes})


def standardised(spec: dict[str, Any], symmetry: Symmetry = SHIFT) -> dict[str, Any]:
    torch.manual_seed(0)
    inner = build_model(spec, symmetry).double()
    x = torch.randn(30, 4, dtype=torch.float64) * 3 + 7
    y = torch.randn(30, symmetry.rep_out.size(), dtype=torch.float64) * 9 - 2
    shift = [[1, 2, 3, 0]]
    out = shift if symmetry.rep_out.size() == 4 else []
    model = StandardisedModel.of(inner, x, y, permutations_in=shift, permutations_out=out)
    return {"model": model, "model_spec": {"kind": "standardised", "model": spec}}


@pytest.mark.parametrize(
    "spec",
    [
        {"kind": "emlp", "channels": 12, "layers": 2},
        {"kind": "emlp", "channels": [8, 9], "layers": 2, "bilinear": False},
        {"kind": "emlp", "channels": "3*Scalar+2*V", "layers": 1},
        {"kind": "linear"},
        {"kind": "symmetrised", "model": MLP_SPEC},
        {"kind": "symmetrised", "model": MLP_SPEC, "elements": 2, "seed": 5},
        MLP_SPEC,
    ],
    ids=lambda spec: str(spec["kind"]),
)
def test_a_model_comes_back(spec: dict[str, Any], tmp_path: Path) -> None:
    finding = a_finding(**standardised(spec))
    back = Finding.load(finding.save(tmp_path / "new" / "folder"))
    x = torch.randn(6, 4, dtype=torch.float64)
    assert finding.model is not None
    assert back.model is not None
    assert torch.equal(back.model(x), finding.model.eval()(x))
    assert not back.model.training
    if spec["kind"] in ("emlp", "linear"):
        assert_equivariant(back.model)  # standardisation included


def test_a_model_of_shared_weights_comes_back(tmp_path: Path) -> None:
    toeplitz = np.arange(3)[:, None] - np.arange(5) + 4
    spec = {"kind": "shared linear", "bias": False}
    model = build_model(spec, None, toeplitz)
    finding = a_finding(labels=toeplitz, symmetry=None, model=model, model_spec=spec)
    back = Finding.load(finding.save(tmp_path))
    weight = back.model.weight  # type: ignore[union-attr]
    assert torch.equal(weight, model.weight)
    assert torch.equal(weight[:-1, :-1], weight[1:, 1:])


@pytest.mark.parametrize(
    "finding",
    [
        a_finding(),
        a_finding(effect=math.nan, interval=(-math.inf, math.inf), confirmed=False, p_value=1.0),
        a_finding(order=None, dimension=3, labels=None, symmetry=None, trivial="a linear target"),
    ],
    ids=["plain", "nothing learnable", "trivial"],
)
def test_what_it_says_comes_back(finding: Finding, tmp_path: Path) -> None:
    back = Finding.load(finding.save(tmp_path))
    assert json_text(back.to_json()) == json_text(finding.to_json())
    assert str(back) == str(finding)
    assert back.interval == finding.interval
    assert back.notes == finding.notes
    assert back.symmetry == finding.symmetry
    assert (back.labels is None) == (finding.labels is None)
    if back.labels is not None and finding.labels is not None:
        assert np.array_equal(back.labels, finding.labels)
    assert [path.name for path in tmp_path.iterdir()] == ["finding.json"]


def test_json_has_what_the_command_line_promises() -> None:
    finite, continuous = a_finding(), a_finding(order=None, dimension=3)
    asked = {"name", "group", "action", "approximate", "confirmed", "p_value", "effect"}
    for finding, size in ((finite, "order"), (continuous, "dimension")):
        said = json.loads(json_text(finding.to_json()))
        assert asked | {size} <= set(said)
        assert parse_group(said["group"]) == Z(4)
    assert "dimension" not in finite.to_json()
    whole = Findings([finite], ["swaps"], 1.5).to_json()
    assert {"findings", "tried", "seconds"} <= set(whole)
    numpy_values = a_finding(confirmed=np.bool_(True), p_value=np.float32(0.5))
    assert json_text(numpy_values.to_json())


def test_sentences() -> None:
    assert str(a_finding(effect=-0.021)).endswith("p = 3e-05), saves 2.1 % of what can be learned")
    assert "costs 120 %" in str(a_finding(effect=1.2))
    assert str(a_finding(confirmed=False)).startswith("Z(4), cyclic shift: not confirmed (p =")
    assert str(a_finding(effect=math.nan)).endswith("nothing can be learned")
    assert str(a_finding(trivial="it is linear")).endswith("holds trivially: it is linear")
    shown = a_finding(name="<script>x</script>")._repr_html_()
    assert "<script>" not in shown
    assert "&lt;script&gt;" in shown


def test_the_best_is_the_largest_that_stands() -> None:
    small, large = a_finding(), a_finding(name="S(4)", order=24)
    refuted = a_finding(order=99, confirmed=False)
    trivial = a_finding(order=99, trivial="it is constant")
    found = Findings([small, refuted, large, trivial])
    assert found.best is large
    assert Findings([refuted, trivial]).best is None
    rotations = a_finding(order=None, dimension=3)
    assert Findings([large, rotations]).best is rotations
    assert list(found) == [small, refuted, large, trivial]
    assert list(found[1:3]) == [refuted, large]


def test_findings_come_back(tmp_path: Path) -> None:
    model = standardised({"kind": "linear"})
    found = Findings(
        [a_finding(), a_finding(name="other", **model)],
        ["all swaps", {"method": "linear colours", "p": 0.5}],
        seconds=2.5,
        notes=["stopped early"],
    )
    back = Findings.load(found.save(tmp_path / "found"))
    assert json_text(back.to_json()) == json_text(found.to_json())
    assert back[1].model is not None
    assert back[0].model is None
    empty = Findings.load(Findings().save(tmp_path / "found"))
    assert len(empty) == 0


def test_saving_again_leaves_no_stale_weights(tmp_path: Path) -> None:
    a_finding(**standardised({"kind": "linear"})).save(tmp_path)
    assert (tmp_path / "model.safetensors").exists()
    a_finding().save(tmp_path)
    assert not (tmp_path / "model.safetensors").exists()
    assert Finding.load(tmp_path).model is None


def edit(folder: Path, **changes: Any) -> None:
    path = folder / "finding.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_what_cannot_be_loaded(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"expected a folder with finding\.json, got"):
        Finding.load(tmp_path)
    with pytest.raises(ValueError, match=r"expected a folder with findings\.json, got"):
        Findings.load(tmp_path)
    a_finding(**standardised({"kind": "linear"})).save(tmp_path)
    edit(tmp_path, format=2)
    with pytest.raises(ValueError, match=r"a finding of format 1 in .*, got format 2"):
        Finding.load(tmp_path)
    edit(tmp_path, format=1, model={"kind": "pickle"})
    with pytest.raises(ValueError, match=r"expected a model of kind 'emlp'.* got .*pickle"):
        Finding.load(tmp_path)
    edit(tmp_path, model={"kind": "linear"})
    with pytest.raises(ValueError, match=r"expected a checkpoint of the run"):
        Finding.load(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(ValueError, match=r"expected the weights model\.safetensors in"):
        Finding.load(tmp_path)
    edit(tmp_path, interval=None)
    with pytest.raises(ValueError, match=r"expected a finding in .*, got a damaged one"):
        Finding.load(tmp_path)
    (tmp_path / "finding.json").write_text("{")
    with pytest.raises(ValueError, match=r"expected a finding as JSON in"):
        Finding.load(tmp_path)


def test_a_list_may_not_name_folders_elsewhere(tmp_path: Path) -> None:
    Findings([a_finding()]).save(tmp_path)
    path = tmp_path / "findings.json"
    path.write_text(path.read_text().replace("finding-1", "../finding-1"))
    with pytest.raises(ValueError, match=r"got a damaged list of them"):
        Findings.load(tmp_path)


def test_what_cannot_be_a_finding(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"expected a p-value between 0 and 1, got nan"):
        a_finding(p_value=math.nan)
    with pytest.raises(ValueError, match=r"expected integer labels .* got float64 of shape \(3,\)"):
        a_finding(labels=np.zeros(3))
    with pytest.raises(ValueError, match=r"a description \(model_spec\) of the model of 'Z\(4\)"):
        a_finding(model=nn.Linear(4, 4)).save(tmp_path)
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(ValueError, match=r"expected a folder to save to, got the file"):
        a_finding().save(file)


def test_descriptions_of_models_are_checked() -> None:
    with pytest.raises(ValueError, match=r"expected a symmetry for a model of kind 'emlp'"):
        build_model({"kind": "emlp", "channels": 4, "layers": 1})
    with pytest.raises(ValueError, match=r"kind 'emlp' with channels, layers, got channels"):
        build_model({"kind": "emlp", "channels": 4}, SHIFT)
    with pytest.raises(ValueError, match=r"kind 'linear' with no arguments, got device"):
        build_model({"kind": "linear", "device": "cuda"}, SHIFT)
    with pytest.raises(ValueError, match=r"expected a positive number as layers, got 'many'"):
        build_model({**MLP_SPEC, "layers": "many"})
    with pytest.raises(ValueError, match=r"expected labels for a model of kind 'shared linear'"):
        build_model({"kind": "shared linear"})


def test_orbit_mean_is_the_mean_over_the_group() -> None:
    group = Z(3) + S(2)
    values = torch.randn(6, dtype=torch.float64)
    padded = [[*h.monomial().index.tolist(), 5] for h in group.discrete]  # type: ignore[union-attr]
    images = torch.stack([values[:5][g.monomial().index] for g in _elements(group)])
    expected = torch.cat([images.mean(0), values[5:]])
    assert torch.allclose(orbit_mean(values, padded), expected)
    assert torch.equal(orbit_mean(values, []), values)
    with pytest.raises(ValueError, match=r"a permutation of 6 points, got \[0, 0"):
        orbit_mean(values, [[0, 0, 1, 2, 3, 4]])


def _elements(group: Any) -> list[Any]:
    table = group.elements()
    return [table.select(i) for i in range(len(table))]


def test_standardised_data_have_unit_size_and_keep_the_symmetry() -> None:
    rng = torch.Generator().manual_seed(0)
    x = torch.randn(500, 3, generator=rng, dtype=torch.float64) * torch.tensor([1.0, 5.0, 2.0]) + 4
    y = torch.full((500, 1), 3.0, dtype=torch.float64)
    model = StandardisedModel.of(nn.Linear(3, 1).double(), x, y, permutations_in=[[1, 2, 0]])
    seen = (x - model.x_mean) / model.x_scale
    assert float(seen.mean()) == pytest.approx(0.0, abs=1e-12)
    assert float(seen.square().mean()) == pytest.approx(1.0)
    assert len(set(model.x_scale.tolist())) == len(set(model.x_mean.tolist())) == 1
    assert model.y_scale.tolist() == [1.0]  # a constant has no size of its own
    assert model.x_mean.dtype == torch.float64
    symmetry = Symmetry(Z(3), V, Scalar)
    spec = {"kind": "emlp", "channels": 8, "layers": 1}
    whole = StandardisedModel.of(
        build_model(spec, symmetry).double(), x, y, permutations_in=[[1, 2, 0]]
    )
    assert_equivariant(whole)
    broken = StandardisedModel.of(build_model(spec, symmetry).double(), x, y)
    with pytest.raises(AssertionError):
        assert_equivariant(broken)


def test_what_cannot_standardise() -> None:
    inner = nn.Identity()
    with pytest.raises(ValueError, match=r"expected positive numbers as x_scale, got \[0\.0\]"):
        StandardisedModel(inner, [0.0], [0.0], [0.0], [1.0])
    with pytest.raises(ValueError, match=r"expected finite numbers as y_mean, got \[nan\]"):
        StandardisedModel(inner, [0.0], [1.0], [math.nan], [1.0])
    with pytest.raises(ValueError, match=r"expected data of shape \(n, columns\), got \(3,\)"):
        StandardisedModel.of(inner, torch.ones(3), torch.ones(3, 1))


# --- continuous groups --------------------------------------------------------------------------


def a_continuous_finding(**changes: Any) -> Finding:
    return a_finding(
        **{
            "name": "SO⁺(1,3), metric (+,−,−,−)",
            "group": "SO13p",
            "order": None,
            "dimension": 6,
            "labels": None,
            "symmetry": Symmetry(SO13p(), 2 * V, Scalar),
            "generators": [a.dense().tolist() for a in SO13p().algebra],
            "metric": np.diag([1, -1, -1, -1]),
            "coordinates": ["E", "px", "py", "pz"],
            "classes": [
                {"action": "the same action on 2 blocks", "dimension": 6, "gap": 1e9, "note": ""},
                {"action": "one action on all columns", "dimension": 0, "gap": None, "note": "no"},
            ],
            "discrete": [{"name": "parity", "holds": True, "effect": None, "note": ""}],
            **changes,
        }
    )


def test_continuous_groups_come_back(tmp_path: Path) -> None:
    finding = a_continuous_finding()
    back = Finding.load(finding.save(tmp_path))
    assert json_text(back.to_json()) == json_text(finding.to_json())
    for one in (finding, back):
        assert one.generators is not None
        assert one.metric is not None
        assert one.generators.shape == (6, 4, 4)
        assert one.generators.dtype == one.metric.dtype == np.float64
        for a in one.generators:
            assert np.array_equal(a.T @ one.metric + one.metric @ a, np.zeros((4, 4)))
        assert one.coordinates == ("E", "px", "py", "pz")
        assert [c["gap"] for c in one.classes] == [1e9, None]
        assert one.discrete[0]["holds"] is True
    said = json.loads(json_text(finding.to_json()))
    assert said["metric"][1][1] == -1.0
    assert said["dimension"] == 6
    assert "order" not in said


def test_numbers_that_do_not_round_come_back_to_the_last_bit(tmp_path: Path) -> None:
    generators = np.random.default_rng(0).normal(size=(2, 3, 3)) * [1.0, 1e-17, 1e12]
    back = Finding.load(a_continuous_finding(generators=generators).save(tmp_path))
    assert back.generators is not None
    assert np.array_equal(back.generators, generators)


def test_files_from_before_continuous_groups_still_load(tmp_path: Path) -> None:
    path = a_finding().save(tmp_path) / "finding.json"
    given = json.loads(path.read_text())
    for name in ("generators", "metric", "coordinates", "classes", "discrete"):
        del given[name]
    path.write_text(json.dumps(given))
    back = Finding.load(tmp_path)
    assert back.generators is None
    assert back.metric is None
    assert (back.coordinates, back.classes, back.discrete) == ((), (), ())
    assert back.name == a_finding().name


def test_generators_are_copied_and_nobody_may_change_them() -> None:
    given = np.zeros((1, 2, 2))
    finding = a_continuous_finding(generators=given)
    given[0, 0, 0] = 5.0
    assert finding.generators is not None
    assert not finding.generators.any()
    with pytest.raises(ValueError, match=r"read-only"):
        finding.generators[0, 0, 0] = 1.0


@pytest.mark.parametrize(
    ("name", "given", "shape"),
    [
        ("generators", np.zeros((2, 3, 4)), r"\(2, 3, 4\)"),
        ("generators", np.zeros((3, 3)), r"\(3, 3\)"),
        ("generators", np.full((1, 2, 2), np.nan), r"\(1, 2, 2\)"),
        ("metric", np.zeros(4), r"\(4,\)"),
        ("metric", np.full((2, 2), np.inf), r"\(2, 2\)"),
    ],
)
def test_what_cannot_be_generators(name: str, given: Any, shape: str) -> None:
    with pytest.raises(
        ValueError, match=rf"expected finite square matrices as {name}, got an array .* {shape}"
    ):
        a_continuous_finding(**{name: given})


RIGID = {
    "kind": "homogeneous",
    "model": {"kind": "linear"},
    "inputs": 5,
    "blocks": [[3, 0], [1, 4]],
}


def test_a_model_of_homogeneous_coordinates_moves_with_its_inputs(tmp_path: Path) -> None:
    symmetry = Symmetry(SE(2), 2 * V + Scalar, V)
    torch.manual_seed(0)
    model = build_model(RIGID, symmetry).double()
    finding = a_continuous_finding(symmetry=symmetry, model=model, model_spec=RIGID)
    back = Finding.load(finding.save(tmp_path)).model
    assert back is not None
    rng = torch.Generator().manual_seed(1)
    x = torch.randn(7, 5, dtype=torch.float64, generator=rng)
    assert torch.equal(back(x), model(x))
    angle, shift = 0.7, torch.tensor([2.0, -3.0], dtype=torch.float64)
    turn = torch.tensor([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    moved = x.clone()  # a rigid motion of both points; the column in no block stays
    for block in ([3, 0], [1, 4]):
        moved[:, block] = x[:, block] @ turn.T + shift
    y = model(x)
    expected = torch.cat([y[:, :2] @ turn.T + shift * y[:, 2:], y[:, 2:]], 1)
    assert torch.allclose(model(moved), expected)
    assert not torch.allclose(model(moved), y)


def test_ones_go_behind_blocks_and_other_columns_after_them() -> None:
    rows = torch.tensor([[10.0, 11.0, 12.0, 13.0, 14.0], [20.0, 21.0, 22.0, 23.0, 24.0]])
    laid = HomogeneousModel(nn.Identity(), 5, [[3, 0], [1, 4]])(rows)
    assert laid[0].tolist() == [13.0, 10.0, 1.0, 11.0, 14.0, 1.0, 12.0]
    assert (
        HomogeneousModel(nn.Identity(), 5, [[3, 0], [1, 4]])(rows[0]).tolist() == laid[0].tolist()
    )


@pytest.mark.parametrize("blocks", [[[0, 1], [1, 2]], [[0, 5]], [[-1, 0]]])
def test_blocks_that_are_not_of_the_columns(blocks: list[list[int]]) -> None:
    with pytest.raises(ValueError, match=r"expected blocks of 3 columns, got \[\["):
        HomogeneousModel(nn.Identity(), 3, blocks)
    with pytest.raises(ValueError, match=r"expected blocks of 3 columns, got \[\["):
        build_model({**RIGID, "model": MLP_SPEC, "inputs": 3, "blocks": blocks})
