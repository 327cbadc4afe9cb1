import threading
import time
from datetime import datetime

import pytest
import sqlalchemy

from search.pieces import Claims, opened


@pytest.fixture
def database(tmp_path):
    with opened(tmp_path / "study.db") as database:
        yield database


def at_once(count, function):
    barrier, found = threading.Barrier(count), []

    def one(number):
        barrier.wait()
        found.append(function(number))

    threads = [threading.Thread(target=one, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def age(database, seconds):
    older = sqlalchemy.text(f"UPDATE isotropy_claims SET expires = expires - {seconds}")
    with database.engine.begin() as connection:
        connection.execute(older)


def test_one_of_many_gets_a_new_claim(database):
    workers = [Claims(database.engine, "study", 60.0) for _ in range(8)]
    assert sorted(at_once(8, lambda k: workers[k].claim("a/0"))) == [False] * 7 + [True]
    assert workers[0].running() == ["a/0"]


def test_one_of_many_takes_over_an_expired_claim(database):
    dead = Claims(database.engine, "study", 60.0)
    assert dead.claim("a/0")
    workers = [Claims(database.engine, "study", 60.0) for _ in range(8)]
    age(database, 30)
    assert not workers[0].claim("a/0")
    age(database, 31)
    assert workers[0].running() == []
    assert sorted(at_once(8, lambda k: workers[k].claim("a/0"))) == [False] * 7 + [True]


def test_a_former_holder_can_neither_renew_nor_release(database):
    former, later = (Claims(database.engine, "study", 60.0) for _ in range(2))
    assert former.claim("a/0")
    assert former.renew("a/0")
    age(database, 61)
    assert later.claim("a/0")
    assert not former.renew("a/0")
    former.release("a/0")
    assert later.running() == ["a/0"]
    later.release("a/0")
    assert later.running() == []
    assert former.claim("a/0")


def test_a_claim_lives_on_while_it_is_renewed(database):
    holder, other = (Claims(database.engine, "study", 1.0) for _ in range(2))
    assert holder.claim("a/0")
    with holder.renewing("a/0"):
        time.sleep(1.3)
        assert not other.claim("a/0")
    time.sleep(1.1)
    assert other.claim("a/0")


def test_claims_are_of_one_study_and_oldest_first(database):
    first, second, elsewhere = (Claims(database.engine, k, 60.0) for k in ("one", "one", "two"))
    assert all((first.claim("z/0"), second.claim("a/0"), elsewhere.claim("a/0")))
    assert first.running() == ["z/0", "a/0"]
    assert elsewhere.running() == ["a/0"]


def test_claiming_again_what_is_ones_own_succeeds(database):
    # The answer to a first attempt may have been lost on the way.
    mine = Claims(database.engine, "study", 60.0)
    assert mine.claim("a/0")
    assert mine.claim("a/0")


def test_the_clock_is_the_databases(database, monkeypatch):
    monkeypatch.setattr(time, "time", lambda: 0.0)
    claims = Claims(database.engine, "study", 60.0)
    assert abs(claims.now() - datetime.now().timestamp()) < 60


def test_a_claim_is_on_a_child_whatever_it_starts_from(database):
    mine, other = (Claims(database.engine, "study", 60.0) for _ in range(2))
    assert mine.claim("a/0@1</0")
    assert not other.claim("a/0@1<b/0")
    assert other.claim("a/0<b/0")  # other epochs
    assert mine.running() == ["a/0@1</0", "a/0<b/0"]
    mine.release("a/0@1</0")
    assert other.claim("a/0@1<b/0")
    assert mine.holders() == {"a/0<b/0": other.worker, "a/0@1<b/0": other.worker}


def test_a_claim_lasts_as_long_as_its_own_worker_says(database):
    hasty, patient = Claims(database.engine, "study", 5.0), Claims(database.engine, "study", 600.0)
    assert patient.claim("a/0")
    assert hasty.claim("b/0")
    age(database, 30)
    assert not hasty.claim("a/0")
    assert hasty.running() == patient.running() == ["a/0"]
    assert patient.claim("b/0")


def test_renewing_outlives_any_error(database, monkeypatch):
    holder, other = (Claims(database.engine, "study", 0.4) for _ in range(2))
    assert holder.claim("a/0")
    renew, errors = Claims.renew, iter([ZeroDivisionError(), RuntimeError()])

    def failing(self, key):
        for error in errors:
            raise error
        return renew(self, key)

    monkeypatch.setattr(Claims, "renew", failing)
    with holder.renewing("a/0"):
        time.sleep(0.6)
        assert not other.claim("a/0")
