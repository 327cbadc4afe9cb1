import numpy as np
import pytest

from isotropy.discovery.proposing.generators._thin_polynomials import clear_count


@pytest.mark.parametrize(
    ("distances", "count"),
    [
        ([1e-9, 1e-8, 40.0], 2),
        ([1e-9, 2.0, 8.0, 90.0], 1),  # no gap after the second
        ([2.0, 8.0, 90.0], 0),
        ([20.0, 900.0], 0),
        ([0.0, 0.0], 2),
        ([], 0),
    ],
)
def test_a_gap_must_follow(distances: list[float], count: int) -> None:
    assert clear_count(np.array(distances)) == count
