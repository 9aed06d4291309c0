"""The nodes and the code that a new fact names: what does not exist is refused, with the nearest names.

Code is not checked in a workspace without a code tree.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kgd.code_history.history import CodeHistory
from kgd.errors import Advice, Do, Invalid, NotFound
from kgd.freshness import citations
from kgd.freshness.freshness import Freshness
from kgd.model.uri import CODE_TREE, IN_CODE, OWNED, Uri, is_owned, path_of, scheme_of, uri_at, workspace_of
from kgd.tools import addressing, symbol_facts
from kgd.tools.cited_lines import cited, subject
from kgd.tools.nodes import printable

if TYPE_CHECKING:
    from kgd.tools.session import Session
    from kgd.workspace.workspace import Workspace

REPLACEABLE = OWNED - {*IN_CODE, "chunk", "message"}
"""Schemes of the nodes that are suggested for a superseded node."""
MOST = 3
"""Largest number of suggestions."""


def subject_of(session: Session, workspace: Workspace, text: str, *, at: str) -> tuple[Uri, str]:
    """The existing node or code that a fact is about, and a warning; see `cited_lines.subject`.

    Raises:
        NotFound: There is none.
    """
    uri, warning = subject(session, workspace, text, at=at)
    if not _is_missing(workspace, uri):
        return uri, warning
    if scheme_of(uri) not in ("concept", *IN_CODE) or workspace.layout.code_tree is None:
        raise NotFound(f"there is no node {uri}", at=at, next=_nearest(workspace, uri, ""))
    or_node = "" if scheme_of(uri) in IN_CODE else ", and no node has this name"
    said = f"the code tree has no {printable(path_of(uri))[:200]}{or_node}"
    raise NotFound(said, at=at, next=_nearest(workspace, uri, path_of(uri), CODE_TREE if not or_node else ()))


def cited_code(session: Session, workspace: Workspace, text: str, *, at: str) -> tuple[str, str]:
    """The citation to store for a text, and a warning; see `cited_lines.cited`.

    Raises:
        NotFound: The text looks like a path at which the code tree has nothing.
    """
    citation, warning = cited(session, workspace, text, at=at)
    code, one = Freshness.of(workspace).code, citations.parse(citation, workspace.id)
    if code is not None and one is not None and not one.at and citations.is_missing(one, code):
        uri = uri_at("file", workspace.id, one.path)
        said = f"the code tree has no {printable(one.path)[:200]}"
        raise NotFound(said, at=at, next=_nearest(workspace, uri, one.path, CODE_TREE))
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
        about = [fact.uri for fact in symbol_facts.facts_about(session, workspace, [uri])]
    else:
        about = symbol_facts.about_code(workspace, uri)
    return [uri for uri in dict.fromkeys(about) if scheme_of(uri) in REPLACEABLE][:MOST]
