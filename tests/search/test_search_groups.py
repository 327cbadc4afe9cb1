import optuna
import pytest
import sqlalchemy

from discovery.pieces import SearchProgress
from isotropy.search import (
    ChildProposal,
    LatticeSearch,
    SearchResult,
    SearchSpace,
    State,
    Trained,
    search_groups,
)
from search.pieces import SharedStudy, opened, shared_study

LOST = "UPDATE isotropy_claims SET worker = 'another', expires = 0"
FLIP = State(("vertical flip",))


def search(fakes, folder, child=None, **options):
    options = {
        "strategy": fakes.InOrder(),
        "storage": folder / "study.db",
        "by_network": False,
        "grace": fakes.GRACE,
        **options,
    }
    return search_groups(child or fakes.FakeChild(folder / "log"), fakes.SPACE, **options)


def accuracies(result):
    return {child.proposal: child.accuracy for child in result.children}


def test_every_state_is_trained_once_in_order(fakes, tmp_path):
    result = search(fakes, tmp_path)
    assert list(accuracies(result).items()) == list(fakes.expected().items())
    assert [key for _, key in fakes.noted(tmp_path / "log", "began")] == [
        state.key for state in fakes.SPACE.states()
    ]
    again = search(fakes, tmp_path)
    assert again == result
    assert len(fakes.noted(tmp_path / "log", "began")) == 16


def test_by_network_every_network_is_trained_once(fakes, tmp_path):
    result = search(fakes, tmp_path, by_network=True)
    networks = {fakes.SPACE.network(state) for state in fakes.SPACE.states()}
    assert sorted(child.state for child in result.children) == sorted(networks)
    assert len(networks) < 16
    assert result.trained(State(("rotation", "vertical flip"))).state in networks


def test_a_search_stops_at_the_number_of_children_and_goes_on_from_there(fakes, tmp_path):
    steps = []
    assert len(search(fakes, tmp_path, children=5, progress=steps.append).children) == 5
    assert (steps[0].done, steps[0].total, steps[0].message) == (0, 5, "no group")
    assert steps[-1].done == 5
    assert len(search(fakes, tmp_path, children=5).children) == 5
    assert len(search(fakes, tmp_path, children=7).children) == 7
    assert len(fakes.noted(tmp_path / "log", "began")) == 7


