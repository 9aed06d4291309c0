"""`kgd edit`: turns an edited node file into the changes of a `put`."""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from typing import Any

from kgd.cli.output import show
from kgd.client.connection import Connection
from kgd.codec import documents
from kgd.config import Home, editor
from kgd.errors import Invalid, KgdError, Unavailable
from kgd.model.node import Node, Relation, Source
from kgd.model.uri import Uri

Given = dict[str, Any]
BUDGET = 1_000_000
_TEXTS = ("type", "name", "summary", "content")


def edit(given: Given, options: Given) -> int:
    """Open the node in an editor and write the changes under the version that was opened."""
    scope = {"workspace": given["workspace"]} if "workspace" in given else {}
    with Connection(Home.find()) as connection:
        found = connection.call("get", {"uris": [given["uri"]], "budget": BUDGET, **scope})
        answer = found["nodes"][0] if found["nodes"] else {"uri": found["missing"][0]["uri"], "version": 0}
        before = _node(answer)
        with _kept_unless_done(before) as path:
            after = _edited(before, path)
            changes = changes_between(before, after, int(answer["version"]))
            if not changes:
                sys.stdout.write("nothing changed\n")
                return 0
            request = {"changes": changes, "request_id": os.urandom(12).hex(), **scope}
            for name in ("message", "dry_run"):
                if given.get(name):
                    request[name] = given[name]
            show("printing.put", connection.call("put", request), options)
    return 0


@contextlib.contextmanager
def _kept_unless_done(node: Node) -> Iterator[str]:
    """A file with the node's text for the editor. It is kept, and its path printed, unless the edit was saved."""
    original = documents.encode(node)
    handle, path = tempfile.mkstemp(prefix="kgd-edit-", suffix=".yaml")
    with open(handle, "wb") as file:
        file.write(original)
    try:
        yield path
    except BaseException:
        with open(path, "rb") as file:
            if file.read() == original:
                os.unlink(path)
            else:
                sys.stderr.write(f"kgd: what you wrote is kept in {path}\n")
        raise
    os.unlink(path)


def changes_between(before: Node, after: Node, version: int) -> list[Given]:
    """The changes that make one of the other; none where they are equal."""
    upsert: Given = {}
    unset = []
    for name in _TEXTS:
        if getattr(after, name) != getattr(before, name):
            if getattr(after, name):
                upsert[name] = getattr(after, name)
            else:
                unset.append(name)
    if set(after.tags) - set(before.tags):
        upsert["tags"] = sorted(set(after.tags) - set(before.tags))
    data = {key: value for key, value in after.data.items() if key not in before.data or before.data[key] != value}
    # A mapping under a key would be merged with the old one: the old one is cleared first where something left it.
    unset += [f"data.{key}" for key in before.data if key not in after.data]
    if data:
        upsert["data"] = data
    if after.source != before.source:
        if after.source is None:
            unset.append("source")
        else:
            former = before.source.others if before.source and before.source.key == after.source.key else {}
            upsert["source"] = {"type": after.source.type, "id": after.source.id}
            upsert["source"] |= _changed_others(former, after.source.others)
    upsert |= _changed_others(before.others, after.others)
    made = [relation for relation in after.relations if before.relation(relation.type, relation.target) != relation]
    if made:
        upsert["relations"] = [_plain(relation, before.relation(relation.type, relation.target)) for relation in made]
    if unset:
        upsert["unset"] = unset
    changes: list[Given] = []
    if upsert:
        changes.append({"op": "upsert", "uri": before.uri, "expect_version": version, **upsert})
    if gone := sorted(set(before.tags) - set(after.tags)):
        changes.append({"op": "untag", "uri": before.uri, "tags": gone})
    for relation in before.relations:
        if after.relation(relation.type, relation.target) is None:
            ends = {"source": before.uri, "target": relation.target, "type": relation.type}
            changes.append({"op": "unrelate", **ends})
    return changes


def _edited(node: Node, path: str) -> Node:
    """The edited node. On a terminal an error is shown and the editor opens again."""
    while True:
        try:
            subprocess.run([*shlex.split(editor()), path], check=True)
        except OSError as error:
            raise Unavailable(f"the editor cannot be started: {error}", next="Set EDITOR.") from error
        except subprocess.CalledProcessError as error:
            raise Unavailable(
                f"the editor '{editor()}' ended with {error.returncode}; nothing was changed",
                next="Set another EDITOR.",
            ) from error
        with open(path, "rb") as file:
            text = file.read()
        try:
            return documents.decode(text, at="node.yaml", expect=node.uri)
        except KgdError as error:
            if not sys.stdin.isatty():
                raise
            sys.stderr.write(f"kgd: {error}\n")
            if not _again():
                raise Invalid("not saved", at=node.uri) from None


def _again() -> bool:
    try:
        return not input("Edit again? [Y/n] ").strip().lower().startswith("n")
    except EOFError:
        return False


def _node(answer: Given) -> Node:
    source = answer.get("source")
    return Node(
        Uri(answer["uri"]),
        type=answer.get("type", ""),
        name=answer.get("name", ""),
        summary=answer.get("summary", ""),
        content=answer.get("content", ""),
        tags=tuple(answer.get("tags", ())),
        data=answer.get("data", {}),
        source=Source(source["type"], source["id"], source.get("others", {})) if source else None,
        relations=tuple(
            Relation(one["type"], Uri(one["target"]), one["weight"], one.get("data", {}), one.get("others", {}))
            for one in answer.get("relations", ())
        ),
        aliases=tuple(map(Uri, answer.get("aliases", ()))),
        others=answer.get("others", {}),
    )


def _plain(relation: Relation, former: Relation | None) -> Given:
    plain: Given = {"type": relation.type, "target": relation.target, "weight": relation.weight}
    plain |= {"data": dict(relation.data)} if relation.data else {}
    return plain | _changed_others(former.others if former else {}, relation.others)


def _changed_others(before: Mapping[str, Any], after: Mapping[str, Any]) -> Given:
    """The unknown keys to set, and None for those to remove."""
    keys = sorted({*before, *after})
    changed = {key: after.get(key) for key in keys if before.get(key) != after.get(key)}
    return {"others": changed} if changed else {}
