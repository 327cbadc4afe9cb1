"""Write the tables of the documentation anew, from the files in results/.

.venv/bin/python docs/result_tables.py            # all of them
.venv/bin/python docs/result_tables.py basu2021   # those whose names begin so

A file in results/ is what its command printed: the command, the commit, the seed, the machine and
what came out (docs/store_result.py makes them). A table stands between two comments that name it.
Numbers with a dagger were measured before results were kept, and are written here by hand.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"
Cells = dict[tuple[str, str], dict[str, Any]]


class Standing(NamedTuple):
    """One row of the README: a number of ours beside the published one, smaller or larger wins."""

    what: str
    ours: float
    theirs: float
    written: str  # how both are written, as a format
    smaller: bool
    command: str
    even: bool = False  # whether theirs is within the interval of ours


def beside_theirs() -> str:
    """The README's table: one number from each line of work."""
    means, ant = _cells("yeh2022-table1"), _cells("finzi2023-table3.2")
    augmented = _cells("basu2021-table6")["Aug1", "AEN"]
    inertia = _cells("finzi2023-figure2.5-inertia")
    mnist = _cells("finzi2023-table5.2-MNIST")["MNIST", "bound %"]
    cifar = _cells("finzi2023-table5.2-CIFAR-10")["CIFAR-10", "bound %"]
    layers = _cells("ouderaa2023-table1-factored")["digit, quadrant", "evidence F-FC+CONV"]
    standings = (
        Standing(
            "moment of inertia from 1000 rows, EMLP, test error",
            inertia["inertia EMLP-O(3)", "N=1000"]["ours"],
            inertia["inertia EMLP-SO(3)", "N=1000"]["theirs"],  # the better of two published rows
            *("{:#.3g}", True, "finzi2023/figure2.5 --full --sizes 1000 --seeds 10 --seed 100"),
        ),
        Standing(
            "bound on the risk of LeNet-5 on MNIST",
            *(mnist["ours"], mnist["theirs"], "{:#.3g} %", True),
            "finzi2023/table5.2 --full --models MNIST --device cuda",
        ),
        Standing(
            "the same, a ConvNet on CIFAR-10",
            *(cifar["ours"], cifar["theirs"], "{:#.3g} %", True),
            "finzi2023/table5.2 --full --models CIFAR-10 --device cuda",
        ),
        Standing(
            "six equal means found (by the evidence, theirs by relaxation), partition distance",
            means["Ours (evidence)", "PD, K=6"]["ours"],
            means["entropy and rank", "PD, K=6"]["theirs"],
            *("{:.2g}", True, "yeh2022/table1"),
        ),
        Standing(
            "digit and quadrant, priors learned layer by layer (60 epochs, theirs 1000)",
            *(layers["ours"], layers["theirs"], "{:.1f} %", False),
            'ouderaa2023/table1 --full --models "evidence F-FC+CONV" --device cuda',
        ),
        Standing(
            "augmented MNIST, the best of all networks of the search space (stored scores)",
            *(augmented["ours"], augmented["theirs"], "{:.1f} %", False, "basu2021/table6"),
            even=_within(augmented),
        ),
        Standing(
            "Ant's D(4), which the thesis calls approximate: error of one step in the simulator "
            "(theirs: the Z4 of the published code)",
            ant["Ant-v5: body turned and mirrored (thesis: approximate D4)", "no contact"]["ours"],
            ant["Ant-v5: legs exchanged as run (thesis: approximate Z4)", "no contact"]["ours"],
            *("{:.2g}", True, "finzi2023/table3.2 --full"),
        ),
    )
    head = ("result", "ours", "theirs", "`isotropy reproduce …`")
    return _table(head, [_standing(one) for one in standings])


def _standing(one: Standing) -> list[str]:
    both = [_short(one.written.format(value)) for value in (one.ours, one.theirs)]
    if not one.even:
        best = int((one.ours < one.theirs) != one.smaller)
        both[best] = f"**{both[best]}**"
    return [one.what, *both, f"`{one.command}`"]


