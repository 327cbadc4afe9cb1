"""The engine on a real PostgreSQL server, as several machines would share it."""

import atexit
import re
import shutil
import tempfile
import threading
from pathlib import Path

import pytest

from isotropy.search import ChildProposal, SearchResult, State, search_groups
from search.pieces import Claims, SharedStudy, opened, shared_study


@pytest.fixture(scope="module")
def server():
    # Its own folder: the server's user must be able to reach it, and sockets want short paths.
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
        atexit.unregister(server._cleanup)  # it would make its folders again
    shutil.rmtree(folder)


@pytest.fixture
def url(server, request):
    """The URL of an empty database."""
    name = request.node.name.split("[")[0][-40:]
    server.psql(f"CREATE DATABASE {name};")
    return server.get_uri(name)


def test_workers_share_a_study_on_a_server_and_one_is_killed(fakes, workers, url, tmp_path):
    log = tmp_path / "log"
    victim = workers(url, log, 4, hang=1)
    result = SearchResult.of(url)
    accuracies = {child.proposal: child.accuracy for child in result.children}
    assert accuracies == fakes.expected()
    assert (result.failed, result.running) == (1, 0)
    ended = [key for _, key in fakes.noted(log, "ended")]
    assert sorted(ended) == sorted(state.key for state in fakes.SPACE.states())
    assert sorted(key for _, key in fakes.noted(log, "began")) == sorted([*ended, victim])


def test_one_of_many_gets_a_claim_on_a_server(url):
    with opened(url) as database:
        workers = [Claims(database.engine, "study", 60.0) for _ in range(8)]
        barrier, found = threading.Barrier(8), []

        def claim(one):
            barrier.wait()
            found.append(one.claim("a/0"))

        threads = [threading.Thread(target=claim, args=(one,)) for one in workers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(found) == [False] * 7 + [True]
        assert workers[0].running() == ["a/0"]


def test_no_more_claims_than_wanted_at_once(fakes, url):
    wanted = [ChildProposal(state) for state in fakes.SPACE.states()][:8]
    settings = {"space": fakes.SPACE.description(), "child": "", "seed": 0, "by_network": True}
    with opened(url) as database:
        barrier, found = threading.Barrier(8), []

        def claim(proposal):
            barrier.wait()  # all of them settle the study, too
            study = shared_study(database, "search", settings)
            worker = SharedStudy(database, study, fakes.SPACE, 60.0)
            barrier.wait()
            found.append(worker.claim(proposal, 3))

        threads = [threading.Thread(target=claim, args=(one,)) for one in wanted]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(found) == [False] * 5 + [True] * 3
        assert SearchResult.of(url).running == 3


def test_a_claim_waits_for_one_that_is_being_made(url):
    # Without that, the later one would not see the earlier one, and both would go on.
    with opened(url) as database:
        earlier, later = (Claims(database.engine, "study", 60.0) for _ in range(2))
        order = []

        def claim(worker, key):
            worker.claim(key)
            order.append(key)

        thread = threading.Thread(target=claim, args=(later, "b/0"))
        with database.engine.begin() as connection:
            earlier._wait_for_others(connection)
            thread.start()
            thread.join(0.3)
            assert order == []
        thread.join()
        assert order == ["b/0"]


def test_weights_and_settings_on_a_server(fakes, url, tmp_path):
    class Twice:
        keeps_weights = True

        def propose(self, scores, taken):
            rotation = State(("rotation",))
            plan = [ChildProposal(rotation, 1), ChildProposal(rotation, start=rotation)]
            return next((one for one in plan if one not in scores), None)

    starts = []

    class Recording(fakes.FakeChild):  # type: ignore[name-defined]
        usual_epochs = 4

        def __call__(self, state, *, start=None, **options):
            starts.append(start)
            return super().__call__(state, **options)

    child = Recording(tmp_path / "log")
    search_groups(child, fakes.SPACE, strategy=Twice(), storage=url)
    assert starts[:2] == [None, None]  # no group in full, and rotation for an epoch
    assert starts[2]["bias"].tolist() == [1.0, 1.0]
    with pytest.raises(ValueError, match="the seed 1, got 0"):
        search_groups(child, fakes.SPACE, strategy=Twice(), storage=url, seed=1)


def test_reading_an_empty_database_makes_no_tables(url):
    with pytest.raises(ValueError, match="expected a database with studies"):
        SearchResult.of(url)
    with pytest.raises(ValueError, match="expected a database with studies"):
        SearchResult.of(url)


def test_a_database_that_does_not_exist_is_told(url):
    with pytest.raises(ConnectionError, match="does not exist"):
        SearchResult.of(re.sub(r"/\w+\?", "/no_such_thing?", url))


def test_connections_that_break_while_a_child_is_trained_are_made_anew(
    fakes, server, url, tmp_path
):
    [name] = re.findall(r"/(\w+)\?", url)
    cut = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}';"

    class Cutting(fakes.FakeChild):  # type: ignore[name-defined]
        def __call__(self, state, **options):
            assert " t\n" in server.psql(cut)
            return super().__call__(state, **options)

    child = Cutting(tmp_path / "log")
    result = search_groups(
        child, fakes.SPACE, strategy=fakes.InOrder(), storage=url, children=3, by_network=False
    )
    assert (len(result.children), result.failed) == (3, 0)
