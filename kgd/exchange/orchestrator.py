"""Import and export of an ``.orchestrator/`` folder: knowledge graph, memories, journal and state.

``decision-001`` becomes ``decision://<ws>/decision-001``; connections become relations; a memory file becomes the
detail of its node. Fields that only this format needs are kept under `KEPT`, so that an export returns the same
entries.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kgd.codec import canonical, front_matter
from kgd.codec.front_matter import strings
from kgd.errors import Invalid, KgdError
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
    filled,
    orchestrator_journal,
    sub_mapping,
    unused,
)
from kgd.exchange.orchestrator_journal import JOURNAL, Entry
from kgd.model.escaping import one_line
from kgd.model.node import NAME_LIMIT, SUMMARY_LIMIT, Json, Node, Relation, Source, cut_at_word
from kgd.model.uri import Uri, from_path, name_of, scheme_of, segments_of, slug

KIND = "orchestrator"
KEPT = "orchestrator"
"""Data key for fields of this format: the order of tags and connections, the file name, and a path unlike the id."""
OURS = "kgd"
"""Key of an entry for fields that only kgd has: the path of its URI, its name, a task's status and sections."""
GRAPH, MEMORIES = "knowledge_graph.json", "memories/"
TYPES = ("task", "decision", "pattern", "gotcha", "insight")
CONNECTED = "connected_to"
BIGGEST_GRAPH = 64 * 2**20
_KNOWN = frozenset({"id", "type", "tags", "summary", "file", "created", "connections", KEPT, OURS, "imported"})
_MIRRORED = frozenset({"id", "type", "date", "tags"})
_HEADING = re.compile(r"^#{1,2}\s+(.+)$", re.M).search


FOLDER = ".orchestrator"

TOPIC = 60
"""Largest number of characters of a node's name in a file name."""
_MEMORY = re.compile(rf"{MEMORIES}[^./\\\x00-\x1f][^/\\\x00-\x1f]*\.md\Z").match
_PLAIN = re.compile(r"[A-Za-z][\w./-]*\Z").match


def sniff(path: Path) -> bool:
    return path.is_dir() and ((path / GRAPH).is_file() or path.name == FOLDER)


def within(path: Path) -> bool:
    """Whether a folder, such as a project's, contains an orchestrator folder but is not one itself."""
    return path.is_dir() and not sniff(path) and (path / FOLDER).is_dir()


def read(root: Path, reading: Reading) -> Plan:
    """The knowledge in the folder, or in the ``.orchestrator`` folder of a project.

    Raises:
        Invalid: The source is not a folder, or contains nothing of this format.
        Limit: The folder has too many files.
    """
    if not root.is_dir():
        raise Invalid(f"the source must be the folder that contains {GRAPH}", at="source")
    if within(root):
        root /= FOLDER
    entries = Entries(root, reading)
    entries.graph()
    entries.memories()
    for entry in entries.past():
        entries.add(entry)
    wanted = [one for one in map(entries.wanted, entries.found.values()) if one is not None]
    if not wanted and not entries.folder.troubles:
        raise Invalid("the folder has no knowledge graph, memories, journal or state", at="source")
    counts = {kind: sum(one.node.type == kind for one in wanted) for kind in TYPES}
    others = len(wanted) - sum(counts.values())
    counts = {f"{kind}s": n for kind, n in counts.items() if n} | ({"others": others} if others else {})
    return Plan(tuple(wanted), troubles=tuple(entries.folder.troubles), counts=counts)


