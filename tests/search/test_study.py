import io
import json
import sqlite3
from contextlib import closing

import optuna
import pytest
import sqlalchemy
import torch

from discovery.pieces import ScoredChild
from isotropy.search import (
    ChildProposal,
    SearchResult,
    SearchSpace,
    State,
    StrategySampler,
    Trained,
    _database,
    _shared_study,
    search_groups,
)
from isotropy.search._trials import proposal_of_key
from search.pieces import SharedStudy, _settle, opened, shared_study

SPACE = SearchSpace((1, 4, 4), ("rotation", "vertical flip"), ((4,), (2,)))
SETTINGS = {"space": SPACE.description(), "child": "a child", "seed": 0, "by_network": True}
ROTATION = ChildProposal(State(("rotation",)))


@pytest.fixture(autouse=True)
def quiet_optuna():
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    yield
    optuna.logging.set_verbosity(before)


@pytest.fixture
def database(tmp_path):
    with opened(tmp_path / "study.db") as database:
        yield database


def worker(database, grace=60.0):
    return SharedStudy(database, shared_study(database, "search", SETTINGS), SPACE, grace)


def expire(database):
    with database.engine.begin() as connection:
        connection.execute(sqlalchemy.text("UPDATE isotropy_claims SET expires = 0"))


def everything(path):
    with closing(sqlite3.connect(path)) as connection:
        return list(connection.iterdump())


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        (
            "space",
            SearchSpace((1, 4, 4), ("rotation",), ((4,),)).description(),
            "the images and groups groups: ['rotation'], hidden: [[4]], got groups: ",
        ),
        ("child", "another child", "the data and training another child, got a child"),
        ("seed", 1, "the seed 1, got 0"),
        ("by_network", False, "by_network False, got True"),
    ],
)
def test_a_study_of_something_else_is_refused_and_left_alone(database, tmp_path, key, value, said):
    shared_study(database, "search", SETTINGS)
    before = everything(tmp_path / "study.db")
    with pytest.raises(ValueError, match="expected a study with") as caught:
        shared_study(database, "search", {**SETTINGS, key: value})
    assert said in str(caught.value)
    assert everything(tmp_path / "study.db") == before


def test_a_study_made_by_something_else_is_refused(database):
    study = optuna.create_study(storage=database.storage, study_name="search")
    study.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=1)
    with pytest.raises(ValueError, match="which something else has made"):
        shared_study(database, "search", SETTINGS)
    assert study.user_attrs == {}


def test_keys_give_their_proposals_back():
    for state in SPACE.states():
        for epochs in (None, 1, 12):
            for start in (None, State(), state):
                proposal = ChildProposal(state, epochs, start)
                assert proposal_of_key(proposal.key) == proposal


def seeds_of_children(space, seed):
    """The seed that a search gives to each state."""
    found = {}

    class Noting:
        def __call__(self, state, *, seed, epochs=None, start=None):
            found[state] = seed
            return Trained(0.5, 1, 1)

        def fingerprint(self):
            return "noting"

    search_groups(Noting(), space, strategy="random", seed=seed, by_network=False)
    return found


def test_seeds_are_stable_and_different():
    seeds = {child for seed in (0, 1) for child in seeds_of_children(SPACE, seed).values()}
    assert len(seeds) == 2 * 8
    assert all(0 <= seed < 2**63 for seed in seeds)
    # written down once: a study may be continued by a later version
    plain = SearchSpace((1, 8, 8), ("rotation",), ((4,),))
    assert seeds_of_children(plain, 0)[State(("rotation",))] == 2052043831304454288


def test_a_child_is_claimed_begun_and_finished(database):
    mine, other = worker(database), worker(database)
    assert mine.claim(ROTATION, None)
    assert not other.claim(ROTATION, None)
    trial = mine.begin(ROTATION, {"seed": 3})
    assert other.read().taken == (ROTATION,)
    assert mine.finish(trial, ROTATION, 0.75, {"parameters": 7, "epochs": 4, "seconds": 2.0})
    assert other.read().scores == {ROTATION: 0.75}
    assert other.read().taken == ()
    assert not other.claim(ROTATION, None)
    assert other.result().children == (ScoredChild(ROTATION, 0.75, 7, 4, 2.0),)


