"""The `compress` tool: proposes changes that make a workspace smaller or more accurate.

The tool does not change any node. All changes found by a call become one proposed commit, whose message gives the
reason for each change; the user accepts the commit in whole or in part, or rejects it. A pending or rejected change is
not proposed again while its nodes are unchanged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from kgd.compression import KINDS, MAX_TOKENS, Change, Group, Summary, change, judge, longest, question
from kgd.errors import Advice, Do, Forbidden, Invalid, KgdError, Limit, Stale
from kgd.git.refs import PROPOSALS, REJECTED, list_refs
from kgd.model.access import Verb
from kgd.model.change import ChangeSet
from kgd.model.escaping import fenced_line
from kgd.model.uri import parse, path_of, workspace_of
from kgd.resolution import Prompt
from kgd.tools import addressing, file_paths
from kgd.tools.compress_candidates import DAY, Looking
from kgd.tools.model_decisions import ask_client
from kgd.tools.operation import Command, Hints, Operation, option
from kgd.tools.paging import present
from kgd.tools.parameters import Many, WorkspaceParams
from kgd.tools.session import Session
from kgd.workspace.proposals import proposals, records
from kgd.workspace.proposals.records import Bundle
from kgd.workspace.workspace import Workspace

HOLDER = "compress"
OLD_DAYS = 180
MOST_CHANGES = 40
"""Largest number of changes in a proposal, since a person reads each. Once they are decided, later calls propose more.
"""
ROOM = 7_500
"""Number of characters for the changes in the commit's message, which has at most 8,000."""
MOST_WAITING = 20
"""Largest number of undecided proposals of one token holder."""
TROUBLE_TOLD = 20
REJECTED_READ = 500
"""Number of this tool's newest rejected proposals whose changes are not proposed again."""

PLURAL = {"mark": "marks", "merge": "merges", "prune": "prunings", "summary": "summaries"}
SINGULAR = {plural: kind for kind, plural in PLURAL.items()}

MOST_ASKED = 4
"""Largest number of questions per call. The user may have to allow each one."""


class CompressParams(WorkspaceParams):
    kinds: Annotated[
        Many[Literal["merges", "marks", "prunings", "summaries"]], Field(description="only these kinds")
    ] = Field(default_factory=list)
    below: Annotated[str, Field(description="only nodes below this path change")] = ""
    days: Annotated[int, Field(ge=0, le=36_500, description="a node unchanged and unread for this long is old")] = (
        OLD_DAYS
    )
    dry_run: bool = False


class ChangeAnswer(TypedDict):
    """`nodes` are accepted together or not at all; the first one stays, is created, or is changed."""

    kind: Literal["merge", "mark", "prune", "summary"]
    nodes: list[str]
    reason: str


class CompressResult(TypedDict):
    """`proposal` is the new proposal; `waiting` are earlier proposals. `more` is the number of changes left for a later
    run."""

    workspace: str
    counts: dict[str, int]
    changes: list[ChangeAnswer]
    more: int
    next: str
    proposal: NotRequired[str]
    waiting: NotRequired[list[str]]
    trouble: NotRequired[list[str]]
    task: NotRequired[SummaryTask]
    dry_run: NotRequired[bool]


def compress(session: Session, params: CompressParams) -> CompressResult:
    workspace = addressing.choose(session, params.workspace, writing=True)
    kinds = [SINGULAR[name] for name in params.kinds]
    below = place(session, workspace, params.below)
    return proposed(session, workspace, kinds=kinds, below=below, days=params.days, dry_run=params.dry_run)


def place(session: Session, workspace: Workspace, text: str) -> str:
    """A path within the workspace, from a path or a URI; empty for the whole workspace."""
    if "://" not in text:
        found = file_paths.locate_existing(session, workspace, text)
        return (text if found is None else found).strip("/")
    uri = addressing.resolve(session, workspace, text, at="below")
    if workspace_of(uri) != workspace.id:
        raise Invalid("this path is not in the workspace", at="below", next=f"Give a path, or a URI of {workspace.id}.")
    return path_of(uri)