def _within(cell: dict[str, Any]) -> bool:
    low, high = cell["interval"]
    return bool(low <= cell["theirs"] <= high)


def soak() -> str:
    """Of every kind of hostile files: how many were drawn, and what became of them."""
    rows = []
    for kind in ("certificates", "programs", "findings", "studies"):
        found = _result(f"soak-{kind}")
        accepted = sum(found["seen"].get(what, 0) for what in _ACCEPTED)
        refused = found["cases"] - accepted - found["failed"]
        counts = (found["cases"], refused, accepted, found["failed"])
        rows.append([kind, *(f"{count:,}" for count in counts), f"`{found['command']}`"])
    head = ("files", "drawn", "refused", "accepted", "failed", "command")
    return _table(head, rows, numbers=(1, 2, 3, 4))


_ACCEPTED = ("verified", "verified given", "accepted, rows decided by rounding", "loaded")


def discovery() -> str:
    """How often discovery is right, and how often it claims what is not there."""
    rows = []
    for name, what in (
        ("known-symmetries", "files through the command"),
        ("false-claims", "tables"),
        ("false-image-claims", "sets of images"),
        ("discovered-transitions", "logs of simulators"),
    ):
        found = _result(name)
        cells = found["cells"]
        if name == "known-symmetries":
            of, right = len(cells), sum(cell["result"] == "right" for cell in cells)
            false = sum(cell["result"] == "FALSE" for cell in cells)
        elif name == "discovered-transitions":
            of = len(cells)
            right = sum(_names_group(cell) for cell in cells)
            false = sum(bool(cell["found"]) and not _names_group(cell) for cell in cells)
        else:
            of = sum(cell["sets"] for cell in cells)
            false = sum(cell.get("false") or 0 for cell in cells)
            right = sum(
                cell["sets"] - cell["false"] if cell.get("right") is None else cell["right"]
                for cell in cells
            )
        rows.append(
            [f"`{found['command'].removeprefix('python ')}`", what, *map(str, (of, right, false))]
        )
    return _table(("benchmark", "of what", "how many", "right", "false"), rows, (2, 3, 4))


def _names_group(cell: dict[str, Any]) -> bool:
    """Whether the group of an environment was found, or none where it has none."""
    if cell["true"] is None:
        return cell["found"] is None
    return bool(cell["found"]) and cell["found"].startswith(cell["true"])


def shared_means() -> str:
    """Table 1 of Yeh et al.: errors and partition distances, theirs in parentheses."""
    cells = _cells("yeh2022-table1")
    names = {"Ours* (brute force)": "brute force", "Ours (evidence)": "evidence"}
    columns = [f"{what}, K={k}" for what in ("MSE", "PD") for k in (2, 4, 6)]
    rows = []
    for row in dict.fromkeys(row for row, _ in cells):
        written = [
            _with_theirs(cells[row, column], "#.2g" if column.startswith("MSE") else ".3g")
            for column in columns
        ]
        rows.append([names.get(row, row), *written])
    return _table(("", *columns), rows)


def shared_weights() -> str:
    """Figures 5 and 8 of Yeh et al.: partition distances of the relaxation and the evidence."""
    means, maps = _cells("yeh2022-figure5"), _cells("yeh2022-figure8")
    cases = [(means, f"PD, K={k}", f"{k} equal means") for k in (10, 30, 50, 100)]
    cases += [
        (maps, f"PD, size {n}", f"cross-correlation, {n} weights") for n in (6, 15, 35, 80, 255)
    ]
    rows = [
        [words, *(f"{cells[f'Ours ({how})', column]['ours']:g}" for how in _SHARING)]
        for cells, column, words in cases
    ]
    return _table(("partition distance", *_SHARING), rows)


_SHARING = ("relaxation", "evidence")


