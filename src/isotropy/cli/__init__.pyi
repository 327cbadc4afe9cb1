from isotropy.cli._options import check_picture
from isotropy.cli._verbs import Answer, CommonOptions, main, run, verb

__all__ = ["Answer", "CommonOptions", "check_picture", "main", "run", "verb"]
