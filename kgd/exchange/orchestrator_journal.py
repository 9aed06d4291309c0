"""Import of an orchestrator's journal and state, which predate its knowledge graph.

Completed tasks of the journal become task nodes with their sections. Key decisions, patterns and gotchas of the state
become nodes. The files were written by hand, so several layouts are accepted.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kgd.codec import front_matter
from kgd.codec.front_matter import strings
from kgd.errors import KgdError
from kgd.exchange import Folder, Reading, Trouble
from kgd.model.escaping import one_line
from kgd.model.node import Json
from kgd.model.uri import slug

JOURNAL = "journal/"
INDEX = "journal/index.md"
STATES = tuple(
    """
    orchestrator_state.json orchestrator_state.yaml orchestrator_state.yml orchestrator_state.md state.json state.yaml
    state.yml state.md orchestrator_memory.md session_state.md
    """.split()
)
_STATUSES = "completed complete done in-progress in_progress pending blocked failed cancelled todo".split()
COMPLETED = frozenset({"completed", "complete", "done"})
WORDS = 6
KINDS: Mapping[str, str] = {
    "key decisions": "decision",
    "decisions": "decision",
    "patterns": "pattern",
    "learned patterns": "pattern",
    "gotchas": "gotcha",
    "learned gotchas": "gotcha",
}
"""Headings under which each list item is an entry."""

_TASK_ID = re.compile(r"\btask-[\w.-]*\w", re.I)
_FILE = re.compile(r"(?<![\w./-])[\w./-]{1,200}?\.md\b")
# Each of these reads every character at most once per line, even in hostile text.
_STATUS = re.compile(r"^[^\w\n]*status\W+([\w-]+)", re.I | re.M).search
_DEPENDENCIES = re.compile(r"^[^\w\n]*(?:dependencies|depends[ _]on)\W+(.*)$", re.I | re.M).search
_SECTION = re.compile(r"^(#{1,6})[ \t]+(.*)$", re.M)
_ITEM = re.compile(r"^[ \t]*(?:[-*+]|\d+[.)])[ \t]+(.*)$")
_BLOCK = re.compile(r"^```(?:ya?ml|json)[ \t]*\n(.*?)^```[ \t]*$", re.S | re.M | re.I)


@dataclass(slots=True)
class Entry:
    """A node to be created; `at` is its place in the source."""

    id: str
    type: str
    at: str
    summary: str = ""
    tags: list[str] = field(default_factory=list)
    file: str = ""
    created: str = ""
    connections: list[str] = field(default_factory=list)
    data: dict[str, Json] = field(default_factory=dict)
    detail: str = ""
    name: str = ""
    path: str = ""
    """Path of the node's URI, if it differs from the id."""


@dataclass(slots=True)
class Task:
    """A task's file; its sections go into `data` like the sections of other tasks."""

    title: str = ""
    status: str = ""
    summary: str = ""
    created: str = ""
    tags: list[str] = field(default_factory=list)
    dependencies: list[str] = field(default_factory=list)
    data: dict[str, Json] = field(default_factory=dict)

    def section(self, *names: str) -> str:
        sections = self.data.get("sections")
        for one in sections if isinstance(sections, list) else ():
            if isinstance(one, Mapping) and str(one["title"]).lower() in names:
                return str(one["content"])
        return ""


def entries(
    root: Path, folder: Folder, known: Collection[str], files: Collection[str], reading: Reading
) -> Iterator[Entry]:
    """The entries of journal and state that are not yet known.

    Args:
        files: Files of the known entries.
    """
    yield from _journal(folder, known, files, reading)
    seen: set[str] = set(known)
    for name in STATES:
        if (root / name).is_file() and (text := folder.text(name)) is not None:
            for kind, item, at in _state(name, text, folder):
                entry = _learned(kind, item, at, reading)
                if entry is not None and entry.id not in seen:
                    seen.add(entry.id)
                    yield entry


