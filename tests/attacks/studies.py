"""Studies that a stranger could hand over: each breaks one rule of an honest one.

Every builder writes a study into a folder and returns its path. What would run something leaves the
file ``ran`` there, and what would harm another file harms ``victim``.
"""

from __future__ import annotations

import gzip
import importlib.util
import io
import json
import os
import pickle
import random
import shutil
import sqlite3
import struct
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save

from isotropy.search import SearchResult, search_groups
from isotropy_papers.score_table import ScoreTable

HONEST = Path(__file__).parents[1] / "honest" / "studies"
_SPEC = importlib.util.spec_from_file_location("write_studies", HONEST / "write_studies.py")
honest = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(honest)

DATA = gzip.decompress((HONEST / "search.db.gz").read_bytes())
LOG = gzip.decompress((HONEST / "left.db-wal.gz").read_bytes())
RAN, VICTIM = "ran", "victim"
PRECIOUS = b"export PATH=/usr/bin\n" * 99
# The study that is attacked, and one of its finished trials.
OURS = "(SELECT study_id FROM studies WHERE study_name = 'search')"
TRIAL = f"(SELECT min(trial_id) FROM trials WHERE study_id = {OURS} AND state = 'COMPLETE')"


class Leaves:
    """What leaves a file where it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def written(folder: Path, name: str = "study.db") -> Path:
    """An honest study, and a file beside it that nobody may touch."""
    (folder / VICTIM).write_bytes(PRECIOUS)
    (folder / name).write_bytes(DATA)
    return folder / name


def sql(*statements: str, schema: bool = False) -> Callable[[Path], Path]:
    """An honest study after some statements."""

    def build(folder: Path) -> Path:
        path = written(folder)
        run(path, *statements, schema=schema)
        return path

    return build


def run(path: Path, *statements: str | tuple, schema: bool = False) -> None:
    """Run statements on a file, without the constraints that would forbid them."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode=DELETE")
        connection.execute("PRAGMA ignore_check_constraints=ON")
        connection.execute(f"PRAGMA writable_schema={schema:d}")
        connection.execute("BEGIN")
        for one in statements:
            connection.execute(*(one if isinstance(one, tuple) else (one,)))
        connection.execute("COMMIT")


def remade(table: str, sql_text: str, *more: str) -> Callable[[Path], Path]:
    """A study one of whose tables was dropped and made anew."""
    return sql(f"DROP TABLE {table}", sql_text, *more)


def edited(name: str, old: str, new: str) -> Callable[[Path], Path]:
    """A study whose schema says something else of a table."""
    change = f"UPDATE sqlite_master SET sql = replace(sql, '{old}', '{new}') WHERE name = '{name}'"
    return sql(change, schema=True)


def note(key: str, value: object) -> Callable[[Path], Path]:
    """A study with another note at a trial."""
    return raw_note(key, json.dumps(value))


def raw_note(key: str, text: str) -> Callable[[Path], Path]:
    return attribute("trial_user_attributes", "trial_id", TRIAL, key, text)


def attribute(table: str, owner: str, of: str, key: str, text: str) -> Callable[[Path], Path]:
    def build(folder: Path) -> Path:
        path = written(folder)
        statement = f"INSERT OR REPLACE INTO {table} ({owner}, key, value_json) VALUES ({of}, ?, ?)"
        run(path, (statement, (key, text)))
        return path

    return build


def settings(**changes: object) -> Callable[[Path], Path]:
    """A study whose settings are other ones; None takes one away."""

    def build(folder: Path) -> Path:
        path = written(folder)
        with closing(sqlite3.connect(path)) as connection:
            query = "SELECT value_json FROM study_user_attributes WHERE key = 'isotropy'"
            found = json.loads(connection.execute(query).fetchone()[0])
        found = {k: v for k, v in {**found, **changes}.items() if v is not None}
        change = "UPDATE study_user_attributes SET value_json = ? WHERE key = 'isotropy'"
        run(path, (change, (json.dumps(found),)))
        return path

    return build


def space(**changes: object) -> Callable[[Path], Path]:
    return settings(space=json.dumps({**json.loads(honest.SPACE.description()), **changes}))


def raw_settings(text: str) -> Callable[[Path], Path]:
    return sql(f"UPDATE study_user_attributes SET value_json = '{text}' WHERE key = 'isotropy'")