@dataclass(slots=True)
class Entries:
    """The entries of one folder, by id."""

    root: Path
    reading: Reading
    folder: Folder = field(init=False)
    found: dict[str, Entry] = field(default_factory=dict)
    _files: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.folder = Folder(self.root)

    def past(self) -> Iterator[Entry]:
        """More entries, from journal and state."""
        return orchestrator_journal.entries(self.root, self.folder, set(self.found), set(self._files), self.reading)

    def trouble(self, at: str, reason: str) -> None:
        self.folder.troubles.append(Trouble(at, reason))

    def add(self, entry: Entry) -> None:
        if entry.id in self.found:
            self.trouble(entry.at, f"the id {entry.id[:60]} is used twice; only the first entry was imported")
        else:
            self.found[entry.id] = entry

    def graph(self) -> None:
        """Read the nodes of the knowledge graph; each invalid node is reported."""
        nodes = self._nodes()
        for number, values in enumerate(nodes):
            at = f"{GRAPH} nodes[{number}]"
            if not isinstance(values, Mapping):
                self.trouble(at, "not an object; skipped")
                continue
            missing = [key for key in ("id", "type", "summary") if not _text(values.get(key))]
            if missing:
                self.trouble(at, f"it has no {' and no '.join(missing)}; skipped")
                continue
            entry = Entry(
                _text(values["id"]),
                _text(values["type"]),
                f"{GRAPH} {_text(values['id'])[:60]}",
                _text(values["summary"]),
                strings(values.get("tags")),
                _text(values.get("file")),
                _text(values.get("created")),
                strings(values.get("connections")),
                {key: value for key, value in values.items() if key not in _KNOWN and value is not None},
            )
            if isinstance(own := values.get(OURS), Mapping):
                _take_ours(entry, own)
            if entry.file:
                self._read_file(entry)
            self.add(entry)

    def memories(self) -> None:
        """Read the memory files that no node refers to."""
        for name in self.folder.paths(
            lambda path: path.startswith(MEMORIES) and path.endswith(".md"), lambda path: path == MEMORIES.strip("/")
        ):
            if name in self._files:
                continue
            self._files.add(name)
            stem = name[len(MEMORIES) : -3]
            entry = Entry("", "insight", name, file=name)
            if (front := self._take_memory(entry, name)) is None:
                continue
            entry.id = _text(front.get("id")) or stem
            if entry.id in self.found:
                self.trouble(name, f"the node {entry.id[:60]} has a different file; this one was skipped")
                continue
            entry.type = _text(front.get("type")) or entry.id.partition("-")[0]
            entry.type = entry.type if _text(front.get("type")) or entry.type in TYPES else "insight"
            entry.summary = entry.name or stem
            self.add(entry)

    def wanted(self, entry: Entry) -> Wanted | None:
        """The node of an entry. If the entry is invalid, report it and return None."""
        try:
            uri = self.uri(entry.id, entry.type)
            for target in entry.connections:
                if target not in self.found:
                    self.trouble(entry.at, f"it is connected to {target[:60]}, which does not exist: a broken link")
            node, detail = self._node(entry, uri)
            return Wanted(node, detail, entry.file, entry.at)
        except KgdError as error:
            self.trouble(entry.at, f"{error.message}; skipped")
            return None

    def uri(self, id: str, type: str = "") -> Uri:
        """The URI of an id.

        Raises:
            Invalid, Limit: The id cannot be part of a URI.
        """
        known = self.found.get(id)
        kind = type or (known.type if known else id.partition("-")[0])
        below = f"{self.reading.below}/" if self.reading.below else ""
        path = (known.path if known else "") or id
        return from_path(kind if kind in TYPES else "concept", self.reading.workspace, below + path)

    def _node(self, entry: Entry, uri: Uri) -> tuple[Node, str]:
        summary = one_line(entry.summary)
        content, detail = ("", entry.detail) if entry.type in TYPES else (entry.detail, "")
        if len(summary) > SUMMARY_LIMIT and not content:
            content = f"{summary}\n"
        relations = {self.uri(id): Relation(CONNECTED, self.uri(id)) for id in entry.connections}
        relations.pop(uri, None)
        tags = list(dict.fromkeys(tag.lower() for tag in entry.tags))
        kept: dict[str, Json] = {
            "file": entry.file,
            "path": entry.path,
            "tags": tags if tags != sorted(tags) else None,
            "connections": entry.connections if list(relations) != sorted(relations) else None,
        }
        data = {**entry.data, **filled({"created": entry.created, KEPT: filled(kept)})}
        node = Node(
            uri,
            entry.type,
            entry.name[:NAME_LIMIT],
            cut_at_word(summary),
            content,
            tuple(tags),
            data,
            Source(KIND, f"{self.root.resolve().parent.name}/{entry.id}"),
            tuple(relations.values()),
        )
        return node, detail

    def _nodes(self) -> list[Any]:
        path = self.root / GRAPH
        if not path.exists():
            return []
        try:
            if path.is_symlink() or not path.is_file() or path.stat().st_size > BIGGEST_GRAPH:
                self.trouble(GRAPH, "not a regular file of at most 64 MiB; skipped")
                return []
            values = json.loads(path.read_text(encoding="utf-8-sig"))
        except json.JSONDecodeError as error:
            self.trouble(f"{GRAPH}:{error.lineno}", f"not JSON: {error.msg}; the graph was skipped")
            return []
        except (OSError, ValueError, RecursionError):
            self.trouble(GRAPH, "cannot be read as UTF-8 text; the graph was skipped")
            return []
        nodes = values.get("nodes") if isinstance(values, Mapping) else None
        if not isinstance(nodes, list):
            self.trouble(GRAPH, "it has no list of nodes; the graph was skipped")
            return []
        return nodes

    def _read_file(self, entry: Entry) -> None:
        """Read the file of a node: a memory file becomes the node's detail, a task's file its sections."""
        name = entry.file
        if name.startswith("/") or ".." in name.split("/") or "\\" in name:
            self.trouble(entry.at, f"its file {name[:80]} is outside the folder; skipped")
        elif self.folder.leads_out(name):
            self.trouble(entry.at, f"its file {name[:80]} is behind a symbolic link; skipped")
        elif not (self.root / name).exists():
            self.trouble(entry.at, f"its file {name[:80]} does not exist")
        elif name in self._files:
            self.trouble(entry.at, f"its file {name[:80]} belongs to another node")
        else:
            self._files.add(name)
            if name.startswith(JOURNAL):
                self._take_task(entry, name)
            else:
                self._take_memory(entry, name)

    def _take_task(self, entry: Entry, name: str) -> None:
        text = self.folder.text(name)
        if text is not None:
            found = orchestrator_journal.task(text)
            entry.data |= found.data
            entry.name = entry.name or found.title

    def _take_memory(self, entry: Entry, name: str) -> Mapping[str, Json] | None:
        text = self.folder.text(name)
        if text is None:
            return None
        page = front_matter.read(text)
        front = page.front
        if front is None:
            self.trouble(f"{name}:{page.line}", f"invalid front matter: {page.problem}; the text was imported")
            front = {}
        entry.detail = page.body.replace("\r\n", "\n")
        entry.tags += [tag for tag in strings(front.get("tags")) if tag not in entry.tags]
        entry.created = entry.created or _text(front.get("date"))
        entry.data |= {
            key: value for key, value in front.items() if key not in _MIRRORED | _KNOWN and value is not None
        }
        entry.name = entry.name or heading_of(page.body)
        if not entry.detail.strip():
            self.trouble(name, "it has no text")
        return front


