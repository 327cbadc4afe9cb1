"""Two processes with unequal shares of the data find what one finds with all of them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.distributed import FileStore, is_available, is_gloo_available

from isotropy.evidence import CurvatureOptions, evidence_gradient, laplace

pytestmark = pytest.mark.skipif(
    not (is_available() and is_gloo_available()), reason="torch has no gloo here"
)

# what every process does; its rank, the store, the helpers of these tests and its share are given
WORKER = """
import json, runpy, sys, warnings
from datetime import timedelta
import torch
from torch import distributed
warnings.simplefilter("error")
rank, store, helpers, tests, start, end = sys.argv[1:]
distributed.init_process_group(
    "gloo", store=distributed.FileStore(store, 2), rank=int(rank), world_size=2,
    timeout=timedelta(seconds=60),
)
twin, tests = runpy.run_path(helpers), runpy.run_path(tests)
found = tests["results"](twin["filled"], twin["BasisConvolution"], twin["Swish"],
    slice(int(start), int(end)), distributed.group.WORLD)
distributed.barrier()
distributed.destroy_process_group()
sys.stdout.write(json.dumps(found))
"""
SAMPLES, FIRST = 7, 2


def results(filled: Any, basis: Any, swish: Any, share: slice, group: Any) -> dict[str, Any]:
    """All that is compared, for some of the data."""

    def build() -> nn.Module:
        return nn.Sequential(basis(1, 2, 3), swish(), nn.Flatten(), nn.Linear(18, 3))

    found: dict[str, Any] = {}
    for loss in ("classification", "regression"):
        task = filled(build, (1, 3, 3), loss, samples=SAMPLES)
        data = task.x[share], task.y[share]
        names = ["0.omega", "1.slope"]
        for structure in ("kronecker", "full", "diagonal"):
            options: dict[str, Any] = {"structure": structure, "process_group": group}
            one = laplace(
                task.model,
                loss,
                data,
                hyperparameters=names,
                curvature=CurvatureOptions(batch_size=3, **options),
            )
            found[f"{loss} {structure} samples"] = float(one.samples)
            found[f"{loss} {structure} evidence"] = float(one.log_marginal_likelihood(0.3))
            for name, blocks in one.blocks.items():
                found[f"{loss} {structure} block {name}"] = blocks[0].dense().tolist()
            value, slopes = evidence_gradient(
                task.model,
                loss,
                data,
                names,
                0.3,
                curvature=CurvatureOptions(batch_size=2, **options),
            )
            found[f"{loss} {structure} again"] = float(value)
            found[f"{loss} {structure} slopes"] = [float(slopes[name]) for name in names]
    return found


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    store = tmp_path_factory.mktemp("store") / "store"
    helpers = Path(__file__).with_name("conftest.py")
    shares = [("0", str(FIRST)), (str(FIRST), str(SAMPLES))]
    started = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER, str(rank), str(store), str(helpers), __file__, *share],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank, share in enumerate(shares)
    ]
    try:
        both = [process.communicate(timeout=120) for process in started]
    finally:
        for process in started:
            process.kill()
            process.wait()
    for process, (_, errors) in zip(started, both, strict=True):
        assert process.returncode == 0, errors
    return [json.loads(output) for output, _ in both]


def test_two_processes_are_one(processes: list[dict[str, Any]], twin: Any) -> None:
    alone = results(twin.filled, twin.BasisConvolution, twin.Swish, slice(None), None)
    for found in processes:
        assert list(found) == list(alone)
        for name, value in alone.items():
            ours, truth = (torch.tensor(v, dtype=torch.float64) for v in (found[name], value))
            twin.assert_close(ours, truth, 1e-12)


def test_both_processes_find_the_very_same(processes: list[dict[str, Any]]) -> None:
    assert processes[0] == processes[1]


def test_a_graph_does_not_go_from_process_to_process(tmp_path: Path, twin: Any) -> None:
    task = twin.made("mlp")
    torch.distributed.init_process_group(
        "gloo", store=FileStore(str(tmp_path / "store"), 1), rank=0, world_size=1
    )
    try:
        group = torch.distributed.group.WORLD
        found = laplace(
            task.model, task.loss, task.data, curvature=CurvatureOptions(process_group=group)
        )
        alone = laplace(task.model, task.loss, task.data)
        twin.assert_close(found.log_marginal_likelihood(), alone.log_marginal_likelihood(), 1e-14)
        with pytest.raises(ValueError, match=r"expected create_graph=False with a process group"):
            laplace(
                task.model,
                task.loss,
                task.data,
                create_graph=True,
                curvature=CurvatureOptions(process_group=group),
            )
    finally:
        torch.distributed.destroy_process_group()
