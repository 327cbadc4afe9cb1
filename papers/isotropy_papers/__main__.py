"""``python -m isotropy_papers VERB`` does what ``isotropy VERB`` does: reproduce, or campaign."""

import sys

import isotropy_papers._campaign_verb  # noqa: F401  # adds the verb
from isotropy.cli import run
from isotropy_papers._reproduce import papers_app

sys.exit(run(app=papers_app))
