"""The life cycle of a task, and its recorded lessons on completion."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from kgd.errors import Invalid, KgdError, Limit, NotFound, Refused, Stale
from kgd.memories.keywords import keywords
from kgd.model.change import ChangeSet, Untag
from kgd.model.uri import Uri
from kgd.tools.advance import learned
from kgd.tools.session import Session
from kgd.workspace.answers import Outcome
from kgd.workspace.workspace import Workspace
from tests.builders import ANN, change, upsert
from tests.tasks.conftest import Ask, completed, got, moved, put_task

ID = "task://shop/Idempotent%20webhooks"
HINTS = {
    "message": "Task completed. Consider updating the knowledge graph.",
    "suggestedActions": [
        "Update atom knowledge for areas affected by this task",
        "Update atom paths if files were moved or new directories created",
        "Append changelog entries for significant changes",
    ],
}
LEARNED = [
    {"title": "Handoff Notes", "content": "Keys of seen events live in Redis for a week."},
    {"title": "Patterns", "content": "- All webhook handlers extend BaseWebhookHandler\n- None"},
    {
        "title": "Gotchas",
        "content": "Stripe retries for three days\n`src/auth/keys.py`: the test key signs differently",
    },
]


def test_a_task_goes_from_pending_through_in_progress_to_completed(ask: Ask) -> None:
    assert put_task(ask)["status"] == "pending"
    started = ask.advance(id="Idempotent webhooks", version=1)["data"]
    assert (started["task"]["status"], started["task"]["version"]) == ("in-progress", 2)
    assert "graphHints" not in started
    done = ask.advance(id=ID, version=2)["data"]
    assert (done["task"]["status"], done["task"]["version"], done["recorded"]) == ("completed", 3, [])


@pytest.mark.requirement("A16")
def test_at_a_terminal_status_the_answer_has_graph_hints(ask: Ask) -> None:
    put_task(ask, "one")
    put_task(ask, "two")
    assert completed(ask, "one")["graphHints"] == HINTS
    cancelled = moved(ask, "two", to="cancelled")["graphHints"]
    assert cancelled["suggestedActions"] == HINTS["suggestedActions"]
    assert cancelled["message"] == "Task cancelled. Consider updating the knowledge graph."


def test_an_invalid_transition_is_refused_with_the_valid_ones(ask: Ask) -> None:
    for status, to, says in (
        ("in-progress", "pending", "From here: completed, cancelled"),
        ("completed", "in-progress", "Completed is final"),
        ("completed", None, "Completed is final"),
        ("cancelled", "completed", "Cancelled is final"),
        ("cancelled", "pending", "Cancelled is final"),
        ("pending", "finished", "Known: pending, in-progress, completed, cancelled"),
        ("waiting for Ann", None, "From here: pending, in-progress, completed, cancelled"),
    ):
        version = put_task(ask, data={"status": status})["version"]
        with pytest.raises(Invalid, match=says):
            ask.advance(id=ID, version=version, to=to)
        assert got(ask, ID)["task"]["version"] == version


def test_a_pending_task_can_be_completed_without_a_start(ask: Ask) -> None:
    version = put_task(ask, data={"status": "pending"})["version"]
    assert ask.advance(id=ID, version=version)["data"]["task"]["status"] == "in-progress"
    version = put_task(ask, data={"status": "pending"})["version"]
    assert ask.advance(id=ID, version=version, to="completed")["data"]["task"]["status"] == "completed"


def test_a_task_can_be_cancelled_from_any_open_status(ask: Ask) -> None:
    for status in ("pending", "in-progress", "waiting for Ann"):
        version = put_task(ask, data={"status": status})["version"]
        assert ask.advance(id=ID, version=version, to="Cancelled")["data"]["task"]["status"] == "cancelled"


def test_a_stale_version_is_a_conflict_that_carries_the_current_one(ask: Ask) -> None:
    put_task(ask)
    moved(ask, ID)
    with pytest.raises(Stale) as refused:
        ask.advance(id=ID, version=1, sections=LEARNED)
    assert refused.value.current == 2
    assert "Gotchas" not in {one["title"] for one in got(ask, ID)["sections"]}


WRONG: list[tuple[dict[str, Any], type[KgdError]]] = [
    ({"id": "no such"}, NotFound),
    ({"id": "concept://shop/x"}, Invalid),
    ({"id": "  "}, Invalid),
    ({"id": ID, "version": None}, Invalid),
    ({"id": ID, "version": -1}, Invalid),
    ({"id": ID, "containerType": "feature"}, Invalid),
    ({"id": ID, "sections": [{"content": "no title"}]}, Invalid),
    ({"id": ID, "sections": [{"title": " ", "content": "x"}]}, Invalid),
    ({"id": ID, "sections": "[{"}, Invalid),
    ({"id": ID, "sections": [{"title": "A\nB", "content": "x"}]}, Invalid),
    ({"id": ID, "sections": [{"title": "A", "content": "\x00"}]}, Invalid),
    ({"id": ID, "summary": "x" * 101}, Limit),
    ({"id": ID, "sections": [{"title": "Notes", "content": "x" * 300_000}]}, Limit),
    ({"id": ID, "sections": [{"title": "Gotchas", "content": "AWS key AKIAIOSFODNN7EXAMPLQ is in the log"}]}, Refused),
    ({"id": ID, "projectId": "other", "workspace": "shop"}, Invalid),
]


def test_invalid_arguments_are_refused_and_nothing_is_written(ask: Ask, ws: Workspace) -> None:
    put_task(ask)
    moved(ask, ID)
    tip = ws.tip
    for arguments, error in WRONG:
        with pytest.raises(error) as refused:
            ask.advance(**{"version": 2, **arguments})
        assert "changes[" not in str(refused.value)
        assert ws.tip == tip, arguments


def test_sections_are_added_or_replaced_while_the_task_continues(ask: Ask) -> None:
    put_task(ask)
    moved(ask, ID, sections={"Handoff Notes": "first", "Objective": "Another one."})
    after = moved(ask, ID, to="in-progress", sections=[{"title": "handoff notes", "content": "second"}])
    assert {one["title"]: one["content"] for one in after["sections"]} == {
        "Objective": "Another one.",
        "Acceptance Criteria": "- a repeated event changes nothing\n- the signature is checked first",
        "Context Files": "- `src/checkout.py` - the handlers\n- src/auth/keys.py, src/auth/new.py",
        "handoff notes": "second",
    }


@pytest.mark.requirement("M5")
def test_completing_a_task_records_its_patterns_and_gotchas_with_keywords_in_one_commit(
    ask: Ask, ws: Workspace
) -> None:
    put_task(ask, tags=["mine"])
    put_task(ask, "before", sections=None)
    put_task(ask, "gone", sections=None)
    ask.put(
        changes=[
            {"op": "relate", "source": ID, "target": f"task:{name}", "type": "depends_on"}
            for name in ("before", "gone")
        ]
    )
    ask.put(changes=[{"op": "delete", "uri": "task:gone"}])
    moved(ask, ID)
    commits = len(ws.history.entries(limit=100))
    done = moved(ask, ID, sections=LEARNED, summary="Events are handled once")
    assert len(ws.history.entries(limit=100)) == commits + 1

    recorded = {one["summary"]: one for one in done["recorded"]}
    assert {summary: one["type"] for summary, one in recorded.items()} == {
        "All webhook handlers extend BaseWebhookHandler": "pattern",
        "Stripe retries for three days": "gotcha",
        "`src/auth/keys.py`: the test key signs differently": "gotcha",
    }
    for summary, one in recorded.items():
        (node,) = ask.get(uris=[one["id"]])["nodes"]
        assert (node["type"], node["version"], node["origin"]["commit"]) == (one["type"], 1, done["commit"])
        assert node["tags"] == sorted(keywords(summary))
        assert {"type": "connected_to", "target": ID, "weight": 1} in node["relations"]
    (task,) = ask.get(uris=[ID])["nodes"]
    objective = got(ask, ID)["sections"][0]["content"]
    assert task["tags"] == sorted({"mine", *keywords(f"{objective}\n\n{LEARNED[0]['content']}")})
    assert task["summary"] == "Events are handled once"
    assert [one["target"] for one in task["relations"] if one["type"] == "connected_to"] == ["task://shop/before"]


def test_an_item_that_names_a_file_cites_it_and_other_items_are_about_the_files_of_the_task(ask: Ask) -> None:
    put_task(ask)
    recorded = completed(ask, ID, sections=LEARNED)["recorded"]
    about = {}
    for one in recorded:
        (node,) = ask.get(uris=[one["id"]])["nodes"]
        about[one["summary"]] = [r["target"] for r in node["relations"] if r["type"] == "about"]
        assert node.get("data", {}).get("cites", []) == (["src/auth/keys.py"] if "keys.py" in one["summary"] else [])
    keys, checkout = "file://shop/src/auth/keys.py", "file://shop/src/checkout.py"
    assert about == {
        "All webhook handlers extend BaseWebhookHandler": [keys, checkout],
        "Stripe retries for three days": [keys, checkout],
        "`src/auth/keys.py`: the test key signs differently": [keys],
    }
    (task,) = ask.get(uris=[ID])["nodes"]
    assert [r["target"] for r in task["relations"] if r["type"] == "about"] == [keys, checkout]
    assert ask.get(uris=["file://shop/src/auth/new.py"])["missing"]


@pytest.mark.requirement("M5")
def test_completing_twice_records_once(ask: Ask, ws: Workspace) -> None:
    put_task(ask)
    first = completed(ask, ID, sections=LEARNED)
    tip = ws.tip
    again = moved(ask, ID, to="completed", sections=LEARNED)
    assert (again["commit"], ws.tip) == (None, tip)
    assert {name: again["already"][name] for name in ("by", "commit")} == {"by": "Ann Person", "commit": tip}
    assert "already" not in first
    assert [one["id"] for one in again["recorded"]] == [one["id"] for one in first["recorded"]]

    gotcha = first["recorded"][1]["id"]
    ask.put(
        changes=[
            {"op": "move", "uri": gotcha, "to": "gotcha://shop/payments/retries"},
            {"op": "upsert", "uri": "gotcha://shop/payments/retries", "summary": "Said better"},
        ]
    )
    more = [{"title": "Gotchas", "content": f"{LEARNED[2]['content']}\nA third one"}]
    third = moved(ask, ID, to="completed", sections=more)
    assert [one["summary"] for one in third["recorded"]] == [
        "A third one",
        "All webhook handlers extend BaseWebhookHandler",
        "Said better",
        "`src/auth/keys.py`: the test key signs differently",
    ]
    assert [one.get("known", False) for one in third["recorded"]] == [False, True, True, True]
    assert third["already"] == again["already"]
    assert len(list(ws.graph.uris(scheme="gotcha"))) == 3


def test_a_known_fact_is_linked_and_not_written_again(ask: Ask, ws: Workspace) -> None:
    ask.remember(text="Stripe retries for three days", type="gotcha")
    put_task(ask)
    done = completed(ask, ID, sections=LEARNED)
    put_task(ask, "another")
    completed(ask, "another", sections=LEARNED)
    (known,) = [one for one in done["recorded"] if one["summary"] == "Stripe retries for three days"]
    assert known["id"] == "gotcha://shop/stripe-retries-for-three-days"
    (node,) = ask.get(uris=[known["id"]])["nodes"]
    assert sorted(r["target"] for r in node["relations"]) == [ID, "task://shop/another"]
    assert len(list(ws.graph.uris(scheme="gotcha"))) == 2


def test_a_long_item_keeps_its_words_and_shows_a_line_of_them(ask: Ask) -> None:
    long = "The signature is checked against the raw body, " * 5
    put_task(ask)
    (one,) = completed(ask, ID, sections={"Gotchas": long})["recorded"]
    (node,) = ask.get(uris=[one["id"]])["nodes"]
    assert len(node["summary"]) <= 100
    assert node["content"].strip() == long.strip()


def test_items_are_recorded_beside_their_task(ask: Ask) -> None:
    """A token for part of the paths is then enough to complete a task there."""
    ask.put(changes=[{"op": "upsert", "uri": "task://shop/payments/fix", "name": "Fix"}])
    recorded = completed(ask, "payments/fix", sections=LEARNED)["recorded"]
    assert all("://shop/payments/" in one["id"] for one in recorded)


@pytest.mark.slow
def test_a_section_of_prose_is_recorded_up_to_a_reported_limit(ask: Ask) -> None:
    put_task(ask)
    done = completed(ask, ID, sections={"Gotchas": "\n".join(f"line number {n}" for n in range(130))})
    assert len(done["recorded"]) == 100
    assert done["warnings"] == ["only 100 of 130 gotchas were recorded: write one item per line"]


def test_a_cancelled_task_records_nothing(ask: Ask, ws: Workspace) -> None:
    put_task(ask)
    assert "recorded" not in moved(ask, ID, to="cancelled", sections=LEARNED)
    assert not list(ws.graph.uris(scheme="gotcha"))


def test_a_completed_task_without_a_summary_gets_one(ask: Ask) -> None:
    put_task(ask)
    assert completed(ask, ID, sections=LEARNED)["task"]["summary"] == "Keys of seen events live in Redis for a week."
    put_task(ask, "bare", sections=None)
    assert completed(ask, "bare")["task"]["summary"] == "bare"


def overtaken(monkeypatch: pytest.MonkeyPatch, by: Callable[[Workspace, ChangeSet], object]) -> None:
    """Submit another change right before the next change of the caller."""
    submit = Session.submit

    def late(self: Session, workspace: Workspace, changes: ChangeSet, **more: Any) -> Outcome:
        monkeypatch.undo()
        by(workspace, changes)
        return submit(self, workspace, changes, **more)

    monkeypatch.setattr(Session, "submit", late)


def test_a_fact_written_concurrently_causes_no_failure(
    ask: Ask, ws: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_task(ask)
    moved(ask, ID)

    def write_down(workspace: Workspace, changes: ChangeSet) -> None:
        first = next(edit for edit in changes.edits if getattr(edit, "uri", "").startswith("gotcha:"))
        workspace.submit(change(first, author=ANN))

    overtaken(monkeypatch, write_down)
    done = moved(ask, ID, sections=LEARNED)
    assert len(done["recorded"]) == 3
    assert not learned(ws, _task(ws)).new


def test_a_concurrent_change_of_the_task_makes_the_call_stale(
    ask: Ask, ws: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_task(ask)
    moved(ask, ID)
    overtaken(
        monkeypatch,
        lambda workspace, changes: workspace.submit(change(Untag(Uri(ID), ("x",)), upsert(ID, tags=("y",)))),
    )
    with pytest.raises(Stale) as refused:
        ask.advance(id=ID, version=2, sections=LEARNED)
    assert (refused.value.current, refused.value.at) == (3, ID)
    assert not list(ws.graph.uris(scheme="gotcha"))


def _task(ws: Workspace) -> Any:
    from kgd.memories.tasks import parsed
    from kgd.model.uri import parse

    node = ws.node(parse(ID))
    assert node is not None
    return parsed(node)


@pytest.mark.slow
def test_concurrent_completions_of_one_task_succeed_once_and_of_many_tasks_all_succeed(ask: Ask, ws: Workspace) -> None:
    names, shared = [f"task {n}" for n in range(8)], "a task of which much can be said " * 6
    for name in (shared, *names):
        put_task(ask, name)
        moved(ask, name)
    ends: list[str] = []

    def finish(name: str) -> None:
        try:
            ask.advance(id=name, version=2, sections={"Gotchas": "Everybody trips over this one"})
            ends.append("done")
        except Stale as stale:
            ends.append(f"stale {stale.current}")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(finish, [shared] * 8))
    assert sorted(ends) == ["done"] + ["stale 3"] * 7
    ends.clear()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(finish, names))
    assert ends == ["done"] * 8
    (gotcha,) = ws.graph.uris(scheme="gotcha")
    connected = [edge.target for edge in ws.graph.out(gotcha) if edge.type == "connected_to"]
    assert len(connected) == 9
