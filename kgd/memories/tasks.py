"""Tasks: status, sections, and the sections with a special meaning, read from a node.

The functions are pure. Task nodes may be written by hand, so every shape of data is accepted, and replacing a section
never loses other data.

Paths in the section Context Files are read from prose, bullets and comma-separated lists, line by line; if a line is
unclear, only this line is skipped. The file system is not consulted; the caller reports paths without a file as
unmatched.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

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
"""Maximum number of patterns, and of gotchas, recorded from one task."""

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
    """The fields of a task. `criteria`, `patterns` and `gotchas` have one item per line; `files` are paths as written.

    `objective` is the text of the section with that name or, without this section, the node's content or summary; it
    may be empty.
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
    """The sections in order; invalid sections are left out.

    The headings of the content are sections too, unless ``data.sections`` has a section of the same title.
    """
    found = sections_in(node.data.get("sections"))
    known = {_key(one.title) for one in found}
    return (*found, *(one for one in _headed(node.content) if _key(one.title) not in known))


def sections_in(value: Json) -> tuple[Section, ...]:
    """The sections of ``data.sections`` in order; invalid sections are left out."""
    return tuple(one for one in map(_section, _listed(value)) if one is not None)


def with_sections(old: Json, given: Sequence[Section]) -> list[Json]:
    """The stored list, in which each given section replaces the section of the same title, or is appended.

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
    """The items of a text, one per line, without bullets and duplicates. An indented line below a bullet continues
    it."""
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
    """The normal form of a title: ``Acceptance criteria:`` is the section Acceptance Criteria."""
    return re.sub(r"[\W_]+", " ", title).strip().casefold()


PATHS_LIMIT = 1_000
"""Maximum number of paths in one section; a longer list should be a directory."""

_LINE = 2_000
"""Maximum number of characters to read of a line."""

_PATH_BULLET = re.compile(r"\s*(?:>\s?)*(?:[-*+•]|\d{1,4}[.)])\s+(?:\[[ xX]\]\s+)?")
_SPAN = re.compile(r"`+([^`\n]+)`+|\]\(([^()\s]+)\)|\"([^\"\n]+)\"")
"""A delimited name: in backticks, as the target of a link, in quotes. It may contain blanks and commas."""
_NOTE = re.compile(r"\s(?:--?|[–—]|->|=>|→|#|//|\||\()|:\s|\t")
"""Start of a note after a path."""
_PLACE = re.compile(r"(?:::.*|#L?\d.*|:\d+(?::\d+|-\d+)?)\Z", re.S)
"""A line number, a range of lines or the name of a test, after the path of a file."""
_ENDING = re.compile(r"[^.\s]\.[A-Za-z0-9_+-]*[A-Za-z][A-Za-z0-9_+-]*\Z")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_WITHOUT_ENDING = frozenset(
    """
    makefile dockerfile containerfile justfile procfile gemfile rakefile vagrantfile brewfile jenkinsfile license
    licence copying authors codeowners readme changelog
    """.split()
)
_NO_PATH = frozenset(["e.g", "i.e", "n/a", "and/or", "etc", "w/o", "a.k.a", "vs"])


def read_paths(text: str) -> tuple[str, ...]:
    """The distinct paths in a Context Files section, in order and as written.

    Paths are separated by line ends or commas. Bullets, numbers, check boxes, backticks, quotes, line numbers and notes
    such as ``- why`` are removed. Other text is skipped. Linear in the length of the text.
    """
    found: dict[str, str] = {}
    for line in text.splitlines():
        for path in _paths_of(line[:_LINE]):
            found.setdefault(_same(path), path)
            if len(found) >= PATHS_LIMIT:
                return tuple(found.values())
    return tuple(found.values())


def _paths_of(line: str) -> list[str]:
    if bullet := _PATH_BULLET.match(line):
        line = line[bullet.end() :]
    if line.lstrip().startswith(("```", "~~~")):
        return []
    found: list[str] = []
    end = 0
    in_note = False
    for span in _SPAN.finditer(line):
        plain = line[end : span.start()]
        found += [] if in_note else _plain_paths(plain)
        # A path and " - " are followed by a note; delimited text in the note is another file.
        in_note = bool(found) and "," not in plain and (in_note or bool(_NOTE.search(f" {plain.strip()} ")))
        if not in_note:
            found += _set_apart(next(filter(None, span.groups())), is_quoted=span.group(3) is not None)
        end = span.end()
    return found if in_note else found + _plain_paths(line[end:])


def _set_apart(text: str, *, is_quoted: bool) -> list[str]:
    """The paths in backticks or quotes. Quotes enclose one path, possibly with commas; backticks may enclose a list."""
    whole = _bare(text)
    pieces = [piece for piece in map(_bare, _pieces(text)) if piece]
    if all(map(_may_be_path, pieces)) and not is_quoted:
        return pieces
    return [whole] if _may_be_path(whole, blanks=True) else list(filter(_may_be_path, pieces))


def _plain_paths(text: str) -> list[str]:
    return [path for piece in _pieces(text) for path in _of_piece(piece)]


def _of_piece(piece: str) -> list[str]:
    """The path in a piece between commas, perhaps with a note; otherwise only the unmistakable paths in it."""
    note = _NOTE.search(piece)
    head = _bare(piece[: note.start()] if note else piece)
    if head and not any(map(str.isspace, head)):
        if _may_be_path(head):
            return [head]
    elif _is_named_with_blanks(head):
        return [head]
    return [word for word in map(_bare, piece.split()) if _is_path_beyond_doubt(word)]


def _pieces(text: str) -> list[str]:
    """Split at commas and semicolons, except inside patterns such as ``{a,b}.ts``."""
    if "{" not in text:
        return re.split("[,;]", text)
    pieces, depth, start = [], 0, 0
    for n, char in enumerate(text):
        depth = max(0, depth + {"{": 1, "}": -1}.get(char, 0))
        if char in ",;" and not depth:
            pieces.append(text[start:n])
            start = n + 1
    return [*pieces, text[start:]]


def _bare(text: str) -> str:
    """A name without surrounding punctuation and without a line number after it."""
    text = text.strip().strip("\"'<>").rstrip(".,;:!?")
    if text.startswith("**") and text.endswith("**") and len(text) > 4:
        text = text[2:-2].rstrip(".,;:!?")
    text = text.removeprefix('["').removeprefix("[ ").removesuffix('"]')
    for opening, closing in ("()", "[]"):
        if text.startswith(opening) and not (opening == "[" and "]" in text):
            text = text[1:]
        if text.endswith(closing) and text.count(closing) > text.count(opening):
            text = text[:-1]
    bare = _PLACE.sub("", text) if not _SCHEME.match(text) else text
    return (bare or text).strip("\"' ")


def _may_be_path(text: str, *, blanks: bool = False) -> bool:
    """Whether a name that stands alone can be a file or directory."""
    lower = text.lower()
    if not text.isprintable() or lower in _NO_PATH or len(text) > 1_024 or (not blanks and " " in text):
        return False
    if scheme := _SCHEME.match(text):
        return scheme.group().lower() in ("file://", "dir://")
    if text.startswith(("@", "--", "$(")) or not any(map(str.isalnum, text)):
        return False
    is_spaced = " " in text
    has_slash = "/" in text or "\\" in text
    if is_spaced:
        return has_slash or (bool(_ENDING.search(text)) and len(text.split()) <= 3)
    return has_slash or bool(_ENDING.search(text)) or _is_hidden(text) or lower in _WITHOUT_ENDING


def _is_path_beyond_doubt(word: str) -> bool:
    """Whether a word in a sentence is certainly a path, as ``src/main.py`` is, but not ``read/write`` or
    ``README.md``."""
    if _SCHEME.match(word):
        return _may_be_path(word)
    cut = word.replace("\\", "/")
    last = cut.rstrip("/").rpartition("/")[2]
    is_directory = cut.endswith("/") and cut.count("/") > 1
    return "/" in cut and (bool(_ENDING.search(last)) or is_directory or "**" in cut) and _may_be_path(word)


def _is_named_with_blanks(text: str) -> bool:
    """Whether the text is a path with spaces, such as ``docs/My File.md``, and not a sentence."""
    words = text.split(" ")
    return (
        1 < len(words) <= 3
        and "/" in words[0]
        and not _is_path_beyond_doubt(_bare(words[0]))
        and bool(_ENDING.search(text))
        and "/" not in "".join(words[1:])
        and not any(word.islower() and word.isalpha() for word in words[1:-1])
        and _may_be_path(text, blanks=True)
    )


def _is_hidden(text: str) -> bool:
    return len(text) > 2 and text.startswith(".") and text[1].isalpha()


def _same(path: str) -> str:
    """The path in a normal form, in which equal paths are equal."""
    path = path.replace("\\", "/")
    while path.startswith("./"):
        path = path[2:].lstrip("/")
    return path.rstrip("/")
