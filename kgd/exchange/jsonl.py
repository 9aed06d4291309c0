"""The official memory server's file format: one entity or relation per line, as JSON.

Lossless in both directions. A file of that server is exported again byte for byte, because the order of entities and
relations is stored with them (`kgd.exchange.entities`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson

from kgd.errors import Invalid, Limit
from kgd.exchange.entities import (
    SCHEME,
    Entity,
    Link,
    entity_fields,
    entity_in,
    hashed_uri,
    implied_fields,
    is_entity,
    is_implied,
    links_in,
    literal_uri,
    name_in,
    order,
    relation_to,
    spelt_name,
)
from kgd.exchange.plan import Export, Output, Plan, Reading, Trouble, View, Wanted, without_nulls
from kgd.model.node import Node, Relation, Source
from kgd.model.uri import Uri, collision_key, scheme_of

NAME = "jsonl"
SOURCE = "memory-server"
LARGEST = 512 * 2**20
LOOKED_AT = 64 * 1024
"""Number of bytes of a file that are examined to detect the format."""


# ---- reading


def sniff(path: Path) -> bool:
    """Whether one of the first lines is an entity or a relation."""
    if not path.is_file():
        return False
    with open(path, "rb") as file:
        start = file.read(LOOKED_AT)
    lines = start.split(b"\n")[:20]
    return any(_is_known(_parsed(line)) for line in lines)


def read(path: Path, reading: Reading) -> Plan:
    """The entities with their relations. An unreadable line is reported, and the other lines are still read.

    Raises:
        Invalid: The source is not a file, or `below` is given, although an entity's URI has only its name.
        Limit: The file is larger than 512 MiB.
    """
    if reading.below:
        raise Invalid("entities cannot be imported below a path", at="below", next="Import without --below.")
    if not path.is_file():
        raise Invalid("the source must be a file, such as memory.jsonl", at="source")
    if path.stat().st_size > LARGEST:
        raise Limit(f"the file has more than {LARGEST // 2**20} MiB", at=str(path)[-80:], next="Split it by lines.")
    found = _Found(path.name)
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            found.take(number, line)
    return found.plan(reading.workspace)


@dataclass(slots=True)
class _Found:
    """The content of the lines read so far."""

    file: str
    entities: dict[str, tuple[int, Entity]] = field(default_factory=dict)
    links: dict[tuple[str, str, str], tuple[int, Link]] = field(default_factory=dict)
    troubles: list[Trouble] = field(default_factory=list)
    lines: int = 0

    def take(self, number: int, line: bytes) -> None:
        """Record one line. The line's number is its place in the order."""
        if not line.strip(b" \t\r\n\xef\xbb\xbf"):
            return
        self.lines += 1
        item = _parsed(line)
        if item is None:
            self._trouble(number, "not JSON; skipped")
        elif not _is_known(item):
            self._trouble(number, "neither an entity nor a relation; skipped")
        elif wrong := [key for key in _KINDS[item["type"]] if not isinstance(item.get(key), str)]:
            self._trouble(number, f"this {item['type']} has no text in '{wrong[0]}'; skipped")
        elif item["type"] == "relation":
            self._relation(number, Link(item["from"], item["to"], item["relationType"], number))
        else:
            self._entity(number, item)

    def _relation(self, number: int, link: Link) -> None:
        key = link.source, link.target, link.type
        if key in self.links:
            self._trouble(number, f"repeats the relation in line {self.links[key][0]}; skipped")
        else:
            self.links[key] = number, link

    def _entity(self, number: int, item: dict[str, Any]) -> None:
        said = item.get("observations")
        texts = tuple(text for text in said if isinstance(text, str)) if isinstance(said, list) else ()
        if not isinstance(said, list) or len(texts) < len(said):
            self._trouble(number, "some observations of this entity are not text; those were left out")
        entity = Entity(item["name"], item["entityType"], texts, number)
        if entity.name not in self.entities:
            self.entities[entity.name] = number, entity
            return
        first, there = self.entities[entity.name]
        more = tuple(text for text in texts if text not in there.observations)
        self.entities[entity.name] = first, replace(there, observations=(*there.observations, *more))
        self._trouble(number, f"line {first} has an entity of the same name, to which the new observations were added")

    def _trouble(self, number: int, reason: str) -> None:
        self.troubles.append(Trouble(f"{self.file}:{number}", reason))

    def plan(self, workspace: str) -> Plan:
        """A node for each entity, and one for each name that is only the source of relations."""
        places = _Places(workspace)
        lines = {name: number for name, (number, _) in self.entities.items()}
        made = {name: entity_fields(entity) for name, (_, entity) in self.entities.items()}
        for number, link in self.links.values():
            if link.source not in made:
                made[link.source], lines[link.source] = implied_fields(link.source), number
        uris = {name: places.of(name) for name in made}
        relations: dict[str, list[Relation]] = {}
        for _, link in self.links.values():
            target = uris.get(link.target) or places.of(link.target)
            relations.setdefault(link.source, []).append(relation_to(target, link))
        source = Source(SOURCE, self.file)
        wanted = tuple(
            Wanted(
                Node(
                    uris[name],
                    source=source,
                    relations=tuple(relations.get(name, ())),
                    **{**fields, "data": without_nulls(fields["data"])},
                ),
                at=f"{self.file}:{lines[name]}",
            )
            for name, fields in made.items()
        )
        counts = {"lines": self.lines, "entities": len(self.entities), "relations": len(self.links)}
        return Plan(wanted, troubles=tuple(self.troubles), counts=counts)