def proposed(
    session: Session,
    workspace: Workspace,
    *,
    kinds: Sequence[str] = (),
    below: str = "",
    days: int = OLD_DAYS,
    dry_run: bool = False,
    answer: str | None = None,
    by_agent: bool = False,
) -> CompressResult:
    """Search a workspace for changes, and propose all new changes as one proposal.

    A change that the workspace cannot apply is reported, and the others are proposed. May end the call with questions
    to its client. Two concurrent calls make one proposal.

    Args:
        kinds: Kinds of changes to look for; all if empty.
        below: Path of the nodes that may be changed; empty for the whole workspace.
        days: Age, in days without use, from which a node is old.
        dry_run: Propose nothing and ask no model.
        answer: The caller's answer to the task of an earlier call, used instead of asking a model.
        by_agent: Whether the next step is described with tools instead of commands.

    Raises:
        Forbidden: The caller may not propose anything here.
        Refused: `answer` cannot be used.
    """
    _allow(session, workspace, below)
    looking = Looking(session, workspace, below, days * DAY)
    found = looking.look(kinds or KINDS)
    known = _known(workspace)
    groups = [group for group in found.groups if group.id not in known]
    said = Said()
    if not dry_run and answer is not None:
        said = Said(*judge({group.id: group for group in groups}, answer))
    elif not dry_run and groups:
        said = asked(session, groups[:MOST_ASKED])
    changes = [(looking.id_of(one), one) for one in found.changes]
    changes += [(one.group.id, change(workspace.id, one)) for one in said.summaries]
    fresh = {id: one for id, one in changes if id not in known}
    proposal, chosen = "", list(_that_fit(fresh))
    if not dry_run:
        proposal, chosen = _put_up_possible(session, workspace, looking.base, fresh, said)
    result: CompressResult = {
        "workspace": workspace.id,
        "counts": dict(Counter(PLURAL[bundle.kind] for bundle in chosen)),
        "changes": [_shown(fresh[bundle.id]) for bundle in chosen],
        "more": len(fresh) - len(chosen),
        "next": "",
    }
    result |= present(proposal=proposal, dry_run=dry_run)
    _tell(workspace, result, groups, said, cut=found.cut, by_agent=by_agent)
    return result


def _put_up_possible(
    session: Session, workspace: Workspace, base: bytes, fresh: dict[str, Change], said: Said
) -> tuple[str, list[Bundle]]:
    """Propose the first changes; returns the proposal and its changes. Impossible changes are removed from `fresh`, and
    reported in `said`."""
    while chosen := list(_that_fit(fresh)):
        try:
            changes = [fresh[one.id] for one in chosen]
            return _put_up(session, workspace, base, changes, chosen, said.model), chosen
        except (Invalid, Limit, Stale):
            impossible = _impossible(session, workspace, base, fresh, chosen)
            if not impossible:
                raise
            said.trouble += impossible.values()
            for id in impossible:
                del fresh[id]
    return "", []


def _shown(one: Change) -> ChangeAnswer:
    reason = fenced_line(one.reason, records.LONGEST_REASON)
    return {"kind": one.kind, "nodes": list(one.nodes), "reason": reason}


def _impossible(
    session: Session, workspace: Workspace, base: bytes, fresh: Mapping[str, Change], chosen: Iterable[Bundle]
) -> dict[str, str]:
    """The chosen changes that the workspace cannot apply, each with the reason. The other changes are not affected."""
    author = session.author(workspace)
    found = {}
    for bundle in chosen:
        one = fresh[bundle.id]
        if why := proposals.why_not(workspace, ChangeSet(one.edits, author), base):
            found[bundle.id] = f"{one.kind} {one.nodes[0]}: {why}"
    return found


