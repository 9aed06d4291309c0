"""Export of nodes as Markdown notes, both notes that came from a vault and other nodes.

An unedited note from a vault keeps its bytes. In an edited note, the front matter is rewritten: the keys keep their
order, only changed keys change, and comments are lost.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import Any

from kgd.codec import front_matter
from kgd.codec.canonical import Ordered
from kgd.errors import KgdError
from kgd.exchange.plan import IMPORTED, NAMED_FILE, Export, Output, Reading, Trouble, View, digest, sub_mapping
from kgd.exchange.vault import DETAIL, KEPT, KIND, LINKS_TO, OURS, RESERVED, Vault
from kgd.model.fields import plain
from kgd.model.node import FIELDS, Json, Node, Relation
from kgd.model.uri import is_owned, path_of, scheme_of
from kgd.model.wiki_links import NOTE


def write(view: View) -> Export:
    """A note for each node, except bare resources."""
    files: list[Output] = []
    troubles: list[Trouble] = []
    taken: dict[str, str] = {}
    for node in view.nodes():
        if node.is_bare:
            continue
        path = path_in_vault(node)
        if path and any(part.startswith(".") for part in path.split("/")[:-1]):
            path = ""  # other users' nodes must not write where programs keep their own files
        if not path or (other := taken.setdefault(path.casefold(), node.uri)) != node.uri:
            why = f"{other} has the same file name" if path else "its URI is not a valid file path"
            troubles.append(Trouble(node.uri, f"{why}; left out"))
            continue
        try:
            text = _from_vault(node, path, view, troubles) if _is_note(node) else _own(node, view)
            files.append(Output(path, text.encode()))
        except KgdError as error:
            troubles.append(Trouble(node.uri, f"{error.message}; left out"))
        except UnicodeEncodeError:
            troubles.append(Trouble(node.uri, "it contains an unpaired surrogate; left out"))
    return Export(tuple(files), tuple(troubles), {"notes": len(files)})


def path_in_vault(node: Node) -> str:
    """The path of a node's note: its former path, otherwise a path made from the node's URI; empty if that is not a
    valid path."""
    if _is_note(node):
        assert node.source is not None
        path = posixpath.normpath(node.source.id.partition("/")[2])
        return "" if path.startswith(("..", "/")) or not path.endswith(NOTE) else path
    if not is_owned(node.uri):
        return ""
    scheme = scheme_of(node.uri)
    path = path_of(node.uri)
    if any(0xDC80 <= ord(c) <= 0xDCFF for c in path) or any(ord(c) < 32 for c in path):
        return ""
    plural = f"{scheme[:-1]}ies" if scheme.endswith("y") else f"{scheme}s"
    return f"{path}{NOTE}" if scheme == "concept" else f"{plural}/{path}{NOTE}"


def _is_note(node: Node) -> bool:
    return node.source is not None and node.source.type == KIND and "/" in node.source.id


def _from_vault(node: Node, path: str, view: View, troubles: list[Trouble]) -> str:
    head = sub_mapping(node, KEPT).get("head", "")
    if node.others:
        troubles.append(Trouble(node.uri, f"a note cannot store its keys {', '.join(sorted(node.others))[:120]}"))
    page = front_matter.read(f"{head}{node.content}")
    if page.body != node.content:  # a text that begins with three dashes, after its front matter was deleted
        page = front_matter.Page(str(head) or "---\n---\n", node.content, {})
    name = path.removesuffix(NOTE)
    reader = Vault("", Reading(view.workspace))
    was = reader.node(name, page)
    front = dict(page.front or {})
    data = {key: value for key, value in node.data.items() if key not in (KEPT, IMPORTED, NAMED_FILE)}
    changes = _changes(node, was, front, data)
    if not changes:
        return page.head + page.body
    if page.front is None:
        troubles.append(Trouble(node.uri, "invalid front matter; changes to it were not written"))
        return page.head + page.body
    for key, value in changes.items():
        if value is None:
            front.pop(key, None)
        else:
            front[key] = value
    return front_matter.write(front) + page.body


def _changes(node: Node, was: Node, front: Mapping[str, Json], data: Mapping[str, Json]) -> dict[str, Json]:
    """The front matter keys to set, or to remove (None), so that the note matches the node."""
    changes: dict[str, Json] = {}
    before = {key: value for key, value in was.data.items() if key != KEPT}
    for key in {**before, **data}:
        if data.get(key) != before.get(key):
            changes[key] = data.get(key)
    if node.tags != was.tags:
        gone = set(was.tags) - set(node.tags)
        listed = [tag for tag in front_matter.strings(front.get("tags")) if tag.removeprefix("#") not in gone]
        changes["tags"] = [*listed, *(tag for tag in node.tags if tag not in was.tags)] or None
    if node.summary != was.summary:
        changes["summary"] = node.summary or None
    if node.name != was.name:
        changes["title"] = node.name or None
    return changes


_OF_THE_NOTE = ("uri", "summary", "aliases", "tags", "content", "data")
"""Fields that a note has in another form, or not at all."""


def _own(node: Node, view: View) -> str:
    """A note for a node that did not come from a vault: its links as properties, and the node itself under `kgd`.

    The text is the prose of its memory file, if it has one.
    """
    detail = (view.detail(node) or "").strip("\n")
    values: dict[str, Any] = plain(node)
    data = {key: value for key, value in node.data.items() if key not in (IMPORTED, NAMED_FILE)}
    front: dict[str, Json] = {}
    if node.summary:
        front["summary"] = node.summary
    if node.tags:
        front["tags"] = list(node.tags)
    for type, links in _links(node, view).items():
        front[type if type not in (*RESERVED, *front, "title", "aliases") else LINKS_TO] = links
    ours: dict[str, Json] = {"uri": str(node.uri)}
    ours |= {key: values[key] for key in FIELDS if key in values and key not in _OF_THE_NOTE}
    if data:
        ours["data"] = data
    if node.others:
        ours["others"] = dict(node.others)
    if detail:
        ours["text"] = DETAIL
        if node.content:
            ours["content"] = node.content
    front[OURS] = Ordered({**ours, "digest": digest(node, detail)})
    return front_matter.write(front) + (f"{detail}\n" if detail else node.content)


def _links(node: Node, view: View) -> dict[str, list[Json]]:
    """A map of relation types to links, for relations to other notes."""
    found: dict[str, list[Json]] = {}
    for relation in node.relations:
        if link := _link(relation, view):
            found.setdefault(relation.type, []).append(link)
    return found


def _link(relation: Relation, view: View) -> str:
    target = view.store.resolve(relation.target)
    if not is_owned(target) or scheme_of(target) in ("file", "dir"):
        return ""
    there = view.store.node(target)
    path = path_in_vault(there if there is not None else Node(target))
    if not path or set(path) & set("[]|#^"):
        return ""
    return f"[[{path.removesuffix(NOTE)}]]"