def test_a_dead_workers_child_is_taken_over_and_its_late_report_does_not_count(database, caplog):
    dead, slow, heir = worker(database), worker(database), worker(database)
    assert dead.claim(ROTATION, None)
    expire(database)
    assert slow.claim(ROTATION, None)
    first = slow.begin(ROTATION, {})
    expire(database)
    assert heir.claim(ROTATION, None)
    second = heir.begin(ROTATION, {})
    with caplog.at_level("WARNING"):
        assert not slow.finish(first, ROTATION, 0.1, {})
    assert "rotation/0 does not count" in caplog.text
    assert heir.finish(second, ROTATION, 0.9, {})
    assert heir.read().scores == {ROTATION: 0.9}
    states = [trial.state.name for trial in heir.study.get_trials()]
    assert states == ["FAIL", "COMPLETE"]


def test_whoever_ends_a_trial_first_decides(database):
    # The holder passes the look at its claim, and is overtaken before it reports.
    slow = worker(database)
    assert slow.claim(ROTATION, None)
    first = slow.begin(ROTATION, {})
    slow.fail_abandoned()
    assert not slow.finish(first, ROTATION, 0.1, {})
    assert slow.read().scores == {}


def test_a_report_whose_answer_was_lost_may_be_repeated(database):
    mine = worker(database)
    assert mine.claim(ROTATION, None)
    trial = mine.begin(ROTATION, {})
    assert mine.finish(trial, ROTATION, 0.5, {})
    assert mine.finish(trial, ROTATION, 0.5, {})
    assert mine.read().scores == {ROTATION: 0.5}


def test_a_report_waits_longer_for_the_database_than_anything_else(database, monkeypatch):
    mine = worker(database)
    assert mine.claim(ROTATION, None)
    trial = mine.begin(ROTATION, {})
    monkeypatch.setattr(_database, "OUTAGE_PAUSES", ())
    monkeypatch.setattr(_shared_study, "REPORT_PAUSES", (0.0,) * 3)
    left = [0]

    @sqlalchemy.event.listens_for(database.engine, "before_cursor_execute")
    def fail(*_):
        if left[0]:
            left[0] -= 1
            raise sqlalchemy.exc.OperationalError("SELECT", {}, Exception("away"))

    left[0] = 3
    mine.keep(ROTATION, {"bias": torch.zeros(2)})
    left[0] = 3
    assert mine.finish(trial, ROTATION, 0.5, {})
    left[0] = 1
    with pytest.raises(ConnectionError):
        mine.read()
    assert mine.read().scores == {ROTATION: 0.5}


def test_no_more_children_are_claimed_than_wanted(database):
    first, second = worker(database), worker(database)
    assert first.claim(ROTATION, 1)
    assert not second.claim(ChildProposal(State()), 1)
    assert second.read().taken == (ROTATION,)
    assert second.claim(ChildProposal(State()), 2)


def test_a_worker_that_wakes_late_leaves_its_successors_trial_alone(database):
    late, heir = worker(database), worker(database)
    assert late.claim(ROTATION, None)
    expire(database)
    assert heir.claim(ROTATION, None)
    trial = heir.begin(ROTATION, {})
    assert late.begin(ROTATION, {}) is None
    # Nor where it stalls once more, right after it looked at its claim.
    late._fail_abandoned(ROTATION.key)
    assert heir.finish(trial, ROTATION, 0.9, {})


def test_a_child_is_trained_once_whatever_it_starts_from(database):
    first, second = worker(database), worker(database)
    one, two = (ChildProposal(ROTATION.state, start=start) for start in (State(), State((), 1)))
    assert first.claim(one, None)
    assert not second.claim(two, None)
    assert second.read().taken == (one,)
    assert first.finish(first.begin(one, {}), one, 0.5, {})
    assert not second.claim(two, None)
    assert second.claim(ChildProposal(ROTATION.state, 1, State()), None)


