"""Nodes of one workspace as changes for another: whole at first, then what differs since.

A copy names its origin in ``data.submitted_from``: the URI that it was copied from, and the commit at which it was.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from kgd.model.fields import plain
from kgd.model.node import FIELDS, Json, Node, Relation
from kgd.model.uri import Uri, build, is_owned, scheme_of, segments_of, workspace_of
from kgd.tools.nodes import source

ORIGIN = "submitted_from"
_MOLECULE = "moleculeId"
_PLAIN = ("type", "name", "summary", "content", "source")

Changes = list[dict[str, Any]]


def rehomed(uri: Uri, own: str, into: str) -> Uri:
    """The URI of a copy; a URI that is not the workspace's own stays."""
    if not is_owned(uri) or workspace_of(uri) != own:
        return uri
    return build(scheme_of(uri), into, segments_of(uri))


def whole(node: Node, homes: Mapping[Uri, Uri], origin: Json) -> dict[str, Any]:
    """An upsert that makes the copy of a node; relations among copies lead to the copies."""
    node = _in_its_molecule(node, homes)
    values = {name: value for name, value in _fields(node).items() if name != "aliases"}
    values["uri"] = homes[node.uri]
    if node.others:
        values["others"] = dict(node.others)
    if node.relations:
        values["relations"] = [_relation(one, homes) for one in node.relations]
    if origin:
        values["data"] = {**node.data, ORIGIN: origin}
    return {"op": "upsert", **values}


def difference(then: Node, now: Node, homes: Mapping[Uri, Uri], origin: Json, *, new: Collection[Uri]) -> Changes:
    """The changes that make a copy of `then` a copy of `now`; none where they are equal.

    Args:
        homes: The URIs of the copies, by the URIs that they are copies of.
        new: Nodes that get their copy only now, so that relations to them come to lead to the copies.
    """
    uri = homes[now.uri]
    then = _in_its_molecule(then, {own: home for own, home in homes.items() if own not in new})
    now = _in_its_molecule(now, homes)
    before, after = _fields(then), _fields(now)
    gone = [name for name in _PLAIN if name in before and name not in after]
    upsert: dict[str, Any] = {
        name: after[name] for name in _PLAIN if before.get(name) != after.get(name) if name in after
    }
    if data := {key: value for key, value in now.data.items() if then.data.get(key) != value}:
        upsert["data"] = data
        gone += [f"data.{key}" for key, value in data.items() if key in then.data and isinstance(value, Mapping)]
    gone += [f"data.{key}" for key in then.data if key not in now.data]
    keys = sorted({*then.others, *now.others})
    if others := {key: now.others.get(key) for key in keys if then.others.get(key) != now.others.get(key)}:
        upsert["others"] = others
    if tags := [tag for tag in now.tags if tag not in then.tags]:
        upsert["tags"] = tags
    moved = [one for one in now.relations if one.target in new]
    if relations := [one for one in now.relations if one not in then.relations or one in moved]:
        upsert["relations"] = [_relation(one, homes) for one in relations]
    if gone:
        upsert["unset"] = gone
    kept = {one.key for one in now.relations}
    lost: list[tuple[str, Uri]] = [
        (one.type, homes.get(one.target, one.target)) for one in then.relations if one.key not in kept
    ]
    lost += [(one.type, one.target) for one in moved if one in then.relations]
    changes: Changes = [{"op": "unrelate", "source": uri, "type": type, "target": target} for type, target in lost]
    if untagged := [tag for tag in then.tags if tag not in now.tags]:
        changes.append({"op": "untag", "uri": uri, "tags": untagged})
    if not upsert and not changes:
        return []
    upsert["data"] = {**upsert.get("data", {}), ORIGIN: origin}
    return [{"op": "upsert", "uri": uri, **upsert}, *changes]


def _in_its_molecule(node: Node, homes: Mapping[Uri, Uri]) -> Node:
    """The node as a copy: an atom belongs to the copy of its molecule, or to none if there is no copy."""
    named = node.data.get(_MOLECULE)
    if scheme_of(node.uri) != "atom" or named is None:
        return node
    home = homes.get(Uri(named)) if isinstance(named, str) else None
    rest = {key: value for key, value in node.data.items() if key != _MOLECULE}
    return replace(node, data={**rest, _MOLECULE: home} if home else rest)


def _fields(node: Node) -> dict[str, Any]:
    """The fields of a node as `put` takes them."""
    values = {name: value for name, value in plain(node).items() if name in FIELDS}
    return values | ({"source": source(node.source)} if node.source else {})


def _relation(one: Relation, homes: Mapping[Uri, Uri]) -> dict[str, Any]:
    values: dict[str, Any] = {"type": one.type, "target": homes.get(one.target, one.target), "weight": one.weight}
    values |= {"data": dict(one.data)} if one.data else {}
    return values | ({"others": dict(one.others)} if one.others else {})