def single_groups() -> str:
    """Tables 4 and 5 of Basu et al.: how far our cells are from theirs."""
    rows = []
    for name, table in (("MNIST", "table4"), ("Fashion-MNIST", "table5")):
        cells = _cells(f"basu2021-{table}").values()
        off = [cell["ours"] - cell["theirs"] for cell in cells]
        spread = [math.sqrt(c["theirs"] * (100 - c["theirs"]) / 1000) for c in cells]
        near = [abs(d) <= 1.96 * s for d, s in zip(off, spread, strict=True)]
        sizes = [abs(d) for d in off]
        means = (_signed(sum(off) / len(off), ".2f"), f"{sum(sizes) / len(off):.2f}")
        rows.append(
            [name, *map(_short, means), f"{max(sizes):.1f}", f"{100 * sum(near) / len(near):.0f} %"]
        )
    head = ("ours minus theirs, points", "mean", "mean size", "largest", "within their error")
    return _table(head, rows)


def searched_groups(table: str, images: str) -> str:
    """Table 6 or 7 of Basu et al.: the paper's networks, and ours."""
    cells = _cells(f"basu2021-{table}")
    rows = []
    for k in range(1, 6):
        theirs, ours = f"Aug{k}", f"Aug{k} ours"
        found = cells[theirs, "AEN"]
        rows.append(
            [
                theirs,
                f"{found['theirs']:.1f}",
                f"{found['ours']:.1f}",
                _interval(cells[theirs, "AEN - best single"]),
                *(f"{cells[ours, c]['ours']:.1f}" for c in ("no group", "best single", "found")),
                _interval(cells[ours, "found - best single"]),
            ]
        )
    published = ("published: theirs", "ours, its networks", "difference")
    own = ("our networks: no group", "best single", "found", "difference")
    return _table((images, *published, *own), rows)


def simulators() -> str:
    """Table 3.2 of the thesis: how far simulators commute with symmetries."""
    cells = _cells("finzi2023-table3.2")
    rows = []
    for row, words in _SIMULATED.items():
        (full,) = {name for name, _ in cells if name.startswith(f"{row} (thesis")}
        values = [cells.get((full, column)) for column in ("no contact", "contact", "reward")]
        written = ["–" if value is None else _small(value["ours"]) for value in values]
        rows.append([row.partition(":")[0], words, *written])
    head = ("environment", "transformation", "no contact", "contact", "reward, in its deviations")
    return _table(head, rows)


_SIMULATED = {
    "Walker2d-v5: left/right mirror": "left/right mirror",
    "Walker2d-v4: left/right mirror": "the same; its feet differ in friction",
    "Swimmer-v5: left/right mirror": "mirror",
    "Swimmer-v5: left/right mirror as run": "the published code's, whose sideways velocity keeps "
    "its sign",
    "Ant-v5: left/right mirror": "left/right mirror",
    "Ant-v5: body turned and mirrored": "D(4): body turned and mirrored, torso included",
    "Ant-v5: world turned": "world turned by any angle",
    "Ant-v5: legs exchanged as run": "the published code's Z4, without signs or torso",
    "Hopper-v5: front/back mirror": "front/back mirror; mirrored joints are beyond their limits",
    "HalfCheetah-v5: front/back mirror of signs only": "front/back mirror of signs, as published",
    "HalfCheetah-v5: front/back mirror with legs": "front/back mirror, legs exchanged",
    "Humanoid-v5: left/right mirror": "left/right mirror; its legs differ in armature and "
    "stiffness",
    "Humanoid-v5: left/right as run": "the published code's, with x and y exchanged and three "
    "wrong signs",
}


