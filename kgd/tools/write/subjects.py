"""Code and nodes that a change names: its subjects, citations and targets.

For lines of code, the enclosing symbol is stored, because lines move. A name that does not exist is refused, and the
error lists the nearest names. Code is not checked in a workspace without a code tree.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from kgd.code_history.history import CodeHistory
from kgd.errors import Advice, Do, Invalid, NotFound
from kgd.freshness import citations
from kgd.freshness.citations import placed
from kgd.freshness.code import spans_of
from kgd.freshness.freshness import Freshness
from kgd.model.change import Edit, Upsert
from kgd.model.escaping import printable
from kgd.model.fields import CITES
from kgd.model.uri import CODE_TREE, IN_CODE, OWNED, Uri, is_owned, name_of, path_of, scheme_of, uri_at, workspace_of
from kgd.overlay.facts import language_of
from kgd.symbols.extraction import is_readable, language_for
from kgd.tools import addressing, code_facts, file_paths, worktrees
from kgd.tools.session import Session
from kgd.workspace.workspace import Workspace

_OF_A_PAGE = re.compile(r"(?P<path>[^#\n]+)#L(?P<first>\d{1,7})(?:-L?(?P<last>\d{1,7}))?").fullmatch
"""Lines as hosts of repositories write them, such as ``src/app.py#L12-L20``."""
_WORDS = re.compile(r"\w+").findall


class Role(NamedTuple):
    """The words of a warning for a use of a name: the noun and the verb of its sentence."""

    noun: str
    verb: str


_CITES = Role("the fact", "cites")
_ABOUT = Role("the fact", "is about")
_LEADS_TO = Role("the relation", "leads to")


def cited(session: Session, workspace: Workspace, text: str, *, at: str, role: Role = _CITES) -> tuple[str, str]:
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
            return f"{path}#{symbol}", printable(f"{role.verb} {path}#{symbol}, which contains {lines}")
    whole = f"{role.verb} {path} as a whole"
    return path, printable(f"{whole}: no known symbol contains {lines}, and kgd stores no line numbers")


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


def subject(
    session: Session, workspace: Workspace, text: str, *, at: str, strict: bool = True, role: Role = _ABOUT
) -> tuple[Uri, str]:
    """The address that a fact is about, and a warning if the text named lines or an unknown symbol of a file.

    Raises:
        NotFound: With `strict`, if the text of a file, in a language that kgd reads, does not have the symbol's name.
    """
    if "://" in text or not (_lines_in(session, workspace, text) or "#" in text):
        return addressing.spell(session, workspace, text, at=at), ""
    citation, warning = cited(session, workspace, text, at=at, role=role)
    path, _, symbol = citation.partition("#")
    uri = addressing.spell(session, workspace, citation, at=at)
    is_unknown = scheme_of(uri) == "concept" and symbol
    if is_unknown and (place := file_paths.locate_existing(session, workspace, path)):
        similar = _similar(session, workspace, path, place, symbol)
        if strict and _lacks(session, workspace, place, symbol):
            raise _unknown_name(path, symbol, similar, at)
        uri = addressing.spell(session, workspace, path, at=at)
        whole = f"{role.noun} {role.verb} the whole file"
        hint = f"; did you mean {', '.join(similar)}?" if similar else ""
        warning = printable(f"{symbol[:80]} was not found in {path[:200]}; {whole}{hint}")
    return uri, warning


def _unknown_name(path: str, symbol: str, similar: Sequence[str], at: str) -> NotFound:
    """The refusal of the name of a symbol that a file does not have."""
    whole = f"Name a definition of the file, or the whole file as {path[:200]}."
    advice = printable(f"Did you mean {', '.join(similar)}?" if similar else whole)
    return NotFound(printable(f"{path[:200]} has no {symbol[:80]}"), at=at, next=advice)


def _lacks(session: Session, workspace: Workspace, place: str, symbol: str) -> bool:
    """Whether a file of code certainly has nothing of this name: kgd reads its language, and the name is not even in
    its text. Unknown for the holder of a token."""
    language = language_for(place, language_of(place))
    if session.principal is not None or language in ("", "manifest") or not is_readable(language):
        return False
    code = worktrees.code_for(workspace, session.own_cwd)
    source = code.text(place) if code is not None else None
    return source is not None and not set(_WORDS(symbol)) <= set(_WORDS(source))


def _similar(session: Session, workspace: Workspace, path: str, place: str, symbol: str) -> list[str]:
    """The symbols of a file with similar names, nearest first, after the path as it was given."""
    known = list(map(name_of, worktrees.symbol_lines(workspace, session.own_cwd, place)))
    last = symbol.rpartition(".")[2]
    found = addressing.alike(symbol, known)
    if not found:
        lasts = [one.rpartition(".")[2] for one in known]
        found = [
            one
            for like in addressing.alike(last, dict.fromkeys(lasts))
            for one, own in zip(known, lasts, strict=True)
            if own == like
        ]
    return [f"{path}#{one}" for one in found[: addressing.SUGGESTED]]


