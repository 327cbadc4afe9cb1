"""What observations and actions of the usual environments are made of, and their symmetries.

Axes are those of the joints in the models that come with gymnasium; signs follow from them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

from isotropy.rl._environment_symmetry import EnvironmentSymmetry, Holds
from isotropy.rl._parts import (
    Axis,
    Part,
    axial,
    choice,
    direction,
    hinge,
    quaternion,
    scalar,
    slide,
    vector,
)
from isotropy.rl._transformations import Transformation, body_turn, mirror, world_rotation

_LEGS = ("leg 1", "leg 2", "leg 3", "leg 4")
_ANT_MIRROR = mirror("y", [("leg 1", "leg 4"), ("leg 2", "leg 3")])
_ANT_TURN = body_turn(90, "z", [_LEGS])
_ANT_ANKLES: tuple[Axis, ...] = ((-1, 1, 0), (1, 1, 0), (-1, 1, 0), (1, 1, 0))
_HUMANOID_LEG: Mapping[str, tuple[Axis, Axis]] = {
    "hip x": ("x", "-x"),
    "hip z": ("z", "-z"),
    "hip y": ("y", "y"),
    "knee": ("-y", "-y"),
}
_HUMANOID_ARM: Mapping[str, tuple[Axis, Axis]] = {
    "shoulder 1": ((2, 1, 1), (2, -1, 1)),
    "shoulder 2": ((0, -1, 1), (0, 1, 1)),
    "elbow": ((0, -1, 1), (0, -1, -1)),
}


@dataclass(frozen=True)
class Description:
    """An environment's observation and action, and the symmetries that are known of it.

    Args:
        observation: The parts of its observation.
        action: The parts of its action.
        transformations: By the name of each symmetry its generators; the first is the default.
        holds: How far they hold, by name; "exactly" where nothing else stands.
        options: With what ``gymnasium.make`` gives this observation, where not by default.
    """

    observation: list[Part]
    action: list[Part]
    transformations: Mapping[str, list[Transformation]]
    holds: Mapping[str, Holds] = field(default_factory=dict)
    options: Mapping[str, bool] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """The names of its symmetries, the default first."""
        return list(self.transformations)

    def symmetry(self, name: str) -> EnvironmentSymmetry:
        """The symmetry of a name."""
        holds = self.holds.get(name, "exactly")
        generators = self.transformations[name]
        return EnvironmentSymmetry.described(self.observation, self.action, generators, holds=holds)


@cache
def descriptions() -> dict[str, Description]:
    """The descriptions by the ids of their environments.

    Example:
        >>> descriptions()["Ant-v5"].names[:3]
        ['D(4)', 'mirror', 'world rotation']
    """
    found = {
        "Ant-v5": _ant({"include_cfrc_ext_in_observation": False}),
        "Ant-v4": _ant({}),
        "CartPole-v1": _cart_pole(),
        "Humanoid-v5": _humanoid(),
        "InvertedDoublePendulum-v5": _double_pendulum(),
        "InvertedPendulum-v5": _inverted_pendulum(),
        "InvertedPendulum-v4": _inverted_pendulum(),
        "Pendulum-v1": _pendulum(),
        "Reacher-v5": _reacher("xy"),
        "Reacher-v4": _reacher("xyz"),
    }
    for version in ("v5", "v4"):
        found[f"HalfCheetah-{version}"] = _half_cheetah()
        found[f"Hopper-{version}"] = _hopper()
        found[f"Swimmer-{version}"] = _swimmer()
        # the feet of the older walker have unequal friction
        found[f"Walker2d-{version}"] = _walker("exactly" if version == "v5" else "approximately")
    return dict(sorted(found.items()))


def _moving(angles: list[Part], velocity: list[Part]) -> list[Part]:
    """Angles, then the velocity of the root, then how fast the angles change."""
    rates = [
        Part(part.kind, f"{part.name} rate", part.axes, part.frame)
        for part in angles
        if part.kind == "hinge"
    ]
    return [*angles, *velocity, *rates]


def _hinges(names: list[str], axis: Axis) -> list[Part]:
    return [hinge(name, axis) for name in names]


def _walker(holds: Holds) -> Description:
    joints = _hinges(
        [f"{s} {j}" for s in ("right", "left") for j in ("thigh", "leg", "foot")], "-y"
    )
    angles = [scalar("height"), hinge("torso", "y"), *joints]
    return Description(
        _moving(angles, [vector("velocity", "xz")]),
        joints,
        {"mirror": [mirror("y")]},
        holds={"mirror": holds},
    )


def _hopper() -> Description:
    joints = _hinges(["thigh", "leg", "foot"], "-y")
    angles = [scalar("height"), hinge("torso", "y"), *joints]
    return Description(
        _moving(angles, [vector("velocity", "xz")]),
        joints,
        {"mirror": [mirror("x", [])]},
        holds={"mirror": "poorly"},  # mirrored, its joints are beyond their limits
    )


def _half_cheetah() -> Description:
    joints = _hinges(
        [f"{e} {j}" for e in ("back", "front") for j in ("thigh", "shin", "foot")], "y"
    )
    angles = [scalar("height"), hinge("torso", "y"), *joints]
    return Description(
        _moving(angles, [vector("velocity", "xz")]),
        joints,
        {"mirror": [mirror("x", [])], "front/back": [mirror("x", [("front", "back")])]},
        holds={"mirror": "approximately", "front/back": "approximately"},
    )


def _swimmer() -> Description:
    joints = _hinges(["joint 1", "joint 2"], "z")
    return Description(
        _moving([hinge("front", "z"), *joints], [vector("velocity", "xy")]),
        joints,
        {"mirror": [mirror("y")]},
    )


def _ant(options: Mapping[str, bool]) -> Description:
    joints = [
        part
        for leg, axis in zip(_LEGS, _ANT_ANKLES, strict=True)
        for part in (hinge(f"{leg} hip", "z"), hinge(f"{leg} ankle", axis))
    ]
    angles = [scalar("height"), quaternion("torso"), *joints]
    velocity = [vector("velocity"), axial("angular velocity")]
    return Description(
        _moving(angles, velocity),
        [*joints[6:], *joints[:6]],
        {
            "D(4)": [_ANT_TURN, _ANT_MIRROR],
            "mirror": [_ANT_MIRROR],
            "world rotation": [world_rotation("z")],
            "D(4) with world rotation": [_ANT_TURN, _ANT_MIRROR, world_rotation("z")],
        },
        # contacts with pyramids of friction know directions, so these hold but for some of them
        dict.fromkeys(["world rotation", "D(4) with world rotation"], "in dynamics only"),
        options,
    )


def _humanoid() -> Description:
    abdomen = [hinge(f"abdomen {axis}", axis) for axis in ("z", "y", "x")]
    joints = [*abdomen, *_on_both_sides(_HUMANOID_LEG), *_on_both_sides(_HUMANOID_ARM)]
    angles = [scalar("height"), quaternion("torso"), *joints]
    velocity = [vector("velocity"), axial("angular velocity")]
    return Description(
        _moving(angles, velocity),
        [joints[1], joints[0], *joints[2:]],
        {
            "mirror": [mirror("y")],
            "world rotation": [world_rotation("z")],
            "mirror with world rotation": [mirror("y"), world_rotation("z")],
        },
        # hips and knees of the two sides differ a little in the model
        {
            "mirror": "approximately",
            "world rotation": "in dynamics only",
            "mirror with world rotation": "approximately",
        },
        {
            f"include_{name}_in_observation": False
            for name in ("cinert", "cvel", "qfrc_actuator", "cfrc_ext")
        },
    )


def _on_both_sides(axes: Mapping[str, tuple[Axis, Axis]]) -> list[Part]:
    """Hinges of the right side, then of the left, each with its axis on either."""
    return [
        hinge(f"{side} {name}", pair[k])
        for k, side in enumerate(("right", "left"))
        for name, pair in axes.items()
    ]


def _cart_pole() -> Description:
    return Description(
        [slide("cart", "x"), slide("cart velocity", "x"), hinge("pole", "y"),
         hinge("pole rate", "y")],
        choice("push left", "push right"),
        {"mirror": [mirror("x")]},
    )  # fmt: skip


def _pendulum() -> Description:
    return Description(
        [direction("pole", "y"), hinge("pole rate", "y")],
        [hinge("torque", "y")],
        {"mirror": [mirror("x", [])]},
    )


def _inverted_pendulum() -> Description:
    return Description(
        [slide("cart", "x"), hinge("pole", "y"), slide("cart velocity", "x"),
         hinge("pole rate", "y")],
        [slide("push", "x")],
        {"mirror": [mirror("x", [])]},
        holds={"mirror": "approximately"},  # the pole of the model leans a little
    )  # fmt: skip


def _double_pendulum() -> Description:
    """Gravity leans by a millionth in the model: what that breaks is less than 1e-5 of a step."""
    return Description(
        [
            slide("cart", "x"),
            direction("lower pole", "y").placed(3, 1),
            direction("upper pole", "y").placed(4, 2),
            slide("cart velocity", "x"),
            *_hinges(["lower pole rate", "upper pole rate"], "y"),
            slide("force on the cart", "x"),
        ],
        [slide("push", "x")],
        {"mirror": [mirror("x", [])]},
    )


def _reacher(axes: str) -> Description:
    joints = _hinges(["shoulder", "elbow"], "z")
    return Description(
        [
            vector("upper arm", "xy").placed(0, 2),
            direction("forearm", "z").placed(1, 3),
            vector("target", "xy"),
            *_hinges(["shoulder rate", "elbow rate"], "z"),
            vector("from target to fingertip", axes),
        ],
        joints,
        {
            "O(2)": [mirror("y"), world_rotation("z")],
            "mirror": [mirror("y")],
            "world rotation": [world_rotation("z")],
        },
    )
