"""The side of emlp (Finzi, Welling & Wilson 2021) in ``emlp_step.py``: its EMLP and its MLP.

Networks of its default flavour (objax), loss and gradients jitted as a whole, in float32.
"""

from __future__ import annotations

import importlib.metadata
import platform
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import objax
from emlp import datasets, nn
from measure_steps import Step, compare, report_about, settings

_TASKS = {
    "inertia": datasets.Inertia,
    "o5": datasets.O5Synthetic,
    "lorentz": datasets.ParticleInteraction,
}


def main() -> None:
    given = settings()
    np.random.seed(0)  # noqa: NPY002 - emlp draws its data and its first guesses from this one
    task = _TASKS[given["task"]](given["batch"])
    x, y = (jnp.asarray(rows, jnp.float32) for rows in (task.X, task.Y))
    size = {"ch": given["channels"], "num_layers": given["layers"]}

    def build(kind: str) -> Any:
        network = nn.EMLP if kind == "EMLP" else nn.MLP
        made = network(task.rep_in, task.rep_out, task.symmetry, **size)
        jax.block_until_ready(made.vars().tensors())  # jax answers before it is done
        return made

    def jitted(network: Any) -> Step:
        variables = network.vars()
        loss = objax.Function(lambda x, y: jnp.mean((network(x) - y) ** 2), variables)
        gradients = objax.Jit(objax.GradValues(loss, variables), variables)
        return lambda: jax.block_until_ready(gradients(x, y))

    versions = {name: importlib.metadata.version(name) for name in ("emlp", "jax", "objax")}
    hidden = str(nn.uniform_rep(given["channels"], task.symmetry))
    report_about({"python": platform.python_version(), **versions, "hidden": hidden})
    compare(
        build,
        lambda network: sum(tensor.size for tensor in network.vars().tensors()),
        {"": jitted},
        given["repeats"],
    )


if __name__ == "__main__":
    main()