def heading_of(text: str) -> str:
    """The title of a memory; empty if it has no heading."""
    heading = _HEADING(text)
    return one_line(heading[1]) if heading else ""


def _take_ours(entry: Entry, own: Mapping[str, Any]) -> None:
    """Restore the fields that an export by kgd added."""
    entry.name, entry.path = _text(own.get("name")), _text(own.get("path"))
    if isinstance(own.get("status"), str):
        entry.data["status"] = own["status"]
    if isinstance(own.get("sections"), list):
        entry.data["sections"] = own["sections"]


def _text(value: Any) -> str:
    return one_line(value) if isinstance(value, str) else str(value) if isinstance(value, int) else ""


def write(view: View) -> Export:
    """Write all memories in the view, and other nodes that were imported from an orchestrator folder. Leave out the
    remaining nodes."""
    chosen: list[Node] = []
    others = 0
    for node in view.nodes():
        if node.type in TYPES or _is_from_here(node):
            chosen.append(node)
        elif not node.is_bare:
            others += 1
    ids = _ids(chosen)
    dates = {node.uri: _created(node, view) for node in chosen}
    chosen.sort(key=lambda node: (dates[node.uri][:10], ids[node.uri]))
    files: list[Output] = []
    entries: list[dict[str, Json]] = []
    left: Counter[str] = Counter()
    taken: set[str] = set()
    for node in chosen:
        entry = _entry(node, ids, dates[node.uri], view)
        text = _long_text(node, view)
        if text is not None:
            entry["file"] = _file_name(node, str(entry["file"] or ""), dates[node.uri], taken)
            files.append(Output(str(entry["file"]), _memory(entry, node, text)))
        if ours := _ours(node, ids[node.uri], text or ""):
            entry[OURS] = ours
        entries.append(entry)
        left.update(relation.type for relation in node.relations if relation.type != CONNECTED)
    index: dict[str, list[Json]] = {}
    for entry in entries:
        for tag in _strings(entry["tags"]):
            index.setdefault(tag, []).append(entry["id"])
    graph = {"version": 1, "last_updated": _newest(chosen, view), "nodes": entries, "tag_index": index}
    files.insert(0, Output(GRAPH, json.dumps(graph, indent=2, ensure_ascii=False).encode() + b"\n"))
    troubles = [Trouble("", f"this format has no place for {n} relations of type {type}") for type, n in left.items()]
    if others:
        troubles.append(Trouble("", f"{others} nodes are not memories and were left out"))
    return Export(tuple(files), tuple(troubles), {"nodes": len(entries), "memories": len(files) - 1})


def _long_text(node: Node, view: View) -> str | None:
    """The text of a memory file: the node's detail or, without detail, its content if that says more than the
    summary."""
    detail = view.detail(node)
    if detail is not None or _is_whole(node) or node.content.split() in ([], node.summary.split()):
        return detail
    return node.content