@dataclass(slots=True)
class _Places:
    """Assigns URIs to names, so that no two of them differ only by case."""

    workspace: str
    _taken: dict[str, str] = field(default_factory=dict)

    def of(self, name: str) -> Uri:
        literal = literal_uri(self.workspace, name)
        if literal is None or self._taken.setdefault(collision_key(literal), name) != name:
            return hashed_uri(self.workspace, name)
        return literal


_KINDS = {"entity": ("name", "entityType"), "relation": ("from", "to", "relationType")}
"""The types of lines, and their text fields."""


def _is_known(item: Any) -> bool:
    """Whether a line is an object of a known type."""
    return isinstance(item, dict) and isinstance(item.get("type"), str) and item["type"] in _KINDS


def _parsed(line: bytes) -> Any:
    try:
        return orjson.loads(line.removeprefix(b"\xef\xbb\xbf"))
    except orjson.JSONDecodeError:
        return None


# ---- writing


def write(view: View) -> Export:
    """Entities in their stored order, then relations, as the official server writes them."""
    nodes = {node.uri: node for node in view.nodes() if is_entity(node.uri, view.workspace)}
    others = sum(scheme_of(uri) != SCHEME for uri in view.chosen)
    names: dict[Uri, str] = {uri: name_in(node) for uri, node in nodes.items()}

    def name_of(uri: Uri) -> str:
        if uri not in names:
            node = view.store.node(uri)
            names[uri] = name_in(node) if node else spelt_name(uri)
        return names[uri]

    entities = sorted((entity_in(node) for node in nodes.values() if not is_implied(node)), key=order)
    links = sorted((link for node in nodes.values() for link in links_in(node, name_of)), key=lambda link: link.order)
    lines = [
        *(orjson.dumps({"type": "entity", **one.plain()}) for one in entities),
        *(orjson.dumps({"type": "relation", **one.plain()}) for one in links),
    ]
    counts = {"entities": len(entities), "relations": len(links)}
    return Export((Output("", b"\n".join(lines)),), tuple(_left_out(nodes, others)), counts)


def _left_out(nodes: dict[Uri, Node], others: int) -> Iterator[Trouble]:
    """Content that the format cannot express, one line per kind."""
    if others:
        yield Trouble("", f"{others} nodes are not entities and were left out")
    richer = sum(bool(node.content or node.summary or node.tags) for node in nodes.values())
    if richer:
        yield Trouble("", f"content, summary and tags of {richer} entities were left out")
