"""What checking a certificate takes beside what `verify` estimates, each in a fresh process.

The estimate decides what is refused, so it must be above what is taken: every ratio printed is
estimate over taken, for seconds of one core and for bytes at the peak beyond an idle process.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time

import numpy as np
import torch

from isotropy.certificates import (
    Certificate,
    Goal,
    Hypothesis,
    architecture,
    certify,
    verification_price,
    verify,
)
from isotropy.certificates._examples import Examples

_SKEW = [[(i - j) * (i + j + 1) for j in range(6)] for i in range(6)]
GENERATED = f"Group(algebra=[{_SKEW},{[[2 * int(i == j) for j in range(6)] for i in range(6)]}])"
REFLECTION = f"Group(discrete=[{[[int(i == j) - 0.25 for j in range(8)] for i in range(8)]}])"

CASES: dict[str, tuple[str, tuple[int, ...], int, int, str]] = {
    "small": ("mlp-5", (2,), 150, 8, "dense"),
    "lenet": ("lenet5", (1, 28, 28), 2000, 1000, "kronecker-orthonormal"),
    "convnet": ("convnet-100", (1, 64, 64), 20, 10, "kronecker"),
    "resnet": ("resnet20", (3, 32, 32), 400, 500, "kronecker"),
    "turned": ("convnet-16 equivariant p4m", (3, 32, 32), 100, 100, "kronecker"),
    "wide": ("mlp-3000-3000", (784,), 500, 1000, "kronecker"),
    "orthonormal": ("mlp-2000-2000", (100,), 10, 300_000, "kronecker-orthonormal"),
    "dense": ("mlp-500-500", (100,), 10, 2000, "dense"),
    "sparse": ("mlp-1000-1000", (100,), 10, 100_000, "sparse"),
    "fastfood": ("mlp-2000-2000", (100,), 10, 5000, "fastfood"),
    "film": ("mlp-2000-2000", (100,), 10, 3000, "film"),
    "film+kronecker": ("mlp-2000-2000", (100,), 10, 3000, "film+kronecker"),
    "kronecker-sum": ("mlp-2000-2000", (100,), 10, 4000, "kronecker-sum"),
    "pruned": ("mlp-1000-1000", (100,), 10, 1_000_000, "identity"),
    "shared": ("mlp-64 shared Z(1000)", (1000,), 50, 10, "kronecker"),
    "rotations": ("mlp-300-300 equivariant SO(5) 2*V", (10,), 100, 50, "kronecker"),
    "linear": ("mlp-300 equivariant SL(6) V", (6,), 100, 50, "kronecker"),
    "generated": (f"mlp-300 equivariant {GENERATED} T(2)+V", (42,), 100, 50, "kronecker"),
    "generated, 8": (f"mlp-300 equivariant {REFLECTION} V", (8,), 100, 50, "kronecker"),
}


def measure(name: str) -> dict[str, float]:
    """Estimate, then verify."""
    text, shape, n, d, kind = CASES[name]
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.normal(size=(n, *shape)).astype(np.float32))
    sample = Examples(x, torch.from_numpy(rng.integers(0, 2, n)))
    small = torch.randn(30, 2), torch.arange(30) % 2
    verify(certify("mlp-4", small, d=2, epochs=1, quantised_epochs=1), small)  # imports
    made = architecture(text)
    hypothesis = Hypothesis(
        made,
        Goal("classification", 2),
        rng.integers(0, 2, d),
        np.array([-0.01, 0.01], np.float16),
        kind,
    )
    message = hypothesis.to_message()
    claims = {"bound": 1.0, "kind": "binomial_tail", "errors": n, "n": n, "delta": 0.05}
    claims["message_bits"] = 8 * len(message)
    certificate = Certificate(message, claims, sample.digest(), str(made))
    idle, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    verdict = verify(certificate, sample, most_memory=1 << 62, most_time=float("inf"))
    seconds = time.process_time() - began
    peak = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - idle)
    assert verdict.verdict == "verified", verdict.reason
    price = verification_price(certificate, sample)
    return {
        "seconds": round(seconds, 2),
        "time_ratio": round(price.seconds / seconds, 2),
        "megabytes": round(peak / 1e6),
        "memory_ratio": round(price.memory / max(peak, 1e6), 2),
    }


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--only", choices=CASES)
    chosen = options.parse_args()
    if chosen.only:
        print(json.dumps(measure(chosen.only)))
        return
    for name in CASES:
        told = subprocess.run(
            [sys.executable, __file__, "--only", name], capture_output=True, text=True, check=True
        )
        print(json.dumps({"case": name, **json.loads(told.stdout.splitlines()[-1])}), flush=True)


if __name__ == "__main__":
    main()