def _allow(session: Session, workspace: Workspace, below: str) -> None:
    """Refuse a caller without permission to propose: an empty answer would suggest that nothing needs a change."""
    principal = session.principal
    if principal is None:
        return
    if below:
        session.allow(workspace, Verb.PROPOSE, [parse(f"concept://{workspace.id}/{below}")])
    elif not any(one.workspace == workspace.id and one.has(Verb.PROPOSE) for one in principal.scopes):
        raise Forbidden("this token may not propose anything here", next="Ask for one with the verb 'propose'.")


def _known(workspace: Workspace) -> set[str]:
    """Ids of the changes in open or rejected proposals of this tool."""
    git_dir, store = workspace.layout.git_dir, workspace.store
    waiting = [tip for ref, tip in list_refs(git_dir, PROPOSALS).items() if proposals.is_called_after(ref, HOLDER)]
    refused = list(list_refs(git_dir, f"{REJECTED}{HOLDER}-").values())[-REJECTED_READ:]
    messages = ((tip, store.commit(tip).message) for tip in (*waiting, *refused))
    # A commit that another program pushed under such a name does not come from this tool.
    ours = (text for tip, text in messages if workspace.seal.request(store, tip, text).startswith(f"{HOLDER}/"))
    return {bundle.id for text in ours for bundle in records.read(text)}


def _that_fit(fresh: Mapping[str, Change]) -> Iterator[Bundle]:
    """The first changes whose reasons fit into the message of one commit."""
    room, left = ROOM, MOST_CHANGES
    for id, one in fresh.items():
        bundle = Bundle(id, one.kind, one.nodes, one.reason)
        size = len(records.written(bundle)) + 1
        if left and size <= room:
            room, left = room - size, left - 1
            yield bundle


def _put_up(
    session: Session, workspace: Workspace, base: bytes, changes: Sequence[Change], chosen: Sequence[Bundle], model: str
) -> str:
    """Propose the changes as one commit on `base`. A concurrent call with equal changes gets the same proposal."""
    counts = sorted(Counter(bundle.kind for bundle in chosen).items())
    subject = "compress: " + ", ".join(f"{count} {_called(kind, count)}" for kind, count in counts)
    body = "\n".join(records.written(bundle) for bundle in chosen)
    label = "".join(c for c in model if c.isprintable())[:80].strip()
    principal = session.principal
    made = ChangeSet(
        tuple(edit for one in changes for edit in one.edits),
        session.author(workspace),
        f"{subject}\n\n{body}",
        request_id=f"{HOLDER}/{records.bundle_id(*sorted(bundle.id for bundle in chosen))}",
        operation=HOLDER,
        resolved_by=f"sampling model={label}" if label else "",
    )
    proposal, _ = proposals.propose(
        workspace,
        made,
        base,
        holder=HOLDER,
        owner=principal,
        permit=session.permit(workspace, Verb.PROPOSE),
        most=MOST_WAITING if principal else None,
    )
    return proposal.id


def _called(kind: str, count: int) -> str:
    return PLURAL[kind] if count > 1 else "pruning" if kind == "prune" else kind


def _tell(
    workspace: Workspace, result: CompressResult, groups: Sequence[Group], said: Said, *, cut: bool, by_agent: bool
) -> None:
    trouble = list(dict.fromkeys(said.trouble))
    if cut:
        trouble.append("there are more nodes than one call examines: name a path with `below`")
    if trouble:
        result["trouble"] = trouble[:TROUBLE_TOLD]
    mine = result.get("proposal", "")
    waiting = [one.id for one in proposals.listed(workspace) if one.ref.startswith(f"{PROPOSALS}{HOLDER}-")]
    if earlier := [id for id in waiting if id != mine]:
        result["waiting"] = earlier
    steps = list[str | Do]()
    if mine:
        steps += ["Nothing is changed. ", *_decide(mine, by_agent=by_agent)]
    elif result["changes"]:
        steps.append("Dry run: nothing was proposed.")
    else:
        steps.append("Nothing to propose.")
    if result["more"]:
        steps.append(f" {result['more']} more changes can be proposed once these are decided.")
    left = [group for group in groups if group.id not in {one.group.id for one in said.summaries}]
    if left and result.get("dry_run"):
        steps.append(f" {len(left)} groups of old nodes could be summarized by a client's model.")
    elif left and said.summaries:
        steps.append(f" {len(left)} groups of old nodes are left to summarize: call again.")
    elif left:
        result["task"] = task(left[:MOST_ASKED])
        steps.append(f" {len(left)} groups of old nodes could be summarized, but no model is available.")
        steps.append(f" {_SUM_UP_BY_TOOL if by_agent else _SUM_UP_BY_COMMAND}")
    result["next"] = Advice(*steps)


