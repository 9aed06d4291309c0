"""Areas are created, changed and deleted in one commit each; invalid input is refused before any write."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from kgd.errors import Invalid, InvariantViolation, KgdError, Limit, NotFound, Stale
from kgd.model.node import Node
from kgd.model.uri import Uri
from kgd.tools.session import Session
from kgd.workspace.workspace import Workspace
from tests.areas.conftest import Ask

TASK = "https://tracker.example/T-1"


def atom(ask: Ask, name: str, **fields: Any) -> dict[str, Any]:
    given = {"paths": '["src/**"]', "createdByTaskId": TASK, **fields}
    return dict(ask.manage_graph(operation="create", entityType="atom", name=name, **given)["data"]["atom"])


def molecule(ask: Ask, name: str, **fields: Any) -> dict[str, Any]:
    given = {"createdByTaskId": TASK, **fields}
    return dict(ask.manage_graph(operation="create", entityType="molecule", name=name, **given)["data"]["molecule"])


def atoms(ask: Ask, count: int, **data: Any) -> list[str]:
    """Many at once, written as nodes; their URIs."""
    known = {"paths": ["src/**"], **data}
    made = ask.put(
        changes=[{"op": "upsert", "type": "atom", "name": f"Atom {n:02}", "data": known} for n in range(count)]
    )
    return list(made["created"])


def got(ask: Ask, kind: str, id: str) -> dict[str, Any]:
    return dict(ask.query_graph(operation="get", entityType=kind, id=id)["data"][kind])


def related(*ids: str, kind: str = "atom") -> str:
    return json.dumps([{f"{kind}Id": id, "reason": f"because {n}"} for n, id in enumerate(ids)])


GOOD = {"operation": "create", "entityType": "atom", "name": "New", "paths": '["a/**"]', "createdByTaskId": TASK}
UPDATE = {"operation": "update", "id": "There", "version": 1, "lastTaskId": TASK}
BAD: list[tuple[type[KgdError], str, dict[str, Any]]] = [
    # paths
    (Invalid, "paths", {"paths": None}),
    (InvariantViolation, "paths", {"paths": "[]"}),
    (InvariantViolation, "paths", {"paths": []}),
    (Invalid, "paths", {"paths": '["a/**"'}),
    (Invalid, "paths", {"paths": "src/**"}),
    (Invalid, "paths", {"paths": '{"a": 1}'}),
    (Invalid, "paths", {"paths": 7}),
    (Invalid, "paths[1]", {"paths": '["a", 7]'}),
    (Invalid, "paths[0]", {"paths": '["/etc/**"]'}),
    (Invalid, "paths[0]", {"paths": '["C:/x"]'}),
    (Invalid, "paths[1]", {"paths": '["a", "src/../../etc"]'}),
    (Invalid, "paths[0]", {"paths": '[" "]'}),
    (Invalid, "paths[0]", {"paths": json.dumps(["a" * 513])}),
    (Invalid, "paths[0]", {"paths": '["src/[a-"]'}),
    (Invalid, "paths", {"paths": json.dumps([f"a{n}" for n in range(21)])}),
    # texts
    (Invalid, "name", {"name": None}),
    (Invalid, "name", {"name": "  \n"}),
    (Invalid, "name", {"name": "n" * 256}),
    (Invalid, "name", {"name": "two\nlines"}),
    (Invalid, "knowledge", {"knowledge": "k" * (32 * 1024 + 1)}),
    (Invalid, "knowledge", {"knowledge": "é" * (16 * 1024 + 1)}),
    (Invalid, "knowledge", {"knowledge": "k" * 2_000_000}),
    # relations
    (Invalid, "relatedAtoms", {"relatedAtoms": "nonsense"}),
    (Invalid, "relatedAtoms[0]", {"relatedAtoms": '["x"]'}),
    (Invalid, "relatedAtoms[0]", {"relatedAtoms": '[{"atomId": "atom://shop/There", "why": "x"}]'}),
    (Invalid, "relatedAtoms", {"relatedAtoms": related(*["x"] * 51)}),
    (Invalid, "relatedAtoms[1]", {"relatedAtoms": related("There", "atom://shop/There")}),
    (Invalid, "relatedAtoms[0].atomId", {"relatedAtoms": related("molecule://shop/Domain")}),
    (NotFound, "relatedAtoms[0].atomId", {"relatedAtoms": related("nobody")}),
    (Invalid, "relatedMolecules", {"relatedMolecules": "[]"}),
    # ids
    (NotFound, "moleculeId", {"moleculeId": "nothing"}),
    (Invalid, "moleculeId", {"moleculeId": "atom://shop/There"}),
    (InvariantViolation, "moleculeId", {"moleculeId": "molecule://other/Domain"}),
    (Invalid, "createdByTaskId", {"createdByTaskId": None}),
    (Invalid, "createdByTaskId", {"createdByTaskId": " "}),
    (NotFound, "createdByTaskId", {"createdByTaskId": "task://shop/nothing"}),
    (NotFound, "createdByTaskId", {"createdByTaskId": "nothing"}),
    (NotFound, "createdByTaskId", {"createdByTaskId": "task://other/t-1"}),
    (Invalid, "createdByTaskId", {"createdByTaskId": "atom://shop/There"}),
    (Invalid, "createdByTaskId", {"createdByTaskId": "https:// "}),
    (NotFound, "workspace", {"projectId": "other"}),
    (Invalid, "projectId", {"projectId": "other", "workspace": "shop"}),
    # what means nothing here
    (Invalid, "cascade", {"cascade": True}),
    (Invalid, "version", {"version": 1}),
    (Invalid, "id", {"id": "There"}),
    (Invalid, "nonsense", {"nonsense": 1}),
    (Invalid, "lastTaskId", {"lastTaskId": "https://tracker.example/T-2"}),
    (Invalid, "entityType", {"entityType": "quark"}),
    # update and delete
    (Invalid, "version", {"operation": "update", "id": "There", "lastTaskId": TASK}),
    (Invalid, "lastTaskId", {"operation": "update", "id": "There", "version": 1}),
    (Invalid, "id", {"operation": "update", "version": 1, "lastTaskId": TASK}),
    (NotFound, "id", {"operation": "update", "id": "nobody", "version": 1, "lastTaskId": TASK}),
    (NotFound, "id", {"operation": "update", "id": "atom://shop/nobody", "version": 1, "lastTaskId": TASK}),
    (Invalid, "id", {"operation": "update", "id": "molecule://shop/Domain", "version": 1, "lastTaskId": TASK}),
    (Stale, "atom://shop/There", {"operation": "update", "id": "There", "version": 2, "lastTaskId": TASK}),
    (InvariantViolation, "paths", {**UPDATE, "paths": "[]"}),
    (InvariantViolation, "moleculeId", {**UPDATE, "moleculeId": "molecule://other/x"}),
    (Invalid, "createdByTaskId", {**UPDATE, "createdByTaskId": TASK}),
    (Invalid, "knowledge", {**UPDATE, "knowledgeMode": "append"}),
    (Invalid, "knowledge", {**UPDATE, "knowledgeMode": "append", "knowledge": " "}),
    (Invalid, "knowledge", {**UPDATE, "knowledgeMode": "append", "knowledge": "k" * 32 * 1024}),
    (Invalid, "version", {"operation": "delete", "id": "There"}),
    (Stale, "atom://shop/There", {"operation": "delete", "id": "There", "version": 9}),
    (Invalid, "cascade", {"operation": "delete", "id": "There", "version": 1, "cascade": True}),
]


@pytest.mark.requirement("A13")
@pytest.mark.requirement("A12")
@pytest.mark.requirement("A17")
@pytest.mark.requirement("A7")
@pytest.mark.requirement("A9")
def test_invalid_input_is_refused_with_its_place_and_nothing_is_written(ask: Ask, ws: Workspace) -> None:
    atom(ask, "There", knowledge="known")
    molecule(ask, "Domain")
    tip = ws.tip
    for kind, at, fields in BAD:
        given = {**(GOOD if "operation" not in fields else {"entityType": "atom"}), **fields}
        with pytest.raises(KgdError) as refused:
            ask.manage_graph(**given)
        assert (type(refused.value), refused.value.at) == (kind, at), given
        assert len(str(refused.value)) <= 512
    assert ws.tip == tip


@pytest.mark.requirement("A13")
def test_thousands_of_wrong_fields_are_refused_by_the_first_ten(ask: Ask) -> None:
    with pytest.raises(Invalid) as refused:
        ask.manage_graph(**{f"x{number}": 1 for number in range(5_000)})
    assert "'x9'" in str(refused.value)
    assert "'x10'" not in str(refused.value)


@pytest.mark.slow
@pytest.mark.requirement("A13")
def test_input_at_the_limits_is_accepted(ask: Ask) -> None:
    others = atoms(ask, 50)
    made = atom(
        ask,
        "ü" * 255,
        knowledge=f"\n {'k' * 32 * 1024} \n",
        relatedAtoms=related(*others),
        paths=json.dumps([f"{'p' * 508}/{n}" for n in range(10, 20)] + [f"./a{n}/" for n in range(10)]),
    )
    assert made["name"] == "ü" * 255
    assert made["knowledge"] == "k" * 32 * 1024
    assert made["paths"][-1] == "a9/**"
    assert [one["atomId"] for one in made["relatedAtoms"]] == others
    assert got(ask, "atom", made["id"])["version"] == 1
    again = atom(ask, "ü" * 255)
    assert again["id"] != made["id"]


@pytest.mark.requirement("A7")
@pytest.mark.requirement("A9")
def test_an_update_changes_only_its_fields_and_adds_one_version(ask: Ask, ws: Workspace) -> None:
    domain, other = molecule(ask, "Domain")["id"], molecule(ask, "Other")["id"]
    a, b, c = (atom(ask, name)["id"] for name in "abc")
    made = atom(ask, "Bus", knowledge="old", moleculeId=domain, relatedAtoms=related(a, b))
    before = ws.tip

    def update(version: int, **fields: Any) -> dict[str, Any]:
        given = {"operation": "update", "entityType": "atom", "id": made["id"], "version": version, **fields}
        return dict(ask.manage_graph(**{"lastTaskId": "https://tracker.example/T-2", **given})["data"]["atom"])

    renamed = update(1, name="Event Bus")
    assert renamed == {
        **made,
        "name": "Event Bus",
        "lastTaskId": "https://tracker.example/T-2",
        "version": 2,
        "updatedAt": renamed["updatedAt"],
    }
    rewired = update(2, relatedAtoms=related(c, a), paths='["bus/**"]', moleculeId=other)
    assert [(one["atomId"], one["reason"]) for one in rewired["relatedAtoms"]] == [(c, "because 0"), (a, "because 1")]
    assert (rewired["paths"], rewired["moleculeId"], rewired["version"]) == (["bus/**"], other, 3)
    assert rewired["createdByTaskId"] == TASK
    alone = update(3, moleculeId=None, relatedAtoms=[])
    assert (alone["moleculeId"], alone["relatedAtoms"], alone["knowledge"]) == (None, [], "old")
    with pytest.raises(Stale) as stale:
        update(3, name="Too late")
    assert stale.value.current == 4
    same = {
        "operation": "update",
        "entityType": "atom",
        "id": made["id"],
        "version": 4,
        "lastTaskId": alone["lastTaskId"],
    }
    untouched = ask.manage_graph(**same)["data"]
    assert (untouched["atom"], "nothing changed" in untouched["warnings"][0]) == (alone, True)
    commits = ws.history.entries(limit=10)
    assert [entry.commit for entry in commits].index(before) == 3  # one commit each, the refused one none
    assert commits[0].subject == "update atom Event Bus"


@pytest.mark.slow
@pytest.mark.requirement("A10")
def test_a_deleted_molecule_leaves_its_atoms_or_takes_them_along_in_one_commit(ask: Ask, ws: Workspace) -> None:
    domain = molecule(ask, "Domain")["id"]
    atoms(ask, 40, moleculeId=domain)
    ask.manage_changelog(operation="append", parentType="molecule", parentId=domain, taskId=TASK, summary="s")
    ask.manage_changelog(operation="append", parentType="atom", parentId="Atom 00", taskId=TASK, summary="s")
    before = len(ws.history.entries(limit=200))
    answer = ask.manage_graph(
        operation="delete", entityType="molecule", id=domain, version=1, lastTaskId="https://tracker.example/T-9"
    )["data"]
    assert answer["molecule"] == {"id": domain, "name": "Domain", "deleted": True}
    assert len(answer["orphanedAtoms"]) == 40
    assert len(ws.history.entries(limit=200)) == before + 1
    orphan = got(ask, "atom", "Atom 00")
    assert (orphan["moleculeId"], orphan["lastTaskId"], orphan["version"]) == (None, "https://tracker.example/T-9", 2)
    assert len(orphan["changelog"]) == 1
    assert not [path for path in log_files(ws) if "molecule" in path]
    found = ask.query_graph(operation="search", entityType="atom", orphansOnly=True)["data"]
    assert found["total"] == 40

    again = molecule(ask, "Domain")["id"]
    assert again == "molecule://shop/Domain-2"  # a URI that was used is not used again
    for number in range(3):
        ask.manage_graph(
            operation="update", entityType="atom", id=f"Atom {number:02}", version=2, lastTaskId=TASK, moleculeId=again
        )
    gone = ask.manage_graph(operation="delete", entityType="molecule", id=again, version=1, cascade=True)["data"]
    assert gone["deletedAtoms"] == [f"atom://shop/Atom%20{n:02}" for n in range(3)]
    assert log_files(ws) == []
    assert ask.query_graph(operation="search", entityType="atom")["data"]["total"] == 37
    assert ask.query_graph(operation="search", entityType="molecule")["data"]["total"] == 0


def log_files(ws: Workspace) -> list[str]:
    tree = ws.store.tree_of(bytes.fromhex(ws.tip))
    return [path for path, _, _ in ws.store.files(tree) if path.startswith("log/")]


def test_areas_of_one_name_get_distinct_unused_uris(ask: Ask) -> None:
    first, second = atom(ask, "Retry"), atom(ask, "Retry")
    assert (first["id"], second["id"], atom(ask, "RETRY")["id"]) == (
        "atom://shop/Retry",
        "atom://shop/Retry-2",
        "atom://shop/RETRY-3",
    )
    ask.manage_graph(operation="delete", entityType="atom", id=second["id"], version=1)
    assert atom(ask, "Retry")["id"] == "atom://shop/Retry-4"
    slashed = atom(ask, "API / Auth: 50%?")
    assert got(ask, "atom", "API / Auth: 50%?")["id"] == slashed["id"]
    assert got(ask, "atom", slashed["id"]) == {**slashed, "changelog": []}
    assert atom(ask, "..")["name"] == ".."
    ask.put(changes=[{"op": "move", "uri": first["id"], "to": "atom://shop/net/retry"}])
    assert got(ask, "atom", first["id"])["id"] == got(ask, "atom", "net/retry")["id"] == "atom://shop/net/retry"


@pytest.mark.requirement("A7")
def test_a_task_is_a_node_or_an_address_and_may_be_deleted_later(ask: Ask, ws: Workspace) -> None:
    ask.put(changes=[{"op": "upsert", "type": "task", "name": "Fix it"}])
    by = [
        atom(ask, "A", createdByTaskId=text)["createdByTaskId"]
        for text in ("task://shop/Fix%20it", "task:Fix it", " Fix it ", f"{TASK}?id=1", TASK)
    ]
    assert by == ["task://shop/Fix%20it"] * 3 + [f"{TASK}?id=1", TASK]
    assert f"{TASK}?id=1" in ws.graph
    ask.put(changes=[{"op": "delete", "uri": "task://shop/Fix%20it"}, {"op": "delete", "uri": TASK}])
    kept = got(ask, "atom", "A")
    assert kept["createdByTaskId"] == "task://shop/Fix%20it"
    changed = ask.manage_graph(operation="update", entityType="atom", id="A", version=1, lastTaskId=TASK, name="B")
    assert changed["data"]["atom"]["lastTaskId"] == TASK
    assert TASK in ws.graph


def test_an_area_without_path_patterns_is_stored_with_a_warning(ask: Ask) -> None:
    for fields in ({"name": "bare"}, {"name": "empty", "data": {"paths": []}}):
        answer = ask.put(changes=[{"op": "upsert", "type": "atom", **fields}])
        assert "covers no file, because it has no path patterns" in answer["warnings"][0]
    paths = {"op": "upsert", "uri": "atom:bare", "data": {"paths": ["src/**"]}}
    rename = {"op": "upsert", "uri": "atom:bare", "summary": "Rules"}
    assert [ask.put(changes=[change])["warnings"] for change in (paths, rename)] == [[], []]


def test_an_area_is_a_node_like_any_other(ask: Ask) -> None:
    domain = molecule(ask, "Domain")["id"]
    answer = ask.put(
        changes=[
            {
                "op": "upsert",
                "type": "atom",
                "name": "By hand",
                "content": "Known.\n",
                "data": {"paths": ["src/auth/**", "", 7, "/no"], "moleculeId": domain},
                "relations": [{"type": "related_to", "target": "atom://shop/gone"}],
            },
        ]
    )
    told = [text for text in answer["warnings"] if "matches nothing" in text]
    assert len(told) == 3
    found = ask.query_graph(operation="context", paths="./src/auth/session.py")["data"]
    (atom_found,) = found["molecules"][0]["atoms"]
    assert (atom_found["name"], atom_found["knowledge"]) == ("By hand", "Known.\n")
    assert atom_found["relatedAtoms"] == [{"atomId": "atom://shop/gone", "name": "gone", "reason": ""}]
    shown = got(ask, "atom", "By hand")
    assert (shown["createdByTaskId"], shown["lastTaskId"], shown["paths"]) == ("", "", ["src/auth/**", "", 7, "/no"])
    (node,) = ask.get(uris=["atom:By hand"])["nodes"]
    assert node["version"] == shown["version"] == 1


@pytest.mark.requirement("A11")
def test_a_bad_entry_is_refused(ask: Ask, ws: Workspace) -> None:
    atom(ask, "Bus")
    molecule(ask, "Domain")
    good = {"operation": "append", "parentType": "atom", "parentId": "Bus", "taskId": TASK, "summary": "why"}
    cases: list[tuple[type[KgdError], str, dict[str, Any]]] = [
        (Invalid, "summary", {"summary": " \n "}),
        (Invalid, "summary", {"summary": None}),
        (Invalid, "summary", {"summary": "s" * 4097}),
        (Invalid, "taskId", {"taskId": None}),
        (NotFound, "taskId", {"taskId": "nothing"}),
        (NotFound, "parentId", {"parentId": "nobody"}),
        (Invalid, "parentId", {"parentId": "molecule://shop/Domain"}),
        (NotFound, "parentId", {"parentId": "Domain"}),
        (Invalid, "limit", {"limit": 3}),
        (Invalid, "limit", {"operation": "search", "limit": 0}),
        (Invalid, "offset", {"operation": "search", "offset": -1}),
        (Invalid, "summary", {"operation": "search", "taskId": None}),
    ]
    tip = ws.tip
    for kind, at, fields in cases:
        with pytest.raises(KgdError) as refused:
            ask.manage_changelog(**{**good, **fields})
        assert (type(refused.value), refused.value.at) == (kind, at), fields
    assert ws.tip == tip
    most = ask.manage_changelog(**{**good, "summary": "s" * 4096})["data"]["entry"]
    assert len(most["summary"]) == 4096


@pytest.mark.requirement("A5")
def test_a_question_that_makes_no_sense_is_refused(ask: Ask) -> None:
    molecule(ask, "Domain")
    cases: list[tuple[type[KgdError], str, dict[str, Any]]] = [
        (Invalid, "id", {"operation": "get", "entityType": "atom"}),
        (Invalid, "entityType", {"operation": "get", "id": "x"}),
        (Invalid, "entityType", {"operation": "search"}),
        (Invalid, "paths", {"operation": "context"}),
        (Invalid, "paths", {"operation": "context", "paths": " , ,"}),
        (Invalid, "paths", {"operation": "context", "paths": [1]}),
        (Invalid, "paths", {"operation": "search", "entityType": "atom", "paths": "a.py"}),
        (Invalid, "moleculeId", {"operation": "search", "entityType": "molecule", "moleculeId": "Domain"}),
        (Invalid, "orphansOnly", {"operation": "search", "entityType": "atom", "moleculeId": "D", "orphansOnly": True}),
        (NotFound, "moleculeId", {"operation": "search", "entityType": "atom", "moleculeId": "nothing"}),
        (Invalid, "query", {"operation": "search", "entityType": "atom", "query": "q" * 2001}),
        (Invalid, "limit", {"operation": "search", "entityType": "atom", "limit": 0}),
        (Invalid, "changelogLimit", {"operation": "context", "paths": "a", "changelogLimit": -1}),
        (NotFound, "id", {"operation": "get", "entityType": "atom", "id": "Domain"}),
        (Invalid, "id", {"operation": "get", "entityType": "atom", "id": "atom://other/x", "projectId": "shop"}),
    ]
    for kind, at, fields in cases:
        with pytest.raises(KgdError) as refused:
            ask.query_graph(**fields)
        assert (type(refused.value), refused.value.at) == (kind, at), fields


@pytest.mark.slow
def test_an_answer_too_large_for_clients_is_refused(
    ask: Ask, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask.put(changes=[{"op": "upsert", "uri": "molecule://shop/All"}])
    data = {"paths": ["a"], "moleculeId": "molecule://shop/All"}
    for first in (0, 200):
        ask.put(
            changes=[
                {"op": "upsert", "type": "atom", "name": f"Big {n}", "content": "k" * 32_000, "data": data}
                for n in range(first, first + 200)
            ]
        )
    ask.query_graph(operation="context", paths="elsewhere")  # reads every area once
    read = areas_read(monkeypatch)
    for question in (
        {"operation": "context", "paths": "a"},
        {"operation": "get", "entityType": "molecule", "id": "All"},
    ):
        read.clear()
        with pytest.raises(Limit, match="the limit is 8 MB"):
            ask.query_graph(**question)
        assert 240 < len(set(read)) < 300  # 8 MB of 32 KB each, and not all 400


@pytest.mark.slow
def test_a_search_for_areas_with_long_reasons_is_refused_by_its_size(
    ask: Ask, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    related = [{"type": "related_to", "target": f"atom://shop/{n}", "data": {"reason": "r" * 4_000}} for n in range(50)]
    for first in (0, 27):
        ask.put(
            changes=[
                {"op": "upsert", "type": "atom", "name": f"Big {n}", "content": "k" * 32_000, "relations": related}
                for n in range(first, first + 27)
            ]
        )
    ask.query_graph(operation="context", paths="elsewhere")  # reads every area once
    read = areas_read(monkeypatch)
    with pytest.raises(Limit, match="the limit is 8 MB"):
        ask.query_graph(operation="search", entityType="atom", limit=100)
    assert 30 < len(set(read)) < 45  # 8 MB of 230 KB each, and not all 54


def areas_read(monkeypatch: pytest.MonkeyPatch) -> list[Uri]:
    """The nodes that this thread reads from now on."""
    asker, read, whole = threading.get_ident(), list[Uri](), Workspace.node

    def node(workspace: Workspace, uri: Uri, as_of: str | None = None) -> Node | None:
        if threading.get_ident() == asker:  # the index and the work tree are brought up to date meanwhile
            read.append(uri)
        return whole(workspace, uri, as_of)

    monkeypatch.setattr(Workspace, "node", node)
    return read


@pytest.mark.slow
@pytest.mark.parametrize("half", ["\ud800", "a\udc80b"])
def test_a_lone_surrogate_is_refused_in_any_field(ask: Ask, half: str) -> None:
    atom(ask, "Auth")
    made = {"operation": "create", "entityType": "atom", "name": "N", "paths": ["a"], "createdByTaskId": TASK}
    for key in ("name", "knowledge", "moleculeId", "createdByTaskId"):
        with pytest.raises(KgdError):
            ask.manage_graph(**{**made, key: half})
    wrongs: tuple[dict[str, Any], ...] = ({"paths": [half]}, {"relatedAtoms": [{"atomId": half, "reason": ""}]})
    for wrong in wrongs:
        with pytest.raises(Invalid):
            ask.manage_graph(**{**made, **wrong})
    with pytest.raises(Invalid):
        ask.query_graph(operation="get", entityType="atom", id=half)
    with pytest.raises(Invalid):
        ask.query_graph(operation="context", paths=[half])
    with pytest.raises(Invalid):
        ask.manage_changelog(operation="search", parentType="atom", parentId=half)


def test_paths_are_asked_for_in_any_spelling_and_answered_as_they_were_asked(ask: Ask, session: Session) -> None:
    atom(ask, "Auth", paths='["src/auth/*"]')
    root = session.cwd
    asked = [f"{root}/src/auth/keys.py", "./src/auth/keys.py", "src\\auth\\keys.py", "file://shop/src/auth/keys.py"]
    outside = ["/etc/passwd", "../elsewhere.py", "https://example.org/src/auth/keys.py"]
    for given in (",".join(asked + outside), asked + outside, json.dumps(asked + outside)):
        found = ask.query_graph(operation="context", paths=given)["data"]
        assert found["orphanAtoms"][0]["matchedPaths"] == asked
        assert found["unmatchedPaths"] == outside
    twice = ask.query_graph(operation="context", paths="b.py, a.py, b.py")["data"]
    assert twice == {"molecules": [], "orphanAtoms": [], "unmatchedPaths": ["b.py", "a.py"]}


@pytest.mark.slow
@pytest.mark.requirement("A7")
def test_many_who_make_an_area_of_one_name_at_once_get_one_each(ask: Ask, session: Session) -> None:
    def make(number: int) -> dict[str, Any]:
        return atom(Ask(replace(session)), "Retry", knowledge=str(number))

    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(make, range(8)))
    assert len({one["id"] for one in made}) == 8
    assert {one["version"] for one in made} == {1}
    assert [one["knowledge"] for one in made] == [str(number) for number in range(8)]


def test_an_area_that_put_writes_has_the_bounds_of_manage_graph(ask: Ask) -> None:
    known = "x" * 40_000
    with pytest.raises(Limit, match="32 KiB"):
        ask.put(changes={"op": "upsert", "type": "atom", "name": "Long", "content": known})
    assert ask.put(changes={"op": "upsert", "type": "insight", "name": "Long", "content": known})["commit"]


def test_put_and_submissions_take_an_atom_only_into_a_molecule_of_the_project(ask: Ask, ws: Workspace) -> None:
    def atom_in(molecule: Any, name: str = "Bus") -> dict[str, Any]:
        return {"op": "upsert", "type": "atom", "name": name, "data": {"paths": ["a"], "moleculeId": molecule}}

    tip = ws.tip
    refused = {
        "Domain": Invalid,
        7: Invalid,
        "molecule://shop/nobody": NotFound,
        "molecule://far/x": InvariantViolation,
    }
    for molecule, error in refused.items():
        for way in (ask.put, ask.submit_subgraph, ask.would_submit):
            with pytest.raises(error):
                way(changes=[atom_in(molecule)])
    assert ws.tip == tip
    made = {"op": "upsert", "type": "molecule", "name": "Domain"}
    ask.put(changes=[atom_in("molecule://shop/Domain"), made], request_id="r1")
    ask.put(changes={"op": "move", "uri": "molecule:Domain", "to": "molecule:Realm"})
    ask.put(changes=atom_in("molecule://shop/Domain", "Mail"))
    assert got(ask, "atom", "Mail")["moleculeId"] == "molecule://shop/Realm"
    ask.put(changes={"op": "delete", "uri": "molecule:Realm"})
    assert ask.put(changes=atom_in("molecule://shop/Domain"))["warnings"], "it is in no other one than before"
    assert ask.put(changes=[atom_in("molecule://shop/Domain"), made], request_id="r1")["repeated"]


def test_paths_of_a_context_are_one_a_line_too(ask: Ask) -> None:
    atom(ask, "Bus")
    by_comma = ask.query_graph(operation="context", paths="src/auth/session.py,src/checkout.py")["data"]
    assert ask.query_graph(operation="context", paths="src/auth/session.py\nsrc/checkout.py\n")["data"] == by_comma
