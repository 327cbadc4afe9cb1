"""How far each table or figure has been run again, and what that costs."""

from __future__ import annotations

from dataclasses import dataclass

_UNKNOWN = "not measured"
_ON_GPU = "on a GPU"  # how long was not measured


@dataclass(frozen=True)
class Standing:
    """Where an experiment stands; costs are CPU times on one core unless they say otherwise.

    Args:
        state: What came out, in a few words: reproduced, corrected, in part, not run in full, …
        quick: What ``--quick`` costs.
        full: What ``--full`` costs.

    Example:
        >>> STANDINGS["yeh2022/table1"].state
        'reproduced'
    """

    state: str
    quick: str = _UNKNOWN
    full: str = _UNKNOWN


# "in part" has been run with less than published (the docs say with what), "not run in full" with
# --quick alone, "corrected" is where the paper itself is wrong.
STANDINGS = {
    "basu2021/figure1": Standing("reproduced", "3 s", "3 s"),
    "basu2021/figure5": Standing("drawn anew", "3 s", "3 s"),
    "basu2021/figure6": Standing("drawn anew", "3 s", "3 s"),
    "basu2021/figure7": Standing("drawn anew", "3 s", "3 s"),
    "basu2021/figure8": Standing("drawn anew", "3 s", "3 s"),
    "basu2021/figure9": Standing("replayed on stored scores", "52 s", "about 35 min"),
    "basu2021/figure10": Standing("replayed on stored scores", "59 s", "about 40 min"),
    "basu2021/states": Standing("ours: all networks of the space", "5 s", _ON_GPU),
    "basu2021/strategies": Standing("ours: far fewer children are enough", "45 s"),
    "basu2021/table3": Standing("reproduced, in the code's order", "3 s", "3 s"),
    "basu2021/table4": Standing("reproduced", "5 s", _ON_GPU),
    "basu2021/table5": Standing("reproduced", "4 s", _ON_GPU),
    "basu2021/table6": Standing("reproduced; the gain holds", "5 s", _ON_GPU),
    "basu2021/table7": Standing("reproduced; the gain holds", "6 s", _ON_GPU),
    "basu2021/table9": Standing("counts reproduced, in the code's order", "6 s", "6 s"),
    "basu2021/table10": Standing("counts reproduced, in the code's order", "6 s", "6 s"),
    "discovered": Standing("as good as symmetries given, in 3 of 4", "79 s"),
    "finzi2023/figure2.5": Standing("in part: 1000 rows; EMLPs win", "56 s"),
    "finzi2023/figure2.6": Standing("in part: 500 of 2000 epochs", "40 s"),
    "finzi2023/figure3.2": Standing("reproduced, not with one prior", "60 s", _ON_GPU),
    "finzi2023/figure3.4": Standing("not found, in 32,000 of 1,000,000 steps", full=_ON_GPU),
    "finzi2023/figure4.2": Standing("reproduced", "3 s", "3 s"),
    "finzi2023/figure4.4": Standing("reproduced, on smaller networks"),
    "finzi2023/figure4.5": Standing("in part: 13 small networks", full=_ON_GPU),
    "finzi2023/figure4.6": Standing("in part: BlurPool does more here", full=_ON_GPU),
    "finzi2023/figure4.7": Standing("reproduced, on small networks", full=_ON_GPU),
    "finzi2023/figure5.1": Standing("not run in full", full=_ON_GPU),
    "finzi2023/figure5.2": Standing("not run in full", "42 s", _ON_GPU),
    "finzi2023/figure5.3": Standing("in part: one dimension d", full=_ON_GPU),
    "finzi2023/figureA.2": Standing("in part: Pendulum, 5,000 steps", full=_ON_GPU),
    "finzi2023/figureA.3": Standing("in part: more trends than published", full=_ON_GPU),
    "finzi2023/figureA.4": Standing("not run in full", full=_ON_GPU),
    "finzi2023/figureA.5": Standing("in part: p4 LeNet-5, not C8 Wide ResNets", full=_ON_GPU),
    "finzi2023/figureA.6": Standing("not run in full", full=_ON_GPU),
    "finzi2023/figureA.7": Standing("not run in full", full=_ON_GPU),
    "finzi2023/section3.5.1": Standing("does not hold: priors matter", full=_ON_GPU),
    "finzi2023/section3.5.2": Standing("reproduced, with 128 channels"),
    "finzi2023/section3.6.2": Standing("ours: symmetry helps"),
    "finzi2023/table2.2": Standing("in part: 500 of 2000 epochs", "48 s"),
    "finzi2023/table3.1": Standing("in part: UCI, 100 of 1000 epochs", full=_ON_GPU),
    "finzi2023/table3.2": Standing("corrected: three are wrong", "12 s", "about 1 min"),
    "finzi2023/table3.3": Standing("in part: agents of 50,000 steps", full=_ON_GPU),
    "finzi2023/table5.2": Standing("in part: no CIFAR-100, no ImageNet", full="1 h on a GPU"),
    "finzi2023/tableA.18": Standing("in part: MNIST, Fashion-MNIST", full=_ON_GPU),
    "finzi2023/tableA.19": Standing("in part: three sets; bounds are lower", full=_ON_GPU),
    "finzi2023/tableA.22": Standing("in part: MNIST", full=_ON_GPU),
    "finzi2023/tableA.23": Standing("not run in full", full="hours on a GPU"),
    "finzi2023/theorem-a.2": Standing("reproduced", "9 s"),
    "finzi2023/theorem4.1": Standing("corrected: false in two dimensions", "3 s", "3 s"),
    "ouderaa2023/lengthscales": Standing("ours: found in four of five seeds"),
    "ouderaa2023/table1": Standing("in part: 60 of 1000 epochs, one seed", full=_ON_GPU),
    "ouderaa2023/table2": Standing("not run in full", full=_ON_GPU),
    "ouderaa2023/table3": Standing("in part: 4,000 images, narrow", full=_ON_GPU),
    "ouderaa2023/table4": Standing("in part: 5,000 images, narrow", full=_ON_GPU),
    "ouderaa2023/table7": Standing("counts agree, accuracies not run", full=_ON_GPU),
    "planted": Standing("151 of 155 found, nothing false"),
    "yeh2022/figure1": Standing("corrected: a step of the proof is false", "3 s", "3 s"),
    "yeh2022/figure2": Standing("reproduced", "18 s", "18 s"),
    "yeh2022/figure3": Standing("run; published as a curve"),
    "yeh2022/figure4": Standing("run; published as a curve", "18 s", "18 s"),
    "yeh2022/figure5": Standing("reproduced; the evidence does better", "13 s"),
    "yeh2022/figure6": Standing("run; published as a curve"),
    "yeh2022/figure7": Standing("reproduced, in all 50 runs"),
    "yeh2022/figure8": Standing("reproduced, further than published", "21 s"),
    "yeh2022/figureA1": Standing("not found", "44 s", "about 75 s"),
    "yeh2022/figureA2": Standing("drawn anew", "14 s", "14 s"),
    "yeh2022/table1": Standing("reproduced", "32 s", "32 s"),
    "yeh2022/tableA1": Standing("not run in full", "over 1 min"),
}