def task(text: str) -> Task:
    """Read a task's file: optional front matter, a title, sections."""
    page = front_matter.read(text)
    front, body = page.front or {}, page.body
    found = Task(status=_word(front.get("status")), created=str(front.get("created") or front.get("date") or ""))
    found.tags = strings(front.get("tags"))
    found.dependencies = strings(front.get("dependencies")) or strings(front.get("depends_on"))
    sections: list[Json] = []
    marks = list(_SECTION.finditer(body))
    intro = body[: marks[0].start()] if marks else body
    ends = [*(mark.start() for mark in marks[1:]), len(body)]
    for mark, end in zip(marks, ends, strict=False):
        content = body[mark.end() : end].strip("\n")
        if len(mark[1]) == 1 and not found.title:
            found.title, intro = one_line(_title(mark)), f"{intro}\n{content}"
        elif title := _title(mark).strip():
            sections.append({"title": one_line(title)[:120], "content": content})
    if sections:
        found.data["sections"] = sections
    if not found.status:
        said = _STATUS(intro)
        found.status = said[1].lower() if said else _word(found.section("status"))
    if not found.dependencies:
        listed = _DEPENDENCIES(intro)
        found.dependencies = _TASK_ID.findall(listed[1] if listed else found.section("dependencies"))
    found.summary = str(front.get("summary") or "") or _first_line(found.section("summary", "result", "outcome"))
    found.data["status"] = "completed" if found.status in COMPLETED else found.status or "completed"
    return found


def _title(heading: re.Match[str]) -> str:
    """The heading without closing number signs."""
    return heading[2].rstrip("#").rstrip(" \t")


def _journal(folder: Folder, known: Collection[str], files: Collection[str], reading: Reading) -> Iterator[Entry]:
    """The completed tasks that have no node in the graph, neither by id nor by file."""
    names = folder.paths(
        lambda path: path.startswith(JOURNAL) and path.endswith(".md") and path != INDEX,
        lambda path: path == JOURNAL.strip("/"),
    )
    is_there = (folder.root / INDEX).is_file() and not folder.leads_out(INDEX)
    index = folder.text(INDEX) if is_there else None
    statuses, ids = _index(index or ""), _ids_of_files(index or "")
    unfinished, listed = 0, set[str]()
    for name, text in folder.texts(names):
        found = task(text)
        front = front_matter.read(text).front or {}
        stem = name[len(JOURNAL) : -3]
        id = str(front.get("id") or "") or ids.get(name) or _id_of(stem, statuses, known)
        listed.add(id)
        if id in known or name in files:
            continue
        if (statuses.get(id) or found.data["status"]) not in COMPLETED:
            unfinished += 1
            continue
        found.data["status"] = "completed"
        objective = found.section("objective", "goal") or found.title
        notes = found.section("handoff notes", "handoff", "notes")
        summary = found.summary or _first_line(notes) or _first_line(objective) or found.title or id
        tags = found.tags or list(reading.keywords(f"{objective}\n{notes}"))
        yield Entry(
            id, "task", name, summary, tags, name, found.created, found.dependencies, found.data, name=found.title
        )
    if unfinished:
        folder.troubles.append(Trouble(JOURNAL, f"{unfinished} tasks are not completed and were skipped"))
    absent = sorted(id for id, status in statuses.items() if status in COMPLETED and id not in listed | set(known))
    for id in absent:
        folder.troubles.append(Trouble(INDEX, f"{id[:60]} is listed as completed, but its file is missing"))


def _index(text: str) -> dict[str, str]:
    """Map task ids to statuses, from lines that contain an id and either a word for a status or a ticked box."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        id = _TASK_ID.search(line)
        if id is None:
            continue
        words = set(re.findall(r"[a-z]+(?:[-_][a-z]+)?", line[: id.start()].lower() + " " + line[id.end() :].lower()))
        status = next((word for word in _STATUSES if word in words), "")
        if not status and re.search(r"\[x\]|✅|✓", line, re.I):
            status = "completed"
        elif not status and "[ ]" in line:
            status = "pending"
        key = id[0].removesuffix(".md").lower()
        found.setdefault(key, status)
    return found


def _ids_of_files(text: str) -> dict[str, str]:
    """The task of each file that the index names on a line with exactly one task id."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        names = {file.rpartition("/")[2] for file in _FILE.findall(line)}
        tasks = {id.lower() for id in _TASK_ID.findall(_FILE.sub(" ", line))}
        if len(tasks) == 1:
            found |= dict.fromkeys((f"{JOURNAL}{name}" for name in names), *tasks)
    return found


