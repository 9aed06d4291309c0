"""Paths in the section Context Files of a task, from prose, bullets and comma-separated lists.

Such lists are written in many ways, so they are read line by line, and an unclear line is skipped alone. The file
system is not consulted; the caller reports paths without a file as unmatched.
"""

from __future__ import annotations

import re

PATHS_LIMIT = 1_000
"""Paths of one section; a longer list should be a directory."""

_LINE = 2_000
"""Characters of a line that are read."""

_BULLET = re.compile(r"\s*(?:>\s?)*(?:[-*+•]|\d{1,4}[.)])\s+(?:\[[ xX]\]\s+)?")
_SPAN = re.compile(r"`+([^`\n]+)`+|\]\(([^()\s]+)\)|\"([^\"\n]+)\"")
"""A delimited name: in backticks, as the target of a link, in quotes. It may contain blanks and commas."""
_NOTE = re.compile(r"\s(?:--?|[–—]|->|=>|→|#|//|\||\()|:\s|\t")
"""Start of a note after a path."""
_PLACE = re.compile(r"(?:::.*|#L?\d.*|:\d+(?::\d+|-\d+)?)\Z", re.S)
"""A line, a range or a test after the path of a file."""
_ENDING = re.compile(r"[^.\s]\.[A-Za-z0-9_+-]*[A-Za-z][A-Za-z0-9_+-]*\Z")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_WITHOUT_ENDING = frozenset(
    [
        "makefile",
        "dockerfile",
        "containerfile",
        "justfile",
        "procfile",
        "gemfile",
        "rakefile",
        "vagrantfile",
        "brewfile",
        "jenkinsfile",
        "license",
        "licence",
        "copying",
        "authors",
        "codeowners",
        "readme",
        "changelog",
    ]
)
_NO_PATH = frozenset(["e.g", "i.e", "n/a", "and/or", "etc", "w/o", "a.k.a", "vs"])


def read_paths(text: str) -> tuple[str, ...]:
    """The distinct paths in a Context Files section, in order and as written.

    They are separated by lines or commas. Bullets, numbers, check boxes, backticks, quotes, line numbers and notes such
    as ``- why`` are removed. Other text is skipped. Linear in the length of the text.
    """
    found: dict[str, str] = {}
    for line in text.splitlines():
        for path in _paths_of(line[:_LINE]):
            found.setdefault(_same(path), path)
            if len(found) >= PATHS_LIMIT:
                return tuple(found.values())
    return tuple(found.values())


def _paths_of(line: str) -> list[str]:
    if bullet := _BULLET.match(line):
        line = line[bullet.end() :]
    if line.lstrip().startswith(("```", "~~~")):
        return []
    found: list[str] = []
    end = 0
    in_note = False
    for span in _SPAN.finditer(line):
        plain = line[end : span.start()]
        found += [] if in_note else _plain(plain)
        # After a path and " - " follows a note; delimited text in it names another file.
        in_note = bool(found) and "," not in plain and (in_note or bool(_NOTE.search(f" {plain.strip()} ")))
        if not in_note:
            found += _set_apart(next(filter(None, span.groups())), is_quoted=span.group(3) is not None)
        end = span.end()
    return found if in_note else found + _plain(line[end:])


def _set_apart(text: str, *, is_quoted: bool) -> list[str]:
    """The paths in backticks or quotes. Quotes enclose one path, possibly with commas; backticks may enclose a list."""
    whole = _bare(text)
    pieces = [piece for piece in map(_bare, _pieces(text)) if piece]
    if all(map(_may_be_path, pieces)) and not is_quoted:
        return pieces
    return [whole] if _may_be_path(whole, blanks=True) else list(filter(_may_be_path, pieces))


def _plain(text: str) -> list[str]:
    return [path for piece in _pieces(text) for path in _of_piece(piece)]


def _of_piece(piece: str) -> list[str]:
    """The path in a piece between commas, perhaps with a note; else the unmistakable paths in it."""
    note = _NOTE.search(piece)
    head = _bare(piece[: note.start()] if note else piece)
    if head and not any(map(str.isspace, head)):
        if _may_be_path(head):
            return [head]
    elif _is_named_with_blanks(head):
        return [head]
    return [word for word in map(_bare, piece.split()) if _is_path_beyond_doubt(word)]


def _pieces(text: str) -> list[str]:
    """Split at commas and semicolons outside of patterns such as ``{a,b}.ts``."""
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
    """Whether a word in a sentence is surely a path, as ``src/main.py`` is but not ``read/write`` or ``README.md``."""
    if _SCHEME.match(word):
        return _may_be_path(word)
    cut = word.replace("\\", "/")
    last = cut.rstrip("/").rpartition("/")[2]
    is_directory = cut.endswith("/") and cut.count("/") > 1
    return "/" in cut and (bool(_ENDING.search(last)) or is_directory or "**" in cut) and _may_be_path(word)


def _is_named_with_blanks(text: str) -> bool:
    """Whether the text is a path with blanks, such as ``docs/My File.md``, and not a sentence."""
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
    """Normal form of a path's spelling."""
    path = path.replace("\\", "/")
    while path.startswith("./"):
        path = path[2:].lstrip("/")
    return path.rstrip("/")
