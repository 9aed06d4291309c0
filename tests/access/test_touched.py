"""The nodes that a change of files is about, under any file names and attempts to hide them."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from kgd.codec import bulk, documents, paths
from kgd.errors import Forbidden
from kgd.git.objects import make
from kgd.git.staging import Staging, Unwritten
from kgd.model.access import Policy, Verb
from kgd.model.conflict import PLACE, TWIN, WHOLE, Conflict, FieldConflict, canonical_json
from kgd.model.node import Json, Node
from kgd.model.uri import Uri, parse
from kgd.workspace.merging.files import record_files, variant_of
from kgd.workspace.workspace import Workspace
from kgd.workspace.writing import touched_nodes
from kgd.workspace.writing.touched_nodes import Touched, authorize_all
from tests.access.conftest import holder
from tests.builders import change, commit_file, upsert, uri

NONE = frozenset[str]()
LONG = "x" * 220


def of(ws: Workspace, files: Mapping[str, str | None], before: Mapping[str, str | None] | None = None) -> Touched:
    """The nodes touched by writing these files onto a tree with the files of `before`."""
    staging = Staging(ws.store, ws.store.tree_of(bytes.fromhex(ws.tip)))
    for given in (before or {}, files):
        if given is files:
            old = staging.write_tree()
        for path, text in given.items():
            if text is None:
                staging.remove(path)
            else:
                staging.put(path, text.encode())
    new = staging.write_tree()
    return touched_nodes.between(Unwritten(ws.store, staging.objects), old, new, ws.id, ws.sharded)


def node(name: str, **fields: object) -> str:
    return documents.encode(Node(uri(name), **fields)).decode()  # type: ignore[arg-type]


def test_a_node_s_file_is_about_the_node(ws: Workspace) -> None:
    found = of(ws, {"nodes/concept/infra/a.yaml": node("infra/a")})
    assert found == Touched(frozenset({uri("infra/a")}))


def test_a_file_that_cannot_be_read_is_about_the_node_of_its_path(ws: Workspace) -> None:
    for text in ("uri: concept://ws/other/b\n", "{[", ""):
        assert uri("infra/a") in of(ws, {"nodes/concept/infra/a.yaml": text}).uris


def test_a_shortened_path_takes_its_name_from_the_file_only_if_the_two_agree(ws: Workspace) -> None:
    long = uri(f"infra/{LONG}")
    path = paths.path_of(long)
    assert of(ws, {path: node(long)}) == Touched(frozenset({long}))
    assert of(ws, {path: None}, {path: node(long)}) == Touched(frozenset({long}))
    for lie in (node("infra/a"), "uri: [", node(long).replace(LONG, LONG[1:] + "y")):
        assert of(ws, {path: lie}).settings == {path}


def test_a_move_touches_both_ends_and_an_alias_the_name_that_it_takes(ws: Workspace) -> None:
    ws.submit(change(upsert("infra/a", name="A")))
    a, b = "nodes/concept/infra/a.yaml", "nodes/concept/db/b.yaml"
    assert of(ws, {a: None, b: node("db/b", aliases=(uri("infra/a"),))}).uris == {uri("infra/a"), uri("db/b")}
    grabs = of(ws, {b: node("db/b", aliases=(uri("secret/x"),))})
    assert grabs.uris == {uri("db/b"), uri("secret/x")}
    with pytest.raises(Forbidden, match="secret/x"):
        authorize_all(holder("write", "/db/**"), Policy("ws"), Verb.WRITE, grabs)


@pytest.mark.parametrize(
    "name",
    [
        "infra/a",
        "infra/a.yaml",
        "dir://ws/_",
        "dir://ws/%5F",
        "entity://ws/Auth%20Service",
        "https://example.com/a/b",
        "https://example.com/a?q=1",
        f"infra/{LONG}",
        "file://ws/.github/x.yaml",
    ],
)
def test_a_conflict_s_record_is_about_the_node_in_conflict(ws: Workspace, name: str) -> None:
    subject = parse(name) if ":" in name else uri(name)
    conflict = Conflict(subject, {"name": FieldConflict("a", ("b", "c"))}, {"name": 0})
    path = paths.conflict_path(subject, conflict.digest)
    text = documents.encode_conflict(conflict).decode()
    assert of(ws, {path: text}) == Touched(frozenset({subject}))
    assert of(ws, {path: None}, {path: text}) == Touched(frozenset({subject}))


def test_a_conflict_s_record_cannot_speak_for_another_node(ws: Workspace) -> None:
    long = uri(f"infra/{LONG}")
    conflict = Conflict(long, {"name": FieldConflict("a", ("b", "c"))}, {"name": 0})
    path = paths.conflict_path(uri(f"secret/{LONG}"), conflict.digest)
    found = of(ws, {path: documents.encode_conflict(conflict).decode()})
    assert not found.uris
    assert found.settings == {path}


def test_a_changelog_entry_is_about_its_parent(ws: Workspace) -> None:
    path = paths.log_path(Uri("atom://ws/infra/page"), "01J00000000000000000000000")
    assert of(ws, {path: "id: x\n"}) == Touched(frozenset({Uri("atom://ws/infra/page")}))
    wrong = path.replace("/page/", "/other/")
    assert of(ws, {wrong: "id: x\n"}).settings == {wrong}


def test_a_side_that_a_merge_kept_beside_a_file_is_about_the_same_node(ws: Workspace) -> None:
    large, deep = "x" * 1_200_000, uri("infra/deep/a")
    conflict = Conflict(deep, {"content": FieldConflict(None, (large, large[1:]))}, {"content": 0})
    written = record_files([conflict], ws.sharded)
    assert len(written) == 3, "the record names two files that hold the sides"
    assert of(ws, {path: data.decode() for path, data in written.items()}) == Touched(frozenset({deep}))
    node_file, log_file = paths.path_of(deep), paths.log_path(Uri("atom://ws/infra/page"), "01J00000000000000000000000")
    assert of(ws, {variant_of(node_file, b"uri: ["): "uri: ["}).uris == {deep}
    assert of(ws, {variant_of(log_file, b"x"): "x"}).uris == {Uri("atom://ws/infra/page")}
    for lost in (
        "kept/unreadable-0a1b2c3d.txt",
        "kept/nodes/concept/a.yaml",
        "kept/concept/infra/a.txt",
        "kept/kept/nodes/concept/a.variant-0a1b2c3d.yaml",
        "kept/kgd-0a1b2c3d.txt",
    ):
        assert of(ws, {lost: "x"}).settings == {lost}


def record(subject: Uri, name: str, *sides: Json, at: Uri | None = None) -> dict[str, str | None]:
    """A conflict record about one node; with `at`, in the folder of another node."""
    conflict = Conflict(subject, {name: FieldConflict(None, tuple(sorted(sides, key=canonical_json)))}, {name: 0})
    ((path, data),) = record_files([conflict], NONE).items()
    if at is not None:
        path = paths.conflict_path(at, conflict.digest)
    return {path: data.decode()}


def test_a_conflict_record_is_about_the_node_of_its_folder_and_the_node_it_names(ws: Workspace) -> None:
    mine, other = uri("infra/a"), uri("app/checkout")
    assert of(ws, record(mine, "summary", "x", "y")) == Touched(frozenset({mine}))
    planted = record(other, "summary", "x", "y", at=mine)
    assert of(ws, planted).uris == {mine, other}
    assert of(ws, dict.fromkeys(planted), planted).uris == {mine, other}
    elsewhere = Uri("concept://elsewhere/infra/a")
    assert of(ws, record(elsewhere, "summary", "x", "y")).uris == {mine, elsewhere}


@pytest.mark.parametrize(
    ("name", "sides"),
    [
        (PLACE, ["concept://ws/app/checkout", "concept://ws/infra/b"]),
        (TWIN, ["concept://ws/app/checkout", "concept://ws/infra/a"]),
        (WHOLE, [None, {"uri": "concept://ws/infra/a", "aliases": ["concept://ws/app/checkout"]}]),
    ],
)
def test_a_record_that_would_give_a_node_another_name_is_about_that_name_too(
    ws: Workspace, name: str, sides: list[Json]
) -> None:
    assert uri("app/checkout") in of(ws, record(uri("infra/a"), name, *sides)).uris


def test_a_record_about_a_memory_or_the_settings_needs_the_right_to_write_them(ws: Workspace) -> None:
    named = {
        "nodes/concept/app/checkout.yaml": node("app/checkout", data={"file": "memories/b.md"}),
        "memories/b.md": "---\nid: concept://ws/app/checkout\n---\nb\n",
    }
    planted = record(uri("infra/a"), "memories/b.md/prose", "b", "evil")
    assert of(ws, planted, dict(named)).uris == {uri("infra/a"), uri("app/checkout")}
    (path,) = lost = record(uri("infra/a"), "memories/nobodys.md/prose", "b", "evil")
    assert of(ws, lost).settings == {"memories/nobodys.md"}
    (path,) = settings = record(Uri("kgd://ws/settings"), "policy", "x", "y")
    assert of(ws, settings) == Touched(settings=frozenset({path}))


def test_a_memory_is_also_about_the_node_it_claims_to_belong_to(ws: Workspace) -> None:
    named = {"nodes/concept/infra/a.yaml": node("infra/a", data={"file": "memories/a.md"})}
    text = "---\nid: concept://ws/app/checkout\n---\nx\n"
    assert of(ws, {"memories/a.md": text}, dict(named)).uris == {uri("infra/a"), uri("app/checkout")}


def test_a_memory_is_about_its_own_node_even_if_other_nodes_name_it(ws: Workspace) -> None:
    text = "---\nid: concept://ws/app/checkout\n---\n{}\n"
    named = {f"nodes/concept/{name}.yaml": node(name, data={"file": "memories/a.md"}) for name in ("app/checkout", "x")}
    before = {**named, "memories/a.md": text.format("a")}
    assert of(ws, {"memories/a.md": text.format("b")}, before).uris == {uri("app/checkout")}
    taken = {"memories/a.md": "---\nid: concept://ws/x\n---\nb\n"}
    assert of(ws, taken, before).uris == {uri("app/checkout"), uri("x")}
    assert of(ws, {"memories/a.md": text.format("c")}, {**named, "memories/a.md": "spoiled"}).uris == {
        uri("app/checkout")
    }


def test_a_bulk_part_is_about_the_nodes_in_it_that_changed(ws: Workspace) -> None:
    path = f"bulk/message/{paths.shard(b'talk')}/talk/{{}}.yaml"
    one, two = (Node(Uri(f"message://ws/talk/{n}")) for n in (1, 2))
    both, first, second = (bulk.encode(bulk.Part(nodes)).decode() for nodes in ((one, two), (one,), (two,)))
    assert of(ws, {path.format(0): both}, {path.format(0): first}).uris == {two.uri}
    moved = of(ws, {path.format(0): first, path.format(1): second}, {path.format(0): both})
    assert moved.uris == {Uri("thread://ws/talk")}, "what only lies elsewhere is about the thread"
    sourced = bulk.encode(bulk.Part((one,), "abc")).decode()
    assert of(ws, {path.format(0): sourced}, {path.format(0): first}).uris == {Uri("thread://ws/talk")}


def test_a_bulk_part_with_foreign_nodes_is_about_all_its_nodes(ws: Workspace) -> None:
    path = f"bulk/message/{paths.shard(b'talk')}/talk/0.yaml"
    inside, other = Node(Uri("message://ws/talk/1")), Node(Uri("concept://ws/app/checkout"))
    assert of(ws, {path: bulk.encode(bulk.Part((inside,))).decode()}).uris == {inside.uri}
    assert of(ws, {path: bulk.encode(bulk.Part((inside, other))).decode()}).uris == {
        Uri("thread://ws/talk"),
        inside.uri,
        other.uri,
    }


def test_a_bulk_part_is_about_its_thread_or_document(ws: Workspace) -> None:
    shard = paths.shard(b"talk")
    assert of(ws, {f"bulk/message/{shard}/talk/0.yaml": "x"}).uris == {Uri("thread://ws/talk")}
    assert of(ws, {f"bulk/chunk/a/{shard}/talk/0.yaml": "x"}).uris == {Uri("document://ws/a/talk")}
    for wrong in ("bulk/message/00/talk/0.yaml", "bulk/other/00/talk/0.yaml", "bulk/0.yaml"):
        assert of(ws, {wrong: "x"}).settings == {wrong}


@pytest.mark.parametrize(
    "path",
    [
        "kgd.yaml",
        ".gitattributes",
        "README.md",
        "nodes/x.txt",
        "nodes/concept/.hidden",
        "conflicts/x",
        "log/x.yaml",
        "nodes/concept/a%zz.yaml",
    ],
)
def test_files_of_no_node_need_an_administrator(ws: Workspace, path: str) -> None:
    found = of(ws, {path: "text\n"}, {path: "before\n"})
    assert found == Touched(settings=frozenset({path}))
    with pytest.raises(Forbidden, match="admin"):
        authorize_all(holder("write", "/**"), Policy("ws"), Verb.WRITE, found)


def test_a_memory_is_judged_by_every_node_that_names_it_before_or_after(ws: Workspace) -> None:
    memory, other = "memories/it's a day.md", "memories/b.md"
    ws.submit(change(upsert("x/y")))
    for name in ("infra/d", "db/e"):  # a change by kgd names only its own memories
        commit_file(ws, f"nodes/concept/{name}.yaml", node(name, data={"file": memory}))
    before = {memory: "old", other: "old"}
    assert of(ws, {memory: "new"}, before).uris == {uri("infra/d"), uri("db/e")}
    assert of(ws, {other: "new"}, before).settings == {other}
    hidden = 'uri: concept://ws/q\ndata:\n  "f\\x69le": "memories/\\x62.md"\n'
    assert of(ws, {other: "new", "nodes/concept/q.yaml": hidden}, before).uris == {uri("q")}
    after = of(ws, {other: "new", "nodes/concept/x/y.yaml": node("x/y", data={"file": other})}, before)
    assert after == Touched(frozenset({uri("x/y")}))
    single = "uri: concept://ws/q\ndata:\n  file: 'memories/it''s a\n    day.md'\n"
    assert uri("q") in of(ws, {memory: "new", "nodes/concept/q.yaml": single}, before).uris


def test_a_change_of_the_mode_alone_is_a_change(ws: Workspace) -> None:
    blob = make("blob", b"uri: concept://ws/a\n")
    files = [("nodes/concept/a.yaml", blob.id, blob.id)]
    found = touched_nodes.of_changes(files, lambda id: blob.body, tuple, ws.id, ws.sharded)
    assert found.uris == {uri("a")}
