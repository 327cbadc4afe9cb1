import threading
import time
from datetime import datetime

import pytest
import sqlalchemy

from isotropy.discovery.search._claims import Claims
from isotropy.discovery.search._database import opened
from isotropy.discovery.search._tables import CLAIMS


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
    older = sqlalchemy.update(CLAIMS).values(heartbeat=CLAIMS.c.heartbeat - seconds)
    with database.engine.begin() as connection:
        connection.execute(older)


def test_one_of_many_gets_a_new_claim(database):
    workers = [Claims(database.engine, 1, 60.0) for _ in range(8)]
    assert sorted(at_once(8, lambda k: workers[k].claim("a/0"))) == [False] * 7 + [True]
    assert workers[0].running() == ["a/0"]


def test_one_of_many_takes_over_an_expired_claim(database):
    dead = Claims(database.engine, 1, 60.0)
    assert dead.claim("a/0")
    workers = [Claims(database.engine, 1, 60.0) for _ in range(8)]
    age(database, 30)
    assert not workers[0].claim("a/0")
    age(database, 31)
    assert workers[0].running() == []
    assert sorted(at_once(8, lambda k: workers[k].claim("a/0"))) == [False] * 7 + [True]


def test_a_former_holder_can_neither_renew_nor_release(database):
    former, later = (Claims(database.engine, 1, 60.0) for _ in range(2))
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
    holder, other = (Claims(database.engine, 1, 1.0) for _ in range(2))
    assert holder.claim("a/0")
    with holder.renewing("a/0"):
        time.sleep(1.3)
        assert not other.claim("a/0")
    time.sleep(1.1)
    assert other.claim("a/0")


def test_claims_are_of_one_study_and_oldest_first(database):
    first, second, elsewhere = (Claims(database.engine, k, 60.0) for k in (1, 1, 2))
    assert all((first.claim("z/0"), second.claim("a/0"), elsewhere.claim("a/0")))
    assert first.running() == ["z/0", "a/0"]
    assert elsewhere.running() == ["a/0"]


def test_claiming_again_what_is_ones_own_succeeds(database):
    # The answer to a first attempt may have been lost on the way.
    mine = Claims(database.engine, 1, 60.0)
    assert mine.claim("a/0")
    assert mine.claim("a/0")


def test_the_clock_is_the_databases(database, monkeypatch):
    monkeypatch.setattr(time, "time", lambda: 0.0)
    claims = Claims(database.engine, 1, 60.0)
    assert abs(claims.now() - datetime.now().timestamp()) < 60
