"""One thread within, as many as before afterwards."""

import torch

from isotropy._run import one_thread


def test_threads_come_back():
    before = torch.get_num_threads()
    with one_thread():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == before