def param(column: str, value: str) -> Callable[[Path], Path]:
    return sql(f"UPDATE trial_params SET {column} = {value} WHERE trial_id = {TRIAL}")


def claim(**changes: object) -> Callable[[Path], Path]:
    """A study with a claim that somebody else holds."""

    def build(folder: Path) -> Path:
        path = written(folder)
        row = {"key": "rotation/0", "worker": "w", "turn": 1, "expires": time.time() + 60}
        row = {"child": "rotation/0", **row, **changes}
        mark = "(SELECT json_extract(value_json, '$.mark') FROM study_user_attributes"
        statement = (
            f"INSERT INTO isotropy_claims VALUES ({mark} WHERE key = 'isotropy'), "
            ":child, :key, :worker, :turn, :expires)"
        )
        run(path, (statement, row))
        return path

    return build


def weights(make: Callable[[Path], bytes]) -> Callable[[Path], Path]:
    """A study whose start weights are other bytes."""

    def build(folder: Path) -> Path:
        path = written(folder)
        run(path, ("UPDATE isotropy_weights SET weights = ?", (make(folder),)))
        return path

    return build


def header(text: str, data: bytes = b"") -> Callable[[Path], bytes]:
    return lambda folder: struct.pack("<Q", len(text)) + text.encode() + data


def torch_saved(folder: Path) -> bytes:
    buffer = io.BytesIO()
    torch.save(Leaves(folder / RAN), buffer)
    return buffer.getvalue()


def pickled_sampler(folder: Path) -> Path:
    """What Optuna's CMA-ES would unpickle."""
    text = json.dumps(pickle.dumps(Leaves(folder / RAN)).hex())
    return attribute("trial_system_attributes", "trial_id", TRIAL, "cma:optimizer:0", text)(folder)


def linked(end: str) -> Callable[[Path], Path]:
    """A study beside which SQLite would write into somebody else's file."""

    def build(folder: Path) -> Path:
        path = written(folder)
        (folder / f"study.db{end}").symlink_to(folder / VICTIM)
        return path

    return build


def hard_linked(folder: Path) -> Path:
    path = written(folder)
    os.link(folder / VICTIM, folder / "study.db-wal")
    return path


