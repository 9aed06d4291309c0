"""Each rule holds on every way into a workspace, and violations that arrive by sync are reported."""

from __future__ import annotations

from typing import Any

import pytest

from kgd.codec import documents, paths
from kgd.codec.paths import part_folder_of
from kgd.errors import KgdError, Limit
from kgd.git.refs import RefUpdate
from kgd.hooks.push_check import Pushed, check_push
from kgd.model.change import LogEntry, Move, Relate
from kgd.model.node import Relation, Source
from kgd.model.uri import Uri
from kgd.workspace.check import check
from kgd.workspace.publishing import adoption
from kgd.workspace.workspace import Workspace
from tests.admission.conftest import KEY
from tests.admission.ways import Change, Ways
from tests.builders import change, commit_file, to, upsert, uri

THEIRS = "decision://ws/sec/theirs"
LONG = "x" * 300
EVERY = ("put", "submit", "import", "push", "proposal", "save")


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = {"a": value}
    return value


def named_by(ws: Workspace, name: str) -> str:
    node = ws.node(Uri(name))
    assert node is not None
    return str(node.data["file"])


RULES: dict[str, dict[str, Any]] = {
    "a name with a direction character": {"uri": "concept://ws/x", "name": "a\u202eb"},
    "a summary with a control character": {"uri": "concept://ws/x", "summary": "a\x1b[2Jb"},
    "a name of two lines": {"uri": "concept://ws/x", "name": "a\nb"},
    "a long summary": {"uri": "concept://ws/x", "summary": "word " * 40},
    "a secret": {"uri": "concept://ws/x", "content": f"use {KEY}"},
    "a secret in data": {"uri": "concept://ws/x", "data": {"key": KEY}},
    "another secret beside an old one": {"uri": "concept://ws/old", "data": {"key": KEY.replace("ABC", "XYZ")}},
    "deep data": {"uri": "concept://ws/x", "data": deep(30)},
    "very deep data": {"uri": "concept://ws/x", "data": deep(500)},
    "deep data of a relation": {
        "uri": "concept://ws/x",
        "relations": [{"type": "t", "target": "concept://ws/auth", "data": deep(30)}],
    },
    "a reserved key": {"uri": "concept://ws/x", "kgd_trusted": True},
    "a reserved key of a relation": {
        "uri": "concept://ws/x",
        "relations": [{"type": "t", "target": "concept://ws/auth", "others": {"kgd_trusted": True}}],
    },
    "a secret in an unknown key": {"uri": "concept://ws/x", "license": {"of": [KEY]}},
    "deep unknown keys": {"uri": "concept://ws/x", "license": deep(30)},
    "very deep unknown keys": {"uri": "concept://ws/x", "license": deep(500)},
    "very deep unknown keys of a relation": {
        "uri": "concept://ws/x",
        "relations": [{"type": "t", "target": "concept://ws/auth", "others": {"license": deep(500)}}],
    },
    "an unknown key with a direction character": {"uri": "concept://ws/x", "a\u202eb": 1},
    "too large an unknown key": {"uri": "concept://ws/x", "license": "word " * 60_000},
    "too much content": {"uri": "concept://ws/x", "content": "word " * 60_000},
    "a tag with a blank at its end": {"uri": "concept://ws/x", "tags": ["a "]},
    "a weight above one": {
        "uri": "concept://ws/x",
        "relations": [{"type": "t", "target": "concept://ws/auth", "weight": 2}],
    },
    "a key with a direction character": {"uri": "concept://ws/x", "data": {"a\u202eb": 1}},
    "a node of another workspace": {"uri": "concept://other/x"},
    "a node of another workspace, in a file whose name is cut": {"uri": "concept://other/" + "y" * 220},
    "a name that differs by case alone": {"uri": "concept://ws/Auth"},
    "an atom of too much knowledge": {"uri": "atom://ws/x", "content": "k" * 40_000},
    "an atom of too many patterns": {"uri": "atom://ws/x", "data": {"paths": [f"src/{n}/**" for n in range(21)]}},
    "an atom with a pattern too long": {"uri": "atom://ws/x", "data": {"paths": ["p" * 513]}},
    "a molecule of too many relations": {
        "uri": "molecule://ws/x",
        "relations": [{"type": "related_to", "target": f"molecule://ws/{n}"} for n in range(51)],
    },
    "a memory that is not there": {"uri": "decision://ws/pub/new", "data": {"file": "memories/none.md"}},
    "the memory of another node": {"uri": "decision://ws/pub/new", "data": {"file": "?"}},
    "the memory of another node in place of its own": {"uri": "decision://ws/pub/mine", "data": {"file": "?"}},
}


