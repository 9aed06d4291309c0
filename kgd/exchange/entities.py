"""Entities and relations of the official memory server, as nodes, and the server's file: one entity or relation per
line, as JSON.

An entity is the node ``entity://<workspace>/<name>``: its type is `type`, its observations are ``data.observations``. A
name or type that a node cannot have (an empty one, or several lines) is kept exactly in `data`, and the node gets a
substitute. Entities and relations keep the order in which they were added. Their order numbers are keys of
``data.added``, not values, so that two users who add the same entity do not conflict: the smallest key is used.
Therefore a file of that server is exported again byte for byte.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson

from kgd.errors import Invalid, KgdError, Limit
from kgd.exchange import Export, Output, Plan, Reading, Trouble, View, Wanted, without_nulls
from kgd.model.node import NAME_LIMIT, UNSEEN, Json, Node, Relation, Source, check_label
from kgd.model.uri import MAX_SEGMENT_BYTES, Uri, build, collision_key, is_owned, scheme_of, segments_of, workspace_of

SCHEME = "entity"
TYPE = "entity"
"""Stand-in for a type that a node cannot have."""
LAST = 1 << 63
"""The order number of nodes that were added in other ways; it sorts after all others."""

_TILDE = b"%7E"
_PLAIN = re.compile("[A-Za-z0-9_ -]{1,255}").fullmatch
"""Matches names in which a URI escapes only the blanks."""


@dataclass(frozen=True, slots=True)
class Entity:
    """An entity of the memory server; `added` is its order number."""

    name: str
    type: str
    observations: tuple[str, ...] = ()
    added: int = LAST

    def plain(self) -> dict[str, Any]:
        return {"name": self.name, "entityType": self.type, "observations": list(self.observations)}


@dataclass(frozen=True, slots=True)
class Link:
    """A relation between two entities, by name."""

    source: str
    target: str
    type: str
    added: int = LAST

    def plain(self) -> dict[str, str]:
        return {"from": self.source, "to": self.target, "relationType": self.type}

    @property
    def order(self) -> tuple[int, str, str, str]:
        return self.added, self.source, self.target, self.type


def order(entity: Entity) -> tuple[int, str]:
    return entity.added, entity.name


# ---- names


def literal_uri(workspace: str, name: str) -> Uri | None:
    """The URI that spells the name; None if the name cannot be a segment.

    A leading ``~`` becomes ``%7E``, because hashed names begin with ``~``.
    """
    if _PLAIN(name):  # ten times as fast as the code below
        return Uri(f"{SCHEME}://{workspace}/{name.replace(' ', '%20')}")
    raw = name.encode("utf-8", "surrogatepass")
    if raw.startswith(b"~"):
        raw = _TILDE + raw[1:]
    elif raw.startswith(_TILDE):
        return None
    if raw in (b"", b".", b"..") or b"\0" in raw or len(raw) > MAX_SEGMENT_BYTES:
        return None
    return build(SCHEME, workspace, [raw])


def hashed_uri(workspace: str, name: str) -> Uri:
    """The URI of a name that cannot be part of a URI, or that differs from another name only by case."""
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return Uri(f"{SCHEME}://{workspace}/~{digest}")


def uris_of(workspace: str, name: str) -> tuple[Uri, ...]:
    """The possible URIs of an entity's name, the usual one first."""
    literal, hashed = literal_uri(workspace, name), hashed_uri(workspace, name)
    return (hashed,) if literal is None else (literal, hashed)


def is_usual(uri: Uri, workspace: str, name: str) -> bool:
    """Whether an entity of this name has the usual URI."""
    return uri == literal_uri(workspace, name) or uri == hashed_uri(workspace, name)


def spelt_name(uri: Uri) -> str:
    """The name that a URI spells; for a hashed URI, its last segment."""
    raw = b"/".join(segments_of(uri))
    if raw.startswith(_TILDE):
        raw = b"~" + raw[len(_TILDE) :]
    return raw.decode("utf-8", "replace")


def is_entity(uri: Uri, workspace: str) -> bool:
    return is_owned(uri) and scheme_of(uri) == SCHEME and workspace_of(uri) == workspace


