"""An `.orchestrator/` folder is imported completely, with its errors reported, and exported again."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgd.errors import Invalid
from kgd.exchange import Reading, digest, orchestrator
from kgd.memories.keywords import keywords
from kgd.model.node import Node
from kgd.model.uri import Uri
from kgd.workspace.workspace import Workspace
from tests.surfaces.conftest import Ask, upsert

GRAPH: dict[str, Any] = {
    "version": 1,
    "last_updated": "2024-12-10T14:30:00Z",
    "nodes": [
        {
            "id": "task-001",
            "type": "task",
            "tags": ["auth", "api", "jwt"],
            "summary": "Implemented JWT authentication flow",
            "file": "journal/task-001-auth.md",
            "created": "2024-12-10",
            "connections": ["decision-001"],
        },
        {
            "id": "decision-001",
            "type": "decision",
            "tags": ["database", "architecture", "postgresql"],
            "summary": "Chose PostgreSQL over SQLite for concurrent write support",
            "file": "memories/2024-12-10-database-choice.md",
            "created": "2024-12-10",
            "connections": ["task-001", "task-005"],
        },
        {
            "id": "pattern-001",
            "type": "pattern",
            "tags": ["error-handling", "api", "convention"],
            "summary": "All API errors use ErrorResponse class with code, message, details",
            "file": None,
            "created": "2024-12-10",
            "connections": [],
        },
        {
            "id": "gotcha-001",
            "type": "gotcha",
            "tags": ["rate-limit", "api", "external"],
            "summary": "External payment API rate limit is 100/min, not 1000/min as documented",
            "file": "memories/2024-12-10-payment-rate-limit.md",
            "created": "2024-12-10",
            "connections": ["task-003"],
        },
    ],
    "tag_index": {"auth": ["task-001"], "api": ["task-001", "pattern-001", "gotcha-001"]},
}
"""The example of the specification."""

CHOICE = """---
id: decision-001
type: decision
date: 2024-12-10
tags: [database, architecture, postgresql, sqlite]
---

# Decision: Database Selection

## Context
We need a database for the user management system. Expected load: 100 concurrent users, 10k records.

## Decision
Chose PostgreSQL.
"""
LIMIT = "---\nid: gotcha-001\ntype: gotcha\ndate: 2024-12-10\ntags: [rate-limit]\n---\n\nThe vendor counts per key.\n"
TASK = """# Task 001: User auth

Status: completed

## Objective
Add JWT authentication.

## Handoff Notes
Tokens live for an hour.

