"""This file is where answers are marked with what is unverified, and where a node is verified for a caller."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from kgd.freshness.freshness import Freshness
from kgd.freshness.noting import verification
from kgd.model.access import Verb
from kgd.model.change import Upsert
from kgd.model.uri import Uri
from kgd.tools.nodes import UnverifiedAnswer, moment

if TYPE_CHECKING:
    from kgd.freshness.state import Unverified
    from kgd.tools.session import Session
    from kgd.workspace.workspace import Workspace


def marks(workspace: Workspace, uris: Iterable[Uri]) -> dict[Uri, UnverifiedAnswer]:
    """Those of the nodes that are unverified, each with the mark that its answer carries. A look-up for each."""
    return {uri: as_answer(one) for uri, one in Freshness.of(workspace).unverified(uris).items()}


def mark(workspace: Workspace, answers: Iterable[Any]) -> None:
    """Set `unverified` in those answers about nodes of this workspace for which it is so."""
    by_uri = {Uri(answer["uri"]): answer for answer in answers}
    for uri, one in marks(workspace, by_uri).items():
        by_uri[uri]["unverified"] = one


def as_answer(one: Unverified) -> UnverifiedAnswer:
    answer: UnverifiedAnswer = {"reason": one.reason}
    if one.since is not None:
        answer["since"] = moment(one.since)
    if one.since_commit:
        answer["commit"] = one.since_commit
    return answer


def verified(session: Session, workspace: Workspace, uri: Uri) -> Upsert:
    """The change by which this caller says that a node still holds.

    Raises:
        Forbidden: They may not write it.
        NotFound, Invalid: As `kgd.freshness.noting.verification`.
    """
    session.allow(workspace, Verb.WRITE, [workspace.graph.resolve(uri)])
    return verification(workspace, uri)
