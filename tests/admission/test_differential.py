"""Random changes get one answer on every way into a workspace, and leave the same node."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from kgd.codec import documents, paths
from kgd.model.change import LogEntry
from kgd.model.fields import plain, plain_relation
from kgd.model.node import Node
from kgd.model.uri import Uri
from kgd.workspace.memory_files import Read, detail_of, read_blob
from kgd.workspace.proposals import deciding
from kgd.workspace.proposals.deciding import Submitter
from kgd.workspace.publishing import adoption
from kgd.workspace.workspace import Workspace
from kgd.workspace.writing.edits import merged_data
from tests.admission.conftest import KEY
from tests.admission.kinds import (
    Appended,
    Deleted,
    Kind,
    Logged,
    Moved,
    Related,
    Together,
    Unrelated,
    Untagged,
    files_below,
)
from tests.admission.test_rules import THEIRS, deep, named_by
from tests.admission.ways import Change, Ways
from tests.builders import ANN, change

NAMES = (
    "concept://ws/auth",
    "concept://ws/Auth",
    "concept://ws/old",
    "concept://ws/new",
    "concept://ws/deep/er",
    "decision://ws/pub/mine",
    "decision://ws/pub/new",
    "gotcha://ws/new",
    "entity://ws/Ann",
    "entity://ws/ann",
    "concept://other/x",
    "https://example.com/a?b",
    "x.y-z+1://h/a",
    "file://ws/src/a.py",
    "atom://ws/area",
    "concept://ws/" + "y" * 220,
)
FIELDS: dict[str, tuple[Any, ...]] = {
    "name": ("A name", "N" * 255, "N" * 256, "two\nlines", "\u202eeman"),
    "summary": ("One", "s" * 100, "s" * 101, "a\tb", "\ufeffhidden"),
    "content": ("text\n", "text", f"key {KEY}", "a\x01b", "w " * 140_000),
    "tags": (["t"], ["T", "t"], [""], ["a b"], ["x\u200b"]),
    "type": ("decision", "note", " x", "y" * 129),
    "data": (
        {"a": 1},
        {"a": [1.5, None, {"b": []}]},
        deep(12),
        deep(13),
        deep(15),
        deep(40),
        {"k": KEY},
        {"k" * 257: 1},
        {"a\u202e": 1},
        {"file": "memories/none.md"},
        {"file": "?"},
        {"file": "src/a.py"},
        {"n": 2**63},
        {"n": 2**63 - 1},
        {"paths": [f"{n}/**" for n in range(20)]},
        {"paths": [f"{n}/**" for n in range(21)]},
        {"paths": ["p" * 513]},
        {"cites": ["src/a.py#x"]},
        {"cites": "src/a.py"},
        {"cites": [{"path": "src/a.py"}]},
        {"valid": {"from": "2026-05-01", "until": "2026-12-31"}},
        {"valid": {"until": "soon"}},
        {"valid": {"from": "2026-12-31", "until": "2026-05-01"}},
    ),
    "relations": (
        [{"type": "t", "target": "concept://ws/auth"}],
        [{"type": "t", "target": "concept://far/x"}],
        [{"type": "t", "target": "concept://ws/auth", "weight": 1.5}],
        [{"type": " ", "target": "x:y"}],
        [{"type": "t", "target": "x:y", "data": deep(14)}],
        [{"type": "related_to", "target": f"atom://ws/{n}"} for n in range(51)],
    ),
}


RELATIONS: dict[str, tuple[Any, ...]] = {
    "weight": (0.5, 0, 1.5, -1),
    "data": ({"a": 1}, {"k": KEY}, deep(14), deep(40)),
    "type": ("t", "depends_on", " x", "y" * 129),
    "target": ("concept://ws/auth", "concept://far/x", "atom://ws/area"),
}
TEXTS = ("more", "- item", f"key {KEY}", "a\x01b", "w " * 140_000)
SUMMARIES = ("what was done", f"with {KEY}")
TARGETS = (*NAMES, "concept://ws/AUTH", "concept://ws/a/b", "decision://ws/pub/ours", "note://ws/y")


DETAILS = ("Why.", f"Log in with {KEY}.", "word " * 60_000)


def one_of(chance: random.Random, values: tuple[Any, ...]) -> Any:
    """The first value, which is sound, or any."""
    return values[0] if chance.random() < 0.7 else chance.choice(values)


def an_upsert(chance: random.Random, ways: Ways, uri: Uri) -> Kind | None:
    values: dict[str, Any] = {"uri": uri}
    for name in chance.sample(sorted(FIELDS), chance.randrange(1, 4)):
        values[name] = one_of(chance, FIELDS[name])
    if (values.get("data") or {}).get("file") == "?":
        values["data"] = {"file": named_by(ways.ws, THEIRS)}
    known, detail = ways.ws.node(uri), ""
    if "data" not in values and "tags" not in values and "type" not in values and chance.random() < 0.3:
        detail = one_of(chance, DETAILS)
    if known is not None:  # a file holds the whole node, and an edit leaves what it does not name
        values = {**plain(known), **values}
        values["data"] = merged_data(known.data, values["data"]) if "data" in values else {}
        values["tags"] = [*known.tags, *values.get("tags", [])]
        values["relations"] = [plain_relation(relation) for relation in known.relations]
    return Change(values, detail)


def an_edit(chance: random.Random, ways: Ways, uri: Uri) -> Kind | None:
    """A random edit other than an upsert; None if this kind has nothing to change in the node."""
    ws, node = ways.ws, ways.ws.node(uri)
    kind = chance.choice(("delete", "move", "relate", "unrelate", "untag", "append", "log"))
    if kind == "append":
        return Appended(uri, one_of(chance, TEXTS))
    if kind == "log":
        id = f"01JD00000000000000000000{chance.randrange(40):02}"
        return Logged(LogEntry(id, uri, "", one_of(chance, SUMMARIES), "2026-11-20T00:00:00.000Z"))
    if node is None:
        return None
    if kind == "delete":
        return Deleted(uri)
    if kind == "move":
        to = Uri(chance.choice(TARGETS))
        return Moved(uri, to) if ws.node(to) is None and ws.graph.resolve(to) in (to, uri) else None
    if kind == "relate":
        return Related(uri, {name: one_of(chance, values) for name, values in RELATIONS.items()})
    if kind == "unrelate" and node.relations:
        relation = chance.choice(node.relations)
        return Unrelated(uri, relation.target, relation.type)
    return Untagged(uri, node.tags[:1]) if kind == "untag" and node.tags else None


def anything(chance: random.Random, ways: Ways) -> Together:
    """One to three random changes of different nodes."""
    found: list[Kind] = []
    for _ in range(chance.choice((1, 1, 2, 3))):
        uri = Uri(chance.choice(TARGETS))
        if ways.ws.graph.resolve(uri) != uri:  # the former name of a moved node
            continue
        one = chance.choice((an_upsert, an_edit))(chance, ways, uri)
        if one and not {uri, *one.uris} & {used for other in found for used in other.uris}:
            found.append(one)
    return Together(tuple(found)) if found else anything(chance, ways)


def is_seen(one: Together) -> bool:
    """Whether kgd notices all of it in the work tree. Changelogs are not read there; a commit brings their files."""
    return not any(isinstance(kind, Logged) for kind in one.kinds)


def carry_out(chance: random.Random, ways: Ways, one: Together) -> str:
    """Write it by any of the ways; return the way."""
    ws, way = ways.ws, chance.choice(["put", "submit", "sync", *(["save"] if is_seen(one) else [])])
    if way == "put":
        ws.submit(change(*one.edits(ws)))
    elif way == "submit":
        deciding.submit(ws, change(*one.edits(ws)), Submitter("ann"), base=ws.tip)
    elif way == "sync":
        ws.run(adoption.merge(ws, ways.commit(one)), alone=True)
    else:
        ws.run(adoption.commit_edits(ws, ways.looked_at(one)[0], ANN, 1))
    return way


def intended(ws: Workspace, one: Together) -> dict[Uri, tuple[Node | None, str]]:
    """The nodes that the change leaves, by the files that a person writes, with the text of their memories."""
    files = one.files(ws)
    nodes = {uri: files.get(paths.path_of(uri, ws.sharded)) for uri in one.uris}
    decoded = {uri: documents.decode(data, expect=uri) if data else None for uri, data in nodes.items()}
    return {uri: (node, detail(node, lambda path: files.get(path) or read(ws, path))) for uri, node in decoded.items()}


def held(ws: Workspace, one: Together) -> dict[Uri, tuple[Node | None, str]]:
    return {uri: (ws.node(uri), detail(ws.node(uri), partial(read, ws))) for uri in one.uris}


def read(ws: Workspace, path: str) -> bytes | None:
    return read_blob(ws.store, ws.store.tree_of(bytes.fromhex(ws.tip)), path)


def detail(node: Node | None, read: Read) -> str:
    found = detail_of(node, read)
    return found[1].text if found else ""


def without_places(
    nodes: Mapping[Uri, tuple[Node | None, str]], known: Collection[str]
) -> dict[Uri, tuple[Node | None, str]]:
    """Without the names of new memories, which kgd chooses for an edit and a person for a file."""

    def unnamed(node: Node | None) -> Node | None:
        if node is None or node.data.get("file") in known:
            return node
        return replace(node, data={key: value for key, value in node.data.items() if key != "file"})

    return {uri: (unnamed(node), text) for uri, (node, text) in nodes.items()}


def play(ways: Ways, seed: int, steps: int) -> Counter[str]:
    chance, counts = random.Random(seed), Counter[str]()
    for step in range(steps):
        one = anything(chance, ways)
        said = {way: ask(one) for way, ask in ways.all().items() if way != "save" or is_seen(one)}
        refused = {way for way, refusal in said.items() if refusal is not None}
        assert refused in (set(), set(said)), f"seed {seed}, step {step}: {one} {said}"
        counts["refused" if refused else "taken"] += 1
        counts.update(type(kind).__name__ for kind in one.kinds if not refused)
        if not refused and chance.random() < 0.5:
            files = {path for path, _ in files_below(ways.ws, "memories")}
            wanted = without_places(intended(ways.ws, one), files)
            way = carry_out(chance, ways, one)
            assert without_places(held(ways.ws, one), files) == wanted, f"seed {seed}, step {step}: {way} of {one}"
    return counts


@pytest.mark.slow
def test_a_few_changes_get_the_same_answer(ways: Ways) -> None:
    counts = play(ways, 7, 40)
    assert min(counts["taken"], counts["refused"]) > 8


@pytest.mark.slow
@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.large) for seed in range(4, 12))])
def test_many_changes_get_the_same_answer(ways: Ways, seed: int) -> None:
    play(ways, seed, 60)