def test_without_storage_nothing_is_left(fakes, tmp_path):
    result = search(fakes, tmp_path, storage=None, children=3)
    assert len(result.children) == 3
    assert [one.name for one in tmp_path.iterdir()] == ["log"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
def test_a_child_that_fails_ends_the_call_and_may_be_tried_again(fakes, tmp_path, error):
    class Failing(fakes.FakeChild):  # type: ignore[name-defined]
        def __call__(self, state, **options):
            if len(fakes.noted(self.log, "ended")) == 2:
                raise error
            return super().__call__(state, **options)

    with pytest.raises(error):
        search(fakes, tmp_path, Failing(tmp_path / "log"))
    kept = SearchResult.of(tmp_path / "study.db")
    assert (len(kept.children), kept.failed, kept.running) == (2, 1, 0)
    # At once, though the claim would have lasted longer.
    after = search(fakes, tmp_path, children=3, grace=600.0)
    assert (len(after.children), after.failed) == (3, 1)


@pytest.mark.parametrize("value", [float("nan"), 1.5])
def test_an_accuracy_that_is_none_is_refused(fakes, tmp_path, value):
    class Wrong(fakes.FakeChild):  # type: ignore[name-defined]
        def __call__(self, state, **options):
            return Trained(value, 1, 1)

    with pytest.raises(ValueError, match="expected an accuracy between 0 and 1"):
        search(fakes, tmp_path, Wrong(tmp_path / "log"))


def test_a_strategy_that_repeats_itself_is_refused(fakes, tmp_path):
    class Stubborn:
        def propose(self, scores, taken):
            return ChildProposal(State())

    with pytest.raises(ValueError, match="expected a strategy that proposes what is not trained"):
        search(fakes, tmp_path, strategy=Stubborn())


class ShortThenLong:
    """Trains a flip for one epoch, goes on with it, and starts rotation from it."""

    def __init__(self, keeps_weights):
        self.keeps_weights = keeps_weights

    def propose(self, scores, taken):
        plan = [
            ChildProposal(FLIP, epochs=1),
            ChildProposal(FLIP, start=FLIP),
            ChildProposal(State(("rotation",)), start=FLIP),
        ]
        return next((one for one in plan if one not in scores and one not in taken), None)


@pytest.mark.parametrize("keeps", [True, False])
def test_children_start_from_kept_weights(fakes, tmp_path, keeps):
    starts, passes = [], []

    class Recording(fakes.FakeChild):  # type: ignore[name-defined]
        usual_epochs = 4

        def __call__(self, state, *, seed, epochs=None, start=None):
            starts.append(start)
            passes.append(epochs)
            trained = super().__call__(state, seed=seed, epochs=epochs)
            weights = {"step": trained.weights["bias"] + len(starts)}
            return Trained(trained.accuracy, 1, trained.epochs, weights)

    child = Recording(tmp_path / "log")
    result = search(fakes, tmp_path, child, strategy=ShortThenLong(keeps))
    assert [one.epochs for one in result.children] == [4, 1, 4, 4]
    # no group comes first in any search; of the flip's own four, one is behind it
    assert passes == [None, 1, 3 if keeps else None, None]
    values = [None if one is None else one["step"].tolist() for one in starts]
    # The long training of the flip, of one group, is the third call; rotation starts from it.
    assert values == ([None, None, [3.0, 3.0], [4.0, 4.0]] if keeps else [None] * 4)
    with opened(tmp_path / "study.db", create=False) as database:
        trials = optuna.load_study(study_name="search", storage=database.storage).trials
    noted = [one.user_attrs.get("start weights") for one in trials]
    assert noted == [None, None, *["found" if keeps else "missing"] * 2]


def test_a_child_that_is_to_go_on_must_say_how_long_it_trains(fakes, tmp_path):
    with pytest.raises(ValueError, match="usual_epochs for a strategy with rungs, got FakeChild"):
        search(fakes, tmp_path, strategy=ShortThenLong(True))
    kept = SearchResult.of(tmp_path / "study.db")
    assert (len(kept.children), kept.failed, kept.running) == (2, 0, 0)


def test_a_watched_child_says_how_long_it_trains_where_the_child_does(fakes, tmp_path):
    child = fakes.FakeChild(tmp_path / "log")
    assert not hasattr(SearchProgress(child, print), "usual_epochs")
    child.usual_epochs = 4
    assert SearchProgress(child, print).usual_epochs == 4


@pytest.mark.parametrize("strategy", ["dqn", "lattice", "random", "tpe"])
def test_every_search_begins_with_the_network_without_groups(fakes, tmp_path, strategy):
    result = search(fakes, tmp_path, strategy=strategy, children=1)
    assert result.baseline == fakes.expected()[ChildProposal(State())]


def test_while_another_trains_the_network_without_groups_a_worker_goes_on(fakes, tmp_path):
    path, baseline = tmp_path / "other.db", ChildProposal(State())
    child = fakes.FakeChild(tmp_path / "other log")
    settings = {
        "space": fakes.SPACE.description(),
        "seed": 0,
        "child": child.fingerprint(),
        "by_network": False,
    }
    with opened(path) as database:
        study = shared_study(database, "search", settings)
        other = SharedStudy(database, study, fakes.SPACE, grace=1.0)
        assert other.claim(baseline, None)
        result = search(fakes, tmp_path, child, storage=path, children=3)
    # until the other one's claim expires
    assert result.children[0].proposal != baseline
    assert baseline in accuracies(result)


def test_a_child_that_is_scored_with_another_start_is_told_and_not_trained_again(fakes, tmp_path):
    asked = []

    class TwoStarts:
        def propose(self, scores, taken):
            plan = [ChildProposal(FLIP, start=start) for start in (State(), State(("rotation",)))]
            asked.append([scores.get(one) for one in plan])
            return next((one for one in plan if one not in scores), None)

    result = search(fakes, tmp_path, strategy=TwoStarts())
    assert [one.state for one in result.children] == [State(), FLIP]
    accuracy = result.children[1].accuracy
    assert asked[-1] == [accuracy, accuracy]


def test_after_two_failures_a_search_goes_on_without_the_child(fakes, tmp_path):
    class Failing(fakes.FakeChild):  # type: ignore[name-defined]
        def __call__(self, state, **options):
            if state == FLIP:
                raise ZeroDivisionError
            return super().__call__(state, **options)

    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            search(fakes, tmp_path, Failing(tmp_path / "log"), children=4)
    result = search(fakes, tmp_path, Failing(tmp_path / "log"), children=4)
    others = [one for one in fakes.expected() if one.state != FLIP]
    assert list(accuracies(result)) == others[:4]
    assert (result.failed, result.running) == (2, 0)


def test_a_worker_that_lost_its_claim_before_it_began_goes_on_quietly(fakes, tmp_path, monkeypatch):
    begin, lost = SharedStudy.begin, []

    def losing(self, proposal, notes):
        if not lost:
            lost.append(proposal)
            with self.database.engine.begin() as connection:
                connection.execute(sqlalchemy.text(LOST))
        return begin(self, proposal, notes)

    monkeypatch.setattr(SharedStudy, "begin", losing)
    result = search(fakes, tmp_path, children=3)
    assert list(accuracies(result)) == list(fakes.expected())[:3]
    assert result.failed == 0
    assert len(fakes.noted(tmp_path / "log", "began")) == 3


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"children": 0}, "at least one child"),
        ({"grace": 0.0}, "positive number of seconds"),
        ({"grace": float("nan")}, "positive number of seconds"),
        ({"name": ""}, "expected a name"),
    ],
)
def test_arguments_out_of_range_are_refused(fakes, tmp_path, options, said):
    with pytest.raises(ValueError, match=said):
        search(fakes, tmp_path, **options)
    assert list(tmp_path.iterdir()) == []