def target(session: Session, workspace: Workspace, text: str, *, at: str, strict: bool = True) -> tuple[Uri, str]:
    """The address of a relation's target. For an unknown ``PATH#NAME`` of an existing path, this is the path, with a
    warning. Raises as `subject`."""
    uri = addressing.spell(session, workspace, text, at=at)
    if "#" not in text or "://" in text or workspace.exists(uri):
        return uri, ""
    found, warning = subject(session, workspace, text, at=at, strict=strict, role=_LEADS_TO)
    if scheme_of(found) not in (*CODE_TREE, "symbol"):
        return uri, ""
    return found, warning


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


REPLACEABLE = OWNED - {*IN_CODE, "chunk", "message"}
"""Schemes of the nodes that are suggested for a superseded node."""
MOST = 3
"""Largest number of suggestions."""


def subject_of(session: Session, workspace: Workspace, text: str, *, at: str) -> tuple[Uri, str]:
    """The existing node or code that a fact is about, and a warning; see `subject`.

    Raises:
        NotFound: There is none.
    """
    uri, warning = subject(session, workspace, text, at=at)
    if not _is_missing(workspace, uri):
        return uri, warning
    if scheme_of(uri) not in ("concept", *IN_CODE) or workspace.layout.code_tree is None:
        raise NotFound(f"there is no node {uri}", at=at, next=_nearest(workspace, uri, ""))
    or_node = "" if scheme_of(uri) in IN_CODE else ", and no node has this name"
    raise NotFound(
        f"{_absence(session, workspace, path_of(uri))}{or_node}",
        at=at,
        next=_nearest(workspace, uri, path_of(uri), CODE_TREE if not or_node else ()),
    )


def _absence(session: Session, workspace: Workspace, path: str) -> str:
    """A sentence that the code tree lacks a path; it names this tree to a caller whose own work tree has the path."""
    other = worktrees.another(workspace, session.own_cwd) if session.principal is None else None
    here = f"the code in {workspace.layout.code_tree}" if other and os.path.lexists(other / path) else "the code tree"
    return printable(f"{here} has no {path[:200]}")


def cited_code(session: Session, workspace: Workspace, text: str, *, at: str) -> tuple[str, str]:
    """The citation to store for a text, and a warning; see `cited`.

    Raises:
        NotFound: The text looks like a path at which the code tree has nothing, or the file does not have the symbol.
    """
    citation, warning = cited(session, workspace, text, at=at)
    code, one = Freshness.of(workspace).code, citations.parse(citation, workspace.id)
    if code is not None and one is not None and not one.at and citations.is_missing(one, code):
        uri = uri_at("file", workspace.id, one.path)
        raise NotFound(
            _absence(session, workspace, one.path), at=at, next=_nearest(workspace, uri, one.path, CODE_TREE)
        )
    if one is not None and one.symbol and not one.at and _lacks(session, workspace, one.path, one.symbol):
        similar = _similar(session, workspace, one.path, one.path, one.symbol)
        raise _unknown_name(one.path, one.symbol, similar, at)
    return citation, warning


def superseded(session: Session, workspace: Workspace, text: str, *, at: str) -> Uri:
    """The existing node that a fact replaces.

    Raises:
        Invalid: The text names code.
        NotFound: There is no such node.
    """
    uri = addressing.spell(session, workspace, text, at=at)
    find: str = Advice("Find it with ", Do("recall"), ".")
    if scheme_of(uri) in IN_CODE:
        facts = _facts_about(session, workspace, uri)
        advice = f"Facts about it: {', '.join(facts)}." if facts else find
        raise Invalid(f"{printable(path_of(uri))[:200]} is code; a fact replaces only another node", at=at, next=advice)
    if _is_missing(workspace, uri):
        found = addressing.similar(workspace, uri, None, REPLACEABLE)
        advice = f"Did you mean {', '.join(found)}?" if found else find
        raise NotFound(f"there is no node {uri} to replace", at=at, next=advice)
    return uri


def _is_missing(workspace: Workspace, uri: Uri) -> bool:
    """Whether a node of this workspace is missing. Other workspaces and external resources are not checked."""
    if not is_owned(uri) or workspace_of(uri) != workspace.id:
        return False
    if scheme_of(uri) in IN_CODE and workspace.layout.code_tree is None:
        return False
    return not workspace.exists(workspace.graph.resolve(uri))


def _nearest(workspace: Workspace, uri: Uri | None, path: str, schemes: Sequence[str] = ()) -> str:
    """The next step: the new path of renamed code, then similar names."""
    now = printable(CodeHistory.of(workspace).renamed(path)) if path else ""
    found = map(Uri, addressing.similar(workspace, uri, None, schemes) if uri is not None else ())
    names = [printable(path_of(one)) if scheme_of(one) in CODE_TREE else one for one in found]
    if meant := list(dict.fromkeys(filter(None, [now, *names])))[:MOST]:
        return f"Did you mean {', '.join(meant)}?"
    return Advice("Find it with ", Do("search"), ".")


def _facts_about(session: Session, workspace: Workspace, uri: Uri) -> list[Uri]:
    """The first nodes that cite a file, folder or symbol of the code tree, or are related to it."""
    if scheme_of(uri) == "symbol":
        about = [fact.uri for fact in code_facts.facts_about(session, workspace, [uri])]
    else:
        about = code_facts.about_code(workspace, uri)
    return [uri for uri in dict.fromkeys(about) if scheme_of(uri) in REPLACEABLE][:MOST]
