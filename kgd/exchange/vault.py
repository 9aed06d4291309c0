"""Import and export of a vault of Markdown notes (Obsidian's, or plain files).

A note becomes a concept: its folders and name become the URI's path, its text the content, its tags the tags, its links
relations, and its other front matter keys `data`. The front matter is also kept as written, so that exporting an
unedited note returns the same bytes.

An export writes notes that came from a vault, and other nodes. An unedited note keeps its bytes. In an edited note, the
front matter is rewritten: the keys keep their order, only changed keys change, and comments are lost.
"""

from __future__ import annotations

import posixpath
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kgd.codec import front_matter
from kgd.codec.canonical import Ordered
from kgd.codec.front_matter import Page, strings
from kgd.errors import MALFORMED, Invalid, KgdError
from kgd.exchange import (
    IMPORTED,
    NAMED_FILE,
    Export,
    Folder,
    Output,
    Plan,
    Reading,
    Trouble,
    View,
    Wanted,
    digest,
    filled,
    sub_mapping,
    without_nulls,
)
from kgd.model import wiki_links
from kgd.model.escaping import one_line, printable
from kgd.model.fields import from_plain, plain
from kgd.model.node import (
    FIELDS,
    LABEL_LIMIT,
    NAME_LIMIT,
    TAGS_LIMIT,
    Json,
    Node,
    Relation,
    Source,
    check_label,
    cut_at_word,
)
from kgd.model.uri import OWNED, Uri, from_path, is_owned, parse, path_of, scheme_of
from kgd.model.wiki_links import NOTE, Link, Names

KIND = "vault"
"""Source type of a note; the id is the vault's folder and the note's path in it."""
KEPT = "vault"
"""Data key for fields that only this format needs."""
OURS = "kgd"
"""Front matter key that holds the node in a note that kgd wrote."""
DETAIL = "detail"
"""Value of `text` in a note by kgd if the note's text is the prose of a memory file, not the node's content."""
MARKS = (".obsidian", ".logseq", ".foam")
LINKS_TO, EMBEDS = "links_to", "embeds"
WEIGHT = 0.5
RESERVED = frozenset({KEPT, IMPORTED, NAMED_FILE, OURS, "tags", "tag", "relations"})
LOOKED_AT = 2_000
"""Largest number of files that are examined to detect a vault."""

_FILE = re.compile(r".*\.[A-Za-z][A-Za-z0-9]{1,4}\Z").match
_HEADING = re.compile(r"#{1,6}\s+(.*)").match


def sniff(path: Path) -> bool:
    """Whether the folder has settings of a note program, or Markdown files that are not hidden."""
    if not path.is_dir():
        return False
    if any((path / mark).is_dir() for mark in MARKS):
        return True
    for number, found in enumerate(path.rglob("*")):
        if found.suffix == NOTE and not any(part.startswith(".") for part in found.relative_to(path).parts):
            return True
        if number > LOOKED_AT:
            break
    return False


def read(root: Path, reading: Reading) -> Plan:
    """Every note as a node.

    Raises:
        Invalid: The source is not a folder.
        Limit: The vault has too many files.
    """
    if not root.is_dir():
        raise Invalid("a vault must be a folder", at="source")
    folder = Folder(root)
    names = list(folder.paths(lambda path: path.endswith(NOTE), _enters))
    pages = {name.removesuffix(NOTE): front_matter.read(text) for name, text in folder.texts(names)}
    vault = Vault(printable(root.name), reading, folder.troubles)
    vault.names.add(pages)
    for path, page in pages.items():
        for alias in aliases(page.front or {}):
            vault.names.add_alias(alias, path)
        if (uri := vault.own_uri(page)) is not None:
            vault.ours[path] = uri
    vault.here = frozenset(vault.ours.values())
    wanted = [one for path, page in pages.items() if (one := vault.wanted(path, page)) is not None]
    if left := Counter({suffix or "without ending": n for suffix, n in folder.left.items()}):
        kinds = ", ".join(f"{n} {suffix}" for suffix, n in left.most_common(6))
        folder.troubles.append(Trouble("", f"{left.total()} other files are not notes and were skipped: {kinds}"))
    counts = {"notes": len(names), "links": vault.links, "broken_links": len(vault.missing)}
    return Plan(tuple(wanted), troubles=tuple(folder.troubles), counts=counts)


def _enters(path: str) -> bool:
    return not path.rpartition("/")[2].startswith(".") and path.rpartition("/")[2] != "node_modules"


