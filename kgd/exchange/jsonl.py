"""This file is where the official memory server's file is read and written: one entity or relation a line, as JSON.

Nothing of it is lost in either direction, and a file which that server wrote comes back byte for byte: the place of
each entity and relation among the others is noted with it (`kgd.exchange.entities`).
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
from kgd.exchange.plan import Output, Plan, Reading, Trouble, Wanted, Written
from kgd.exchange.view import View
from kgd.model.node import Node, Relation, Source
from kgd.model.uri import Uri, collision_key, scheme_of

NAME = "jsonl"
SOURCE = "memory-server"
LARGEST = 512 * 2**20
LOOKED_AT = 64 * 1024
"""Bytes of a file that tell what it is."""
QUOTED = 60


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
    """The entities with their relations; a line that cannot be read is one trouble, and the rest goes on.

    Raises:
        Invalid: It is no file, or the URIs are asked to begin with a path: an entity's is its name.
        Limit: The file is larger than 512 MiB.
    """
    if reading.below:
        raise Invalid("the URI of an entity is its name alone", at="below", next="Import it without --below.")
    if not path.is_file():
        raise Invalid("name the file itself, such as memory.jsonl", at="source")
    if path.stat().st_size > LARGEST:
        raise Limit(f"a file has at most {LARGEST // 2**20} MiB", at=str(path)[-80:], next="Split it by lines.")
    found = _Found(path.name)
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            found.take(number, line)
    return found.plan(reading.workspace)


@dataclass(slots=True)
class _Found:
    """What the lines say, as it is put together."""

    file: str
    entities: dict[str, tuple[int, Entity]] = field(default_factory=dict)
    links: dict[tuple[str, str, str], tuple[int, Link]] = field(default_factory=dict)
    troubles: list[Trouble] = field(default_factory=list)
    lines: int = 0

    def take(self, number: int, line: bytes) -> None:
        """Note what one line says. Its number is its place among the others."""
        if not line.strip(b" \t\r\n\xef\xbb\xbf"):
            return
        self.lines += 1
        item = _parsed(line)
        if item is None:
            self._trouble(number, "this line is not JSON; not taken")
        elif not _is_known(item):
            self._trouble(number, "this line is neither an entity nor a relation; not taken")
        elif wrong := [key for key in _KINDS[item["type"]] if not isinstance(item.get(key), str)]:
            self._trouble(number, f"this {item['type']} has no text in '{wrong[0]}'; not taken")
        elif item["type"] == "relation":
            self._relation(number, Link(item["from"], item["to"], item["relationType"], number))
        else:
            self._entity(number, item)

    def _relation(self, number: int, link: Link) -> None:
        key = link.source, link.target, link.type
        if key in self.links:
            self._trouble(number, f"this relation is in line {self.links[key][0]} already; it is taken once")
        else:
            self.links[key] = number, link

    def _entity(self, number: int, item: dict[str, Any]) -> None:
        said = item.get("observations")
        texts = tuple(text for text in said if isinstance(text, str)) if isinstance(said, list) else ()
        if not isinstance(said, list) or len(texts) < len(said):
            self._trouble(number, "not all observations of this entity are text; those that are were taken")
        entity = Entity(item["name"], item["entityType"], texts, number)
        if entity.name not in self.entities:
            self.entities[entity.name] = number, entity
            return
        first, there = self.entities[entity.name]
        more = tuple(text for text in texts if text not in there.observations)
        self.entities[entity.name] = first, replace(there, observations=(*there.observations, *more))
        self._trouble(number, f"line {first} has an entity of this name; what this one adds to it was added")

    def _trouble(self, number: int, reason: str) -> None:
        self.troubles.append(Trouble(f"{self.file}:{number}", reason))

    def plan(self, workspace: str) -> Plan:
        """A node for each entity, and one for each name that relations begin in and nobody made."""
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
                Node(uris[name], source=source, relations=tuple(relations.get(name, ())), **_without_nulls(fields)),
                at=f"{self.file}:{lines[name]}",
            )
            for name, fields in made.items()
        )
        counts = {"lines": self.lines, "entities": len(self.entities), "relations": len(self.links)}
        return Plan(wanted, troubles=tuple(self.troubles), counts=counts)


@dataclass(slots=True)
class _Places:
    """Where names go, so that no two of them differ by case alone."""

    workspace: str
    _taken: dict[str, str] = field(default_factory=dict)

    def of(self, name: str) -> Uri:
        literal = literal_uri(self.workspace, name)
        if literal is None or self._taken.setdefault(collision_key(literal), name) != name:
            return hashed_uri(self.workspace, name)
        return literal


_KINDS = {"entity": ("name", "entityType"), "relation": ("from", "to", "relationType")}
"""What lines are, and which fields of them are text."""


def _is_known(item: Any) -> bool:
    """Whether a line is an object of one of the kinds."""
    return isinstance(item, dict) and isinstance(item.get("type"), str) and item["type"] in _KINDS


def _parsed(line: bytes) -> Any:
    try:
        return orjson.loads(line.removeprefix(b"\xef\xbb\xbf"))
    except orjson.JSONDecodeError:
        return None


def _without_nulls(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields of a new node: nothing is there that a null could delete."""
    return {**fields, "data": {key: value for key, value in fields["data"].items() if value is not None}}


# ---- writing


def write(view: View) -> Written:
    """Entities in the order in which they came, then relations: as the official server writes it."""
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
    return Written((Output("", b"\n".join(lines)),), tuple(_left_out(nodes, others)), counts)


def _left_out(nodes: dict[Uri, Node], others: int) -> Iterator[Trouble]:
    """What the format has no place for, in one line a kind."""
    if others:
        yield Trouble("", f"{others} nodes are no entities; this format has a place for entities alone")
    richer = sum(bool(node.content or node.summary or node.tags) for node in nodes.values())
    if richer:
        yield Trouble("", f"content, summary and tags of {richer} entities have no place in this format")
