"""Studies from strangers are refused by a sentence: nothing runs, nothing is believed."""

import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import optuna
import pytest

from attacks import studies
from discovery.pieces import group_space
from isotropy.search import (
    SearchResult,
    SearchSpace,
    _checked_file,
    _space_description,
)
from search.pieces import opened

# Whose harm shows only once somebody starts from them.
LATE = "weights that are not numbers"
FILES = ("link", "journal", "pipe", "log", "nothing", "claim")


@pytest.fixture(autouse=True)
def quiet_optuna():
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    yield
    optuna.logging.set_verbosity(before)


def unharmed(folder):
    assert not (folder / studies.RAN).exists()
    return (folder / studies.VICTIM).read_bytes() == studies.PRECIOUS


@pytest.mark.parametrize(
    ("name", "build"), studies.ATTACKS, ids=[name for name, _ in studies.ATTACKS]
)
def test_a_hostile_study_is_refused_and_left_alone(name, build, tmp_path):
    path = build(tmp_path)
    before = studies.contents(tmp_path)
    if name != LATE:
        assert studies.sentence(path, studies.read)
    # the same check stands before both; a draw shows that it does
    if name == LATE or any(word in name for word in FILES) or len(name) % 5 == 0:
        assert studies.sentence(path, studies.continued)
    assert unharmed(tmp_path)
    assert name == LATE or studies.contents(tmp_path) == before


@pytest.mark.parametrize(
    ("name", "build"), studies.TABLE_ATTACKS, ids=[name for name, _ in studies.TABLE_ATTACKS]
)
def test_a_hostile_table_is_refused(name, build, tmp_path):
    path = build(tmp_path)
    assert studies.sentence(path, studies.loaded)
    assert unharmed(tmp_path)


@pytest.mark.parametrize("seed", range(6))
def test_a_study_changed_at_random_is_refused_or_read(seed, tmp_path):
    path = studies.mutated(studies.written(tmp_path), random.Random(seed))
    studies.judge(path)
    assert unharmed(tmp_path)


def test_the_study_that_all_of_them_change_is_honest(tmp_path):
    assert studies.judge(studies.written(tmp_path)) is None


def test_a_study_that_something_else_made_is_refused_before_it_is_read(tmp_path):
    path = studies.written(tmp_path)
    studies.run(path, "DELETE FROM study_user_attributes WHERE key = 'isotropy'")
    assert "something else has made" in studies.sentence(path, studies.read)
    assert "something else has made" in studies.sentence(path, studies.continued)


def test_what_a_study_says_of_itself_is_not_repeated_at_length(tmp_path):
    for child in ("[" * 90_000, '{"a": ' * 9000, "x" * 90_000, "\x1b[2J\n"):
        studies.settings(child=child)(tmp_path)
        said = studies.sentence(tmp_path / "study.db", studies.continued)
        assert "the data and training" in said


@pytest.mark.parametrize("changes", [
    {"image": [1, 64, 64], "hidden": [[64]]},
    {"image": [1, 32, 32], "hidden": [[4], [32] * 9]},
])  # fmt: skip
def test_a_network_whose_weights_nobody_could_compare_is_refused(changes, tmp_path):
    # a study of 131 kB, which took gigabytes to print
    path = studies.space(**changes)(tmp_path)
    assert "a network of at most 8388608 weights" in studies.sentence(path, studies.read)


def test_spaces_of_the_largest_images_are_far_below_what_is_refused():
    for image in ((1, 28, 28), (3, 32, 32), (3, 64, 64)):
        space = group_space(image)
        assert SearchSpace.of(space.description()) == space
        cells = [image[1] * image[2], *(side**2 for side in space.hidden[0])]
        weights = sum(one * other for one, other in pairwise(cells))
        assert 4 * weights <= _space_description._LARGEST_NETWORK


def test_whatever_ends_the_look_at_a_file_is_told_in_a_sentence(tmp_path, monkeypatch):
    path = studies.written(tmp_path)
    monkeypatch.setattr(_checked_file, "_BEGIN", "import os; os.kill(os.getpid(), 11)")
    with pytest.raises(ValueError, match="could not be looked through: 'exit code -11'"):
        studies.read(path)
    monkeypatch.setattr(_checked_file, "_BEGIN", "import time; time.sleep(60)")
    monkeypatch.setattr(_checked_file, "_SECONDS", 0.2)
    with pytest.raises(ValueError, match="which takes longer"):
        studies.read(path)


def test_the_process_that_looks_at_a_file_knows_nothing_else(tmp_path, monkeypatch):
    path = studies.written(tmp_path)
    names = tmp_path / "modules"
    end = f"open({str(names)!r}, 'w').write(' '.join(sys.modules))"
    monkeypatch.setattr(_checked_file, "_BEGIN", f"{_checked_file._BEGIN}\n{end}")
    studies.read(path)
    imported = names.read_text().split()
    assert "isotropy.search._study_check" in imported
    assert not {"torch", "numpy", "optuna", "sqlalchemy", "pickle", "site"} & set(imported)