# ---- reading nodes


def name_in(node: Node) -> str:
    exact = node.data.get("name")
    return exact if isinstance(exact, str) else node.name or spelt_name(node.uri)


def is_implied(node: Node) -> bool:
    """Whether the node exists only as the source of relations, and the entity was never created.

    If one user created the entity while another only added relations from it, the merged node has both marks and is
    treated as created.
    """
    return node.data.get("implied") is True and not node.data.keys() & {"added", "observations"}


def entity_in(node: Node) -> Entity:
    exact, said = node.data.get("entityType"), node.data.get("observations")
    observations = tuple(text for text in said if isinstance(text, str)) if isinstance(said, list) else ()
    type = exact if isinstance(exact, str) else node.type
    return Entity(name_in(node), type, observations, added_in(node.data))


def link_in(source: str, target: str, type: str, data: Mapping[str, Json]) -> Link:
    exact, name = data.get("relationType"), data.get("to")
    return Link(
        source, name if isinstance(name, str) else target, exact if isinstance(exact, str) else type, added_in(data)
    )


def links_in(node: Node, name_of: Callable[[Uri], str]) -> list[Link]:
    """The relations to other entities of the same workspace. `name_of` returns the name of a target."""
    name, home = name_in(node), workspace_of(node.uri) or ""
    return [
        link_in(name, name_of(relation.target), relation.type, relation.data)
        for relation in node.relations
        if is_entity(relation.target, home)
    ]


def added_in(data: Mapping[str, Json]) -> int:
    said = data.get("added")
    if not isinstance(said, Mapping):
        return LAST
    return min((int(key) for key in said if key.isascii() and key.isdigit() and len(key) < 19), default=LAST)


# ---- writing nodes


def entity_fields(entity: Entity) -> dict[str, Any]:
    """The fields of an upsert that creates an entity, even where an implied node exists."""
    type = entity.type if _is_label(entity.type) else TYPE
    data: dict[str, Json] = {
        "observations": list(entity.observations),
        "added": {str(entity.added): True},
        "implied": None,
        **({} if type == entity.type else {"entityType": entity.type}),
    }
    return {"type": type, **_named(entity.name, data)}


def implied_fields(name: str) -> dict[str, Any]:
    """The fields of an upsert that creates a node for relations from an entity that does not exist."""
    return {"type": TYPE, **_named(name, {"implied": True})}


def relation_to(target: Uri, link: Link) -> Relation:
    type = stored_type(link.type)
    data: dict[str, Json] = {"added": {str(link.added): True}}
    if spelt_name(target) != link.target:
        data["to"] = link.target
    if type != link.type:
        data["relationType"] = link.type
    return Relation(type, target, data=data)


def stored_type(type: str) -> str:
    """The relation type, or a substitute if the type cannot be a label; different types stay different."""
    return type if _is_label(type) else f"~{hashlib.sha256(type.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"


def _named(name: str, data: dict[str, Json]) -> dict[str, Any]:
    if name and len(name) <= NAME_LIMIT and not UNSEEN(name):
        return {"name": name, "data": data}
    return {"data": {**data, "name": name}}


def _is_label(text: str) -> bool:
    try:
        check_label(text, "type")
    except KgdError:
        return False
    return not text.startswith("~")


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
        taken: dict[str, str] = {}

        def place(name: str) -> Uri:
            """The URI of a name. No two URIs differ only by case."""
            literal = literal_uri(workspace, name)
            is_free = literal is not None and taken.setdefault(collision_key(literal), name) == name
            return literal if literal is not None and is_free else hashed_uri(workspace, name)

        lines = {name: number for name, (number, _) in self.entities.items()}
        made = {name: entity_fields(entity) for name, (_, entity) in self.entities.items()}
        for number, link in self.links.values():
            if link.source not in made:
                made[link.source], lines[link.source] = implied_fields(link.source), number
        uris = {name: place(name) for name in made}
        relations: dict[str, list[Relation]] = {}
        for _, link in self.links.values():
            target = uris.get(link.target) or place(link.target)
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
