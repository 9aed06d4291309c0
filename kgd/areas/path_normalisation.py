"""Normalisation of paths in any spelling, relative to the code tree, for matching with areas."""

from __future__ import annotations

import os
import posixpath
import re
from pathlib import Path
from urllib.parse import unquote_to_bytes

from kgd.errors import KgdError
from kgd.model import uri as uris

LONGEST, LONGEST_NAME, DEEPEST = 4096, 255, 128
"""Limits of a path: characters, bytes of a name, number of names. Real code trees stay below them."""
_LINES = re.compile(r"(?:(?::\d+){1,2}(?:-\d+)?|#L\d+(?:-L?\d+)?)$")
_DRIVE = re.compile(r"[A-Za-z]:/").match
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://").match


def normalise(text: str, code_tree: Path | None, *, workspace: str = "") -> str | None:
    """The path relative to the top of the code tree, with `/` between names; None if it is outside.

    Accepts absolute and relative paths, backslashes, `file:` URIs, surrounding blanks, and line numbers as editors and
    compilers add them (`a.py:12`, `a.py#L12`). A final slash of a directory is kept; the top itself is "". The file
    need not exist.

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
    """An absolute path relative to the tree. Symbolic links above the tree are resolved, links inside it are not."""
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
    """Whether a name that ends like a line number, or has a backslash, exists literally; others are not checked."""
    if code_tree is None or not ("\\" in text or _LINES.search(text)):
        return False
    try:
        return os.path.lexists(code_tree / text)
    except (OSError, ValueError):
        return False
