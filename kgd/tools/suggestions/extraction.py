"""Extraction: the caller's language model finds the things that texts mention.

Its answers are judged (`kgd.mentions.extraction`) and become a proposal of new nodes; existing nodes never change. If
the caller has no model to lend, the answer contains the task, which the caller can do with `put`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from typing_extensions import TypedDict

from kgd.errors import Advice, Do, Invalid, KgdError
from kgd.ingest.document_diff import PART_OF
from kgd.mentions.extraction import MAX_TOKENS, RELATIONS, TYPES, Batch, Judged, Thing, Tie, batches, judge, question
from kgd.mentions.mentions import Mentions
from kgd.model.access import Verb
from kgd.model.change import ChangeSet, Upsert
from kgd.model.node import Relation, Source
from kgd.model.uri import Uri, build
from kgd.resolution import Prompt
from kgd.tools import addressing, nodes, visibility
from kgd.tools.model_decisions import ask_client
from kgd.tools.session import Session
from kgd.workspace.proposals import proposals
from kgd.workspace.usage import Usage
from kgd.workspace.workspace import Workspace

KIND = "entities"
MOST_ASKED = 4
"""Largest number of questions per call. The user may have to allow each one."""
PARTS_READ = 5_000
TROUBLE_TOLD = 20
MOST_WAITING = 20
"""Largest number of undecided proposals of one token holder."""


class Text(TypedDict):
    mark: str
    uri: str
    text: str


class Task(TypedDict):
    """A task for the calling agent if no model can do it."""

    instructions: str
    types: list[str]
    relations: list[str]
    texts: list[Text]


@dataclass(slots=True)
class _Read:
    """The answers of models, after they were judged."""

    judged: list[tuple[Batch, Judged, str]] = field(default_factory=list)
    trouble: list[str] = field(default_factory=list)

    @property
    def things(self) -> list[Thing]:
        return [thing for _, judged, _ in self.judged for thing in judged.things]

    @property
    def ties(self) -> list[Tie]:
        return [tie for _, judged, _ in self.judged for tie in judged.ties]


def extract(session: Session, workspace: Workspace, uri: Uri, *, dry_run: bool = False) -> dict[str, Any]:
    """Extract entities from the texts of a node and its parts: unread texts first, and as many texts as one call may
    ask about.

    May end the call with questions to its client. Writes nothing except a proposal.

    Raises:
        NotFound: There is no such node.
        Invalid: The node and its parts have no text.
        Forbidden: The caller may not propose entities.
    """
    session.allow(workspace, Verb.READ, [uri])
    session.allow(workspace, Verb.PROPOSE, [_entity(workspace, "any")])
    texts = list(_texts(session, workspace, uri))
    if not texts:
        raise Invalid("this node and its parts have no text", at=uri, next="Name a document, a thread or a note.")
    read_before = Usage.of(workspace).decided()
    fresh = [(one, text) for one, text in texts if _digest(one, text) not in read_before]
    waiting = batches(fresh)
    counts = {"texts": len(texts), "unread": len(fresh)}
    answer: dict[str, Any] = {"workspace": workspace.id, "kind": KIND, "source": uri, "counts": counts}
    if dry_run or not waiting:
        planned = f"{len(waiting)} questions would be asked, {MOST_ASKED} per call."
        answer["next"] = planned if waiting else "All texts have already been read."
        return answer | ({"dry_run": True} if dry_run else {})
    read = _asked(session, waiting[:MOST_ASKED])
    counts |= {"things": len(read.things), "relations": len(read.ties)}
    trouble = [*read.trouble, *(line for _, judged, _ in read.judged for line in judged.dropped)]
    if trouble:
        answer["trouble"] = trouble[:TROUBLE_TOLD]
    if not read.judged:
        return answer | {"task": _task(waiting[0]), "next": HANDED}
    _put_up(session, workspace, uri, read, answer)
    for batch, _, _ in read.judged:
        for one, text in batch.texts.values():
            Usage.of(workspace).decide(_digest(one, text), 1)
            counts["unread"] -= 1
    if counts["unread"] > 0:
        answer["next"] = f"{answer['next']} {counts['unread']} texts are still unread: call again."
    return answer


HANDED = (
    "No model of the client read them. Do the task yourself: put upserts of entity://<workspace>/<name> with type, "
    "name and data.aliases, and relate them. Texts that contain these names then mention them automatically."
)


def _texts(session: Session, workspace: Workspace, uri: Uri) -> Iterator[tuple[Uri, str]]:
    """The node's own text, then the texts of its parts by URI; parts that the caller may not read are left out."""
    sees = visibility.sight(session, workspace.id)
    found = nodes.find(workspace, uri, None, sees)
    if found is None:
        raise addressing.missing_node(workspace, uri, sees)
    parts = {edge.target for source in workspace.sources() for edge in source.into(found.uri) if edge.type == PART_OF}
    for one in [found.uri, *sorted(parts)[:PARTS_READ]]:
        if sees is None or sees(one):
            part = nodes.find(workspace, one, None, sees)
            text = part.content if part else ""
            if text.strip():
                yield one, text


