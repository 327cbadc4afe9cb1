"""Findings: what they say, and that they come back from a folder as they were."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from discovery.pieces import StandardisedModel, build_model
from isotropy.discovery import Finding
from isotropy.groups import Z
from isotropy.reps import Symmetry, V

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
    return Finding.of(**{**given, **changes})


@pytest.mark.parametrize(
    ("effect", "words"),
    [(0.0, "costs less than 0.001 %"), (5.5e-12, "costs less than 0.001 %"),
     (-5.5e-12, "costs less than 0.001 %"), (-9.9e-6, "costs less than 0.001 %"),
     (1.2e-5, "costs 0.0012 %"), (-1.2e-5, "saves 0.0012 %"), (-0.0321, "saves 3.2 %")],
)  # fmt: skip
def test_costs_too_small_to_matter_have_neither_digits_nor_sign(effect: float, words: str) -> None:
    finding = a_finding(effect=effect)
    assert finding.cost == f"{words} of what can be learned"
    assert str(finding).endswith(f", {words} of what can be learned")
    assert a_finding(effect=float("nan")).cost == "nothing can be learned"


def standardised(spec: dict[str, Any], symmetry: Symmetry = SHIFT) -> dict[str, Any]:
    torch.manual_seed(0)
    inner = build_model(spec, symmetry).double()
    x = torch.randn(30, 4, dtype=torch.float64) * 3 + 7
    y = torch.randn(30, symmetry.rep_out.size(), dtype=torch.float64) * 9 - 2
    shift = [[1, 2, 3, 0]]
    out = shift if symmetry.rep_out.size() == 4 else []
    model = StandardisedModel.of(inner, x, y, permutations_in=shift, permutations_out=out)
    return {"model": model, "model_spec": {"kind": "standardised", "model": spec}}
