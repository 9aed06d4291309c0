"""Paths in the code tree: normalisation of any spelling, and segments of path patterns compared with names.

Patterns are matched without regular expressions: they are untrusted, and backtracking could stop the daemon.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import unquote_to_bytes

from kgd.errors import Invalid, KgdError
from kgd.model import uri as uris
from kgd.model.globs import has_parts

LONGEST, LONGEST_NAME, DEEPEST = 4096, 255, 128
"""Limits of a path: characters, bytes of a name, number of names. Real code trees stay below these limits."""
_LINES = re.compile(r"(?:(?::\d+){1,2}(?:-\d+)?|#L\d+(?:-L?\d+)?)$")
_DRIVE = re.compile(r"[A-Za-z]:/").match
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://").match


def normalise(text: str, code_tree: Path | None, *, workspace: str = "") -> str | None:
    """The path relative to the top of the code tree, with `/` between names; None if it is outside.

    Accepts absolute and relative paths, backslashes, `file:` URIs, surrounding whitespace, and line numbers in the
    style of editors and compilers (`a.py:12`, `a.py#L12`). A final slash of a directory is kept; the top itself is "".
    The file need not exist.

    Args:
        workspace: Workspace of accepted `file://<workspace>/` and `dir://<workspace>/` URIs; any if empty.
    """
    text = text.strip().strip("\"'`")
    if not text or len(text) > LONGEST or not _is_name(text):
        return None
    found = _found(text, code_tree, workspace)
    return found if found is None or _may_be_there(found) else None


def _found(text: str, code_tree: Path | None, workspace: str) -> str | None:
    if _SCHEME(text):
        return _of_uri(text, code_tree, workspace)
    if not _is_there(code_tree, text):
        text = _LINES.sub("", text)
        if not _is_there(code_tree, text):
            text = text.replace("\\", "/")
    return _inside(text, code_tree)


def _may_be_there(path: str) -> bool:
    """Whether the path is within the limits, which bound the cost of matching."""
    names = path.split("/")
    return len(names) <= DEEPEST and (
        len(path) <= LONGEST_NAME // 4 or all(len(os.fsencode(n)) <= LONGEST_NAME for n in names)
    )


def _of_uri(text: str, code_tree: Path | None, workspace: str) -> str | None:
    scheme, _, rest = text.partition("://")
    if scheme.lower() not in uris.CODE_TREE:
        return None
    rest = _LINES.sub("", rest)
    host, slash, path = rest.partition("/")
    if not host or (host == "localhost" and workspace != host):  # a file URI of another program
        path = unquote_to_bytes(path).decode("utf-8", "surrogateescape")
        return _inside(path if _DRIVE(path) else f"/{path}", code_tree)
    if workspace and host != workspace:
        return None
    if not slash or path in ("", "_"):
        return ""
    try:
        segments = [uris.decode_segment(segment) for segment in path.strip("/").split("/")]
    except KgdError:
        return None
    inside = _inside(b"/".join(segments).decode("utf-8", "surrogateescape"), None)
    is_directory = scheme.lower() == "dir" or path.endswith("/")
    return f"{inside}/" if inside and is_directory and not inside.endswith("/") else inside


def _inside(text: str, code_tree: Path | None) -> str | None:
    if text.startswith("/") or _DRIVE(text):
        return _below(text, code_tree) if code_tree is not None else None
    path = posixpath.normpath(text)
    if path == ".":
        return ""
    if path == ".." or path.startswith("../"):
        return None
    return f"{path}/" if text.endswith(("/", "/.")) else path


def _below(text: str, code_tree: Path | None) -> str | None:
    """An absolute path relative to the tree. Symbolic links above the tree are resolved; links inside it are not."""
    tops = dict.fromkeys((os.fspath(code_tree or ""), os.path.realpath(code_tree or "")))
    for path in (text, os.path.realpath(text)):
        for top in tops:
            relative = os.path.relpath(os.path.normpath(path), top)
            if relative == ".":
                return ""
            if relative != ".." and not relative.startswith(f"..{os.sep}"):
                return f"{relative}/" if text.endswith("/") else relative
    return None


def _is_name(text: str) -> bool:
    """Whether the text is a possible file name."""
    try:
        return b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        return False


def _is_there(code_tree: Path | None, text: str) -> bool:
    """Whether a file has exactly this name. Checked only for names that end like a line number or have a backslash."""
    if code_tree is None or not ("\\" in text or _LINES.search(text)):
        return False
    try:
        return os.path.lexists(code_tree / text)
    except (OSError, ValueError):
        return False


class_at = re.compile(r"\[[!^]?\]?[^\]/]*\]").match

Token = Callable[[str], bool] | str | None
"""A token of a segment: a character, a class of characters, or None for any number of any characters."""


def fits_to(segment: str) -> Callable[[str], bool]:
    """A predicate for the names that match a segment. The literal spelling always matches: some folders are called
    `[slug]`.
    """
    if "?" in segment or "[" in segment:
        tokens = tokens_of(segment, segment, "")
        return lambda name: name == segment or _run(tokens, name)
    parts = re.sub(r"\*+", "*", segment).split("*")
    return lambda name: has_parts(name, parts)


def _run(tokens: Sequence[Token], name: str) -> bool:
    """Match greedily; retrying only the last `*` suffices. O(tokens x characters)."""
    at = index = resume = 0
    anchor = -1
    while at < len(name):
        token = tokens[index] if index < len(tokens) else ""
        if token is None:
            anchor, resume = index, at
            index += 1
        elif token == name[at] or (callable(token) and token(name[at])):
            at, index = at + 1, index + 1
        elif anchor >= 0:
            resume += 1
            at, index = resume, anchor + 1
        else:
            return False
    return all(token is None for token in tokens[index:])


def tokens_of(segment: str, whole: str, at: str) -> list[Token]:
    tokens: list[Token] = []
    index = 0
    while index < len(segment):
        char = segment[index]
        if char == "[":
            found = class_at(segment, index)
            if found is None:
                raise refused(whole, "a class is not closed in its segment", at, "Close it with ], or use [[] for [.")
            tokens.append(_class(found[0][1:-1], whole, at))
            index = found.end()
            continue
        if char == "*":
            if not tokens or tokens[-1] is not None:
                tokens.append(None)
        else:
            tokens.append((lambda char: True) if char == "?" else char)
        index += 1
    return tokens


def _class(inside: str, whole: str, at: str) -> Callable[[str], bool]:
    negated = inside[0] in "!^"
    text = inside[1:] if negated else inside
    if any(mark in text for mark in ("[:", "[.", "[=")):
        raise refused(whole, "named classes are not supported", at, "Use characters or ranges, as in [a-z0-9].")
    if not text:
        raise refused(whole, "a class is empty", at, "Put characters between [ and ].")
    ranges: list[tuple[str, str]] = []
    index = 0
    while index < len(text):
        low = high = text[index]
        if text[index + 1 : index + 2] == "-" and index + 2 < len(text):
            high = text[index + 2]
            index += 2
        if low > high:
            raise refused(whole, f"the range {low}-{high} is reversed", at, f"Use {high}-{low}.")
        ranges.append((low, high))
        index += 1
    return lambda char: any(low <= char <= high for low, high in ranges) != negated


def refused(pattern: str, why: str, at: str, next: str) -> Invalid:
    shown = pattern if len(pattern) <= 80 else f"{pattern[:80]}…"
    return Invalid(f"'{shown}' is not a valid path pattern: {why}", at=at, next=next)