def _decide(id: str, *, by_agent: bool) -> Sequence[str | Do]:
    if by_agent:
        take = Do("resolve_conflicts", resolutions=f"[{{id: {id!r}, take: accept}}]")
        return take, f", with only: [URIs] for a part, or take: reject, decides it; a person runs `kgd proposals {id}`."
    accept, part, reject = Do("accept", name=id), Do("accept", name=id, only="URI"), Do("reject", name=id)
    return Do("proposals", name=id), " shows it; ", accept, " or ", reject, " decides; ", part, " accepts a part."


_SUM_UP_BY_COMMAND = "A connected agent can use its own model: ask it to compress this workspace."
_SUM_UP_BY_TOOL = 'Do the task yourself: call ingest with kind "compression" again, with your JSON as text.'


COMPRESS = Operation(
    name="compress",
    title="Propose a smaller workspace",
    description=(
        "Proposes to merge duplicates, mark outdated facts, remove needless relations and summarise old nodes."
    ),
    hints=Hints(idempotent=True),
    run=compress,
    commits={"compress": "wrote"},
    commands=(
        Command(
            "Care",
            "propose to merge duplicates, mark outdated facts and remove needless relations; changes nothing",
            (
                option(
                    "--kind",
                    "only merges, marks, prunings or summaries; may be repeated",
                    "KIND",
                    dest="kinds",
                    choices=("merges", "marks", "prunings", "summaries"),
                ),
                option("--below", "a path or URI: change nothing else", "PATH"),
                option("--days", "days without use after which a node is old"),
            ),
            place=70,
            print="printing_sharing.compressed",
        ),
    ),
)


@dataclass(slots=True)
class Said:
    """The models' summaries that passed the checks, and the problems as sentences."""

    summaries: list[Summary] = field(default_factory=list)
    trouble: list[str] = field(default_factory=list)
    model: str = ""


class TextOfGroup(TypedDict):
    mark: str
    uri: str
    text: str


class GroupTask(TypedDict):
    group: str
    longest: int
    texts: list[TextOfGroup]


class SummaryTask(TypedDict):
    """A task for the calling agent if no model can do it. The agent passes its answer as `text` in the next call."""

    instructions: str
    groups: list[GroupTask]


def asked(session: Session, groups: Sequence[Group]) -> Said:
    """Ask the client's model one question per group. May end the call with questions; holds no lock, writes nothing."""
    by_id = {group.id: group for group in groups}
    replies, left = ask_client(session, {id: Prompt(*question(group), MAX_TOKENS) for id, group in by_id.items()})
    said = Said(trouble=[*left.values()])
    for id, reply in replies.items():
        if reply.problem:
            said.trouble.append(reply.problem)
            continue
        try:
            believed, dropped = judge({id: by_id[id]}, reply.text)
        except KgdError as refusal:
            believed, dropped = [], [refusal.message]
        if not believed:
            session.daemon.attempts.failed(id, session.caller)
        said.summaries += believed
        said.trouble += dropped
        said.model = said.model or reply.model
    return said


def task(groups: Sequence[Group]) -> SummaryTask:
    told, _ = question(groups[0])
    told = told.replace(groups[0].id, "GROUP").replace(f"at most {longest(groups[0])}", "at most `longest`")
    listed: list[GroupTask] = [
        {
            "group": group.id,
            "longest": longest(group),
            "texts": [{"mark": mark, "uri": uri, "text": text} for mark, (uri, text) in group.texts.items()],
        }
        for group in groups
    ]
    return {"instructions": told, "groups": listed}