def test_trials_without_a_living_claim_are_ended(database):
    dead, alive, reader = worker(database), worker(database), worker(database)
    assert dead.claim(ROTATION, None)
    dead.begin(ROTATION, {})
    expire(database)
    other = ChildProposal(State())
    assert alive.claim(other, None)
    alive.begin(other, {})
    assert reader.result().running == 1
    reader.fail_abandoned()
    states = [trial.state.name for trial in reader.study.get_trials()]
    assert states == ["FAIL", "RUNNING"]
    assert (reader.result().failed, reader.result().running) == (1, 1)


def test_a_child_that_fails_twice_is_given_up_but_not_for_interrupts(database):
    mine = worker(database)
    errors = [ValueError("a"), KeyboardInterrupt(), ConnectionError("away"), ValueError("b")]
    for error in errors:
        assert mine.read().given_up == ()
        assert mine.claim(ROTATION, None)
        mine.fail(mine.begin(ROTATION, {}), ROTATION, error)
    assert mine.read().given_up == (ROTATION,)
    assert not mine.claim(ROTATION, None)
    assert mine.result().failed == 4
    noted = [trial.user_attrs.get("error") for trial in mine.study.get_trials()]
    assert noted == ["ValueError: a", None, None, "ValueError: b"]


def test_a_study_that_takes_a_deleted_ones_place_knows_nothing_of_it(database):
    former = worker(database)
    assert former.claim(ROTATION, None)
    former.keep(ROTATION, {"bias": torch.zeros(2)})
    optuna.delete_study(study_name="search", storage=database.storage)
    later = worker(database)
    assert later.number == former.number  # SQLite gives it again
    assert later.read().taken == ()
    assert later.claim(ROTATION, None)
    assert later.finish(later.begin(ROTATION, {}), ROTATION, 0.5, {})
    assert later.start_of(ChildProposal(State(), start=ROTATION.state)) is None


def test_a_study_is_settled_once_and_not_by_a_worker_that_wakes_late(database):
    study = shared_study(database, "search", SETTINGS)
    before = dict(study.user_attrs["isotropy"])
    _settle(database, study, {**SETTINGS, "seed": 9})
    assert study.user_attrs["isotropy"] == before
    assert {key: before[key] for key in SETTINGS} == SETTINGS
    assert list(study.user_attrs) == ["isotropy"]


def test_a_worker_is_not_refused_where_another_settles_meanwhile(database, monkeypatch):
    read, calls = optuna.Study.get_trials, []

    def reading(self, *args, **options):
        if not calls:
            calls.append(1)
            _settle(database, self, {**SETTINGS, "format": 1})
            self.add_trial(optuna.trial.create_trial(value=0.5))
        return read(self, *args, **options)

    monkeypatch.setattr(optuna.Study, "get_trials", reading)
    assert shared_study(database, "search", SETTINGS).user_attrs["isotropy"]["seed"] == 0
    assert calls


def test_a_result_is_read_without_a_worker(database, tmp_path, fakes):
    path = tmp_path / "study.db"
    child = fakes.FakeChild(tmp_path / "log")
    found = search_groups(child, SPACE, strategy="random", storage=path)
    assert SearchResult.of(path) == found
    assert SearchResult.of(path, "search", SPACE) == found
    with pytest.raises(ValueError, match="got 'other' where there are: 'search'"):
        SearchResult.of(path, "other")
    with pytest.raises(ValueError, match="expected a study of the space"):
        SearchResult.of(path, "search", fakes.SPACE)


def child(groups, accuracy, epochs=4, hidden=0):
    return ScoredChild(ChildProposal(State(groups, hidden), epochs), accuracy, 5, epochs, 1.0)


def test_the_best_are_different_networks_at_their_longest_training():
    space = SearchSpace((1, 4, 4), ("rotation", "horizontal flip", "vertical flip"), ((4,),))
    everything = space.groups
    children = (
        child((), 0.5),
        child(("rotation",), 0.9, epochs=1),
        child(("rotation",), 0.7),
        child(("rotation", "vertical flip"), 0.8),
        child(everything, 0.6),  # the same network as the one before
    )
    found = SearchResult(space, children, by_network=False)
    assert found.top(3) == (children[3], children[2], children[0])
    assert found.best == children[3]
    assert found.baseline == 0.5
    assert found.trained(State(("rotation",))) == children[2]
    assert found.trained(State(("horizontal flip",))) is None
    assert "80.00%" in str(found)
    assert SearchResult(space, ()).best is None
    assert str(SearchResult(space, (), failed=2, running=1)) == "0 children, 2 failed, 1 running"