@dataclass(slots=True)
class Vault:
    """The notes of one vault by name, and the targets of their links."""

    name: str
    reading: Reading
    troubles: list[Trouble] = field(default_factory=list)
    names: Names = field(default_factory=Names)
    missing: dict[str, Uri] = field(default_factory=dict)
    ours: dict[str, Uri] = field(default_factory=dict)
    """Path to node, for notes that kgd wrote."""
    here: frozenset[Uri] = frozenset()
    """The nodes of those notes."""
    links: int = 0

    def wanted(self, path: str, page: Page) -> Wanted | None:
        """The node of a note. If the note is invalid, report it and return None."""
        at = path + NOTE
        if page.front is None:
            reason = f"invalid front matter: {page.problem}. The text was imported; the front matter was not changed"
            self.troubles.append(Trouble(f"{at}:{page.line}", reason))
        try:
            if isinstance(mine := (page.front or {}).get(OURS), Mapping):
                return self._own(at, page, mine)
            return Wanted(self.node(path, page), at=at)
        except KgdError as error:
            self.troubles.append(Trouble(at, f"{error.message}; skipped"))
            return None

    def node(self, path: str, page: Page) -> Node:
        """The concept of a note.

        Raises:
            KgdError: The name or text is not valid for a node.
        """
        uri, front = self.uri(path), page.front or {}
        prose = wiki_links.prose(page.body)
        data: dict[str, Json] = {key: value for key, value in without_nulls(front).items() if key not in RESERVED}
        if page.head:
            data[KEPT] = {"head": page.head}
        return Node(
            uri,
            name=title(front, path),
            summary=summary(front, prose),
            content=page.body,
            tags=tuple(self._tags(path, front, prose)),
            data=data,
            source=Source(KIND, f"{self.name}/{path}{NOTE}"),
            relations=tuple(self._relations(path, uri, front, prose)),
        )

    def uri(self, path: str) -> Uri:
        below = f"{self.reading.below}/" if self.reading.below else ""
        return from_path("concept", self.reading.workspace, unicodedata.normalize("NFC", below + path))

    def own_uri(self, page: Page) -> Uri | None:
        """The node in this workspace that a note by kgd represents; None for other notes."""
        mine = (page.front or {}).get(OURS)
        text = str(mine.get("uri", "")) if isinstance(mine, Mapping) else ""
        scheme, path = text.partition("://")[0], text.split("/", 3)[3:]
        try:
            return parse(f"{scheme}://{self.reading.workspace}/{path[0]}") if scheme in OWNED and path else None
        except KgdError:
            return None

    def _own(self, at: str, page: Page, mine: Mapping[str, Json]) -> Wanted:
        """The node of a note that kgd wrote, with the note's current text, tags and summary."""
        front, uri = page.front or {}, self.own_uri(page)
        if uri is None:
            raise Invalid("its property 'kgd' does not name a node")
        is_detail = mine.get("text") == DETAIL
        content = mine.get("content") or "" if is_detail else page.body
        values: dict[str, Any] = {
            **{name: mine[name] for name in FIELDS if mine.get(name) is not None and name != "aliases"},
            "uri": uri,
            "content": content,
            "summary": front.get("summary") or "",
            "tags": strings(front.get("tags")),
        }
        others = mine.get("others") or {}
        try:
            if not isinstance(others, Mapping):
                raise TypeError
            node = replace(from_plain(values), others=others)
        except MALFORMED:
            raise Invalid("its property 'kgd' has been edited and is now invalid") from None
        detail, base = page.body if is_detail else "", str(mine.get("digest") or "-")
        moved = self._moved(node, str(mine.get("uri", "")))
        if moved != node and digest(node, detail) == base:  # unchanged since kgd wrote it, but in another workspace
            base = digest(moved, detail)
        return Wanted(moved, detail, at=at, base=base)

    def _moved(self, node: Node, former: str) -> Node:
        """The node, with relations to notes of another workspace redirected to the nodes of those notes here."""
        start = "/".join(former.split("/", 3)[2:3])
        if start == self.reading.workspace:
            return node

        def at_home(target: Uri) -> Uri:
            scheme, _, place = target.partition("://")
            owner, _, path = place.partition("/")
            new = Uri(f"{scheme}://{self.reading.workspace}/{path}")
            return new if owner == start and new in self.here else target

        return replace(node, relations=tuple(replace(one, target=at_home(one.target)) for one in node.relations))

    def _tags(self, path: str, front: Mapping[str, Json], prose: str) -> list[str]:
        found = [tag.removeprefix("#").strip() for tag in (*strings(front.get("tags")), *strings(front.get("tag")))]
        kept: list[str] = []
        for tag in dict.fromkeys((*found, *wiki_links.tags(prose))):
            try:
                check_label(tag, "tag")
            except KgdError:
                self.troubles.append(Trouble(path + NOTE, f"a tag has more than {LABEL_LIMIT} characters; left out"))
            else:
                kept.append(tag)
        if len(kept) > TAGS_LIMIT:
            self.troubles.append(Trouble(path + NOTE, f"it has more than {TAGS_LIMIT} tags; the others were left out"))
        return kept[:TAGS_LIMIT]

    def _relations(self, path: str, uri: Uri, front: Mapping[str, Json], prose: str) -> list[Relation]:
        """A relation for each linked note, of the strongest kind that occurs: property, embed, link."""
        found: dict[tuple[str, str], Relation] = {}
        for key, value in front.items():
            for target in linked(value):
                try:
                    self._add(found, path, uri, Link(target, is_embed=False, is_path=False), key, 1.0)
                except KgdError as error:
                    self.troubles.append(
                        Trouble(path + NOTE, f"the property '{key[:40]}' is not a relation: {error.message}")
                    )
        for link in wiki_links.links(prose):
            if _FILE(link.target) and not link.target.endswith(NOTE) and self.names.find(link, path) is None:
                continue  # an image or another file
            try:
                self._add(found, path, uri, link, EMBEDS if link.is_embed else LINKS_TO, WEIGHT)
            except KgdError as error:
                self.troubles.append(Trouble(path + NOTE, f"a link was left out: {error.message}"))
        return list(found.values())

    def _add(
        self, found: dict[tuple[str, str], Relation], path: str, uri: Uri, link: Link, type: str, weight: float
    ) -> None:
        self.links += 1
        target = self._target(path, link)
        if target != uri:
            relation = Relation(type, target, weight)
            found.setdefault(relation.key, relation)

    def _target(self, path: str, link: Link) -> Uri:
        """The URI of a link's target; for a missing note, the URI is made from the first spelling of its name."""
        if "://" in link.target:
            return parse(link.target)
        there = self.names.find(link, path)
        if there is not None:
            return self.ours.get(there) or self.uri(there)
        name = link.target.removesuffix(NOTE).strip("/")
        key = unicodedata.normalize("NFKC", name).casefold()
        if key not in self.missing:
            self.missing[key] = self.uri(name)
        return self.missing[key]


