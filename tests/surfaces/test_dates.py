"""Reads of a period, dates in questions, and facts that hold for a time."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import orjson
import pytest

from kgd.errors import Invalid
from kgd.model.dates import named_in, span_of
from kgd.tools import EVERY, parameters
from tests.surfaces.conftest import Ask, upsert
from tests.waiting import until

pytestmark = pytest.mark.requirement("N4")

NOW = datetime(2026, 11, 19, 15, tzinfo=UTC)
TALK = [
    ("2023-05-08T09:00:00Z", "Ann", "The broker lost a lease again."),
    ("2023-05-25T09:00:00Z", "Ben", "The broker needs a longer lease."),
    ("2024-02-01T09:00:00Z", "Ann", "The broker and its lease are gone."),
]


@pytest.fixture(scope="module")
def talk(shared: Callable[[], Ask]) -> Ask:
    ask = shared()
    lines = [orjson.dumps({"timestamp": at, "sender": who, "role": "user", "content": text}) for at, who, text in TALK]
    ask.ingest(text=b"\n".join(lines).decode(), kind="conversation", uri="thread://shop/talk")
    ask.put(changes=upsert("broker", content="The broker keeps a lease."))
    return ask


def said(answer: dict, key: str = "hits") -> list[str]:  # type: ignore[type-arg]
    return [one.get("snippet") or one.get("text") or one.get("summary", "") for one in answer[key]]


@pytest.mark.parametrize(
    ("since", "until", "found"),
    [
        ("2023", "2023", {0, 1}),
        ("2023-05-08", "2023-05-08", {0}),
        ("May 2023", "May 2023", {0, 1}),
        ("10 May 2023", "1 Feb 2024", {1, 2}),
        ("2023-05-25T09:00:00Z", "2023-05-25T09:00:00Z", {1}),
        ("2024-02-01T09:00:01Z", "2024-03", set()),
        (None, "2023-05-24", {0}),
    ],
)
def test_search_finds_messages_of_a_period(talk: Ask, since: str | None, until: str | None, found: set[int]) -> None:
    answer = talk.search(query="broker lease", since=since, until=until)
    assert set(said(answer)) == {TALK[number][2] for number in found}
    answer = talk.search(query="broker lease", types=["message"], since=since, until=until, max_depth=0)
    assert set(said(answer)) == {TALK[number][2] for number in found}


def test_other_nodes_are_found_by_their_last_change_and_bare_files_by_none(talk: Ask) -> None:
    hits = talk.search(query="broker lease", since="yesterday")["hits"]
    assert {hit["uri"] for hit in hits} == {"concept://shop/broker", "thread://shop/talk"}
    until(lambda: talk.search(query="checkout")["code"])
    assert talk.search(query="checkout.py")["code"]
    for query in ("checkout", "checkout.py", "sign token"):
        answer = talk.search(query=query, since="2000")
        assert (answer["hits"], answer.get("code", [])) == ([], []), query
    tagged = talk.put(changes=upsert("tagged", tags=["x"]))
    assert tagged
    assert talk.search(tags=["x"], since="today")["hits"]
    assert talk.search(tags=["x"], until="yesterday")["hits"] == []


def test_pages_of_a_period_are_parts_of_one_order(talk: Ask) -> None:
    first = talk.search(query="broker lease", since="2023", until="2024", limit=2)
    second = talk.search(query="broker lease", since="2023", until="2024", limit=2, cursor=first["cursor"])
    assert sorted(said(first) + said(second)) == sorted(text for _, _, text in TALK)
    with pytest.raises(Invalid, match="cursor"):
        talk.search(query="broker lease", since="2022", limit=2, cursor=first["cursor"])


@pytest.mark.parametrize("tool", ["search", "context", "history", "retrieve"])
@pytest.mark.parametrize(
    ("period", "at"),
    [
        ({"since": "someday"}, "since"),
        ({"until": "2026-13-01"}, "until"),
        ({"since": "2024", "until": "2023"}, "until"),
    ],
)
def test_a_period_that_is_none_is_refused_with_its_place(talk: Ask, tool: str, period: dict, at: str) -> None:  # type: ignore[type-arg]
    asked = {"search": {"query": "x"}, "context": {"question": "x"}, "retrieve": {"query": "x"}, "history": {}}[tool]
    with pytest.raises(Invalid) as refused:
        getattr(talk, tool)(**asked, **period)
    assert refused.value.at == at


def test_all_operations_describe_a_period_alike() -> None:
    described = {
        properties["since"]["type"]
        for one in EVERY.values()
        if "since" in (properties := parameters.input_schema(one.Params).get("properties", {}))
    }
    assert len(described) == 1


def test_context_and_history_are_of_a_period(talk: Ask) -> None:
    items = talk.context(question="broker lease", since="2023-05", until="2023-05")["items"]
    assert {one["uri"].partition("://")[0] for one in items} == {"message"}
    assert len(items) == 2
    items = talk.context(question="broker lease", since="today")["items"]
    assert [one["uri"] for one in items if one["uri"].startswith("message")] == []
    assert talk.history(since="yesterday", until="today")["commits"]
    assert [one["message"] for one in talk.history(until="yesterday")["commits"]] == ["workspace shop"]


def test_context_of_paths_has_the_commits_and_entries_of_a_period(ask: Ask) -> None:
    ask.put(changes=upsert("atom://shop/keys", data={"paths": ["src/auth/**"]}, content="Rules."))
    ask.put(changes=upsert("task://shop/t", name="T"))
    ask.manage_changelog(
        operation="append", parentType="atom", parentId="atom://shop/keys", taskId="task://shop/t", summary="Rotated"
    )
    entries = {"operation": "search", "parentType": "atom", "parentId": "atom://shop/keys"}
    assert ask.manage_changelog(**entries, since="today")["data"]["total"] == 1
    assert ask.manage_changelog(**entries, until="yesterday")["data"] == {"entries": [], "total": 0}
    asked = {"paths": ["src/auth/keys.py"], "since": "yesterday"}
    until(lambda: {one["what"] for one in ask.context(**asked)["changes"]} == {"Rotated", "code"})
    now = ask.context(**asked)
    assert [one["uri"] for one in now["items"]] == ["atom://shop/keys"]
    then = ask.context(paths=["src/auth/keys.py"], until="yesterday")
    assert (then["changes"], then["items"]) == ([], [])


@pytest.mark.parametrize(
    ("text", "begin", "days"),
    [
        ("May 2023", datetime(2023, 5, 1, tzinfo=UTC), 31),
        ("7 May", datetime(2026, 5, 7, tzinfo=UTC), 1),
        ("december", datetime(2025, 12, 1, tzinfo=UTC), 31),
        ("7. Mai 2023", datetime(2023, 5, 7, tzinfo=UTC), 1),
        ("2023", datetime(2023, 1, 1, tzinfo=UTC), 365),
        ("2024-02", datetime(2024, 2, 1, tzinfo=UTC), 29),
        ("last week", datetime(2026, 11, 9, tzinfo=UTC), 7),
        ("this month", datetime(2026, 11, 1, tzinfo=UTC), 30),
        ("last month", datetime(2026, 10, 1, tzinfo=UTC), 31),
        ("last year", datetime(2025, 1, 1, tzinfo=UTC), 365),
        ("summer 2021", datetime(2021, 6, 1, tzinfo=UTC), 92),
        ("winter 2021", datetime(2021, 12, 1, tzinfo=UTC), 90),
    ],
)
def test_a_month_a_week_and_a_season_are_spans(text: str, begin: datetime, days: int) -> None:
    assert span_of(text, NOW) == (int(begin.timestamp()), int((begin + timedelta(days=days)).timestamp()))


@pytest.mark.parametrize(
    ("question", "count"),
    [
        ("What did we decide in May 2023?", 1),
        ("What happened on 7 May and on June 3rd, 2024?", 2),
        ("what broke last week", 1),
        ("Why did the build fail on 2026-11-03?", 1),
        ("2023年5月的决定是什么", 1),
        ("What was released in December 1,2023", 1),
        ("May I change the lease?", 0),
        ("what may march through the queue", 0),
        ("error 2023 in port 8080", 0),
        ("the broker and its lease", 0),
    ],
)
def test_dates_are_recognised_in_questions(question: str, count: int) -> None:
    assert len(named_in(question, NOW)) == count


@pytest.mark.parametrize(
    ("question", "first"),
    [
        ("What about the broker's lease in February 2024?", 2),
        ("What did they say of the lease on 25 May 2023?", 1),
        ("What about the lease of the broker on May 8?", 0),
    ],
)
def test_a_date_in_a_question_ranks_texts_of_that_date_first(talk: Ask, question: str, first: int) -> None:
    assert said(talk.search(query=question, types=["message"]))[0] == TALK[first][2]


# ---- facts that hold for a time


@pytest.mark.parametrize("last", ["9999-12-31", "9999"])
def test_the_last_day_of_all_years_means_without_end(ask: Ask, last: str) -> None:
    ask.put(changes=upsert("lease", summary="The lease of the broker.", data={"valid": {"until": last}}))
    [hit] = ask.search(query="lease broker", until=last)["hits"]
    assert not any("expired" in why for why in hit["why"])


def test_a_fact_that_no_longer_holds_ranks_last_and_says_so(ask: Ask) -> None:
    for name, valid in (
        ("past", {"until": "2024-05-31"}),
        ("future", {"from": "2999"}),
        ("held", {"from": "2020-01", "until": "2999"}),
    ):
        ask.put(
            changes=upsert(name, name=f"Broker lease {name}", content="The lease of the broker.", data={"valid": valid})
        )
    ask.put(changes=upsert("other", content="A broker is mentioned here, among many other things."))
    hits = ask.search(query="broker lease")["hits"]
    names = [hit["uri"].rpartition("/")[2] for hit in hits]
    assert names[0] == "held"
    assert set(names[-2:]) == {"past", "future"}
    why = {hit["uri"].rpartition("/")[2]: hit["why"] for hit in hits}
    assert "expired on 2024-05-31" in why["past"]
    assert "not valid before 2999-01-01" in why["future"]
    assert not any("valid" in one or "expired" in one for one in why["held"])
    items = ask.context(question="what is the broker lease")["items"]
    assert {one["uri"].rpartition("/")[2] for one in items[-2:]} == {"past", "future"}
    assert any(one["why"].startswith("expired on 2024-05-31") for one in items)
    past, held = ask.get(uris=["past", "held"])["nodes"]
    assert past["lapsed"] == "expired on 2024-05-31"
    assert "lapsed" not in held


@pytest.mark.slow
@pytest.mark.parametrize(
    ("valid", "place"),
    [
        ("2024", "data.valid "),
        ({}, "data.valid "),
        ({"to": "2024"}, "data.valid "),
        ({"from": "soon"}, "data.valid.from"),
        ({"until": 2024}, "data.valid.until"),
        ({"from": "2024-05", "until": "2024-04-30"}, "data.valid.until is before"),
    ],
)
def test_a_malformed_validity_is_refused_with_its_place(talk: Ask, valid: object, place: str) -> None:
    with pytest.raises(Invalid) as refused:
        talk.put(changes=upsert("a", data={"valid": valid}))
    assert place in f"{refused.value.message} "
    assert "concept://shop/a" in refused.value.at