def _id_of(stem: str, statuses: Mapping[str, str], known: Collection[str]) -> str:
    """``task-001`` for ``task-001-auth``: the longest prefix that is a known id, otherwise ``task-<number>``."""
    parts = stem.lower().split("-")
    for end in range(len(parts), 1, -1):
        id = "-".join(parts[:end])
        if id in statuses or id in known:
            return id
    number = re.match(r"(task-\d+)(?:-|\Z)", stem.lower())
    return number[1] if number else stem if stem.lower().startswith("task-") else f"task-{stem}"


def _state(name: str, text: str, folder: Folder) -> Iterator[tuple[str, Any, str]]:
    """(kind, item, place) of each decision, pattern and gotcha in a state that is data or prose."""
    if name.endswith(".md"):
        page = front_matter.read(text)
        yield from _of_values(page.front or {}, name)
        for block in _BLOCK.finditer(page.body):
            yield from _of_values(_values(block[1]), f"{name}:{text.count(chr(10), 0, text.find(block[0])) + 1}")
        yield from _of_prose(_BLOCK.sub("", page.body), name)
        return
    values = _values(text)
    if values is None:
        folder.troubles.append(Trouble(name, "neither JSON nor YAML; skipped"))
    yield from _of_values(values or {}, name)


def _values(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        page = front_matter.read(f"---\n{text}\n---\n")
    except KgdError:
        return None
    return page.front


def _of_values(values: Any, at: str) -> Iterator[tuple[str, Any, str]]:
    if not isinstance(values, Mapping):
        return
    inner = values.get("orchestrator_state")
    if isinstance(inner, Mapping):
        yield from _of_values(inner, at)
    learned = values.get("learned_context")
    lists = [("decision", values.get("key_decisions"))]
    for kind, key in (("pattern", "patterns"), ("gotcha", "gotchas")):
        lists.append((kind, learned.get(key) if isinstance(learned, Mapping) else None))
    for kind, items in lists:
        for number, item in enumerate(items if isinstance(items, list) else ()):
            yield kind, item, f"{at} {kind}s[{number}]"


def _of_prose(text: str, name: str) -> Iterator[tuple[str, Any, str]]:
    kind = ""
    for number, line in enumerate(text.splitlines(), 1):
        if heading := _SECTION.match(line):
            kind = KINDS.get(_title(heading).strip(" :*").lower(), "")
        elif kind and (item := _ITEM.match(line)) and not line.startswith((" ", "\t")):
            yield kind, item[1].strip(), f"{name}:{number}"


def _learned(kind: str, item: Any, at: str, reading: Reading) -> Entry | None:
    values: Mapping[str, Any] = item if isinstance(item, Mapping) else {}
    said = (
        item
        if isinstance(item, str)
        else next(
            (
                values[key]
                for key in ("summary", "decision", "description", "pattern", "gotcha", "text", "title")
                if isinstance(values.get(key), str)
            ),
            "",
        )
    )
    text = re.sub(r"[*_`]{1,3}", "", one_line(said)).strip()
    if not text:
        return None
    more = "\n\n".join(
        f"{key}: {values[key]}"
        for key in ("rationale", "reason", "why", "details", "context")
        if isinstance(values.get(key), str)
    )
    id = str(values.get("id") or "") or _made_id(kind, text)
    tags = strings(values.get("tags")) or list(reading.keywords(text))
    created = str(values.get("date") or values.get("created") or "")
    return Entry(id, kind, at, text, tags, created=created, detail=f"{text}\n\n{more}\n" if more else "")


def _made_id(kind: str, text: str) -> str:
    """An id from the first words and a digest of the whole text, so that every import gives the same id."""
    return f"{kind}-{words_in_id(text)}-{hashlib.sha256(text.encode()).hexdigest()[:6]}"


def words_in_id(text: str) -> str:
    """The first words of a text, as they are in an id."""
    return "-".join(slug(text).split("-")[:WORDS])[:60].strip("-")


def _first_line(text: str) -> str:
    for line in text.splitlines():
        stripped = _ITEM.sub(r"\1", line).strip()
        if stripped:
            return one_line(stripped)
    return ""


def _word(value: Any) -> str:
    words = str(value or "").split()
    return words[0].strip("*_`").lower() if words else ""
