"""Trust in answers: the origin of nodes, fences around text that others wrote, and unverified marks.

`local`: a workspace of this machine that is not shared. `team`: a workspace of this machine with other writers.
`remote`: another owner's workspace, read from a hub or from a read-only clone. kgd sets the origin; content never does,
and a merge never raises the trust level.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NotRequired

from typing_extensions import TypedDict

from kgd.errors import Advice, Do, Forbidden, NotFound
from kgd.freshness.citations import Unverified
from kgd.freshness.freshness import Freshness, verification
from kgd.graph.succession import successors
from kgd.model.access import Verb
from kgd.model.change import Upsert
from kgd.model.escaping import fenced_value
from kgd.model.uri import CODE_TREE, Uri, scheme_of, workspace_of
from kgd.tools.addressing import similar
from kgd.tools.nodes import SuccessorAnswer, Trust, UnverifiedAnswer, moment, title_of
from kgd.tools.paging import present
from kgd.tools.session import Session
from kgd.tools.visibility import Sees
from kgd.workspace.workspace import Workspace


class Origin(TypedDict):
    """Where a piece of knowledge came from; set by kgd, never by content."""

    workspace: str
    commit: NotRequired[str]
    author: NotRequired[str]
    trust: Trust


def trust_in(session: Session, workspace: Workspace) -> Trust:
    """Trust level of an open workspace."""
    return session.daemon.elsewhere.trust(workspace)


def of_stored(workspace: Workspace, uri: Uri, trust: Trust) -> Origin:
    """Origin of a node of an open workspace, with its last change if the node is stored."""
    origin: Origin = {"workspace": workspace.id, "trust": trust}
    card = workspace.graph.card(uri)
    version = workspace.node_version(uri) if card is not None and card.blob is not None else None
    if version is not None:
        origin["commit"], origin["author"] = version.updated_commit, version.updated_by
    return origin


def of_remote(workspace: str, stamp: tuple[str, str] = ("", "")) -> Origin:
    """Origin of a hub's answer; `stamp` is the commit and author that the hub names, empty if unknown."""
    origin: Origin = {"workspace": workspace, "trust": "remote"}
    origin |= present(commit=stamp[0], author=stamp[1])
    return origin


def fence(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Escape every invisible character in an answer that contains text by others."""
    shown: dict[str, Any] = fenced_value(dict(answer))
    return shown


def marks(workspace: Workspace, uris: Iterable[Uri], sees: Sees | None = None) -> dict[Uri, UnverifiedAnswer]:
    """The marks of the unverified nodes among `uris`. Costs one look-up per URI.

    Restricted callers get no marks: with permission to write, they could have a node cite any file of this machine's
    code and learn when the file changes.
    """
    if sees is not None:
        return {}
    return {uri: unverified_answer(one) for uri, one in Freshness.of(workspace).unverified(uris).items()}


def mark(workspace: Workspace, answers: Sequence[Any], sees: Sees | None = None) -> None:
    """Set `unverified` in the answers about unverified nodes of this workspace (see `marks`), and `superseded_by` in
    those about superseded ones."""
    mark_superseded(workspace, answers, sees)
    if found := marks(workspace, (answer["uri"] for answer in answers), sees):
        for answer in answers:
            if one := found.get(answer["uri"]):
                answer["unverified"] = one


def mark_superseded(workspace: Workspace, answers: Sequence[Any], sees: Sees | None = None) -> None:
    """Set `superseded_by` in the answers about superseded nodes of this workspace."""
    if found := _successors(workspace, (answer["uri"] for answer in answers), sees):
        for answer in answers:
            if one := found.get(answer["uri"]):
                answer["superseded_by"] = one


def successor_of(workspace: Workspace, uri: Uri, sees: Sees | None) -> SuccessorAnswer | None:
    """The node that supersedes a node of this workspace, if the caller may see it."""
    return _successors(workspace, [uri], sees).get(uri)


def _successors(workspace: Workspace, uris: Iterable[Uri], sees: Sees | None) -> dict[Uri, SuccessorAnswer]:
    """The nodes that supersede nodes of this workspace, as far as the caller may see them."""
    return {
        uri: {"uri": one, "name": title_of(workspace, one)}
        for uri, one in successors(workspace.graph, list(uris), sees).items()
        if workspace_of(uri) in (None, workspace.id)
    }


def unverified_answer(one: Unverified) -> UnverifiedAnswer:
    answer: UnverifiedAnswer = {"reason": one.reason}
    answer |= present(since=moment(one.since) if one.since is not None else "", commit=one.since_commit)
    return answer


def verified(session: Session, workspace: Workspace, uri: Uri) -> Upsert:
    """The change that records a caller's verification of a node.

    Raises:
        Forbidden: The caller may not write the node, or has a token: a note reveals a hash of a file's content.
        NotFound, Invalid: As `kgd.freshness.freshness.verification`.
    """
    session.allow(workspace, Verb.WRITE, [workspace.graph.resolve(uri)])
    if session.principal is not None:
        raise Forbidden(
            "only the machine with the code tree can verify a node",
            at=uri,
            next=Advice("Record your findings with ", Do("put"), "; a user of that machine can verify it."),
        )
    try:
        return verification(workspace, uri)
    except NotFound as missing:
        if like := [one for one in similar(workspace, uri, None) if scheme_of(one) not in CODE_TREE]:
            missing.next = f"Did you mean {' or '.join(like)}?"
        raise
