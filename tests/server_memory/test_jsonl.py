"""Import and export of the official server's memory.jsonl: nothing is lost, broken lines are reported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgd.codec import documents, paths
from kgd.errors import Invalid, KgdError
from kgd.exchange import Reading, View, entities
from kgd.model.node import Node
from kgd.model.uri import Uri
from kgd.workspace.workspace import Workspace
from tests.server_memory.script import UNUSUAL, calls, entity, official, relation
from tests.surfaces.conftest import Ask


def lines_of(*items: dict[str, Any]) -> bytes:
    """The lines as the official server writes them."""
    return "\n".join(json.dumps(item, ensure_ascii=False, separators=(",", ":")) for item in items).encode()


def an_entity(name: str, type: str = "thing", *said: str) -> dict[str, Any]:
    return {"type": "entity", **entity(name, type, *said)}


def a_relation(source: str, target: str, type: str = "knows") -> dict[str, Any]:
    return {"type": "relation", **relation(source, target, type)}


MEMORY = lines_of(
    an_entity("Zoe", "person", "Likes tea", "Likes tea", ""),
    an_entity("Ann", "person"),
    *(an_entity(name, name, name, f"about {name}") for name in UNUSUAL if name not in ("", " ")),
    an_entity("", "", "nameless"),
    an_entity("ann", "twin"),
    a_relation("Zoe", "Ann"),
    a_relation("ghost", "Ann", "haunts"),
    a_relation("Ann", "nobody", " odd\n"),
    *(a_relation(name, "Zoe", name) for name in UNUSUAL),
    a_relation("Ann", "Zoe"),
    a_relation("ann", "Ann"),
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "memory.jsonl").write_bytes(MEMORY)
    return tmp_path / "memory.jsonl"


def exported(ask: Ask, to: Path) -> bytes:
    ask.export(target=str(to), format="jsonl")
    return to.read_bytes()


def take(ask: Ask, file: Path, **options: Any) -> dict[str, Any]:
    found: dict[str, Any] = getattr(ask, "import")(source=str(file), **options)
    return found


@pytest.mark.slow
def test_a_file_comes_back_byte_for_byte_and_a_second_import_changes_nothing(
    ask: Ask, file: Path, ws: Workspace
) -> None:
    tip = ws.tip
    planned = take(ask, file, dry_run=True)
    assert (planned["nodes"]["new"], planned["commits"], ws.tip) == (47, [], tip)
    first = take(ask, file)
    assert (first["format"], first["troubles"]) == ("jsonl", [])
    assert first["read"] == {"lines": 93, "entities": 45, "relations": 48}
    assert exported(ask, file.with_name("out.jsonl")) == MEMORY

    tip = ws.tip
    assert take(ask, file)["nodes"] == {"new": 0, "changed": 0, "unchanged": 47, "kept": 0}
    assert take(ask, file.with_name("out.jsonl"))["nodes"]["unchanged"] == 47
    assert ws.tip == tip
    graph = ask.read_graph()
    assert (
        lines_of(
            *({"type": "entity", **one} for one in graph["entities"]),
            *({"type": "relation", **one} for one in graph["relations"]),
        )
        == MEMORY
    )


@pytest.mark.slow
@pytest.mark.needs("server-memory")
def test_the_official_server_and_kgd_exchange_their_memory(ask: Ask, tmp_path: Path) -> None:
    theirs = tmp_path / "memory.jsonl"
    with official(theirs) as server:
        for call in calls()[:150]:
            server.call(*call)
        graph = server.call("read_graph", {})["structuredContent"]
    take(ask, theirs)
    assert ask.read_graph() == graph
    ask.create_entities(entities=[entity("made here", "note", "and known there")])
    ask.export(target=str(theirs), format="jsonl", replace=True)
    with official(theirs) as server:
        assert server.call("read_graph", {})["structuredContent"] == ask.read_graph()


def test_broken_lines_are_reported_by_number_and_the_rest_is_imported(ask: Ask, tmp_path: Path) -> None:
    file = tmp_path / "memory.json"
    file.write_bytes(
        b"\xef\xbb\xbf"
        + b"\r\n".join(
            [
                lines_of(an_entity("first", "t", "kept")),
                b'{"type":"entity","name":"cut of',
                b"",
                b"\xff\xfe",
                lines_of({"type": "entity", "name": "half"}),
                lines_of({"type": "person", "name": "other"}),
                b"[1]",
                lines_of({**an_entity("mixed"), "observations": ["text", 5]}),
                lines_of(an_entity("first", "t2", "more", "kept")),
                lines_of(a_relation("first", "mixed")),
                lines_of(a_relation("first", "mixed")),
                lines_of({"type": "relation", "from": 1, "to": "x", "relationType": "y"}),
                lines_of(an_entity("large", "t", "x" * 300_000)),
                lines_of(an_entity("last", "t")),
            ]
        )
    )
    told = take(ask, file)
    assert [trouble["at"] for trouble in told["troubles"]] == [
        f"memory.json:{line}" for line in (2, 4, 5, 6, 7, 8, 9, 11, 12, 13)
    ]
    graph = ask.read_graph()
    assert [(one["name"], one["observations"]) for one in graph["entities"]] == [
        ("first", ["kept", "more"]),
        ("mixed", ["text"]),
        ("last", []),
    ]
    assert graph["relations"] == [relation("first", "mixed")]


def test_a_grown_memory_adds_its_new_entities_and_keeps_local_changes(ask: Ask, tmp_path: Path) -> None:
    file = tmp_path / "memory.jsonl"
    file.write_bytes(lines_of(an_entity("a", "t", "one"), an_entity("b", "t", "one")))
    take(ask, file)
    ask.add_observations(observations=[{"entityName": "b", "contents": ["said here"]}])
    file.write_bytes(
        lines_of(an_entity("a", "t", "one", "two"), an_entity("b", "t", "one", "two"), an_entity("c", "t"))
    )
    told = take(ask, file)
    assert told["nodes"] == {"new": 1, "changed": 1, "unchanged": 0, "kept": 1}
    (trouble,) = told["troubles"]
    assert trouble["at"] == "memory.jsonl:2"
    said = {one["name"]: one["observations"] for one in ask.read_graph()["entities"]}
    assert said == {"a": ["one", "two"], "b": ["one", "said here"], "c": []}


def test_other_files_are_refused_and_never_overwritten(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").write_text('{"type":"click"}\n')
    with pytest.raises(Invalid):
        take(ask, tmp_path / "events.jsonl")
    ask.create_entities(entities=[entity("a")])
    ask.put(changes=[{"op": "upsert", "uri": "rule", "summary": "no entity"}])
    with pytest.raises(KgdError):
        ask.export(target=str(tmp_path / "events.jsonl"), format="jsonl")
    told = ask.export(target=str(tmp_path / "memory.jsonl"), format="jsonl")
    assert told["wrote"] == {"entities": 1, "relations": 0}
    assert "not entities" in told["troubles"][0]["reason"]
    with pytest.raises(Invalid):
        take(ask, tmp_path / "memory.jsonl", below="people")
    with pytest.raises(Invalid, match="must be a file"):
        take(ask, tmp_path, format="jsonl")


class _Kept:
    """Nodes as their files keep them."""

    id = "shop"

    def __init__(self, nodes: list[Node]) -> None:
        self.files = {node.uri: documents.encode(node) for node in nodes}

    def is_broken(self, target: Uri) -> bool:
        return target not in self.files

    def resolve(self, uri: Uri) -> Uri:
        return uri

    def node(self, uri: Uri) -> Node | None:
        return documents.decode(self.files[uri]) if uri in self.files else None


_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(UNUSUAL)
_entities = st.lists(st.tuples(_texts, _texts, st.lists(_texts, max_size=3)), max_size=6, unique_by=lambda one: one[0])
_relations = st.lists(st.tuples(_texts, _texts, _texts), max_size=6, unique=True)


@given(_entities, _relations)
def test_any_memory_comes_back_byte_for_byte_through_files(
    tmp_path_factory: pytest.TempPathFactory, made: list[Any], related: list[Any]
) -> None:
    folder = tmp_path_factory.getbasetemp()
    memory = lines_of(
        *(an_entity(name, type, *said) for name, type, said in made),
        *(a_relation(source, target, type) for source, target, type in related),
    )
    (folder / "any.jsonl").write_bytes(memory)
    plan = entities.read(folder / "any.jsonl", Reading("shop"))
    assert plan.troubles == ()
    kept = _Kept([one.node for one in plan.wanted])
    assert len({paths.path_of(uri).casefold() for uri in kept.files}) == len(plan.wanted)
    written = entities.write(View(kept, sorted(kept.files)))
    assert written.files[0].data == memory


def test_a_line_in_another_place_is_no_change(ask: Ask, ws: Workspace, tmp_path: Path) -> None:
    file = tmp_path / "memory.jsonl"
    items = [an_entity("Gone"), an_entity("Ann", "person", "x"), an_entity("Bob"), a_relation("Ann", "Bob")]
    file.write_bytes(lines_of(*items))
    take(ask, file)
    tip = ws.tip
    file.write_bytes(lines_of(*items[1:]))
    assert take(ask, file)["nodes"] == {"new": 0, "changed": 0, "unchanged": 2, "kept": 0}
    assert ws.tip == tip
    file.write_bytes(lines_of(*items[1:-1], a_relation("Ann", "Bob", "likes")))
    assert take(ask, file)["nodes"]["changed"] == 1
