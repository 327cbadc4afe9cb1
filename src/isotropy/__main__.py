"""``python -m isotropy`` does what ``isotropy`` does."""

from isotropy.cli import main

main()