def _digest(uri: Uri, text: str) -> str:
    said = hashlib.sha256(f"{uri}\n{text}".encode("utf-8", "surrogatepass")).hexdigest()[:24]
    return f"extracted-{said}"


def _asked(session: Session, asking: Sequence[Batch]) -> _Read:
    by_id = {batch.id: batch for batch in asking}
    replies, left = ask_client(session, {id: Prompt(*question(batch), MAX_TOKENS) for id, batch in by_id.items()})
    found = _Read(trouble=[*left.values()])
    for id, reply in replies.items():
        if reply.problem:
            found.trouble.append(reply.problem)
            continue
        try:
            found.judged.append((by_id[id], judge(by_id[id], reply.text), reply.model))
        except KgdError as refusal:
            session.daemon.attempts.failed(id, session.caller)
            found.trouble.append(refusal.message)
    return found


def _put_up(session: Session, workspace: Workspace, uri: Uri, read: _Read, answer: dict[str, Any]) -> None:
    """Propose the new nodes as the caller. The commit names the model."""
    made = list(_upserts(workspace, read, visibility.sight(session, workspace.id)))
    answer["counts"]["new"] = len(made)
    if not made:
        answer["next"] = "The texts mention nothing new."
        return
    model = next((model for _, _, model in read.judged if model), "")
    label = "".join(c for c in model if c.isprintable())[:80].strip() or "unknown"
    changes = ChangeSet(
        tuple(made),
        session.author(workspace),
        f"entities of {uri}"[:300],
        operation="extract",
        resolved_by=f"sampling model={label}",
    )
    principal = session.principal
    proposal, _ = proposals.propose(
        workspace,
        changes,
        bytes.fromhex(workspace.tip),
        holder=KIND,
        owner=principal,
        permit=session.permit(workspace, Verb.PROPOSE),
        most=MOST_WAITING if principal else None,
    )
    answer["proposal"] = proposal.id
    answer["nodes"] = [edit.uri for edit in made]
    answer["next"] = Advice(
        "Accept the right ones: ", Do("resolve_conflicts", resolutions=f"[{{id: {proposal.id!r}, take: accept}}]"), "."
    )


def _upserts(workspace: Workspace, read: _Read, sees: visibility.Sees | None) -> Iterator[Upsert]:
    """A new node for each thing whose name is not yet in use. Relations may lead to existing nodes."""
    derived = Mentions.of(workspace)
    derived.catch_up()
    things: dict[str, Thing] = {}
    for thing in read.things:
        things.setdefault(thing.name, thing)
    where: dict[str, Uri] = {}
    fresh: dict[str, Thing] = {}
    for name, thing in things.items():
        uri = _entity(workspace, name)
        known = [one for one in derived.going_by(name) if sees is None or sees(one)]
        known += [uri] if workspace.exists(uri) else []
        where[name] = known[0] if known else uri
        if not known:
            fresh[name] = thing
    ties: Mapping[str, list[Tie]] = {name: [tie for tie in read.ties if tie.source == name] for name in fresh}
    for name, thing in fresh.items():
        told = {(tie.relation, where[tie.target]): tie for tie in ties[name] if tie.target in where}
        relations = tuple(
            Relation(type, target, data={"quote": tie.quote, "text": tie.text}) for (type, target), tie in told.items()
        )
        data: dict[str, Any] = {"evidence": [{"text": thing.text, "quote": thing.quote}]}
        if thing.aliases:
            data["aliases"] = list(thing.aliases)
        yield Upsert(
            where[name],
            type=thing.type,
            name=name,
            data=data,
            source=Source("extraction", thing.text),
            relations=relations,
            expect_version=0,
        )


def _entity(workspace: Workspace, name: str) -> Uri:
    return build("entity", workspace.id, [name.encode()])


def _task(batch: Batch) -> Task:
    told, _ = question(batch)
    texts: list[Text] = [{"mark": mark, "uri": uri, "text": text} for mark, (uri, text) in batch.texts.items()]
    return {"instructions": told, "types": list(TYPES), "relations": list(RELATIONS), "texts": texts}