def test_a_short_training_does_not_outrank_full_ones():
    short = ScoredChild(ChildProposal(State(("rotation",)), 1), 0.9, 5, 1, 1.0)
    full = ScoredChild(ChildProposal(State()), 0.5, 5, 4, 1.0)
    longer = ScoredChild(ChildProposal(State(), 9), 0.8, 5, 9, 1.0)
    found = SearchResult(SPACE, (short, full, longer))
    assert found.top(3) == (full,)
    assert (found.best, found.baseline) == (full, 0.5)
    assert SearchResult(SPACE, (short, longer)).top(3) == (short, longer)


def test_a_strategy_samples_for_plain_optuna(fakes):
    sampler = StrategySampler(fakes.InOrder(SPACE), SPACE)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    study.optimize(lambda trial: len(sampler.proposal(trial).state.groups), n_trials=100)
    done = [one for one in study.trials if one.state.name == "COMPLETE"]
    assert [SPACE.from_params(one.params) for one in done] == list(SPACE.states())
    assert [one.state.name for one in study.trials[8:]] == ["PRUNED"]


def test_the_sampler_keeps_epochs_and_start_and_sees_what_runs():
    seen = []

    class Recording:
        def propose(self, scores, taken):
            seen.append((dict(scores), set(taken)))
            return ChildProposal(State(("rotation",)), epochs=len(seen), start=State())

    sampler = StrategySampler(Recording(), SPACE)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    running, ended = study.ask(), study.ask()
    first, second = sampler.proposal(running), sampler.proposal(ended)
    assert second == ChildProposal(State(("rotation",)), 2, State())
    study.tell(ended, 0.5)
    sampler.proposal(study.ask())
    assert seen == [({}, set()), ({}, {first}), ({second: 0.5}, {first})]


def test_an_enqueued_trial_and_parameters_beside_the_space_are_left_to_the_user(fakes):
    sampler = StrategySampler(fakes.InOrder(SPACE), SPACE)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    wanted = State(("vertical flip",), 1)
    study.enqueue_trial(SPACE.params(wanted))
    trial = study.ask()
    assert sampler.proposal(trial) == ChildProposal(wanted)
    assert 0 <= trial.suggest_float("rate", 0, 1) <= 1


def get(application, path):
    said = {}
    environment = {
        "REQUEST_METHOD": "GET",
        "PATH_INFO": path,
        "QUERY_STRING": "",
        "SERVER_NAME": "localhost",
        "SERVER_PORT": "80",
        "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(),
        "wsgi.errors": io.StringIO(),
    }

    def start_response(status, headers, error=None):
        said["status"] = status

    body = b"".join(application(environment, start_response))
    assert said["status"].startswith("200")
    return json.loads(body)


def test_the_dashboard_shows_a_search(tmp_path, fakes):
    optuna_dashboard = pytest.importorskip("optuna_dashboard")
    path = tmp_path / "study.db"
    search_groups(
        fakes.FakeChild(tmp_path / "log"), SPACE, strategy=fakes.InOrder(SPACE), storage=path
    )
    with opened(path) as database:
        application = optuna_dashboard.wsgi(database.storage)
        studies = get(application, "/api/studies")["study_summaries"]
        assert [one["study_name"] for one in studies] == ["search"]
        shown = get(application, f"/api/studies/{studies[0]['study_id']}")
    assert {one["name"] for one in shown["union_search_space"]} == set(SPACE.choices())
    assert len(shown["trials"]) == len(list(SPACE.states()))
    attributes = {one["key"] for one in shown["trials"][0]["user_attrs"]}
    wanted = {"key", "seed", "worker", "parameters", "epochs", "seconds", "finished"}
    assert attributes == wanted