## Gotchas
- Clock skew breaks validation
"""


def lay(root: Path, graph: dict[str, Any] | None = None) -> Path:
    folder = root / ".orchestrator"
    for name, text in {
        "memories/2024-12-10-database-choice.md": CHOICE,
        "memories/2024-12-10-payment-rate-limit.md": LIMIT,
        "journal/task-001-auth.md": TASK,
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "knowledge_graph.json").write_text(json.dumps(graph or GRAPH, indent=2))
    return folder


def take(ask: Ask, source: Path, **options: Any) -> Any:
    return ask.__getattr__("import")(source=str(source), **options)


def at(ws: Workspace, uri: str) -> Node:
    node = ws.node(Uri(uri))
    assert node is not None
    return node


@pytest.mark.slow
@pytest.mark.requirement("M9")
def test_the_example_of_the_specification_comes_in_whole(ask: Ask, ws: Workspace, tmp_path: Path) -> None:
    answer = take(ask, lay(tmp_path))
    assert (answer["format"], answer["nodes"]["new"], len(answer["commits"])) == ("orchestrator", 4, 1)
    assert answer["read"] == {"tasks": 1, "decisions": 1, "patterns": 1, "gotchas": 1}
    decision = at(ws, "decision://shop/decision-001")
    assert decision.summary == "Chose PostgreSQL over SQLite for concurrent write support"
    assert decision.tags == ("architecture", "database", "postgresql", "sqlite")
    assert decision.data["created"] == "2024-12-10"
    assert [(r.type, r.target, r.weight) for r in decision.relations] == [
        ("connected_to", "task://shop/task-001", 1.0),
        ("connected_to", "task://shop/task-005", 1.0),
    ]
    found = ws.detail(decision)
    assert found is not None
    assert found[0] == "memories/2024-12-10-database-choice.md"
    assert found[1].startswith("# Decision: Database Selection\n\n## Context\nWe need")
    task = at(ws, "task://shop/task-001")
    assert task.data["status"] == "completed"
    assert [one["title"] for one in task.data["sections"]] == ["Objective", "Handoff Notes", "Gotchas"]
    assert at(ws, "pattern://shop/pattern-001").type == "pattern"
    broken = [t for t in answer["troubles"] if "does not exist" in t["reason"]]
    assert [t["reason"].split(",")[0] for t in broken] == ["it is connected to task-005", "it is connected to task-003"]


@pytest.mark.requirement("M9")
def test_a_second_import_changes_nothing_and_an_export_gives_the_graph_and_memories_back(
    ask: Ask, ws: Workspace, tmp_path: Path
) -> None:
    folder = lay(tmp_path)
    take(ask, folder)
    tip = ws.tip
    assert take(ask, folder)["nodes"]["unchanged"] == 4
    assert ws.tip == tip
    out = tmp_path / "out" / ".orchestrator"
    ask.export(target=str(out), format="orchestrator")
    given = json.loads((out / "knowledge_graph.json").read_text())
    wanted = {node["id"]: node for node in GRAPH["nodes"]}
    wanted["decision-001"] = {**wanted["decision-001"], "tags": [*wanted["decision-001"]["tags"], "sqlite"]}
    assert {node["id"]: node for node in given["nodes"]} == wanted
    assert given["version"] == 1
    assert given["tag_index"]["api"] == ["gotcha-001", "pattern-001", "task-001"]
    assert (out / "memories/2024-12-10-database-choice.md").read_text() == CHOICE
    first = (out / "knowledge_graph.json").read_bytes()
    ask.export(target=str(out), format="orchestrator")
    assert (out / "knowledge_graph.json").read_bytes() == first


def test_edits_in_the_folder_are_imported_with_their_prose(ask: Ask, ws: Workspace, tmp_path: Path) -> None:
    folder = lay(tmp_path)
    take(ask, folder)
    path = folder / "memories/2024-12-10-database-choice.md"
    path.write_text(path.read_text().replace("Chose PostgreSQL.", "Chose PostgreSQL 17."))
    answer = take(ask, folder)
    assert answer["nodes"] == {"new": 0, "changed": 1, "unchanged": 3, "kept": 0}
    found = ws.detail(at(ws, "decision://shop/decision-001"))
    assert found is not None
    assert found[1].endswith("Chose PostgreSQL 17.")


def test_a_deleted_node_returns_with_the_next_import(ask: Ask, ws: Workspace, tmp_path: Path) -> None:
    folder = lay(tmp_path)
    take(ask, folder)
    was = at(ws, "decision://shop/decision-001")
    ask.put(changes={"op": "delete", "uri": was.uri})
    answer = take(ask, folder)
    assert answer["nodes"] == {"new": 1, "changed": 0, "unchanged": 3, "kept": 0}
    assert at(ws, was.uri) == was


@pytest.mark.requirement("M9")
def test_journal_and_state_are_read_where_there_is_no_graph(ask: Ask, ws: Workspace, tmp_path: Path) -> None:
    folder = lay(tmp_path)
    (folder / "knowledge_graph.json").unlink()
    (folder / "journal/index.md").write_text(
        "| Task | Status |\n|---|---|\n| task-001 | completed |\n| task-002 | pending |\n| task-009 | completed |\n"
    )
    (folder / "journal/task-002-later.md").write_text("# Later\n\nStatus: pending\n")
    (folder / "orchestrator_state.json").write_text(
        json.dumps(
            {
                "key_decisions": [
                    "Use Redis for sessions",
                    {"decision": "One repository", "rationale": "fewer releases"},
                ],
                "learned_context": {"patterns": ["Handlers return Result"], "gotchas": ["CI has no network"]},
            }
        )
    )
    (folder / "orchestrator_memory.md").write_text(
        "# Memory\n\n## Key Decisions\n- **Use Redis for sessions**\n- Ship on Fridays\n\n## Notes\n- nothing\n"
    )
    answer = take(ask, folder)
    assert answer["read"] == {"tasks": 1, "decisions": 4, "patterns": 1, "gotchas": 2}
    task = at(ws, "task://shop/task-001")
    assert (task.summary, task.name) == ("Tokens live for an hour.", "Task 001: User auth")
    assert task.tags
    told = " / ".join(t["reason"] for t in answer["troubles"])
    assert "1 tasks are not completed" in told
    assert "task-009 is listed as completed, but its file is missing" in told
    hits = ask.search(query="redis sessions", types=["decision"])["hits"]
    assert [hit["summary"] for hit in hits if "Redis" in hit["summary"]] == ["Use Redis for sessions"]
    assert take(ask, folder)["commits"] == []


@pytest.mark.requirement("M9")
@pytest.mark.parametrize("named_by", ["the index", "the graph"])
def test_a_task_whose_journal_file_has_another_name_is_one_task(
    ask: Ask, ws: Workspace, tmp_path: Path, named_by: str
) -> None:
    folder = lay(tmp_path)
    (folder / "journal/task-001-auth.md").rename(folder / "journal/user-login.md")
    graph = json.loads((folder / "knowledge_graph.json").read_text())
    graph["nodes"][0]["file"] = "journal/user-login.md" if named_by == "the graph" else None
    (folder / "knowledge_graph.json").write_text(json.dumps(graph))
    (folder / "journal/index.md").write_text(
        "| Task | Status | File |\n|---|---|---|\n"
        + ("| task-001 | completed | [login](user-login.md) |\n" if named_by == "the index" else "")
    )
    assert take(ask, folder)["read"]["tasks"] == 1
    assert [str(uri) for uri in ws.graph.uris() if str(uri).startswith("task:")] == ["task://shop/task-001"]


def test_one_broken_piece_is_one_line_and_the_rest_goes_on(ask: Ask, ws: Workspace, tmp_path: Path) -> None:
    graph = {
        "nodes": [
            {"id": "x-1", "type": "decision"},
            7,
            {"id": "a/../b", "type": "gotcha", "summary": "bad id", "tags": []},
            {"id": "gotcha-2", "type": "gotcha", "summary": "away", "tags": ["A B"], "file": "../../etc/passwd"},
            {"id": "gotcha-2", "type": "gotcha", "summary": "again", "tags": []},
            {"id": "rule-1", "type": "rule", "summary": "s" * 140, "tags": ["UP"], "owner": "ann"},
        ]
    }
    folder = lay(tmp_path, graph)
    (folder / "memories/broken.md").write_text("---\nid: [\n---\nStill here.\n")
    answer = take(ask, folder)
    told = {t["at"]: t["reason"] for t in answer["troubles"]}
    assert "has no summary" in told["knowledge_graph.json nodes[0]"]
    assert "not an object" in told["knowledge_graph.json nodes[1]"]
    assert "skipped" in told["knowledge_graph.json a/../b"]
    assert "used twice" in told["knowledge_graph.json gotcha-2"] or "outside" in told["knowledge_graph.json gotcha-2"]
    assert "invalid front matter" in next(reason for where, reason in told.items() if "broken.md" in where)
    rule = at(ws, "concept://shop/rule-1")
    assert (rule.type, rule.data["owner"], rule.tags) == ("rule", "ann", ("up",))
    assert rule.content.strip() == "s" * 140
    assert at(ws, "gotcha://shop/gotcha-2").summary == "away"
    (folder / "knowledge_graph.json").write_text('{"nodes": [\n oops')
    again = take(ask, folder)
    assert any(t["at"] == "knowledge_graph.json:2" for t in again["troubles"])


def test_a_project_is_imported_by_the_folder_in_it(ask: Ask, ws: Workspace, tmp_path: Path) -> None:
    lay(tmp_path / "app")
    (tmp_path / "app" / "README.md").write_text("# App\n")
    answer = take(ask, tmp_path / "app")
    assert (answer["format"], answer["nodes"]["new"]) == ("orchestrator", 4)
    assert take(ask, tmp_path / "app" / ".orchestrator")["nodes"]["unchanged"] == 4


def test_a_project_with_rules_reports_the_folder_that_was_skipped(ask: Ask, tmp_path: Path) -> None:
    lay(tmp_path)
    (tmp_path / "CLAUDE.md").write_text("# Rules\nUse tabs.\n")
    answer = take(ask, tmp_path)
    assert (answer["format"], answer["nodes"]["new"]) == ("rules", 1)
    assert answer["troubles"] == [{"at": ".orchestrator/", "reason": "it was skipped: import it by itself"}]


def test_hidden_notes_alone_make_no_vault_of_a_folder(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "app" / ".cache").mkdir(parents=True)
    (tmp_path / "app" / ".cache" / "a.md").write_text("# A\n")
    with pytest.raises(Invalid, match="is not in a known format"):
        take(ask, tmp_path / "app")


def test_memories_that_kgd_had_first_can_be_exported(ask: Ask, tmp_path: Path) -> None:
    ask.put(
        changes=[
            upsert(
                "insight:caches",
                summary="Caches lie",
                tags=["cache"],
                detail="# Caches\n\nThey do.",
                relations=[{"type": "about", "target": "auth"}, {"type": "connected_to", "target": "gotcha:ttl"}],
            ),
            upsert("gotcha:ttl", summary="A TTL of 0 is forever", tags=["cache"]),
            upsert("auth", summary="no memory"),
        ]
    )
    out = tmp_path / "out"
    answer = ask.export(target=str(out), format="orchestrator")
    nodes = json.loads((out / "knowledge_graph.json").read_text())["nodes"]
    assert [(node["id"], node["connections"]) for node in nodes] == [
        ("gotcha-ttl", []),
        ("insight-caches", ["gotcha-ttl"]),
    ]
    assert nodes[1]["file"].startswith("memories/")
    assert "They do." in (out / nodes[1]["file"]).read_text()
    assert {t["reason"] for t in answer["troubles"]} == {
        "this format has no place for 1 relations of type about",
        "1 nodes are not memories and were left out",
    }


def test_kgds_own_nodes_survive_export_and_import(ask: Ask, ws: Workspace, tmp_path: Path) -> None:
    sections = [{"title": "Objective", "content": "Renew early.\n"}]
    nodes = [
        upsert(
            "gotcha:services/clock-skew",
            name="Clock skew",
            summary="Clocks differ",
            tags=["time"],
            relations=[{"type": "connected_to", "target": "task:Renew tokens"}],
        ),
        upsert(
            "task:Renew tokens",
            name="Renew tokens",
            summary="Renew",
            data={"status": "completed", "sections": sections},
        ),
        upsert("decision:redis", name="Use Redis", summary="Redis it is", content="# Redis\n\nIt was there already.\n"),
        upsert("insight:titled", name="Caches lie", summary="They do", detail="# Caches lie\n\nOften."),
    ]
    ask.put(changes=nodes)
    ask.export(target=str(tmp_path / "out"), format="orchestrator")
    uris = [
        "gotcha://shop/services/clock-skew",
        "task://shop/Renew%20tokens",
        "decision://shop/redis",
        "insight://shop/titled",
    ]
    before = {uri: at(ws, uri) for uri in uris}
    ask.put(changes=[{"op": "delete", "uri": uri} for uri in uris])
    answer = take(ask, tmp_path / "out")
    assert (answer["troubles"], answer["nodes"]["new"]) == ([], 4)
    for uri, was in before.items():
        now = at(ws, uri)
        assert (now.name, now.summary, now.tags, now.relations) == (was.name, was.summary, was.tags, was.relations)
        assert [now.data.get(key) for key in ("status", "sections")] == [
            was.data.get(key) for key in ("status", "sections")
        ]
    found = ws.detail(at(ws, "decision://shop/redis"))
    assert found is not None
    assert found[1].strip() == "# Redis\n\nIt was there already."
    first = json.loads((tmp_path / "out/knowledge_graph.json").read_text())["nodes"]
    assert [one.get("kgd") for one in first if one["id"] == "insight-titled"] == [{"path": "titled"}]
    ask.export(target=str(tmp_path / "again"), format="orchestrator")
    assert json.loads((tmp_path / "again/knowledge_graph.json").read_text())["nodes"] == first


def test_node_data_cannot_replace_fields_of_the_format(ask: Ask, ws: Workspace, tmp_path: Path) -> None:
    data = {"id": "task-9", "type": "task", "tags": 3, "summary": 4, "connections": ["b"], "kgd": {"path": "c"}, "x": 1}
    ask.put(changes=upsert("gotcha:gotcha-a", summary="Clocks differ", tags=["time"], data=data))
    ask.export(target=str(tmp_path / "out"), format="orchestrator")
    graph = json.loads((tmp_path / "out/knowledge_graph.json").read_text())
    (entry,) = graph["nodes"]
    assert entry == {
        "id": "gotcha-a",
        "type": "gotcha",
        "tags": ["time"],
        "summary": "Clocks differ",
        "file": None,
        "created": entry["created"],
        "connections": [],
        "x": 1,
    }
    assert graph["tag_index"] == {"time": ["gotcha-a"]}


json_values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-9, 9),
        st.text(max_size=8),
        st.sampled_from(["task-1", "decision", "../x", "journal/task-1.md"]),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=4), inner, max_size=3)),
    max_leaves=4,
)
entries = st.fixed_dictionaries(
    {}, optional=dict.fromkeys(("id", "type", "tags", "summary", "file", "created", "connections", "more"), json_values)
)


@given(st.lists(st.one_of(entries, json_values), max_size=4), json_values, st.text(max_size=60))
def test_no_folder_however_odd_is_more_than_lines_in_a_report(nodes: list[Any], state: Any, prose: str) -> None:
    with tempfile.TemporaryDirectory() as place:
        root = Path(place) / ".orchestrator"
        (root / "journal").mkdir(parents=True)
        (root / "knowledge_graph.json").write_text(json.dumps({"nodes": nodes}))
        (root / "state.json").write_text(json.dumps({"key_decisions": state, "learned_context": {"patterns": [state]}}))
        (root / "journal/index.md").write_text(f"| task-1 | completed |\n{prose}", encoding="utf-8", errors="replace")
        (root / "journal/task-1.md").write_text(prose, encoding="utf-8", errors="replace")
        plan = orchestrator.read(root, Reading("w", keywords=keywords))
        for one in plan.wanted:
            assert one.node.type
            assert digest(one.node, one.detail)
