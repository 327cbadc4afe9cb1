"""``python papers reproduce`` in a checkout does what ``isotropy reproduce`` does."""

from runpy import run_module

run_module("isotropy_papers", run_name="__main__", alter_sys=True)