def lengthscales() -> str:
    """What learned lengthscales do to the symmetry of two layers, on two kinds of labels."""
    cells = _cells("ouderaa2023-lengthscales")
    rows = []
    for model, words in _LENGTHSCALES.items():
        row = [words]
        for task in ("pattern", "quadrant"):
            found = {column: cells[f"{task}, {model}", column] for column in _MEASURED}
            errors = (found[f"layer {layer} error"] for layer in (0, 1))
            row.append(", ".join(map(_deviation, errors)))
            row.append(f"{found['accuracy %']['ours']:.1f}")
            row.append(_signed(found["log evidence"]["ours"], ".0f"))
        rows.append(row)
    measured = ("error, layers 0 and 1", "accuracy, %", "log evidence")
    head = ("learned", f"pattern: {measured[0]}", *measured[1:])
    rows += _UNTRACED_LENGTHSCALES
    return _table((*head, f"quadrant: {measured[0]}", *measured[1:]), rows)


def _deviation(cell: dict[str, Any]) -> str:
    low, high = cell["interval"]
    digits = 2 if cell["ours"] >= 0.02 else 3
    return f"{cell['ours']:.{digits}f} ± {(high - low) / 2:.{digits}f}"


_MEASURED = ("layer 0 error", "layer 1 error", "accuracy %", "log evidence")
_LENGTHSCALES = {
    "fixed": "nothing",
    "ω": "ω alone, priors weak and fixed",
    "ω+priors": "ω and priors",
}
_UNTRACED_LENGTHSCALES = [
    [
        *("priors alone †", "0.002 ± 0.002, 0.002 ± 0.001", "99.8", "−48"),
        *("0.01 ± 0.01, 1.18 ± 0.18", "95.6", "−159"),
    ],
    [
        *("σ of ω ~ N(0, σ²), and priors †", "0.001 ± 0.001, 0.003 ± 0.002", "99.8", "−50"),
        *("0.01 ± 0.01, 1.10 ± 0.37", "94.6", "−171"),
    ],
    [
        *("ω alone, interpolating bases †", "0.25 ± 0.30, 0.13 ± 0.15", "97.9", "−223"),
        *("0.50 ± 0.26, 1.25 ± 0.02", "94.4", "−560"),
    ],
    [
        *("ω alone, plain bases †", "0.04 ± 0.01, 0.02 ± 0.01", "99.9", "−135"),
        *("0.40 ± 0.27, 1.11 ± 0.14", "95.8", "−560"),
    ],
]


def certificates() -> str:
    """Bounds of chapter 5, those that were run since results are kept and the others."""
    rows = []
    for data, what, theirs in (
        ("MNIST", "MNIST, LeNet-5", "{} (full batch 11.2)"),
        ("CIFAR-10", "CIFAR-10, ConvNet", "{} (BatchNorm)"),
    ):
        found = _cells(f"finzi2023-table5.2-{data}")
        cells = [found[data, column] for column in ("bound %", "KB", "train error %")]
        bound, *others = (_short(f"{cell['ours']:#.3g}") for cell in cells)
        bounds = [bound, f"{cells[0]['theirs']}"]
        best = int(cells[0]["theirs"] < cells[0]["ours"])
        bounds[best] = f"**{bounds[best]}**"
        test = _short(f"{found[data, 'test error %']['ours']:#.3g}")
        rows.append([what, bounds[0], theirs.format(bounds[1]), *others, test])
    head = ("data, network", "bound %", "published", "KB", "training error %", "test error %")
    return _table(head, rows + _UNTRACED_CERTIFICATES)


_UNTRACED_CERTIFICATES = [
    ["Fashion-MNIST, ResNet-20 †", "**28.8**", "32.8", ".36", "17.6", "18.1"],
    ["Fashion-MNIST, LeNet-5 †", "**24.0**", "", ".35", "13.6", "15.2"],
    ["MNIST, θ₀ from 50 % of the rows, d = 0 †", "**.96**", "1.4", ".004", ".61", ".65"],
    ["Fashion-MNIST, θ₀ from 80 %, d = 0 †", "**7.9**", "10.1", ".004", "6.3", "7.0"],
    ["CIFAR-10 (k = 32), θ₀ from 80 %, d = 0 †", "**16.2**", "16.6", ".005", "13.5", "14.5"],
    ["MNIST, LeNet-5, pruned †", "46.7", "47.9", "6.3", ".59", "1.4"],
    ["Fashion-MNIST, LeNet-5, pruned †", "52.1", "54.9 (ResNet-20)", "3.4", "13.8", "14.8"],
]

