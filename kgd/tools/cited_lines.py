"""Lines of code in citations and subjects: the symbol that encloses them is stored instead, because lines move."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from kgd.errors import Invalid
from kgd.freshness.citations import placed
from kgd.freshness.code import spans_of
from kgd.model.change import Edit, Upsert
from kgd.model.fields import CITES
from kgd.model.uri import CODE_TREE, Uri, name_of, scheme_of
from kgd.tools import addressing, file_paths, worktrees
from kgd.tools.nodes import printable
from kgd.tools.session import Session
from kgd.workspace.workspace import Workspace

_OF_A_PAGE = re.compile(r"(?P<path>[^#\n]+)#L(?P<first>\d{1,7})(?:-L?(?P<last>\d{1,7}))?").fullmatch
"""Lines as hosts of repositories write them, such as ``src/app.py#L12-L20``."""


def cited(session: Session, workspace: Workspace, text: str, *, at: str) -> tuple[str, str]:
    """The citation to store for a text, from the top of the code tree, and a warning if it named lines.

    ``src/app.py:12-20`` becomes the innermost symbol that contains the lines or, if there is none, the file.

    Raises:
        Invalid: The file does not have the lines.
    """
    locate = partial(file_paths.locate_existing, session, workspace)
    asked = _lines_in(session, workspace, text)
    path = locate(asked[0]) if asked else None
    if asked is None or path is None or file_paths.is_directory(workspace, path):
        return placed(text, locate, workspace.id, partial(_exists, session, workspace)), ""
    _, first, last = asked
    lines = f"line {first}" if first == last else f"lines {first}-{last}"
    code = worktrees.code_for(workspace, session.own_cwd) if session.principal is None else None
    source = code.text(path) if code is not None else None
    if source is not None:
        addressing.await_symbols(session, workspace, path)
        length = len(source.splitlines())
        if not 1 <= first <= last <= length:
            raise Invalid(
                f"{path} has {length} line{'' if length == 1 else 's'}, and no {lines}",
                at=at,
                next="Give lines that the file has, the smaller number first, or PATH#SYMBOL.",
            )
        if symbol := _enclosing(session, workspace, path, source, first, last):
            return f"{path}#{symbol}", printable(f"cites {path}#{symbol}, which contains {lines}")
    return path, printable(f"cites {path} as a whole: no known symbol contains {lines}, and kgd stores no line numbers")


def without_lines(session: Session, workspace: Workspace, edits: Sequence[Edit]) -> tuple[tuple[Edit, ...], list[str]]:
    """The edits with symbols instead of lines in ``data.cites``, and the warnings.

    Raises:
        Invalid: A file does not have the lines.
    """
    made, warnings = list[Edit](), list[str]()
    for number, edit in enumerate(edits):
        given = edit.data.get(CITES) if isinstance(edit, Upsert) else None
        texts = given if isinstance(given, list) else [given]
        if not isinstance(edit, Upsert) or not all(isinstance(text, str) for text in texts):
            made.append(edit)  # without citations, or refused later
            continue
        found = {
            n: cited(session, workspace, text, at=f"changes[{number}].data.cites")
            for n, text in enumerate(texts)
            if _lines_in(session, workspace, text)
            or (not _is_plain(text) and file_paths.is_known(session, workspace, text))
        }
        if found:
            warnings += [warning for _, warning in found.values() if warning]
            cites = dict.fromkeys(found[n][0] if n in found else text for n, text in enumerate(texts))
            edit = replace(edit, data={**edit.data, CITES: list(cites)})
        made.append(edit)
    return tuple(made), warnings


def _exists(session: Session, workspace: Workspace, path: str) -> bool:
    """Whether the served code or the caller's work tree has a file; `locate_existing` accepts any path without code."""
    other = worktrees.another(workspace, session.own_cwd)
    return file_paths.is_known(session, workspace, path) or (other is not None and os.path.lexists(other / path))


def _is_plain(text: str) -> bool:
    """Whether a path has no character with a special meaning in citations."""
    return not any(sign in text for sign in "#:@") or "://" in text


def subject(session: Session, workspace: Workspace, text: str, *, at: str) -> tuple[Uri, str]:
    """The address that a fact is about, and a warning if the text named lines or an unknown symbol of a file."""
    if "://" in text or not (_lines_in(session, workspace, text) or "#" in text):
        return addressing.spell(session, workspace, text, at=at), ""
    citation, warning = cited(session, workspace, text, at=at)
    path, _, symbol = citation.partition("#")
    uri = addressing.spell(session, workspace, citation, at=at)
    if scheme_of(uri) == "concept" and symbol and file_paths.locate_existing(session, workspace, path):
        uri, like = addressing.spell(session, workspace, path, at=at), _similar(session, workspace, path, symbol)
        warning = printable(f"{symbol[:80]} was not found in {path[:200]}; the fact is about the whole file{like}")
    return uri, warning.replace("cites ", "is about ", 1)


def _similar(session: Session, workspace: Workspace, path: str, symbol: str) -> str:
    """A question about the symbols of a file with similar names, qualified or not; empty without any."""
    place = file_paths.locate_existing(session, workspace, path) or path
    known = list(map(name_of, worktrees.symbol_lines(workspace, session.own_cwd, place)))
    last = symbol.rpartition(".")[2]
    found = addressing.alike(symbol, known) or [
        one for one in known if addressing.alike(last, [one.rpartition(".")[2]])
    ]
    return f"; did you mean {', '.join(f'{path}#{one}' for one in found[: addressing.SUGGESTED])}?" if found else ""


def target(session: Session, workspace: Workspace, text: str, *, at: str) -> tuple[Uri, str]:
    """The address of a relation's target. For an unknown ``PATH#NAME`` of an existing path, this is the path, with a
    warning."""
    uri = addressing.spell(session, workspace, text, at=at)
    if "#" not in text or "://" in text or workspace.exists(uri):
        return uri, ""
    found, warning = subject(session, workspace, text, at=at)
    if scheme_of(found) not in (*CODE_TREE, "symbol"):
        return uri, ""
    return found, warning.replace("the fact is about", "the relation leads to").replace("is about ", "leads to ", 1)


def _lines_in(session: Session, workspace: Workspace, text: str) -> tuple[str, int, int] | None:
    """The path, the first line and the last line of a text; None if it names no lines, or is the path of a file."""
    text = text.strip()
    found = None if "://" in text else addressing.lines_of(text)
    if found is None and (page := _OF_A_PAGE(text)):
        found = page["path"], int(page["first"]), int(page["last"] or page["first"])
        place = file_paths.locate_existing(session, workspace, page["path"])
        if place is not None:
            addressing.await_symbols(session, workspace, place)
            if text.rpartition("#")[2] in map(name_of, worktrees.symbol_lines(workspace, session.own_cwd, place)):
                return None  # a symbol called L1
    return None if found is None or file_paths.is_known(session, workspace, text) else found


def _enclosing(session: Session, workspace: Workspace, path: str, source: str, first: int, last: int) -> str:
    """The innermost symbol that contains the lines, by the index and by the search of citations; empty without one.

    Of two definitions of one name, a citation finds only one.
    """
    ranges = worktrees.symbol_lines(workspace, session.own_cwd, path)
    around = {name_of(uri): b - a for uri, (a, b) in ranges.items() if a <= first and last <= b}
    spans = spans_of(source, around, path)
    found = (name for name, (a, b) in spans.items() if a < first and last <= b)
    return min(found, key=lambda name: (around[name], name), default="")
