"""Entities and relations of the official memory server, as nodes.

An entity is the node ``entity://<workspace>/<name>``: its type is `type`, its observations are ``data.observations``. A
name or type that a node cannot have (an empty one, or several lines) is kept exactly in `data`, and the node gets a
substitute. Entities and relations keep the order in which they were added. Their order numbers are keys of
``data.added``, not values, so that two users who add the same entity do not conflict: the smallest key is used.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kgd.errors import KgdError
from kgd.model.node import NAME_LIMIT, UNSEEN, Json, Node, Relation, check_label
from kgd.model.uri import MAX_SEGMENT_BYTES, Uri, build, is_owned, scheme_of, segments_of, workspace_of

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
