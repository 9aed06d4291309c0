"""The citations of a node, each with its code and the change since it was verified."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kgd.freshness.citations import Citation, of
from kgd.freshness.excerpts import difference, excerpt
from kgd.freshness.freshness import Checked, Freshness
from kgd.model.uri import from_path
from kgd.tools.nodes import CitationAnswer, moment, printable

if TYPE_CHECKING:
    from kgd.freshness.code import Code
    from kgd.tools.nodes import Found
    from kgd.tools.paging import Room
    from kgd.tools.session import Session
    from kgd.workspace.workspace import Workspace

LISTED = 20
"""Largest number of citations with code; the others have only their text."""


def add(session: Session, found: Found, answer: dict[str, Any], room: Room) -> None:
    """Add the citations of a stored node to its answer, with code as far as there is room.

    The holder of a token gets no code: with permission to write, they could have a node cite any file of this machine.
    """
    if found.stored is None:
        return
    freshness = Freshness.of(found.workspace)
    if session.principal is not None or found.as_of or freshness.code is None:
        listed = [_named(found.workspace, one) for one in of(found.stored, found.workspace.id)]
    else:
        listed = []
        for one in freshness.checked(found.uri, found.stored):
            whole = named = _named(found.workspace, one.citation)
            if len(listed) < LISTED:
                whole = _with_code(named, one, freshness.code)
            listed.append(whole if room.take(whole) else named)
    if listed:
        answer["citations"] = listed


def _named(workspace: Workspace, one: Citation) -> CitationAnswer:
    answer: CitationAnswer = {"text": one.text, "file": from_path("file", workspace.id, one.path)}
    if one.symbol:
        answer["symbol"] = one.symbol
    return answer


def _with_code(named: CitationAnswer, one: Checked, code: Code) -> CitationAnswer:
    answer = named.copy()
    present = code.present(one.citation.path, one.citation.symbol)
    if one.finding is not None:
        answer["state"], answer["reason"] = "changed", one.finding.reason
        if one.finding.since is not None:
            answer["since"] = moment(one.finding.since)
    elif present.known:
        answer["state"] = "absent" if not present.id else "verified" if present.id in one.verified else "unverified"
    if shown := excerpt(code, one.citation):
        answer |= {"code": printable(shown.text), "first": shown.first}
        if shown.cited[0]:
            answer["cited"] = list(shown.cited)
    if one.finding is not None and (diff := difference(code, one.citation, one.verified)):
        answer["diff"] = printable(diff)
    return answer
