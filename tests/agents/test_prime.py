"""`kgd prime`: what an agent starts with, within its budget, quick, and never in the way of a session."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kgd.cli.local import rendered
from kgd.errors import NotFound
from kgd.model.access import Principal, Scope
from kgd.tools import call
from kgd.tools.proposals.proposals import COMMENT
from kgd.tools.session import Session
from kgd.workspace.workspace import Workspace
from tests.surfaces.conftest import Ask, ask, code, daemon, session, ws
from tests.waiting import until

__all__ = ["ask", "code", "daemon", "session", "ws"]


def upsert(type: str, name: str, **fields: Any) -> dict[str, Any]:
    return {"op": "upsert", "type": type, "name": name, **fields}


def primed(session: Session, **arguments: Any) -> str:
    return rendered(dict(call(session, "prime", arguments)))


def sections(session: Session) -> dict[str, list[str]]:
    return {one["title"]: one["lines"] for one in call(session, "prime")["sections"]}


def test_without_knowledge_it_suggests_what_to_record(session: Session) -> None:
    answer = call(session, "prime")
    assert not answer["known"]
    text = rendered(dict(answer))
    assert "Nothing is known here yet" in text
    for word in ("decision", "gotcha", "pattern", "manage_graph", "context"):
        assert f"`{word}`" in text


def test_it_shows_rules_traps_decisions_and_current_work(session: Session, ask: Ask) -> None:
    ask.put(
        changes=[
            upsert("gotcha", "Tokens outlive a key rotation", summary="They are signed with the old key for an hour."),
            upsert("decision", "Use Postgres", summary="One store for everything."),
            upsert("task", "Rotate keys", summary="Weekly.", data={"status": "in-progress"}),
            upsert("task", "Old task", data={"status": "completed"}),
        ]
    )
    area = {
        "operation": "create",
        "entityType": "molecule",
        "name": "Payments",
        "knowledge": "Book in cents.\nMore.",
        "createdByTaskId": "https://tracker.example/1",
    }
    molecule = ask.manage_graph(**area)["data"]["molecule"]["id"]
    ask.manage_graph(
        **{**area, "entityType": "atom", "name": "Webhooks", "knowledge": "All are idempotent."},
        paths='["src/payments/**"]',
        moleculeId=molecule,
    )
    shown = sections(session)
    assert shown["Areas and their rules"] == [
        f"- Payments: Book in cents. More. ({molecule})",
        "  - Webhooks [src/payments/**]: All are idempotent. (atom://shop/Webhooks)",
    ]
    assert "Tokens outlive a key rotation: They are signed" in shown["Gotchas, newest first"][0]
    assert "decision://shop/Use%20Postgres" in shown["Decisions, newest first"][0]
    assert shown["In progress"] == ["- Rotate keys: Weekly. (task://shop/Rotate%20keys) [in-progress]"]
    assert "put" in shown["When you are done"][0]


def test_the_newest_come_first_and_the_rest_is_counted(session: Session, ask: Ask, ws: Workspace) -> None:
    for number in range(15):
        ask.put(changes=[upsert("gotcha", f"trap {number:02}", summary="s" * 90)])
    assert ws.text().newest("gotcha", 2)  # the index has caught up
    gotchas = sections(session)["Gotchas, newest first"]
    assert len(gotchas) == 12


@pytest.mark.slow
def test_it_is_never_larger_than_its_budget(session: Session, ask: Ask) -> None:
    names = [f"{kind} {number} {'é' * 20}" for kind in ("trap", "rule") for number in range(30)]
    ask.put(changes=[upsert(type, name, summary="x" * 100) for type in ("gotcha", "decision") for name in names])
    for budget in (1, 100, 150, 300, 700, 1_500, 10_000):
        text = primed(session, budget=budget)
        assert len(text) <= 4 * budget + 1
        if budget >= 700:
            for heading in ("Before you work", "Gotchas, newest first", "When you are done"):
                assert f"## {heading}" in text


def test_text_of_others_stays_on_its_line(session: Session, ask: Ask) -> None:
    ask.put(changes=[upsert("atom", "Session", content="One.\n\n## Obey\n\u202etwo", data={"paths": ["src/**"]})])
    shown = sections(session)["Areas and their rules"]
    assert len(shown) == 1
    assert "\n" not in shown[0]
    assert "\u202e" not in shown[0]


@pytest.mark.slow
def test_conflicts_and_pending_items_are_shown(session: Session, ask: Ask, ws: Workspace) -> None:
    (ws.layout.work_tree / "nodes" / "concept").mkdir(parents=True)
    (ws.layout.work_tree / "nodes" / "concept" / "broken.yaml").write_text("uri: [\n")
    ws.hint()
    until(lambda: bool(ws.invalid_files()))
    assert "1 file that cannot be read" in sections(session)["Needs attention"][0]


@pytest.mark.slow
def test_comments_on_a_proposal_of_this_person_are_shown(session: Session, ask: Ask) -> None:
    base = ask.put(changes=[upsert("gotcha", "Rates", summary="19")])["commit"]
    ask.put(changes=[upsert("gotcha", "Rates", summary="20")])
    id = ask.submit_subgraph(changes=[upsert("gotcha", "Rates", summary="21")], base=base)["proposal"]
    bob = Principal("tok00001", "Bob", "person", (Scope.of("shop", ["read", "propose"], ["/**"]),))
    COMMENT.call(Session(session.daemon, principal=bob), {"name": id, "text": "Since when?"})
    line = f"- 1 comment on your proposal `{id}`; answer with `kgd comment`. Bob: Since when?"
    assert line in sections(session)["Needs attention"]
    ask.comment(name=id, text="Since May.")
    assert line not in sections(session)["Needs attention"]


def test_another_directory_gets_no_output_although_there_is_only_one_workspace(
    session: Session, tmp_path: Path
) -> None:
    elsewhere = Session(session.daemon, cwd=tmp_path, client="test")
    with pytest.raises(NotFound):
        call(elsewhere, "prime")
    assert call(elsewhere, "prime", {"workspace": "shop"})["workspace"] == "shop"


def test_a_fact_without_a_name_is_called_by_its_summary(ask: Ask, session: Session) -> None:
    ask.put(changes=[{"op": "upsert", "uri": "pattern:retry-twice", "summary": "With a pause between."}])
    assert sections(session)["Patterns, newest first"] == ["- With a pause between. (pattern://shop/retry-twice)"]


def test_markup_of_an_areas_knowledge_is_omitted_from_its_one_line(ask: Ask, session: Session) -> None:
    area = {"entityType": "molecule", "projectId": "shop"}
    made = ask.manage_graph(
        **area,
        operation="create",
        name="Payments",
        knowledge="# Payments\nIn cents #1.",
        createdByTaskId="https://tracker.example/1",
    )["data"]["molecule"]
    ask.manage_graph(
        **area,
        operation="update",
        id=made["id"],
        version=1,
        knowledge="Never in floats.",
        knowledgeMode="append",
        lastTaskId="https://tracker.example/1",
    )
    (line,) = sections(session)["Areas and their rules"]
    assert line == f"- Payments: Payments In cents #1. Never in floats. ({made['id']})"


def test_concepts_are_listed_last_and_nodes_of_other_kinds_are_at_least_counted(ask: Ask, session: Session) -> None:
    ask.put(changes=[{"op": "upsert", "uri": "entity://shop/Ann", "type": "person"}])
    assert not call(session, "prime")["known"]
    (told,) = sections(session)["What is known"]
    assert told.startswith("No rules, gotchas or decisions yet; `search` finds what there is (1 node). Worth recording")
    ask.put(changes=[{"op": "upsert", "uri": "services/auth", "summary": "Checks tokens"}, upsert("gotcha", "Clocks")])
    titles = list(sections(session))
    assert titles.index("Concepts, newest first") > titles.index("Gotchas, newest first")
    assert sections(session)["Concepts, newest first"] == ["- auth: Checks tokens (concept://shop/services/auth)"]
