"""``python -m isotropy_papers reproduce`` does what ``isotropy reproduce`` does."""

import sys

from isotropy.cli import run
from isotropy_papers._reproduce import papers_app

sys.exit(run(app=papers_app))
