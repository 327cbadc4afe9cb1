import json

import pytest

from isotropy import cli
from isotropy_papers import PAPERS, Listed, Standing, experiment, ids, listing
from isotropy_papers._standings import STANDINGS


def test_every_experiment_has_a_standing_and_no_other_has() -> None:
    assert sorted(STANDINGS) == ids()
    assert sorted(one.id for one in listing()) == ids()
    for one in listing():
        assert one.title == experiment(one.id).title
        assert one.standing is STANDINGS[one.id]


def test_no_state_or_cost_is_left_empty() -> None:
    for id, standing in STANDINGS.items():
        for text in (standing.state, standing.quick, standing.full):
            assert text == text.strip() != "", id


def test_papers_come_one_after_the_other_and_numbers_in_their_order() -> None:
    order = [one.id for one in listing()]
    papers = [one.paper for one in listing()]
    assert list(dict.fromkeys(papers)) == list(PAPERS)
    assert papers == sorted(papers, key=list(PAPERS).index)
    for first, second in [
        ("basu2021/figure9", "basu2021/figure10"),
        ("basu2021/table3", "basu2021/table10"),
        ("finzi2023/figure2.5", "finzi2023/figure2.6"),
        ("finzi2023/figure5.3", "finzi2023/figureA.2"),
        ("finzi2023/tableA.19", "finzi2023/tableA.22"),
        ("yeh2022/table1", "planted"),
    ]:
        assert order.index(first) < order.index(second)


def test_a_bench_of_our_own_is_of_no_paper() -> None:
    assert Listed("planted", "", Standing("")).paper == ""
    assert Listed("yeh2022/table1", "", Standing("")).paper == "yeh2022"


def test_the_command_tells_state_and_cost_in_columns(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["reproduce"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 100
    heads = [line for line in lines if line.startswith("id ")]
    assert len(heads) == len(PAPERS)
    assert len(set(heads)) == 1  # the same columns for all papers
    at = [heads[0].index(name) for name in ("id", "state", "--quick", "--full")]
    for one in listing():
        row = next(line for line in lines if line.split()[:1] == [one.id])
        standing = one.standing
        for start, text in zip(
            at, (one.id, standing.state, standing.quick, standing.full), strict=True
        ):
            assert row[start:].startswith(text)
        assert lines[lines.index(row) + 1].strip() == one.title


def test_the_command_tells_the_same_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["reproduce", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert list(answer) == ["experiments", "ids"]
    assert answer["ids"] == ids()
    assert [one["id"] for one in answer["experiments"]] == [one.id for one in listing()]
    for one in answer["experiments"]:
        assert list(one) == ["id", "title", "state", "quick", "full"]
        assert one["state"] == STANDINGS[one["id"]].state