def rule(ws: Workspace, name: str) -> Change:
    values = dict(RULES[name])
    if values.get("data") == {"file": "?"}:
        values["data"] = {"file": named_by(ws, THEIRS)}
    return Change(values)


@pytest.mark.parametrize("name", RULES)
def test_every_way_refuses(ways: Ways, name: str) -> None:
    one = rule(ways.ws, name)
    refused = {way: ask(one) for way, ask in ways.all().items()}
    assert {way for way, refusal in refused.items() if refusal is None} == set(), name
    push = refused["push"]
    assert push is not None
    path = paths.path_of(one.uri)
    assert push.at.startswith(path[:70]), "a refused push names the file and its line"
    if push.code == "VALIDATION_ERROR" and "another" not in name:
        assert refused["put"].code == push.code  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "values",
    [
        {"uri": "concept://ws/x", "name": "A name", "tags": ["t"], "data": {"a": [1, {"b": None}]}},
        {"uri": "concept://ws/old", "content": f"{KEY}, and more"},
        {"uri": "decision://ws/pub/mine", "summary": "Another one"},
        {"uri": "x.y-z+1://host/a", "name": "Outside"},
        {
            "uri": "atom://ws/x",
            "data": {"paths": [f"src/{n}/**" for n in range(20)], "moleculeId": "molecule://ws/y"},
            "relations": [{"type": "related_to", "target": f"atom://ws/{n}"} for n in range(50)],
        },
        {"uri": "concept://ws/x", "data": {"paths": [f"src/{n}/**" for n in range(21)]}},
        {"uri": "concept://ws/x", "license": {"name": "MIT"}, "sumary": "a likely mistake"},
    ],
)
def test_every_way_accepts(ways: Ways, values: dict[str, Any]) -> None:
    if values["uri"] == "decision://ws/pub/mine":
        values = {**values, "data": {"file": named_by(ways.ws, values["uri"])}}
    for way, ask in ways.all().items():
        assert ask(Change(values)) is None, way


def test_a_detail_has_the_same_rules_on_every_way(ways: Ways) -> None:
    for values, detail, is_taken in (
        ({"uri": "decision://ws/new"}, "Why.", True),
        ({"uri": "decision://ws/new"}, f"Log in with {KEY}.", False),
        ({"uri": "concept://ws/new", "type": "concept"}, "Why.", False),
        ({"uri": "decision://ws/new"}, "word " * 60_000, False),
    ):
        one = Change(values, detail)
        assert {way: ask(one) is None for way, ask in ways.all().items()} == dict.fromkeys(EVERY, is_taken), values


@pytest.mark.parametrize("name", [name for name in RULES if "case alone" not in name])
def test_a_node_that_a_sync_brings_against_a_rule_is_kept_and_reported(ways: Ways, name: str) -> None:
    ws, one = ways.ws, rule(ways.ws, name)
    ws.run(adoption.merge(ws, ways.commit(one)), alone=True)
    path = paths.path_of(one.uri)
    assert ws.store.entry(ws.store.tree_of(bytes.fromhex(ws.tip)), path), "history stays"
    assert {path, one.uri} & {finding.where for finding in check(ws)}


def test_names_that_collide_after_a_sync_are_a_conflict(ways: Ways) -> None:
    ws = ways.ws
    ws.run(adoption.merge(ws, ways.commit(Change({"uri": "concept://ws/Auth"}))), alone=True)
    assert [one.uri for one in ws.conflicts.find(uri("Auth"))] == [uri("Auth")]
    later = ways.push(Change({"uri": "concept://ws/x"}))
    assert later is None, "and a reported violation stops no push"