def _ours(node: Node, id: str, text: str) -> dict[str, Json]:
    """The fields for which the format has no key, except fields in a journal file."""
    kept = sub_mapping(node, KEPT)
    found: dict[str, Json] = {}
    path = str(kept.get("path") or "") if _is_from_here(node) else _path(node)
    if path and path != id:
        found["path"] = path
    if str(kept.get("file") or "").startswith(JOURNAL):
        return found
    if node.name and node.name != heading_of(text):
        found["name"] = node.name
    return found | {key: node.data[key] for key in ("status", "sections") if node.data.get(key)}


def _path(node: Node) -> str:
    """The path of the node's URI, if type and path determine the URI."""
    if scheme_of(node.uri) != node.type:
        return ""
    try:
        segments = [segment.decode() for segment in segments_of(node.uri)]
    except UnicodeDecodeError:
        return ""
    return "" if any("/" in segment for segment in segments) else "/".join(segments)


def _is_from_here(node: Node) -> bool:
    return node.source is not None and node.source.type == KIND


def _ids(nodes: Iterable[Node]) -> dict[Uri, str]:
    """The id that each node had in its source; otherwise the last segment of its URI, numbered to be unique."""
    ids: dict[Uri, str] = {}
    taken: set[str] = set()
    for node in sorted(nodes, key=lambda node: (not _is_from_here(node), node.uri)):
        wanted = node.source.id.partition("/")[2] if node.source and _is_from_here(node) else ""
        wanted = wanted or name_of(node.uri)
        if not _is_from_here(node) and not wanted.startswith(f"{node.type}-"):
            wanted = f"{node.type}-{wanted}"
        ids[node.uri] = unused(wanted, taken)
    return ids


def _entry(node: Node, ids: Mapping[Uri, str], created: str, view: View) -> dict[str, Json]:
    kept = sub_mapping(node, KEPT)
    targets = [view.store.resolve(relation.target) for relation in node.relations if relation.type == CONNECTED]
    connections = [ids.get(target) or name_of(target) for target in targets]
    own = {"sections", "status", OURS, KEPT, IMPORTED, NAMED_FILE}
    summary = " ".join(node.content.split()) if _is_whole(node) else node.summary or node.title
    entry: dict[str, Json] = {
        "id": ids[node.uri],
        "type": node.type,
        "tags": _in_order(node.tags, kept.get("tags")),
        "summary": summary,
        "file": str(kept.get("file") or "") or None,
        "created": created,
        "connections": _in_order(connections, kept.get("connections")),
    }
    return entry | {key: value for key, value in sorted(node.data.items()) if key not in own | entry.keys()}


def _is_whole(node: Node) -> bool:
    """Whether the content begins with the whole of the shortened summary."""
    return node.summary.endswith("…") and node.content.startswith(node.summary[:-1].rstrip())


def _in_order(values: Sequence[str], order: Any) -> list[Json]:
    before = [value for value in _strings(order) if value in values]
    return [*dict.fromkeys(before), *(value for value in values if value not in before)]


def _strings(value: Any) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _created(node: Node, view: View) -> str:
    said = node.data.get("created")
    return said if isinstance(said, str) and said else _moment(view.stamps(node.uri)[0])[:10]


def _newest(nodes: Iterable[Node], view: View) -> str:
    return _moment(max((view.stamps(node.uri)[1] for node in nodes), default=0))


def _moment(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _file_name(node: Node, before: str, date: str, taken: set[str]) -> str:
    """The name of the node's file in its source; otherwise its name in the workspace; otherwise a name made from the
    node's date and name."""
    topic = slug(name_of(node.uri))[:TOPIC] or node.type
    wanted = (before, str(node.data.get(NAMED_FILE) or ""), f"{MEMORIES}{date[:10]}-{topic}.md", f"{MEMORIES}memory.md")
    name = next(name for name in wanted if _MEMORY(name))
    return unused(name.removesuffix(".md"), taken, ".md")


def _memory(entry: Mapping[str, Json], node: Node, text: str) -> bytes:
    """The memory file, with front matter in the usual form."""
    head = [f"id: {_scalar(entry['id'])}", f"type: {_scalar(entry['type'])}", f"date: {_date(entry['created'])}"]
    head.append(f"tags: [{', '.join(map(_scalar, _strings(entry['tags'])))}]")
    return "\n".join(["---", *head, "---", "", text.strip("\n"), ""]).encode()


def _scalar(value: Json) -> str:
    text = str(value)
    return text if _PLAIN(text) and canonical.is_plain(text) else canonical.quote(text)


def _date(value: Json) -> str:
    return str(value)[:10] if re.match(r"\d{4}-\d\d-\d\d", str(value)) else _scalar(value)
