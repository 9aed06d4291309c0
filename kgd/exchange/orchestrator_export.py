"""Export of memories to an ``.orchestrator/`` folder: ``knowledge_graph.json`` and memory files."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from kgd.codec import canonical
from kgd.exchange.orchestrator import CONNECTED, GRAPH, KEPT, KIND, MEMORIES, OURS, TYPES, heading_of
from kgd.exchange.orchestrator_journal import JOURNAL
from kgd.exchange.plan import IMPORTED, NAMED_FILE, Export, Output, Trouble, View, sub_mapping, unused
from kgd.model.node import Json, Node
from kgd.model.uri import Uri, name_of, scheme_of, segments_of

TOPIC = 60
"""Largest number of characters of a node's name in a file name."""
_MEMORY = re.compile(rf"{MEMORIES}[^./\\\x00-\x1f][^/\\\x00-\x1f]*\.md\Z").match
_PLAIN = re.compile(r"[A-Za-z][\w./-]*\Z").match


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
    topic = re.sub(r"[\W_]+", "-", name_of(node.uri).lower()).strip("-")[:TOPIC] or node.type
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