TABLES: dict[str, tuple[str, Callable[[], str]]] = {
    "beside-theirs": ("README.md", beside_theirs),
    "soak": ("docs/security.md", soak),
    "discovery": ("docs/discovering.md", discovery),
    "yeh2022-table1": ("docs/papers/yeh2022.md", shared_means),
    "yeh2022-figures": ("docs/papers/yeh2022.md", shared_weights),
    "basu2021-tables4-5": ("docs/papers/basu2021.md", single_groups),
    "basu2021-table6": (
        "docs/papers/basu2021.md",
        lambda: searched_groups("table6", "MNIST"),
    ),
    "basu2021-table7": (
        "docs/papers/basu2021.md",
        lambda: searched_groups("table7", "Fashion-MNIST"),
    ),
    "finzi2023-table5.2": ("docs/papers/finzi2023.md", certificates),
    "finzi2023-table3.2": ("docs/reinforcement-learning.md", simulators),
    "ouderaa2023-lengthscales": ("docs/papers/ouderaa2023.md", lengthscales),
}


def _result(name: str) -> dict[str, Any]:
    return dict(json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8")))


def _cells(name: str) -> Cells:
    return {(cell["row"], cell["column"]): cell for cell in _result(name)["cells"]}


def _table(head: Iterable[str], rows: list[list[str]], numbers: tuple[int, ...] = ()) -> str:
    head = list(head)
    rule = ["--:" if k in numbers else "---" for k in range(len(head))]
    written = [f"| {' | '.join(line)} |" for line in (head, *rows)]
    return "\n".join([written[0], f"|{'|'.join(rule)}|", *written[1:]]).replace("|  |", "| |")


def _short(text: str) -> str:
    """A number without the nought before its point, and with a power of ten written as such."""
    text = re.sub(r"^(−?)0(?=\.)", r"\1", text).removesuffix(".")
    return re.sub(r"e-0?(\d+)$", lambda m: "·10⁻" + m[1].translate(_RAISED), text)


_RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def _small(value: float) -> str:
    """Two figures of what can be seen, and the order of what is rounding."""
    if value == 0:
        return "0"
    return f"{value:.0e}".replace("e-0", "e-") if value < 1e-4 else _short(f"{value:#.2g}")


def _signed(value: float, form: str) -> str:
    return f"{value:{form}}".replace("-", "−")


def _with_theirs(cell: dict[str, Any], form: str) -> str:
    ours = _short(f"{cell['ours']:{form}}")
    return ours if cell["theirs"] is None else f"{ours} ({_short(format(cell['theirs'], form))})"


def _interval(cell: dict[str, Any]) -> str:
    return " to ".join(_short(_signed(limit, "#.2g")) for limit in cell["interval"])


def with_table(page: str, name: str, table: str) -> str:
    """The text of a page with this table between its comments."""
    pattern = rf"(<!-- table {name} -->\n).*?(<!-- end of table {name} -->)"
    text, count = re.subn(pattern, lambda m: f"{m[1]}{table}\n{m[2]}", page, flags=re.DOTALL)
    if count != 1:
        raise ValueError(f"expected one place for the table {name!r}, got {count}")
    return text


def main(beginnings: list[str]) -> None:
    """Write the tables whose names begin with one of these."""
    for name, (page, made) in TABLES.items():
        if name.startswith(tuple(beginnings)):
            path = ROOT / page
            path.write_text(with_table(path.read_text(encoding="utf-8"), name, made()))


if __name__ == "__main__":
    main(sys.argv[1:] or [""])