def hot_journal(folder: Path) -> Path:
    """A journal to roll back, after which SQLite removes the file that its end names."""
    path = written(folder)
    run(path)  # out of the WAL mode, where there are no such journals
    page = path.read_bytes()[:4096]
    magic = bytes([0xD9, 0xD5, 0x05, 0xF9, 0x20, 0xA1, 0x63, 0xD7])
    nonce, sector = 7, 512
    start = magic + struct.pack(">5I", 1, nonce, len(path.read_bytes()) // 4096, sector, 4096)
    check = (nonce + sum(page[k] for k in range(4096 - 200, 0, -200))) % 2**32
    record = struct.pack(">I", 1) + page + struct.pack(">I", check)
    name = os.fsencode(folder / VICTIM)
    end = struct.pack(">I", 2**30 // 4096 + 1) + name + struct.pack(">I", len(name))
    end += struct.pack(">I", sum(name)) + magic
    (folder / "study.db-journal").write_bytes(start.ljust(sector, b"\0") + record + end)
    return path


def dangling(folder: Path) -> Path:
    written(folder, "other.db")
    (folder / "study.db").symlink_to(folder / "made by opening")
    return folder / "study.db"


def link_to_empty(folder: Path) -> Path:
    written(folder, "other.db")
    (folder / "empty.py").touch()
    (folder / "study.db").symlink_to(folder / "empty.py")
    return folder / "study.db"


def pipe(folder: Path) -> Path:
    written(folder, "other.db")
    os.mkfifo(folder / "study.db")
    return folder / "study.db"


def piped_wal(folder: Path) -> Path:
    path = written(folder)
    os.mkfifo(folder / "study.db-wal")
    return path


def sparse(folder: Path) -> Path:
    path = written(folder)
    os.truncate(path, 2**42)
    return path


def sparse_wal(folder: Path) -> Path:
    path = written(folder)
    (folder / "study.db-wal").touch()
    os.truncate(folder / "study.db-wal", 2**42)
    return path


def other_wal(folder: Path) -> Path:
    """An honest file, beside which a log holds a wrong accuracy."""
    path = written(folder, "made.db")
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("UPDATE trial_values SET value = 7.0")
        for end in ("", "-wal"):
            shutil.copy(f"{path}{end}", folder / f"study.db{end}")
    return folder / "study.db"


def utf16(folder: Path) -> Path:
    path = written(folder, "other.db")
    with (
        closing(sqlite3.connect(path)) as old,
        closing(sqlite3.connect(folder / "study.db")) as new,
    ):
        new.execute("PRAGMA encoding = 'UTF-16'")
        new.executescript("\n".join(old.iterdump()))
    return folder / "study.db"


def swapped_roots(first: str, second: str) -> Callable[[Path], Path]:
    """A study whose indices lead elsewhere: what is found by name is not what is listed."""
    pair = f"('{first}', '{second}')"
    both = f"(SELECT sum(rootpage) FROM sqlite_master WHERE name IN {pair})"
    return sql(
        f"UPDATE sqlite_master SET rootpage = {both} - rootpage WHERE name IN {pair}", schema=True
    )


def repeated_page(folder: Path) -> Path:
    """A table whose tree has the same page again and again: a small file with endless rows."""
    path = written(folder)
    rows = "WITH RECURSIVE n(k) AS (SELECT 100 UNION ALL SELECT k + 1 FROM n WHERE k < 9000)"
    row = f"{rows} INSERT INTO trial_heartbeats SELECT k, k, '2026-01-01 00:00:00' FROM n"
    run(path, row)
    with closing(sqlite3.connect(path)) as connection:
        query = "SELECT rootpage FROM sqlite_master WHERE name = 'trial_heartbeats'"
        root = connection.execute(query).fetchone()[0]
    data = bytearray(path.read_bytes())
    page = (root - 1) * 4096
    cells = struct.unpack(">H", data[page + 3 : page + 5])[0]
    places = struct.unpack(f">{cells}H", data[page + 12 : page + 12 + 2 * cells])
    first = data[page + places[0] : page + places[0] + 4]
    for place in places:
        data[page + place : page + place + 4] = first
    path.write_bytes(data)
    return path


def truncated(folder: Path) -> Path:
    path = written(folder)
    path.write_bytes(DATA[: len(DATA) // 2])
    return path


def many(count: int, statement: str) -> Callable[[Path], Path]:
    """A study with very many rows."""
    rows = f"WITH RECURSIVE n(k) AS (SELECT 1000 UNION ALL SELECT k + 1 FROM n WHERE k < {count})"
    return sql(f"{rows} {statement}")


def distribution(kind: str, **about: object) -> Callable[[Path], Path]:
    text = json.dumps({"name": kind, "attributes": about})
    return param("distribution_json", f"'{text}'")


def tensor(name: str, dtype: str, shape: list[int], first: int, last: int) -> str:
    about = {"dtype": dtype, "shape": shape, "data_offsets": [first, last]}
    return f'"{name}":{json.dumps(about)}'


NESTED = "[" * 200_000 + "]" * 200_000
BIAS = tensor("bias", "F32", [1], 0, 4)

ATTACKS: tuple[tuple[str, Callable[[Path], Path]], ...] = (
    # what the schema could do
    (
        "a trigger makes children better when one is claimed",
        sql(
            "CREATE TRIGGER better AFTER INSERT ON isotropy_claims BEGIN "
            "UPDATE trial_values SET value = 0.999; END"
        ),
    ),
    (
        "a view of endless rows in place of the studies",
        sql(
            "DROP TABLE studies",
            "CREATE VIEW studies AS WITH RECURSIVE n(study_id) AS (SELECT 1 UNION ALL "
            "SELECT study_id + 1 FROM n) SELECT study_id, 'search' AS study_name FROM n",
        ),
    ),
    (
        "a view that makes up values",
        sql(
            "ALTER TABLE trial_values RENAME TO true_values",
            "CREATE VIEW trial_values AS SELECT trial_value_id, trial_id, objective, "
            "1.0 AS value, value_type FROM true_values",
        ),
    ),
    (
        "a virtual table",
        sql(
            "INSERT INTO sqlite_master VALUES ('table', 'trial_heartbeats2', 'trial_heartbeats2', "
            "0, 'CREATE VIRTUAL TABLE trial_heartbeats2 USING fts3(a, tokenize=simple)')",
            schema=True,
        ),
    ),
    ("a generated column", edited("trial_values", "value FLOAT", "value FLOAT AS (1.0)")),
    (
        "a column whose default is computed",
        edited("trials", "state VARCHAR(8)", "state VARCHAR(8) DEFAULT (hex(randomblob(9e8)))"),
    ),
    (
        "a check that costs a gigabyte",
        edited("trials", "PRIMARY KEY", "CHECK (length(randomblob(9e8)) > 0), PRIMARY KEY"),
    ),
    ("an index on an expression", sql("CREATE INDEX ix ON trials (abs(number))")),
    ("an index of some rows", sql("CREATE UNIQUE INDEX ix ON trials (state) WHERE number > 90")),
    ("an unknown collation", edited("studies", "VARCHAR(512)", "VARCHAR(512) COLLATE mine")),
    (
        "a conflict that replaces rows",
        edited("studies", "(study_id)", "(study_id) ON CONFLICT REPLACE"),
    ),
    ("statistics that mislead the planner", sql("ANALYZE")),
    ("a table more", sql("CREATE TABLE more (a)")),
    ("a column more", sql("ALTER TABLE trials ADD COLUMN more TEXT")),
    ("a comment in the schema", edited("studies", "NOT NULL", "/* */ NOT NULL")),
    (
        "thousands of tables",
        lambda folder: sql(*(f"CREATE TABLE t{k} (a)" for k in range(2000)))(folder),
    ),
    (
        "a schema that is not SQL",
        sql("UPDATE sqlite_master SET sql = 'CREATE TABLE (' WHERE name = 'studies'", schema=True),
    ),
    # what the bytes could do
    (
        "indices that lead elsewhere",
        swapped_roots("sqlite_autoindex_isotropy_weights_1", "sqlite_autoindex_isotropy_claims_1"),
    ),
    ("one page many times", repeated_page),
    ("half a file", truncated),
    ("a text of two bytes a letter", utf16),
    ("four terabytes of nothing", sparse),
    ("four terabytes of nothing as a log", sparse_wal),
    # what files beside it could do
    ("a log that is a link", linked("-wal")),
    ("an index of a log that is a link", linked("-shm")),
    ("a journal that is a link", linked("-journal")),
    ("a log that is another file", hard_linked),
    ("a journal that names a file to remove", hot_journal),
    ("a link to nothing", dangling),
    ("a link to an empty file", link_to_empty),
    ("a pipe", pipe),
    ("a pipe as a log", piped_wal),
    ("a log that changes accuracies", other_wal),
    # what scores could say
    ("an accuracy above one", sql(f"UPDATE trial_values SET value = 1.5 WHERE trial_id = {TRIAL}")),
    ("a negative accuracy", sql(f"UPDATE trial_values SET value = -1 WHERE trial_id = {TRIAL}")),
    (
        "an endless accuracy",
        sql("UPDATE trial_values SET value = NULL, value_type = 'INF_POS'"),
    ),
    ("an accuracy that overflows", sql("UPDATE trial_values SET value = 9e999")),
    ("no accuracy", sql("UPDATE trial_values SET value = NULL")),
    ("a finished child without accuracy", sql("DELETE FROM trial_values")),
    ("an accuracy in words", sql("UPDATE trial_values SET value = 'the best'")),
    ("an accuracy in bytes", sql("UPDATE trial_values SET value = x'00ff'")),
    ("an accuracy of a kind that is not", sql("UPDATE trial_values SET value_type = 'GOOD'")),
    (
        "two accuracies",
        sql(f"INSERT INTO trial_values VALUES (900, {TRIAL}, 1, 0.5, 'FINITE')"),
    ),
    ("an objective far away", sql("UPDATE trial_values SET objective = 1000000000")),
    ("a study that is minimised", sql("UPDATE study_directions SET direction = 'MINIMIZE'")),
    ("a direction that is not", sql("UPDATE study_directions SET direction = 'SIDEWAYS'")),
    ("a state that is not", sql(f"UPDATE trials SET state = 'WON' WHERE trial_id = {TRIAL}")),
    ("a date that is none", sql("UPDATE trials SET datetime_complete = 'yesterday'")),
    ("a date before all zones", sql("UPDATE trials SET datetime_start = '0001-01-01 00:00:00'")),
    ("seconds that are not a number", raw_note("seconds", "NaN")),
    ("negative seconds", note("seconds", -5.0)),
    ("a number that overflows", raw_note("finished", "1e999")),
    ("an end in words", note("finished", "today")),
    ("very many parameters", note("parameters", 10**300)),
    ("epochs in words", note("epochs", "many")),
    ("epochs that are true", note("epochs", True)),
    # what names could say
    ("a key of another space", note("key", "teleport/0")),
    ("a key of other hidden grids", note("key", "rotation/7")),
    ("a key that counts backwards", note("key", "rotation/-1")),
    ("a key of ten thousand digits", note("key", "/" + "9" * 10_000)),
    ("a key that is a number", note("key", 7)),
    ("a key of other parameters", note("key", "rotation+vertical flip/0")),
    ("a key in other digits", note("key", "/٠")),
    ("an endless start", note("key", "/0" + "</0" * 1000)),
    (
        "a study of a name without end",
        sql("UPDATE studies SET study_name = hex(zeroblob(4000000)) WHERE study_id = 1"),
    ),
    # what texts in JSON could hold
    ("nesting without end", raw_note("seed", NESTED)),
    ("nesting without end in the settings", raw_settings(NESTED)),
    ("a string without end", raw_note("seed", "[" * 33 + '"' + '\\"' * 500_000)),
    ("a note of megabytes", raw_note("seed", json.dumps("x" * 20_000_000))),
    ("a note that is no JSON", raw_note("seed", "__import__('os')")),
    ("a note in bytes", sql("UPDATE trial_user_attributes SET value_json = x'7b7d'")),
    (
        "a note that is not UTF-8",
        sql("UPDATE trial_user_attributes SET value_json = CAST(x'22ff22' AS TEXT)"),
    ),
    ("a name twice in the settings", raw_settings('{"format": 1, "format": 1}')),
    ("settings in a list", raw_settings("[1]")),
    ("settings without a space", settings(space=None)),
    ("a format in words", settings(format="newest")),
    ("a mark that no text can hold", settings(mark="\ud800" * 16)),
    ("a mark of another study", settings(mark=["a"])),
    ("an image of a trillion pixels", space(image=[1, 10**6, 10**6])),
    ("an image of negative size", space(image=[1, -4, 4])),
    ("hidden grids without end", space(hidden=[[4]] * 100_000)),
    ("a layer of many weights", space(image=[1, 64, 64], hidden=[[64]])),
    ("many layers of many weights", space(image=[1, 32, 32], hidden=[[32] * 9])),
    ("hidden grids of a fraction", space(hidden=[[4.5]])),
    ("groups that are not", space(groups=["__class__"])),
    ("a step in words", space(step="far")),
    # what Optuna would read
    ("an optimiser of Optuna's in a pickle", pickled_sampler),
    ("a distribution that is not", distribution("Popen", args="ls")),
    ("a distribution without choices", distribution("CategoricalDistribution", choices=[])),
    ("a distribution of numbers in words", distribution("FloatDistribution", low="a", high=1)),
    ("a distribution in a list", param("distribution_json", "'[1]'")),
    ("other choices than the space's", distribution("CategoricalDistribution", choices=[1, 0])),
    ("a choice that is not there", param("param_value", "99")),
    ("the last choice but one", param("param_value", "-1")),
    ("a choice that overflows", param("param_value", "9e999")),
    ("a version that is a path", sql("UPDATE alembic_version SET version_num = '../../../tmp/x'")),
    ("two versions", sql("INSERT INTO alembic_version VALUES ('v3.0.0.d')")),
    ("a newer version", sql("UPDATE alembic_version SET version_num = 'v99.0.0.a'")),
    (
        "a library's version that writes on the terminal",
        sql(
            "UPDATE alembic_version SET version_num = 'v3.0.0.d'",
            "UPDATE version_info SET library_version = char(27) || '[2J' || char(10) || 'Fine!'",
        ),
    ),
    # what rows could belong to
    ("a trial of no study", sql(f"UPDATE trials SET study_id = 77 WHERE trial_id = {TRIAL}")),
    (
        "a note of no trial",
        sql("UPDATE trial_user_attributes SET trial_id = 7777 WHERE trial_id = 5"),
    ),
    ("two trials of one number", sql("UPDATE trials SET number = 0")),
    ("a trial without a number", sql("UPDATE trials SET number = NULL")),
    (
        "the last number there is",
        sql(f"UPDATE trials SET trial_id = {2**63 - 1} WHERE trial_id = 1"),
    ),
    (
        "sixty thousand trials",
        many(60_000, f"INSERT INTO trials SELECT k, k, {OURS}, 'FAIL', NULL, NULL FROM n"),
    ),
    (
        "sixty thousand studies",
        many(60_000, "INSERT INTO studies SELECT k, 'study ' || k FROM n"),
    ),
    # what claims could do
    ("a claim that never ends", claim(expires=1e300)),
    ("a claim on something else", claim(key="rotation/0;", child="rotation/0;")),
    ("a claim under another name", claim(child="/0")),
    ("the last turn there is", claim(turn=2**63 - 1)),
    # what start weights could be
    ("a pickle as weights", weights(lambda folder: pickle.dumps(Leaves(folder / RAN)))),
    ("a file of torch as weights", weights(torch_saved)),
    ("weights of an exabyte", weights(header(f"{{{tensor('a', 'F32', [2**60], 0, 2**62)}}}"))),
    ("a header longer than the weights", weights(lambda folder: struct.pack("<Q", 2**62))),
    (
        "weights that overlap",
        weights(header(f"{{{BIAS},{tensor('b', 'F32', [1], 0, 4)}}}", bytes(4))),
    ),
    ("weights named twice", weights(header(f"{{{BIAS},{BIAS}}}", bytes(4)))),
    (
        "weights of a kind that is not",
        weights(header(f"{{{tensor('bias', 'O', [1], 0, 4)}}}", bytes(4))),
    ),
    (
        "weights that are not numbers",
        weights(lambda folder: save({"bias": torch.tensor([0.0, float("nan")])})),
    ),
)


def table(about: dict | str | None = None, metadata: dict | None = None, **arrays: object):
    """A builder of a score table of which something is other than it should be."""

    def build(folder: Path) -> Path:
        (folder / VICTIM).write_bytes(PRECIOUS)
        with safe_open(HONEST / "table.safetensors", framework="pt") as file:
            found = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            texts = file.metadata()
        text = about
        if not isinstance(about, str):
            text = json.dumps({**json.loads(texts["table"]), **(about or {})})
        changed = {name: make(found[name]) for name, make in arrays.items()}
        changed = {name: one for name, one in {**found, **changed}.items() if one is not None}
        texts = {**texts, "table": text, **(metadata or {})}
        (folder / "table.safetensors").write_bytes(save(changed, texts))
        return folder / "table.safetensors"

    return build


def table_bytes(make: Callable[[Path], bytes]) -> Callable[[Path], Path]:
    def build(folder: Path) -> Path:
        (folder / VICTIM).write_bytes(PRECIOUS)
        (folder / "table.safetensors").write_bytes(make(folder))
        return folder / "table.safetensors"

    return build


def sparse_table(folder: Path) -> Path:
    path = table()(folder)
    os.truncate(path, 2**42)
    return path


def piped_table(folder: Path) -> Path:
    (folder / VICTIM).write_bytes(PRECIOUS)
    os.mkfifo(folder / "table.safetensors")
    return folder / "table.safetensors"


def wide(**changes: object) -> Callable[[Path], Path]:
    return table({"space": {**json.loads(honest.TABLE.description()), **changes}})


TABLE_ATTACKS: tuple[tuple[str, Callable[[Path], Path]], ...] = (
    ("a pickle", table_bytes(lambda folder: pickle.dumps(Leaves(folder / RAN)))),
    ("a file of torch", table_bytes(torch_saved)),
    ("a header without end", table_bytes(lambda folder: struct.pack("<Q", 2**62) + b"{")),
    ("four terabytes of nothing", sparse_table),
    ("a pipe", piped_table),
    ("nesting without end", table(NESTED)),
    ("a list", table("[1]")),
    ("nothing of itself", table("{}")),
    ("a name without end", table({"name": "x" * 100_000})),
    ("a name that is a number", table({"name": 7})),
    ("rows that are true", table({"test rows": True})),
    ("negative rows", table({"test rows": -1})),
    ("endless rows", table({"test rows": float("inf")})),
    ("more right answers than rows", table({"validation rows": 1})),
    ("complete in words", table({"complete": "yes"})),
    ("an image of a trillion pixels", wide(image=[1, 10**6, 10**6])),
    ("groups that are not", wide(groups=["__class__"])),
    ("a format in other digits", table(metadata={"isotropy_score_table": "١"})),
    ("a format of ten thousand digits", table(metadata={"isotropy_score_table": "9" * 10_000})),
    ("groups seven times", table(groups=lambda found: found * 7)),
    ("hidden grids that are not", table(hidden=lambda found: found - 1)),
    ("fewer networks than scores", table(hidden=lambda found: found[1:])),
    ("networks twice", table(groups=lambda found: found * 0)),
    ("scores that are not counts", table(test=lambda found: found.double() / 0)),
    ("negative scores", table(test=lambda found: -found - 1)),
    ("scores of no shape", table(validation=lambda found: found[0, 0, 0].clone())),
    ("groups of no shape", table(groups=lambda found: found[0, 0].clone())),
    ("negative parameters", table(parameters=lambda found: -found - 1)),
    ("no scores", table(validation=lambda found: None)),
)

# What the columns of a study might hold instead.
ODD = (
    *(None, 0, 1, -1, 2, 7, 0.5, 1e308, -1e-300, float("inf"), 2**31, 2**63 - 1, -(2**63)),
    *("", "0", "1.5", "a", "NaN", "null", "true", "[]", "{}", '"', '"a"', "[1, 2]", "1e999", "\0"),
    *("\ud7ff", "é", "/0", "rotation/0", "rotation/0@1</0", "search", "isotropy", "key", "PRUNED"),
    *("COMPLETE", "FINITE", "NAN", "MAXIMIZE", "v3.2.0.a", "2026-01-01 00:00:00.000000", "5.0.0"),
    *(b"", b"\0", b"\x80\x04.", b"\x02" + bytes(7) + b"{}", "x" * 5000, "[" * 500),
    '{"name": "CategoricalDistribution", "attributes": {"choices": [false, true]}}',
    '{"name": "FloatDistribution", "attributes": {"low": 0, "high": 1, "log": true}}',
    '{"name": "IntDistribution", "attributes": {"low": 1, "high": 9, "step": 0}}',
    '{"type": "int", "low": 1, "high": 1e9}',
)


def mutated(path: Path, chance: random.Random) -> Path:
    """Change an honest study at random: its bytes, its log, its values or its schema."""
    before = contents(path.parent)
    while contents(path.parent) == before:
        how = chance.choice((mutated_bytes, mutated_bytes, mutated_log, *[mutated_values] * 5))
        # what SQLite itself does not allow is no attack
        with suppress(sqlite3.Error):
            how(path, chance)
    return path


def mutated_bytes(path: Path, chance: random.Random) -> None:
    data = bytearray(path.read_bytes())
    kind = chance.randrange(5)
    if kind == 0:
        for _ in range(chance.choice((1, 1, 2, 8, 64))):
            data[chance.randrange(len(data))] = chance.randrange(256)
    elif kind == 1:  # where the numbers are that say how large everything is
        page = chance.randrange(len(data) // 4096) * 4096
        for _ in range(chance.choice((1, 2, 4))):
            data[page + chance.randrange(128)] = chance.choice((0, 1, 2, 5, 10, 13, 127, 128, 255))
    elif kind == 2:
        del data[chance.randrange(len(data)) :]
    elif kind == 3:
        one, other = (chance.randrange(len(data) // 4096) * 4096 for _ in range(2))
        data[one : one + 4096] = data[other : other + 4096]
    else:  # a letter or digit of a text becomes another one
        places = [k for k in range(len(data)) if 32 <= data[k] < 127]
        for _ in range(chance.choice((1, 2, 4))):
            data[chance.choice(places)] = chance.randrange(32, 127)
    path.write_bytes(data)


def mutated_log(path: Path, chance: random.Random) -> None:
    data = bytearray(LOG)
    for _ in range(chance.choice((1, 2, 8))):
        data[chance.randrange(len(data))] = chance.randrange(256)
    if chance.random() < 0.3:
        del data[chance.randrange(len(data)) :]
    end = chance.choice(("-wal", "-wal", "-wal", "-journal", "-shm"))
    path.with_name(path.name + end).write_bytes(data)


def mutated_values(path: Path, chance: random.Random) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA ignore_check_constraints=ON")
        query = "SELECT name FROM sqlite_master WHERE type = 'table'"
        tables = [name for (name,) in connection.execute(query)]
        for _ in range(chance.choice((1, 1, 2, 3))):
            table = chance.choice(tables)
            columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
            rows = [row for (row,) in connection.execute(f"SELECT rowid FROM {table}")]
            if rows:
                mutated_row(connection, chance, table, columns, chance.choice(rows))
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def mutated_row(connection, chance: random.Random, table: str, columns: list, row: int) -> None:
    kind = chance.randrange(8)
    column = chance.choice(columns)
    where = f"WHERE rowid = {row}"
    if kind == 0:
        connection.execute(f"DELETE FROM {table} {where}")
    elif kind == 1:  # once more, under other numbers
        new = [f"{chance.randrange(99)}" if one.endswith("_id") else f'"{one}"' for one in columns]
        connection.execute(f"INSERT INTO {table} SELECT {', '.join(new)} FROM {table} {where}")
    elif kind in (2, 3):  # what another row has there
        other = f'(SELECT "{column}" FROM {table} ORDER BY random() LIMIT 1)'
        connection.execute(f'UPDATE {table} SET "{column}" = {other} {where}')
    elif kind == 4:  # a few letters of it become others
        found = connection.execute(f'SELECT "{column}" FROM {table} {where}').fetchone()[0]
        if isinstance(found, str | bytes) and found:
            text = list(found)
            for _ in range(chance.choice((1, 1, 3))):
                letters = (
                    '{}[]":,0123456789eE.+-/@<truefalsnN\\u' if isinstance(found, str) else None
                )
                new = chance.choice(letters) if letters else chance.randrange(256)
                text[chance.randrange(len(text))] = new
            value = "".join(text) if isinstance(found, str) else bytes(text)
            connection.execute(f'UPDATE {table} SET "{column}" = ? {where}', (value,))
    else:
        connection.execute(f'UPDATE {table} SET "{column}" = ? {where}', (chance.choice(ODD),))


def judge(path: Path) -> str | None:
    """Look at a study and go on with it; why it is refused, or None where it is taken.

    Whatever else happens is an error, also where a study is changed that is only looked at.
    """
    before = contents(path.parent)
    said = sentence(path, read)
    assert contents(path.parent) == before, "reading has written"
    return said or sentence(path, continued)


def read(path: Path) -> SearchResult:
    """What a user does who looks at a study."""
    return SearchResult.of(path, "search")


def continued(path: Path) -> SearchResult:
    """What a user does who goes on with a study."""
    return search_groups(
        honest.HashChild(),
        honest.SPACE,
        strategy=honest.in_rungs(honest.SPACE),
        storage=path,
        name="search",
        children=9,
    )


def loaded(path: Path) -> ScoreTable:
    """What a user does with a score table."""
    return ScoreTable.load(path)


def is_sentence(said: str) -> bool:
    """Whether a message is one clear line; that no reason was found is not one."""
    return (
        said.startswith("expected ")
        and ", got" in said
        and said.isprintable()
        and len(said) < 1000
        and "could not be looked through" not in said
    )


def sentence(path: Path, action: Callable[[Path], SearchResult | ScoreTable]) -> str | None:
    """Why a file was refused; None where it was not. Anything else is an error of ours."""
    try:
        found = action(path)
    except (ValueError, ConnectionError) as error:
        said = str(error)
        if type(error) not in (ValueError, ConnectionError) or not is_sentence(said):
            raise AssertionError(
                f"expected a sentence, got {type(error).__name__}: {said}"
            ) from error
        return said
    if isinstance(found, ScoreTable):
        return None
    states = set(honest.SPACE.states())
    for child in found.children:
        assert child.state in states
        assert 0 <= child.accuracy <= 1
        assert 0 <= child.seconds < float("inf")
    str(found)
    return None


def contents(folder: Path) -> dict[str, tuple[int, bytes | str | None]]:
    """All files of a folder: their kind and what they hold, the beginning of very large ones."""
    found = {}
    for path in sorted(folder.iterdir()):
        status = path.lstat()
        held: bytes | str | None = None
        if path.is_symlink():
            held = os.readlink(path)
        elif path.is_file():
            with path.open("rb") as file:
                held = file.read(2**24)
        found[path.name] = status.st_mode, held
    return found