def test_reading_keeps_the_locks_of_whoever_writes_in_the_same_process(tmp_path):
    path = studies.written(tmp_path)
    other = (
        "import sqlite3, sys; sqlite3.connect(sys.argv[1], timeout=0).execute('BEGIN IMMEDIATE')"
    )
    with opened(path) as database, database.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE studies SET study_name = study_name")
        SearchResult.of(path)
        done = subprocess.run(
            [sys.executable, "-c", other, path], capture_output=True, text=True, check=False
        )
        assert "database is locked" in done.stderr


def test_a_study_that_is_written_to_all_the_time_is_read_by_sqlites_own_way(tmp_path):
    path = studies.written(tmp_path)
    script = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
while True:
    connection.execute("UPDATE studies SET study_name = study_name")
"""
    writer = subprocess.Popen([sys.executable, "-c", script, path])
    try:
        for _ in range(3):
            assert len(studies.read(path).children) == 7
    finally:
        writer.kill()
        writer.wait()


def test_only_what_was_trained_here_counts_as_such(tmp_path):
    assert studies.continued(None).origin is None
    path = studies.written(tmp_path)
    found = studies.continued(path)
    assert (len(found.children), found.origin.children) == (9, 7)
    assert str(found).startswith(f"9 children, 7 read from {path}\n")


@pytest.fixture(scope="module")
def server():
    folder = Path(tempfile.mkdtemp(prefix="isotropy-"))
    folder.chmod(0o755)
    (folder / "run").mkdir(mode=0o700)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", str(folder / "run"))
        try:
            import pgserver

            server = pgserver.get_server(folder / "data")
        except Exception as error:
            shutil.rmtree(folder)
            pytest.skip(f"no PostgreSQL server can be started here: {type(error).__name__}")
        yield server
        server.cleanup()
    shutil.rmtree(folder, ignore_errors=True)


ON_A_SERVER = (
    ("trial_values", "UPDATE {} SET value = 'NaN'", "a value of the kind FINITE"),
    ("trial_user_attributes", "UPDATE {} SET value_json = repeat('[', 9999)", "nested at most 32"),
    ("trial_user_attributes", "UPDATE {} SET value_json = repeat('1', 2000000)", "text as a note"),
    (
        "trial_user_attributes",
        """UPDATE {} SET value_json = '"x/0"' WHERE key = 'key'""",
        "groups of the study's space",
    ),
    ("trial_params", "UPDATE {} SET distribution_json = '[]'", "a distribution of Optuna"),
    ("alembic_version", "INSERT INTO {} VALUES ('x')", "at most one row"),
    (
        "isotropy_claims",
        "INSERT INTO {} SELECT value_json::json->>'mark', '/1', '/1', 'w', 1, 1e300 "
        "FROM study_user_attributes",
        "claims that end",
    ),
    ("isotropy_weights", "UPDATE {} SET weights = 'pickle'", "safetensors as the start weights"),
)


def test_rows_of_a_server_are_held_against_the_same_rules(server):
    url = server.get_uri("postgres")
    studies.honest.search(url, 3)
    for table, statement, said in ON_A_SERVER:
        server.psql(f"CREATE TABLE kept AS TABLE {table}; {statement.format(table)};")
        action = studies.continued if table == "isotropy_weights" else studies.read
        assert said in studies.sentence(url, action), statement
        back = f"DELETE FROM {table}; INSERT INTO {table} SELECT * FROM kept; DROP TABLE kept;"
        server.psql(back)
    server.psql("UPDATE trials SET state = 'FAIL' WHERE state = 'RUNNING';")
    assert len(studies.read(url).children) == 3


def test_a_url_that_gives_sqlite_more_to_do_is_refused():
    for url in ("sqlite:///file:a.db?mode=rwc&uri=true", "sqlite+pysqlcipher:///a.db"):
        with pytest.raises(ValueError, match="expected sqlite:/// and the path of a file, got"):
            SearchResult.of(url)


def test_optuna_would_have_unpickled_what_is_refused(tmp_path):
    # what makes the attribute of a sampler an attack: with that sampler, the pickle runs
    path = studies.pickled_sampler(tmp_path)
    with closing(sqlite3.connect(path)) as connection:
        query = "SELECT value_json FROM trial_system_attributes WHERE key LIKE 'cma:%'"
        texts = [text for (text,) in connection.execute(query)]
    assert any("6f70656e" in text for text in texts)  # "open", in hexadecimal digits
    assert "may unpickle" in studies.sentence(path, studies.read)
