"""Tasks: status, sections, and the sections with a special meaning, read from a node.

Pure. Task nodes may be written by hand, so every shape of data is accepted, and replacing a section loses nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kgd.memories.context_files import read_paths
from kgd.model.node import Json, Node
from kgd.model.uri import Uri

STATUSES = ("pending", "in-progress", "completed", "cancelled")
TERMINAL = frozenset({"completed", "cancelled"})
NEXT: Mapping[str, tuple[str, ...]] = {
    "pending": ("in-progress", "completed", "cancelled"),
    "in-progress": ("completed", "cancelled"),
    "completed": (),
    "cancelled": (),
}
"""The statuses that may follow each status; the first is the default."""

DEPENDS_ON = "depends_on"
ITEMS_LIMIT = 100
"""Patterns or gotchas recorded from one task."""

OBJECTIVE, CRITERIA, FILES = "Objective", "Acceptance Criteria", "Context Files"
NOTES, PATTERNS, GOTCHAS = "Handoff Notes", "Patterns", "Gotchas"

_OTHER_WORDS = {
    "todo": "pending",
    "open": "pending",
    "doing": "in-progress",
    "started": "in-progress",
    "done": "completed",
    "complete": "completed",
    "closed": "completed",
    "canceled": "cancelled",
}
_BULLET = re.compile(r"(\s*)(?:[-*+•]|\d{1,4}[.)])\s+(?:\[[ xX]\]\s+)?")
_HEADING = re.compile(r" {0,3}#{1,6}[ \t]+(\S.*)")
_NOTHING = frozenset({"none", "n/a", "na", "nothing", "-", "tbd", "no", "none so far", "..."})


@dataclass(frozen=True, slots=True)
class Section:
    title: str
    content: str


@dataclass(frozen=True, slots=True)
class Task:
    """The fields of a task. `criteria`, `patterns` and `gotchas` have one item a line; `files` are paths as written.

    `objective` is its section's text, else the node's content or summary; it may be empty.
    """

    uri: Uri
    name: str
    status: str
    sections: tuple[Section, ...]
    objective: str
    criteria: tuple[str, ...]
    files: tuple[str, ...]
    notes: str
    patterns: tuple[str, ...]
    gotchas: tuple[str, ...]
    depends_on: tuple[Uri, ...]


def parsed(node: Node) -> Task:
    """The task in a node; never raises for its content."""
    sections = sections_of(node)

    def text(title: str) -> str:
        return "\n".join(one.content for one in sections if _key(one.title) == _key(title)).strip()

    return Task(
        uri=node.uri,
        name=node.title,
        status=status_of(node),
        sections=sections,
        objective=text(OBJECTIVE) or node.content.strip() or node.summary,
        criteria=items(text(CRITERIA)),
        files=read_paths(text(FILES)),
        notes=text(NOTES),
        patterns=items(text(PATTERNS)),
        gotchas=items(text(GOTCHAS)),
        depends_on=tuple(one.target for one in node.relations if one.type == DEPENDS_ON),
    )


def status_of(node: Node) -> str:
    """One of `STATUSES`, normalised from other spellings; an unknown status is returned as written."""
    written = node.data.get("status")
    if not isinstance(written, str) or not written.strip():
        return "pending"
    plain = re.sub(r"[\s_-]+", "-", written.strip().lower())
    return plain if plain in STATUSES else _OTHER_WORDS.get(plain, written.strip()[:60])


def sections_of(node: Node) -> tuple[Section, ...]:
    """The sections in order; invalid ones are left out.

    The headings of the content are sections too, unless ``data.sections`` has one of the same title.
    """
    found = [one for one in map(_section, _listed(node.data.get("sections"))) if one is not None]
    known = {_key(one.title) for one in found}
    return (*found, *(one for one in _headed(node.content) if _key(one.title) not in known))


def with_sections(old: Json, given: Sequence[Section]) -> list[Json]:
    """The stored list with each given section in place of the one of its title, or appended.

    A section with empty content is removed.
    """
    new = {_key(one.title): _plain(one) if one.content.strip() else None for one in given}
    out: dict[object, Json] = {}
    for number, one in enumerate(_listed(old)):
        section = _section(one)
        key = _key(section.title) if section else None
        if key in new:
            out[key] = new[key]
        else:
            out[number] = one
    out |= {key: section for key, section in new.items() if key not in out}
    return [one for one in out.values() if one is not None]


def items(text: str) -> tuple[str, ...]:
    """One item a line, without its bullet, each once. An indented line below a bullet continues it."""
    found: list[str] = []
    inside, indent = False, 0
    for line in text.splitlines():
        bare = line.strip()
        bullet = _BULLET.match(line)
        if not bare or bare.startswith(("#", "```", "~~~")):
            inside = False
        elif bullet:
            inside, indent = True, len(bullet.group(1))
            found.append(line[bullet.end() :].strip())
        elif inside and len(line) - len(line.lstrip()) > indent:
            found[-1] = f"{found[-1]} {bare}"
        else:
            inside = False
            found.append(bare)
    kept = (one for one in found if one.lower().rstrip(".") not in _NOTHING and any(map(str.isalnum, one)))
    return tuple(dict.fromkeys(kept))


def _listed(value: Json) -> list[Any]:
    """The list of sections; also accepts a mapping of titles to texts, and one text without a title."""
    if isinstance(value, Mapping):
        if "title" in value and "content" in value:
            return [value]
        return [{"title": str(title), "content": content} for title, content in value.items()]
    if isinstance(value, str) and value.strip():
        return [{"title": NOTES, "content": value}]
    return list(value) if isinstance(value, list) else []


def _section(one: Any) -> Section | None:
    if not isinstance(one, Mapping) or not isinstance(title := one.get("title"), str) or not title.strip():
        return None
    return Section(title.strip(), _text(one.get("content")))


def _headed(content: str) -> list[Section]:
    """The sections below the headings of a Markdown text."""
    found: list[tuple[str, list[str]]] = []
    in_code = False
    for line in content.splitlines() if "#" in content else ():
        in_code ^= line.lstrip().startswith(("```", "~~~"))
        heading = None if in_code else _HEADING.match(line)
        if heading:
            found.append((heading[1].rstrip("# \t"), []))
        elif found:
            found[-1][1].append(line)
    return [Section(title, text) for title, lines in found if title and (text := "\n".join(lines).strip())]


def _text(content: Json) -> str:
    if isinstance(content, list):
        return "\n".join(str(line) for line in content if isinstance(line, str | int | float))
    return content if isinstance(content, str) else ""


def _plain(section: Section) -> dict[str, Json]:
    return {"title": section.title, "content": section.content.strip()}


def _key(title: str) -> str:
    """Normal form of a title: ``Acceptance criteria:`` is the section Acceptance Criteria."""
    return re.sub(r"[\W_]+", " ", title).strip().casefold()
