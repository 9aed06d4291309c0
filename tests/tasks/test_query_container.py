"""Reading tasks: one with the knowledge about its files, or a list."""

from __future__ import annotations

from typing import Any

import pytest

from kgd.errors import Invalid, KgdError, NotFound
from kgd.tools import call
from kgd.tools.session import Session
from tests.tasks.conftest import WEBHOOK, Ask, completed, got, moved, put_task

ID = "task://shop/Idempotent%20webhooks"


def atom(ask: Ask, name: str, *paths: str, **fields: Any) -> str:
    data = {"paths": list(paths), **fields}
    ask.put(changes=[{"op": "upsert", "type": "atom", "name": name, "content": f"about {name}", "data": data}])
    return f"atom://shop/{name}"


@pytest.mark.requirement("A15")
def test_a_task_comes_with_its_sections_in_their_order(ask: Ask) -> None:
    put_task(ask, summary="Once is enough", tags=["payments"])
    put_task(ask, "before", sections=None)
    ask.put(changes=[{"op": "relate", "source": ID, "target": "task:before", "type": "depends_on"}])
    data = got(ask, ID)
    created = data["task"].pop("createdAt")
    assert data == {
        "task": {
            "id": ID,
            "projectId": "shop",
            "name": "Idempotent webhooks",
            "summary": "Once is enough",
            "status": "pending",
            "tags": ["payments"],
            "dependsOn": ["task://shop/before"],
            "version": 2,
            "updatedAt": data["task"]["updatedAt"],
        },
        "sections": WEBHOOK,
    }
    assert created <= data["task"]["updatedAt"]
    assert "sections" not in got(ask, ID, includeSections=False)


@pytest.mark.requirement("A15")
def test_with_graph_context_come_the_areas_of_its_context_files_as_query_graph_answers_them(ask: Ask) -> None:
    ask.put(
        changes=[{"op": "upsert", "uri": "molecule://shop/Payments", "name": "Payments", "content": "Stripe only."}]
    )
    atom(ask, "Checkout", "src/checkout.py", moleculeId="molecule://shop/Payments")
    atom(ask, "Auth", "src/auth/k*.py")
    listed = """The handlers, mostly:

- `src/checkout.py` - the handlers, and src/auth/session.py
* src/auth/keys.py, ./src/auth/new.py
and further files if needed. N/A
"""
    put_task(ask, sections=[{"title": "Context Files", "content": listed}])
    context = got(ask, ID, includeGraphContext=True)["graphContext"]
    (molecule,) = context["molecules"]
    assert (molecule["name"], molecule["knowledge"]) == ("Payments", "Stripe only.")
    assert [(one["name"], one["matchedPaths"]) for one in molecule["atoms"]] == [("Checkout", ["src/checkout.py"])]
    assert [(one["name"], one["matchedPaths"]) for one in context["orphanAtoms"]] == [("Auth", ["src/auth/keys.py"])]
    assert context["unmatchedPaths"] == ["src/auth/session.py", "./src/auth/new.py"]
    paths = "src/checkout.py, src/auth/session.py, src/auth/keys.py, ./src/auth/new.py"
    assert context == ask.query_graph(operation="context", projectId="shop", paths=paths)["data"]


@pytest.mark.requirement("A15")
def test_without_context_files_or_with_prose_in_them_the_graph_context_is_empty(ask: Ask) -> None:
    empty: dict[str, list[object]] = {"molecules": [], "orphanAtoms": [], "unmatchedPaths": []}
    put_task(ask, "bare", sections=None)
    assert "graphContext" not in got(ask, "bare")
    assert got(ask, "bare", includeGraphContext=True)["graphContext"] == empty
    prose = "We do not know yet.\nAsk Ann, or/and Bob. " * 500
    put_task(ask, "prose", sections=[{"title": "Context Files", "content": prose}])
    assert got(ask, "prose", includeGraphContext=True)["graphContext"] == empty