def test_status_and_fsck_name_the_same_files_of_another_workspace(ways: Ways) -> None:
    ws = ways.ws
    cut = "concept://other/" + "y" * 220
    for path, text in (
        ("nodes/concept/far.yaml", "uri: concept://other/far\n"),
        (paths.path_of(Uri(cut)), f"uri: {cut}\n"),
        ("nodes/concept/near.yaml", "uri: concept://ws/elsewhere\n"),
    ):
        commit_file(ws, path, text)
    named = {one.path: one.reason for one in ws.invalid_files()}
    assert len(named) == 3
    assert {one.where: one.message for one in check(ws) if one.where in named} == named


def test_an_entry_of_a_changelog_has_a_node_a_place_and_one_content(ways: Ways) -> None:
    ws = ways.ws
    good = LogEntry("01JD0000000000000000000001", uri("auth"), "", "what was done", "2026-11-20T00:00:00.000Z")
    lost = LogEntry("01JD0000000000000000000002", uri("nobody"), "", "x", "2026-11-20T00:00:00.000Z")
    far = LogEntry("01JD0000000000000000000003", Uri("concept://other/auth"), "", "x", "2026-11-20T00:00:00.000Z")
    there = paths.log_path(good.parent, good.id)

    def pushed(path: str, data: bytes) -> KgdError | None:
        return ways.push_files({path: data})

    assert pushed(there, documents.encode_entry(good)) is None
    assert "does not exist" in str(pushed(paths.log_path(lost.parent, lost.id), documents.encode_entry(lost)))
    assert "at the wrong path" in str(pushed(there.replace("01", "02"), documents.encode_entry(good)))
    assert "at the wrong path" in str(pushed(paths.log_path(far.parent, far.id), documents.encode_entry(far)))
    assert "a changelog entry needs" in str(pushed(there, b"id: x\n"))
    commit_file(ws, there, documents.encode_entry(good).decode())
    again = LogEntry(good.id, good.parent, "", "a change never made", good.created_at)
    assert "cannot be changed" in str(pushed(there, documents.encode_entry(again)))


def test_a_push_keeps_control_characters_of_a_message_and_refuses_its_secrets(ways: Ways) -> None:
    files = Change({"uri": "concept://ws/x"}).files(ways.ws)
    assert ways.push_files(files, "by\x1b[2J hand") is None, "every view escapes them"
    assert "its message" in str(ways.push_files(files, f"with {KEY}"))


def test_a_part_holds_no_node_that_names_a_memory(ways: Ways) -> None:
    node, memory = Uri("message://ws/talk/1"), "memories/2026-11-20-talk.md"
    part = f"nodes:\n- uri: {node}\n  type: insight\n  data:\n    file: {memory}\n"
    path = f"{part_folder_of(node)}/0001.yaml"
    refused = ways.push_files({path: part.encode(), memory: f"---\nid: {node}\n---\nx\n".encode()})
    assert "must have a separate file" in str(refused)


@pytest.mark.parametrize("levels", [16, 500, 990, 5_000])
def test_deep_data_is_never_an_internal_error(ws: Workspace, levels: int) -> None:
    for edit in (
        upsert("x", data=deep(levels)),
        upsert("x", others={"license": deep(levels)}),
        upsert("x", source=Source("url", "x", {"license": deep(levels)})),
        upsert("x", Relation("t", uri("y"), others={"license": deep(levels)})),
        upsert("x", to("y", deep=deep(levels))),
        Relate(uri("x"), to("y", deep=deep(levels))),
    ):
        with pytest.raises(Limit, match="nested"):
            ws.submit(change(edit))


def test_a_memory_that_moved_with_its_node_is_pushed(ways: Ways) -> None:
    ws = ways.ws
    before = bytes.fromhex(ws.tip)
    ws.submit(change(Move(Uri("decision://ws/pub/mine"), Uri("decision://ws/pub/ours"))))
    update = RefUpdate(ws.layout.branch, before, bytes.fromhex(ws.tip))
    check_push(Pushed(ws.store, None, ws.settings, ws.layout.branch), [update])
    assert [one.where for one in check(ws)] == [paths.path_of(uri("old"))], "the secret that always was there"
