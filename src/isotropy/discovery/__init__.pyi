from isotropy.discovery._discover_data import discover
from isotropy.discovery._discover_options import DiscoverOptions
from isotropy.discovery._example_tasks import example_tasks
from isotropy.discovery.generators import GeneratorOptions, find_generators
from isotropy.discovery.reading._shape_reading import read_shape
from isotropy.discovery.telling._finding import Finding
from isotropy.discovery.telling._findings import Findings
from isotropy.discovery.testing._claim_test import (
    ClaimTest,
    ConfirmOptions,
    claim_test,
    confirm,
)
from isotropy.discovery.testing._confirm_action import confirm_action
from isotropy.discovery.testing._data_support import DataSupport
from isotropy.discovery.testing._orbit_average import orbit_average

__all__ = [
    "ClaimTest",
    "ConfirmOptions",
    "DataSupport",
    "DiscoverOptions",
    "Finding",
    "Findings",
    "GeneratorOptions",
    "claim_test",
    "confirm",
    "confirm_action",
    "discover",
    "example_tasks",
    "find_generators",
    "orbit_average",
    "read_shape",
]