def test_a_task_is_found_by_uri_short_id_name_and_former_name(ask: Ask) -> None:
    put_task(ask)
    ask.put(
        changes=[
            {"op": "upsert", "uri": "task://shop/payments/fix", "name": "Fix"},
            {"op": "upsert", "type": "task", "name": "a/b: c"},
        ]
    )
    for text in (ID, "Idempotent webhooks", "task:Idempotent webhooks", " task://shop/Idempotent webhooks "):
        assert got(ask, text)["task"]["id"] == ID
    for text in ("payments/fix", "task:payments/fix", "task://shop/payments/fix"):
        assert got(ask, text)["task"]["name"] == "Fix"
    assert got(ask, "a/b: c")["task"]["name"] == "a/b: c"
    ask.put(changes=[{"op": "move", "uri": ID, "to": "task://shop/payments/webhooks"}])
    assert got(ask, ID)["task"]["id"] == "task://shop/payments/webhooks"
    with pytest.raises(NotFound, match="Did you mean task://shop/payments/fix"):
        got(ask, "fix")


def test_tasks_are_listed_with_those_in_progress_first_and_page_by_page(ask: Ask) -> None:
    for name in "edbac":
        put_task(ask, name, sections=None)
    moved(ask, "d")
    completed(ask, "a")
    listed = ask.query_container(operation="search")["data"]
    assert ([one["name"] for one in listed["tasks"]], listed["total"]) == (["d", "b", "c", "e", "a"], 5)
    page = ask.query_container(operation="search", limit=2, offset=3)["data"]
    assert ([one["name"] for one in page["tasks"]], page["total"]) == (["e", "a"], 5)
    assert "sections" not in page["tasks"][0]
    pending = ask.query_container(operation="search", status="Pending", limit=2)["data"]
    assert ([one["name"] for one in pending["tasks"]], pending["total"]) == (["b", "c"], 3)
    assert ask.query_container(operation="search", offset=50)["data"] == {"tasks": [], "total": 5}


def test_tasks_are_found_by_the_words_of_their_sections(ask: Ask) -> None:
    put_task(ask)
    put_task(ask, "other", sections=None)
    ask.put(changes=[{"op": "upsert", "type": "insight", "name": "Stripe", "summary": "signature of stripe"}])

    def found(**more: Any) -> list[str]:
        return [one["id"] for one in ask.query_container(operation="search", **more)["data"]["tasks"]]

    assert found(query="stripe signature") == [ID]
    assert found(query="stripe", status="completed") == []
    completed(ask, ID)
    assert found(query="stripe", status="completed") == [ID]
    assert found(query="zebra quagga") == []


def test_a_list_follows_writes_moves_and_deletions(ask: Ask) -> None:
    def listed() -> list[tuple[str, str]]:
        return [(one["name"], one["status"]) for one in ask.query_container(operation="search")["data"]["tasks"]]

    assert listed() == []
    put_task(ask, "one", sections=None)
    put_task(ask, "two", sections=None)
    assert listed() == [("one", "pending"), ("two", "pending")]
    ask.put(
        changes=[
            {"op": "upsert", "uri": "task://shop/two", "data": {"status": "in-progress"}},
            {"op": "move", "uri": "task://shop/one", "to": "task://shop/x/one"},
        ]
    )
    assert listed() == [("two", "in-progress"), ("one", "pending")]
    ask.put(changes=[{"op": "delete", "uri": "task://shop/two"}])
    assert listed() == [("one", "pending")]


WRONG: list[tuple[dict[str, Any], type[KgdError]]] = [
    ({"operation": "context"}, Invalid),
    ({}, Invalid),
    ({"operation": "get"}, Invalid),
    ({"operation": "get", "id": " "}, Invalid),
    ({"operation": "get", "id": "nobody"}, NotFound),
    ({"operation": "get", "id": "atom://shop/x"}, Invalid),
    ({"operation": "get", "id": "task://elsewhere/x"}, NotFound),
    ({"operation": "search", "containerType": "project"}, Invalid),
    ({"operation": "search", "status": "finished"}, Invalid),
    ({"operation": "search", "limit": 0}, Invalid),
    ({"operation": "search", "offset": -1}, Invalid),
    ({"operation": "search", "projectId": "elsewhere"}, NotFound),
]


def test_invalid_queries_are_refused(session: Session) -> None:
    for arguments, error in WRONG:
        with pytest.raises(error):
            call(session, "query_container", arguments)