def test_a_study_of_another_child_is_refused(fakes, tmp_path):
    class Other(fakes.FakeChild):  # type: ignore[name-defined]
        def fingerprint(self):
            return "other child"

    search(fakes, tmp_path, children=1)
    with pytest.raises(ValueError, match="the data and training other child, got fake child"):
        search(fakes, tmp_path, Other(tmp_path / "log"), children=2)
    with pytest.raises(ValueError, match="the seed 5, got 0"):
        search(fakes, tmp_path, seed=5)


def test_of_four_workers_one_is_killed_and_every_state_is_trained(fakes, workers, tmp_path):
    log, storage = tmp_path / "log", tmp_path / "study.db"
    victim = workers(storage, log, 4, hang=1)
    result = SearchResult.of(storage)
    assert accuracies(result) == fakes.expected()
    assert (result.failed, result.running) == (1, 0)
    ended = [key for _, key in fakes.noted(log, "ended")]
    assert sorted(ended) == sorted(state.key for state in fakes.SPACE.states())
    began = fakes.noted(log, "began")
    assert sorted(key for _, key in began) == sorted([*ended, victim])
    assert len({pid for pid, _ in began}) > 2


def test_a_search_whose_only_worker_was_killed_goes_on(fakes, workers, tmp_path):
    log, storage = tmp_path / "log", tmp_path / "study.db"
    keys = [state.key for state in fakes.SPACE.states()]
    assert workers(storage, log, 1, hang=6) == keys[5]
    assert [key for _, key in fakes.noted(log, "ended")] == keys[:5]
    result = search(fakes, tmp_path)
    assert accuracies(result) == fakes.expected()
    assert (result.failed, result.running) == (1, 0)
    assert sorted(key for _, key in fakes.noted(log, "began")) == sorted([*keys, keys[5]])


def test_neither_optuna_nor_sqlalchemy_is_needed_to_import(worker_script):
    _, imported, _ = worker_script
    assert imported == []


def test_several_hidden_grids_are_searched_too(fakes, tmp_path):
    space = SearchSpace((1, 4, 4), ("rotation",), ((4,), (2,)))
    child = fakes.FakeChild(tmp_path / "log")
    result = search_groups(child, space, strategy=fakes.InOrder(space), storage=tmp_path / "s.db")
    assert sorted(one.state for one in result.children) == sorted(space.states())
    assert SearchResult.of(tmp_path / "s.db").space == space
    assert "hidden grids 2" in str(result)


@pytest.mark.parametrize("by_network", [True, False])
def test_a_strategy_that_repeats_itself_is_refused_by_network_too(fakes, tmp_path, by_network):
    class Stubborn:
        def propose(self, scores, taken):
            return ChildProposal(FLIP)

    with pytest.raises(ValueError, match="expected a strategy that proposes what is not trained"):
        search(fakes, tmp_path, strategy=Stubborn(), by_network=by_network)


def test_what_is_no_child_is_refused_in_a_sentence(fakes, tmp_path):
    with pytest.raises(TypeError, match=r"and has a fingerprint\(\), got function"):
        search(fakes, tmp_path, lambda state, **options: 0.5)

    class Number(fakes.FakeChild):  # type: ignore[name-defined]
        def __call__(self, state, **options):
            return 0.5

    with pytest.raises(TypeError, match="that returns Trained, got float"):
        search(fakes, tmp_path, Number(tmp_path / "log"))
    other = fakes.FakeChild(tmp_path / "log")
    other.space = SearchSpace((1, 8, 8), ("rotation",), ((2,),))
    with pytest.raises(ValueError, match="expected a child of the space"):
        search(fakes, tmp_path, other)


def test_a_rung_longer_than_a_training_is_refused(fakes, tmp_path):
    child = fakes.FakeChild(tmp_path / "log")
    child.usual_epochs = 4
    rungs = LatticeSearch(fakes.SPACE, 0, rungs=(50,))
    with pytest.raises(ValueError, match="no training longer than the child's 4 epochs, got 50"):
        search(fakes, tmp_path, child, strategy=rungs)
