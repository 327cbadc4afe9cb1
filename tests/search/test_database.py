import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy

from isotropy.search import _database
from search.pieces import opened


def refused(storage, error=ValueError, **options):
    with pytest.raises(error) as caught, opened(storage, **options):
        pass
    return str(caught.value)


def test_a_file_is_made_with_its_folder_also_where_the_name_is_odd(tmp_path):
    path = tmp_path / "a {new} folder" / "odd ? 50% name.db"
    with opened(path) as database:
        assert database.address == str(path)
        names = sqlalchemy.inspect(database.engine).get_table_names()
        assert {"studies", "trials", "isotropy_claims", "isotropy_weights"} <= set(names)
    assert path.read_bytes().startswith(b"SQLite format 3")
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_temporary_file_is_gone_at_the_end():
    with opened(None) as database:
        path = Path(database.engine.url.database)
        assert path.exists()
    assert not path.exists()


def test_a_url_of_sqlite_is_the_same_file(tmp_path):
    with opened(f"sqlite:///{tmp_path}/study.db") as database:
        assert database.address == str(tmp_path / "study.db")
    assert (tmp_path / "study.db").exists()


def test_what_is_no_database_is_refused_in_one_sentence(tmp_path):
    (tmp_path / "notes.txt").write_text("not a database, but long enough to be looked at" * 9)
    assert "expected an SQLite file" in refused(tmp_path / "notes.txt")
    assert "unable to open" in refused(tmp_path)
    assert "other processes" in refused("sqlite://")
    assert "SQLite or PostgreSQL" in refused("mysql://me:secret@host/db")
    assert "secret" not in refused("mysql://me:secret@host/db")
    assert "secret" not in refused("postgresql://me:secret@host:port/db")


def test_reading_makes_nothing(tmp_path):
    assert "does not exist" in refused(tmp_path / "none.db", create=False)
    assert list(tmp_path.iterdir()) == []
    sqlite3.connect(tmp_path / "empty.db").close()
    assert "holds none" in refused(tmp_path / "empty.db", create=False)
    assert (tmp_path / "empty.db").stat().st_size == 0


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+psycopg"])
def test_an_unreachable_server_is_named_without_its_password(scheme):
    said = refused(f"{scheme}://me:secret@127.0.0.1:1/db", ConnectionError)
    start = "expected a database that can be reached at postgresql://me:***@127.0.0.1:1/db, got: "
    assert said.startswith(start)
    assert "secret" not in said
    assert "\n" not in said


def test_a_password_in_the_query_is_hidden_too():
    said = refused("postgresql://127.0.0.1:1/db?user=me&password=secret", ConnectionError)
    assert "secret" not in said


def test_without_psycopg_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    assert "pip install psycopg[binary]" in refused("postgresql://me@127.0.0.1:1/db")


def break_down(engine, times):
    """Let the next statements fail as they do when a server goes away."""
    left = [times]

    @sqlalchemy.event.listens_for(engine, "before_cursor_execute")
    def fail(*_):
        if left[0] > 0:
            left[0] -= 1
            lost = Exception("server closed the connection")
            raise sqlalchemy.exc.OperationalError("SELECT", {}, lost)


@pytest.mark.parametrize("times", [0, 2, 3])
def test_a_short_outage_is_waited_for_and_a_long_one_told(tmp_path, monkeypatch, caplog, times):
    monkeypatch.setattr(_database, "OUTAGE_PAUSES", (0.01, 0.01))
    with opened(tmp_path / "study.db") as database:
        break_down(database.engine, times)

        def count():
            with database.engine.connect() as connection:
                return connection.scalar(sqlalchemy.text("SELECT 7"))

        if times <= 2:
            assert database.patiently(count) == 7
            told = [one.getMessage() for one in caplog.records if "trying again" in one.message]
            assert len(told) == min(times, 1)
            return
        with pytest.raises(ConnectionError, match="got: server closed the connection"):
            database.patiently(count)


def test_reports_are_tried_for_minutes(tmp_path, monkeypatch):
    waited = []
    monkeypatch.setattr(_database.time, "sleep", waited.append)
    with opened(tmp_path / "study.db") as database:
        break_down(database.engine, 1000)
        with pytest.raises(ConnectionError), database.engine.connect() as connection:
            database.patiently(
                lambda: connection.scalar(sqlalchemy.text("SELECT 7")), _database.REPORT_PAUSES
            )
    assert 300 <= sum(waited) < 360
    assert max(waited) == 10


def test_the_link_to_a_server_is_watched_unless_the_url_says_otherwise():
    url = sqlalchemy.make_url("postgresql+psycopg://host/db?connect_timeout=3")
    options = _database._options(url)["connect_args"]
    assert options["keepalives"] == 1
    assert options["tcp_user_timeout"] == 60_000
    assert "connect_timeout" not in options


def test_an_error_of_another_kind_is_not_repeated(tmp_path):
    calls = []

    def fail():
        calls.append(1)
        raise KeyError("ours")

    with opened(tmp_path / "study.db") as database, pytest.raises(KeyError):
        database.patiently(fail)
    assert len(calls) == 1