def title(front: Mapping[str, Json], path: str) -> str:
    given = front.get("title")
    name = one_line(given) if isinstance(given, str) else ""
    return (name or one_line(path.rpartition("/")[2]))[:NAME_LIMIT]


def summary(front: Mapping[str, Json], prose: str) -> str:
    """The note's own summary, otherwise the first line of its text that is not a heading."""
    for key in ("summary", "description"):
        if isinstance(given := front.get(key), str) and given.strip():
            return cut_at_word(one_line(given))
    first = ""
    for line in prose[:4_000].splitlines():
        text = one_line(line)
        if not text or set(text) <= set("-=*_ >|"):
            continue
        heading = _HEADING(text)
        if heading is None:
            return cut_at_word(text.lstrip("-*> "))
        first = first or heading[1]
    return cut_at_word(one_line(first))


def aliases(front: Mapping[str, Json]) -> list[str]:
    return [*strings(front.get("aliases")), *strings(front.get("alias"))]


def linked(value: Json) -> list[str]:
    """The targets of a property whose values are all links; otherwise empty."""
    items = value if isinstance(value, list) else [value]
    found = [wiki_links.whole_link(item) if isinstance(item, str) else None for item in items]
    return [target for target in found if target] if all(found) else []


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
    for key, new, old in (("summary", node.summary, was.summary), ("title", node.name, was.name)):
        if new != old:
            changes[key] = new or None
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
    front = filled({"summary": node.summary, "tags": list(node.tags)})
    for type, links in _links(node, view).items():
        front[type if type not in (*RESERVED, *front, "title", "aliases") else LINKS_TO] = links
    text: dict[str, Json] = {"text": DETAIL, "content": node.content} if detail else {}
    ours = {
        "uri": str(node.uri),
        **{key: values[key] for key in FIELDS if key in values and key not in _OF_THE_NOTE},
        **filled({"data": data, "others": dict(node.others), **text}),
        "digest": digest(node, detail),
    }
    front[OURS] = Ordered(ours)
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
